"""The engine: tables in, rows out, budgets, and failures that are errors instead of aborts."""

from __future__ import annotations

import pytest

from tirx_eq.egraph.engine import Engine, EngineError

PRELUDE = [
    "(datatype E (K i64) (V String) (Add E E))",
    "(function value (E) i64 :merge (max old new))",
    "(relation edge (i64 i64))",
    "(relation path (i64 i64))",
    "(ruleset go)",
    '(rule ((edge a b)) ((path a b)) :ruleset go :name "t/edge")',
    '(rule ((path a b) (edge b c)) ((path a c)) :ruleset go :name "t/step")',
    '(rewrite (Add a b) (Add b a) :ruleset go :name "t/swap")',
]


def test_tables_in_rows_out() -> None:
    e = Engine(PRELUDE)
    e.load({"edge": [(1, 2), (2, 3), (3, 4)]})
    report = e.saturate("go", rounds=20, nodes=10_000)
    assert report.saturated and report.rounds < 20 and report.fired["t/step"] >= 3
    assert sorted(e.rows("path")) == [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]


def test_frozen_classes() -> None:
    e = Engine(PRELUDE)
    e.run('(set (value (Add (K 1) (V "x"))) 5)')
    e.saturate("go", rounds=5, nodes=1000)
    graph = e.freeze(operators={"K", "V", "Add"}, tables=("value",))
    sizes = sorted(len(nodes) for nodes in graph.classes.values())
    assert sizes == [1, 1, 2]
    assert [row[1] for row in graph.tables["value"]] == [5]


def test_rounds_are_a_budget_and_partial_results_stay() -> None:
    e = Engine(PRELUDE)
    e.load({"edge": [(i, i + 1) for i in range(50)]})
    report = e.saturate("go", rounds=3, nodes=10_000)
    assert not report.saturated and len(e.rows("path")) > 50


def test_nodes_are_a_budget() -> None:
    e = Engine(PRELUDE)
    e.load({"edge": [(i, i + 1) for i in range(200)]})
    report = e.saturate("go", rounds=500, nodes=2000)
    assert not report.saturated and report.rounds < 100


@pytest.mark.parametrize(
    "text", ["(nonsense", "(run-schedule nowhere)", "(Add 1 2)", '(rule () () :name "t/edge")']
)
def test_failures_are_errors_and_spend_the_engine(text: str) -> None:
    e = Engine(PRELUDE)
    with pytest.raises(EngineError):
        e.run(text)
        e.run('(rule ((edge a b)) ((path a b)) :ruleset go :name "t/edge")')
    with pytest.raises(EngineError, match="failed before"):
        e.run("(print-size)")


def test_unknown_table() -> None:
    with pytest.raises(EngineError, match="no table 'roof'"):
        Engine(PRELUDE).rows("roof")
