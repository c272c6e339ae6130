"""Layouts as affine maps over GF(2), to and from.

Index bit i (bit 0 is the fastest) contributes a column per axis, and the coordinate is the offset XOR the columns of the
bits that are set; copies are further free bits.  A layout has this form exactly if every extent is a power of two and
its digits never carry into each other; reading it off takes a few microseconds at any size.

A map with copies is a coset of the free columns' span for every index, so its normal form reduces columns and offset by
the echelon form of the free part: equal normal forms, equal meaning, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import LayoutError
from .axis import Axis, m
from .base import Layout
from .compose import ComposeLayout
from .normal import fuse_shard, sorted_offset
from .swizzle import SwizzleLayout
from .swizzle_normal import choose_swizzle
from .tile import Iter, TileLayout
from .value import is_power_of_two, product_int


@dataclass(frozen=True)
class LinearMap:
    """x -> offset XOR (columns of the set bits of x) XOR (any combination of the free columns), per axis.

    ``columns[i]`` and ``free[j]`` are vectors in the order of ``axes``; ``offset`` too.  Negative numbers stand for their
    two's complement without end.
    """

    axes: tuple[str, ...]
    offset: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    free: tuple[tuple[int, ...], ...] = ()

    @property
    def bits(self) -> int:
        """Number of index bits; the map is of ``2**bits`` elements."""
        return len(self.columns)

    def apply(self, x: int) -> dict[str, int]:
        """Base point (free bits 0) of index ``x``."""
        value = list(self.offset)
        for i, column in enumerate(self.columns):
            if x >> i & 1:
                value = [v ^ c for v, c in zip(value, column)]
        return dict(zip(self.axes, value))

    def on(self, axis: str) -> tuple[int, list[int]]:
        """(offset, columns) on one axis; zeros if the axis isn't in use."""
        if axis not in self.axes:
            return 0, [0] * self.bits
        k = self.axes.index(axis)
        return self.offset[k], [c[k] for c in self.columns]

    def rows(self, axis: str) -> tuple[int, ...]:
        """Rows of the matrix on one axis, lowest coordinate bit first: bit 0 is the constant, bit i + 1 index bit i.

        Only for coordinates that are never negative (LayoutError).
        """
        offset, columns = self.on(axis)
        if offset < 0 or any(c < 0 for c in columns):
            raise LayoutError(f"rows: the coordinate on axis {axis} may be negative")
        height = max([offset.bit_length(), *(c.bit_length() for c in columns)])
        return tuple(
            (offset >> b & 1) | sum((c >> b & 1) << (i + 1) for i, c in enumerate(columns)) for b in range(height)
        )

    def normal(self) -> LinearMap:
        """The normal form: axes that are always 0 dropped, free part in echelon form, the rest reduced by it."""
        used = [
            k
            for k in range(len(self.axes))
            if self.offset[k] or any(c[k] for c in self.columns) or any(c[k] for c in self.free)
        ]
        axes = tuple(self.axes[k] for k in used)
        if not self.free:
            if len(used) == len(self.axes):
                return self
            rest = tuple(tuple(c[k] for k in used) for c in self.columns)
            return LinearMap(axes, tuple(self.offset[k] for k in used), rest)
        width = 1 + max([1, *(abs(v).bit_length() for v in self._values())])

        def packed(vector: Sequence[int]) -> int:
            mask = (1 << width) - 1
            return sum((vector[k] & mask) << (i * width) for i, k in enumerate(used))

        def unpacked(value: int) -> tuple[int, ...]:
            parts = ((value >> (i * width)) & ((1 << width) - 1) for i in range(len(used)))
            return tuple(p - (1 << width) if p >> (width - 1) else p for p in parts)

        basis = echelon([packed(v) for v in self.free])
        return LinearMap(
            axes,
            unpacked(reduce_by(basis, packed(self.offset))),
            tuple(unpacked(reduce_by(basis, packed(c))) for c in self.columns),
            tuple(unpacked(v) for v in basis),
        )

    def _values(self) -> list[int]:
        return [v for vector in (self.offset, *self.columns, *self.free) for v in vector]

    def rank(self) -> int:
        """Rank of columns and free columns together: the image has ``2**rank`` points."""
        width = 1 + max([1, *(abs(v).bit_length() for v in self._values())])
        mask = (1 << width) - 1
        vectors = [sum((v & mask) << (i * width) for i, v in enumerate(c)) for c in (*self.columns, *self.free)]
        return len(echelon(vectors))

    def is_injective(self) -> bool:
        """Whether no point is reached twice, by two elements or two copies."""
        return self.rank() == self.bits + len(self.free)


def echelon(vectors: Sequence[int]) -> list[int]:
    """Reduced echelon basis of the span, largest leading bit first."""
    basis: list[int] = []
    for v in vectors:
        v = reduce_by(basis, v)
        if v:
            lead = v.bit_length() - 1
            basis = [b ^ v if b >> lead & 1 else b for b in basis]
            basis.append(v)
            basis.sort(reverse=True)
    return basis


def reduce_by(basis: Sequence[int], value: int) -> int:
    """``value`` with the leading bits of an echelon basis cleared."""
    for b in basis:
        if value >> (b.bit_length() - 1) & 1:
            value ^= b
    return value


def to_linear(layout: Layout, size: int | None = None) -> LinearMap:
    """The affine map of a layout.

    ``size``: number of elements of a bare swizzle (a power of two; default one period).  LayoutError tells why a layout
    has no such form: an extent that isn't a power of two, or a stride whose digits carry into others.
    """
    if not layout.is_constant():
        raise LayoutError("linear form: the layout has symbolic extents, strides or offsets")
    swizzle: SwizzleLayout | None = None
    if isinstance(layout, SwizzleLayout):
        swizzle, tile = layout, TileLayout((Iter(layout.period if size is None else size, 1),))
    elif isinstance(layout, ComposeLayout):
        swizzle, tile = layout.swizzle, layout.tile
    else:
        assert isinstance(layout, TileLayout)
        tile = layout
    axes = tile.axes()
    place = {name: k for k, name in enumerate(axes)}
    offset = [0] * len(axes)
    for axis, value in tile.offset.items():
        offset[place[axis.name]] += int(value)  # type: ignore[arg-type]
    used = [0] * len(axes)
    columns = [c for it in reversed(tile.shard) for c in _columns(it, place, offset, used)]
    free = [c for it in tile.replica for c in _columns(it, place, offset, used)]
    if swizzle is not None and "m" in place:
        k = place["m"]
        columns, free = ([_swizzled(swizzle, k, c) for c in part] for part in (columns, free))
        offset = list(_swizzled(swizzle, k, tuple(offset)))
    return LinearMap(axes, tuple(offset), tuple(columns), tuple(free))


def _swizzled(swizzle: SwizzleLayout, k: int, vector: tuple[int, ...]) -> tuple[int, ...]:
    moved = swizzle.permute(vector[k])
    assert isinstance(moved, int)
    return (*vector[:k], moved, *vector[k + 1 :])


def _columns(it: Iter, place: Mapping[str, int], offset: Sequence[int], used: list[int]) -> list[tuple[int, ...]]:
    """Columns of one digit, fastest bit first; ``used`` collects the coordinate bits taken so far, per axis."""
    extent, stride = int(it.extent), int(it.stride)  # type: ignore[arg-type]
    if not is_power_of_two(extent):
        raise LayoutError(f"linear form: the extent {extent} (stride {stride} on {it.axis.name}) isn't a power of two")
    k = place[it.axis.name]
    start = offset[k]
    made = []
    for _ in range(extent.bit_length() - 1):
        column = (start + stride) ^ start
        if used[k] & column:
            raise LayoutError(
                f"linear form: stride {it.stride} (extent {extent} on {it.axis.name}) carries into bits of other digits"
            )
        used[k] |= column
        made.append(tuple(column if i == k else 0 for i in range(len(place))))
        stride *= 2
    return made


def from_linear(linear: LinearMap) -> Layout:
    """The layout of an affine map; LayoutError if it is no swizzle over a tile.

    Each index bit must move along one axis, other axes than m must not be mixed, free columns must be strides, and one
    swizzle must separate the address bits on m.
    """
    axes = linear.axes
    if any(sum(1 for v in c if v) > 1 for c in (*linear.columns, *linear.free)):
        raise LayoutError("from linear form: a bit moves along two axes at once")
    everything = (*linear.columns, *linear.free)
    plain: dict[str, list[int]] = {}
    starts = dict(zip(axes, linear.offset))
    swizzle: SwizzleLayout | None = None
    for k, name in enumerate(axes):
        column = [c[k] for c in everything]
        if name == "m":
            chosen = choose_swizzle(column)
            if chosen is None:
                raise LayoutError("from linear form: no swizzle separates the address bits on axis m")
            swizzle, column = chosen
            if swizzle is not None:
                starts[name] = int(swizzle.permute(starts[name]))  # type: ignore[arg-type]
        elif _mixed(column):
            raise LayoutError(f"from linear form: two index bits change the same bit on axis {name}")
        plain[name] = column

    def bit(index: int) -> Iter:
        for name in axes:
            if value := plain[name][index]:
                start = starts[name]
                return Iter(2, (start ^ value) - start, Axis.get(name))
        return Iter(2, 0)

    shard = fuse_shard([bit(i) for i in reversed(range(linear.bits))]) or (Iter(1, 1),)
    replica = tuple(bit(linear.bits + j) for j in range(len(linear.free)))
    offset = {Axis.get(a): v for a, v in starts.items()}
    tile = TileLayout(shard, replica, sorted_offset(offset))  # type: ignore[arg-type]
    return tile if swizzle is None else ComposeLayout(swizzle, tile)


def _mixed(columns: Sequence[int]) -> bool:
    seen = 0
    for c in columns:
        if seen & c:
            return True
        seen |= c
    return False


def gf2_matrix(layout: Layout, shape: Sequence[int] | None = None) -> tuple[LinearMap, tuple[tuple[str, int], ...]]:
    """The affine map of a layout over ``shape``, and what each index bit is: (coordinate name ``c0``, ``c1`` …, bit).

    Without a shape the one coordinate is ``x``.  LayoutError if an extent of the shape isn't a power of two, or as for
    :func:`to_linear`.
    """
    if shape is None:
        linear = to_linear(layout)
        return linear, tuple(("x", i) for i in range(linear.bits))
    for d, extent in enumerate(shape):
        if not is_power_of_two(extent):
            raise LayoutError(f"linear form: dimension {d} of the shape has the extent {extent}, not a power of two")
    linear = to_linear(layout, product_int(shape))
    if 1 << linear.bits != product_int(shape):
        raise LayoutError(f"linear form: a shape of {product_int(shape)} elements for a layout of {1 << linear.bits}")
    names: list[tuple[str, int]] = []
    for d in reversed(range(len(shape))):
        names.extend((f"c{d}", b) for b in range(shape[d].bit_length() - 1))
    return linear, tuple(names)


def is_linear(layout: Layout) -> bool:
    """Whether the layout is an affine map over GF(2)."""
    try:
        to_linear(layout)
    except LayoutError:
        return False
    return True


def first_difference(a: LinearMap, b: LinearMap) -> tuple[int, dict[str, Any]] | None:
    """The least index at which two maps without copies differ and (axis, bits that differ) there; None if equal."""
    names = sorted({*a.axes, *b.axes})
    for x in (0, *(1 << i for i in range(a.bits))):
        p, q = a.apply(x), b.apply(x)
        differ = {n: p.get(n, 0) ^ q.get(n, 0) for n in names if p.get(n, 0) != q.get(n, 0)}
        if differ:
            return x, differ
    return None


def memory_columns(linear: LinearMap) -> list[int]:
    """Columns on axis m."""
    return linear.on(m.name)[1]
