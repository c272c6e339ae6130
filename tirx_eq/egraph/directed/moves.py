"""Values whose bits only move: exclusive ors of shifted and masked values, and their cheapest terms.

A swizzled address, a field of an index, a sum of parts that don't overlap: each is an exclusive or of ``(base << d) & mask``
and a constant.  That form is unique but for the order, so no search among rules is needed to find it; what is left to choose
is which operands share a shift or a mask, and there are few ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...ir.index import Term


class Unsure(Exception):
    """What is asked for is beyond what is constructed here: only the e-graph can tell what is cheapest."""


MAX_OPERANDS = 10
"""Operands of an exclusive or whose groupings are looked at; with more, they are taken one by one."""


class Moved(NamedTuple):
    """``(base << shift) & mask``, the base by number; a negative shift moves down.  The mask has no bit that is never set."""

    base: int
    shift: int
    mask: int


class Cluster(NamedTuple):
    """The exclusive or of a constant and operands, in order and no two of the same base and shift."""

    constant: int
    moved: tuple[Moved, ...]


Terms = tuple[tuple[int, Cluster], ...]
"""Terms of a sum: coefficients and clusters, in order."""


@dataclass(frozen=True, slots=True)
class Base:
    """What is moved: a variable, or a term that is computed first.

    ``variables``: numbers of the variables in it.  ``kind``: variable, sum, truth, extreme or other; ``meaning`` says what
    the term of a base of that kind stands for.  ``mixed``: an exclusive or whose operands meet is in it.
    """

    term: Term
    low: int
    high: int
    bits: int
    variables: frozenset[int]
    kind: str
    meaning: Any
    mixed: bool

    @property
    def op(self) -> str:
        """The operation of a base of kind other or truth."""
        return str(self.term[0]) if isinstance(self.term, tuple) and self.kind in ("other", "truth") else ""


def shifted(n: int, by: int) -> int:
    """``n << by``, down if negative."""
    return n << by if by >= 0 else n >> -by


class Moves:
    """Clusters over a table of bases."""

    def __init__(self, multiple: Callable[[int, int], tuple[int, Term]]) -> None:
        """``multiple``: the cost and term of a base shifted up."""
        self.bases: list[Base] = []
        self.multiple = multiple
        self._numbers: dict[Term, int] = {}
        self._best: dict[Cluster, tuple[int, Term]] = {}

    def base(
        self, term: Term, low: int, high: int, variables: frozenset[int] | None = None,
        *, kind: str = "variable", meaning: Any = None, align: int = 1, mixed: bool = False,
    ) -> Cluster:  # fmt: skip
        """The base of a term by itself; without ``variables`` it is one."""
        n = self._numbers.get(term)
        if n is None:
            n = self._numbers[term] = len(self.bases)
            bits = ((1 << high.bit_length()) - 1) & -(align & -align) if low >= 0 else -1
            inside = frozenset((n,)) if variables is None else variables
            self.bases.append(Base(term, low, high, bits, inside, kind, meaning, mixed))
        return Cluster(0, (Moved(n, 0, self.bases[n].bits),))

    def whole(self, cluster: Cluster) -> Base | None:
        """The base that a cluster is, if it is one."""
        if len(cluster.moved) != 1 or cluster.constant:
            return None
        m = cluster.moved[0]
        base = self.bases[m.base]
        return base if m.shift == 0 and m.mask == base.bits else None

    def mixed(self, cluster: Cluster) -> bool:
        """Whether operands meet in some bit, here or in a base."""
        seen = cluster.constant
        for m in cluster.moved:
            if seen & m.mask or self.bases[m.base].mixed:
                return True
            seen |= m.mask
        return False

    def variables(self, cluster: Cluster) -> frozenset[int]:
        """Numbers of the variables in a cluster."""
        if len(cluster.moved) == 1:
            return self.bases[cluster.moved[0].base].variables
        return frozenset().union(*[self.bases[m.base].variables for m in cluster.moved])

    def bits(self, cluster: Cluster) -> int:
        """The bits that may be set; negative if the value may be."""
        out = cluster.constant
        for m in cluster.moved:
            out |= m.mask
        return out

    def low(self, cluster: Cluster) -> int:
        """How many of the lowest bits are never set."""
        bits = self.bits(cluster)
        return (bits & -bits).bit_length() - 1

    def interval(self, cluster: Cluster) -> tuple[int, int]:
        """Bounds of the value."""
        if len(cluster.moved) == 1 and cluster.constant == 0:
            m = cluster.moved[0]
            base = self.bases[m.base]
            low, high = shifted(base.low, m.shift), shifted(base.high, m.shift)
            if m.mask == shifted(base.bits, m.shift) & -(m.mask & -m.mask):  # rounding down is monotone
                return low & m.mask, high & m.mask
            if m.mask >= 0:
                return 0, min(m.mask, high) if base.low >= 0 else m.mask
            return (0 if base.low >= 0 else -1 << max(low.bit_length(), (~m.mask).bit_length())), max(high, 0)
        bits = self.bits(cluster)
        if bits >= 0:
            return 0, bits
        size = max(self._magnitude(cluster), 1)
        return -(1 << size), (1 << size) - 1

    def _magnitude(self, cluster: Cluster) -> int:
        size = cluster.constant.bit_length()
        for m in cluster.moved:
            base = self.bases[m.base]
            wide = max(base.low.bit_length(), base.high.bit_length()) + m.shift
            size = max(size, wide, m.mask.bit_length())
        return size

    # ---- operations on the bits

    def join(self, a: Cluster, b: Cluster) -> Cluster:
        """``a ^ b``."""
        masks: dict[tuple[int, int], int] = {(m.base, m.shift): m.mask for m in a.moved}
        for m in b.moved:
            masks[m.base, m.shift] = masks.get((m.base, m.shift), 0) ^ m.mask
        return _cluster(a.constant ^ b.constant, masks.items())

    def masked(self, a: Cluster, mask: int) -> Cluster:
        """``a & mask``."""
        return _cluster(a.constant & mask, [((m.base, m.shift), m.mask & mask) for m in a.moved])

    def moved(self, a: Cluster, by: int) -> Cluster:
        """``a << by``; bits below the lowest are dropped."""
        if by == 0:
            return a
        return _cluster(
            shifted(a.constant, by), [((m.base, m.shift + by), shifted(m.mask, by)) for m in a.moved]
        )

    def available(self, m: Moved) -> int:
        """The bits of the shifted base without its mask."""
        return shifted(self.bases[m.base].bits, m.shift)

    def price(self, m: Moved) -> int:
        """Operations of one operand: a shift and a mask where they are needed."""
        return self._shift(m)[0] + (m.mask != self.available(m))

    def _shift(self, m: Moved) -> tuple[int, Term]:
        """The shifted base without its mask."""
        if m.shift > 0:
            return self.multiple(m.base, m.shift)
        term = self.bases[m.base].term
        return (1, ("div", term, 1 << -m.shift)) if m.shift else (0, term)

    # ---- the cheapest term

    def best(self, cluster: Cluster) -> tuple[int, Term]:
        """Cost (without the bases') and term of a cluster."""
        known = self._best.get(cluster)
        if known is None:
            known = self._best[cluster] = self._cheapest(cluster)
        return known

    def _cheapest(self, cluster: Cluster) -> tuple[int, Term]:
        constant, moved = cluster
        if not moved:
            return 0, constant
        if constant:
            price, term = self.best(Cluster(0, moved))
            return price + 1, ("xor" if self.bits(Cluster(0, moved)) & constant else "add", term, constant)
        if len(moved) == 1:
            return self.price(moved[0]), self._one(moved[0])
        prices = [self.price(m) for m in moved]
        found = self._flat(moved, sum(prices))
        if len(moved) > MAX_OPERANDS:
            return found
        for inside, outer, op, k in (*self._by_shift(moved, prices), *self._by_mask(moved)):
            rest = tuple([m for m in moved if m not in outer])
            price, term = self.best(Cluster(0, inside))
            price, term = price + 1, (op, term, k)
            if rest:
                others, right = self.best(Cluster(0, rest))
                both = (term, right) if outer[0] < rest[0] else (right, term)
                price, term = price + others + 1, (_joining(outer, rest), *both)
            if price < found[0]:
                found = price, term
        for a, b in self._differences(moved):
            rest = tuple([m for m in moved if m not in (a, b)])
            price, term = self._difference(a, b)
            if rest:
                others, right = self.best(Cluster(0, rest))
                price, term = price + others + 1, (_joining((a, b), rest), term, right)
            if price < found[0]:
                found = price, term
        return found

    def _differences(self, moved: tuple[Moved, ...]) -> Iterable[tuple[Moved, Moved]]:
        """Pairs that are a whole base, its lower part one place down."""
        for a in moved:
            for b in moved:
                if a.base == b.base and a.shift == b.shift + 1 and self.complete(a, b):
                    lower = shifted(b.mask, -b.shift)
                    if lower > 0 and lower & (lower + 1) == 0:
                        yield a, b

    def complete(self, a: Moved, b: Moved) -> bool:
        """Whether two fields of one base are all of it, each bit once."""
        x, y = shifted(a.mask, -a.shift), shifted(b.mask, -b.shift)
        return x & y == 0 and x | y == self.bases[a.base].bits

    def _difference(self, a: Moved, b: Moved) -> tuple[int, Term]:
        """``base * 2^n - (base mod k) * 2^(n-1)``, which saves a mask."""
        whole = Moved(a.base, a.shift, self.available(a))
        return self.price(whole) + self.price(b) + 1, ("sub", self._one(whole), self._one(b))

    def _one(self, m: Moved) -> Term:
        term = self._shift(m)[1]
        if m.mask == self.available(m):
            return term
        return ("and", term, m.mask)

    def _flat(self, moved: tuple[Moved, ...], prices: int) -> tuple[int, Term]:
        term = self._one(moved[0])
        for i, m in enumerate(moved[1:], 1):
            term = (_joining(moved[:i], (m,)), term, self._one(m))
        return prices + len(moved) - 1, term

    def _by_shift(
        self, moved: tuple[Moved, ...], prices: list[int]
    ) -> Iterable[tuple[tuple[Moved, ...], list[Moved], str, int]]:
        """Groups shifted together: the operands that are cheaper before the shift."""
        for by in sorted({m.shift for m in moved} | {_low(m.mask) for m in moved}):
            if by == 0:
                continue
            inside, outer, saved = [], [], -1
            for m, price in zip(moved, prices):
                if m.mask & ((1 << by) - 1 if by > 0 else 0):
                    continue
                mask = shifted(m.mask, -by)
                before = Moved(m.base, m.shift - by, mask)
                if by < 0:  # what the shift drops may as well stay
                    before = before._replace(mask=mask | (self.available(before) & ((1 << -by) - 1)))
                cheaper = price - self.price(before)
                if cheaper > 0:
                    saved += cheaper
                    inside.append(before)
                    outer.append(m)
            if saved > 0 and len(inside) > 1:
                yield tuple(sorted(inside)), outer, "mul" if by > 0 else "div", 1 << abs(by)

    def _by_mask(self, moved: tuple[Moved, ...]) -> Iterable[tuple[tuple[Moved, ...], list[Moved], str, int]]:
        """Groups under one mask."""
        hidden = [m for m in moved if m.mask != self.available(m)]
        for first in hidden:
            mask, outer, count = first.mask, [first], 1
            for m in moved:
                if m is first:
                    continue
                wider = mask | m.mask
                if all(wider & self.available(o) == o.mask for o in (*outer, m)):
                    mask = wider
                    outer.append(m)
                    count += m in hidden
            if count > 1:
                inside = [Moved(m.base, m.shift, self.available(m)) for m in outer]
                yield tuple(sorted(inside)), sorted(outer), "and", mask


def _cluster(constant: int, masks: Iterable[tuple[tuple[int, int], int]]) -> Cluster:
    return Cluster(constant, tuple(sorted([Moved(b, s, m) for (b, s), m in masks if m])))


def _joining(a: Sequence[Moved], b: Sequence[Moved]) -> str:
    """The operation that joins operands: addition where no bit meets another, as hardware fuses it with shifts."""
    left = right = 0
    for m in a:
        left |= m.mask
    for m in b:
        right |= m.mask
    return "xor" if left & right else "add"


def _low(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
