"""Costs of a problem's combinations, and what rules out single candidates.

A call's cost under a combination is the modelled cost of the cheapest program that the compiler would choose, times the
rounds of the loops around it; nothing else is priced.  Candidates without support in some constraint or call go first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod

from ..errors import TirxError
from ..layout import Layout
from ..lower.machine import Price
from .bindings import Bound
from .constraints import CallConstraint
from .evaluate import CallTable
from .problem import Problem
from .scalars import ScalarTable

#: Combinations of one call's operands: beyond, its table would take too long to fill.
MAX_COMBINATIONS = 60_000

#: Calls that leave the fewest layouts: looked at first.
STRICT = frozenset(("gemm_async", "gemm", "copy_async"))

Progress = Callable[[str], None]


class TooMany(TirxError):
    """A call has more combinations of candidate layouts than are enumerated."""


@dataclass(frozen=True)
class Exclusion:
    """Why a candidate is out: the constraint, and what fails."""

    bound: Bound
    reason: str

    def __str__(self) -> str:
        return f"{self.bound.constraint} ({self.reason})"

    def short(self) -> str:
        """The constraint's name and line, and what fails."""
        c = self.bound.constraint
        return f"{c.kind}{f' (line {c.line})' if c.line else ''}: {self.reason}"


@dataclass(eq=False)
class CostTable:
    """Cost in cycles of every feasible combination of the layouts (by their numbers) of ``unknowns``."""

    unknowns: tuple[int, ...]
    costs: dict[tuple[int, ...], float]


@dataclass(eq=False)
class Costs:
    """``domains[u]``: the candidates of an unknown as a list; ``alive[u]``: numbers of those that are possible;
    ``excluded[u][k]``: why candidate k isn't; ``tables``: costs of calls and scalar accesses, and constraints on several
    unknowns (as tables of zeros)."""

    domains: list[list[Layout]]
    alive: list[list[int]]
    excluded: list[dict[int, Exclusion]]
    tables: list[CostTable] = field(default_factory=list)
    constant: float = 0.0
    late: list[Bound] = field(default_factory=list)

    def possible(self) -> bool:
        return all(self.alive)


def fill(problem: Problem, progress: Progress | None = None) -> Costs:
    """The tables of a problem.  Some ``alive[u]`` is empty if there is no solution that single calls allow.

    Raises TooMany if a call's combinations exceed the limit.
    """
    domains = [list(d) for d in problem.domains]
    costs = Costs(domains, [list(range(len(d))) for d in domains], [{} for _ in domains])
    costs.constant = sum(s.weight * p.cycles() for s in problem.fixed if isinstance(p := s.fixed_price(), Price))
    by_call: dict[int, list[Bound]] = {t.context.index: [] for t in problem.tables}
    others: list[Bound] = []
    for b in problem.bounds:
        (by_call[b.constraint.index] if isinstance(b.constraint, CallConstraint) else others).append(b)
    _unary(others, costs)
    waiting = list(problem.tables)
    while waiting and costs.possible():
        table = min(waiting, key=lambda t: (t.context.op not in STRICT, prod(len(costs.alive[u]) for u in t.unknowns)))
        waiting.remove(table)
        if progress is not None:
            progress(f"call {len(problem.tables) - len(waiting)} of {len(problem.tables)}: {table.context.op}")
        _unary(by_call[table.context.index], costs)
        if costs.possible():
            _call(table, costs, [b for b in by_call[table.context.index] if len(b.unknowns) > 1])
    if not costs.possible():
        return costs
    for s in problem.scalars:
        _scalar(s, costs)
    for b in others:
        if len(b.unknowns) > 1:
            _constraint(b, costs)
    _settle(costs)
    return costs


def _unary(bounds: Sequence[Bound], costs: Costs) -> None:
    for b in bounds:
        if len(b.unknowns) == 1:
            (u,) = b.unknowns
            for k in list(costs.alive[u]):
                reason = b.test({u: costs.domains[u][k]})
                if reason is not None:
                    costs.alive[u].remove(k)
                    costs.excluded[u][k] = Exclusion(b, reason)


def _combinations(unknowns: Sequence[int], costs: Costs) -> list[tuple[int, ...]]:
    count = prod(len(costs.alive[u]) for u in unknowns)
    if count > MAX_COMBINATIONS:
        raise TooMany(
            f"{count} combinations of layouts for one call exceed {MAX_COMBINATIONS}",
            hint="say a part of a layout, such as Tx.auto(swizzle=...), or give one of them",
        )
    return list(product(*(costs.alive[u] for u in unknowns)))


def _at(unknowns: Sequence[int], combination: Sequence[int], costs: Costs) -> dict[int, Layout]:
    return {u: costs.domains[u][k] for u, k in zip(unknowns, combination)}


def _call(table: CallTable, costs: Costs, bounds: Sequence[Bound]) -> None:
    found: dict[tuple[int, ...], float] = {}
    failed: dict[tuple[int, int], Exclusion] = {}
    for combination in _combinations(table.unknowns, costs):
        at = _at(table.unknowns, combination, costs)
        candidates = table.candidates(at)
        if candidates:
            found[combination] = table.weight * candidates[0].cycles
            continue
        for u, k in zip(table.unknowns, combination):
            if (u, k) not in failed:
                for b in bounds:
                    if u in b.unknowns and (reason := b.test(at)) is not None:
                        failed[u, k] = Exclusion(b, reason)
                        break
    if not table.unknowns:
        costs.constant += found.get((), 0.0)
        return
    costs.tables.append(CostTable(table.unknowns, found))
    for i, u in enumerate(table.unknowns):
        supported = {c[i] for c in found}
        for k in list(costs.alive[u]):
            if k not in supported:
                costs.alive[u].remove(k)
                if (u, k) in failed:
                    costs.excluded[u][k] = failed[u, k]


def _scalar(s: ScalarTable, costs: Costs) -> None:
    found: dict[tuple[int, ...], float] = {}
    for k in costs.alive[s.unknown]:
        price = s.price({s.unknown: costs.domains[s.unknown][k]})
        if isinstance(price, Price):
            found[(k,)] = s.weight * price.cycles()
    costs.tables.append(CostTable((s.unknown,), found))
    costs.alive[s.unknown] = [k for k in costs.alive[s.unknown] if (k,) in found]


def _constraint(b: Bound, costs: Costs) -> None:
    """A constraint on several unknowns as a table; one on very many is tested on solutions only."""
    if prod(len(costs.alive[u]) for u in b.unknowns) > MAX_COMBINATIONS:
        costs.late.append(b)
        return
    found = {}
    for combination in _combinations(b.unknowns, costs):
        if b.test(_at(b.unknowns, combination, costs)) is None:
            found[combination] = 0.0
    costs.tables.append(CostTable(b.unknowns, found))
    for i, u in enumerate(b.unknowns):
        supported = {c[i] for c in found}
        for k in list(costs.alive[u]):
            if k not in supported:
                costs.alive[u].remove(k)
                costs.excluded[u].setdefault(k, Exclusion(b, "with no layout of the others"))


def _settle(costs: Costs) -> None:
    """Drop combinations of candidates that are out, and candidates without combinations, until nothing changes."""
    again = True
    while again:
        again = False
        for t in costs.tables:
            live = [set(costs.alive[u]) for u in t.unknowns]
            kept = {c: v for c, v in t.costs.items() if all(k in alive for k, alive in zip(c, live))}
            again = again or len(kept) < len(t.costs)
            t.costs = kept
            for i, u in enumerate(t.unknowns):
                supported = {c[i] for c in kept}
                left = [k for k in costs.alive[u] if k in supported]
                again = again or len(left) < len(costs.alive[u])
                costs.alive[u] = left


def total(costs: Costs, chosen: Mapping[int, int]) -> float | None:
    """The modelled cost of a choice (candidate number per unknown), or None if it isn't possible."""
    out = costs.constant
    for t in costs.tables:
        cost = t.costs.get(tuple(chosen[u] for u in t.unknowns))
        if cost is None:
            return None
        out += cost
    return out
