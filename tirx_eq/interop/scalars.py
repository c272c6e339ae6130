"""The scalars that a function keeps in registers: what is stored in each, and which are stored once.

A lowered kernel holds its lane, its stage, its coordinates in local buffers, an element each, where analyses that look at
variables only see memory.  An element counts here if its buffer is a thread's own, every place in it is constant, and
nothing takes its address or hands it to an instruction, which might write it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import ir
from ..ir import dtype as dt
from .pure import is_pure
from .tvm_instructions import INSTRUCTION

#: Instructions that write no register: every operand of theirs is read.  So do those of a name that goes on with "_".
_READERS = tuple(
    "st stmatrix red prefetch cp_async tcgen05_mma tcgen05_cp tcgen05_st tcgen05_commit mbarrier_init mbarrier_inval "
    "bar_sync bar_arrive barrier_sync barrier_arrive".split()
)
#: Other calls that read their operands.
_VALUES = frozenset(
    "reinterpret if_then_else likely tvm_warp_shuffle tvm_warp_shuffle_up tvm_warp_shuffle_down cuda.get_tmem_addr "
    "cuda.float2_x cuda.float2_y".split()
)

Element = tuple[ir.Buffer, tuple[int, ...]]


@dataclass(frozen=True)
class Scalars:
    """``stored``: all values that an element takes, in the order of the program, for elements whose first store comes before
    every read; ``once``: those that are stored once, so that each read gives what that expression had as its value there.
    """

    stored: dict[Element, tuple[ir.Expr, ...]]
    once: frozenset[Element]


def scalars(func: ir.PrimFunc) -> Scalars:
    """What ``func`` stores in its scalars of integer or bool type."""
    walk = _Walk()
    walk.visit(func)
    known = {e: tuple(values) for e, values in walk.stored.items() if e not in walk.early and walk.tracked(e[0])}
    return Scalars(known, frozenset(e for e, values in known.items() if len(values) == 1))


def element(buffer: ir.Buffer, indices: tuple[ir.Expr, ...]) -> Element | None:
    """The element that a load or store is of, if its place is constant."""
    places = tuple([i.value for i in indices if isinstance(i, ir.IntImm)])
    return (buffer, places) if len(places) == len(indices) else None


def only_reads(name: str) -> bool:
    """Whether a call of the operator ``name`` leaves its operands as they are."""
    name = name.removeprefix("tirx.")
    instruction = name.removeprefix("ptx.")
    if instruction == name:
        return name in _VALUES
    return instruction in _READERS or any(instruction.startswith(r + "_") for r in _READERS)


class _Walk(ir.StmtVisitor):
    """A store holds for what follows in its sequence of statements and is forgotten at its end."""

    def __init__(self) -> None:
        self.stored: dict[Element, list[ir.Expr]] = {}
        self.early: set[Element] = set()
        """Elements that are read where their first store may not have happened."""
        self._made: set[ir.Buffer] = set()
        self._lost: set[Any] = set()
        """Buffers and pointers that are used in other ways."""
        self._views: dict[ir.Var, ir.Buffer] = {}
        self._now: set[Element] = set()
        self._frames: list[list[Element]] = [[]]

    def tracked(self, buffer: ir.Buffer) -> bool:
        return buffer in self._made and not ({buffer, buffer.data} & self._lost)

    def visit(self, value: Any) -> None:
        if not isinstance(value, ir.Stmt) or isinstance(value, (ir.BufferStore, ir.AllocBuffer)):
            super().visit(value)
            return
        self._frames.append([])
        super().visit(value)
        self._now.difference_update(self._frames.pop())

    __call__ = visit

    def visit_if_then_else(self, value: ir.IfThenElse) -> None:
        self.visit(value.condition)
        for case in (value.then_case, value.else_case):
            self._frames.append([])
            self.visit(case)
            self._now.difference_update(self._frames.pop())

    def visit_alloc_buffer(self, value: ir.AllocBuffer) -> None:
        buffer = value.buffer
        self._view(buffer)
        if buffer.scope == "local" and dt.kind(buffer.dtype) in ("int", "uint", "bool") and dt.lanes(buffer.dtype) == 1:
            self._made.add(buffer)
        self.visit_buffer_fields(buffer)

    def visit_buffer_store(self, value: ir.BufferStore) -> None:
        self.visit(value.value)
        self.visit(value.indices)
        self._view(value.buffer)
        place = element(value.buffer, value.indices)
        if place is None or value.predicate is not None or dt.lanes(value.value.dtype) != 1:
            self._lost.add(value.buffer)
            return
        if place not in self._now:
            self._now.add(place)
            self._frames[-1].append(place)
        self.stored.setdefault(place, []).append(value.value)

    def visit_buffer_load(self, value: ir.BufferLoad) -> None:
        self.visit(value.indices)
        self._view(value.buffer)
        place = element(value.buffer, value.indices)
        if place is None or value.predicate is not None:
            self._lost.add(value.buffer)
        elif place not in self._now:
            self.early.add(place)

    def visit_call(self, value: ir.Call) -> None:
        name = value.op.name
        if name == INSTRUCTION and isinstance(value.args[0], ir.StringImm):
            name = f"tirx.ptx.{value.args[0].value}"
        if not is_pure(value) and not only_reads(name):
            self._operands(value.args)
        self.visit_children(value)

    def visit_opaque(self, value: ir.Opaque) -> None:
        if not only_reads(value.foreign_type.removeprefix("ir.Call(").removesuffix(")")):
            self._operands(value.operands)
        self.visit_children(value)

    def _operands(self, values: Any) -> None:
        """An operand that is an element itself may be what the instruction writes."""
        for v in values:
            if isinstance(v, ir.BufferLoad):
                self._lost.add(v.buffer)
            elif isinstance(v, tuple):
                self._operands(v)

    def visit_var(self, value: ir.Var) -> None:
        self._lost.add(value)

    def visit_buffer(self, value: ir.Buffer) -> None:
        self._lost.add(value)

    def _view(self, buffer: ir.Buffer) -> None:
        """Two buffers on one pointer are views of each other."""
        if self._views.setdefault(buffer.data, buffer) is not buffer:
            self._lost.add(buffer.data)
