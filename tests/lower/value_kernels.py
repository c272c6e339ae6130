"""Kernels with one element-wise or reducing call, for every scope and placement of operands, and how to run them."""

from __future__ import annotations

import numpy as np

from tirx_eq.ir import PrimFunc
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.sim import Launch, simulate

from .kernels import kernel

ROWS, COLUMNS = 128, 16
SCOPES = {"thread": "Tx", "warp": "Tx.warp", "warpgroup": "Tx.wg", "cta": "Tx.cta"}
#: Layout of registers that a scope spreads over its threads, one row per thread.
SPREAD = {
    "warp": "S[(32, {n}):(1 @ laneid, 1)]", "warpgroup": "S[(128, {n}):(1 @ tid_in_wg, 1)]",
    "cta": "S[(4, 32, {n}):(1 @ warpid, 1 @ laneid, 1)]",
}  # fmt: skip
AXES = "from tirx_eq.layout import laneid, warpid\n"


def region(name: str, place: str, scope: str) -> str:
    """How an operand is written in a call: its row per thread, its rows per warp, or all of it."""
    if place == "registers":
        return f"r{name}[:]" if scope == "thread" else f"v{name}[:, :]"
    base = f"s{name}" if place == "shared" else name
    rows = {"thread": "tid", "warp": "w * 32 : w * 32 + 32"}.get(scope, ":")
    return f"{base}[{rows}, :]"


def value_kernel(
    call: str, operands: dict[str, tuple[str, str, int]], scope: str, outputs: tuple[str, ...] = ("D",), extra: str = ""
) -> PrimFunc:
    """A kernel of one call; ``operands``: name -> (dtype, place, columns); ``{X}`` in ``call`` stands for operand X.

    Operands in shared memory or registers are loaded from and stored to the parameter of their name.
    """
    lines = ["tid = Tx.thread_id([128])", "w = Tx.warp_id([4])"]
    shared = False
    for name, (dtype, place, n) in operands.items():
        if place == "registers":
            lines.append(f'r{name} = Tx.alloc_local(({n},), "{dtype}")')
            lines.append(f"Tx.copy(r{name}[:], {name}[tid, :])")
            if scope != "thread":
                rows = 32 if scope == "warp" else 128
                lines.append(f"v{name} = r{name}.view({rows}, {n}, layout=TileLayout({SPREAD[scope].format(n=n)}))")
        elif place == "shared":
            shared = True
            lines.append(f's{name} = Tx.alloc_shared([{ROWS}, {n}], "{dtype}")')
            lines.append(f"Tx.copy(s{name}[tid, :], {name}[tid, :])")
    if shared:
        lines.append("Tx.cuda.cta_sync()")
    lines.append(f"{SCOPES[scope]}.{call.format(**{k: region(k, p, scope) for k, (_, p, _) in operands.items()})}")
    if shared:
        lines.append("Tx.cuda.cta_sync()")
    for name in outputs:
        place = operands[name][1]
        if place != "global":
            lines.append(f"Tx.copy({name}[tid, :], {'r' + name + '[:]' if place == 'registers' else 's' + name + '[tid, :]'})")
    params = ", ".join(f'{k}: Tx.Buffer(({ROWS}, {n}), "{d}")' for k, (d, _, n) in operands.items())
    return kernel("\n".join(lines), params + extra, AXES)


def run(func: PrimFunc, *arrays: np.ndarray, policy: str = "random") -> dict[str, np.ndarray]:
    """What a compiled kernel leaves in its buffers, in the simulator; no faults are allowed."""
    made = compile_function(func)
    launch = Launch(made.launch.grid, made.launch.block, dynamic_shared=made.launch.dynamic_shared_bytes)
    result = simulate(made.ptx, None, launch, list(arrays), policy=policy)
    assert not result.faults, [str(f) for f in result.faults][:3]
    return result.arrays


def data(dtype: str, shape: tuple[int, ...], seed: int, kind: str) -> np.ndarray:
    """Small whole numbers (exact in every dtype), or random numbers between 0.25 and 4."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(1 if kind == "positive" else -4, 5, shape)
    if dtype.startswith("uint"):
        whole = np.abs(whole)
    values = whole if kind != "random" or not dt.is_float(dtype) else rng.uniform(0.25, 4.0, shape)
    return values.astype(dt.numpy_dtype(dtype))
