"""Arrays of a thread that are indexed at run time: registers have no addresses, so these are in memory of each thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...egraph.simplify import simplify_all
from ...ir import (
    Buffer,
    BufferLoad,
    BufferRegion,
    Expr,
    IntImm,
    PointerType,
    PrimType,
    TilePrimitiveCall,
    Var,
    const,
    post_order_visit,
)  # fmt: skip
from ...ir.index import Term, names
from ...ir.node import replace as replace_node
from ..context import CallContext
from ..program import Block, Instruction, Memory, Node, Operand, Piece, Store, Word, node_exprs, walk
from ..scope import new_scope
from ..sharing.threads import Launch
from ..storage import Root, Storage


def indexed_at_run_time(
    program: Block, contexts: Sequence[CallContext], launch: Launch, storage: Storage, ranges: Mapping[Var, tuple[int, int]]
) -> list[Root]:
    """The register arrays of which the program reads or writes an element that isn't known when it is compiled.

    Those that an asynchronous primitive writes are left out, unless a wait can say at once when it is done with them.
    """
    asked: dict[str, tuple[Root, list[Expr]]] = {}
    for node in walk(program):
        for root, offset in _places(node, storage):
            if root.space == "local" and not isinstance(offset, IntImm):
                asked.setdefault(root.name, (root, []))[1].append(offset)
    for c in contexts:
        for o in c.outputs if _is_asynchronous(c.call) and not _from_tensor_memory(c.call) else ():
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
        yield storage.root(load.buffer), storage.offset_of(load)


def _of_operand(operand: Operand) -> Iterator[tuple[Root, Expr]]:
    if isinstance(operand, Piece):
        operand = operand.memory
    if isinstance(operand, Memory):
        yield operand.root, operand.offset
    elif isinstance(operand, tuple):
        for member in operand:
            yield from _of_operand(member)


def _is_asynchronous(call: TilePrimitiveCall) -> bool:
    return call.op.short_name.endswith("_async")


def _from_tensor_memory(call: TilePrimitiveCall) -> bool:
    return any(isinstance(a, BufferRegion) and a.buffer.scope == "tmem" for a in call.srcs)


def in_registers(call: TilePrimitiveCall, storage: Storage) -> tuple[TilePrimitiveCall, list[Node], list[Node]]:
    """The call on registers in place of arrays in each thread's memory; what brings them there, and what puts results back.

    Lowerings of tile primitives want registers, whatever else is done with an array.  What is loaded from tensor memory is
    waited for before it is put back (PTX ISA 9.7.16.8).
    """
    moved: dict[Var, Buffer] = {}
    args = []
    for a in call.args:
        root = storage.roots.get(a.buffer.data) if isinstance(a, BufferRegion) else None
        if root is not None and root.space == "stack":
            if a.buffer.data not in moved:
                moved[a.buffer.data] = _registers(a.buffer, root, storage)
            a = BufferRegion(replace(a.buffer, data=moved[a.buffer.data].data), a.region, span=a.span)
        args.append(a)
    if not moved:
        return call, [], []
    written = {r.buffer.data for r in call.dsts}
    before: list[Node] = []
    after: list[Node] = []
    if _is_asynchronous(call) and written & set(moved):
        after.append(Instruction("tcgen05.wait::ld.sync.aligned"))
    for data, held in moved.items():
        there, here = storage.roots[data], storage.roots[held.data]
        bits = here.word_bits
        for k in range(-(-here.size * 8 // bits)):
            word, place = Word(here, k), Memory(there, const(k * bits // 8))
            before.append(Instruction(f"ld.local.b{bits}", (word, place)))
            if data in written:
                after.append(Instruction(f"st.local.b{bits}", (place, word)))
    return replace_node(call, args=tuple(args)), before, after


def _registers(buffer: Buffer, root: Root, storage: Storage) -> Buffer:
    """New registers for an array."""
    name = f"{root.name}_held"
    while name in {r.name for r in storage.roots.values()}:
        name += "_"
    data = Var(name, PointerType(PrimType(buffer.dtype), "local"))
    storage.roots[data] = replace(root, space="local", name=name)
    return replace(buffer, data=data, name=name)
