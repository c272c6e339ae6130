"""Kinds of fault that simplifiers have shipped: each must be impossible here."""

from __future__ import annotations

import itertools

import pytest

from tirx_eq.egraph import encode, extract
from tirx_eq.egraph.engine import Engine
from tirx_eq.egraph.reach import declarations, reachable
from tirx_eq.egraph.result import choose
from tirx_eq.egraph.rules import INDEX_FILES
from tirx_eq.egraph.simplify import simplify
from tirx_eq.ir.index import evaluate, parse, show

FAULTS = [
    # halving and doubling reordered; the offset hoisted out of a modulus; a floor rule on truncation
    ("(mod (mul (div (mod i 20) 2) 2) 4)", {"i": (0, 79)}, 1, {"i": 1}, 0),
    ("(mod (add (add (mul x 50) (mul y 8)) k) 20)", {"x": (0, 3), "y": (0, 1), "k": (0, 7)}, 27,
     {"k": 2, "x": 1, "y": 1}, 0),
    ("(tdiv (add 241 (mul x 48)) 16)", {"x": (-10, 10)}, 6, {"x": -10}, -14),
    # the sign of a truncating remainder; a term stripped where the rest may be negative
    ("(tmod x -5)", {"x": (-12, 12)}, 20, {"x": -12}, -2),
    ("(tmod (tdiv (sub 31 q) 2) 16)", {"q": (0, 31)}, 2, {"q": 0}, 15),
    # shift amount zero forgotten; folding that ignores the width
    ("(mod 1 (shl 1 a))", {"a": (0, 6)}, 1, {"a": 0}, 0),
    ("(mul (sub (tdiv (add x 1073741826) 3) 357913942) 1536)", {"x": (-1073741826, 1000000)}, 26,
     {"x": -1073741826}, -549755814912),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ranges", "at_most", "point", "value"), FAULTS)
def test_values_survive(
    text: str, ranges: dict[str, tuple[int, int]], at_most: int, point: dict[str, int], value: int
) -> None:
    result = simplify(parse(text), ranges)
    assert result.cost <= at_most, show(result.expr)
    assert evaluate(parse(text), point) == evaluate(result.expr, point) == value


def _engine(present: set[str]) -> Engine:
    rules = reachable(INDEX_FILES, present)
    return Engine([*declarations(INDEX_FILES), *(r.text for r in rules)])


@pytest.mark.parametrize(
    ("table", "values", "merged"),
    [
        ("lo", (0, 2, 2), 2),
        ("hi", (9, 20, 20), 9),
        ("al", (4, 8, 4), 8),
        ("kz", (-16, 1, 1), -15),
        ("ko", (2, 4, 2), 6),
    ],
)
def test_merges_do_not_depend_on_order(table: str, values: tuple[int, ...], merged: int) -> None:
    for order in itertools.permutations(values):
        engine = _engine({"V"})
        for value in order:
            engine.run(f'(set ({table} (V "x")) {value})')
        assert [row[1] for row in engine.rows(table)] == [merged]


def test_sharing_is_counted_in_extraction() -> None:
    """(p+3)//7 squared costs 25 with the quotient paid once, 46 without; the other form of the class costs 40."""
    encoder = encode.Encoder()
    ranges = {"p": (0, 100), "q": (1, 9)}
    square = encoder.add_term(parse("(mul (div (add p 3) 7) (div (add p 3) 7))"), ranges)
    other = encoder.add_term(parse("(div p q)"), ranges)
    present = {key[0] for key in encoder.keys}
    engine = Engine([*declarations(INDEX_FILES), *encode.LOAD, *encode.load_rules(present)])
    engine.load(encode.tables(encoder, [square, other]))
    engine.run("(run-schedule (saturate load))")
    engine.run("(union (root 0) (root 1))")
    graph = engine.freeze(operators=encode.OPERATORS, tables=("root",))
    classes = dict(graph.tables["root"])
    assert classes[0] == classes[1]
    from tirx_eq.egraph.cost import DEFAULT

    for optimal in (False, True):
        if optimal:
            pytest.importorskip("highspy")
        chosen = choose(graph, [[classes[0]]], DEFAULT, optimal)[0]
        term = extract.build(classes[0], chosen, encode.decode, {})
        assert show(term) == "(mul (div (add p 3) 7) (div (add p 3) 7))"
