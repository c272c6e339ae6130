"""Where the elements of a buffer are: logical coordinates, through the layout, to threads and bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ..ir import Buffer, Expr
from ..ir import dtype as dt
from ..layout import ComposeLayout, Iter, Layout, TileLayout
from .ctas import CTA_AXES
from .faults import InterpreterError

Array = Any
#: Thread axis -> (weight in the CTA's thread number, which digits of that number it decides).
THREAD_AXES: dict[str, tuple[int, frozenset[str]]] = {
    "tx": (1, frozenset(("wg", "wid", "lane"))), "warpid": (32, frozenset(("wg", "wid"))),
    "laneid": (1, frozenset(("lane",))), "wgid": (128, frozenset(("wg",))),
    "tid_in_wg": (1, frozenset(("wid", "lane"))), "wid_in_wg": (32, frozenset(("wid",))),
}  # fmt: skip
#: Digits of a thread number: weight and number of values (warpgroups: as many as there are).
DIGITS = {"wg": (128, 0), "wid": (32, 4), "lane": (1, 32)}


def concrete(buffer: Buffer, integer: Callable[[Expr], int]) -> tuple[tuple[int, ...], Layout | None, tuple[int, ...]]:
    """Shape, layout and strides of a buffer as numbers (strides only where they rule: no layout, or given ones)."""
    shape = tuple(integer(e) for e in buffer.shape)
    layout = None if buffer.strides else buffer.layout
    if layout is not None and not layout.is_constant():
        layout = _constant_layout(layout, integer)
    if layout is not None:
        return shape, layout, ()
    if buffer.strides:
        return shape, None, tuple(integer(s) for s in buffer.strides)
    return shape, None, tuple(prod(shape[k + 1 :]) for k in range(len(shape)))


def _constant_layout(layout: Layout, integer: Callable[[Expr], int]) -> Layout:
    def number(v: Any) -> int:
        return v if isinstance(v, int) else integer(v)

    if isinstance(layout, ComposeLayout):
        tile = _constant_layout(layout.tile, integer)
        assert isinstance(tile, TileLayout)
        return ComposeLayout(layout.swizzle, tile)
    assert isinstance(layout, TileLayout)

    def iters(given: Sequence[Iter]) -> tuple[Iter, ...]:
        return tuple(Iter(number(i.extent), number(i.stride), i.axis) for i in given)

    return TileLayout(iters(layout.shard), iters(layout.replica), {a: number(v) for a, v in layout.offset.items()})


def _number(value: Any) -> int:
    """A value of a constant layout."""
    assert isinstance(value, int)
    return value


def coordinates(
    shape: Sequence[int], layout: Layout | None, strides: Sequence[int], coords: Sequence[Array]
) -> list[dict[str, Array]]:
    """Axis coordinates of elements: one dict per replica, the base point first."""
    if layout is None:
        total = np.zeros((), dtype=np.int64)
        for c, s in zip(coords, strides):
            total = total + np.asarray(c, dtype=np.int64) * s
        return [{"m": total}]
    flat = np.zeros((), dtype=np.int64)
    for c, extent in zip(coords, shape):
        flat = flat * extent + np.asarray(c, dtype=np.int64)
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    replica = tile.replica if isinstance(tile, TileLayout) else ()
    if not replica:
        return [layout.evaluate(flat)]
    base = tile.evaluate(flat)
    out = []
    for steps in product(*(range(_number(r.extent)) for r in replica)):
        point: dict[str, Array] = dict(base)
        for k, r in zip(steps, replica):
            point[r.axis.name] = point.get(r.axis.name, np.int64(0)) + k * _number(r.stride)
        if isinstance(layout, ComposeLayout) and "m" in point:
            point["m"] = layout.swizzle.permute_array(np.asarray(point["m"]))
        out.append(point)
    return out


def digits_of(layout: Layout | None) -> frozenset[str]:
    """The digits of the thread number that a layout decides."""
    if layout is None:
        return frozenset()
    covered: frozenset[str] = frozenset()
    for axis in layout.axes():
        if axis in THREAD_AXES:
            covered |= THREAD_AXES[axis][1]
    return covered


def thread_number(point: dict[str, Array], name: str) -> Array:
    """The part of the CTA's thread number that the thread axes of a point give."""
    total: Array = np.int64(0)
    for axis, value in point.items():
        if axis in THREAD_AXES:
            total = total + value * THREAD_AXES[axis][0]
        elif axis not in ("m", "TLane", "TCol", *CTA_AXES):
            raise InterpreterError(f"buffer '{name}': axis {axis} has no meaning in registers")
    return total


def free_numbers(digits: frozenset[str], threads: int) -> Iterator[int]:
    """All thread numbers made of the given digits."""
    choices = []
    for name in sorted(digits):
        weight, count = DIGITS[name]
        choices.append([weight * k for k in range(count or -(-threads // 128))])
    for parts in product(*choices):
        yield sum(parts)


def host_places(buffer: Buffer, integer: Callable[[Expr], int]) -> tuple[Array, int]:
    """Bit offset of every element of a parameter's logical array (in its shape), and the bytes of memory they need."""
    shape, layout, strides = concrete(buffer, integer)
    grids = np.indices(shape, dtype=np.int64) if shape else ()
    points = coordinates(shape, layout, strides, list(grids))
    if len(points) != 1 or set(points[0]) - {"m"}:
        raise InterpreterError(f"parameter '{buffer.name}': its layout must give each element one address in memory")
    m = np.asarray(points[0].get("m", np.int64(0))) + integer(buffer.elem_offset)
    bits = dt.storage_bits(buffer.dtype)
    m = np.broadcast_to(m, shape)
    if m.size and m.min() < 0:
        raise InterpreterError(f"parameter '{buffer.name}': its layout gives a negative address")
    return m * bits, -(-(int(m.max()) + 1 if m.size else 0) * bits // 8)
