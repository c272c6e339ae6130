"""Arrays of a thread that are indexed at run time: registers have no addresses, so these are in memory of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..egraph.simplify import simplify_all
from ..ir import BufferLoad, Expr, IntImm, Var, post_order_visit
from ..ir.index import Term, names
from .context import CallContext
from .program import Block, Instruction, Memory, Node, Operand, Piece, Store, node_exprs, walk
from .scope import new_scope
from .sharing.threads import Launch
from .storage import Root, Storage


def indexed_at_run_time(
    program: Block, contexts: Sequence[CallContext], launch: Launch, storage: Storage, ranges: Mapping[Var, tuple[int, int]]
) -> list[Root]:
    """The register arrays of which the program reads or writes an element that isn't known when it is compiled.

    Those that a tile primitive works on are left out: its lowerings want registers.
    """
    asked: dict[str, tuple[Root, list[Expr]]] = {}
    for node in walk(program):
        for root, offset in _places(node, storage):
            if root.space == "local" and not isinstance(offset, IntImm):
                asked.setdefault(root.name, (root, []))[1].append(offset)
    for c in contexts:
        for o in c.operands.values():
            asked.pop(o.root.name, None)
    if not asked:
        return []
    scope = new_scope()
    launch.declare(scope)
    for var, bounds in ranges.items():
        scope.name(var, bounds)
    terms = {name: [scope.term(e) for e in offsets] for name, (_, offsets) in asked.items()}
    compound = [t for members in terms.values() for t in members if isinstance(t, tuple)]
    used = set().union(*map(names, compound)) if compound else set()
    limits = {n: scope.ranges[n] for n in sorted(used)}
    simple: dict[Term, Term] = dict(zip(compound, (s.expr for s in simplify_all(compound, limits))))
    return [root for name, (root, _) in asked.items() if any(not isinstance(simple.get(t, t), int) for t in terms[name])]


def _places(node: Node, storage: Storage) -> Iterator[tuple[Root, Expr]]:
    """(root, offset in bytes) of every element that a node reads or writes itself."""
    if isinstance(node, Store):
        yield node.memory.root, node.memory.offset
    for operand in node.operands if isinstance(node, Instruction) else ():
        yield from _of_operand(operand)
    loads: list[BufferLoad] = []
    for e in node_exprs(node):
        post_order_visit(e, lambda part: loads.append(part) if isinstance(part, BufferLoad) else None)
    for load in loads:
        yield storage.root(load.buffer), storage.byte_offset(load.buffer, load.indices)


def _of_operand(operand: Operand) -> Iterator[tuple[Root, Expr]]:
    if isinstance(operand, Piece):
        operand = operand.memory
    if isinstance(operand, Memory):
        yield operand.root, operand.offset
    elif isinstance(operand, tuple):
        for member in operand:
            yield from _of_operand(member)
