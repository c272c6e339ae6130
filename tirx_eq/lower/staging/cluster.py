"""Calls of a cluster on a tile in global memory that its CTAs can't share evenly: what can be shared evenly, and the rest.

With C CTAs and E rows, each CTA has E // C rows of the first call, and E % C of the CTAs one row more in the second.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...ir import BufferRegion, LambdaExpr, Range, TilePrimitiveCall, const, substitute
from ..context import CallContext
from ..operations import FAMILIES
from ..sharing.cluster_part import axes_along, largest_part


def stage_cluster(c: CallContext) -> list[TilePrimitiveCall] | None:
    """The two calls that a call is made of, or None: it is shared as evenly by one."""
    if c.scope != "cluster" or (c.op not in FAMILIES and c.op != "gemm") or c.call.dispatch is not None:
        return None
    if any(o.root.space != "global" for o in c.operands.values()) or not c.outputs:
        return None
    ctas, dst = math.prod(c.launch.cluster), c.outputs[0]
    best: tuple[float, int, dict[str, int | None]] | None = None
    even = dst.size / max(1, *(largest_part(e, ctas) for a, e in enumerate(dst.extents) if axes_along(c, a) is not None), 1)
    for axis, extent in enumerate(dst.extents):
        axes = axes_along(c, axis)
        rows = extent // ctas + (extent % ctas > 0)
        if axes is None or extent < ctas or extent % ctas == 0:
            continue
        most = dst.size // extent * rows
        if most < even and (best is None or most < best[0]):
            best = most, axis, axes
    if best is None:
        return None
    _, axis, axes = best
    extent = dst.extents[axis]
    whole = extent // ctas * ctas
    return [_slice(c, axes, 0, whole), _slice(c, axes, whole, extent - whole)]


def _slice(c: CallContext, axes: dict[str, int | None], first: int, extent: int) -> TilePrimitiveCall:
    """The call for ``extent`` rows from ``first`` on along a dimension."""
    args = []
    for name, arg in zip(c.call.signature.operands, c.call.args):
        axis = axes.get(name)
        if isinstance(arg, BufferRegion) and axis is not None:
            ranges = list(arg.region)
            ranges[axis] = Range(ranges[axis].min + first, const(extent))
            arg = BufferRegion(arg.buffer, tuple(ranges), span=arg.span)
        elif isinstance(arg, LambdaExpr):  # of the coordinates in the region
            mine = axes[c.outputs[0].name]
            assert mine is not None
            arg = LambdaExpr(arg.vars, substitute(arg.body, {arg.vars[mine]: arg.vars[mine] + first}))
        args.append(arg)
    return replace(c.call, args=(*args, *c.call.args[len(args) :]), span=c.span)
