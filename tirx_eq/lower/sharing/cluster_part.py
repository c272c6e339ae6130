"""A call of a cluster on tiles in global memory, cut among its CTAs: each makes the call of a CTA for its part.

The tile is cut along one dimension of the destination, and with it the sources along the dimensions that follow it.  Where
no dimension can be cut into as many parts as there are CTAs, some of them (at worst all but one) have nothing to do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ...ir import BufferRegion, ExecScope, Expr, LambdaExpr, Range, TilePrimitiveCall, const, substitute
from ..context import CallContext, Operand
from ..operations import REDUCTIONS
from ..product import plain
from .reduction import axes_of
from .work import aligned_axes

if TYPE_CHECKING:
    from ..candidates import Candidate

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Part:
    """``parts`` CTAs have a part of ``extents[name]`` along dimension ``axes[name]`` of each operand (None: all of it);
    ``context`` is the call of a CTA for its part."""

    parts: int
    axes: dict[str, int | None]
    context: CallContext

    def region_of(self, o: Operand, rank: int) -> Array:
        """Numbers of the elements of the whole operand that are the part of CTA ``rank``, in the part's order."""
        grid = np.arange(o.size).reshape(o.extents)
        axis = self.axes[o.name]
        if axis is None:
            return grid.ravel()
        size = o.extents[axis] // self.parts
        return np.take(grid, np.arange(rank * size, (rank + 1) * size), axis=axis).ravel()


def part_of(c: CallContext) -> Part | str:
    """How a call of a cluster is cut, or why it can't be."""
    return c.once("part of a cluster", lambda: _part(c))


def _part(c: CallContext) -> Part | str:
    ctas = math.prod(c.launch.cluster)
    best: tuple[int, dict[str, int | None]] = (1, dict.fromkeys(c.operands))
    for axis, extent in enumerate(c.outputs[0].extents):
        parts = largest_part(extent, ctas)
        axes = axes_along(c, axis)
        if axes is not None and parts > best[0]:
            best = (parts, axes)
    parts, axes = best
    rank = c.launch.cta_rank()
    return Part(parts, axes, _context(c, parts, axes, rank))


def largest_part(extent: int, ctas: int) -> int:
    """The largest number of CTAs that have equally many of ``extent`` rows."""
    return next(n for n in range(min(extent, ctas), 0, -1) if extent % n == 0)


def axes_along(c: CallContext, axis: int) -> dict[str, int | None] | None:
    """The dimension of each operand that follows dimension ``axis`` of the destination; None if one doesn't follow evenly."""
    dst = c.outputs[0]
    if c.op == "gemm":
        return _product_axes(c, axis)
    found: dict[str, int | None] = {dst.name: axis}
    for o in c.operands.values():
        if o.name == dst.name:
            continue
        if c.op in REDUCTIONS:
            axes = axes_of(c)
            if isinstance(axes, str):
                return None
            kept = [d for d in range(len(o.extents)) if d not in axes and o.extents[d] != 1]
            mine = [d for d, e in enumerate(dst.extents) if e != 1]
            if [o.extents[d] for d in kept] != [dst.extents[d] for d in mine] or axis not in mine:
                return None
            found[o.name] = kept[mine.index(axis)]
            continue
        follows = aligned_axes(o, dst.extents)
        if follows is None:
            return None
        found[o.name] = follows.index(axis) if axis in follows else None
    return found


def _product_axes(c: CallContext, axis: int) -> dict[str, int | None] | None:
    """Rows of D are rows of A and C, columns those of B and C."""
    if any(len(o.extents) != 2 for o in c.operands.values()):
        return None
    transposed = {x: bool(plain(c.call.operand(f"transpose_{x}"))) for x in "AB"}
    if axis == 0:
        return {"D": 0, "C": 0, "A": int(transposed["A"]), "B": None}
    return {"D": 1, "C": 1, "A": None, "B": int(not transposed["B"])}


def _context(c: CallContext, parts: int, axes: dict[str, int | None], rank: Expr) -> CallContext:
    """The call of a CTA for the part with number ``rank``."""
    operands: dict[str, Operand] = {}
    shift: Expr = const(0)
    for name, o in c.operands.items():
        axis = axes[name]
        if axis is None or parts == 1:
            operands[name] = o
            continue
        ranges = list(o.region.region)
        size = o.extents[axis] // parts
        ranges[axis] = Range(ranges[axis].min + rank * size, const(size))
        operands[name] = replace(o, region=BufferRegion(o.region.buffer, tuple(ranges), span=o.region.span))
        if name == c.outputs[0].name:
            shift = rank * size
    args = []
    for name, arg in zip(c.call.signature.operands, c.call.args):
        if name in operands:
            arg = operands[name].region
        elif isinstance(arg, LambdaExpr) and parts > 1:
            axis = axes[c.outputs[0].name]
            assert axis is not None
            var = arg.vars[axis]
            arg = LambdaExpr(arg.vars, substitute(arg.body, {var: var + shift}))
        args.append(arg)
    call: TilePrimitiveCall = replace(c.call, scope=ExecScope("cta"), args=tuple(args), dispatch=None, span=c.call.span)
    return replace(c, call=call, operands=operands, memo={})


def candidates_of_part(c: CallContext) -> list[Candidate] | str:
    """What the call of a CTA for its part can become, or why it can't."""
    return c.once("candidates of a part", lambda: _candidates(c))


def _candidates(c: CallContext) -> list[Candidate] | str:
    from ..candidates import NoCandidate, choose  # the choice of variants is made of them

    part = part_of(c)
    if isinstance(part, str):
        return part
    try:
        (choice,) = choose([part.context])
    except NoCandidate as error:
        return "; ".join(f"{rule}: {r[-1]}" for rule, r in error.rejected.items() if r)
    return [k for k in choice.candidates if not _takes_scratch(k)]


def _takes_scratch(k: Candidate) -> bool:
    return k.node.startswith(("ReduceWarps", "Exchange"))
