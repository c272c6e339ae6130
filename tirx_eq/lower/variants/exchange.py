"""Copies of registers to other threads, by plans: shuffles as few as there can be, or scratch in shared memory without
bank conflicts."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace

from ...errors import LoweringError
from ...ir import EQ, Expr, const
from ...ir.arith import binary
from ...redistribution.plan import Barrier, Choose, Get, Permute, Plan, Put, Shuffle, Term
from ..block_price import price_block
from ..context import CallContext
from ..machine import Price
from ..program import Block, If, Index, Memory, Node, Operand, Temp, Word, instruction
from ..sharing.exchange import Side, exchange_plans, sides
from ..sharing.scratch import barrier, part, region, shares
from ..storage import Root
from .base import Variant

FULL = 0xFFFFFFFF


def plan_of(c: CallContext, number: int, own: bool) -> Plan:
    """The call's plan with this number."""
    plans = exchange_plans(c, own)
    if isinstance(plans, str):
        raise LoweringError(plans, span=c.span)
    return plans[number]


def emit_exchange(c: CallContext, number: int, own: bool) -> Block:
    """The steps of a plan, then the moves to the destination's registers."""
    plan, both = plan_of(c, number, own), sides(c)
    assert not isinstance(both, str)
    code = _Code(c, plan, *both, region(c, plan.shared, own) if plan.shared else None)
    for step in plan.steps:
        code.step(step)
    if plan.shared and not own:
        code.nodes.append(barrier(c))
    code.finish()
    return tuple(code.nodes)


class _Code:
    def __init__(self, c: CallContext, plan: Plan, source: Side, target: Side, scratch: Root | None) -> None:
        self.c, self.plan, self.scratch = c, plan, scratch
        self.source, self.target = source, target
        self.nodes: list[Node] = []
        self.values: dict[int, Operand] = {}
        self.start = part(c, scratch) if scratch else const(0)
        root = c.inputs[0].root
        for k in range(plan.inputs):
            word = source.first + k
            if root.word_bits == 32:
                self.values[k] = Word(root, word)
            elif word % 2 == 0 or k == 0:
                low, high = Temp("b32"), Temp("b32")
                self.nodes.append(instruction("mov.b64", (low, high), Word(root, word // 2)))
                self.values[k], other = (low, high) if word % 2 == 0 else (high, low)
                if word % 2 == 0:
                    self.values[k + 1] = other

    def expr(self, term: Term) -> Expr:
        """A term over the thread's number in its unit as an expression."""
        if isinstance(term, int):
            return const(term)
        if term == "tid":
            return self.c.rank()
        op, *args = term
        return _OPERATORS[op](*map(self.expr, args))

    def step(self, step: Permute | Choose | Shuffle | Put | Get | Barrier) -> None:
        emit = self.nodes.append
        if isinstance(step, Permute):
            emit(instruction("prmt.b32", self._new(step.out), self.values[step.a], self.values[step.b], step.selector))
        elif isinstance(step, Choose):
            holds = Temp("pred")
            emit(instruction("setp.eq.u32", holds, Index(self.expr(step.condition)), 1))
            emit(instruction("selp.b32", self._new(step.out), self.values[step.a], self.values[step.b], holds))
        elif isinstance(step, Shuffle):
            mode, lane = ("bfly", step.flip) if step.flip is not None else ("idx", Index(self.expr(step.lane)))
            emit(instruction(f"shfl.sync.{mode}.b32", self._new(step.out), self.values[step.value], lane, 31, FULL))
        elif isinstance(step, Barrier):
            emit(instruction("bar.warp.sync", FULL) if step.scope == "warp" else barrier(self.c))
        elif isinstance(step, Put):
            made = instruction(self._opcode("st", step, len(step.words)), self._at(step), self._words(step.words, step))
            emit(made if step.guard is None else If(binary(EQ, self.expr(step.guard), 1), (made,)))
        else:
            outs = tuple(self._new(o) for o in step.outs)
            into: Operand = outs if self._vector(step, outs) else outs[0]
            emit(instruction(self._opcode("ld", step, len(outs)), into, self._at(step)))

    def _new(self, value: int) -> Temp:
        made = Temp("b32")
        self.values[value] = made
        return made

    def _words(self, words: tuple[int, ...], step: Put) -> Operand:
        found = tuple(self.values[w] for w in words)
        return found if self._vector(step, found) else found[0]

    @staticmethod
    def _vector(step: Put | Get, words: tuple[Operand, ...]) -> bool:
        return len(words) > 1 or bool(step.matrix)

    @staticmethod
    def _opcode(verb: str, step: Put | Get, count: int) -> str:
        if step.matrix:
            return f"{verb}matrix.sync.aligned.m8n8.x{count}{'.trans' if step.matrix == 'trans' else ''}.shared.b16"
        if step.width < 4:
            return f"{verb}.shared.u{8 * step.width}"
        return f"{verb}.shared.{f'v{count}.' if count > 1 else ''}b32"

    def _at(self, step: Put | Get) -> Memory:
        assert self.scratch is not None
        return Memory(self.scratch, self.c.resolve(self.start + self.expr(step.address) + step.offset))

    def finish(self) -> None:
        """The values to the registers that they are for; what is overwritten must have been read."""
        root, first = self.c.outputs[0].root, self.target.first
        wanted = {k: self.values[v] for k, v in enumerate(self.plan.outputs) if v is not None}
        if root == self.c.inputs[0].root:
            for k, value in wanted.items():
                if isinstance(value, Word):
                    kept = Temp("b32")
                    self.nodes.append(instruction("mov.b32", kept, value))
                    wanted[k] = kept
        if root.word_bits == 64:
            for k in sorted(k for k in wanted if (first + k) % 2 == 0):
                self.nodes.append(instruction("mov.b64", Word(root, (first + k) // 2), (wanted[k], wanted[k + 1])))
            return
        size = self.target.size
        filled = set(self.target.spread.bytes)
        for k, value in wanted.items():
            word = Word(root, first + k)
            mine = [b for b in range(4 * word.index, 4 * word.index + 4, size) if b in filled]
            if len(mine) * size == 4:
                self.nodes.append(instruction("mov.b32", word, value))
                continue
            for byte in mine:  # the rest of the register is others'
                piece = value
                if byte % 4:
                    piece = Temp("b32")
                    self.nodes.append(instruction("shr.u32", piece, value, byte % 4 * 8))
                self.nodes.append(instruction("bfi.b32", word, piece, word, byte % 4 * 8, size * 8))


_OPERATORS: dict[str, Callable[..., Expr]] = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "div": lambda a, b: a // b, "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b, "xor": lambda a, b: a ^ b, "or": lambda a, b: a | b, "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b, "eq": lambda a, b: binary(EQ, a, b),
}  # fmt: skip


def _emit(own: bool) -> Callable[[CallContext, tuple[int, ...]], Block]:
    return lambda c, p: c.once(("exchange", own, *p), lambda: emit_exchange(c, p[0], own))


def _price(own: bool) -> Callable[[CallContext, tuple[int, ...]], Price]:
    """A shuffle takes the shared-memory pipe for a cycle (CUDA C++ Programming Guide: 32 lanes per cycle and SM)."""

    def price(c: CallContext, p: tuple[int, ...]) -> Price:
        found = price_block(c, _emit(own)(c, p))
        shuffles = plan_of(c, p[0], own).count(Shuffle)
        return replace(found, wavefronts=found.wavefronts + shuffles * found.warps)

    return price


def _shares(own: bool) -> Callable[[CallContext, tuple[int, ...]], dict[Hashable, float]]:
    def found(c: CallContext, p: tuple[int, ...]) -> dict[Hashable, float]:
        plan = plan_of(c, p[0], own)
        return shares(region(c, plan.shared, own)) if plan.shared else {}

    return found


EXCHANGES = tuple(
    Variant(node, ("plan",), _price(own), _emit(own), shares=_shares(own))
    for node, own in (("Exchange", False), ("ExchangeOnce", True))
)
