"""Integer combinations of parities of bits: the arithmetic under ``parity``.

A form is ``(constant, {(atom, coefficient), …})``.  An atom is an int, the set of bits whose parity it is, or a key of an
opaque function of forms with bounds of its own.
"""

from __future__ import annotations

from typing import Any

from ..ir.index import Ranges

Key = Any
Form = tuple[int, frozenset[tuple[Key, int]]]
ZERO: Form = (0, frozenset())
ONE: Form = (1, frozenset())
_MAX_BITS = 64
_MAX_ATOMS = 512
_FUEL = 200_000
"""Terms that one comparison of two index terms may write."""


class NoForm(Exception):
    """The term is outside what this procedure reads."""


class Forms:
    """Bits, opaque atoms and their bounds over one box of variables."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.bits: dict[str, Form] = {}
        self.marked: set[str] = set()
        self.bounds: dict[Key, tuple[int, int]] = {}
        self.next_bit = 0
        self.fuel = _FUEL
        self.split: dict[Key, Form] = {}
        self.partial: set[Key] = set()
        self.branches = False
        self.groups: dict[int, tuple[int, int, int, Key]] = {}
        """Bits that one value was split into, by the first: how many, the least and the largest value, and whose they are."""
        self.remainders: dict[Form, tuple[int, int]] = {}
        """Bounds of forms that are remainders, which their terms do not show."""
        self.atoms: dict[Key, Key] = {}
        """Atom of a function of forms.  Its number stands for it in other forms, so that no key holds keys of keys."""
        self.meaning: dict[Key, Key] = {}
        """And back: the function and its forms."""
        self.nested = False
        """Whether a quotient of a quotient is one quotient, rather than some of the bits of the inner one."""

    # ---- forms

    def make(self, constant: int, terms: dict[Key, int]) -> Form:
        self.fuel -= len(terms) + 1
        if len(terms) > _MAX_ATOMS or self.fuel < 0:
            raise NoForm
        return constant, frozenset([(k, c) for k, c in terms.items() if c])

    def add(self, a: Form, b: Form, factor: int = 1) -> Form:
        if not b[1]:
            return a[0] + factor * b[0], a[1]
        if not a[1] and not a[0]:
            return self.scale(b, factor)
        terms = dict(a[1])
        for k, c in b[1]:
            terms[k] = terms.get(k, 0) + factor * c
        return self.make(a[0] + factor * b[0], terms)

    def scale(self, a: Form, k: int) -> Form:
        if k == 1:
            return a
        if k == 0:
            return ZERO
        out = (a[0] * k, frozenset([(key, c * k) for key, c in a[1]]))
        known = self.remainders.get(a) if self.remainders else None
        if known is not None and k > 0:
            self.remainders.setdefault(out, (known[0] * k, known[1] * k))
        return out

    def interval(self, a: Form) -> tuple[int, int]:
        lo = hi = a[0]
        for k, c in a[1]:
            low, high = (0, 1) if type(k) is int else self.bounds[k]
            if c > 0:
                lo += c * low
                hi += c * high
            else:
                lo += c * high
                hi += c * low
        if self.remainders:
            known = self.remainders.get(a)
            if known is not None:
                return max(lo, known[0]), min(hi, known[1])
        return lo, hi

    def tight(self, a: Form) -> tuple[int, int]:
        """Interval of a form that knows the true range of variables all of whose bits are there in proportion."""
        terms = dict(a[1])
        lo = hi = a[0]
        for start, (n, least, most, _) in self.groups.items():
            c = terms.get(1 << start, 0)
            if n > 1 and c and all(terms.get(1 << (start + i)) == c << i for i in range(n)):
                top = most - least
                lo, hi = lo + min(0, c * top), hi + max(0, c * top)
                for i in range(n):
                    del terms[1 << (start + i)]
        low, high = self.interval((0, frozenset(terms.items())))
        return lo + low, hi + high

    def whole_atom(self, a: Form) -> tuple[Key, int, int] | None:
        """``(key, sign, c)`` if ``a`` is c plus or minus one opaque value, as an atom or as all its bits."""
        if len(a[1]) == 1:
            ((key, sign),) = a[1]
            if type(key) is not int:
                return (key, sign, a[0]) if sign in (1, -1) else None
        if not a[1] or any(type(key) is not int for key, _ in a[1]):
            return None
        terms = dict(a[1])
        first = min(terms)
        start = first.bit_length() - 1
        group = self.groups.get(start)
        sign = terms[first]
        if group is None or group[0] != len(terms) or sign not in (1, -1) or group[3][0] == "var":
            return None
        if any(terms.get(1 << (start + i)) != sign << i for i in range(group[0])):
            return None
        return group[3], sign, a[0] - sign * group[1]

    def rank(self, term: tuple[Key, int]) -> tuple[int, int, int]:
        """A total order of terms that does not depend on hashing."""
        key, c = term
        return (0, key, c) if type(key) is int else (1, key[1], c)

    def order_of(self, a: Form) -> tuple[int, list[tuple[int, int, int]]]:
        """A total order of forms that does not depend on hashing."""
        return a[0], sorted(map(self.rank, a[1]))

    def opaque(self, what: Key, lo: int, hi: int) -> Form:
        """An atom for a function of forms, with its interval."""
        if lo == hi:
            return lo, frozenset()
        key = self.atoms.get(what)
        if key is None:
            key = self.atoms[what] = (what[0], len(self.atoms))
            self.meaning[key] = what
        if lo == 0 and hi == 1:
            # A truth value is a bit like any other.
            if key not in self.split:
                self.split[key] = self._fresh(0, 1, key)
            return self.split[key]
        known = self.bounds.get(key)
        self.bounds[key] = (max(lo, known[0]), min(hi, known[1])) if known else (lo, hi)
        return 0, frozenset(((key, 1),))

    def variable(self, name: str) -> Form:
        known = self.bits.get(name)
        if known is None:
            lo, hi = self.ranges[name]
            if name in self.marked:
                known = self._fresh(lo, hi, ("var", name))
            else:
                known = self.opaque(("var", name), lo, hi)
            self.bits[name] = known
        return known

    def _fresh(self, lo: int, hi: int, owner: Key) -> Form:
        n = (hi - lo).bit_length()
        if n > _MAX_BITS:
            raise NoForm
        start = self.next_bit
        self.next_bit += n
        self.groups[start] = (n, lo, hi, owner)
        return lo, frozenset([(1 << (start + i), 1 << i) for i in range(n)])

    def in_bits(self, a: Form) -> Form:
        """``a`` with bounded opaque atoms written as bits of their own."""
        if all(type(k) is int for k, _ in a[1]):
            return a
        out: Form = (a[0], frozenset([(k, c) for k, c in a[1] if type(k) is int]))
        for k, c in sorted(a[1], key=self.rank):
            if type(k) is int:
                continue
            form = self.split.get(k)
            if form is None:
                lo, hi = self.bounds[k]
                if k[0] == "var":
                    raise NoForm  # marked variables never get here
                form = self.split[k] = self._fresh(lo, hi, k)
            out = self.add(out, form, c)
        return out

    def quotient(self, a: Form, k: int) -> tuple[Form, Form]:
        """``(q, r)`` with ``a = k*q + r`` and ``0 <= r < k``."""
        whole: dict[Key, int] = {}
        rest: dict[Key, int] = {}
        for key, c in a[1]:
            q, r = divmod(c, k)
            if q:
                whole[key] = q
            if r:
                rest[key] = r
        quotient = self.make(a[0] // k, whole)
        left = self.make(a[0] % k, rest)
        lo, hi = self.interval(left)
        if lo < 0 or hi >= k:
            lo, hi = self.tight(left)
        if lo // k != hi // k:
            if self.nested:
                lo, hi = self.interval(a)
                all_of_it = self.opaque(("floor", a, k), lo // k, hi // k)
                return all_of_it, self._remainder(self.add(a, all_of_it, -k), k)
            # Name the quotient of what is left.
            inner = self.opaque(("floor", left, k), lo // k, hi // k)
            return self.add(quotient, inner), self._remainder(self.add(left, inner, -k), k)
        if lo // k:
            return (quotient[0] + lo // k, quotient[1]), (left[0] - k * (lo // k), left[1])
        return quotient, left

    def _remainder(self, a: Form, k: int) -> Form:
        """``a``, of which it is known that it lies in ``[0, k)``."""
        self.remainders[a] = (0, k - 1)
        return a

    def divided(self, a: Form, k: int) -> tuple[Form, Form]:
        """``quotient`` of any form; in nested mode a quotient of a quotient is one quotient."""
        found = self.whole_atom(a) if self.nested else None
        if found is None or found[1] != 1 or found[0][0] != "floor":
            return self.quotient(self.in_bits(a), k)
        _, inside, inner = self.meaning[found[0]]
        c = found[2]
        q = self.quotient(self.add(inside, (c * inner, frozenset())), inner * k)[0]
        return q, self.opaque(("mod", self.add((c, frozenset()), (0, frozenset(((found[0], 1),)))), k), 0, k - 1)
