"""Thread axes of one CTA: ``tx = 32·warpid + laneid = 128·wgid + tid_in_wg``, ``tid_in_wg = 32·wid_in_wg + laneid``.

In CTA scope a lane, warp or warpgroup number is a part of the thread number, so every coordinate on these axes is a
number of threads.  ``to_thread`` writes a layout with ``tx`` alone; two layouts name the same threads if and only if these
forms are equal.  ``split`` goes the other way, and only where the parts stay inside their ranges (lane < 32 …).

Offsets and copies are carried along.  Where only one warp or warpgroup is meant (the layout is of one warp's registers),
do not fuse: ``laneid`` alone then says nothing about the warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import LayoutError
from .axis import AXES, THREAD_FACTORS, Axis
from .base import Layout
from .compose import ComposeLayout
from .image import bounds
from .normal import canonical_tile, fuse_shard
from .tile import Iter, TileLayout
from .value import Value, add, mul

#: (what is fused, into what) with the factors, narrowest first: the reference's pairs, with correct factors.
FUSIONS: tuple[tuple[tuple[str, ...], str, dict[str, int]], ...] = (
    (("wgid", "wid_in_wg"), "warpid", {"wgid": 4, "wid_in_wg": 1}),
    (("wid_in_wg", "laneid"), "tid_in_wg", {"wid_in_wg": 32, "laneid": 1}),
    (("warpid", "laneid"), "tx", {"warpid": 32, "laneid": 1}),
    (("wgid", "tid_in_wg"), "tx", {"wgid": 128, "tid_in_wg": 1}),
)

#: axes that a coordinate can be split into, with the threads that one step is, widest first.
_SPLITS: dict[tuple[str, ...], dict[str, int]] = {
    ("warpid", "laneid"): {"warpid": 32, "laneid": 1},
    ("wgid", "tid_in_wg"): {"wgid": 128, "tid_in_wg": 1},
    ("wgid", "wid_in_wg", "laneid"): {"wgid": 128, "wid_in_wg": 32, "laneid": 1},
    ("wid_in_wg", "laneid"): {"wid_in_wg": 32, "laneid": 1},
    ("wgid", "wid_in_wg"): {"wgid": 4, "wid_in_wg": 1},
}


def to_thread(layout: Layout) -> Layout:
    """The layout in CTA scope with all of wgid, wid_in_wg, tid_in_wg, warpid and laneid expressed on ``tx``; canonical.

    Preconditions, so that the parts don't run into each other: per axis, the digits and copies spread over no more than
    the hardware has (32 on laneid, 128 on tid_in_wg, 4 on wid_in_wg; an offset is carried along whatever it is), and no
    two axes in use count the same thing (warpid beside wgid).
    """
    used = [a for a in layout.axes() if a in THREAD_FACTORS]
    _check_ranges(layout, used)
    _check_disjoint(used)
    return _renamed(layout, {a: ("tx", THREAD_FACTORS[a]) for a in used})


def fuse_threads(layout: Layout) -> Layout:
    """Pairs of thread axes that are both in use become the wider axis: (warpid, laneid) -> tx and so on; canonical.

    Layouts that use only one axis of a pair are left alone.
    """
    again = True
    while again:
        again = False
        for pair, wide, factors in FUSIONS:
            if all(a in layout.axes() for a in pair):
                _check_ranges(layout, pair)
                layout = _renamed(layout, {a: (wide, f) for a, f in factors.items()})
                again = True
    return layout.canonicalize()


def split_threads(layout: Layout, source: Any, *parts: Any) -> Layout:
    """Coordinates on one axis written on several: ``split_threads(L, "tx", "warpid", "laneid")``.

    Each digit, copy and the offset is cut at the parts' sizes.  Precondition: a digit never carries from one part into
    the next; LayoutError names the digit that does.
    """
    names = tuple(Axis.get(p).name for p in parts)
    factors = _SPLITS.get(names)
    origin = Axis.get(source)
    narrow: dict[tuple[str, ...], str] = {("wid_in_wg", "laneid"): "tid_in_wg", ("wgid", "wid_in_wg"): "warpid"}
    if factors is None or narrow.get(names, "tx") != origin.name:
        raise LayoutError(f"split: {origin.name} isn't made of {', '.join(names)}")
    return _on_tile(layout, lambda tile: _split_tile(tile, origin, factors))


def _split_tile(tile: TileLayout, origin: Axis, factors: Mapping[str, int]) -> TileLayout:
    if not tile.is_constant():
        raise LayoutError("split: extents, strides and offsets must be numbers")
    order = sorted(factors.items(), key=lambda p: -p[1])  # widest first
    offset: dict[Axis, Value] = dict(tile.offset)
    start = int(offset.pop(origin, 0))  # type: ignore[arg-type]
    if start < 0:
        raise LayoutError(f"split: the offset on {origin.name} is {start}; it must be at least 0")
    reach: dict[str, int] = {}
    rest = start
    for name, factor in order:
        reach[name], rest = divmod(rest, factor)
        if reach[name]:
            offset[Axis.get(name)] = add(offset.get(Axis.get(name), 0), reach[name])
    room = {name: (order[k - 1][1] // factor if k else None) for k, (name, factor) in enumerate(order)}

    def cut(it: Iter) -> list[Iter]:
        if it.axis != origin or it.extent == 1 or it.stride == 0:
            return [it]
        extent, stride = int(it.extent), int(it.stride)  # type: ignore[arg-type]
        made: list[Iter] = []
        for k in reversed(range(len(order))):  # narrowest part first
            name, factor = order[k]
            limit = order[k - 1][1] if k else None
            if extent == 1 or (limit is not None and stride >= limit and stride % limit == 0):
                continue
            if stride % factor:
                break
            part = extent
            if limit is not None and stride * extent > limit:
                if limit % stride or extent % (limit // stride):
                    break
                part = limit // stride
            step = stride // factor
            reach[name] += (part - 1) * step
            most = room[name]
            if most is not None and reach[name] >= most:
                break
            made.insert(0, Iter(part, step, Axis.get(name)))
            extent //= part
            stride *= part
        if extent != 1:
            raise LayoutError(
                f"split: the digit {it.extent}:{it.stride} on {origin.name} carries from one part into another"
            )
        return made

    shard = [i for it in tile.shard for i in cut(it)]
    replica = [i for it in tile.replica for i in cut(it)]
    made, _ = canonical_tile(TileLayout(tuple(shard), tuple(replica), offset))
    return made


def _check_ranges(layout: Layout, axes: Any) -> None:
    for name in axes:
        most = AXES[name].extent
        if most is None:
            continue
        low, high = bounds(layout, name)
        if isinstance(low, int) and isinstance(high, int) and high - low >= most:
            raise LayoutError(f"threads: the layout spreads from {low} to {high} on {name}, which has {most} values")


def _check_disjoint(used: Any) -> None:
    covers = {"tx": "wsl", "laneid": "l", "tid_in_wg": "sl", "warpid": "ws", "wid_in_wg": "s", "wgid": "w"}
    for k, a in enumerate(used):
        for b in used[k + 1 :]:
            if set(covers[a]) & set(covers[b]):
                raise LayoutError(f"threads: the layout uses both {a} and {b}, which overlap")


def _renamed(layout: Layout, names: Mapping[str, tuple[str, int]]) -> Layout:
    def moved(axis: Axis, value: Value) -> tuple[Axis, Value]:
        wide, factor = names.get(axis.name, (axis.name, 1))
        return Axis.get(wide), mul(value, factor)

    def iters(old: tuple[Iter, ...]) -> tuple[Iter, ...]:
        made = []
        for i in old:
            axis, stride = moved(i.axis, i.stride)
            made.append(Iter(i.extent, stride, axis))
        return tuple(made)

    def renamed(tile: TileLayout) -> TileLayout:
        offset: dict[Axis, Value] = {}
        for axis, value in tile.offset.items():
            wide, total = moved(axis, value)
            offset[wide] = add(offset.get(wide, 0), total)
        made, _ = canonical_tile(TileLayout(fuse_shard(iters(tile.shard)), iters(tile.replica), offset))
        return made

    return _on_tile(layout, renamed)


def _on_tile(layout: Layout, operation: Any) -> Layout:
    if isinstance(layout, ComposeLayout):
        return ComposeLayout(layout.swizzle, operation(layout.tile))
    made: Layout = operation(layout) if isinstance(layout, TileLayout) else layout
    return made
