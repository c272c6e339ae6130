"""Every example with all its layouts erased: solved, no dearer than by hand, compiled, and right in the simulator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.layout import is_open
from tirx_eq.script import load_file
from tirx_eq.solve.erase import declared, erase_layouts, has_open_layouts
from tirx_eq.solve.solve import modelled_cost, solve

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_erased_example_is_solved(path):
    for func in load_file(path).values():
        erased = erase_layouts(func)
        solution = solve(erased, alternatives=False)
        assert not has_open_layouts(solution.func)
        assert {c.buffer for c in solution.chosen} == {d.buffer for d in declared(erased) if is_open(d.buffer.layout)}
        assert solution.optimal and solution.objective <= modelled_cost(func) + 1e-6
        assert solution.objective == pytest.approx(modelled_cost(solution.func))
        assert solution.objective == pytest.approx(sum(solution.resources.values()))
        outcome = execute(solution.func)
        assert outcome.good, outcome
