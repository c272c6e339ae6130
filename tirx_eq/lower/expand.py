"""Composite tile primitives as the primitives that they are made of.

``compose_op`` is its parts in order; ``binary_reduce`` and ``unary_reduce`` are an element-wise primitive and a reduction of
its result.  Between the two, threads that share a result in memory must see what the others wrote.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..errors import LoweringError
from ..ir import Evaluate, Op, Stmt, TilePrimitiveCall, call
from ..ir.op import TILE_PREFIX

COMPOSITES = ("compose_op", "binary_reduce", "unary_reduce")
#: Scope -> the intrinsic after which its threads see each other's writes to shared and global memory.
BARRIERS = {"warp": "tirx.cuda.warp_sync", "cta": "tirx.cuda.cta_sync"}


def expand(s: TilePrimitiveCall) -> list[Stmt] | None:
    """The parts of a composite call, or None if it is a primitive by itself.

    Raises LoweringError for a scope without a barrier of its own whose threads share the intermediate result in memory.
    """
    name = s.op.short_name
    if name == "compose_op":
        return list(s.args)
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
    return [first, *_between(s, out.buffer.scope), second]


def _op(op: Any) -> Op:
    return op if isinstance(op, Op) else Op.get(TILE_PREFIX + str(op))


def _call(s: TilePrimitiveCall, op: Op, *args: Any) -> TilePrimitiveCall:
    return replace(s, op=op, args=tuple(args), span=s.span)


def _between(s: TilePrimitiveCall, space: str) -> list[Stmt]:
    """The barrier between the two parts, where threads share the intermediate result (in tensor memory each has its lane)."""
    if space in ("local", "tmem") or s.scope.kind == "thread":
        return []
    name = BARRIERS.get(s.scope.kind)
    if name is None:
        raise LoweringError(
            f"'{s.op.short_name}' at {s.scope.kind} scope: its result in {space} memory is shared by threads that no "
            "barrier of their own joins",
            hint="give the element-wise result registers, or call the two primitives with a barrier between them",
            span=s.span,
        )
    return [Evaluate(call(name, "void"), span=s.span)]
