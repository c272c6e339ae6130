"""Loops, attributes, conditions, bindings and assertions of the script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import IRError
from ..ir import (
    AssertStmt,
    Bind,
    Break,
    Call,
    Continue,
    Evaluate,
    Expr,
    For,
    IntImm,
    IterVar,
    Let,
    PointerType,
    PrimType,
    Range,
    Return,
    Stmt,
    StringImm,
    Var,
    const,
)
from ..ir import dtype as dt
from ..ir.linear import difference
from .builder import Frame, IfFrame, attr_frame, current, emit, while_frame
from .values import Dtype, as_expr, attribute_value, new_var, pointer_type

#: calls that stand for statements
_STATEMENT_CALLS: dict[str, type[Stmt]] = {"tirx.break_loop": Break, "tirx.continue_loop": Continue}


class ForFrame(Frame):
    """One loop or a nest of loops over one body; ``value`` is the loop variable, or the tuple of them."""

    def __init__(self, loops: Sequence[dict[str, Any]], *, many: bool = False) -> None:
        self.loops = loops
        variables = tuple(loop["loop_var"] for loop in loops)
        super().__init__(self._finish, variables if many or len(variables) != 1 else variables[0])

    def _finish(self, body: Stmt) -> Stmt:
        for loop in reversed(self.loops):
            body = For(body=body, span=self.span, **loop)
        return body


def _loop(
    kind: str, start: Any, stop: Any, annotations: Any = None, step: Any = None, thread: Any = None, extent: Any = None
) -> dict[str, Any]:
    low, high = _bounds(start, stop if extent is None else start)
    if step is not None:
        step = as_expr(step)
        if isinstance(step, IntImm) and int(step) < 1:
            raise IRError(f"the step of a loop must be positive, got {int(step)}")
    binding = None
    if thread is not None:
        binding = thread
        if isinstance(thread, str):
            binding = IterVar(None, Var("iter", PrimType("int32")), "ThreadIndex", thread)
    size = difference(high, low) if extent is None else as_expr(extent)
    if not dt.is_integer(size.dtype):
        raise IRError(f"the extent of a loop must be an integer, got {size.dtype}")
    return {
        "loop_var": new_var(PrimType(low.dtype)), "min": low, "extent": size, "kind": kind,
        "thread_binding": binding, "annotations": attribute_value(dict(annotations or {}), "an annotation of a loop"),
        "step": step,
    }  # fmt: skip


def _bounds(start: Any, stop: Any) -> tuple[Expr, Expr]:
    if stop is None:
        start, stop = 0, start
    if isinstance(start, Expr) and not isinstance(stop, Expr):
        stop = const(stop, start.dtype)
    elif isinstance(stop, Expr) and not isinstance(start, Expr):
        start = const(start, stop.dtype)
    low, high = as_expr(start), as_expr(stop)
    for bound in (low, high):
        if not dt.is_integer(bound.dtype):
            raise IRError(f"the bounds of a loop must be integers, got {bound.dtype}")
    if dt.bits(low.dtype) < dt.bits(high.dtype):
        low = low.astype(high.dtype)
    elif dt.bits(high.dtype) < dt.bits(low.dtype):
        high = high.astype(low.dtype)
    return low, high


def serial(
    start: Any, stop: Any = None, *, annotations: Any = None, step: Any = None, unroll: bool | None = None,
    extent: Any = None,
) -> ForFrame:  # fmt: skip
    """A loop over start, start+step, … below stop (``serial(n)`` from 0).

    ``extent`` instead of ``stop`` gives the number of values as it stands.
    """
    notes = dict(annotations or {})
    if unroll is not None:
        notes["pragma_unroll" if unroll else "disable_unroll"] = True
    return ForFrame([_loop("serial", start, stop, notes, step, None, extent)])


def _kind_of_loop(kind: str, doc: str) -> Callable[..., ForFrame]:
    def make(
        start: Any, stop: Any = None, *, annotations: Any = None, step: Any = None, extent: Any = None
    ) -> ForFrame:
        return ForFrame([_loop(kind, start, stop, annotations, step, None, extent)])

    make.__doc__ = doc
    return make


parallel = _kind_of_loop("parallel", "A loop whose iterations may run in any order at once.")
vectorized = _kind_of_loop("vectorized", "A loop whose iterations are the lanes of vectors.")
unroll = _kind_of_loop("unrolled", "A loop that is unrolled.")


def thread_binding(
    start: Any, stop: Any = None, thread: Any = None, *, annotations: Any = None, step: Any = None, extent: Any = None
) -> ForFrame:
    """A loop whose iterations are threads: ``thread_binding(128, thread="threadIdx.x")``."""
    if thread is None and isinstance(stop, str):
        stop, thread = None, stop
    if thread is None:
        raise IRError('thread_binding needs the thread axis, for example thread="threadIdx.x"')
    return ForFrame([_loop("thread_binding", start, stop, annotations, step, thread, extent)])


def grid(*extents: Any) -> ForFrame:
    """Nested loops, one per extent (or pair of start and extent)."""
    if not extents:
        raise IRError("grid needs at least one extent")
    pairs = [e if isinstance(e, tuple) else (None, e) for e in extents]
    loops = [_loop("serial", n, None) if s is None else _loop("serial", s, None, extent=n) for s, n in pairs]
    return ForFrame(loops, many=True)


class FrameGroup:
    """Several frames entered as one."""

    def __init__(self, frames: list[Frame]) -> None:
        self.frames = frames

    def __enter__(self) -> Any:
        return tuple(f.__enter__() for f in self.frames)

    def __exit__(self, *error: Any) -> None:
        for f in reversed(self.frames):
            f.__exit__(*error)


def attr(node_or_dict: Any, attr_key: str | None = None, value: Any = None) -> Frame | FrameGroup:
    """An attribute of a body: ``attr({"key": value, …})`` or ``attr(node, "key", value)``.

    As a statement it holds for the rest of the body; in a ``with`` for the block.
    """
    if isinstance(node_or_dict, dict) and attr_key is None:
        frames = [attr_frame(0, str(k), _attr_value(v)) for k, v in node_or_dict.items()]
        if not frames:
            raise IRError("attr needs at least one key")
        return frames[0] if len(frames) == 1 else FrameGroup(frames)
    if attr_key is None or value is None:
        raise IRError("attr takes a dict, or a node, a key and a value")
    return attr_frame(attribute_value(node_or_dict, "the node of an attribute"), attr_key, _attr_value(value))


def hint(message: str = "", **attrs: Any) -> Frame:
    """A hint for what follows (or for the block of a ``with``)."""
    node = attribute_value({"message": message, **attrs}, "a hint")
    return attr_frame(node, "tirx_hint", IntImm("int32", 1))


def _attr_value(value: Any) -> Any:
    return const(value) if isinstance(value, (bool, int, float, str)) else as_expr(value)


def launch_thread(thread: Any, extent: Any) -> Frame:
    """A body run by ``extent`` threads along a thread axis (``"threadIdx.x"``, or an axis from ``env_thread``)."""
    size = as_expr(extent)
    axis = env_thread(thread, size.dtype) if isinstance(thread, str) else thread
    bound = IterVar(Range(IntImm(size.dtype, 0), size), axis.var, "ThreadIndex", axis.thread_tag)
    frame = attr_frame(bound, "thread_extent", size)
    frame.value = bound.var
    return frame


def env_thread(thread_tag: str, dtype: str = "int32") -> IterVar:
    """A thread axis by its tag."""
    return IterVar(None, new_var(PrimType(dtype)), "ThreadIndex", thread_tag)


def _condition(value: Any, what: str) -> Expr:
    if isinstance(value, bool):
        raise IRError(
            f"the condition of {what} is the Python value {value}",
            hint="in a Python function == and != compare expressions as objects; write Tx.EQ(a, b) or Tx.NE(a, b)",
        )
    return as_expr(value)


def while_loop(condition: Any) -> Frame:
    """The body of a while loop, for ``with``."""
    return while_frame(_condition(condition, "While"))


def if_frame(condition: Any) -> IfFrame:
    """An if statement, for ``with``: see ``Then`` and ``Else``."""
    return IfFrame(_condition(condition, "If"))


def evaluate(value: Any) -> None:
    """Emit an evaluation for its effect."""
    expr = as_expr(value)
    if isinstance(expr, Call) and expr.op.name in _STATEMENT_CALLS:
        emit(_STATEMENT_CALLS[expr.op.name])
    else:
        emit(Evaluate, expr)


def bind(value: Any, type_annotation: Any = None, *, var: Var | None = None) -> Var:
    """Emit the binding of a value to a variable, and return the variable."""
    expr = as_expr(value)
    if var is None:
        if isinstance(type_annotation, Dtype):
            type_annotation = type_annotation()
        ty = type_annotation.ty if isinstance(type_annotation, Var) else type_annotation
        var = new_var(ty or pointer_type(expr) or PrimType(expr.dtype))
    assert var is not None
    if var.dtype != expr.dtype and not (isinstance(var.ty, PointerType) and expr.dtype == "handle"):
        expr = expr.astype(var.dtype)
    emit(Bind, var, expr)
    return var


def let_expr(expr: Any, where: dict[Var, Any]) -> Expr:
    """``expr`` with a variable standing for a value."""
    if not isinstance(where, dict) or len(where) != 1:
        raise IRError("Let takes exactly one variable in where=")
    ((var, value),) = where.items()
    if not isinstance(var, Var):
        raise IRError(f"Let needs a variable in where=, got {type(var).__name__}")
    return Let(var, as_expr(value, var.dtype), as_expr(expr))


def assert_stmt(condition: Any, message: Any = (), error_kind: str = "RuntimeError") -> None:
    """Emit an assertion."""
    parts = message if isinstance(message, (list, tuple)) else [message]
    texts = tuple(p.value if isinstance(p, StringImm) else str(p) for p in parts)
    emit(AssertStmt, as_expr(condition), error_kind, texts)


def return_stmt(value: Any = None) -> None:
    """Emit the end of the function."""
    emit(Return, None if value is None else as_expr(value))


def break_stmt() -> None:
    """Emit a Break."""
    emit(Break)


def continue_stmt() -> None:
    """Emit a Continue."""
    emit(Continue)


def func_attr(attrs: dict[str, Any]) -> None:
    """Set attributes of the function."""
    if not isinstance(attrs, dict):
        raise IRError(f"func_attr takes a dict, got {type(attrs).__name__}")
    current().attrs.update(attribute_value(attrs, "an attribute of a function"))


def func_ret(ret_type: Any) -> None:
    """Set the return type of the function."""
    current().ret_type = ret_type
