"""Check concrete operands against the table, and spell them.

Each failure is a ``PtxError`` that names the instruction, the operand (position and name) and the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tirx_eq.errors import PtxError
from tirx_eq.ptx.operands import (
    SINK,
    Address,
    Imm,
    Label,
    Not,
    Operandish,
    Pair,
    Reg,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vec,
)
from tirx_eq.ptx.syntax import TYPE_BITS, Match, Operand
from tirx_eq.ptx.table.counts import COUNTS

#: State space of an address to the width of a register that holds one.  Shared addresses are kept in 32 bits.
SPACE_BITS = {
    "shared": 32, "shared::cta": 32, "shared::cluster": 32, "tmem": 32,
    "global": 64, "const": 64, "local": 64, "param": 64, "generic": 64,
}  # fmt: skip

#: Types whose arithmetic takes no immediate operand.
NO_IMMEDIATE = frozenset({"f16", "bf16", "f16x2", "bf16x2", "f32x2", "u16x2", "s16x2", "b128"})

_FLOAT = frozenset({"f16", "bf16", "f32", "tf32", "f64"})


def check_operands(match: Match, operands: Sequence[Operandish]) -> list[str]:
    """The spellings of ``operands`` for the opcode ``match``; raises ``PtxError`` at the first that does not fit."""
    specs = select_operands(match, operands)
    return [_check(match, i, spec, value) for i, (spec, value) in enumerate(zip(specs, operands))]


def select_operands(match: Match, operands: Sequence[Operandish]) -> list[Operand]:
    """The operand rows that apply to ``match``, with trailing free ones kept only as far as ``operands`` reach.

    When several optional operands could stand in one place, the first whose kind fits is taken.
    """
    wanted = [s for s in match.instruction.operands if not s.when or s.when == "?" or match.has(s.when)]
    missing = len(wanted) - len(operands)
    chosen: list[Operand] = []
    for spec in wanted:
        value = operands[len(chosen)] if len(chosen) < len(operands) else None
        if missing > 0 and spec.when == "?" and (value is None or not _plausible(spec, value)):
            missing -= 1
            continue
        chosen.append(spec)
    while missing > 0 and chosen and chosen[-1].when == "?":
        chosen.pop()
        missing -= 1
    if len(chosen) != len(operands):
        shape = ", ".join(s.name + ("?" if s.when == "?" else "") for s in wanted)
        raise PtxError(f"{match.opcode}: {len(operands)} operands given, the form takes ({shape})")
    return chosen


def _plausible(spec: Operand, value: Operandish) -> bool:
    if spec.kind == "pred":
        return isinstance(value, Not | Sink) or (isinstance(value, Reg) and value.type == "pred")
    if spec.count:
        return isinstance(value, Vec)
    if spec.kind == "address":
        return isinstance(value, Address)
    if isinstance(value, Reg):
        return spec.kind == "value" and spec.reg and value.type != "pred"
    return spec.kind == "value" and isinstance(value, Imm | int | float | Symbol | Special)


def length(match: Match, spec: Operand) -> int:
    """Number of elements of a vector operand; 0 means a bare operand without braces."""
    count = spec.count
    if isinstance(count, int):
        return count
    if count.startswith("$"):
        choice = match.bound.get(count[1:], "")
        return int(choice.lstrip("vx")) if choice else 0
    return COUNTS[count](match.bound)


def _check(match: Match, index: int, spec: Operand, value: Operandish) -> str:
    def fail(rule: str) -> PtxError:
        return PtxError(f"{match.opcode}: operand {index + 1} ({spec.name}) is {show(value)}: {rule}")

    count = length(match, spec)
    if count:
        if not isinstance(value, Vec):
            raise fail(f"a vector of {count} elements in braces is needed")
        if len(value.items) != count:
            raise fail(f"the vector has {len(value.items)} elements, {count} are needed")
        return "{" + ", ".join(_scalar(match, spec, v, fail) for v in value.items) + "}"
    if isinstance(value, Vec):
        raise fail("a single operand is needed, not a vector")
    return _scalar(match, spec, value, fail)


def _scalar(match: Match, spec: Operand, value: Operandish, fail: Callable[[str], PtxError]) -> str:
    if spec.kind == "address":
        return _address(match, spec, value, fail)
    if spec.kind == "tensor":
        return _tensor(match, spec, value, fail)
    if spec.kind == "label":
        if not isinstance(value, Label):
            raise fail("a label is needed")
        return str(value)
    if spec.kind == "pair":
        if not isinstance(value, Pair):
            raise fail("a pair of destinations d|p is needed")
        first = _value(match, match.type_of(spec.type), spec, value.first, fail)
        if not (value.second == SINK or (isinstance(value.second, Reg) and value.second.type == "pred")):
            raise fail("the second destination must be a predicate register")
        return f"{first}|{value.second}"
    if spec.kind == "pred":
        if isinstance(value, Not) and not spec.dst:
            return str(value)
        if isinstance(value, Reg) and value.type == "pred":
            return str(value)
        if value == SINK and spec.sink:
            return "_"
        if spec.imm is not None and isinstance(value, Imm | int):
            number = value.value if isinstance(value, Imm) else value
            if number not in (0, 1):
                raise fail("a constant predicate is 0 or 1")
            return str(int(number))
        raise fail("a predicate register is needed")
    return _value(match, match.type_of(spec.type), spec, value, fail)


def _value(match: Match, type_: str, spec: Operand, value: Operandish, fail: Callable[[str], PtxError]) -> str:
    if isinstance(value, Sink):
        if not spec.sink:
            raise fail("the sink _ is not permitted here")
        return "_"
    if isinstance(value, Reg):
        if not spec.reg:
            raise fail("an immediate is needed, not a register")
        if not fits(value.type, type_, spec.wide):
            raise fail(f"a {value.type} register does not hold a value of type .{type_}")
        return str(value)
    if spec.dst:
        raise fail("a destination must be a register")
    if isinstance(value, Special):
        if match.instruction.mnemonic != "mov":
            raise fail("a special register can only be read by mov")
        if not spec.reg or not (value.bits == TYPE_BITS[type_] or (value.bits == 1 and type_ == "pred")):
            raise fail(f"a {value.bits}-bit special register does not fit type .{type_}")
        return str(value)
    if isinstance(value, Symbol):
        bits = SPACE_BITS.get(value.space, 64)
        if not spec.anyimm or spec.imm is not None or TYPE_BITS[type_] not in (bits, 64) or type_ in _FLOAT:
            raise fail(f"the address of a variable in .{value.space} does not fit type .{type_}")
        return str(value)
    if isinstance(value, bool) or not isinstance(value, Imm | int | float):
        raise fail(f"a register{' or immediate' if spec.anyimm else ''} of type .{type_} is needed")
    immediate = value if isinstance(value, Imm) else Imm(value)
    return _immediate(type_, spec, immediate, fail)


def _immediate(type_: str, spec: Operand, immediate: Imm, fail: Callable[[str], PtxError]) -> str:
    number = immediate.value
    if not spec.anyimm or (type_ in NO_IMMEDIATE and spec.imm is None):
        raise fail(f"a register of type .{type_} is needed, not an immediate")
    if isinstance(number, float):
        if type_ not in ("f32", "f64"):
            raise fail(f"a floating-point immediate does not fit type .{type_}")
        return immediate.spell(type_)
    if type_ in ("f32", "f64"):
        return Imm(float(number)).spell(type_)
    if type_ == "pred":
        raise fail("a predicate register is needed")
    bits = TYPE_BITS[type_]
    if spec.imm is not None:
        reason = spec.imm.violation(number)
        if reason is not None:
            raise fail(reason)
    low, high = -(1 << (bits - 1)), (1 << bits) - 1
    if type_[0] == "s":
        high = (1 << (bits - 1)) - 1
    if not low <= number <= high:
        raise fail(f"{number} does not fit type .{type_} ({low}..{high})")
    return immediate.spell(type_)


def fits(register: str, type_: str, wide: bool = False) -> bool:
    """Whether a register of class ``register`` may hold an operand of PTX type ``type_``.

    Untyped (b) registers hold any type of their size; f32 and f64 registers hold only that type or bits of its size.
    """
    if register == "pred" or type_ == "pred":
        return register == type_
    if register in ("f32", "f64"):
        return type_ in (register, "b" + register[1:])
    have, need = int(register[1:]), TYPE_BITS[type_]
    if type_ in ("f32", "f64"):
        return have == need
    return have == need or (wide and have > need and type_[0] in "bus")


def _address(match: Match, spec: Operand, value: Operandish, fail: Callable[[str], PtxError]) -> str:
    if not isinstance(value, Address):
        raise fail("an address in brackets is needed")
    space = match.type_of(spec.space) or "generic"
    if space.startswith("param"):
        space = "param"
    base = value.base
    if isinstance(base, Reg):
        if base.type != f"b{SPACE_BITS[space]}":
            raise fail(f"an address in .{space} is held in a b{SPACE_BITS[space]} register, not {base.type}")
    elif isinstance(base, Symbol):
        if space == "tmem":
            raise fail("a tensor memory address is a register, not a variable")
        if space != "generic" and base.space != space.partition("::")[0]:
            raise fail(f"the variable lies in .{base.space}, the instruction accesses .{space}")
        if base.bytes and not 0 <= value.offset < base.bytes:
            raise fail(f"offset {value.offset} is outside the {base.bytes} bytes of the variable")
    elif not isinstance(base.value, int):
        raise fail("a constant address must be an integer")
    if not -(1 << 31) <= value.offset < 1 << 31:
        raise fail("the offset does not fit 32 bits")
    return str(value)


def _tensor(match: Match, spec: Operand, value: Operandish, fail: Callable[[str], PtxError]) -> str:
    if not isinstance(value, TensorAddress):
        raise fail("a tensor map and coordinates [map, {c0, …}] are needed")
    if isinstance(value.map, Reg) and value.map.type != "b64":
        raise fail(f"the address of a tensor map is held in a b64 register, not {value.map.type}")
    if isinstance(value.map, Symbol) and value.map.space not in ("param", "const", "global"):
        raise fail(f"a tensor map lies in param, const or global memory, not in .{value.map.space}")
    want = COUNTS["coords"](match.bound)
    if len(value.coords) != want:
        raise fail(f"{len(value.coords)} coordinates given, {want} are needed")
    for c in value.coords:
        if isinstance(c, Reg) and not fits(c.type, "s32"):
            raise fail(f"coordinate {c} is a {c.type} register, 32 bits are needed")
        if isinstance(c, Imm) and not (isinstance(c.value, int) and -(1 << 31) <= c.value < 1 << 31):
            raise fail(f"coordinate {c} does not fit .s32")
    return str(value)


def show(value: Operandish) -> str:
    """A short spelling of an operand for messages."""
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "…"
