"""Layouts of a function's buffers: which are open, and filling them in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import Span
from ..ir import AllocBuffer, Buffer, DeclBuffer, PrimFunc, StmtVisitor, substitute
from ..ir.node import replace
from ..layout import is_open


@dataclass(frozen=True)
class Declared:
    """A buffer that the body declares: ``allocated`` with storage of its own, or as a view; ``span`` is where."""

    buffer: Buffer
    allocated: bool
    span: Span | None


class _Declarations(StmtVisitor):
    def __init__(self) -> None:
        self.found: list[Declared] = []

    def visit_alloc_buffer(self, value: AllocBuffer) -> None:
        self.found.append(Declared(value.buffer, True, value.span or value.buffer.span))

    def visit_decl_buffer(self, value: DeclBuffer) -> None:
        self.found.append(Declared(value.buffer, False, value.span or value.buffer.span))


def declared(func: PrimFunc) -> list[Declared]:
    """The buffers that a function's body declares, in order."""
    walk = _Declarations()
    walk.visit(func.body)
    return walk.found


def has_open_layouts(func: PrimFunc) -> bool:
    """Whether a layout of the function is left to the solver."""
    return any(is_open(d.buffer.layout) for d in declared(func))


def with_layouts(func: PrimFunc, layouts: Mapping[Buffer, Any]) -> PrimFunc:
    """The function with these layouts for these buffers; every use, view and address follows."""
    made, _ = rebuilt(func, layouts)
    return made


def rebuilt(func: PrimFunc, layouts: Mapping[Buffer, Any]) -> tuple[PrimFunc, dict[Buffer, Buffer]]:
    """As :func:`with_layouts`, and the new buffer for each one that had to change."""
    buffers: dict[Buffer, Buffer] = {}
    for d in declared(func):
        old = d.buffer
        changed = replace(
            old,
            shape=substitute(old.shape, {}, buffers), strides=substitute(old.strides, {}, buffers),
            elem_offset=substitute(old.elem_offset, {}, buffers),
            allocated_addr=substitute(old.allocated_addr, {}, buffers),
            layout=layouts.get(old, old.layout),
        )  # fmt: skip
        if changed is not old:
            buffers[old] = changed
    if not buffers:
        return func, {}
    return func.with_body(substitute(func.body, {}, buffers)), buffers
