"""What TVM is known to get wrong, where a kernel meets it (found by running 0.26, 0.27 and apache-tvm-tirx)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import ir
from ..ir import dtype as dt
from ..layout import ComposeLayout, SwizzleLayout, TileLayout
from .findings import Audit, Finding
from .layouts import declared

#: Thread axes that TVM's canonicalize fuses into one when a CUDA target is current.
_FUSED = {"tx", "warpid", "laneid", "wgid", "tid_in_wg", "wid_in_wg"}
_GRID = {"bx", "by", "bz"}


def _tile(layout: Any) -> TileLayout | None:
    found = layout.tile if isinstance(layout, ComposeLayout) else layout
    return found if isinstance(found, TileLayout) else None


def _axes(layout: TileLayout) -> set[str]:
    return {i.axis.name for i in layout.shard}


def _loses_offsets(layout: TileLayout) -> bool:
    return len(_axes(layout) & _FUSED) > 1 and any(a.name in _FUSED for a in layout.offset)


def _wrong_warp(layout: TileLayout) -> bool:
    return {"wgid", "wid_in_wg"} <= _axes(layout)


def _endless(layout: TileLayout) -> bool:
    return bool(_axes(layout) & _GRID) and bool(_axes(layout) & _FUSED)


#: (condition on a layout, what TVM does with it, which versions)
_LAYOUT_FAULTS: tuple[tuple[Callable[[TileLayout], bool], str, str], ...] = (
    (_loses_offsets, "canonicalize under a CUDA target fuses its thread axes and loses their offsets' factors",
     "0.27, apache-tvm-tirx 0.1.0a4"),
    (_wrong_warp, "canonicalize under a CUDA target multiplies wgid by 4 but leaves it on its own axis",
     "0.27, apache-tvm-tirx 0.1.0a4"),
    (_endless, "canonicalize doesn't end on a layout with grid and thread axes", "0.27"),
)  # fmt: skip


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """A warning for each buffer or statement on which TVM is known to fail."""
    found: list[Finding] = []
    for buffer, stmt in declared(func):
        span = None if stmt is None else stmt.span
        layout = _tile(buffer.layout)
        for condition, what, versions in _LAYOUT_FAULTS if layout is not None else ():
            if condition(layout):  # type: ignore[arg-type]
                found.append(Finding("TVM fault", "warning", buffer.name, what, versions, span=span, layout=layout))
        if buffer.scope == "tmem" and any(isinstance(a, ir.BufferLoad) for a in buffer.allocated_addr):
            found.append(Finding(
                "TVM fault", "warning", buffer.name,
                "MakePackedAPI refuses a TMEM buffer whose address is read from shared memory", "0.27",
                "give a constant address, or compile with this package", span,
            ))  # fmt: skip
    return found + _shifted_pool(func)


def _shifted_pool(func: ir.PrimFunc) -> list[Finding]:
    """Static shared memory comes first, so it shifts dynamic shared memory off the period of the swizzles in it.

    Found by running such a kernel's PTX: half of the products' operands come from the wrong place.
    """
    static = [b for b, s in declared(func) if isinstance(s, ir.AllocBuffer) and b.scope == "shared"]
    pools = {b.data: b for b, s in declared(func) if isinstance(s, ir.AllocBuffer) and b.scope == "shared.dyn"}
    found = []
    for buffer, stmt in declared(func):
        layout = buffer.layout
        swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else layout
        pool = pools.get(buffer.data)
        if not static or pool is None or not isinstance(swizzle, SwizzleLayout) or not swizzle.swizzle_len:
            continue
        period = swizzle.period * dt.storage_bits(buffer.dtype) // 8
        if pool.data_alignment % period:
            found.append(Finding(
                "TVM fault", "warning", buffer.name,
                f"dynamic shared memory starts after the static ('{static[0].name}'), aligned to {pool.data_alignment} "
                f"bytes only, but its swizzle repeats every {period}: the tensor core reads other elements",
                "0.26, seen in the simulator", f"allocate '{static[0].name}' in the pool too",
                stmt.span if stmt is not None else None,
            ))  # fmt: skip
    return found
