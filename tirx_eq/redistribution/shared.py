"""Through shared memory: every element is stored once and loaded where it is wanted.

For linear distributions the memory layout is free, so it is chosen: its lowest bits are register directions that both sides
share, then those of one side (whose accesses become as wide as 16 bytes), and the banks are a synthesised XOR matrix under
which neither side conflicts.  Where 16-byte rows lie along the lanes as 8x8 matrices have them, transposed or not,
``stmatrix`` and ``ldmatrix`` move four registers at once.  Other distributions go through a row-major tile, padded or
swizzled by :func:`best_layout` (``table``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..layout.conflicts import PHASE_LANES, WARP
from ..layout.linear import echelon, reduce_by
from .distribution import Distribution
from .gf2_maps import Solver, apply, extend, intersection, rank, span, units, within
from .linear import LinearForm
from .plan import Barrier, Builder, Get, Plan, Put, Term, linear_term, parity_term, pruned
from .swizzle_synthesis import Phase, annihilator, complete, conflict_free, parity, synthesise

WIDEST = 16  # bytes of an access
MAX_SHARED = 232_448


@dataclass(frozen=True)
class Side:
    """One side of the way: ``low`` are the slot vectors that make up one access of ``width`` bytes per lane, ``slots`` a basis
    of the slots that start one, ``guard`` the thread bits that are 0 in threads that store (others hold further copies).

    ``mode``: ``"vector"``; ``"matrix"``: matrices whose rows lie along lanes 0-3; ``"trans"``: transposed matrices of 16-bit
    elements, whose rows lie along the lanes' groups of four; ``"trans8"``: of 8-bit elements, with a register direction
    (``pair``) as the row's highest bit.

    ``rounds``: the slots with which each round through the memory begins, ``turns`` what its threads have in common: the
    parities of their numbers under the masks of ``split``.
    """

    form: LinearForm
    low: tuple[int, ...]
    slots: tuple[int, ...]
    guard: int
    width: int
    mode: str = "vector"
    pair: int = 0
    rounds: tuple[int, ...] = (0,)
    split: tuple[int, ...] = ()
    turns: tuple[int, ...] = (0,)


@dataclass(frozen=True)
class Memory:
    """The address of an element as a linear map: ``columns[i]`` is the byte address of element bit i; ``bytes`` in all."""

    columns: tuple[int, ...]
    bytes: int


def shared_plans(
    src: Distribution, dst: Distribution, a: LinearForm, b: LinearForm, in_warp: bool, scratch: int = MAX_SHARED
) -> Iterator[Plan]:
    """One plan per order of the low address bits and way of access of either side; without conflicts but for the first,
    which has the fewest.  What is larger than ``scratch`` bytes goes in rounds, each a part of the slots of both sides; no
    plan if there is no such part."""
    if len(a.threads) != len(b.threads) or rank([*a.slots, *a.threads]) < a.bits:
        return
    size = src.bits // 8
    halvings = max(0, ((1 << a.bits) * size - 1).bit_length() - (scratch.bit_length() - 1))
    seen = set()
    for low in _orders(a, b, size):
        if low in seen:
            continue
        seen.add(low)
        for store in _sides(a, low, size, True):
            for load in _sides(b, low, size, False):
                first = len(seen) == 1 and store.mode == load.mode == "vector"
                found = _in_rounds(low, (store, load), halvings)
                if found is None:
                    continue
                functionals, sides = found
                memory = _memory(a, low, sides, size, functionals, must=first)
                plan = None if memory is None else _plan(src, dst, memory, sides, size, in_warp)
                if plan is not None:
                    yield plan


def _orders(a: LinearForm, b: LinearForm, size: int) -> Iterator[tuple[int, ...]]:
    """Element vectors for the low address bits: directions that both sides have in registers, then those and one side's,
    then what the matrix instructions of either side need."""
    most = (WIDEST // size).bit_length() - 1
    word = (4 // size).bit_length() - 1
    common = intersection(a.slots, b.slots)
    prefer = [v for v in (*a.slots[:word], *b.slots[:word], *a.slots, *b.slots) if not reduce_by(echelon(common), v)]
    start = extend([], [*prefer, *common], most)
    yield tuple(start)
    for mine, other in ((b, a), (a, b)):
        yield tuple(extend(start, mine.slots, most))
        yield tuple(extend([], mine.slots, most))
        wide = [(*other.slots[:word], *other.threads[:2])]
        if size == 2:
            wide.append(other.threads[2:5])
        if size == 1:  # the fourth bit: a register of this side, best one that the other has in registers, too
            both = [v for v in other.slots if not reduce_by(echelon(mine.slots), v)]
            wide += [(*other.threads[2:5], v) for v in [*both, *other.slots][:2]]
        for rows in wide:
            if rows and rank(rows) == len(rows) <= most:
                yield tuple(rows)


def _sides(form: LinearForm, low: Sequence[int], size: int, store: bool) -> Iterator[Side]:
    """The ways in which a side can access memory with these low bits."""
    word = (4 // size).bit_length() - 1
    yield _side(form, low, size, store, "vector")
    if len(form.threads) < 5:
        return
    if tuple(low) == (*form.slots[:word], *form.threads[:2]) and len(form.slots) >= word:
        matrix = _side(form, low, size, store, "matrix")
        if matrix.width == 4 and not matrix.guard:
            yield matrix
    inner = [v for v in form.slots if v][:1]
    if size == 2 and tuple(low) == form.threads[2:5] and inner and rank([*low, *inner]) == 4:
        trans = _side(form, inner, size, store, "trans")
        if trans.width == 4 and not trans.guard:
            yield trans
    if size == 1 and tuple(low[:3]) == form.threads[2:5] and len(low) == 4:
        yield from _trans8(form, low[3], store)


def _trans8(form: LinearForm, highest: int, store: bool) -> Iterator[Side]:
    """Transposed matrices of bytes whose 16-byte rows end in the register direction of element vector ``highest``."""
    pair = Solver(form.slots).solve(highest)
    if pair is None:
        return
    free = [apply(form.slots, s) for s in extend([pair], units((1 << len(form.slots)) - 1), len(form.slots))[1:]]
    inner = [*free[:1], highest] if store else free[:2]
    if len(inner) < 2 or rank([*inner, highest]) < (2 if store else 3):
        return
    side = _side(form, inner if store else [*inner, highest], 1, store, "trans8")
    if side.width == (4 if store else 8) and not side.guard:
        yield replace(side, pair=pair, width=4 if store else 8)


def _side(form: LinearForm, low: Sequence[int], size: int, store: bool, mode: str) -> Side:
    solver = Solver(form.slots)
    mine: list[int] = []
    for v in low:
        s = solver.solve(v)
        if s is None:
            break
        mine.append(s)
    n = len(form.slots)
    # Copies within a thread are stored or loaded once; copies in other threads are stored by one of them.
    copies = echelon(solver.kernel)
    skipped = sum(1 << (v.bit_length() - 1) for v in copies)
    guard = 0
    if store:
        leads = [v.bit_length() - 1 - n for v in echelon(Solver([*form.slots, *form.threads]).kernel)]
        guard = sum(1 << lead for lead in leads if lead >= 0)
    free = units(((1 << n) - 1) & ~skipped)
    starts = extend([*copies, *mine], free, n)[len(copies) + len(mine) :]
    return Side(form, tuple(mine), tuple(starts), guard, min(WIDEST, size << len(mine)), mode)


def _in_rounds(
    low: Sequence[int], sides: tuple[Side, Side], halvings: int
) -> tuple[list[int], tuple[Side, Side]] | None:
    """Parities of an element's bits that tell its round, and the sides with what they do in each; None if there are too few.

    A parity is the same within an access.  Either it is the same in all threads of both sides, and a round is a part of the
    slots of all; or only in those that load, and in each round other threads store.
    """
    if not halvings:
        return [], sides
    store, load = sides
    inner = [*low, *(apply(s.form.slots, x) for s in sides for x in s.low), *load.form.threads]
    bits = store.form.bits
    functionals = annihilator([*inner, *store.form.threads], bits)[:halvings]
    by_slots = len(functionals)
    if by_slots < halvings and store.mode == "vector":
        functionals = functionals + annihilator([*inner, *store.form.slots], bits)[: halvings - by_slots]
    if len(functionals) < halvings or rank(functionals) < halvings:
        return None

    def number(element: int) -> int:
        return sum(parity(f & element) << i for i, f in enumerate(functionals))

    made = []
    for side in sides:
        form = side.form
        mine = by_slots if side is store else halvings  # parities that the slots tell on this side
        copies = echelon(Solver(form.slots).kernel)
        skipped = sum(1 << (v.bit_length() - 1) for v in copies)
        free = units(((1 << len(form.slots)) - 1) & ~skipped)
        numbers = [number(apply(form.slots, s)) & ((1 << mine) - 1) for s in free]
        inside = within(free, numbers)
        used = [*copies, *side.low]
        starts = extend(used, inside, len(used) + len(side.slots) - mine)[len(used) :]
        choose = Solver(numbers)
        wanted = [r ^ number(form.constant) for r in range(1 << halvings)]
        first = [choose.solve(r & ((1 << mine) - 1)) for r in wanted]
        split = tuple(sum(parity(f & t) << j for j, t in enumerate(form.threads)) for f in functionals[mine:])
        made.append(replace(side, slots=tuple(starts), rounds=tuple(apply(free, x or 0) for x in first), split=split,
                            turns=tuple(r >> mine for r in wanted)))  # fmt: skip
    return functionals, (made[0], made[1])


def _memory(
    a: LinearForm, low: Sequence[int], sides: tuple[Side, Side], size: int, functionals: Sequence[int], must: bool
) -> Memory | None:
    """The address map without conflicts for these low bits; if there is none, None or (``must``) that with the fewest.

    Elements that differ in a round's parities share addresses.
    """
    every = units((1 << a.bits) - 1)
    inside = within(every, [sum(parity(f & u) << i for i, f in enumerate(functionals)) for u in every])
    bits = a.bits - len(functionals)
    position = Solver(extend(extend(low, inside, bits), every, a.bits))
    columns = []
    for u in every:
        x = position.solve(u)
        assert x is not None
        columns.append(x & ((1 << bits) - 1))
    sub = (4 // size).bit_length() - 1
    words = bits - sub
    widest = max(WIDEST if s.mode != "vector" else s.width for s in sides)
    kept = max(0, (widest // 4).bit_length() - 1)
    phases = []
    for side in sides:
        lanes = PHASE_LANES[side.width]
        vector = [apply(columns, apply(side.form.slots, x)) for x in span(side.low)] or [0]
        group = []
        # Eight rows of 16 bytes: of byte matrices that are loaded, those of the lanes whose bit 1 is off.
        half = side.mode == "trans8" and side.width == 8
        for lane in [x for x in range(WARP) if not x & 2] if half else range(lanes):
            if lane & side.guard or any(parity(mask & lane) for mask in side.split):
                continue
            at = apply(columns, apply(side.form.threads, lane))
            group += [(at ^ v) >> sub for v in vector[: side.width // size]]
        issued = (1 << len(side.slots)) * max(1, size * len(vector) // side.width)
        phases.append(Phase(tuple(sorted(set(group))), issued * (WARP // lanes)))
    if words <= 0:
        rows: list[int] = []
    else:
        found = conflict_free(words, min(kept, words), phases)
        if found is None and not must:
            return None
        found = found or synthesise(words, min(kept, words), phases)
        rows = complete(found.rows, words)
    swizzled = []
    for c in columns:
        word = sum(parity(row & (c >> sub)) << i for i, row in enumerate(rows))
        swizzled.append((word << 2) | (c & ((1 << sub) - 1)) * size)
    return Memory(tuple(swizzled), max(16, (1 << bits) * size))


def _plan(
    src: Distribution, dst: Distribution, memory: Memory, sides: tuple[Side, Side], size: int, in_warp: bool
) -> Plan | None:
    """Stores, a barrier, loads; None if the addresses don't suit the matrix instructions after all."""
    b = Builder(src.words)
    store, load = sides
    alone = in_warp and store.guard < WARP  # else a warp reads what another has stored
    barrier = Barrier("warp" if alone else "cta")
    found: dict[int, tuple[int, int]] = {}
    per_word = 4 // size
    for number, (begin, turn, there) in enumerate(zip(store.rounds, store.turns, load.rounds)):
        puts = _puts(b, store, memory, size, begin, _guard(store, turn))
        gets = _gets(b, load, memory, size, there, found)
        if puts is None or gets is None:
            return None
        b.steps += [*([barrier] if number else []), *puts, barrier, *gets]
    copies = echelon(Solver(load.form.slots).kernel)
    by_copy = {reduce_by(copies, s): v for s, v in found.items()}
    outputs: list[int | None] = []
    for first in range(0, dst.words * per_word, per_word):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e in range(per_word):
            slot = first + e - load.form.first
            if not 0 <= slot < 1 << len(load.form.slots):
                continue
            value, byte = by_copy[reduce_by(copies, slot)]
            for k in range(size):
                parts[e * size + k] = (value, byte + k)
        outputs.append(b.gather(parts))
    note = f"{_described(store, 'store')}, {_described(load, 'load')}"
    if len(store.rounds) > 1:
        note += f", in {len(store.rounds)} rounds"
    return Plan("shared", src.threads, src.words, pruned(b.steps, outputs), tuple(outputs), memory.bytes, note)


def _puts(b: Builder, store: Side, memory: Memory, size: int, begin: int, guard: Term | None) -> list[Put] | None:
    """The stores of a round, by the threads for which ``guard`` is 1."""
    per_word = 4 // size
    puts: list[Put] = []
    for words, address, offset, width in _groups(store, memory, size, begin):
        made = []
        for word in words:
            wanted: list[tuple[int, int] | None] = [None] * 4
            for i, slot in enumerate(word):
                slot += store.form.first
                for k in range(size):
                    wanted[i * size + k] = (slot // per_word, slot % per_word * size + k)
            value = b.gather(wanted)
            assert value is not None
            made.append(value)
        puts.append(Put(tuple(made), address, offset, width, guard))
    if store.mode == "vector":
        return puts
    merged = _matrices(store, memory, [p.words for p in puts], begin)
    return None if merged is None else [Put(w, address, offset, 4, None, store.mode) for w, address, offset in merged]


def _gets(
    b: Builder, load: Side, memory: Memory, size: int, begin: int, found: dict[int, tuple[int, int]]
) -> list[Get] | None:
    """The loads of a round; ``found`` gets the (value, byte) of each slot."""
    gets: list[Get] = []
    for groups, address, offset, width in _groups(load, memory, size, begin):
        outs = tuple(b.new() for _ in groups)
        gets.append(Get(outs, address, offset, width))
        for out, word in zip(outs, groups):
            for i, slot in enumerate(word):
                found[slot] = (out, i * size)
    if load.mode == "vector":
        return gets
    merged = _matrices(load, memory, [g.outs for g in gets], begin)
    return None if merged is None else [Get(w, address, offset, 4, None, load.mode) for w, address, offset in merged]


def _described(side: Side, what: str) -> str:
    matrix = {"store": "stmatrix", "load": "ldmatrix"}[what]
    names = {"vector": f"{side.width}-byte {what}s", "matrix": matrix, "trans": f"{matrix}.trans"}
    return names.get(side.mode, f"{matrix}.trans of bytes")


def _guard(side: Side, turn: int) -> Term | None:
    """Which threads store: one of those with copies, and those whose turn it is; a comparison, None for all."""
    term: Term = ("and", "tid", side.guard) if side.guard else None
    for i, mask in enumerate(side.split):
        other = ("xor", parity_term(mask), turn >> i & 1)
        term = other if term is None else ("or", term, other)
    return None if term is None else ("eq", term, 0)


def _groups(side: Side, memory: Memory, size: int, begin: int) -> Iterator[tuple[list[list[int]], Term, int, int]]:
    """Accesses of a side in the round of slot ``begin``: (slots of each word, address term, constant offset, bytes)."""
    form = side.form
    threads = [apply(memory.columns, c) for c in form.threads]
    if side.guard:
        threads = [0 if side.guard >> j & 1 else c for j, c in enumerate(threads)]
    reach = 0
    for c in threads:
        reach |= c
    start = apply(memory.columns, form.constant)
    vector = span(side.low)
    elements = side.width // size
    per_word = max(1, 4 // size)
    for s in span(side.slots):
        for first in range(0, max(1, len(vector)), elements):
            group = [begin ^ s ^ v for v in vector[first : first + elements]]
            at = start ^ apply(memory.columns, apply(form.slots, group[0]))
            # Bits that the thread's part never has are a constant offset of the instruction.
            address = linear_term(threads, at & reach)
            yield [group[i : i + per_word] for i in range(0, len(group), per_word)], address, at & ~reach, side.width


def _matrices(
    side: Side, memory: Memory, words: Sequence[tuple[int, ...]], begin: int
) -> list[tuple[tuple[int, ...], Term, int]] | None:
    """Accesses of one word per lane as accesses of up to four matrices; None if 16-byte rows don't come out.

    What lies within a row and which lanes give the rows' addresses is as :func:`redistribute_plan.matrix_place` says.
    """
    form = side.form
    columns = [apply(memory.columns, c) for c in form.threads]
    starts = [apply(memory.columns, apply(form.slots, s)) for s in side.slots]
    inner = [apply(memory.columns, apply(form.slots, s)) for s in side.low]
    base = apply(memory.columns, form.constant ^ apply(form.slots, begin))
    most = 2
    if side.mode == "matrix":
        within, wanted, rows = columns[:2], [4, 8], columns[2:5]
    elif side.mode == "trans":
        within, wanted, rows = columns[2:5], [2, 4, 8], [*inner[:1], *columns[:2]]
    else:
        within, wanted = [*columns[2:5], apply(memory.columns, apply(form.slots, side.pair))], [1, 2, 4, 8]
        rows = [*inner[: side.width // 4], *columns[:2]]  # one register direction in a store, two in a load
        most = 4 - side.width // 4 - 1
    if within != wanted or any(c & 15 for c in (*rows, *columns[5:], *starts, base)) or (not starts and most == 2):
        return None
    groups = min(most, len(starts))  # log2 of matrices per instruction
    given = [*rows, *starts[:groups], *([0] * (most - groups)), *columns[5:]]
    reach = 0
    for c in given:
        reach |= c
    out = []
    order = {s: i for i, s in enumerate(span(side.slots))}
    for s in span(side.slots[groups:]):
        at = base ^ apply(memory.columns, apply(form.slots, s))
        mine = tuple(w for g in span(side.slots[:groups]) for w in words[order[s ^ g]])
        out.append((mine, linear_term(given, at & reach), at & ~reach))
    return out
