"""Loads, stores and regions: outside their buffer, and in conflict over shared-memory banks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from .. import ir
from ..egraph.narrow import about
from ..errors import LayoutError, ProofError, Span, TirxError
from ..interop.index_rewrite import Collect
from ..ir import dtype as dt
from ..ir.index import Term, evaluate, names, show
from ..layout import ComposeLayout, SwizzleLayout, TileLayout
from ..layout.conflicts import Access, BankConflicts, conflicts
from ..prove.table import Table
from ..prove.validate import prove
from .findings import Audit, Finding

#: Solver work for one bound; beyond it the access counts as unproved.
RLIMIT = 200_000


@dataclass(frozen=True)
class _Use:
    """An access: index terms (None where an index is no integer expression) with the extents it must stay inside.

    ``sizes`` are how many elements from the index on are used; ``certain``: it is executed for every value of its
    variables that satisfies ``assume``; ``how``: load, store, region, or address (which may be that of the end).
    """

    buffer: ir.Buffer
    terms: tuple[Term | None, ...]
    sizes: tuple[Term, ...]
    assume: tuple[Term, ...]
    certain: bool
    how: str
    span: Span | None

    @property
    def name(self) -> str:
        return self.buffer.name or "a buffer without a name"


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """Out-of-bounds accesses with a point that shows it; bank conflicts of warp accesses with a swizzle that helps."""
    walk = Walk()
    walk.visit(func)
    found: list[Finding] = []
    result.accesses = len(walk.uses)
    seen: set[Any] = set()
    for use in walk.uses:
        key = (use.buffer, tuple(map(show_or_none, use.terms)), tuple(map(show, use.sizes)), use.assume)
        if key in seen:
            continue
        seen.add(key)
        found += _bounds(walk, use, result)
        found += _banks(walk, use)
    return found


def show_or_none(term: Term | None) -> str:
    return "?" if term is None else show(term)


class Walk(Collect):
    """Collects the accesses of a function, as the simplifier's collector collects its index expressions."""

    def __init__(self) -> None:
        super().__init__()
        self.uses: list[_Use] = []
        #: names that take every value of their range: thread numbers, loop variables of constant extent
        self.exact: set[str] = set()
        #: names equal to the lane number, in a warp whose other numbers are fixed
        self.lanes: dict[str, int] = {}
        self._doubt = 0
        self._addresses = False
        self._place: Span | None = None

    def visit(self, value: Any) -> None:
        if isinstance(value, ir.Stmt) and value.span is not None:
            self._place = value.span
        super().visit(value)

    __call__ = visit

    def access(self, buffer: ir.Buffer, indices: tuple[ir.Expr, ...], where: Any) -> None:
        terms: list[Term | None] = []
        sizes: list[Term] = []
        for index in indices:
            size: Term = 1
            start = index
            if isinstance(index, ir.Ramp) and index.stride == ir.IntImm(index.stride.dtype, 1):
                start, size = index.base, index.lanes
            try:
                terms.append(self.scope.term(start))
            except TirxError:
                terms.append(None)
            sizes.append(size)
        how = "store" if isinstance(where, ir.BufferStore) else "address" if self._addresses else "load"
        self._add(buffer, terms, sizes, how, where.span)

    def _add(self, buffer: ir.Buffer, terms: Any, sizes: Any, how: str, span: Span | None) -> None:
        certain = self._doubt == 0
        place = span or self._place
        self.uses.append(_Use(buffer, tuple(terms), tuple(sizes), self.assume, certain, how, place))

    def visit_buffer_region(self, value: ir.BufferRegion) -> None:
        try:
            terms = [self.scope.term(r.min) for r in value.region]
            sizes = [self.scope.term(r.extent) for r in value.region]
            self._add(value.buffer, terms, sizes, "region", value.span)
        except TirxError:
            pass
        self.visit_children(value)

    def visit_if_then_else(self, value: ir.IfThenElse) -> None:
        hidden = not self.known(value.condition, True)
        self._doubt += hidden
        super().visit_if_then_else(value)
        self._doubt -= hidden

    def visit_while(self, value: ir.While) -> None:
        self._doubt += 1
        self.visit_children(value)
        self._doubt -= 1

    def visit_break(self, value: ir.Break) -> None:
        self._doubt += 1  # from here on nobody knows what is still executed

    def visit_continue(self, value: ir.Continue) -> None:
        self._doubt += 1

    def visit_return(self, value: ir.Return) -> None:
        self._doubt += 1
        self.visit_children(value)

    def visit_call(self, value: ir.Call) -> None:
        if value.op.name in ("tirx.thread_return", "tirx.filter"):
            self._doubt += 1
        if value.op.name == "tirx.address_of" and isinstance(value.args[0], ir.BufferLoad):
            load = value.args[0]
            self._addresses = True
            self.access(load.buffer, load.indices, load)
            self._addresses = False
            self.visit(load.indices)
            return
        self.visit_children(value)

    def visit_for(self, value: ir.For) -> None:
        constant = isinstance(value.min, ir.IntImm) and isinstance(value.extent, ir.IntImm) and value.step is None
        if constant and int(value.extent) > 0:  # type: ignore[call-overload]
            self.exact.add(self.scope.name(value.loop_var))
            super().visit_for(value)
            return
        self._doubt += 1
        super().visit_for(value)
        self._doubt -= 1

    def visit_scope_id_def(self, value: ir.ScopeIdDef) -> None:
        super().visit_scope_id_def(value)
        if value.extents is None:
            return
        for var, extent in zip(value.def_ids, value.extents):
            if isinstance(extent, ir.IntImm):
                self.exact.add(self.scope.name(var))
        if value.child == "thread" and len(value.def_ids) == 1:
            self.lanes[self.scope.name(value.def_ids[0])] = 1

    def visit_attr_stmt(self, value: ir.AttrStmt) -> None:
        if value.attr_key == "thread_extent" and isinstance(value.node, ir.IterVar):
            name = self.scope.name(value.node.var)
            if isinstance(value.value, ir.IntImm):
                self.exact.add(name)
            if value.node.thread_tag == "threadIdx.x":
                self.lanes[name] = 1
        super().visit_attr_stmt(value)


def _bounds(walk: Walk, use: _Use, result: Audit) -> list[Finding]:
    found = []
    for dim, (term, size) in enumerate(zip(use.terms, use.sizes)):
        extent = use.buffer.shape[dim]
        if term is None or not isinstance(extent, ir.IntImm):
            result.unproved += 1
            continue
        last: Term = term if size == 1 else ("sub", ("add", term, size), 1)
        limit = int(extent) + (use.how == "address")
        claim: Term = ("land", ("le", 0, term), ("lt", last, limit))
        facts = about(use.assume, claim)
        used = set(names(claim)).union(*(names(f) for f in facts)) if facts else set(names(claim))
        ranges = {n: walk.scope.ranges[n] for n in sorted(used)}
        table = Table(ranges)
        low, high = table.interval[table.add(term)][0], table.interval[table.add(last)][1]
        if 0 <= low and high < limit:
            continue
        if not used <= walk.exact or not use.certain:
            result.unproved += 1
            continue
        try:
            verdict = prove(claim, ranges, assume=facts, rlimit=RLIMIT)
        except ProofError:  # no point satisfies the facts: never executed
            continue
        if verdict.status == "different":
            values = {k: int(v) for k, v in sorted((verdict.counterexample or {}).items()) if k in ranges}
            point = ", ".join(f"{k}={v}" for k, v in values.items())
            at = int(evaluate(last, values))
            what = "stored to" if use.how == "store" else "used"
            found.append(Finding(
                "out of bounds", "error", use.name,
                f"dimension {dim} has {int(extent)} elements and is {what} at {at}", point or "always",
                "guard it, or make the buffer larger", use.span,
            ))  # fmt: skip
        elif verdict.status == "unknown":
            result.unproved += 1
    return found


def _lane_points(walk: Walk, use: _Use, used: set[str]) -> Iterator[dict[str, int] | None]:
    """The variables' values in each lane of the first warp (None if it is inactive), other variables at their lowest."""
    base = {n: walk.scope.ranges[n][0] for n in used}
    lanes = [n for n in walk.lanes if n in used]
    width = min([32, *(walk.scope.ranges[n][1] + 1 for n in lanes)])
    for lane in range(width):
        point = {**base, **dict.fromkeys(lanes, lane)}
        yield point if all(evaluate(f, point) for f in use.assume if set(names(f)) <= used) else None


def _banks(walk: Walk, use: _Use) -> list[Finding]:
    buffer, shape = use.buffer, use.buffer.const_shape()
    layout = buffer.layout
    if use.how not in ("load", "store") or not buffer.scope.startswith("shared"):
        return []
    if shape is None or layout is None or not layout.is_constant():
        return []
    if any(t is None or not isinstance(s, int) for t, s in zip(use.terms, use.sizes)) or not use.terms:
        return []
    used = set().union(*(names(t) for t in use.terms))  # type: ignore[arg-type]
    vector = prod(s for s in use.sizes if isinstance(s, int))
    if not used <= walk.exact or not used & set(walk.lanes) or any(s != 1 for s in use.sizes[:-1]):
        return []
    points = list(_lane_points(walk, use, used | {n for f in use.assume for n in names(f) if n in walk.exact}))
    coords = tuple(None if p is None else tuple(int(evaluate(t, p)) for t in use.terms if t is not None) for p in points)
    access = Access(use.how, coords, vector)
    try:
        now = conflicts(layout, buffer.dtype, access, shape)
    except LayoutError:  # outside the buffer, or not one access: other findings say so
        return []
    if now.conflict_free:
        return []
    better = _swizzled(layout, buffer.dtype, access, shape)
    remedy = "" if better is None else f"layout={better.script(prefix='')}"
    kind = "store to" if use.how == "store" else "load from"
    return [Finding(
        "bank conflicts", "warning", use.name,
        f"a warp's {kind} '{buffer.name}' takes {now.wavefronts} wavefronts instead of {now.ideal}",
        _collision(now), remedy, use.span, layout,
    )]  # fmt: skip


def _collision(found: BankConflicts) -> str:
    if not found.collisions:
        return f"{found.ways} words of one bank"
    _, bank, lanes = found.collisions[0]
    return f"lanes {', '.join(map(str, lanes[:6]))}{' …' if len(lanes) > 6 else ''} all want bank {bank}"


def _swizzled(layout: Any, dtype: str, access: Access, shape: tuple[int, ...]) -> ComposeLayout | None:
    """The mildest swizzle over the layout's tile under which the access has no conflict."""
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    if not isinstance(tile, TileLayout):
        return None
    chunk = max(1, 128 // dt.storage_bits(dtype)).bit_length() - 1
    for size in (1, 2, 3, 4, 5):
        for per_element in range(chunk + 1):
            for atom in range(size, 9):
                made = ComposeLayout(SwizzleLayout(per_element, size, atom), tile)
                try:
                    if conflicts(made, dtype, access, shape).conflict_free:
                        return made
                except LayoutError:
                    continue
    return None
