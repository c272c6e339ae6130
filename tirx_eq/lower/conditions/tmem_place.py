"""Where a region of tensor memory begins, when that is known at run time only."""

from __future__ import annotations

import math

import numpy as np

from ...ir import Expr, IntImm, Var, const
from ...ir.index import names
from ..context import CallContext, Operand
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
    if key not in c.memo:
        c.memo[key] = _moves(c, o)
    return c.memo[key]


def _moves(c: CallContext, o: Operand) -> str | None:
    scope = c.scope_with()
    used = sorted({n for r in o.region.region for n in names(c.term(r.min, scope))})
    ranges = [scope.ranges[n] for n in used]
    count = math.prod(high - low + 1 for low, high in ranges)
    if count > MAX_STARTS:
        return f"'{o.buffer.name}' may begin at {count} places, more than tensor memory has columns"
    base = o.places(c.lowest())
    for point in np.ndindex(*(high - low + 1 for low, high in ranges)):
        at = {v: np.asarray(low + k) for v, (low, _), k in zip((scope.sources[n] for n in used), ranges, point)}
        here = o.places({v: p for v, p in at.items() if isinstance(v, Var)})
        shift = here["TCol"] - base["TCol"]
        if any((here[axis] != base[axis]).any() for axis in base if axis != "TCol") or (shift != shift[0]).any():
            where = ", ".join(f"{n} = {int(at[scope.sources[n]])}" for n in used)
            return f"the region of '{o.buffer.name}' has another shape in tensor memory where {where}"
        if shift[0] * o.bits % 32:
            return f"'{o.buffer.name}' may begin within a column"
    return None
