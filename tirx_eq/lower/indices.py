"""All index expressions of a program: gathered, simplified together, and looked up again when code is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..egraph.simplify import simplify_all
from ..ir import BufferLoad, Expr, Var, post_order_visit
from ..ir import dtype as dt
from ..ir.index import Term, names, postorder
from ..ir.node import fields
from .code.shared import SHARED_RANGE, shared_address
from .code.widths import Widths
from .program import Block, Define, If, Instruction, Loop, Repeat, Store, Wait, operand_exprs, walk
from .scope import new_scope
from .sharing.threads import Launch
from .storage import Storage

#: An address that tcgen05.alloc wrote: lane 0, a column below 512 (PTX ISA 9.7.16.7).
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
        self._terms: dict[int, tuple[Expr, Term]] = {}
        self._names: dict[int, tuple[Term, tuple[str, ...]]] = {}
        self._parts: dict[int, tuple[Expr, tuple[Expr, ...]]] = {}
        self.scope = new_scope()
        launch.declare(self.scope)
        self.scope.name(shared_address(), SHARED_RANGE)
        for var, bounds in ranges.items():
            self.scope.name(var, bounds)
        for root in storage.roots.values():
            if root.address is not None and root.space == "tmem":
                post_order_visit(root.address, self._declare_address)
        for node in walk(program):
            if isinstance(node, Define) and is_index(node.var):
                self.scope.name(node.var, node.bounds)
        terms: dict[Term, None] = {}
        for e in self.roots(program):
            terms[self.read(e)] = None
        self.table: dict[Term, Simplified] = {}
        self._simplify([t for t in terms if isinstance(t, tuple)])

    def _declare_address(self, node: object) -> None:
        """What a tensor-memory address is read from is what tcgen05.alloc wrote there."""
        if isinstance(node, BufferLoad):
            self.scope.name(node, TMEM_BASE_RANGE)

    def _simplify(self, terms: list[Term]) -> None:
        terms = [t for t in terms if self._in_64_bits(t)]
        used = set().union(*(names(t) for t in terms)) if terms else set()
        ranges = {n: self.scope.ranges[n] for n in sorted(used)}
        widths = Widths(self.scope.ranges)
        wide = {n for n, (low, high) in ranges.items() if low < -(1 << 40) or high >= 1 << 40}
        for before, s in zip(terms, simplify_all(terms, ranges)):
            after, cost = s.expr, s.cost
            if wide and wide & names(before) and not widths.is_exact(after):
                # 64 bits may overflow: then only what the kernel itself computes has the value that its types say.
                after, cost = before, s.cost_in
            self.table[before] = Simplified(before, after, s.cost_in, cost, tuple(s.steps), str(s.validated_by))

    def _in_64_bits(self, term: Term) -> bool:
        """Whether all variables and constants of a term are signed 64-bit integers: others stay as they are."""
        for t in postorder(term):
            low, high = self.scope.ranges[t] if isinstance(t, str) else (t, t) if isinstance(t, int) else (0, 0)
            if not (-(1 << 63) <= low and high < 1 << 63):
                return False
        return True

    def term(self, e: Expr) -> Term:
        """The simplified term of an index expression."""
        before = self.read(e)
        return before if before not in self.table else self.table[before].after

    def read(self, e: Expr) -> Term:
        """The expression as a term, made once (the expression is kept, since it is known by its id)."""
        if id(e) not in self._terms:
            self._terms[id(e)] = e, self.scope.term(e)
        return self._terms[id(e)][1]

    def names_in(self, term: Term) -> tuple[str, ...]:
        """The names in a term that :meth:`term` gave, sorted; looked for once."""
        if not isinstance(term, tuple):
            return (term,) if isinstance(term, str) else ()
        if id(term) not in self._names:
            self._names[id(term)] = term, tuple(sorted(names(term)))
        return self._names[id(term)][1]

    def roots(self, program: Block) -> Iterator[Expr]:
        """Every index expression that the program's code needs."""
        for node in walk(program):
            if isinstance(node, Instruction):
                for operand in node.operands:
                    for e in operand_exprs(operand):
                        yield from self.index_parts(e)
            elif isinstance(node, Store):
                for e in operand_exprs(node.memory):
                    yield from self.index_parts(e)
                if isinstance(node.value, Expr):
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

    def index_parts(self, e: Expr) -> tuple[Expr, ...]:
        """The largest index expressions in ``e``, and those that loads and calls inside them need; gathered once."""
        known = self._parts.get(id(e))
        if known is None:
            parts = {id(part): part for part in self._gather(e)}
            known = self._parts[id(e)] = e, tuple(parts.values())
        return known[1]

    def _gather(self, e: Expr) -> Iterator[Expr]:
        if isinstance(e, BufferLoad):
            if is_index(e):
                yield e
            yield from self.index_parts(self.storage.offset_of(e))
            return
        if is_index(e):
            term = self.read(e)
            sources = [self.scope.sources[n] for n in self.names_in(term)]
            yield e
            if sources != [e]:
                for source in sources:
                    yield from self.index_parts(source)
                return
        if not isinstance(e, Var):
            for _, child in fields(e):
                for member in child if isinstance(child, tuple) else (child,):
                    if isinstance(member, Expr):
                        yield from self.index_parts(member)


def is_index(e: Expr) -> bool:
    """A scalar integer or bool expression."""
    return dt.kind(e.dtype) in ("int", "uint", "bool") and dt.lanes(e.dtype) == 1
