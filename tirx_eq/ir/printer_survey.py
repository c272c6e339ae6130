"""What a function declares and what it uses: the printer's look ahead."""

from __future__ import annotations

from typing import Any

from . import stmt as st
from .buffer import Buffer
from .expr import BufferLoad, Expr, IntImm, IterVar, PointerType, PrimType, Var
from .function import PrimFunc
from .node import fields
from .printer_buffer import has_fields
from .tile import LambdaExpr


def uses(value: Any, what: Any) -> bool:
    """Whether ``what`` (a Var or Buffer) occurs in an expression."""
    if value is what:
        return True
    if isinstance(value, (tuple, list)):
        return any(uses(v, what) for v in value)
    if isinstance(value, dict):
        return any(uses(v, what) for v in value.values())
    if isinstance(value, BufferLoad) and value.buffer is what:
        return True
    if isinstance(value, (Var, Buffer)) or not has_fields(value):
        return False
    return any(uses(v, what) for _, v in fields(value))


class Survey:
    """Walks a function once: what it declares, what it uses without declaring, what is used as a scalar only."""

    def __init__(self, func: PrimFunc, quoted: set[Var]) -> None:
        self.declared: set[Any] = set(func.params)
        self.free_vars: list[Var] = []
        self.free_buffers: list[Buffer] = []
        self.scalars: list[Buffer] = []
        self._not_scalar: set[Buffer] = set()
        self._seen: set[Any] = set()
        for buffer in func.buffer_map.values():
            self._declare_buffer(buffer)
            self._not_scalar.add(buffer)
        self._shape_vars = {v for b in func.buffer_map.values() for v in self._vars_of(b)}
        self.walk(func.body)
        self.walk(func.attrs)
        self.free_vars = [v for v in self.free_vars if v not in quoted]
        self.scalars = [b for b in self.scalars if b not in self._not_scalar]

    def _vars_of(self, buffer: Buffer) -> list[Var]:
        made: list[Var] = []

        def go(value: Any) -> None:
            if isinstance(value, Var):
                made.append(value)
            elif isinstance(value, tuple):
                for v in value:
                    go(v)
            elif has_fields(value) and not isinstance(value, Buffer):
                for _, v in fields(value):
                    go(v)

        go((buffer.shape, buffer.strides, buffer.elem_offset, buffer.allocated_addr, buffer.layout))
        return made

    def _declare_buffer(self, buffer: Buffer) -> None:
        self.declared.add(buffer)
        self.declared.add(buffer.data)
        for v in self._vars_of(buffer):
            self._var(v)
        self.walk((buffer.elem_offset, buffer.allocated_addr))

    def _var(self, var: Var) -> None:
        if var not in self.declared:
            self.declared.add(var)
            self.free_vars.append(var)

    def _buffer(self, buffer: Buffer) -> None:
        if buffer not in self.declared:
            self._declare_buffer(buffer)
            self._not_scalar.add(buffer)
            self.free_buffers.append(buffer)

    def walk(self, value: Any) -> None:
        """Visit a value in the order of the text."""
        if isinstance(value, (tuple, list)):
            for v in value:
                self.walk(v)
        elif isinstance(value, dict):
            for v in value.values():
                self.walk(v)
        elif isinstance(value, Var):
            self._var(value)
            self._not_scalar |= {b for b in self.scalars if b.data is value}
        elif isinstance(value, Buffer):
            self._buffer(value)
            self._not_scalar.add(value)
        elif has_fields(value) and not self._again(value):
            getattr(self, f"walk_{type(value).__name__}", self.walk_fields)(value)

    def _again(self, value: Any) -> bool:
        if not isinstance(value, Expr):
            return False
        if value in self._seen:
            return True
        self._seen.add(value)
        return False

    def walk_fields(self, value: Any) -> None:
        for _, v in fields(value):
            self.walk(v)

    def walk_AllocBuffer(self, s: st.AllocBuffer) -> None:
        own = s.buffer.data not in self.declared
        self._declare_buffer(s.buffer)
        if own and _is_plain_scalar(s.buffer):
            self.scalars.append(s.buffer)
        self.walk(s.annotations)

    def walk_DeclBuffer(self, s: st.DeclBuffer) -> None:
        self.walk(s.data)
        self._declare_buffer(s.buffer)
        self._not_scalar.add(s.buffer)

    def walk_For(self, s: st.For) -> None:
        self.walk((s.min, s.extent, s.step, s.annotations))
        self.declared.add(s.loop_var)
        axis = s.thread_binding
        if axis is not None and (axis.dom is not None or axis.iter_type != "ThreadIndex"):
            self.walk(axis)
        self.walk(s.body)

    def walk_Bind(self, s: st.Bind) -> None:
        self.walk(s.value)
        self.declared.add(s.var)

    def walk_ScopeIdDefStmt(self, s: st.ScopeIdDefStmt) -> None:
        self.declared |= set(s.definition.def_ids)
        self.walk((s.definition.extents, s.definition.preferred_extents))

    def walk_AttrStmt(self, s: st.AttrStmt) -> None:
        if isinstance(s.node, IterVar) and s.attr_key == "thread_extent":
            self.declared.add(s.node.var)
        self.walk((s.node, s.value, s.body))

    def walk_LambdaExpr(self, value: LambdaExpr) -> None:
        self.declared |= set(value.vars)
        self.walk(value.body)

    def walk_CommReducer(self, value: Any) -> None:
        self.declared |= {*value.lhs, *value.rhs}
        self.walk((value.result, value.identity_element))

    def walk_BufferLoad(self, value: BufferLoad) -> None:
        self._access(value.buffer, value.indices, value.predicate)

    def walk_BufferStore(self, s: st.BufferStore) -> None:
        self.walk(s.value)
        self._access(s.buffer, s.indices, s.predicate)

    def _access(self, buffer: Buffer, indices: tuple[Expr, ...], predicate: Any) -> None:
        self._buffer(buffer)
        if indices != (IntImm("int32", 0),) or predicate is not None:
            self._not_scalar.add(buffer)
        self.walk(indices)
        self.walk(predicate)


def _is_plain_scalar(b: Buffer) -> bool:
    return (
        b.shape == (IntImm("int32", 1),) and not b.strides and b.elem_offset == IntImm("int32", 0)
        and b.data_alignment == 64 and b.offset_factor == 1 and not b.allocated_addr
        and b.data.ty == PointerType(PrimType(b.dtype), b.scope)
    )  # fmt: skip
