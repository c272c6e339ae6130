"""Calls of a cluster on what each CTA has of its own, made calls of its CTAs: then all that a CTA can do applies to them."""

from __future__ import annotations

from typing import Any

from ..ir import (
    AllocBuffer,
    Bind,
    Break,
    Buffer,
    BufferLoad,
    Call,
    Continue,
    DeclBuffer,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
    Return,
    Stmt,
    StmtMutator,
    StmtVisitor,
    TilePrimitiveCall,
    Var,
    While,
    post_order_visit,
    substitute,
)
from ..ir.index import names
from ..ir.stmt import seq
from .cta_exchange import Exchange
from .expand import expand
from .scope import new_scope
from .sharing.cta_parts import CtaCall, cta_call, cta_register, reads
from .sharing.cta_spread import CtaSpread, cta_points, cta_spread
from .sharing.threads import Launch


def distribute(func: PrimFunc, launch: Launch) -> PrimFunc:
    """The function with every cluster's call that its CTAs can make for themselves as a call of a CTA.

    Others stay: those on global memory, which have variants of their own, and those that no variant will lower, with the
    reason in :func:`tirx_eq.lower.sharing.cta_parts.cta_call`.
    """
    if not _calls_clusters(func):
        return func
    return _Distribute(launch, _elsewhere(func)).visit_prim_func(func)


def _calls_clusters(func: PrimFunc) -> bool:
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or (isinstance(node, TilePrimitiveCall) and node.scope.kind == "cluster")

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
        self.apart = 0  # statements around this one that only some CTAs of a cluster may reach

    def visit_bind(self, value: Bind) -> Stmt:
        self.environment[value.var] = substitute(value.value, self.environment)
        return value

    def visit_if_then_else(self, value: IfThenElse) -> Any:
        return self._inside(value, [value.condition])

    def visit_for(self, value: For) -> Any:
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
        if value.scope.kind != "cluster" or self.apart:
            return value
        found = cta_call(value, self.launch, self.environment, self._is_elsewhere, self._spread)
        if isinstance(found, CtaCall):
            return found.call if found.guard is None else IfThenElse(found.guard, found.call, span=value.span)
        if isinstance(found, str) and (composed := expand(value, self.launch)) is not None:
            return seq(self.visit(part) for part in composed)
        if isinstance(found, str) and (met := self.exchange.across(value, self.environment)) is not None:
            return seq(met)
        return value

    def _spread(self, buffer: Buffer) -> CtaSpread | str:
        if buffer not in self.spreads:
            self.spreads[buffer] = cta_spread(buffer, self.launch)
        return self.spreads[buffer]

    def _is_elsewhere(self, buffer: Buffer) -> bool:
        return buffer.data in self.elsewhere
