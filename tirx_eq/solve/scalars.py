"""Loads and stores of single elements by statements: which layouts they can use, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..ir import const
from ..ir import dtype as dt
from ..ir.index import evaluate_many
from ..layout import Layout
from ..layout.conflicts import bank_conflicts
from ..lower.machine import Price
from ..lower.scope import new_scope
from ..lower.sharing.active import thread_points
from ..lower.storage import const_shape
from .unknowns import Member
from .uses import ScalarAccess, Uses


class ScalarTable:
    """The cost of one statement's access under the layout of its unknown (-1: the layout is given): an instruction per warp,
    and the wavefronts that its lanes need (CTA and loop variables at their lowest)."""

    def __init__(self, uses: Uses, access: ScalarAccess, unknown: int, member: Member | None, weight: int) -> None:
        self.access, self.unknown, self.member, self.weight = access, unknown, member, weight
        self._launch = uses.launch
        self._flat: np.ndarray | None = None
        self._prices: dict[Layout, Price | str] = {}

    def fixed_price(self) -> Price | str:
        """The price under the buffer's own layout, which is given."""
        return self._price(self.access.buffer.layout)

    def price(self, at: Mapping[int, Layout]) -> Price | str:
        """What the access takes, or why it can't be made."""
        whole = at[self.unknown]
        if whole not in self._prices:
            self._prices[whole] = self._price(whole)
        return self._prices[whole]

    def _price(self, whole: Layout) -> Price | str:
        mine = self.member.layout(whole) if self.member is not None else whole
        if isinstance(mine, str):
            return mine
        others = sorted(set(mine.axes()) - {"m"})
        if others:
            return f"elements are spread along {', '.join(others)}"
        warps = max(1, len(self.access.active.warps()))
        if not self.access.buffer.scope.startswith("shared"):
            return Price(issue=0, warps=warps)
        places = mine.evaluate(self.elements())["m"] if "m" in mine.axes() else np.zeros_like(self.elements())
        width = max(1, dt.storage_bits(self.access.buffer.dtype) // 8)
        waves = 0
        mask = self.access.active.mask
        for w in range(0, len(mask), 32):
            lanes = [int(p) * width if on else None for p, on in zip(places[w : w + 32], mask[w : w + 32])]
            moved = [a for a in lanes if a is not None]
            if self.access.active.elected:
                lanes[:] = moved = moved[:1]
            if moved:
                waves += bank_conflicts(lanes, min(16, width)).wavefronts
        return Price(issue=1, warps=warps, wavefronts=waves)

    def elements(self) -> np.ndarray:
        """The flat element that each thread of the CTA accesses."""
        if self._flat is None:
            scope = new_scope()
            self._launch.declare(scope)
            for var, bounds in self.access.ranges.items():
                scope.name(var, bounds)
            shape = const_shape(self.access.buffer)
            flat = const(0)
            for index, extent in zip(self.access.indices, shape):
                flat = flat * extent + index
            term = scope.term(flat)
            points: dict[str, np.ndarray | int] = {name: low for name, (low, _) in scope.ranges.items()}
            registers = {scope.name(v): r for r, v in self._launch.special.items() if r.startswith("tid.")}
            points.update(thread_points(self._launch, registers))
            values = np.broadcast_to(np.asarray(evaluate_many(term, points)), (self._launch.threads,))
            self._flat = np.clip(values, 0, int(np.prod(shape)) - 1)
        return self._flat
