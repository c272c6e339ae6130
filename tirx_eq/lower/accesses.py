"""Loads and stores by width, as a table."""

from __future__ import annotations

#: bytes of an access -> (PTX type suffix, words); words of 32 bits.  PTX ISA: ld, st (.v8 global only, PTX 8.8).
ACCESS = {32: ("v8.b32", 8), 16: ("v4.b32", 4), 8: ("v2.b32", 2), 4: ("b32", 1), 2: ("u16", 1), 1: ("u8", 1)}


def access(verb: str, space: str, width: int) -> str:
    """``ld.global.v4.b32`` and the like."""
    return f"{verb}.{space}.{ACCESS[width][0]}"
