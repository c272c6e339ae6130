"""Splitting a shard so that its iters nest in the dimensions of a shape."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import LayoutError
from .tile import Iter, TileLayout
from .value import Value, as_value, exact_div, mul, same


def try_group(layout: TileLayout, shape: Sequence[Value]) -> tuple[TileLayout, tuple[int, ...]] | None:
    """As :func:`group`, but None when the iters don't nest."""
    try:
        return group(layout, shape)
    except LayoutError:
        return None


def group(layout: TileLayout, shape: Sequence[Value]) -> tuple[TileLayout, tuple[int, ...]]:
    """The same layout with iters split at the dimensions of ``shape``, and where each dimension's iters start.

    Dimension d has the iters ``shard[seps[d]:seps[d + 1]]``.  Precondition: the shape has the layout's size, and at
    every boundary one of the two extents divides the other; LayoutError names the iter and the dimension.
    """
    dims = [as_value(e, "an extent of the shape") for e in shape]
    made: list[Iter] = []
    seps = [0]
    queue = [i for i in layout.shard if not (isinstance(i.extent, int) and i.extent == 1)]
    at = 0
    current: Iter | None = queue[0] if queue else None
    last = layout.shard[-1] if layout.shard else Iter(1, 1)  # where a dimension of extent 1 is put
    used_up = not queue
    for d, need in enumerate(dims):
        while not (isinstance(need, int) and need == 1):
            if current is None:
                raise LayoutError(f"group: dimension {d} (extent {dims[d]}) needs {need} more elements than there are")
            whole = exact_div(need, current.extent)
            if whole is not None:
                made.append(current)
                last, used_up = current, True
                need = whole
                at += 1
                current = queue[at] if at < len(queue) else None
                continue
            rest = exact_div(current.extent, need)
            if rest is None:
                raise LayoutError(
                    f"group: an iter of extent {current.extent} (stride {current.stride} on {current.axis.name}) "
                    f"doesn't nest in dimension {d} of extent {dims[d]}: "
                    f"neither of {current.extent} and {need} divides the other"
                )
            made.append(Iter(need, mul(current.stride, rest), current.axis))
            current = Iter(rest, current.stride, current.axis)
            used_up = False
            need = 1
        if len(made) == seps[-1]:  # a dimension of extent 1 keeps one iter
            if used_up or current is None:
                made.append(Iter(1, last.stride, last.axis))
            else:
                made.append(Iter(1, mul(current.stride, current.extent), current.axis))
        seps.append(len(made))
    if current is not None and not (isinstance(current.extent, int) and current.extent == 1):
        raise LayoutError(f"group: the layout has {current.extent} times as many elements as the shape {tuple(dims)}")
    return TileLayout(tuple(made), layout.replica, layout.offset), tuple(seps)


def group_many(layout: TileLayout, shapes: Sequence[Sequence[Value]]) -> tuple[TileLayout, tuple[tuple[int, ...], ...]]:
    """The common refinement: one layout whose iters nest in every one of ``shapes``, with the separators of each."""
    current = layout
    for shape in shapes:
        current, _ = group(current, shape)
    for _ in range(len(shapes)):  # a later split may refine an earlier grouping; separators are read off at the end
        for shape in shapes:
            current, _ = group(current, shape)
    return current, tuple(separators(current, shape) for shape in shapes)


def separators(layout: TileLayout, shape: Sequence[Value]) -> tuple[int, ...]:
    """Where each dimension of ``shape`` starts among iters that already nest in it."""
    seps = [0]
    place = 0
    for d, need in enumerate(shape):
        while not (isinstance(need, int) and need == 1):
            if place >= len(layout.shard):
                raise LayoutError(f"the iters end inside dimension {d}")
            rest = exact_div(need, layout.shard[place].extent)
            if rest is None:
                raise LayoutError(f"iter {place} of extent {layout.shard[place].extent} straddles dimension {d}")
            need = rest
            place += 1
        if place == seps[-1] and place < len(layout.shard) and same(layout.shard[place].extent, 1):
            place += 1
        seps.append(place)
    return tuple(seps)
