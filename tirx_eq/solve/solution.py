"""What solving gives: the function with every layout filled in, what it costs, and what the alternatives would."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from ..errors import Span
from ..ir import Buffer, PrimFunc
from ..layout import Layout
from ..lower.machine import B200, Machine, Price


def cycles_by_resource(price: Price, machine: Machine = B200) -> dict[str, float]:
    """The cycles of a price by what they are spent on; their sum is ``price.cycles(machine)``."""
    names = [f.name for f in fields(price) if f.name != "warps"]
    alone = {name: Price(**{name: getattr(price, name), "warps": price.warps}).cycles(machine) for name in names}
    return {name: cycles for name, cycles in alone.items() if cycles}


@dataclass(frozen=True)
class Alternative:
    """A candidate that wasn't chosen.

    ``cost``: of the whole kernel with it, everything else chosen anew (None: not worked out, ``at_least`` bounds it);
    ``excluded``: the constraint that rules it out with its source, ``by`` the constraint's name, line and what fails.
    ``rules``: what proposed it.
    """

    layout: Layout
    rules: tuple[str, ...]
    cost: float | None = None
    at_least: float | None = None
    excluded: str | None = None
    by: str = ""

    def verdict(self, best: float) -> str:
        """One line: what it would cost, or why it is out."""
        if self.excluded is not None:
            return f"out by {self.by}" if self.by else f"out: {self.excluded}"
        if self.cost is not None:
            more = self.cost - best
            return f"{self.cost:.1f} cycles" + (f" ({more:+.1f})" if abs(more) > 1e-3 else " (as good)")
        return f"at least {self.at_least:.1f} cycles"


@dataclass(frozen=True)
class Chosen:
    """The layout of one open buffer, and the other candidates, cheapest first."""

    buffer: Buffer
    layout: Layout
    space: str
    unknown: str
    rules: tuple[str, ...]
    span: Span | None
    alternatives: tuple[Alternative, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return self.buffer.name


@dataclass(frozen=True)
class AccessCost:
    """A call (or a statement's access) of the solved kernel: the program chosen, cycles of one execution, executions, and
    wavefronts of shared memory with those that the bytes alone would take."""

    what: str
    lowering: str
    buffers: tuple[str, ...]
    cycles: float
    weight: int
    resources: dict[str, float]
    span: Span | None
    wavefronts: float = 0.0

    @property
    def total(self) -> float:
        return self.cycles * self.weight


@dataclass(frozen=True)
class Solution:
    """A function with all its layouts.

    ``objective`` is the modelled cost in cycles (calls weighted by the rounds of loops with constant bounds), ``resources``
    its parts, ``bound`` a cost that no choice from the candidates can go below: equal to the objective if ``optimal``.
    ``runner_ups`` are the next best kernels as (cost, what is different).
    """

    func: PrimFunc
    target: str
    objective: float
    resources: dict[str, float]
    bound: float
    optimal: bool
    chosen: tuple[Chosen, ...]
    accesses: tuple[AccessCost, ...]
    runner_ups: tuple[tuple[float, str], ...]
    candidates: int
    seconds: float = field(compare=False)

    @property
    def gap(self) -> float:
        """How far from the optimum the objective may be, as a fraction."""
        return 0.0 if self.optimal else (self.objective - self.bound) / max(self.objective, 1e-9)

    def layout(self, name: str) -> Layout:
        """The layout chosen for the buffer called ``name`` (the first of that name)."""
        return next(c.layout for c in self.chosen if c.name == name)

    def compile(self) -> Any:
        """The compiled kernel."""
        from ..lower.kernel import compile_function

        return compile_function(self.func, self.target)

    def explain(self, pictures: bool = False) -> str:
        """The report as text."""
        from .report import explain

        return explain(self, pictures)

    def report(self) -> dict[str, Any]:
        """The report as JSON-able data."""
        from .report import report

        return report(self)
