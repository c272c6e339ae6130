"""Extraction from a frozen e-graph: for every class the node that is cheapest with sharing counted.

Greedy on DAGs: the cost of a class is the sum over the *set* of classes it needs, so a subterm used twice is paid once.
Ties are broken by the number of operations, then by operator and constants, then by the order of creation: the result
does not depend on hashing.  ``ilp.py`` finds the optimum for several roots together.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .engine import ENode

NodeCost = Callable[[str, tuple[Any, ...]], int]


@dataclass(frozen=True)
class Choice:
    """The node taken for each class that has one, and its cost with everything below it."""

    node: dict[int, ENode]
    cost: dict[int, int]


def _rank(node: ENode) -> tuple[Any, ...]:
    return (node.op, tuple([str(a) for a, is_class in zip(node.args, node.inner) if not is_class]))


def tree_order(
    classes: Mapping[int, Sequence[ENode]], price: NodeCost
) -> tuple[list[int], dict[int, ENode], dict[int, list[tuple[ENode, int]]]]:
    """Classes in the order of their tree costs (children first), with the cheapest tree's node (Knuth's algorithm).

    Third comes the price of every node of every class.
    """
    users: dict[int, list[int]] = {}
    nodes: list[tuple[int, ENode, int]] = []
    missing: list[int] = []
    heap: list[tuple[int, int, int]] = []
    priced: dict[int, list[tuple[ENode, int]]] = {}
    for c, members in classes.items():
        own_prices = priced[c] = []
        for node in members:
            kids = node.children
            if c in kids:
                continue
            n = len(nodes)
            own = price(node.op, node.args)
            own_prices.append((node, own))
            nodes.append((c, node, own))
            if not kids:
                missing.append(0)
                heap.append((own, n, c))
                continue
            distinct = kids if len(kids) == 1 else set(kids)
            missing.append(len(distinct))
            for k in distinct:
                using = users.get(k)
                if using is None:
                    users[k] = [n]
                else:
                    using.append(n)
    heapq.heapify(heap)
    cost: dict[int, int] = {}
    best: dict[int, ENode] = {}
    order: list[int] = []
    while heap:
        value, n, c = heapq.heappop(heap)
        if c in cost:
            continue
        cost[c], best[c] = value, nodes[n][1]
        order.append(c)
        for m in users.get(c, ()):
            missing[m] -= 1
            if missing[m] == 0:
                owner, node, own = nodes[m]
                if owner not in cost:
                    for k in node.children:
                        own += cost[k]
                    heapq.heappush(heap, (own, m, owner))
    return order, best, priced


def greedy(classes: Mapping[int, Sequence[ENode]], price: NodeCost, *, passes: int = 3) -> Choice:
    """The cheapest node of every class by DAG cost, improved until nothing changes or ``passes`` are done.

    Starting from the cheapest trees, each class takes the node whose set of needed classes costs least; a node through
    which the class would need itself is never taken, so the choice stays free of cycles.
    """
    order, chosen, priced = tree_order(classes, price)
    position = {c: i for i, c in enumerate(order)}
    last = len(order)
    needs: dict[int, dict[int, int]] = {}
    total: dict[int, int] = {}
    first: dict[int, ENode] = {}
    for turn in range(passes):
        changed = False
        for here, c in enumerate(order):
            best: tuple[int, int, ENode, dict[int, int]] | None = None
            for node, own in priced[c]:
                kids = node.children
                usable, least = True, 0
                for k in kids:
                    # At first operands must come earlier in the order of trees; later any acyclic ones will do.
                    if (turn == 0 and position.get(k, last) >= here) or k not in needs or c in needs[k]:
                        usable = False
                        break
                    if total[k] > least:
                        least = total[k]
                if not usable or (best is not None and own + least > best[0]):
                    continue
                if not kids:
                    joined, value = {c: own}, own
                else:
                    joined = dict(needs[kids[0]])
                    for k in kids[1:]:
                        joined |= needs[k]
                    value = own + (sum(joined.values()) if len(kids) > 1 else least)
                    joined[c] = own
                size = len(joined)
                if (
                    best is None
                    or value < best[0]
                    or (value == best[0] and (size < best[1] or (size == best[1] and _rank(node) < _rank(best[2]))))
                ):
                    best = (value, size, node, joined)
            if best is not None and (best[2] is not chosen.get(c) or best[3] != needs.get(c)):
                changed = True
                chosen[c], needs[c], total[c] = best[2], best[3], best[0]
        if turn == 0:
            first = dict(chosen)
        if not changed:
            break
    if not acyclic(chosen):
        chosen = first
    return Choice(chosen, total)


def acyclic(chosen: Mapping[int, ENode]) -> bool:
    """Whether no class needs itself under ``chosen``."""
    state: dict[int, bool] = {}
    for start in chosen:
        stack = [start]
        while stack:
            c = stack[-1]
            if state.get(c) is True:
                stack.pop()
                continue
            if c not in state:
                state[c] = False
                for k in chosen[c].children:
                    if state.get(k) is False:
                        return False
                    if k not in state:
                        stack.append(k)
            else:
                state[c] = True
                stack.pop()
    return True


def build(
    root: int, choice: Mapping[int, ENode], make: Callable[[str, tuple[Any, ...]], Any], memo: dict[int, Any]
) -> Any:
    """The term chosen for class ``root``; ``memo`` shares subterms between roots."""
    stack: list[int] = [root]
    busy: set[int] = set()
    while stack:
        c = stack[-1]
        if c in memo:
            stack.pop()
            continue
        node = choice[c]
        waiting = [k for k in node.children if k not in memo]
        if waiting:
            if c in busy:
                raise RecursionError("extraction met a cycle")
            busy.add(c)
            stack.extend(waiting)
            continue
        memo[c] = make(node.op, tuple([memo[a] if i else a for a, i in zip(node.args, node.inner)]))
        stack.pop()
    return memo[root]
