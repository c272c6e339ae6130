"""The problem of a function: unknowns, their candidates with where these come from, constraints, and tables of costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import TirxError
from ..ir import Buffer, PrimFunc
from ..ir import dtype as dt
from ..layout import ComposeLayout, Layout, is_open
from ..lower.storage import const_shape
from ..ptx.swizzle_modes import SWIZZLES
from .bindings import Bound, bind_calls, bind_storage
from .erase import Declared, declared, rebuilt
from .evaluate import CallTable, OpenOperand
from .families import blocked, element_swizzle, number, plain_form, row_major, swizzled_tiles, unique
from .meaning import Reading, read_meaning, row_pieces
from .patterns import synthesised
from .requirements import RULES, Asked, by_engine
from .scalars import ScalarTable
from .unknowns import Member, Unknown, find_unknowns
from .uses import Uses, uses_of

#: Candidates of one unknown: beyond, the families would be too generous to enumerate.
MAX_CANDIDATES = 400
#: Elements of a buffer below which no swizzle is looked for.
SMALLEST = 64


@dataclass(eq=False)
class Problem:
    """What is to be solved.

    ``domains[u]``: the candidates of unknown u, each with the rules that proposed it, in a fixed order; ``tables`` give the
    cost of each call, ``scalars`` that of statements' own accesses, under the layouts of the unknowns (``fixed``: of buffers
    whose layouts are given); ``bounds`` are the constraints with their tests.
    """

    func: PrimFunc
    target: str
    unknowns: list[Unknown]
    uses: Uses
    domains: list[dict[Layout, tuple[str, ...]]] = field(default_factory=list)
    tables: list[CallTable] = field(default_factory=list)
    scalars: list[ScalarTable] = field(default_factory=list)
    fixed: list[ScalarTable] = field(default_factory=list)
    bounds: list[Bound] = field(default_factory=list)

    def layouts(self, at: Mapping[int, Layout]) -> dict[Buffer, Layout]:
        """The layout of every open buffer of the function when the unknowns have the layouts of ``at``."""
        made: dict[Buffer, Layout] = {}
        for u in self.unknowns:
            for m in u.members:
                if is_open(m.buffer.layout):
                    found = m.layout(at[u.index])
                    assert not isinstance(found, str), found
                    made[m.buffer] = found
        return made


class OpenShape(TirxError):
    """A layout is left open for a buffer whose extents aren't numbers."""


def build(func: PrimFunc, target: str) -> Problem:
    """The problem of a function with open layouts.

    Raises OpenShape for an open layout of symbolic extents, and LoweringError for what can't be lowered whatever the layouts.
    """
    found = declared(func)
    for d in found:
        if is_open(d.buffer.layout) and d.buffer.const_shape() is None:
            raise OpenShape(f"the layout of '{d.buffer.name}' is open, so its extents must be constant", span=d.span)
    unknowns = find_unknowns(found)
    base, renamed = rebuilt(func, {d.buffer: row_major(const_shape(d.buffer)) for d in found if is_open(d.buffer.layout)})
    uses = uses_of(base, target, [renamed.get(m.buffer, m.buffer) for u in unknowns for m in u.members])
    problem = Problem(func, target, unknowns, uses)
    home = {id(renamed.get(m.buffer, m.buffer)): (u, m) for u in unknowns for m in u.members}
    asked = _tables(problem, home)
    reading = read_meaning(unknowns, uses, _renamed(found, renamed))
    _propose(problem, asked, reading)
    for k, s in enumerate(uses.scalars):
        if id(s.buffer) in home:
            u, m = home[id(s.buffer)]
            problem.scalars.append(ScalarTable(uses, s, u.index, m, uses.scalar_weights[k]))
        elif s.buffer.scope.startswith("shared"):
            problem.fixed.append(ScalarTable(uses, s, -1, None, uses.scalar_weights[k]))
    addressed = {u.index: span for b, span in uses.addressed.items() if id(b) in home for u in (home[id(b)][0],)}
    problem.bounds += bind_storage(problem.unknowns, reading, addressed, problem.scalars, func, base)
    problem.bounds += bind_calls(problem.tables, problem.unknowns, problem.domains)
    _synthesise(problem, {u.index for q, u, _ in asked if by_engine(q)} | set(addressed))
    for u in problem.unknowns:  # what takes more storage comes last among equals
        problem.domains[u.index] = dict(sorted(problem.domains[u.index].items(), key=lambda p: _extra(u, p[0])))
    return problem


def _renamed(found: Sequence[Declared], renamed: Mapping[Buffer, Buffer]) -> list[Declared]:
    return [Declared(renamed.get(d.buffer, d.buffer), d.allocated, d.span) for d in found]


def _tables(problem: Problem, home: Mapping[int, tuple[Unknown, Member]]) -> list[tuple[Asked, Unknown, Member]]:
    asked: list[tuple[Asked, Unknown, Member]] = []
    for c, weight in zip(problem.uses.contexts, problem.uses.weights):
        opened: dict[str, OpenOperand] = {}
        for name, o in c.operands.items():
            if id(o.buffer) not in home:
                continue
            u, m = home[id(o.buffer)]
            opened[name] = OpenOperand(u.index, m.layout, u.space == "shared" and u.room is None)
            held = u.capacity * u.bits // o.bits if u.capacity is not None else None
            asked.append((Asked(c, name, held, u.room is None and u.space == "shared"), u, m))
        problem.tables.append(CallTable(c, opened, weight))
    return asked


def _propose(problem: Problem, asked: Sequence[tuple[Asked, Unknown, Member]], reading: Reading) -> None:
    """Apply the rules until no candidate is new."""
    domains: list[dict[Layout, list[str]]] = [{} for _ in problem.unknowns]
    meanings: list[dict[Layout, Layout]] = [{} for _ in problem.unknowns]  # plain form -> the candidate that has it
    fixed = _fixed_layouts(problem)

    def layouts_of(q: Asked) -> Callable[[str], list[Layout]]:
        opened = problem.tables[q.call.index].opened

        def of(name: str) -> list[Layout]:
            o = opened.get(name)
            if o is None:
                layout = q.call.operands[name].buffer.layout
                return [] if layout is None else [layout]
            found = [o.layout_of(w) for w in domains[o.unknown]]
            return [x for x in found if not isinstance(x, str)]

        return of

    def add(u: Unknown, layout: Layout, rule: str) -> bool:
        kept = meanings[u.index].setdefault(plain_form(layout), layout)
        new = kept not in domains[u.index]
        names = domains[u.index].setdefault(kept, [])
        if rule not in names:
            names.append(rule)
        return new

    for u in problem.unknowns:
        if u.index in reading.pinned:
            add(u, reading.pinned[u.index][0], "row-major pieces per thread")
        for layout in _said(u):
            add(u, layout, "what the partial layout says")
        if fixed.get(u.index) is not None:
            add(u, fixed[u.index], "a view with this layout")
    first, changed = True, True
    while changed:
        changed = False
        for q, u, member in asked:
            for rule in RULES:
                if rule.once and not first:
                    continue
                for layout in unique(rule.propose(q, layouts_of(q))):
                    whole = member.whole(layout)
                    if whole is not None and len(domains[u.index]) < MAX_CANDIDATES:
                        changed = add(u, whole, rule.name) or changed
        for group in reading.together:
            for a in group:
                for b in group:
                    for layout in list(domains[a]):
                        changed = add(problem.unknowns[b], layout, "the same distribution as a connected view") or changed
        first = False
    for u in problem.unknowns:
        if not domains[u.index]:
            spread = u.capacity is not None and u.size > u.capacity and u.size % u.capacity == 0
            add(u, row_pieces(u) if spread else row_major(u.shape), "nothing else is asked")
    problem.domains = [{k: tuple(v) for k, v in d.items()} for d in domains]


def _extra(u: Unknown, layout: Layout) -> int:
    return max(0, number(layout.span("m")) - u.size) if u.space == "shared" else 0


def _said(u: Unknown) -> list[Layout]:
    """Layouts that are as a partial layout says, whoever uses them: so that a clash names both sides."""
    made: list[Layout] = []
    for w in u.wanted:
        shape, bits = const_shape(w.buffer), dt.storage_bits(w.buffer.dtype)
        member = u.member_of(w.buffer)
        found: list[Layout] = []
        if w.partial.swizzle is not None and u.space == "shared":
            mode = SWIZZLES[w.partial.swizzle]
            swizzle = element_swizzle(mode, bits)
            plain = row_major(shape)
            found = [*swizzled_tiles(shape, bits, mode), plain if swizzle is None else ComposeLayout(swizzle, plain)]
        if w.partial.thread_axis is not None and u.space == "local" and u.capacity:
            found = blocked(shape, u.size // u.capacity, w.partial.thread_axis, u.capacity, bits)
        made += [whole for x in found if (whole := member.whole(x)) is not None]
    return made


def _synthesise(problem: Problem, given: set[int]) -> None:
    """Swizzles and paddings for shared buffers of which no engine and no instruction wants a format of its own."""
    alone: dict[int, list[Layout]] = {}
    possible: dict[int, list[Layout]] = {}

    def by_itself(u: int) -> list[Layout]:
        if u not in alone:
            mine = [b for b in problem.bounds if b.unknowns == (u,)]
            alone[u] = [w for w in problem.domains[u] if all(b.test({u: w}) is None for b in mine)]
        return alone[u]

    def left(u: int) -> list[Layout]:
        """Candidates of another unknown that the constraints on it, alone or with one more in registers, leave."""
        if u not in possible:
            kept = by_itself(u)
            for b in problem.bounds:
                if len(b.unknowns) == 2 and u in b.unknowns and all(problem.unknowns[v].space == "local" for v in b.unknowns):
                    other = next(v for v in b.unknowns if v != u)
                    kept = [w for w in kept if any(b.test({u: w, other: z}) is None for z in by_itself(other))]
            possible[u] = kept
        return possible[u]

    for u in problem.unknowns:
        if u.space != "shared" or u.index in given or u.fixed is not None or u.size < SMALLEST:
            continue
        if any(m.how not in ("same", "permute") for m in u.members):
            continue
        tables = [t for t in problem.tables if u.index in t.unknowns]
        scalars = [s for s in problem.scalars if s.unknown == u.index]
        for layout in synthesised(u, row_major(u.shape), tables, scalars, left):
            if len(problem.domains[u.index]) < MAX_CANDIDATES:
                problem.domains[u.index].setdefault(layout, ("swizzles and paddings for the access patterns",))


def _fixed_layouts(problem: Problem) -> dict[int, Layout]:
    return {u.index: u.fixed[0] for u in problem.unknowns if u.fixed is not None}
