"""Conditions on what goes to other CTAs of the cluster: multicast, barriers of a pair of CTAs, copies into a peer's memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import Expr, IntImm, Var, const
from ...ir.index import evaluate_many, names
from ..context import CallContext, Operand, evaluate_at
from ..intrinsics.places import address_operand
from ..program import Memory
from ..scope import bounds
from ..sharing.active import thread_points
from ..sharing.cluster_part import candidates_of_part
from ..sharing.cta_parts import why_together
from .gemm import cta_group
from .operands import private
from .registry import OPTIONS, holds, holds_at, in_space, regions

#: st.async stores 4, 8 or 16 bytes (PTX ISA 9.7.9.15).
OPTIONS["st.async bytes"] = lambda c: [w for w in (16, 8, 4) if w * 8 >= c.outputs[0].bits]


def mask_of(c: CallContext) -> Expr | None:
    """The call's mask of CTAs, one bit per rank, or None; a mask of 0 is none."""
    mask = c.call.config.get("cta_mask")
    if mask is None:
        return None
    found = c.resolve(const(mask))
    return None if isinstance(found, IntImm) and found.value == 0 else found


def barrier_of(c: CallContext) -> Memory | None:
    """The barrier that ``mbar=`` names, or None if that is not the address of an element of shared memory."""
    load = address_operand(c.resolve(const(c.call.config["mbar"]))) if c.call.config.get("mbar") is not None else None
    if load is None:
        return None
    root = c.storage.root(load.buffer)
    return Memory(root, c.resolve(c.storage.offset_of(load)))


def cta_points(c: CallContext) -> list[dict[str, int]]:
    """Per CTA of the first cluster, the values of the special registers that tell which it is."""
    x, y, z = c.launch.cluster
    found = []
    for rank in range(x * y * z):
        at = (rank % x, rank // x % y, rank // (x * y))
        values = {"cluster_ctarank": rank, **{f"{r}.{a}": v for r in ("ctaid", "cluster_ctaid") for a, v in zip("xyz", at)}}
        found.append(values)
    return found


def per_cta(c: CallContext, e: Expr) -> list[int] | str:
    """The value of an expression in each CTA of a cluster, or what else than the CTA it depends on."""
    scope = c.scope_with()
    term = scope.term(e)
    special = {scope.name(v): register for register, v in c.launch.special.items()}
    used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
    other = sorted(n for n in used if not special.get(n, "").startswith(("cluster_cta", "ctaid")))
    if other:
        return f"it depends on {', '.join(other)}"
    out = []
    for values in cta_points(c):
        found: Any = evaluate_many(term, {n: int(values[special[n]]) for n in used})
        out.append(int(found))
    return out


@holds("no mask of CTAs is given")
def _no_mask(c: CallContext) -> str | None:
    return None if mask_of(c) is None else "cta_mask= asks for a multicast"


@holds("a mask of CTAs is given")
def _mask(c: CallContext) -> str | None:
    return "the call has no cta_mask=" if mask_of(c) is None else None


@holds("the mask names CTAs of the cluster")
def _within(c: CallContext) -> str | None:
    mask = mask_of(c)
    if mask is None:
        return None
    size = len(cta_points(c))
    found = per_cta(c, mask)
    if isinstance(found, str):
        scope = c.scope_with()
        low, high = bounds(scope.term(mask), scope.ranges)
        return None if 0 < low and high < 1 << size else f"the mask isn't known to name CTAs of the cluster: {found}"
    for rank, value in enumerate(found):
        if not 0 < value < 1 << size:
            who = f" in CTA {rank}" if len(set(found)) > 1 else ""
            return f"the mask is {value:#x}{who}, but the cluster has {size} CTA{'s' if size > 1 else ''}"
    return None


@holds("the barrier is in this CTA")
def _own_barrier(c: CallContext) -> str | None:
    if c.call.config.get("mbar") is None:
        return None
    bar = barrier_of(c)
    if bar is None:
        return "mbar= must be the address of a barrier in shared memory, such as bar.ptr_to([0])"
    return None if bar.root.space == "shared" else f"the barrier '{bar.root.name}' is in {bar.root.space} memory"


@holds("the barrier is in the other CTA of a pair")
def _pair_barrier(c: CallContext) -> str | None:
    """With cta_group::2 a copy may report to either CTA of its pair (PTX ISA 9.7.9.27, cp.async.bulk.tensor)."""
    bar = barrier_of(c)
    if bar is None or bar.root.space != "cluster":
        return "the barrier is not a remote view"
    if cta_group(c) != 2:
        return f"the barrier '{bar.root.name}' is in another CTA, which only cta_group=2 can signal"
    assert bar.root.address is not None
    found = per_cta(c, bar.root.address)
    if isinstance(found, str):
        return f"the barrier's CTA isn't known: {found}"
    wrong = [rank for rank, at in enumerate(found) if at // 2 != rank // 2]
    return f"the barrier of CTA {found[wrong[0]]} is not in the pair of CTA {wrong[0]}" if wrong else None


@holds("a CTA of the cluster is named")
def _peer(c: CallContext) -> str | None:
    rank = c.call.config.get("remote_cta_id")
    if rank is None:
        return "the call has no remote_cta_id="
    size = len(cta_points(c))
    scope = c.scope_with()
    low, high = bounds(c.term(const(rank), scope), scope.ranges)
    if not (0 <= low and high < size):
        return f"remote_cta_id is in {low}..{high}, a cluster has {size} CTAs"
    return _one_peer(c, c.resolve(const(rank)))


def _one_peer(c: CallContext, rank: Expr) -> str | None:
    """Threads that make a call together name one CTA."""
    if c.participants == 1:
        return None
    tid = {v: r for r, v in c.launch.special.items() if r.startswith("tid.")}
    points = thread_points(c.launch, {r: r for r in tid.values()})
    found = evaluate_at(rank, c.lowest() | {v: points[r] for v, r in tid.items()})
    named = np.broadcast_to(found, (c.launch.threads,))[c.active.mask]
    unit = np.flatnonzero(c.active.mask) // c.participants
    bad = np.flatnonzero((unit[1:] == unit[:-1]) & (named[1:] != named[:-1]))
    return f"threads of one {c.scope} name CTAs {named[bad[0]]} and {named[bad[0] + 1]}" if len(bad) else None


@holds("no other CTA is named")
def _no_peer(c: CallContext) -> str | None:
    return "remote_cta_id= names another CTA" if c.call.config.get("remote_cta_id") is not None else None


@holds("the CTAs of a cluster mean one region")
def _one_region(c: CallContext) -> str | None:
    scope = c.scope_with()
    special = {scope.name(v): register for register, v in c.launch.special.items()}
    for o in regions(c):
        for d, r in enumerate(o.region.region):
            term = c.term(r.min, scope)
            for pick in (0, 1):
                points = {n: b[pick] for n, b in scope.ranges.items()}
                found = set()
                for values in cta_points(c):
                    here = {n: values[register] for n, register in special.items() if register in values}
                    found.add(int(evaluate_many(term, {**points, **here})))
                if len(found) > 1:
                    return f"dimension {d} of '{o.name}' begins at {min(found)} in one CTA, at {max(found)} in another"
    return None


@holds("all operands in global memory")
def _global(c: CallContext) -> str | None:
    """What CTAs have of their own is worked on by each, as far as they can."""
    reason = next((reason for o in regions(c) if (reason := in_space(o, "global")) is not None), None)
    return None if reason is None else f"{reason}; {why_together(c)}"


OPTIONS["candidate of a part"] = lambda c: list(range(max(1, len(k)))) if isinstance(k := candidates_of_part(c), list) else [0]


@holds_at("a CTA can make its part")
def _part(c: CallContext, number: int) -> str | None:
    found = candidates_of_part(c)
    if isinstance(found, str):
        return found
    return None if number < len(found) else f"there are {len(found)} ways"


@holds("source in a thread's registers")
def _registers(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "local") or private(c.inputs[0])


def _runs(c: CallContext) -> list[int]:
    """Bytes of the whole operand, and of its runs of trailing dimensions, the longest first."""
    o = c.outputs[0]
    sizes = [o.size]
    for extent in o.extents:
        sizes.append(sizes[-1] // max(1, extent))
    return sorted({s * o.bits // 8 for s in sizes if s * o.bits % 128 == 0 and s}, reverse=True)


#: cp.async.bulk moves multiples of 16 bytes (PTX ISA 9.7.9.25.4).
OPTIONS["bulk bytes"] = _runs


@holds_at("both have the run in one piece")
def _dense(c: CallContext, width: int) -> str | None:
    """Every run of ``width`` bytes is one stretch of bytes in both, at multiples of 16, with the elements in one order."""
    for o in (c.inputs[0], c.outputs[0]):
        if (o.root.offset | o.root.align) % 16:
            return f"'{o.name}' is known to be aligned to {o.root.align} bytes only"
    lanes = width * 8 // c.outputs[0].bits
    source, target = c.inputs[0], c.outputs[0]
    if target.bits >= 8 and lanes == target.size and _same_order(c, source, target):
        reasons = [r for r in (_block(c, source, width), _block(c, target, width)) if r]
    else:
        reasons = [r for r in (_stretch(c, source, lanes), _stretch(c, target, lanes)) if r]
    return reasons[0] if reasons else None


def _same_order(c: CallContext, source: Operand, target: Operand) -> bool:
    """Whether elements are as far from the first in one operand as in the other."""
    e = Var("element", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({e: (0, source.size - 1)})
    a, b = (c.term(o.byte_offset(e) - o.byte_offset(0), scope) for o in (source, target))
    return c.compare(a, b, scope).status == "equal"


def _block(c: CallContext, o: Operand, width: int) -> str | None:
    """Whether the operand fills ``width`` bytes from its first on, wherever it begins."""
    byte = np.sort(o.places(c.lowest())["byte"])
    if int(byte[-1] - byte[0]) + o.bits // 8 != width or len(np.unique(byte)) != o.size:
        return f"'{o.name}' spans {int(byte[-1] - byte[0]) + o.bits // 8} bytes, of which {width} are copied"
    e = Var("element", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({e: (0, o.size - 1)})
    lowest = int(o.places(c.lowest())["byte"][0]) - int(byte[0])
    first = c.term(o.byte_offset(0) - lowest, scope)
    if c.compare(("mod", first, 16), 0, scope).status != "equal":
        return f"'{o.name}' may begin off a 16-byte boundary"
    within = ("sub", c.term(o.byte_offset(e), scope), first)
    held = c.compare(("max", ("min", within, width - 1), 0), within, scope)
    return None if held.status == "equal" else f"elements of '{o.name}' may lie outside of the {width} bytes from its first"


def _stretch(c: CallContext, o: Operand, lanes: int) -> str | None:
    """Whether every aligned group of ``lanes`` elements is at consecutive bytes, from a multiple of 16 on."""
    run, lane = Var("run", "int32"), Var("lane", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({run: (0, o.size // lanes - 1), lane: (0, lanes - 1)})
    if o.bits < 8:  # counted in elements
        first, step, period = c.term(o.element_offset(run * lanes), scope), 1, 128 // o.bits
        here = c.term(o.element_offset(run * lanes + lane), scope)
    else:
        first, step, period = c.term(o.byte_offset(run * lanes), scope), o.bits // 8, 16
        here = c.term(o.byte_offset(run * lanes + lane), scope)
    if c.compare(("mod", first, period), 0, scope).status != "equal":
        return f"runs of {lanes} elements of '{o.name}' may begin off a 16-byte boundary"
    verdict = c.compare(here, ("add", first, ("mul", scope.name(lane), step)), scope)
    where = f" at {verdict.counterexample}" if verdict.counterexample else ""
    return None if verdict.status == "equal" else f"{lanes} elements of '{o.name}' are not at consecutive bytes{where}"
