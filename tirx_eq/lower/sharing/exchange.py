"""Copies between two layouts of registers whose elements change threads: plans of :mod:`tirx_eq.redistribution` for a call.

A plan is for one unit of threads (warp, warpgroup or CTA), whose registers are numbered from the first that an operand
uses.  Elements of 64 bits count as two of 32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...layout import TileLayout
from ...redistribution.distribution import Distribution
from ...redistribution.plan import Barrier, Builder, Get, Plan, Put, Term, pruned
from ..context import CallContext, Operand
from ..storage import MAX_SHARED
from .holders import Held
from .holders import held as held_by
from .redistribute import moved_bytes
from .scratch import ALIGN, units
from .spread import Spread, spread_of
from .threads import WARP

Array = np.ndarray
#: Plans are straight-line programs; beyond so many steps one should write a loop.
MAX_STEPS = 1024


@dataclass(frozen=True, eq=False)
class Side:
    """The registers of an operand that a plan numbers: 32-bit words from ``first`` on; ``slots`` elements' places in them."""

    first: int
    size: int
    spread: Spread
    table: Distribution


def exchange_plans(c: CallContext, own: bool) -> list[Plan] | str:
    """The plans that take a call's source to its destination, or why there are none.

    ``own``: the scratch isn't shared with other calls, so a warp that meets only itself needs no barrier but its own.
    """
    key = ("exchange plans", own)
    return c.once(key, lambda: _plans(c, own))


def sides(c: CallContext) -> tuple[Side, Side] | str:
    """Source and destination of an exchange, or why their registers can't be numbered."""
    return c.once("exchange sides", lambda: _sides(c))


def _sides(c: CallContext) -> tuple[Side, Side] | str:
    if not c.active.whole(WARP):
        return f"it is reached by {c.active.describe()}, not by whole warps"
    found = []
    masks = [where.mask for o in (c.inputs[0], c.outputs[0]) if isinstance(where := held_by(o), Held)]
    both = ~(masks[0] | masks[-1])  # bits of a thread's number that neither layout names: there each has its own
    for o in (c.inputs[0], c.outputs[0]):
        side = _side(c, o, both)
        if isinstance(side, str):
            return side
        found.append(side)
    source, target = found
    gone = np.setdiff1d(target.table.held[target.table.held >= 0], source.table.held)
    if len(gone):
        return f"element {int(gone[0])}, which the destination gets, is in no register of the source"
    return source, target


def _side(c: CallContext, o: Operand, apart: int) -> Side | str:
    """``apart``: bits of a thread's number that tell elements of one number apart."""
    if o.bits % 8:
        return f"elements of {o.bits} bits are parts of bytes"
    spread = spread_of(c, o)
    if isinstance(spread, str):
        return spread
    bits = min(32, o.bits)
    size, halves = bits // 8, max(1, o.bits // 32)
    first = min(spread.bytes) // 4
    last = (max(spread.bytes) + o.bits // 8 - 1) // 4
    unit = spread.threads[0] // c.participants
    mine = spread.threads // c.participants == unit
    rank = spread.threads[mine] % c.participants
    group = np.unique(rank & apart, return_inverse=True)[1].ravel()
    total = o.size * halves
    held = np.full((c.participants, (last - first + 1) * 4 // size), -1, dtype=np.int64)
    for s, byte in enumerate(spread.bytes):
        slot = (byte - 4 * first) // size
        for h in range(halves):
            held[rank, slot + h] = group * total + spread.elements[mine, s] * halves + h
    used = np.flatnonzero((held >= 0).any(axis=0))
    held = held[:, : int(used[-1]) + 1]
    total *= int(group.max()) + 1
    layout = TileLayout.from_iters([(total, 1, "m")])
    return Side(first, size, spread, Distribution(layout, held, total, bits))


def _plans(c: CallContext, own: bool) -> list[Plan] | str:
    both = sides(c)
    if isinstance(both, str):
        return both
    # The planner is loaded where there is something to plan: few kernels have an exchange.
    from ...redistribution.linear import linear_form, rounds_of, shuffle_plan, stays_in_warp, transfer
    from ...redistribution.shared import shared_plans

    source, target = (s.table for s in both)
    room = (MAX_SHARED - -(-c.storage.shared_bytes // ALIGN) * ALIGN) // units(c)
    a, b = linear_form(source), linear_form(target)
    path = transfer(a, b) if a is not None and b is not None else None
    found: list[Plan] = []
    reason = "there are more steps than a straight-line program should have"
    if path is None or a is None or b is None:
        made = element_plan(source, target)
        if isinstance(made, str):
            return made
        found.append(made)
    else:
        rounds = rounds_of(path, (32 // source.bits).bit_length() - 1)
        if not own and not isinstance(rounds, str):
            plan = shuffle_plan(source, target, rounds)
            if plan.kind == "shuffle":
                found.append(plan)
        alone = stays_in_warp(path) and (own or c.participants <= WARP)
        if room >= 16:
            found += [p for p in shared_plans(source, target, a, b, alone, 1 << (room.bit_length() - 1)) if not _byte_rows(p)]
    kept = [p for p in found if len(p.steps) <= MAX_STEPS and p.shared <= room]
    if any(p.shared > room for p in found) or (not found and room < MAX_SHARED):
        reason = f"{room} bytes of shared memory are left for each unit of threads"
    return kept or reason


def _byte_rows(p: Plan) -> bool:
    return any(isinstance(s, (Put, Get)) and s.matrix == "trans8" for s in p.steps)


def needed(c: CallContext) -> str | None:
    """Why no exchange is needed: threads hold what they get; None if it is."""
    return "each thread holds what it gets" if not isinstance(moved_bytes(c), str) else None


# -- any layout --------------------------------------------------------------------------------------------------------


def element_plan(source: Distribution, target: Distribution) -> Plan | str:
    """Element by element through a tile in the order of the elements: for extents that aren't powers of two."""
    size = source.bits // 8
    per_word = 4 // size
    if source.threads % WARP:
        return f"{source.threads} threads are not whole warps"
    b = Builder(source.words)
    columns = [k for k in range(source.held.shape[1]) if (source.held[:, k] >= 0).any()]
    addresses = [_address(source.held[:, k]) for k in columns]
    if any(a is None for a in addresses) or any((source.held[:, k] < 0).any() for k in columns):
        return "the elements that threads hold don't follow from the bits of their numbers"
    same = _copies(source.held[:, columns])
    if len(np.unique(source.held[same == 0][:, columns])) != int((same == 0).sum()) * len(columns):
        return "the source has copies of elements that don't follow from the bits of the threads' numbers"
    bits = (1 << (source.threads - 1).bit_length()) - 1
    mask = bits & ~int(np.bitwise_or.reduce(np.flatnonzero(same == 0)))
    whole = _whole(source.threads, same, mask)
    if whole is None:
        return "the source has copies of elements that don't follow from the bits of the threads' numbers"
    guard: Term = ("eq", ("and", "tid", whole), 0) if whole else None
    for k, at in zip(columns, addresses):
        word = b.gather([(k // per_word, k % per_word * size + j) if j < size else None for j in range(4)])
        assert word is not None
        b.steps.append(Put((word,), ("mul", at, size), 0, size, guard))
    b.steps.append(Barrier("cta"))
    got: dict[int, tuple[int, int]] = {}
    for k in range(target.held.shape[1]):
        if not (target.held[:, k] >= 0).any():
            continue
        place = _address(target.held[:, k])
        if place is None or (target.held[:, k] < 0).any():
            return "the elements that threads get don't follow from the bits of their numbers"
        out = b.new()
        b.steps.append(Get((out,), ("mul", place, size), 0, size))
        got[k] = (out, 0)
    outputs = []
    for first in range(0, target.words * per_word, per_word):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e in range(per_word):
            if first + e in got:
                value, _ = got[first + e]
                for j in range(size):
                    parts[e * size + j] = (value, j)
        outputs.append(b.gather(parts))
    shared = max(16, -(-source.size * size // 16) * 16)
    return Plan("shared", source.threads, source.words, pruned(b.steps, outputs), tuple(outputs), shared, "element by element")


def _copies(held: Array) -> Array:
    """For each thread whether an earlier one has the same elements (the number of the first that has them, else 0)."""
    _, first = np.unique(held, axis=0, return_index=True)
    return np.where(np.isin(np.arange(len(held)), first), 0, 1)


def _whole(threads: int, same: Array, mask: int) -> int | None:
    """The thread bits that are 0 in just the threads that are first, or None."""
    mine = (np.arange(threads) & mask) == 0
    return mask if np.array_equal(mine, same == 0) else None


def _address(elements: Array) -> Term | None:
    """``elements[t]`` as a sum over the bits of t, or None."""
    threads = len(elements)
    bits = (threads - 1).bit_length()
    base = int(elements[0])
    weights = [int(elements[1 << j]) - base if 1 << j < threads else 0 for j in range(bits)]
    found = base + sum((np.arange(threads) >> j & 1) * w for j, w in enumerate(weights))
    if not np.array_equal(np.broadcast_to(found, elements.shape), elements):
        return None
    term: Term = base
    j = 0
    while j < bits:
        run = 1
        while j + run < bits and weights[j] and weights[j + run] == weights[j] << run:
            run += 1
        if weights[j]:
            digit: Term = ("shr", "tid", j) if j else "tid"
            digit = ("and", digit, (1 << run) - 1) if j + run < bits else digit
            term = ("add", term, ("mul", digit, weights[j]))
        j += run
    return term
