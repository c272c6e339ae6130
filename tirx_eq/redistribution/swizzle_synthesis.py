"""Swizzles synthesised as matrices over GF(2): the bank of a word is five parities of its index, chosen freely.

Two words of one phase meet in a bank exactly if the XOR of their indices is in the kernel K of the bank map.  With n
index bits K has dimension n - 5, and an access is free of conflicts if and only if K meets none of its differences.
So the question "which swizzle" is "which subspace": first K is grown vector by vector past all differences (backtracking
over representatives; success attains the lower bound).  Where that is impossible the weighted number of wavefronts is
minimised in z3 over the unknown bank matrix, and its unsat answer one below the optimum is the proof.

Low index bits within the longest vector stay where they are, or a lane's elements would be torn apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..layout.base import Layout
from ..layout.linear import LinearMap, echelon, from_linear, reduce_by
from ..prove.verdict import Unsat

if TYPE_CHECKING:
    import numpy as np

BANK_BITS = 5
#: vectors tried while a kernel is grown before z3 is asked instead
MAX_TRIED = 300_000
RLIMIT = 10_000_000


@dataclass(frozen=True)
class XorMatrix:
    """Element x of a row-major buffer of ``padded`` extents (powers of two) is at the address whose bit i is the parity
    of ``rows[i] & x``.  ``shape`` is the buffer's real shape."""

    rows: tuple[int, ...]
    shape: tuple[int, ...]
    padded: tuple[int, ...]

    def axes(self) -> tuple[str, ...]:
        return ("m",)

    def evaluate(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Addresses (in elements) of flat indices of the real shape."""
        import numpy as np

        rest, index, stride = np.asarray(flat, dtype=np.int64), np.zeros_like(flat), 1
        for extent, wide in zip(reversed(self.shape), reversed(self.padded)):
            rest, c = np.divmod(rest, extent)
            index = index + c * stride
            stride *= wide
        out = np.zeros_like(index)
        for j, column in enumerate(self.columns()):
            out ^= (index >> j & 1) * column
        return {"m": out}

    def columns(self) -> list[int]:
        """The address that index bit j alone gives, per j."""
        return [sum((row >> j & 1) << i for i, row in enumerate(self.rows)) for j in range(len(self.rows))]

    def span(self, axis: Any = None) -> int:
        """Elements of the allocation: one more than the highest address."""
        import numpy as np

        total = 1
        for e in self.shape:
            total *= e
        return int(self.evaluate(np.arange(total, dtype=np.int64))["m"].max()) + 1

    def layout(self) -> Layout | None:
        """The same as a swizzle over a tile, if it is one."""
        if self.shape != self.padded:
            return None
        try:
            return from_linear(LinearMap(("m",), (0,), tuple((c,) for c in self.columns())))
        except LayoutError:
            return None

    def term(self, x: Any = "x") -> Any:
        """The address as a neutral index term of the padded row-major index ``x``: shifted fields XORed together."""
        fields: dict[int, int] = {}  # shift (target - source) -> mask of source bits
        for i, row in enumerate(self.rows):
            for j in range(len(self.rows)):
                if row >> j & 1:
                    fields[i - j] = fields.get(i - j, 0) | 1 << j
        parts = []
        whole = (1 << len(self.rows)) - 1
        for shift in sorted(fields, key=lambda s: (s != 0, s)):
            picked: Any = x if fields[shift] == whole else ("and", x, fields[shift])
            parts.append(picked if shift == 0 else ("shl", picked, shift) if shift > 0 else ("shr", picked, -shift))
        term = parts[0]
        for part in parts[1:]:
            term = ("xor", term, part)
        return term

    def script(self, prefix: str = "Tx") -> str:
        """Text: the layout's source where it is one, else the index expression."""
        from ..ir.index import show

        found = self.layout()
        return found.script(prefix) if found is not None else f"x -> {show(self.term())}"


@dataclass(frozen=True)
class Phase:
    """Words (their indices) that one phase asks for; ``weight`` wavefronts are paid per word of the fullest bank."""

    words: tuple[int, ...]
    weight: int


@dataclass(frozen=True)
class Synthesis:
    """The bank matrix found: ``rows[i]`` is the parity mask over word-index bits of bank bit i; ``cost`` its weighted
    wavefronts.  ``proof`` is None where the lower bound is attained, ``decided`` False if z3 gave up below ``cost``;
    ``bound`` is what is known to be needed."""

    rows: tuple[int, ...]
    cost: int
    decided: bool
    proof: Unsat | None
    how: str


def parity(value: int) -> int:
    return value.bit_count() & 1


def bank_cost(rows: Sequence[int], phases: Sequence[Phase]) -> int:
    """Weighted wavefronts under a bank matrix."""
    total = 0
    for phase in phases:
        load: dict[int, int] = {}
        for w in phase.words:
            bank = sum(parity(row & w) << i for i, row in enumerate(rows))
            load[bank] = load.get(bank, 0) + 1
        total += phase.weight * max(load.values())
    return total


def merged(phases: Sequence[Phase]) -> list[Phase]:
    """Phases that are the same up to an XOR of all words (which permutes banks) become one; those of one word are left
    out, since they never conflict."""
    found: dict[tuple[int, ...], int] = {}
    for phase in phases:
        words = sorted(set(phase.words))
        if len(words) < 2:
            continue
        key = min(tuple(sorted(w ^ base for w in words)) for base in words)
        found[key] = found.get(key, 0) + phase.weight
    return [Phase(words, weight) for words, weight in sorted(found.items())]


def synthesise(
    bits: int, kept: int, phases: Sequence[Phase], incumbent: int | None = None, *, rlimit: int = RLIMIT,
) -> Synthesis:  # fmt: skip
    """The bank matrix over ``bits`` word-index bits with the fewest weighted wavefronts; the low ``kept`` bank bits are
    the low index bits.

    ``incumbent``: a cost that is already attained by another layout of the family.
    """
    found, todo, single = _without_conflicts(bits, kept, phases)
    if found is not None:
        return found
    rows = min(BANK_BITS, bits)
    low = tuple(1 << i for i in range(min(kept, rows)))
    # A phase that no matrix serves without a conflict, taken alone, costs two wavefronts at least.
    least = sum(p.weight * _least_alone(_differences([p], kept), bits - kept, bits - rows) for p in todo)
    return _by_solver(bits, kept, todo, single, least, incumbent, low, rlimit)


def _least_alone(differences: Sequence[int], width: int, dimension: int) -> int:
    if _too_wide(differences, width - dimension):
        return 1 << ((len(differences) + 1).bit_length() - 1 - (width - dimension))
    return 2 if _avoiding(width, dimension, differences) == (None, True) else 1


def conflict_free(bits: int, kept: int, phases: Sequence[Phase]) -> Synthesis | None:
    """A bank matrix under which no phase conflicts, or None if the kernel search finds none."""
    return _without_conflicts(bits, kept, phases)[0]


def _without_conflicts(bits: int, kept: int, phases: Sequence[Phase]) -> tuple[Synthesis | None, list[Phase], int]:
    """(the answer if the lower bound is attained, phases that may conflict, wavefronts of the others)."""
    rows = min(BANK_BITS, bits)
    single = sum(p.weight for p in phases if len(set(p.words)) < 2)
    todo = merged(phases)
    least = sum(p.weight for p in todo)
    low = tuple(1 << i for i in range(min(kept, rows)))
    if bits <= BANK_BITS:
        plain = tuple(1 << i for i in range(bits))
        return Synthesis(plain, least + single, True, None, "every word has a bank of its own"), todo, single
    if any(_too_wide(_differences([p], kept), rows - kept) for p in todo):
        return None, todo, single
    kernel, _ = _avoiding(bits - kept, bits - rows, _differences(todo, kept))
    if kernel is not None:
        upper = annihilator(kernel, bits - kept)
        made = (*low, *(r << kept for r in upper))
        return Synthesis(made, least + single, True, None, "a kernel past all differences"), todo, single
    return None, todo, single


def _too_wide(differences: Sequence[int], most: int) -> bool:
    """Whether the differences are a subspace (without 0) of more than ``most`` dimensions: every kernel meets it."""
    size = len(differences) + 1
    dimensions = size.bit_length() - 1
    return dimensions > most and size == 1 << dimensions and len(echelon(differences)) == dimensions


def _differences(phases: Sequence[Phase], kept: int) -> list[int]:
    """XORs of two words of a phase that the low ``kept`` bank bits don't tell apart, without those bits."""
    found = {a ^ b for p in phases for k, a in enumerate(p.words) for b in p.words[:k]}
    return sorted(d >> kept for d in found if d and not d & ((1 << kept) - 1))


def _avoiding(width: int, dimension: int, forbidden: Sequence[int]) -> tuple[list[int] | None, bool]:
    """A subspace of GF(2)^width of a dimension without forbidden vectors, and whether the answer is exact.

    Each subspace has one reduced echelon basis; those are grown by decreasing leading bit, each next vector outside of
    the sum of the span so far with the forbidden set (``free`` marks what is left).  A branch ends when fewer vectors are
    left than the rest of the subspace needs.  (None, True): there is none; (None, False): the search gave up.
    """
    import numpy as np

    tried = 0

    def grow(basis: list[int], lead: int, free: np.ndarray) -> list[int] | None:
        nonlocal tried
        rest = dimension - len(basis)
        if not rest:
            return basis
        if np.count_nonzero(free[1:]) < (1 << rest) - 1:
            return None
        for top in reversed(range(rest - 1, lead)):
            if any(b >> top & 1 for b in basis):
                continue  # not reduced: the same subspace has another basis
            below, above = free[: 1 << top], free[1 << top : 2 << top]
            index = np.arange(1 << top)
            for low in np.flatnonzero(above):
                tried += 1
                if tried > MAX_TRIED:
                    return None
                # later vectors lead below ``top``: x is free if neither x nor x plus this vector is forbidden
                found = grow([*basis, 1 << top | int(low)], top, below & above[index ^ low])
                if found is not None or tried > MAX_TRIED:
                    return found
        return None

    free = np.ones(1 << width, dtype=bool)
    free[list(forbidden)] = False
    found = grow([], width, free)
    return found, found is not None or tried <= MAX_TRIED


def annihilator(kernel: Sequence[int], width: int) -> list[int]:
    """Rows whose parities vanish exactly on the span of ``kernel``: the bank map, reduced so that low bits lead."""
    basis = echelon(kernel)
    leads = {b.bit_length() - 1: b for b in basis}
    rows = []
    for j in range(width):
        if j not in leads:  # a free coordinate: e_j plus the leading coordinates that follow it
            rows.append(1 << j | sum(1 << lead for lead, b in leads.items() if b >> j & 1))
    return rows


def _by_solver(
    bits: int, kept: int, phases: Sequence[Phase], single: int, least: int, incumbent: int | None, low: tuple[int, ...],
    rlimit: int,
) -> Synthesis:  # fmt: skip
    rows = BANK_BITS
    plain = tuple(1 << i for i in range(rows))
    best, cost = plain, bank_cost(plain, phases)
    unseen = incumbent is not None and incumbent - single < cost
    target = (incumbent - single if unseen and incumbent is not None else cost) - 1
    proof: Unsat | None = None
    while target >= least:
        found = _solve(bits, kept, phases, target, rlimit)
        if found is None:
            return Synthesis(best, cost + single, False, None, "z3 gave up")
        if isinstance(found, Unsat):
            proof = found
            break
        best = _full_rank((*low, *found), bits)
        cost = bank_cost(best, phases)
        unseen = False
        target = cost - 1
    if unseen:  # the incumbent is as good as any matrix: find one that equals it
        found = _solve(bits, kept, phases, target + 1, rlimit)
        if isinstance(found, tuple):
            best = _full_rank((*low, *found), bits)
            cost = bank_cost(best, phases)
    how = "z3" if proof is not None else "each phase alone needs what it gets"
    return Synthesis(best, cost + single, True, proof, how)


def _solve(bits: int, kept: int, phases: Sequence[Phase], target: int, rlimit: int) -> tuple[int, ...] | Unsat | None:
    """Bank rows with at most ``target`` weighted wavefronts, the refutation, or None if the limit ends first."""
    import z3

    context = z3.Context()
    high = bits - kept
    cells = [
        [z3.Bool(f"b{i}_{j}", context) for j in range(kept, bits)] for i in range(BANK_BITS - kept)
    ]
    solver = z3.SolverFor("QF_FD", ctx=context)
    solver.set("rlimit", rlimit)
    meets: dict[int, Any] = {}

    def collide(d: int) -> Any:
        if d & ((1 << kept) - 1):
            return None
        if d not in meets:
            sums = []
            for row in cells:
                picked = [row[j] for j in range(high) if d >> (kept + j) & 1]
                total = picked[0]
                for p in picked[1:]:
                    total = z3.Xor(total, p)
                sums.append(z3.Not(total))
            meets[d] = z3.Bool(f"e{d}", context)
            solver.add(meets[d] == z3.And(*sums))
        return meets[d]

    slack = target - sum(p.weight for p in phases)
    paid: list[tuple[Any, int]] = []
    for k, phase in enumerate(phases):
        most = min(slack // phase.weight, len(phase.words) - 1)
        steps = [z3.Bool(f"c{k}_{s}", context) for s in range(most)]
        paid += [(s, phase.weight) for s in steps]
        seen = set()
        for w in phase.words:
            others = tuple(sorted(w ^ o for o in phase.words if o != w))
            if others in seen:
                continue  # in a coset every word sees the same differences
            seen.add(others)
            hits = [e for e in (collide(d) for d in others) if e is not None]
            if not hits:
                continue
            if not steps:
                solver.add(*(z3.Not(e) for e in hits))
            else:
                solver.add(z3.PbLe([(e, 1) for e in hits] + [(z3.Not(s), 1) for s in steps], most))
    if paid:
        solver.add(z3.PbLe(paid, slack))
    text = solver.sexpr()
    answer = solver.check()
    if answer == z3.unsat:
        return Unsat("QF_FD", 0, rlimit, _used(solver), sha256(text.encode()).hexdigest())
    if answer != z3.sat:
        return None
    model = solver.model()
    chosen = [[z3.is_true(model.eval(cell, model_completion=True)) for cell in row] for row in cells]
    return tuple(sum(1 << (kept + j) for j, on in enumerate(row) if on) for row in chosen)


def _used(solver: Any) -> int:
    stats = solver.statistics()
    return int(stats.get_key_value("rlimit count")) if "rlimit count" in stats.keys() else 0


def _full_rank(rows: Sequence[int], bits: int) -> tuple[int, ...]:
    """Dependent rows replaced by independent unit rows: the kernel only shrinks, so no access becomes dearer."""
    basis: list[int] = []
    out = []
    for row in rows:
        if not reduce_by(basis, row):
            row = next(1 << j for j in range(bits) if reduce_by(basis, 1 << j))
        basis = echelon([*basis, row])
        out.append(row)
    return tuple(out)


def complete(rows: Sequence[int], bits: int) -> list[int]:
    """An invertible matrix of word-address rows whose first five are a bank map with the kernel of ``rows``.

    Where the low index bits determine the bank of the rest (they do unless neighbours conflict) the bank rows are reduced
    to a low bit XOR parities of high bits, and all other address bits are index bits: a swizzle.
    """
    banks = list(rows)
    count = len(banks)
    mask = (1 << count) - 1
    if len(echelon([r & mask for r in banks])) == count:
        banks = _reduced_low(banks, count)
        return banks + [1 << j for j in range(count, bits)]
    out = list(banks)
    basis = echelon(out)
    for j in range(bits):
        if len(out) < bits and reduce_by(basis, 1 << j):
            out.append(1 << j)
            basis = echelon(out)
    return out


def _reduced_low(rows: list[int], count: int) -> list[int]:
    """Gauss-Jordan on the low ``count`` columns, which must be invertible there."""
    rows = list(rows)
    for j in range(count):
        pivot = next(i for i in range(j, count) if rows[i] >> j & 1)
        rows[j], rows[pivot] = rows[pivot], rows[j]
        for i in range(count):
            if i != j and rows[i] >> j & 1:
                rows[i] ^= rows[j]
    return rows


def matrix_of(rows: Sequence[int], bits: int, shift: int, shape: Sequence[int], padded: Sequence[int]) -> XorMatrix:
    """The element matrix of a bank map on words; ``shift`` = word bit - element bit (negative for narrow elements)."""
    words = complete(rows, bits)
    if shift >= 0:
        elements = [row >> shift for row in words[shift:]]
    else:
        elements = [1 << i for i in range(-shift)] + [row << -shift for row in words]
    return XorMatrix(tuple(elements), tuple(shape), tuple(padded))


def exhaustive_bank_maps(bits: int, kept: int) -> Iterator[tuple[int, ...]]:
    """Every bank map, for checks on small cases: all values of the rows above the kept ones."""
    from itertools import product

    low = tuple(1 << i for i in range(kept))
    for upper in product(range(1 << (bits - kept)), repeat=BANK_BITS - kept):
        yield (*low, *(u << kept for u in upper))
