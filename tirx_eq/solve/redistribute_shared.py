"""Through shared memory: every element is stored once and loaded where it is wanted.

For linear distributions the memory layout is free, so it is chosen: its lowest bits are register directions that both sides
share, then those of one side (whose accesses become as wide as 16 bytes), and the banks are a synthesised XOR matrix under
which neither side conflicts.  Where a word's neighbours are lanes 0 to 3, ``stmatrix``/``ldmatrix`` moves four registers at
once.  Other distributions go through a row-major tile, padded or swizzled by :func:`best_layout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    """One side of the way: ``low`` are the slot vectors that make up one access of ``width`` bytes, ``slots`` a basis of the
    slots that start one, ``guard`` the thread bits that are 0 in threads that store (others hold further copies)."""

    form: LinearForm
    low: tuple[int, ...]
    slots: tuple[int, ...]
    guard: int
    width: int


@dataclass(frozen=True)
class Memory:
    """The address of an element as a linear map: ``columns[i]`` is the byte address of element bit i."""

    columns: tuple[int, ...]
    low: tuple[int, ...]  # element vectors of the lowest address bits


def shared_plans(src: Distribution, dst: Distribution, a: LinearForm, b: LinearForm, in_warp: bool) -> Iterator[Plan]:
    """One plan per order of the low address bits, and its variants with matrix instructions."""
    if len(a.threads) != len(b.threads) or rank([*a.slots, *a.threads]) < a.bits:
        return
    size = src.bits // 8
    seen = set()
    for low in _orders(a, b, size):
        if low in seen:
            continue
        seen.add(low)
        sides = (_side(a, low, size, True), _side(b, low, size, False))
        memory = _memory(a, low, sides, size, must=len(seen) == 1)
        if memory is None:
            continue
        for matrix in (True, False):
            plan = _plan(src, dst, memory, sides, size, in_warp, matrix)
            if plan is not None:
                yield plan


def _orders(a: LinearForm, b: LinearForm, size: int) -> Iterator[tuple[int, ...]]:
    """Element vectors for the low address bits: shared directions first, then none, the source's, the destination's."""
    most = (WIDEST // size).bit_length() - 1
    word = (4 // size).bit_length() - 1
    common = intersection(a.slots, b.slots)
    prefer = [v for v in (*a.slots[:word], *b.slots[:word], *a.slots, *b.slots) if not reduce_by(echelon(common), v)]
    start = extend([], [*prefer, *common], most)
    yield tuple(start)
    for mine, other in ((b, a), (a, b)):
        basis = echelon(mine.slots)
        # Directions that are the other side's registers within a word and its lanes 0-3 suit the matrix instructions.
        likes = [v for v in (*other.slots[:word], *other.threads[:2]) if not reduce_by(basis, v)]
        yield tuple(extend(start, [*likes, *mine.slots], most))
        yield tuple(extend([], [*likes, *mine.slots], most))


def _side(form: LinearForm, low: Sequence[int], size: int, store: bool) -> Side:
    solver = Solver(form.slots)
    mine = []
    for v in low:
        s = solver.solve(v)
        if s is None:
            break
        mine.append(s)
    guard, skipped = 0, 0
    if store:
        n = len(form.slots)
        for v in echelon(Solver([*form.slots, *form.threads]).kernel):
            lead = v.bit_length() - 1
            if lead >= n:
                guard |= 1 << (lead - n)
            else:
                skipped |= 1 << lead
    else:
        for v in echelon(solver.kernel):
            skipped |= 1 << (v.bit_length() - 1)
    whole = (1 << len(form.slots)) - 1
    # Copies within a thread are stored or loaded once; the vector's own directions are part of an access.
    copies = echelon(solver.kernel)
    free = units(whole & ~skipped) if store else [u for u in units(whole) if not skipped & u]
    starts = extend([*copies, *mine], free, len(form.slots))[len(copies) + len(mine) :]
    if store:
        starts = [s for s in starts if not s & skipped]
    return Side(form, tuple(mine), tuple(starts), guard, min(WIDEST, size << len(mine)))


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
    kept = max(0, (max(s.width for s in sides) // 4).bit_length() - 1)
    phases = []
    for side in sides:
        lanes = PHASE_LANES[side.width]
        vector = [apply(columns, apply(side.form.slots, x)) for x in span(side.low)] or [0]
        group = []
        for lane in range(lanes):
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
    return Memory(tuple(swizzled), tuple(low))


def _plan(
    src: Distribution, dst: Distribution, memory: Memory, sides: tuple[Side, Side], size: int, in_warp: bool, matrix: bool
) -> Plan | None:
    """Stores, a barrier, loads; None if ``matrix`` is asked for and no side can use it."""
    b = Builder(src.words)
    store, load = sides
    used = False
    per_word = 32 // src.bits

    def value_of(slot: int, k: int) -> tuple[int, int]:
        return slot // per_word, slot % per_word * size + k

    puts: list[Put] = []
    for words, address, offset, width in _groups(store, memory, size):
        made = []
        for word in words:
            wanted: list[tuple[int, int] | None] = [None] * 4
            for i, slot in enumerate(word):
                for k in range(size):
                    wanted[i * size + k] = value_of(slot, k)
            value = b.gather(wanted)
            assert value is not None
            made.append(value)
        puts.append(Put(tuple(made), address, offset, width, _guard(store.guard)))
    if matrix and store.guard == 0 and store.width == 4:
        merged = _matrices(store, memory, [(p.words[0], p.offset) for p in puts], size)
        if merged is not None:
            puts = [Put(words, address, offset, 4, None, True) for words, address, offset in merged]
            used = True
    alone = in_warp and store.guard < WARP  # else a warp reads what another has stored
    b.steps += [*puts, Barrier("warp" if alone else "cta")]
    gets: list[Get] = []
    found: dict[int, tuple[int, int]] = {}
    for words, address, offset, width in _groups(load, memory, size):
        outs = tuple(b.new() for _ in words)
        gets.append(Get(outs, address, offset, width))
        for out, word in zip(outs, words):
            for i, slot in enumerate(word):
                found[slot] = (out, i * size)
    if matrix and load.width == 4:
        merged = _matrices(load, memory, [(g.outs[0], g.offset) for g in gets], size)
        if merged is not None:
            gets = [Get(outs, address, offset, 4, None, True) for outs, address, offset in merged]
            used = True
    if matrix and not used:
        return None
    b.steps += gets
    copies = echelon(Solver(load.form.slots).kernel)
    by_copy = {reduce_by(copies, s): v for s, v in found.items()}
    outputs: list[int | None] = []
    for first in range(0, 1 << len(load.form.slots), per_word):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e in range(min(per_word, 1 << len(load.form.slots))):
            value, byte = by_copy[reduce_by(copies, first + e)]
            for k in range(size):
                parts[e * size + k] = (value, byte + k)
        outputs.append(b.gather(parts))
    shared = (1 << store.form.bits) * size
    widths = f"{store.width}-byte stores, {load.width}-byte loads" + (", matrix instructions" if used else "")
    return Plan("shared", src.threads, src.words, pruned(b.steps, outputs), tuple(outputs), max(shared, 16), widths)


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
    side: Side, memory: Memory, words: Sequence[tuple[int, int]], size: int
) -> list[tuple[tuple[int, ...], Term, int]] | None:
    """Four (two) single-word accesses as one of 8x8 matrices, if lanes 0-3 are the 16 bytes of a row; None if not."""
    form = side.form
    columns = [apply(memory.columns, c) for c in form.threads]
    if len(columns) < 5 or columns[:2] != [4, 8] or any(c & 15 for c in columns[2:]):
        return None
    starts = [apply(memory.columns, apply(form.slots, s)) for s in side.slots]
    base = apply(memory.columns, form.constant)
    if any(s & 15 for s in (*starts, base)) or not starts:
        return None
    groups = min(2, len(starts))  # log2 of matrices per instruction
    # Lane 8 j + r gives the row of lane 4 r of matrix j.
    given = [*columns[2:5], *starts[:groups], *([0] * (2 - groups)), *columns[5:]]
    reach = 0
    for c in given:
        reach |= c
    out = []
    order = {s: i for i, s in enumerate(span(side.slots))}
    for s in span(side.slots[groups:]):
        at = base ^ apply(memory.columns, apply(form.slots, s))
        mine = tuple(words[order[s ^ g]][0] for g in span(side.slots[:groups]))
        out.append((mine, linear_term(given, at & reach), at & ~reach))
    return out
