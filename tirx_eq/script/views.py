"""Views of buffers: other shapes, element types, orders of dimensions and parts of the same storage.

Each function declares a new buffer over the storage of the given one; nothing is moved.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from .. import layout as layouts
from ..errors import IRError
from ..ir import Buffer, Call, Expr, IntImm, Op, call
from ..ir import dtype as dt
from ..ir.linear import simplified
from ..layout.grouping import group
from .buffers import decl_buffer
from .values import Dtype, as_expr, dtype_name


def _is_tmem(buffer: Buffer) -> bool:
    return buffer.scope == "tmem" and bool(buffer.allocated_addr)


def redeclare(
    buffer: Buffer, shape: Sequence[Any], layout: Any, *, dtype: str | None = None, elem_offset: Any = None,
    columns: Any = None,
) -> Buffer:  # fmt: skip
    """A view with another shape, layout, dtype or place; TMEM moves by ``columns`` of its address."""
    if _is_tmem(buffer):
        address = buffer.allocated_addr[0]
        if columns is not None:
            address = address + columns
        return decl_buffer(
            list(shape), dtype or buffer.dtype, scope="tmem", align=buffer.data_alignment, layout=layout,
            allocated_addr=address,
        )  # fmt: skip
    return decl_buffer(
        list(shape), dtype or buffer.dtype, buffer.data, buffer.strides,
        buffer.elem_offset if elem_offset is None else elem_offset, None, buffer.scope, buffer.data_alignment,
        buffer.offset_factor, layout,
    )  # fmt: skip


def view(buffer: Buffer, *shape: Any, layout: Any = None) -> Buffer:
    """``view(*shape, layout=…)``: another shape (one extent may be -1); ``view(dtype)``: other elements."""
    if len(shape) == 1 and isinstance(shape[0], (str, Dtype)):
        return _view_dtype(buffer, dtype_name(shape[0]))
    extents = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else list(shape)
    if layout is None:
        extents = _infer(buffer, extents)
    return redeclare(buffer, extents, buffer.layout if layout is None else layout)


def _infer(buffer: Buffer, extents: list[Any]) -> list[Any]:
    known = [e for e in extents if not (isinstance(e, int) and e == -1)]
    have = buffer.const_shape()
    if len(known) < len(extents) - 1:
        raise IRError(f"view of '{buffer.name}': only one extent can be -1")
    if len(known) == len(extents) - 1:
        total: Any = prod(have) if have is not None else _product(buffer.shape)
        rest = _product(known)
        if isinstance(total, int) and isinstance(rest, int) and (rest == 0 or total % rest):
            raise IRError(f"view of '{buffer.name}': {total} elements can't be divided by {rest}")
        return [total // rest if isinstance(e, int) and e == -1 else e for e in extents]
    numbers = [int(e) for e in extents if isinstance(e, (int, IntImm))]
    if have is not None and len(numbers) == len(extents) and prod(numbers) != prod(have):
        raise IRError(f"view of '{buffer.name}': {prod(have)} elements can't be seen as {'×'.join(map(str, numbers))}")
    return extents


def _product(extents: Sequence[Any]) -> Any:
    total: Any = 1
    for e in extents:
        total = total * (int(e) if isinstance(e, IntImm) else e)
    return total


def _view_dtype(buffer: Buffer, dtype: str) -> Buffer:
    old, new = dt.storage_bits(buffer.dtype), dt.storage_bits(dtype)
    if max(old, new) % min(old, new):
        raise IRError(f"view of '{buffer.name}': {buffer.dtype} can't be seen as {dtype}")
    if buffer.layout is None:
        raise IRError(f"view of '{buffer.name}' as {dtype}: it has no layout")
    last = buffer.shape[-1]
    if new > old:
        ratio = new // old
        if isinstance(last, IntImm) and int(last) % ratio:
            raise IRError(f"view of '{buffer.name}': its last extent {int(last)} can't be divided by {ratio}")
        return redeclare(
            buffer, [*buffer.shape[:-1], last // ratio], buffer.layout.pack(ratio), dtype=dtype,
            elem_offset=buffer.elem_offset // ratio,
        )  # fmt: skip
    ratio = old // new
    return redeclare(
        buffer, [*buffer.shape[:-1], last * ratio], buffer.layout.unpack(ratio), dtype=dtype,
        elem_offset=buffer.elem_offset * ratio,
    )  # fmt: skip


def local(buffer: Buffer, *shape: Any, layout: Any = None) -> Buffer:
    """One thread's part of a buffer spread over threads: its storage elements in order, or reshaped."""
    extents: list[Any] = list(shape)
    if not extents or layout is None:
        if buffer.layout is None:
            raise IRError(f"local of '{buffer.name}': it has no layout, so give shape and layout=")
        if layouts.is_open(buffer.layout):
            if not extents or layout is not None:
                raise IRError(f"local of '{buffer.name}': its layout is left open, so give the shape, and no layout")
            return redeclare(buffer, extents, "default")
        storage = buffer.layout.storage()
        size = storage.span() if layout is None else storage.size()
        if not extents:
            extents = [size]
        elif isinstance(size, int) and all(isinstance(e, (int, IntImm)) for e in extents):
            if prod(int(e) for e in extents) != size:
                raise IRError(
                    f"local of '{buffer.name}': the shape has {prod(int(e) for e in extents)} elements, "
                    f"but a thread holds {size}"
                )
    return redeclare(buffer, extents, "default" if layout is None else layout)


# -- parts and orders -------------------------------------------------------------------------------------------------


def _tile_and_swizzle(buffer: Buffer, what: str) -> tuple[Any, Any]:
    layout = buffer.layout
    if layout is None:
        raise IRError(f"{what} of '{buffer.name}': it has no layout")
    if layouts.is_open(layout):
        raise IRError(
            f"{what} of '{buffer.name}': its layout is left open",
            hint="name the part where it is used, as a region such as B[k, :, :], or view(shape)",
        )
    if isinstance(layout, layouts.ComposeLayout):
        return layout.tile, layout.swizzle
    if isinstance(layout, layouts.SwizzleLayout):
        return layouts.default_layout((_product(buffer.shape),)), layout
    return layout, None


def _with_swizzle(tile: Any, swizzle: Any) -> Any:
    return tile if swizzle is None else layouts.ComposeLayout(swizzle, tile)


def permute(buffer: Buffer, *dims: Any) -> Buffer:
    """The dimensions in another order."""
    order = list(dims[0]) if len(dims) == 1 and isinstance(dims[0], (list, tuple)) else list(dims)
    if sorted(order) != list(range(buffer.ndim)):
        raise IRError(f"permute of '{buffer.name}': {order} is not an order of its {buffer.ndim} dimensions")
    if layouts.is_open(buffer.layout):
        return redeclare(buffer, [buffer.shape[d] for d in order], buffer.layout.permuted(buffer.shape, order))
    tile, swizzle = _tile_and_swizzle(buffer, "permute")
    grouped, at = group(tile, buffer.shape)
    shard = tuple(i for d in order for i in grouped.shard[at[d] : at[d + 1]])
    made = layouts.TileLayout.from_iters(shard, grouped.replica, dict(grouped.offset))
    return redeclare(buffer, [buffer.shape[d] for d in order], _with_swizzle(made, swizzle))


def rearrange(buffer: Buffer, pattern: str, **sizes: int) -> Buffer:
    """An einops-like reordering: ``rearrange("(a b) c -> a b c", a=2)``."""
    left_text, arrow, right_text = pattern.partition("->")
    if not arrow:
        raise IRError(f"rearrange: the pattern {pattern!r} has no '->'")
    left, right = _axes(left_text), _axes(right_text)
    if len(left) != buffer.ndim:
        raise IRError(f"rearrange: {len(left)} groups for the {buffer.ndim} dimensions of '{buffer.name}'")
    flat_left = [a for g in left for a in g]
    flat_right = [a for g in right for a in g]
    if sorted(flat_left) != sorted(flat_right):
        raise IRError(f"rearrange: the axes {flat_left} and {flat_right} differ")
    extents: dict[str, int] = {}
    for names, dim in zip(left, buffer.shape):
        extents.update(_split_extent(names, dim, sizes))
    out = view(buffer, *[extents[a] for a in flat_left])
    out = permute(out, *[flat_left.index(a) for a in flat_right])
    return view(out, *[prod(extents[a] for a in g) for g in right])


def _axes(side: str) -> list[list[str]]:
    return [g.split() if g else [bare] for g, bare in re.findall(r"\(([^)]*)\)|(\S+)", side)]


def _split_extent(names: list[str], dim: Expr, sizes: dict[str, int]) -> dict[str, int]:
    if not isinstance(dim, IntImm):
        raise IRError(f"rearrange: the extent of ({' '.join(names)}) is not a number")
    known = {a: int(sizes[a]) for a in names if a in sizes}
    unknown = [a for a in names if a not in sizes]
    total = prod(known.values())
    if len(unknown) > 1:
        raise IRError(f"rearrange: the sizes of {', '.join(unknown)} are not given")
    if int(dim) % total or (not unknown and int(dim) != total):
        raise IRError(f"rearrange: ({' '.join(names)}) is {int(dim)}, which the sizes {known} don't divide")
    return known | {a: int(dim) // total for a in unknown}


def _iter_offset(iters: Sequence[Any], index: Any) -> Any:
    """Storage offset of ``index`` along the iters of one dimension."""
    total: Any = None
    for place, it in enumerate(iters):
        below = prod(i.extent for i in iters[place + 1 :])
        digit = index if below == 1 else index // below
        index = index if below == 1 else index % below
        term = digit * it.stride
        total = term if total is None else total + term
    return total


def _commutes(swizzle: Any, offset: Any) -> bool:
    """Whether an offset may be added outside the swizzle: it is a multiple of the swizzle's period."""
    if swizzle is None or offset is None or swizzle.swizzle_len == 0:
        return True
    return _multiple_of(offset, swizzle.period)


def _multiple_of(offset: Any, n: int) -> bool:
    if isinstance(offset, (int, IntImm)):
        return int(offset) % n == 0
    from ..ir.linear import linear_form

    terms, rest = linear_form(offset)
    return rest % n == 0 and all(k % n == 0 for k in terms.values())


def _rebuild(
    buffer: Buffer, shape: Sequence[Any], shard: Sequence[Any], grouped: Any, swizzle: Any, offset: Any
) -> Buffer:
    offsets = dict(grouped.offset)
    tmem = _is_tmem(buffer)
    if not tmem and offset is not None and not _commutes(swizzle, offset):
        axis = layouts.m
        offsets[axis] = offsets.get(axis, 0) + offset
        offset = None
    made = _with_swizzle(layouts.TileLayout.from_iters(tuple(shard), grouped.replica, offsets), swizzle)
    if tmem:
        return redeclare(buffer, shape, made, columns=_columns(buffer, offset))
    place = buffer.elem_offset if offset is None else buffer.elem_offset + offset
    return redeclare(buffer, shape, made, elem_offset=place)


def _columns(buffer: Buffer, offset: Any) -> Any:
    """A TMEM offset in elements as one in 32-bit columns."""
    if offset is None:
        return None
    bits = offset * dt.storage_bits(buffer.dtype)
    if not _multiple_of(bits, 32):
        raise IRError(f"sub of '{buffer.name}': the TMEM offset must be a whole number of 32-bit columns")
    return int(bits) // 32 if isinstance(bits, (int, IntImm)) else bits // 32


def _check_tmem_axis(buffer: Buffer, iters: Sequence[Any], start: Any) -> None:
    if not _is_tmem(buffer) or (isinstance(start, (int, IntImm)) and int(start) == 0):
        return
    for i in iters:
        if i.axis.name != "TCol":
            raise IRError(f"sub of '{buffer.name}': only columns of TMEM can be offset, not {i.axis.name}")


def _drop(buffer: Buffer, dim: int, index: Any) -> Buffer:
    extent = buffer.shape[dim]
    if isinstance(index, (int, IntImm)) and isinstance(extent, IntImm) and not 0 <= int(index) < int(extent):
        raise IRError(f"sub of '{buffer.name}': index {int(index)} is out of bounds of dimension {dim} ({int(extent)})")
    tile, swizzle = _tile_and_swizzle(buffer, "sub")
    grouped, at = group(tile, buffer.shape)
    iters = list(grouped.shard)
    mine = iters[at[dim] : at[dim + 1]]
    _check_tmem_axis(buffer, mine, index)
    shape = [*buffer.shape[:dim], *buffer.shape[dim + 1 :]]
    rest = iters[: at[dim]] + iters[at[dim + 1] :]
    return _rebuild(buffer, shape, rest, grouped, swizzle, _iter_offset(mine, index))


def _narrow(buffer: Buffer, dim: int, start: Any, length: Any) -> Buffer:
    extent = buffer.shape[dim]
    numbers = all(isinstance(v, (int, IntImm)) for v in (start, length))
    if numbers and (int(start) < 0 or int(length) < 1):
        raise IRError(f"sub of '{buffer.name}': [{int(start)}:{int(start) + int(length)}] is empty or negative")
    if numbers and isinstance(extent, IntImm) and int(start) + int(length) > int(extent):
        raise IRError(
            f"sub of '{buffer.name}': [{int(start)}:{int(start) + int(length)}] is out of bounds of dimension {dim} "
            f"({int(extent)})"
        )
    tile, swizzle = _tile_and_swizzle(buffer, "sub")
    grouped, at = group(tile, buffer.shape)
    iters = list(grouped.shard)
    mine = iters[at[dim] : at[dim + 1]]
    inner = prod(i.extent for i in mine[1:])
    if inner != 1:
        if not numbers or int(start) % inner or int(length) % inner:
            raise IRError(f"sub of '{buffer.name}': start and length in dimension {dim} must be multiples of {inner}")
        start, length = int(start) // inner, int(length) // inner
    outer = mine[0]
    _check_tmem_axis(buffer, [outer], start)
    new = [layouts.Iter(length, outer.stride, outer.axis), *mine[1:]]
    shape = [*buffer.shape[:dim], length * inner, *buffer.shape[dim + 1 :]]
    rest = iters[: at[dim]] + new + iters[at[dim + 1] :]
    return _rebuild(buffer, shape, rest, grouped, swizzle, start * outer.stride)


class SubIndexer:
    """``buffer.sub[…]``: an index drops its dimension, ``a:b`` narrows it, ``a::s`` takes every s-th."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer

    def __getitem__(self, key: Any) -> Buffer:
        out, dim = self._buffer, 0
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > out.ndim:
            raise IRError(f"sub of '{out.name}': {len(keys)} indices for {out.ndim} dimensions")
        for k in keys:
            if not isinstance(k, slice):
                out = _drop(out, dim, k)
                continue
            if k.step is None or int(k.step) == 1:
                if k.start is not None or k.stop is not None:
                    start = 0 if k.start is None else k.start
                    stop = out.shape[dim] if k.stop is None else k.stop
                    out = _narrow(out, dim, start, _number(simplified(as_expr(stop) - start)))
            else:
                out = self._every(out, dim, k)
            dim += 1
        return out

    @staticmethod
    def _every(buffer: Buffer, dim: int, key: slice) -> Buffer:
        extent, step = buffer.shape[dim], int(key.step)
        if key.stop is not None or step < 1 or not isinstance(extent, IntImm) or int(extent) % step:
            raise IRError(f"sub of '{buffer.name}': a step must divide the extent and have no stop")
        split = view(buffer, *buffer.shape[:dim], int(extent) // step, step, *buffer.shape[dim + 1 :])
        return _drop(split, dim + 1, 0 if key.start is None else key.start)


def _number(e: Expr) -> Any:
    return int(e) if isinstance(e, IntImm) else e


class ChunkIndexer:
    """``buffer.chunk((None, n))[:, c]``: chunk c of n equal ones of a dimension, as a region."""

    def __init__(self, buffer: Buffer, spec: Sequence[Any]) -> None:
        if len(spec) != buffer.ndim:
            raise IRError(f"chunk of '{buffer.name}': {len(spec)} entries for {buffer.ndim} dimensions")
        self._buffer, self._spec = buffer, tuple(spec)

    def __getitem__(self, key: Any) -> Any:
        from .regions import subscript

        keys: list[Any] = []
        for dim, pick in enumerate(key if isinstance(key, tuple) else (key,)):
            count = self._spec[dim]
            if count is None:
                keys.append(pick)
                continue
            if isinstance(pick, slice):
                raise IRError(f"chunk of '{self._buffer.name}': dimension {dim} takes the index of a chunk")
            size = _number(self._buffer.shape[dim] // int(count))
            keys.append(slice(pick * size, (pick + 1) * size))
        return subscript(self._buffer, tuple(keys))


class TileIndexer:
    """``buffer.tile(dim, factors)[…]``: the dimension split in factors; an index picks one, ``:`` keeps it."""

    def __init__(self, buffer: Buffer, specs: Sequence[tuple[int, Sequence[Any]]]) -> None:
        self._buffer, self._specs = buffer, specs

    def __getitem__(self, key: Any) -> Buffer:
        picks = list(key) if isinstance(key, tuple) else [key]
        wanted = sum(len(f) for _, f in self._specs)
        if len(picks) != wanted:
            raise IRError(f"tile of '{self._buffer.name}': {wanted} factors but {len(picks)} indices")
        work = []
        for dim, factors in self._specs:
            work.append((dim, factors, picks[: len(factors)]))
            picks = picks[len(factors) :]
        out = self._buffer
        for dim, factors, mine in sorted(work, key=lambda w: -w[0]):
            out = self._pick(out, dim, factors, mine)
        return out

    @staticmethod
    def _pick(buffer: Buffer, dim: int, factors: Sequence[Any], picks: Sequence[Any]) -> Buffer:
        kept = [p for p in picks if p == slice(None)] if all(isinstance(p, slice) for p in picks) else [
            p for p in picks if isinstance(p, slice)
        ]  # fmt: skip
        if len(kept) == len(picks):
            raise IRError(f"tile of '{buffer.name}': no factor of dimension {dim} is picked")
        out = view(buffer, *buffer.shape[:dim], *factors, *buffer.shape[dim + 1 :])
        for place in reversed(range(len(picks))):
            if not isinstance(picks[place], slice):
                out = _drop(out, dim + place, picks[place])
        if len(kept) >= 2:
            out = view(out, *out.shape[:dim], -1, *out.shape[dim + len(kept) :])
        return out


def tile(buffer: Buffer, *specs: Any) -> TileIndexer:
    """Split dimensions in factors: ``tile(dim, factors)`` or several ``(dim, factors)``."""
    pairs = [tuple(specs)] if specs and isinstance(specs[0], int) else list(specs)
    return TileIndexer(buffer, [(int(d) % buffer.ndim, tuple(f)) for d, f in pairs])


# -- pointers ---------------------------------------------------------------------------------------------------------


def ptr_to(buffer: Buffer, indices: Sequence[Any]) -> Expr:
    """The address of an element, by its logical indices."""
    from ..ir import BufferLoad
    from .regions import subscript

    keys = tuple(indices) if isinstance(indices, (list, tuple)) else (indices,)
    if len(keys) != buffer.ndim:
        raise IRError(f"ptr_to of '{buffer.name}': {len(keys)} indices for {buffer.ndim} dimensions")
    load = subscript(buffer, keys)
    if not isinstance(load, BufferLoad):
        raise IRError(f"ptr_to of '{buffer.name}' needs the indices of one element")
    return Call("handle", Op.get("tirx.address_of"), (load,))


def access_ptr(
    buffer: Buffer, access_mask: Any, ptr_type: Any = "handle", content_lanes: int = 1, offset: Any = 0,
    extent: Any = None,
) -> Expr:  # fmt: skip
    """A pointer for reading (``"r"``) or writing (``"w"``) from element ``offset`` on."""
    from .math import type_annotation

    mask = access_mask
    if isinstance(access_mask, str):
        if not access_mask or set(access_mask) - {"r", "w"}:
            raise IRError(f"access_ptr of '{buffer.name}': {access_mask!r} is not made of 'r' and 'w'")
        mask = (1 if "r" in access_mask else 0) | (2 if "w" in access_mask else 0)
    size = _product(buffer.shape) - offset if extent is None else extent
    return call(
        "tirx.tvm_access_ptr", "handle", type_annotation(buffer.dtype), buffer.data, buffer.elem_offset + offset, size,
        mask,
    )  # fmt: skip


def vload(buffer: Buffer, begin: Any, dtype: Any = None) -> Expr:
    """A load of one element, or with a vector ``dtype`` of as many as it has lanes."""
    from ..ir import BufferLoad, Ramp
    from .math import ramp

    keys = [as_expr(b) for b in (begin if isinstance(begin, (list, tuple)) else [begin])]
    lanes = 1 if dtype is None else dt.lanes(dtype_name(dtype)) // dt.lanes(buffer.dtype)
    if lanes > 1 and not isinstance(keys[-1], Ramp):
        keys[-1] = ramp(keys[-1], 1, lanes)
    return BufferLoad(buffer, tuple(keys))


def vstore(buffer: Buffer, begin: Any, value: Any) -> None:
    """A store of a value, at as many elements as it has lanes."""
    from ..ir import Ramp
    from .buffers import buffer_store
    from .math import ramp

    stored = as_expr(value)
    keys = [as_expr(b) for b in (begin if isinstance(begin, (list, tuple)) else [begin])]
    lanes = dt.lanes(stored.dtype) // dt.lanes(buffer.dtype)
    if lanes > 1 and not isinstance(keys[-1], Ramp):
        keys[-1] = ramp(keys[-1], 1, lanes)
    buffer_store(buffer, stored, keys)


def _method(function: Callable[..., Any]) -> Callable[[Buffer], Callable[..., Any]]:
    def bound(buffer: Buffer) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(buffer, *args, **kwargs)

        call.__name__ = function.__name__
        return call

    return bound


#: what a kernel may write after ``buffer.``, beside the fields of the node
BUFFER_ATTRIBUTES: dict[str, Callable[[Buffer], Any]] = {
    **{f.__name__: _method(f) for f in (
        view, local, permute, rearrange, tile, ptr_to, access_ptr, vload, vstore)},
    "chunk": _method(lambda buffer, spec: ChunkIndexer(buffer, spec)),
    "sub": SubIndexer,
    "byte_offset": lambda buffer: buffer.elem_offset * dt.storage_bits(buffer.dtype) // 8,
}  # fmt: skip
