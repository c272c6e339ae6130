"""ldmatrix and stmatrix: registers of a warp as 8x8 matrices of 16-bit pieces, whose rows of 16 bytes are in shared memory.

PTX ISA 9.7.14.5.15: matrix i's row r is at the address of lane 8i + r.  Lane l has pieces 2(l % 4) and 2(l % 4) + 1 of row
l / 4; transposed, it has piece l / 4 of rows 2(l % 4) and 2(l % 4) + 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..context import CallContext, Operand
from ..sharing.spread import Spread, local_and_memory, spread_of

ROW_BYTES = 16
WORD_BYTES = 4
#: Matrices that one instruction moves, plus TRANSPOSED for the form that transposes them: one number for the rules.
TRANSPOSED = 100

Array = np.ndarray


def matrices_of(code: int) -> tuple[int, bool]:
    """(matrices, transposed) that a code means."""
    return code % TRANSPOSED, code >= TRANSPOSED


@dataclass(frozen=True, eq=False)
class MatrixCopy:
    """``registers[s]`` are the registers of instruction s; ``rows`` has as slots, 16 bytes per instruction, the elements of
    the row that each thread addresses."""

    registers: tuple[tuple[int, ...], ...]
    rows: Spread


def matrix_copy(c: CallContext, code: int) -> MatrixCopy | str:
    """How a copy between shared memory and registers is made of matrices, or why it isn't."""
    key = ("matrix copy", code)
    return c.once(key, lambda: _matrix_copy(c, *matrices_of(code)))


def _matrix_copy(c: CallContext, count: int, transposed: bool) -> MatrixCopy | str:
    both = local_and_memory(c)
    if isinstance(both, str):
        return both
    local = both[0]
    if local.root.word_bits != 32 or (local.bits != 16 if transposed else local.bits not in (8, 16, 32)):
        return f"elements of {local.bits} bits are not the pieces of such matrices"
    spread = spread_of(c, local)
    if isinstance(spread, str):
        return spread
    if not c.active.whole(32):
        return f"it is reached by {c.active.describe()}, not by whole warps"
    words = _words(spread, local)
    if isinstance(words, str):
        return words
    registers, held = words  # (threads, registers, elements of one)
    if len(registers) % count:
        return f"a thread's {len(registers)} registers are not a multiple of {count}"
    rows = _rows(held.reshape(-1, 32, *held.shape[1:]), transposed)
    if isinstance(rows, str):
        return rows
    # rows[warp, register, row]: elements of a row; thread 8i + r addresses row r of matrix i, further lanes repeat them.
    lane = np.arange(32)
    steps = rows.reshape(len(rows), -1, count, 8, rows.shape[-1])[:, :, lane // 8 % count, lane % 8]
    elements = steps.swapaxes(1, 2).reshape(len(spread.threads), -1)
    by_thread = Spread(
        spread.threads, tuple(range(elements.shape[1])), elements, np.zeros_like(elements), spread.extents, c
    )
    for s in range(0, by_thread.slots, rows.shape[-1]):
        if by_thread.coords(s) is None:
            return "where the rows of the matrices are doesn't follow from the bits of the lane"
    grouped = tuple(tuple(registers[k : k + count]) for k in range(0, len(registers), count))
    return MatrixCopy(grouped, by_thread)


def _words(spread: Spread, local: Operand) -> tuple[list[int], Array] | str:
    """Register numbers, and the elements in each (threads, registers, elements), lowest bits first."""
    size = local.bits // 8
    per = WORD_BYTES // size
    if spread.slots % per:
        return f"a thread's {spread.slots} elements don't fill registers"
    byte = np.array(spread.bytes).reshape(-1, per)
    if (byte != byte[:, :1] + np.arange(per) * size).any() or (byte[:, 0] % WORD_BYTES).any():
        return "a thread's elements don't fill registers"
    if spread.copy.any() and spread.context.inputs[0] is local:
        return "several threads hold copies of an element, and each would store it"
    return [int(b) // WORD_BYTES for b in byte[:, 0]], spread.elements.reshape(len(spread.threads), -1, per)


def _rows(held: Array, transposed: bool) -> Array | str:
    """Elements of each row of each matrix (warps, matrices, 8, elements), from what lanes hold (warps, 32, registers, per)."""
    if not transposed:
        # Lanes 4r to 4r + 3 have row r, four bytes each.
        by_row = held.reshape(len(held), 8, 4, *held.shape[2:])
        return by_row.transpose(0, 3, 1, 2, 4).reshape(len(held), held.shape[2], 8, -1)
    # Lane l = 4j + r/2 has piece j of row r.
    pieces = held.reshape(len(held), 8, 4, held.shape[2], 2)
    return pieces.transpose(0, 3, 2, 4, 1).reshape(len(held), held.shape[2], 8, 8)
