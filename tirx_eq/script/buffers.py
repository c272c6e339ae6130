"""Buffers of the script: parameters, allocations, views over given storage, scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import layout as layouts
from ..errors import IRError, LayoutError
from ..ir import (
    AllocBuffer,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Expr,
    IntImm,
    PointerType,
    PrimType,
    Ramp,
    Var,
    cast,
    const,
)
from ..ir import dtype as dt
from ..ir.linear import simplified
from .builder import current, emit, maybe_current
from .values import as_expr, attribute_value, dtype_name

DEFAULT = "default"
#: Bytes to which storage is aligned unless told otherwise.
DEFAULT_ALIGNMENT = 64


def as_shape(shape: Any) -> tuple[Expr, ...]:
    """Extents as expressions; a single extent is a shape of one dimension, a string a new symbolic extent."""
    if isinstance(shape, (str, Expr)) or not isinstance(shape, Sequence):
        shape = (shape,)
    extents = tuple(Var(e, PrimType("int32")) if isinstance(e, str) else as_expr(e) for e in shape)
    for dim, e in enumerate(extents):
        if not dt.is_integer(e.dtype):
            raise IRError(f"extent {dim} of a shape must be an integer, got {e.dtype}")
        if isinstance(e, IntImm) and int(e) < 0:
            raise IRError(f"extent {dim} of a shape is negative: {int(e)}")
    return extents


def resolve_layout(layout: Any, shape: Sequence[Expr]) -> Any:
    """The layout meant by ``layout=``: ``"default"`` is row-major, None none.

    One that doesn't fit the shape is refused.
    """
    if layout is None:
        return None
    if isinstance(layout, str):
        if layout != DEFAULT:
            raise LayoutError(f"'{layout}' is not a layout", hint='a layout object, None, or "default"')
        empty = any(isinstance(e, IntImm) and int(e) == 0 for e in shape)
        return None if empty else layouts.default_layout(shape)
    if isinstance(layout, layouts.Spec):
        layout = layouts.TileLayout(layout)  # type: ignore[arg-type]
    if not isinstance(layout, layouts.Layout):
        raise LayoutError(f"a {type(layout).__name__} is not a layout")
    check_admits(layout, shape)
    return layout


def check_admits(layout: Any, shape: Sequence[Expr]) -> None:
    """Refuse a layout whose size is known to differ from that of the shape (a bare swizzle admits every shape)."""
    if isinstance(layout, layouts.OpenLayout):
        layout = layout.through  # what is left open fits, the order of its elements must
    if layout is None or isinstance(layout, layouts.SwizzleLayout):
        return
    size = layout.size()
    total = 1
    for e in shape:
        if not isinstance(e, IntImm):
            return
        total *= int(e)
    if isinstance(size, int) and size != total:
        text = "×".join(str(int(e)) for e in shape)  # type: ignore[call-overload]
        raise LayoutError(
            f"the layout {layout} has {size} elements, but the buffer's shape {text} has {total}",
            hint="the extents of a layout's shard multiply to the number of elements of the buffer",
        )


def buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    byte_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    layout: Any = DEFAULT,
    allocated_addr: Any = None,
    buffer_name: str = "buffer",
) -> Buffer:
    """A buffer object; nothing is emitted.

    ``shape``, ``strides`` and ``elem_offset`` are in elements; ``byte_offset`` in bytes (give one of the two);
    ``align`` in bytes, 0 or -1 for the default of 64.  With a ``data`` variable the storage scope is that of ``data``.
    """
    name = dtype_name(dtype)
    extents = as_shape(shape)
    builder = maybe_current()
    if isinstance(data, Var) and isinstance(data.ty, PointerType):
        pointer = data
    else:
        pointer = Var(buffer_name, PointerType(PrimType(name), scope))
        if builder is not None:
            builder.unnamed(pointer)
    if layouts.is_open(layout) and pointer.ty.storage_scope == "global":  # type: ignore[union-attr]
        raise LayoutError(
            "the layout of a buffer in global memory can't be left open", hint="whoever fills it in needs to know it"
        )
    made = Buffer(
        pointer, name, extents,
        tuple(Var(s, PrimType("int32")) if isinstance(s, str) else as_expr(s) for s in strides or ()),
        _element_offset(elem_offset, byte_offset, name), buffer_name,
        align if align > 0 else DEFAULT_ALIGNMENT, offset_factor or 1, resolve_layout(layout, extents),
        _addresses(allocated_addr), span=builder.span if builder else None,
    )  # fmt: skip
    return builder.unnamed(made) if builder is not None else made


def _element_offset(elem_offset: Any, byte_offset: Any, dtype: str) -> Expr:
    if elem_offset is not None and byte_offset is not None:
        raise IRError("give elem_offset or byte_offset, not both")
    if byte_offset is None:
        return as_expr(0 if elem_offset is None else elem_offset)
    bits = dt.storage_bits(dtype)
    if isinstance(byte_offset, int) and byte_offset * 8 % bits:
        raise IRError(f"a byte offset of {byte_offset} is not a whole number of {dtype} elements")
    return as_expr(byte_offset * 8 // bits)


def _addresses(value: Any) -> tuple[Expr, ...]:
    if value is None:
        return ()
    return tuple(as_expr(v) for v in (value if isinstance(value, (list, tuple)) else (value,)))


class BufferAnnotation:
    """``Tx.Buffer(shape, dtype, …)``: the annotation of a buffer parameter."""

    def __call__(
        self, shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, elem_offset: Any = None,
        byte_offset: Any = None, scope: str = "global", align: int = 0, offset_factor: int = 0, layout: Any = DEFAULT,
    ) -> Buffer:  # fmt: skip
        return buffer(shape, dtype, data, strides, elem_offset, byte_offset, scope, align, offset_factor, layout)

    def __getitem__(self, keys: Any) -> Buffer:
        if isinstance(keys, tuple) and len(keys) >= 2 and isinstance(keys[1], str):
            return self(*keys)
        return self(keys)

    def __or__(self, other: Any) -> BufferAnnotation:
        return self


def add_parameter(name: str, value: Any) -> Any:
    """Make a Var or a Buffer a parameter of the function; a buffer gets a handle."""
    builder = current()
    builder.name(value, name)
    if isinstance(value, Buffer):
        object.__setattr__(value, "name", name)
        object.__setattr__(value.data, "name", name)
        pointer = Var(f"{name}_handle", value.data.ty, span=builder.span)
        builder.params.append(pointer)
        builder.buffer_map[pointer] = value
        return value
    if not isinstance(value, Var):
        raise IRError(f"parameter '{name}': the annotation gives a {type(value).__name__}, not a variable or buffer")
    object.__setattr__(value, "name", name)
    builder.params.append(value)
    return value


def match_buffer(
    param: Any,
    shape: Any = None,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    layout: Any = DEFAULT,
) -> Buffer:
    """The buffer that a handle parameter points to."""
    builder = current()
    if not isinstance(param, Var) or not any(param is p for p in builder.params):
        raise IRError("match_buffer needs a parameter of the function")
    if not isinstance(param.ty, PointerType):
        raise IRError(f"match_buffer: parameter '{param.name}' is {param.dtype}, not a handle")
    if param in builder.buffer_map:
        raise IRError(f"match_buffer: parameter '{param.name}' has a buffer already")
    if shape is None:
        raise IRError("match_buffer needs the shape")
    made = buffer(shape, dtype, data, strides, elem_offset, None, scope, align, offset_factor, layout)
    if any(param is u for u in builder.untyped):
        object.__setattr__(param, "ty", made.data.ty)
    builder.buffer_map[param] = made
    return made


def alloc_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    byte_offset: Any = None,
    scope: str = "global",
    align: int = -1,
    offset_factor: int = 0,
    layout: Any = DEFAULT,
    allocated_addr: Any = None,
    annotations: dict[str, Any] | None = None,
) -> Buffer:
    """Storage of its own, alive in the rest of the body."""
    made = buffer(
        shape, dtype, data, strides, elem_offset, byte_offset, scope, align, offset_factor, layout, allocated_addr
    )
    given = attribute_value(dict(annotations or {}), "an annotation of a buffer")
    notes = {k: const(v) if isinstance(v, (bool, int, float)) else v for k, v in given.items()}
    emit(AllocBuffer, made, notes)
    return made


def alloc_shared(shape: Any, dtype: Any = "float32", *args: Any, **kwargs: Any) -> Buffer:
    """``alloc_buffer`` in static shared memory."""
    return alloc_buffer(shape, dtype, *args, **{"scope": "shared", **kwargs})


def alloc_local(shape: Any, dtype: Any = "float32", *args: Any, **kwargs: Any) -> Buffer:
    """``alloc_buffer`` in registers."""
    return alloc_buffer(shape, dtype, *args, **{"scope": "local", **kwargs})


def alloc_tmem(shape: Any, dtype: Any = "float32", *args: Any, **kwargs: Any) -> Buffer:
    """``alloc_buffer`` in tensor memory."""
    return alloc_buffer(shape, dtype, *args, **{"scope": "tmem", **kwargs})


def decl_buffer(
    shape: Any,
    dtype: Any = "float32",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    byte_offset: Any = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    layout: Any = DEFAULT,
    allocated_addr: Any = None,
) -> Buffer:
    """A view of storage that exists: at ``data`` (a pointer), or at ``allocated_addr`` (a TMEM column address)."""
    made = buffer(
        shape, dtype, data, strides, elem_offset, byte_offset, scope, align, offset_factor, layout, allocated_addr
    )
    if data is not None:
        emit(DeclBuffer, made, as_expr(data))
    elif allocated_addr is not None:
        emit(DeclBuffer, made)
    elif scope == "tmem":
        raise IRError("decl_buffer in tmem needs allocated_addr, the column address of the storage")
    else:  # a view of nothing is an allocation, as in TIRx
        emit(AllocBuffer, made, {})
    return made


# -- scalars ----------------------------------------------------------------------------------------------------------


def alloc_scalar(dtype: Any = "float32", scope: str = "global") -> BufferLoad:
    """A buffer of one element, read at its element; assigning to the name stores."""
    made = alloc_buffer((1,), dtype, scope=scope)
    return current().fresh(BufferLoad(made, (IntImm("int32", 0),)))


def shared_scalar(dtype: Any = "float32") -> BufferLoad:
    """A scalar in shared memory."""
    return alloc_scalar(dtype, "shared")


def local_scalar(dtype: Any = "float32") -> BufferLoad:
    """A scalar in a register."""
    return alloc_scalar(dtype, "local")


def decl_scalar(dtype: Any, data: Any, scope: str, elem_offset: Any = None, byte_offset: Any = None) -> BufferLoad:
    """A scalar in storage that exists."""
    made = decl_buffer((1,), dtype, data, None, elem_offset, byte_offset, scope, -1)
    return current().fresh(BufferLoad(made, (IntImm("int32", 0),)))


def is_scalar(made: Buffer) -> bool:
    """Whether a buffer has exactly one dimension of extent 1, so that its name can be assigned."""
    return made.ndim == 1 and isinstance(made.shape[0], IntImm) and int(made.shape[0]) == 1


# -- stores -----------------------------------------------------------------------------------------------------------


def buffer_store(target: Buffer, value: Any, indices: Any, predicate: Expr | None = None) -> None:
    """Emit ``target[indices] = value``; the value is converted to the buffer's dtype, a slice stores a vector."""
    from .regions import check_index

    keys = list(indices) if isinstance(indices, (list, tuple)) else [indices]
    if len(keys) != target.ndim:
        raise IRError(f"buffer '{target.name}' has {target.ndim} dimensions but is stored to with {len(keys)} indices")
    where = tuple(store_index(target, d, k) for d, k in enumerate(keys))
    for d, k in enumerate(where):
        check_index(target, d, k)
    wanted = dt.with_lanes(
        dt.element(target.dtype), dt.lanes(target.dtype) * (dt.lanes(where[-1].dtype) if where else 1)
    )
    if isinstance(value, bool) and target.dtype == "bool":
        value = const(value, "bool")
    stored = as_expr(value)
    if dt.lanes(stored.dtype) != dt.lanes(wanted):
        raise IRError(
            f"a store to '{target.name}' of {dt.lanes(wanted)} lanes needs a value of as many, got {stored.dtype}"
        )
    if stored.dtype != wanted and dt.kind(stored.dtype) in ("void", "handle"):
        raise IRError(f"a value of {stored.dtype} can't be stored in '{target.name}' of {target.dtype}")
    emit(BufferStore, target, cast(wanted, stored), where, predicate)


def store_index(target: Buffer, dim: int, key: Any) -> Expr:
    """An index of a store or load: a slice of more than one element is a Ramp."""
    if not isinstance(key, slice):
        index = as_expr(key)
        if dt.kind(index.dtype) not in ("int", "uint", "bool"):
            raise IRError(f"index {dim} of '{target.name}' must be an integer, got {index.dtype}")
        return index
    start = as_expr(0 if key.start is None else key.start)
    stop = as_expr(target.shape[dim] if key.stop is None else key.stop)
    step = 1 if key.step is None else key.step
    for bound in (start, stop, as_expr(step)):
        if not dt.is_integer(bound.dtype):
            raise IRError(f"index {dim} of '{target.name}': a slice is of integers, got {bound.dtype}")
    lanes = simplified((stop - start + (as_expr(step) - 1)) // step)
    if not isinstance(lanes, IntImm):
        raise IRError(f"index {dim} of '{target.name}': a slice with a step needs a constant number of elements")
    if int(lanes) < 1:
        raise IRError(f"index {dim} of '{target.name}': the slice is empty")
    return start if int(lanes) == 1 else Ramp(start, const(step, start.dtype), int(lanes))
