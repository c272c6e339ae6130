"""The value equation of an element-wise or reducing lowering: each destination element gets its value, nothing else changes.

The program is executed symbolically for every thread (:mod:`trace`).  What it leaves in the destination is compared
with the primitive's meaning, applied to source elements that the operands' layouts name, evaluated by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...ir import BufferRegion, Cast, Expr, FloatImm, IntImm, LambdaExpr, Op, Var, substitute
from ...ir import dtype as dt
from ...ir.index import evaluate_many
from ...ir.rounding import round_to
from ...prove.verdict import Enumeration, Verdict
from ..code.recipes import CONVERTED, ROUTINES, accumulator
from ..context import CallContext, Operand
from ..indices import Indices
from ..product import Product, plain, product_of, uses_addend
from ..program import Block
from ..scope import new_scope
from ..sharing.holders import SCOPE_BITS, Held, held
from ..sharing.work import regions_of, spread_over
from .movement import Points, points_of, uniform
from .outcome import Elements, Problem, compare, left_in_memory, left_in_registers
from .symbols import (
    BITS,
    FLOATS,
    FORMAT,
    Sym,
    atom,
    choose,
    extreme,
    function,
    inverse,
    minus,
    negative,
    number,
    plus,
    rounded,
    times,
    unit_bits,
)
from .trace import ValueTrace

Array = np.ndarray
#: log2(e) as float32 has it: exp and silu are defined by powers of two.
LOG2_E = float(np.float32(1.4426950408889634))
ONE = 1.0
#: Format -> dtype.
NAMED = {v: k for k, v in FORMAT.items()}

Meaning = Callable[..., Sym]


def _exp(x: Sym) -> Sym:
    return function("exp2", times(x, number(LOG2_E, "f32")))


def _silu(x: Sym) -> Sym:
    """x / (1 + e^-x)"""
    return times(x, inverse(plus(function("exp2", times(x, number(-LOG2_E, "f32"))), number(ONE, "f32"))))


#: What each operation means, over the reals.
OPERATIONS: dict[str, Meaning] = {
    "add": plus, "sub": minus, "mul": times, "fdiv": lambda a, b: times(a, inverse(b)),
    "fma": lambda a, b, c: plus(times(a, b), c),
    "maximum": lambda a, b: extreme("max", a, b), "minimum": lambda a, b: extreme("min", a, b),
    "sqrt": lambda x: function("sqrt", x), "exp2": lambda x: function("exp2", x), "log2": lambda x: function("log2", x),
    "exp": _exp, "silu": _silu, "reciprocal": inverse,
}  # fmt: skip
#: Functions that are taken as a whole in float64 (see :class:`tirx_eq.lower.program.Routine`).
DOUBLE_OPERATIONS: dict[str, Meaning] = {
    op: partial(function, op) for op in OPERATIONS if (op, "float64") in ROUTINES
}  # fmt: skip


def meaning_of(op: str, fmt: str) -> Meaning:
    """What an operation on values of a format means."""
    return DOUBLE_OPERATIONS.get(op, OPERATIONS[op]) if fmt == "f64" else OPERATIONS[op]


#: Operations that 16-bit floats have themselves; the others, and all of 8 bits, are computed in float32 and rounded at the end.
NARROW = frozenset(("add", "sub", "mul", "fma", "maximum", "minimum"))


def value_equation(c: CallContext, block: Block, indices: Indices, rounds: bool = False) -> Verdict:
    """Verdict on the value equation of a call of the map or reduce family."""
    total = 0
    for points in points_of(c, block, indices):
        problem, count = _check(c, block, points, rounds)
        total += count
        if problem is not None:
            return Verdict("different", "enumeration", counterexample=problem[1], detail=problem[0])
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"values of {total} elements")


def product_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on the value equation of a matrix product; the tensor core's sums count as exact."""
    return value_equation(c, block, indices)


def rounded_product_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """The same where sums are formed in 32 or 64 bits and rounded to D's dtype in the end."""
    return value_equation(c, block, indices, rounds=True)


def _check(c: CallContext, block: Block, points: Points, rounds: bool) -> tuple[Problem | None, int]:
    dst = c.outputs[0]
    active = np.flatnonzero(c.active.mask)
    uniform(c, tuple(o for o in regions_of(c) if o.root.space != "local"), points.by_var(), active)
    meaning = _Meaning(c, points, rounds)
    trace = ValueTrace(c, points, regions_of(c), c.active.mask.copy(), meaning.owner)
    trace.run(block)
    trace.scratch.finish(c.active.mask)
    if (wrong := meaning.scalars_differ(trace)) is not None:
        return (wrong, {}), 0
    wanted = meaning.destination()
    expected = meaning.values(wanted)
    if not _same_format(expected.fmt, FORMAT[dst.dtype]):
        return (f"the meaning of '{c.op}' ends in {expected.fmt}", {}), 0
    got = left_in_registers(trace, dst, active) if dst.root.space == "local" else left_in_memory(trace, dst)
    problem = compare(dst, wanted, expected, got)
    return problem, wanted.elements.size


def _same_format(a: str, b: str) -> bool:
    return a == b or (a not in FLOATS and b not in FLOATS)


class _Meaning:
    """What a call means: names of elements by the layouts, values by the primitive's definition."""

    def __init__(self, c: CallContext, points: Points, rounds: bool) -> None:
        self.c, self.points, self.rounds = c, points, rounds
        self.dst = c.outputs[0]
        self.held: dict[str, Held] = {}
        for o in regions_of(c):
            if o.root.space == "local":
                where = held(o)
                assert not isinstance(where, str)
                self.held[o.name] = where

    @property
    def reducing(self) -> bool:
        return "axes" in self.c.call.signature.flags

    @property
    def shared_copies(self) -> bool:
        """Whether values pass between threads, so that copies of an element in several threads count as one.

        Else each thread means its own registers.
        """
        return self.reducing or self.c.op == "gemm" or self.dst.root.space != "local"

    def owner(self, root: str, threads: Array, byte: int) -> Array:
        """The thread after which each thread's register at ``byte`` is named."""
        named = threads.copy()
        if not self.shared_copies:
            return named
        for o in self.c.inputs:
            if o.root.name != root or o.name not in self.held:
                continue
            where = self.held[o.name]
            for parts, at in zip(where.parts, where.byte):
                for e in np.flatnonzero(at == byte):
                    hit = parts[e] == (threads & where.mask)
                    named = np.where(hit, self._first(where, threads, np.full(len(threads), e)), named)
        return named

    def _first(self, where: Held, threads: Array, elements: Array) -> Array:
        """The thread of the unit that has the first copy of an element."""
        free = SCOPE_BITS[self.c.scope] & ~where.mask
        return where.first_owner(threads, elements) & ~free

    # -- places ----------------------------------------------------------------------------------------------------

    def destination(self) -> Elements:
        """Every place of the destination: (thread, element, key of the place)."""
        active = np.flatnonzero(self.c.active.mask)
        if self.dst.root.space == "local":
            where = self.held[self.dst.name]
            found: list[tuple[Array, Array, Array]] = []
            for parts, byte in zip(where.parts, where.byte):
                t, e = np.nonzero(parts[None, :] == (active & where.mask)[:, None])
                found.append((active[t], e, active[t] << 40 | self._within(self.dst, byte[e], e)))
            return Elements(*(np.concatenate(part) for part in zip(*found)))
        units = np.unique(active // self.c.participants, return_index=True)[1]
        first = active[units]
        byte = self._bytes(self.dst, first)
        threads = np.repeat(first, self.dst.size)
        return Elements(threads, np.tile(np.arange(self.dst.size), len(first)), byte.ravel())

    def _bytes(self, o: Operand, threads: Array) -> Array:
        """(threads, elements) place (see :func:`unit_bits`) of a memory operand's elements as each thread means them."""
        at = {v: p[threads] for v, p in self.points.by_var().items()}
        return np.broadcast_to(o.bit_places(at) // unit_bits(o.bits), (len(threads), o.size))

    def _within(self, o: Operand, byte: Array, elements: Array) -> Array:
        """Places of elements of a register operand from their bytes."""
        unit = unit_bits(o.bits)
        return byte if unit == 8 else byte * (8 // unit) + o.bit_places({})[elements] % 8 // unit

    def element(self, o: Operand, threads: Array, elements: Array) -> Sym:
        """The source value of operand ``o``'s elements, as threads mean them."""
        fmt = FORMAT[o.dtype]
        if o.root.space == "local":
            where = self.held[o.name]
            if self.shared_copies:
                owner = self._first(where, threads, elements)
                place = owner << 40 | self._within(o, where.byte[0][elements], elements)
            else:
                place = threads << 40 | self._within(o, where.find(threads, elements), elements)
        else:
            unique, inverse_ = np.unique(threads, return_inverse=True)
            place = self._bytes(o, unique)[inverse_.ravel(), elements]
        return Sym(atom(o.root.name, place), fmt, fmt)

    # -- values ----------------------------------------------------------------------------------------------------

    def values(self, wanted: Elements) -> Sym:
        if self.reducing:
            return self._reduced(wanted)
        if self.c.op == "gemm":
            return self._product(wanted)
        return self._mapped(wanted)

    def _mapped(self, wanted: Elements) -> Sym:
        c = self.c
        common = self._common()
        target = FORMAT[self.dst.dtype]

        # Integers of 8 bits are those of 16 whose high bits don't count: what is computed is cut in the end.
        computes = c.op not in ("cast", "permute_layout", "fill", "memset", "zero", "select")
        inner = {"s8": "s16", "u8": "u16", "bool": "u16"}.get(common, common) if computes else common

        def leaf(name: str) -> Sym:
            value = c.call.operand(name)
            if isinstance(value, BufferRegion):
                o = c.operands[name]
                elements = spread_over(o, self.dst.extents)[wanted.elements]
                return rounded(rounded(self.element(o, wanted.threads, elements), common), inner)
            return rounded(self._scalar(name, value, common), inner)

        return rounded(self._tree(leaf, common, wanted), target)

    def _tree(self, leaf: Callable[[str], Sym], common: str, wanted: Elements) -> Sym:
        op, call = self.c.op, self.c.call
        if op == "zero":
            return self._scalar("zero", 0, common)
        if op in ("fill", "memset"):
            return leaf("value")
        if op in ("cast", "permute_layout"):
            return leaf("src")
        if op == "select":
            return choose(self._predicate(call.operand("predicate"), wanted), leaf("a"), leaf("b"))
        if op == "binary_chain":
            first, second = (_op_name(call.operand(n)) for n in ("op0", "op1"))
            step = _stepwise([first, second], common)
            inner = step(first, leaf("operand0"), leaf("data"))
            pair = (leaf("operand1"), inner) if _flag(call.operand("reverse1")) else (inner, leaf("operand1"))
            return rounded(step(second, *pair), common)
        if "bias" in call.signature.inputs and op != "fma":
            x, each = leaf("src"), NAMED[common] in CONVERTED
            for name, step in (("scale", times), ("bias", plus)):
                if call.operand(name) is not None:
                    x = step(x, leaf(name))
                    x = rounded(x, common) if each else x
            return rounded(meaning_of(op, common)(x), common)
        return rounded(meaning_of(op, common)(*(leaf(n) for n in call.signature.inputs)), common)

    def _common(self) -> str:
        given = [self.c.call.operand(n) for n in self.c.call.signature.inputs]
        dtypes = [g.dtype for g in given if isinstance(g, BufferRegion)] if self.c.op not in ("zero", "fill", "memset") else []
        if not dtypes:
            return FORMAT[self.dst.dtype]
        return FORMAT[max(dtypes, key=lambda d: (dt.is_float(d), dt.bits(d)))]

    def _scalar(self, name: str, value: Any, common: str) -> Sym:
        plain = value.value if isinstance(value, (IntImm, FloatImm)) else value
        if isinstance(plain, (bool, int, float)):
            if common in FLOATS:
                return number(float(round_to(np.float64(plain), NAMED[common])), common)
            return number(int(np.asarray(plain).astype(dt.numpy_dtype(NAMED[common]))), common)
        kind = "f" if dt.is_float(value.dtype) else "s" if value.dtype.startswith("int") else "u"
        fmt = f"{kind}{64 if dt.bits(value.dtype) == 64 else 32}"
        return rounded(Sym(atom(f"scalar scalar_{self.c.index}_{name}"), fmt, fmt), common)

    def scalars_differ(self, trace: ValueTrace) -> str | None:
        """Whether what was put into a register as a scalar operand is that operand."""
        from ...ir.structural import structural_equal

        for root, value in trace.scalars.items():
            name = root.split("_", 2)[2]
            wanted = self.c.resolve(self.c.call.operand(name))
            given: Expr = value
            while isinstance(given, Cast) and not structural_equal(given, wanted):
                given = given.value
            if not structural_equal(given, wanted):
                return f"the register of the scalar '{name}' gets another value"
        return None

    def _predicate(self, predicate: LambdaExpr, wanted: Elements) -> Array:
        """The predicate of select at every wanted element, at its coordinates in the destination's region."""
        scope = new_scope()
        at = {v: p[wanted.threads] for v, p in self.points.by_var().items()}
        grid = np.unravel_index(wanted.elements, self.dst.extents) if self.dst.extents else ()
        point: dict[Var, Any] = {}
        numbers: dict[str, Any] = {}
        for var, digit in zip(predicate.vars, grid):
            fresh = Var(f"coordinate_{var.name}", "int32")  # type: ignore[arg-type]
            point[var] = fresh
            numbers[scope.name(fresh)] = digit
        term = scope.term(self.c.resolve(substitute(predicate.body, point)))
        numbers.update({scope.name(v): p for v, p in at.items()})
        return np.broadcast_to(np.asarray(evaluate_many(term, numbers)) != 0, wanted.elements.shape)

    # -- products ---------------------------------------------------------------------------------------------------

    def _product(self, wanted: Elements) -> Sym:
        """alpha * A·B + beta * C at every wanted element, over the reals; rounded once if at all."""
        product = product_of(self.c)
        assert isinstance(product, Product)
        row, column = wanted.elements // product.n, wanted.elements % product.n
        a, b = self.c.operands["A"], self.c.operands["B"]
        fmt = FORMAT[self.dst.dtype]
        total = number(0, fmt)
        for k in range(product.k):
            x = self.element(a, wanted.threads, product.a_element(row, np.full_like(row, k)))
            y = self.element(b, wanted.threads, product.b_element(np.full_like(row, k), column))
            total = plus(total, times(x, y))
        inner = FORMAT[accumulator(self.dst.dtype)]
        alpha, beta = (self._scale(n, inner if self.rounds else fmt) for n in ("alpha", "beta"))
        total = times(total, alpha)
        if uses_addend(self.c):
            before = self.element(self.c.operands["C"], wanted.threads, wanted.elements)
            total = plus(total, times(before, beta))
        if self.rounds:
            return rounded(Sym(total.r, inner, inner if inner in FLOATS else ""), fmt)
        return Sym(total.r, fmt, fmt)

    def _scale(self, name: str, fmt: str) -> Sym:
        value = plain(self.c.call.operand(name))
        return number(value, fmt) if isinstance(value, (int, float)) else self._scalar(name, value, fmt)

    # -- reductions ------------------------------------------------------------------------------------------------

    def _reduced(self, wanted: Elements) -> Sym:
        """The combination of all source elements of a row, as a sum of residues; rounded once to the source's dtype."""
        c = self.c
        src = c.operands["src"]
        name = _reduce_name(c.call)
        axes = reduced_axes(c)
        grid = np.arange(src.size).reshape(src.extents)
        kept = [d for d in range(len(src.extents)) if d not in axes]
        rows = grid.transpose(*kept, *axes).reshape(self.dst.size, -1)
        members = rows[wanted.elements]  # (places, row length)
        flat = self.element(src, np.repeat(wanted.threads, members.shape[1]), members.ravel())
        flat = _wide(flat)
        parts = [Sym(flat.r.reshape(2, *members.shape)[:, :, j], flat.fmt, flat.grid) for j in range(members.shape[1])]
        value = parts[0]
        for part in parts[1:]:
            value = plus(value, part) if name == "sum" else extreme(name, value, part)
        fmt = FORMAT[src.dtype]
        value = rounded(value, fmt)
        if c.op == "reduce_negate":
            value = rounded(negative(_wide(value)), fmt)
        if _flag(c.call.operand("accum")):
            before, value = _wide(rounded(self.element_of_destination(wanted), fmt)), _wide(value)
            value = plus(before, value) if name == "sum" else extreme(name, before, value)
            value = rounded(value, fmt)
        return rounded(value, FORMAT[self.dst.dtype])

    def element_of_destination(self, wanted: Elements) -> Sym:
        fmt = FORMAT[self.dst.dtype]
        return Sym(atom(self.dst.root.name, wanted.keys), fmt, fmt)


def reduced_axes(c: CallContext) -> tuple[int, ...]:
    """The reduced dimensions of the source, ascending."""
    rank = len(c.operands["src"].extents)
    given = c.call.operand("axes")
    axes = given if isinstance(given, (tuple, list)) else (given,)
    return tuple(sorted({int(a) % rank for a in axes}))


def _reduce_name(call: Any) -> str:
    if call.op.short_name != "reduce_negate":
        return str(call.op.short_name)
    return _op_name(call.args[len(call.signature.operands) - 1]) if "reduce_op" in call.signature.operands else "sum"


def _op_name(op: Any) -> str:
    return op.short_name if isinstance(op, Op) else str(op)


def _flag(value: Any) -> bool:
    return bool(value.value) if isinstance(value, IntImm) else bool(value)


def _wide(s: Sym) -> Sym:
    """Integers of 8 and 16 bits as 32: arithmetic is on those, and what doesn't fit is cut off in the end."""
    return rounded(s, "u32" if s.fmt.startswith("u") else "s32") if s.fmt not in FLOATS and BITS[s.fmt] < 64 else s


def _stepwise(ops: Sequence[str], common: str) -> Callable[..., Sym]:
    """Application of an operation of a chain: rounded each time if the dtype has all of them, else only at the end."""
    whole = (common not in FLOATS and BITS[common] > 8) or common in ("f32", "f64")
    each = whole or (common in ("f16", "bf16") and all(op in NARROW for op in ops)) or NAMED[common] in (*CONVERTED, "bool")

    def step(op: str, *args: Sym) -> Sym:
        made = OPERATIONS[op](*args)
        return rounded(rounded(made, common), args[0].fmt) if each else made

    return step


__all__ = ["value_equation"]
