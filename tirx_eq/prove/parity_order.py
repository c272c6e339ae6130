"""Comparisons, truth values, minimum, maximum and selection as forms of ``parity_forms``.

Each is a function of a difference, so that both sides may be moved about; a comparison loses what cannot decide it (a
common factor, a part too small to matter, an outer division), and a conjunction is the set of its conjuncts.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

from .parity_forms import ONE, ZERO, Form, Forms, Key

Literal = tuple[int, int]
"""A bit that is a truth value, and 1 if it is negated."""
_MAX_CASES = 32


class Ordered(Forms):
    """Forms with an order."""

    def __init__(self, ranges: Any) -> None:
        super().__init__(ranges)
        self.conjuncts: dict[int, frozenset[Literal]] = {}
        self.order: dict[int, Form] = {}
        """For bits that are comparisons: the difference that is positive where the bit is 1, with all its terms."""
        self.equations: dict[int, Form] = {}
        """For bits that are equations: what is zero where the bit is 1."""
        self.cases = _MAX_CASES

    # ---- comparisons with zero

    def positive(self, d: Form) -> Form:
        """``d > 0``."""
        lo, hi = self.interval(d)
        if lo > 0:
            return ONE
        if hi <= 0:
            return ZERO
        if lo == 0 and hi == 1:
            return d
        split = self._cases(d)
        if split is not None:
            return split
        exact, d = d, self._coarse(d)
        inside = self._outer_quotient(d)
        if inside is not None:
            return self.positive(inside)
        lo, hi = self.interval(d)
        if lo > 0 or hi <= 0:
            return ONE if lo > 0 else ZERO
        if lo == 0 and hi == 1:
            for key, c in d[1] if len(d[1]) == 1 else ():
                self.order.setdefault(key, exact if c > 0 else self.scale((exact[0] - 1, exact[1]), -1))
            return d
        other = self.scale((d[0] - 1, d[1]), -1)
        if self.order_of(other) < self.order_of(d):
            return self.negated(self._bit(other, self.scale((exact[0] - 1, exact[1]), -1)))
        return self._bit(d, exact)

    def _bit(self, d: Form, exact: Form) -> Form:
        bit = self.opaque(("positive", d), 0, 1)
        for key, _ in bit[1]:
            self.order.setdefault(key, exact)
        return bit

    def _splits(self, terms: frozenset[tuple[Key, int]]) -> Iterator[tuple[Form, int, int, int]]:
        """Ways to write a sum as ``g*x + s``: x, g, and the bounds of s, which has small coefficients; fewest x first."""
        ordered = sorted(terms, key=lambda t: (abs(t[1]), self.rank(t)))
        common = [0]
        for _, c in reversed(ordered):
            common.append(gcd(common[-1], c))
        bounds = [(0, 0)]
        for t in ordered:
            low, high = self.interval((0, frozenset((t,))))
            bounds.append((bounds[-1][0] + low, bounds[-1][1] + high))
        for i in range(len(ordered) - 1, -1, -1):
            g = common[len(ordered) - i]
            yield (0, frozenset([(k, c // g) for k, c in ordered[i:]])), g, *bounds[i]

    def _coarse(self, d: Form) -> Form:
        """A form that is positive exactly where ``d`` is: without small terms that cannot decide, divided by what is common."""
        for x, g, low, high in self._splits(d[1]):
            # d = c + g*x + s > 0  iff  x >= ceil((1 - c - s) / g), which must not depend on s.
            most, least = -((d[0] + low - 1) // g), -((d[0] + high - 1) // g)
            if most == least:
                return 1 - most, x[1]
        return d

    def _between(self, lo: int, hi: int, terms: frozenset[tuple[Key, int]]) -> Form | None:
        """``lo <= sum of terms <= hi`` as one equation, if it is one."""
        if lo == hi:
            return self.zero((-lo, terms))
        for x, g, low, high in self._splits(terms):
            # ceil((lo - s) / g) <= x <= floor((hi - s) / g), the same for every s
            first, last = -((high - lo) // g), (hi - high) // g
            if first == -((low - lo) // g) == last == (hi - low) // g:
                return self.zero((-first, x[1]))
        return None

    def _outer_quotient(self, d: Form) -> Form | None:
        """For ``c ± (a div k)``, a form of ``a`` that is positive at the same points."""
        found = self.whole_atom(d)
        if found is None or found[0][0] != "floor":
            return None
        atom, sign, c = found
        _, inside, k = self.meaning[atom]
        if sign > 0:
            return self.add((c * k - k + 1, frozenset()), inside)  # a div k >= 1 - c  iff  a >= (1 - c)*k
        return self.add((c * k, frozenset()), inside, -1)  # a div k <= c - 1  iff  a < c*k

    def _cases(self, d: Form) -> Form | None:
        """``d > 0`` where ``d`` holds one minimum: ``x + min(0, y)`` is min(x, x + y), its negative a maximum."""
        for key, c in sorted(d[1], key=self.rank):
            if type(key) is not int and key[0] == "min0" and c in (1, -1) and self.cases > 0:
                self.cases -= 1
                rest = self.add(d, (0, frozenset(((key, 1),))), -c)
                first, second = self.positive(rest), self.positive(self.add(rest, self.meaning[key][1], c))
                return self.both(first, second) if c > 0 else self.any(first, second)
        return None

    def zero(self, d: Form) -> Form:
        """``d == 0``."""
        g = gcd(*[c for _, c in d[1]])
        if g > 1:
            if d[0] % g:
                return ZERO
            d = (d[0] // g, frozenset([(k, c // g) for k, c in d[1]]))
        lo, hi = self.interval(d)
        if lo > 0 or hi < 0:
            return ZERO
        if lo == hi == 0:
            return ONE
        if lo == 0 or hi == 0:
            return self.negated(self.positive(d if lo == 0 else self.scale(d, -1)))
        d = min(d, self.scale(d, -1), key=self.order_of)
        bit = self.opaque(("zero", d), 0, 1)
        for key, _ in bit[1]:
            self.equations[key] = d
        return bit

    def _lt(self, a: Form, b: Form) -> Form:
        return self.positive(self.add(b, a, -1))

    def _le(self, a: Form, b: Form) -> Form:
        d = self.add(b, a, -1)
        return self.positive((d[0] + 1, d[1]))

    def _eq(self, a: Form, b: Form) -> Form:
        return self.zero(self.add(a, b, -1))

    def _ne(self, a: Form, b: Form) -> Form:
        return self.negated(self._eq(a, b))

    # ---- truth values

    def truth(self, a: Form) -> Form:
        """``a != 0`` as 0 or 1."""
        lo, hi = self.interval(a)
        return a if 0 <= lo and hi <= 1 else self._ne(a, ZERO)

    def negated(self, a: Form) -> Form:
        """``1 - a``."""
        return self.add(ONE, a, -1)

    def _lnot(self, a: Form) -> Form:
        return self.negated(self.truth(a))

    def _land(self, a: Form, b: Form) -> Form:
        return self.both(self.truth(a), self.truth(b))

    def _lor(self, a: Form, b: Form) -> Form:
        return self.any(self.truth(a), self.truth(b))

    def any(self, a: Form, b: Form) -> Form:
        """Disjunction of two truth values."""
        return self.negated(self.both(self.negated(a), self.negated(b)))

    def both(self, a: Form, b: Form) -> Form:
        """Conjunction of two truth values."""
        if a == b or not a[1]:
            return b if a[0] or a == b else a
        if not b[1]:
            return a if b[0] else b
        x, y = self._literals(a), self._literals(b)
        if x is None or y is None:
            return self.opaque(("all", frozenset((a, b))), 0, 1)
        return self.conjunction(x | y)

    def _literals(self, a: Form) -> frozenset[Literal] | None:
        """The conjuncts of a truth value that is one bit, perhaps negated."""
        if len(a[1]) != 1:
            return None
        ((key, c),) = a[1]
        if type(key) is not int or (a[0], c) not in ((0, 1), (1, -1)):
            return None
        return self.conjuncts.get(key, frozenset(((key, 0),))) if c > 0 else frozenset(((key, 1),))

    def conjunction(self, literals: frozenset[Literal]) -> Form:
        """The bit that is 1 where every literal holds."""
        if any((key, 1 - flipped) in literals for key, flipped in literals):
            return ZERO
        literals = self._tightened(literals)
        if not literals:
            return ZERO
        joined = self._joined(literals)
        if joined is not None:
            return joined
        if len(literals) == 1:
            ((key, flipped),) = literals
            return (1, frozenset(((key, -1),))) if flipped else (0, frozenset(((key, 1),)))
        bit = self.opaque(("and", literals), 0, 1)
        for key, _ in bit[1]:
            self.conjuncts[key] = literals
        return bit

    def _joined(self, literals: frozenset[Literal]) -> Form | None:
        """The conjunction with equations about bits of one value made one equation; None if there are no two of them."""
        values: dict[int, int] = {}  # bit -> what it must be
        owners: dict[int, list[Literal]] = {}  # first bit of a value -> equations about its bits only
        for literal in sorted(literals):
            bits = self._bits_of(literal)
            groups = {self._group_of(key) for key in bits or ()}
            if bits is None or len(groups) != 1:
                continue
            if any(values.setdefault(key, value) != value for key, value in bits.items()):
                return ZERO
            owners.setdefault(groups.pop(), []).append(literal)
        several = {first: found for first, found in owners.items() if len(found) > 1}
        if not several:
            return None
        out: Form = ONE
        for first in several:
            bits = {key: value for key, value in values.items() if self._group_of(key) == first}
            weights = {key: 1 << (key.bit_length() - 1 - first) for key in bits}
            constant = -sum(weights[key] for key, value in bits.items() if value)
            out = self.both(out, self.zero((constant, frozenset(weights.items()))))
        rest = literals - {literal for found in several.values() for literal in found}
        return self.both(out, self.conjunction(rest)) if rest else out

    def _bits_of(self, literal: Literal) -> dict[int, int] | None:
        """What an equation says of single bits: each bit, and its value; None if it isn't one about bits at distinct places."""
        key, flipped = literal
        d = self.order.get(key) if flipped else self.equations.get(key)
        if d is None or (flipped and self.interval(d)[0] != 0):
            return None
        out: dict[int, int] = {}
        for sign in (1, -1):
            wanted, places = -sign * d[0], 0
            for bit, c in d[1]:
                size = sign * c
                if type(bit) is not int or bit & (bit - 1) or size <= 0 or size & (size - 1) or places & size:
                    break
                places |= size
                out[bit] = int(bool(wanted & size))
            else:
                return out if wanted >= 0 and not wanted & ~places else None
        return None

    def _group_of(self, bit: int) -> int:
        """The first bit of the value that a bit is of."""
        place = bit.bit_length() - 1
        return max(first for first in self.groups if first <= place)

    def _tightened(self, literals: frozenset[Literal]) -> frozenset[Literal]:
        """Comparisons of one sum joined: two bounds that meet are an equation, bounds that cross leave nothing."""
        bounds: dict[frozenset[tuple[Key, int]], list[tuple[int, int, Literal]]] = {}
        for literal in literals:
            d = self.order.get(literal[0])
            if d is None:
                continue
            if literal[1]:
                d = self.scale((d[0] - 1, d[1]), -1)  # not d > 0  iff  1 - d > 0
            minus = self.scale(d, -1)
            # the least value of the sum, or its greatest
            if self.order_of((0, d[1])) <= self.order_of((0, minus[1])):
                bounds.setdefault(d[1], []).append((1, 1 - d[0], literal))
            else:
                bounds.setdefault(minus[1], []).append((-1, d[0] - 1, literal))
        out = set(literals)
        for terms, found in bounds.items():
            lows = sorted([f for f in found if f[0] > 0], key=lambda f: -f[1])
            highs = sorted([f for f in found if f[0] < 0], key=lambda f: f[1])
            out.difference_update(f[2] for f in lows[1:] + highs[1:])
            if lows and highs:
                if lows[0][1] > highs[0][1]:
                    return frozenset()
                met = self._between(lows[0][1], highs[0][1], terms)
                same = None if met is None else self._literals(met)
                if same is not None:
                    out -= {lows[0][2], highs[0][2]}
                    out |= same
        return frozenset(out)

    # ---- minimum, maximum, selection

    def _smaller(self, d: Form) -> Form:
        """``min(0, d)``, written for one of ``d`` and ``-d``: min(0, d) = d + min(0, -d)."""
        lo, hi = self.interval(d)
        if lo >= 0 or self._most(self.scale(d, -1)) <= 0:
            return ZERO
        if hi <= 0 or self._most(d) <= 0:
            return d
        other = self.scale(d, -1)
        if self.order_of(other) < self.order_of(d):
            return self.add(d, self.opaque(("min0", other), -hi, 0))
        return self.opaque(("min0", d), lo, 0)

    def _most(self, d: Form) -> int:
        """A bound of ``d`` from above that knows that a minimum is at most its other side."""
        most = self.interval(d)[1]
        for key, c in sorted(d[1], key=self.rank):
            if type(key) is not int and key[0] == "min0" and c > 0:
                other = self.add(self.add(d, (0, frozenset(((key, 1),))), -c), self.meaning[key][1], c)
                most = min(most, self.interval(other)[1])
        return most

    def _min(self, a: Form, b: Form) -> Form:
        return self.add(a, self._smaller(self.add(b, a, -1)))

    def _max(self, a: Form, b: Form) -> Form:
        return self.add(b, self._smaller(self.add(b, a, -1)), -1)

    def _select(self, c: Form, a: Form, b: Form) -> Form:
        self.branches = True
        c = self.truth(c)
        if not c[1]:
            return a if c[0] else b
        other = self.negated(c)
        if self.order_of(other) < self.order_of(c):
            a, b, c = b, a, other
        d = self.add(a, b, -1)
        if not d[1]:
            return self.add(b, c, d[0])
        lo, hi = self.interval(d)
        return self.add(b, self.opaque(("if", c, d), min(lo, 0), max(hi, 0)))

