"""A call of a cluster on registers, shared and tensor memory as the calls of its CTAs, each for what it has.

The destination decides who works: a CTA computes the part of it that is its own (all of it, if its layout names no CTA).
What goes to global memory is stored by the CTA that has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ...ir import (
    EQ,
    GE,
    LT,
    And,
    Buffer,
    BufferLoad,
    BufferRegion,
    ExecScope,
    Expr,
    IntImm,
    LambdaExpr,
    Range,
    TilePrimitiveCall,
    Var,
    const,
    post_order_visit,
    substitute,
)
from ...ir.arith import binary
from ...ir.index import evaluate_many, names
from ..context import CallContext
from ..scope import new_scope
from .cta_spread import AXES, CtaSpread, at_cta, cta_points, cta_spread
from .iteration import Iteration, iteration_of
from .threads import Launch

#: Config that names CTAs: what one CTA says to others.
NAMES_CTAS = ("cta_mask", "remote_cta_id")


@dataclass(frozen=True)
class Cut:
    """A dimension of the iteration space of which each CTA has a block: number ``number`` of ``count``, ``size`` long."""

    key: tuple[Any, ...]
    count: int
    size: int
    number: Expr


@dataclass(frozen=True)
class CtaCall:
    """``call`` is what a CTA of the cluster executes, where ``guard`` holds (None: all do)."""

    call: TilePrimitiveCall
    guard: Expr | None = None


@dataclass(frozen=True)
class CtaHeld:
    """An operand in the memories of CTAs: its region in a CTA's own part, the dimensions it is cut along, the conditions
    under which a CTA has some of it, and of those that only copies don't fulfil; ``first[d]`` is the number of the first block
    of dimension d that the whole region has."""

    spread: CtaSpread
    region: BufferRegion
    cuts: dict[int, Cut]
    conditions: tuple[Expr, ...]
    first_copy: tuple[Expr, ...]
    first: dict[int, int]


def is_per_cta(buffer: Buffer) -> bool:
    """Whether every CTA has storage of its own for a buffer."""
    return buffer.scope != "global"


def cta_call(
    call: TilePrimitiveCall, launch: Launch, environment: Mapping[Var, Expr], remote: Callable[[Buffer], bool],
    spread: Callable[[Buffer], CtaSpread | str],
) -> CtaCall | str | None:  # fmt: skip
    """The call of a CTA that a cluster's call means, or why its CTAs can't each make a part; None if all is in global memory.

    ``environment`` gives what variables stand for, as far as that is known; ``remote`` says which buffers are another CTA's,
    ``spread`` how others are spread over CTAs (the same part of one each time, so that operands are known to be the same).
    """
    regions = {n: a for n, a in zip(call.signature.operands, call.args) if isinstance(a, BufferRegion)}
    if not any(is_per_cta(r.buffer) or remote(r.buffer) for r in regions.values()):
        return None
    for n in call.signature.outputs:
        if remote(regions[n].buffer):
            return f"'{regions[n].buffer.name}' is in the shared memory of a CTA that is named, which a CTA writes to by itself"
    for key in NAMES_CTAS:
        if call.config.get(key) is not None:
            return f"{key}= names CTAs, which a CTA does by itself"
    group: Any = call.config.get("cta_group", 1)
    if (group.value if isinstance(group, IntImm) else group) == 2:
        return "cta_group=2 is a call of one CTA of a pair"
    spreads = {n: spread(r.buffer) for n, r in regions.items() if is_per_cta(r.buffer) and not remote(r.buffer)}
    for s in spreads.values():
        if isinstance(s, str):
            return s
    known = {n: s for n, s in spreads.items() if isinstance(s, CtaSpread)}
    stored = [regions[n] for n in call.signature.outputs if not is_per_cta(regions[n].buffer) and not remote(regions[n].buffer)]
    wide = frozenset(a for a, x in AXES.items() if launch.cluster["xyz".index(x)] > 1)
    axes = wide if stored else wide & frozenset().union(*(s.axes() for s in known.values()))
    if not any(s.axes() for s in known.values()) and not (stored and wide):
        return CtaCall(replace(call, scope=ExecScope("cta"), span=call.span))
    for r in regions.values():
        if remote(r.buffer):
            return f"'{r.buffer.name}' is in the shared memory of a CTA that is named, so it is no part of a whole"
    for r in regions.values():
        if (reason := varies(r, axes, launch, environment)) is not None:
            return reason
    iteration = iteration_of(call)
    if isinstance(iteration, str):
        return iteration
    held: dict[str, CtaHeld] = {}
    for n, s in known.items():
        found = cta_held(s, regions[n], iteration.axes[n], launch)
        if isinstance(found, str):
            return found
        held[n] = found
    return _divided(call, regions, held, iteration, launch)


def why_together(c: CallContext) -> str | None:
    """Why a call of a cluster isn't the calls of its CTAs; None if all of it is in global memory."""

    def remote(b: Buffer) -> bool:
        return c.storage.root(b).space == "cluster"

    def spread(b: Buffer) -> CtaSpread | str:
        return cta_spread(b, c.launch)

    found = c.once("call of a CTA", lambda: cta_call(c.call, c.launch, c.environment, remote, spread))
    return "CTAs of the cluster may part on the way here" if isinstance(found, CtaCall) else found


def varies(r: BufferRegion, axes: frozenset[str], launch: Launch, environment: Mapping[Var, Expr]) -> str | None:
    """Why the CTAs along some axes don't mean one region."""
    for d, part in enumerate(r.region):
        low = _resolved(part.min, environment)
        if isinstance(low, IntImm):
            continue
        where = f"where dimension {d} of '{r.buffer.name}' begins"
        if reads(low):
            return f"{where} depends on data, which may differ between CTAs"
        for pick in (0, 1):
            at = {tuple(v for a, v in cta.items() if a not in axes): set() for cta in cta_points(launch)}  # type: ignore[var-annotated]
            for cta in cta_points(launch):
                at[tuple(v for a, v in cta.items() if a not in axes)].add(_in_cta(low, launch, cta, pick))
            found = next((s for s in at.values() if len(s) > 1), None)
            if found is not None:
                return f"dimension {d} of '{r.buffer.name}' begins at {min(found)} in one CTA, at {max(found)} in another"
    return None


def _resolved(e: Expr, environment: Mapping[Var, Expr]) -> Expr:
    return substitute(e, dict(environment))


def reads(e: Expr) -> bool:
    """Whether an expression reads a buffer."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or isinstance(node, BufferLoad)

    post_order_visit(e, look)
    return found


def _in_cta(e: Expr, launch: Launch, cta: Mapping[str, int], pick: int) -> int:
    """The value in a CTA of the first cluster, other variables at one of two values."""
    scope = new_scope()
    launch.declare(scope)
    term = scope.term(e)
    special = {scope.name(v): cta_register(r, launch, cta) for r, v in launch.special.items()}
    used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
    point = {n: found if (found := special.get(n)) is not None else scope.ranges[n][pick] for n in used}
    return int(np.asarray(evaluate_many(term, point)))


def cta_register(register: str, launch: Launch, cta: Mapping[str, int]) -> int | None:
    """What a special register that tells a CTA of the first cluster from others holds in it."""
    name, _, axis = register.partition(".")
    if name == "cluster_ctarank":
        x, y, _ = launch.cluster
        return cta["cbx"] + x * (cta["cby"] + y * cta["cbz"])
    return cta[f"cb{axis}"] if name in ("ctaid", "cluster_ctaid") else None


def cta_held(s: CtaSpread, r: BufferRegion, axes: Sequence[int | None], launch: Launch) -> CtaHeld | str:
    ranges = list(r.region)
    cuts: dict[int, Cut] = {}
    firsts: dict[int, int] = {}
    conditions = [e for e in s.present(launch) if not _always(e, launch)]
    for dim, digits in enumerate(s.blocks):
        if not digits:
            continue
        part, size = r.region[dim], s.sizes[dim]
        if not isinstance(part.min, IntImm):
            return f"dimension {dim} of '{r.buffer.name}' is spread over CTAs, so where a region begins there must be constant"
        low, extent = part.min.value, int(part.extent)  # type: ignore[call-overload]
        first, last = low // size, (low + extent - 1) // size
        number, firsts[dim] = s.block(dim, launch), first
        if first == last:
            ranges[dim] = Range(const(low - first * size), const(extent))
            within = [binary(EQ, number, first)]
        elif low % size or extent % size:
            return f"CTAs have parts of different extents of dimension {dim} of '{r.buffer.name}': blocks of {size} elements"
        else:
            ranges[dim] = Range(const(0), const(size))
            within = [binary(GE, number, first), binary(LT, number, last + 1)]
            along = axes[dim]
            assert along is not None
            count = last + 1 - first
            if (first, count) != (0, prod(d.extent for d in digits)):  # in range in CTAs that have nothing, too
                number = (number - first) % count
            cuts[along] = Cut((s.key(dim), first), count, size, number)
        conditions += [e for e in within if not _always(e, launch)]
    copies = tuple(binary(EQ, s.value(d, launch), 0) for d in s.copies)
    return CtaHeld(s, BufferRegion(s.part, tuple(ranges), span=r.span), cuts, tuple(conditions), copies, firsts)


def _always(e: Expr, launch: Launch) -> bool:
    return all(at_cta(e, launch, cta) for cta in cta_points(launch))


def _divided(
    call: TilePrimitiveCall, regions: dict[str, BufferRegion], held: dict[str, CtaHeld], iteration: Iteration, launch: Launch
) -> CtaCall | str:
    cuts: dict[int, tuple[str, Cut]] = {}
    for n, h in held.items():
        for along, cut in h.cuts.items():
            other, known = cuts.setdefault(along, (n, cut))
            if known.key != cut.key or known.size != cut.size:
                return f"'{n}' and '{other}' are spread over the CTAs in different ways"
    for along, (n, _) in cuts.items():
        if along in iteration.summed:
            kept = {a: c for a, c in cuts.items() if a not in iteration.summed}
            first = [binary(EQ, c.number, 0) for a, (_, c) in cuts.items() if a in iteration.summed]
            stores = () if call.signature.outputs[0] in held else writers(held, kept, launch, first)
            return stores if isinstance(stores, str) else f"the sums go over elements of '{n}' that different CTAs have"
    outputs = call.signature.outputs
    for n in outputs:
        lacking = [a for a in iteration.axes[n] if a in cuts and n in held and a not in held[n].cuts]
        if lacking:
            return f"each CTA's '{n}' gets elements of '{cuts[lacking[0]][0]}' that other CTAs have"
    guards = []
    for n in outputs:
        guard = _workers(n, held, cuts, launch) if n in held else writers(held, cuts, launch)
        if isinstance(guard, str):
            return guard
        guards.append(guard)
    if any(g != guards[0] for g in guards):
        return f"'{outputs[0]}' and '{outputs[1]}' are in different CTAs"
    made = {n: held[n].region if n in held else r for n, r in regions.items()}
    for n, r in regions.items():
        done = held[n].cuts if n in held else {}
        moved = {d: cuts[a][1] for d, a in enumerate(iteration.axes[n]) if a in cuts and a not in done}
        ranges = [
            Range(p.min + moved[d].number * moved[d].size, const(moved[d].size)) if d in moved else p
            for d, p in enumerate(made[n].region)
        ]
        made[n] = BufferRegion(made[n].buffer, tuple(ranges), span=r.span)
    args = []
    for name, arg in zip(call.signature.operands, call.args):
        if isinstance(arg, LambdaExpr):
            lead = iteration.axes[outputs[0]]
            shifts = {v: v + cuts[a][1].number * cuts[a][1].size for v, a in zip(arg.vars, lead) if a in cuts}
            arg = LambdaExpr(arg.vars, substitute(arg.body, shifts)) if shifts else arg
        args.append(made.get(name, arg))
    cta = replace(call, scope=ExecScope("cta"), args=tuple(args), span=call.span)
    return CtaCall(cta, conjunction(guards[0]))


def conjunction(conditions: Sequence[Expr]) -> Expr | None:
    """All of them, or None for none."""
    found: Expr | None = None
    for e in conditions:
        found = e if found is None else binary(And, found, e)
    return found


def _where(conditions: Sequence[Expr], launch: Launch) -> list[bool]:
    """In which CTAs all of the conditions hold."""
    return [all(at_cta(e, launch, cta) for e in conditions) for cta in cta_points(launch)]


def _workers(
    n: str, held: dict[str, CtaHeld], cuts: dict[int, tuple[str, Cut]], launch: Launch
) -> tuple[Expr, ...] | str:
    """The conditions under which a CTA has a part of the destination; it must then have what that is made of."""
    works = _where(held[n].conditions, launch)
    for other, h in held.items():
        has = _where(h.conditions, launch)
        lacking = next((k for k, (w, a) in enumerate(zip(works, has)) if w and not a), None)
        if lacking is not None:
            return f"CTA {lacking} has a part of '{n}', but nothing of '{other}'"
    return held[n].conditions


def writers(
    held: dict[str, CtaHeld], cuts: dict[int, tuple[str, Cut]], launch: Launch, also: Sequence[Expr] = ()
) -> tuple[Expr, ...] | str:
    """The conditions under which a CTA stores to global memory, those of ``also`` among them: each part is stored once."""
    conditions = list(dict.fromkeys([*(e for h in held.values() for e in (*h.conditions, *h.first_copy)), *also]))
    conditions = [e for e in conditions if not _always(e, launch)]
    count: dict[tuple[int, ...], int] = {}
    for cta, works in zip(cta_points(launch), _where(conditions, launch)):
        if works:
            part = tuple(at_cta(cut.number, launch, cta) for _, cut in cuts.values())
            count[part] = count.get(part, 0) + 1
    if count and max(count.values()) > 1:
        return f"{max(count.values())} CTAs hold a value of one element"
    whole = int(np.prod([cut.count for _, cut in cuts.values()], dtype=np.int64))
    return tuple(conditions) if len(count) == whole else f"CTAs hold {len(count)} of the {whole} parts"
