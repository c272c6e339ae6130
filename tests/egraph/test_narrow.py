"""Ranges under conditions: no value that satisfies them is lost, and the plain cases are exact."""

from __future__ import annotations

import random

import pytest

from tirx_eq.egraph.narrow import about, conjuncts, narrowed
from tirx_eq.egraph.random_terms import random_range, random_term, sample
from tirx_eq.ir.index import EvaluationError, Term, evaluate, names, parse

XYZ = list("xyz")
INT = (-(2**31), 2**31 - 1)
CASES = [
    (["(le (add m 128) M)"], {"m": INT, "M": INT}, {"m": (INT[0], INT[1] - 128), "M": (INT[0] + 128, INT[1])}),
    (["(eq (div t 32) 1)"], {"t": (0, 127)}, {"t": (32, 63)}),
    (["(lt (add (mul b 256) t) n)"], {"b": (0, 2**31 - 1), "t": (0, 255), "n": INT}, {"b": (0, 2**23 - 1), "n": (1, INT[1])}),
    (["(lt (mul (add i 1) 3) 10)"], {"i": (-9, 99)}, {"i": (-9, 2)}),
    (["(le 8 (shr x 2))", "(lt (shl x 1) 90)"], {"x": (0, 99)}, {"x": (32, 44)}),
    (["(lnot (lor (lt x 3) (eq x 9)))"], {"x": (0, 9)}, {"x": (3, 8)}),
    (["(lt 5 (min x y))", "(le (max x y) 7)"], {"x": (0, 9), "y": (0, 9)}, {"x": (6, 7), "y": (6, 7)}),
    (["(eq (sub x y) 3)"], {"x": (0, 9), "y": (0, 9)}, {"x": (3, 9), "y": (0, 6)}),
    (["(lt x y)", "(lt y z)"], {"x": (0, 9), "y": (0, 9), "z": (0, 9)}, {"x": (0, 7), "y": (1, 8), "z": (2, 9)}),
]  # fmt: skip


@pytest.mark.parametrize(("conditions", "ranges", "expected"), CASES)
def test_ranges_that_conditions_leave(
    conditions: list[str], ranges: dict[str, tuple[int, int]], expected: dict[str, tuple[int, int]]
) -> None:
    found = narrowed([parse(c) for c in conditions], ranges)
    assert found == {**ranges, **expected}


@pytest.mark.parametrize("seed", range(40))
def test_no_value_is_lost(seed: int) -> None:
    rng = random.Random(seed)
    kept = 0
    for _ in range(30):
        ranges = {n: random_range(rng) for n in (*XYZ, "n")}
        conditions: list[Term] = [
            (rng.choice(("lt", "le", "eq", "ne")), random_term(rng, rng.randint(0, 3), XYZ), random_term(rng, 1, XYZ))
            for _ in range(rng.randint(1, 3))
        ]
        conditions = [("lnot", c) if rng.random() < 0.3 else c for c in conditions]
        found = narrowed(conditions, ranges)
        for point in sample(rng, ranges, 20):
            try:
                if all(evaluate(c, point) for c in conditions):
                    assert all(found[n][0] <= v <= found[n][1] for n, v in point.items()), (conditions, ranges, point)
                    kept += 1
            except EvaluationError:
                continue
    assert kept > 10


def test_conjuncts_hold_together() -> None:
    assert conjuncts(parse("(land (lt x 3) (lnot (lor (le y 2) z)))")) == [
        ("lt", "x", 3), ("lt", 2, "y"), ("lnot", "z"),
    ]  # fmt: skip
    assert conjuncts(parse("(lor (lt x 3) (lt y 3))")) == [("lor", ("lt", "x", 3), ("lt", "y", 3))]


def test_facts_about_a_term_come_through_other_facts() -> None:
    facts = (("lt", "x", "y"), ("lt", "y", 4), ("lt", "a", "b"))
    assert about(facts, ("add", "x", 1)) == facts[:2]
    assert names(about(facts, "a")[0]) == {"a", "b"}
