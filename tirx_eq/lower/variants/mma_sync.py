"""Products of matrices in registers on the warp-level tensor-core instruction mma.sync."""

from __future__ import annotations

from dataclasses import replace

from ...errors import LoweringError
from ..code.lanes import Lanes, compute, nowhere
from ..code.recipes import SINGLE
from ..code.scalar_operand import factor
from ..context import CallContext
from ..equations.values import product_equation
from ..machine import B200, Price
from ..mma_sync import COLUMNS, ROWS, SWAPPED, MmaPlan, mma_plan
from ..product import is_number, plain
from ..program import Block, Node, Operand, Temp, Word, instruction
from ..storage import Root
from .base import Variant


def _plan(c: CallContext, code: int) -> MmaPlan:
    found = mma_plan(c, code)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def _opcode(plan: MmaPlan) -> str:
    kind = plan.kind
    return f"mma.sync.aligned.m{ROWS}n{COLUMNS}k{plan.depth}.row.col.{kind.d}.{kind.a}.{kind.b}.{kind.d}"


def _zeros(plan: MmaPlan, nodes: list[Node]) -> list[tuple[Operand, ...]]:
    """Accumulators that begin with zero, per tile."""
    zero = Temp({"f64": "b64"}.get(plan.kind.d, "b32"))
    nodes.append(instruction(f"mov.{zero.type}", zero, 0))
    return [(zero,) * len(registers) for registers in plan.d]


def _products(c: CallContext, code: int, nodes: list[Node], into: list[tuple[Operand, ...]],
              start: list[tuple[Operand, ...]]) -> None:  # fmt: skip
    """One instruction per tile and slice of K; slices outermost, so that successive instructions don't wait for each other."""
    plan = _plan(c, code)
    a, b = (c.operands[n].root for n in ("BA" if code >= SWAPPED else "AB"))
    for k in range(len(plan.a[0])):
        for s, registers in enumerate(into):
            before = start[s] if k == 0 else registers
            nodes.append(instruction(_opcode(plan), registers, _words(a, plan.a[s][k]), _words(b, plan.b[s][k]), before))


def emit_mma_sync(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Products that add to C, or to zero, in the registers of D."""
    plan = _plan(c, parameters[0])
    nodes: list[Node] = []
    start = _zeros(plan, nodes) if plan.c is None else []
    start += [_words(c.operands["C"].root, r) for r in plan.c or ()]
    _products(c, parameters[0], nodes, [_words(c.operands["D"].root, r) for r in plan.d], start)
    return tuple(nodes)


def emit_mma_scaled(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Products in registers of their own; then alpha times each, plus beta times C."""
    plan, dtype = _plan(c, parameters[0]), c.operands["D"].dtype
    nodes: list[Node] = []
    scales = {n: plain(c.call.operand(n)) for n in ("alpha", "beta")}
    registers = {
        n: factor(c, n, v, dtype, nodes) for n, v in scales.items() if not is_number(v, 1) and (n == "alpha" or plan.c)
    }
    into: list[tuple[Operand, ...]] = [tuple(Temp(SINGLE[c.operands["D"].bits]) for _ in row) for row in plan.d]
    _products(c, parameters[0], nodes, into, _zeros(plan, nodes))

    def step(op: str, last: bool, place: Word, *values: Operand) -> Operand:
        lanes = [Lanes(dtype, 1, nodes, [v]) for v in values]
        return compute(op, lanes, False, (lambda _: place) if last else nowhere).single(0)

    for s, sums in enumerate(into):
        for r, total in enumerate(sums):
            place = Word(c.operands["D"].root, plan.d[s][r])
            if "alpha" in registers or plan.c is None:
                alpha = registers.get("alpha", 1.0 if dtype == "float32" else None)
                assert alpha is not None
                total = step("mul", plan.c is None, place, total, alpha)
            if plan.c is not None:
                before = Word(c.operands["C"].root, plan.c[s][r])
                if "beta" in registers:
                    step("fma", True, place, before, registers["beta"], total)
                else:
                    step("add", True, place, total, before)
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


def price_mma_scaled(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """As the plain product, and what follows for each sum."""
    plan = _plan(c, parameters[0])
    plain_price = price_mma_sync(c, parameters)
    sums = sum(len(registers) for registers in plan.d)
    each = 1 if plan.c is None else 1 + (not is_number(plain(c.call.operand("alpha")), 1))
    return replace(plain_price, issue=plain_price.issue + sums * each)


MMA_SYNC = (
    Variant("MmaSync", ("mma",), price_mma_sync, emit_mma_sync, show=_show, equation=product_equation),
    Variant("MmaSyncScaled", ("mma",), price_mma_scaled, emit_mma_scaled, show=_show, equation=product_equation),
)
