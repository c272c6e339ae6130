"""Printing the declarations of buffers."""

from __future__ import annotations

from math import prod
from typing import Any

from ..errors import IRError
from .buffer import Buffer
from .expr import Expr, IntImm, PointerType, PrimType, Var
from .function import PrimFunc
from .node import fields
from .printer_expr import ExprPrinter, quote
from .stmt import DeclBuffer

_ZERO = IntImm("int32", 0)


def default_layout_of(buffer: Buffer) -> bool:
    """Whether a buffer has the row-major layout that is given when none is named."""
    if any(isinstance(e, IntImm) and int(e) == 0 for e in buffer.shape):
        return buffer.layout is None
    return bool(buffer.layout is not None and buffer.layout.is_default(buffer.shape))


def is_plain_parameter(handle: Var, buffer: Buffer, func: PrimFunc) -> bool:
    """Whether the annotation of a parameter can say all of its buffer.

    Extents are constants or variables, written quoted: scalar parameters, or int32 variables that the shape defines.
    """
    params = set(func.params)
    shape_vars = {e for e in buffer.shape if isinstance(e, Var)}
    others = [v for part in (buffer.strides, buffer.elem_offset, buffer.layout) for v in vars_in(part)]
    return (
        all(isinstance(e, (IntImm, Var)) for e in buffer.shape)
        and all(isinstance(v.ty, PrimType) and (v in params or v.ty.dtype == "int32") for v in shape_vars)
        and all(v in shape_vars for v in others)
        and not buffer.allocated_addr
        and buffer.data.ty == PointerType(PrimType(buffer.dtype), buffer.scope)
        and handle.ty == buffer.data.ty
    )


def quoted_vars(func: PrimFunc) -> set[Var]:
    """Variables that the quoted shapes of the buffer parameters define, where these are written as annotations."""
    params = set(func.params)
    plain = [b for p, b in func.buffer_map.items() if is_plain_parameter(p, b, func)]
    return {e for b in plain for e in b.shape if isinstance(e, Var) and e not in params}


class BufferPrinter(ExprPrinter):
    """Texts of buffer constructors."""

    def shape_text(self, shape: tuple[Expr, ...]) -> str:
        return "(" + ", ".join(self.text(e) for e in shape) + ("," if len(shape) == 1 else "") + ")"

    # -- parameters ---------------------------------------------------------------------------------------------------

    def parameter_annotation(self, buffer: Buffer) -> str:
        """``T.Buffer(…)`` with the names of symbolic extents quoted."""
        parts = [quote(self.name(e)) if isinstance(e, Var) else self.text(e) for e in buffer.shape]
        shape = "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"
        return f"{self.prefix}.Buffer({self.buffer_arguments(buffer, shape=shape, always_dtype=True)})"

    def match_buffer(self, param: Var, buffer: Buffer) -> str:
        """The statement that gives a handle its buffer."""
        if buffer.allocated_addr:
            raise IRError(f"parameter buffer '{buffer.name}' with an allocated address can't be printed")
        self.owns(buffer)
        arguments = self.buffer_arguments(buffer, always_dtype=True)
        return f"{self.name(buffer)} = {self.prefix}.match_buffer({self.name(param)}, {arguments})"

    # -- arguments ----------------------------------------------------------------------------------------------------

    def buffer_arguments(
        self, buffer: Buffer, *, shape: str | None = None, always_dtype: bool = False, data: str | None = None,
        scope: str | None = "global", layout: bool = True, with_scope: bool = False,
    ) -> str:  # fmt: skip
        """Arguments of a constructor of ``buffer``, those with their defaults left out.

        ``scope`` is the default storage scope of the constructor.
        """
        parts = [shape or self.shape_text(buffer.shape)]
        if always_dtype or buffer.dtype != "float32":
            parts.append(quote(buffer.dtype))
        if data is not None:
            parts.append(f"data={data}")
        if buffer.strides:
            parts.append(f"strides=[{', '.join(self.text(s) for s in buffer.strides)}]")
        if buffer.elem_offset != _ZERO:
            parts.append(f"elem_offset={self.text(buffer.elem_offset)}")
        if buffer.scope != scope or with_scope:
            parts.append(f"scope={quote(buffer.scope)}")
        if buffer.data_alignment != 64:
            parts.append(f"align={buffer.data_alignment}")
        if buffer.offset_factor != 1:
            parts.append(f"offset_factor={buffer.offset_factor}")
        if layout and not default_layout_of(buffer):
            parts.append(f"layout={self.layout_text(buffer.layout)}")
        if buffer.allocated_addr:
            shown = ", ".join(self.text(a) for a in buffer.allocated_addr)
            parts.append(f"allocated_addr={shown if len(buffer.allocated_addr) == 1 else f'[{shown}]'}")
        return ", ".join(parts)

    def layout_text(self, layout: Any) -> str:
        return "None" if layout is None else str(layout.script(prefix=self.prefix))

    # -- allocations and views ----------------------------------------------------------------------------------------

    def scalar_constructor(self, buffer: Buffer) -> str:
        """The constructor of a buffer of one element."""
        short = {"local": "local_scalar", "shared": "shared_scalar"}.get(buffer.scope)
        if short:
            return f"{self.prefix}.{short}({quote(buffer.dtype)})"
        return f"{self.prefix}.alloc_scalar({quote(buffer.dtype)}, {quote(buffer.scope)})"

    def _own_pointer(self, buffer: Buffer) -> bool:
        """Whether a buffer has a pointer of its own, of its own type, that nothing else has declared."""
        plain = buffer.data.ty == PointerType(PrimType(buffer.dtype), buffer.scope)
        return plain and buffer.data not in self.names and buffer.data not in self.pointers

    def allocation(self, buffer: Buffer, annotations: dict[str, Any]) -> str:
        """The constructor of an AllocBuffer."""
        data = None if self._own_pointer(buffer) else self.text(buffer.data)
        notes = f", annotations={self.raw(annotations)}" if annotations else ""
        short = {"local": "alloc_local", "shared": "alloc_shared"}.get(buffer.scope) if self.sugar else None
        name = short if short and data is None else "alloc_buffer"
        default = buffer.scope if name == short else "global"
        return f"{self.prefix}.{name}({self.buffer_arguments(buffer, data=data, scope=default)}{notes})"

    def declaration(self, s: DeclBuffer) -> str:
        """The constructor of a DeclBuffer: a view of a buffer where it is one, else the general form."""
        buffer = s.buffer
        if self.sugar:
            text = self._view(s)
            if text is not None:
                return text
        if s.data is None:
            if not buffer.allocated_addr:
                raise IRError(f"buffer '{buffer.name}' is declared over no storage, so it can't be printed")
            if not self._own_pointer(buffer):
                raise IRError(f"buffer '{buffer.name}' shares a pointer but is declared without it")
            return f"{self.prefix}.decl_buffer({self.buffer_arguments(buffer)})"
        if isinstance(s.data, Var) and s.data is not buffer.data:
            raise IRError(f"buffer '{buffer.name}' is declared over a pointer that isn't its own")
        arguments = self.buffer_arguments(buffer, data=self.text(s.data), with_scope=buffer.scope != "global")
        return f"{self.prefix}.decl_buffer({arguments})"

    def _view(self, s: DeclBuffer) -> str | None:
        buffer = s.buffer
        parent = self.pointers.get(buffer.data)
        if parent is None or s.data is not buffer.data or buffer.data in self.names or self.is_scalar_name(parent):
            return None
        same = ("dtype", "strides", "elem_offset", "data_alignment", "offset_factor", "allocated_addr")
        if any(getattr(buffer, f) != getattr(parent, f) for f in same) or buffer.allocated_addr or not buffer.shape:
            return None
        shape = ", ".join(self.text(e) for e in buffer.shape)
        if buffer.layout == parent.layout:
            mine, whole = buffer.const_shape(), parent.const_shape()
            if mine is None or whole is None:
                return None
            if prod(mine) == prod(whole):
                return f"{self.name(parent)}.view({shape})"
        if buffer.layout is None:
            return None
        return f"{self.name(parent)}.view({shape}, layout={self.layout_text(buffer.layout)})"


def vars_in(value: Any) -> list[Var]:
    """Variables in a value, without those of buffers."""
    if isinstance(value, Var):
        return [value]
    if isinstance(value, (tuple, list)):
        return [v for x in value for v in vars_in(x)]
    if isinstance(value, dict):
        return [v for x in value.values() for v in vars_in(x)]
    if has_fields(value) and not isinstance(value, Buffer):
        return [v for _, x in fields(value) for v in vars_in(x)]
    return []


def has_fields(value: Any) -> bool:
    """Whether a value is a node with fields (an operator is known by its name only)."""
    return hasattr(type(value), "field_names")
