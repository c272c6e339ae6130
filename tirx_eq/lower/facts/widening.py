"""Where the bounds of a scalar that grows round by round may come to rest: the constants that have a say in its value.

Iterating a loop upwards by one each round would take as many rounds as the loop has.  A bound that still moves after a few
rounds jumps to the next constant that can stop it: one in an expression that is assigned to the scalar, in a condition on it,
or in the same of whatever it is made of (``stage = 0 if stage == 3 else stage + 1`` rests at 3).  Constants elsewhere, of
addresses say, are passed over, so a counter that nothing bounds is at its dtype's range soon.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection
from typing import Any

from ...ir import Bind, BufferLoad, BufferStore, Expr, For, IfThenElse, IntImm, Stmt, Var, While, post_order_visit


class Steps:
    """The constants at which the bounds of each scalar or variable may come to rest.

    ``tracked``: the ``data`` variables of scalars held in registers.
    """

    def __init__(self, body: Stmt, tracked: Collection[Var]) -> None:
        self._tracked = tracked
        self._sources: dict[Var, dict[Var, None]] = {}
        self._constants: dict[Var, set[int]] = {}
        self._steps: dict[Var, list[int]] = {}
        post_order_visit(body, self._look)

    def _look(self, node: Any) -> None:
        if isinstance(node, BufferStore) and node.buffer.data in self._tracked:
            self._flow(node.buffer.data, node.value)
        elif isinstance(node, Bind):
            self._flow(node.var, node.value)
        elif isinstance(node, For):
            self._flow(node.loop_var, node.min)
            self._flow(node.loop_var, node.extent)
        elif isinstance(node, (IfThenElse, While)):
            for key in self._parts(node.condition)[0]:  # each is narrowed by what it is compared with
                self._flow(key, node.condition)

    def _flow(self, key: Var, e: Expr) -> None:
        """``e`` has a say in the value of ``key``."""
        keys, constants = self._parts(e)
        self._sources.setdefault(key, {}).update(keys)
        self._constants.setdefault(key, set()).update(constants)

    def _parts(self, e: Expr) -> tuple[dict[Var, None], set[int]]:
        keys: dict[Var, None] = {}
        constants: set[int] = set()

        def look(node: Any) -> None:
            if isinstance(node, IntImm):
                constants.add(node.value)
            elif isinstance(node, BufferLoad) and node.buffer.data in self._tracked:
                keys[node.buffer.data] = None
            elif isinstance(node, Var):
                keys[node] = None

        post_order_visit(e, look)
        return keys, constants

    def of(self, key: Var) -> list[int]:
        """In ascending order: each constant and its neighbours, and where the power of two above it begins, since operations
        on bits keep a range of that size."""
        if key not in self._steps:
            reached, todo = {key: None}, [key]
            while todo:
                for source in self._sources.get(todo.pop(), ()):
                    if source not in reached:
                        reached[source] = None
                        todo.append(source)
            found = {c for k in reached for c in self._constants.get(k, ())}
            found |= {1 << max(c, 0).bit_length() for c in found}
            self._steps[key] = sorted({c + by for c in found for by in (-1, 0, 1)})
        return self._steps[key]

    def next_above(self, key: Var, bound: int, last: int) -> int:
        """The least step of at least ``bound``, but at most ``last``."""
        steps = self.of(key)
        at = bisect_left(steps, bound)
        return min(last, steps[at]) if at < len(steps) else last

    def next_below(self, key: Var, bound: int, first: int) -> int:
        """The greatest step of at most ``bound``, but at least ``first``."""
        steps = self.of(key)
        at = bisect_right(steps, bound)
        return max(first, steps[at - 1]) if at else first
