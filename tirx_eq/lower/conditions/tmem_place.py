"""Where a region of tensor memory begins, when that is known at run time only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...ir import Expr, IntImm, Var, const
from ...ir.index import evaluate_many, names
from ...layout.hardware import container_shift
from ..context import CallContext, Operand
from ..sharing.active import thread_points
from ..sharing.threads import WARP, WARPGROUP
from ..storage import place

#: starts that are compared one by one; there are 512 columns, so more would overlap
MAX_STARTS = 512
WARPS = WARPGROUP // WARP  # each reaches a quarter of the lanes, by its number modulo 4 (PTX ISA 9.7.16.2.3.1)


def cells(o: Operand, places: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(32-bit column, element within it) of tensor-memory places: TCol counts elements of the buffer's dtype."""
    bit = places["TCol"] * o.bits
    return bit // 32, bit % 32 // o.bits


def in_container(o: Operand) -> int:
    """Bits from where the layout counts an element of tensor memory to the element (see ``container_shift``)."""
    shape = [e.value for e in o.buffer.shape if isinstance(e, IntImm)]
    if o.root.space != "tmem" or o.bits != 4 or len(shape) < len(o.buffer.shape) or o.buffer.layout is None:
        return 0
    return container_shift(o.dtype, o.buffer.layout, tuple(shape))


def fixed(o: Operand) -> bool:
    """Whether the region begins at constant coordinates."""
    return all(isinstance(r.min, IntImm) for r in o.region.region)


def first_column(c: CallContext, o: Operand, wanted: int) -> Expr | int:
    """The 32-bit column that is ``wanted`` at the :func:`reference` point, as an expression of the variables."""
    if fixed(o):
        return wanted
    column = c.resolve(const(place(o.buffer, o.coords(0)).get("TCol", 0)))
    column = column * o.bits // 32 if o.bits != 32 else column
    return column + (wanted - int(cells(o, o.places(reference(c)))[0][0]))


def reference(c: CallContext) -> dict[Var, np.ndarray]:
    """The point at which regions are looked at: every variable at its lowest; at warp scope, in the first warp that calls."""
    if not _by_warp(c):
        return c.lowest()
    thread = int(np.argmax(c.active.mask))
    tid = {r: v for r, v in c.launch.special.items() if r.startswith("tid.")}
    points = thread_points(c.launch, {r: r for r in tid})
    return c.lowest() | {v: points[r][thread] for r, v in tid.items()}


def window(c: CallContext, thread: int) -> int:
    """The first of the 32 lanes that the thread's warp reaches, at warp scope: lanes count from there; else 0."""
    return thread // WARP % WARPS * WARP if _by_warp(c) else 0


def _by_warp(c: CallContext) -> bool:
    return c.scope == "warp" and c.op == "copy_async"


def own_places(c: CallContext, o: Operand) -> dict[str, np.ndarray] | str:
    """Places of a region at the reference point, its lanes counted from the :func:`window`; or why they are others' lanes."""
    places = dict(o.places(reference(c)))
    if "TLane" in places and _by_warp(c):
        thread = int(np.argmax(c.active.mask))
        first = window(c, thread)
        lane = places["TLane"]
        if lane.min() < first or lane.max() >= first + WARP:
            return (
                f"warp {thread // WARP} reaches lanes {first} to {first + WARP - 1}, the region of '{o.buffer.name}' is in "
                f"lanes {int(lane.min())} to {int(lane.max())}"
            )
        places["TLane"] = lane - first
    return places


def moves_as_a_whole(c: CallContext, o: Operand) -> str | None:
    """None if every start that the region can have only shifts its columns (and, at warp scope, its lanes with the warp's
    own); else what is wrong."""
    if fixed(o) and not _by_warp(c):
        return None
    key = ("moves", o.name)
    return c.once(key, lambda: _moves(c, o))


def _moves(c: CallContext, o: Operand) -> str | None:
    starts = _starts(c, o)
    if isinstance(starts, str):
        return starts
    base = own_places(c, o)
    if isinstance(base, str):
        return base
    for first, start in starts:
        ranges = tuple(replace(r, min=const(m)) for r, m in zip(o.region.region, start))
        here = dict(replace(o, region=replace(o.region, region=ranges)).places({}))
        lane = here["TLane"]
        here["TLane"] = lane - first
        shift = here["TCol"] - base["TCol"]
        if _by_warp(c) and (here["TLane"] != base["TLane"]).any():
            return (
                f"a warp that reaches lanes {first} to {first + WARP - 1} has a region of '{o.buffer.name}' in lanes "
                f"{int(lane.min())} to {int(lane.max())}"
            )
        if any((here[axis] != base[axis]).any() for axis in base if axis != "TCol") or (shift != shift[0]).any():
            return f"the region of '{o.buffer.name}' from {list(start)} has another shape in tensor memory"
        if shift[0] * o.bits % 32:
            return f"the region of '{o.buffer.name}' from {list(start)} begins within a column"
    return None


def _starts(c: CallContext, o: Operand) -> list[tuple[int, tuple[int, ...]]] | str:
    """(window, coordinates) at which the region may begin in an active thread, or why they are too many to look at."""
    scope = c.scope_with()
    tid = {scope.name(v): r for r, v in c.launch.special.items() if r.startswith("tid.")}
    used = sorted({n for r in o.region.region for n in names(c.term(r.min, scope))} - set(tid))
    ranges = [scope.ranges[n] for n in used]
    count = math.prod(high - low + 1 for low, high in ranges)
    if count > MAX_STARTS:
        return f"'{o.buffer.name}' may begin at {count} places, more than tensor memory has columns"
    threads = {n: v[c.active.mask] for n, v in thread_points(c.launch, tid).items()}
    windows = [window(c, int(t)) for t in np.flatnonzero(c.active.mask)]
    found: set[tuple[int, tuple[int, ...]]] = set()
    for point in np.ndindex(*(high - low + 1 for low, high in ranges)):
        at = threads | {n: np.asarray(low + k) for n, (low, _), k in zip(used, ranges, point)}
        mins = [np.broadcast_to(evaluate_many(c.term(r.min, scope), at), len(windows)) for r in o.region.region]
        found |= set(zip(windows, zip(*(m.tolist() for m in mins))))
    return sorted(found)
