"""Products of fragments whose result has 16 bits, where the tensor core has no such instruction: formed in 32, rounded once.

There is ``mma.sync`` that adds to f16, but scaled by alpha and beta its sums would be rounded before they are scaled; and none
that adds to bf16.  The fragment of an accumulator of 32 bits has the same elements in the same lanes, in the same order.
"""

from __future__ import annotations

from dataclasses import replace

from ...ir import BufferRegion, ExecScope, Op, TilePrimitiveCall
from ...ir.op import TILE_PREFIX
from ..conditions import CONDITIONS
from ..context import CallContext
from ..mma_sync import MMA_KINDS, kind_of
from ..product import is_number, plain, uses_addend
from ..sharing.work import owned_work
from .parts import layout_like, new_registers

NARROW = ("float16", "bfloat16")
WIDE = "float32"
NEEDED = (
    "the threads are whole units of the scope", "the scope is within a CTA", "whole warps multiply",
    "all matrices in registers", "the matrices' shapes agree", "alpha and beta are numbers of the product's kind",
    "the accumulator overwrites no operand",
)  # fmt: skip
REACHED = "each thread reaches what it multiplies"


def stage_products(c: CallContext) -> list[TilePrimitiveCall] | None:
    """The calls that a product is made of, or None: it has an instruction of its own, or none would help."""
    if c.op != "gemm" or c.scope == "thread" or c.call.dispatch is not None:
        return None
    a, b, d = (c.operands[name] for name in "ABD")
    if d.dtype not in NARROW or (a.dtype, b.dtype, WIDE) not in MMA_KINDS:
        return None
    alpha, beta = (plain(c.call.operand(name)) for name in ("alpha", "beta"))
    unscaled = is_number(alpha, 1) and (is_number(beta, 0) or is_number(beta, 1))
    if (unscaled and kind_of(c) is not None) or any(CONDITIONS[name](c) is not None for name in NEEDED):
        return None
    if CONDITIONS[REACHED](c) is None:
        return None
    work = owned_work(c, d, 1)
    layout = None if isinstance(work, str) else layout_like(c, d, d, work)
    if layout is None:
        return None
    sums = new_registers(c, d, d.extents, layout, WIDE).full_region()
    before, addend = [], sums
    if uses_addend(c):
        addend = new_registers(c, c.operands["C"], d.extents, layout, WIDE).full_region()
        before.append(_cast(c, addend, c.operands["C"].region))
    given = {"D": sums, "C": addend}
    args = [given.get(n, arg) for n, arg in zip(c.call.signature.operands, c.call.args)]
    product = replace(c.call, args=(*args, *c.call.args[len(args) :]), span=c.span)
    return [*before, product, _cast(c, d.region, sums)]


def _cast(c: CallContext, dst: BufferRegion, src: BufferRegion) -> TilePrimitiveCall:
    return TilePrimitiveCall(Op.get(TILE_PREFIX + "cast"), (dst, src), scope=ExecScope(c.scope), span=c.span)
