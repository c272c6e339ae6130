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

from ..ir.index import Ranges, Term
from .parity_forms import ONE, ZERO, Form, Key, NoForm
from .parity_order import Ordered

_BITWISE = frozenset({"div", "mod", "tdiv", "tmod", "shr", "and", "or", "xor"})
_MAX_SHIFT = 62


def equal(before: Term, after: Term, ranges: Ranges) -> bool:
    """Whether the normal forms of both terms are the same; False is no answer.

    A division whose divisor may be zero, or a shift by what may be negative, is admitted on the right only if the left
    has the same one.
    """
    try:
        return any(_same(before, after, ranges, nested) for nested in (False, True))
    except (NoForm, RecursionError):
        return False


def _same(before: Term, after: Term, ranges: Ranges, nested: bool) -> bool:
    reader = _Reader(ranges)
    reader.nested = nested
    reader.mark(before)
    reader.mark(after)
    first = reader.form(before)
    partial, reader.partial = reader.partial, set()
    if first != reader.form(after):
        return False
    # What may lack a value on the right must lack it on the left at the same points, outside any branch.
    return reader.partial <= partial and not (reader.partial and reader.branches)


class _Reader(Ordered):
    def __init__(self, ranges: Ranges) -> None:
        super().__init__(ranges)
        self.seen: set[int] = set()
        self.memo: dict[int, Form] = {}

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

    # ---- terms

    def form(self, t: Term) -> Form:
        if isinstance(t, int):
            return t, frozenset()
        if isinstance(t, str):
            return self.variable(t)
        known = self.memo.get(id(t))
        if known is None:
            zero = self._of_zero(t) if t[0] in ("eq", "ne") else None
            known = self.memo[id(t)] = zero or self._apply(t[0], [self.form(a) for a in t[1:]])
        return known

    def _of_zero(self, t: Term) -> Form | None:
        """``(a | b) == 0`` as ``a == 0`` and ``b == 0``; None for any other comparison."""
        assert isinstance(t, tuple)
        a, b = (t[2], t[1]) if t[1] == 0 else (t[1], t[2])
        if b != 0 or not isinstance(a, tuple) or a[0] != "or":
            return None
        parts, todo = ONE, list(a[1:])
        while todo:
            x = todo.pop()
            if isinstance(x, tuple) and x[0] == "or":
                todo += x[1:]
            else:
                parts = self.both(parts, self.zero(self.form(x)))
        return parts if t[0] == "eq" else self.negated(parts)

    def _apply(self, op: str, args: list[Form]) -> Form:
        if op == "add":
            return self.add(args[0], args[1])
        if op == "sub":
            return self.add(args[0], args[1], -1)
        if op == "neg":
            return self.scale(args[0], -1)
        method = getattr(self, f"_{op}", None)
        if method is None:
            raise NoForm
        result: Form = method(*args)
        return result

    def _mul(self, a: Form, b: Form) -> Form:
        if not a[1]:
            return self.scale(b, a[0])
        if not b[1]:
            return self.scale(a, b[0])
        # Whole variables and opaque atoms multiply out; bits would need products of parities.
        if any(type(k) is int for k, _ in (*a[1], *b[1])) or len(a[1]) * len(b[1]) > 64:
            first, second = sorted((a, b), key=self.order_of)
            return self._product_atom(("mul", first, second), a, b)
        out = self.add(self.add(self.scale(a, b[0]), b, a[0]), (a[0] * b[0], frozenset()), -1)
        for x, c in sorted(a[1], key=self.rank):
            for y, d in sorted(b[1], key=self.rank):
                parts = [self.meaning[z][1] if z[0] == "product" else (z,) for z in (x, y)]
                factors = sorted([*parts[0], *parts[1]], key=lambda z: int(z[1]))
                atom = self._product_atom(
                    ("product", tuple(factors)), (0, frozenset(((x, 1),))), (0, frozenset(((y, 1),)))
                )
                out = self.add(out, atom, c * d)
        return out

    def _product_atom(self, key: Key, a: Form, b: Form) -> Form:
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        corners = [al * bl, al * bh, ah * bl, ah * bh]
        return self.opaque(key, min(corners), max(corners))

    def _div(self, a: Form, b: Form) -> Form:
        if b[1]:
            return self._general("div", a, b)
        if b[0] <= 0:
            raise NoForm
        return self.divided(a, b[0])[0]

    def _mod(self, a: Form, b: Form) -> Form:
        if b[1]:
            return self.add(a, self._mul(b, self._general("div", a, b)), -1)
        if b[0] <= 0:
            raise NoForm
        return self.divided(a, b[0])[1]

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
            raise NoForm
        return self._div(a, b)

    def _tmod(self, a: Form, b: Form) -> Form:
        if self.interval(a)[0] < 0:
            raise NoForm
        return self._mod(a, b)

    def _shl(self, a: Form, b: Form) -> Form:
        if b[1]:
            return self._shifted("shl", a, b)
        if not 0 <= b[0] <= 4096:
            raise NoForm
        return self.scale(a, 1 << b[0])

    def _shr(self, a: Form, b: Form) -> Form:
        if b[1]:
            return self._shifted("shr", a, b)
        if not 0 <= b[0] <= 4096:
            raise NoForm
        return self.divided(a, 1 << b[0])[0]

    def _shifted(self, op: str, a: Form, b: Form) -> Form:
        """A shift by a form; it has no value where the amount is negative."""
        (al, ah), (bl, bh) = self.interval(a), self.interval(b)
        if bl < 0:
            self.partial.add((op, a, b))
        if op == "shr":
            return self.opaque((op, a, b), min(al, -1) if al < 0 else 0, max(ah, 0))
        if bh > _MAX_SHIFT:
            raise NoForm
        return self.opaque((op, a, b), min(al << max(bh, 0), 0), max(ah << max(bh, 0), 0))

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
            if type(key) is not int:
                raise NoForm
            if c < 0:
                constant -= size
            while size:  # one parity may stand at several places
                place = (size & -size).bit_length() - 1
                if place in out:
                    raise NoForm
                out[place] = (key, int(c < 0))
                size &= size - 1
        if constant < 0:
            raise NoForm
        place = 0
        while constant:
            if constant & 1:
                if place in out:
                    raise NoForm
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
            raise NoForm
        # Above the bits of the smaller operand nothing happens to the larger one.
        if ah < bh:
            a, b, bh = b, a, ah
        k = 1 << bh.bit_length()
        high, low = self.quotient(a, k)
        try:
            x, y = self._places(low), self._places(b)
        except NoForm:
            found = self._carrying(a, b)
            return found or self.add(self.opaque(("xor", frozenset((low, b))), 0, k - 1), high, k)
        for place, (parity, flipped) in y.items():
            p, f = x.pop(place, (0, 0))
            if p ^ parity or f ^ flipped:
                x[place] = (p ^ parity, f ^ flipped)
        return self.add(self._from_places(x), high, k)

    def _carrying(self, a: Form, b: Form) -> Form | None:
        """Exclusive or of sums that carry: what lies under the lowest bit of either stays as it is."""
        for x, y in ((a, b), (b, a)):
            shift = min([m & -m for m in (y[0], *[c for _, c in y[1]]) if m])
            if shift > 1:
                high, low = self.quotient(x, shift)
                return self.add(low, self._xor(high, (y[0] // shift, frozenset([(k, c // shift) for k, c in y[1]]))), shift)
        return None

    def _and(self, a: Form, b: Form) -> Form:
        if not a[1]:
            a, b = b, a
        if b[1]:
            return ZERO if self._apart(a, b) else self._and_or("and", a, b)
        lo, hi = self.interval(a)
        if lo >= 0 and b[0] >= 0 and (b[0] + 1) & b[0] == 0 and hi <= b[0]:
            return a
        mask = b[0]
        if mask < 0:
            # a & ~m = a - (a & m)
            return self.add(a, self._and(a, (~mask, frozenset())), -1)
        out: Form = ZERO
        place = 0
        while mask:
            skip = (mask & -mask).bit_length() - 1
            mask >>= skip
            place += skip
            length = (~mask & -~mask).bit_length() - 1
            field = self.divided(self.divided(a, 1 << place)[0] if place else a, 1 << length)[1]
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
            raise NoForm
        try:
            x, y = self._places(a), self._places(b)
        except NoForm:
            top = min(self.interval(a)[1], self.interval(b)[1])
            return self.opaque((op, frozenset((a, b))), 0, top)
        both: dict[int, tuple[int, int]] = {}
        out: Form = ZERO
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
                out = self.add(out, self.both(_literal(p, f), _literal(q, g)), 1 << place)
        return self.add(self._from_places(both), out)


def _literal(parity: int, flipped: int) -> Form:
    """The form of one bit or its complement."""
    return flipped, frozenset(((parity, -1 if flipped else 1),))
