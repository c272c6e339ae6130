"""Layouts as functions from index to address: composition, complement, inverses, divide, product.

For layouts on memory axis m without copies, read as integer functions L: [0, size) -> Z.  Each operation gives a layout
with exactly the stated property or a LayoutError that names what is in the way; a result is never a layout that is right
only for some indices.  In CuTe's terms these are composition, complement, right_inverse, left_inverse, logical_divide and
logical_product; there the first mode is fastest, here the last.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import LayoutError
from .axis import m
from .base import Layout
from .compose import ComposeLayout
from .image import bounds
from .linear import LinearMap, from_linear, reduce_by, to_linear
from .normal import canonicalize, fuse_shard
from .table import plain_digits
from .tile import Iter, TileLayout
from .value import product_int

#: most elements of a composition that is found by its values.
TABLE_LIMIT = 1 << 20


def _function(layout: Layout, operation: str) -> TileLayout:
    """The tile of a layout that is a function of numbers to m."""
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile, TileLayout):
        raise LayoutError(f"{operation}: a bare swizzle has no size", hint="compose it with the identity of the size wanted")
    if not tile.is_constant():
        raise LayoutError(f"{operation}: extents, strides and offsets must be numbers")
    others = [a for a in tile.axes() if a != "m"]
    if others:
        raise LayoutError(f"{operation}: the layout must be on axis m only; it uses {', '.join(others)}")
    if any(i.extent != 1 and i.stride != 0 for i in tile.replica):
        raise LayoutError(f"{operation}: the layout has copies, so it isn't a function")
    return TileLayout(fuse_shard(tile.shard), (), tile.offset)


def digits(tile: TileLayout) -> list[tuple[int, int]]:
    """(extent, stride), fastest first."""
    return [(int(i.extent), int(i.stride)) for i in reversed(tile.shard)]  # type: ignore[arg-type]


def _tile(parts: Sequence[tuple[int, int]], offset: int = 0) -> TileLayout:
    """From (extent, stride), fastest first."""
    shard = fuse_shard([Iter(e, s) for e, s in reversed(parts)]) or (Iter(1, 1),)
    return TileLayout(shard, (), {m: offset} if offset else {})


def offset_of(tile: TileLayout) -> int:
    """Offset on m."""
    return int(tile.offset.get(m, 0))  # type: ignore[arg-type]


# -- composition -----------------------------------------------------------------------------------------------------


def composition(outer: Layout, inner: Layout) -> Layout:
    """``outer ∘ inner``: x -> outer(inner(x)), over inner's indices.

    Preconditions: inner's addresses are indices of outer, 0 to size(outer) - 1; and the composed function is a tile of
    digits (under outer's swizzle).  Up to 2**20 elements the second is decided exactly; beyond, digits of inner must not
    carry in outer's mixed radix.
    """
    over, under = _function(outer, "composition"), _function(inner, "composition")
    low, high = bounds(inner, "m")
    size = product_int(e for e, _ in digits(over))
    if not 0 <= int(low) or not int(high) < size:  # type: ignore[arg-type]
        raise LayoutError(
            f"composition: the inner layout reaches from {low} to {high}, the outer one has indices 0 to {size - 1}"
        )
    made: Layout | None = None
    if not isinstance(inner, ComposeLayout):
        made = _by_digits(over, under)
    if made is None:
        made = _by_values(over, inner)
    if isinstance(outer, ComposeLayout):
        if not isinstance(made, TileLayout):
            raise LayoutError("composition: both layouts are swizzled, and the two swizzles don't merge into one")
        made = ComposeLayout(outer.swizzle, made)
    return canonicalize(made)


def _by_digits(outer: TileLayout, inner: TileLayout) -> TileLayout | None:
    """Each digit of the inner layout within digits of the outer one, if none carries; None if it isn't that simple."""
    cuts = [1]
    strides = []
    for extent, stride in digits(outer):
        cuts.append(cuts[-1] * extent)
        strides.append(stride)
    room = [cuts[k + 1] // cuts[k] - 1 for k in range(len(strides))]
    start = offset_of(inner)
    value = offset_of(outer)
    if start < 0:
        return None
    for k, stride in enumerate(strides):
        c = start // cuts[k] % (room[k] + 1)
        room[k] -= c
        value += c * stride
    made: list[tuple[int, int]] = []
    for extent, stride in digits(inner):
        while extent > 1:
            if stride <= 0:
                if stride < 0:
                    return None
                made.append((extent, 0))
                break
            k = max((j for j in range(len(strides)) if cuts[j] <= stride), default=0)
            if stride % cuts[k]:
                return None
            step = stride // cuts[k]
            most = room[k] // step + 1
            part = extent
            if extent > most or stride * (extent - 1) >= cuts[k + 1]:
                if cuts[k + 1] % stride or extent % (cuts[k + 1] // stride):
                    return None
                part = cuts[k + 1] // stride
            if part < 2 or part > most:
                return None
            room[k] -= (part - 1) * step
            made.append((part, step * strides[k]))
            extent //= part
            stride *= part
    return _tile(made, value)


def _by_values(outer: TileLayout, inner: Layout) -> Layout:
    import numpy as np

    count = int(inner.size())  # type: ignore[arg-type]
    if count > TABLE_LIMIT:
        raise LayoutError(
            f"composition: a digit of the inner layout carries in the outer one's radix, and {count} elements are more "
            f"than the {TABLE_LIMIT} that are decided by their values"
        )
    index = inner.evaluate(np.arange(count, dtype=np.int64)).get("m", np.zeros(count, dtype=np.int64))
    values = outer.evaluate(index).get("m", np.zeros(count, dtype=np.int64))
    found = plain_digits({"m": values})
    if found is not None:
        return _tile([(e, s) for e, s, _ in reversed(found)], int(values[0]))
    if isinstance(inner, ComposeLayout):  # a swizzle in the middle may still be a swizzle at the end
        return _swizzled_values(values)
    x = _first_irregular(values)
    raise LayoutError(
        f"composition: the result isn't a tile of digits: it steps by {int(values[1] - values[0]) if count > 1 else 0} "
        f"at first, but element {x} (inner address {int(index[x])}) is at {int(values[x])}"
    )


def _first_irregular(values: object) -> int:
    """The first index that doesn't continue the innermost run and isn't the start of a repetition of it."""
    import numpy as np

    assert isinstance(values, np.ndarray)
    step = values[1] - values[0]
    breaks = np.flatnonzero(values[1:] - values[:-1] != step) + 1
    if not len(breaks):
        return len(values) - 1
    run = int(breaks[0])
    for b in breaks:
        if int(b) % run:
            return int(b)
    return run


def _swizzled_values(values: object) -> Layout:
    import numpy as np

    assert isinstance(values, np.ndarray)
    bits = len(values).bit_length() - 1
    start = int(values[0])
    columns = [int(values[1 << i]) ^ start for i in range(bits)]
    rebuilt = np.full(1, start, dtype=np.int64)
    for c in columns:
        rebuilt = np.concatenate([rebuilt, rebuilt ^ c])
    if len(rebuilt) != len(values) or not (rebuilt == values).all():
        raise LayoutError("composition: the swizzle of the inner layout isn't linear after the outer one")
    return from_linear(LinearMap(("m",), (start,), tuple((c,) for c in columns)))


# -- inverses --------------------------------------------------------------------------------------------------------


def right_inverse(layout: Layout) -> Layout:
    """The longest R with ``layout(R(y)) = y`` for all y in [0, size(R)).

    Digits are taken by ascending stride as long as each continues where the last ended; precondition: no offset.
    """
    if isinstance(layout, ComposeLayout) and layout.swizzle.swizzle_len:
        return _linear_inverse(layout)
    tile = _function(layout, "right inverse")
    if offset_of(tile):
        raise LayoutError(f"right inverse: the layout's offset is {offset_of(tile)}; it must be 0")
    place = 1
    placed: list[tuple[int, int, int]] = []
    for extent, stride in digits(tile):
        placed.append((stride, extent, place))
        place *= extent
    reach = 1
    made: list[tuple[int, int]] = []
    for stride, extent, index in sorted(placed):
        if stride == reach:
            made.append((extent, index))
            reach *= extent
    return _tile(made)


def left_inverse(layout: Layout) -> Layout:
    """An L with ``L(layout(x)) = x`` for all x; addresses between the image's points map to the index below them.

    Preconditions: injective with every stride a multiple of the reach of the smaller ones; no offset, no negative
    stride.  LayoutError names the stride.
    """
    if isinstance(layout, ComposeLayout) and layout.swizzle.swizzle_len:
        return _linear_inverse(layout)
    tile = _function(layout, "left inverse")
    if offset_of(tile):
        raise LayoutError(f"left inverse: the layout's offset is {offset_of(tile)}; it must be 0")
    made: list[tuple[int, int]] = []
    for gap, extent, index in _ladder(tile, "left inverse"):
        made.extend([(gap, 0), (extent, index)])
    return _tile(made)


def _ladder(tile: TileLayout, operation: str) -> list[tuple[int, int, int]]:
    """(repetitions skipped below, extent, index stride) by ascending stride, each stride a multiple of the last reach."""
    place = 1
    placed: list[tuple[int, int, int]] = []
    for extent, stride in digits(tile):
        if extent > 1:
            if stride <= 0:
                raise LayoutError(f"{operation}: stride {stride} (extent {extent}) must be above 0")
            placed.append((stride, extent, place))
        place *= extent
    reach = 1
    made = []
    for stride, extent, index in sorted(placed):
        if stride % reach:
            raise LayoutError(
                f"{operation}: stride {stride} (extent {extent}) isn't a multiple of {reach}, the reach of the smaller strides"
            )
        made.append((stride // reach, extent, index))
        reach = stride * extent
    return made


def _linear_inverse(layout: Layout) -> Layout:
    """Inverse of a swizzled bijection onto [0, size), through its matrix."""
    _function(layout, "inverse")
    linear = to_linear(layout)
    offset, columns = linear.on("m")
    if offset:
        raise LayoutError(f"inverse: the layout's offset is {offset}; it must be 0")
    bits = len(columns)
    if any(c < 0 or c >> bits for c in columns):
        raise LayoutError("inverse: a swizzled layout must be a bijection onto [0, size); it reaches beyond")
    # reduce (address | index) pairs: the index part of the row for address bit j is column j of the inverse
    basis: list[int] = []
    for i, c in enumerate(columns):
        v = reduce_by(basis, c << bits | 1 << i)
        if not v >> bits:
            raise LayoutError("inverse: the layout isn't injective")
        lead = v.bit_length() - 1
        basis = sorted([b ^ v if b >> lead & 1 else b for b in basis] + [v], reverse=True)
    inverse = {b.bit_length() - 1 - bits: b & ((1 << bits) - 1) for b in basis}
    return from_linear(LinearMap(("m",), (0,), tuple((inverse[j],) for j in range(bits))))


# -- complement, divide, product -------------------------------------------------------------------------------------


def complement(layout: Layout, size: int) -> TileLayout:
    """The C with ``layout(x) + C(y)`` running over every multiple once: (layout, C) is a bijection onto [0, cover).

    cover is the least whole number of repetitions that is at least ``size``.  Preconditions as for :func:`left_inverse`;
    a swizzled layout has none here.
    """
    if isinstance(layout, ComposeLayout) and layout.swizzle.swizzle_len:
        raise LayoutError("complement: not defined for a swizzled layout", hint="take that of the tile under the swizzle")
    tile = _function(layout, "complement")
    if offset_of(tile):
        raise LayoutError(f"complement: the layout's offset is {offset_of(tile)}; it must be 0")
    if size < 1:
        raise LayoutError(f"complement: the size must be at least 1, got {size}")
    reach = 1
    made: list[tuple[int, int]] = []
    for gap, extent, _ in _ladder(tile, "complement"):
        made.append((gap, reach))
        reach *= gap * extent
    made.append((-(-size // reach), reach))
    return _tile([(e, s) for e, s in made if e > 1])


def divide(layout: Layout, tiler: Layout) -> Layout:
    """``layout`` with its indices split by ``tiler``: the fast part runs within a tile, the slow part over tiles.

    ``layout ∘ (complement(tiler, size(layout)), tiler)``.  Precondition: tiler and its complement cover exactly the
    indices of the layout.
    """
    size = int(layout.size())  # type: ignore[arg-type]
    inner = _function(tiler, "divide")
    rest = complement(inner, size)
    both = _tile([*digits(inner), *digits(rest)])
    count = product_int(e for e, _ in digits(both))
    if count != size:
        raise LayoutError(f"divide: the tiler and its complement cover {count} indices, the layout has {size}")
    return composition(layout, both)


def product(block: Layout, tiler: Layout) -> Layout:
    """Copies of ``block`` placed as ``tiler`` says: the fast part is the block, the slow part runs over the copies.

    The copies are at ``complement(block, size(block) * reach(tiler)) ∘ tiler``.
    """
    base = _function(block, "product")
    by = _function(tiler, "product")
    if isinstance(block, ComposeLayout) and block.swizzle.swizzle_len:
        raise LayoutError("product: not defined for a swizzled block", hint="use tile, which tiles under the swizzle")
    _, high = bounds(by, "m")
    count = product_int(e for e, _ in digits(base))
    places = composition(complement(base, count * (int(high) + 1)), by)  # type: ignore[arg-type]
    assert isinstance(places, TileLayout)
    return canonicalize(_tile([*digits(base), *digits(_function(places, "product"))], offset_of(places)))
