"""Neutral index expressions: text round trip, meaning, errors that name the place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import ParseError
from tirx_eq.ir.index import (
    ARITY,
    EvaluationError,
    Term,
    evaluate,
    evaluate_many,
    names,
    parse,
    show,
    substitute,
)

_leaf = st.one_of(st.integers(-20, 20), st.sampled_from(["x", "y", "blockIdx.x"]))


def _grow(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.sampled_from(sorted(ARITY)).flatmap(
        lambda op: st.tuples(st.just(op), *[inner] * ARITY[op])  # type: ignore[arg-type]
    )


terms = st.recursive(_leaf, _grow, max_leaves=12)


@given(terms)
@settings(max_examples=60, deadline=None)
def test_text_round_trip(term: Term) -> None:
    assert parse(show(term)) == term


@given(terms, st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 9), st.integers(-3, 70)), min_size=1, max_size=5))
@settings(max_examples=120, deadline=None)
def test_arrays_agree_with_scalars(term: Term, points: list[tuple[int, int, int]]) -> None:
    keys = ("x", "y", "blockIdx.x")
    expected: list[int] | None
    try:
        expected = [evaluate(term, dict(zip(keys, p))) for p in points]
    except EvaluationError:
        expected = None
    env = {k: np.array([p[i] for p in points]) for i, k in enumerate(keys)}
    if expected is None:
        with pytest.raises(EvaluationError):
            evaluate_many(term, env)
    else:
        assert [int(v) for v in evaluate_many(term, env)] == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(div -7 2)", -4), ("(mod -7 2)", 1), ("(tdiv -7 2)", -3), ("(tmod -7 2)", -1), ("(mod 7 -2)", -1),
        ("(shr -5 1)", -3), ("(and -8 13)", 8), ("(lnot 5)", 0), ("(land 3 4)", 1), ("(select 0 (div 1 0) 4)", 4),
    ],
)  # fmt: skip
def test_meaning(text: str, value: int) -> None:
    assert evaluate(parse(text), {}) == value


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("", 1, 1), ("(add 1", 1, 1), ("(foo 1 2)", 1, 2), ("(add 1 2 3)", 1, 1), (")", 1, 1), ("(add 1 2) 3", 1, 11),
     ("(add 1\n  #)", 2, 3), ("((add 1 2))", 1, 2), ("(1 2)", 1, 2)],
)  # fmt: skip
def test_bad_text_says_where(text: str, line: int, column: int) -> None:
    with pytest.raises(ParseError) as caught:
        parse(text)
    span = caught.value.span
    assert span is not None and (span.line, span.column) == (line, column)


def test_no_value_is_an_error_with_the_point() -> None:
    with pytest.raises(EvaluationError, match=r"division by zero.*x=1, y=2"):
        evaluate(parse("(div x (sub y 2))"), {"x": 1, "y": 2})
    with pytest.raises(EvaluationError, match="negative"):
        evaluate(parse("(shl 1 x)"), {"x": -1})
    with pytest.raises(EvaluationError, match="at x=2"):
        evaluate_many(parse("(mod 5 (sub x 2))"), {"x": np.arange(4)})
    with pytest.raises(EvaluationError, match="'z' has no value"):
        evaluate(parse("(add z 1)"), {"x": 1})


def test_values_beyond_64_bits_are_exact() -> None:
    term = parse("(mul (mul x x) (mul x x))")
    assert int(evaluate_many(term, {"x": np.array([1 << 40])})[0]) == 1 << 160


def test_deep_and_shared_terms() -> None:
    deep: Term = "x"
    for i in range(10_000):
        deep = ("add", deep, i)
    assert names(deep) == {"x"}
    assert evaluate(deep, {"x": 1}) == 1 + sum(range(10_000))
    assert show(deep).endswith("9999)")
    shared: Term = "x"
    for _ in range(200):
        shared = ("add", shared, shared)
    assert evaluate(shared, {"x": 1}) == 1 << 200
    assert evaluate(substitute(shared, {"x": 3}), {}) == 3 << 200


def test_substitution_is_simultaneous() -> None:
    assert substitute(parse("(add x y)"), {"x": "y", "y": ("mul", "x", 2)}) == parse("(add y (mul x 2))")
