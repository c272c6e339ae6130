"""The choice of all lowerings together: the least sum of their prices and of what they share, which is paid once.

Without anything shared the cheapest candidate of each call is the optimum.  Calls that could share something form groups; in a
group the optimum is found exactly: by trying every combination if there are few, else as an integer program (``highspy``).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from ..egraph.highs import integer_solver

#: Combinations that are tried one by one; above, the integer program is asked.
FEW = 2_000
#: Prices closer than this are equal: the first candidate is taken.
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Option:
    """A candidate: its own price, and the keys of what it shares."""

    price: float
    shares: frozenset[Hashable] = frozenset()


def select(calls: Sequence[Sequence[Option]], shared: Mapping[Hashable, float]) -> list[int]:
    """The number of the candidate to take for each call, so that prices and shared things cost least in all.

    ``shared``: the price of each key, paid once however many of the taken candidates share it.  Among equals the candidates
    that come first are taken.  Raises SolverMissing if a large group needs ``highspy`` and it isn't installed.
    """
    chosen = [min(range(len(options)), key=lambda k: (_alone(options[k], shared), k)) for options in calls]
    found: Sequence[int]
    for group in groups(calls):
        if prod(len(calls[c]) for c in group) <= FEW:
            found = min(product(*(range(len(calls[c])) for c in group)), key=lambda ks: (_total(calls, group, ks, shared), ks))
        else:
            found = _program(calls, group, shared)
        for c, k in zip(group, found):
            chosen[c] = k
    return chosen


def _alone(option: Option, shared: Mapping[Hashable, float]) -> float:
    return round((option.price + sum(shared[key] for key in option.shares)) / TOLERANCE) * TOLERANCE


def total(calls: Sequence[Sequence[Option]], chosen: Sequence[int], shared: Mapping[Hashable, float]) -> float:
    """What a choice costs."""
    return _total(calls, range(len(calls)), chosen, shared)


def _total(
    calls: Sequence[Sequence[Option]], group: Sequence[int], chosen: Sequence[int], shared: Mapping[Hashable, float]
) -> float:
    taken = [calls[c][k] for c, k in zip(group, chosen)]
    cost = sum(o.price for o in taken) + sum(shared[key] for key in frozenset().union(*(o.shares for o in taken)))
    return round(cost / TOLERANCE) * TOLERANCE


def groups(calls: Sequence[Sequence[Option]], choice: bool = True) -> list[list[int]]:
    """Calls that could share something with each other; only groups where there is a choice, unless that is off."""
    parent = list(range(len(calls)))

    def find(c: int) -> int:
        while parent[c] != c:
            c = parent[c]
        return c

    owner: dict[Hashable, int] = {}
    for c, options in enumerate(calls):
        for key in dict.fromkeys(key for o in options for key in sorted(o.shares, key=str)):
            if key in owner:
                a, b = sorted((find(owner[key]), find(c)))
                parent[b] = a
            else:
                owner[key] = c
    found: dict[int, list[int]] = {}
    for c in range(len(calls)):
        found.setdefault(find(c), []).append(c)
    return [g for g in found.values() if len(g) > 1 and (not choice or any(len(calls[c]) > 1 for c in g))]


def _program(calls: Sequence[Sequence[Option]], group: Sequence[int], shared: Mapping[Hashable, float]) -> list[int]:
    """One binary per candidate (one of a call is taken) and per shared thing (taken if one of its users is)."""
    solver = integer_solver("the choice of lowerings that share much")
    # Equals are told apart by their place, far below what prices tell apart.
    taken = {(c, k): solver.addBinary(obj=o.price + TOLERANCE * k / 100) for c in group for k, o in enumerate(calls[c])}
    keys = list(dict.fromkeys(key for c in group for o in calls[c] for key in sorted(o.shares, key=str)))
    used = {key: solver.addBinary(obj=shared[key]) for key in keys}
    for c in group:
        solver.addConstr(sum(taken[c, k] for k in range(len(calls[c]))) == 1)
        for k, o in enumerate(calls[c]):
            for key in sorted(o.shares, key=str):
                solver.addConstr(used[key] >= taken[c, k])
    solver.minimize()
    values = solver.getSolution().col_value
    return [max(range(len(calls[c])), key=lambda k: values[taken[c, k].index]) for c in group]
