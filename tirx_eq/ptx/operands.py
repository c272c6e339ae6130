"""Values that stand in operand positions: registers, immediates, addresses, symbols, vectors, the sink.

All are frozen; ``str`` of one is its PTX spelling.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from tirx_eq.errors import PtxError
from tirx_eq.ptx.syntax import TYPE_BITS

#: Register classes and the prefix of their names, as nvcc spells them.
REGISTER_PREFIX = {
    "pred": "%p", "b8": "%rb", "b16": "%rs", "b32": "%r", "b64": "%rd", "f32": "%f", "f64": "%fd", "b128": "%rq",
}  # fmt: skip


@dataclass(frozen=True)
class Reg:
    """A virtual register; ``type`` is one of ``REGISTER_PREFIX``."""

    type: str
    index: int

    def __str__(self) -> str:
        return f"{REGISTER_PREFIX[self.type]}{self.index}"

    def __invert__(self) -> Not:
        """The negated predicate ``!%p``."""
        if self.type != "pred":
            raise PtxError(f"{self}: only a predicate can be negated, this is a {self.type} register")
        return Not(self)


@dataclass(frozen=True)
class Not:
    """A negated predicate register."""

    reg: Reg

    def __str__(self) -> str:
        return f"!{self.reg}"

    def __invert__(self) -> Reg:
        return self.reg


@dataclass(frozen=True)
class Imm:
    """An immediate; a Python ``int`` or ``float`` in an operand list means ``Imm`` of it.

    ``hex`` forces hexadecimal spelling of an integer.
    """

    value: int | float
    hex: bool = False

    def spell(self, type_: str) -> str:
        """Its spelling as an operand of PTX type ``type_``; floats are written bit-exactly (0f…, 0d…)."""
        if isinstance(self.value, float):
            if TYPE_BITS.get(type_) == 64:
                return f"0d{struct.unpack('>Q', struct.pack('>d', self.value))[0]:016X}"
            try:
                return f"0f{struct.unpack('>I', struct.pack('>f', self.value))[0]:08X}"
            except OverflowError:
                raise PtxError(f"immediate {self.value!r} does not fit into f32") from None
        if self.hex or self.value >= 1 << 16:
            return f"{self.value:#x}"
        return str(self.value)

    def __str__(self) -> str:
        return self.spell("f32" if isinstance(self.value, float) else "b32")


@dataclass(frozen=True)
class Symbol:
    """A variable, parameter or array in a state space ("shared", "param", "const", "global").

    ``bytes`` is its size (0 for an extern array of unknown size), ``align`` its alignment, both in bytes.
    """

    name: str
    space: str
    bytes: int = 0
    align: int = 4

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Special:
    """A special register; ``bits`` is its width."""

    name: str
    bits: int = 32

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Address:
    """``[base+offset]``; ``offset`` in bytes (columns and lanes for tensor memory)."""

    base: Reg | Symbol | Imm
    offset: int = 0

    def __str__(self) -> str:
        if not self.offset:
            return f"[{self.base}]"
        return f"[{self.base}+{self.offset}]"  # ptxas wants +-8, not -8


@dataclass(frozen=True)
class Vec:
    """``{a, b, …}``: the elements of a vector operand."""

    items: tuple[Operandish, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(str(i) for i in self.items) + "}"


@dataclass(frozen=True)
class Pair:
    """``d|p``: two destinations in one operand position."""

    first: Reg | Sink
    second: Reg | Sink

    def __str__(self) -> str:
        return f"{self.first}|{self.second}"


@dataclass(frozen=True)
class TensorAddress:
    """``[map, {c0, c1, …}]``: a tensor map (its generic address) and coordinates in elements, innermost first."""

    map: Reg | Symbol
    coords: tuple[Reg | Imm, ...]

    def __str__(self) -> str:
        return f"[{self.map}, {{{', '.join(str(c) for c in self.coords)}}}]"


@dataclass(frozen=True)
class Label:
    """A branch target of one kernel."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Sink:
    """``_``: the result is not wanted."""

    def __str__(self) -> str:
        return "_"


#: The one sink.
SINK = Sink()

Operandish = Reg | Not | Imm | Symbol | Special | Address | Vec | Pair | TensorAddress | Label | Sink | int | float


def addr(base: Reg | Symbol | int, offset: int = 0) -> Address:
    """``[base+offset]``."""
    return Address(Imm(base) if isinstance(base, int) else base, offset)


def vec(items: Iterable[Operandish]) -> Vec:
    """``{items…}``."""
    return Vec(tuple(items))


def tensor(map_: Reg | Symbol, coords: Iterable[Reg | Imm | int]) -> TensorAddress:
    """``[map, {coords…}]``, coordinates in elements, innermost dimension first."""
    return TensorAddress(map_, tuple(Imm(c) if isinstance(c, int) else c for c in coords))


def _specials() -> dict[str, Special]:
    out = [Special(f"%{base}.{axis}") for base in
           ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
           for axis in "xyz"]  # fmt: skip
    out += [Special(f"%{n}") for n in
            ("laneid", "warpid", "nwarpid", "smid", "nsmid", "cluster_ctarank", "cluster_nctarank", "clock", "clock_hi",
             "globaltimer_lo", "globaltimer_hi", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge",
             "lanemask_gt",
             "dynamic_smem_size", "total_smem_size", "aggr_smem_size", "reserved_smem_offset_begin",
             "reserved_smem_offset_end")]  # fmt: skip
    out += [Special("%clock64", 64), Special("%globaltimer", 64), Special("%gridid", 64),
            Special("%current_graph_exec", 64), Special("%is_explicit_cluster", 1)]  # fmt: skip
    return {s.name: s for s in out}


#: Special registers by name (PTX ISA 10), with their widths.
SPECIALS: dict[str, Special] = _specials()


def special(name: str) -> Special:
    """The special register called ``name``, with or without the percent sign; ``PtxError`` if there is none."""
    found = SPECIALS.get(name if name.startswith("%") else "%" + name)
    if found is None:
        raise PtxError(f"unknown special register '{name}'", hint="known: " + ", ".join(SPECIALS))
    return found
