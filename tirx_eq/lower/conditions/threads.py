"""Conditions on the threads that reach a call, and on the target."""

from __future__ import annotations

from ...ptx.target import target_has
from ..context import CallContext
from .registry import holds


@holds("the threads are whole units of the scope")
def _whole(c: CallContext) -> str | None:
    return None if c.active.fits(c.scope) else f"it is reached by {c.active.describe()}, not by whole {c.scope}s"


@holds("one thread issues")
def _one(c: CallContext) -> str | None:
    if c.scope == "thread":
        return None if c.active.single_thread() else f"it is reached by {c.active.describe()}"
    # Called by a warp, the instruction is issued by one elected lane.
    if c.scope == "warp":
        one = c.active.fits("warp") and len(c.active.warps()) == 1
        return None if one else f"it is reached by {c.active.describe()}, not by one whole warp"
    return f"the call is at {c.scope} scope; thread or warp is needed"


@holds("the target has tensor memory")
def _tcgen05(c: CallContext) -> str | None:
    return None if target_has(c.target, "tcgen05") else f"{c.target} has no tcgen05"
