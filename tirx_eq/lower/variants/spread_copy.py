"""Copies between memory and the registers of a warp, a warpgroup or a CTA: each thread moves what it holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...ir import Expr
from ..block_price import price_block
from ..code.accesses import access
from ..context import CallContext, Operand
from ..machine import Price
from ..program import Block, If, Memory, Node, Temp, Word, instruction
from ..sharing.spread import Spread, local_and_memory, memory_offset, slot_bytes, spread_copy, wide_coords
from .base import Variant, word_of


def _parts(c: CallContext) -> tuple[Operand, Operand, Spread]:
    both, found = local_and_memory(c), spread_copy(c)
    assert not isinstance(both, str) and not isinstance(found, str)
    return (*both, found)


def emit_spread_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One access per vector of a thread's elements; copies of one element are stored by the thread that has the first."""
    key = ("spread", *parameters)
    return c.once(key, lambda: _emit(c, parameters[0]))


#: Appends the store of some bytes of a thread's registers: (nodes, registers, place, bytes, bytes of the access).
Store = Callable[[list[Node], Operand, Memory, tuple[int, ...], int], None]


def spread_stores(c: CallContext, width: int, store: Store) -> Block:
    """Registers to memory: ``store`` for every vector of a thread's elements, by the thread that has the first copy of each."""
    return _emit(c, width, store)


def _emit(c: CallContext, width: int, store: Store | None = None) -> Block:
    store = store or _store
    local, memory, spread = _parts(c)
    lanes = width // slot_bytes(local)
    loading = c.outputs[0] is local
    nodes: list[Node] = []
    guarded: dict[str, tuple[Expr, list[Node]]] = {}
    halves: dict[Word, dict[int, Temp]] = {}
    counts = Counter(word_of(local, b) for b in spread.bytes[::lanes])
    for first in range(0, spread.slots, lanes):
        coords = spread.coords(first)
        assert coords is not None
        at = Memory(memory.root, memory_offset(c, memory, wide_coords(spread, coords)))
        bytes_ = spread.bytes[first : first + lanes]
        if loading:
            _load(nodes, local, at, bytes_[0], bytes_, width, halves, counts)
            continue
        condition = spread.writer(first)
        if not isinstance(condition, Expr):
            store(nodes, local, at, bytes_, width)
        else:
            store(guarded.setdefault(repr(condition), (condition, []))[1], local, at, bytes_, width)
    nodes += [If(condition, tuple(body)) for condition, body in guarded.values()]
    return tuple(nodes)


def vector_of(local: Operand, bytes_: tuple[int, ...], width: int) -> tuple[Word, ...] | Word:
    """The registers of an access: one for every register's worth of its bytes."""
    step = max(1, local.root.word_bits // 8 // slot_bytes(local))
    words = tuple(word_of(local, b) for b in bytes_[::step])
    return words if len(words) > 1 else words[0]


def _load(
    nodes: list[Node], local: Operand, at: Memory, byte: int, bytes_: tuple[int, ...], width: int,
    halves: dict[Word, dict[int, Temp]], counts: Counter[Word],
) -> None:  # fmt: skip
    opcode = access("ld", at.root.space, width, local.root.word_bits)
    if width * 8 >= local.root.word_bits:
        nodes.append(instruction(opcode, vector_of(local, bytes_, width), at))
        return
    word, part = word_of(local, byte), Temp("b16" if width == 2 else "b32")
    nodes.append(instruction(opcode, part, at))
    if width == 2 and local.root.word_bits == 32:
        # Two halves that are both loaded are joined; a half alone is put beside what is there.
        mine = halves.setdefault(word, {})
        mine[byte % 4] = part
        if len(mine) == 2:
            nodes.append(instruction("mov.b32", word, (mine[0], mine[2])))
            return
        if counts[word] == 2:
            return
        wide = Temp("b32")
        nodes.append(instruction("mov.b32", wide, (part, part)))
        part = wide
    nodes.append(instruction(f"bfi.b{local.root.word_bits}", word, part, word, byte * 8 % local.root.word_bits, width * 8))


def _store(nodes: list[Node], local: Operand, at: Memory, bytes_: tuple[int, ...], width: int) -> None:
    opcode = access("st", at.root.space, width, local.root.word_bits)
    if width * 8 >= local.root.word_bits:
        nodes.append(instruction(opcode, at, vector_of(local, bytes_, width)))
        return
    word, shift = word_of(local, bytes_[0]), bytes_[0] * 8 % local.root.word_bits
    if width == 2 and local.root.word_bits == 32:
        low, high = Temp("b16"), Temp("b16")
        nodes.append(instruction("mov.b32", (low, high), word))
        nodes.append(instruction(opcode, at, high if shift else low))
        return
    part = Temp("b32")
    nodes.append(instruction("shr.u32", part, word, shift))
    nodes.append(instruction(opcode, at, part))


def price_spread_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    return price_block(c, emit_spread_copy(c, parameters))


SPREAD_COPIES = (Variant("SpreadCopy", ("bytes",), price_spread_copy, emit_spread_copy, ("vec_len",)),)
