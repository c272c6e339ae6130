"""Registers of local buffers whose first write fills only part of them: they are cleared when the kernel starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...ir import Expr
from ...ir import dtype as dt
from ...ir.index import Term
from ..program import Block, Instruction, Store, Word, walk


def partly_written(program: Block, term: Callable[[Expr], Term]) -> list[Word]:
    """Registers that an insertion of bits reads before any instruction (in the order of the text) has written them whole."""
    seen: set[Word] = set()
    found: dict[Word, None] = {}
    for node in walk(program):
        for word, part in _writes(node, term):
            if part and word not in seen:
                found[word] = None
            seen.add(word)
    return list(found)


def _writes(node: object, term: Callable[[Expr], Term]) -> Iterator[tuple[Word, bool]]:
    """(register, whether only some of its bits are written) of a node."""
    if isinstance(node, Store) and node.memory.root.space == "local":
        bits, offset = node.memory.root.word_bits, term(node.memory.offset)
        part = dt.storage_bits(node.dtype) < bits
        if isinstance(offset, int):
            yield Word(node.memory.root, offset * 8 // bits), part
    if isinstance(node, Instruction) and node.operands:
        part = node.opcode.startswith("bfi.")
        target = node.operands[0]
        for word in target if isinstance(target, tuple) else (target,):
            if isinstance(word, Word):
                yield word, part
