"""PTX syntax trees: what the parser makes and the decoder reads.

Operands are resolved as far as names go: a register is an index into the kernel's register list, a label an index
into its instruction list, a variable a name looked up when shared memory is laid out.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reg:
    """A register: ``index`` into ``Function.registers``."""

    index: int
    name: str


@dataclass(frozen=True)
class Imm:
    """A literal.  ``kind`` is ``int``, ``f32`` or ``f64``; float kinds hold the bit pattern in ``value``."""

    value: int
    kind: str = "int"


@dataclass(frozen=True)
class Sym:
    """The address of a variable or parameter plus ``offset`` bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Label:
    name: str
    target: int


@dataclass(frozen=True)
class Special:
    """A special register such as ``%tid.x``."""

    name: str


@dataclass(frozen=True)
class Vec:
    items: tuple[Operand, ...]


@dataclass(frozen=True)
class Mem:
    """``[base + offset]`` with, for tensor maps, coordinates after the comma."""

    base: Operand
    offset: int = 0
    coords: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Pair:
    """``a|b``: two results of one instruction."""

    first: Operand
    second: Operand


@dataclass(frozen=True)
class Not:
    operand: Operand


@dataclass(frozen=True)
class Sink:
    """``_``: a result nobody wants."""


@dataclass(frozen=True)
class Group:
    """``(a, b)``: argument or result list of a call."""

    items: tuple[Operand, ...]


Operand = Reg | Imm | Sym | Label | Special | Vec | Mem | Pair | Not | Sink | Group


@dataclass(frozen=True)
class Instr:
    """One instruction.  ``parts`` is the opcode split at its dots; ``line`` counts from 1.

    ``start`` and ``end`` are offsets into the module's text, the semicolon included.
    """

    parts: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: tuple[Reg, bool] | None
    line: int
    start: int = 0
    end: int = 0

    @property
    def opcode(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class Variable:
    """A declared variable; ``size`` in bytes, 0 for ``extern .shared x[]``."""

    name: str
    space: str
    align: int
    type: str
    size: int
    init: tuple[int | float | tuple[str, int], ...] | None = None
    extern: bool = False


@dataclass(frozen=True)
class Register:
    name: str
    type: str


@dataclass
class Function:
    """An ``.entry`` or a ``.func``."""

    name: str
    kernel: bool
    params: list[Variable]
    results: list[Variable] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    body: list[Instr] = field(default_factory=list)
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    defined: bool = True


@dataclass
class Module:
    version: tuple[int, int]
    target: str
    functions: dict[str, Function]
    variables: dict[str, Variable]
    lines: list[str]
