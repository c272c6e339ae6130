"""A function body as a flat list of steps, so that each thread has just a position in it.

Threads at one position run together; the scheduler always takes the lowest position, which brings threads that went
different ways together again where their ways meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..ir import AttrStmt, Break, Continue, Expr, For, IfThenElse, Return, SeqStmt, Stmt, While
from .faults import InterpreterError


@dataclass(frozen=True, eq=False)
class Step:
    """``run`` a statement; ``branch`` to ``target`` unless the condition holds; ``jump``; ``enter``, ``test`` and
    ``next`` of a for loop (``test`` goes to ``target`` at its end); ``stop``."""

    kind: str
    stmt: Any = None
    condition: Expr | None = None
    target: int = -1


class _Flatten:
    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.fixes: list[int] = []

    def emit(self, kind: str, stmt: Any = None, condition: Expr | None = None, target: int = -1) -> int:
        self.steps.append(Step(kind, stmt, condition, target))
        return len(self.steps) - 1

    def land(self, places: list[int], target: int | None = None) -> None:
        """Let the steps at ``places`` go to ``target`` (default: here)."""
        where = len(self.steps) if target is None else target
        for p in places:
            s = self.steps[p]
            self.steps[p] = Step(s.kind, s.stmt, s.condition, where)

    def block(self, stmt: Stmt, breaks: list[int] | None, continues: list[int] | None) -> None:
        if isinstance(stmt, SeqStmt):
            for s in stmt.seq:
                self.block(s, breaks, continues)
        elif isinstance(stmt, AttrStmt):
            if stmt.attr_key == "thread_extent":
                raise InterpreterError(
                    "thread_extent attributes are not interpreted", hint="use scope ids", span=stmt.span
                )
            self.block(stmt.body, breaks, continues)
        elif isinstance(stmt, IfThenElse):
            skip = self.emit("branch", stmt, stmt.condition)
            self.block(stmt.then_case, breaks, continues)
            if stmt.else_case is not None:
                end = self.emit("jump", stmt)
                self.land([skip])
                self.block(stmt.else_case, breaks, continues)
                self.land([end])
            else:
                self.land([skip])
        elif isinstance(stmt, For):
            self._for(stmt)
        elif isinstance(stmt, While):
            test = self.emit("branch", stmt, stmt.condition)
            inner_breaks: list[int] = []
            inner_continues: list[int] = []
            self.block(stmt.body, inner_breaks, inner_continues)
            self.emit("jump", stmt, target=test)
            self.land(inner_continues, test)
            self.land([test, *inner_breaks])
        elif isinstance(stmt, (Break, Continue)):
            places = breaks if isinstance(stmt, Break) else continues
            if places is None:
                raise InterpreterError(f"a {type(stmt).__name__.lower()} outside of a loop", span=stmt.span)
            places.append(self.emit("jump", stmt))
        elif isinstance(stmt, Return):
            self.emit("stop", stmt)
        else:
            self.emit("run", stmt)

    def _for(self, stmt: For) -> None:
        if stmt.kind == "thread_binding":
            raise InterpreterError("a loop bound to threads is not interpreted", hint="use scope ids", span=stmt.span)
        self.emit("enter", stmt)
        test = self.emit("test", stmt)
        breaks: list[int] = []
        continues: list[int] = []
        self.block(stmt.body, breaks, continues)
        step = self.emit("next", stmt, target=test)
        self.land(continues, step)
        self.land([test, *breaks])


def flatten(body: Stmt) -> tuple[Step, ...]:
    """The steps of a body; the last one is ``stop``."""
    made = _Flatten()
    made.block(body, None, None)
    made.emit("stop")
    return tuple(made.steps)
