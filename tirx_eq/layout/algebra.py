"""Operations that make new layouts: tile, direct sum and their inverses, pack, permute, broadcast, storage.

Tiling and sums interleave dimensions: with shapes ``outer_shape`` = (o_0, …) and ``inner_shape`` = (i_0, …) the result
is over (o_0·i_0, o_1·i_1, …), coordinate ``o·i_d + i`` in dimension d.

* ``direct_sum(left, right)`` = left(o) + right(i);
* ``tile(outer, inner)`` = inner(i) + span ⊙ outer(o), where span is inner's span on the axes along which its
  digits move, 1 on others.  Everything of the outer is scaled: strides, copies and offset.  Under a swizzle, the tile
  is tiled.

Every operation either gives a layout with exactly this meaning or raises LayoutError.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..errors import LayoutError
from .axis import Axis, m
from .base import Layout
from .compose import ComposeLayout
from .grouping import group
from .normal import canonical_replica, canonical_tile, fuse_shard, normal_form, sorted_offset
from .replicas import decompose, sum_set
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout, default_layout
from .value import Value, add, as_value, div, exact_div, is_power_of_two, mod, mul, prod


def _dims(shape: Sequence[Any], what: str) -> list[Value]:
    return [as_value(e, f"an extent of {what}") for e in shape]


def _same_rank(a: Sequence[Any], b: Sequence[Any], operation: str) -> None:
    if len(a) != len(b):
        raise LayoutError(f"{operation}: the shapes have {len(a)} and {len(b)} dimensions")


def as_tile(layout: Layout) -> TileLayout:
    """``layout`` if it is a tile; LayoutError if it is swizzled."""
    if not isinstance(layout, TileLayout):
        raise LayoutError(f"an outer or left layout must be a tile, got {layout!r}")
    return layout


def quotient(shape: Sequence[Any], part: Sequence[Any]) -> list[Value]:
    """Extents of ``shape`` divided by those of ``part``; LayoutError names the dimension that doesn't divide."""
    _same_rank(shape, part, "tile inverse")
    made: list[Value] = []
    for d, (whole, piece) in enumerate(zip(_dims(shape, "the tiled shape"), _dims(part, "the part's shape"))):
        count = exact_div(whole, piece)
        if count is None:
            raise LayoutError(f"tile inverse: dimension {d}: {whole} isn't a multiple of {piece}")
        made.append(count)
    return made


def iter_extents(layout: Layout) -> list[Value]:
    """Extents of the shard iters of the tile."""
    tile_layout = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile_layout, TileLayout):
        raise LayoutError("a bare swizzle has no iters", hint="give a shape")
    return [i.extent for i in tile_layout.shard]


def iter_coordinates(layout: Layout, coord: Sequence[Any], shape: Sequence[Any]) -> list[Value]:
    """A coordinate over ``shape`` as digits of the iters grouped by it; the leading digit of a dimension isn't reduced."""
    tile_layout = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile_layout, TileLayout):
        raise LayoutError("a bare swizzle has no iters")
    grouped, seps = group(tile_layout, _dims(shape, "the shape"))
    if len(coord) != len(shape):
        raise LayoutError(f"{len(coord)} coordinates for a shape of {len(shape)} dimensions")
    made: list[Value] = []
    for (start, stop), c in zip(pairwise(seps), _dims(coord, "the coordinate")):
        digits: list[Value] = []
        for k in reversed(range(start, stop)):
            digits.append(c if k == start else mod(c, grouped.shard[k].extent))
            c = div(c, grouped.shard[k].extent)
        made.extend(reversed(digits))
    return made


def _grouped(layout: TileLayout, shape: Sequence[Value]) -> tuple[TileLayout, tuple[int, ...]]:
    return group(TileLayout(fuse_shard(layout.shard), layout.replica, layout.offset), shape)


def _parts(layout: TileLayout, shape: Sequence[Value]) -> list[tuple[Iter, ...]]:
    """The iters of each dimension."""
    made, seps = _grouped(layout, shape)
    return [made.shard[a:b] for a, b in pairwise(seps)]


# -- sums and tiles --------------------------------------------------------------------------------------------------


def direct_sum(left: TileLayout, right: Layout, left_shape: Sequence[Any], right_shape: Sequence[Any]) -> Layout:
    """left(o) + right(i), dimensions interleaved.  Preconditions: equal ranks, iters nest in the shapes."""
    _same_rank(left_shape, right_shape, "direct sum")
    outer, inner = _dims(left_shape, "left_shape"), _dims(right_shape, "right_shape")
    return _under_swizzle(right, inner, lambda tile: _sum(left, tile, outer, inner))


def tile(outer: TileLayout, inner: Layout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> Layout:
    """inner(i) + span(inner) ⊙ outer(o), dimensions interleaved; see the module text.

    Preconditions: equal ranks, each layout's iters nest in its shape, and inner's span is at least 1 on every axis
    along which it moves.  The result is canonical.
    """
    _same_rank(outer_shape, inner_shape, "tile")
    over, under = _dims(outer_shape, "outer_shape"), _dims(inner_shape, "inner_shape")
    return _under_swizzle(inner, under, lambda t: _sum(scaled(outer, spans(t)), t, over, under))


def _under_swizzle(layout: Layout, shape: Sequence[Value], operation: Any) -> Layout:
    if isinstance(layout, SwizzleLayout):
        return ComposeLayout(layout, operation(default_layout(shape)))
    if isinstance(layout, ComposeLayout):
        return ComposeLayout(layout.swizzle, operation(layout.tile))
    made: Layout = operation(layout)
    return made


def _sum(left: TileLayout, right: TileLayout, left_shape: Sequence[Value], right_shape: Sequence[Value]) -> TileLayout:
    iters: list[Iter] = []
    for a, b in zip(_parts(left, left_shape), _parts(right, right_shape)):
        iters.extend((*a, *b))
    offset = dict(right.offset)
    for axis, value in left.offset.items():
        offset[axis] = add(offset.get(axis, 0), value)
    made, _ = canonical_tile(TileLayout(tuple(iters), right.replica + left.replica, offset))
    return made


def spans(layout: TileLayout) -> dict[Axis, Value]:
    """Span per axis along which digits move; LayoutError if one is below 1 (nothing could be placed after it)."""
    found: dict[Axis, Value] = {}
    for axis in _moving(layout.shard):
        reach = layout.span(axis)
        if isinstance(reach, int) and reach < 1:
            raise LayoutError(f"tile: the inner layout's span on axis {axis.name} is {reach}; it must be at least 1")
        found[axis] = reach
    return found


def _moving(iters: Sequence[Iter]) -> list[Axis]:
    return sorted({i.axis for i in fuse_shard(iters) if i.stride != 0}, key=lambda a: a.name)


def scaled(layout: TileLayout, factor: dict[Axis, Value]) -> TileLayout:
    """Every stride and offset multiplied by its axis's factor (1 where there is none)."""

    def times(i: Iter) -> Iter:
        return Iter(i.extent, mul(i.stride, factor.get(i.axis, 1)), i.axis)

    return TileLayout(
        tuple(times(i) for i in layout.shard),
        tuple(times(i) for i in layout.replica),
        {a: mul(v, factor.get(a, 1)) for a, v in layout.offset.items()},
    )


def tile_to(layout: Layout, to_shape: Sequence[Any], current_shape: Sequence[Any]) -> Layout:
    """The layout over ``current_shape`` repeated in row-major order to ``to_shape``.

    Precondition: every extent of ``to_shape`` is a multiple of the current one; LayoutError names the dimension.
    """
    _same_rank(to_shape, current_shape, "tile_to")
    counts: list[Value] = []
    for d, (wanted, current) in enumerate(zip(_dims(to_shape, "to_shape"), _dims(current_shape, "current_shape"))):
        count = exact_div(wanted, current)
        if count is None or (isinstance(count, int) and count < 1):
            raise LayoutError(f"tile_to: dimension {d}: {wanted} isn't a multiple of {current}")
        counts.append(count)
    return tile(default_layout(counts), layout, counts, current_shape)


# -- inverses --------------------------------------------------------------------------------------------------------


def tile_outer_of(
    tiled: Layout, inner: Layout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]
) -> TileLayout | None:
    """The ``outer`` with ``tile(outer, inner) = tiled``, or None if there is none.  Layouts of numbers only."""
    pair = _same_swizzle(tiled, inner, inner_shape, outer_shape)
    if pair is None:
        return None
    whole, part = pair
    found = _left_of(whole, part, outer_shape, inner_shape, spans(part))
    return found if found and _agrees(tile(found, part, outer_shape, inner_shape), whole) else None


def tile_inner_of(
    tiled: Layout, outer: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]
) -> Layout | None:
    """The ``inner`` with ``tile(outer, inner) = tiled``, or None if there is none.  Layouts of numbers only.

    On the axes along which inner moves, the spans decide: span(tiled) = span(inner) · span(outer).
    """
    swizzle, whole = _apart(tiled, _interleaved(outer_shape, inner_shape))
    _constant(whole, outer)
    split = _split_parts(whole, outer_shape, inner_shape)
    factor: dict[Axis, Value] = {}
    for axis in _moving(split[1]) if split else ():
        over = outer.span(axis)
        part = exact_div(whole.span(axis), over) if over else None
        if part is None or (isinstance(part, int) and part < 1):
            return None
        factor[axis] = part
    found = _right_of(whole, scaled(outer, factor), outer_shape, inner_shape)
    if found is None or not _agrees(tile(outer, found, outer_shape, inner_shape), whole):
        return None
    return found if swizzle is None else ComposeLayout(swizzle, found)


def sum_left_of(
    total: Layout, right: Layout, left_shape: Sequence[Any], right_shape: Sequence[Any]
) -> TileLayout | None:
    """The ``left`` with ``direct_sum(left, right) = total``, or None if there is none.  Layouts of numbers only."""
    pair = _same_swizzle(total, right, right_shape, left_shape)
    if pair is None:
        return None
    whole, part = pair
    found = _left_of(whole, part, left_shape, right_shape, {})
    return found if found and _agrees(direct_sum(found, part, left_shape, right_shape), whole) else None


def sum_right_of(
    total: Layout, left: TileLayout, left_shape: Sequence[Any], right_shape: Sequence[Any]
) -> Layout | None:
    """The ``right`` with ``direct_sum(left, right) = total``, or None if there is none.  Layouts of numbers only."""
    swizzle, whole = _apart(total, _interleaved(left_shape, right_shape))
    _constant(whole, left)
    found = _right_of(whole, left, left_shape, right_shape)
    if found is None or not _agrees(direct_sum(left, found, left_shape, right_shape), whole):
        return None
    return found if swizzle is None else ComposeLayout(swizzle, found)


def _interleaved(outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> list[Value]:
    _same_rank(outer_shape, inner_shape, "inverse")
    dims: list[Value] = []
    for o, i in zip(_dims(outer_shape, "the outer shape"), _dims(inner_shape, "the inner shape")):
        dims.extend((o, i))
    return dims


def _apart(layout: Layout, shape: Sequence[Value]) -> tuple[SwizzleLayout | None, TileLayout]:
    if isinstance(layout, SwizzleLayout):
        return layout, default_layout([prod(shape)])
    if isinstance(layout, ComposeLayout):
        return layout.swizzle, layout.tile
    assert isinstance(layout, TileLayout)
    return None, layout


def _constant(*layouts: TileLayout) -> None:
    if not all(x.is_constant() for x in layouts):
        raise LayoutError("inverse: extents, strides and offsets must be numbers")


def _same_swizzle(
    whole: Layout, part: Layout, part_shape: Sequence[Any], other_shape: Sequence[Any]
) -> tuple[TileLayout, TileLayout] | None:
    """The tiles below one common swizzle (or none)."""
    whole_swizzle, whole_tile = _apart(whole, _interleaved(other_shape, part_shape))
    part_swizzle, part_tile = _apart(part, _dims(part_shape, "the shape"))
    _constant(whole_tile, part_tile)
    if whole_swizzle != part_swizzle and not (_idle(whole_swizzle) and _idle(part_swizzle)):
        return None
    return whole_tile, part_tile


def _idle(swizzle: SwizzleLayout | None) -> bool:
    return swizzle is None or swizzle.swizzle_len == 0


def _split_parts(
    whole: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]
) -> tuple[list[Iter], list[Iter]] | None:
    try:
        parts = _parts(whole, _interleaved(outer_shape, inner_shape))
    except LayoutError:
        return None
    return [i for p in parts[0::2] for i in p], [i for p in parts[1::2] for i in p]


def _left_of(
    whole: TileLayout,
    right: TileLayout,
    left_shape: Sequence[Any],
    right_shape: Sequence[Any],
    factor: dict[Axis, Value],
) -> TileLayout | None:
    """The left part if the right one fits; a candidate that the caller verifies."""
    split = _split_parts(whole, left_shape, right_shape)
    if split is None:
        return None
    iters: list[Iter] = []
    for i in split[0]:
        stride = exact_div(i.stride, factor.get(i.axis, 1))
        if stride is None and i.extent != 1:
            return None
        iters.append(Iter(i.extent, stride or 0, i.axis))
    return _rest(whole, right, iters, factor)


def _right_of(
    whole: TileLayout, left: TileLayout, left_shape: Sequence[Any], right_shape: Sequence[Any]
) -> TileLayout | None:
    split = _split_parts(whole, left_shape, right_shape)
    return None if split is None else _rest(whole, left, split[1], {})


def _rest(
    whole: TileLayout, known: TileLayout, iters: list[Iter], factor: dict[Axis, Value]
) -> TileLayout | None:
    """The unknown part: given iters, with the copies and offset that are left over (divided by ``factor``)."""
    whole_offset, known_offset = dict(whole.offset), dict(known.offset)
    whole_copies, _ = canonical_replica(whole.replica, whole_offset)
    known_copies, _ = canonical_replica(known.replica, known_offset)
    replica: list[Iter] = []
    offset: dict[Axis, Value] = {}
    for axis in {*(i.axis for i in whole_copies), *(i.axis for i in known_copies)}:
        scale = int(factor.get(axis, 1))  # type: ignore[arg-type]
        copies = _missing_copies(_on(whole_copies, axis), _on(known_copies, axis), scale)
        if copies is None:
            return None
        replica.extend(Iter(e, s, axis) for e, s in copies)
    for axis in {*whole_offset, *known_offset}:
        value = exact_div(add(whole_offset.get(axis, 0), mul(known_offset.get(axis, 0), -1)), factor.get(axis, 1))
        if value is None:
            return None
        offset[axis] = value
    made, _ = canonical_tile(TileLayout(tuple(iters), tuple(replica), sorted_offset(offset)))
    return made


def _on(iters: Sequence[Iter], axis: Axis) -> list[tuple[int, int]]:
    return [(int(i.extent), int(i.stride)) for i in iters if i.axis == axis]  # type: ignore[arg-type]


def _missing_copies(
    whole: list[tuple[int, int]], known: list[tuple[int, int]], factor: int
) -> list[tuple[int, int]] | None:
    """Progressions Q with known + factor·Q = whole as sets; None if there are none."""
    total, have = sum_set(whole), sum_set(known)
    if total is None or have is None:
        return None
    members = set(total)
    rest = [q // factor for q in total if q % factor == 0 and all(q + k in members for k in have)]
    if {q * factor + k for q in rest for k in have} != members:
        return None
    return decompose(rest)


def _agrees(made: Layout, whole: TileLayout) -> bool:
    return normal_form(made).layout == normal_form(whole).layout


# -- elements of another width ---------------------------------------------------------------------------------------


def unpack(layout: Layout, num: int, axis: Any = "m") -> Layout:
    """The layout of the ``num`` parts of every element, contiguous on ``axis``: part p of element x is at num·L(x) + p.

    Copies and offset on the axis are scaled with the strides.  A swizzle needs ``num`` to be a power of two.
    """
    if num < 1:
        raise LayoutError(f"unpack: the number of parts must be at least 1, got {num}")
    where = Axis.get(axis)
    if isinstance(layout, TileLayout):
        made = scaled(layout, {where: num})
        return TileLayout((*made.shard, Iter(num, 1, where)), made.replica, made.offset)
    return _rescaled_swizzle(layout, num, where, 1, "unpack")


def pack(layout: Layout, num: int, axis: Any = "m") -> Layout:
    """The layout of groups of ``num`` consecutive elements: group g is at L(num·g) / num.

    Preconditions, each named when it fails: the fastest iter is on ``axis`` with stride 1 and an extent that ``num``
    divides; all other strides, copies and the offset on the axis are multiples of ``num``; a swizzle keeps groups whole
    (``num`` a power of two, at most ``2**per_element``).
    """
    if num < 1:
        raise LayoutError(f"pack: the group size must be at least 1, got {num}")
    where = Axis.get(axis)
    if not isinstance(layout, TileLayout):
        return _rescaled_swizzle(layout, num, where, -1, "pack")
    shard = list(fuse_shard(layout.shard))
    if num == 1:
        return layout
    last = shard.pop() if shard else Iter(1, 1)
    count = exact_div(last.extent, num)
    if last.axis != where or last.stride != 1 or count is None:
        raise LayoutError(
            f"pack({num}): the fastest iter must be on {where.name} with stride 1 and an extent that is a multiple of "
            f"{num}; it is {last.extent}:{last.stride} on {last.axis.name}"
        )

    def shrunk(value: Value, what: str) -> Value:
        part = exact_div(value, num)
        if part is None:
            raise LayoutError(f"pack({num}): {what} on {where.name} is {value}, not a multiple of {num}")
        return part

    def on_axis(i: Iter, what: str) -> Iter:
        return Iter(i.extent, shrunk(i.stride, what), i.axis) if i.axis == where else i

    iters = [on_axis(i, "a stride") for i in shard]
    if not (isinstance(count, int) and count == 1):
        iters.append(Iter(count, 1, where))
    offset = {a: shrunk(v, "the offset") if a == where else v for a, v in layout.offset.items()}
    return TileLayout(tuple(iters), tuple(on_axis(i, "a stride of the replica") for i in layout.replica), offset)


def _rescaled_swizzle(layout: Layout, num: int, axis: Axis, sign: int, operation: str) -> Layout:
    swizzle, tile_layout = (layout, None) if isinstance(layout, SwizzleLayout) else _apart(layout, ())
    assert swizzle is not None
    inner = tile_layout and (unpack(tile_layout, num, axis) if sign > 0 else pack(tile_layout, num, axis))
    if axis != m or swizzle.swizzle_len == 0:
        made = swizzle
    else:
        if not is_power_of_two(num):
            raise LayoutError(f"{operation}({num}): under a swizzle the number must be a power of two")
        low = swizzle.per_element + sign * (num.bit_length() - 1)
        if low < 0:
            raise LayoutError(
                f"{operation}({num}): the swizzle moves runs of {1 << swizzle.per_element} elements; "
                "a group would be torn apart"
            )
        made = SwizzleLayout(low, swizzle.swizzle_len, swizzle.atom_len, swizzle.swizzle_inner)
    if inner is None:
        return made
    assert isinstance(inner, TileLayout)
    return ComposeLayout(made, inner)


# -- dimensions ------------------------------------------------------------------------------------------------------


def permute_dims(layout: Layout, shape: Sequence[Any], order: Sequence[int]) -> Layout:
    """The layout of the buffer with its dimensions in a new order: dimension ``order[d]`` becomes dimension d.

    Preconditions: ``order`` is a permutation; the iters nest in ``shape``.
    """
    if sorted(order) != list(range(len(shape))):
        raise LayoutError(f"permute: {tuple(order)} isn't a permutation of {len(shape)} dimensions")
    dims = _dims(shape, "the shape")

    def permuted(tile_layout: TileLayout) -> TileLayout:
        parts = _parts(tile_layout, dims)
        return TileLayout(tuple(i for d in order for i in parts[d]), tile_layout.replica, tile_layout.offset)

    return _under_swizzle(layout, dims, permuted)


def broadcast(
    layout: Layout, num: Any, position: int = -1, axis: Any = "m", shape: Sequence[Any] | None = None
) -> Layout:
    """A new dimension of ``num`` equal values before dimension ``position`` (-1: after the last).

    Dimensions are those of ``shape``, or the iters if it isn't given; the new iter has stride 0 on ``axis``.
    """
    new = Iter(as_value(num, "the extent of a broadcast"), 0, Axis.get(axis))

    def inserted(tile_layout: TileLayout) -> TileLayout:
        dims = None if shape is None else _dims(shape, "the shape")
        parts = [(i,) for i in tile_layout.shard] if dims is None else _parts(tile_layout, dims)
        at = len(parts) if position == -1 else position
        if not 0 <= at <= len(parts):
            raise LayoutError(f"broadcast: position {position} isn't in 0 to {len(parts)}")
        parts.insert(at, (new,))
        return TileLayout(tuple(i for p in parts for i in p), tile_layout.replica, tile_layout.offset)

    return _under_swizzle(layout, _dims(shape or [layout.size()], "the shape"), inserted)


def storage(layout: Layout) -> Layout:
    """The layout without its thread axes: what one thread's part of it addresses in memory.

    Iters, copies and offsets on thread axes are dropped; the size shrinks accordingly.
    """
    if isinstance(layout, ComposeLayout):
        return ComposeLayout(layout.swizzle, _memory_part(layout.tile))
    return _memory_part(layout) if isinstance(layout, TileLayout) else layout


def _memory_part(layout: TileLayout) -> TileLayout:
    return TileLayout.from_iters(
        [i for i in layout.shard if i.axis.is_memory()],
        [i for i in layout.replica if i.axis.is_memory()],
        {a: v for a, v in layout.offset.items() if a.is_memory()},
    )
