"""Cells of the table: what the compiler chooses for each, and the execution of several in one kernel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tirx_eq.errors import TirxError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import Rejection, choose, lowering_rules, refusals
from tirx_eq.lower.context import CallContext
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.sharing.threads import find_launch
from tirx_eq.lower.staging.distribute import distribute
from tirx_eq.lower.staging.tmem import stage_tensor_memory
from tirx_eq.lower.statements import Lowerer
from tirx_eq.lower.storage import plan

from .cells import Cell, call_lines, cell_kernel, dtype_of, row_of, rows_of

#: One group of cells in so many is checked, in every run the same ones; all cells of all groups with 1.
SHARE = int(os.environ.get("TIRX_EQ_CELLS", "12"))
ALL = SHARE == 1
#: Relative error of a result against the interpreter's: roundings to the dtype, and of the approximate functions.
BOUNDS = {
    "float64": 1e-14, "float32": 2e-6, "float16": 2**-9, "bfloat16": 2**-6, "float8_e4m3fn": 2**-2, "float8_e5m2": 2**-1,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """``variants`` that lower a cell, or the ``condition`` that refuses it (of the rule that came nearest)."""

    variants: tuple[str, ...] = ()
    condition: str = ""

    def __str__(self) -> str:
        return " + ".join(self.variants) if self.variants else f"refused: {self.condition}"


def outcomes(group: Sequence[Cell]) -> list[Outcome]:
    """What the compiler does with the calls of some cells in one kernel."""
    func = cell_kernel(*group)
    launch = find_launch(func)
    func = stage_tensor_memory(distribute(func, launch), launch)
    try:
        storage = plan(func)
        lowerer = Lowerer(func, launch, storage, "sm_100a")
        lowerer.run()
    except TirxError as error:
        if len(group) > 1:
            return [found for cell in group for found in outcomes([cell])]
        return [Outcome((), f"{type(error).__name__}: {str(error).splitlines()[0]}")]
    mine = [[c for c in lowerer.contexts if c.span and c.span.line in lines] for lines in call_lines(*group)]
    refused = [next((r for c in contexts if (r := _refused(c)) is not None), None) for contexts in mine]
    # One e-graph for all calls that have candidates.
    wanted = [c for contexts, r in zip(mine, refused) if r is None for c in contexts]
    chosen = {k.context.index: k.chosen.rule for k in choose(wanted)}
    return [
        Outcome(tuple(dict.fromkeys(chosen[c.index] for c in contexts))) if r is None else Outcome((), r.condition)
        for contexts, r in zip(mine, refused)
    ]


def _refused(c: CallContext) -> Rejection | None:
    """The nearest rejection of a call that no rule lowers."""
    rejected = refusals(c)
    return None if rejected is None else _nearest(rejected)


def _nearest(rejected: dict[str, tuple[Rejection, ...]]) -> Rejection:
    """The rejection of the rule that got furthest: whose failing condition comes last among its conditions."""
    order = {p.rule.name: ("the call's scope", *p.holds, *p.holds_at) for p in lowering_rules()}
    found = [(order[rule].index(r[-1].condition) / len(order[rule]), r[-1]) for rule, r in rejected.items()
             if r and r[-1].condition in order[rule]]  # fmt: skip
    return max(found, key=lambda pair: pair[0])[1]


def values(cell: Cell, operand: str, seed: int) -> np.ndarray:
    """Small whole numbers, positive, exact in every dtype."""
    dtype = dtype_of(cell, operand)
    shape = (rows_of(cell.scope), *row_of(cell, operand))
    rng = np.random.default_rng(seed)
    if dt.bits(dtype) < 8 and dtype != "bool":
        return rng.choice([0.5, 1.0, 1.5, 2.0], shape).astype(dt.numpy_dtype(dtype))
    return rng.integers(1, 2 if dtype == "bool" else 5, shape).astype(dt.numpy_dtype(dtype))


def execute(*group: Cell) -> None:
    """Compile a kernel of these cells, run it, and compare everything that it leaves with the interpreter's results."""
    func = cell_kernel(*group)
    given = [values(c, name, i * 8 + k) for i, c in enumerate(group) for k, name in enumerate(c.spec.operands)]
    names = [(c, name, f"{name}{i}") for i, c in enumerate(group) for name in c.spec.operands]
    made = compile_function(func)
    result = made.simulate(*given)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    wanted = interpret(func, *given)
    for cell, name, full in names:
        bound = BOUNDS.get(dtype_of(cell, name), 0.0)
        got, right = (np.asarray(x[full]).astype(np.float64) for x in (result.arrays, wanted))
        np.testing.assert_allclose(got, right, rtol=bound, atol=bound, err_msg=f"{cell} {name}")
