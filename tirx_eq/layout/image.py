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


def image(layout: Layout, flat: int, size: int | None = None) -> frozenset[tuple[tuple[str, int], ...]]:
    """The full set of places of element ``flat``: each a sorted tuple of (axis, value) without zeros.

    LayoutError for an index outside [0, size) (``size`` for a bare swizzle) and for symbolic layouts.
    """
    from itertools import product

    from .digest import as_compose

    swizzle, tile = as_compose(layout, size)
    if not tile.is_constant():
        raise LayoutError("image: the layout has symbolic extents, strides or offsets")
    count = int(tile.size())  # type: ignore[arg-type]
    if not 0 <= flat < count:
        raise LayoutError(f"image: element {flat} isn't in [0, {count})")
    base = tile.at(flat)
    found = set()
    for steps in product(*(range(int(i.extent)) for i in tile.replica)):  # type: ignore[arg-type]
        at = dict(base)
        for r, it in zip(steps, tile.replica):
            at[it.axis.name] = at.get(it.axis.name, 0) + r * int(it.stride)  # type: ignore[arg-type]
        if swizzle is not None and "m" in at:
            at["m"] = int(swizzle.permute(at["m"]))  # type: ignore[arg-type]
        found.add(tuple(sorted((a, v) for a, v in at.items() if v)))
    return frozenset(found)


def collision(layout: Layout, size: int | None = None) -> tuple[int, int] | None:
    """Two elements (first < second) that share a place, the first such pair by second element; None if injective.

    Copies of one element are distinct places of it and don't collide with each other.  Decided by the mixed radix of the
    digits, by the rank over GF(2), or by values up to 2**22; LayoutError beyond that.
    """
    import numpy as np

    from .digest import as_compose, value_table

    _, tile = as_compose(layout, size)
    if not tile.is_constant():
        raise LayoutError("injectivity: the layout has symbolic extents, strides or offsets")
    if _separated(tile):
        return None  # a swizzle permutes the addresses and can't make two equal
    count = int(tile.size())  # type: ignore[arg-type]
    base, copies, _ = value_table(tile)
    total = count
    for shifts in copies.values():
        total *= len(shifts)
    if total > ENUMERATION_LIMIT:
        raise LayoutError(f"injectivity: {total} places are more than the {ENUMERATION_LIMIT} that are compared")
    keys = np.zeros((count, 1), dtype=np.int64)
    for name in sorted({*base, *copies}):
        values = base.get(name, np.zeros(count, dtype=np.int64))
        steps = np.array(copies.get(name, [0]), dtype=np.int64)
        places = (values[:, None] + steps[None, :])[:, None, :]
        low, high = int(places.min()), int(places.max())
        keys = (keys[:, :, None] * (high - low + 1) + (places - low)).reshape(count, -1)
    flat = keys.ravel()
    owner = np.repeat(np.arange(count), keys.shape[1])
    order = np.argsort(flat, kind="stable")
    equal = flat[order][1:] == flat[order][:-1]
    first, second = owner[order][:-1][equal], owner[order][1:][equal]
    clash = first != second
    if not clash.any():
        return None
    pick = int(np.argmin(second[clash]))
    return int(first[clash][pick]), int(second[clash][pick])


def _separated(tile: TileLayout) -> bool:
    """Whether on every axis each stride is beyond the reach of the smaller ones, and no digit stands still."""
    if any(i.stride == 0 and i.extent != 1 for i in tile.shard):
        return False
    for name in tile.axes():
        reach = 0
        for stride, extent in sorted((abs(s), e) for e, s in digits_on(tile, name) if e > 1 and s):
            if stride <= reach:
                return False
            reach += (extent - 1) * stride
    return True


def injective(layout: Layout, size: int | None = None) -> bool:
    """Whether no two elements share a place; see :func:`collision`."""
    return collision(layout, size) is None


def hole(layout: Layout, extents: dict[str, int], size: int | None = None) -> dict[str, int] | None:
    """The first point of the box ``0 <= coordinate < extents[axis]`` that no element reaches; None if all are covered.

    Axes in use that ``extents`` doesn't name must be 0 everywhere to count.  LayoutError beyond 2**22 points.
    """
    import numpy as np

    from .digest import as_compose, value_table

    _, tile = as_compose(layout, size)
    names = sorted(extents)
    points = 1
    for name in names:
        points *= extents[name]
    if points > ENUMERATION_LIMIT:
        raise LayoutError(f"covers: a box of {points} points is more than the {ENUMERATION_LIMIT} that are checked")
    base, copies, rows = value_table(layout, size)
    count = int(tile.size())  # type: ignore[arg-type]
    inside = np.ones((count, 1), dtype=bool)
    keys = np.zeros((count, 1), dtype=np.int64)
    for name in sorted({*base, *copies, *names}):
        values = base.get(name, np.zeros(count, dtype=np.int64))[:, None]
        shifted = np.array(copies.get(name, [0]), dtype=np.int64)[None, :]
        if name == "m" and rows is not None:
            shifted = rows
        places = (values + shifted)[:, None, :]
        extent = extents.get(name, 1)
        keys = (keys[:, :, None] * extent + places).reshape(count, -1)
        inside = (inside[:, :, None] & (places >= 0) & (places < extent)).reshape(count, -1)
    reached = np.zeros(points, dtype=bool)
    reached[keys[inside]] = True
    if reached.all():
        return None
    missing = int(np.argmin(reached))
    point = {}
    for name in reversed(names):
        missing, point[name] = divmod(missing, extents[name])
    return point


def covers(layout: Layout, extents: dict[str, int], size: int | None = None) -> bool:
    """Whether every point of the box is reached; see :func:`hole`."""
    return hole(layout, extents, size) is None
