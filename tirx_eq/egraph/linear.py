"""A linear normal form in front of the e-graph: sums of integer multiples of atoms.

    form := (constant, ((atom, coefficient), …))       atoms are encoder nodes, each at most once, coefficient not 0

Everything done here follows rules of ``rules/linear.egg``, ``divmod.egg`` and ``bits.egg`` in a fixed order: constants
outermost, products distributed, an aligned part leaves a division, a small part drops out of it, quotient and remainder
recombine.  What needs a choice is left to the e-graph.  A property test compares the two; every final result is
validated against the input in any case, so an error here could only lose time.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import Any

from .cost import is_pow2
from .encode import WIDE, Encoder, TooBig

Form = tuple[int, tuple[tuple[int, int], ...]]
ZERO: Form = (0, ())
_BOOL = frozenset({"Lt", "Le", "Eq", "Ne", "LAnd", "LOr", "LNot"})
_MAX_TERMS = 64


def constant(k: int) -> Form:
    """The form of an integer."""
    return (k, ())


def add(a: Form, b: Form) -> Form:
    """Sum of two forms, like terms joined."""
    if not a[1]:
        return (a[0] + b[0], b[1])
    if not b[1]:
        return (a[0] + b[0], a[1])
    terms = dict(a[1])
    for atom, c in b[1]:
        s = terms.get(atom, 0) + c
        if s:
            terms[atom] = s
        else:
            del terms[atom]
    return (a[0] + b[0], tuple(sorted(terms.items())))


def scale(a: Form, k: int) -> Form:
    """``k`` times a form."""
    if k == 1:
        return a
    if k == 0:
        return ZERO
    return (a[0] * k, tuple([(atom, c * k) for atom, c in a[1]]))


def low_bit(m: int) -> int:
    """Largest power of two that divides ``m``; 0 for 0."""
    return m & -m


class Linear:
    """Normal forms over one encoder; facts (interval, alignment, possible bits) per atom."""

    def __init__(self, encoder: Encoder) -> None:
        self.e = encoder
        self.facts: dict[int, tuple[int, int, int, int]] = {}
        self.inner: dict[int, Form] = {}
        self.exclusives: dict[int, tuple[Form, ...]] = {}
        """Operands of the exclusive-or atoms; ``exclusive`` rebuilds one from other operands."""
        self.exclusive: Callable[[list[Form]], Form] | None = None
        self.work = 1 << 60
        self._div: dict[tuple[Form, int], Form] = {}
        self._mod: dict[tuple[Form, int], Form] = {}
        self._bounds: dict[Form, tuple[int, int]] = {}
        self._bits: dict[Form, int] = {}

    def spend(self, steps: int) -> None:
        """Count ``steps`` of the work allowed; ``TooBig`` when it is used up."""
        self.work -= steps
        if self.work < 0:
            raise TooBig

    # ---- facts

    def atom(self, lo: int, hi: int, align: int, *key: Any) -> Form:
        """The form of a single atom with these facts; its key's operands are encoder nodes."""
        n = self.e.node(*key)
        if n not in self.facts:
            if lo == hi:
                return constant(lo)
            if lo < -WIDE or hi > WIDE:
                raise TooBig
            self.facts[n] = (lo, hi, align, _possible(lo, hi, align))
        return (0, ((n, 1),))

    def bounds(self, f: Form) -> tuple[int, int]:
        """Interval of a form."""
        known = self._bounds.get(f)
        if known is None:
            lo = hi = f[0]
            for atom, c in f[1]:
                low, high, _, _ = self.facts[atom]
                if c > 0:
                    lo += c * low
                    hi += c * high
                else:
                    lo += c * high
                    hi += c * low
            known = self._bounds[f] = (lo, hi)
        return known

    def align(self, terms: tuple[tuple[int, int], ...]) -> int:
        """A positive number that divides the sum of ``terms``; 0 for no terms."""
        g = 0
        for atom, c in terms:
            g = gcd(g, c * self.facts[atom][2])
        return g

    def bits(self, f: Form) -> int:
        """Mask of the bits that may be 1; -1 if the value may be negative."""
        known = self._bits.get(f)
        if known is None:
            lo, hi = self.bounds(f)
            if lo < 0:
                known = -1
            else:
                mask, disjoint = f[0], f[0] >= 0
                for atom, c in f[1]:
                    m = self.facts[atom][3]
                    if c < 0 or m < 0 or c & (c - 1) or mask & (m * c):
                        disjoint = False
                        break
                    mask |= m * c
                if not disjoint:
                    mask = _possible(lo, hi, low_bit(gcd(self.align(f[1]), f[0])))
                known = mask
            self._bits[f] = known
        return known

    # ---- floor division and modulus by a positive constant

    def div(self, f: Form, k: int) -> Form:
        """``floor(f / k)``."""
        if k == 1 or f == ZERO:
            return f
        key = (f, k)
        known = self._div.get(key)
        if known is None:
            known = self._div[key] = self._divide(f, k)
        return known

    def mod(self, f: Form, k: int) -> Form:
        """``f - k * floor(f / k)``."""
        if k == 1:
            return ZERO
        key = (f, k)
        known = self._mod.get(key)
        if known is None:
            known = self._mod[key] = self._modulus(f, k)
        return known

    def _whole(self, f: Form, k: int) -> tuple[Form, Form]:
        """``f = k * q + r``: terms whose coefficient ``k`` divides go to ``q``, and the floor of the constant."""
        quotient = tuple([(a, c // k) for a, c in f[1] if c % k == 0])
        rest = tuple([(a, c) for a, c in f[1] if c % k])
        return (f[0] // k, quotient), (f[0] % k, rest)

    def _small(self, f: Form, k: int) -> tuple[Form, Form]:
        """``f = big + small`` with ``0 <= small < g`` where ``g`` divides ``big`` and ``k``; as many terms small as can."""
        self.spend(2 * len(f[1]))
        terms = sorted(f[1], key=lambda t: (abs(t[1]) * self.facts[t[0]][2], t))
        lows, highs = [0], [0]
        for atom, c in terms:
            low, high, _, _ = self.facts[atom]
            lows.append(lows[-1] + min(c * low, c * high))
            highs.append(highs[-1] + max(c * low, c * high))
        g = k
        divisors = [k]
        for atom, c in reversed(terms):
            g = gcd(g, c * self.facts[atom][2])
            divisors.append(g)
        for i in range(len(terms) - 1, -1, -1):
            g = divisors[len(terms) - i]
            r = (f[0] + lows[i]) % g - lows[i]
            if r + highs[i] < g:
                if i == 0 and r == 0:
                    break
                return (f[0] - r, tuple(sorted(terms[i:]))), (r, tuple(sorted(terms[:i])))
        return f, ZERO

    def _divide(self, f: Form, k: int) -> Form:
        lo, hi = self.bounds(f)
        if lo // k == hi // k:
            return constant(lo // k)
        q, r = self._whole(f, k)
        if not r[1]:
            return q
        big, _ = self._small(r, k)
        if big != r:
            return add(q, self.div(big, k))
        if q != ZERO:
            return add(q, self.div(r, k))
        g = gcd(gcd(self._common(r[1]), r[0]), k)
        if g > 1:
            return self.div((r[0] // g, tuple([(a, c // g) for a, c in r[1]])), k // g)
        if len(r[1]) == 1 and r[1][0][1] == 1:
            inside = self._single(r[1][0][0], r[0], k)
            if inside is not None:
                return inside
        lo, hi = self.bounds(r)
        return self._remember(r, self.atom(lo // k, hi // k, 1, "DivK", self.build(r), k))

    @staticmethod
    def _common(terms: tuple[tuple[int, int], ...]) -> int:
        g = 0
        for _, c in terms:
            g = gcd(g, c)
        return g

    def _single(self, atom: int, c: int, k: int) -> Form | None:
        """``floor((atom + c) / k)`` where the atom is itself a quotient, a remainder, or an exclusive or."""
        key = self.e.keys[atom]
        if key[0] == "DivK":
            return self.div(add(self.inner[atom], constant(c * key[2])), k * key[2])
        if key[0] == "ModK" and c == 0 and key[2] % k == 0:
            return self.mod(self.div(self.inner[atom], k), key[2] // k)
        if key[0] == "Xor" and c == 0 and is_pow2(k) and self.exclusive is not None:
            operands = self.exclusives.get(atom)  # not kept if there are many
            return None if operands is None else self.exclusive([self.div(g, k) for g in operands])
        return None

    def _remember(self, inside: Form, result: Form) -> Form:
        if result[1]:
            self.inner[result[1][0][0]] = inside
        return result

    def _modulus(self, f: Form, k: int) -> Form:
        lo, hi = self.bounds(f)
        if lo // k == hi // k:
            return (f[0] - k * (lo // k), f[1])
        reduced = self._reduce(f, k)
        if reduced != f:
            return self.mod(reduced, k)
        big, small = self._small(f, k)
        if small != ZERO:
            return add(self.mod(big, k), small)
        g = gcd(gcd(self._common(f[1]), f[0]), k)
        if g > 1:
            return scale(self.mod((f[0] // g, tuple([(a, c // g) for a, c in f[1]])), k // g), g)
        align = gcd(gcd(self.align(f[1]), f[0]), k)
        if align == k:
            return ZERO
        if len(f[1]) == 1 and f[1][0][1] == 1 and f[0] == 0 and is_pow2(k) and self.exclusive is not None:
            operands = self.exclusives.get(f[1][0][0])
            if operands is not None:
                return self.exclusive([self.mod(g, k) for g in operands])
        top = min(k - align, hi) if lo >= 0 else k - align
        return self._remember(f, self.atom(0, top, align, "ModK", self.build(f), k))

    def _reduce(self, f: Form, k: int) -> Form:
        """``f`` modulo ``k`` term by term: coefficients and constant into ``[0, k)``, inner remainders opened."""
        out = constant(f[0] % k)
        for a, c in f[1]:
            key = self.e.keys[a]
            if key[0] == "ModK" and (c * key[2]) % k == 0:
                out = add(out, scale(self.inner[a], c))
            elif 0 < c < k:
                out = add(out, (0, ((a, c),)))
            else:
                # A negative multiple may be nearer to zero than its residue; keep it unless the residue is smaller.
                r = c % k
                out = add(out, (0, ((a, r if c >= k or r <= -c else c),)) if r else ZERO)
        if len(out[1]) > _MAX_TERMS:
            return f
        return (out[0] % k, out[1])

    # ---- sums: quotient and remainder together

    def tidy(self, f: Form) -> Form:
        """``f`` with ``c*k*(a div k) + c*(a mod k)`` joined to ``c*a``, and the like for remainders of remainders."""
        if len(f[1]) < 2:
            return f
        self.spend(len(f[1]))
        changed = True
        while changed:
            changed = False
            terms = dict(f[1])
            for atom, c in f[1]:
                key = self.e.keys[atom]
                if key[0] != "ModK":
                    continue
                inside, k = self.inner[atom], key[2]
                q = self.div(inside, k)
                if len(q[1]) == 1 and q[1][0][1] == 1 and terms.get(q[1][0][0]) == c * k:
                    partner = q[1][0][0]
                    rest = (f[0], tuple([t for t in f[1] if t[0] not in (atom, partner)]))
                    f = add(rest, scale(add(inside, constant(-k * q[0])), c))
                    changed = True
                    break
                joined = self._join_remainders(inside, k, c, terms)
                if joined is not None:
                    partner, whole, share = joined
                    rest = (f[0], tuple([t for t in f[1] if t[0] not in (atom, partner)]))
                    f = add(rest, scale(whole, share))
                    changed = True
                    break
        return f

    def _join_remainders(
        self, inside: Form, k: int, c: int, terms: dict[int, int]
    ) -> tuple[int, Form, int] | None:
        """``((b div x) mod k) * x`` beside ``b mod x`` is ``b mod (x*k)``: the partner, that form, and its factor."""
        if inside[0] or len(inside[1]) != 1 or inside[1][0][1] != 1:
            return None
        key = self.e.keys[inside[1][0][0]]
        if key[0] != "DivK":
            return None
        b, x = self.inner[inside[1][0][0]], key[2]
        low = self.mod(b, x)
        if (
            c % x == 0
            and low[0] == 0
            and len(low[1]) == 1
            and low[1][0][1] == 1
            and terms.get(low[1][0][0]) == c // x
        ):
            return low[1][0][0], self.mod(b, x * k), c // x
        return None

    # ---- back to nodes

    def build(self, f: Form) -> int:
        """Encoder node of a form: terms by falling alignment, positive ones first, the constant last."""
        terms = sorted(f[1], key=lambda t: (t[1] < 0, -abs(t[1]) * self.facts[t[0]][2], t[0]))
        if not terms:
            return self.e.number(f[0])
        self.spend(2 * len(terms))
        parts = self._factored(terms) or [self._term(*t) for t in terms]
        node = parts[0]
        for p in parts[1:]:
            node = self.e.node("Add", node, p)
        return self.e.with_k("AddK", node, f[0]) if f[0] else node

    def _factored(self, terms: list[tuple[int, int]]) -> list[int] | None:
        """Nodes of a sum in which products share a factor, that factor taken out of as many as have it."""
        factors = {atom: self.factors(atom) for atom, _ in terms}
        count: dict[int, int] = {}
        for atom, c in terms:
            if len(factors[atom]) > 1 or c != 1:
                for f in set(factors[atom]):
                    count[f] = count.get(f, 0) + 1
        # Worth it only where a product of terms goes away, not where only constants multiply.
        products = [
            f
            for f in count
            if count[f] > 1 and any(f in factors[a] and len(factors[a]) > 1 for a, _ in terms)
        ]
        if not products:
            return None
        best = max(products, key=lambda f: (count[f], -f))
        inside: Form = ZERO
        rest: Form = ZERO
        for atom, c in terms:
            if best in factors[atom] and (len(factors[atom]) > 1 or c != 1):
                left = list(factors[atom])
                left.remove(best)
                inside = add(inside, (0, ((self._product(left), c),)) if left else constant(c))
            else:
                rest = add(rest, (0, ((atom, c),)))
        g = gcd(self._common(inside[1]), inside[0])
        inside = (inside[0] // g, tuple([(a, c // g) for a, c in inside[1]]))
        taken = self.e.node("Mul", *sorted((self.build(inside), best)))
        node = taken if g == 1 else self.e.with_k("MulK", taken, g)
        return [node] if rest == ZERO else [node, self.build(rest)]

    def _product(self, factors: list[int]) -> int:
        node = factors[0]
        lo, hi, align, _ = self.facts[node]
        for f in factors[1:]:
            low, high, by, _ = self.facts[f]
            corners = [lo * low, lo * high, hi * low, hi * high]
            lo, hi, align = min(corners), max(corners), align * by
            node = self.e.node("Mul", node, f)
            self.facts.setdefault(node, (lo, hi, align, _possible(lo, hi, align)))
        return node

    def factors(self, node: int) -> list[int]:
        """Factors of a product of atoms, in order; an atom that is none is its own."""
        out, stack = [], [node]
        while stack:
            n = stack.pop()
            key = self.e.keys[n]
            if key[0] == "Mul" and key[1] in self.facts and key[2] in self.facts:
                stack += key[1:]
            else:
                self.spend(1)
                out.append(n)
        return sorted(out)

    def _term(self, atom: int, c: int) -> int:
        return atom if c == 1 else self.e.with_k("MulK", atom, c)


def _possible(lo: int, hi: int, align: int) -> int:
    """Bits that may be 1 in a value of ``[lo, hi]`` that is a multiple of ``align``; -1 if it may be negative."""
    if lo < 0:
        return -1
    return ((1 << hi.bit_length()) - 1) & -max(low_bit(align), 1)
