"""Views under another type that stand over other elements, and equal layouts that TVM takes for different ones."""

from __future__ import annotations

from itertools import combinations
from math import prod
from typing import Any

from .. import ir
from ..errors import TirxError
from ..ir import dtype as dt
from ..layout import Axis, ComposeLayout, Iter, Layout, TileLayout
from ..layout.normal import fuse_shard, sorted_offset
from .findings import Audit, Finding
from .layouts import declared

#: Elements of a layout up to which two layouts are compared; the proof procedures need no enumeration beyond.
MAX_ELEMENTS = 1 << 24


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """Re-typed views, and pairs of buffers of one tile call."""
    return _retyped(func) + _kept_apart(func)


# -- re-typed views -------------------------------------------------------------------------------------
def unpack_of_tvm(layout: TileLayout, parts: int) -> TileLayout:
    """What ``unpack`` of apache-tvm 0.27 gives: every stride times ``parts``, thread axes too, but not copies and offset."""
    shard = tuple(Iter(i.extent, i.stride * parts, i.axis) for i in layout.shard)
    return TileLayout((*shard, Iter(parts, 1, Axis.get("m"))), layout.replica, layout.offset)


def pack_of_tvm(layout: TileLayout, group: int) -> TileLayout:
    """What ``pack`` of apache-tvm 0.27 gives: every stride divided by ``group``, rounded down."""
    *shard, last = layout.shard
    shard = [Iter(i.extent, i.stride // group, i.axis) for i in shard]
    return TileLayout((*shard, Iter(last.extent // group, 1, last.axis)), layout.replica, layout.offset)


def _retyped(func: ir.PrimFunc) -> list[Finding]:
    base: dict[ir.Var, ir.Buffer] = {}
    found: list[Finding] = []
    for buffer, stmt in declared(func):
        over = base.setdefault(buffer.data, buffer)
        if isinstance(stmt, ir.DeclBuffer) and over is not buffer:
            found += _over(over, buffer, stmt)
    return found


def _over(over: ir.Buffer, view: ir.Buffer, stmt: ir.DeclBuffer) -> list[Finding]:
    wide, narrow = dt.storage_bits(over.dtype), dt.storage_bits(view.dtype)
    shape, seen = over.const_shape(), view.const_shape()
    if wide == narrow or shape is None or seen is None or not shape or max(wide, narrow) % min(wide, narrow):
        return []
    if any(b.layout is None or not b.layout.is_constant() or _start(b) for b in (over, view)):
        return []
    times = wide // narrow or narrow // wide
    last = shape[-1] * times if wide > narrow else shape[-1] // times
    if seen != (*shape[:-1], last):
        return []                                   # reshaped too: nothing is claimed about such a view
    assert over.layout is not None and view.layout is not None
    unpacking = wide > narrow
    from ..prove.layouts import equal

    try:
        right: Layout = over.layout.unpack(times) if unpacking else over.layout.pack(times)
        verdict = equal(right, view.layout, seen)
    except TirxError:
        return []
    if verdict.status != "different":
        return []
    what = f"as {view.dtype} it stands over other elements of '{over.name}' than it names"
    evidence, remedy = _evidence(verdict, right, view.layout, seen), f"layout={right.script(prefix='')}"
    kind, severity = "re-typed view", "warning"
    if isinstance(over.layout, TileLayout) and over.layout.shard:
        wrong = unpack_of_tvm(over.layout, times) if unpacking else pack_of_tvm(over.layout, times)
        if _form(wrong) == _form(view.layout):
            kind, severity = "TVM fault", "error"
            name = "unpack" if unpacking else "pack"
            what += f": TVM's {name} changes strides on thread axes too, and neither copies nor offsets"
            evidence += " (0.27)"
    return [Finding(kind, severity, view.name, what, evidence, remedy, stmt.span, view.layout)]


def _start(buffer: ir.Buffer) -> bool:
    return not isinstance(buffer.elem_offset, ir.IntImm) or int(buffer.elem_offset) != 0


def _evidence(verdict: Any, right: Layout, seen: Layout, shape: tuple[int, ...]) -> str:
    """The first element that differs, and its place under both layouts."""
    at = (verdict.counterexample or {}).get("coordinate")
    if at is None:
        return f"decided by {verdict.decided_by}"
    places = [layout.apply(*at, shape=shape) for layout in (right, seen)]
    texts = [", ".join(f"{k}={v}" for k, v in sorted((str(a).rpartition(".")[2], v) for a, v in p.items())) for p in places]
    return f"element {tuple(at)} is at {texts[0]}, not at {texts[1]}"


# -- canonical forms ------------------------------------------------------------------------------------
def _form(layout: Layout) -> Any:
    """TVM's canonical form of a layout of numbers, without a current target.

    Extent-1 iters go, neighbours that continue each other fuse, zero offsets go, copies are sorted; copies are not merged or
    shifted, and a swizzle is never dropped.
    """
    if isinstance(layout, ComposeLayout):
        s = layout.swizzle
        return (s.per_element, s.swizzle_len, s.atom_len, s.swizzle_inner), _form(layout.tile)
    if not isinstance(layout, TileLayout):
        return layout
    kept = tuple(i for i in layout.shard if i.extent != 1) or tuple(Iter(1, 1, i.axis) for i in layout.shard[:1])
    copies = tuple(sorted((i.axis.name, i.extent, i.stride) for i in layout.replica))
    shard = fuse_shard(kept) if any(i.extent != 1 for i in kept) else kept
    return tuple((i.extent, i.stride, i.axis.name) for i in shard), copies, tuple(
        (a.name, v) for a, v in sorted_offset(dict(layout.offset)).items())


def _kept_apart(func: ir.PrimFunc) -> list[Finding]:
    calls: list[ir.TilePrimitiveCall] = []

    def look(node: Any) -> None:
        if isinstance(node, ir.TilePrimitiveCall):
            calls.append(node)

    ir.post_order_visit(func.body, look)
    found: dict[tuple[str, str], Finding] = {}
    for call in calls:
        for a, b in combinations({r.buffer: None for r in call.regions()}, 2):
            finding = _pair(a, b, call)
            if finding is not None:
                found.setdefault((a.name, b.name), finding)
    return list(found.values())


def _pair(a: ir.Buffer, b: ir.Buffer, call: ir.TilePrimitiveCall) -> Finding | None:
    shape = a.const_shape()
    if a.scope != b.scope or shape is None or shape != b.const_shape() or not 0 < prod(shape) <= MAX_ELEMENTS:
        return None
    if a.layout is None or b.layout is None or not (a.layout.is_constant() and b.layout.is_constant()):
        return None
    if _form(a.layout) == _form(b.layout):
        return None
    from ..prove.layouts import equal

    try:
        verdict = equal(a.layout, b.layout, shape)
    except TirxError:
        return None
    if verdict.status != "equal":
        return None
    return Finding(
        "equal layouts", "hint", f"{a.name}, {b.name}",
        "their layouts mean the same, but TVM has two canonical forms for them: what asks for equal layouts is refused",
        f"equal by {verdict.decided_by}", f"layout={a.layout.canonicalize().script(prefix='')} for both", call.span, b.layout,
    )  # fmt: skip
