"""The builder: collects the statements of a function while its source is walked.

One builder is current while a function is parsed.  Everything the script namespace offers works on it, so a Python
function called from a kernel (a pool, a pipeline, a user's own function) can emit statements too.

A *frame* collects the statements of one body.  A frame that is *open* (``device_entry``, ``attr`` used as a statement)
takes all that follows in the enclosing body and closes with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import IRError, Span
from ..ir import (
    AttrStmt,
    Buffer,
    BufferLoad,
    Evaluate,
    Expr,
    IfThenElse,
    IntImm,
    SeqStmt,
    Stmt,
    Var,
    While,
)

_CURRENT: ContextVar[Builder | None] = ContextVar("script_builder", default=None)


class Frame:
    """Collects statements; ``finish`` turns them into one statement of the enclosing frame."""

    def __init__(self, finish: Callable[[Stmt], Stmt | None], value: Any = None) -> None:
        self.finish = finish
        self.value = value
        self.stmts: list[Stmt] = []
        self.is_open = False
        self.span: Span | None = None

    def __enter__(self) -> Any:
        current().push(self)
        return self.value

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        current().pop(self, failed=kind is not None)


class Builder:
    """State of one function under construction."""

    def __init__(self) -> None:
        self.root = Frame(lambda body: body)
        self.frames: list[Frame] = [self.root]
        self.span: Span | None = None
        self.params: list[Var] = []
        self.buffer_map: dict[Var, Buffer] = {}
        self.attrs: dict[str, Any] = {}
        self.ret_type: Any = None
        #: handle parameters that take the type of the buffer they are matched with
        self.untyped: list[Var] = []
        self._unnamed: dict[int, Any] = {}
        self._fresh: list[Any] = []

    # -- statements ---------------------------------------------------------------------------------------------------

    def emit(self, stmt: Stmt) -> None:
        """Add a statement to the innermost frame."""
        self.frames[-1].stmts.append(stmt)

    def push(self, frame: Frame) -> None:
        frame.span = self.span
        self.frames.append(frame)

    def pop(self, frame: Frame, *, failed: bool = False) -> None:
        """Close ``frame`` and the open frames in it."""
        while self.frames[-1] is not frame:
            inner = self.frames[-1]
            if len(self.frames) == 1 or not (inner.is_open or failed):
                raise IRError("a frame is closed out of order")
            self._close(inner, failed)
        self._close(frame, failed)

    def _close(self, frame: Frame, failed: bool) -> None:
        self.frames.pop()
        if not failed:
            made = frame.finish(body_of(frame.stmts))
            if made is not None:
                self.emit(made)

    def open(self, frame: Frame) -> Any:
        """Let ``frame`` take the rest of the current body."""
        frame.is_open = True
        self.push(frame)
        return frame.value

    def finish(self) -> Stmt:
        """The whole body."""
        while len(self.frames) > 1:
            self._close(self.frames[-1], False)
        return body_of(self.root.stmts)

    # -- names --------------------------------------------------------------------------------------------------------

    def unnamed(self, value: Any) -> Any:
        """Mark a new Var or Buffer as waiting for the name of the variable it will be bound to."""
        self._unnamed[id(value)] = value
        return value

    def is_unnamed(self, value: Any) -> bool:
        return id(value) in self._unnamed

    def name(self, value: Any, name: str) -> None:
        """Give a new Var or Buffer its name; one that has a name keeps it."""
        if self._unnamed.pop(id(value), None) is None:
            return
        object.__setattr__(value, "name", name)
        if isinstance(value, Buffer):
            self.name(value.data, name)

    # -- scalars ------------------------------------------------------------------------------------------------------

    def fresh(self, load: BufferLoad) -> BufferLoad:
        """Mark the read of a scalar made in this statement: assigning it binds the scalar, not a copy."""
        self._fresh.append(load)
        return load

    def is_fresh(self, value: Any) -> bool:
        return any(value is f for f in self._fresh)

    def forget_fresh(self) -> None:
        self._fresh.clear()


def body_of(stmts: Iterable[Stmt]) -> Stmt:
    """Statements as one, as TIRx joins them: flattened, no-ops left out; an empty body evaluates 0."""
    flat: list[Stmt] = []
    for s in stmts:
        flat.extend(s.seq if isinstance(s, SeqStmt) else (s,))
    kept = [s for s in flat if not is_no_op(s)]
    if not kept:
        return Evaluate(IntImm("int32", 0))
    return kept[0] if len(kept) == 1 else SeqStmt(tuple(kept))


def is_no_op(stmt: Stmt) -> bool:
    """Whether a statement evaluates the constant 0."""
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, IntImm) and stmt.value.value == 0


def current() -> Builder:
    """The builder of the function being parsed.  Raises IRError outside one."""
    builder = _CURRENT.get()
    if builder is None:
        raise IRError("this is part of a kernel, so it can be used only in a function under @prim_func")
    return builder


def maybe_current() -> Builder | None:
    """The builder of the function being parsed, or None."""
    return _CURRENT.get()


@contextmanager
def building(builder: Builder) -> Any:
    """Make ``builder`` the current one."""
    token = _CURRENT.set(builder)
    try:
        yield builder
    finally:
        _CURRENT.reset(token)


def emit(make: Callable[..., Stmt], *args: Any, **kwargs: Any) -> None:
    """Emit ``make(*args)`` placed at the current source line."""
    builder = current()
    builder.emit(make(*args, **kwargs, span=builder.span))


def evaluate_stmt(value: Expr) -> None:
    """Emit an Evaluate of ``value``."""
    emit(Evaluate, value)


# -- frames -----------------------------------------------------------------------------------------------------------


def attr_frame(node: Any, key: str, value: Any) -> Frame:
    """A body under an attribute."""
    span = current().span
    return Frame(lambda body: AttrStmt(node, key, value, body, span=span))


def while_frame(condition: Expr) -> Frame:
    """The body of a while loop."""
    span = current().span
    return Frame(lambda body: While(condition, body, span=span))


class IfFrame(Frame):
    """An if statement; ``Then`` and ``Else`` frames in it give the branches."""

    def __init__(self, condition: Expr) -> None:
        super().__init__(self._finish)
        self.condition = condition
        self.then_case: Stmt | None = None
        self.else_case: Stmt | None = None

    def _finish(self, body: Stmt) -> Stmt:
        if self.stmts:
            raise IRError("statements in an If belong in its Then or Else")
        if self.then_case is None:
            raise IRError("an If without a Then")
        return IfThenElse(self.condition, self.then_case, self.else_case, span=self.span)


def _branch(name: str, field: str) -> Frame:
    frame = current().frames[-1]
    if not isinstance(frame, IfFrame):
        raise IRError(f"a {name} outside an If")

    def finish(body: Stmt) -> None:
        if getattr(frame, field) is not None:
            raise IRError(f"an If has two {name} branches")
        setattr(frame, field, body)

    return Frame(finish)


def then_frame() -> Frame:
    """The branch taken when the condition of the enclosing If holds."""
    return _branch("Then", "then_case")


def else_frame() -> Frame:
    """The branch taken when the condition of the enclosing If doesn't hold."""
    return _branch("Else", "else_case")
