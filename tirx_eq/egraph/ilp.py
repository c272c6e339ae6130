"""Exact extraction: the cheapest choice for several roots together, by integer programming (``highspy``).

One binary per node and per class: a wanted class takes one of its nodes, a taken node wants its operands.  Cycles are
excluded by levels inside strongly connected components only; elsewhere the graph's own order excludes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .engine import ENode
from .extract import Choice, NodeCost
from .highs import integer_solver


def reachable_classes(
    classes: Mapping[int, Sequence[ENode]], roots: Sequence[int], known: Mapping[int, int]
) -> dict[int, list[ENode]]:
    """Classes below ``roots`` that have a finite term (those in ``known``), without nodes that cannot be built."""
    out: dict[int, list[ENode]] = {}
    stack = list(roots)
    while stack:
        c = stack.pop()
        if c in out:
            continue
        out[c] = [n for n in classes[c] if c not in n.children and all(k in known for k in n.children)]
        for node in out[c]:
            stack.extend(k for k in node.children if k not in out)
    return out


def optimal(
    classes: Mapping[int, Sequence[ENode]],
    roots: Sequence[int],
    price: NodeCost,
    greedy: Choice,
    *,
    max_nodes: int = 4000,
) -> Choice:
    """The choice of least total cost for all ``roots``, shared subterms paid once; never dearer than ``greedy``.

    Ties are broken towards fewer operations.  A graph of more than ``max_nodes`` nodes keeps the greedy choice.
    Raises ``SolverMissing`` without ``highspy``.
    """
    graph = reachable_classes(classes, roots, greedy.cost)
    graph = {c: _undominated(nodes, price) for c, nodes in graph.items()}
    if sum(map(len, graph.values())) > max_nodes:
        return greedy
    solver = integer_solver("exact extraction")
    import highspy

    component = _components({c: [k for n in nodes for k in n.children] for c, nodes in graph.items()})
    size: dict[int, int] = {}
    for c in graph:
        size[component[c]] = size.get(component[c], 0) + 1
    # A thousandth of a unit per operation prefers fewer operations among equals.
    weight = {
        (c, j): price(n.op, n.args) + (0.001 if n.children else 0.0)
        for c, ns in graph.items()
        for j, n in enumerate(ns)
    }
    wanted = {c: solver.addBinary() for c in graph}
    taken = {key: solver.addBinary(obj=w) for key, w in weight.items()}
    level = {c: solver.addVariable(0, size[component[c]]) for c in graph if size[component[c]] > 1}
    for root in set(roots):
        solver.addConstr(wanted[root] >= 1)
    for c, nodes in graph.items():
        solver.addConstr(sum((taken[c, j] for j in range(1, len(nodes))), taken[c, 0] * 1) >= wanted[c])
        for j, node in enumerate(nodes):
            for k in dict.fromkeys(node.children):
                solver.addConstr(taken[c, j] <= wanted[k])
                if component[k] == component[c]:
                    big = size[component[c]] + 1
                    solver.addConstr(level[c] - level[k] - big * taken[c, j] >= 1 - big)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return greedy
    values = solver.getSolution().col_value
    chosen = dict(greedy.node)
    for (c, j), variable in taken.items():
        if values[variable.index] > 0.5:
            chosen[c] = graph[c][j]
    better = total(chosen, roots, price)
    return Choice(chosen, greedy.cost) if better <= total(greedy.node, roots, price) else greedy


def total(
    chosen: Mapping[int, ENode], roots: Sequence[int], price: Callable[[str, tuple[Any, ...]], int]
) -> int:
    """Cost of the terms chosen for ``roots``, shared subterms once."""
    seen = set(roots)
    stack = list(seen)
    out = 0
    while stack:
        node = chosen[stack.pop()]
        out += price(node.op, node.args)
        for k in node.children:
            if k not in seen:
                seen.add(k)
                stack.append(k)
    return out


def _undominated(nodes: list[ENode], price: NodeCost) -> list[ENode]:
    """Nodes without those that need a superset of another's operands at no smaller price."""
    kept: list[tuple[frozenset[int], int, ENode]] = []
    ordered = sorted(nodes, key=lambda n: (price(n.op, n.args), len(set(n.children))))
    for n in ordered:
        needs = frozenset(n.children)
        if not any(other <= needs for other, _, _ in kept):
            kept.append((needs, price(n.op, n.args), n))
    return [n for _, _, n in kept]


def _components(edges: Mapping[int, Sequence[int]]) -> dict[int, int]:
    """Strongly connected component of every class (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on: set[int] = set()
    stack: list[int] = []
    out: dict[int, int] = {}
    for start in edges:
        if start in index:
            continue
        work = [(start, iter(edges[start]))]
        index[start] = low[start] = len(index)
        stack.append(start)
        on.add(start)
        while work:
            v, rest = work[-1]
            advanced = False
            for w in rest:
                if w not in index:
                    index[w] = low[w] = len(index)
                    stack.append(w)
                    on.add(w)
                    work.append((w, iter(edges[w])))
                    advanced = True
                    break
                if w in on:
                    low[v] = min(low[v], index[w])
            if advanced:
                continue
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[v])
            if low[v] == index[v]:
                while True:
                    w = stack.pop()
                    on.discard(w)
                    out[w] = v
                    if w == v:
                        break
    return out
