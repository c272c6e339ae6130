"""Within a warp: the fewest shuffles between two distributions that are linear over GF(2), with the least selecting.

Write y = (d, t') for a destination slot and thread, and N y = (s, t) for the source slot and thread that hold its element
(with copies: the nearest).  In one shuffle round k every thread receives one word: thread t' receives its slot d = k + H t'
from thread t = A t' + N_td k, A = N_tt + N_td H, and that thread presents its slot s.  What a thread presents may depend on
its own number only, so A must not merge threads that want different slots.  G and H are the *selects*: rank(G) + rank(H)
select stages around the rounds.

Rounds whose words come from the thread itself need no shuffle.  The bound: a word from another thread needs a shuffle, and
a shuffle brings a thread one word (all of it from one thread), so a thread with w foreign words needs w.  If N_tt + 1 maps
into the image of N_td, H can be chosen with A = 1: every round is a butterfly and the foreign words are exactly those of
the rounds with N_td k != 0, so the bound is met.  If not, some thread holds none of its words and needs all rounds, which
any admissible H attains.  Either way the number of shuffles is the least there is.

Words narrower than 32 bits: a transport word is packed from elements that share their way (a subspace U of the kernel of
N_td), since only those can travel together; byte permutes before and after do the packing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..layout.linear import echelon, reduce_by
from .distribution import WARP, Distribution
from .gf2_maps import Solver, apply, extend, rank, span, units, within
from .plan import Builder, Plan, linear_term, parity_term, pruned

LANES = 5
#: choices of H per thread bit that are compared for their selects
MAX_CHOICES = 64


@dataclass(frozen=True)
class LinearForm:
    """``held[t, first + s] = constant ^ columns`` of a distribution: element vectors per thread bit and slot bit.

    Slots before ``first`` and after the last are empty in all threads.
    """

    constant: int
    threads: tuple[int, ...]
    slots: tuple[int, ...]
    bits: int  # element index bits
    first: int = 0


def linear_form(d: Distribution) -> LinearForm | None:
    """The linear form, or None: extents that aren't powers of two, slots that are empty in some threads, digits that carry."""
    used = np.flatnonzero((d.held >= 0).any(axis=0))
    first, last = int(used[0]), int(used[-1])
    held = d.held[:, first : last + 1]
    t, s = held.shape
    if t & (t - 1) or s & (s - 1) or d.size & (d.size - 1) or (held < 0).any():
        return None
    constant = int(held[0, 0])
    threads = tuple(int(held[1 << j, 0]) ^ constant for j in range(t.bit_length() - 1))
    slots = tuple(int(held[0, 1 << i]) ^ constant for i in range(s.bit_length() - 1))
    expected = np.full((t, s), constant, dtype=np.int64)
    for j, c in enumerate(threads):
        expected ^= (np.arange(t)[:, None] >> j & 1) * c
    for i, c in enumerate(slots):
        expected ^= (np.arange(s)[None, :] >> i & 1) * c
    if (expected != held).any():
        return None
    return LinearForm(constant, threads, slots, d.size.bit_length() - 1, first)


@dataclass(frozen=True)
class Transfer:
    """Where each destination slot and thread finds its element: affine maps, slots and threads of the source apart."""

    slot_s: tuple[int, ...]  # per destination slot bit: source slot
    slot_t: tuple[int, ...]  # per destination slot bit: source thread
    thread_s: tuple[int, ...]  # per thread bit
    thread_t: tuple[int, ...]
    start_s: int
    start_t: int
    first_s: int = 0  # the number of the source's first slot
    first_d: int = 0


def transfer(src: LinearForm, dst: LinearForm) -> Transfer | None:
    """The way from ``src``, with the copy that is in the same thread, else the same warp, where there is one."""
    if len(src.threads) != len(dst.threads):
        return None
    width = len(src.slots)
    solver = Solver([*src.slots, *src.threads])
    if solver.rank < src.bits:
        return None
    copies = echelon(solver.kernel)

    def nearest(element: int, here: int) -> tuple[int, int]:
        found = solver.solve(element)
        assert found is not None
        place = reduce_by(copies, found ^ here) ^ here
        return place & ((1 << width) - 1), place >> width

    slots = [nearest(e, 0) for e in dst.slots]
    threads = [nearest(e, 1 << (width + j)) for j, e in enumerate(dst.threads)]
    start = nearest(src.constant ^ dst.constant, 0)
    return Transfer(
        tuple(s for s, _ in slots), tuple(t for _, t in slots), tuple(s for s, _ in threads), tuple(t for _, t in threads),
        *start, src.first, dst.first,
    )  # fmt: skip


def stays_in_warp(way: Transfer) -> bool:
    """Whether every element's source is in the destination thread's own warp."""
    return (
        way.start_t < WARP
        and all(t < WARP for t in way.slot_t)
        and all(t >> LANES == (1 << j) >> LANES for j, t in enumerate(way.thread_t))
    )


@dataclass(frozen=True)
class Rounds:
    """The structure of a shuffle plan; see the module text.

    ``together`` is U, ``rounds`` a basis of the destination slots modulo U (the k), ``merged`` the slots that hold copies
    in one thread; ``slots`` the number of slot bits: vectors beyond stand for further rounds, whose word a thread takes or
    not.  ``lane`` is A; ``presents`` is G and ``receives`` H, per thread bit.  ``least``: the bound on shuffles.
    """

    way: Transfer
    slots: int
    together: tuple[int, ...]
    rounds: tuple[int, ...]
    merged: tuple[int, ...]
    lane: tuple[int, ...]
    presents: tuple[int, ...]
    receives: tuple[int, ...]
    butterflies: bool
    shuffles: int
    least: int


def rounds_of(way: Transfer, packed: int) -> Rounds | str:
    """The rounds with the fewest shuffles, or why there are none; ``packed`` = log2 of elements in a 32-bit register."""
    if not stays_in_warp(way):
        return "elements change their warp"
    n = len(way.slot_s)
    both = [s << 16 | t for s, t in zip(way.slot_s, way.slot_t)]
    merged = echelon(Solver(both).kernel)
    leads = sum(1 << (v.bit_length() - 1) for v in merged)
    free = units(((1 << n) - 1) & ~leads)

    def thread(d: int) -> int:
        return apply(way.slot_t, d)

    def slot(d: int) -> int:
        return apply(way.slot_s, d)

    local = within(free, [thread(d) for d in free])
    inside = (1 << packed) - 1
    in_dst = within(local, [d & ~inside for d in local])
    in_src = within(local, [slot(d) & ~inside for d in local])
    in_both = within(in_dst, [slot(d) & ~inside for d in in_dst])
    together = extend([], [*_low(in_both), *_low(in_dst), *_low(in_src), *_low(local)], min(packed, len(local)))
    order = [u for u in free if u > inside] + [u for u in free if u <= inside]
    rounds = extend(together, order, len(free))[len(together) :]
    ways = Solver([thread(d) for d in rounds])
    needed = [t ^ (1 << j) for j, t in enumerate(way.thread_t)]
    found = [ways.solve(t) for t in needed]
    least = 1 << len(rounds)
    if all(x is not None for x in found):
        least -= 1 << len(ways.kernel) if ways.solve(way.start_t) is not None else 0
        receives = [apply(rounds, x) for x in found if x is not None]
        stay = [apply(rounds, x) for x in ways.kernel]
        receives = _fewest_selects(receives, stay, [slot(d) for d in stay], [
            s ^ slot(h) for s, h in zip(way.thread_s, receives)
        ])  # fmt: skip
        presents = [s ^ slot(h) for s, h in zip(way.thread_s, receives)]
        lane = [1 << j for j in range(len(way.thread_t))]
        return Rounds(way, n, tuple(together), tuple(rounds), tuple(merged), tuple(lane), tuple(presents), tuple(receives),
                      True, least, least)  # fmt: skip
    return _general(way, together, rounds, merged, least)


def _low(vectors: list[int]) -> list[int]:
    return sorted(echelon(vectors))


def _fewest_selects(receives: list[int], stay: list[int], moved: list[int], presents: list[int]) -> list[int]:
    """H and G may be changed together by slots that stay in their thread; coordinate descent on rank(G) + rank(H)."""
    options = list(zip(span(stay), span(moved)))[:MAX_CHOICES]
    best = list(zip(receives, presents))
    score = rank(h for h, _ in best) + rank(g for _, g in best)
    for _ in range(2):
        for j, (h, g) in enumerate(best):
            for dh, dg in options:
                trial = [*best[:j], (h ^ dh, g ^ dg), *best[j + 1 :]]
                cost = rank(x for x, _ in trial) + rank(y for _, y in trial)
                if cost < score:
                    best, score = trial, cost
    return [h for h, _ in best]


def _general(way: Transfer, together: list[int], rounds: list[int], merged: list[int], least: int) -> Rounds | str:
    """H with A injective up to threads that want the same elements (copies at the destination)."""
    width = len(way.thread_t)
    everything = Solver([*(apply(way.slot_s, d) << 16 | apply(way.slot_t, d) for d in rounds),
                         *(s << 16 | t for s, t in zip(way.thread_s, way.thread_t))])  # fmt: skip
    same = [(apply(rounds, x & ((1 << len(rounds)) - 1)), x >> len(rounds)) for x in everything.kernel]
    basis = extend([], [z for _, z in same], width)
    given = {z: d for d, z in same}
    values = [given[z] for z in basis]
    rest = extend(basis, [1 << j for j in range(width)], width)[len(basis) :]
    straight = Solver([apply(way.thread_t, v) for v in rest])
    moves = [apply(way.slot_t, d) for d in rounds]
    image = echelon([apply(way.thread_t, v) for v in rest])
    n = len(way.slot_s)
    for v in [apply(rest, x) for x in straight.kernel]:
        pick = next((k for k, m in enumerate(moves) if reduce_by(image, m)), None)
        basis.append(v)
        if pick is not None:
            values.append(rounds[pick])
            image = echelon([*image, moves[pick]])
            continue
        # Threads apart by v read different words of one lane, which has to present both: twice the rounds.
        further = 1 << len(way.slot_s)
        way = replace(way, slot_s=(*way.slot_s, apply(way.thread_s, v)), slot_t=(*way.slot_t, 0))
        rounds = [*rounds, further]
        values.append(further)
        least *= 2
    kept = extend(basis, [1 << j for j in range(width)], width)[len(basis) :]
    coordinates = Solver([*basis, *kept])
    receives = []
    for j in range(width):
        x = coordinates.solve(1 << j)
        assert x is not None
        receives.append(apply([*values, *([0] * len(kept))], x))
    lane = [t ^ apply(way.slot_t, h) for t, h in zip(way.thread_t, receives)]
    wanted = [s ^ apply(way.slot_s, h) for s, h in zip(way.thread_s, receives)]
    back = Solver(lane)
    if any(apply(wanted, x) for x in back.kernel):
        return "lanes with the same source lane want different words of it in every round"
    image_basis = extend([], lane, width)
    extra = extend(image_basis, [1 << j for j in range(width)], width)[len(image_basis) :]
    frame = Solver([*image_basis, *extra])
    shown = [apply(wanted, back.solve(v) or 0) for v in image_basis] + [0] * len(extra)
    presents = []
    for j in range(width):
        x = frame.solve(1 << j)
        assert x is not None
        presents.append(apply(shown, x))
    return Rounds(way, n, tuple(together), tuple(rounds), tuple(merged), tuple(lane), tuple(presents), tuple(receives),
                  False, least, least)  # fmt: skip


def shuffle_plan(src: Distribution, dst: Distribution, form: Rounds) -> Plan:
    """The plan of these rounds."""
    way, size = form.way, src.bits // 8
    per_word = 32 // src.bits
    b = Builder(src.words)
    bits = max(1, len(way.thread_t))

    def packed(slot: int) -> int:
        """The transport word of a source slot: its elements along U."""
        wanted: list[tuple[int, int] | None] = [None] * 4
        for u, d in enumerate(span(form.together)):
            s = way.first_s + (slot ^ apply(way.slot_s, d))
            for byte in range(size):
                wanted[u * size + byte] = (s // per_word, s % per_word * size + byte)
        word = b.gather(wanted)
        assert word is not None
        return word

    stages = _stages(form.presents)

    def presented(slot: int, stage: int) -> int:
        if stage == len(stages):
            return packed(slot)
        vector, mask = stages[stage]
        one, other = presented(slot ^ vector, stage + 1), presented(slot, stage + 1)
        return b.choose(parity_term(mask), one, other)

    received: dict[int, int] = {}
    for k in span(form.rounds):
        far = way.start_t ^ apply(way.slot_t, k)
        # Thread t = A t' + far presents what t' wants, G A t' + …: as a function of t, its share of ``far`` is undone.
        word = presented(way.start_s ^ apply(way.slot_s, k) ^ apply(form.presents, far), 0)
        if form.butterflies:
            received[k] = b.shuffle(word, ("xor", ("and", "tid", WARP - 1), far), far)
        else:
            lane = linear_term([a & (WARP - 1) for a in form.lane[:bits]], far & (WARP - 1))
            received[k] = b.shuffle(word, lane, None)
    arrivals = _stages(form.receives)

    def wanted(d: int, stage: int) -> int:
        if stage == len(arrivals):
            return received[d]
        vector, mask = arrivals[stage]
        return b.choose(parity_term(mask), wanted(d ^ vector, stage + 1), wanted(d, stage + 1))

    split = Solver([*form.rounds, *form.together])
    outputs: list[int | None] = []
    for first in range(0, dst.words * per_word, per_word):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e in range(per_word):
            slot = first + e - way.first_d
            if not 0 <= slot < 1 << form.slots:
                continue
            x = split.solve(reduce_by(form.merged, slot))
            assert x is not None
            d, u = apply(form.rounds, x & ((1 << len(form.rounds)) - 1)), x >> len(form.rounds)
            for byte in range(size):
                parts[e * size + byte] = (wanted(d, 0), u * size + byte)
        outputs.append(b.gather(parts))
    steps = pruned(b.steps, outputs)
    what = "butterflies" if form.butterflies else "lane permutations"
    note = f"{form.shuffles} shuffles ({what}), the fewest there can be: {form.least}"
    kind = "shuffle" if form.shuffles else "registers"
    return Plan(kind, src.threads, src.words, steps, tuple(outputs), 0, note)


def _stages(columns: tuple[int, ...]) -> list[tuple[int, int]]:
    """A map as stages: (vector, thread bits whose parity adds it)."""
    stages = []
    for v in echelon(list(columns)):
        lead = v.bit_length() - 1
        stages.append((v, sum(1 << j for j, c in enumerate(columns) if c >> lead & 1)))
    return stages
