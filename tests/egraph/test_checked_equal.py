"""Claims that the quick procedure leaves open: one proof for all arrays that differ by where they begin."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.egraph import result
from tirx_eq.ir.index import evaluate
from tirx_eq.strategies import index_exprs

#: A claim that takes a solver: the low bit of a product, read off a sum that may be of any size.
WIDE = (-(1 << 31), (1 << 31) - 1)
BEFORE = ("mul", ("mod", ("xor", ("add", ("mul", "x", 3), "y"), ("mul", "y", 2)), 2), 4096)
AFTER = ("mul", ("and", ("add", "x", "y"), 1), 4096)


def test_the_constants_of_a_sum_are_no_part_of_the_question(monkeypatch):
    asked = []
    decide = result._decided_by
    monkeypatch.setattr(result, "_decided_by", lambda *claim: asked.append(claim) or decide(*claim))
    monkeypatch.setattr(result, "_verdicts", type(result._verdicts)())
    monkeypatch.setattr("tirx_eq.prove.parity.equal", lambda *_: False)
    ranges = {"x": WIDE, "y": WIDE}
    for k in (0, 7, 4096):
        before = ("add", ("add", 64 + k, "y"), ("sub", BEFORE, 3))
        assert result.checked_equal(before, ("add", ("add", AFTER, k + 61), "y"), ranges) is not None
        assert result.checked_equal(before, ("add", ("add", AFTER, k + 62), "y"), ranges) is None
    assert len(asked) == 2


@settings(max_examples=40)
@given(index_exprs(), st.integers(-50, 50), st.randoms(use_true_random=False))
def test_a_term_is_its_rest_and_its_number(drawn, constant, random):
    term, ranges = drawn
    whole = ("sub", ("add", constant, term), ("add", term, 5))
    rest, number = result._without_constant(whole)
    at = {name: random.randint(*bounds) for name, bounds in ranges.items()}
    assert evaluate(rest, at) + number == evaluate(whole, at)
    rest, number = result._without_constant(("add", term, ("sub", 5, term)))
    assert evaluate(rest, at) + number == 5
