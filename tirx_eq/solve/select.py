"""The choice of all layouts together, exactly: an integer program over candidates and combinations.

One binary per candidate of an unknown (exactly one is taken), one variable per combination of a call's operands whose
margins agree with the candidates; the objective is the modelled cost.  Greedy improvement gives the incumbent; if a budget of
nodes ends first, the solver's bound tells how far from the optimum the incumbent can be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..egraph.highs import integer_solver
from ..errors import TirxError
from .costs import Costs, CostTable, total

#: Branch-and-bound nodes: a deterministic budget.
NODES = 20_000
#: A preference among equals, in cycles per place in the list of candidates: far below what the model tells apart.
PREFERENCE = 1e-7
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Selected:
    """``chosen``: candidate number per unknown; ``cost`` in cycles; no choice costs less than ``bound``."""

    chosen: dict[int, int]
    cost: float
    bound: float

    @property
    def optimal(self) -> bool:
        return self.cost - self.bound <= 1e-5 * max(1.0, self.cost)


def cost_of(tables: Sequence[CostTable], chosen: Mapping[int, int]) -> float | None:
    """The cost of a choice in these tables, None if one of them hasn't got it."""
    out = 0.0
    for t in tables:
        cost = t.costs.get(tuple(chosen[u] for u in t.unknowns))
        if cost is None:
            return None
        out += cost
    return out


def greedy(members: Sequence[int], domains: Mapping[int, Sequence[int]], tables: Sequence[CostTable]) -> dict[int, int] | None:
    """A choice that changing the unknowns of one table together doesn't improve; None if none was found."""
    chosen: dict[int, int] = {}
    for t in sorted(tables, key=lambda t: -len(t.unknowns)):
        options = [(v, c) for c, v in t.costs.items() if all(chosen.get(u, k) == k for u, k in zip(t.unknowns, c))]
        if not options:
            return None
        chosen.update(zip(t.unknowns, min(options)[1]))
    for u in members:
        chosen.setdefault(u, domains[u][0])
    current = cost_of(tables, chosen)
    improved = current is not None
    while improved:
        improved = False
        for t in tables:
            for c in t.costs:
                trial = {**chosen, **dict(zip(t.unknowns, c))}
                cost = cost_of(tables, trial)
                if cost is not None and current is not None and cost < current - TOLERANCE:
                    chosen, current, improved = trial, cost, True
    return chosen if current is not None else None


def select(costs: Costs, *, nodes: int = NODES, forced: Mapping[int, int] | None = None) -> Selected | None:
    """The cheapest choice (with ``forced`` candidates taken), or None if there is none.

    Deterministic.  Raises SolverMissing without ``highspy`` (``pip install 'tirx-eq[exact]'``).
    """
    fixed = dict(forced or {})
    if any(k not in costs.alive[u] for u, k in fixed.items()) or not costs.possible():
        return None
    parts = [_component(costs, members, fixed, nodes) for members in _components(costs)]
    if any(p is None for p in parts):
        return None
    chosen: dict[int, int] = {}
    bound = costs.constant
    for part in parts:
        assert part is not None
        chosen.update(part.chosen)
        bound += part.bound
    cost = total(costs, chosen)
    assert cost is not None
    return Selected(chosen, cost, min(cost, bound))


def _components(costs: Costs) -> list[list[int]]:
    """Unknowns in sets that no table connects."""
    parent = list(range(len(costs.domains)))

    def find(u: int) -> int:
        while parent[u] != u:
            u = parent[u]
        return u

    for t in costs.tables:
        for u in t.unknowns[1:]:
            a, b = sorted((find(t.unknowns[0]), find(u)))
            parent[b] = a
    groups: dict[int, list[int]] = {}
    for u in range(len(parent)):
        groups.setdefault(find(u), []).append(u)
    return [groups[k] for k in sorted(groups)]


def _component(costs: Costs, members: list[int], fixed: Mapping[int, int], nodes: int) -> Selected | None:
    domains = {u: [fixed[u]] if u in fixed else costs.alive[u] for u in members}
    tables = []
    for t in costs.tables:
        if t.unknowns[0] in domains:
            kept = {c: v for c, v in t.costs.items() if all(k in domains[u] for k, u in zip(c, t.unknowns))}
            if not kept:
                return None
            tables.append(CostTable(t.unknowns, kept))
    if len(members) == 1:
        return _single(members[0], domains[members[0]], tables)
    return _program(members, domains, tables, nodes)


def _single(u: int, domain: Sequence[int], tables: Sequence[CostTable]) -> Selected | None:
    sums = {k: [t.costs.get((k,)) for t in tables] for k in domain}
    possible = {k: sum(v for v in values if v is not None) for k, values in sums.items() if None not in values}
    if not possible:
        return None
    best = min(possible, key=lambda k: (round(possible[k], 6), k))
    return Selected({u: best}, possible[best], possible[best])


def _program(
    members: list[int], domains: Mapping[int, Sequence[int]], tables: Sequence[CostTable], nodes: int
) -> Selected | None:
    """The integer program of one component."""
    solver = integer_solver("the choice of layouts", mip_abs_gap=1e-7, mip_max_nodes=nodes)
    import highspy

    taken = _state(solver, members, domains, tables)
    solver.run()
    status = solver.getModelStatus()
    limited = status in (highspy.HighsModelStatus.kSolutionLimit, highspy.HighsModelStatus.kIterationLimit)
    if status == highspy.HighsModelStatus.kInfeasible:
        return None
    if status != highspy.HighsModelStatus.kOptimal and not limited:
        raise TirxError(f"the choice of layouts failed: the solver says {solver.modelStatusToString(status)}")
    values = solver.getSolution().col_value
    chosen = {u: k for (u, k), variable in taken.items() if values and values[variable.index] > 0.5}
    cost = cost_of(tables, chosen) if len(chosen) == len(members) else None
    if not limited:
        assert cost is not None
        return Selected(chosen, cost, cost)
    rival = greedy(members, domains, tables)
    other = cost_of(tables, rival) if rival is not None else None
    if rival is not None and other is not None and (cost is None or other < cost):
        chosen, cost = rival, other
    if cost is None:
        raise TirxError("no choice of layouts was found within the budget of nodes", hint="raise nodes=")
    return Selected(chosen, cost, min(cost, max(solver.getInfo().mip_dual_bound, _floor(tables))))


def _floor(tables: Sequence[CostTable]) -> float:
    """What every choice costs at least: each call at its cheapest."""
    return sum(min(t.costs.values()) for t in tables)


def _state(solver: Any, members: Sequence[int], domains: Mapping[int, Sequence[int]], tables: Sequence[CostTable]) -> Any:
    """Write the program; the binaries of the candidates by (unknown, candidate)."""
    taken = {(u, k): solver.addBinary(obj=PREFERENCE * place) for u in members for place, k in enumerate(domains[u])}
    for u in members:
        solver.addConstr(_sum([taken[u, k] for k in domains[u]]) == 1)
    for t in tables:
        parts = separated(t)
        if parts is not None:
            _separate(solver, t, parts, taken, domains)
            continue
        shares = {c: solver.addVariable(0, 1, obj=v) for c, v in t.costs.items()}
        for i, u in enumerate(t.unknowns):
            for k in domains[u]:
                mine = [shares[c] for c in t.costs if c[i] == k]
                solver.addConstr((_sum(mine) if mine else 0 * taken[u, k]) - taken[u, k] == 0)
    return taken


def _sum(variables: Sequence[Any]) -> Any:
    out = variables[0] * 1
    for v in variables[1:]:
        out = out + v
    return out


def separated(t: CostTable) -> list[dict[int, float]] | None:
    """A table as a sum of costs of each unknown, if all combinations are possible and it is one; else None."""
    if len(t.unknowns) == 1:
        return [{c[0]: v for c, v in t.costs.items()}]
    sides = [sorted({c[i] for c in t.costs}) for i in range(len(t.unknowns))]
    count = 1
    for s in sides:
        count *= len(s)
    if count != len(t.costs):
        return None
    origin = tuple(s[0] for s in sides)
    base = t.costs[origin]
    parts: list[dict[int, float]] = []
    for i, s in enumerate(sides):
        moved = {k: t.costs[(*origin[:i], k, *origin[i + 1 :])] - base for k in s}
        parts.append(moved)
    for c, v in t.costs.items():
        if abs(base + sum(p[k] for p, k in zip(parts, c)) - v) > 1e-9:
            return None
    parts[0] = {k: v + base for k, v in parts[0].items()}
    return parts


def _separate(
    solver: Any, t: CostTable, parts: Sequence[Mapping[int, float]], taken: Any, domains: Mapping[int, Sequence[int]]
) -> None:
    """Costs of single unknowns go to the candidates' own coefficients; what is missing is impossible."""
    for u, side in zip(t.unknowns, parts):
        for k in domains[u]:
            variable = taken[u, k]
            if k not in side:
                solver.changeColBounds(variable.index, 0, 0)
                continue
            solver.changeColCost(variable.index, solver.getLp().col_cost_[variable.index] + side[k])
