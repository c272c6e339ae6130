"""What TVM is known to get wrong, where a kernel meets it (found by running 0.26, 0.27 and apache-tvm-tirx)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from .. import ir
from ..errors import TirxError
from ..ir import dtype as dt
from ..layout import ComposeLayout, Iter, SwizzleLayout, TileLayout
from .findings import Audit, Finding
from .layouts import declared

#: Thread axes that TVM's canonicalize fuses into one when a CUDA target is current.
_FUSED = {"tx", "warpid", "laneid", "wgid", "tid_in_wg", "wid_in_wg"}
_GRID = {"bx", "by", "bz"}


#: (package and version of live objects begin with, what it does with any function, remedy)
_VERSION_FAULTS = (
    ("tvm 0.27", "tvm.ir.save_json ends the process on objects of TIRx (segmentation fault)",
     "keep the source, or save what from_tvm gives"),
)  # fmt: skip


def of_version(made_by: str, name: str) -> list[Finding]:
    """Hints that hold for every function of a version: ``made_by`` as in "tvm 0.27.0", empty for our own functions."""
    return [Finding("TVM fault", "hint", name, what, made_by, remedy)
            for version, what, remedy in _VERSION_FAULTS if made_by.startswith(version)]  # fmt: skip


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


def _inner_spans(layout: TileLayout) -> list[dict[str, int]]:
    """How far each possible inner tile reaches per axis: a last part of the iters, the first of them perhaps in part."""
    found = []
    reach: dict[str, int] = {}
    for i in reversed(layout.shard):
        if not (isinstance(i.extent, int) and isinstance(i.stride, int)):
            break
        for part in range(2, i.extent + 1):
            if i.extent % part == 0:
                found.append({**reach, i.axis.name: reach.get(i.axis.name, 1) + (part - 1) * abs(i.stride)})
        if i.extent > 1:
            reach = dict(found[-1])
    return found


def _scaled_copies(layout: TileLayout, spans: dict[str, int]) -> TileLayout:
    """The layout with copies and offset as far apart as inner tiles with these spans are."""
    replica = tuple(Iter(i.extent, i.stride * spans.get(i.axis.name, 1), i.axis) for i in layout.replica)
    return TileLayout(layout.shard, replica, {a: v * spans.get(a.name, 1) for a, v in layout.offset.items()})


def _unscaled_tile(layout: TileLayout, shape: tuple[int, ...] | None) -> TileLayout | None:
    """The layout that a tiling means whose copies TVM's ``tile`` left where they were before, on top of other elements."""
    from ..prove.layouts import injective

    if shape is None or not layout.replica or not layout.is_constant() or not 0 < prod(shape) <= 1 << 18:
        return None
    if injective(layout, shape).status != "different":
        return None
    for spans in _inner_spans(layout):
        meant = _scaled_copies(layout, spans)
        if meant != layout and injective(meant, shape).status == "equal":
            return meant
    return None


def _atoms_hidden(layout: TileLayout) -> bool:
    """Whether taking an inner tile off again moves the copies: their axis has an inner tile that reaches beyond one place."""
    spans = _inner_spans(layout)[:-1] if layout.is_constant() else []
    return any(s.get(i.axis.name, 1) > 1 for i in layout.replica for s in spans)


def _tilings(func: ir.PrimFunc) -> list[Finding]:
    """Layouts with copies on which TVM's tile and its inverse go wrong."""
    used: set[ir.Buffer] = set()

    def look(node: Any) -> None:
        if isinstance(node, ir.TilePrimitiveCall):
            used.update(r.buffer for r in node.regions())

    ir.post_order_visit(func.body, look)
    found = []
    for buffer, stmt in declared(func):
        layout, span = _tile(buffer.layout), None if stmt is None else stmt.span
        if layout is None or not layout.replica:
            continue
        try:
            meant = _unscaled_tile(layout, buffer.const_shape())
        except TirxError:
            continue
        if meant is not None:
            found.append(Finding(
                "TVM fault", "warning", buffer.name,
                "its copies lie on other elements, as those of tile() do, which scales neither copies nor offset of the outer "
                "layout", "0.26, 0.27, apache-tvm-tirx", f"layout={meant.script(prefix='')}", span, layout,
            ))  # fmt: skip
        elif buffer in used and _atoms_hidden(layout):
            found.append(Finding(
                "TVM fault", "hint", buffer.name,
                "is_tile_inner and is_direct_sum_left answer None, or another outer layout, where that has copies: a variant "
                "that looks for its atom in this layout is passed over", "0.26, 0.27", span=span, layout=layout,
            ))  # fmt: skip
    return found


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
    return found + _shifted_pool(func) + _tilings(func)


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
