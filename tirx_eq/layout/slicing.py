"""The layout of a box of a buffer.

``slice_layout(L, shape, region)`` gives L' over the region's extents with ``L'(c) = L(begin + c)`` for every c in the
box, or a LayoutError: there is no third outcome.  Within a swizzle the tile is sliced: the begin is inside the XOR.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import LayoutError
from ..ir.expr import Range
from .axis import Axis
from .base import Layout
from .compose import ComposeLayout
from .grouping import group
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout, default_layout
from .value import Value, add, as_value, div, exact_div, mod, mul, subtract

#: largest extent of a region that is tabulated when it wraps around digits irregularly.
_TABLE_LIMIT = 1 << 16


def as_range(entry: Any, extent: Value) -> tuple[Value, Value]:
    """(begin, extent) of a region entry: a ``Range``, a Python slice, or a pair (begin, end)."""
    if isinstance(entry, Range):
        return as_value(entry.min, "begin"), as_value(entry.extent, "extent")
    if isinstance(entry, slice):
        if entry.step not in (None, 1):
            raise LayoutError(f"slice: a region has step 1, got {entry.step}")
        begin = as_value(0 if entry.start is None else entry.start, "begin")
        end = extent if entry.stop is None else as_value(entry.stop, "end")
    else:
        try:
            begin, end = (as_value(v, "a bound of the region") for v in entry)
        except (TypeError, ValueError):
            raise LayoutError(f"slice: a region entry is a Range, a slice or (begin, end), got {entry!r}") from None
    return begin, subtract(end, begin)


def slice_layout(layout: Layout, shape: Sequence[Any], region: Sequence[Any]) -> Layout:
    """The layout of ``region`` of a buffer of ``shape`` with ``layout``.

    ``region``: per dimension a ``Range(min, extent)``, a Python slice or a pair (begin, end); begins may be symbolic.
    Preconditions, each an error naming the dimension: the shape has the layout's size; the region is not empty and
    inside the shape (checked where constant); the box of each dimension is again a tile of digits.
    """
    dims = [as_value(e, "an extent of the shape") for e in shape]
    if len(region) != len(dims):
        raise LayoutError(f"slice: {len(region)} ranges for a shape of {len(dims)} dimensions")
    ranges = [as_range(r, e) for r, e in zip(region, dims)]
    for d, ((begin, extent), whole) in enumerate(zip(ranges, dims)):
        if isinstance(extent, int) and extent < 1:
            raise LayoutError(f"slice: dimension {d} of the region is empty (extent {extent})")
        end = add(begin, extent)
        beyond = isinstance(end, int) and isinstance(whole, int) and end > whole
        if (isinstance(begin, int) and begin < 0) or beyond:
            raise LayoutError(f"slice: dimension {d}: [{begin}, {end}) isn't inside [0, {whole})")
    if isinstance(layout, SwizzleLayout):
        return ComposeLayout(layout, _slice_tile(default_layout(dims), dims, ranges))
    if isinstance(layout, ComposeLayout):
        return ComposeLayout(layout.swizzle, _slice_tile(layout.tile, dims, ranges))
    assert isinstance(layout, TileLayout)
    return _slice_tile(layout, dims, ranges)


def _slice_tile(layout: TileLayout, dims: Sequence[Value], ranges: Sequence[tuple[Value, Value]]) -> TileLayout:
    grouped, seps = _grouped(layout, dims)
    offset = dict(grouped.offset)
    iters: list[Iter] = []
    for d, (begin, extent) in enumerate(ranges):
        part = grouped.shard[seps[d] : seps[d + 1]]
        kept, shift = _slice_dim(part, begin, extent, d)
        iters.extend(kept)
        for axis, value in shift:
            offset[axis] = add(offset.get(axis, 0), value)
    return TileLayout(tuple(iters), grouped.replica, {a: v for a, v in offset.items() if v != 0 or a in layout.offset})


def _grouped(layout: TileLayout, dims: Sequence[Value]) -> tuple[TileLayout, tuple[int, ...]]:
    """Grouped by the shape; iters that don't nest are tried again fused."""
    try:
        return group(layout, dims)
    except LayoutError:
        from .normal import fuse_shard

        return group(TileLayout(fuse_shard(layout.shard), layout.replica, layout.offset), dims)


def _slice_dim(
    part: Sequence[Iter], begin: Value, extent: Value, d: int
) -> tuple[list[Iter], list[tuple[Axis, Value]]]:
    """Digits of one dimension restricted to [begin, begin + extent): the digits kept, and the shift per axis."""
    from .normal import fuse_shard

    digits = list(fuse_shard(part))
    inner: list[Iter] = []
    shift: list[tuple[Axis, Value]] = []
    while len(digits) > 1:
        last = digits[-1]
        whole = exact_div(extent, last.extent)
        start = exact_div(begin, last.extent)
        if whole is not None and start is not None:  # whole runs of the last digit
            inner.insert(0, last)
            begin, extent = start, whole
            digits.pop()
            continue
        if extent == 1:
            return inner, shift + _point(digits, begin)
        if _within(begin, extent, last.extent):  # inside one run of the last digit
            upper, lower = div(begin, last.extent), mod(begin, last.extent)
            shift += _point(digits[:-1], upper)
            inner.insert(0, Iter(extent, last.stride, last.axis))
            return inner, shift + [(last.axis, mul(lower, last.stride))]
        tabulated = _tabulate(digits, begin, extent)
        if tabulated is None:
            raise LayoutError(
                f"slice: dimension {d}: [{begin}, {begin} + {extent}) of the digits "
                f"{', '.join(f'{i.extent}:{i.stride}@{i.axis.name}' for i in digits)} isn't a tile of digits",
                hint=f"align it to multiples of {last.extent}",
            )
        kept, base = tabulated
        return kept + inner, shift + base
    if digits:
        only = digits[0]
        inner.insert(0, Iter(extent, only.stride, only.axis))
        shift.append((only.axis, mul(begin, only.stride)))
    return inner, shift


def _point(digits: Sequence[Iter], index: Value) -> list[tuple[Axis, Value]]:
    """Shift of one index of a digit list."""
    shift: list[tuple[Axis, Value]] = []
    for k, it in reversed(list(enumerate(digits))):
        digit = index if k == 0 else mod(index, it.extent)
        shift.append((it.axis, mul(digit, it.stride)))
        index = div(index, it.extent)
    return shift


def _within(begin: Value, extent: Value, run: Value) -> bool:
    """Whether [begin, begin + extent) evidently stays inside one aligned run of ``run``."""
    if isinstance(begin, int) and isinstance(extent, int) and isinstance(run, int):
        return begin % run + extent <= run
    return exact_div(run, extent) is not None and exact_div(begin, extent) is not None


def _tabulate(
    digits: Sequence[Iter], begin: Value, extent: Value
) -> tuple[list[Iter], list[tuple[Axis, Value]]] | None:
    """The box by its values: digits and base per axis if the values form a tile."""
    import numpy as np

    from .table import plain_digits

    constant = all(isinstance(i.extent, int) and isinstance(i.stride, int) for i in digits)
    if not constant or not isinstance(begin, int) or not isinstance(extent, int) or extent > _TABLE_LIMIT:
        return None
    values = TileLayout(tuple(digits)).evaluate(np.arange(begin, begin + extent))
    found = plain_digits(values)
    if found is None:
        return None
    base = [(Axis.get(name), int(v[0])) for name, v in values.items()]
    return [Iter(e, s, Axis.get(a)) for e, s, a in found], [(a, v) for a, v in base if v]
