"""Single lanes of expressions that are vectors."""

from __future__ import annotations

from typing import Any

from ...errors import LoweringError
from ...ir import Broadcast, BufferLoad, Expr, Ramp, Shuffle
from ...ir import dtype as dt
from ...ir.node import fields, replace


def lane_of(e: Any, k: int) -> Any:
    """Lane ``k`` of an expression; a scalar is the same in all lanes.  Raises LoweringError for what has no lanes apart."""
    if not isinstance(e, Expr) or (dt.lanes(e.dtype) == 1 and not isinstance(e, BufferLoad)):
        return e
    if isinstance(e, Ramp):
        return e.base + e.stride * k
    if isinstance(e, Broadcast):
        return e.value
    if isinstance(e, Shuffle):
        every = [(v, j) for v in e.vectors for j in range(dt.lanes(v.dtype))]
        return lane_of(*every[int(e.indices[k])])  # type: ignore[call-overload]
    if isinstance(e, BufferLoad):
        if dt.lanes(e.buffer.dtype) != 1:
            raise LoweringError(f"'{e.buffer.name}' has vectors as elements: a lane of one has no address", span=e.span)
        return BufferLoad(e.buffer, tuple(lane_of(i, k) for i in e.indices))
    changed: dict[str, Any] = {}
    for name, child in fields(e):
        if name == "dtype":
            changed[name] = dt.with_lanes(e.dtype, 1)
        elif isinstance(child, Expr):
            changed[name] = lane_of(child, k)
        elif isinstance(child, tuple):
            changed[name] = tuple(lane_of(c, k) for c in child)
    return replace(e, **changed)
