"""Decoding: from a parsed kernel to executable steps, checked against the instruction table before anything runs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tirx_eq.errors import ParseError, Span
from tirx_eq.sim.memory import GLOBAL, RANK_SHIFT, SHARED_BASE
from tirx_eq.sim.text.syntax import Function, Imm, Instr, Label, Mem, Module, Operand, Reg, Register, Sink, Special, Sym

if TYPE_CHECKING:
    from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray
Reader = Callable[["Wave", "Group"], Array]
Writer = Callable[["Wave", "Group", Array], None]
Run = Callable[["Wave", "Group"], "bool | None"]

ALU, BRANCH, SYNC, EXIT = 0, 1, 2, 3

#: storage of a register by its width in bytes
STORAGE = {1: np.uint16, 2: np.uint16, 4: np.uint32, 8: np.uint64}
REGISTER_BYTES = {
    "pred": 0, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "bf16": 2, "b32": 4, "u32": 4,
    "s32": 4, "f32": 4, "f16x2": 4, "bf16x2": 4, "b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16,
}
DTYPES = {
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8, "b16": np.uint16, "u16": np.uint16, "s16": np.int16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "b64": np.uint64, "u64": np.uint64, "s64": np.int64,
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "f16x2": np.uint32, "bf16x2": np.uint32,
    "bf16": np.uint16,
}


@dataclass
class Step:
    """One executable instruction."""

    run: Run
    kind: int
    instr: Instr
    guard: int = -1
    negated: bool = False
    target: int = 0


class Program:
    """A decoded kernel, with its memory layout."""

    def __init__(self, module: Module, function: Function, symbols: dict[str, tuple[str, int]], shared_size: int,
                 local_size: int, shared_names: list[tuple[int, int, str]]) -> None:
        self.module = module
        self.function = function
        self.registers: list[Register] = function.registers
        self.register_count = len(function.registers)
        self.symbols = symbols
        self.shared_size = shared_size
        self.local_size = local_size
        self.shared_names = shared_names
        self.shared_shift = 2
        self.global_shift = 2
        self.code: list[Step] = []
        self.param_size = 0
        self.cancels = False
        self.visited = bytearray(len(function.body))

    def blank(self, index: int, rows: int) -> Array:
        size = REGISTER_BYTES[self.registers[index].type]
        if size == 0:
            return np.zeros(rows, bool)
        if size == 16:
            return np.zeros((rows, 2), np.uint64)
        return np.zeros(rows, STORAGE[size])

    def source(self, line: int) -> str:
        lines = self.module.lines
        return " ".join(lines[line - 1].split("//")[0].split()) if 0 < line <= len(lines) else ""

    def describe_shared(self, address: int) -> str:
        for start, end, name in self.shared_names:
            if start <= address - SHARED_BASE < end:
                return f"{name} + {address - SHARED_BASE - start}"
        return f"offset {address - SHARED_BASE}"


class Decoder:
    """What instruction factories see: operand readers and writers, type checks, and errors with a place."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.instr: Instr | None = None
        self.sizes: dict[str, int] = {"shared": 4, "global": 4}

    def error(self, message: str) -> ParseError:
        instr = self.instr
        assert instr is not None
        lines = self.program.module.lines
        text = lines[instr.line - 1] if instr.line <= len(lines) else ""
        return ParseError(f"PTX: {instr.opcode}: {message}", span=Span("<ptx>", instr.line, 1, text=text))

    def touches(self, space: str, size: int) -> None:
        """An access of ``size``-byte elements exists: the shadow must be at least that fine."""
        for each in (("shared", "global") if space == "generic" else (space,)):
            if each in self.sizes:
                self.sizes[each] = min(self.sizes[each], size)

    # -- readers --------------------------------------------------------------------------------
    def source(self, operand: Operand, kind: str) -> Reader:
        """A reader that yields the operand as numpy dtype of PTX type ``kind`` (one value per row, or shape (1,))."""
        if kind == "pred":
            return self.predicate(operand)
        dtype = np.dtype(DTYPES[kind])
        if isinstance(operand, Imm):
            value = immediate(operand, kind)
            if value is None:
                raise self.error(f"{operand.value} is not a {kind} constant")
            return lambda wave, group: value
        if isinstance(operand, Reg):
            return self.register(operand, dtype)
        if isinstance(operand, Special):
            name = operand.name
            from tirx_eq.sim.machine import SPECIAL
            if name not in SPECIAL:
                raise self.error(f"unknown special register {name}")

            def special(wave: Wave, group: Group) -> Array:
                return wave.special(name)[group.idx].astype(dtype)
            return special
        if isinstance(operand, Sym):
            return self.symbol(operand, dtype)
        raise self.error(f"operand {operand!r} cannot be read as {kind}")

    def register(self, operand: Reg, dtype: np.dtype) -> Reader:
        index = operand.index
        size = REGISTER_BYTES[self.program.registers[index].type]
        if size == 0:
            raise self.error(f"{operand.name} is a predicate, a value is needed")
        if size == 16:
            raise self.error(f"{operand.name} is 128 bits wide")
        same = np.dtype(STORAGE[size]).itemsize == dtype.itemsize
        unsigned = np.dtype(f"u{dtype.itemsize}")
        storage = np.dtype(STORAGE[size])

        def read(wave: Wave, group: Group) -> Array:
            array = wave.R[index]
            if array is None:
                array = wave.register(index)
            if wave.U[index] is not None:
                wave.undefined(index, group)
            if not group.full:
                array = array[group.idx]
            if same:
                return array.view(dtype) if dtype != storage else array
            if dtype.kind == "i" and storage.itemsize < dtype.itemsize:
                return array.view(np.dtype(f"i{storage.itemsize}")).astype(dtype)
            return array.astype(unsigned).view(dtype)
        return read

    def predicate(self, operand: Operand) -> Reader:
        from tirx_eq.sim.text.syntax import Not
        if isinstance(operand, Not):
            inner = self.predicate(operand.operand)
            return lambda wave, group: ~inner(wave, group)
        if isinstance(operand, Imm):
            constant = np.array([operand.value != 0])
            return lambda wave, group: constant
        if not isinstance(operand, Reg) or self.program.registers[operand.index].type != "pred":
            raise self.error("a predicate register is needed")
        index = operand.index

        def read(wave: Wave, group: Group) -> Array:
            array = wave.R[index]
            if array is None:
                array = wave.register(index)
            if wave.U[index] is not None:
                wave.undefined(index, group)
            return array if group.full else array[group.idx]
        return read

    def symbol(self, operand: Sym, dtype: np.dtype) -> Reader:
        found = self.program.symbols.get(operand.name)
        if found is None:
            raise self.error(f"{operand.name} has no address")
        space, offset = found
        if space == "shared":
            value = SHARED_BASE + offset + operand.offset

            def shared(wave: Wave, group: Group) -> Array:
                return ((wave.rank[group.idx].astype(np.int64) << RANK_SHIFT) + value).astype(dtype)
            return shared
        base = offset + operand.offset + (GLOBAL if space in ("global", "const") else 0)
        constant = np.array([base], np.uint64).astype(dtype)
        return lambda wave, group: constant

    def space_of(self, operand: Operand) -> str | None:
        """State space of the variable behind a memory operand, if it is one."""
        if isinstance(operand, Mem) and isinstance(operand.base, Sym):
            found = self.program.symbols.get(operand.base.name)
            return found[0] if found else None
        return None

    def wide(self, operand: Operand, kind: str) -> Reader:
        """Like ``source`` but always one value per row."""
        inner = self.source(operand, kind)

        def read(wave: Wave, group: Group) -> Array:
            value = inner(wave, group)
            return value if value.shape[0] == group.n else np.broadcast_to(value, (group.n,))
        return read

    def address(self, operand: Operand) -> Reader:
        """Byte addresses (int64, one per row) of a memory operand."""
        if not isinstance(operand, Mem):
            raise self.error("a memory operand in brackets is needed")
        base = operand.base
        offset = operand.offset
        narrow = False
        if isinstance(base, Reg):
            size = REGISTER_BYTES[self.program.registers[base.index].type]
            if size not in (4, 8):
                raise self.error(f"address register {base.name} must be 32 or 64 bits wide")
            inner = self.register(base, np.dtype(f"u{size}"))
            narrow = size == 4
        else:
            inner = self.source(base, "u64")

        def read(wave: Wave, group: Group) -> Array:
            value = inner(wave, group).astype(np.int64)
            if offset:
                value = value + offset
                if narrow:
                    value = value & 0xFFFFFFFF
            return value if value.shape[0] == group.n else np.repeat(value, group.n)
        return read

    # -- writers --------------------------------------------------------------------------------
    def target(self, operand: Operand, kind: str) -> Writer:
        """A writer for values of PTX type ``kind``; wider registers are zero- or sign-extended."""
        if isinstance(operand, Sink):
            return lambda wave, group, value: None
        if not isinstance(operand, Reg):
            raise self.error(f"a register is needed as destination, not {operand!r}")
        index = operand.index
        size = REGISTER_BYTES[self.program.registers[index].type]
        if kind == "pred" or size == 0:
            if not (kind == "pred" and size == 0):
                raise self.error(f"destination {operand.name} does not hold a {kind}")

            def write_pred(wave: Wave, group: Group, value: Array) -> None:
                wave.store(index, group, value)
            return write_pred
        if size == 16:
            raise self.error(f"destination {operand.name} is 128 bits wide")
        dtype = np.dtype(DTYPES[kind])
        storage = np.dtype(STORAGE[size])
        if dtype.itemsize == storage.itemsize:
            def write_same(wave: Wave, group: Group, value: Array) -> None:
                wave.store(index, group, value.view(storage))
            return write_same
        if dtype.itemsize > storage.itemsize:
            raise self.error(f"destination {operand.name} is narrower than {kind}")
        signed = np.dtype(f"i{storage.itemsize}")
        unsigned = np.dtype(f"u{dtype.itemsize}")

        def write_wide(wave: Wave, group: Group, value: Array) -> None:
            if dtype.kind == "i":
                value = value.astype(signed).view(storage)
            else:
                value = value.view(unsigned).astype(storage)
            wave.store(index, group, value)
        return write_wide

    def label(self, operand: Operand) -> int:
        if not isinstance(operand, Label):
            raise self.error("a label is needed")
        return operand.target


def immediate(operand: Imm, kind: str) -> Array | None:
    """The constant as an array of shape (1,), or None if it does not fit the type."""
    dtype = np.dtype(DTYPES[kind])
    if dtype.kind == "f":
        if operand.kind == "f32":
            value = np.array([operand.value], np.uint32).view(np.float32)
        elif operand.kind == "f64":
            value = np.array([operand.value], np.uint64).view(np.float64)
        else:
            value = np.array([float(operand.value)])
        return value.astype(dtype)
    bits = dtype.itemsize * 8
    number = operand.value
    if operand.kind == "f32" and bits != 32:
        return None
    if operand.kind == "f64" and bits == 32:
        number = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", number))[0]))[0]
    if not -(1 << 64) < number < (1 << 64):
        return None
    return np.array([number & ((1 << bits) - 1)], np.dtype(f"u{dtype.itemsize}")).view(dtype)
