"""All index expressions of a program: gathered, simplified together, and looked up again when code is written."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..egraph.branches import SENSITIVE
from ..egraph.narrow import about
from ..egraph.simplify import simplify_all
from ..ir import BufferLoad, Expr, Var, post_order_visit
from ..ir import dtype as dt
from ..ir.index import Term, names, postorder
from ..ir.node import fields
from ..prove.table import Table
from .code.shared import SHARED_RANGE, shared_address
from .code.widths import Widths
from .facts.given import Narrowing, facts_of, may_gain, narrowings, simplified_under
from .facts.guards import Guards, everywhere
from .program import Block, Define, If, Instruction, Loop, Node, Repeat, Store, Wait, operand_exprs, walk
from .scope import new_scope
from .sharing.threads import Launch
from .storage import Storage

#: An address that tcgen05.alloc wrote: lane 0, a column below 512 (PTX ISA 9.7.16.7).
TMEM_BASE_RANGE = (0, 511)


@dataclass(frozen=True)
class Simplified:
    """One index expression before and after: what the report shows of it.  It holds where every term of ``assume`` does."""

    before: Term
    after: Term
    cost_in: int
    cost: int
    steps: tuple[str, ...]
    validated_by: str
    assume: tuple[Term, ...] = ()


@dataclass(frozen=True)
class Given:
    """What holds at places with the same conditions: ``facts``, the ``widths`` of terms under them, and ``table``, which
    maps simplified terms to what is cheaper under the facts."""

    widths: Widths
    facts: tuple[Term, ...] = ()
    narrowed: tuple[Narrowing, ...] = ()
    table: dict[Term, Simplified] = field(default_factory=dict)


class Indices:
    """The index expressions of one kernel, as they are wherever they stand; :meth:`under` has them at a place.

    ``scope`` names their variables; ``table`` maps each distinct term to its simplified form; ``guards`` are the conditions
    that hold at the place, ``given`` what follows from them.
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
        self.guards: Guards = ()
        self._givens: dict[Guards, Given] = {}
        terms: dict[Term, None] = {}
        places: dict[Guards, dict[Term, None]] = {}
        for node, guards in everywhere(program):
            here = [self.read(e) for e in self._roots_of(node)]
            terms.update(dict.fromkeys(here))
            if guards:
                places.setdefault(guards, {}).update(dict.fromkeys(here))
        self.table: dict[Term, Simplified] = {}
        self._simplify([t for t in terms if isinstance(t, tuple)])
        self.given = self._givens[()] = Given(Widths(self.scope.ranges))
        self._intervals = Table(self.scope.ranges)
        plain = {guards: [self._plain(t) for t in found] for guards, found in places.items()}
        for guards, here in plain.items():
            self._givens[guards] = self._given(guards, here)
        self._simplify_given(plain)

    def under(self, guards: Guards) -> Indices:
        """The same expressions at a place where the conditions hold, which must be a place of the program."""
        if guards is self.guards:
            return self
        view = copy.copy(self)
        if guards not in self._givens:  # no expression stands there
            self._givens[guards] = self._givens[()]
        view.guards, view.given = guards, self._givens[guards]
        return view

    def conditional(self) -> list[Simplified]:
        """What is cheaper where conditions hold, in the order of the places."""
        found = (s for given in self._givens.values() for s in given.table.values())
        return list({(s.before, s.assume): s for s in found}.values())

    def narrowed(self) -> list[Narrowing]:
        """The ranges that are narrower where conditions hold, in the order of the places."""
        return list(dict.fromkeys(n for given in self._givens.values() for n in given.narrowed))

    def _given(self, guards: Guards, terms: list[Term]) -> Given:
        """What follows from conditions for terms that stand where they hold."""
        facts = facts_of(guards, self.scope)
        if not facts:
            return self._givens[()]
        plain = self._givens[()].widths
        found = narrowings(facts, self.scope, (t for t in terms if self._in_64_bits(t)), self._intervals)
        ranges = {**self.scope.ranges, **{n.name: (n.low, n.high) for n in found}}
        return Given(Widths(ranges, plain.typed) if found else plain, facts, found)

    def _simplify_given(self, places: Mapping[Guards, list[Term]]) -> None:
        """Simplify terms at places once more where a condition speaks of what is in them and could help."""
        groups: dict[tuple[Term, ...], dict[Term, None]] = {}
        for guards, terms in places.items():
            for t in terms:
                facts = about(self._givens[guards].facts, t)
                sensitive = any(isinstance(x, tuple) and x[0] in SENSITIVE for x in postorder(t))
                if facts and self._in_64_bits(t) and sensitive and may_gain(t, facts, self.scope.ranges):
                    groups.setdefault(facts, {})[t] = None
        cheaper = simplified_under([(t, facts) for facts, group in groups.items() for t in group], self.scope.ranges)
        for guards, terms in places.items():
            given = self._givens[guards]
            for t in terms:
                found = cheaper.get((t, about(given.facts, t)))
                if found is not None and given.widths.is_exact(found.expr):
                    steps, by = tuple(found.steps), str(found.validated_by)
                    given.table[t] = Simplified(t, found.expr, found.cost_in, found.cost, steps, by, about(given.facts, t))

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
        plain = self._plain(self.read(e))
        found = self.given.table.get(plain)
        return plain if found is None else found.after

    def _plain(self, term: Term) -> Term:
        return self.table[term].after if term in self.table else term

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
            yield from self._roots_of(node)

    def _roots_of(self, node: Node) -> Iterator[Expr]:
        """The index expressions that a node needs, without the blocks in it."""
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
