"""Which threads hold which elements of a register operand, and thread-dependent numbers as expressions.

A layout's thread axes decide some bits of the thread's number in its CTA; threads that differ in other bits only hold the
same elements, each its own copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np

from ...ir import Expr, IntImm, const
from ...layout import ComposeLayout, TileLayout
from ..context import CallContext, Operand

#: Thread axis -> (weight in the thread's number, bits of the number that it decides).
THREAD_AXES: dict[str, tuple[int, int]] = {
    "tx": (1, 0x3FF), "laneid": (1, 0x1F), "tid_in_wg": (1, 0x7F), "wid_in_wg": (32, 0x60), "warpid": (32, 0x3E0),
    "wgid": (128, 0x380),
}  # fmt: skip
THREAD_BITS = 10  # a CTA has at most 1024 threads
#: Bits of a thread's number within a unit of each scope.
SCOPE_BITS = {"thread": 0, "warp": 0x1F, "warpgroup": 0x7F, "cta": 0x3FF}

Array = np.ndarray


@dataclass(frozen=True)
class Held:
    """``parts[r, e]``: the thread (its bits in ``mask``) that has copy r of element e; ``byte[r, e]`` the place there."""

    mask: int
    parts: Array
    byte: Array

    def find(self, threads: Array, elements: Array) -> Array:
        """The byte at which each thread holds an element (arrays that broadcast), -1 where it doesn't."""
        threads, elements = np.broadcast_arrays(threads, elements)
        found = np.full(threads.shape, -1, dtype=np.int64)
        for parts, byte in zip(self.parts, self.byte):
            found = np.where(parts[elements] == (threads & self.mask), byte[elements], found)
        return found

    def first_owner(self, threads: Array, elements: Array) -> Array:
        """The thread that has the first copy of an element, as seen from each thread (it shares the bits left open)."""
        return self.parts[0][elements] | (threads & ~self.mask)

    def elements_of(self, thread: int) -> Array:
        """Numbers of the elements that a thread holds, ascending."""
        return np.unique(np.nonzero(self.parts == (thread & self.mask))[1])


def replicas(o: Operand) -> list[dict[str, int]]:
    """What each copy adds to the axes; one empty entry if there are no copies."""
    layout = o.buffer.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile, TileLayout):
        return [{}]
    out = []
    counts = [_number(r.extent) for r in tile.replica]
    for steps in product(*(range(n) for n in counts)):
        moved: dict[str, int] = {}
        for k, r in zip(steps, tile.replica):
            moved[r.axis.name] = moved.get(r.axis.name, 0) + k * _number(r.stride)
        out.append(moved)
    return out


def _number(value: int | Expr) -> int:
    if isinstance(value, IntImm):
        return value.value
    assert isinstance(value, int), "layouts of registers are constant"
    return value


def unit_of(o: Operand) -> int:
    """Bits that places of an operand's elements count: bytes, for elements of 4 bits halves of them."""
    return min(8, o.bits)


def held(o: Operand, unit: int = 8) -> Held | str:
    """Where a register operand is, or why that can't be said at compile time; places count ``unit`` bits."""
    if not all(isinstance(r.min, IntImm) for r in o.region.region):
        return f"'{o.name}' ({o.buffer.name}) is in registers, so where it begins must be constant"
    places = o.places({})
    first = np.broadcast_to(o.bit_places({}) // unit, (o.size,))
    unknown = sorted(set(places) - {"byte"} - set(THREAD_AXES))
    if unknown:
        return f"'{o.name}' is laid out along {', '.join(unknown)}, which no thread number has"
    mask, parts, bytes_ = 0, [], []
    moves = replicas(o)
    for axis in {*places, *(a for m in moves for a in m)} & set(THREAD_AXES):
        mask |= THREAD_AXES[axis][1]
    for moved in moves:
        thread = np.zeros(o.size, dtype=np.int64)
        for axis, (weight, _) in THREAD_AXES.items():
            thread += (np.broadcast_to(places.get(axis, 0), (o.size,)) + moved.get(axis, 0)) * weight
        parts.append(thread)
        bytes_.append(first + moved.get("m", 0) * o.bits // unit)
    return Held(mask, np.stack(parts), np.stack(bytes_))


def thread_expr(c: CallContext, threads: Array, values: Array) -> Expr | None:
    """``values`` (one per thread) as a sum over digits of the thread's number, or None if it isn't one."""
    pairs, bits = _bit_pairs(np.ascontiguousarray(threads, dtype=np.int64).tobytes())
    weights = [0 if p is None else int(values[p[1]]) - int(values[p[0]]) for p in pairs]
    first = int(threads[0])
    base = int(values[0]) - sum(w for b, w in enumerate(weights) if first >> b & 1)
    tid = c.launch.flat_tid() if c.launch.threads > 1 else const(0)
    if np.array_equal(base + bits @ np.array(weights), values):
        return digit_sum(tid, weights, c.launch.threads, base)
    return _mixed_digits(tid, values) if np.array_equal(threads, np.arange(c.launch.threads)) else None


def _mixed_digits(number: Expr, values: Array) -> Expr | None:
    """``values[number]`` as a sum over digits of any extents (24 threads for a row, say), each with a weight; or None."""
    total: Expr = const(int(values[0]))
    step, rest = 1, values
    while len(rest) > 1:
        found = _lowest_digit(rest)
        if found is None:
            return None
        extent, weight = found
        if weight:
            digit = number // step if step > 1 else number
            total = total + (digit % extent if extent < len(rest) else digit) * weight
        step, rest = step * extent, rest[::extent]
    return total


def _lowest_digit(values: Array) -> tuple[int, int] | None:
    """(extent, weight) of the longest digit that counts along the values, the same in every group of ``extent``; or None."""
    weight = int(values[1] - values[0])
    for extent in range(len(values), 1, -1):
        if len(values) % extent:
            continue
        groups = values.reshape(-1, extent)
        if np.array_equal(groups, groups[:, :1] + np.arange(extent) * weight):
            return extent, weight
    return None


@lru_cache(maxsize=256)
def _bit_pairs(threads: bytes) -> tuple[list[tuple[int, int] | None], Array]:
    """For each bit of thread numbers the places of two threads that differ in it alone (None: there are none), and the bits
    of every thread.  Many values are asked for with the same threads."""
    numbers = np.frombuffer(threads, dtype=np.int64)
    place = np.full(2 << THREAD_BITS, -1)
    place[numbers] = np.arange(len(numbers))
    pairs: list[tuple[int, int] | None] = []
    for bit in range(THREAD_BITS):
        partner = np.where(numbers >> bit & 1, -1, place[numbers | 1 << bit])
        found = np.flatnonzero(partner >= 0)
        pairs.append((int(found[0]), int(partner[found[0]])) if len(found) else None)
    return pairs, numbers[:, None] >> np.arange(THREAD_BITS) & 1


def digit_sum(number: Expr, weights: Sequence[int], count: int, base: int = 0) -> Expr:
    """``base`` plus the weight of every bit that is set in ``number`` (below ``count``): runs of bits as digits."""
    total: Expr = const(base)
    bit = 0
    while bit < len(weights):
        if not weights[bit]:
            bit += 1
            continue
        run = 1
        while bit + run < len(weights) and weights[bit + run] == weights[bit] << run:
            run += 1
        digit = number // (1 << bit) if bit else number
        if count > 1 << (bit + run):
            digit = digit % (1 << run)
        total = total + digit * weights[bit]
        bit += run
    return total
