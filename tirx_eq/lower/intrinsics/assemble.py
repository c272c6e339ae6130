"""From an opcode and a flat list of arguments to an instruction: the instruction table says what each argument must be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import LoweringError
from ...ir import BufferLoad, Call, Cast, Expr, FloatImm, IntImm, Var, const
from ...ir import dtype as dt
from ...ptx.check import NO_IMMEDIATE, length
from ...ptx.emit import register_class
from ...ptx.syntax import TYPE_BITS, Match
from ...ptx.syntax import Operand as Spec
from ...ptx.table import matches
from ...ptx.table.counts import COUNTS
from ..program import AddressOf, At, Box, Instruction, Kept, MapAt, Memory, Node, Operand, Special, Store, Temp, Value, Word
from .places import Places, as_number, in_space, is_tensor_map, piece, shifted


@dataclass(frozen=True)
class Given:
    """One argument: an expression, a constant, a register of the template or a special one.

    ``role``: "value", "memory" (in brackets), "pointee" (what it points to), "address" (its number), "result" (a place
    that is written), or "any" where only the table knows.  ``rank``: in that CTA of the cluster; ``offset`` in bytes.
    """

    what: Any
    role: str = "any"
    rank: Any = None
    offset: int = 0
    name: str = ""


@dataclass(frozen=True)
class Register:
    """A register of a template by its name; ``type`` is what the template declares, or empty."""

    name: str
    type: str = ""


@dataclass
class Assembly:
    """Instructions as they are made, and the registers of a template by name."""

    places: Places
    what: str
    nodes: list[Node] = field(default_factory=list)
    temps: dict[str, Temp] = field(default_factory=dict)
    _stores: list[Store] = field(default_factory=list)

    def add(self, opcode: str, given: Sequence[Given], guard: Temp | None = None, negated: bool = False) -> None:
        """Append the instruction; raises LoweringError (or PtxError) for arguments that no form of it takes."""
        match, groups = self._form(opcode, given)
        operands = [self._operand(match, spec, members) for spec, members in groups]
        self.nodes.append(Instruction(opcode, tuple(operands), guard, negated))
        self.nodes += self._stores
        self._stores.clear()

    # -- which form ------------------------------------------------------------------------------------------------

    def _form(self, opcode: str, given: Sequence[Given]) -> tuple[Match, list[tuple[Spec, Sequence[Given]]]]:
        found = matches(opcode)
        for match in found:
            groups = _grouped(match, given)
            if groups is not None and all(self._plausible(match, s, m) for s, m in groups):
                return match, groups
        # Numbers of which there is one may be left out, and so may a result.
        for more in (given, [Given(Kept()), *given]):
            for match in found:
                groups = _grouped(match, more, literals=True)
                if groups is not None and all(self._plausible(match, s, m) for s, m in groups):
                    return match, groups
        shapes = "; or ".join(", ".join(s.name for s in m.instruction.operands) for m in found)
        raise LoweringError(f"'{self.what}': {opcode} doesn't take these {len(given)} operands (it takes {shapes})")

    def _plausible(self, match: Match, spec: Spec, members: Sequence[Given]) -> bool:
        one = members[0]
        if isinstance(one.what, Register):
            known = self.temps[one.what.name].type if one.what.name in self.temps else one.what.type
            if spec.kind == "address":
                return one.role == "memory"
            if one.role == "memory" or (one.what.name not in self.temps and not spec.dst):
                return False
            bits = TYPE_BITS.get(match.type_of(spec.type), 0)
            return not known or (known == "pred") == (spec.kind == "pred" or bits == 1)
        if spec.kind == "address":
            return one.role == "memory" or (one.role == "any" and _may_address(one.what, match.type_of(spec.space)))
        if one.role == "memory":
            return False
        if isinstance(one.what, Kept):
            return spec.sink or spec.kind == "pair"
        if spec.dst and not spec.reg:
            return False  # it can only be left out
        if spec.dst and isinstance(one.what, BufferLoad):
            bits, wanted = dt.storage_bits(one.what.dtype), TYPE_BITS.get(match.type_of(spec.type), 32)
            return spec.reg and (wanted == 1 or bits == wanted or (spec.wide and bits > wanted) or one.role == "value")
        if spec.dst:
            return isinstance(one.what, (BufferLoad, Call, Var, str)) or one.role == "result"
        if spec.kind == "pred" and one.role == "any" and isinstance(one.what, Expr):
            return dt.kind(one.what.dtype) in ("bool", "int", "uint")
        if spec.kind == "value" and isinstance(one.what, Expr) and not isinstance(one.what, (IntImm, FloatImm)):
            bits, wanted = dt.bits(one.what.dtype), TYPE_BITS.get(match.type_of(spec.type), 32)
            if one.role == "any" and dt.kind(one.what.dtype) != "handle":
                return spec.reg and ((bits == 64) == (wanted == 64) or wanted < 64 or one.what.dtype == "int32")
            return spec.reg
        return True

    # -- operands --------------------------------------------------------------------------------------------------

    def _operand(self, match: Match, spec: Spec, members: Sequence[Given]) -> Operand:
        type_ = match.type_of(spec.type)
        if spec.kind == "tensor":
            at = members[0].what
            coords = tuple(m.what if isinstance(m.what, Expr) else IntImm("int32", int(m.what)) for m in members[1:])
            return self._in_map(_map_address(at), coords)
        if spec.kind == "pair":
            return tuple(self._scalar(match, spec, t, m) for t, m in zip((type_, "pred"), members))
        if length(match, spec):
            return tuple(self._scalar(match, spec, type_, m) for m in members)
        return self._scalar(match, spec, type_, members[0])

    def _scalar(self, match: Match, spec: Spec, type_: str, one: Given) -> Operand:
        try:
            if spec.kind == "address":
                return self._address(match.type_of(spec.space), one)
            if isinstance(one.what, Kept):
                return "|" if length(match, spec) else one.what
            if isinstance(one.what, Register):
                return self._register(one.what, type_)
            if isinstance(one.what, Special):
                return one.what
            if spec.dst:
                return self._result(one, type_, spec)
            return self._source(one, type_, spec)
        except LoweringError as error:
            who = f"argument '{one.name}' of '{self.what}'" if one.name else f"an operand of '{self.what}'"
            raise LoweringError(f"{who}: {error.message}", hint=error.hint) from None

    def _in_map(self, at: Expr, coords: tuple[Expr, ...]) -> Operand:
        known = self.places.tensor_map(at) if isinstance(at, Var) else None
        return MapAt(at, coords) if known is None else Box(known, coords)

    def _register(self, named: Register, type_: str) -> Temp:
        if named.name not in self.temps:
            self.temps[named.name] = Temp(register_class(named.type or type_))
        return self.temps[named.name]

    def _address(self, space: str, one: Given) -> Operand:
        if isinstance(one.what, Register):
            return At(self.temps[one.what.name], one.offset)
        if isinstance(one.what, (Var, Call)) and is_tensor_map(_map_address(one.what)):
            return self._in_map(_map_address(one.what), ())
        if one.rank is not None:
            found: Memory | Expr = self.places.at_rank(one.what, one.rank)
        else:
            found = self.places.locate(one.what)
        return in_space(shifted(found, one.offset), space)

    def _source(self, one: Given, type_: str, spec: Spec) -> Operand:
        what = one.what
        bits = TYPE_BITS[type_]
        if one.role == "pointee":
            return piece(shifted(self.places.locate(what), one.offset), max(16, bits) if bits > 1 else 32)
        if one.role == "address" or (isinstance(what, Expr) and dt.kind(what.dtype) == "handle"):
            number = as_number(shifted(self.places.locate(what), one.offset), type_)
            if isinstance(number, AddressOf):
                return number
            what = number
        if isinstance(what, (bool, int, float)):
            if spec.anyimm or spec.imm is not None or not spec.reg:
                return what
            what = const(what, ("float" if isinstance(what, float) else "int") + ("64" if bits == 64 else "32"))
        if not spec.reg:
            if not isinstance(what, IntImm):
                raise LoweringError("it must be constant")
            return what.value
        return Value(what, type_, spec.imm is not None or (spec.anyimm and type_ not in NO_IMMEDIATE))

    def _result(self, one: Given, type_: str, spec: Spec) -> Operand:
        """A place that the instruction writes: a register of a local buffer itself, else a register stored afterwards."""
        what = one.what
        bits = TYPE_BITS[type_]
        if isinstance(what, BufferLoad):
            place, dtype = self.places.memory(what), what.dtype
        else:
            found = self.places.locate(what)
            if not isinstance(found, Memory):
                raise LoweringError("it must be the address of an element")
            place, dtype = Memory(found.root, found.offset + one.offset), f"uint{max(8, bits)}"
        held = dt.storage_bits(dtype) if isinstance(what, BufferLoad) else max(8, bits)
        root = place.root
        if root.space == "local" and root.word_bits == held == bits and isinstance(place.offset, IntImm):
            at = place.offset.value * 8
            if at % bits == 0:
                return Word(root, at // bits)
        register = "pred" if type_ == "pred" else register_class(f"b{max(bits, held) if spec.wide else bits}")
        temp = Temp(register)
        self._stores.append(Store(place, dtype, temp))
        return temp


def _map_address(e: Any) -> Expr:
    """The tensor map that an argument names: its parameter, or the number of its address."""
    while isinstance(e, (Call, Cast)):
        if isinstance(e, Cast):
            e = e.value
        elif e.op.name in ("tirx.address_of", "tirx.reinterpret", "tirx.tvm_access_ptr", "tirx.buffer_data"):
            inner = e.args[0]
            if not isinstance(inner, (Var, Call, Cast)):
                return e
            e = inner
        else:
            return e
    assert isinstance(e, Expr)
    return e


def _may_address(what: Any, space: str) -> bool:
    """Whether an argument can be an address in a state space: a pointer, or a number of its width."""
    if not isinstance(what, Expr):
        return False
    if dt.kind(what.dtype) == "handle":
        return space != "tmem"
    if dt.kind(what.dtype) not in ("int", "uint"):
        return False
    return dt.bits(what.dtype) == (32 if space.startswith(("shared", "tmem")) else 64)


def _grouped(match: Match, given: Sequence[Given], literals: bool = False) -> list[tuple[Spec, Sequence[Given]]] | None:
    """Each operand of a form with the arguments it consists of, or None if there are too few or too many.

    ``literals``: operands of which the instruction set fixes the value are not among the arguments.
    """
    wanted = [s for s in match.instruction.operands if not s.when or s.when == "?" or match.has(s.when)]
    fixed = [literals and s.imm is not None and s.imm.low == s.imm.high for s in wanted]
    sizes = [0 if f else _size(match, s) for s, f in zip(wanted, fixed)]
    spare = len(given) - sum(sizes)
    made: list[tuple[Spec, Sequence[Given]]] = []
    place = 0
    for spec, size, literal in zip(wanted, sizes, fixed):
        if literal:
            assert spec.imm is not None
            made.append((spec, (Given(spec.imm.low),)))
            continue
        if spec.when == "?" and spare < 0:
            spare += size
            continue
        made.append((spec, given[place : place + size]))
        place += size
    return made if place == len(given) and spare == 0 else None


def _size(match: Match, spec: Spec) -> int:
    if spec.kind == "tensor":
        return 1 + COUNTS["coords"](match.bound)
    return 2 if spec.kind == "pair" else max(1, length(match, spec))
