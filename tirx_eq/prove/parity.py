"""Equality of index terms by one normal form: integer combinations of parities of bits.

    form = constant + sum of coefficient * atom        an atom is a parity (exclusive or) of bits of variables, a whole
                                                       variable, or an opaque function of forms

Parities of distinct non-empty sets of bits are linearly independent (they are Walsh functions), so two combinations are
the same function on all bit values only if they are the same combination.  Sums may carry; division by k splits off
what k divides and needs the rest to lie in ``[0, k)``, exclusive or needs single bits at each place.  Whatever does not
fit becomes an opaque atom keyed by the forms of its operands, so equal operands still give equal atoms.

Ranges are widened to a power of two: "equal" holds on the wider box, hence on the given one; anything else is no answer.
This shares no code with the rules or with the simplifier's normal form.
"""

from __future__ import annotations

from typing import Any

from ..ir.index import Ranges, Term

Key = Any
Form = tuple[int, frozenset[tuple[Key, int]]]
_BITWISE = frozenset({"div", "mod", "tdiv", "tmod", "shr", "and", "or", "xor"})
_MAX_BITS = 64
_MAX_ATOMS = 512


class _NoForm(Exception):
    """The term is outside what this procedure reads."""


def equal(before: Term, after: Term, ranges: Ranges) -> bool:
    """Whether the normal forms of both terms are the same; False is no answer.

    A division whose divisor may be zero is admitted on the right only if the left has the same one.
    """
    reader = _Reader(ranges)
    try:
        reader.mark(before)
        reader.mark(after)
        first = reader.form(before)
        partial, reader.partial = reader.partial, set()
        if first != reader.form(after):
            return False
        # What may lack a value on the right must lack it on the left at the same points, outside any branch.
        return reader.partial <= partial and not (reader.partial and reader.branches)
    except (_NoForm, RecursionError):
        return False


class _Reader:
    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self.whole: dict[str, tuple[int, int]] = {}
        self.bits: dict[str, Form] = {}
        self.marked: set[str] = set()
        self.seen: set[int] = set()
        self.memo: dict[int, Form] = {}
        self.bounds: dict[Key, tuple[int, int]] = {}
        self.next_bit = 0
        self.split: dict[Key, Form] = {}
        self.partial: set[Key] = set()
        self.branches = False
        self.groups: list[tuple[int, int, int]] = []

    def mark(self, t: Term, below: bool = False) -> None:
        """Note the variables that occur under an operation on bits: those are written bit by bit everywhere."""
        if isinstance(t, str):
            if below:
                self.marked.add(t)
        elif isinstance(t, tuple):
            key = id(t) * 2 + below
            if key in self.seen:
                return
            self.seen.add(key)
            below = below or t[0] in _BITWISE
            for a in t[1:]:
                self.mark(a, below)

    # ---- forms

    def make(self, constant: int, terms: dict[Key, int]) -> Form:
        if len(terms) > _MAX_ATOMS:
            raise _NoForm
        return constant, frozenset([(k, c) for k, c in terms.items() if c])

    def add(self, a: Form, b: Form, factor: int = 1) -> Form:
        if not b[1]:
            return a[0] + factor * b[0], a[1]
        terms = dict(a[1])
        for k, c in b[1]:
            terms[k] = terms.get(k, 0) + factor * c
        return self.make(a[0] + factor * b[0], terms)

    def scale(self, a: Form, k: int) -> Form:
        return (a[0] * k, frozenset([(key, c * k) for key, c in a[1]])) if k else (0, frozenset())

    def interval(self, a: Form) -> tuple[int, int]:
        lo = hi = a[0]
        for k, c in a[1]:
            low, high = (0, 1) if type(k) is int else self.bounds[k]
            lo += min(c * low, c * high)
            hi += max(c * low, c * high)
        return lo, hi

    def tight(self, a: Form) -> tuple[int, int]:
        """Interval of a form that knows the true range of variables all of whose bits are there in proportion."""
        terms = dict(a[1])
        lo = hi = a[0]
        for start, n, top in self.groups:
            c = terms.get(1 << start, 0)
            if n > 1 and c and all(terms.get(1 << (start + i)) == c << i for i in range(n)):
                lo, hi = lo + min(0, c * top), hi + max(0, c * top)
                for i in range(n):
                    del terms[1 << (start + i)]
        low, high = self.interval((0, frozenset(terms.items())))
        return lo + low, hi + high

    def opaque(self, key: Key, lo: int, hi: int) -> Form:
        """An atom for a function of forms, with its interval."""
        if lo == hi:
            return lo, frozenset()
        if lo == 0 and hi == 1:
            # A truth value is a bit like any other.
            if key not in self.split:
                self.split[key] = self._fresh(0, 1)
            return self.split[key]
        known = self.bounds.get(key)
        self.bounds[key] = (max(lo, known[0]), min(hi, known[1])) if known else (lo, hi)
        return 0, frozenset(((key, 1),))

    def variable(self, name: str) -> Form:
        known = self.bits.get(name)
        if known is None:
            lo, hi = self.ranges[name]
            if name in self.marked:
                known = self._fresh(lo, hi)
            else:
                known = self.opaque(("var", name), lo, hi)
            self.bits[name] = known
        return known

    def _fresh(self, lo: int, hi: int) -> Form:
        n = (hi - lo).bit_length()
        if n > _MAX_BITS:
            raise _NoForm
        start = self.next_bit
        self.next_bit += n
        self.groups.append((start, n, hi - lo))
        return lo, frozenset([(1 << (start + i), 1 << i) for i in range(n)])

    def in_bits(self, a: Form) -> Form:
        """``a`` with bounded opaque atoms written as bits of their own."""
        if all(type(k) is int for k, _ in a[1]):
            return a
        out: Form = (a[0], frozenset([(k, c) for k, c in a[1] if type(k) is int]))
        for k, c in a[1]:
            if type(k) is int:
                continue
            form = self.split.get(k)
            if form is None:
                lo, hi = self.bounds[k]
                if k[0] == "var":
                    raise _NoForm  # marked variables never get here
                form = self.split[k] = self._fresh(lo, hi)
            out = self.add(out, form, c)
        return out

    # ---- terms

    def form(self, t: Term) -> Form:
        if isinstance(t, int):
            return t, frozenset()
        if isinstance(t, str):
            return self.variable(t)
        known = self.memo.get(id(t))
        if known is None:
            known = self.memo[id(t)] = self._apply(t[0], [self.form(a) for a in t[1:]])
        return known

    def _apply(self, op: str, args: list[Form]) -> Form:
        if op == "add":
            return self.add(args[0], args[1])
        if op == "sub":
            return self.add(args[0], args[1], -1)
        if op == "neg":
            return self.scale(args[0], -1)
        method = getattr(self, f"_{op}", None)
        if method is None:
            raise _NoForm
        result: Form = method(*args)
        return result

    def _mul(self, a: Form, b: Form) -> Form:
        if not a[1]:
            return self.scale(b, a[0])
        if not b[1]:
            return self.scale(a, b[0])
        # Whole variables and opaque atoms multiply out; bits would need products of parities.
        if any(type(k) is int for k, _ in (*a[1], *b[1])) or len(a[1]) * len(b[1]) > 64:
            first, second = sorted((a, b), key=repr)
            return self._product_atom(("mul", first, second), a, b)
        out = self.add(self.add(self.scale(a, b[0]), b, a[0]), (a[0] * b[0], frozenset()), -1)
        for x, c in a[1]:
            for y, d in b[1]:
                factors = sorted(
                    [*(x[1] if x[0] == "product" else (x,)), *(y[1] if y[0] == "product" else (y,))], key=repr
                )
                atom = self._product_atom(
                    ("product", tuple(factors)), (0, frozenset(((x, 1),))), (0, frozenset(((y, 1),)))
                )
                out = self.add(out, atom, c * d)
        return out

    def _product_atom(self, key: Key, a: Form, b: Form) -> Form:
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        corners = [al * bl, al * bh, ah * bl, ah * bh]
        return self.opaque(key, min(corners), max(corners))

    def _quotient(self, a: Form, k: int) -> tuple[Form, Form]:
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
            # Name the quotient of what is left.
            inner = self.opaque(("div", left, k), lo // k, hi // k)
            return self.add(quotient, inner), self.add(left, inner, -k)
        if lo // k:
            return (quotient[0] + lo // k, quotient[1]), (left[0] - k * (lo // k), left[1])
        return quotient, left

    def _div(self, a: Form, b: Form) -> Form:
        if b[1]:
            return self._general("div", a, b)
        if b[0] <= 0:
            raise _NoForm
        return self._quotient(self.in_bits(a), b[0])[0]

    def _mod(self, a: Form, b: Form) -> Form:
        if b[1]:
            return self.add(a, self._mul(b, self._general("div", a, b)), -1)
        if b[0] <= 0:
            raise _NoForm
        return self._quotient(self.in_bits(a), b[0])[1]

    def _general(self, op: str, a: Form, b: Form) -> Form:
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        if bl <= 0 <= bh:
            self.partial.add((op, a, b))
        reach = max(abs(al), abs(ah)) + 1
        if al >= 0 and bl >= 0:
            return self.opaque((op, a, b), 0, ah)
        return self.opaque((op, a, b), -reach, reach)

    def _tdiv(self, a: Form, b: Form) -> Form:
        if self.interval(a)[0] < 0:
            raise _NoForm
        return self._div(a, b)

    def _tmod(self, a: Form, b: Form) -> Form:
        if self.interval(a)[0] < 0:
            raise _NoForm
        return self._mod(a, b)

    def _shl(self, a: Form, b: Form) -> Form:
        if b[1] or not 0 <= b[0] <= 4096:
            raise _NoForm
        return self.scale(a, 1 << b[0])

    def _shr(self, a: Form, b: Form) -> Form:
        if b[1] or not 0 <= b[0] <= 4096:
            raise _NoForm
        return self._quotient(self.in_bits(a), 1 << b[0])[0]

    def _apart(self, a: Form, b: Form) -> bool:
        """Whether one operand is a multiple of a power of two above the other, which is not negative."""
        for x, y in ((a, b), (b, a)):
            lo, hi = self.interval(y)
            if lo >= 0:
                k = 1 << hi.bit_length()
                if x[0] % k == 0 and all(c % k == 0 for _, c in x[1]):
                    return True
        return False

    def _places(self, a: Form) -> dict[int, tuple[int, int]]:
        """Bit place → (parity, 1 if complemented) of a form whose value is its bits without carries."""
        out: dict[int, tuple[int, int]] = {}
        constant = a[0]
        for key, c in a[1]:
            size = abs(c)
            if type(key) is not int or size & (size - 1):
                raise _NoForm
            place = size.bit_length() - 1
            if place in out:
                raise _NoForm
            out[place] = (key, int(c < 0))
            if c < 0:
                constant -= size
        if constant < 0:
            raise _NoForm
        place = 0
        while constant:
            if constant & 1:
                if place in out:
                    raise _NoForm
                out[place] = (0, 1)
            constant >>= 1
            place += 1
        return out

    def _from_places(self, places: dict[int, tuple[int, int]]) -> Form:
        constant = 0
        terms: dict[Key, int] = {}
        for place, (parity, flipped) in places.items():
            if flipped:
                constant += 1 << place
            if parity:
                terms[parity] = terms.get(parity, 0) + (-(1 << place) if flipped else 1 << place)
        return self.make(constant, terms)

    def _xor(self, a: Form, b: Form) -> Form:
        if self._apart(a, b):
            return self.add(a, b)
        a, b = self.in_bits(a), self.in_bits(b)
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        if al < 0 or bl < 0:
            raise _NoForm
        # Above the bits of the smaller operand nothing happens to the larger one.
        if ah < bh:
            a, b, bh = b, a, ah
        k = 1 << bh.bit_length()
        high, low = self._quotient(a, k)
        try:
            x, y = self._places(low), self._places(b)
        except _NoForm:
            return self.add(self.opaque(("xor", frozenset((low, b))), 0, k - 1), high, k)
        for place, (parity, flipped) in y.items():
            p, f = x.pop(place, (0, 0))
            if p ^ parity or f ^ flipped:
                x[place] = (p ^ parity, f ^ flipped)
        return self.add(self._from_places(x), high, k)

    def _and(self, a: Form, b: Form) -> Form:
        if not a[1]:
            a, b = b, a
        if b[1]:
            return (0, frozenset()) if self._apart(a, b) else self._and_or("and", a, b)
        lo, hi = self.interval(a)
        if lo >= 0 and b[0] >= 0 and (b[0] + 1) & b[0] == 0 and hi <= b[0]:
            return a
        a = self.in_bits(a)
        mask = b[0]
        if mask < 0:
            # a & ~m = a - (a & m)
            return self.add(a, self._and(a, (~mask, frozenset())), -1)
        out: Form = (0, frozenset())
        place = 0
        while mask:
            skip = (mask & -mask).bit_length() - 1
            mask >>= skip
            place += skip
            length = (~mask & -~mask).bit_length() - 1
            field = self._quotient(self._quotient(a, 1 << place)[0], 1 << length)[1]
            out = self.add(out, field, 1 << place)
            mask >>= length
            place += length
        return out

    def _or(self, a: Form, b: Form) -> Form:
        return self.add(self.add(a, b), self._and(a, b), -1)

    def _and_or(self, op: str, a: Form, b: Form) -> Form:
        a, b = self.in_bits(a), self.in_bits(b)
        if a == b:
            return a
        if self.interval(a)[0] < 0 or self.interval(b)[0] < 0:
            raise _NoForm
        try:
            x, y = self._places(a), self._places(b)
        except _NoForm:
            top = min(self.interval(a)[1], self.interval(b)[1])
            return self.opaque((op, frozenset((a, b))), 0, top)
        both: dict[int, tuple[int, int]] = {}
        out: Form = (0, frozenset())
        for place in sorted(set(x) & set(y)):
            (p, f), (q, g) = x[place], y[place]
            if p == q:
                if f == g:
                    both[place] = (p, f)
            elif p == 0:
                both[place] = (q, g)
            elif q == 0:
                both[place] = (p, f)
            else:
                atom = self.opaque(("bit-and", frozenset(((p, f), (q, g)))), 0, 1)
                out = self.add(out, atom, 1 << place)
        return self.add(self._from_places(both), out)

    # ---- order: functions of a difference, so that both sides may be moved about

    def _positive(self, d: Form) -> Form:
        lo, hi = self.interval(d)
        if lo > 0:
            return 1, frozenset()
        if hi <= 0:
            return 0, frozenset()
        if lo == 0 and hi == 1:
            return d
        other = self.scale((d[0] - 1, d[1]), -1)
        if _order(other) < _order(d):
            return self.add((1, frozenset()), self.opaque(("positive", other), 0, 1), -1)
        return self.opaque(("positive", d), 0, 1)

    def _lt(self, a: Form, b: Form) -> Form:
        return self._positive(self.add(b, a, -1))

    def _le(self, a: Form, b: Form) -> Form:
        d = self.add(b, a, -1)
        return self._positive((d[0] + 1, d[1]))

    def _eq(self, a: Form, b: Form) -> Form:
        d = self.add(a, b, -1)
        lo, hi = self.interval(d)
        if lo > 0 or hi < 0:
            return 0, frozenset()
        if lo == hi == 0:
            return 1, frozenset()
        d = min(d, self.scale(d, -1), key=_order)
        lo, hi = self.interval(d)
        if (lo, hi) in ((0, 1), (-1, 0)):
            return self.add((1, frozenset()), d, -1 if lo == 0 else 1)
        return self.opaque(("zero", d), 0, 1)

    def _ne(self, a: Form, b: Form) -> Form:
        return self.add((1, frozenset()), self._eq(a, b), -1)

    def _truth(self, a: Form) -> Form:
        lo, hi = self.interval(a)
        return a if 0 <= lo and hi <= 1 else self._ne(a, (0, frozenset()))

    def _lnot(self, a: Form) -> Form:
        return self.add((1, frozenset()), self._truth(a), -1)

    def _land(self, a: Form, b: Form) -> Form:
        a, b = self._truth(a), self._truth(b)
        if a == b or not a[1]:
            return b if a[0] or a == b else a
        if not b[1]:
            return a if b[0] else b
        return self.opaque(("all", frozenset((a, b))), 0, 1)

    def _lor(self, a: Form, b: Form) -> Form:
        return self._lnot(self._land(self._lnot(a), self._lnot(b)))

    def _smaller(self, d: Form) -> Form:
        """``min(0, d)``, written for one of ``d`` and ``-d``: min(0, d) = d + min(0, -d)."""
        lo, hi = self.interval(d)
        if lo >= 0:
            return 0, frozenset()
        if hi <= 0:
            return d
        other = self.scale(d, -1)
        if _order(other) < _order(d):
            return self.add(d, self.opaque(("min0", other), -hi, 0))
        return self.opaque(("min0", d), lo, 0)

    def _min(self, a: Form, b: Form) -> Form:
        return self.add(a, self._smaller(self.add(b, a, -1)))

    def _max(self, a: Form, b: Form) -> Form:
        return self.add(b, self._smaller(self.add(b, a, -1)), -1)

    def _select(self, c: Form, a: Form, b: Form) -> Form:
        self.branches = True
        c = self._truth(c)
        if not c[1]:
            return a if c[0] else b
        other = self.add((1, frozenset()), c, -1)
        if _order(other) < _order(c):
            a, b, c = b, a, other
        d = self.add(a, b, -1)
        if not d[1]:
            return self.add(b, c, d[0])
        lo, hi = self.interval(d)
        return self.add(b, self.opaque(("if", c, d), min(lo, 0), max(hi, 0)))


def _order(f: Form) -> tuple[int, list[str]]:
    return f[0], sorted(repr(t) for t in f[1])
