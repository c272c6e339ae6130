"""The cost table: the stated weights, sharing paid once, constants free."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tirx_eq.egraph.cost import CostTable, cost
from tirx_eq.ir.index import Term, parse

DATA = Path(__file__).resolve().parents[1] / "data"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x", 0), ("(add x 1)", 1), ("(mul x 8)", 1), ("(mul x -8)", 1), ("(mul x 3)", 4), ("(mul x y)", 4),
        ("(mul x 1)", 0), ("(div x 8)", 1), ("(div x 3)", 20), ("(mod x y)", 40), ("(div x -8)", 20), ("(div x 1)", 0),
        ("(add (div x 3) (div x 3))", 21), ("(mul x (add 3 5))", 1), ("(add 1 2)", 0), ("(select c x y)", 1),
        ("(div x (select 1 4 3))", 1),
    ],
)  # fmt: skip
def test_weights(text: str, expected: int) -> None:
    assert cost(parse(text)) == expected


def test_corpus_input_costs() -> None:
    rows = [json.loads(line) for line in (DATA / "simplify.jsonl").read_text().splitlines()]
    assert [cost(parse(r["expr"])) for r in rows] == [r["cost"] for r in rows]
    assert sum(r["cost"] for r in rows) == 2822


def test_several_roots_share() -> None:
    a, b = parse("(add (div x 3) 1)"), parse("(add (div x 3) 2)")
    assert cost([a, b]) == 22
    assert cost(a) + cost(b) == 42


def test_table_is_replaceable() -> None:
    assert cost(parse("(mul x 3)"), CostTable(mul=1)) == 1


def test_deep_terms() -> None:
    t: Term = "x"
    for i in range(10_000):
        t = ("add", t, ("mul", "y", i))
    assert cost(t) > 10_000
