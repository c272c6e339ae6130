"""Conditions of selections as facts inside their branches."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph import batch
from tirx_eq.egraph.branches import with_branches
from tirx_eq.egraph.cost import cost
from tirx_eq.egraph.random_terms import random_row, random_term, sample
from tirx_eq.egraph.simplify import Simplified, simplify, simplify_all
from tirx_eq.ir.index import EvaluationError, Term, evaluate, parse, show

CASES = [
    ("(select (lt x 8) (mod x 8) y)", {"x": (0, 63), "y": (0, 9)}, "(select (lt x 8) x y)"),
    ("(select (lt x y) (min x y) (max x y))", {"x": (0, 63), "y": (0, 63)}, "x"),
    ("(select (eq (mod x 4) 0) (mul (div x 4) 4) x)", {"x": (0, 63)}, "x"),
    ("(select (lt x 16) (select (le 8 x) (div x 8) (mod x 8)) 3)", {"x": (0, 63)},
     "(select (lt x 16) (select (le 8 x) 1 x) 3)"),  # both conditions hold in the innermost branches
    ("(select (eq x y) (sub x y) (add x y))", {"x": (0, 63), "y": (0, 63)}, "(select (eq x y) 0 (add x y))"),
    ("(select (lt x (mul n 4)) (lt (div x 4) n) 1)", {"x": (0, 1000), "n": (0, 100)}, "1"),
    ("(select (lnot (lt x 8)) (max x 8) 8)", {"x": (0, 127)}, "(max x 8)"),
    ("(select (lt x 32) (xor (mod x 32) 5) (sub (max x 32) 32))", {"x": (0, 127)},
     "(select (lt x 32) (xor x 5) (sub x 32))"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ranges", "expected"), CASES)
def test_a_branch_knows_its_condition(text: str, ranges: dict[str, tuple[int, int]], expected: str) -> None:
    for result in (simplify(parse(text), ranges), *simplify_all([parse(text)], ranges)):
        assert show(result.expr) == expected
        assert result.validated_by not in ("identity", "unchecked")


def test_what_is_shared_with_the_outside_is_not_paid_twice() -> None:
    term = parse("(add (mod x 8) (select (lt x 8) (mod x 8) y))")
    result = simplify(term, {"x": (0, 63), "y": (0, 9)})
    assert result.cost <= cost(term) == 3 + 1


def test_rows_without_useful_conditions_cost_no_run() -> None:
    def never(terms: object, ranges: object, assume: object) -> list[Term]:
        raise AssertionError("nothing to solve")

    rows: list[tuple[Term, dict[str, tuple[int, int]]]] = [
        (parse("(select (lt x 8) (add y 1) z)"), dict.fromkeys("xyz", (0, 99))),
        (parse("(add x 1)"), {"x": (0, 9)}),
        (parse("(select (lt x 200) (mod x 8) y)"), dict.fromkeys("xy", (0, 99))),
    ]
    assert with_branches(rows, never) == [None, None, None]


def test_a_thousand_selections_inside_each_other() -> None:
    term: Term = "x"
    for k in range(1000):
        term = ("select", ("lt", "x", k), ("mod", term, 64), ("add", "x", k))
    result = simplify(term, {"x": (0, 63)}, check_result=False)
    assert result.cost <= result.cost_in


def _selecting(r: random.Random) -> tuple[Term, dict[str, tuple[int, int]]]:
    _, ranges = random_row(r, 2)
    variables = [v for v in sorted(ranges) if v != "n"]
    condition: Term = (r.choice(("lt", "le", "eq", "ne")), r.choice(variables), r.choice([*variables, r.randint(-4, 40)]))
    term: Term = ("select", condition, random_term(r, 3, variables), random_term(r, 3, variables))
    return (("add", r.choice(variables), term) if r.random() < 0.3 else term), ranges


@pytest.mark.parametrize("seed", [1, 2])
def test_never_wrong(seed: int) -> None:
    r = random.Random(seed)
    rows = [_selecting(r) for _ in range(60)]
    for (term, ranges), result in zip(rows, batch.simplify_rows(rows, check_result=False)):
        assert isinstance(result, Simplified) and result.cost <= result.cost_in
        for point in sample(r, ranges, 60):
            try:
                value = evaluate(term, point)
            except EvaluationError:
                continue
            assert evaluate(result.expr, point) == value, f"{show(term)} {show(result.expr)} {point}"
