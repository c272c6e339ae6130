"""Copies of parts of columns between tensor memory and registers: elements narrower than the column that they lie in.

tcgen05.ld and .st move columns of 32 bits.  To change a part, a thread loads the column, inserts, and stores it: the rest of
the column is written with what it held, so nobody else may change that at the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import CallContext
from ..sharing.threads import WARP
from .registry import coordinate, holds
from .tmem import parts_of, tmem_and_registers, warps_of
from .tmem_place import in_container

#: Parts that one thread moves; beyond, the straight-line program would be too long.
MAX_PARTS = 512


@dataclass(frozen=True)
class PartMoves:
    """What each thread moves: (column, part of it, register, part of that), the same for all; parts have ``bits`` bits.

    ``shift``: bits from where a part of a column is counted to the element, in bytes that are zero otherwise.
    """

    moves: tuple[tuple[int, int, int, int], ...]
    bits: int
    shift: int = 0

    def columns(self) -> list[int]:
        """The columns touched, ascending."""
        return sorted({m[0] for m in self.moves})

    def made_anew(self, column: int) -> bool:
        """Whether a store knows all of a column: it is a register, or bytes with an element in each."""
        if self.shift:
            return len({m[1] for m in self.moves if m[0] == column}) * 8 == 32
        return self.whole(column)

    def whole(self, column: int) -> bool:
        """Whether all of a column is exchanged with all of one register."""
        mine = {m[1:] for m in self.moves if m[0] == column}
        return any(mine == {(part, register, part) for part in range(32 // self.bits)} for _, register, _ in mine)


def part_moves(c: CallContext) -> PartMoves | str:
    """How a copy is made of parts of columns, each thread its own lane; or why it isn't."""
    return c.once("part moves", lambda: _part_moves(c))


def _part_moves(c: CallContext) -> PartMoves | str:
    e = parts_of(c)
    if isinstance(e, str):
        return e
    tmem, regs = tmem_and_registers(c)
    if regs.root.word_bits != 32:
        return f"the registers of '{regs.buffer.name}' have {regs.root.word_bits} bits"
    bad = np.flatnonzero(e.lane != e.thread)
    if len(bad):
        k = int(bad[0])
        return f"element {coordinate(tmem, int(e.number[k]))} is in lane {int(e.lane[k])}, and with thread {int(e.thread[k])}"
    threads = warps_of(c) * WARP
    rows: list[set[tuple[int, int, int, int]]] = [set() for _ in range(threads)]
    for t, *move in zip(*(a.tolist() for a in (e.thread, e.column, e.part, e.register, e.place))):
        rows[t].add(tuple(move))
    if any(row != rows[0] for row in rows):
        return "threads have their elements in different columns or registers"
    if len(rows[0]) > MAX_PARTS:
        return f"each thread would move {len(rows[0])} parts of columns"
    found = PartMoves(tuple(sorted(rows[0])), e.bits, in_container(tmem))
    alone = [column for column in found.columns() if found.shift and not found.made_anew(column)]
    if alone and c.outputs[0] is tmem:
        return f"of column {alone[0]} not all four bytes are stored, whose other bits are to be zero"
    if all(found.whole(column) for column in found.columns()):
        return "every column is moved whole"
    return found


@holds("each thread moves parts of its lane's columns")
def _of_columns(c: CallContext) -> str | None:
    found = part_moves(c)
    return found if isinstance(found, str) else None
