"""Normal form of whole index terms: drives ``linear`` over every operator and keeps what it cannot see as atoms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import gcd
from typing import Any

from .cost import is_pow2
from .encode import WIDE, Encoder, TooBig, children
from .linear import ZERO, Form, Linear, add, constant, low_bit, scale

_ORDER = {
    "Lt": lambda a, b: 1 if a[1] < b[0] else 0 if a[0] >= b[1] else None,
    "Le": lambda a, b: 1 if a[1] <= b[0] else 0 if a[0] > b[1] else None,
    "Eq": lambda a, b: 0 if a[1] < b[0] or b[1] < a[0] else None,
    "Ne": lambda a, b: 1 if a[1] < b[0] or b[1] < a[0] else None,
}


WORK = 400_000
"""Elementary steps that one expression may take before it is left as it is."""
_MAX_XOR = 24
_LARGE = 1 << 8


class Normal:
    """Turns nodes of one encoder (``source``) into normal forms over another (``target``), sharing all work."""

    def __init__(self, source: Encoder, target: Encoder, align: Mapping[str, int] | None = None) -> None:
        """``align``: variables known to be multiples of a number."""
        self.source, self.target = source, target
        self.align = align or {}
        self.linear = Linear(target)
        self.forms: list[Form] = []
        self.failed: list[bool] = []
        self.linear.exclusive = self._xor_all

    def form(self, node: int) -> Form:
        """Normal form of a source node; all nodes below it are done on the way (they have smaller numbers)."""
        self.linear.work = WORK
        while len(self.forms) <= node:
            key = self.source.keys[len(self.forms)]
            try:
                if any(self.failed[k] for k in children(key)):
                    raise TooBig
                self.forms.append(self.linear.tidy(_OPERATORS[key[0]](self, key)))
                self.failed.append(False)
            except TooBig:
                self.forms.append(ZERO)
                self.failed.append(True)
        if self.failed[node]:
            raise TooBig
        return self.forms[node]

    def build(self, node: int) -> int:
        """Target node of the normal form of a source node."""
        return self.linear.build(self.form(node))

    # ---- one function per operator; operands have been done

    def number(self, key: tuple[int, ...]) -> Form:
        return constant(key[1])

    def variable(self, key: tuple[int, ...]) -> Form:
        return self.linear.atom(key[2], key[3], self.align.get(str(key[1]), 1), *key)

    def plus(self, key: tuple[int, ...]) -> Form:
        return add(self.forms[key[1]], self.forms[key[2]])

    def plus_constant(self, key: tuple[int, ...]) -> Form:
        f = self.forms[key[1]]
        return (f[0] + key[2], f[1])

    def times_constant(self, key: tuple[int, ...]) -> Form:
        return _scaled(self.forms[key[1]], key[2])

    def floor_div(self, key: tuple[int, ...]) -> Form:
        return self.linear.div(self.forms[key[1]], key[2])

    def floor_mod(self, key: tuple[int, ...]) -> Form:
        return self.linear.mod(self.forms[key[1]], key[2])

    def trunc_div(self, key: tuple[int, ...]) -> Form:
        f, k = self.forms[key[1]], key[2]
        lo, hi = self.linear.bounds(f)
        if lo >= 0 or (f[0] % k == 0 and all(c % k == 0 for _, c in f[1])):
            return self.linear.div(f, k)
        cut = lambda v: v // k if v >= 0 else -(-v // k)  # noqa: E731
        return self.linear.atom(cut(lo), cut(hi), 1, "TDivK", self.linear.build(f), k)

    def trunc_mod(self, key: tuple[int, ...]) -> Form:
        f, k = self.forms[key[1]], key[2]
        lo, hi = self.linear.bounds(f)
        if lo >= 0:
            return self.linear.mod(f, k)
        if f[0] % k == 0 and all(c % k == 0 for _, c in f[1]):
            return ZERO
        return self.linear.atom(max(lo, 1 - k), min(max(hi, 0), k - 1), 1, "TModK", self.linear.build(f), k)

    def product(self, key: tuple[int, ...]) -> Form:
        a, b = self.forms[key[1]], self.forms[key[2]]
        if not a[1]:
            return _scaled(b, a[0])
        if not b[1]:
            return _scaled(a, b[0])
        if len(a[1]) * len(b[1]) > 8:
            return self._multiply(a, b)
        out = constant(a[0] * b[0])
        out = add(out, add(scale((0, a[1]), b[0]), scale((0, b[1]), a[0])))
        for x, c in a[1]:
            for y, d in b[1]:
                out = add(out, scale(self._multiply((0, ((x, 1),)), (0, ((y, 1),))), c * d))
        return out

    def _factors(self, f: Form) -> list[int]:
        node = self.linear.build(f)
        out, stack = [], [node]
        while stack:
            n = stack.pop()
            key = self.target.keys[n]
            if key[0] == "Mul":
                stack.extend(key[1:])
            else:
                self.linear.spend(1)
                out.append(n)
        return out

    def _multiply(self, a: Form, b: Form) -> Form:
        factors = sorted(self._factors(a) + self._factors(b))
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        corners = [al * bl, al * bh, ah * bl, ah * bh]
        node = factors[0]
        for f in factors[1:-1]:
            node = self.target.node("Mul", node, f)
        align = 1
        for f in factors:
            align *= self.linear.facts[f][2] if f in self.linear.facts else 1
        return self.linear.atom(min(corners), max(corners), align, "Mul", node, factors[-1])

    # ---- bits

    def mask(self, key: tuple[int, ...]) -> Form:
        f, k = self.forms[key[1]], key[2]
        possible = self.linear.bits(f)
        if possible >= 0:
            k &= possible
            if k == possible:
                return f
        if k == 0:
            return ZERO
        low = low_bit(k)
        if k < 0 and is_pow2(-k):
            return scale(self.linear.div(f, -k), -k)
        runs = _runs(k) if k > 0 else []
        if 0 < len(runs) <= 2:
            out = ZERO
            for start, length in runs:
                out = add(
                    out, scale(self.linear.mod(self.linear.div(f, 1 << start), 1 << length), 1 << start)
                )
            return self.linear.tidy(out)
        lo, hi = self.linear.bounds(f)
        top = k if k > 0 else hi
        bottom = 0 if k > 0 or lo >= 0 else -(1 << max(abs(lo).bit_length(), (-k).bit_length()))
        return self.linear.atom(
            bottom, min(top, hi) if lo >= 0 else max(top, 0), low, "AndK", self.linear.build(f), k
        )

    def exclusive(self, key: tuple[int, ...]) -> Form:
        return self._xor(self.forms[key[1]], self.forms[key[2]])

    def exclusive_constant(self, key: tuple[int, ...]) -> Form:
        f, k = self.forms[key[1]], key[2]
        possible = self.linear.bits(f)
        if k == 0:
            return f
        if k == -1:
            return add(constant(-1), scale(f, -1))
        if possible >= 0 and k > 0 and possible & k == 0:
            return add(f, constant(k))
        lo, hi = self.linear.bounds(f)
        low, high = _xor_range(lo, hi, k, k)
        return self.linear.atom(low, high, 1, "XorK", self.linear.build(f), k)

    def _xor(self, a: Form, b: Form) -> Form:
        return self._xor_all([a, b])

    def _xor_all(self, forms: list[Form]) -> Form:
        operands: dict[Form, int] = {}
        for f in forms:
            for g in self._xor_operands(f):
                operands[g] = operands.get(g, 0) ^ 1
        rest = sorted((f for f, odd in operands.items() if odd and f != ZERO), key=self._xor_key)
        out = ZERO
        for f in rest:
            out = self._xor_two(out, f)
        return out

    def _xor_key(self, f: Form) -> tuple[int, Form]:
        return (-self.linear.bounds(f)[1], f)

    def _xor_operands(self, f: Form) -> list[Form]:
        if len(f[1]) == 1 and f[0] == 0 and f[1][0][1] > 0 and is_pow2(f[1][0][1]):
            atom, c = f[1][0]
            inner = self.linear.exclusives.get(atom)
            if inner is not None:
                return [scale(g, c) for g in inner]
        return [f]

    def _xor_two(self, a: Form, b: Form) -> Form:
        if a == ZERO or b == ZERO:
            return add(a, b)
        if a == b:
            return ZERO
        if not a[1] and not b[1]:
            return constant(a[0] ^ b[0])
        self.linear.spend(len(a[1]) + len(b[1]))
        x, y = self.linear.bits(a), self.linear.bits(b)
        if x < 0 or y < 0:
            return self._xor_atom(a, b)
        if x & y == 0:
            return add(a, b)
        out = ZERO
        kept = []
        for f, other in ((a, y), (b, x)):
            free = ZERO
            mine = self.linear.bits(f)
            for atom, c in f[1]:
                m = self.linear.facts[atom][3] * c
                if c > 0 and is_pow2(c) and m & other == 0 and self._alone(f, atom, m):
                    free = add(free, (0, ((atom, c),)))
            if f[0] > 0 and f[0] & other == 0 and mine >= 0 and self._alone(f, -1, f[0]):
                free = add(free, constant(f[0]))
            out = add(out, free)
            kept.append(add(f, scale(free, -1)))
        a, b = kept
        if out != ZERO:
            return add(out, self._xor_two(a, b))
        common = low_bit(self.linear.bits(a) | self.linear.bits(b))
        if common > 1 and all(f[0] % common == 0 and all(c % common == 0 for _, c in f[1]) for f in (a, b)):
            return add(out, scale(self._xor_two(_shrink(a, common), _shrink(b, common)), common))
        return add(out, self._xor_atom(a, b))

    def _alone(self, f: Form, atom: int, bits: int) -> bool:
        """Whether ``bits`` of one term of ``f`` cannot meet the other terms, so that taking it out is no borrow."""
        total = f[0] if atom >= 0 else 0
        for other, c in f[1]:
            if other != atom:
                m = self.linear.facts[other][3]
                if c < 0 or m < 0 or not is_pow2(c) or total & (m * c):
                    return False
                total |= m * c
        return total >= 0 and total & bits == 0

    def _xor_atom(self, a: Form, b: Form) -> Form:
        first, second = sorted((a, b), key=self._xor_key)
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        if al >= 0 and bl >= 0:
            low, high = 0, self.linear.bits(a) | self.linear.bits(b)
        else:
            low, high = _xor_range(min(al, bl), max(ah, bh), min(al, bl), max(ah, bh))
        align = max(low_bit(self.linear.bits(a) | self.linear.bits(b)), 1) if al >= 0 and bl >= 0 else 1
        out = self.linear.atom(low, high, align, "Xor", self.linear.build(first), self.linear.build(second))
        if out[1]:
            inner = tuple(g for f in (first, second) for g in self._xor_operands(f))
            if len(inner) <= _MAX_XOR:
                self.linear.exclusives.setdefault(out[1][0][0], inner)
        return out

    def either(self, key: tuple[int, ...]) -> Form:
        a, b = self.forms[key[1]], self.forms[key[2]]
        if a == b:
            return a
        x, y = self.linear.bits(a), self.linear.bits(b)
        if x >= 0 and y >= 0:
            if x & y == 0:
                return add(a, b)
            return self.linear.atom(0, x | y, 1, "Or", self.linear.build(a), self.linear.build(b))
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        low, high = _xor_range(min(al, bl), max(ah, bh), min(al, bl), max(ah, bh))
        return self.linear.atom(low, high, 1, "Or", self.linear.build(a), self.linear.build(b))

    def either_constant(self, key: tuple[int, ...]) -> Form:
        f, k = self.forms[key[1]], key[2]
        possible = self.linear.bits(f)
        if possible >= 0 and k >= 0 and possible & k == 0:
            return add(f, constant(k))
        lo, hi = self.linear.bounds(f)
        low, high = _xor_range(lo, hi, k, k)
        return self.linear.atom(low, high, 1, "OrK", self.linear.build(f), k)

    def both(self, key: tuple[int, ...]) -> Form:
        a, b = self.forms[key[1]], self.forms[key[2]]
        if a == b:
            return a
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        tops = [h for low, h in ((al, ah), (bl, bh)) if low >= 0]
        low, high = (0, min(tops)) if tops else _xor_range(min(al, bl), max(ah, bh), 0, 0)
        return self.linear.atom(low, high, 1, "And", self.linear.build(a), self.linear.build(b))

    # ---- the rest: intervals only

    def compare(self, key: Any) -> Form:
        a, b = self.forms[key[1]], self.forms[key[2]]
        difference = self.linear.bounds(add(a, scale(b, -1)))
        decided = _ORDER[str(key[0])](difference, (0, 0))
        if decided is not None:
            return constant(decided)
        if a == b:
            return constant(1 if key[0] in ("Le", "Eq") else 0)
        if a[1] and b[1]:
            decided, a, b = _cancelled(str(key[0]), a, b)
            if decided is not None:
                return constant(decided)
        return self.linear.atom(0, 1, 1, key[0], self.linear.build(a), self.linear.build(b))

    def logic(self, key: Any) -> Form:
        operands = [self.linear.build(self.forms[n]) for n in key[1:]]
        return self.linear.atom(0, 1, 1, key[0], *operands)

    def smallest(self, key: Any) -> Form:
        a, b = self.forms[key[1]], self.forms[key[2]]
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        dl, dh = self.linear.bounds(add(a, scale(b, -1)))
        if dh <= 0 or dl >= 0:
            return a if (dh <= 0) == (key[0] == "Min") else b
        pick: Callable[[int, int], int] = min if key[0] == "Min" else max
        return self.linear.atom(
            pick(al, bl), pick(ah, bh), 1, key[0], self.linear.build(a), self.linear.build(b)
        )

    def choose(self, key: tuple[int, ...]) -> Form:
        c, a, b = (self.forms[n] for n in key[1:])
        low, high = self.linear.bounds(c)
        if low > 0 or high < 0 or a == b:
            return a
        if low == high == 0:
            return b
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        nodes = [self.linear.build(f) for f in (c, a, b)]
        return self.linear.atom(min(al, bl), max(ah, bh), 1, "Sel", *nodes)

    def general(self, key: Any) -> Form:
        a, b = self.forms[key[1]], self.forms[key[2]]
        op = str(key[0])
        if not b[1] and b[0] > 0 and op in ("Div", "Mod"):
            return self.linear.div(a, b[0]) if op == "Div" else self.linear.mod(a, b[0])
        (al, ah), (bl, bh) = self.linear.bounds(a), self.linear.bounds(b)
        reach = max(abs(al), abs(ah))
        if op in ("Div", "TDiv"):
            low, high = (0, ah) if al >= 0 and bl >= 1 else (-reach - 1, reach + 1)
        elif op in ("Mod", "TMod"):
            m = max(abs(bl), abs(bh)) - 1
            low, high = (0, m) if bl >= 1 and (op == "Mod" or al >= 0) else (-m - 1, m + 1)
        elif op == "Shr":
            low, high = (0, ah) if al >= 0 else (-reach - 1, reach + 1)
        else:
            top = min(max(bh, 0), 62)
            low, high = min(al, al << top), max(ah, ah << top)
            if bh > 62:
                low, high = -(1 << 80), 1 << 80
        return self.linear.atom(low, high, 1, op, self.linear.build(a), self.linear.build(b))


def _cancelled(op: str, a: Form, b: Form) -> tuple[int | None, Form, Form]:
    """Two sides of a comparison without what they have in common, if that is no dearer; or what it decides."""
    shared = dict(a[1]).keys() & dict(b[1]).keys()
    c, terms = add(a, scale(b, -1))
    if not shared or not terms:
        return None, a, b
    g = gcd(*[k for _, k in terms])
    if op in ("Eq", "Ne") and c % g:
        return int(op == "Ne"), a, b
    # c + g*x < 0  iff  x < ceil(-c / g);  <= 0 iff x <= floor(-c / g)
    bound = -(c // g) if op == "Lt" else -c // g
    left = (0, tuple([(atom, k // g) for atom, k in terms if k > 0]))
    right = (bound, tuple([(atom, -k // g) for atom, k in terms if k < 0]))
    if not left[1]:  # the smaller number of operations: move the constant where it stands alone
        left, right = (-bound, ()), (0, right[1])
    return (None, left, right) if _price(left) + _price(right) <= _price(a) + _price(b) else (None, a, b)


def _price(f: Form) -> int:
    """About what the sum costs: its products and additions."""
    products = sum([0 if k == 1 else 1 if is_pow2(abs(k)) else 4 for _, k in f[1]])
    return products + max(len(f[1]) - 1, 0) + (f[0] != 0 and bool(f[1]))


def _scaled(f: Form, k: int) -> Form:
    """``scale``, unless numbers get so big that a few more products of them would fill the memory."""
    if abs(k) > _LARGE and max(abs(f[0]), *[abs(c) for _, c in f[1]], 0) > WIDE:
        raise TooBig
    return scale(f, k)


def _shrink(f: Form, k: int) -> Form:
    return (f[0] // k, tuple([(a, c // k) for a, c in f[1]]))


def _runs(k: int) -> list[tuple[int, int]]:
    """Runs of ones in a positive mask, as (first bit, length)."""
    out = []
    at = 0
    while k:
        skip = low_bit(k).bit_length() - 1
        k >>= skip
        at += skip
        length = low_bit(~k).bit_length() - 1
        out.append((at, length))
        k >>= length
        at += length
    return out


def _xor_range(lo: int, hi: int, other_lo: int, other_hi: int) -> tuple[int, int]:
    n = max(v.bit_length() for v in (lo, hi, other_lo, other_hi))
    if lo >= 0 and other_lo >= 0:
        return 0, (1 << n) - 1
    return -(1 << n), (1 << n) - 1


_OPERATORS = {
    "K": Normal.number, "V": Normal.variable, "Add": Normal.plus, "AddK": Normal.plus_constant,
    "MulK": Normal.times_constant, "Mul": Normal.product, "DivK": Normal.floor_div, "ModK": Normal.floor_mod,
    "TDivK": Normal.trunc_div, "TModK": Normal.trunc_mod, "AndK": Normal.mask, "And": Normal.both,
    "Xor": Normal.exclusive, "XorK": Normal.exclusive_constant, "Or": Normal.either, "OrK": Normal.either_constant,
    "Lt": Normal.compare, "Le": Normal.compare, "Eq": Normal.compare, "Ne": Normal.compare,
    "LAnd": Normal.logic, "LOr": Normal.logic, "LNot": Normal.logic, "Min": Normal.smallest, "Max": Normal.smallest,
    "Sel": Normal.choose, "Div": Normal.general, "Mod": Normal.general, "TDiv": Normal.general, "TMod": Normal.general,
    "Shl": Normal.general, "Shr": Normal.general,
}  # fmt: skip
