"""All index expressions of a program: gathered, simplified together, and looked up again when code is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..ir import BufferLoad, Expr, Var
from ..ir import dtype as dt
from ..ir.functor import ExprVisitor
from ..ir.index import Term, names
from ..ir.index_ir import IndexScope
from .program import Block, Define, If, Instruction, Loop, Memory, Pointer, Repeat, Store, Wait, operand_exprs, walk
from .shared import SHARED_RANGE, shared_address
from .storage import Root, Storage
from .threads import Launch

#: A TMEM address that tcgen05.alloc writes: lane 0, column below 512 (PTX ISA 9.7.16.7).
TMEM_BASE_RANGE = (0, 511)


@dataclass(frozen=True)
class Simplified:
    """One index expression before and after: what the report shows of it."""

    before: Term
    after: Term
    cost_in: int
    cost: int
    steps: tuple[str, ...]
    validated_by: str


class Indices:
    """The index expressions of one kernel.

    ``scope`` names their variables; ``table`` maps each distinct term to its simplified form.
    """

    def __init__(self, program: Block, launch: Launch, storage: Storage, ranges: Mapping[Var, tuple[int, int]]) -> None:
        self.storage = storage
        self.scope = IndexScope()
        launch.declare(self.scope)
        self.scope.name(shared_address(), SHARED_RANGE)
        for var, bounds in ranges.items():
            self.scope.name(var, bounds)
        for root in storage.roots.values():
            if root.address is not None and not isinstance(root.address, Var):
                self.scope.name(root.address, TMEM_BASE_RANGE)
        terms: dict[Term, None] = {}
        for e in self._roots(program):
            terms[self.scope.term(e)] = None
        self.table: dict[Term, Simplified] = {}
        self._simplify([t for t in terms if isinstance(t, tuple)])

    def _simplify(self, terms: list[Term]) -> None:
        from ..egraph.simplify import simplify_all

        used = set().union(*(names(t) for t in terms)) if terms else set()
        ranges = {n: self.scope.ranges[n] for n in sorted(used)}
        for before, s in zip(terms, simplify_all(terms, ranges)):
            self.table[before] = Simplified(before, s.expr, s.cost_in, s.cost, tuple(s.steps), str(s.validated_by))

    def term(self, e: Expr) -> Term:
        """The simplified term of an index expression."""
        before = self.scope.term(e)
        return before if before not in self.table else self.table[before].after

    def _roots(self, program: Block) -> Iterator[Expr]:
        for node in walk(program):
            if isinstance(node, Instruction):
                for operand in node.operands:
                    for e in operand_exprs(operand):
                        yield from self.index_parts(e)
            elif isinstance(node, Store):
                yield from self.index_parts(node.memory.offset)
                yield from self.index_parts(node.value)
            elif isinstance(node, Wait):
                yield from self.index_parts(node.barrier.offset)
                yield from self.index_parts(node.parity.expr)
            elif isinstance(node, Define):
                yield from self.index_parts(node.value)
            elif isinstance(node, If) and isinstance(node.condition, Expr):
                yield from self.index_parts(node.condition)
            elif isinstance(node, Loop):
                for e in (node.start, node.stop, node.step):
                    yield from self.index_parts(e)
            elif isinstance(node, Repeat) and node.condition is not None:
                yield from self.index_parts(node.condition)

    def index_parts(self, e: Expr) -> Iterator[Expr]:
        """``e`` itself if it is an index expression, and the index expressions inside loads and other values."""
        parts = _Parts(self.storage)
        parts.visit(e)
        if is_index(e):
            yield e
        yield from parts.found


def is_index(e: Expr) -> bool:
    """A scalar integer or bool expression."""
    return dt.kind(e.dtype) in ("int", "uint", "bool") and dt.lanes(e.dtype) == 1


class _Parts(ExprVisitor):
    """Offsets of loads, and integer operands of values that aren't index expressions."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.found: list[Expr] = []

    def visit_buffer_load(self, value: BufferLoad) -> None:
        offset = self.storage.byte_offset(value.buffer, value.indices)
        self.found.append(offset)
        self.visit(offset)

    def visit_children(self, value: Any) -> None:
        from ..ir.node import fields

        for _, child in fields(value):
            for member in child if isinstance(child, tuple) else (child,):
                if isinstance(member, Expr) and is_index(member):
                    self.found.append(member)
                self.visit(member)


def pointer_terms(program: Block, indices: Indices) -> Iterator[tuple[str, Term]]:
    """Every address of a program with what it addresses, for reports."""
    for node in walk(program):
        if isinstance(node, Instruction):
            for operand in node.operands:
                if isinstance(operand, Memory):
                    yield operand.root.name, indices.term(operand.offset)
                elif isinstance(operand, Pointer):
                    yield "tmem", indices.term(operand.expr)


def used_roots(program: Block) -> set[Root]:
    """Roots that memory operands of a program name directly."""
    found = set()
    for node in walk(program):
        operands = node.operands if isinstance(node, Instruction) else ()
        found |= {o.root for o in operands if isinstance(o, Memory)}
    return found
