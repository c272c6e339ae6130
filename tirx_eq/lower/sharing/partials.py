"""Reductions whose rows are spread over several warps: each warp's partial results in shared memory, and who adds them up.

A partial has a place for its row and for the part of the row (``parts`` of them, one per warp that has some of it).  Those
who want a row's result read its partials, ``lanes`` neighbouring threads each a share of them, which they combine by shuffles.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import EQ, Expr, Min, const
from ...ir import dtype as dt
from ...ir.arith import binary, logical_and
from ..code.recipes import accumulator
from ..context import CallContext
from .holders import digit_sum, thread_expr
from .reduction import MemoryShare, memory_share, rows_of, spread_share
from .spread import held_alike
from .threads import WARP

Array = np.ndarray


@dataclass(frozen=True)
class Way:
    """How it is done.  ``group``: threads that share a row of a source in memory (0: the source is in registers);
    ``outer``: partials of one part for all rows are neighbours, else the parts of a row; ``lanes`` that share a row's partials.
    """

    group: int
    outer: bool
    lanes: int

    @property
    def code(self) -> int:
        return self.group * 1000 + self.outer * 100 + self.lanes

    @staticmethod
    def of(code: int) -> Way:
        return Way(code // 1000, bool(code // 100 % 10), code % 100)

    def describe(self) -> str:
        group = f"groups of {self.group}, " if self.group else ""
        return f"{group}{'parts' if self.outer else 'rows'} together, {self.lanes} lanes read"


@dataclass(frozen=True, eq=False)
class Partials:
    """What each thread has before the exchange: its ``rows`` (numbers as expressions), the part of them that it has, and where
    it is the one that stores (None: everywhere)."""

    rows: tuple[Expr, ...]
    part: Expr
    parts: int
    stores: tuple[Expr | None, ...]


@dataclass(frozen=True, eq=False)
class Readers:
    """What each thread does after it: the rows it combines, its number among the ``lanes`` that share them, the lane bits in
    which those differ, the bytes of its results in registers, and where it stores a result to memory."""

    rows: tuple[Expr, ...]
    share: Expr
    flips: tuple[int, ...]
    bytes: tuple[int, ...]
    stores: tuple[Expr | None, ...]


def ways(c: CallContext) -> list[int]:
    """Codes of the ways worth trying."""
    if c.inputs[0].root.space != "local":
        groups = [g for g in (64, 128, 256, 512, 1024) if g <= c.participants and c.participants % g == 0]
        groups += [c.participants] if c.participants > WARP and c.participants not in groups else []
        return [Way(g, False, n).code for g in groups for n in sorted({1, g // WARP if g & (g - 1) == 0 else 1})]
    found = partials(c, 0)
    parts = 1 if isinstance(found, str) else found.parts
    lanes = [n for n in (1, 2, 4, 8, 16, 32) if n <= parts]
    return [Way(0, outer, n).code for outer in (False, True) for n in lanes]


def register_partials(c: CallContext) -> Partials | str:
    """The partials of a source in registers, or why they can't be told apart."""
    share = spread_share(c)
    if isinstance(share, str):
        return share
    cross = sum(share.cross)
    rows = tuple(thread_expr(c, share.threads, share.rows[:, g]) for g in range(share.rows.shape[1]))
    if any(r is None for r in rows):
        return "the rows that threads reduce don't follow from the bits of their numbers"
    tid = c.launch.flat_tid()
    weights, count = [0] * 10, 0
    for bit in share.cross:
        weights[bit.bit_length() - 1] = 1 << count
        count += 1
    alike = share.copies & ~cross
    unit = share.threads[share.threads // c.participants == share.threads[0] // c.participants]
    storing = np.flatnonzero(unit & alike == 0)
    partial = np.concatenate([share.rows[storing, g] << 10 | unit[storing] & cross for g in range(len(rows))])
    if len(np.unique(partial)) != len(partial):
        return "which of the threads that hold a row's part stores it doesn't follow from the bits of their numbers"
    stores = binary(EQ, tid & alike, 0) if alike else None
    part = digit_sum(tid, weights, c.launch.threads)
    return Partials(rows, part, 1 << count, (stores,) * len(rows))  # type: ignore[arg-type]


def memory_partials(c: CallContext, group: int) -> Partials | str:
    """The same of a source in memory, whose rows groups of threads share."""
    share = memory_groups(c, group)
    if isinstance(share, str):
        return share
    per_round = c.participants // group
    rows, stores = [], []
    first = binary(EQ, c.launch.flat_tid() % WARP, 0)
    for i in range(share.rows.shape[1]):
        row, inside = _dealt(c, i, per_round, group, len(share.members))
        rows.append(row)
        stores.append(first if inside is None else logical_and(first, inside))
    return Partials(tuple(rows), c.rank() % group // WARP, group // WARP, tuple(stores))


def memory_groups(c: CallContext, group: int) -> MemoryShare | str:
    """The rows of memory dealt out to groups of more than a warp, whoever gets the results."""
    return memory_share(c, group, dealt=True)


def _dealt(c: CallContext, i: int, per_round: int, group: int, rows: int) -> tuple[Expr, Expr | None]:
    """A group's i-th row, never beyond the last, and where it isn't (None: nowhere)."""
    row = c.rank() // group + i * per_round
    if (i + 1) * per_round <= rows:
        return row, None
    return binary(Min, row, rows - 1), c.rank() < (rows - i * per_round) * group


def readers(c: CallContext, lanes: int) -> Readers | str:
    """Who reads the partials of which rows, or why ``lanes`` threads can't share them."""
    key = ("readers of partials", lanes)
    return c.once(key, lambda: _readers(c, lanes))


def _readers(c: CallContext, lanes: int) -> Readers | str:
    dst = c.outputs[0]
    count = dst.size
    tid = c.launch.flat_tid()
    if dst.root.space != "local" and dst.bits == 4:
        return f"threads write single elements of '{dst.buffer.name}', and no store is of 4 bits"
    if dst.root.space != "local":
        if c.participants < lanes:
            return f"a {c.scope} has fewer threads than {lanes}"
        per_round = c.participants // lanes
        found = [_dealt(c, i, per_round, lanes, count) for i in range(-(-count // per_round))]
        first = binary(EQ, c.rank() % lanes, 0) if lanes > 1 else None
        stores = tuple(
            first if inside is None else inside if first is None else logical_and(first, inside) for _, inside in found
        )
        share = c.rank() % lanes if lanes > 1 else const(0)
        flips = tuple(1 << b for b in range(lanes.bit_length() - 1))
        return Readers(tuple(row for row, _ in found), share, flips, (), stores)
    alike = held_alike(c, dst)
    if isinstance(alike, str):
        return alike
    where, threads, held_rows, byte = alike
    if not (byte == byte[:1]).all():
        return f"threads hold their results in different registers of '{dst.name}'"
    if len(where.parts) > 1 and _copies_inside(where.parts, where.byte):
        return f"threads hold several copies of an element of '{dst.name}'"
    rows = [thread_expr(c, threads, held_rows[:, i]) for i in range(held_rows.shape[1])]
    if any(r is None for r in rows):
        return "the rows that threads hold don't follow from the bits of their numbers"
    free = [1 << b for b in range(5) if not where.mask >> b & 1]
    wanted = lanes.bit_length() - 1
    if len(free) < wanted:
        return f"{1 << len(free)} lanes hold the same rows of '{dst.name}', {lanes} are wanted"
    weights = [0] * 10
    for k, bit in enumerate(free[:wanted]):
        weights[bit.bit_length() - 1] = 1 << k
    share = digit_sum(tid, weights, c.launch.threads)
    places = tuple(int(b) for b in byte[0])
    return Readers(tuple(r for r in rows if r is not None), share, tuple(free[:wanted]), places, (None,) * len(rows))


def _copies_inside(parts: Array, byte: Array) -> bool:
    """Whether one thread has two copies of an element, at different bytes."""
    for a in range(len(parts)):
        for b in range(a):
            if ((parts[a] == parts[b]) & (byte[a] != byte[b])).any():
                return True
    return False


def partials(c: CallContext, group: int) -> Partials | str:
    """The partials of a call."""
    key = ("partials", group)
    return c.once(key, lambda: memory_partials(c, group) if group else register_partials(c))


def rows_count(c: CallContext) -> int:
    """Results of one execution of the call by a unit."""
    return len(rows_of(c))


#: Values that one thread combines, reads and stores: beyond, the straight-line program would be too long.
MAX_STEPS = 512


def value_bytes(c: CallContext) -> int:
    """Bytes of a partial result."""
    return dt.bits(accumulator(c.inputs[0].dtype)) // 8


def scratch_bytes(c: CallContext, way: Way) -> int:
    """Bytes of the partial results of a unit of threads."""
    found = partials(c, way.group)
    assert isinstance(found, Partials)
    return rows_count(c) * found.parts * value_bytes(c)


def steps(c: CallContext, way: Way) -> int:
    """About how many values a thread deals with."""
    found, mine = partials(c, way.group), readers(c, way.lanes)
    if isinstance(found, str) or isinstance(mine, str):
        return 0
    if way.group:
        share = memory_groups(c, way.group)
        own = 0 if isinstance(share, str) else share.rows.shape[1] * share.members.shape[1] // way.group
    else:
        spread = spread_share(c)
        own = 0 if isinstance(spread, str) else sum(map(len, spread.groups))
    return own + len(found.rows) + len(mine.rows) * found.parts // way.lanes
