"""Scratch in shared memory as the equations see it: what was stored where, by whom, and whether a barrier orders it.

A load must be of something that was stored: by the same thread, or by one of its unit with a barrier of that unit between.  A
store must not meet what another thread has stored or loaded since the last barrier.  So a lowering without a barrier that it
needs fails its equation, whatever the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ProofError
from ..program import Index, Instruction
from ..storage import Root

Array = np.ndarray


@dataclass
class Cells:
    """Bytes of one region: ``values`` by field (arrays whose last axis is the byte), writer and times."""

    values: dict[Any, Array]
    writer: Array
    written: Array
    reader: Array
    read: Array


@dataclass
class Scratch:
    """The scratch of one call.  ``epoch`` counts the barriers that each thread has passed, ``unit`` their threads."""

    what: str
    threads: int
    cells: dict[Root, Cells] = field(default_factory=dict)
    unit: int = 1
    epoch: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        self.epoch = np.zeros(self.threads, dtype=np.int64)

    def barrier(self, i: Instruction, mask: Array, numbers: Array | None) -> None:
        """A barrier that the threads of the mask reach; ``numbers`` are those of a named one, per thread."""
        unit = self.threads
        if i.opcode == "bar.warp.sync":
            unit = 32
        elif len(i.operands) > 1:
            count = i.operands[1]
            assert isinstance(count, int) and isinstance(i.operands[0], Index) and numbers is not None
            unit = count
            of_units = numbers.reshape(-1, unit)
            if (of_units != of_units[:, :1]).any() or len(np.unique(of_units[:, 0])) != len(of_units):
                self._fail("the threads of a unit don't arrive at a barrier of their own")
        whole = mask.reshape(-1, unit)
        if (whole.any(axis=1) != whole.all(axis=1)).any():
            self._fail("part of the threads that a barrier waits for arrive")
        if self.unit not in (1, unit):
            self._fail("barriers of different units")
        self.unit = unit
        self.epoch = self.epoch + mask

    def _fail(self, why: str) -> None:
        raise ProofError(f"the equation of '{self.what}': {why}")

    def store(self, root: Root, place: Array, values: dict[Any, Array], mask: Array) -> None:
        """Each thread of the mask stores ``values`` (last axis: threads) at its ``place``, a byte."""
        if root not in self.cells:
            empty = {k: np.zeros((*v.shape[:-1], root.size), v.dtype) for k, v in values.items()}
            self.cells[root] = Cells(empty, *(np.full(root.size, -1) for _ in range(4)))
        cells = self.cells[root]
        if set(values) != set(cells.values):
            self._fail("values of different kinds are stored")
        threads = np.flatnonzero(mask)
        at = place[threads]
        if len(at) and (at.min() < 0 or at.max() >= root.size):
            self._fail(f"byte {int(at.max())} is outside of the {root.size} bytes of scratch")
        if len(np.unique(at)) != len(at):
            self._fail("two threads store to one place")
        now = self.epoch[threads]
        for who, when in ((cells.writer, cells.written), (cells.reader, cells.read)):
            other = (who[at] >= 0) & (who[at] != threads)
            if (other & ~self._ordered(who[at], when[at], threads, now)).any():
                self._fail("a store meets what no barrier has ordered before it")
        for k, v in values.items():
            cells.values[k][..., at] = np.broadcast_to(v, (*v.shape[:-1], len(mask)))[..., threads]
        cells.writer[at], cells.written[at] = threads, now
        cells.reader[at] = -1

    def _ordered(self, who: Array, when: Array, threads: Array, now: Array) -> Array:
        return (who // self.unit == threads // self.unit) & (when < now)

    def load(self, root: Root, place: Array, mask: Array) -> dict[Any, Array]:
        """What each thread of the mask loads from its place; others get something."""
        cells = self.cells.get(root)
        if cells is None:
            self._fail("scratch is loaded before it is stored")
            raise AssertionError
        threads = np.flatnonzero(mask)
        at = place[threads]
        if len(at) and (at.min() < 0 or at.max() >= root.size):
            self._fail(f"byte {int(at.max())} is outside of the {root.size} bytes of scratch")
        if (cells.writer[at] < 0).any():
            self._fail("scratch is loaded that nobody has stored")
        other = cells.writer[at] != threads
        if (other & ~self._ordered(cells.writer[at], cells.written[at], threads, self.epoch[threads])).any():
            self._fail("scratch is loaded without a barrier after the store")
        several = self.threads * 2  # no thread's number: nobody was the only one
        apart = np.zeros(root.size, dtype=np.int64)
        np.add.at(apart, at, 1)
        known = cells.reader[at]
        cells.reader[at] = np.where((apart[at] > 1) | ((known >= 0) & (known != threads)), several, threads)
        cells.read[at] = self.epoch[threads]
        safe = np.clip(place, 0, root.size - 1)
        return {k: v[..., safe] for k, v in cells.values.items()}

    def finish(self, mask: Array) -> None:
        """At the end: nobody reads a common region any more."""
        for root, cells in self.cells.items():
            used = np.flatnonzero(cells.reader >= 0)
            if root.scratch == "common" and (cells.read[used] >= self.epoch[mask].min()).any():
                self._fail("a common region is left without a barrier after its last load")
