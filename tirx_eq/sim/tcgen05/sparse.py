"""Structured sparsity of tcgen05.mma.sp: where the metadata lies in tensor memory, and A expanded by it (ISA 9.7.16.10.8).

A holds K/2 elements a row.  A *chunk* of the full row (2 elements for tf32, 4 for f16, f8f6f4, mxf8f6f4 and i8, 8 in pairs
for the fp4 kinds) keeps half of its elements, and a nibble of metadata says which: two 2-bit positions, low one first.

Public text of the ISA gives the nibbles; the tensor-memory layout is a figure.  It is the one of NVIDIA's CUTLASS
(``tmem_e_frg``, ``tmem_e_frg_ws`` and the global layout that ``tcgen05.cp.128x128b`` brings over), which JAX's Mosaic
lowering and the SM100 engine of tirx-harness state independently, to the bit.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tirx_eq.sim.tcgen05.descriptors import InstructionDescriptor
from tirx_eq.sim.tcgen05.operands import fault
from tirx_eq.sim.tcgen05.order import Actor, touch
from tirx_eq.sim.tcgen05.tmem import COLUMNS
from tirx_eq.sim.wave import Wave

Array = np.ndarray
#: kinds whose chunks of 16 rows interleave with K; the others keep a row in one lane
INTERLEAVED = ("f16", "tf32")
#: elements of the full row per nibble
CHUNK = {"tf32": 2, "f16": 4, "f8f6f4": 4, "mxf8f6f4": 4, "i8": 4, "mxf4": 8, "mxf4nvf4": 8}
#: nibbles with a meaning; f16 and narrower
TWO_OF_FOUR = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)
#: for tf32: the position of the element that is kept
ONE_OF_TWO = {0b0100: 0, 0b1110: 1}


@lru_cache(maxsize=64)
def places(kind: str, lanes: tuple[int, ...], chunks: int, selector: int) -> tuple[Array, Array, Array]:
    """Lane, column (from the address) and nibble number of every (row, chunk), given the lane of each row of A.

    f16 and tf32: 16 rows share 16 lanes; bit 3 of the lane is the half of K, bit 3 of the row chooses the half-word.
    """
    lane = np.array(lanes)[:, None] + np.zeros((1, chunks), np.int64)
    chunk = np.arange(chunks)[None, :] + np.zeros((len(lanes), 1), np.int64)
    if kind in INTERLEAVED:
        upper = lane % 16 // 8
        return lane - 8 * upper + 8 * (chunk // 4), np.full(lane.shape, selector), 4 * upper + chunk % 4
    return lane, chunk // 8, chunk % 8


def nibbles(w: Wave, row: int, who: Actor, cta: int, address: int, lanes: Array, o: InstructionDescriptor) -> Array:
    """Metadata of one CTA's rows, shape (rows, chunks); ``lanes`` are those of its rows of A in tensor memory."""
    column = address & 0xFFFF
    if column % 2:
        fault(w, row, f"sparsity metadata at column {column}: it must start at an even column")
    chunks = o.k // CHUNK[o.kind]
    lane, offset, which = places(o.kind, tuple(lanes.tolist()), chunks, o.sparsity)
    if column + int(offset.max()) >= COLUMNS:
        w.report("bounds", f"sparsity metadata reaches column {column + int(offset.max())}", row=row, fatal=True)
    touch(w, who, cta, lane, column + offset, False, "tcgen05.mma.sp (metadata)")
    found: Array = w.tmem.data[cta, lane, column + offset] >> (4 * which).astype(np.uint32) & np.uint32(15)
    return found


def positions(w: Wave, row: int, codes: Array, kind: str) -> Array:
    """Index along K of every stored element, shape (rows, K / 2)."""
    legal = list(ONE_OF_TWO) if kind == "tf32" else list(TWO_OF_FOUR)
    bad = ~np.isin(codes, legal)
    if bad.any():
        m, chunk = (int(v) for v in np.argwhere(bad)[0])
        fault(w, row, f"sparsity metadata of row {m}, chunk {chunk} is {int(codes[m, chunk]):#06b}, which has no meaning for "
                      f"kind::{kind}")
    base = CHUNK[kind] * np.arange(codes.shape[1])[None, :, None]
    if kind == "tf32":
        kept = (codes == 0b1110)[:, :, None]
    else:
        kept = np.stack([codes & 3, codes >> 2], axis=-1)
        if CHUNK[kind] == 8:
            kept = (2 * kept[:, :, :, None] + np.arange(2)).reshape(*codes.shape, 4)
    return (base + kept).reshape(len(codes), -1)


def expanded(w: Wave, row: int, who: Actor, cta: int, address: int, stored: Array, lanes: Array,
             o: InstructionDescriptor) -> Array:
    """One CTA's rows of A with the zeros put back, shape (rows, K)."""
    where = positions(w, row, nibbles(w, row, who, cta, address, lanes, o), o.kind)
    full = np.zeros((len(stored), o.k), stored.dtype)
    np.put_along_axis(full, where, stored, axis=1)
    return full
