"""Products of matrices: ``gemm`` in registers, ``gemm_async`` with its accumulator in tensor memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir import BufferRegion, FloatImm, IntImm
from ..ir import dtype as dt
from . import noise, values
from .access import Units
from .faults import InterpreterError
from .tile import Run, run_tile

Array = Any

#: Multiplications up to which a product is formed without BLAS, whose threads cost more than they give when busy.
SMALL_PRODUCT = 1 << 26


def _matrix(run: Run, operand: BufferRegion, name: str, units: Units) -> Array:
    """An operand as (units, rows, columns), in the order of its buffer; further dimensions must have extent 1."""
    array = run.m.access.read(operand, units)
    shape = _two(array.shape[1:], name)
    return array.reshape(array.shape[0], *shape)


def _two(extents: Any, name: str) -> tuple[int, int]:
    lead, last = tuple(extents[:-2]), tuple(extents[-2:])
    if len(last) == 2 and all(e == 1 for e in lead):
        return last[0], last[1]
    big = [e for e in extents if e != 1]
    if len(big) != 2:
        raise InterpreterError(f"'{name}' must be a matrix, but its extents are {list(extents)}")
    return big[0], big[1]


def _exact(array: Array, dtype: str, as_tf32: bool) -> Array:
    """Operand values in float64 (integers in int64); the tensor core reads float32 as tf32, dropping 13 bits."""
    if not dt.is_float(dtype):
        return np.asarray(array, dtype=np.int64)
    if as_tf32 and dtype in ("float32", "tfloat32"):
        array = (np.ascontiguousarray(array, dtype=np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return values.widen(array)


def _multiply(run: Run, a: Array, b: Array) -> Array:
    """A[M, K] · B[N, K]ᵀ per unit."""
    if a.shape[-1] != b.shape[-1]:
        raise InterpreterError(f"A has K = {a.shape[-1]}, but B has K = {b.shape[-1]}")
    with np.errstate(all="ignore"):
        # Cauchy-Schwarz bounds the sums of magnitudes without a second product.
        lengths = [np.sqrt(np.sum(np.square(values.widen(x)), axis=-1).max(axis=-1, initial=0.0)) for x in (a, b)]
        run.m.record.summed(a.shape[-1], lengths[0] * lengths[1])
        made = _dot(a, b)
        if not dt.is_float(str(made.dtype)):
            return made
        return noise.total(made, a.shape[-1] * noise.TENSOR_CORE, lambda: _dot(np.abs(a), np.abs(b)))


def _dot(a: Array, b: Array) -> Array:
    if a.size * b.shape[1] <= SMALL_PRODUCT:
        return np.einsum("umk,unk->umn", a, b)
    return a @ np.swapaxes(b, -1, -2)


def _round(value: Array, dtype: str) -> Array:
    return values.round_to(value, dtype) if dt.is_float(dtype) else values.wrap(value, dtype)


def gemm(run: Run) -> None:
    """``D = alpha * A · B + beta * C`` with A[M, K] and B[K, N]; ``transpose_A``: A[K, M], ``transpose_B``: B[N, K]."""
    call = run.call
    a_region, b_region, c_region = (call.operand(n) for n in ("A", "B", "C"))
    a = _exact(_matrix(run, a_region, "A", run.units), a_region.dtype, False)
    b = _exact(_matrix(run, b_region, "B", run.units), b_region.dtype, False)
    if run.flag("transpose_A"):
        a = np.swapaxes(a, -1, -2)
    if not run.flag("transpose_B"):
        b = np.swapaxes(b, -1, -2)
    alpha, beta = (values.widen(run.read(call.operand(n)).array).reshape(-1, 1, 1) for n in ("alpha", "beta"))
    total = _multiply(run, a, b) * alpha
    if not (isinstance(call.operand("beta"), (IntImm, FloatImm)) and call.operand("beta").value == 0):
        c = _matrix(run, c_region, "C", run.units)
        total = total + beta * _exact(c, c_region.dtype, False)
    dst = call.dsts[0]
    extents = run.extents(dst)
    run.m.access.write(dst, run.units, _round(total, dst.dtype).reshape(run.units.count, *extents))


def gemm_async(run: Run) -> None:
    """``C (+)= A · Bᵀ`` with A[M, K] and B[N, K] (``transA``: A[K, M], ``transB``: B[K, N]), from one thread.

    With scale factors: SFA[M, K/v] and SFB[N, K/v] multiply groups of v elements of K.  ``cta_group=2``: the even CTA
    of a pair issues for both; each has its rows of A and C, and half of the rows of B.
    """
    call, units = run.call, run.units
    group = int(getattr(call.config.get("cta_group", 1), "value", call.config.get("cta_group", 1)) or 1)
    if len(np.unique(units.rows)) != units.count and len(np.unique(units.first // 32)) == units.count:
        _one_after_another(run)  # different warps of a CTA, each with its product
        return
    if len(np.unique(units.rows)) != units.count:
        raise InterpreterError(
            f"gemm_async is executed by {units.count} units of {call.scope.kind} scope, so several times per CTA",
            hint="let one thread issue it: if Tx.ptx.elect_sync() in one warp",
        )
    if group == 1:
        _product(run, units, [units])
        return
    if run.m.wave.geometry.cluster_size % 2 or np.any(run.m.wave.rank[units.rows] % 2):
        raise InterpreterError("gemm_async with cta_group=2 is issued by the even CTA of a pair in its cluster")
    pair = [units, units.in_ctas(units.rows + 1)]
    results = [_value(run, mine, pair) for mine in pair]
    for mine, value in zip(pair, results):
        _store(run, mine, value)


def _one_after_another(run: Run) -> None:
    """The call by one unit of each CTA at a time."""
    units = run.units
    turn = np.array([np.count_nonzero(units.rows[:k] == row) for k, row in enumerate(units.rows)])
    for k in range(int(turn.max()) + 1):
        mine = np.isin(units.unit, np.flatnonzero(turn == k))
        run_tile(run.m, run.call, units.threads[mine])


def _product(run: Run, units: Units, b_units: list[Units]) -> None:
    _store(run, units, _value(run, units, b_units))


def _value(run: Run, units: Units, b_units: list[Units]) -> Array:
    """A · Bᵀ in float64, the rows of B from the given CTAs one after the other."""
    a = _side(run, "A", "SFA", "transA", units)
    b = np.concatenate([_side(run, "B", "SFB", "transB", u, part) for part, u in enumerate(b_units)], axis=1)
    return _multiply(run, a, b)


def _side(run: Run, name: str, scale: str, transposed: str, units: Units, part: int = 0) -> Array:
    """A or B times its factors; of factors for all columns of a pair a CTA's B takes the half number ``part``."""
    region = run.call.operand(name)
    x = _exact(_matrix(run, region, name, units), region.dtype, True)
    if run.flag(transposed):
        x = np.swapaxes(x, -1, -2)
    if scale not in run.call.signature.operands:
        return x
    factors = run.call.operand(scale)
    f = values.widen(_matrix(run, factors, scale, units))
    if np.signbit(f).any():
        raise InterpreterError(f"'{scale}' has a negative scale factor; those of the tensor core have no sign")
    if x.shape[-1] % f.shape[-1] or f.shape[-2] not in (x.shape[-2], 2 * x.shape[-2]):
        raise InterpreterError(
            f"'{scale}' is {f.shape[-2]}×{f.shape[-1]}, which doesn't fit '{name}' of {x.shape[-2]}×{x.shape[-1]}"
        )
    first = part * x.shape[-2] if f.shape[-2] > x.shape[-2] else 0
    return x * np.repeat(f[..., first : first + x.shape[-2], :], x.shape[-1] // f.shape[-1], axis=-1)


def _store(run: Run, units: Units, value: Array) -> None:
    c = run.call.dsts[0]
    extents = run.extents(c)
    shape = _two(extents, "C")
    if value.shape[1:] != shape:
        raise InterpreterError(
            f"gemm_async: A and B give {value.shape[1]}×{value.shape[2]}, but C is {shape[0]}×{shape[1]}"
        )
    if run.flag("accum"):
        before = _matrix(run, c, "C", units)
        held = _exact(before, c.dtype, False)
        value = value + held
        value = noise.rounding(value, "float32") if dt.is_float(c.dtype) else value
        run.m.record.summed(run.m.record.terms + 1, run.m.record.magnitude + np.abs(held))
    run.m.access.write(c, units, _round(value, c.dtype).reshape(units.count, *extents))
