"""Elements of 4 bits that aren't in pairs where instructions want them: through registers in which they are.

Conversions and selections work on pairs, the halves of a byte, that fill a register in order.  A call on others (an odd number
of elements, a region that begins at an odd one, a layout that parts neighbours) is made on registers of its own, in order and
with one element more where their number is odd; halves of bytes are copied there and back.  Elements that change threads
travel as e4m3, which has all values of e2m1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ...errors import LayoutError
from ...ir import BufferRegion, ExecScope, IntImm, Op, Range, TilePrimitiveCall, const
from ...ir.op import TILE_PREFIX
from ...layout import Axis, TileLayout
from ...layout.algebra import pack
from ...layout.slicing import slice_layout
from ...layout.tile import Iter
from ..candidates import refusals
from ..code.recipes import FLOAT4
from ..conditions import CONDITIONS
from ..context import CallContext, Operand, call_context
from ..operations import EXCHANGED, FAMILIES
from ..sharing.holders import SCOPE_BITS
from ..sharing.work import aligned_axes, holders_of, leader, owned_work, regions_of
from .parts import NEEDED, PLACED, layout_like, new_registers

#: Scope -> the axis that counts its threads.
AXES = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}
WIDE = "float8_e4m3fn"
SHARED_OUT = (
    "the threads are whole units of the scope", "operands have equal extents", "registers of several threads on both sides",
)  # fmt: skip
HELD = "each thread holds the halves that it gets"
WHOLE = "bytes of memory are written whole"


def stage_halves(c: CallContext) -> list[TilePrimitiveCall] | None:
    """The calls that a call with elements of 4 bits is made of, or None: it needs none, or none would help.

    New registers get their storage in the call's.
    """
    if not any(o.bits == 4 for o in regions_of(c)) or c.scope not in SCOPE_BITS:
        return None
    if c.op in EXCHANGED:
        return _exchanged(c)
    if FAMILIES.get(c.op) != "map" or not c.inputs or any(CONDITIONS[name](c) is not None for name in (*NEEDED, PLACED)):
        return None
    return None if refusals(c) is None else _in_order(c)


def _call(c: CallContext, name: str, dst: BufferRegion, *args: object) -> TilePrimitiveCall:
    return TilePrimitiveCall(Op.get(TILE_PREFIX + name), (dst, *args), scope=ExecScope(c.scope), span=c.span)


def _context(c: CallContext, call: TilePrimitiveCall) -> CallContext:
    return call_context(c.index, call, c.active, c.launch, c.storage, c.target, c.environment, c.ranges, c.looped)


# -- element-wise calls ------------------------------------------------------------------------------------------------


def _in_order(c: CallContext) -> list[TilePrimitiveCall] | None:
    dst = c.outputs[0]
    if c.scope != "thread" and all(o.root.space == "local" and o.size == dst.size for o in regions_of(c)):
        if c.op == "select":
            return _select(c) if all(o.bits == 4 for o in regions_of(c)) else None
        views = {o.name: thread_view(o) for o in regions_of(c)}
        if all(v is not None for v in views.values()):  # each thread makes it for what it holds
            given = [views.get(n, a) for n, a in zip(c.call.signature.operands, c.call.args)]
            given += c.call.args[len(given) :]
            return [replace(c.call, args=tuple(given), scope=ExecScope("thread"), span=c.span)]
    extents = dst.extents
    lead = leader(c)
    last = max((d for d, e in enumerate(extents) if e != 1), default=len(extents) - 1)
    odd = extents[last] % 2
    before: list[TilePrimitiveCall] = []
    after: list[TilePrimitiveCall] = []
    regions: dict[str, BufferRegion] = {}
    for o in regions_of(c):
        if not odd and o.bits != 4 and lead is not None:
            continue
        axes = aligned_axes(o, extents)
        layout = _layout(c, lead, o)
        if layout is None or axes is None:
            return None
        shape = list(o.extents)
        row = axes.index(last) if last in axes else len(shape) - 1 if dst.size == 1 else None
        if row is not None and odd:
            layout = _padded(layout)
            shape[row] += 1
        if layout is None:
            return None
        held = new_registers(c, o, shape, layout).full_region()
        regions[o.name] = held
        mine = replace(held, region=tuple(Range(const(0), const(e)) for e in o.extents))
        if o is dst:
            after.append(_call(c, "copy", o.region, mine))
            if dst.root.space != "local" and dst.bits == 4 and CONDITIONS[WHOLE](_context(c, after[0])) is not None:
                return None
            continue
        before.append(_call(c, "copy", mine, o.region))
        if row is not None and odd:
            rest = [Range(const(0), const(e)) for e in o.extents]
            rest[row] = Range(const(o.extents[row]), const(1))
            before.append(_call(c, "fill", replace(held, region=tuple(rest)), 1.0))
    args = [regions.get(n, a) for n, a in zip(c.call.signature.operands, c.call.args)]
    args += c.call.args[len(args) :]
    return [*before, replace(c.call, args=tuple(args), span=c.span), *after]


def _layout(c: CallContext, lead: Operand | None, o: Operand) -> TileLayout | None:
    """Where a thread has its elements of ``o``, those of each row one after the other."""
    if lead is not None:
        work = owned_work(c, lead, 1)
        found = None if isinstance(work, str) else layout_like(c, lead, o, work)
        return None if found is None else _in_rows(found)
    if c.scope == "thread":
        return _in_rows(TileLayout(tuple(Iter(e, 1) for e in o.extents)))
    # Rows are dealt out over the threads; those that are left have copies.
    axis, step, shard = Axis.get(AXES[c.scope]), c.participants, []
    for extent in o.extents[:-1]:
        mine = math.gcd(extent, step)
        step //= mine
        shard += [Iter(mine, step, axis), Iter(extent // mine, 1)]
    replica = (Iter(step, 1, axis),) if step > 1 else ()
    return _in_rows(TileLayout((*shard, Iter(o.extents[-1], 1)), replica))


def _in_rows(layout: TileLayout) -> TileLayout:
    """The registers of a thread numbered in the order of its elements."""
    step = 1
    out: list[Iter] = []
    for i in reversed(layout.shard):
        out.insert(0, i if i.axis.is_thread() else Iter(i.extent, step, i.axis))
        step *= 1 if i.axis.is_thread() else int(i.extent)  # type: ignore[arg-type]
    return TileLayout(tuple(out), layout.replica, layout.offset)


def _padded(layout: TileLayout) -> TileLayout | None:
    """With one element more at the end of each row; None if a row is spread over threads."""
    *rows, last = layout.shard
    if last.axis.is_thread():
        return None
    return _in_rows(TileLayout((*rows, Iter(int(last.extent) + 1, 1)), layout.replica, layout.offset))  # type: ignore[arg-type]


# -- copies ------------------------------------------------------------------------------------------------------------


def _exchanged(c: CallContext) -> list[TilePrimitiveCall] | None:
    """A copy of registers that changes threads, by way of e4m3, where bytes don't stay together."""
    dst, src = c.outputs[0], c.inputs[0]
    if c.scope == "thread" or any(o.root.space != "local" or o.dtype != FLOAT4 for o in (dst, src)):
        return None
    if any(CONDITIONS[name](c) is not None for name in SHARED_OUT) or CONDITIONS[HELD](c) is None:
        return None
    if isinstance(holders_of(c), str):
        return None
    to, given = _as_bytes(dst), _as_bytes(src)
    if to is not None and given is not None:
        return [_call(c, "copy", to, given)]
    a, b = _wide(c, src), _wide(c, dst)
    return None if a is None or b is None else [a.widen, _call(c, "copy", b.tile, a.tile), b.narrow]


def _as_bytes(o: Operand) -> BufferRegion | None:
    """The pairs of an operand as bytes; None if it isn't made of pairs."""
    if not isinstance(o.buffer.elem_offset, IntImm) or o.buffer.elem_offset.value:
        return None
    try:
        assert o.buffer.layout is not None
        packed = pack(slice_layout(o.buffer.layout, o.buffer.shape, o.region.region), 2)
    except LayoutError:
        return None
    shape = (const(o.size // 2),)
    return replace(o.buffer, dtype="uint8", shape=shape, strides=(), layout=packed).full_region()


@dataclass(frozen=True)
class Wide:
    """An operand's elements as e4m3: a tile of registers, and the conversions of each thread there and back."""

    tile: BufferRegion
    widen: TilePrimitiveCall
    narrow: TilePrimitiveCall


def _wide(c: CallContext, o: Operand) -> Wide | None:
    work, view = owned_work(c, o, 1), thread_view(o)
    layout = None if isinstance(work, str) else layout_like(c, o, o, work)
    if layout is None or view is None:
        return None
    tile = new_registers(c, o, o.extents, _in_rows(layout), WIDE).full_region()
    count = view.region[0].extent
    mine = replace(tile.buffer, shape=(count,), layout=TileLayout((Iter(int(count), 1),))).full_region()  # type: ignore[call-overload]
    widen, narrow = _call(c, "cast", mine, view), _call(c, "cast", view, mine)
    alone = ExecScope("thread")
    return Wide(tile, replace(widen, scope=alone, span=c.span), replace(narrow, scope=alone, span=c.span))


def _select(c: CallContext) -> list[TilePrimitiveCall] | None:
    """A selection among elements that share no bytes with their neighbours."""
    found = {o.name: _wide(c, o) for o in regions_of(c)}
    if any(w is None for w in found.values()):
        return None
    wide = {name: w for name, w in found.items() if w is not None}
    given = [wide[n].tile if n in wide else a for n, a in zip(c.call.signature.operands, c.call.args)]
    call = replace(c.call, args=(*given, *c.call.args[len(given) :]), span=c.span)
    dst = c.outputs[0].name
    return [*(w.widen for n, w in wide.items() if n != dst), call, wide[dst].narrow]


def thread_view(o: Operand) -> BufferRegion | None:
    """What a thread holds of a register operand, in the order of its elements; None if that isn't digits."""
    whole = o.buffer.layout
    if not isinstance(whole, TileLayout):
        return None
    try:
        sliced = slice_layout(whole, o.buffer.shape, o.region.region)
    except LayoutError:
        return None
    assert isinstance(sliced, TileLayout)
    if any(not i.axis.is_thread() for i in sliced.replica):
        return None
    mine = tuple(i for i in sliced.shard if not i.axis.is_thread()) or (Iter(1, 1),)
    count = math.prod(int(i.extent) for i in mine)  # type: ignore[arg-type, misc]
    layout = TileLayout(mine, (), {a: v for a, v in sliced.offset.items() if not a.is_thread()})
    return replace(o.buffer, shape=(const(count),), strides=(), layout=layout).full_region()
