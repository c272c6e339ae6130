"""The search itself: exact on random tables, bounded when its budget ends, the same on every run; answers of calls reused."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.errors import TirxError
from tirx_eq.layout import S, TileLayout
from tirx_eq.lower.candidates import choose
from tirx_eq.script import load_file
from tirx_eq.solve.costs import Costs, CostTable, total
from tirx_eq.solve.erase import with_layouts
from tirx_eq.solve.erasing import erase_layouts
from tirx_eq.solve.evaluate import CallTable
from tirx_eq.solve.problem import build
from tirx_eq.solve.select import greedy, select, separated
from tirx_eq.solve.solve import solve
from tirx_eq.solve.uses import uses_of

from . import kernels

ROOT = Path(__file__).parents[2]


@st.composite
def problems(draw):
    """A few unknowns, and tables over one to three of them with holes."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=4))
    tables = []
    for _ in range(draw(st.integers(1, 4))):
        count = draw(st.integers(1, min(3, len(sizes))))
        unknowns = tuple(sorted(draw(st.permutations(range(len(sizes))))[:count]))
        rows = list(product(*(range(sizes[u]) for u in unknowns)))
        kept = [r for r in rows if draw(st.integers(0, 4)) or len(rows) == 1]
        tables.append(CostTable(unknowns, {r: float(draw(st.integers(0, 30))) for r in kept}))
    domains = [[TileLayout(S[k + 1 : 1]) for k in range(n)] for n in sizes]
    return Costs(domains, [list(range(n)) for n in sizes], [{} for _ in sizes], tables, 5.0)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_select_is_exact(costs):
    every = [dict(enumerate(c)) for c in product(*costs.alive)]
    values = [v for v in (total(costs, c) for c in every) if v is not None]
    found = select(costs)
    if not values:
        assert found is None
        return
    assert found is not None and found.optimal
    assert found.cost == pytest.approx(min(values)) and total(costs, found.chosen) == found.cost
    rival = greedy(list(range(len(costs.alive))), dict(enumerate(costs.alive)), costs.tables)
    if rival is not None:
        assert total(costs, rival) >= found.cost - 1e-9
    forced = select(costs, forced={0: costs.alive[0][-1]})
    with_it = [v for c in every if c[0] == costs.alive[0][-1] and (v := total(costs, c)) is not None]
    assert (forced is None) == (not with_it)
    if forced is not None:
        assert forced.cost == pytest.approx(min(with_it))


def hard(unknowns: int = 9, candidates: int = 6) -> Costs:
    """Every pair of unknowns has a table of random costs: too much for a few nodes."""
    rng = np.random.default_rng(3)
    tables = [
        CostTable((a, b), {(i, j): float(rng.integers(1, 1000)) for i in range(candidates) for j in range(candidates)})
        for a in range(unknowns) for b in range(a + 1, unknowns)
    ]  # fmt: skip
    layouts = [[TileLayout(S[k + 1 : 1]) for k in range(candidates)] for _ in range(unknowns)]
    return Costs(layouts, [list(range(candidates)) for _ in range(unknowns)], [{} for _ in range(unknowns)], tables)


def test_a_budget_that_ends_first_leaves_a_bound():
    costs = hard()
    found = select(costs, nodes=1)
    assert found is not None and not found.optimal
    assert 0 < found.bound < found.cost == total(costs, found.chosen)
    again = select(costs, nodes=1)
    assert again == found


def test_sums_are_told_from_other_tables():
    rows = list(product(range(2), range(3)))
    assert separated(CostTable((0, 1), {r: 3.0 * r[0] + r[1] for r in rows})) is not None
    assert separated(CostTable((0, 1), {r: float(r[0] * r[1]) for r in rows})) is None
    assert separated(CostTable((0, 1), dict.fromkeys(rows[1:], 1.0))) is None


@pytest.mark.parametrize("name", ["gemm_single_tile", "rmsnorm", "gemm_tma_pipeline"])
def test_answers_are_those_of_the_compiler(name):
    """A call's candidates under layouts, answered piece by piece from other combinations, against the compiler's choice."""
    (func,) = load_file(ROOT / "examples" / f"{name}.py").values()
    erased = erase_layouts(func)
    problem = build(erased, "sm_100a")
    solution = solve(erased, alternatives=False)
    rng = np.random.default_rng(0)
    for table in problem.tables:  # ask in another order than the solver does, so that answers are reused across
        sides = [list(problem.domains[u]) for u in table.unknowns]
        for _ in range(4):
            table.candidates({u: s[int(rng.integers(len(s)))] for u, s in zip(table.unknowns, sides)})
    at = {u.index: next(c.layout for c in solution.chosen if c.buffer is u.leader) for u in problem.unknowns}
    choices = choose(uses_of(with_layouts(erased, problem.layouts(at)), "sm_100a").contexts)
    for table, choice in zip(problem.tables, choices):
        mine = [(k.rule, k.values, k.cycles) for k in table.candidates(at)]
        assert mine == [(k.rule, k.values, k.cycles) for k in choice.candidates]


SCRIPT = """
import json, sys
from tirx_eq.script import load_file
from tirx_eq.solve.erasing import erase_layouts
from tirx_eq.solve.solve import solve
for f in sys.argv[1:]:
    for func in load_file(f).values():
        data = solve(erase_layouts(func)).report()
        del data["seconds"]
        print(json.dumps(data, sort_keys=True))
"""


def test_the_same_answer_on_every_run():
    """Hash order, what ran before and the process don't matter."""
    files = [str(ROOT / "examples" / f"{n}.py") for n in ("gemm_single_tile", "rmsnorm")]
    outputs = []
    for seed, order in (("0", files), ("7", files[::-1])):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", SCRIPT, *order]
        made = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        outputs.append(sorted(made.stdout.splitlines()))
    assert len(outputs[0]) == 2 and outputs[0] == outputs[1]


def test_alternatives_are_the_best_with_each_candidate():
    func = kernels.transpose(16, "float32")
    solution = solve(func)
    (chosen,) = solution.chosen
    assert chosen.alternatives and solution.runner_ups[0][0] >= solution.objective
    for other in chosen.alternatives:
        if other.excluded is None:
            fixed = solve(with_layouts(func, {chosen.buffer: other.layout}))
            least = other.cost if other.cost is not None else other.at_least
            assert least is not None and least <= fixed.objective + 1e-6
            assert other.cost is None or other.cost == pytest.approx(fixed.objective)


def test_a_call_that_depends_on_nothing_is_asked_once():
    func = kernels.through_shared(8, 64, "float16")
    problem = build(func, "sm_100a")
    table: CallTable = problem.tables[0]
    sides = list(problem.domains[0])
    table.candidates({0: sides[0]})
    before = table.evaluations
    table.candidates({0: sides[0]})
    assert table.evaluations == before
    with pytest.raises(KeyError):
        table.candidates({})


def test_wrong_arguments():
    with pytest.raises(TirxError, match="needs a PrimFunc"):
        solve(3)  # type: ignore[arg-type]
    with pytest.raises(TirxError):
        solve(kernels.transpose(8, "float32"), target="sm_1")
