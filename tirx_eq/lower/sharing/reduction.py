"""How the rows of a reduction are shared: which thread combines which elements, and which lanes combine their parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ...ir import IntImm, Op
from ..context import CallContext
from .holders import SCOPE_BITS, held, unit_of
from .spread import held_alike
from .work import active_threads

Array = np.ndarray
WARP_BITS = 0x1F


def reduce_op(c: CallContext) -> str:
    """sum, max or min."""
    if c.op != "reduce_negate":
        return c.op
    op = c.call.operand("reduce_op") if "reduce_op" in c.call.signature.operands else "sum"
    return op.short_name if isinstance(op, Op) else str(op)


def axes_of(c: CallContext) -> tuple[int, ...] | str:
    """The reduced dimensions, ascending, or why they make no sense."""
    rank = len(c.inputs[0].extents)
    given = c.call.operand("axes")
    out = set()
    for a in given if isinstance(given, (tuple, list)) else (given,):
        axis = a.value if isinstance(a, IntImm) else a
        if not isinstance(axis, int) or not -rank <= axis < rank:
            return f"there is no axis {axis} in {rank} dimensions"
        out.add(axis % rank)
    return tuple(sorted(out))


def rows_of(c: CallContext) -> Array:
    """(rows, elements of a row): numbers of source elements."""
    axes = axes_of(c)
    assert not isinstance(axes, str)
    src = c.inputs[0]
    kept = [d for d in range(len(src.extents)) if d not in axes]
    grid = np.arange(src.size).reshape(src.extents).transpose(*kept, *axes)
    return grid.reshape(int(np.prod([src.extents[d] for d in kept])), -1)


@dataclass(frozen=True, eq=False)
class RegisterShare:
    """A reduction of registers: ``groups[g]`` are the places that every thread combines for its g-th row, ``rows[t, g]`` that
    row's number, ``flips`` the lane bits over which the parts are combined, ``cross`` those of the warp's number;
    ``copies``: thread bits that leave all rows alike.
    """

    threads: Array
    groups: tuple[tuple[int, ...], ...]
    rows: Array
    flips: tuple[int, ...]
    cross: tuple[int, ...]
    copies: int


def register_share(c: CallContext) -> RegisterShare | str:
    """How a source in registers is reduced, or why it can't be by shuffles within warps."""
    share = spread_share(c)
    if isinstance(share, RegisterShare) and share.cross:
        return f"rows are spread over threads {share.cross[0]} apart, which are in different warps"
    return share


def spread_share(c: CallContext) -> RegisterShare | str:
    """How the rows of a source in registers are spread over threads, of several warps too, or why that isn't regular."""
    return c.once("share", lambda: _register_share(c))


def _register_share(c: CallContext) -> RegisterShare | str:
    src = c.inputs[0]
    alike = held_alike(c, src)
    if isinstance(alike, str):
        return alike
    _, threads, elements, byte = alike
    if not (byte == byte[:1]).all():
        return f"threads hold the elements of '{src.name}' in different registers"
    members = rows_of(c)
    row_of = np.empty(src.size, dtype=np.int64)
    row_of[members.ravel()] = np.repeat(np.arange(len(members)), members.shape[1])
    row = row_of[elements]
    first = {int(r): k for k, r in reversed(list(enumerate(row[0])))}
    order = sorted(first, key=lambda r: first[r])
    slots = [np.flatnonzero(row[0] == r) for r in order]
    if not all((row[:, s] == row[:, s[:1]]).all() for s in slots):
        return "threads hold different parts of their rows"
    rows = np.stack([row[:, s[0]] for s in slots], axis=1)
    flips, cross, copies = _flips(threads, rows, elements, SCOPE_BITS[c.scope])
    if (reason := _incomplete(threads, elements, slots, rows, (*flips, *cross), members)) is not None:
        return reason
    groups = tuple(tuple(int(byte[0, k]) for k in s) for s in slots)
    return RegisterShare(threads, groups, rows, flips, cross, copies)


def _flips(threads: Array, rows: Array, elements: Array, scope: int) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """The lane bits and the warp bits over which rows are spread, and the thread bits that change no row."""
    place = {int(t): k for k, t in enumerate(threads)}
    flips: list[int] = []
    cross: list[int] = []
    copies = 0
    for bit in range(10):
        if not scope >> bit & 1:
            continue
        other = np.array([place.get(int(t) ^ 1 << bit, -1) for t in threads])
        found = other >= 0
        if not found.all():
            # Of five warps, say, the last is a copy of the first, whose other bits have no partner.
            all_named = found[threads >> bit & 1 == 1].all() and found.any()
            if all_named and (rows[other] == rows)[found].all() and (elements[other] == elements)[found].all():
                copies |= 1 << bit
            continue
        if not (rows[other] == rows).all():
            continue
        copies |= 1 << bit
        if (elements[other] == elements).all():
            continue
        (flips if WARP_BITS >> bit & 1 else cross).append(1 << bit)
    return tuple(flips), tuple(cross), copies


def _incomplete(
    threads: Array, elements: Array, slots: list[Array], rows: Array, flips: tuple[int, ...], members: Array
) -> str | None:
    """None if each thread, with the lanes it exchanges with, has every element of its rows once."""
    place = np.full(1024, -1)
    place[threads] = np.arange(len(threads))
    partners = [sum(f for f, on in zip(flips, choice) if on) for choice in product((0, 1), repeat=len(flips))]
    seen = place[np.stack([threads ^ p for p in partners])]
    for g, s in enumerate(slots):
        gathered = np.sort(elements[seen][:, :, s].transpose(1, 0, 2).reshape(len(threads), -1), axis=1)
        wanted = np.sort(members[rows[:, g]], axis=1)
        if gathered.shape != wanted.shape or not np.array_equal(gathered, wanted):
            return f"the lanes that share row {int(rows[0, g])} have {gathered.shape[1]} of its {wanted.shape[1]} elements"
    return None


def result_bytes(c: CallContext, share: RegisterShare) -> list[int] | str:
    """The place of each row's result in the destination's registers, the same in all threads, or why there is none."""
    return held_rows(c, share.threads, share.rows)


def held_rows(c: CallContext, threads: Array, rows: Array) -> list[int] | str:
    """The places at which the threads hold the rows (threads, rows per thread) of a destination in registers."""
    dst = c.outputs[0]
    where = held(dst, unit_of(dst))
    if isinstance(where, str):
        return where
    byte = where.find(threads[:, None], rows)
    if (byte < 0).any():
        t, g = (int(i) for i in np.argwhere(byte < 0)[0])
        return f"thread {int(threads[t])} reduces row {int(rows[t, g])}, but doesn't hold its place in '{dst.name}'"
    if not (byte == byte[:1]).all():
        return f"threads hold their results in different registers of '{dst.name}'"
    for t, mine in zip(threads, rows):
        if len(where.elements_of(int(t))) != len(set(mine.tolist())):
            return f"thread {int(t)} holds elements of '{dst.name}' that it doesn't reduce"
    return [int(b) for b in byte[0]]


@dataclass(frozen=True, eq=False)
class MemoryShare:
    """A reduction of memory: ``group`` neighbouring lanes share each row; thread ``threads[t]`` works on rows ``rows[t, i]``
    (clamped to the last).  Rows are dealt out ``per`` at a time: two where their results share a byte of memory.
    """

    threads: Array
    group: int
    rows: Array
    members: Array
    dealt: bool
    per: int = 1


def memory_share(c: CallContext, group: int, dealt: bool = False) -> MemoryShare | str:
    """How a source in memory is reduced by groups of lanes, or why it can't be.

    ``dealt``: rows are dealt out in turn, even if the results are wanted in registers of certain threads.
    """
    key = ("memory share", group, dealt)
    return c.once(key, lambda: _memory_share(c, group, dealt))


def _memory_share(c: CallContext, group: int, dealt: bool) -> MemoryShare | str:
    members = rows_of(c)
    dst = c.outputs[0]
    threads = active_threads(c)
    if members.shape[1] % group:
        return f"rows of {members.shape[1]} elements are not a multiple of {group}"
    if dealt or dst.root.space != "local":
        per = 2 if dst.bits == 4 and not dealt else 1
        if len(members) % per:
            return f"{len(members)} results don't fill bytes of '{dst.buffer.name}', and no store is of 4 bits"
        count, per_round = len(members) // per, c.participants // group
        rounds = -(-count // per_round)
        rank = threads % c.participants
        first = np.minimum((rank // group)[:, None] + np.arange(rounds) * per_round, count - 1) * per
        rows = (first[:, :, None] + np.arange(per)).reshape(len(threads), -1)
        return MemoryShare(threads, group, rows, members, True, per)
    where = held(dst)
    if isinstance(where, str):
        return where
    if where.mask & ~SCOPE_BITS[c.scope]:
        return f"'{dst.name}' is spread over more threads than a {c.scope} has"
    if where.mask & (group - 1):
        return f"the {group} lanes of a group hold different rows of '{dst.name}'"
    per_key = {int(k): where.elements_of(int(k)) for k in np.unique(threads & where.mask)}
    if len({len(v) for v in per_key.values()}) != 1:
        return f"threads hold different numbers of elements of '{dst.name}'"
    rows = np.stack([per_key[int(k)] for k in threads & where.mask])
    return MemoryShare(threads, group, rows, members, False)
