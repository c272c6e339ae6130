"""Addresses in global memory that several branches of one block need: they are computed once, before the first.

What few branches share stays in them: an address kept from branch to branch costs two registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from ...egraph.cost import cost
from ...ir import BufferLoad, Expr, post_order_visit
from ...ir.index import Term
from ..facts.guards import everywhere, inside
from ..indices import Indices
from ..program import Block, Define, If, Instruction, Memory, Node, Store

#: Branches that must share an address, and the cost of computing it again in all but one of them (see egraph.cost).
BRANCHES = 3
SAVED = 16

#: A root's name, and the part of an offset that isn't constant.
Key = tuple[str, Term]


def shared_addresses(block: Block, indices: Indices, split: Callable[[Term], tuple[Term, int]]) -> dict[int, list[Memory]]:
    """For each branch of the block, by its id: an access for every address that it needs and enough other branches do."""
    branches = [node for node in block if isinstance(node, If)]
    if len(branches) < BRANCHES:
        return {}
    needs: list[dict[Key, Memory]] = []
    for node in branches:
        # An address that is another one where the branch's conditions hold isn't shared.
        accesses = (
            m
            for body, start in inside(node, indices.guards)
            for inner, guards in everywhere(body, start)
            for m in _accesses(inner, indices)
            if indices.under(guards).term(m.offset) == indices.term(m.offset)
        )
        needs.append({(m.root.name, split(indices.term(m.offset))[0]): m for m in accesses})
    count = Counter(key for need in needs for key in need)
    dear = {key for key, n in count.items() if n >= BRANCHES and (n - 1) * cost(key[1]) >= SAVED}
    found = {id(node): [m for key, m in need.items() if key in dear] for node, need in zip(branches, needs)}
    return {node: kept for node, kept in found.items() if kept}


def _accesses(node: Node, indices: Indices) -> Iterator[Memory]:
    """The accesses of global memory that a node itself makes."""
    if isinstance(node, Instruction):
        yield from (o for o in node.operands if isinstance(o, Memory) and o.root.space == "global")
    elif isinstance(node, Store):
        if node.memory.root.space == "global":
            yield node.memory
        if isinstance(node.value, Expr):
            yield from _loads(node.value, indices)
    elif isinstance(node, Define):
        yield from _loads(node.value, indices)


def _loads(e: Expr, indices: Indices) -> list[Memory]:
    found: list[Memory] = []

    def look(part: object) -> None:
        if isinstance(part, BufferLoad) and (root := indices.storage.root(part.buffer)).space == "global":
            found.append(Memory(root, indices.storage.offset_of(part)))

    post_order_visit(e, look)
    return found
