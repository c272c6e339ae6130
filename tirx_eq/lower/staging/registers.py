"""Element-wise primitives on registers whose operands have different layouts: through registers in one layout.

A thread reaches no registers but its own, so the call is made in the layout of one of its operands, the others being copied
there (or the result from there); the copies are exchanges (``copy/shuffle``, ``copy/exchange``), which have candidates of
their own.  Every layout that an operand of full extents has is tried, and the least modelled cost taken.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import replace

from ...ir import BufferRegion, ExecScope, IntImm, Op, TilePrimitiveCall, Var
from ...ir.op import TILE_PREFIX
from ..candidates import NoCandidate, choose
from ..code.lane_access import register_bytes
from ..conditions import CONDITIONS
from ..context import CallContext, Operand, call_context
from ..operations import EXCHANGED, FAMILIES
from ..sharing.work import holders_of, owned_work, regions_of
from .halves import stage_halves
from .parts import NEEDED, PLACED, layout_like, new_registers


def stage_registers(c: CallContext) -> list[TilePrimitiveCall] | None:
    """The calls that the call is made of, or None: it needs no exchange of registers, or none would help.

    New registers get their storage in the call's.
    """
    if FAMILIES.get(c.op) != "map" or c.op in EXCHANGED or c.scope == "thread":
        return None
    local = [o for o in regions_of(c) if o.root.space == "local"]
    if all(_alike(o, local[0]) for o in local) or any(CONDITIONS[name](c) is not None for name in NEEDED):
        return None
    if CONDITIONS[PLACED](c) is None:
        return None
    tried = [made for o in local if o.size == c.outputs[0].size and (made := _in_layout_of(c, o)) is not None]
    priced = [(_cycles(c, calls), k) for k, (calls, _) in enumerate(tried)]
    _, best = min(priced, default=(math.inf, 0))
    for k, (_, registers) in enumerate(tried):
        if k != best or priced[best][0] == math.inf:
            for data in registers:
                del c.storage.roots[data]
    return tried[best][0] if priced and priced[best][0] < math.inf else None


def _alike(a: Operand, b: Operand) -> bool:
    """Whether two operands are certainly in the same threads, in the same order: a quick answer for most calls."""
    same = a.extents == b.extents and a.buffer.layout == b.buffer.layout
    same = same and a.buffer.const_shape() == b.buffer.const_shape()
    mins = [(x.min, y.min) for x, y in zip(a.region.region, b.region.region)]
    return same and all(isinstance(x, IntImm) and isinstance(y, IntImm) and x.value == y.value for x, y in mins)


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
        layout = layout_like(c, lead, o, work)
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


def _cycles(c: CallContext, calls: list[TilePrimitiveCall]) -> float:
    """The modelled cycles of calls in place of the call; infinite if one can't be lowered."""
    kept = dict(c.storage.roots)
    try:
        contexts = [replace(made, index=k) for k, made in enumerate(_contexts(c, calls))]
        chosen = [choice.chosen for choice in choose(contexts)]
    except NoCandidate:
        return math.inf
    finally:
        c.storage.roots.clear()
        c.storage.roots.update(kept)
    common: dict[Hashable, float] = {key: cycles for k in chosen for key, cycles in k.shares}
    return sum(k.cycles for k in chosen) + sum(common.values())


def _contexts(c: CallContext, calls: list[TilePrimitiveCall], depth: int = 0) -> Iterator[CallContext]:
    """The contexts of calls in place of the call, and of what they are made of."""
    for call in calls:
        made = call_context(0, call, c.active, c.launch, c.storage, c.target, c.environment, c.ranges, c.looped)
        parts = stage_halves(made) if depth < 2 else None
        if parts is None:
            yield made
        else:
            yield from _contexts(c, parts, depth + 1)
