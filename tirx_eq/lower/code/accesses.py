"""Loads and stores by width, as a table."""

from __future__ import annotations

#: bytes of an access -> (PTX type suffix, words); words of 32 bits.  PTX ISA: ld, st (.v8 global only, PTX 8.8).
ACCESS = {32: ("v8.b32", 8), 16: ("v4.b32", 4), 8: ("v2.b32", 2), 4: ("b32", 1), 2: ("u16", 1), 1: ("u8", 1)}
#: The same for registers of 64 bits (.v4.b64 global only, PTX 8.8).
ACCESS_64 = {32: ("v4.b64", 4), 16: ("v2.b64", 2), 8: ("b64", 1)}
_WIDTHS = {suffix: width for table in (ACCESS, ACCESS_64) for width, (suffix, _) in table.items()}


def state_space(space: str) -> str:
    """The PTX state space of a root's space: its name, but for shared memory of any CTA of the cluster and that of a thread."""
    return {"cluster": "shared::cluster", "stack": "local"}.get(space, space)


def access(verb: str, space: str, width: int, word_bits: int = 32) -> str:
    """``ld.global.v4.b32`` and the like, for ``width`` bytes in registers of ``word_bits`` bits."""
    table = ACCESS_64 if word_bits == 64 and width >= 8 else ACCESS
    return f"{verb}.{state_space(space)}.{table[width][0]}"


def access_bytes(opcode: str) -> int:
    """Bytes that a load or store of the tables moves."""
    return _WIDTHS[opcode.rpartition("bytes.")[2] if ".async." in opcode else opcode.split(".", 2)[2]]
