"""Conditions on copies from shared to tensor memory by tcgen05.cp (PTX ISA 9.7.16.9), and their plan."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...errors import PtxError
from ...ir import Expr
from ...ptx.descriptor import MatrixDescriptor, element_address
from ...ptx.swizzle_modes import SWIZZLES, SwizzleMode
from ..context import CallContext, Operand
from .gemm import begins_in_a_row, element_bits
from .registry import OPTIONS, holds_at
from .tmem_place import fixed, in_container

Array = np.ndarray


@dataclass(frozen=True)
class CopyShape:
    """A shape of tcgen05.cp: ``rows`` of ``width`` bytes go to ``lane(row)``, and ``extent`` times ``stride`` lanes on."""

    name: str
    rows: int
    width: int
    lane: Callable[[Array], Array]
    extent: int = 1
    stride: int = 0


#: PTX ISA 9.7.16.9; the widest first.
COPY_SHAPES: tuple[CopyShape, ...] = (
    CopyShape("128x256b", 128, 32, lambda r: r),
    CopyShape("128x128b", 128, 16, lambda r: r),
    CopyShape("64x128b.warpx2::02_13", 64, 16, lambda r: r, 2, 64),
    CopyShape("64x128b.warpx2::01_23", 64, 16, lambda r: r % 32 + 64 * (r // 32), 2, 32),
    CopyShape("32x128b.warpx4", 32, 16, lambda r: r, 4, 32),
)

#: Of a copy that gives every element of 4 bits, of which the source packs 16 in 8 of 16 bytes, a byte of its own.
DECOMPRESSING = ".b8x16.b4x16_p64"

OPTIONS["cp shape"] = lambda c: list(range(len(COPY_SHAPES)))


@dataclass(frozen=True)
class CopyStep:
    """One instruction: the descriptor with everything at its lowest, its first byte, and its first column."""

    descriptor: MatrixDescriptor
    start: Expr
    column: int


def copy_steps(c: CallContext, code: int) -> list[CopyStep] | str:
    """The instructions that make up the call under a shape, or why it doesn't fit."""
    reasons = []
    for mode in ("128B", "64B", "32B", "none"):
        found = _steps(c, COPY_SHAPES[code], SWIZZLES[mode])
        if not isinstance(found, str):
            return found
        reasons.append(f"with swizzle {mode}, {found}")
    return "; ".join(dict.fromkeys(reasons))


@dataclass(frozen=True)
class Cells:
    """Bytes of a call's elements as an array [lane row, byte of the lane]: the element that is there, by number; of two the
    lower one."""

    element: Array
    first_byte: int


def tmem_bytes(o: Operand, c: CallContext, shape: CopyShape) -> Cells | str:
    """The elements by row of the shape and byte of the lane, or why they don't fill rows and bytes."""
    if not fixed(o):
        return f"the destination in '{o.buffer.name}' must begin at a constant place"
    places = o.places(c.lowest())
    if "TLane" not in places or "TCol" not in places:
        return f"'{o.buffer.name}' has no layout on TLane and TCol"
    replica = [(int(i.extent), int(i.stride)) for i in getattr(o.buffer.layout, "replica", ()) if str(i.axis) == "TLane"]
    if [r for r in replica if r[0] > 1] != ([(shape.extent, shape.stride)] if shape.extent > 1 else []):
        return f"its copies over lanes are {replica}, the shape makes {shape.extent} at {shape.stride} lanes"
    lanes = shape.lane(np.arange(shape.rows))
    row = np.full(128, -1)
    row[lanes] = np.arange(shape.rows)
    where = row[places["TLane"] % 128]
    if (where < 0).any() or (places["TLane"] >= 128).any():
        return f"lane {int(places['TLane'][where < 0][0])} is not a row of the shape"
    bits = 8 if in_container(o) else o.bits
    bit, size = places["TCol"] * o.bits, max(8, o.bits)
    first = int(bit.min())
    width = int(bit.max()) + bits - first
    if width * shape.rows != o.size * bits or first % 32 or width % size:
        return f"{o.size} elements are not {shape.rows} rows of {width} bits"
    table = np.full((shape.rows, width // bits), -1)
    table[where, (bit - first) // bits] = np.arange(o.size)
    if (table < 0).any():
        return "two elements are in one place"
    if bits < 8 and (reason := _halves_apart(c.inputs[0], c, table)) is not None:
        return reason
    return Cells(table[:, :: size // bits], first // 8)


def _halves_apart(source: Operand, c: CallContext, table: Array) -> str | None:
    """None if elements that share a byte there share one in the source, in the same order."""
    bit = source.bit_places(c.lowest()).ravel()[table]
    bad = np.argwhere((bit[:, ::2] % 8 != 0) | (bit[:, 1::2] != bit[:, ::2] + 4))
    if not len(bad):
        return None
    row, k = (int(i) for i in bad[0])
    return f"the halves of byte {k} of row {row} are not those of a byte of '{source.buffer.name}'"


def _steps(c: CallContext, shape: CopyShape, mode: SwizzleMode) -> list[CopyStep] | str:
    source, target = c.inputs[0], c.outputs[0]
    if source.root.space != "shared" or target.root.space != "tmem" or source.dtype != target.dtype:
        return "the copy is not from shared to tensor memory"
    found = tmem_bytes(target, c, shape)
    if isinstance(found, str):
        return found
    size = max(1, source.bits // 8)
    places = (source.bit_places(c.lowest()) + 8 * source.root.offset)[found.element]
    address = places // 8
    narrow = bool(in_container(target))
    per = shape.width // size
    if address.shape[1] % per:
        return f"{address.shape[1] * size} bytes of a lane are not a multiple of {shape.width}"
    row, k = np.meshgrid(np.arange(shape.rows), np.arange(per), indexing="ij")
    steps = []
    for first in range(0, address.shape[1], per):
        part = address[:, first : first + per]
        sbo = int(part[8, 0] - part[0, 0])
        lbo = int(part[0, 16 // size] - part[0, 0]) if mode.name == "none" and shape.width > 16 else 16
        try:
            descriptor = MatrixDescriptor(int(part[0, 0]), lbo, sbo, mode.name)
        except PtxError as error:
            return error.message
        if narrow:
            wanted = element_bits(descriptor, "K", source.bits, 8, row, k)
            bad = np.argwhere(wanted != places[:, first : first + per])
            wanted = wanted // 8
        else:
            wanted = np.asarray(element_address(descriptor, "K", 8 * size, row, k))  # type: ignore[arg-type]
            bad = np.argwhere(wanted != part)
        if len(bad):
            i, j = (int(v) for v in bad[0])
            return f"row {i}, byte {(first + j) * size} is at {int(part[i, j])}, the descriptor reads {int(wanted[i, j])}"
        start = source.byte_offset(int(found.element[0, first])) + source.root.offset
        steps.append(CopyStep(descriptor, start, (found.first_byte + first * size) // 4))
    if (reason := begins_in_a_row(c, source, mode, int(address[0, 0]), "K")) is not None:
        return reason
    return steps


@holds_at("the operands are the shape's rows")
def _fits(c: CallContext, code: int) -> str | None:
    found = copy_steps(c, code)
    return found if isinstance(found, str) else None
