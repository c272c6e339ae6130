"""Conditions on the threads that reach a call, and on the target."""

from __future__ import annotations

import numpy as np

from ...ptx.target import target_has
from ..context import CallContext, evaluate_at
from ..sharing.active import thread_points
from .registry import holds


@holds("the threads are whole units of the scope")
def _whole(c: CallContext) -> str | None:
    return None if c.active.fits(c.scope) else f"it is reached by {c.active.describe()}, not by whole {c.scope}s"


@holds("one thread issues")
def _one(c: CallContext) -> str | None:
    if c.scope == "thread":
        if c.active.single_thread():
            return None
        return _distinct(c) if c.active.elected else f"it is reached by {c.active.describe()}"
    # Called by a warp, a warpgroup or a CTA, the instruction is issued by one elected lane of the first warp.
    if not c.active.fits(c.scope) or c.scope == "cluster":
        return f"it is reached by {c.active.describe()}, not by one whole {c.scope}"
    return _distinct(c)


def _distinct(c: CallContext) -> str | None:
    """Several threads may each issue an instruction of their own, if each has its own output."""
    tid = {r: v for r, v in c.launch.special.items() if r.startswith("tid.")}
    issuers = c.active.issuers()
    if c.scope != "thread":
        active = np.flatnonzero(c.active.mask)
        issuers = [int(t) for t in active[np.unique(active // c.participants, return_index=True)[1]]]
    points = thread_points(c.launch, {r: r for r in tid})
    at = c.lowest() | {tid[r]: p[issuers] for r, p in points.items()}
    for o in c.outputs:
        starts = [np.broadcast_to(evaluate_at(r.min, at), len(issuers)) for r in o.region.region]
        if len(set(zip(*(s.tolist() for s in starts)))) < len(issuers):
            return f"it is reached by {c.active.describe()}, which mean the same '{o.name}'"
    return None


@holds("the target has tensor memory")
def _tcgen05(c: CallContext) -> str | None:
    return None if target_has(c.target, "tcgen05") else f"{c.target} has no tcgen05"
