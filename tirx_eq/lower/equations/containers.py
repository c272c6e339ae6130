"""The equation of copies between registers and elements of 4 bits that have bytes of tensor memory to themselves.

Such an element is in bits 2 to 5 of its byte (``container_shift``), so names are given to every two bits; and a store must
leave zeros in the other bits.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import ProofError
from ...prove.verdict import Enumeration, Verdict
from ..conditions.tmem_place import in_container
from ..context import CallContext
from ..indices import Indices
from ..program import Block, Instruction
from .element_names import Names
from .movement import Array, Trace, difference, movement, points_of, uniform, unique

UNIT = 2
ZERO = -2  # the name of two bits that are zero


@dataclass
class _Trace(Trace):
    """Symbolic execution by pairs of bits; ``zeros`` are the places in the destination that get zeros."""

    zeros: list[Array] = field(default_factory=list)

    @property
    def unit(self) -> int:
        return UNIT

    @property
    def size(self) -> int:
        return 1

    def reach(self, target: Array, source: Array, also: Array | None = None) -> None:
        keep = np.ones_like(self.mask) if also is None else also
        self.zeros.append(target[self.mask & keep & (source == ZERO)])
        super().reach(target, source, keep & (source != ZERO))

    def _step(self, i: Instruction) -> None:
        own = {"mov": self.move, "shr": self.shift, "bfi": self.insert}.get(i.opcode.split(".", 1)[0])
        own(i) if own is not None else super()._step(i)

    def move(self, i: Instruction) -> None:
        target, source = i.operands[:2]
        if isinstance(source, int):
            if source:
                raise ProofError(f"the layout equation of '{self.c.op}' doesn't know the constant {source}")
            self.write(target, [np.full(self.points.threads, ZERO)] * len(self.parts(0, 4)))
            return
        super().move(i)

    def shift(self, i: Instruction) -> None:
        self._whole_pairs(i, i.operands[2])
        super().shift(i)

    def insert(self, i: Instruction) -> None:
        self._whole_pairs(i, *i.operands[3:])
        super().insert(i)

    def _whole_pairs(self, i: Instruction, *amounts: Any) -> None:
        if any(not isinstance(a, int) or a % UNIT for a in amounts):
            raise ProofError(f"the layout equation of '{self.c.op}': {i.opcode} by {amounts} bits")


def parts_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on a copy of parts of columns: :func:`movement`, or for elements in bytes of their own as this module says."""
    source, target = c.inputs[0], c.outputs[0]
    if not in_container(source) and not in_container(target):
        return movement(c, block, indices)
    names, active, total = Names.of(c, source, target, UNIT), np.flatnonzero(c.active.mask), 0
    for points in points_of(c, block, indices):
        uniform(c, (source, target), points.by_var(), active)
        trace = _Trace(c, points, source, target, c.active.mask.copy())
        trace.run(block)
        got = unique(*(np.concatenate([p[k] for p in trace.pairs] or [np.empty(0, np.int64)]) for k in (0, 1)))
        got = unique(got[:, 0], names.first_copies(got[:, 1]))
        wanted = unique(*names.expected(points.by_var()))
        if not np.array_equal(got, wanted):
            return difference(source, target, got, wanted)
        zeros = np.unique(np.concatenate(trace.zeros or [np.empty(0, np.int64)]))
        meant = _beside(wanted[:, 0]) if in_container(target) else np.empty(0, np.int64)
        if not np.array_equal(zeros, meant):
            place = int(np.setxor1d(zeros, meant)[0])
            return Verdict(
                "different", "enumeration", counterexample={"place": place},
                detail=f"{len(np.setdiff1d(meant, zeros))} pairs of bits beside elements don't become zero",
            )  # fmt: skip
        total += len(wanted) // 2
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"{total} elements moved")


def _beside(places: Array) -> Array:
    """The pairs of bits around elements whose own pairs are these: the first and the last of each byte."""
    return np.unique(np.concatenate([places // 4 * 4, places // 4 * 4 + 3]))
