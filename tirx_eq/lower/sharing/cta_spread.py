"""Buffers of a cluster: what of them is in the registers and memories of which CTA, by the axes cbx, cby and cbz of a layout.

A dimension whose outermost digits are on these axes is cut into blocks, one for each CTA; without such digits every CTA has
a copy of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from ...errors import LayoutError, ProofError
from ...ir import EQ, Buffer, Expr, const
from ...ir.arith import binary
from ...layout import ComposeLayout, Iter, TileLayout
from ..context import evaluate_at
from .threads import Launch

Array = np.ndarray
AXES = {"cbx": "x", "cby": "y", "cbz": "z"}


@dataclass(frozen=True)
class Digit:
    """A digit of a CTA's coordinate: ``coordinate // stride % extent``, after the offset is taken off."""

    axis: str
    stride: int
    extent: int


@dataclass(frozen=True)
class CtaSpread:
    """A buffer over the CTAs of a cluster.

    ``blocks[d]`` are the digits, outermost first, that number the block of dimension d that a CTA has, ``sizes[d]`` the
    elements of a block; ``copies`` digits that don't matter, since the layout says that the CTAs have the same; ``part`` is
    the buffer of one CTA.
    """

    buffer: Buffer
    part: Buffer
    blocks: tuple[tuple[Digit, ...], ...]
    sizes: tuple[int, ...]
    copies: tuple[Digit, ...]
    offset: tuple[tuple[str, int], ...]

    def digits(self) -> list[Digit]:
        return [*(d for block in self.blocks for d in block), *self.copies]

    def axes(self) -> frozenset[str]:
        """The coordinates of a CTA that decide what it has."""
        return frozenset(d.axis for d in self.digits() if d.extent > 1) | {a for a, v in self.offset if v}

    def key(self, dim: int) -> tuple[object, ...]:
        """What the number of a dimension's block is made of."""
        used = {d.axis for d in self.blocks[dim]}
        return (self.blocks[dim], tuple((a, v) for a, v in self.offset if a in used))

    def block(self, dim: int, launch: Launch) -> Expr:
        """The number of the block of a dimension that a CTA has."""
        number: Expr = const(0)
        for d in self.blocks[dim]:
            number = number * d.extent + self.value(d, launch)
        return number

    def value(self, d: Digit, launch: Launch) -> Expr:
        """A digit of the CTA that executes."""
        shift = dict(self.offset).get(d.axis, 0)
        count = launch.cluster["xyz".index(AXES[d.axis])]
        at = launch.cta_in_cluster(AXES[d.axis])
        at = at - shift if shift else at
        at = at // d.stride if d.stride > 1 else at
        return at % d.extent if d.stride * d.extent < count or shift else at

    def present(self, launch: Launch) -> list[Expr]:
        """Conditions under which a CTA has a block at all."""
        made = []
        for axis in sorted(self.axes()):
            mine = [d for d in self.digits() if d.axis == axis]
            at: Expr = const(dict(self.offset).get(axis, 0))
            for d in mine:
                at = at + self.value(d, launch) * d.stride
            made.append(binary(EQ, at, launch.cta_in_cluster(AXES[axis])))
        return made


def cta_points(launch: Launch) -> list[dict[str, int]]:
    """The coordinates of every CTA of a cluster, x fastest."""
    x, y, z = launch.cluster
    return [{"cbx": i, "cby": j, "cbz": k} for k, j, i in product(range(z), range(y), range(x))]


def at_cta(e: Expr, launch: Launch, cta: dict[str, int]) -> int:
    """The value in a CTA of an expression over the coordinates in the cluster."""
    at = {f"cluster_ctaid.{x}": np.asarray(cta[a]) for a, x in AXES.items()}
    return int(evaluate_at(e, {v: at[r] for r, v in launch.special.items() if r in at}))


def cta_spread(buffer: Buffer, launch: Launch) -> CtaSpread | str:
    """How a buffer in registers, shared or tensor memory is spread over the CTAs of a cluster, or why that is no rule.

    Raises ProofError if what is returned isn't what the layout says (an internal error).
    """
    layout = None if buffer.strides else buffer.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    rank = len(buffer.shape)
    whole = CtaSpread(buffer, buffer, ((),) * rank, tuple(e if (e := _number(s)) else 1 for s in buffer.shape), (), ())
    if not isinstance(tile, TileLayout) or not set(tile.axes()) & set(AXES):
        return whole
    shape = buffer.const_shape()
    if shape is None or not tile.is_constant():
        return f"'{buffer.name}' is spread over CTAs by a layout that isn't constant"
    try:
        grouped, seps = tile.group(shape)
    except LayoutError as error:
        return f"'{buffer.name}': {error.message}"
    found = _cut(buffer, tile, grouped, seps, shape, launch)
    if isinstance(found, CtaSpread):
        _check(found, launch)
    return found


def _number(e: Expr) -> int | None:
    return getattr(e, "value", None)


def _cut(
    buffer: Buffer, tile: TileLayout, grouped: TileLayout, seps: Sequence[int], shape: Sequence[int], launch: Launch
) -> CtaSpread | str:
    blocks: list[tuple[Digit, ...]] = []
    sizes: list[int] = []
    kept: list[Iter] = []
    for d, extent in enumerate(shape):
        iters = [i for i in grouped.shard[seps[d] : seps[d + 1]] if i.extent != 1]
        count = next((k for k, i in enumerate(iters) if i.axis.name not in AXES), len(iters))
        inner = iters[count:]
        if any(i.axis.name in AXES for i in inner):
            return f"dimension {d} of '{buffer.name}' goes round the CTAs several times: a CTA's part is not a block of it"
        blocks.append(tuple(_digit(i) for i in iters[:count]))
        sizes.append(extent // prod(d.extent for d in blocks[-1]))
        kept += inner
    copies = tuple(_digit(i) for i in tile.replica if i.axis.name in AXES and i.extent != 1)
    offset = tuple(sorted((a.name, _integer(v)) for a, v in tile.offset.items() if a.name in AXES))
    rest = [i for i in tile.replica if i.axis.name not in AXES]
    named = {i.axis for i in kept}
    kept += [i for i in tile.shard if i.axis.name not in AXES and i.axis not in named]  # one element along an axis
    mine = TileLayout(tuple(kept) or (Iter(1, 1),), tuple(rest), {a: v for a, v in tile.offset.items() if a.name not in AXES})
    layout = ComposeLayout(buffer.layout.swizzle, mine) if isinstance(buffer.layout, ComposeLayout) else mine
    part = replace(buffer, shape=tuple(const(s) for s in sizes), layout=layout)
    made = CtaSpread(buffer, part, tuple(blocks), tuple(sizes), copies, offset)
    return _apart(made, launch) or made


def _digit(i: Iter) -> Digit:
    return Digit(i.axis.name, _integer(i.stride), _integer(i.extent))


def _integer(v: object) -> int:
    """A value of a constant layout."""
    assert isinstance(v, int)
    return v


def _apart(s: CtaSpread, launch: Launch) -> str | None:
    """Why the digits of a coordinate can't be told from it: they overlap, or name CTAs that the cluster doesn't have."""
    for axis in sorted(s.axes()):
        reach, count = dict(s.offset).get(axis, 0), launch.cluster["xyz".index(AXES[axis])]
        if reach < 0:
            return f"'{s.buffer.name}' has an offset of {reach} along {axis}"
        below = 1
        for d in sorted((d for d in s.digits() if d.axis == axis), key=lambda d: d.stride):
            if d.stride < below or d.stride % below:
                return f"strides of '{s.buffer.name}' along {axis} overlap"
            below = d.stride * d.extent
            reach += d.stride * (d.extent - 1)
        if reach >= count:
            return f"'{s.buffer.name}' is in CTA {reach} along {axis}, the cluster has {count}"
    return None


def _check(s: CtaSpread, launch: Launch) -> None:
    """Element by element, in every CTA: its part has the elements that the layout puts there, and where it puts them."""
    shape = s.buffer.const_shape()
    assert shape is not None and s.buffer.layout is not None and s.part.layout is not None
    flat = np.arange(prod(shape))
    coords = np.unravel_index(flat, shape)
    inside = np.zeros_like(flat)
    for c, size in zip(coords, s.sizes):
        inside = inside * size + c % size
    meant, made = s.buffer.layout.evaluate(flat), s.part.layout.evaluate(inside)
    zero = np.zeros_like(flat)
    for axis in (set(meant) | set(made)) - set(AXES):
        if not np.array_equal(meant.get(axis, zero), made.get(axis, zero)):
            raise ProofError(f"the part of '{s.buffer.name}' in a CTA has elements elsewhere along {axis}")
    copies = [dict(zip(s.copies, steps)) for steps in product(*(range(d.extent) for d in s.copies))]
    for cta in cta_points(launch):
        present = all(at_cta(e, launch, cta) for e in s.present(launch))
        mine = np.full(flat.shape, present)
        for dim, (c, size) in enumerate(zip(coords, s.sizes)):
            mine &= c // size == at_cta(s.block(dim, launch), launch, cta)
        wanted = np.zeros(flat.shape, dtype=bool)
        for steps in copies:
            here = np.ones(flat.shape, dtype=bool)
            for axis in s.axes():
                shift = sum(k * d.stride for d, k in steps.items() if d.axis == axis)
                here &= meant.get(axis, zero) + shift == cta[axis]
            wanted |= here
        if not np.array_equal(mine, wanted):
            raise ProofError(f"CTA {cta} of a cluster has other elements of '{s.buffer.name}' than its part")
