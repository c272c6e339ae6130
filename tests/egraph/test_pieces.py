"""Pieces of normal forms: fields of a variable have their closed form, and no term of the e-graph is cheaper."""

from __future__ import annotations

import itertools

from tirx_eq.egraph.cost import cost
from tirx_eq.egraph.pieces import field, settled
from tirx_eq.egraph.simplify import simplify_all
from tirx_eq.ir.index import Term, evaluate


def test_fields_are_right_and_cheapest() -> None:
    plain: list[Term] = []
    closed: list[Term] = []
    for s, w, t in itertools.product((0, 1, 3), (None, 1, 2), (0, 1, 3, 4)):
        piece: list[tuple[object, ...]] = [("V", 0, -70, 300)]
        term: Term = "x"
        for op, name, k in (("DivK", "div", s), ("ModK", "mod", w), ("MulK", "mul", t)):
            if k:
                piece.append((op, len(piece) - 1, 1 << k))
                term = (name, term, 1 << k)
        found = field(tuple(piece), "x")
        assert found is not None and settled(tuple(piece))
        for x in range(-70, 301, 3):
            assert evaluate(found, {"x": x}) == evaluate(term, {"x": x}), (s, w, t)
        plain.append(term)
        closed.append(found)
    results = simplify_all(plain, {"x": (-70, 300)}, check_result=False)
    assert [cost(c) for c in closed] == [r.cost for r in results]


def test_other_pieces_are_not_fields() -> None:
    assert field((("V", 0, 0, 9), ("MulK", 0, 4), ("DivK", 1, 8)), "x") is None
    assert field((("V", 0, 0, 9), ("DivK", 0, 3)), "x") is None
    assert field((("V", 0, 0, 9), ("V", 1, 0, 9), ("Add", 0, 1)), "x") is None
