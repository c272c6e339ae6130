"""A normal form cut into pieces that cannot help each other, each under names of its own.

Terms of a sum that share no variable and no factor are simplified apart and added again.  A piece is written with its
variables numbered in the order met, so equal pieces of different expressions are one job for the e-graph, and a memo
from one call to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.index import Term
from .cost import is_pow2
from .encode import Encoder, Key, children
from .linear import Form, Linear

Piece = tuple[Key, ...]
"""Encoder keys of one piece in local numbering, operands first; the last is the piece itself."""


@dataclass(frozen=True)
class Part:
    """A piece as it stands in a sum: its text, its variables (encoder nodes) by local number, and its sign."""

    piece: Piece
    variables: tuple[int, ...]
    negative: bool


class Cutter:
    """Cuts forms over one encoder; what it learns about shared nodes is kept."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        self.encoder: Encoder = linear.e
        self._variables: dict[int, frozenset[int]] = {}
        self._parts: dict[tuple[tuple[int, int], ...], Part] = {}

    def variables(self, node: int) -> frozenset[int]:
        """Variable nodes below ``node``."""
        known = self._variables.get(node)
        if known is None:
            stack = [node]
            while stack:
                n = stack[-1]
                key = self.encoder.keys[n]
                if n in self._variables:
                    stack.pop()
                    continue
                kids = children(key)
                waiting = [k for k in kids if k not in self._variables]
                if waiting:
                    stack.extend(waiting)
                    continue
                stack.pop()
                if key[0] == "V":
                    self._variables[n] = frozenset((n,))
                elif len(kids) == 1:
                    self._variables[n] = self._variables[kids[0]]
                else:
                    self._variables[n] = frozenset().union(*[self._variables[k] for k in kids])
            known = self._variables[node]
        return known

    def cut(self, form: Form) -> list[Part]:
        """The parts of ``form`` without its constant."""
        groups: list[tuple[set[int], list[tuple[int, int]]]] = []
        for term in form[1]:
            names = set(self.variables(term[0]))
            terms = [term]
            apart = []
            for group in groups:
                if group[0].isdisjoint(names) and not any(_related(term[1], c) for _, c in group[1]):
                    apart.append(group)
                else:
                    names |= group[0]
                    terms = group[1] + terms
            groups = [*apart, (names, terms)]
        return [self.part(tuple(terms)) for _, terms in groups]

    def whole(self, form: Form) -> Part:
        """``form`` with its constant as one part."""
        return Part(*self._local(self.linear.build(form)), False)

    def part(self, terms: tuple[tuple[int, int], ...]) -> Part:
        """One group of terms as a part; a group of negative terms is negated."""
        known = self._parts.get(terms)
        if known is None:
            negative = all(c < 0 for _, c in terms)
            positive = tuple([(a, -c) for a, c in terms]) if negative else terms
            root = self.linear.build((0, positive))
            known = self._parts[terms] = Part(*self._local(root), negative)
        return known

    def _local(self, root: int) -> tuple[Piece, tuple[int, ...]]:
        local: dict[int, int] = {}
        out: list[Key] = []
        variables: list[int] = []
        keys = self.encoder.keys
        stack = [root]
        while stack:
            n = stack[-1]
            if n in local:
                stack.pop()
                continue
            key = keys[n]
            kids = children(key)
            waiting = [k for k in kids if k not in local]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            stack.pop()
            local[n] = len(out)
            if key[0] == "V":
                out.append(("V", len(variables), key[2], key[3]))
                variables.append(n)
            elif key[0] == "K":
                out.append(key)
            elif len(kids) == 1:
                out.append((key[0], local[kids[0]], *key[2:]))
            else:
                out.append((key[0], *[local[k] for k in kids]))
        return tuple(out), tuple(variables)


def _related(a: int, b: int) -> bool:
    """Whether two coefficients could be factored to advantage."""
    a, b = abs(a), abs(b)
    if a == 1 or b == 1:
        return False
    if a == b:
        return True
    if is_pow2(a) and is_pow2(b):
        return False
    return a % b == 0 or b % a == 0


def settled(piece: Piece) -> bool:
    """Whether the e-graph has nothing to add: at most one cheap operation, or a field of one variable."""
    if len(piece) == 1 or field(piece, "") is not None:
        return True
    return len(piece) == 2 and piece[0][0] == "V" and piece[1][0] in ("AddK", "XorK", "AndK", "OrK", "LNot")


def field(piece: Piece, name: str) -> Term | None:
    """The cheapest term of a piece that moves one run of bits of a variable; None for any other piece.

    With ``s`` the bits dropped below, ``w`` the width kept (None: all above) and ``t`` the shift back up, the value is
    ``((v >> s) mod 2^w) << t``: one mask if s = t, else a shift and at most one mask.
    """
    if piece[0][0] != "V" or len(piece) > 4:
        return None
    s, t = 0, 0
    w: int | None = None
    for i, key in enumerate(piece[1:], 1):
        if key[0] not in ("DivK", "ModK", "MulK") or key[1] != i - 1 or not is_pow2(key[2]):
            return None
        a = key[2].bit_length() - 1
        if key[0] == "MulK":
            t += a
        elif t:
            return None  # the normal form multiplies last
        elif key[0] == "DivK":
            if w is not None:
                return None  # and divides first
            s += a
        else:
            w = a if w is None else min(a, w)
    if s == t:
        mask = -(1 << s) if w is None else ((1 << w) - 1) << s
        return (
            name if mask == -1 else ("mod", name, 1 << w) if s == 0 and w is not None else ("and", name, mask)
        )
    shift = abs(s - t)
    moved: Term = ("div", name, 1 << shift) if s > t else ("mul", name, 1 << shift)
    if w is None:
        if s == 0 or t == 0:
            return moved
        return ("mul", ("div", name, 1 << s), 1 << t)
    if t == 0:
        return ("mod", moved, 1 << w)
    if s == 0:
        return ("mul", ("mod", name, 1 << w), 1 << t)
    return ("and", moved, ((1 << w) - 1) << t)
