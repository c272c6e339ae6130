"""Assumptions from scope: bounds that are symbolic, divisibility of shapes, conditions of branches."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.random_terms import random_range, random_term, sample
from tirx_eq.egraph.simplify import simplify, simplify_all
from tirx_eq.ir.index import EvaluationError, Term, evaluate, parse, show

XY = {"x": (0, 999), "y": (0, 999)}
CASES = [
    ("(lt (div x 4) n)", {"x": (0, 1000), "n": (0, 100)}, ["(lt x (mul n 4))"], "1"),
    ("(div x n)", {"x": (0, 99), "n": (1, 100)}, ["(lt x n)"], "0"),
    ("(mod x n)", {"x": (0, 99), "n": (1, 100)}, ["(lt x n)"], "x"),
    ("(mod n 4)", {"n": (0, 100)}, ["(eq (mod n 4) 0)"], "0"),
    ("(mul (div n 4) 4)", {"n": (0, 100)}, ["(eq (mod n 4) 0)"], "n"),
    ("(mod (add (mul i n) 3) 4)", {"n": (0, 100), "i": (0, 9)}, ["(eq 0 (mod n 4))"], "3"),
    ("(mod (add (mul i (add n m)) 3) 4)", {"n": (0, 100), "m": (0, 10), "i": (0, 9)}, ["(eq (mod (add n m) 4) 0)"], "3"),
    ("(min (add i 1) n)", {"i": (0, 99), "n": (0, 100)}, ["(lt i n)"], "(add i 1)"),
    ("(mod x 24)", {"x": (0, 1000)}, ["(land (le 3 x) (lnot (le 24 x)))"], "x"),
    ("(select (lt x 8) (mod x 8) x)", {"x": (0, 63)}, ["(lt x 8)"], "x"),
    ("(max x y)", {"x": (0, 63), "y": (0, 63)}, ["(le y x)"], "x"),
    # congruences: the value is r modulo m
    ("(mod (add x 1) 4)", XY, ["(eq (mod x 4) 3)"], "0"),
    ("(mul (div (add x 1) 4) 4)", XY, ["(eq (mod x 4) 3)"], "(add x 1)"),
    ("(mod x 2)", XY, ["(eq (mod x 4) 3)"], "1"),
    ("(mod (add x y) 4)", XY, ["(eq (mod x 4) 3)", "(eq (mod y 4) 1)"], "0"),
    ("(mod (sub x y) 4)", XY, ["(eq (mod x 4) 3)", "(eq (mod y 4) 1)"], "2"),
    ("(mod (add x y) 2)", XY, ["(eq (mod x 4) 3)", "(eq (mod y 6) 1)"], "0"),
    ("(mod (mul x y) 4)", XY, ["(eq (mod x 4) 3)", "(eq (mod y 4) 2)"], "2"),
    ("(mod (min x y) 4)", XY, ["(eq (mod x 4) 3)", "(eq (mod y 4) 3)"], "3"),
    ("(eq (mod x 8) 2)", XY, ["(eq (mod x 4) 3)"], "0"),
    ("(eq x y)", XY, ["(eq (mod x 4) 3)", "(eq (mod y 4) 1)"], "0"),
    ("(ne x 8)", XY, ["(eq (mod x 4) 3)"], "1"),
    ("(mod x 3)", XY, ["(eq (mod x 12) 7)"], "1"),
    ("(xor x 3)", XY, ["(eq (mod x 4) 3)"], "(sub x 3)"),
    ("(mod n 4)", XY | {"n": (1, 50)}, ["(eq (sub n 2) (mul 4 y))"], "2"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ranges", "assume", "expected"), CASES)
def test_conditions_are_used(
    text: str, ranges: dict[str, tuple[int, int]], assume: list[str], expected: str
) -> None:
    result = simplify(parse(text), ranges, assume=[parse(a) for a in assume])
    assert show(result.expr) == expected
    assert result.validated_by != "unchecked"
    without = simplify(parse(text), ranges)
    assert without.cost >= result.cost


def test_a_contradiction_is_an_error_not_a_proof() -> None:
    with pytest.raises(EvaluationError, match="no value of 'x'"):
        simplify(parse("(lt x 5)"), {"x": (0, 9)}, assume=[parse("(lt x 3)"), parse("(lt 5 x)")])


def test_a_contradiction_between_terms_changes_nothing() -> None:
    term = parse("(add (mod x 8) (div y 4))")
    ranges = {"x": (0, 9), "y": (0, 9)}
    result = simplify(term, ranges, assume=[parse("(lt x y)"), parse("(lt y x)")])
    assert result.expr == term


def test_random_assumptions_are_never_misused() -> None:
    r = random.Random(1)
    used = 0
    for _ in range(25):
        ranges = {v: random_range(r) for v in "xyz"} | {"n": (1, 12)}
        names = list("xyz")
        assume: list[Term] = [
            (r.choice(("lt", "le", "eq", "ne")), random_term(r, 1, names), random_term(r, 1, names))
            for _ in range(r.randint(1, 2))
        ]
        if r.random() < 0.4:
            modulus = r.choice((2, 3, 4, 8))
            assume.append(("eq", ("mod", r.choice(names), modulus), r.randrange(modulus)))
        terms = [random_term(r, 3, names) for _ in range(3)] + [("min", *assume[0][1:])]  # type: ignore[misc, index]
        try:
            results = simplify_all(terms, ranges, assume=assume, check_result=False)
        except EvaluationError:
            continue
        points = [p for p in sample(r, ranges, 300) if all(evaluate(c, p) for c in assume)]
        used += bool(points)
        for term, result in zip(terms, results):
            for point in points[:40]:
                assert evaluate(term, point) == evaluate(result.expr, point), (assume, show(term), point)
    assert used > 8
