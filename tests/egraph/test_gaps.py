"""The gap finder: it proves what it reports, and the rules leave few gaps among small terms."""

from __future__ import annotations

from tirx_eq.egraph.cost import cost
from tirx_eq.egraph.gaps import enumerate_terms, find_gaps
from tirx_eq.ir.index import evaluate


def test_gaps_are_equalities_not_yet_derived() -> None:
    ranges = {"x": (0, 15), "y": (0, 7)}
    gaps = find_gaps(ranges, 1, 400, fast=True)
    for term, best, left in gaps:
        assert cost(best) < left <= cost(term)
        for x in range(16):
            for y in range(8):
                assert evaluate(term, {"x": x, "y": y}) == evaluate(best, {"x": x, "y": y})
    assert len(gaps) <= 4, gaps


def test_enumeration_grows_with_depth() -> None:
    assert enumerate_terms(["x"], 0) == ["x"]
    assert len(enumerate_terms(["x", "y"], 1)) < len(enumerate_terms(["x", "y"], 2))
