"""Reductions: parts combined in each thread (one by one, in pairs, three at a time), then among lanes by shuffles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...ir import EQ, Expr, IntImm
from ...ir import dtype as dt
from ...ir.arith import binary
from ...ir.rounding import SCALE
from ..block_price import price_block
from ..code.accesses import access
from ..code.element_values import ElementValues
from ..code.lanes import Lanes, compute, convert
from ..code.recipes import FLOAT4, FLOATS, SINGLE, accumulator, compute_dtype
from ..conditions.vectors import row_vector
from ..context import CallContext, Operand
from ..equations.values import value_equation
from ..machine import Price
from ..program import Block, If, Memory, Node, Temp, Word, instruction
from ..program import Operand as Value
from ..sharing.holders import thread_expr, unit_of
from ..sharing.reduction import (
    MemoryShare,
    RegisterShare,
    axes_of,
    held_rows,
    memory_share,
    reduce_op,
    register_share,
    result_bytes,
)
from ..sharing.work import digits
from .base import Variant

Array = np.ndarray
FULL = 0xFFFFFFFF
#: Reduction -> element-wise operation of two values.
PAIRWISE = {"sum": "add", "max": "maximum", "min": "minimum"}
#: Rows whose loads are issued before they are combined take at most this many registers.
IN_FLIGHT = 64


class ReduceCode:
    """Instructions of one reduction."""

    def __init__(self, c: CallContext, way: str) -> None:
        self.c, self.way = c, way
        self.src, self.dst = c.inputs[0], c.outputs[0]
        self.op = PAIRWISE[reduce_op(c)]
        self.inner = accumulator(self.src.dtype)
        self.upwards = self.src.dtype == SCALE
        self.nodes: list[Node] = []

    # -- combining -------------------------------------------------------------------------------------------------

    def combine(self, values: Sequence[Value]) -> Value:
        """One value from many, in this variant's way."""
        return _WAYS[self.way](self, list(values))

    def two(self, a: Value, b: Value) -> Value:
        lanes = [Lanes(self.inner, 1, self.nodes, [v]) for v in (a, b)]
        return compute(self.op, lanes, False, upwards=self.upwards).single(0)

    def one_by_one(self, values: list[Value]) -> Value:
        """A tree of two-operand instructions: as many as in a chain, but not each waiting for the one before."""
        while len(values) > 1:
            paired = [self.two(a, b) for a, b in zip(values[::2], values[1::2])]
            values = paired + values[len(paired) * 2 :]
        return values[0]

    def in_pairs(self, values: list[Value]) -> Value:
        """Two additions at a time (add.f32x2), the two sums at the end."""
        pairs = []
        for a, b in zip(values[::2], values[1::2]):
            pair = Temp("b64")
            self.nodes.append(instruction("mov.b64", pair, (a, b)))
            pairs.append(pair)
        rest = values[len(pairs) * 2 :]
        while len(pairs) > 1:
            made = []
            for x, y in zip(pairs[::2], pairs[1::2]):
                made.append(Temp("b64"))
                self.nodes.append(instruction(f"add.{'rp' if self.upwards else 'rn'}.f32x2", made[-1], x, y))
            pairs = made + pairs[len(made) * 2 :]
        if not pairs:
            return values[0]
        low, high = Temp("b32"), Temp("b32")
        self.nodes.append(instruction("mov.b64", (low, high), pairs[0]))
        return self.one_by_one([low, high, *rest])

    def in_threes(self, values: list[Value]) -> Value:
        """Three operands at a time (max and min with three, sm_100)."""
        name = {"maximum": "max", "minimum": "min"}[self.op]
        while len(values) > 2:
            made: list[Value] = []
            for k in range(0, len(values) - 2, 3):
                made.append(Temp("b32"))
                self.nodes.append(instruction(f"{name}.f32", made[-1], *values[k : k + 3]))
            values = made + values[len(made) * 3 :]
        return values[0] if len(values) == 1 else self.two(*values)

    def across(self, value: Value, flips: Sequence[int]) -> Value:
        """The combination over lanes that differ in the bits ``flips``; all of them get it."""
        for flip in flips:
            value = self.two(value, self._of_other_lane(value, flip))
        return value

    def _of_other_lane(self, value: Value, flip: int) -> Value:
        """The value of the lane whose number differs in the bits ``flip``; 64 bits are exchanged as two halves."""
        if dt.bits(self.inner) == 32:
            other = Temp("b32")
            self.nodes.append(instruction("shfl.sync.bfly.b32", other, value, flip, 31, FULL))
            return other
        halves, theirs, whole = (Temp("b32"), Temp("b32")), (Temp("b32"), Temp("b32")), Temp("b64")
        self.nodes.append(instruction("mov.b64", halves, value))
        for mine, other in zip(halves, theirs):
            self.nodes.append(instruction("shfl.sync.bfly.b32", other, mine, flip, 31, FULL))
        self.nodes.append(instruction("mov.b64", whole, theirs))
        return whole

    # -- results ---------------------------------------------------------------------------------------------------

    def finish(self, values: Sequence[Value], before: Callable[[], Lanes] | None) -> Lanes:
        """The values to store: rounded to the source's dtype, negated, combined with what was there, in the destination's.

        There is one, or a pair where a dtype has pairs only.
        """
        dtype = self.src.dtype
        given = self._twice(list(values))
        made = convert(Lanes(self.inner, len(given), self.nodes, list(given)), dtype, False)
        if self.c.op == "reduce_negate":
            made = self._compute("neg", [made])
        if before is not None:
            made = self._compute(self.op, [convert(before(), dtype, False), made])
        return convert(made, self.dst.dtype, False)

    def _compute(self, op: str, values: list[Lanes]) -> Lanes:
        dtype = values[0].dtype
        inner = compute_dtype(op, dtype) if dtype in FLOATS else accumulator(dtype)
        assert inner is not None
        return convert(compute(op, [convert(v, inner, False) for v in values], False, upwards=self.upwards), dtype, False)

    @property
    def accumulates(self) -> bool:
        flag = self.c.call.operand("accum")
        return bool(flag.value if isinstance(flag, IntImm) else flag)

    def to_register(self, value: Value, place: int) -> None:
        """The value goes to a place of the thread's registers."""
        first = place * unit_of(self.dst)
        index, shift = divmod(first, self.dst.root.word_bits)
        word = Word(self.dst.root, index)

        def before() -> Lanes:
            if self.dst.bits == 4:
                return self._pair_at(word, shift)
            if self.dst.bits >= 32:
                return self._old([word])
            halves = (Temp("b16"), Temp("b16"))
            self.nodes.append(instruction("mov.b32", halves, word))
            return self._old([self._byte_of(halves[place % 4 // 2], place)])

        result = self.finish([value], before if self.accumulates else None)
        if self.dst.bits >= 32:
            self.nodes.append(instruction(f"mov.b{self.dst.bits}", word, result.single(0)))
            return
        if self.dst.bits == 4:
            wide: Value = result.word(0)
        else:
            wide = Temp("b32")
            self.nodes.append(instruction("mov.b32", wide, (result.single(0), result.single(0))))
        self.nodes.append(instruction("bfi.b32", word, wide, word, shift, self.dst.bits))

    def _old(self, values: list[Value]) -> Lanes:
        """What was there, as many lanes as there are of the new values."""
        values = self._twice(values)
        return Lanes(self.dst.dtype, len(values), self.nodes, list(values))

    def _twice(self, values: list[Value]) -> list[Value]:
        """One value twice where a dtype has pairs only."""
        return values * 2 if len(values) == 1 and FLOAT4 in (self.src.dtype, self.dst.dtype) else values

    def _pair_at(self, word: Value, shift: int) -> Lanes:
        """The element of 4 bits at a place of a register, and whatever is after it."""
        if shift:
            part = Temp("b32")
            self.nodes.append(instruction("shr.u32", part, word, shift))
            word = part
        made = Lanes(self.dst.dtype, 2, self.nodes)
        made.set_word(0, word)
        return made

    def _byte_of(self, half: Temp, byte: int) -> Value:
        if self.dst.bits == 16 or byte % 2 == 0:
            return half
        high = Temp("b16")
        self.nodes.append(instruction("shr.b16", high, half, 8))
        return high

    def to_memory(self, values: Sequence[Value], at: Memory) -> None:
        """A value goes to an address, or a pair of 4 bits each."""
        dst = self.dst
        load, store = (access(verb, dst.root.space, len(values) * dst.bits // 8, dst.bits) for verb in ("ld", "st"))

        def before() -> Lanes:
            old = Temp("b32" if dst.bits == 4 else SINGLE[dst.bits])
            self.nodes.append(instruction(load, old, at))
            return self._pair_at(old, 0) if dst.bits == 4 else self._old([old])

        result = self.finish(values, before if self.accumulates else None)
        self.nodes.append(instruction(store, at, result.word(0) if dst.bits == 4 else result.single(0)))

    def address(self, o: Operand, element: Expr) -> Memory:
        return Memory(o.root, self.c.resolve(o.byte_offset(element)))

    def guarded(self, condition: Expr | None, write: Callable[[], None]) -> None:
        """Do what ``write`` emits where the condition holds."""
        if condition is None:
            write()
            return
        outer, self.nodes = self.nodes, []
        write()
        inner, self.nodes = self.nodes, outer
        self.nodes.append(If(condition, tuple(inner)))


_WAYS: dict[str, Callable[[ReduceCode, list[Value]], Value]] = {
    "serial": ReduceCode.one_by_one, "packed": ReduceCode.in_pairs, "three": ReduceCode.in_threes,
}  # fmt: skip


# -- registers ---------------------------------------------------------------------------------------------------------


def emit_registers(c: CallContext, way: str) -> Block:
    share = register_share(c)
    assert isinstance(share, RegisterShare)
    code = ReduceCode(c, way)
    done = register_parts(code, share)
    if code.dst.root.space == "local":
        places = result_bytes(c, share)
        assert not isinstance(places, str)
        for value, byte in zip(done, places):
            code.to_register(value, byte)
        return tuple(code.nodes)
    condition = None
    if share.copies:
        tid = c.launch.flat_tid()
        condition = binary(EQ, tid & share.copies, 0)

    def write() -> None:
        per = 2 if code.dst.bits == 4 else 1
        for g in range(0, len(done), per):
            row = thread_expr(c, share.threads, share.rows[:, g])
            assert row is not None
            code.to_memory(done[g : g + per], code.address(code.dst, row))

    code.guarded(condition, write)
    return tuple(code.nodes)


# -- memory ------------------------------------------------------------------------------------------------------------


def emit_memory(c: CallContext, group: int) -> Block:
    share = memory_share(c, group)
    assert isinstance(share, MemoryShare)
    code = ReduceCode(c, "serial")
    flips = [1 << b for b in range(group.bit_length() - 1)]
    lane = c.launch.flat_tid() % group if group > 1 else None
    done = []
    for i in range(share.rows.shape[1]):
        row = _row_expr(c, share, i)
        done.append((row, code.across(part_of_row(code, share, row, lane), flips)))
    if code.dst.root.space == "local":
        places = held_rows(c, share.threads, share.rows)
        assert not isinstance(places, str)
        for (_, value), byte in zip(done, places):
            code.to_register(value, byte)
        return tuple(code.nodes)
    for i in range(0, len(done), share.per):
        row, values = done[i][0], [value for _, value in done[i : i + share.per]]
        code.guarded(
            _writes(c, share, i // share.per), lambda r=row, v=values: code.to_memory(v, code.address(code.dst, r))  # type: ignore[misc]
        )
    return tuple(code.nodes)


def part_of_row(code: ReduceCode, share: MemoryShare, row: Expr, lane: Expr | None) -> Value:
    """What a thread combines of a row of memory: vectors number ``lane``, and every ``share.group``-th from there on."""
    vector = row_vector(code.c, share)
    values: list[Value] = []
    for j in range(share.members.shape[1] // (vector * share.group)):
        q = j * share.group * vector if lane is None else (lane + j * share.group) * vector
        values += _read(code, row, q, vector)
    return code.combine(values)


def register_parts(code: ReduceCode, share: RegisterShare) -> list[Value]:
    """What each thread's warp has of its rows in registers, in all of the warp's lanes."""
    reader = ElementValues(code.src, code.inner, code.nodes, code.dst.root)
    parts = [[reader.in_register(b) for b in group] for group in share.groups]
    return [code.across(code.combine(values), share.flips) for values in parts]


def _row_expr(c: CallContext, share: MemoryShare, i: int) -> Expr:
    """The number of a thread's i-th row, never beyond the last."""
    if not share.dealt:
        row = thread_expr(c, share.threads, share.rows[:, i])
        assert row is not None
        return row
    per_round, per = c.participants // share.group, share.per
    count, number = len(share.members) // per, i // per
    row = c.rank() // share.group + number * per_round
    if (number + 1) * per_round > count:
        from ...ir import Min

        row = binary(Min, row, count - 1)
    return row if per == 1 else row * per + i % per


def _writes(c: CallContext, share: MemoryShare, i: int) -> Expr | None:
    """Where a thread is the one that writes its i-th row (or pair of them)."""
    per_round = c.participants // share.group
    condition: Expr | None = None
    if share.group > 1:
        condition = binary(EQ, c.launch.flat_tid() % share.group, 0)
    rest = len(share.members) // share.per - i * per_round
    if rest < per_round:
        inside = c.rank() < rest * share.group
        from ...ir.arith import logical_and

        condition = inside if condition is None else logical_and(condition, inside)
    return condition


def _read(code: ReduceCode, row: Expr, q: Expr | int, vector: int) -> list[Value]:
    """``vector`` elements of a row from the q-th on, in the accumulator's dtype."""
    src, c, nodes = code.src, code.c, code.nodes
    axes = axes_of(c)
    assert not isinstance(axes, str)
    kept = [d for d in range(len(src.extents)) if d not in axes]
    from ...ir import const

    row_digits = iter(digits(row, tuple(src.extents[d] for d in kept)))
    inner = iter(digits(const(q), tuple(src.extents[d] for d in axes)))
    coords = [r.min + (next(inner) if d in axes else next(row_digits)) for d, r in enumerate(src.region.region)]
    at = Memory(src.root, c.resolve(src.storage.byte_offset(src.buffer, coords)))
    width = vector * src.bits // 8
    made = Lanes(src.dtype, vector, nodes)
    opcode = access("ld", src.root.space, width, src.bits)
    if width < 4 and src.bits == 4:
        register = Temp("b32")
        nodes.append(instruction(opcode, register, at))
        made.set_word(0, register)
    elif width < 4:
        register = Temp("b16")
        nodes.append(instruction(opcode, register, at))
        (made.singles if vector == 1 else made.pairs)[0] = register
    else:
        words = tuple(Temp(f"b{max(32, src.bits)}") for _ in range(width * 8 // max(32, src.bits)))
        nodes.append(instruction(opcode, words if len(words) > 1 else words[0], at))
        _spread(made, words)
    brought = convert(made, code.inner, True)
    return [brought.single(k) for k in range(vector)]


def _spread(made: Lanes, words: Sequence[Temp]) -> None:
    """Put the words of an access into the lanes' registers."""
    bits = made.bits
    if bits == 4:
        for k, word in enumerate(words):
            made.set_word(8 * k, word)
    elif bits >= 32:
        made.singles = list(words)
    elif bits == 16:
        made.pairs = list(words)
    else:
        for k, word in enumerate(words):
            low, high = Temp("b16"), Temp("b16")
            made.emit("mov.b32", (low, high), word)
            made.pairs[2 * k : 2 * k + 2] = [low, high]


# -- the table ---------------------------------------------------------------------------------------------------------


def _memo(c: CallContext, key: tuple[object, ...], make: Callable[[], Block]) -> Block:
    return c.once(key, make)


def _registers(way: str) -> Callable[[CallContext, tuple[int, ...]], Block]:
    return lambda c, p: _memo(c, ("reduce", way), lambda: emit_registers(c, way))


def _memory(c: CallContext, p: tuple[int, ...]) -> Block:
    return _memo(c, ("reduce memory", *p), lambda: emit_memory(c, p[0]))


def _priced(emit: Callable[[CallContext, tuple[int, ...]], Block]) -> Callable[[CallContext, tuple[int, ...]], Price]:
    return lambda c, p: price_block(c, emit(c, p))


REDUCTIONS = (
    *(Variant(node, (), _priced(_registers(way)), _registers(way), equation=value_equation)
      for node, way in (("Reduce", "serial"), ("ReducePacked", "packed"), ("ReduceThree", "three"))),
    Variant("ReduceMemory", ("group",), _priced(_memory), _memory, equation=value_equation),
)  # fmt: skip
