"""Calls of a cluster on what each CTA has of its own, made calls of its CTAs: then all that a CTA can do applies to them."""

from __future__ import annotations

from typing import Any

from ..ir import (
    AllocBuffer,
    Bind,
    Buffer,
    Call,
    DeclBuffer,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
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
from .expand import expand
from .scope import new_scope
from .sharing.cta_parts import CtaCall, cta_call, cta_register, reads
from .sharing.cta_spread import cta_points
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


class _Views(StmtVisitor):
    def __init__(self) -> None:
        self.owned: set[Var] = set()
        self.pointers: dict[Var, Expr | None] = {}

    def visit_alloc_buffer(self, value: AllocBuffer) -> None:
        self.owned.add(value.buffer.data)

    def visit_decl_buffer(self, value: DeclBuffer) -> None:
        if value.buffer.scope != "tmem":
            self.pointers.setdefault(value.buffer.data, value.data)


def _elsewhere(func: PrimFunc) -> frozenset[Var]:
    """Buffers whose address isn't that of something which the CTA has: they are, or may be, another CTA's."""
    views = _Views()
    views.visit(func.body)
    return frozenset(v for v, e in views.pointers.items() if v not in views.owned and not _own_address(e))


def _own_address(e: Expr | None) -> bool:
    while isinstance(e, Call) and e.op.name == "tirx.reinterpret":
        e = e.args[0]
    return isinstance(e, Call) and e.op.name == "tirx.address_of"


class _Distribute(StmtMutator):
    def __init__(self, launch: Launch, elsewhere: frozenset[Var]) -> None:
        self.launch = launch
        self.elsewhere = elsewhere
        self.environment: dict[Var, Expr] = dict(launch.ids)
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
        found = cta_call(value, self.launch, self.environment, self._is_elsewhere)
        if isinstance(found, CtaCall):
            return found.call if found.guard is None else IfThenElse(found.guard, found.call, span=value.span)
        if isinstance(found, str) and (composed := expand(value, self.launch)) is not None:
            return seq(self.visit(part) for part in composed)
        return value

    def _is_elsewhere(self, buffer: Buffer) -> bool:
        return buffer.data in self.elsewhere
