"""Layouts that the hardware dictates: shared-memory operands of ``tcgen05.mma``, tensor memory, ``tcgen05.ld``/``st``.

Sources: PTX ISA, sections "Tensor Memory", "tcgen05 matrix descriptors: canonical layouts" and "tcgen05.ld: matrix
fragments"; the operand layouts A to G of the data path.  Strides are in elements of the dtype unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import LayoutError
from ..ir import dtype as dt
from .axis import TCol, TLane, laneid, m, tid_in_wg, wid_in_wg
from .base import Layout
from .compose import ComposeLayout
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout
from .value import Value, as_value, div, exact_div, mul, prod


class SwizzleMode(Enum):
    """Swizzle of a shared-memory operand; the value is the number of XORed bits."""

    SWIZZLE_NONE = 0
    SWIZZLE_32B_ATOM = 1
    SWIZZLE_64B_ATOM = 2
    SWIZZLE_128B_ATOM = 3

    @property
    def span_bytes(self) -> int:
        """Bytes of one row of the swizzle atom (16 without a swizzle: one core-matrix row)."""
        return 16 << self.value

    @staticmethod
    def of(mode: Any) -> SwizzleMode:
        """From a SwizzleMode, its number, or a name: ``"128B"``, ``"none"``; LayoutError otherwise."""
        if isinstance(mode, SwizzleMode):
            return mode
        names = {"none": 0, "32b": 1, "64b": 2, "128b": 3}
        key = names.get(mode.lower(), mode) if isinstance(mode, str) else getattr(mode, "value", mode)
        if key in (0, 1, 2, 3) and not isinstance(key, bool):
            return SwizzleMode(key)
        raise LayoutError(f"unknown swizzle mode {mode!r}", hint="0 to 3, 'none', '32B', '64B' or '128B'")


def _bits(dtype: Any) -> int:
    kind, bits, lanes = dt.parse(dt.normalize(dtype))
    if kind in ("handle", "void") or bits * lanes not in (4, 8, 16, 32, 64, 128):
        raise LayoutError(f"a shared-memory operand can't have elements of {dtype}", hint="4, 8, 16 or 32 bits")
    return bits * lanes


def swizzle_for(dtype: Any, mode: Any) -> SwizzleLayout:
    """The swizzle of a mode on *elements*: 16-byte cells XORed by the row within 8, M = log2(16 bytes / element)."""
    per_element = (128 // _bits(dtype)).bit_length() - 1
    return SwizzleLayout(per_element, SwizzleMode.of(mode).value, 3)


def mma_atom_shape(dtype: Any, swizzle_mode: Any, shape: Sequence[int] | None = None) -> tuple[int, ...]:
    """(8 rows, elements of one span) of the swizzle atom, with leading 1s up to the rank of ``shape``."""
    atom = (8, SwizzleMode.of(swizzle_mode).span_bytes * 8 // _bits(dtype))
    return atom if shape is None else (1,) * (len(shape) - 2) + atom


def mma_atom_layout(dtype: Any, swizzle_mode: Any) -> ComposeLayout:
    """One swizzle atom: 8 rows of the span, swizzled."""
    rows, columns = mma_atom_shape(dtype, swizzle_mode)
    return ComposeLayout(swizzle_for(dtype, swizzle_mode), TileLayout((Iter(rows * columns, 1),)))


def mma_shared_layout(dtype: Any, swizzle_mode: Any, shape: Sequence[Any]) -> ComposeLayout | TileLayout:
    """The K-major shared-memory layout of an operand of ``shape`` (…, rows, K) for ``tcgen05.mma`` and TMA.

    Atoms of 8 rows x span follow each other along the rows first, then along K; leading dimensions (stages) are
    outermost.  Without a swizzle: core matrices of 8 rows x 16 bytes in the same order.  K must be a multiple of the
    span; rows a multiple of 8 unless one span covers K.  LayoutError names the extent at fault.
    """
    if len(shape) < 2:
        raise LayoutError(f"mma_shared_layout needs at least (rows, K), got the shape {tuple(shape)}")
    mode = SwizzleMode.of(swizzle_mode)
    dims = [as_value(e, "an extent of the shape") for e in shape]
    rows, depth = dims[-2], dims[-1]
    _, span = mma_atom_shape(dtype, mode)
    atoms = exact_div(depth, span)
    if atoms is None:
        raise LayoutError(
            f"mma_shared_layout: K = {depth} isn't a multiple of {span} elements "
            f"({mode.span_bytes} bytes of {dtype}, mode {mode.name})"
        )
    if isinstance(rows, int) and rows % 8 and atoms != 1:
        raise LayoutError(f"mma_shared_layout: {rows} rows isn't a multiple of 8, and K = {depth} needs {atoms} atoms")
    iters = [Iter(rows, span), Iter(atoms, mul(rows, span)), Iter(span, 1)]
    stages = prod(dims[:-2])
    if stages != 1:
        iters.insert(0, Iter(stages, mul(rows, depth)))
    if atoms == 1:
        iters = [i for i in iters if i.extent != 1 or len(iters) == 1]
    made = TileLayout(tuple(iters))
    plain = made.canonicalize()
    tile = plain if isinstance(plain, TileLayout) else made
    if mode is SwizzleMode.SWIZZLE_NONE:
        return tile
    return ComposeLayout(swizzle_for(dtype, mode), tile)


def mma_padded_layout(swizzle_mode: Any, shape: Sequence[Any]) -> ComposeLayout | TileLayout:
    """The K-major shared-memory layout of 4-bit elements beside operands of 8 bits, of ``shape`` (…, rows, K).

    As :func:`mma_shared_layout` of bytes, but 16 elements are packed in 8 of every 16 bytes (PTX ISA 9.7.16.10.4, packing
    formats for ``kind::f8f6f4`` and ``kind::mxf8f6f4``); a tensor copy of ``.b4x16_p64`` makes such tiles.  A buffer with it
    takes a byte for each element.  LayoutError names the extent at fault.
    """
    if len(shape) < 2:
        raise LayoutError(f"mma_padded_layout needs at least (rows, K), got the shape {tuple(shape)}")
    mode = SwizzleMode.of(swizzle_mode)
    dims = [as_value(e, "an extent of the shape") for e in shape]
    rows, depth = dims[-2], dims[-1]
    _, span = mma_atom_shape("uint8", mode)
    atoms = exact_div(depth, span)
    if atoms is None:
        raise LayoutError(f"mma_padded_layout: K = {depth} isn't a multiple of {span} elements (mode {mode.name})")
    if isinstance(rows, int) and rows % 8 and atoms != 1:
        raise LayoutError(f"mma_padded_layout: {rows} rows isn't a multiple of 8, and K = {depth} needs {atoms} atoms")
    iters = [Iter(prod(dims[:-2]), mul(2 * depth, rows)), Iter(rows, 2 * span), Iter(atoms, mul(2 * span, rows))]
    iters += [Iter(span // 16, 32), Iter(16, 1)]  # strides in elements, of which a byte has two
    tile = TileLayout(tuple(i for i in iters if i.extent != 1))
    return tile if mode is SwizzleMode.SWIZZLE_NONE else ComposeLayout(swizzle_for("float4_e2m1fn", mode), tile)


# -- tensor memory ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def container_shift(dtype: str, layout: Layout, shape: tuple[int, ...]) -> int:
    """Bits from where a layout counts an element in tensor memory to the element's lowest bit.

    That is 0, but for elements of 4 bits to which the layout of a buffer of ``shape`` gives a byte each (a step of 2 along
    TCol): they are in the central bits of the byte, 2 to 5, the others are zero, as the tensor core reads A beside operands
    of 8 bits (PTX ISA 9.7.16.10.4.3, a figure; its text on ``mma``, 9.7.14.5, has it for the same kinds in words).
    """
    if dt.storage_bits(dtype) != 4:
        return 0
    columns = np.unique(layout.evaluate(np.arange(math.prod(shape))).get("TCol", np.zeros(1, dtype=np.int64)))
    return 2 if len(columns) > 1 and not (columns % 2).any() and int(np.diff(columns).min()) == 2 else 0


@dataclass(frozen=True)
class Datapath:
    """Where row r, column c of an accumulator is: ``rows`` rows, columns cut into ``column_groups`` groups.

    ``row_iters`` are (extent, lane stride); each group of columns is ``group_lanes`` lanes further.  ``sub_slabs`` is
    the number of places (16 lanes apart) at which a second accumulator fits.
    """

    rows: int
    row_iters: tuple[tuple[int, int], ...]
    column_groups: int = 1
    group_lanes: int = 0
    sub_slabs: int = 1
    doc: str = ""


_FULL = ((128, 1),)
_HALF = ((64, 1),)
_QUARTERS = ((4, 32), (16, 1))

#: The data-path layouts A to G of tcgen05, per CTA.
DATAPATHS: dict[str, Datapath] = {
    "A": Datapath(128, _FULL, doc="M = 256, pair of CTAs"),
    "B": Datapath(64, _HALF, 2, 64, doc="M = 128, pair of CTAs, dense"),
    "C": Datapath(64, _QUARTERS, sub_slabs=2, doc="M = 128, pair of CTAs, sparse"),
    "D": Datapath(128, _FULL, doc="M = 128"),
    "E": Datapath(64, _HALF, 2, 64, doc="M = 64, .ws"),
    "F": Datapath(64, _QUARTERS, sub_slabs=2, doc="M = 64"),
    "G": Datapath(32, ((32, 1),), 4, 32, doc="M = 32, .ws"),
}


def tmem_datapath_layout(datapath: str, rows: int, cols: Any, sub_slab: int = 0) -> TileLayout:
    """The tensor-memory layout (TLane, TCol) of a ``rows`` x ``cols`` accumulator in data path ``datapath`` (A to G).

    ``sub_slab`` 1 uses the lanes 16 further on (C and F only).  LayoutError names the condition that fails.
    """
    row = DATAPATHS.get(datapath)
    if row is None:
        raise LayoutError(f"unknown data path '{datapath}'", hint=f"one of {', '.join(DATAPATHS)}")
    if as_value(rows) != row.rows:
        raise LayoutError(f"tmem_datapath_layout: data path {datapath} ({row.doc}) has {row.rows} rows, got {rows}")
    if sub_slab not in range(row.sub_slabs):
        allowed = "0 or 1" if row.sub_slabs == 2 else "0"
        raise LayoutError(f"tmem_datapath_layout: sub_slab of data path {datapath} must be {allowed}, got {sub_slab}")
    columns = as_value(cols, "cols")
    width = exact_div(columns, row.column_groups)
    if width is None:
        raise LayoutError(
            f"tmem_datapath_layout: {cols} columns aren't a multiple of {row.column_groups} (data path {datapath})"
        )
    iters = [Iter(e, s, TLane) for e, s in row.row_iters]
    if row.column_groups > 1:
        iters.append(Iter(row.column_groups, row.group_lanes, TLane))
    iters.append(Iter(width, 1, TCol))
    return TileLayout(tuple(iters), (), {TLane: 16 * sub_slab} if sub_slab else {})


# -- register images of tcgen05.ld and tcgen05.st --------------------------------------------------------------------


@dataclass(frozen=True)
class LoadAtom:
    """How one ``tcgen05.ld``/``st`` shape spreads lanes and 32-bit columns over threads and registers.

    ``rows`` and ``columns`` are digits, outermost first, each (extent, lane-id stride, register stride): a digit moves
    along the thread or along the registers.  ``width`` is the number of 32-bit columns of ``.x1``; it has ``registers``
    registers per thread.  ``repeats`` are the legal ``.xN``.
    """

    lanes: int
    width: int
    registers: int
    rows: tuple[tuple[int, int, int], ...]
    columns: tuple[tuple[int, int, int], ...]
    repeats: tuple[int, ...]


_UP_TO_128 = (1, 2, 4, 8, 16, 32, 64, 128)

#: PTX ISA, "tcgen05.ld": matrix fragments for shapes .16x64b, .16x128b, .16x256b and .32x32b.
LOAD_ATOMS: dict[str, LoadAtom] = {
    "32x32b": LoadAtom(32, 1, 1, ((32, 1, 0),), (), _UP_TO_128),
    "16x64b": LoadAtom(16, 2, 1, ((2, 1, 0), (8, 4, 0)), ((2, 2, 0),), _UP_TO_128),
    "16x128b": LoadAtom(16, 4, 2, ((2, 0, 1), (8, 4, 0)), ((4, 1, 0),), _UP_TO_128[:-1]),
    "16x256b": LoadAtom(16, 8, 4, ((2, 0, 2), (8, 4, 0)), ((4, 1, 0), (2, 0, 1)), _UP_TO_128[:-2]),
}


def tcgen05_atom_layout(instr_shape: str, tensor_shape: Sequence[int], dtype: Any) -> TileLayout:
    """The register layout that ``tcgen05.ld.<instr_shape>.xN`` gives a warpgroup for a (rows, columns) tile.

    Axes: ``wid_in_wg``, ``laneid`` (``tid_in_wg`` for 32x32b) and ``m``, the element within the thread's registers.
    rows is 64 or 128: the 16-lane shapes are issued twice for 128 rows (data path D), once for 64 (data path F); 32x32b
    of 64 rows is data path B or E.  16-bit elements are packed two to a register.  LayoutError names what isn't legal.
    """
    atom = LOAD_ATOMS.get(instr_shape)
    if atom is None:
        raise LayoutError(f"unknown tcgen05.ld shape '{instr_shape}'", hint=f"one of {', '.join(LOAD_ATOMS)}")
    rows, cols = (int(e) for e in tensor_shape)
    bits = _bits(dtype)
    if bits not in (16, 32):
        raise LayoutError(f"tcgen05_atom_layout: elements must have 16 or 32 bits, {dtype} has {bits}")
    if rows not in (64, 128):
        raise LayoutError(f"tcgen05_atom_layout: {instr_shape} needs 64 or 128 rows, got {rows}")
    packed = 32 // bits
    if instr_shape == "32x32b":
        return _whole_lanes(atom, rows, cols, packed)
    if cols % (atom.width * packed) or (repeat := cols // (atom.width * packed)) not in atom.repeats:
        legal = "one of " + ", ".join(str(atom.width * packed * r) for r in atom.repeats)
        raise LayoutError(f"tcgen05_atom_layout: {instr_shape} of {dtype} can't have {cols} columns", hint=legal)
    registers = repeat * atom.registers * packed
    iters = [Iter(4, 1, wid_in_wg)]
    if rows == 128:
        iters.append(Iter(2, registers))
    iters.extend(_digit(d, packed) for d in atom.rows)
    iters.append(Iter(repeat, atom.registers * packed))
    iters.extend(_digit(d, packed) for d in atom.columns)
    if packed > 1:
        iters.append(Iter(packed, 1))
    return TileLayout(tuple(iters))


def _digit(digit: tuple[int, int, int], packed: int) -> Iter:
    extent, lane, register = digit
    return Iter(extent, lane, laneid) if lane else Iter(extent, register * packed, m)


def _whole_lanes(atom: LoadAtom, rows: int, cols: int, packed: int) -> TileLayout:
    groups = 128 // rows
    if cols % (groups * packed) or cols // (groups * packed) not in atom.repeats:
        legal = "one of " + ", ".join(str(groups * packed * r) for r in atom.repeats)
        raise LayoutError(f"tcgen05_atom_layout: 32x32b of {rows} rows can't have {cols} columns", hint=legal)
    iters = [Iter(rows, 1, tid_in_wg), Iter(cols // groups, 1)]
    if groups > 1:
        iters.insert(1, Iter(groups, rows, tid_in_wg))
    return TileLayout(tuple(iters))


def wg_local_layout(cols: Any, rows: int = 128) -> TileLayout:
    """Registers of a warpgroup: thread r holds row r, ``cols`` elements."""
    return TileLayout((Iter(rows, 1, tid_in_wg), Iter(as_value(cols), 1)))


# -- matrix operands in tensor memory --------------------------------------------------------------------------------

#: (M, CTAs of the group, weight stationary, sparse) -> data path.
_DATAPATH_OF: dict[tuple[int, int, bool, bool], str] = {
    (256, 2, False, False): "A", (256, 2, False, True): "A",
    (128, 2, False, False): "B", (128, 2, False, True): "C",
    (128, 1, False, False): "D", (128, 1, False, True): "D", (128, 1, True, False): "D", (128, 1, True, True): "D",
    (64, 1, True, False): "E", (64, 1, True, True): "E",
    (64, 1, False, False): "F", (64, 1, False, True): "F",
    (32, 1, True, False): "G", (32, 1, True, True): "G",
}  # fmt: skip


def datapath_of(M: int, cta_group: int = 1, *, ws: bool = False, sparse: bool = False) -> str:
    """The letter of the data path of an MMA; LayoutError if there is no such MMA."""
    letter = _DATAPATH_OF.get((M, cta_group, ws, sparse))
    if letter is None:
        flavour = " ws" * ws + " sparse" * sparse
        raise LayoutError(f"there is no tcgen05.mma with M = {M} and cta_group {cta_group}{flavour}")
    return letter


def tmem_mma_operand_layout(
    operand: str, shape: Sequence[Any], dtype: Any, *, M: int, cta_group: int, ws: bool = False, sparse: bool = False
) -> TileLayout:
    """The tensor-memory layout of operand ``"A"`` or accumulator ``"D"`` of a ``tcgen05.mma``, per CTA.

    ``shape`` is (rows of this CTA, columns); for data paths B and E also (2, 64, columns), a half per group of 64 lanes.
    A keeps rows on lanes and K on columns; in data path B both halves of the lanes need it, so it has a copy 64 lanes on.
    LayoutError names the condition that fails.
    """
    _bits(dtype)
    if operand not in ("A", "D"):
        raise LayoutError(f"tmem_mma_operand_layout: the operand must be A or D, got '{operand}'")
    letter = datapath_of(M, cta_group, ws=ws, sparse=sparse)
    row = DATAPATHS[letter]
    dims = [as_value(e, "an extent of the shape") for e in shape]
    banked = len(dims) == 3 and dims[:2] == [2, 64] and letter in "BE"
    if not banked and (len(dims) != 2 or dims[0] != row.rows):
        raise LayoutError(
            f"tmem_mma_operand_layout: data path {letter} ({row.doc}) needs the shape ({row.rows}, columns)"
            f"{' or (2, 64, columns)' if letter in 'BE' else ''}, got {tuple(dims)}"
        )
    whole = TileLayout((Iter(128 if banked else row.rows, 1, TLane), Iter(dims[-1], 1, TCol)))
    if banked:
        return whole
    if operand == "D":
        return tmem_datapath_layout(letter, row.rows, dims[-1])
    if letter == "C":
        raise LayoutError("tmem_mma_operand_layout: a sparse A in data path C isn't placed in tensor memory here")
    if letter == "E":
        raise LayoutError("tmem_mma_operand_layout: A in data path E needs the shape (2, 64, K): its halves differ")
    copies = (Iter(2, 64, TLane),) if letter == "B" else ()
    return TileLayout(whole.shard, copies)


def scale_factor_layout(rows: Any, factors: int) -> TileLayout:
    """Block-scale factors in tensor memory as ``tcgen05.mma.block_scale`` reads them, 8-bit elements.

    Row r is at lane r % 32 in each of the four 32-lane quarters (a replica), rows 32 apart in successive 32-bit
    columns, ``factors`` (at most 4) bytes in one.  TCol counts bytes.
    """
    groups = exact_div(as_value(rows), 32)
    if groups is None:
        raise LayoutError(f"scale_factor_layout: {rows} rows isn't a multiple of 32")
    if factors not in (1, 2, 4):
        raise LayoutError(f"scale_factor_layout: a column holds 1, 2 or 4 factors, got {factors}")
    return TileLayout((Iter(groups, 4, TCol), Iter(32, 1, TLane), Iter(factors, 1, TCol)), (Iter(4, 32, TLane),))


def swizzle_mode_of(layout: Any, dtype: Any) -> SwizzleMode | None:
    """The hardware mode of a layout's swizzle for elements of ``dtype``; None if its swizzle is no hardware mode."""
    if isinstance(layout, TileLayout):
        return SwizzleMode.SWIZZLE_NONE
    swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else layout
    if not isinstance(swizzle, SwizzleLayout):
        return None
    if swizzle.swizzle_len == 0:
        return SwizzleMode.SWIZZLE_NONE
    for mode in SwizzleMode:
        if swizzle == swizzle_for(dtype, mode):
            return mode
    return None


def tmem_columns(layout: TileLayout, dtype: Any) -> Value:
    """32-bit tensor-memory columns that a layout's TCol axis spans, rounded up."""
    per = 32 // _bits(dtype)
    span = layout.span("TCol")
    return div(as_value(span + per - 1), per)
