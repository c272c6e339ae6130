"""Products whose depth is spread over the CTAs of a cluster: each multiplies what it has, and all of these are summed."""

from __future__ import annotations

from dataclasses import replace

from ...ir import EQ, AllocBuffer, Buffer, BufferRegion, ExecScope, IfThenElse, PointerType, PrimType, Range, Stmt, Var, const
from ...ir.arith import binary
from ..product import is_number, plain
from ..sharing.cta_parts import Cut, conjunction, writers
from .cta_exchange import ClusterCall, cta_scope_call

DEPTH = 2  # of a product's dimensions: row, column, depth


def multiplied(c: ClusterCall) -> list[Stmt] | None:
    """The statements of a CTA, or None where the operands aren't spread alike.

    C is added by the CTA that has the first part of the depth.
    """
    cuts: dict[int, Cut] = {}
    for n in ("A", "B"):
        for along, cut in c.held[n].cuts.items() if n in c.held else ():
            if cuts.setdefault(along, cut).key != cut.key:
                return None
    depth = cuts.pop(DEPTH, None)
    lead = next((n for n in ("A", "B") if n in c.held and DEPTH in c.held[n].cuts), None)
    if depth is None or lead is None or any(h.conditions for h in c.held.values()):
        return None
    axes, dst = c.iteration.axes, c.held.get("D")
    for n in ("D", "C"):
        if n in c.held and {a: cut.key for a, cut in c.held[n].cuts.items()} != {a: cuts[a].key for a in cuts}:
            return None
    first = binary(EQ, depth.number, 0)
    guard = None
    if dst is None:
        found = writers(
            {n: c.held[n] for n in ("A", "B") if n in c.held}, {a: ("A", cut) for a, cut in cuts.items()}, c.x.launch, [first]
        )
        if isinstance(found, str):
            return None
        guard = conjunction(found)
    parts = {n: _part(c, n, r, cuts | {DEPTH: depth}) for n, r in c.regions.items()}
    shape = [cuts[a].size if a in cuts else e for a, e in zip(axes["D"], c.regions["D"].const_extents() or ())]
    mine = c.x.shared("products", c.regions["D"].dtype, shape)
    count = depth.count
    every = c.x.shared("all_products", c.regions["D"].dtype, (count, *shape))
    steps: list[Stmt] = [AllocBuffer(mine), AllocBuffer(every)]
    into = mine.full_region()
    if dst is not None and dst.region.buffer.scope == "local":  # products of registers are made in registers
        into = BufferRegion(_registers(c, dst.region), dst.region.region)
        steps.append(AllocBuffer(into.buffer))
    call = replace(
        c.value, args=(into, parts["A"], parts["B"], parts["C"], *c.value.args[4:]), scope=ExecScope("cta"), span=c.value.span
    )
    alone = replace(call, args=(*call.args[:-1], const(0.0)))
    made: Stmt = call if is_number(plain(c.value.operand("beta")), 0) else IfThenElse(first, call, alone)
    steps.append(made)
    if into.buffer is not mine:
        steps.append(cta_scope_call(c.value, "copy", (mine.full_region(), into)))
    dim = axes[lead].index(DEPTH)
    collected = c.collected(c.held[lead], {dim: count}, mine, every, guard)
    if collected is None:
        return None
    to = dst.region if dst is not None else c.stored(cuts)
    last = cta_scope_call(c.value, "sum", (to, every.full_region(), const(0), const(False)))
    return [*steps, *collected, last if guard is None else IfThenElse(guard, last)]


def _part(c: ClusterCall, n: str, r: BufferRegion, cuts: dict[int, Cut]) -> BufferRegion:
    """What a CTA needs of an operand: its own part, or that of what every CTA reaches."""
    own = c.held[n].cuts if n in c.held else {}
    mine = c.held[n].region if n in c.held else r
    ranges = [
        Range(p.min + cuts[a].number * cuts[a].size, const(cuts[a].size)) if a in cuts and a not in own else p
        for p, a in zip(mine.region, c.iteration.axes[n])
    ]
    return BufferRegion(mine.buffer, tuple(ranges), span=r.span)


def _registers(c: ClusterCall, r: BufferRegion) -> Buffer:
    """Registers like those of a region."""
    c.x.count += 1
    name = f"product_{c.x.count}"
    return replace(r.buffer, data=Var(name, PointerType(PrimType(r.buffer.dtype), "local")), name=name, elem_offset=const(0))
