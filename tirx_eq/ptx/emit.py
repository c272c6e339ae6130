"""The instruction stream of one kernel: virtual registers, labels and checked instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirx_eq.errors import PtxError
from tirx_eq.ptx.check import check_operands, length
from tirx_eq.ptx.operands import (
    REGISTER_PREFIX,
    Address,
    Label,
    Not,
    Operandish,
    Pair,
    Reg,
    Symbol,
    TensorAddress,
    Vec,
)
from tirx_eq.ptx.syntax import TYPE_BITS, Match
from tirx_eq.ptx.table import find_all
from tirx_eq.ptx.target import Target, Version

#: Longest line written; longer operand lists are continued on indented lines.
LINE = 118


@dataclass(frozen=True)
class Line:
    """One line of a kernel body: an instruction, a label or a comment."""

    kind: str
    text: str
    opcode: str = ""


class Emitter:
    """Registers and instructions; ``symbols`` maps the names of parameters and shared arrays to their symbols."""

    def __init__(self, target: Target, version: Version) -> None:
        self.target = target
        self.version = version
        self.symbols: dict[str, Symbol] = {}
        self.cta_group: str | None = None
        self._lines: list[Line] = []
        self._counts = dict.fromkeys(REGISTER_PREFIX, 0)
        self._label_names: dict[str, int] = {}
        self._placed: set[str] = set()
        self._used: dict[str, str] = {}

    # -- registers -----------------------------------------------------------------------------------------------

    def reg(self, type: str) -> Reg:
        """A new virtual register: "pred", "b8", "b16", "b32", "b64", "f32", "f64" or "b128" (u/s types mean b)."""
        register = register_class(type)
        index = self._counts[register]
        self._counts[register] += 1
        return Reg(register, index)

    def regs(self, type: str, count: int) -> list[Reg]:
        """``count`` new registers."""
        return [self.reg(type) for _ in range(count)]

    def register_declarations(self) -> list[str]:
        """``.reg`` lines sized to use."""
        return [
            f"    .reg .{type_:<4} {prefix}<{self._counts[type_]}>;"
            for type_, prefix in REGISTER_PREFIX.items()
            if self._counts[type_]
        ]

    # -- instructions --------------------------------------------------------------------------------------------

    def emit(
        self,
        opcode: str,
        *operands: Operandish | Sequence[Operandish],
        pred: Reg | Not | None = None,
        comment: str = "",
    ) -> None:
        """Append one instruction, checked against the table for this target and version.

        A list in ``operands`` is a vector.  ``pred`` guards the instruction.  Raises ``PtxError`` naming the
        instruction, the operand and the rule it breaks.
        """
        values = [_as_operand(o) for o in operands]
        match, spelled = self._resolve(opcode, values)
        for value in values:
            self._check_registers(opcode, value)
        if pred is not None:
            bare = pred.reg if isinstance(pred, Not) else pred
            if bare.type != "pred":
                raise PtxError(f"{opcode}: the guard {bare} is a {bare.type} register, a predicate is needed")
            self._check_registers(opcode, bare)
        self._check_cta_group(match)
        for value in values:
            if isinstance(value, Label):
                self._used.setdefault(value.name, opcode)
        guard = f"@{pred} " if pred is not None else ""
        text = f"{guard}{opcode}" + (" " + ", ".join(spelled) if spelled else "") + ";"
        self._lines.append(Line("instruction", _wrap(text) + (f"  // {comment}" if comment else ""), opcode))

    def op(
        self,
        opcode: str,
        *operands: Operandish | Sequence[Operandish],
        pred: Reg | Not | None = None,
        comment: str = "",
    ) -> Reg:
        """Emit an instruction with a new register as its (single) destination, and return that register."""
        out = self.result(opcode)
        if not isinstance(out, Reg):
            raise PtxError(f"{opcode}: the destination is a vector or a pair; use ops() or emit()")
        self.emit(opcode, out, *operands, pred=pred, comment=comment)
        return out

    def ops(
        self,
        opcode: str,
        *operands: Operandish | Sequence[Operandish],
        pred: Reg | Not | None = None,
        comment: str = "",
    ) -> list[Reg]:
        """Like :meth:`op` for an instruction whose first destination is a vector: the list of new registers."""
        out = self.result(opcode)
        if not isinstance(out, list):
            raise PtxError(f"{opcode}: the destination is a single register; use op()")
        self.emit(opcode, out, *operands, pred=pred, comment=comment)
        return out

    def result(self, opcode: str) -> Reg | list[Reg]:
        """New registers of the kind that the first operand of ``opcode`` (a destination) needs."""
        match = find_all(opcode, self.target, self.version)[0]
        spec = match.instruction.operands[0] if match.instruction.operands else None
        if spec is None or not spec.dst:
            raise PtxError(f"{opcode}: the instruction has no destination")
        type_ = match.type_of(spec.type)
        if spec.wide and TYPE_BITS[type_] == 8:
            type_ = "b16"  # arithmetic has no 8-bit registers
        count = length(match, spec)
        if count:
            return self.regs(type_, count)
        if spec.kind == "pair":
            raise PtxError(f"{opcode}: the destination is a pair d|p; use emit()")
        return self.reg(type_)

    def _resolve(self, opcode: str, values: list[Operandish]) -> tuple[Match, list[str]]:
        first: PtxError | None = None
        best = -1
        for match in find_all(opcode, self.target, self.version):
            try:
                return match, check_operands(match, values)
            except PtxError as error:
                # the row whose shape agrees furthest explains the mistake best
                depth = _depth(error)
                if depth > best:
                    best, first = depth, error
        assert first is not None
        raise first

    def _check_registers(self, opcode: str, value: object) -> None:
        for reg in registers_in(value):
            if reg.index >= self._counts[reg.type]:
                raise PtxError(f"{opcode}: register {reg} was not created by this kernel")
        for symbol in _symbols_in(value):
            if self.symbols.get(symbol.name) != symbol:
                raise PtxError(f"{opcode}: variable '{symbol.name}' is not declared in this kernel")

    def _check_cta_group(self, match: Match) -> None:
        group = match.bound.get("cg", "")
        if not group or not match.instruction.mnemonic.startswith("tcgen05."):
            return
        if self.cta_group is None:
            self.cta_group = group
        elif self.cta_group != group:
            raise PtxError(
                f"{match.opcode}: this kernel already has tcgen05 instructions with .{self.cta_group}; all must agree"
            )

    # -- labels and comments -------------------------------------------------------------------------------------

    def new_label(self, hint: str = "L") -> Label:
        """A label with a name of its own, from ``hint``; place it with :meth:`place`."""
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in hint)
        base = base if base.startswith("L") else f"L_{base}"
        n = self._label_names.get(base, 0)
        self._label_names[base] = n + 1
        return Label(f"{base}_{n}" if n else base)

    def place(self, label: Label) -> None:
        """Put ``label`` before the next instruction."""
        if label.name in self._placed:
            raise PtxError(f"label {label.name} is placed twice")
        self._placed.add(label.name)
        self._lines.append(Line("label", f"{label.name}:"))

    def comment(self, text: str) -> None:
        """A comment line before the next instruction."""
        self._lines.append(Line("comment", "// " + text.replace("\n", " ")))

    def load_param(self, name: str, opcode: str | None = None) -> Reg:
        """Load a scalar or pointer parameter; the address of a tensor map as a generic 64-bit address."""
        symbol = self.symbols.get(name)
        if symbol is None or symbol.space != "param":
            raise PtxError(f"there is no parameter '{name}'")
        if symbol.bytes == 128:
            at = self.op("mov.b64", symbol)
            return self.op("cvta.param.u64", at)
        return self.op(opcode or f"ld.param.b{max(8, symbol.bytes * 8)}", Address(symbol))

    # -- text ----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Raise ``PtxError`` if a label is used but not placed."""
        for name, opcode in self._used.items():
            if name not in self._placed:
                raise PtxError(f"{opcode}: label {name} is never placed")

    def body(self) -> list[str]:
        """The lines of the kernel body; labels that nothing refers to are left out."""
        out = []
        for line in self._lines:
            if line.kind == "label":
                if line.text[:-1] in self._used:
                    out.append(line.text)
            else:
                out.append("    " + line.text)
        return out

    @property
    def instructions(self) -> list[str]:
        """Opcodes emitted so far, in order."""
        return [line.opcode for line in self._lines if line.kind == "instruction"]


def _as_operand(value: Operandish | Sequence[Operandish]) -> Operandish:
    return Vec(tuple(value)) if isinstance(value, Sequence) else value


def register_class(type_: str) -> str:
    """The register class that holds a value of PTX type ``type_``."""
    if type_ in REGISTER_PREFIX:
        return type_
    if type_ not in TYPE_BITS:
        raise PtxError(f"'{type_}' is not a PTX type")
    bits = TYPE_BITS[type_]
    return f"b{bits if type_ == 'e2m1x2' else max(16, bits)}"


def registers_in(value: object) -> list[Reg]:
    """All registers that an operand mentions."""
    if isinstance(value, Reg):
        return [value]
    if isinstance(value, Not):
        return [value.reg]
    if isinstance(value, Address):
        return registers_in(value.base)
    if isinstance(value, Vec):
        return [r for item in value.items for r in registers_in(item)]
    if isinstance(value, Pair):
        return registers_in(value.first) + registers_in(value.second)
    if isinstance(value, TensorAddress):
        return registers_in(value.map) + [r for c in value.coords for r in registers_in(c)]
    return []


def _symbols_in(value: object) -> list[Symbol]:
    if isinstance(value, Symbol):
        return [value]
    if isinstance(value, Address):
        return _symbols_in(value.base)
    if isinstance(value, TensorAddress):
        return _symbols_in(value.map)
    return []


def _depth(error: PtxError) -> int:
    """How many operands were accepted before ``error``; -1 + 1 for a wrong number of operands."""
    _, _, tail = error.message.partition(": operand ")
    return int(tail.split(" ", 1)[0]) if tail and tail[0].isdigit() else 0


def _wrap(text: str) -> str:
    if len(text) <= LINE - 4:
        return text
    lines, current = [], ""
    for piece in text.split(", "):
        candidate = f"{current}, {piece}" if current else piece
        if len(candidate) > LINE - 8 and current:
            lines.append(current + ",")
            current = piece
        else:
            current = candidate
    return "\n        ".join([*lines, current])
