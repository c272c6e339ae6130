"""Buffers: layouts that put two elements in one place, views beyond their storage, swizzles on unaligned bases."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

from .. import ir
from ..errors import LayoutError, ProofError
from ..ir import dtype as dt
from ..layout import ComposeLayout, SwizzleLayout
from .findings import Audit, Finding


def declared(func: ir.PrimFunc) -> Iterator[tuple[ir.Buffer, Any]]:
    """Every buffer with the statement that declares it (None for a parameter)."""
    for buffer in func.buffer_map.values():
        yield buffer, None
    found: dict[int, tuple[ir.Buffer, Any]] = {}

    class Statements(ir.StmtVisitor):
        def visit(self, value: Any) -> None:
            if not isinstance(value, ir.Expr) or isinstance(value, ir.Opaque):
                super().visit(value)
            if isinstance(value, (ir.AllocBuffer, ir.DeclBuffer)):
                found[id(value)] = (value.buffer, value)

    Statements().visit(func.body)
    yield from found.values()


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """All checks of declared buffers."""
    buffers = list(declared(func))
    storage = _storage(func, buffers)
    operands = _matrix_operands(func)
    found: list[Finding] = []
    for buffer, stmt in buffers:
        found += _injective(buffer, stmt)
        found += _inside(buffer, stmt, storage)
        found += _aligned(buffer, stmt, operands)
    return found


def _span(stmt: Any) -> Any:
    return None if stmt is None else stmt.span


def _injective(buffer: ir.Buffer, stmt: Any) -> list[Finding]:
    shape = buffer.const_shape()
    if buffer.layout is None or shape is None or not prod(shape) or not buffer.layout.is_constant():
        return []
    from ..prove.layouts import injective

    try:
        verdict = injective(buffer.layout, shape)
    except (LayoutError, ProofError) as e:
        return [Finding(
            "layout", "warning", buffer.name, "its layout doesn't fit its shape", str(e), span=_span(stmt),
            layout=buffer.layout,
        )]  # fmt: skip
    if verdict.status != "different":
        return []
    return [Finding(
        "layout not injective", "error", buffer.name, "two elements are in one place",
        f"{verdict.counterexample}", "give each element a place of its own", _span(stmt), buffer.layout,
    )]  # fmt: skip


def _extent_bytes(buffer: ir.Buffer) -> int | None:
    """Bytes that a buffer reaches from its first element on, if its layout is of linear memory."""
    shape = buffer.const_shape()
    if shape is None or not prod(shape):
        return None
    elements = prod(shape)
    layout = buffer.layout
    if layout is not None:
        if not layout.is_constant() or set(layout.axes()) - {"m"}:
            return None
        tile = layout.tile if isinstance(layout, ComposeLayout) else layout
        if not isinstance(tile, SwizzleLayout):
            if any(not isinstance(i.stride, int) or i.stride < 0 for i in (*tile.shard, *tile.replica)):
                return None
            reach = tile.span("m")
            if not isinstance(reach, int):
                return None
            elements = reach
    return -(-elements * dt.storage_bits(buffer.dtype) // 8)


def _storage(func: ir.PrimFunc, buffers: list[tuple[ir.Buffer, Any]]) -> dict[ir.Var, int]:
    """Bytes behind each pointer, where they are known: allocations, parameters, the dynamic shared memory."""
    known: dict[ir.Var, int] = {}
    dynamic: list[int] = []

    def look(node: Any) -> None:
        if isinstance(node, ir.AttrStmt) and node.attr_key == "tirx.dyn_smem_bytes":
            if isinstance(node.value, ir.IntImm):
                dynamic.append(int(node.value))

    ir.post_order_visit(func.body, look)
    for buffer, stmt in buffers:
        if isinstance(stmt, ir.DeclBuffer):
            continue
        size = _extent_bytes(buffer)
        if buffer.scope == "shared.dyn" and buffer.const_shape() == (0,) and len(dynamic) == 1:
            size = dynamic[0]
        if size is not None:
            known[buffer.data] = size
    return known


def _offset_bytes(buffer: ir.Buffer) -> int | None:
    if not isinstance(buffer.elem_offset, ir.IntImm):
        return None
    return int(buffer.elem_offset) * dt.storage_bits(buffer.dtype) // 8


def _inside(buffer: ir.Buffer, stmt: Any, storage: dict[ir.Var, int]) -> list[Finding]:
    size, offset, behind = _extent_bytes(buffer), _offset_bytes(buffer), storage.get(buffer.data)
    if not isinstance(stmt, ir.DeclBuffer) or size is None or offset is None or behind is None:
        return []
    if offset + size <= behind:
        return []
    return [Finding(
        "view beyond its storage", "warning", buffer.name, f"it ends at byte {offset + size} of {behind}",
        f"offset {offset} + {size} bytes", "make the storage larger, or the view smaller", _span(stmt), buffer.layout,
    )]  # fmt: skip


def _matrix_operands(func: ir.PrimFunc) -> set[ir.Buffer]:
    """Buffers that the tensor core or a tensor copy addresses through a descriptor."""
    found: set[ir.Buffer] = set()

    def look(node: Any) -> None:
        if isinstance(node, ir.TilePrimitiveCall) and node.op.short_name in ("gemm_async", "copy_async"):
            found.update(r.buffer for r in node.regions() if r.buffer.scope.startswith("shared"))

    ir.post_order_visit(func.body, look)
    return found


def _aligned(buffer: ir.Buffer, stmt: Any, operands: set[ir.Buffer]) -> list[Finding]:
    """A swizzle repeats after a period; a descriptor's base must be a multiple of it, or the pattern is shifted."""
    layout = buffer.layout
    swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else layout
    offset = _offset_bytes(buffer)
    if not isinstance(swizzle, SwizzleLayout) or swizzle.swizzle_len == 0 or offset is None:
        return []
    period = swizzle.period * dt.storage_bits(buffer.dtype) // 8
    if offset % period == 0:
        return []
    severity = "error" if buffer in operands else "warning"
    return [Finding(
        "unaligned swizzle", severity, buffer.name, f"its base is at byte {offset}, its swizzle repeats every {period}",
        f"{offset} % {period} = {offset % period}", f"allocate it with align={period}", _span(stmt), layout,
    )]  # fmt: skip
