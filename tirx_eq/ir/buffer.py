"""Buffers and regions of them.

A :class:`Buffer` is compared by identity: its declaration and every region of it refer to one object.  Storage scope
lives in the type of its ``data`` pointer; a view shares that pointer with what it views.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ..errors import IRError, Span
from . import dtype as dt
from .arith import binary, const
from .expr import BufferLoad, Call, Expr, IntImm, PointerType, PrimType, Ramp, Range, Sub, Var
from .node import node
from .op import Op


@node("tirx.Buffer", identity=True)
class Buffer:
    """A typed, shaped view of memory.

    ``shape`` in elements; ``strides`` (elements) empty for compact; ``elem_offset`` in elements from ``data``;
    ``data_alignment`` in bytes; ``layout`` maps logical coordinates to storage (None: no layout was given on purpose);
    ``allocated_addr`` gives the address of storage that is not addressed through ``data`` (a TMEM column address).
    """

    data: Var
    dtype: str
    shape: tuple[Expr, ...]
    strides: tuple[Expr, ...] = ()
    elem_offset: Expr = field(default_factory=lambda: IntImm("int32", 0))
    name: str = "buffer"
    data_alignment: int = 64
    offset_factor: int = 1
    layout: Any = None
    allocated_addr: tuple[Expr, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.data.ty, PointerType):
            raise IRError(f"buffer '{self.name}': data must be a pointer variable, got {self.data!r}")
        dt.parse(self.dtype)
        if self.strides and len(self.strides) != len(self.shape):
            raise IRError(f"buffer '{self.name}' has {len(self.shape)} dimensions but {len(self.strides)} strides")

    @property
    def scope(self) -> str:
        """Storage scope: global, shared, shared.dyn, local, tmem, …"""
        return self.data.ty.storage_scope  # type: ignore[union-attr]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def const_shape(self) -> tuple[int, ...] | None:
        """The shape as integers, or None if an extent is symbolic."""
        if all(isinstance(e, IntImm) for e in self.shape):
            return tuple(int(e) for e in self.shape)  # type: ignore[call-overload]
        return None

    def __getitem__(self, key: Any) -> BufferLoad | BufferRegion:
        """``B[i, j]`` is the element; with a slice among the indices, the region (an index is then an extent of 1)."""
        keys = key if isinstance(key, tuple) else tuple(key) if isinstance(key, list) else (key,)
        if len(keys) > self.ndim:
            raise IRError(f"buffer '{self.name}' has {self.ndim} dimensions but {len(keys)} indices are given")
        if len(keys) < self.ndim and any(isinstance(k, slice) for k in keys):
            keys = keys + (slice(None),) * (self.ndim - len(keys))
        if any(isinstance(k, slice) and k.step in (None, 1) for k in keys):
            return BufferRegion(self, tuple(self._range(d, k) for d, k in enumerate(keys)))
        return BufferLoad(self, tuple(self._index(d, k) for d, k in enumerate(keys)))

    def _range(self, dim: int, key: Any) -> Range:
        if not isinstance(key, slice):
            index = self._index(dim, key)
            return Range(index, IntImm(index.dtype, 1))
        if key.step not in (None, 1):
            raise IRError(f"region of '{self.name}', dimension {dim}: a step of {key.step} can't be mixed with ranges")
        extent = self.shape[dim]
        start = const(0 if key.start is None else key.start)
        stop = const(extent if key.stop is None else key.stop)
        length = binary(Sub, stop, start)
        if isinstance(length, IntImm) and int(length) < 0:
            raise IRError(f"region of '{self.name}', dimension {dim}: stop is before start")
        return Range(start, length)

    def _index(self, dim: int, key: Any) -> Expr:
        if isinstance(key, slice):
            start, stop, step = key.start, key.stop, key.step
            lanes = (const(stop) - const(start or 0)) // step
            if not isinstance(lanes, IntImm):
                raise IRError(f"index of '{self.name}', dimension {dim}: a strided slice needs constant bounds")
            return Ramp(const(start or 0), const(step), int(lanes))
        index = const(key)
        if dt.kind(index.dtype) not in ("int", "uint", "bool"):
            raise IRError(f"index of '{self.name}', dimension {dim}, must be an integer, got {index.dtype}")
        return index

    def full_region(self) -> BufferRegion:
        """The region that is the whole buffer."""
        return BufferRegion(self, tuple(Range(IntImm(e.dtype, 0), e) for e in self.shape))

    def ptr_to(self, indices: Sequence[Any]) -> Expr:
        """The address of the element at ``indices``."""
        load = self[tuple(indices)]
        return Call("handle", Op.get("tirx.address_of"), (load,))

    def __repr__(self) -> str:
        shape = ", ".join(str(int(e)) if isinstance(e, IntImm) else "?" for e in self.shape)
        return f"Buffer({self.name!r}, [{shape}], {self.dtype}, {self.scope})"


@node("tirx.BufferRegion")
class BufferRegion:
    """A box of a buffer: one Range per dimension."""

    buffer: Buffer
    region: tuple[Range, ...]
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        if len(self.region) != self.buffer.ndim:
            raise IRError(
                f"a region of '{self.buffer.name}' needs {self.buffer.ndim} ranges, got {len(self.region)}"
            )

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    def extents(self) -> tuple[Expr, ...]:
        return tuple(r.extent for r in self.region)

    def const_extents(self) -> tuple[int, ...] | None:
        """Extents as integers, or None if one is symbolic."""
        if all(isinstance(r.extent, IntImm) for r in self.region):
            return tuple(int(r.extent) for r in self.region)  # type: ignore[call-overload]
        return None

    def as_load(self) -> BufferLoad:
        """This region where an expression is wanted: extents must be constant; one above 1 becomes a Ramp."""
        indices: list[Expr] = []
        for dim, r in enumerate(self.region):
            if not isinstance(r.extent, IntImm):
                raise IRError(f"region of '{self.buffer.name}', dimension {dim}: its extent isn't constant")
            indices.append(r.min if int(r.extent) == 1 else Ramp(r.min, IntImm(r.min.dtype, 1), int(r.extent)))
        return BufferLoad(self.buffer, tuple(indices))

    def __getitem__(self, key: Any) -> BufferRegion | BufferLoad:
        """A sub-region, in coordinates relative to this one."""
        keys = key if isinstance(key, tuple) else (key,)
        shifted: list[Any] = []
        for dim, r in enumerate(self.region):
            k = keys[dim] if dim < len(keys) else slice(None)
            if isinstance(k, slice):
                start = 0 if k.start is None else k.start
                stop = r.extent if k.stop is None else k.stop
                shifted.append(slice(r.min + start, r.min + stop, k.step))
            else:
                shifted.append(r.min + k)
        return self.buffer[tuple(shifted)]


def make_buffer(
    name: str,
    shape: Sequence[Any],
    dtype: str,
    scope: str = "global",
    *,
    data: Var | None = None,
    strides: Sequence[Any] = (),
    elem_offset: Any = 0,
    data_alignment: int = 64,
    offset_factor: int = 1,
    layout: Any = None,
    allocated_addr: Sequence[Any] = (),
    span: Span | None = None,
) -> Buffer:
    """A Buffer from Python values; makes the data pointer (named as the buffer) unless one is given."""
    dtype = dt.normalize(dtype)
    if data is None:
        data = Var(name, PointerType(PrimType(dtype), scope))
    addresses = allocated_addr if isinstance(allocated_addr, (list, tuple)) else (allocated_addr,)
    return Buffer(
        data, dtype, tuple(const(e) for e in shape), tuple(const(e) for e in strides), const(elem_offset), name,
        data_alignment, offset_factor, layout, tuple(const(a) for a in addresses), span=span,
    )  # fmt: skip
