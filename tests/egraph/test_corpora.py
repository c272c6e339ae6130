"""The simplifier on recorded corpora: totals under a bar, nothing dearer, everything validated."""

from __future__ import annotations

import pytest

from tirx_eq.egraph.batch import simplify_rows
from tirx_eq.egraph.cost import cost
from tirx_eq.egraph.simplify import Simplified
from tirx_eq.ir.index import parse, show

from .corpora import Row, operators, rows

BAR_SIMPLIFY = 835
BEST_KNOWN = 893
BAR_OPTIMAL = 673
BAR_INDEX_COST = 4262
BAR_INDEX_OPERATORS = 3447
BAR_INDEX_OPERATORS_31_BITS = 3487


def run(found: list[Row], **options: bool) -> list[Simplified]:
    out: list[Simplified] = []
    for row, result in zip(found, simplify_rows([(r.term, r.ranges) for r in found], **options)):
        assert isinstance(result, Simplified), f"{row.id}: {result}"
        assert result.cost == cost(result.expr), row.id
        assert result.cost <= result.cost_in == cost(row.term), row.id
        out.append(result)
    return out


def test_best_known_costs_are_reached() -> None:
    corpus = rows("simplify.jsonl")
    results = run(corpus)
    dearer = [f"{r.id}: {o.cost} > {r.data['best_known']}: {show(o.expr)}" for r, o in zip(corpus, results)
              if o.cost > r.data["best_known"]]  # fmt: skip
    assert not dearer
    assert sum(o.cost for o in results) <= BAR_SIMPLIFY < BEST_KNOWN
    assert all(o.validated_by != "identity" or o.expr == r.term for r, o in zip(corpus, results))
    assert sum(o.validated_by == "identity" for o in results) <= 2


def test_exact_extraction_and_strength_reduction_go_below() -> None:
    pytest.importorskip("highspy")
    corpus = rows("simplify.jsonl")
    results = run(corpus, optimal=True)
    assert sum(o.cost for o in results) <= BAR_OPTIMAL
    assert all(o.cost <= r.data["best_known"] for r, o in zip(corpus, results))


def test_addresses_of_real_kernels_beat_the_analyzer() -> None:
    corpus = rows("index_exprs.jsonl")
    results = run(corpus, check_result=False)
    theirs = [parse(r.data["tvm"]) for r in corpus]
    dearer = [r.id for r, o, t in zip(corpus, results, theirs) if o.cost > cost(t)]
    assert not dearer
    ours = sum(operators(o.expr) for o in results)
    assert ours <= 0.89 * sum(operators(t) for t in theirs)
    assert ours <= BAR_INDEX_OPERATORS and sum(o.cost for o in results) <= BAR_INDEX_COST


def test_values_of_31_bits_change_little() -> None:
    corpus = rows("index_exprs.jsonl", opaque=(1 << 31) - 1)
    results = run(corpus, check_result=False)
    theirs = [parse(r.data["tvm"]) for r in corpus]
    assert not [r.id for r, o, t in zip(corpus, results, theirs) if o.cost > cost(t)]
    assert sum(operators(o.expr) for o in results) <= BAR_INDEX_OPERATORS_31_BITS


def test_a_sample_of_them_is_validated() -> None:
    corpus = rows("index_exprs.jsonl")[::8]
    for row, result in zip(corpus, run(corpus)):
        assert result.validated_by != "unchecked"
        assert result.validated_by != "identity" or result.expr == row.term, row.id


def test_no_avoidable_operator_is_left() -> None:
    corpus = rows("simplify_gaps.jsonl")
    results = run(corpus)
    targets = run([Row(r.id, parse(r.data["equal"]), r.ranges, r.data) for r in corpus])
    left = [
        f"{r.id}: {show(o.expr)} for {show(t.expr)}"
        for r, o, t in zip(corpus, results, targets)
        if o.cost > t.cost
    ]
    assert not left
