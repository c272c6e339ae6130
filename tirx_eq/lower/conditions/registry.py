"""The table of named conditions, and what its entries share.

A condition takes the context of a call (and a value, for those with a parameter) and returns None if it holds, else a
sentence that says why not, with figures.  Rules refer to conditions by name (``holds``, ``holds-at`` in ``rules/lower_*.egg``).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..context import CallContext, Operand

Condition = Callable[[CallContext], str | None]
ConditionAt = Callable[[CallContext, int], str | None]

CONDITIONS: dict[str, Condition] = {}
CONDITIONS_AT: dict[str, ConditionAt] = {}
#: Values worth trying for each parameter, best first.
OPTIONS: dict[str, Callable[[CallContext], list[int]]] = {}

SPACE_NAMES = {
    "global": "global memory", "shared": "shared memory", "local": "registers", "tmem": "tensor memory",
    "cluster": "another CTA's shared memory",
}  # fmt: skip


def holds(name: str) -> Callable[[Condition], Condition]:
    """Enter a condition into the table."""

    def wrap(f: Condition) -> Condition:
        CONDITIONS[name] = f
        return f

    return wrap


def holds_at(name: str) -> Callable[[ConditionAt], ConditionAt]:
    """Enter a condition with a parameter into the table."""

    def wrap(f: ConditionAt) -> ConditionAt:
        CONDITIONS_AT[name] = f
        return f

    return wrap


def regions(c: CallContext) -> list[Operand]:
    """All region operands of a call."""
    return list(c.operands.values())


def in_space(o: Operand, *spaces: str) -> str | None:
    """None if the operand is in one of the storage spaces, else where it is."""
    if o.root.space in spaces:
        return None
    return f"'{o.name}' ({o.buffer.name}) is in {SPACE_NAMES[o.root.space]}"


def coordinate(o: Operand, element: int) -> list[int]:
    """Coordinates in the region of element number ``element``."""
    return [int(i) for i in np.unravel_index(element, o.extents)]
