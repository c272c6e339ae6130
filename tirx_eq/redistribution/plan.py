"""A plan: what every thread does with its 32-bit registers to get from one distribution to another.

Values are numbered; the first ``inputs`` are the source registers.  Each step names the values it reads and makes.  What
depends on the thread is an index term over ``tid``.  :func:`execute` runs a plan on the *names* of bytes, for all threads
at once: that is the proof that it moves every element where it must go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import ProofError
from ..ir.index import evaluate_many
from ..layout.conflicts import WARP

Term = Any
Array = np.ndarray


@dataclass(frozen=True)
class Permute:
    """``prmt.b32``: byte i of ``out`` is byte ``selector`` digit i (low first) of the eight bytes of ``a`` and ``b``."""

    out: int
    a: int
    b: int
    selector: int


@dataclass(frozen=True)
class Choose:
    """``selp``: ``out`` is ``a`` in threads where the term is 1, ``b`` where it is 0."""

    out: int
    condition: Term
    a: int
    b: int


@dataclass(frozen=True)
class Shuffle:
    """``shfl.sync``: ``out`` is ``value`` of lane ``lane`` of the same warp; ``flip`` if that is this lane XOR a constant."""

    out: int
    value: int
    lane: Term
    flip: int | None = None


@dataclass(frozen=True)
class Put:
    """Store of neighbouring words at byte ``address`` + ``offset``; ``width`` bytes in all (1 and 2: the low part of the
    word), in threads where ``guard`` is 1 (None: all).  ``matrix``: by ``stmatrix``, a word per
    matrix of eight rows of 16 bytes, lane 8 j + r giving the address of row r of matrix j: "matrix", "trans" (transposed,
    16-bit elements), "trans8" (transposed, 8-bit elements: 16 columns)."""

    words: tuple[int, ...]
    address: Term
    offset: int
    width: int
    guard: Term | None = None
    matrix: str = ""


@dataclass(frozen=True)
class Get:
    """Load of words; as :class:`Put`, but by ``ldmatrix``: "trans8" is of 16 rows and two words."""

    outs: tuple[int, ...]
    address: Term
    offset: int
    width: int
    guard: Term | None = None
    matrix: str = ""


@dataclass(frozen=True)
class Barrier:
    """All threads of ``scope`` (warp or cta) have arrived, and their stores are seen."""

    scope: str


Step = Permute | Choose | Shuffle | Put | Get | Barrier


@dataclass(frozen=True)
class Plan:
    """``outputs[i]``: the value that is destination register i, None where nothing is wanted.  ``shared``: bytes used."""

    kind: str
    threads: int
    inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int | None, ...]
    shared: int = 0
    note: str = ""

    @property
    def values(self) -> int:
        """Number of values."""
        made = [self.inputs]
        for s in self.steps:
            made += [v + 1 for v in outs_of(s)]
        return max(made)

    def count(self, kind: type) -> int:
        """Steps of a kind."""
        return sum(isinstance(s, kind) for s in self.steps)


def outs_of(step: Step) -> tuple[int, ...]:
    """Values that a step makes."""
    if isinstance(step, Get):
        return step.outs
    return (step.out,) if isinstance(step, (Permute, Choose, Shuffle)) else ()


def reads_of(step: Step) -> tuple[int, ...]:
    """Values that a step reads."""
    if isinstance(step, (Permute, Choose)):
        return (step.a, step.b)
    if isinstance(step, Shuffle):
        return (step.value,)
    return step.words if isinstance(step, Put) else ()


@dataclass
class Builder:
    """Steps of a plan being made; equal steps are made once."""

    inputs: int
    steps: list[Step] = field(default_factory=list)
    made: dict[Any, int] = field(default_factory=dict)
    next: int = 0

    def __post_init__(self) -> None:
        self.next = self.inputs

    def new(self) -> int:
        self.next += 1
        return self.next - 1

    def _once(self, key: Any, make: Any) -> int:
        if key not in self.made:
            self.made[key] = self.new()
            self.steps.append(make(self.made[key]))
        return self.made[key]

    def choose(self, condition: Term, a: int, b: int) -> int:
        if a == b:
            return a
        return self._once(("choose", condition, a, b), lambda out: Choose(out, condition, a, b))

    def shuffle(self, value: int, lane: Term, flip: int | None) -> int:
        if flip == 0:
            return value
        return self._once(("shuffle", value, lane), lambda out: Shuffle(out, value, lane, flip))

    def permute(self, a: int, b: int, selector: int) -> int:
        return self._once(("permute", a, b, selector), lambda out: Permute(out, a, b, selector))

    def gather(self, wanted: Sequence[tuple[int, int] | None]) -> int | None:
        """The word whose byte i is byte ``wanted[i][1]`` of value ``wanted[i][0]`` (None: any); None if nothing is."""
        sources = sorted({w[0] for w in wanted if w is not None})
        if not sources:
            return None
        if len(sources) == 1 and all(w is None or w[1] == i for i, w in enumerate(wanted)):
            return sources[0]
        if len(sources) > 2:
            low = [w if w is not None and w[0] in sources[:2] else None for w in wanted]
            high = [w if w is not None and w[0] not in sources[:2] else None for w in wanted]
            first, second = self.gather(low), self.gather(high)
            assert first is not None and second is not None
            return self.gather([(first, i) if low[i] else (second, i) if high[i] else None for i in range(4)])
        a, b = sources[0], sources[-1]
        selector = 0
        for i, w in enumerate(wanted):
            digit = i if w is None else w[1] + (4 if w[0] == b and b != a else 0)
            selector |= digit << (4 * i)
        return self.permute(a, b, selector)


def pruned(steps: Sequence[Step], outputs: Sequence[int | None]) -> tuple[Step, ...]:
    """Steps without those whose results nobody reads."""
    wanted = {v for v in outputs if v is not None}
    kept: list[Step] = []
    for step in reversed(steps):
        outs = outs_of(step)
        if outs and not any(o in wanted for o in outs):
            continue
        wanted.update(reads_of(step))
        kept.append(step)
    return tuple(reversed(kept))


# -- terms over the thread number --------------------------------------------------------------------------------------


def parity_term(mask: int) -> Term:
    """1 where an odd number of the thread number's bits in ``mask`` is set."""
    term: Term = None
    for bit in range(mask.bit_length()):
        if mask >> bit & 1:
            part = ("shr", "tid", bit) if bit else "tid"
            term = part if term is None else ("xor", term, part)
    return 0 if term is None else ("and", term, 1)


def linear_term(columns: Sequence[int], constant: int = 0) -> Term:
    """``constant`` XOR the columns of the thread number's set bits, as shifted fields."""
    fields: dict[int, int] = {}
    for j, column in enumerate(columns):
        for i in range(column.bit_length()):
            if column >> i & 1:
                fields[i - j] = fields.get(i - j, 0) | 1 << j
    term: Term = None
    whole = (1 << len(columns)) - 1
    for shift in sorted(fields):
        part: Term = "tid" if fields[shift] == whole else ("and", "tid", fields[shift])
        part = ("shl", part, shift) if shift > 0 else ("shr", part, -shift) if shift < 0 else part
        term = part if term is None else ("xor", term, part)
    if term is None:
        return constant
    return ("xor", term, constant) if constant else term


# -- execution on names ------------------------------------------------------------------------------------------------


def thread_values(term: Term, threads: int) -> Array:
    """The term for every thread."""
    found = evaluate_many(term, {"tid": np.arange(threads, dtype=np.int64)})
    return np.broadcast_to(np.asarray(found, dtype=np.int64), (threads,))


def matrix_place(step: Put | Get, word: int, byte: int) -> tuple[Term, Term]:
    """(lane that gives the row's address, byte within the row) of a byte of a thread's word in a matrix access.

    PTX ISA 9.7.14.5.15-16, figures of the fragments; lane l = 4 i + j.  Plain: row i, word j.  Transposed, 16 bits: column i
    of rows 2 j, 2 j + 1.  Transposed, 8 bits: stored, bytes i and then i + 8, of rows 2 j, 2 j + 1; loaded, byte i (the second
    word: i + 8) of rows 4 j to 4 j + 3.
    """
    i: Term = ("div", ("mod", "tid", WARP), 4)
    j: Term = ("mod", "tid", 4)
    if step.matrix == "matrix":
        return ("add", i, 8 * word), ("add", ("mul", j, 4), byte)
    if step.matrix == "trans":
        return ("add", ("mul", j, 2), 8 * word + byte // 2), ("add", ("mul", i, 2), byte % 2)
    if isinstance(step, Put):
        return ("add", ("mul", j, 2), 8 * word + byte % 2), ("add", i, 8 * (byte // 2))
    return ("add", ("mul", j, 4), 16 * (word // 2) + byte), ("add", i, 8 * (word % 2))


def rows_of_matrices(step: Put | Get, threads: int) -> tuple[Array, Array]:
    """(byte addresses that each thread touches: (threads, 4 bytes per word), addresses given by lanes)."""
    given = thread_values(step.address, threads) + step.offset
    count = len(step.words) if isinstance(step, Put) else len(step.outs)
    base = np.arange(threads) // WARP * WARP
    parts = []
    for j in range(count):
        for byte in range(4):
            giver, within = matrix_place(step, j, byte)
            parts.append(given[base + thread_values(giver, threads)] + thread_values(within, threads))
    return np.stack(parts, axis=1), given


def execute(plan: Plan, source: Array) -> Array:
    """The bytes of the destination registers, given those of the source: both (threads, registers, 4) of byte names, -1
    for unknown.  ProofError for shared memory that is read before a barrier orders its store, or beyond its end, or
    unaligned."""
    n = plan.threads
    names: dict[int, Array] = {i: source[:, i] for i in range(plan.inputs)}
    memory = np.full(max(plan.shared, 1), -1, dtype=np.int64)
    writer = np.zeros(max(plan.shared, 1), dtype=np.int64)
    pending = np.zeros(max(plan.shared, 1), dtype=np.int64)  # 2: just stored, 1: its own warp may read, 0: all may
    reader = np.zeros(max(plan.shared, 1), dtype=np.int64)  # the warp that has read, -1 for several
    busy = np.zeros(max(plan.shared, 1), dtype=np.int64)  # as ``pending``, of reads
    warp = np.arange(n)[:, None] // WARP
    for step in plan.steps:
        if isinstance(step, Permute):
            both = np.concatenate([names[step.a], names[step.b]], axis=1)
            names[step.out] = both[:, [step.selector >> (4 * i) & 7 for i in range(4)]]
        elif isinstance(step, Choose):
            where = thread_values(step.condition, n)
            if ((where != 0) & (where != 1)).any():
                raise ProofError("convert: a condition is neither 0 nor 1")
            names[step.out] = np.where(where[:, None] == 1, names[step.a], names[step.b])
        elif isinstance(step, Shuffle):
            lane = thread_values(step.lane, n)
            if ((lane < 0) | (lane >= WARP)).any():
                raise ProofError("convert: a shuffle reads a lane that doesn't exist")
            names[step.out] = names[step.value][np.arange(n) // WARP * WARP + lane]
        elif isinstance(step, Barrier):
            pending = np.minimum(pending, 1 if step.scope == "warp" else 0)
            busy = np.minimum(busy, 1 if step.scope == "warp" else 0)
        elif isinstance(step, Put):
            at, live = _touched(step, plan)
            data = np.stack([names[w] for w in step.words], axis=1).reshape(n, -1)[:, : at.shape[1]]
            mine = np.broadcast_to(warp, at.shape)[live]
            taken = at[live]
            if ((busy[taken] == 2) | ((busy[taken] == 1) & (reader[taken] != mine))).any():
                raise ProofError("convert: a store overwrites what a load may still read")
            memory[taken] = data[live]
            pending[at[live]] = 2
            writer[taken] = mine
        else:
            at, live = _touched(step, plan)
            at = np.where(live[:, None], at, 0)
            unordered = (pending[at] == 2) | ((pending[at] == 1) & (writer[at] != warp))
            if unordered[live].any():
                raise ProofError("convert: a load reads what no barrier has ordered")
            mine, taken = np.broadcast_to(warp, at.shape)[live], at[live]
            order = np.argsort(taken, kind="stable")
            several = (taken[order][1:] == taken[order][:-1]) & (mine[order][1:] != mine[order][:-1])
            shared_by = np.unique(taken[order][1:][several])
            again = (busy[taken] > 0) & (reader[taken] != mine)
            reader[taken] = np.where(again, -1, mine)
            reader[shared_by] = -1
            busy[taken] = 2
            got = np.full((n, 4 * len(step.outs)), -1, dtype=np.int64)
            got[:, : at.shape[1]] = np.where(live[:, None], memory[at], -1)
            for k, out in enumerate(step.outs):
                names[out] = got[:, 4 * k : 4 * k + 4]
    empty = np.full((n, 4), -1, dtype=np.int64)
    return np.stack([empty if v is None else names[v] for v in plan.outputs], axis=1)


def _touched(step: Put | Get, plan: Plan) -> tuple[Array, Array]:
    """(byte addresses (threads, bytes), threads that take part) of an access."""
    n = plan.threads
    if step.matrix:
        at, given = rows_of_matrices(step, n)
        aligned = not (given % 16).any()
    else:
        start = thread_values(step.address, n) + step.offset
        at = start[:, None] + np.arange(step.width)
        aligned = not (start % step.width).any()
    live = np.ones(n, dtype=bool) if step.guard is None else thread_values(step.guard, n) == 1
    if at[live].min(initial=0) < 0 or at[live].max(initial=0) >= plan.shared or not aligned:
        raise ProofError("convert: an access is unaligned or outside of its shared memory")
    return at, live
