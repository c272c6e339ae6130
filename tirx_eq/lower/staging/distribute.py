"""Calls of a cluster on what each CTA has of its own, made calls of its CTAs: then all that a CTA can do applies to them.

Other uses of a buffer that is spread over the CTAs are of the CTA's own part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...errors import LoweringError
from ...ir import (
    AllocBuffer,
    Bind,
    Break,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Continue,
    DeclBuffer,
    Expr,
    For,
    IfThenElse,
    IntImm,
    Not,
    PrimFunc,
    Range,
    Return,
    SeqStmt,
    Stmt,
    StmtMutator,
    StmtVisitor,
    TilePrimitiveCall,
    Var,
    While,
    post_order_visit,
    substitute,
)
from ...ir.index import names
from ...ir.stmt import seq
from ...layout import ComposeLayout, TileLayout, is_open
from ..scope import new_scope
from ..sharing.cta_parts import CtaCall, cta_call, cta_register, reads
from ..sharing.cta_spread import AXES, CtaSpread, cta_points, cta_spread
from ..sharing.threads import Launch
from ..statement_parts import is_plain_index
from .cta_exchange import Exchange
from .expand import expand
from .own_part import own_indices


def distribute(func: PrimFunc, launch: Launch) -> PrimFunc:
    """The function with every cluster's call that its CTAs can make for themselves as a call of a CTA.

    Others stay: those on global memory, which have variants of their own, and those that no variant will lower, with the
    reason in :func:`tirx_eq.lower.sharing.cta_parts.cta_call`.
    """
    if not _needed(func):
        return func
    return _Distribute(launch, _elsewhere(func)).visit_prim_func(func)


def _needed(func: PrimFunc) -> bool:
    """Whether there is a call of a cluster, or a buffer that is spread over CTAs."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        if isinstance(node, TilePrimitiveCall):
            found = found or node.scope.kind == "cluster"
        elif isinstance(node, (AllocBuffer, DeclBuffer)):
            layout = node.buffer.layout
            found = found or (layout is not None and not is_open(layout) and bool(set(layout.axes()) & set(AXES)))

    post_order_visit(func.body, look)
    return found


def _leaves(s: Stmt) -> bool:
    """Whether there is a jump out of a statement, or may be."""
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or isinstance(node, (Break, Continue, Return))

    post_order_visit(s, look)
    return found


#: Calls that give the address of a place in another CTA.
MAPPED = ("tirx.ptx.mapa", "tirx.ptx.map_shared_rank")


class _Views(StmtVisitor):
    def __init__(self) -> None:
        self.owned: set[Var] = set()
        self.views: dict[Var, tuple[Buffer, Expr | None]] = {}
        self.bound: dict[Var, Expr] = {}

    def visit_alloc_buffer(self, value: AllocBuffer) -> None:
        self.owned.add(value.buffer.data)

    def visit_bind(self, value: Bind) -> None:
        self.bound[value.var] = value.value

    def visit_decl_buffer(self, value: DeclBuffer) -> None:
        self.views.setdefault(value.buffer.data, (value.buffer, value.data))

    def address(self, e: Expr | None) -> Expr | None:
        """What a pointer is made of."""
        while e is not None:
            if isinstance(e, Var) and e in self.bound:
                e = self.bound[e]
            elif isinstance(e, Call) and e.op.name == "tirx.reinterpret":
                e = e.args[0]
            else:
                break
        return e


def _elsewhere(func: PrimFunc) -> frozenset[Var]:
    """Views of shared memory that are, or may be, another CTA's."""
    views = _Views()
    views.visit(func.body)
    found = set()
    for var, (buffer, data) in views.views.items():
        if var in views.owned or buffer.scope == "tmem":
            continue
        at = views.address(data if data is not None else var)
        named = isinstance(at, BufferLoad) or (isinstance(at, Call) and at.op.name in MAPPED)
        own = isinstance(at, Call) and at.op.name == "tirx.address_of"
        if named or (buffer.scope != "global" and not own):
            found.add(var)
    return frozenset(found)


class _Distribute(StmtMutator):
    def __init__(self, launch: Launch, elsewhere: frozenset[Var]) -> None:
        self.launch = launch
        self.elsewhere = elsewhere
        self.environment: dict[Var, Expr] = dict(launch.ids)
        self.exchange = Exchange(launch, self._spread, self._is_elsewhere)
        self.spreads: dict[Buffer, CtaSpread | str] = {}
        self.assumed: list[Expr] = []  # conditions that hold here
        self.ranges: dict[Var, tuple[int, int]] = {}
        self.apart = 0  # statements around this one that only some CTAs of a cluster may reach

    def visit_bind(self, value: Bind) -> Stmt:
        made: Bind = self.visit_children(value)
        self.environment[value.var] = substitute(made.value, self.environment)
        return made

    def visit_if_then_else(self, value: IfThenElse) -> Any:
        condition = substitute(value.condition, self.environment)
        apart = self._differs(condition)
        self.apart += apart
        plain = is_plain_index(condition)
        parts: list[Stmt | None] = []
        for part, holds in ((value.then_case, condition), (value.else_case, Not(condition))):
            self.assumed += [holds] if plain else []
            parts.append(self.visit(part) if part is not None else None)
            if plain:
                self.assumed.pop()
        if not (apart and _leaves(value)):  # else those that jump aren't there afterwards either
            self.apart -= apart
        then, other = parts
        made = replace(value, condition=self.visit(value.condition), then_case=then or SeqStmt(), else_case=other)
        return made

    def visit_for(self, value: For) -> Any:
        if isinstance(value.min, IntImm) and isinstance(value.extent, IntImm):
            self.ranges[value.loop_var] = (value.min.value, value.min.value + max(0, value.extent.value - 1))
        return self._inside(value, [value.min, value.extent])

    def visit_while(self, value: While) -> Any:
        return self._inside(value, [value.condition])

    def _inside(self, value: Stmt, decides: list[Expr]) -> Any:
        apart = any(self._differs(e) for e in decides)
        self.apart += apart
        made = self.visit_children(value)
        if not (apart and _leaves(value)):  # else those that jump aren't there afterwards either
            self.apart -= apart
        return made

    def _differs(self, e: Expr) -> bool:
        """Whether an expression may have several values among the CTAs of a cluster."""
        if len(cta_points(self.launch)) == 1:
            return False
        e = substitute(e, self.environment)
        if reads(e):
            return True
        scope = new_scope()
        term = scope.term(e)
        used = names(term) if isinstance(term, tuple) else {term}
        first = cta_points(self.launch)[0]
        tells = [v for r, v in self.launch.special.items() if cta_register(r, self.launch, first) is not None]
        return any(scope.name(v) in used for v in tells)

    def visit_tile_primitive_call(self, value: TilePrimitiveCall) -> Stmt:
        if value.op.short_name == "compose_op":  # its parts have scopes of their own
            parts = [self.visit(part) for part in value.args]
            return value if all(a is b for a, b in zip(parts, value.args)) else seq(parts)
        if value.scope.kind != "cluster":
            args = tuple(self._own_region(a, value) if isinstance(a, BufferRegion) else a for a in value.args)
            return value if args == value.args else replace(value, args=args, span=value.span)
        if self.apart:
            return value
        found = cta_call(value, self.launch, self.environment, self._is_elsewhere, self._spread)
        if isinstance(found, CtaCall):
            return found.call if found.guard is None else IfThenElse(found.guard, found.call, span=value.span)
        if isinstance(found, str) and (composed := expand(value, self.launch)) is not None:
            return seq(self.visit(part) for part in composed)
        if isinstance(found, str) and (met := self.exchange.across(value, self.environment)) is not None:
            return seq(self.visit(s) for s in met)  # some are calls of the cluster
        return value

    def visit_buffer_load(self, value: BufferLoad) -> Any:
        """An element of the CTA's own part."""
        indices = self._own(value.buffer, value.indices, [1] * len(value.indices), value)
        if indices is None:
            return self.visit_children(value)
        spread = self._spread(value.buffer)
        assert isinstance(spread, CtaSpread)
        return BufferLoad(spread.part, tuple(self.visit(i) for i in indices))

    def visit_buffer_store(self, value: BufferStore) -> Any:
        indices = self._own(value.buffer, value.indices, [1] * len(value.indices), value)
        made: BufferStore = self.visit_children(value)
        if indices is None:
            return made
        spread = self._spread(value.buffer)
        assert isinstance(spread, CtaSpread)
        return replace(made, buffer=spread.part, indices=tuple(self.visit(i) for i in indices))

    def _own_region(self, r: BufferRegion, at: TilePrimitiveCall) -> BufferRegion:
        extents = [e.value if isinstance(e, IntImm) else None for e in r.extents()]
        starts = self._own(r.buffer, [p.min for p in r.region], extents, at)
        if starts is None:
            return r
        spread = self._spread(r.buffer)
        assert isinstance(spread, CtaSpread)
        ranges = tuple(Range(low, p.extent) for low, p in zip(starts, r.region))
        return BufferRegion(spread.part, ranges, span=r.span)

    def _own(
        self, buffer: Buffer, starts: Sequence[Expr], extents: Sequence[int | None], at: Any
    ) -> list[Expr] | None:
        """Where elements are in the CTA's part; None for a buffer that isn't spread over CTAs.

        Raises LoweringError for elements that aren't known to be this CTA's.
        """
        if buffer.scope == "global" or not isinstance(buffer.layout, (TileLayout, ComposeLayout)):
            return None
        if not set(buffer.layout.axes()) & set(AXES) or self._is_elsewhere(buffer):
            return None
        spread = self._spread(buffer)
        found = spread if isinstance(spread, str) else own_indices(
            spread, starts, extents, self.launch, self.environment, self.ranges, self.assumed)  # fmt: skip
        if isinstance(found, str):
            raise LoweringError(
                f"'{buffer.name}' is spread over the CTAs of the cluster: {found}",
                hint="a CTA reaches its own part, a call of the cluster all of it", span=getattr(at, "span", None),
            )  # fmt: skip
        return found

    def _spread(self, buffer: Buffer) -> CtaSpread | str:
        if buffer not in self.spreads:
            self.spreads[buffer] = cta_spread(buffer, self.launch)
        return self.spreads[buffer]

    def _is_elsewhere(self, buffer: Buffer) -> bool:
        return buffer.data in self.elsewhere
