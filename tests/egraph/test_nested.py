"""Deep, shared and huge: terms whose trees have 2**64 nodes, whose values fill no memory, whose bounds fill no word."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tirx_eq.egraph.batch import simplify_rows
from tirx_eq.egraph.branches import MAX_VISITS, with_branches
from tirx_eq.egraph.random_terms import sample
from tirx_eq.egraph.simplify import Simplified, simplify, simplify_all
from tirx_eq.errors import ProofError
from tirx_eq.ir.index import EvaluationError, Term, evaluate, evaluate_many, parse, show
from tirx_eq.prove.validate import Validator, validate

Step = Callable[[Term, int], Term]
RANGES = {"x": (0, 4095), "y": (0, 4095), "z": (-50, 50), "n": (1, 9)}
WORD = 1 << 63


def chain(step: Step, levels: int) -> Term:
    t: Term = "x"
    for i in range(levels):
        t = step(t, i)
    return t


def right(before: Term, after: Term, ranges: dict[str, tuple[int, int]], count: int = 12) -> None:
    for point in sample(random.Random(1), ranges, count):
        try:
            value = evaluate(before, point)
        except EvaluationError:
            continue
        assert evaluate(after, point) == value, point


SHARED: dict[str, Step] = {
    "select of the same": lambda t, i: ("select", ("lt", t, 5 + i), t, ("add", t, 1)),
    "select, other branch": lambda t, i: ("select", ("lt", "x", 5 + i), ("add", t, "x"), ("mod", t, 8 + i)),
    "select in a condition": lambda t, i: (
        "select", ("lt", ("select", ("lt", t, 3), "y", t), i), ("mod", t, 5), ("sub", "x", t)),
    "select of powers": lambda t, i: (
        "select", ("lt", "y", 1 << (i % 12)), ("add", ("mod", ("add", "y", t), 1 << (i % 12)), 1), ("div", t, 3)),
    "min and max": lambda t, i: ("min", ("add", t, "x"), ("max", ("sub", t, "y"), ("mul", t, 2))),
    "quotient and remainder": lambda t, i: ("add", ("mul", ("div", t, 3 + i % 4), 7), ("mod", t, 3 + i % 4)),
    "variable divisor": lambda t, i: ("add", ("div", t, "n"), ("mod", t, "n")),
    "truncating": lambda t, i: ("sub", ("tdiv", ("sub", t, "x"), 3), ("tmod", ("mul", t, "z"), 5)),
    "xor of shifts": lambda t, i: ("xor", ("shr", t, 1), ("mul", ("and", t, 7), 4)),
    "or of and": lambda t, i: ("or", ("and", t, "x"), ("xor", t, ("add", "y", i))),
    "shifts": lambda t, i: ("add", ("shr", t, ("and", t, 3)), ("shl", ("and", t, 3), ("and", "y", 3))),
    "conditions": lambda t, i: ("lor", ("lt", ("add", t, "x"), i), ("land", t, ("eq", "y", i))),
    "squares": lambda t, i: ("mul", t, t),
}  # fmt: skip


@pytest.mark.parametrize("step", SHARED.values(), ids=SHARED.keys())
def test_sixty_four_levels_that_share(step: Step) -> None:
    """Each level names the one below two or three times, so nothing may walk, hash or compare these as trees."""
    term = chain(step, 64)
    for result in (simplify(term, RANGES), simplify_all([("add", term, 1), term], RANGES)[1]):
        assert result.cost <= result.cost_in
        if step is not SHARED["squares"]:
            right(term, result.expr, RANGES)


def test_operands_of_a_long_exclusive_or_are_divided() -> None:
    """More operands than are remembered of one: the quotient is taken of the whole."""
    term = chain(SHARED["xor of shifts"], 12)
    right(term, simplify(("div", term, 4), RANGES).expr, {**RANGES, "x": (0, 4095)}, 0)
    result = simplify(term, RANGES)
    assert result.cost < result.cost_in
    right(term, result.expr, RANGES, 60)


def test_branches_in_more_contexts_than_can_be_looked_at_are_left_alone() -> None:
    asked = []
    term = chain(SHARED["select of the same"], 64)
    small = parse("(select (lt x 8) (mod x 8) y)")
    found = with_branches([(term, RANGES), (small, RANGES)], lambda terms, ranges, assume: asked.append(len(terms)) or terms)
    assert found[0] is None and sum(asked) < MAX_VISITS


LEVELS = 1_000
TALL: dict[str, Step] = {
    "div": lambda t, i: ("div", ("add", t, "y"), 3 + i % 3),
    "min": lambda t, i: ("min", ("add", t, "z"), "y"),
    "select": lambda t, i: ("select", ("lt", "x", i), t, ("add", "y", i)),
    "products": lambda t, i: ("add", t, ("mul", ("add", "x", i), ("add", "y", i))),
    "conditions": lambda t, i: ("land", t, ("lt", "x", ("add", "y", i))),
    "xor that carries": lambda t, i: ("xor", t, ("add", "y", i)),
}


@pytest.mark.parametrize("step", TALL.values(), ids=TALL.keys())
def test_thousands_of_levels(step: Step) -> None:
    term = chain(step, LEVELS)
    result = simplify(term, RANGES)
    assert result.cost <= result.cost_in and result.validated_by
    right(term, result.expr, RANGES, 4)


@pytest.mark.parametrize(
    ("text", "ranges", "best"),
    [
        ("(mod x 8)", {"x": (0, 1 << 70)}, 1),
        ("(and (sub x 9223372036854775808) 255)", {"x": (-WORD, WORD - 1)}, 1),
        ("(mod (mod x 9223372036854775808) 4294967296)", {"x": (0, 4 * WORD)}, 1),
        ("(add (mul (div x 4611686018427387903) 4611686018427387903) (mod x 4611686018427387903))", {"x": (-WORD, WORD)}, 0),
        ("(xor (xor x 4611686018427387903) 4611686018427387903)", {"x": (-WORD, WORD - 1)}, 0),
        ("(tmod x -9223372036854775808)", {"x": (-WORD, WORD - 1)}, 20),
        ("(min (add x 1) (add x 9223372036854775807))", {"x": (-WORD, WORD - 1)}, 1),
        ("(sub (mul (mul x y) (mul x y)) (mul (mul y y) (mul x x)))", {"x": (0, WORD), "y": (0, WORD)}, 0),
        ("(div (mul (mul x y) 12) (mul x 4))", {"x": (1, WORD), "y": (0, WORD)}, 50),
        ("(xor x 18446744073709551615)", {"x": (0, 2 * WORD - 1)}, 1),
        ("(mod (add x -9223372036854775808) 16)", {"x": (0, 3)}, 0),
        ("(neg x)", {"x": (-WORD, -WORD)}, 1),
    ],
)
def test_bounds_and_constants_beyond_a_word(text: str, ranges: dict[str, tuple[int, int]], best: int) -> None:
    """What 64 bits cannot hold stays out of the e-graph, and takes nothing with it that doesn't need it."""
    term = parse(text)
    other = parse("(mod (mul y 8) 8)")
    for optimal in (False, True):
        results = simplify_rows([(term, ranges), (other, {"y": (0, 9)})], optimal=optimal)
        together = simplify_all([term, other], {"y": (0, 9), **ranges}, optimal=optimal)
        for first, second in (results, together):
            assert isinstance(first, Simplified) and isinstance(second, Simplified)
            assert first.cost <= best and show(second.expr) == "0"
            right(term, first.expr, ranges)


def test_a_wide_variable_keeps_the_bound_that_fits() -> None:
    (result,) = simplify_all([parse("(max x 0)")], {"x": (0, 1 << 80)})
    assert result.expr == "x"


def test_values_that_no_memory_holds_are_refused() -> None:
    squares = chain(SHARED["squares"], 40)
    with pytest.raises(EvaluationError, match="more than 65536 bits"):
        evaluate(squares, {"x": 4095})
    assert evaluate(squares, {"x": 1}) == 1
    with pytest.raises(EvaluationError, match="more than 65536 bits"):
        evaluate_many(squares, {"x": 4095})
    with pytest.raises(ProofError, match="more than 65536 bits"):
        validate(squares, 0, {"x": (0, 4095)})
    assert validate(("mul", chain(SHARED["squares"], 8), 0), 0, {"x": (0, 4095)}).status == "equal"


def test_a_proof_that_would_take_long_is_left_to_a_quick_procedure() -> None:
    """24 divisions, half of them by a variable: products of all with all would keep the lemmas busy for half a minute."""
    term = chain(lambda t, i: ("sub", ("tdiv", t, 7), ("tmod", ("mul", t, 3), "n")), 12)
    ranges = {"x": (0, (1 << 31) - 1), "n": (1, (1 << 31) - 1)}
    validator = Validator(ranges)
    assert validator.compare(("add", ("sub", term, "x"), "x"), term).status != "different"
    assert "lemmas" not in validator.decided
    result = simplify(("add", ("sub", term, "x"), "x"), ranges)
    assert result.cost < result.cost_in
    small: Term = ("add", ("mul", ("div", "x", "n"), "n"), ("mod", "x", "n"))
    assert validator.compare(small, "x").status == "equal"
