"""Composite tile primitives as the primitives that they are made of.

``compose_op`` is its parts in order; ``binary_reduce`` and ``unary_reduce`` are an element-wise primitive and a reduction of
its result.  Between parts, threads that share a result in memory must see what the others wrote.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...errors import LoweringError
from ...ir import Evaluate, Op, Stmt, TilePrimitiveCall, Var, call
from ...ir.op import TILE_PREFIX
from ..named_barriers import own_barrier
from ..sharing.threads import Launch

COMPOSITES = ("compose_op", "binary_reduce", "unary_reduce")
#: Scope -> the intrinsic after which its threads see each other's writes to shared and global memory.
BARRIERS = {"warp": "tirx.cuda.warp_sync", "cta": "tirx.cuda.cta_sync", "cluster": "tirx.cuda.cluster_sync"}


def expand(s: TilePrimitiveCall, launch: Launch) -> list[Stmt] | None:
    """The parts of a composite call, or None if it is a primitive by itself.
    """
    name = s.op.short_name
    if name == "compose_op":
        return _composed(s, launch)
    if name not in COMPOSITES:
        return None
    out, reduced = s.dsts
    reduce_op = _op(s.operand("reduce_op"))
    if name == "binary_reduce":
        first = _call(s, _op(s.operand("binary_op")), out, s.operand("binary_input1"), s.operand("binary_input2"))
    else:
        op = _op(s.operand("unary_op"))
        affine = "bias" in op.tile.inputs if op.tile else False
        bias, scale = s.operand("bias"), s.operand("scale")
        if not affine and (bias is not None or scale is not None):
            raise LoweringError(f"'{op.short_name}' takes no bias and scale", span=s.span)
        first = _call(s, op, out, s.operand("unary_input"), *((bias, scale) if affine else ()))
    second = _call(s, reduce_op, reduced, out, s.operand("reduce_axes"), False)
    return [first, *barrier_between(s, out.buffer.scope, launch), second]


def _composed(s: TilePrimitiveCall, launch: Launch) -> list[Stmt]:
    """The parts in their order; one that touches what another wrote in memory comes after a barrier."""
    if s.config:
        key = next(iter(s.config))
        raise LoweringError(f"'compose_op' was given '{key}': its parts may have config keys, it has none", span=s.span)
    made: list[Stmt] = []
    written: dict[Var, str] = {}
    for part in s.args:
        touched = [space for r in part.regions() if (space := written.get(r.buffer.data)) is not None]
        if touched:
            made += barrier_between(part, touched[0], launch)
            written.clear()
        written |= {r.buffer.data: r.buffer.scope for r in part.dsts if r.buffer.scope not in ("local", "tmem")}
        made.append(part)
    return made


def _op(op: Any) -> Op:
    return op if isinstance(op, Op) else Op.get(TILE_PREFIX + str(op))


def _call(s: TilePrimitiveCall, op: Op, *args: Any) -> TilePrimitiveCall:
    return replace(s, op=op, args=tuple(args), span=s.span)


def barrier_between(s: TilePrimitiveCall, space: str, launch: Launch) -> list[Stmt]:
    """The barrier between two parts of a call, where threads share an intermediate result (in tensor memory each has its
    lane)."""
    if space in ("local", "tmem") or s.scope.kind == "thread":
        return []
    if s.scope.kind == "warpgroup":
        return [Evaluate(call("tirx.cuda.warpgroup_sync", "void", own_barrier(launch)), span=s.span)]
    return [Evaluate(call(BARRIERS[s.scope.kind], "void"), span=s.span)]
