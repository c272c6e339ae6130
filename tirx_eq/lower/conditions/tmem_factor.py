"""Conditions on A in tensor memory: which lanes hold its rows, and how often (PTX ISA 9.7.16, data path layouts)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ..context import CallContext, Operand
from .gemm import Shape, cta_group, kind_of, matrix_places, mma_shape
from .registry import coordinate, holds
from .tmem_place import in_container


@dataclass(frozen=True, eq=False)
class RowLanes:
    """``lane[m]`` has row m of A; the data path reads it again at ``stride`` lanes on, ``copies`` times in all."""

    lane: np.ndarray
    copies: int = 1
    stride: int = 0

    @property
    def offsets(self) -> set[int]:
        """Distances in lanes at which copies of a row have to be, 0 included."""
        return {k * self.stride for k in range(self.copies)}


def row_lanes(shape: Shape, group: int, stationary: bool) -> RowLanes:
    """Lanes of A's rows in this CTA.

    Each lane multiplies the row of A that it holds, so rows are in the lanes of the accumulator's rows.  Where these are
    fewer than the lanes, columns of the accumulator are shared out over blocks of lanes (layouts B, E and G), and every
    block needs the rows; layout F leaves lanes idle instead.
    """
    row = np.arange(shape.m)
    if shape.m == 128:
        return RowLanes(row)
    if group == 2 or stationary:
        return RowLanes(row, 128 // shape.m, shape.m)
    return RowLanes(row % 16 + 32 * (row // 16))


def lane_copies(o: Operand) -> set[int]:
    """Distances in lanes at which the layout repeats its elements, 0 included."""
    replica = [i for i in getattr(o.buffer.layout, "replica", ()) if str(i.axis) == "TLane"]
    steps = [[int(i.stride) * k for k in range(int(i.extent))] for i in replica]
    return {sum(s) for s in product(*steps)}


def _elsewhere(c: CallContext, stationary: bool) -> str | None:
    """None if A[m][k] is in the lanes of row m, elements packed along K; else the first that isn't."""
    a = c.operands["A"]
    places = matrix_places(c, a, "A")
    if isinstance(places, str):
        return places
    shape, kind = mma_shape(c), kind_of(c)
    if a.shape[0] != shape.m:
        return "A is transposed"
    if kind is None:
        return "no kind takes the dtypes"
    row, k = np.unravel_index(np.arange(a.size), a.shape)
    k = k * (kind.container(a.bits) // a.bits)
    wanted = row_lanes(shape, cta_group(c), stationary)
    first = places["TCol"][0]
    lane = wanted.lane[row]
    bad = np.flatnonzero((places["TLane"] != lane) | (places["TCol"] - first != k))
    if len(bad):
        e = int(bad[0])
        return (
            f"A{coordinate(a, e)} is at lane {int(places['TLane'][e])}, element {int(places['TCol'][e])} of the lane; "
            f"the tensor core reads lane {int(lane[e])}, element {int(first + k[e])}"
        )
    if not wanted.offsets <= lane_copies(a):
        return (
            f"{shape.m} rows of A are read in {wanted.copies} blocks of lanes, so '{a.buffer.name}' needs a replica "
            f"({wanted.copies} : {wanted.stride} @ TLane)"
        )
    if kind.container(a.bits) != a.bits and not in_container(a):
        return f"the layout of '{a.buffer.name}' doesn't give every element a byte"
    return None if first * a.bits % 32 == 0 else "A doesn't begin at a whole column"


@holds("A lies in tensor memory as the tensor core reads it")
def _usual(c: CallContext) -> str | None:
    return _elsewhere(c, False)


@holds("A lies in tensor memory as the stationary form reads it")
def _stationary(c: CallContext) -> str | None:
    return _elsewhere(c, True)
