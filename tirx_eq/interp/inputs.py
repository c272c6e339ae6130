"""Arguments to run a kernel on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..ir import PrimFunc, TilePrimitiveCall, Var, post_order_visit
from ..ir import dtype as dt
from . import values
from .faults import InterpreterError
from .run import evaluate_extent


def generate_inputs(
    func: PrimFunc, seed: int = 0, kind: str = "integers", extents: Mapping[str, int] | None = None
) -> list[Any]:
    """One argument per parameter, deterministic in ``seed``.

    ``kind`` "integers": floats are small whole numbers (fewer the narrower the format), so that sums and products are
    exact in any order; "random": normal values.  Scale factors (of a dtype that products take as such, and not as an
    operand) are positive, since the tensor core's have no sign.  Symbolic extents and scalars are taken from ``extents``
    by name, else 64.
    """
    if kind not in ("integers", "random"):
        raise InterpreterError(f"inputs are 'integers' or 'random', not '{kind}'")
    rng = np.random.default_rng(seed)
    known = dict(extents or {})
    scalars: dict[Var, Any] = {}
    for p in func.params:
        if p not in func.buffer_map and dt.kind(p.dtype) != "handle":
            scalars[p] = np.asarray(known.get(p.name, 64), dtype=np.int64)
    for b in func.buffer_map.values():
        for e in b.shape:
            if isinstance(e, Var) and e not in scalars:
                scalars[e] = np.asarray(known.get(e.name, 64), dtype=np.int64)
    out: list[Any] = []
    factors = factor_dtypes(func)
    for p in func.params:
        if p in func.buffer_map:
            b = func.buffer_map[p]
            shape = tuple(evaluate_extent(e, scalars) for e in b.shape)
            made = array(rng, shape, b.dtype, kind)
            out.append(_positive(made) if b.dtype in factors else made)
        elif p in scalars:
            out.append(int(scalars[p]) if not dt.is_float(p.dtype) else float(scalars[p]))
        else:
            raise InterpreterError(f"no argument can be made for parameter '{p.name}' of {p.dtype}")
    return out


def factor_dtypes(func: PrimFunc) -> set[str]:
    """Dtypes that products take as scale factors and never as an operand."""
    factors: set[str] = set()
    operands: set[str] = set()

    def look(node: Any) -> None:
        if isinstance(node, TilePrimitiveCall) and node.op.short_name == "gemm_async":
            for name, into in (("SFA", factors), ("SFB", factors), ("A", operands), ("B", operands)):
                if name in node.signature.operands:
                    into.add(node.operand(name).dtype)

    post_order_visit(func.body, look)
    return factors - operands


def _positive(values_: np.ndarray) -> np.ndarray:
    """Magnitudes, from 1/4 on."""
    return np.maximum(np.abs(values_.astype(np.float32)), np.float32(0.25)).astype(values_.dtype)


def array(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, kind: str) -> np.ndarray:
    """An array of ``dtype`` with values as :func:`generate_inputs` says."""
    target = dt.numpy_dtype(dtype)
    name, bits, _ = dt.parse(dtype)
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if name in ("int", "uint"):
        low = -8 if name == "int" else 0
        return rng.integers(low, 9, shape).astype(target)
    if dtype == "float8_e8m0fnu":
        return np.exp2(rng.integers(-1, 3, shape)).astype(np.float32).astype(target)
    if kind == "integers":
        most = 4 if bits >= 8 else 3
        return rng.integers(-most, most + 1, shape).astype(np.float32).astype(target)
    return np.asarray(values.round_to(rng.standard_normal(shape), dtype)).astype(target)
