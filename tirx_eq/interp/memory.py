"""Storage as bytes with a mask of what was ever written; the addresses are bits, so that 4-bit elements fit.

A storage has rows: one for global memory, one per CTA for shared memory, one per thread for registers, one per lane of
each CTA's tensor memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir import dtype as dt
from .faults import InterpreterError
from .values import from_bytes, to_bytes

Array = Any
_WORD: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(eq=False)
class Storage:
    """``size`` bytes in each of ``rows`` rows.  ``defined`` holds, per byte, the bits that were written."""

    name: str
    space: str
    rows: int
    size: int
    data: Array = field(init=False, repr=False)
    defined: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        padded = -(-max(self.size, 1) // 16) * 16
        self.data = np.zeros((self.rows, padded), dtype=np.uint8)
        self.defined = np.zeros((self.rows, padded), dtype=np.uint8)

    def forget(self, rows: Array) -> None:
        """Make rows undefined again (a new allocation in the same place)."""
        self.defined[rows] = 0

    def outside(self, bit: Array, dtype: str) -> Array:
        """Which bit offsets don't leave room for an element of ``dtype``."""
        return (bit < 0) | (bit + dt.storage_bits(dtype) > self.size * 8)

    def read(self, rows: Array, bit: Array, dtype: str) -> tuple[Array, Array]:
        """Values of the elements at ``bit`` offsets in ``rows`` (broadcast), and which of them are undefined."""
        rows, bit = np.broadcast_arrays(rows, bit)
        width = dt.storage_bits(dtype)
        if width == 4:
            byte, high = bit >> 3, (bit & 7).astype(np.uint8)
            raw = (self.data[rows, byte] >> high) & 0xF
            return from_bytes(raw[..., None], dtype), (self.defined[rows, byte] >> high) & 0xF != 0xF
        size = _bytes(dtype)
        byte = bit >> 3
        if size in _WORD and not np.any(byte & (size - 1)):
            index = byte >> (size.bit_length() - 1)
            word = _WORD[size]
            raw = self.data.view(word)[rows, index]
            known = self.defined.view(word)[rows, index]
            return from_bytes(raw[..., None].view(np.uint8), dtype), known != word((1 << 8 * size) - 1)
        index = byte[..., None] + np.arange(size)
        return (
            from_bytes(self.data[rows[..., None], index], dtype),
            np.any(self.defined[rows[..., None], index] != 0xFF, axis=-1),
        )

    def write(self, rows: Array, bit: Array, value: Array, dtype: str) -> Array:
        """Store values; returns which elements hold something else afterwards (two threads wrote different values)."""
        rows, bit, value = np.broadcast_arrays(rows, bit, value)
        width = dt.storage_bits(dtype)
        raw = to_bytes(value, dtype)
        if width == 4:
            byte, high = bit >> 3, (bit & 7).astype(np.uint8)
            for part, keep in ((0, np.uint8(0xF0)), (4, np.uint8(0x0F)), (2, np.uint8(0))):  # in the middle: alone in the byte
                here = high == part
                at = rows[here], byte[here]
                self.data[at] = (self.data[at] & keep) | ((raw[..., 0][here] & 0xF) << np.uint8(part))
                self.defined[at] |= np.uint8(0xFF) ^ keep
            return (self.data[rows, byte] >> high) & 0xF != raw[..., 0] & 0xF
        size = _bytes(dtype)
        byte = bit >> 3
        if size in _WORD and not np.any(byte & (size - 1)):
            index = byte >> (size.bit_length() - 1)
            word = _WORD[size]
            stored = raw.view(word)[..., 0]
            whole = self.data.view(word)
            whole[rows, index] = stored
            self.defined.view(word)[rows, index] = word((1 << 8 * size) - 1)
            return whole[rows, index] != stored
        index = byte[..., None] + np.arange(size)
        self.data[rows[..., None], index] = raw
        self.defined[rows[..., None], index] = 0xFF
        return np.any(self.data[rows[..., None], index] != raw, axis=-1)


def _bytes(dtype: str) -> int:
    width = dt.storage_bits(dtype)
    if width % 8:
        raise InterpreterError(f"elements of {dtype} ({width} bits) can't be addressed in memory")
    return width // 8


@dataclass(frozen=True, eq=False)
class Pointer:
    """An address per thread: a row and a byte offset of one storage (arrays that broadcast over the threads)."""

    storage: Storage
    rows: Array
    byte: Array

    def at(self, threads: Array) -> Pointer:
        """The pointers of some threads, of a value kept for all."""
        return Pointer(self.storage, _take(self.rows, threads), _take(self.byte, threads))

    def moved(self, count: Array) -> Pointer:
        """The pointer ``count`` bytes further."""
        return Pointer(self.storage, self.rows, self.byte + count)


def _take(a: Array, threads: Array) -> Array:
    return a if np.ndim(a) == 0 else a[threads]
