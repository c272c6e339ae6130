"""Through shared memory: every element is stored once and loaded where it is wanted.

For linear distributions the memory layout is free, so it is chosen: its lowest bits are register directions that both sides
share, then those of one side (whose accesses become as wide as 16 bytes), and the banks are a synthesised XOR matrix under
which neither side conflicts.  Where 16-byte rows lie along the lanes as 8x8 matrices have them, transposed or not,
``stmatrix`` and ``ldmatrix`` move four registers at once.  Other distributions go through a row-major tile, padded or
swizzled by :func:`best_layout` (``redistribute_table``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..layout.linear import echelon, reduce_by
from .access import PHASE_LANES, WARP
from .distribution import Distribution
from .gf2_maps import Solver, apply, extend, intersection, rank, span, units
from .redistribute_linear import LinearForm
from .redistribute_plan import Barrier, Builder, Get, Plan, Put, Term, linear_term, pruned
from .swizzle_synthesis import Phase, complete, conflict_free, parity, synthesise

WIDEST = 16  # bytes of an access
MAX_SHARED = 232_448


@dataclass(frozen=True)
class Side:
    """One side of the way: ``low`` are the slot vectors that make up one access of ``width`` bytes per lane, ``slots`` a basis
    of the slots that start one, ``guard`` the thread bits that are 0 in threads that store (others hold further copies).

    ``mode``: ``"vector"``; ``"matrix"``: matrices whose rows lie along lanes 0-3; ``"trans"``: transposed matrices of 16-bit
    elements, whose rows lie along the lanes' groups of four; ``"trans8"``: of 8-bit elements, with a register direction
    (``pair``) as the row's highest bit.
    """

    form: LinearForm
    low: tuple[int, ...]
    slots: tuple[int, ...]
    guard: int
    width: int
    mode: str = "vector"
    pair: int = 0


@dataclass(frozen=True)
class Memory:
    """The address of an element as a linear map: ``columns[i]`` is the byte address of element bit i."""

    columns: tuple[int, ...]


def shared_plans(src: Distribution, dst: Distribution, a: LinearForm, b: LinearForm, in_warp: bool) -> Iterator[Plan]:
    """One plan per order of the low address bits and way of access of either side; without conflicts but for the first,
    which has the fewest."""
    if len(a.threads) != len(b.threads) or rank([*a.slots, *a.threads]) < a.bits:
        return
    size = src.bits // 8
    seen = set()
    for low in _orders(a, b, size):
        if low in seen:
            continue
        seen.add(low)
        for store in _sides(a, low, size, True):
            for load in _sides(b, low, size, False):
                first = len(seen) == 1 and store.mode == load.mode == "vector"
                memory = _memory(a, low, (store, load), size, must=first)
                plan = None if memory is None else _plan(src, dst, memory, (store, load), size, in_warp)
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


def _memory(a: LinearForm, low: Sequence[int], sides: tuple[Side, Side], size: int, must: bool) -> Memory | None:
    """The address map without conflicts for these low bits; if there is none, None or (``must``) that with the fewest."""
    basis = extend(low, units((1 << a.bits) - 1), a.bits)
    position = Solver(basis)
    columns = []
    for i in range(a.bits):
        x = position.solve(1 << i)
        assert x is not None
        columns.append(x)
    sub = (4 // size).bit_length() - 1
    words = a.bits - sub
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
            if lane & side.guard:
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
    return Memory(tuple(swizzled))


def _plan(
    src: Distribution, dst: Distribution, memory: Memory, sides: tuple[Side, Side], size: int, in_warp: bool
) -> Plan | None:
    """Stores, a barrier, loads; None if the addresses don't suit the matrix instructions after all."""
    b = Builder(src.words)
    store, load = sides
    per_word = 32 // src.bits
    puts: list[Put] = []
    for words, address, offset, width in _groups(store, memory, size):
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
        puts.append(Put(tuple(made), address, offset, width, _guard(store.guard)))
    if store.mode != "vector":
        merged = _matrices(store, memory, [p.words for p in puts])
        if merged is None:
            return None
        puts = [Put(words, address, offset, 4, None, store.mode) for words, address, offset in merged]
    alone = in_warp and store.guard < WARP  # else a warp reads what another has stored
    b.steps += [*puts, Barrier("warp" if alone else "cta")]
    gets: list[Get] = []
    found: dict[int, tuple[int, int]] = {}
    for groups, address, offset, width in _groups(load, memory, size):
        outs = tuple(b.new() for _ in groups)
        gets.append(Get(outs, address, offset, width))
        for out, word in zip(outs, groups):
            for i, slot in enumerate(word):
                found[slot] = (out, i * size)
    if load.mode != "vector":
        merged = _matrices(load, memory, [g.outs for g in gets])
        if merged is None:
            return None
        gets = [Get(outs, address, offset, 4, None, load.mode) for outs, address, offset in merged]
    b.steps += gets
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
    shared = (1 << store.form.bits) * size
    note = f"{_described(store, 'store')}, {_described(load, 'load')}"
    return Plan("shared", src.threads, src.words, pruned(b.steps, outputs), tuple(outputs), max(shared, 16), note)


def _described(side: Side, what: str) -> str:
    matrix = {"store": "stmatrix", "load": "ldmatrix"}[what]
    names = {"vector": f"{side.width}-byte {what}s", "matrix": matrix, "trans": f"{matrix}.trans"}
    return names.get(side.mode, f"{matrix}.trans of bytes")


def _guard(mask: int) -> Term | None:
    return ("eq", ("and", "tid", mask), 0) if mask else None


def _groups(side: Side, memory: Memory, size: int) -> Iterator[tuple[list[list[int]], Term, int, int]]:
    """Accesses of a side: (slots of each word, address term, constant offset, bytes)."""
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
            group = [s ^ v for v in vector[first : first + elements]]
            at = start ^ apply(memory.columns, apply(form.slots, group[0]))
            # Bits that the thread's part never has are a constant offset of the instruction.
            address = linear_term(threads, at & reach)
            yield [group[i : i + per_word] for i in range(0, len(group), per_word)], address, at & ~reach, side.width


def _matrices(
    side: Side, memory: Memory, words: Sequence[tuple[int, ...]]
) -> list[tuple[tuple[int, ...], Term, int]] | None:
    """Accesses of one word per lane as accesses of up to four matrices; None if 16-byte rows don't come out.

    What lies within a row and which lanes give the rows' addresses is as :func:`redistribute_plan.matrix_place` says.
    """
    form = side.form
    columns = [apply(memory.columns, c) for c in form.threads]
    starts = [apply(memory.columns, apply(form.slots, s)) for s in side.slots]
    inner = [apply(memory.columns, apply(form.slots, s)) for s in side.low]
    base = apply(memory.columns, form.constant)
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
