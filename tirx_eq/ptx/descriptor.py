"""Matrix descriptors (64 bits) of operands in shared memory, and where each element then lies.

All distances are in bytes.  The descriptor's fields count units of 16 bytes, so a distance that is not a multiple of 16
is an error, never a silent shift.  Instruction descriptors are in ``idesc``, and are re-exported here.

Layout of the 64 bits (PTX ISA 9.7.16.4.1): 0-13 start, 16-29 leading byte offset (LBO), 32-45 stride byte offset (SBO),
46-48 constant 0b001, 49-51 base offset, 52 LBO mode, 61-63 swizzle mode.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tirx_eq.errors import PtxError
from tirx_eq.ptx.idesc import (
    MMA_K,
    BlockScaledDescriptor,
    InstructionDescriptor,
    decode_instruction_descriptor,
)
from tirx_eq.ptx.swizzle_modes import SWIZZLES, SwizzleMode, swizzle_mode, swizzle_of_code

__all__ = [
    "MMA_K",
    "SWIZZLES",
    "BlockScaledDescriptor",
    "InstructionDescriptor",
    "MatrixDescriptor",
    "SwizzleMode",
    "decode_instruction_descriptor",
    "element_address",
    "element_offset",
    "k_advance",
    "swizzle_mode",
]

#: Shared addresses and distances have 18 significant bits.
_LIMIT = 1 << 18
_CONSTANT = 0b001 << 46
_RESERVED = (0b11 << 14) | (0b11 << 30) | (0xFF << 53)


def _units(what: str, value: int) -> int:
    """``value`` bytes in units of 16; raises ``PtxError`` if that is not exact or does not fit 14 bits."""
    if value % 16:
        raise PtxError(f"matrix descriptor: {what} of {value} bytes is not a multiple of 16 bytes")
    if not 0 <= value < _LIMIT:
        raise PtxError(f"matrix descriptor: {what} of {value} bytes is outside 0..{_LIMIT - 16}")
    return value >> 4


@dataclass(frozen=True)
class MatrixDescriptor:
    """A matrix descriptor, in bytes.

    ``start``: shared address of the tile; ``lbo``: leading byte offset (16 where the mode ignores it);
    ``sbo``: stride byte offset; ``swizzle``: key of ``SWIZZLES``; ``base_offset``: 0 for tiles aligned to the swizzle
    pattern, else ``(start of pattern >> 7) & 7``; ``lbo_absolute``: bit 52, sm_103a only.
    """

    start: int
    lbo: int
    sbo: int
    swizzle: str = "128B"
    base_offset: int = 0
    lbo_absolute: bool = False

    def __post_init__(self) -> None:
        swizzle_mode(self.swizzle)
        _units("start address", self.start)
        _units("leading byte offset", self.lbo)
        _units("stride byte offset", self.sbo)
        if not 0 <= self.base_offset < 8:
            raise PtxError(f"matrix descriptor: base offset {self.base_offset} is outside 0..7")

    def encode(self) -> int:
        """The 64-bit value."""
        return (
            _units("start address", self.start)
            | _units("leading byte offset", self.lbo) << 16
            | _units("stride byte offset", self.sbo) << 32
            | _CONSTANT
            | self.base_offset << 49
            | int(self.lbo_absolute) << 52
            | swizzle_mode(self.swizzle).code << 61
        )

    @staticmethod
    def decode(value: int) -> MatrixDescriptor:
        """The fields of ``value``; raises ``PtxError`` if reserved bits, the constant or the mode are wrong."""
        if not 0 <= value < 1 << 64:
            raise PtxError(f"matrix descriptor: {value:#x} does not fit 64 bits")
        if value & _RESERVED:
            raise PtxError(f"matrix descriptor {value:#018x}: reserved bits {value & _RESERVED:#x} are set")
        if (value >> 46) & 0b111 != 0b001:
            raise PtxError(f"matrix descriptor {value:#018x}: bits 46-48 are {(value >> 46) & 7:#05b}, not 0b001")
        return MatrixDescriptor(
            start=(value & 0x3FFF) << 4,
            lbo=(value >> 16 & 0x3FFF) << 4,
            sbo=(value >> 32 & 0x3FFF) << 4,
            swizzle=swizzle_of_code(value >> 61).name,
            base_offset=value >> 49 & 7,
            lbo_absolute=bool(value >> 52 & 1),
        )

    @property
    def template(self) -> int:
        """The value with start address 0: what code adds ``start >> 4`` to at run time."""
        return replace(self, start=0).encode()

    def advance(self, nbytes: int) -> MatrixDescriptor:
        """The descriptor whose start is ``nbytes`` further on; the field moves by ``nbytes / 16``."""
        if nbytes % 16:
            raise PtxError(f"matrix descriptor: an advance of {nbytes} bytes is not a multiple of 16 bytes")
        return replace(self, start=self.start + nbytes)

    def advance_elements(self, elements: int, bits: int) -> MatrixDescriptor:
        """The descriptor moved by ``elements`` elements of ``bits`` bits each."""
        if elements * bits % 128:
            raise PtxError(
                f"matrix descriptor: an advance of {elements} elements of {bits} bits is not a multiple of 16 bytes"
            )
        return self.advance(elements * bits // 8)

    def check_alignment(self) -> None:
        """Raise ``PtxError`` unless the start of a tile is aligned to the swizzle pattern (base offset 0).

        Only the start of a tile has to be: an advance along K inside an atom leaves the pattern where it is.
        """
        pattern = swizzle_mode(self.swizzle).pattern
        if self.base_offset == 0 and self.start % pattern:
            raise PtxError(
                f"matrix descriptor: tile at {self.start:#x} is not aligned to the {pattern}-byte pattern of "
                f"swizzle {self.swizzle}"
            )


def element_offset(major: str, swizzle: str, lbo: int, sbo: int, bits: int, row: int, k: int) -> int:
    """Byte offset, before the swizzle, of element (``row``, ``k``) from the descriptor's start address.

    ``row`` runs along M or N, ``k`` along K from the start of this MMA; ``bits`` is the size of an element in
    shared memory (8 for padded fp4 and fp6).  ``major`` is "K" (K contiguous) or "MN".  For 4-bit elements the
    offset is of the byte. Canonical layouts of PTX ISA 9.7.16.4.  Works on integer arrays too.
    """
    mode = swizzle_mode(swizzle)
    span = mode.span
    if major == "K":
        kb = k * bits // 8
        if mode.name == "none":
            return (row % 8) * 16 + (row // 8) * sbo + (kb // 16) * lbo + kb % 16
        if mode.name == "128B_ATOM_32B":
            raise PtxError("matrix layout: swizzle 128B_ATOM_32B is for MN-major operands only")
        return (row % 8) * span + (row // 8) * sbo + kb
    if major != "MN":
        raise PtxError(f"matrix layout: major '{major}' is neither 'K' nor 'MN'")
    ib = row * bits // 8
    if mode.name == "none":
        return ib % 16 + (ib // 16) * sbo + (k % 8) * 16 + (k // 8) * lbo
    return ib % span + (ib // span) * lbo + (k % mode.rows) * span + (k // mode.rows) * sbo


def element_address(descriptor: MatrixDescriptor, major: str, bits: int, row: int, k: int) -> int:
    """Absolute shared byte address of element (``row``, ``k``) of the matrix that ``descriptor`` describes."""
    linear = descriptor.start + element_offset(major, descriptor.swizzle, descriptor.lbo, descriptor.sbo, bits, row, k)
    return swizzle_mode(descriptor.swizzle).apply(linear)


def k_advance(major: str, swizzle: str, lbo: int, sbo: int, bits: int, k: int, atom_pitch: int | None = None) -> int:
    """Bytes to add to the start address so that the next MMA begins at element ``k`` along K.

    For K-major swizzled tiles wider than one atom, ``atom_pitch`` is the distance in bytes between atom columns
    (rows times span when they are packed).  Raises ``PtxError`` if the position is not expressible as a multiple of
    16 bytes.
    """
    mode = swizzle_mode(swizzle)
    if k * bits % 8:
        raise PtxError(f"matrix descriptor: K position {k} of {bits}-bit elements is not on a byte boundary")
    if major == "K":
        kb = k * bits // 8
        if mode.name == "none":
            if kb % 16:
                raise PtxError(f"matrix descriptor: K position {k} lies {kb} bytes in, not a multiple of 16 bytes")
            return kb // 16 * lbo
        column, inside = divmod(kb, mode.span)
        if inside % 16:
            raise PtxError(f"matrix descriptor: K position {k} lies {kb} bytes in, not a multiple of 16 bytes")
        if column and atom_pitch is None:
            raise PtxError(
                f"matrix descriptor: K position {k} lies beyond the {mode.span}-byte atom; its pitch is needed"
            )
        return inside + column * (atom_pitch or 0)
    group = 8 if mode.name == "none" else mode.rows
    if k % group:
        raise PtxError(f"matrix descriptor: K position {k} is not a multiple of {group}, the K extent of an atom")
    return k // group * (lbo if mode.name == "none" else sbo)
