"""``te.solve``: a function with open layouts in, the optimum out, or the reason why there is none."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ..errors import LoweringError, TirxError
from ..ir import PrimFunc
from ..layout import Layout, is_open
from ..lower.machine import Price
from ..ptx.target import find_target
from .conflict import explain as explain_conflict
from .conflict import minimal
from .costs import Costs, fill
from .erase import with_layouts
from .evaluate import CallTable
from .problem import Problem, build
from .scalars import ScalarTable
from .select import NODES, Selected, select
from .solution import AccessCost, Alternative, Chosen, Solution, cycles_by_resource
from .uses import uses_of

#: Alternatives of one unknown, and of all together, for which the whole kernel is chosen anew.
EXACT_PER_UNKNOWN = 4
EXACT_IN_ALL = 80
#: Times that a choice is refused by the plan of storage before this is given up.
MAX_REFUSED = 50

Progress = Callable[[str], None]


def solve(
    func: PrimFunc, target: str = "sm_100a", *, nodes: int = NODES, alternatives: bool = True, progress: Progress | None = None
) -> Solution:
    """Choose every layout of ``func`` that is left open (``Tx.auto``), all together, for the least modelled cost.

    ``nodes`` bounds the search (a count, so that answers don't depend on the machine); if it ends first, ``Solution.bound``
    tells how good the answer is at worst.  ``alternatives=False`` leaves out what other candidates would cost.
    ``progress`` is told in words what is being done.

    Raises NoLayoutError with a minimal set of clashing constraints if there is no solution, LoweringError for what no layout
    can help, OpenShape for an open layout of symbolic extents.
    """
    if not isinstance(func, PrimFunc):
        raise LoweringError(f"solve needs a PrimFunc, got {type(func).__name__}")
    find_target(target)
    began = time.perf_counter()
    tell = progress or (lambda text: None)
    tell("candidates")
    problem = build(func, target)
    costs = fill(problem, tell)
    if not costs.possible():
        raise explain_conflict(problem)
    tell("choice")
    found = _choose(problem, costs, nodes)
    at = _layouts(costs, found)
    solved = with_layouts(func, problem.layouts(at))
    accesses, resources = _accesses(problem, at)
    _check(solved, target, found)
    others: list[list[Alternative]] = [[] for _ in problem.unknowns]
    ups: list[tuple[float, str]] = []
    if alternatives:
        tell("alternatives")
        others, ups = _alternatives(problem, costs, found, nodes)
    chosen = tuple(
        Chosen(m.buffer, layout, u.space, u.name, problem.domains[u.index][at[u.index]], m.buffer.span or u.span,
               tuple(others[u.index]))
        for u in problem.unknowns for m in u.members
        if is_open(m.buffer.layout) and not isinstance(layout := m.layout(at[u.index]), str)
    )  # fmt: skip
    return Solution(
        solved, target, found.cost, resources, found.bound, found.optimal, chosen, accesses, tuple(ups),
        sum(len(d) for d in costs.domains), time.perf_counter() - began,
    )  # fmt: skip


def _layouts(costs: Costs, found: Selected) -> dict[int, Layout]:
    return {u: costs.domains[u][k] for u, k in found.chosen.items()}


def _choose(problem: Problem, costs: Costs, nodes: int) -> Selected:
    """The optimum that late constraints (storage of all buffers together) admit too."""
    for _ in range(MAX_REFUSED):
        found = select(costs, nodes=nodes)
        if found is None:
            raise explain_conflict(problem)
        at = _layouts(costs, found)
        broken = [b for b in costs.late if b.test(at) is not None]
        if not broken:
            return found
        for b in broken:
            _forbid(costs, b.unknowns, found)
    if minimal(problem) is not None:
        raise explain_conflict(problem)
    raise TirxError("no choice of layouts was found that shared memory has room for", hint="give some of the layouts")


def _forbid(costs: Costs, unknowns: tuple[int, ...], found: Selected) -> None:
    """Never this combination again."""
    bad = tuple(found.chosen[u] for u in unknowns)
    for t in costs.tables:
        if t.unknowns == unknowns:
            t.costs.pop(bad, None)
            return
    raise TirxError(
        "the buffers in shared memory have too many layouts together for their room", hint="give some of the layouts"
    )


def _accesses(problem: Problem, at: Mapping[int, Layout]) -> tuple[tuple[AccessCost, ...], dict[str, float]]:
    out: list[AccessCost] = []
    resources: dict[str, float] = {}
    for table in problem.tables:
        best = table.candidates(at)[0]
        c = table.context
        names = tuple(dict.fromkeys(o.buffer.name for n, o in c.operands.items()))
        parts = cycles_by_resource(best.price)
        out.append(AccessCost(f"{c.scope}.{c.op}", best.describe(), names, best.cycles, table.weight, parts, c.span,
                              best.price.wavefronts))  # fmt: skip
    for s in (*problem.scalars, *problem.fixed):
        price = s.price(at) if s.unknown >= 0 else s.fixed_price()
        assert isinstance(price, Price)
        if price.cycles():
            verb = "store" if s.access.writes else "load"
            out.append(AccessCost(f"thread.{verb}", "one element per thread", (s.access.buffer.name,), price.cycles(), s.weight,
                                  cycles_by_resource(price), s.access.span, price.wavefronts))  # fmt: skip
    for a in out:
        for name, v in a.resources.items():
            resources[name] = resources.get(name, 0.0) + v * a.weight
    return tuple(out), resources


def modelled_cost(func: PrimFunc, target: str = "sm_100a") -> float:
    """The modelled cost of a function whose layouts are all given, in cycles: what :func:`solve` minimises.

    The cheapest program of each tile call and the accesses of statements to shared memory, times the rounds of loops with
    constant bounds.  Raises LoweringError for a call that has no program.
    """
    uses = uses_of(func, target)
    total = 0.0
    for c, weight in zip(uses.contexts, uses.weights):
        candidates = CallTable(c, {}, weight).candidates({})
        if not candidates:
            raise LoweringError(f"'{c.op}' can't be lowered", span=c.span)
        total += weight * candidates[0].cycles
    for s, weight in zip(uses.scalars, uses.scalar_weights):
        if s.buffer.scope.startswith("shared"):
            price = ScalarTable(uses, s, -1, None, weight).fixed_price()
            if isinstance(price, str):
                raise LoweringError(f"an element of '{s.buffer.name}' has no address: {price}", span=s.span)
            total += weight * price.cycles()
    return total


def _check(solved: PrimFunc, target: str, found: Selected) -> None:
    """The solved function, analysed anew, costs what was promised: the model of single calls left nothing out."""
    again = modelled_cost(solved, target)
    if abs(again - found.cost) > 1e-6 * max(1.0, found.cost):
        raise TirxError(f"the solved function costs {again:.3f} cycles where {found.cost:.3f} were modelled")


def _alternatives(
    problem: Problem, costs: Costs, found: Selected, nodes: int
) -> tuple[list[list[Alternative]], list[tuple[float, str]]]:
    """What every other candidate would cost, or what rules it out; the best few kernels that differ."""
    out: list[list[Alternative]] = []
    ups: list[tuple[float, str]] = []
    left = EXACT_IN_ALL
    for u in problem.unknowns:
        domain, origins = costs.domains[u.index], problem.domains[u.index]
        lows = {k: _at_least(costs, u.index, k) for k in costs.alive[u.index] if k != found.chosen[u.index]}
        mine: list[Alternative] = []
        for place, k in enumerate(sorted(lows, key=lambda k: (lows[k], k))):
            cost = None
            if place < EXACT_PER_UNKNOWN and left > 0:
                left -= 1
                other = select(costs, nodes=nodes, forced={u.index: k})
                cost = other.cost if other is not None else None
            mine.append(Alternative(domain[k], origins[domain[k]], cost, lows[k]))
            if cost is not None:
                ups.append((cost, f"'{u.name}' as {domain[k].script('')}"))
        mine.sort(key=lambda a: a.cost if a.cost is not None else (a.at_least or 0.0) + 1e9)
        out_of = [k for k in range(len(domain)) if k not in lows and k != found.chosen[u.index]]
        for k in out_of:
            why = costs.excluded[u.index].get(k)
            said = str(why) if why is not None else "no layouts of the other operands go with it"
            mine.append(Alternative(domain[k], origins[domain[k]], excluded=said, by=why.short() if why is not None else ""))
        out.append(mine)
    ups.sort()
    return out, ups[:5]


def _at_least(costs: Costs, u: int, k: int) -> float:
    """A lower bound on the kernel's cost with one candidate: each call at its cheapest."""
    low = costs.constant
    for t in costs.tables:
        if u in t.unknowns:
            i = t.unknowns.index(u)
            low += min((v for c, v in t.costs.items() if c[i] == k), default=0.0)
        else:
            low += min(t.costs.values(), default=0.0)
    return low
