"""How the elements of an element-wise operation are shared among its threads.

If an operand that covers all elements is in registers, each thread computes what it holds; else everything is in memory
(or the same for all threads), and vectors of elements are dealt out in turn, so that accesses coalesce.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...ir import Expr, const
from ..context import CallContext, Operand
from .holders import SCOPE_BITS, Held, held, thread_expr
from .iteration import followed

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Work:
    """Per thread ``elements.shape[1]`` slots; ``elements[t, k]`` is the element in slot k of thread ``threads[t]``, -1: none.

    ``guard(k)`` is the condition under which slot k has an element (None: always).  Slots are worked on in groups of
    ``lanes``.
    """

    threads: Array
    elements: Array
    extents: tuple[int, ...]
    lanes: int
    context: CallContext = field(repr=False)
    guard: Callable[[int], Expr | None] = field(repr=False)
    element_expr: Callable[[int], Expr] | None = field(default=None, repr=False)

    @property
    def steps(self) -> int:
        """Groups of lanes per thread."""
        return self.elements.shape[1] // self.lanes

    def coords(self, slot: int) -> list[Expr] | None:
        """Coordinates in the iteration space of the element in a slot; None if they don't follow from the thread's bits."""
        if self.element_expr is not None:
            return digits(self.element_expr(slot), self.extents)
        out: list[Expr] = []
        for axis in np.unravel_index(self.elements[:, slot], self.extents):
            e = thread_expr(self.context, self.threads, axis)
            if e is None:
                return None
            out.append(e)
        return out

    def of(self, o: Operand) -> Array:
        """The element numbers of operand ``o`` that the slots read or write (-1: none)."""
        spread = spread_over(o, self.extents)
        return np.where(self.elements < 0, -1, spread[self.elements])


def digits(element: Expr, extents: tuple[int, ...]) -> list[Expr]:
    """Coordinates of element number ``element`` of a region with these extents."""
    out: list[Expr] = []
    inner = total = int(np.prod(extents))
    for extent in extents:
        if extent == 1:
            out.append(const(0))
            continue
        inner //= extent
        digit = element // inner if inner > 1 else element
        out.append(digit % extent if total > inner * extent else digit)
    return out


def aligned_axes(o: Operand, extents: tuple[int, ...]) -> list[int | None] | None:
    """What the dimensions of an operand follow; see :func:`followed`."""
    return followed(o.extents, extents)


def spread_over(o: Operand, extents: tuple[int, ...]) -> Array:
    """The element number of the operand for each element of the iteration space."""
    axes = aligned_axes(o, extents)
    assert axes is not None
    grid = np.indices(extents).reshape(len(extents), -1) if extents else np.zeros((0, 1), dtype=np.int64)
    number = np.zeros(int(np.prod(extents)), dtype=np.int64)
    for axis, extent in zip(axes, o.extents):
        number = number * extent + (0 if axis is None else grid[axis])
    return number


def region_coords(o: Operand, axes: list[int | None], coords: list[Expr]) -> list[Expr]:
    """Buffer coordinates of the operand's element for an element of the iteration space."""
    return [r.min + (0 if axis is None else coords[axis]) for r, axis in zip(o.region.region, axes)]


def regions_of(c: CallContext) -> list[Operand]:
    """The region operands of a call, the destination first."""
    return [c.operands[n] for n in c.call.signature.operands if n in c.operands]


def active_threads(c: CallContext) -> Array:
    return np.flatnonzero(c.active.mask)


def holders_of(c: CallContext) -> dict[str, Held] | str:
    """Where each register operand of a call is, or the reason why that isn't known."""
    found: dict[str, Held] = {}
    for o in regions_of(c):
        if o.root.space == "local":
            where = held(o)
            if isinstance(where, str):
                return where
            if where.mask & ~SCOPE_BITS[c.scope]:
                return f"'{o.name}' is spread over more threads than a {c.scope} has"
            found[o.name] = where
    return found


def leader(c: CallContext) -> Operand | None:
    """The register operand that decides who computes what: the destination, else the first input of full extents, else the
    first that is spread over threads (each then computes the elements that use what it holds)."""
    dst = c.outputs[0]
    local = [o for o in regions_of(c) if o.root.space == "local"]
    full = [o for o in local if o.size == dst.size]
    where = holders_of(c)
    spread = [o for o in local if isinstance(where, dict) and where[o.name].mask]
    return next(iter([*full, *spread]), None)


def work_of(c: CallContext, lanes: int) -> Work | str:
    """The sharing of an element-wise call in groups of ``lanes``, or why there is none."""
    key = ("work", lanes)
    if key not in c.memo:
        first = leader(c)
        c.memo[key] = shared_work(c, lanes) if first is None else owned_work(c, first, lanes)
    found: Work | str = c.memo[key]
    return found


def owned_work(c: CallContext, o: Operand, lanes: int) -> Work | str:
    """Each thread works on the elements of a register operand that it holds; or why they can't be counted alike."""
    where = holders_of(c)
    if isinstance(where, str):
        return where
    mine = where[o.name]
    threads = active_threads(c)
    keys = threads & mine.mask
    used = spread_over(o, c.outputs[0].extents)
    per_key = {int(k): np.flatnonzero(np.isin(used, mine.elements_of(int(k)))) for k in np.unique(keys)}
    counts = {len(v) for v in per_key.values()}
    if len(counts) != 1 or counts == {0}:
        return f"threads hold different numbers of elements of '{o.name}': {sorted(counts)}"
    (count,) = counts
    if count % lanes:
        return f"a thread holds {count} elements of '{o.name}', not a multiple of {lanes}"
    elements = np.stack([per_key[int(k)] for k in keys])
    return Work(threads, elements, c.outputs[0].extents, lanes, c, lambda slot: None)


def shared_work(c: CallContext, lanes: int) -> Work | str:
    """Groups of ``lanes`` elements dealt out in turn."""
    dst = c.outputs[0]
    if dst.size % lanes:
        return f"{dst.size} elements are not a multiple of {lanes}"
    vectors, p = dst.size // lanes, c.participants
    rounds = -(-vectors // p)
    rest = vectors % p
    threads = active_threads(c)
    rank = threads % p
    slot = np.arange(rounds * lanes)
    vector = rank[:, None] + slot // lanes * p
    elements = np.where(vector < vectors, vector * lanes + slot % lanes, -1)

    def guard(k: int) -> Expr | None:
        return c.rank() < rest if rest and k // lanes == rounds - 1 else None

    def element(k: int) -> Expr:
        return (c.rank() + k // lanes * p) * lanes + k % lanes

    return Work(threads, elements, dst.extents, lanes, c, guard, element)
