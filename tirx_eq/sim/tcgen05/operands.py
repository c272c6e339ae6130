"""Operands of tcgen05.mma: matrices through descriptors, A and block scales in tensor memory (PTX ISA 9.7.16.4, .10)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tirx_eq.sim.arithmetic.formats import padded_bytes, widen
from tirx_eq.sim.memory import SHARED_BASE
from tirx_eq.sim.tcgen05.descriptors import (
    BadDescriptor,
    InstructionDescriptor,
    MatrixDescriptor,
    addresses,
    k_major,
    matrix_descriptor,
    mn_major,
)
from tirx_eq.sim.tcgen05.order import Actor, touch
from tirx_eq.sim.tcgen05.tmem import COLUMNS
from tirx_eq.sim.transfers.copies import cells_of_chunks
from tirx_eq.sim.wave import Wave

Array = np.ndarray


def fault(w: Wave, row: int, message: str) -> None:
    w.report("descriptor", message, row=row, fatal=True)


def matrix(w: Wave, row: int, value: int, which: str) -> MatrixDescriptor:
    try:
        return matrix_descriptor(value)
    except BadDescriptor as error:
        fault(w, row, f"matrix descriptor of {which} = {value:#018x}: {error}")
        raise AssertionError from None


def element_bits(kind: str) -> int:
    """Bits of an element's container in shared memory and in tensor memory."""
    if kind == "f16":
        return 16
    if kind == "tf32":
        return 32
    return 4 if kind in ("mxf4", "mxf4nvf4") else 8


#: types narrower than their containers -> bytes that 16 elements fill of 16
PADDED = {"e2m1": 8, "e2m3": 12, "e3m2": 12}
#: Bits of an element of tensor memory that has a byte of its own -> the lowest of them in the byte; the others are zero.
#: The ISA has a figure (9.7.16.10.4.3).  For the same kinds of ``mma`` its text says "central 4 bits" and "lower 6 bits"
#: (9.7.14.5), tirx-harness has the same for tensor memory, and there for what ``tcgen05.cp`` decompresses to.
CONTAINED = {4: 2, 6: 0, 8: 0}
#: address bits that select the row within a swizzle pattern
PHASE = {"none": 0, "32B": 0x80, "64B": 0x180, "128B": 0x380, "128B_atom32B": 0x180}


def unpack(raw: Array, kind: str, name: str) -> Array:
    """float64 elements along the last axis of bytes."""
    if kind == "f16":
        return widen(raw.view(np.uint16), name).astype(np.float64)
    if kind == "tf32":
        return widen(raw.view(np.uint32), "tf32").astype(np.float64)
    if kind in ("mxf4", "mxf4nvf4"):
        both = np.stack([raw & 0xF, raw >> 4], axis=-1).reshape(*raw.shape[:-1], -1)
        return widen(both, "e2m1").astype(np.float64)
    if kind == "i8":
        return raw.view(np.int8 if name == "s8" else np.uint8).astype(np.float64)
    return widen(raw, name).astype(np.float64)


def from_shared(w: Wave, row: int, who: Actor, cta: int, desc: MatrixDescriptor, rows: int, depth: int,
                o: InstructionDescriptor, name: str, transposed: bool, which: str) -> Array:
    """Operand elements, shape (rows, depth), through a matrix descriptor in one CTA's shared memory."""
    bits = element_bits(o.kind)
    if transposed:
        if o.kind in ("mxf4", "mxf4nvf4"):
            fault(w, row, f"{which}: kind::{o.kind} cannot be transposed")
        if (desc.mode == "128B_atom32B") != (o.kind == "tf32"):
            fault(w, row, f"{which}: swizzle {desc.mode} is not allowed for a transposed kind::{o.kind} operand")
        chunks = -(-rows * bits // 128)
        offsets = mn_major(depth, chunks, desc.leading, desc.stride, desc.mode)
    else:
        offsets = k_major(rows, depth * bits // 128, desc.leading, desc.stride, desc.mode)
    if desc.start & PHASE[desc.mode]:
        w.report("descriptor", f"{which} starts at {desc.start:#x}, inside of a swizzle {desc.mode} pattern: the ISA asks for "
                               "a base offset, this descriptor has none", row=row, warning=True)
    place = addresses(desc, offsets)
    low, high = int(place.min()), int(place.max())
    if low < SHARED_BASE or high + 16 > SHARED_BASE + w.smem_limit:
        bad = low if low < SHARED_BASE else high
        w.report("bounds", f"the descriptor of {which} reaches shared offset {bad - SHARED_BASE} of {w.smem_limit} bytes",
                 row=row, address=bad, fatal=True)
    flat = place - SHARED_BASE + cta * w.smem_size
    padded = o.kind in ("f8f6f4", "mxf8f6f4") and name in PADDED  # what follows the elements of a chunk is of no account
    cells = w.shared_shadow.cells(flat.ravel(), PADDED[name]).ravel() if padded else cells_of_chunks(w, flat.ravel())
    w.checker.async_access(w.shared_shadow, cells, who.cluster, who.view,
                           (who.column, who.epoch), False, f"tcgen05.mma ({which})", (who.column,))
    raw = w.smem.reshape(-1, 16)[flat >> 4]
    if padded:
        raw = padded_bytes(raw, PADDED[name] // 2)
    values = unpack(raw.reshape(raw.shape[0], -1), o.kind, name)
    return values.T[:rows] if transposed else values


def from_tmem(w: Wave, row: int, who: Actor, cta: int, address: int, lanes: Array, depth: int,
              o: InstructionDescriptor) -> Array:
    """A from tensor memory, shape (rows, depth): one row per lane, elements packed into 32-bit columns."""
    count = depth * element_bits(o.kind) // 32
    column = address & 0xFFFF
    if column + count > COLUMNS:
        w.report("bounds", f"A in tensor memory reaches column {column + count - 1}", row=row, fatal=True)
    at = lanes[:, None], np.arange(column, column + count)[None, :]
    touch(w, who, cta, at[0], at[1], False, "tcgen05.mma (A)")
    raw = np.ascontiguousarray(w.tmem.data[cta, at[0], at[1]]).view(np.uint8)
    if o.kind in ("f8f6f4", "mxf8f6f4") and o.a in PADDED:
        bits = PADDED[o.a] // 2
        padding = raw & np.uint8(0xFF ^ ((1 << bits) - 1) << CONTAINED[bits])
        if padding.any():
            i, k = (int(v[0]) for v in np.nonzero(padding))
            fault(w, row, f"A in tensor memory: byte {k} of lane {int(lanes[i])} is {int(raw[i, k]):#04x}, "
                          f"which has bits beside the {bits} of an {o.a}")
        raw = raw >> np.uint8(CONTAINED[bits])
    return unpack(raw, o.kind, o.a)


def scales(w: Wave, row: int, who: Actor, cta: int, address: int, rows: int, o: InstructionDescriptor, count: int,
           which: int, halves: int = 1) -> Array:
    """Scale factors, shape (rows, count): row r in lane r % 32 of each quarter, column r // 32, byte id + index.

    With ``halves`` 2 the first half of the rows is in lanes 0-63 (twice), the second in lanes 64-127.
    """
    column = address & 0xFFFF
    per = rows // halves
    need = -(-per // 32)
    if address >> 16 & 0xFFFF or column + need > COLUMNS:
        w.report("bounds", f"scale factors at {address:#x}", row=row, fatal=True)
    if which + count > 4:
        fault(w, row, f"scale factor id {which} with {count} scales per row")
    r = np.arange(rows)
    values = []
    for q in range(4 // halves):
        lane, col = r % per % 32 + 32 * (q + 4 // halves * (r // per)), column + r % per // 32
        touch(w, who, cta, lane, col, False, "tcgen05.mma (scales)")
        words = np.ascontiguousarray(w.tmem.data[cta, lane, col])
        values.append(words.view(np.uint8).reshape(rows, 4)[:, which : which + count])
    for other in values[1:]:
        if (other != values[0]).any():
            fault(w, row, "scale factors differ between the 32-lane quarters of tensor memory")
    return widen(values[0], "ue8m0" if o.scale == "ue8m0" else "ue4m3").astype(np.float64)


@dataclass
class Collector:
    """The collector buffers of a tensor core: what each was filled with (PTX ISA tcgen05.mma, ``.collector_usage``).

    A ``use`` needs an earlier ``fill`` that is still valid.  Hardware may read the buffer or memory, so what was filled
    must be what memory still holds.
    """

    filled: dict[str, Array]

    @staticmethod
    def of(w: Wave, cta: int) -> Collector:
        found: Collector = w.scratch.setdefault(f"collector {cta}", Collector({}))
        return found

    def check(self, w: Wave, row: int, buffer: str, usage: str, values: Array) -> None:
        if usage in ("use", "lastuse"):
            before = self.filled.get(buffer)
            if before is None:
                w.report("collector", f"collector::{buffer}::{usage}, but no fill of the buffer is valid", row=row)
            elif before.shape != values.shape or not np.array_equal(before, values, equal_nan=True):
                w.report("collector", f"collector::{buffer}::{usage}, but the operand in memory is no longer what the buffer "
                                      "was filled with", row=row)
        if usage in ("fill", "use"):
            self.filled[buffer] = values
        else:
            self.filled.pop(buffer, None)
