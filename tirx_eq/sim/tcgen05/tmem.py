"""Tensor memory: 128 lanes x 512 columns of 32 bits per CTA, its allocator, and the ld/st data paths.

Lane and column maps: PTX ISA, tcgen05 "Data movement shapes" and "Data path layouts A-G".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray
LANES, COLUMNS = 128, 512


class Tmem:
    """Tensor memory of all CTAs of a wave: ``data[cta, lane, column]`` and a shadow of the same shape."""

    def __init__(self, ctas: int) -> None:
        shape = (ctas, LANES, COLUMNS)
        self.data = np.zeros(shape, np.uint32)
        self.initialised = np.zeros(shape, bool)
        self.writer = np.full(shape, -1, np.int32)
        self.write_epoch = np.zeros(shape, np.int32)
        self.reader = np.full(shape, -1, np.int32)
        self.read_epoch = np.zeros(shape, np.int32)
        #: per column: start column of its allocation, or -1
        self.owner = np.full((ctas, COLUMNS), -1, np.int32)
        self.sizes: list[dict[int, int]] = [{} for _ in range(ctas)]
        self.last_size = [0] * ctas
        self.permit = [True] * ctas
        self.granularity = [0] * ctas

    def find(self, cta: int, columns: int) -> int | None:
        """First free, naturally aligned run of ``columns`` columns, or None."""
        for start in range(0, COLUMNS, columns):
            if (self.owner[cta, start : start + columns] < 0).all():
                return start
        return None

    def allocate(self, cta: int, start: int, columns: int) -> None:
        self.owner[cta, start : start + columns] = start
        self.sizes[cta][start] = columns
        self.initialised[cta, :, start : start + columns] = False

    def free(self, cta: int, start: int) -> None:
        columns = self.sizes[cta].pop(start)
        self.owner[cta, start : start + columns] = -1
        self.initialised[cta, :, start : start + columns] = False


@dataclass(frozen=True)
class Access:
    """A tcgen05.ld/st data path: arrays (registers, 32) of lane and column, relative to the address."""

    lane: Array
    column: Array
    packed: bool


REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
MAX_REPEAT = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}


def access(shape: str, repeat: int, packed: bool, split: int = 0) -> Access:
    """The (register, thread) -> (lane, column) map of ``.shape.xrepeat`` (PTX ISA tcgen05.ld figures).

    With ``packed`` the column is that of the low half; the high half comes from the next column.
    """
    count = REGISTERS[shape] * repeat
    j = np.arange(count)[:, None]
    t = np.arange(32)[None, :]
    zero = np.zeros((count, 32), np.int64)
    if shape == "32x32b":
        lane, column = t + zero, j + zero
    elif shape == "16x64b":
        lane, column = 8 * (t & 1) + (t >> 2) + zero, 2 * j + ((t >> 1) & 1)
    elif shape == "16x128b":
        lane, column = (t >> 2) + 8 * (j & 1), 4 * (j >> 1) + (t & 3)
    elif shape == "16x256b":
        lane, column = (t >> 2) + 8 * ((j >> 1) & 1), 8 * (j >> 2) + 2 * (t & 3) + (j & 1)
    else:
        lane, column = (t & 15) + zero, j + (t >> 4) * split
        if packed:
            column = 2 * j + (t >> 4) * split
            return Access(lane, column, True)
    return Access(lane, 2 * column if packed else column, packed)
