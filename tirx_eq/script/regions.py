"""Indexing buffers: elements, vectors and regions, checked against the shape where numbers allow."""

from __future__ import annotations

from typing import Any

from ..errors import IRError
from ..ir import Buffer, BufferLoad, BufferRegion, Expr, IntImm, Ramp, Range
from ..ir import dtype as dt
from ..ir.linear import difference
from .buffers import store_index
from .values import as_expr


def subscript(buffer: Buffer, key: Any) -> BufferLoad | BufferRegion:
    """``buffer[key]``: an element, or a region if there is a slice or an index is missing; with a step, a vector."""
    keys = list(key) if isinstance(key, (tuple, list)) else [key]
    if len(keys) > buffer.ndim:
        raise IRError(f"buffer '{buffer.name}' has {buffer.ndim} dimensions but {len(keys)} indices are given")
    sliced = any(isinstance(k, slice) for k in keys)
    stepped = any(isinstance(k, slice) and k.step is not None and not _is_one(k.step) for k in keys)
    if len(keys) < buffer.ndim or (sliced and not stepped):
        ranges = tuple(_range(buffer, d, k) for d, k in enumerate(keys))
        rest = tuple(Range(IntImm(e.dtype, 0), e) for e in buffer.shape[len(keys) :])
        return BufferRegion(buffer, ranges + rest)
    indices = tuple(store_index(buffer, d, k) for d, k in enumerate(keys))
    for d, index in enumerate(indices):
        check_index(buffer, d, index)
    return BufferLoad(buffer, indices)


def as_region(value: Any, what: str) -> BufferRegion:
    """A buffer or region as a region.  Raises IRError naming ``what`` for anything else."""
    if isinstance(value, Buffer):
        return BufferRegion(value, tuple(Range(IntImm(e.dtype, 0), e) for e in value.shape))
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        raise IRError(
            f"{what} must be a buffer or a region, got one element of '{value.buffer.name}'",
            hint="give a slice, for example B[0:1]",
        )
    raise IRError(f"{what} must be a buffer or a region, got {type(value).__name__}")


def check_index(buffer: Buffer, dim: int, index: Expr) -> None:
    """Refuse an index that is known to be outside the shape."""
    first: Any = index
    last: Any = index
    if isinstance(index, Ramp) and isinstance(index.base, IntImm) and isinstance(index.stride, IntImm):
        first = index.base
        last = IntImm(index.base.dtype, int(index.base) + int(index.stride) * (index.lanes - 1))
    extent = buffer.shape[dim]
    for edge in (first, last):
        if isinstance(edge, IntImm) and (int(edge) < 0 or (isinstance(extent, IntImm) and int(edge) >= int(extent))):
            size = int(extent) if isinstance(extent, IntImm) else "its extent"
            raise IRError(f"index {int(edge)} is out of bounds of dimension {dim} of '{buffer.name}' (extent {size})")


def _is_one(step: Any) -> bool:
    return isinstance(step, (int, IntImm)) and int(step) == 1


def _range(buffer: Buffer, dim: int, key: Any) -> Range:
    extent = buffer.shape[dim]
    if not isinstance(key, slice):
        index = as_expr(key)
        if dt.kind(index.dtype) not in ("int", "uint", "bool"):
            raise IRError(f"index {dim} of '{buffer.name}' must be an integer, got {index.dtype}")
        check_index(buffer, dim, index)
        return Range(index, IntImm(index.dtype, 1))
    start = as_expr(0 if key.start is None else key.start)
    stop = as_expr(extent if key.stop is None else key.stop)
    for bound in (start, stop):
        if not dt.is_integer(bound.dtype):
            raise IRError(f"slice of '{buffer.name}', dimension {dim}: a bound must be an integer, got {bound.dtype}")
    length = difference(stop, start)
    _check_bounds(buffer, dim, start, stop, length)
    return Range(start, length)


def _check_bounds(buffer: Buffer, dim: int, start: Expr, stop: Expr, length: Expr) -> None:
    extent = buffer.shape[dim]
    where = f"slice of '{buffer.name}', dimension {dim}"
    if isinstance(start, IntImm) and int(start) < 0:
        raise IRError(f"{where}: the start {int(start)} is negative")
    if isinstance(length, IntImm) and int(length) < 1:
        raise IRError(f"{where}: it has {int(length)} elements")
    if not isinstance(extent, IntImm):
        return
    if isinstance(stop, IntImm) and int(stop) > int(extent):
        raise IRError(f"{where}: [{_text(start)}:{int(stop)}] is out of bounds (extent {int(extent)})")
    if isinstance(length, IntImm) and int(length) > int(extent):
        raise IRError(f"{where}: {int(length)} elements are more than the extent {int(extent)}")


def _text(e: Expr) -> str:
    return str(int(e)) if isinstance(e, IntImm) else "…"
