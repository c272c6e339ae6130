"""Element-wise primitives: operands to lanes, the recipe of each operation, lanes to the destination."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import BufferRegion, Expr, FloatImm, IntImm, LambdaExpr, cast, substitute
from ...ir import dtype as dt
from ...ir.accuracy import UNIT
from ...ir.rounding import SCALE, round_to
from ...ptx.target import target_has
from ..block_price import price_block
from ..code.lane_access import Port
from ..code.lanes import Lanes, bits_of, compute, convert, nowhere, scalar_lanes
from ..code.recipes import CONVERTED, FLOAT4, SINGLE
from ..code.scalar_operand import runtime_scalar
from ..context import CallContext, Operand
from ..equations.values import value_equation
from ..machine import Price
from ..operations import Tree, common_dtype, leaves, rounds_each, tree_of, work_dtype
from ..program import Block, If, Index, Node, Temp, instruction
from ..program import Operand as Value
from ..sharing.holders import Held
from ..sharing.work import holders_of, work_of
from .base import Variant

#: Steps whose loads are issued before their results are stored, for operands in memory.
BATCH_WORDS = 64


class MapCode:
    """The program of one element-wise call for one sharing of its elements."""

    def __init__(self, c: CallContext, lanes: int, packed: bool) -> None:
        work, where = work_of(c, lanes), holders_of(c)
        assert not isinstance(work, str) and not isinstance(where, str)
        self.c, self.work, self.packed = c, work, packed
        self.tree = tree_of(c.call)
        self.common, self.inner = common_dtype(c.call), work_dtype(c.call)
        # The coarsest float that results go through: functions need be no more accurate than that.
        self.rounded = max((d for d in (self.common, c.outputs[0].dtype, self.inner) if d in UNIT), default=None,
                           key=lambda d: UNIT[d].relative)  # fmt: skip
        self.nodes: list[Node] = []
        self.out = self._port(c.outputs[0], where)
        self.ports = {n: self._port(c.operands[n], where) for n in leaves(self.tree) if n in c.operands}
        self.scalars: dict[str, Lanes] = {}

    def _port(self, o: Operand, where: dict[str, Held]) -> Port:
        return Port(self.c, o, self.work, self.nodes, where.get(o.name))

    def run(self) -> Block:
        for name in leaves(self.tree):
            if name not in self.ports:
                self.scalars[name] = self._scalar(name)
        for port in self.ports.values():
            if port.where is not None and port.o.root == self.out.o.root and port.bytes != self.out.bytes:
                port.snapshot()
        start = self.nodes
        words = sum(max(1, self.work.lanes * p.o.bits // 32) for p in self.ports.values() if p.where is None)
        batch = max(1, BATCH_WORDS // words) if words else 1
        steps = [k for k in range(self.work.steps) if self.work.guard(k * self.work.lanes) is None]
        for first in range(0, len(steps), batch):
            self._steps(steps[first : first + batch])
        for k in range(len(steps), self.work.steps):
            guard = self.work.guard(k * self.work.lanes)
            assert guard is not None
            self._into_list([])
            self._steps([k])
            body = tuple(self.nodes)
            self._into_list(start)
            self.nodes.append(If(guard, body))
        return tuple(self.nodes)

    def _into_list(self, nodes: list[Node]) -> None:
        """From here on, instructions go to another list (of a guarded block)."""
        self.nodes = nodes
        for port in (self.out, *self.ports.values()):
            port.nodes = nodes
        for scalar in self.scalars.values():
            scalar.nodes = nodes

    def _steps(self, steps: list[int]) -> None:
        loaded = [{n: p.load(k) for n, p in self.ports.items()} for k in steps]
        for k, values in zip(steps, loaded):
            self._finish(k, values)

    def _finish(self, step: int, values: dict[str, Lanes]) -> None:
        brought = {n: convert(convert(v, self.common, self.packed), self.inner, self.packed) for n, v in values.items()}
        brought.update(self.scalars)
        target = self.out.o.dtype
        direct = self.inner == self.common == target
        into = (lambda k: self.out.into(step, k)) if direct else nowhere
        into_pair = (lambda k: self.out.into_pair(step, k)) if direct else nowhere
        value = self._value(self.tree, brought, step, into, into_pair)
        if not direct:
            # The last conversion writes to the destination's registers.
            value = convert(value, self.common, self.packed)
            value = convert(
                value, target, self.packed, lambda k: self.out.into(step, k), lambda k: self.out.into_pair(step, k)
            )
        self.out.store(step, value)

    def _value(self, tree: Tree, given: dict[str, Lanes], step: int, into: Any, into_pair: Any) -> Lanes:
        if isinstance(tree, str):
            return given[tree]
        op, *children = self._three(tree)
        values = [self._part(child, given, step) for child in children]
        if op == "select":
            return self._select(values, step, into)
        return compute(op, [_registers(v, k) for k, v in enumerate(values)], self.packed, into, into_pair, self.rounded,
                       self.ports[children[0]].o.dtype if children[0] in self.ports else "float32",
                       upwards=self.common == SCALE)  # fmt: skip

    def _part(self, tree: Tree, given: dict[str, Lanes], step: int) -> Lanes:
        """A value that others are made of: rounded, where each operation is."""
        made = self._value(tree, given, step, nowhere, nowhere)
        if isinstance(tree, str) or not rounds_each(self.common):
            return made
        return convert(convert(made, self.common, self.packed), self.inner, self.packed)

    def _three(self, tree: tuple[Any, ...]) -> tuple[Any, ...]:
        """A maximum (minimum) of a maximum and a third value as one operation: f32 on sm_100 (PTX ISA, max)."""
        op, *children = tree
        if op not in ("maximum", "minimum") or self.inner != "float32" or not target_has(self.c.target, "sm_100"):
            return tree
        for inner, other in (children, reversed(children)):
            if isinstance(inner, tuple) and inner[0] == op:
                return (f"{op}3", *inner[1:], other)
        return tree

    # -- scalars ---------------------------------------------------------------------------------------------------

    def _scalar(self, name: str) -> Lanes:
        """A scalar operand in the dtype of the arithmetic, in every lane."""
        if name == "zero":
            return self._constant(0)
        value = self.c.call.operand(name)
        plain = value.value if isinstance(value, (FloatImm, IntImm)) else value
        if isinstance(plain, (bool, int, float)):
            return self._constant(plain)
        assert isinstance(value, Expr) and not isinstance(value, BufferRegion)
        one = runtime_scalar(self.c, name, value, self.nodes)
        if self.common == FLOAT4:  # converted in pairs only
            two = convert(Lanes(one.dtype, 2, self.nodes, [one.single(0)] * 2), FLOAT4, True)
            if self.inner == FLOAT4:
                return Lanes(FLOAT4, self.work.lanes, self.nodes, pairs=[two.pair(0)] * (self.work.lanes // 2))
            return scalar_lanes(self.inner, self.work.lanes, convert(two, self.inner, False).single(0), self.nodes)
        brought = convert(convert(one, self.common, False), self.inner, False)
        return scalar_lanes(self.inner, self.work.lanes, brought.single(0), self.nodes)

    def _constant(self, value: float | int) -> Lanes:
        """A number: an immediate for 32-bit types, a register for narrower ones."""
        if self.inner == "float32" and self.common in CONVERTED:
            return self._immediate(float(round_to(np.float64(value), self.common)))
        rounded = bits_of(self.common, value)
        if self.common == FLOAT4:
            word = Temp("b32")
            self.nodes.append(instruction("mov.b32", word, rounded * 0x11111111))
            return Lanes(FLOAT4, self.work.lanes, self.nodes, filled=word)
        if self.common == self.inner == "float32":
            return self._immediate(float(value))
        if self.common == self.inner and self.common in ("int32", "uint32"):
            return self._immediate(rounded if self.common == "uint32" or rounded < 1 << 31 else rounded - (1 << 32))
        bits = dt.storage_bits(self.common)
        register = Temp(SINGLE[bits])
        both = rounded * 0x101 if bits == 8 else rounded  # a 16-bit register has two bytes: it serves as a pair
        self.nodes.append(instruction(f"mov.{SINGLE[bits]}", register, both))
        if dt.storage_bits(self.inner) == 8:
            half = self.work.lanes // 2
            return Lanes(self.inner, self.work.lanes, self.nodes, [register] * self.work.lanes, [register] * half)
        one = Lanes(self.common, 1, self.nodes, [register])
        return scalar_lanes(self.inner, self.work.lanes, convert(one, self.inner, False).single(0), self.nodes)

    def _immediate(self, value: float | int) -> Lanes:
        made = Lanes(self.inner, self.work.lanes, self.nodes, [value] * self.work.lanes)
        if self.work.lanes > 1 and self.packed:
            made.pairs = [made.pair(0)] * (self.work.lanes // 2)
        return made

    # -- select ----------------------------------------------------------------------------------------------------

    def _select(self, values: list[Lanes], step: int, into: Any) -> Lanes:
        """``a`` where the predicate holds of the coordinates in the destination's region, else ``b``."""
        a, b = values
        predicate = self.c.call.operand("predicate")
        assert isinstance(predicate, LambdaExpr)
        bits = dt.storage_bits(self.inner)
        made = Lanes(self.inner, a.count, self.nodes)

        def holds(k: int) -> Temp:
            coords = self.work.coords(step * self.work.lanes + k)
            assert coords is not None
            point = dict(zip(predicate.vars, coords))
            p, truth = Temp("pred"), self.c.resolve(substitute(predicate.body, point))
            self.nodes.append(instruction("setp.ne.u32", p, Index(cast("int32", truth)), 0))
            return p

        for first in range(0, a.count, 8) if bits == 4 else ():
            chosen = [holds(k) for k in range(first, min(first + 8, a.count))]
            made.set_word(first, self._select_halves(a.word(first), b.word(first), chosen))
        for k in range(a.count) if bits > 4 else ():
            p = holds(k)
            made.singles[k] = into(k) or Temp(SINGLE[bits])
            kind = "f32" if self.inner == "float32" else f"b{max(16, bits)}"
            self.nodes.append(instruction(f"selp.{kind}", made.singles[k], a.single(k), b.single(k), p))  # type: ignore[arg-type]
        return made


    def _select_halves(self, a: Value, b: Value, chosen: list[Temp]) -> Temp:
        """A register whose (up to eight) elements of 4 bits are ``a``'s where their predicates hold, else ``b``'s."""
        whole = Temp("b32")
        for k, p in enumerate(chosen):
            parts: list[Value] = [a, b]
            if k:
                parts = [Temp("b32"), Temp("b32")]
                for part, word in zip(parts, (a, b)):
                    self.nodes.append(instruction("shr.u32", part, word, 4 * k))
            one = Temp("b32") if k else whole
            self.nodes.append(instruction("selp.b32", one, *parts, p))
            if k:
                self.nodes.append(instruction("bfi.b32", whole, one, whole, 4 * k, 4))
        return whole


def _registers(v: Lanes, position: int) -> Lanes:
    """Immediates may stand anywhere but in the first operand; there they are put into a register."""
    if position or not isinstance(v.singles[0], (int, float)) or (v.pairs and v.pairs[0] is not None):
        return v
    register = Temp("b32")
    v.emit("mov.f32" if isinstance(v.singles[0], float) else "mov.b32", register, v.singles[0])
    return Lanes(v.dtype, v.count, v.nodes, [register] * v.count)


def emit_map(c: CallContext, lanes: int, packed: bool) -> Block:
    key = ("map", lanes, packed)
    return c.once(key, lambda: MapCode(c, lanes, packed).run())


def price_map(c: CallContext, lanes: int, packed: bool) -> Price:
    return price_block(c, emit_map(c, lanes, packed))


MAPS = (
    Variant("Map", ("lanes",), lambda c, p: price_map(c, p[0], False), lambda c, p: emit_map(c, p[0], False), ("vec_len",),
            equation=value_equation),
    Variant("MapPacked", ("lanes",), lambda c, p: price_map(c, p[0], True), lambda c, p: emit_map(c, p[0], True), ("vec_len",),
            equation=value_equation),
)
