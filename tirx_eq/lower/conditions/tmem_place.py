"""Where a region of tensor memory begins, when that is known at run time only."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...ir import Expr, IntImm, const
from ...ir.index import evaluate_many, names
from ..context import CallContext, Operand
from ..sharing.active import thread_points
from ..storage import place

#: starts that are compared one by one; there are 512 columns, so more would overlap
MAX_STARTS = 512


def cells(o: Operand, places: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(32-bit column, element within it) of tensor-memory places: TCol counts elements of the buffer's dtype."""
    bit = places["TCol"] * o.bits
    return bit // 32, bit % 32 // o.bits


def fixed(o: Operand) -> bool:
    """Whether the region begins at constant coordinates."""
    return all(isinstance(r.min, IntImm) for r in o.region.region)


def first_column(c: CallContext, o: Operand, wanted: int) -> Expr | int:
    """The 32-bit column that is ``wanted`` with every variable at its lowest, as an expression of the variables."""
    if fixed(o):
        return wanted
    column = c.resolve(const(place(o.buffer, o.coords(0)).get("TCol", 0)))
    column = column * o.bits // 32 if o.bits != 32 else column
    return column + (wanted - int(cells(o, o.places(c.lowest()))[0][0]))


def moves_as_a_whole(c: CallContext, o: Operand) -> str | None:
    """None if every start that the region can have only shifts its columns; else what is wrong."""
    if fixed(o):
        return None
    key = ("moves", o.name)
    return c.once(key, lambda: _moves(c, o))


def _moves(c: CallContext, o: Operand) -> str | None:
    starts = _starts(c, o)
    if isinstance(starts, str):
        return starts
    base = o.places(c.lowest())
    for start in starts:
        ranges = tuple(replace(r, min=const(m)) for r, m in zip(o.region.region, start))
        here = replace(o, region=replace(o.region, region=ranges)).places({})
        shift = here["TCol"] - base["TCol"]
        if any((here[axis] != base[axis]).any() for axis in base if axis != "TCol") or (shift != shift[0]).any():
            return f"the region of '{o.buffer.name}' from {list(start)} has another shape in tensor memory"
        if shift[0] * o.bits % 32:
            return f"the region of '{o.buffer.name}' from {list(start)} begins within a column"
    return None


def _starts(c: CallContext, o: Operand) -> list[tuple[int, ...]] | str:
    """All coordinates at which the region may begin in an active thread, or why they are too many to look at."""
    scope = c.scope_with()
    tid = {scope.name(v): r for r, v in c.launch.special.items() if r.startswith("tid.")}
    used = sorted({n for r in o.region.region for n in names(c.term(r.min, scope))} - set(tid))
    ranges = [scope.ranges[n] for n in used]
    count = math.prod(high - low + 1 for low, high in ranges)
    if count > MAX_STARTS:
        return f"'{o.buffer.name}' may begin at {count} places, more than tensor memory has columns"
    threads = {n: v[c.active.mask] for n, v in thread_points(c.launch, tid).items()}
    found: set[tuple[int, ...]] = set()
    for point in np.ndindex(*(high - low + 1 for low, high in ranges)):
        at = threads | {n: np.asarray(low + k) for n, (low, _), k in zip(used, ranges, point)}
        mins = [np.broadcast_to(evaluate_many(c.term(r.min, scope), at), int(c.active.mask.sum())) for r in o.region.region]
        found |= set(zip(*(m.tolist() for m in mins)))
    return sorted(found)
