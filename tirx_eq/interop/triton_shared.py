"""Triton's swizzled shared encoding: ``vec``, ``perPhase``, ``maxPhase``, in and out.

Over rows of ``C`` elements it stores element (r, c) at ``r * C + ((c // vec) ^ phase) * vec + c % vec`` with
``phase = (r // perPhase) % maxPhase``: it can move an element within its row, by an amount that only the row decides.
A swizzle of flat addresses (CuTe's, ours) says that for one length of row only, so the shape is part of the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InteropError
from ..layout import Layout
from ..layout.linear import LinearMap, from_linear, to_linear
from ..layout.value import is_power_of_two


@dataclass(frozen=True)
class SwizzledShared:
    """The three counts, each a power of two: elements that stay together, rows per phase, phases."""

    vec: int
    per_phase: int
    max_phase: int

    def __post_init__(self) -> None:
        for name in ("vec", "per_phase", "max_phase"):
            if not is_power_of_two(getattr(self, name)):
                raise InteropError(f"triton: {name} must be a power of two, got {getattr(self, name)}")

    def layout(self, shape: Sequence[int]) -> Layout:
        """The layout of a tile of ``shape`` = (rows, row elements), both powers of two.

        InteropError if a row holds fewer than ``vec * max_phase`` elements.
        """
        row_bits, column_bits = _bits(shape)
        if 1 << column_bits < self.vec * self.max_phase:
            raise InteropError(
                f"triton: {self.max_phase} phases of {self.vec} elements don't fit in a row of {1 << column_bits}"
            )
        first = self.per_phase.bit_length() - 1
        phases = {first + k: self.vec << k for k in range(self.max_phase.bit_length() - 1)}
        rows = [1 << column_bits + i | phases.get(i, 0) for i in range(row_bits)]
        columns = tuple((v,) for v in [*(1 << j for j in range(column_bits)), *rows])
        return from_linear(LinearMap(("m",), (0,), columns, ()).normal())


def to_swizzled_shared(layout: Layout, shape: Sequence[int]) -> SwizzledShared:
    """The encoding that stores every element of a tile of ``shape`` = (rows, row elements) where ``layout`` does.

    InteropError, with the first element that the form can't place, if there is none; LayoutError if the layout isn't linear
    over bits (a padded row).
    """
    row_bits, column_bits = _bits(shape)
    linear = to_linear(layout, 1 << row_bits + column_bits)
    if linear.axes != ("m",) or linear.free or any(linear.offset):
        raise InteropError("triton: a swizzled shared encoding is a bijection of memory addresses without an offset")
    width = 1 << column_bits
    places = [c[0] for c in linear.columns] + [0] * (row_bits + column_bits - linear.bits)
    for j, place in enumerate(places[:column_bits]):
        if place != 1 << j:
            raise InteropError(
                f"triton: element (0, {1 << j}) is stored at {place}: the swizzle's row bits start inside a row of {width}"
                " elements, and the form moves elements by their row only"
            )
    moves = []
    for i, place in enumerate(places[column_bits:]):
        row, move = divmod(place, width)
        if row != 1 << i:
            raise InteropError(
                f"triton: element ({1 << i}, 0) is stored in row {row} of {width} elements: the form moves elements within"
                " their row only"
            )
        moves.append(move)
    phased = [i for i, move in enumerate(moves) if move]
    if not phased:
        return SwizzledShared(1, 1, 1)
    vec = moves[phased[0]]
    for k, i in enumerate(range(phased[0], phased[-1] + 1)):
        if moves[i] != vec << k or not is_power_of_two(vec):
            raise InteropError(f"triton: row {1 << i} moves by {moves[i]} elements, where the form has {vec << k}")
    return SwizzledShared(vec, 1 << phased[0], 1 << len(phased))


def _bits(shape: Sequence[int]) -> tuple[int, int]:
    if len(shape) != 2 or not all(is_power_of_two(e) for e in shape):
        raise InteropError(f"triton: the shape must be (rows, row elements), powers of two, got {tuple(shape)}")
    return shape[0].bit_length() - 1, shape[1].bit_length() - 1
