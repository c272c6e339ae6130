"""ldmatrix and stmatrix: registers of a warp as matrices, whose rows of 16 bytes are in shared memory.

PTX ISA 9.7.14.5.15: of 8x8 matrices of 16-bit pieces, row r of matrix i is at the address of lane 8i + r.  Lane l has pieces
2(l % 4) and 2(l % 4) + 1 of row l / 4; transposed, it has piece l / 4 of rows 2(l % 4) and 2(l % 4) + 1.

Of bytes there are only transposed forms.  ldmatrix takes 16 rows of 16 (row r of matrix i at lane 16i + r): lane l gets bytes
l / 4 of rows 4(l % 4) to 4(l % 4) + 3 in a register, and bytes l / 4 + 8 in the next.  stmatrix takes 8 rows of 16: lane l's
register has byte l / 4 of rows 2(l % 4) and 2(l % 4) + 1, then byte l / 4 + 8 of the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ptx.target import target_has
from ..context import CallContext, Operand
from ..sharing.spread import Spread, local_and_memory, spread_of

ROW_BYTES = 16
WORD_BYTES = 4
#: Matrices that one instruction moves, plus TRANSPOSED or BYTES for the forms that transpose them: one number for the rules.
TRANSPOSED = 100
BYTES = 200

Array = np.ndarray


@dataclass(frozen=True)
class Form:
    """A form of the instruction: ``count`` matrices of ``rows`` rows and ``words`` registers; the size of what is
    transposed in bits, 0 if nothing is; the part of the opcode that tells shape, count and type, ``{}`` for the space."""

    count: int
    rows: int = 8
    words: int = 1
    piece: int = 0
    shape: str = "m8n8"
    suffix: str = "b16"

    @property
    def name(self) -> str:
        trans = ".trans" if self.piece else ""
        return f"{self.shape}.x{self.count}{trans}.shared.{self.suffix}"


def form_of(code: int, loading: bool) -> Form:
    """What a code means."""
    count = code % TRANSPOSED
    if code < BYTES:
        return Form(count, piece=16 if code >= TRANSPOSED else 0)
    return Form(count, 16, 2, 8, "m16n16", "b8") if loading else Form(count, 8, 1, 8, "m16n8", "b8")


@dataclass(frozen=True, eq=False)
class MatrixCopy:
    """``registers[s]`` are the registers of instruction s; ``rows`` has as slots, 16 bytes per instruction, the elements of
    the row that each thread addresses."""

    registers: tuple[tuple[int, ...], ...]
    rows: Spread


def matrix_copy(c: CallContext, code: int) -> MatrixCopy | str:
    """How a copy between shared memory and registers is made of matrices, or why it isn't."""
    key = ("matrix copy", code)
    return c.once(key, lambda: _matrix_copy(c, code))


def _matrix_copy(c: CallContext, code: int) -> MatrixCopy | str:
    both = local_and_memory(c)
    if isinstance(both, str):
        return both
    local, memory = both
    form = form_of(code, c.outputs[0] is local)
    if local.root.word_bits != 32 or local.bits not in ((form.piece,) if form.piece else (8, 16, 32)):
        return f"elements of {local.bits} bits are not the pieces of such matrices"
    if form.piece == 8 and not target_has(c.target, "narrow"):
        return f"{c.target} has no matrices of bytes"
    if form.count * form.rows > 32:
        return f"{form.count} matrices of {form.rows} rows have more than one row per lane"
    spread = spread_of(c, local)
    if isinstance(spread, str):
        return spread
    if not c.active.whole(32):
        return f"it is reached by {c.active.describe()}, not by whole warps"
    words = _words(spread, local)
    if isinstance(words, str):
        return words
    registers, held = words  # (threads, registers, elements of one)
    each = form.count * form.words
    if len(registers) % each:
        return f"a thread's {len(registers)} registers are not a multiple of {each}"
    if form.words == 2:
        order = _pairs(memory, held, c)
        registers, held = [registers[k] for k in order], held[:, order]
    rows = _rows(held.reshape(-1, 32, *held.shape[1:]), form)
    # rows[warp, matrix, row]: elements of a row; lane rows * i + r addresses row r of matrix i, further lanes repeat them.
    lane = np.arange(32)
    steps = rows.reshape(len(rows), -1, form.count, form.rows, rows.shape[-1])
    steps = steps[:, :, lane // form.rows % form.count, lane % form.rows]
    elements = steps.swapaxes(1, 2).reshape(len(spread.threads), -1)
    by_thread = Spread(
        spread.threads, tuple(range(elements.shape[1])), elements, np.zeros_like(elements), spread.extents, c
    )
    for s in range(0, by_thread.slots, rows.shape[-1]):
        if by_thread.coords(s) is None:
            return "where the rows of the matrices are doesn't follow from the bits of the lane"
    grouped = tuple(tuple(registers[k : k + each]) for k in range(0, len(registers), each))
    return MatrixCopy(grouped, by_thread)


def _pairs(memory: Operand, held: Array, c: CallContext) -> list[int]:
    """The order of the registers in which those of one matrix are neighbours: its columns 8 bytes apart in memory."""
    byte = memory.places(c.lowest())["byte"][held[0, :, 0]]
    count = held.shape[1]
    for apart in (1 << k for k in range(count.bit_length())):
        if count % (2 * apart) == 0:
            first = np.arange(count).reshape(-1, 2, apart).swapaxes(1, 2).reshape(-1, 2)
            if (byte[first[:, 1]] - byte[first[:, 0]] == 8).all():
                return [int(k) for k in first.ravel()]
    return list(range(count))


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


def _rows(held: Array, form: Form) -> Array:
    """Elements of each matrix (warps, matrices, rows, elements of one), from what lanes hold (warps, 32, registers, per)."""
    warps, count = len(held), held.shape[2]
    if not form.piece:
        # Lanes 4r to 4r + 3 have row r, four bytes each.
        by_row = held.reshape(warps, 8, 4, *held.shape[2:])
        return by_row.transpose(0, 3, 1, 2, 4).reshape(warps, count, 8, -1)
    if form.piece == 16:
        # Lane l = 4j + r/2 has piece j of row r.
        pieces = held.reshape(warps, 8, 4, count, 2)
        return pieces.transpose(0, 3, 2, 4, 1).reshape(warps, count, 8, 8)
    if form.words == 2:
        # Lane l = 4j + r/4 has bytes j and, in the second register, j + 8 of rows r.
        pieces = held.reshape(warps, 8, 4, count // 2, 2, 4)
        return pieces.transpose(0, 3, 2, 5, 4, 1).reshape(warps, count // 2, 16, 16)
    # Lane l = 4j + r/2 has bytes j, and then j + 8, of rows r.
    pieces = held.reshape(warps, 8, 4, count, 2, 2)
    return pieces.transpose(0, 3, 2, 5, 4, 1).reshape(warps, count, 8, 16)
