"""Statement nodes.

Declarations (``Bind``, ``AllocBuffer``, ``DeclBuffer``, ``ScopeIdDefStmt``) are flat members of a ``SeqStmt`` and
visible to what follows in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

from ..errors import IRError, Span
from . import dtype as dt
from .buffer import Buffer
from .exec_scope import ScopeIdDef
from .expr import Expr, IterVar, Var
from .node import node

FOR_KINDS = ("serial", "parallel", "vectorized", "unrolled", "thread_binding")


class Stmt:
    """Base of all statements."""

    span: Span | None


def _span() -> Any:
    return field(default=None, compare=False, repr=False, kw_only=True)


@node("tirx.SeqStmt")
class SeqStmt(Stmt):
    """Statements in order."""

    seq: tuple[Stmt, ...] = ()
    span: Span | None = _span()


@node("tirx.Bind")
class Bind(Stmt):
    """``var`` has ``value`` in the rest of the sequence."""

    var: Var
    value: Expr
    span: Span | None = _span()


@node("tirx.AllocBuffer")
class AllocBuffer(Stmt):
    """Storage for ``buffer``, alive in the rest of the sequence."""

    buffer: Buffer
    annotations: dict[str, Any] = field(default_factory=dict)
    span: Span | None = _span()


@node("tirx.DeclBuffer")
class DeclBuffer(Stmt):
    """A view: ``buffer`` uses storage that exists already (its ``data`` variable is that of what it views).

    ``data``, when given, is the expression of the pointer (a TMEM buffer has none: its address is ``allocated_addr``).
    """

    buffer: Buffer
    data: Expr | None = None
    span: Span | None = _span()


@node("tirx.ScopeIdDefStmt")
class ScopeIdDefStmt(Stmt):
    """Declares scope ids (``cta_id``, ``warp_id``, …)."""

    definition: ScopeIdDef
    span: Span | None = _span()


@node("tirx.AttrStmt")
class AttrStmt(Stmt):
    """``body`` under the attribute ``attr_key`` of ``node`` with ``value``.

    ``device_entry`` is ``AttrStmt("tirx.device_entry"-keyed, True, body)``; ``thread_extent`` has an IterVar as node.
    """

    node: Any
    attr_key: str
    value: Any
    body: Stmt
    span: Span | None = _span()


@node("tirx.For")
class For(Stmt):
    """``body`` for ``loop_var`` in min, min+step, … below min+extent."""

    loop_var: Var
    min: Expr
    extent: Expr
    kind: str
    body: Stmt
    thread_binding: IterVar | None = None
    annotations: dict[str, Any] = field(default_factory=dict)
    step: Expr | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if self.kind not in FOR_KINDS:
            raise IRError(f"'{self.kind}' is not a kind of loop", hint=f"one of {', '.join(FOR_KINDS)}")


@node("tirx.While")
class While(Stmt):
    """``body`` as long as ``condition`` holds."""

    condition: Expr
    body: Stmt
    span: Span | None = _span()


@node("tirx.IfThenElse")
class IfThenElse(Stmt):
    """``then_case`` if ``condition`` holds, else ``else_case`` (which may be absent)."""

    condition: Expr
    then_case: Stmt
    else_case: Stmt | None = None
    span: Span | None = _span()


@node("tirx.BufferStore")
class BufferStore(Stmt):
    """``buffer[indices] = value`` (logical coordinates)."""

    buffer: Buffer
    value: Expr
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if len(self.indices) != self.buffer.ndim:
            raise IRError(
                f"buffer '{self.buffer.name}' has {self.buffer.ndim} dimensions, "
                f"but is stored to with {len(self.indices)} indices"
            )
        if dt.element(self.value.dtype) != dt.element(self.buffer.dtype):
            raise IRError(
                f"a value of {self.value.dtype} can't be stored in '{self.buffer.name}' of {self.buffer.dtype}",
                hint="convert it with astype or Tx.cast",
            )


@node("tirx.Evaluate")
class Evaluate(Stmt):
    """``value`` for its effect."""

    value: Expr
    span: Span | None = _span()


@node("tirx.AssertStmt")
class AssertStmt(Stmt):
    """Stops with an error unless ``condition`` holds; a fact for what follows."""

    condition: Expr
    error_kind: str = "RuntimeError"
    message_parts: tuple[str, ...] = ()
    span: Span | None = _span()


@node("tirx.Break")
class Break(Stmt):
    """Leaves the innermost loop."""

    span: Span | None = _span()


@node("tirx.Continue")
class Continue(Stmt):
    """Goes to the next iteration of the innermost loop."""

    span: Span | None = _span()


@node("tirx.Return")
class Return(Stmt):
    """Ends the function, with a value if it has one."""

    value: Expr | None = None
    span: Span | None = _span()


def seq(stmts: Iterable[Stmt]) -> Stmt:
    """The statements as one: nested sequences are flattened and a single statement stands for itself."""
    flat: list[Stmt] = []
    for s in stmts:
        flat.extend(s.seq if isinstance(s, SeqStmt) else (s,))
    return flat[0] if len(flat) == 1 else SeqStmt(tuple(flat))
