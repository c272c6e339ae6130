"""Sums of multiples of clusters, and their cheapest terms: what to factor out, what to subtract.

    sum := constant + coefficient*cluster + …      every coefficient odd: powers of two are shifts inside the cluster
"""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import Any, NamedTuple

from ...ir.index import Term
from ..cost import DEFAULT
from .moves import Cluster, Moved, Moves, Terms, Unsure, shifted
from .shared import once, opens, refuse


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

    def base(self, term: Term, low: int, high: int) -> Sum:
        """A variable."""
        return Sum(low, ()) if low == high else self.of(self.moves.base(term, low, high))

    def computed(
        self, op: str, operands: Iterable[Sum], low: int, high: int, kind: str = "other", meaning: Any = None,
        mixed: bool = False,
    ) -> Sum:  # fmt: skip
        """The result of an operation that is opaque to sums and bits."""
        if low == high:
            return Sum(low, ())
        operands = tuple(operands)
        return self.known((op, *[self.best(o)[1] for o in operands]), operands, low, high, kind, meaning, mixed)

    def known(
        self, term: Term, operands: Iterable[Sum], low: int, high: int, kind: str = "other", meaning: Any = None,
        mixed: bool = False,
    ) -> Sum:  # fmt: skip
        """A term over the variables of ``operands`` as a base."""
        variables: frozenset[int] = frozenset()
        for o in operands:
            variables |= self.variables(o)
            mixed = mixed or any(self.moves.mixed(x) for _, x in o.terms)
        return self.of(self.moves.base(term, low, high, variables, kind=kind, meaning=meaning, mixed=mixed))

    def variables(self, s: Sum) -> frozenset[int]:
        """Numbers of the variables in a sum."""
        return frozenset().union(*[self.moves.variables(x) for _, x in s.terms])


    def opened(self, s: Sum) -> Cluster:
        """A sum as bits: its cluster, or a base of its own."""
        cluster = self.cluster(s)
        if cluster is not None:
            return cluster
        align = gcd(0, *[1 << self.moves.low(x) for _, x in s.terms])
        low, high = self.interval(s._replace(constant=0))
        possible = (1 << high.bit_length()) - align if low >= 0 else -align
        if s.constant > 0 and s.constant & possible == 0:  # bits that the terms never set stay outside
            cluster = self.opened(s._replace(constant=0))
            return cluster._replace(constant=cluster.constant | s.constant)
        if any(c > 1 for c, _ in s.terms) and not once(self.moves, s.terms):
            raise Unsure
        price, term = self.best(s)
        low, high = low + s.constant, high + s.constant
        mixed = any(self.moves.mixed(x) for _, x in s.terms)
        cluster = self.moves.base(
            term, low, high, self.variables(s), kind="sum", meaning=s, align=gcd(align, s.constant), mixed=mixed
        )
        self._inner[cluster.moved[0].base] = price, s
        return cluster

    def inside(self, base: int) -> Sum:
        """The sum that a base stands for."""
        if base in self._inner:
            return self._inner[base][1]
        return self.of(Cluster(0, (Moved(base, 0, self.moves.bases[base].bits),)))

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
            if abs(c) != 1 or abs(d) != 1:
                total = self._multiples(c, x, d, y)
                if total is not None:
                    del terms[i]
                    return self._insert(terms, *self._scaled(total[1], total[0])) if total[1] else 0
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

    def _multiples(self, c: int, x: Cluster, d: int, y: Cluster) -> tuple[Cluster, int] | None:
        """The cluster that two terms are multiples of, and the sum of their coefficients; None if there is none."""
        if len(x.moved) != 1 or len(y.moved) != 1 or x.constant or y.constant:
            return None
        by, of = self.moves.low(x), self.moves.low(y)
        core = self.moves.moved(x, -by)
        return (core, (c << by) + (d << of)) if core == self.moves.moved(y, -of) else None

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
        absorbed = self._absorbed(s)
        if absorbed is not None:
            return self.best(absorbed)
        grouped = self._grouped(s.terms)
        ways = self._rejoinings(s.terms)
        refuse(self.moves, grouped, bool(ways))
        found = self._with(s.constant, grouped)
        for terms in (s.terms, *ways) if grouped != s.terms else ways:
            found = min(found, self._with(s.constant, terms), key=lambda f: f[0])
        return found

    def _rejoinings(self, terms: Terms) -> list[Terms]:
        """The terms with a quotient and its remainder joined, where one of them is multiplied."""
        found = []
        for i, a in enumerate(terms):
            for b in terms[i + 1 :]:
                pair = self._rejoined(a, b) if abs(a[0]) > 1 or abs(b[0]) > 1 else None
                if pair is not None:
                    found.append(tuple(sorted([*[t for t in terms if t not in (a, b)], *pair])))
        return found

    def _rejoined(self, a: tuple[int, Cluster], b: tuple[int, Cluster]) -> Terms | None:
        """``a*(x div k) + b*(x mod k)`` as ``(a/k)*x + (b - a/k)*(x mod k)``."""
        (c, x), (d, y) = a, b
        if len(x.moved) != 1 or len(y.moved) != 1 or x.constant or y.constant:
            return None
        m, n = x.moved[0], y.moved[0]
        if m.base != n.base or min(m.shift, n.shift) < 0 or not self.moves.complete(m, n):
            return None
        if shifted(n.mask, -n.shift) & 1 == 0:
            m, n, c, d = n, m, d, c
        whole = Cluster(0, (Moved(m.base, 0, self.moves.bases[m.base].bits),))
        low = Cluster(0, (Moved(n.base, 0, shifted(n.mask, -n.shift)),))
        rest = (d << n.shift) - (c << m.shift)
        return (self._scaled(c << m.shift, whole), self._scaled(rest, low)) if rest else None

    def price(self, terms: Terms) -> int:
        """What terms cost one by one."""
        return sum([self._price(c, x) for c, x in terms])

    def absorbing(self, s: Sum) -> bool:
        """Whether a constant may be cheaper in this sum than elsewhere: a quotient takes it in, or there is no plus."""
        return all(c < 0 for c, _ in s.terms) or any(opens(self.moves, x) for _, x in s.terms)

    def _absorbed(self, s: Sum) -> Sum | None:
        """A sum whose constant a quotient takes in: ``(x + a) / 2^n + b`` is ``(x + a + 2^n*b) / 2^n``."""
        for i, (c, x) in enumerate(s.terms if s.constant else ()):
            if c != 1 or len(x.moved) != 1 or x.constant:
                continue
            m = x.moved[0]
            if m.shift < 0 and m.mask == self.moves.available(m) and self.inside(m.base).constant:
                whole = self.inside(m.base)
                opened = self.opened(whole._replace(constant=whole.constant + (s.constant << -m.shift)))
                rest = Sum(0, s.terms[:i] + s.terms[i + 1 :])
                return self.add(rest, self.of(self.moves.moved(opened, m.shift)))
        return None

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
        if (bits := self.moves.bits(x)) & (bits - 1) == 0:  # a choice of constants
            price, term = self.moves.best(self.moves.moved(x, -self.moves.low(x)))
            return price + DEFAULT.op, ("select", term, c * bits, 0)
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
            more, i, out = min(self._negative(i, c, x) for i, (c, x) in enumerate(terms))
            price += more
            del minus[i]
        for m in minus:
            out = ("sub", out, m)
        if constant:
            out, price = _plus(out, constant), price + 1
        return price, out

    def _negative(self, i: int, c: int, x: Cluster) -> tuple[int, int, Term]:
        """What a negative term costs more than without its sign, its place, and its term."""
        by, cheapest, term = self._unshifted(x)
        return cheapest + DEFAULT.times(c << by) - self._price(c, x), i, ("mul", term, c << by)

    def _factors(self, terms: Terms) -> Iterable[int]:
        found = set()
        for c, x in terms:
            low = self.moves.low(x)
            for by in {0, low, *[m.shift for m in x.moved if 0 < m.shift < low]}:
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
