"""Pieces to their cheapest terms without the e-graph, where that is known to be as good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.index import Term
from ..cost import cost, is_pow2
from ..encode import children
from ..pieces import Piece
from .choices import apart, conjunction, disjunction, either, extreme, product, scaled, select, shift, truth
from .compare import equality, negation, order
from .moves import Cluster, Unsure
from .plain import plain
from .shared import once
from .sums import Sum, Sums

MAX_PIECE = 128
"""Nodes of the largest piece looked at: terms are compared in pairs."""


def direct(piece: Piece) -> Term | None:
    """The cheapest term of a piece, its variables named ``number:low:high``; None where only the e-graph can tell."""
    if len(piece) > MAX_PIECE:
        return None
    try:
        return _Direct(piece).term()
    except Unsure:
        return None


def _shares(piece: Piece) -> bool:
    """Whether an operation is an operand more than once."""
    used: set[int] = set()
    for key in piece:
        for k in children(key):
            if k in used and piece[k][0] not in ("V", "K"):
                return True
            used.add(k)
    return False


class _Direct:
    def __init__(self, piece: Piece) -> None:
        self.piece = piece
        self.sums = Sums()
        self.forms: list[Sum] = []

    def term(self) -> Term:
        for key in self.piece:
            make = _OPERATORS.get(key[0])
            if make is None:
                raise Unsure
            self.forms.append(make(self, key))
        found = self.sums.best(self.forms[-1])[1]
        # The normal form as it stands may share a subterm that constructing each part by itself does not.
        return min(found, plain(self.piece), key=cost) if _shares(self.piece) else found

    # ---- one function per operator

    def variable(self, key: Any) -> Sum:
        return self.sums.base(f"{key[1]}:{key[2]}:{key[3]}", key[2], key[3])

    def number(self, key: Any) -> Sum:
        return Sum(key[1], ())

    def plus(self, key: Any) -> Sum:
        return self.sums.add(self.forms[key[1]], self.forms[key[2]])

    def plus_constant(self, key: Any) -> Sum:
        return self.sums.add(self.forms[key[1]], Sum(key[2], ()))

    def times(self, key: Any) -> Sum:
        return scaled(self.sums, self.forms[key[1]], key[2])

    def settled_bits(self, s: Sum) -> Cluster:
        """The bits of a sum of which some are taken: what is known of bits inside it is left to the rules."""
        cluster = self.sums.opened(s)
        mixed = self.sums.moves.mixed(cluster)
        for m in cluster.moved:
            base = self.sums.moves.bases[m.base]
            if base.mixed or base.kind == "extreme":
                raise Unsure
            if base.kind == "sum" and (mixed or not once(self.sums.moves, base.meaning.terms)):
                raise Unsure
            if base.kind == "other" and base.op not in ("and", "shr"):
                raise Unsure
        return cluster

    def quotient(self, key: Any) -> Sum:
        if not is_pow2(key[2]):
            raise Unsure
        return self.sums.of(self.sums.moves.moved(self.settled_bits(self.forms[key[1]]), 1 - key[2].bit_length()))

    def remainder(self, key: Any) -> Sum:
        if not is_pow2(key[2]):
            raise Unsure
        return self.sums.of(self.sums.moves.masked(self.settled_bits(self.forms[key[1]]), key[2] - 1))

    def positive(self, s: Sum) -> Cluster:
        """The bits of a sum without differences: what exclusive or does to signs is left to the rules."""
        if any(c != 1 for c, _ in s.terms) or s.constant < 0 or self.sums.interval(s)[0] < 0:
            raise Unsure
        return self.sums.opened(s)

    def exclusive(self, key: Any) -> Sum:
        a, b = (self.forms[n] for n in key[1:])
        for x, y in ((a, b), (b, a)):
            if not y.terms:
                return self.flipped(x, y.constant)
        return self.sums.of(self.sums.moves.join(self.positive(a), self.positive(b)))

    def exclusive_constant(self, key: Any) -> Sum:
        return self.flipped(self.forms[key[1]], key[2])

    def flipped(self, s: Sum, k: int) -> Sum:
        """``s ^ k``."""
        if k < 0:
            raise Unsure
        if s.constant > 0 and all(k < 1 << self.sums.moves.low(x) for _, x in s.terms):
            low = s.constant & ((1 << k.bit_length()) - 1)  # those bits are the constant's
            return s._replace(constant=s.constant - low + (low ^ k))
        a = self.positive(s)
        return self.sums.of(a._replace(constant=a.constant ^ k))

    def mask(self, key: Any) -> Sum:
        return self.sums.of(self.sums.moves.masked(self.positive(self.forms[key[1]]), key[2]))


    def ordered(self, key: Any) -> Sum:
        return order(self.sums, self.difference(key, -1 if key[0] == "Le" else 0))

    def equal(self, key: Any) -> Sum:
        return equality(self.sums, self.difference(key), key[0] == "Eq")

    def difference(self, key: Any, more: int = 0) -> Sum:
        apart(self.sums, self.forms[key[1]], self.forms[key[2]])
        s = self.sums.add(self.forms[key[1]], self.sums.scaled(self.forms[key[2]], -1))
        return s._replace(constant=s.constant + more)

    def smallest(self, key: Any) -> Sum:
        return extreme(self.sums, key[0].lower(), self.forms[key[1]], self.forms[key[2]])

    def choice(self, key: Any) -> Sum:
        return select(self.sums, *[self.forms[n] for n in key[1:]])

    def both(self, key: Any) -> Sum:
        a, b = (self.forms[n] for n in key[1:])
        if key[0] == "And" and (truth(self.sums, a) is None or truth(self.sums, b) is None):
            return self.common(a, b)
        return conjunction(self.sums, a, b)

    def common(self, a: Sum, b: Sum) -> Sum:
        """``a & b`` of plain variables."""
        apart(self.sums, a, b)
        bases = [self.sums.moves.whole(x) if c == 1 else None for s in (a, b) for c, x in s.terms]
        if a.constant or b.constant or len(bases) != 2 or any(x is None or x.kind != "variable" or x.low < 0 for x in bases):
            raise Unsure
        high = min(self.sums.interval(s)[1] for s in (a, b))
        return self.sums.computed("and", (a, b), 0, high)

    def any_of(self, key: Any) -> Sum:
        a, b = (self.forms[n] for n in key[1:])
        return disjunction(self.sums, a, b) if key[0] == "LOr" else either(self.sums, a, b)

    def either_constant(self, key: Any) -> Sum:
        return either(self.sums, self.forms[key[1]], Sum(key[2], ()))

    def shifted(self, key: Any) -> Sum:
        return shift(self.sums, key[0].lower(), self.forms[key[1]], self.forms[key[2]])

    def product(self, key: Any) -> Sum:
        return product(self.sums, self.forms[key[1]], self.forms[key[2]])

    def divided(self, key: Any) -> Sum:
        """Division by a term that may be 0 or negative: no rule holds there, so it is opaque."""
        a, b = (self.forms[n] for n in key[1:])
        (al, ah), (bl, bh) = self.sums.interval(a), self.sums.interval(b)
        if not b.terms or bl >= 1:
            raise Unsure
        reach = max(abs(al), abs(ah)) if key[0] == "Div" else max(abs(bl), abs(bh))
        return self.sums.computed(key[0].lower(), (a, b), -reach - 1, reach + 1)

    def opposite(self, key: Any) -> Sum:
        return negation(self.sums, self.forms[key[1]])


_OPERATORS: dict[str, Callable[[_Direct, Any], Sum]] = {
    "V": _Direct.variable, "K": _Direct.number, "Add": _Direct.plus, "AddK": _Direct.plus_constant,
    "MulK": _Direct.times, "DivK": _Direct.quotient, "ModK": _Direct.remainder, "Xor": _Direct.exclusive,
    "XorK": _Direct.exclusive_constant, "AndK": _Direct.mask, "Lt": _Direct.ordered, "Le": _Direct.ordered,
    "Eq": _Direct.equal, "Ne": _Direct.equal, "Min": _Direct.smallest, "Max": _Direct.smallest,
    "Sel": _Direct.choice, "LAnd": _Direct.both, "And": _Direct.both, "Mul": _Direct.product, "LNot": _Direct.opposite,
    "Div": _Direct.divided, "Mod": _Direct.divided,
    "Or": _Direct.any_of, "LOr": _Direct.any_of, "OrK": _Direct.either_constant, "Shl": _Direct.shifted, "Shr": _Direct.shifted,
}  # fmt: skip
