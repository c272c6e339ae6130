"""How control leaves a statement other than at its end, told from its form alone."""

from __future__ import annotations

from ...ir import AttrStmt, Break, Continue, For, IfThenElse, Return, SeqStmt, Stmt, While


def always_jumps(s: Stmt) -> bool:
    """Whether what follows ``s`` is never reached through it."""
    if isinstance(s, SeqStmt):
        return any(map(always_jumps, s.seq))
    if isinstance(s, IfThenElse):
        return s.else_case is not None and always_jumps(s.then_case) and always_jumps(s.else_case)
    return isinstance(s, (Break, Continue, Return)) or (isinstance(s, AttrStmt) and always_jumps(s.body))


def has_jump(s: Stmt) -> bool:
    """Whether a break or continue of the enclosing loop, or a return, is in ``s``."""
    if isinstance(s, (Break, Continue, Return)):
        return True
    return not isinstance(s, (For, While)) and any(map(has_jump, inner_statements(s)))


def returns(s: Stmt) -> bool:
    """Whether a return is in ``s``."""
    return isinstance(s, Return) or any(map(returns, inner_statements(s)))


def inner_statements(s: Stmt) -> tuple[Stmt, ...]:
    """The statements right within a statement."""
    if isinstance(s, SeqStmt):
        return s.seq
    if isinstance(s, IfThenElse):
        return (s.then_case,) if s.else_case is None else (s.then_case, s.else_case)
    return (s.body,) if isinstance(s, (For, While, AttrStmt)) else ()
