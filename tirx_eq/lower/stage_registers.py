"""Element-wise primitives on registers whose operands have different layouts: through registers in one layout.

A thread reaches no registers but its own, so the call is made in the layout of one of its operands, the others being copied
there (or the result from there); the copies are exchanges (``copy/shuffle``, ``copy/exchange``), which have candidates of
their own.  Every layout that an operand of full extents has is tried, and the least modelled cost taken.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from ..errors import LayoutError
from ..ir import Buffer, BufferRegion, ExecScope, Op, PointerType, PrimType, TilePrimitiveCall, Var, const
from ..ir import dtype as dt
from ..ir.op import TILE_PREFIX
from ..layout import TileLayout
from ..layout.slicing import slice_layout
from ..layout.tile import Iter
from .candidates import NoCandidate, choose
from .code.lane_access import register_bytes
from .conditions import CONDITIONS
from .context import CallContext, Operand, call_context
from .operations import EXCHANGED, FAMILIES
from .sharing.work import Work, aligned_axes, holders_of, owned_work, regions_of
from .storage import Root

#: What must hold of the call whatever the layouts of its registers are.
NEEDED = (
    "the threads are whole units of the scope", "the scope is within a CTA", "operands in memory or registers",
    "the operation exists for the dtypes", "operands fit the destination's extents",
)  # fmt: skip
PLACED = "each thread holds what it computes"


def stage_registers(c: CallContext) -> list[TilePrimitiveCall] | None:
    """The calls that the call is made of, or None: it needs no exchange of registers, or none would help.

    New registers get their storage in the call's.
    """
    if FAMILIES.get(c.op) != "map" or c.op in EXCHANGED or c.scope == "thread":
        return None
    local = [o for o in regions_of(c) if o.root.space == "local"]
    if len(local) < 2 or any(CONDITIONS[name](c) is not None for name in NEEDED) or CONDITIONS[PLACED](c) is None:
        return None
    tried = [made for o in local if o.size == c.outputs[0].size and (made := _in_layout_of(c, o)) is not None]
    priced = [(_cycles(c, calls), k) for k, (calls, _) in enumerate(tried)]
    _, best = min(priced, default=(math.inf, 0))
    for k, (_, registers) in enumerate(tried):
        if k != best or priced[best][0] == math.inf:
            for data in registers:
                del c.storage.roots[data]
    return tried[best][0] if priced and priced[best][0] < math.inf else None


def _in_layout_of(c: CallContext, lead: Operand) -> tuple[list[TilePrimitiveCall], list[Var]] | None:
    """The calls that make the call in the layout of operand ``lead``, and the new registers; None if that can't be."""
    where, work = holders_of(c), owned_work(c, lead, 1)
    if isinstance(where, str) or isinstance(work, str):
        return None
    before: list[TilePrimitiveCall] = []
    after: list[TilePrimitiveCall] = []
    regions: dict[str, BufferRegion] = {}
    made: list[Var] = []
    for o in regions_of(c):
        if o.name not in where or not isinstance(register_bytes(work, o, where[o.name]), str):
            continue
        layout = _layout_like(c, lead, o, work)
        if layout is None:
            for data in made:
                del c.storage.roots[data]
            return None
        held = new_registers(c, o, o.extents, layout).full_region()
        made.append(held.buffer.data)
        regions[o.name] = held
        moved = (o.region, held) if o is c.outputs[0] else (held, o.region)
        (after if o is c.outputs[0] else before).append(_copy(c, *moved))
    args = [regions.get(n, a) for n, a in zip(c.call.signature.operands, c.call.args)]
    args += c.call.args[len(args) :]
    return [*before, replace(c.call, args=tuple(args), span=c.span), *after], made


def _copy(c: CallContext, dst: BufferRegion, src: BufferRegion) -> TilePrimitiveCall:
    return TilePrimitiveCall(Op.get(TILE_PREFIX + "copy"), (dst, src), scope=ExecScope(c.scope), span=c.span)


def _layout_like(c: CallContext, lead: Operand, o: Operand, work: Work) -> TileLayout | None:
    """Where a thread has the elements of ``o`` that go with those of ``lead`` that it holds, without gaps."""
    whole = lead.buffer.layout
    lead_axes, axes = aligned_axes(lead, work.extents), aligned_axes(o, work.extents)
    if not isinstance(whole, TileLayout) or lead_axes is None or axes is None:
        return None
    try:
        sliced = slice_layout(whole, lead.buffer.shape, lead.region.region)
        assert isinstance(sliced, TileLayout)
        grouped, ends = sliced.group(lead.extents)
    except LayoutError:
        return None
    parts = {a: grouped.shard[ends[d] : ends[d + 1]] for d, a in enumerate(lead_axes) if a is not None}
    shard: list[Iter] = []
    for axis, extent in zip(axes, o.extents):
        shard += parts.get(axis, ()) if axis is not None and extent != 1 else ()
    copies = [i for a, part in parts.items() if a not in axes or o.extents[axes.index(a)] == 1 for i in part]
    replica = [i for i in (*grouped.replica, *copies) if i.axis.is_thread() and i.extent != 1]
    offset = {a: v for a, v in grouped.offset.items() if a.is_thread()}
    return TileLayout(_compact(shard), tuple(replica), offset)


def _compact(iters: list[Iter]) -> tuple[Iter, ...]:
    """Without gaps between registers."""
    strides: dict[int, int] = {}
    step = 1
    memory = [k for k, i in enumerate(iters) if not i.axis.is_thread()]
    for k in sorted(memory, key=lambda k: (abs(int(iters[k].stride)), -k)):  # type: ignore[arg-type]
        strides[k], step = step, step * int(iters[k].extent)  # type: ignore[arg-type]
    made = tuple(Iter(i.extent, strides[k], i.axis) if k in strides else i for k, i in enumerate(iters))
    return made or (Iter(1, 1),)


def new_registers(c: CallContext, o: Operand, shape: Sequence[int], layout: TileLayout) -> Buffer:
    """A buffer of ``shape`` in new registers, of an operand's dtype."""
    used = {root.name for root in c.storage.roots.values()}
    count = 1
    while (name := f"{o.root.name}_moved_{count}") in used:
        count += 1
    data = Var(name, PointerType(PrimType(o.dtype), "local"))
    words = int(layout.storage().span("m"))  # type: ignore[arg-type]
    bits = max(32, dt.storage_bits(o.dtype))
    size = -(-words * dt.storage_bits(o.dtype) // bits) * bits // 8
    c.storage.roots[data] = Root("local", name, size=size, word_bits=bits)
    return Buffer(data, o.dtype, tuple(const(e) for e in shape), name=name, layout=layout, span=o.buffer.span)


def _cycles(c: CallContext, calls: list[TilePrimitiveCall]) -> float:
    """The modelled cycles of calls in place of the call; infinite if one can't be lowered."""
    contexts = [
        call_context(k, call, c.active, c.launch, c.storage, c.target, c.environment, c.ranges, c.looped)
        for k, call in enumerate(calls)
    ]
    try:
        chosen = [choice.chosen for choice in choose(contexts)]
    except NoCandidate:
        return math.inf
    common: dict[Hashable, float] = {key: cycles for k in chosen for key, cycles in k.shares}
    return sum(k.cycles for k in chosen) + sum(common.values())
