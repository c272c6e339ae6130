"""Copies of elements of 4 bits that don't keep the halves of bytes together: shifts and insertions of bits."""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import Expr
from ..block_price import price_block
from ..code.accesses import access
from ..context import CallContext, Operand
from ..equations.values import value_equation
from ..operations import filled
from ..program import Block, If, Index, Memory, Node, Temp, Word, instruction
from ..sharing.halves import Bytes, Pairs, Slots, element_number, half_fill, half_moves, source_coords
from ..sharing.spread import memory_offset
from .base import Variant

PER_WORD = 8  # halves of bytes in a register of 32 bits


def emit_halves(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Each thread shifts halves of bytes to where they go, and inserts them there."""
    return c.once("half moves program", lambda: _emit(c))


def _emit(c: CallContext) -> Block:
    found = half_moves(c)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    dst, src = c.outputs[0], c.inputs[0]
    if isinstance(found, Slots):
        return move_halves(src, dst, found.source, found.to) if found.spread is None else _load(c, found)
    return _store(c, found) if isinstance(found, Bytes) else _through_memory(c, found.count)


def move_halves(src: Operand, dst: Operand, source: tuple[int, ...], to: tuple[int, ...]) -> Block:
    """Instructions that bring halves ``source`` of a thread's registers to halves ``to`` of others: neighbours together."""
    nodes: list[Node] = []
    words = {p // PER_WORD: Word(src.root, p // PER_WORD) for p in source}
    held: dict[int, Temp | Word] = dict(words)
    if src.root == dst.root:  # what is overwritten is kept
        for w, word in sorted(words.items()):
            held[w] = Temp("b32")
            nodes.append(instruction("mov.b32", held[w], word))
    given = dict(zip(to, source))
    left = sorted(given)
    while left:
        run = [left[0]]
        while (after := run[-1] + 1) in given and after % PER_WORD and given[after] == given[run[-1]] + 1 and (
            given[after] % PER_WORD
        ):
            run.append(after)
        left = left[len(run) :]
        first = given[run[0]]
        value: Temp | Word = held[first // PER_WORD]
        target = Word(dst.root, run[0] // PER_WORD)
        if len(run) == PER_WORD:
            nodes.append(instruction("mov.b32", target, value))
            continue
        if first % PER_WORD:
            part = Temp("b32")
            nodes.append(instruction("shr.u32", part, value, first % PER_WORD * 4))
            value = part
        nodes.append(instruction("bfi.b32", target, value, target, run[0] % PER_WORD * 4, 4 * len(run)))
    return tuple(nodes)


def _half_of_memory(c: CallContext, o: Operand, at: Expr, number: Expr, nodes: list[Node]) -> Temp:
    """A register whose lowest 4 bits are the element at byte ``at``, number ``number`` from the root's start."""
    whole, part = Temp("b32"), Temp("b32")
    nodes.append(instruction(access("ld", o.root.space, 1), whole, Memory(o.root, at)))
    nodes.append(instruction("shr.u32", part, whole, Index(number % 2 * 4)))
    return part


def _load(c: CallContext, found: Slots) -> Block:
    """The byte of every element that a thread gets; its half goes into the register."""
    dst, src = c.outputs[0], c.inputs[0]
    assert found.spread is not None
    nodes: list[Node] = []
    for slot, to in enumerate(found.to):
        coords = source_coords(found.spread, slot)
        part = _half_of_memory(c, src, memory_offset(c, src, coords), element_number(c, src, coords), nodes)
        target = Word(dst.root, to // PER_WORD)
        nodes.append(instruction("bfi.b32", target, part, target, to % PER_WORD * 4, 4))
    return tuple(nodes)


def _shifted(src: Operand, half: int, nodes: list[Node]) -> Temp | Word:
    """A register with a half of the source's registers as its lowest 4 bits."""
    word = Word(src.root, half // PER_WORD)
    if not half % PER_WORD:
        return word
    part = Temp("b32")
    nodes.append(instruction("shr.u32", part, word, half % PER_WORD * 4))
    return part


def _store(c: CallContext, found: Bytes) -> Block:
    """Every byte of memory from both its halves, by the thread that has the first copy of them."""
    dst, src = c.outputs[0], c.inputs[0]
    nodes: list[Node] = []
    guarded: dict[str, tuple[Expr, list[Node]]] = {}
    for slot, (low, high) in enumerate(zip(found.low, found.high)):
        condition = found.spread.writer(slot)
        body = nodes if not isinstance(condition, Expr) else guarded.setdefault(repr(condition), (condition, []))[1]
        value = _shifted(src, low, body)
        if high != low + 1 or low % 2:
            both = Temp("b32")
            body.append(instruction("bfi.b32", both, _shifted(src, high, body), value, 4, 4))
            value = both
        at = Memory(dst.root, memory_offset(c, dst, source_coords(found.spread, slot)))
        body.append(instruction(access("st", dst.root.space, 1), at, value))
    nodes += [If(condition, tuple(body)) for condition, body in guarded.values()]
    return tuple(nodes)


def _through_memory(c: CallContext, count: int) -> Block:
    """Participant t writes bytes t, t + T, …, each from two halves that it reads."""
    dst, src = c.outputs[0], c.inputs[0]

    def move(step: int) -> list[Node]:
        element = (c.rank() + step * c.participants) * 2
        nodes: list[Node] = []
        low, high = (
            _half_of_memory(c, src, c.resolve(src.byte_offset(element + j)), c.resolve(src.element_offset(element + j)), nodes)
            for j in (0, 1)
        )
        both = Temp("b32")
        nodes.append(instruction("bfi.b32", both, high, low, 4, 4))
        at = Memory(dst.root, c.resolve(dst.byte_offset(element)))
        nodes.append(instruction(access("st", dst.root.space, 1), at, both))
        return nodes

    rounds, rest = divmod(count, c.participants)
    nodes = [n for step in range(rounds) for n in move(step)]
    if rest:
        nodes.append(If(c.rank() < rest, tuple(move(rounds))))
    return tuple(nodes)


def emit_half_fill(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Neighbouring halves of a register at once; bytes of memory one by one."""
    found, bits, dst = half_fill(c), filled(c.call), c.outputs[0]
    assert isinstance(found, (Slots, Pairs)) and isinstance(bits, int)
    full = Temp("b32")
    nodes: list[Node] = [instruction("mov.b32", full, bits * 0x11111111)]
    if isinstance(found, Pairs):
        rounds, rest = divmod(found.count, c.participants)

        def write(step: int) -> Node:
            element = (c.rank() + step * c.participants) * 2
            return instruction(access("st", dst.root.space, 1), Memory(dst.root, c.resolve(dst.byte_offset(element))), full)

        nodes += [write(step) for step in range(rounds)]
        return (*nodes, If(c.rank() < rest, (write(rounds),))) if rest else tuple(nodes)
    for word in sorted({p // PER_WORD for p in found.to}):
        mine = [p % PER_WORD for p in sorted(found.to) if p // PER_WORD == word]
        target = Word(dst.root, word)
        if len(mine) == PER_WORD:
            nodes.append(instruction("mov.b32", target, full))
            continue
        for first in (m for m in mine if m - 1 not in mine):
            count = next(k for k in range(1, PER_WORD + 1) if first + k not in mine)
            nodes.append(instruction("bfi.b32", target, full, target, 4 * first, 4 * count))
    return tuple(nodes)


HALF_COPIES = (
    Variant("HalfCopy", (), lambda c, p: price_block(c, emit_halves(c, p)), emit_halves),
    Variant("HalfFill", (), lambda c, p: price_block(c, emit_half_fill(c, p)), emit_half_fill, equation=value_equation),
)
