"""The rules at work: what a trace says is so at every step, and every rule's use is counted."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.random_terms import sample, wide_row
from tirx_eq.egraph.rules import load_rules
from tirx_eq.egraph.simplify import simplify
from tirx_eq.egraph.trace import measure, trace
from tirx_eq.errors import TirxError
from tirx_eq.ir.index import evaluate, parse, show

RULES = {r.name for r in load_rules()}


def test_a_trace_gets_cheaper_in_steps_that_are_equal() -> None:
    term, ranges = parse("(mod (mul (div (mod i 20) 2) 2) 4)"), {"i": (0, 79)}
    steps = trace(term, ranges)
    assert [show(s.expr) for s in (steps[0], steps[-1])] == [show(term), "(and i 2)"]
    assert [s.cost for s in steps] == sorted({s.cost for s in steps}, reverse=True) and len(steps) > 3
    for i in range(80):
        assert len({evaluate(s.expr, {"i": i}) for s in steps}) == 1
    assert not steps[0].rules and all(s.rules and set(s.rules) <= RULES for s in steps[1:])
    told = [r for s in steps for r in s.rules]
    assert len(told) == len(set(told))  # each where it fired first


def test_a_trace_uses_conditions() -> None:
    steps = trace(parse("(mod (mul n 3) 8)"), {"n": (0, 79)}, [parse("(eq (mod n 8) 0)")])
    assert steps[-1].expr == 0
    assert len(trace(parse("(mod (mul n 3) 8)"), {"n": (0, 79)})) == 1


def test_mistakes_are_told() -> None:
    with pytest.raises(TirxError, match="q"):
        trace(parse("(add q 1)"), {})
    with pytest.raises(TirxError, match="q"):
        measure([("q", {})])


def test_uses_are_counted_over_rows() -> None:
    row = (parse("(mod (add (mul x 4) y) 4)"), {"x": (0, 9), "y": (0, 3)})
    found = measure([row, ("x", {"x": (0, 1 << 70)}), row])
    assert found["divmod/mod-keep-right"].matches >= 1
    assert found.keys() <= RULES and all(u.matches >= 0 and u.seconds >= 0 for u in found.values())
    assert measure([]) == {}


def test_random_words_are_simplified_rightly() -> None:
    """Casts, clamps, guards with symbolic extents, whole words; more of them by benchmarks/random_index.py."""
    r = random.Random(7)
    for _ in range(60):
        term, ranges = wide_row(r, 5)
        result = simplify(term, ranges, check_result=False)
        assert result.cost <= result.cost_in
        for point in sample(r, ranges, 20):
            assert evaluate(result.expr, point) == evaluate(term, point), show(term)
