"""Remainders as variables: a claim over them is a claim over what they are remainders of."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.egraph import result
from tirx_eq.egraph.remainders import over_remainders
from tirx_eq.ir.index import evaluate, names, substitute
from tirx_eq.strategies import index_exprs

WIDE = (-(1 << 31), (1 << 31) - 1)
RANGES = {"r": WIDE, "s": WIDE, "t": (0, 511)}
SLOT = ("mod", ("add", "r", "s"), 3)
BEFORE = ("mul", ("add", ("mul", SLOT, 2048), ("xor", ("mul", "t", 8), ("and", "t", 56))), 2)
AFTER = ("xor", ("add", ("mod", ("mul", ("add", "s", "r"), 4096), 12288), ("mul", "t", 16)), ("and", ("mul", "t", 2), 112))


def test_a_slot_within_bits_is_enumerated(monkeypatch):
    monkeypatch.setattr(result, "_verdicts", type(result._verdicts)())
    monkeypatch.setattr("tirx_eq.prove.parity.equal", lambda *_: False)
    monkeypatch.setattr("tirx_eq.prove.validate.Validator._solve", lambda *_: pytest.fail("a solver was asked"))
    assert result.checked_equal(BEFORE, AFTER, RANGES) == "enumeration"


def test_what_differs_is_not_proved(monkeypatch):
    monkeypatch.setattr(result, "_verdicts", type(result._verdicts)())
    for wrong in (("xor", AFTER, 16), substitute(AFTER, {"r": ("add", "r", 1)}), ("add", AFTER, ("and", SLOT, 1))):
        assert result.checked_equal(BEFORE, wrong, RANGES) is None


def test_a_variable_that_occurs_elsewhere_stays():
    assert over_remainders(("add", SLOT, "r"), ("add", "r", SLOT), RANGES) is None
    assert over_remainders(("mod", ("div", "r", 5), 3), ("mod", ("div", "r", 5), 3), RANGES) is None
    claim = over_remainders(SLOT, ("mod", ("mul", ("add", "r", "s"), 1), 3), RANGES)
    assert claim is not None and names(claim[0]) == names(claim[1]) == {"remainder_3"}
    assert claim[2] == {"remainder_3": (0, 2)}


@settings(max_examples=40)
@given(index_exprs(), st.integers(1, 9), st.sampled_from((1, 4, 6)), st.randoms(use_true_random=False))
def test_the_claim_is_the_same_with_remainders_for_variables(drawn, modulus, factor, random):
    """At any point, what takes the remainder's place has its value: both sides are what they were."""
    term, known = drawn
    ranges = {n: r for n, r in known.items() if n in names(term)} | {"r": (-99, 99), "s": (-99, 99)}
    slot = ("mod", ("add", ("mul", "r", factor), "s"), modulus)
    before = ("xor", ("add", term, slot), slot)
    after = ("sub", ("mod", ("mul", ("add", "s", ("mul", "r", factor)), factor), modulus * factor), term)
    claim = over_remainders(before, after, ranges)
    assert claim is not None
    fresh = [n for n in claim[2] if n not in ranges]
    at = {n: random.randint(*r) for n, r in ranges.items()}
    if len(fresh) == 1:  # not another in the drawn term
        inner = at | {fresh[0]: evaluate(slot, at)}
        assert [evaluate(side, inner) for side in claim[:2]] == [evaluate(side, at) for side in (before, after)]
