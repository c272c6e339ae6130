"""Sums of multiples of clusters, and their cheapest terms: what to factor out, what to subtract.

    sum := constant + coefficient*cluster + …      every coefficient odd: powers of two are shifts inside the cluster
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import NamedTuple

from ...ir.index import Term
from ..cost import DEFAULT
from .moves import Cluster, Moved, Moves

Terms = tuple[tuple[int, Cluster], ...]


class Unsure(Exception):
    """What is asked for is beyond what is constructed here: only the e-graph can tell what is cheapest."""


class Sum(NamedTuple):
    """A constant and terms, each a coefficient and a cluster, in order."""

    constant: int
    terms: Terms


class Sums:
    """Sums over one table of bases."""

    def __init__(self) -> None:
        self.moves = Moves(self._multiple)
        self._inner: dict[int, tuple[int, Sum]] = {}
        self._best: dict[Sum, tuple[int, Term]] = {}
        self._groups: dict[Terms, Terms] = {}

    def number(self, k: int) -> Sum:
        return Sum(k, ())

    def of(self, cluster: Cluster) -> Sum:
        """A cluster as a sum: operands that set different bits are terms by themselves."""
        seen = cluster.constant
        for m in cluster.moved:
            if seen & m.mask:
                return Sum(0, ((1, cluster),))
            seen |= m.mask
        return Sum(cluster.constant, tuple([(1, Cluster(0, (m,))) for m in cluster.moved]))

    def base(self, term: Term, low: int, high: int, variables: frozenset[int] | None = None) -> Sum:
        """A new base by itself."""
        return Sum(low, ()) if low == high else self.of(self.moves.base(term, low, high, 1, variables))

    def variables(self, s: Sum) -> frozenset[int]:
        """Numbers of the variables in a sum."""
        return frozenset().union(*[self.moves.variables(x) for _, x in s.terms])


    def opened(self, s: Sum) -> Cluster:
        """A sum as bits: its cluster, or a base of its own."""
        cluster = self.cluster(s)
        if cluster is None:
            low, high = self.interval(s)
            price, term = self.best(s)
            align = gcd(s.constant, *[1 << self.moves.low(x) for _, x in s.terms])
            cluster = self.moves.base(term, low, high, align, self.variables(s))
            self._inner[cluster.moved[0].base] = price, s
        return cluster

    def inside(self, base: int) -> Sum:
        """The sum that a base stands for."""
        if base in self._inner:
            return self._inner[base][1]
        return self.of(Cluster(0, (Moved(base, 0, self.moves.bases[base].bits),)))

    def opened_whole(self, m: Moved) -> bool:
        """Whether an operand is all of a base that stands for a sum."""
        return m.shift == 0 and m.base in self._inner and m.mask == self.moves.bases[m.base].bits

    def hidden(self, base: int) -> int:
        """The cost of a base, which prices of what is moved leave out."""
        return self._inner[base][0] if base in self._inner else 0

    def _multiple(self, base: int, by: int) -> tuple[int, Term]:
        """What ``base << by`` costs more than the base: a sum may take the shift in."""
        term = self.moves.bases[base].term
        found: tuple[int, Term] = 1, ("mul", term, 1 << by)
        if base in self._inner:
            before, inside = self._inner[base]
            price, term = self.best(self.scaled(inside, 1 << by))
            found = min(found, (price - before, term), key=lambda f: f[0])
        return found

    def cluster(self, s: Sum) -> Cluster | None:
        """The cluster that the sum is, if it is one."""
        if not s.terms:
            return Cluster(s.constant, ())
        terms = self._grouped(s.terms)
        if len(terms) > 1 or terms[0][0] != 1:
            return None
        cluster = terms[0][1]
        if s.constant & self.moves.bits(cluster):
            return None
        return cluster._replace(constant=cluster.constant | s.constant)

    def _grouped(self, terms: Terms) -> Terms:
        """Terms of one coefficient that set different bits as one."""
        known = self._groups.get(terms)
        if known is None:
            groups: list[tuple[int, Cluster]] = []
            for c, x in terms:
                bits = self.moves.bits(x)
                for i, (d, y) in enumerate(groups):
                    if c == d and bits & self.moves.bits(y) == 0:
                        groups[i] = c, self.moves.join(x, y)
                        break
                else:
                    groups.append((c, x))
            known = self._groups[terms] = tuple(sorted(groups))
        return known

    def interval(self, s: Sum) -> tuple[int, int]:
        low = high = s.constant
        for c, cluster in s.terms:
            a, b = self.moves.interval(cluster)
            low += c * a if c > 0 else c * b
            high += c * b if c > 0 else c * a
        return low, high

    # ---- arithmetic

    def scaled(self, s: Sum, k: int) -> Sum:
        """``k`` times a sum."""
        if k == 1:
            return s
        if k == 0:
            return Sum(0, ())
        return Sum(k * s.constant, tuple(sorted([self._scaled(c * k, x) for c, x in s.terms])))

    def _scaled(self, c: int, x: Cluster) -> tuple[int, Cluster]:
        """The powers of two of a coefficient are shifts of the cluster."""
        by = (c & -c).bit_length() - 1
        return c >> by, self.moves.moved(x, by)

    def add(self, a: Sum, b: Sum) -> Sum:
        """``a + b``; bits of one base under one shift are one term, and what is subtracted from itself goes."""
        constant = a.constant + b.constant
        terms = list(a.terms)
        for c, x in b.terms:
            constant += self._insert(terms, c, x)
        return Sum(constant, tuple(sorted(terms)))

    def _insert(self, terms: list[tuple[int, Cluster]], c: int, x: Cluster) -> int:
        """Add a term; what it leaves for the constant."""
        if not x.moved:
            return c * x.constant
        bits = self.moves.bits(x)
        places = {(m.base, m.shift) for m in x.moved}
        for i, (d, y) in enumerate(terms):
            if x == y:
                del terms[i]
                return self._insert(terms, *self._scaled(c + d, x)) if c + d else 0
            if c == d:
                if bits & self.moves.bits(y) == 0 and any((m.base, m.shift) in places for m in y.moved):
                    del terms[i]
                    return self._insert(terms, c, self.moves.join(x, y))
            elif c == -d:
                for sign, left in ((c, self._without(x, y)), (d, self._without(y, x))):
                    if left is not None:
                        del terms[i]
                        return self._insert(terms, sign, left)
        terms.append((c, x))
        return 0

    def _without(self, whole: Cluster, part: Cluster) -> Cluster | None:
        """``whole - part`` where the bits of the part are bits of the whole."""
        if whole.constant or part.constant or len(part.moved) > len(whole.moved):
            return None
        masks = {(m.base, m.shift): m.mask for m in whole.moved}
        used = 0
        for m in part.moved:
            if m.mask & masks.get((m.base, m.shift), 0) != m.mask:
                return None
            used |= m.mask
        owners = [m for m in whole.moved if m.mask & used]
        if len(owners) != len(part.moved):
            return None
        return self.moves.join(whole, part)

    # ---- the cheapest term

    def best(self, s: Sum) -> tuple[int, Term]:
        """Cost (without the bases') and term of a sum."""
        known = self._best.get(s)
        if known is None:
            known = self._best[s] = self._cheapest(s)
        return known

    def _cheapest(self, s: Sum) -> tuple[int, Term]:
        if not s.terms:
            return 0, s.constant
        grouped = self._grouped(s.terms)
        self._sharing(grouped)
        found = self._with(s.constant, grouped)
        if grouped != s.terms:
            found = min(found, self._with(s.constant, s.terms), key=lambda f: f[0])
        return found

    def _sharing(self, terms: Terms) -> None:
        """``Unsure`` where a variable is in several terms and not all of them are plain: they may help each other."""
        seen: frozenset[int] = frozenset()
        shared = signed = False
        for c, x in terms:
            own = self.moves.variables(x)
            shared = shared or not seen.isdisjoint(own)
            signed = signed or c != 1 or self.moves.bits(x) < 0
            seen |= own
        if shared and signed:
            raise Unsure

    def _with(self, constant: int, terms: Terms) -> tuple[int, Term]:
        """The cheapest term with these terms, or with one factor taken out of some of them."""
        prices = [self._price(c, x) for c, x in terms]
        found = self._flat(constant, terms, sum(prices))
        if len(terms) == 1:
            return found
        for factor in self._factors(terms):
            inside, outside, saved = [], [], -DEFAULT.times(factor)
            for (c, x), price in zip(terms, prices):
                divided = self._divided(c, x, factor)
                cheaper = price - self._price(*divided) if divided is not None else 0
                if divided is not None and cheaper > 0:
                    saved += cheaper
                    inside.append(divided)
                else:
                    outside.append((c, x))
            if saved <= 0 or len(inside) < 2:
                continue
            price, term = self.best(Sum(0, tuple(sorted(inside))))
            more, term = self._beside(("mul", term, factor), Sum(constant, tuple(outside)))
            price += more + DEFAULT.times(factor)
            if price < found[0]:
                found = price, term
        return found

    def _beside(self, term: Term, rest: Sum) -> tuple[int, Term]:
        """``term`` and the rest of its sum, and what that adds to its cost."""
        if rest == (0, ()):
            return 0, term
        if rest.terms and rest.constant == 0 and all(c < 0 for c, _ in rest.terms):
            price, other = self.best(Sum(0, tuple([(-c, x) for c, x in rest.terms])))
            return price + 1, ("sub", term, other)
        price, other = self.best(rest)
        return price + 1, _plus(term, other)

    def _price(self, c: int, x: Cluster) -> int:
        return self._term(c, x)[0]

    def _term(self, c: int, x: Cluster) -> tuple[int, Term]:
        """Cost and term of the multiple without its sign."""
        c = abs(c)
        if c == 1:
            return self.moves.best(x)
        if (bits := self.moves.bits(x)) & (bits - 1) == 0:
            raise Unsure  # a multiple of one bit is a choice of constants
        by, price, term = self._unshifted(x)
        return price + DEFAULT.mul, ("mul", term, c << by)

    def _unshifted(self, x: Cluster) -> tuple[int, int, Term]:
        """A cluster as ``2^by * y`` for the cheapest ``y``: the factor, the cost and the term of ``y``."""
        price, term = self.moves.best(x)
        found = (0, price, term)
        low = self.moves.low(x)
        for by in sorted({low, *[m.shift for m in x.moved if 0 < m.shift < low]}):
            price, term = self.moves.best(self.moves.moved(x, -by))
            if price < found[1]:
                found = (by, price, term)
        return found

    def _flat(self, constant: int, terms: Terms, prices: int) -> tuple[int, Term]:
        plus: list[Term] = []
        minus: list[Term] = []
        for c, x in terms:
            (plus if c > 0 else minus).append(self._term(c, x)[1])
        price = prices + len(terms) - 1
        if plus:
            out = plus[0]
            for p in plus[1:]:
                out = ("add", out, p)
        elif constant:
            out, constant, price = constant, 0, price + 1
        else:
            c, x = terms[0]
            before = self._price(c, x)
            by, cheapest, term = self._unshifted(x)
            out = ("mul", term, c << by)
            minus.pop(0)
            price += cheapest + DEFAULT.times(c << by) - before
        for m in minus:
            out = ("sub", out, m)
        if constant:
            out, price = _plus(out, constant), price + 1
        return price, out

    def _factors(self, terms: Terms) -> Iterable[int]:
        found = set()
        for c, x in terms:
            low = self.moves.low(x)
            for by in {low, *[m.shift for m in x.moved if 0 < m.shift < low]}:
                found |= {1 << by, abs(c) << by}
        found.discard(1)
        return sorted(found)

    def _divided(self, c: int, x: Cluster, factor: int) -> tuple[int, Cluster] | None:
        by = (factor & -factor).bit_length() - 1
        if c % (factor >> by) or by > self.moves.low(x):
            return None
        return c // (factor >> by), self.moves.moved(x, -by)


def _plus(a: Term, b: Term) -> Term:
    if type(b) is int and b < 0:
        return ("sub", a, -b)
    return ("add", b, a) if type(a) is int else ("add", a, b)
