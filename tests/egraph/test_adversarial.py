"""Input that is meant to hurt: a clear error or a right answer, within the budget."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.batch import simplify_rows
from tirx_eq.egraph.random_terms import sample
from tirx_eq.egraph.simplify import Simplified, simplify, simplify_all
from tirx_eq.errors import TirxError
from tirx_eq.ir.index import EvaluationError, Term, evaluate, parse, show

Ranges = dict[str, tuple[int, int]]


def right(before: Term, after: Term, ranges: Ranges, count: int = 20) -> None:
    for point in sample(random.Random(1), ranges, count):
        assert evaluate(before, point) == evaluate(after, point), point


def long_sum(n: int) -> Term:
    t: Term = "x"
    for i in range(n // 4):
        t = ("add", t, ("mul", ("div", "y", 1 + i % 7), i % 11))
    return t


def deep(op: str, n: int) -> Term:
    t: Term = "x"
    for i in range(n):
        t = (op, ("add", t, i), 8) if op in ("div", "mod") else (op, t, ("add", "y", i))
    return t


def doubled(n: int) -> Term:
    """2**n occurrences of x in n shared nodes."""
    t: Term = "x"
    for _ in range(n):
        t = ("xor", t, ("mul", t, 3))
    return t


@pytest.mark.parametrize(
    "term",
    [long_sum(10_000), deep("div", 3_000), deep("mod", 2_000), deep("xor", 300), deep("min", 1_000), doubled(60)],
    ids=["sum", "div", "mod", "xor", "min", "shared"],
)
def test_ten_thousand_nodes(term: Term) -> None:
    ranges = {"x": (0, 4095), "y": (0, 4095)}
    result = simplify(term, ranges, check_result=term[0] != "xor")  # of sums that carry: a question for minutes of z3
    assert result.cost <= result.cost_in
    right(term, result.expr, ranges, 3)


@pytest.mark.parametrize("op", ["div", "mod", "xor", "and", "or", "min", "max", "sub", "lt"])
def test_sixty_four_levels(op: str) -> None:
    t: Term = "x"
    for i in range(64):
        t = (op, ("add", t, "y"), 3 + i % 5)
    ranges = {"x": (-50, 50), "y": (0, 9)}
    result = simplify(t, ranges)
    assert result.cost <= result.cost_in
    right(t, result.expr, ranges)


@pytest.mark.parametrize(
    ("text", "ranges", "words"),
    [
        ("(add x 1)", {"x": (5, 4)}, "x"),
        ("(add x y)", {"x": (0, 4)}, "y"),
        ("(div x 0)", {"x": (0, 4)}, "zero"),
        ("(mod x (sub 2 2))", {"x": (0, 4)}, "zero"),
        ("(shl x -1)", {"x": (0, 4)}, "negative"),
    ],
)
def test_mistakes_are_told(text: str, ranges: Ranges, words: str) -> None:
    for call in (lambda: simplify(parse(text), ranges), lambda: simplify_all([parse(text)], ranges)):
        with pytest.raises(TirxError, match=words):
            call()


@pytest.mark.parametrize("op", ["div", "mod", "tdiv", "tmod"])
def test_a_divisor_that_may_be_zero(op: str) -> None:
    ranges = {"x": (-9, 9), "y": (-3, 3)}
    term: Term = ("add", ("mul", (op, "x", "y"), 2), ("mul", (op, "x", "y"), 6))
    result = simplify(term, ranges)
    for point in sample(random.Random(1), ranges, 200):
        try:
            value = evaluate(term, point)
        except EvaluationError:
            continue
        assert evaluate(result.expr, point) == value


def test_one_bad_row_does_not_spoil_the_others() -> None:
    good: tuple[Term, Ranges] = (parse("(mod x 64)"), {"x": (0, 63)})
    rows: list[tuple[Term, Ranges]] = [good, ("q", {}), (parse("(div x 0)"), {"x": (0, 1)}), good]
    results = simplify_rows(rows)
    assert [isinstance(r, Simplified) for r in results] == [True, False, False, True]
    assert all(show(r.expr) == "x" for r in results if isinstance(r, Simplified))
