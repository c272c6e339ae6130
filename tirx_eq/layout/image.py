"""What a layout reaches: bounds and span of its image, whether it is injective, whether it covers a range.

Everything here is exact for layouts of numbers; replicas and the swizzle are part of the image.
"""

from __future__ import annotations

from typing import Any

from ..errors import LayoutError
from .axis import Axis
from .base import Layout
from .compose import ComposeLayout
from .swizzle import SwizzleLayout
from .tile import TileLayout
from .value import Value, add, mul

#: most points that are enumerated where no formula applies.
ENUMERATION_LIMIT = 1 << 22


def default_axis(layout: Layout) -> Axis:
    """The axis meant when none is named: ``m``, or the only memory axis in use; LayoutError if there are several."""
    names = layout.axes()
    memory = [n for n in names if Axis.get(n).is_memory()]
    if "m" in names or not memory:
        if len(memory) > 1:
            raise LayoutError(f"span: the layout has the memory axes {', '.join(memory)}", hint="name one")
        return Axis.get("m")
    if len(memory) > 1:
        raise LayoutError(f"span: the layout has the memory axes {', '.join(memory)}", hint="name one")
    return Axis.get(memory[0])


def span(layout: Layout, axis: Any = None) -> Value:
    """One more than the largest coordinate on ``axis``; see :meth:`Layout.span`.

    With symbolic values strides and offsets are taken to be at least 0.  An axis that isn't in use has span 1.
    """
    wanted = default_axis(layout) if axis is None else Axis.get(axis)
    return add(bounds(layout, wanted)[1], 1)


def bounds(layout: Layout, axis: Any) -> tuple[Value, Value]:
    """(smallest, largest) coordinate on ``axis``, inclusive."""
    wanted = Axis.get(axis)
    if isinstance(layout, TileLayout):
        return tile_bounds(layout, wanted)
    if isinstance(layout, SwizzleLayout):
        return (0, layout.period - 1) if wanted.name == "m" else (0, 0)
    assert isinstance(layout, ComposeLayout)
    if wanted.name != "m":
        return tile_bounds(layout.tile, wanted)
    return _swizzled_bounds(layout)


def tile_bounds(layout: TileLayout, axis: Axis) -> tuple[Value, Value]:
    """Bounds of a tile layout: every digit at the end that helps."""
    low: Value = 0
    high: Value = 0
    for it in (*layout.shard, *layout.replica):
        if it.axis != axis:
            continue
        reach = mul(add(it.extent, -1), it.stride)
        if isinstance(reach, int) and reach < 0:
            low = add(low, reach)
        else:
            high = add(high, reach)
    offset = layout.offset.get(axis, 0)
    return add(low, offset), add(high, offset)


def _swizzled_bounds(layout: ComposeLayout) -> tuple[Value, Value]:
    swizzle = layout.swizzle
    low, high = tile_bounds(layout.tile, Axis.get("m"))
    if not isinstance(low, int) or not isinstance(high, int) or not layout.tile.is_constant():
        raise LayoutError("span: the reach of a swizzle over symbolic extents isn't known", hint="give numbers")
    if swizzle.swizzle_len == 0:
        return low, high
    mask = swizzle.period - 1
    if low & mask == 0 and high & mask == mask and _is_run(layout.tile, low, high):
        return low, high  # whole periods: the swizzle permutes each
    values = memory_values(layout)
    return int(values.min()), int(values.max())


def _is_run(tile: TileLayout, low: int, high: int) -> bool:
    """Whether the image on m is every integer of [low, high], evidently: each digit fills up the last."""
    reach = 1
    for stride, extent in sorted((abs(s), e) for e, s in digits_on(tile, "m")):
        if extent > 1 and stride > 0:
            if stride > reach:
                return False
            reach += (extent - 1) * stride
    return reach == high - low + 1


def digits_on(tile: TileLayout, axis: str) -> list[tuple[int, int]]:
    """(extent, stride) of every iter of a constant tile on ``axis``, copies included."""
    return [
        (int(i.extent), int(i.stride))  # type: ignore[arg-type]
        for i in (*tile.shard, *tile.replica)
        if i.axis.name == axis
    ]


def memory_values(layout: Layout) -> Any:
    """All distinct coordinates on m, replicas included, as a sorted int64 array; LayoutError beyond 2**22 of them.

    The tile's digits are merged one by one as a set, so that repeats and overlaps cost nothing.
    """
    import numpy as np

    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if isinstance(layout, SwizzleLayout):
        return np.arange(layout.period, dtype=np.int64)
    assert isinstance(tile, TileLayout)
    values = np.array([int(tile.offset.get(Axis.get("m"), 0))], dtype=np.int64)  # type: ignore[arg-type]
    for it in (*tile.shard, *tile.replica):
        if it.axis.name != "m" or it.extent == 1 or it.stride == 0:
            continue
        extent = int(it.extent)  # type: ignore[arg-type]
        if len(values) * extent > ENUMERATION_LIMIT:
            raise LayoutError(f"the layout's image has over {ENUMERATION_LIMIT} candidates; it can't be enumerated")
        steps = np.arange(extent, dtype=np.int64) * int(it.stride)  # type: ignore[arg-type]
        values = np.unique((values[:, None] + steps[None, :]).ravel())
    if isinstance(layout, ComposeLayout):
        values = np.sort(layout.swizzle.permute_array(values))
    return values
