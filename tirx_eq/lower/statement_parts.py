"""What is in a statement or an expression: the loads it certainly makes, jumps, atomic operations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ir import (
    And,
    AttrStmt,
    Break,
    BufferLoad,
    Call,
    Continue,
    Expr,
    IfThenElse,
    Or,
    Select,
    SeqStmt,
    Stmt,
    Var,
    post_order_visit,
)  # fmt: skip
from ..ir import dtype as dt
from ..ir.index import evaluate, names
from ..ir.node import fields
from .code.atomics import is_atomic
from .scope import new_scope


def always_loaded(e: Expr) -> Iterator[BufferLoad]:
    """Loads that computing an expression certainly makes: not those of a side of if_then_else, or of an address."""
    if isinstance(e, BufferLoad):
        yield e
    elif isinstance(e, Call) and e.op.name == "tirx.if_then_else":
        yield from always_loaded(e.args[0])
    elif not isinstance(e, (Call, And, Or, Select)):
        for _, child in fields(e):
            if isinstance(child, Expr):
                yield from always_loaded(child)


def has_atomics(body: Stmt) -> bool:
    found: list[Call] = []
    post_order_visit(body, lambda node: found.append(node) if is_atomic(node) else None)
    return bool(found)


def is_plain_index(e: Expr) -> bool:
    """Integer arithmetic on variables and constants only: can stand wherever its variable does."""
    if dt.kind(e.dtype) not in ("int", "uint", "bool") or dt.lanes(e.dtype) != 1:
        return False
    scope = new_scope()
    return all(isinstance(scope.sources[n], Var) for n in names(scope.term(e)))


def constant_value(e: Expr) -> int | None:
    """The value of an index expression that is made of constants alone."""
    found: list[Any] = []
    post_order_visit(e, lambda node: found.append(node) if isinstance(node, (Var, BufferLoad)) else None)
    if found or dt.kind(e.dtype) not in ("int", "uint", "bool") or dt.lanes(e.dtype) != 1:
        return None
    term = new_scope().term(e)
    return None if names(term) else evaluate(term, {})


def uses(e: Expr, var: Var) -> bool:
    found = False

    def look(node: Any) -> None:
        nonlocal found
        found = found or node is var

    post_order_visit(e, look)
    return found


def jumps(body: Stmt) -> bool:
    """Whether a break or continue belongs to the loop with this body."""
    if isinstance(body, (Break, Continue)):
        return True
    if isinstance(body, SeqStmt):
        return any(jumps(s) for s in body.seq)
    if isinstance(body, IfThenElse):
        return jumps(body.then_case) or (body.else_case is not None and jumps(body.else_case))
    return isinstance(body, AttrStmt) and jumps(body.body)
