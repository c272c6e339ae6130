"""Products of matrices in registers on the warp-level tensor-core instruction mma.sync."""

from __future__ import annotations

from ...errors import LoweringError
from ..context import CallContext
from ..equations.values import product_equation
from ..machine import B200, Price
from ..mma_sync import COLUMNS, ROWS, SWAPPED, MmaPlan, mma_plan
from ..program import Block, Node, Operand, Temp, Word, instruction
from ..storage import Root
from .base import Variant


def _plan(c: CallContext, code: int) -> MmaPlan:
    found = mma_plan(c, code)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def emit_mma_sync(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One instruction per tile and slice of K; slices outermost, so that successive instructions don't wait for each other."""
    plan = _plan(c, parameters[0])
    d, a, b = (c.operands[n].root for n in ("DBA" if parameters[0] >= SWAPPED else "DAB"))
    nodes: list[Node] = []
    kind = plan.kind
    start: list[tuple[Operand, ...]]
    if plan.c is None:
        zero = Temp({"f64": "b64"}.get(kind.d, "b32"))
        nodes.append(instruction(f"mov.{zero.type}", zero, 0))
        start = [(zero,) * len(registers) for registers in plan.d]
    else:
        start = [_words(c.operands["C"].root, registers) for registers in plan.c]
    types = f"{kind.d}.{kind.a}.{kind.b}.{kind.d}"
    opcode = f"mma.sync.aligned.m{ROWS}n{COLUMNS}k{plan.depth}.row.col.{types}"
    for k in range(len(plan.a[0])):
        for s, registers in enumerate(plan.d):
            into = _words(d, registers)
            before = start[s] if k == 0 else into
            nodes.append(instruction(opcode, into, _words(a, plan.a[s][k]), _words(b, plan.b[s][k]), before))
    return tuple(nodes)


def _words(root: Root, registers: tuple[int, ...]) -> tuple[Word, ...]:
    return tuple(Word(root, r) for r in registers)


def price_mma_sync(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """Tensor-core cycles at half the rate of tcgen05.mma: no figure is published for sm_100, and nothing depends on it, since
    all candidates of a call have this instruction; what tells them apart is how many there are."""
    plan = _plan(c, parameters[0])
    count = len(plan.d) * len(plan.a[0])
    warps = max(1, len(c.active.warps()))
    flops = 2 * ROWS * COLUMNS * plan.depth * count * warps
    rate = B200.mma_f16 / 2 * 16 / plan.kind.bits
    return Price(issue=count + (plan.c is None), warps=warps, tensor=flops / rate)


def _show(values: tuple[int, ...]) -> str:
    return f"m{ROWS}n{COLUMNS}k{values[0] % SWAPPED}" + (", transposed product" if values[0] >= SWAPPED else "")


MMA_SYNC = (Variant("MmaSync", ("mma",), price_mma_sync, emit_mma_sync, show=_show, equation=product_equation),)
