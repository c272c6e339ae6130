"""Who issues the instructions of a program that is issued once: exactly one thread of each unit that makes the call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...prove.verdict import Verdict
from ..context import CallContext
from ..indices import Indices
from ..program import Block, Define, If, Instruction, Temp
from ..sharing.active import first_of_warps
from .movement import Points, points_of, uniform


def issued_otherwise(c: CallContext, block: Block, indices: Indices) -> Verdict | None:
    """None if every instruction is executed once by each unit of the call's scope, whose threads mean one region.

    Raises LoweringError if they mean different ones.
    """
    if c.scope == "thread":
        return None
    active = np.flatnonzero(c.active.mask)
    units = np.unique(active // c.participants)
    for points in points_of(c, block, indices):
        uniform(c, tuple(c.operands.values()), points.by_var(), active)
        for instruction, threads in executed(block, points, c.active.mask, {}):
            count = np.bincount(threads // c.participants, minlength=int(units.max()) + 1)
            bad = [int(u) for u in units if count[u] != 1]
            if bad:
                return Verdict(
                    "different", "enumeration", counterexample={"unit": bad[0], "threads": int(count[bad[0]])},
                    detail=f"{instruction.opcode} is issued by {int(count[bad[0]])} threads of {c.scope} {bad[0]}",
                )  # fmt: skip
    return None


def executed(
    block: Block, points: Points, mask: np.ndarray, elected: dict[Temp, np.ndarray]
) -> Iterator[tuple[Instruction, np.ndarray]]:
    """Every instruction but elections, with the threads (of those in ``mask``) that execute it."""
    for node in block:
        if isinstance(node, If):
            if isinstance(node.condition, Temp):
                taken = elected[node.condition]
            else:
                taken = points.of(node.condition) != 0
            yield from executed(node.then, points, mask & taken, elected)
            yield from executed(node.orelse, points, mask & ~taken, elected)
        elif isinstance(node, Instruction) and node.opcode == "elect.sync":
            whole = mask.reshape(-1, 32)
            chosen = np.zeros_like(mask)
            if (whole == whole[:, :1]).all():  # of part of a warp elect.sync would wait for lanes that never come
                chosen[first_of_warps(mask)] = True
            pair = node.operands[0]
            assert isinstance(pair, tuple) and isinstance(pair[1], Temp)
            elected[pair[1]] = chosen
        elif isinstance(node, Instruction):
            yield node, np.flatnonzero(mask)
        else:
            assert isinstance(node, Define)
