"""Pieces to their cheapest terms without the e-graph, where that is known to be as good."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir.index import Term
from ..cost import cost, is_pow2
from ..pieces import Piece
from .compare import Found, less, same
from .moves import Cluster
from .plain import plain
from .sums import Sum, Sums, Unsure


def direct(piece: Piece) -> Term | None:
    """The cheapest term of a piece, its variables named ``number:``; None where only the e-graph can tell."""
    try:
        return _Direct(piece).term()
    except Unsure:
        return None


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
        return min(found, plain(self.piece), key=cost)

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
        return self.sums.scaled(self.forms[key[1]], key[2])

    def quotient(self, key: Any) -> Sum:
        if not is_pow2(key[2]):
            raise Unsure
        return self.sums.of(self.sums.moves.moved(self.sums.opened(self.forms[key[1]]), 1 - key[2].bit_length()))

    def remainder(self, key: Any) -> Sum:
        if not is_pow2(key[2]):
            raise Unsure
        return self.sums.of(self.sums.moves.masked(self.sums.opened(self.forms[key[1]]), key[2] - 1))

    def positive(self, s: Sum) -> Cluster:
        """The bits of a sum without differences: what exclusive or does to signs is left to the rules."""
        if any(c != 1 for c, _ in s.terms) or s.constant < 0 or self.sums.interval(s)[0] < 0:
            raise Unsure
        return self.sums.opened(s)

    def exclusive(self, key: Any) -> Sum:
        a, b = (self.positive(self.forms[n]) for n in key[1:])
        return self.sums.of(self.sums.moves.join(a, b))

    def exclusive_constant(self, key: Any) -> Sum:
        if key[2] < 0:
            raise Unsure
        a = self.positive(self.forms[key[1]])
        return self.sums.of(a._replace(constant=a.constant ^ key[2]))

    def mask(self, key: Any) -> Sum:
        return self.sums.of(self.sums.moves.masked(self.positive(self.forms[key[1]]), key[2]))


    def order(self, key: Any) -> Sum:
        a, b = self.forms[key[1]], self.forms[key[2]]
        difference = self.sums.add(a, self.sums.scaled(b, -1))
        if key[0] == "Le":
            difference = difference._replace(constant=difference.constant - 1)
        return self.truth(less(self.sums, difference), difference)

    def equality(self, key: Any) -> Sum:
        a, b = self.forms[key[1]], self.forms[key[2]]
        difference = self.sums.add(a, self.sums.scaled(b, -1))
        return self.truth(same(self.sums, difference, key[0] == "Eq"), difference)

    def truth(self, found: Found, compared: Sum) -> Sum:
        """A comparison as a sum: a decided one is a number."""
        term = found[1]
        if type(term) is int:
            return Sum(term, ())
        return self.sums.base(term, 0, 1, self.sums.variables(compared))


_OPERATORS: dict[str, Callable[[_Direct, Any], Sum]] = {
    "V": _Direct.variable, "K": _Direct.number, "Add": _Direct.plus, "AddK": _Direct.plus_constant,
    "MulK": _Direct.times, "DivK": _Direct.quotient, "ModK": _Direct.remainder, "Xor": _Direct.exclusive,
    "XorK": _Direct.exclusive_constant, "AndK": _Direct.mask, "Lt": _Direct.order, "Le": _Direct.order,
    "Eq": _Direct.equality, "Ne": _Direct.equality,
}  # fmt: skip
