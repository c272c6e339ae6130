"""Products of matrices by multiplications and additions of single elements, each thread for the elements that are its own."""

from __future__ import annotations

from ...ir import Expr, const
from ...ir.rounding import SCALE
from ..block_price import price_block
from ..code.element_values import ElementValues
from ..code.lane_access import Port
from ..code.lanes import Lanes, compute, convert
from ..code.recipes import accumulator
from ..code.scalar_operand import factor
from ..context import CallContext, Operand
from ..equations.values import rounded_product_equation
from ..machine import Price
from ..product import is_number, plain, uses_addend
from ..program import Block, If, Memory, Node
from ..program import Operand as Value
from ..sharing.holders import held
from ..sharing.product_work import ProductWork, product_work
from ..storage import element_offset
from .base import Variant


class _Code:
    """The program: factors are read once, sums kept in registers until all are done."""

    def __init__(self, c: CallContext, found: ProductWork) -> None:
        self.c, self.found = c, found
        self.nodes: list[Node] = []
        self.dtype = accumulator(c.outputs[0].dtype)
        self.scales = {n: plain(c.call.operand(n)) for n in ("alpha", "beta")}
        self.known = {n: factor(c, n, v, self.dtype, self.nodes) for n, v in self.scales.items() if isinstance(v, Expr)}
        names = "ABC" if uses_addend(c) else "AB"
        self.readers = {n: ElementValues(c.operands[n], self.dtype, self.nodes, c.outputs[0].root) for n in names}
        self.read: dict[tuple[str, bytes], Value] = {}

    def run(self) -> Block:
        d = self.c.outputs[0]
        where = held(d) if d.root.space == "local" else None
        assert not isinstance(where, str)
        port = Port(self.c, d, self.found.work, self.nodes, where)
        steps = range(self.found.work.steps)
        open_steps = [k for k in steps if self.found.work.guard(k) is None]
        done = [self._element(k) for k in open_steps]
        for k, value in zip(open_steps, done):
            port.store(k, self._result(value))
        for k in steps:
            guard = self.found.work.guard(k)
            if guard is not None:
                self._guarded(guard, k, port)
        return tuple(self.nodes)

    def _guarded(self, guard: Expr, slot: int, port: Port) -> None:
        outer, self.nodes = self.nodes, []
        for reader in self.readers.values():
            reader.nodes = self.nodes
        port.nodes, self.read = self.nodes, {}
        port.store(slot, self._result(self._element(slot)))
        outer.append(If(guard, tuple(self.nodes)))
        self.nodes = outer

    def _result(self, value: Value) -> Lanes:
        return convert(Lanes(self.dtype, 1, self.nodes, [value]), self.c.outputs[0].dtype, False)

    def _element(self, slot: int) -> Value:
        total: Value | None = None
        for k in range(self.found.product.k):
            a, b = self._factor("A", slot, k), self._factor("B", slot, k)
            total = self._compute("mul", a, b) if total is None else self._compute("fma", a, b, total)
        assert total is not None
        if not is_number(self.scales["alpha"], 1):
            total = self._compute("mul", total, self._number("alpha"))
        if "C" in self.readers:
            before = self._factor("C", slot, 0)
            total = self._compute("add", total, before) if is_number(self.scales["beta"], 1) else self._compute(
                "fma", before, self._number("beta"), total)  # fmt: skip
        return total

    def _compute(self, op: str, *values: Value) -> Value:
        lanes = [Lanes(self.dtype, 1, self.nodes, [v]) for v in values]
        return compute(op, lanes, False, upwards=self.c.outputs[0].dtype == SCALE).single(0)

    def _number(self, name: str) -> Value:
        """alpha or beta; what is known at run time only is computed once, before everything else."""
        return self.known[name] if name in self.known else factor(self.c, name, self.scales[name], self.dtype, self.nodes)

    def _factor(self, name: str, slot: int, depth: int) -> Value:
        elements = self.found.elements(name, slot, depth)
        key = (name, elements.tobytes())
        if key not in self.read:
            o, reader = self.c.operands[name], self.readers[name]
            in_register = self.found.registers.get(name)
            if in_register is not None:
                self.read[key] = reader.in_register(in_register[elements.tobytes()])
            else:
                self.read[key] = reader.in_memory(*self._address(o, name, slot, depth))
        return self.read[key]

    def _address(self, o: Operand, name: str, slot: int, depth: int) -> tuple[Memory, Expr]:
        """Where an element is, and which of its root's it is."""
        product = self.found.product
        coords = self.found.work.coords(slot)
        assert coords is not None
        # D is a matrix; its coordinates are the last two, or the two whose extents exceed 1.
        extents = self.c.outputs[0].extents
        last = len(extents) >= 2 and all(e == 1 for e in extents[:-2])
        row, column = coords[-2:] if last else [x for x, e in zip(coords, extents) if e != 1]
        inner = const(depth)
        pairs = {
            "A": (inner, row) if product.transposed_a else (row, inner),
            "B": (column, inner) if product.transposed_b else (inner, column), "C": (row, column),
        }  # fmt: skip
        first, second = pairs[name]
        flat = [r.min for r in o.region.region]
        at = [d for d, e in enumerate(o.extents) if e != 1] if len(o.extents) > 2 else [0, 1]
        if len(at) != 2:
            at = [len(flat) - 2, len(flat) - 1]
        flat[at[0]], flat[at[1]] = flat[at[0]] + first, flat[at[1]] + second
        place = Memory(o.root, self.c.resolve(o.storage.byte_offset(o.buffer, flat)))
        return place, self.c.resolve(element_offset(o.buffer, flat))


def emit_product(c: CallContext, parameters: tuple[int, ...]) -> Block:
    if "product program" not in c.memo:
        found = product_work(c)
        assert isinstance(found, ProductWork)
        c.memo["product program"] = _Code(c, found).run()
    block: Block = c.memo["product program"]
    return block


def price_product(c: CallContext, parameters: tuple[int, ...]) -> Price:
    return price_block(c, emit_product(c, parameters))


PRODUCTS = (Variant("ProductFma", (), price_product, emit_product, equation=rounded_product_equation),)
