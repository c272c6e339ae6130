"""Sharing between roots: a greedy choice prices each root by itself; here what earlier roots have paid for is free."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .engine import ENode
from .extract import Choice, NodeCost, acyclic


def share(
    classes: Mapping[int, Sequence[ENode]], roots: Sequence[int], price: NodeCost, choice: Choice
) -> Mapping[int, ENode]:
    """The choice with another node for roots where that one, above what the roots before it need anyway, costs less.

    Addresses of neighbouring elements are alike but for a constant: as ``base ^ 16``, ``base ^ 32`` … they cost one operation
    each, where each alone may be written otherwise for the same price.  No root gets dearer by itself.
    """
    chosen = dict(choice.node)

    def needs(start: Sequence[int]) -> dict[int, int]:
        """Classes below ``start``, with the price of the node taken for each."""
        found: dict[int, int] = {}
        stack = list(start)
        while stack:
            c = stack.pop()
            if c not in found:
                found[c] = price(chosen[c].op, chosen[c].args)
                stack.extend(chosen[c].children)
        return found

    paid: set[int] = set()
    for root in dict.fromkeys(roots):
        if root not in chosen:
            continue
        for c in _spine(root, chosen):
            if c not in paid:
                chosen[c] = _cheapest(c, classes[c], chosen, price, needs, paid)
        paid |= needs([root]).keys()
    return chosen if acyclic(chosen) else choice.node


def _spine(root: int, chosen: Mapping[int, ENode]) -> list[int]:
    """The classes from ``root`` down through operations with a constant, lowest first."""
    found = [root]
    while len(chosen[found[-1]].children) == 1:
        found.append(chosen[found[-1]].children[0])
    return found[::-1]


def _cheapest(
    c: int, nodes: Sequence[ENode], chosen: Mapping[int, ENode], price: NodeCost,
    needs: Callable[[Sequence[int]], dict[int, int]], paid: set[int],
) -> ENode:  # fmt: skip
    """The node of class ``c`` that adds least to what is paid, among those that cost no more than the chosen one alone."""
    mine = needs([c])
    alone, fresh = sum(mine.values()), sum(p for k, p in mine.items() if k not in paid)
    best = chosen[c]
    for node in nodes if fresh else ():
        if any(k not in chosen for k in node.children):
            continue
        below = needs(node.children)
        own = price(node.op, node.args)
        extra = own + sum(p for k, p in below.items() if k not in paid)
        if c not in below and extra < fresh and own + sum(below.values()) <= alone:
            best, fresh = node, extra
    return best
