"""Hash-consed neutral terms of a batch: one number per distinct subterm, with its cost and its encoder node.

Recursion is the fast way to walk a term; a term too deep for it is walked with a stack.
"""

from __future__ import annotations

from typing import Any

from ..ir.index import ARITY, SCALAR, EvaluationError, Term, check, postorder
from .cost import DEFAULT, CostTable

_MAX_STEPS = 4000


class TermTable:
    """Numbers for terms.  ``keys[n]`` is an integer, a name, or ``(op, operand numbers…)``."""

    def __init__(self, costs: CostTable = DEFAULT) -> None:
        self.costs = costs
        self.keys: list[Any] = []
        self.own: list[int] = []
        self.value: list[int | None] = []
        self._numbers: dict[Any, int] = {}
        self._total: dict[int, int] = {}
        self._steps = 0

    def add(self, term: Term) -> int:
        """Number of ``term``.  Raises ``ParseError`` for something that is not a term."""
        self._steps = _MAX_STEPS
        try:
            return self._walk(term)
        except (RecursionError, KeyError, TypeError, IndexError, ValueError):
            check(term)
        memo: dict[int, int] = {}
        n = -1
        for t in postorder(term):
            if isinstance(t, tuple):
                n = memo[id(t)] = self._intern(
                    (t[0], *[memo[id(a)] if isinstance(a, tuple) else self.add(a) for a in t[1:]])
                )
            else:
                n = self._walk(t)
        return memo[id(term)] if isinstance(term, tuple) else n

    def _walk(self, t: Term) -> int:
        if type(t) is tuple:
            self._steps -= 1
            if self._steps < 0:
                raise RecursionError  # shared subterms: walk them once
            if len(t) == 3:
                key: Any = (t[0], self._walk(t[1]), self._walk(t[2]))
            else:
                key = (t[0], *[self._walk(a) for a in t[1:]])
        elif type(t) is int or type(t) is str:
            key = t
        else:
            raise TypeError
        n = self._numbers.get(key)
        return self._intern(key) if n is None else n

    def _intern(self, key: Any) -> int:
        n = self._numbers.get(key)
        if n is not None:
            return n
        value: int | None = None
        own = 0
        if type(key) is tuple:
            op = key[0]
            if ARITY[op] != len(key) - 1:
                raise ValueError
            values = [self.value[a] for a in key[1:]]
            if None not in values:
                value = _fold(op, values)
            else:
                own = self.costs.node(op, values)
        elif type(key) is int:
            value = key
        n = self._numbers[key] = len(self.keys)
        self.keys.append(key)
        self.value.append(value)
        self.own.append(own)
        return n

    def reach(self, root: int) -> tuple[list[int], list[str]]:
        """Numbers of the subterms of one term, operands first, and its variables as a left-to-right walk meets them."""
        names: list[str] = []
        seen = {root}
        stack = [root]
        keys = self.keys
        while stack:
            key = keys[stack.pop()]
            if type(key) is tuple:
                for a in key[:0:-1]:
                    if a not in seen:
                        seen.add(a)
                        stack.append(a)
            elif type(key) is str:
                names.append(key)
        return sorted(seen), names

    def cost(self, root: int, reached: list[int] | None = None) -> int:
        """Cost of the DAG of one term, whose subterms may be given; equals ``cost.cost``."""
        known = self._total.get(root)
        if known is None:
            own = self.own
            known = self._total[root] = sum([own[n] for n in (reached or self.reach(root)[0])])
        return known


def _fold(op: str, values: list[Any]) -> int | None:
    if op == "select":
        chosen: int = values[1] if values[0] else values[2]
        return chosen
    try:
        return SCALAR[op](*values)
    except EvaluationError:
        return None
