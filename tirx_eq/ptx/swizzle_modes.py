"""The shared-memory swizzles that matrix descriptors and tensor maps name, as one table.

A swizzle exclusive-ors some address bits into others.  It acts on the absolute shared byte address, in the tensor copy
engine and in the tensor core alike, so a tile written with one mode is read back with the same mode.
"""

from __future__ import annotations

from dataclasses import dataclass

from tirx_eq.errors import PtxError


@dataclass(frozen=True)
class SwizzleMode:
    """One mode.

    ``code``: bits 61-63 of the matrix descriptor (PTX ISA 9.7.16.4); ``tensor_map_code``: CUtensorMapSwizzle.
    ``span``: bytes of one row of an atom (0 if the mode has none); ``pattern``: bytes after which the pattern
    repeats, and to which a tile is aligned; ``rows``: rows of an atom.  The swizzle is ``x ^ ((x >> shift) & mask)``.
    """

    name: str
    code: int
    tensor_map_code: int
    span: int
    pattern: int
    rows: int
    shift: int
    mask: int

    def apply(self, address: int) -> int:
        """The swizzled byte address (works on integer arrays too)."""
        return address ^ ((address >> self.shift) & self.mask)


#: Modes by name.  "128B_ATOM_32B" moves 32-byte units and is for MN-major operands of 32-bit elements.
SWIZZLES: dict[str, SwizzleMode] = {
    m.name: m
    for m in (
        SwizzleMode("none", 0, 0, 0, 16, 8, 3, 0x00),
        SwizzleMode("128B_ATOM_32B", 1, 4, 128, 512, 4, 2, 0x60),
        SwizzleMode("128B", 2, 3, 128, 1024, 8, 3, 0x70),
        SwizzleMode("64B", 4, 2, 64, 512, 8, 3, 0x30),
        SwizzleMode("32B", 6, 1, 32, 256, 8, 3, 0x10),
    )
}


def swizzle_mode(name: str) -> SwizzleMode:
    """The mode called ``name``; raises ``PtxError`` if there is none."""
    mode = SWIZZLES.get(name)
    if mode is None:
        raise PtxError(f"unknown swizzle mode '{name}'", hint="modes: " + ", ".join(SWIZZLES))
    return mode


def swizzle_of_code(code: int) -> SwizzleMode:
    """The mode with matrix descriptor code ``code``; raises ``PtxError`` for 3, 5 and 7."""
    for mode in SWIZZLES.values():
        if mode.code == code:
            return mode
    raise PtxError(f"matrix descriptor: swizzle code {code} is not defined")
