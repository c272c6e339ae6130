"""The simplifier end to end: known results, never dearer, always validated, errors that name the fault."""

from __future__ import annotations

import pytest

from tirx_eq.egraph.cost import cost
from tirx_eq.egraph.simplify import simplify, simplify_all
from tirx_eq.errors import ParseError
from tirx_eq.ir.index import EvaluationError, Term, parse, show

CASES = [
    ("(add (mul (div t 32) 32) (mod t 32))", {"t": (0, 127)}, 0),
    ("(div (add (mul x 8) y) 8)", {"x": (-9, 100), "y": (0, 7)}, 0),
    ("(mod (div (add (mul (add (mul bx 1024) by) 64) k) 64) 1024)", {"bx": (0, 7), "by": (0, 1023), "k": (0, 63)}, 0),
    ("(xor (xor a (shl (and (shr a 7) 7) 4)) (shr (and (xor a (shl (and (shr a 7) 7) 4)) 896) 3))",
     {"a": (0, 32767)}, 0),
    ("(add (mul (div t 8) 64) (mul (xor (mod t 8) (mod (div t 8) 8)) 8))", {"t": (0, 127)}, 7),
    ("(mod (mul (div (mod i 20) 2) 2) 4)", {"i": (0, 79)}, 1),
    ("(tdiv (add 241 (mul x 48)) 16)", {"x": (-10, 10)}, 6),
    ("(mod (add (add (mul x 50) (mul y 8)) k) 20)", {"x": (0, 3), "y": (0, 1), "k": (0, 7)}, 27),
    ("(sub (div (add (mul x 6) 12) 6) 2)", {"x": (-50, 50)}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ranges", "at_most"), CASES)
def test_known_results(text: str, ranges: dict[str, tuple[int, int]], at_most: int) -> None:
    result = simplify(parse(text), ranges)
    assert result.cost <= at_most, show(result.expr)
    assert result.cost == cost(result.expr) <= result.cost_in == cost(parse(text))
    assert result.validated_by
    assert (result.validated_by == "identity") == (result.expr == parse(text))


def test_results_do_not_depend_on_the_run() -> None:
    terms: list[Term] = [parse(text) for text, _, _ in CASES[:5]]
    ranges = {k: v for _, r, _ in CASES[:5] for k, v in r.items()}
    first = simplify_all(terms, ranges)
    assert [r.expr for r in simplify_all(terms, ranges)] == [r.expr for r in first]


def test_a_batch_of_nothing() -> None:
    assert simplify_all([], {}) == []


@pytest.mark.parametrize("text", ["x", "7", "(add 3 4)"])
def test_leaves(text: str) -> None:
    assert simplify(parse(text), {"x": (0, 3)}).cost == 0


def test_errors_name_the_fault() -> None:
    with pytest.raises(EvaluationError, match="'y' has no range"):
        simplify(parse("(add x y)"), {"x": (0, 3)})
    with pytest.raises(EvaluationError, match=r"empty: 5\.\.2"):
        simplify(parse("(add x 1)"), {"x": (5, 2)})
    with pytest.raises(EvaluationError, match=r"division by zero in \(div x 0\)"):
        simplify(parse("(div x 0)"), {"x": (0, 3)})
    with pytest.raises(EvaluationError, match="negative"):
        simplify(parse("(shl x -2)"), {"x": (0, 3)})


def test_constants_that_64_bits_cannot_hold_stay_as_they_are() -> None:
    term = parse("(add (mul x 9223372036854775807) (sub y y))")
    assert simplify(term, {"x": (0, 3), "y": (0, 9)}).expr == term


def test_text_is_a_term() -> None:
    text = "(mod (mul (div (mod i 20) 2) 2) 4)"
    found = simplify(text, {"i": (0, 79)})
    assert found == simplify(parse(text), {"i": (0, 79)}) and found.expr == ("and", "i", 2)
    with pytest.raises(ParseError, match="'frob'"):
        simplify("(frob i 2)", {"i": (0, 79)})
