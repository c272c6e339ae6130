"""Emitting statements from Python: what a host class does where a kernel would write source."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ...ir import BufferLoad, Expr, Var
from ..buffers import buffer_store
from ..builder import IfFrame, current, else_frame, evaluate_stmt, then_frame
from ..control import bind
from ..intrinsics import Namespace, make_namespaces


@cache
def namespaces() -> dict[str, Namespace]:
    """``ptx`` and ``cuda``."""
    return make_namespaces()


def call(path: str, *args: Any, **kwargs: Any) -> Expr:
    """A call of an intrinsic by its script name, for example ``ptx.mbarrier.init``."""
    found: Any = None
    for part in path.split("."):
        found = namespaces()[part] if found is None else getattr(found, part)
    made = found(*args, **kwargs)
    assert isinstance(made, Expr)
    return made


def emit_call(path: str, *args: Any, **kwargs: Any) -> None:
    """Emit a call of an intrinsic for its effect."""
    evaluate_stmt(call(path, *args, **kwargs))


def store(scalar: BufferLoad, value: Any) -> None:
    """Assign to a scalar."""
    buffer_store(scalar.buffer, value, list(scalar.indices))


def let(name: str, value: Any) -> Expr:
    """Bind a value to a new variable."""
    var: Var = bind(value)
    current().name(var, name)
    return var


@contextmanager
def if_then(condition: Any) -> Iterator[None]:
    """The statements inside are run if ``condition`` holds; a Python bool decides at once (False emits nothing)."""
    if not isinstance(condition, Expr):
        if not condition:
            raise ValueError("if_then with a constant False; decide it in Python")
        yield
        return
    with IfFrame(condition), then_frame():
        yield


def if_else(condition: Any, then: Any, otherwise: Any) -> None:
    """Emit ``then()`` if ``condition`` holds, else ``otherwise()``; a Python bool decides at once."""
    if not isinstance(condition, Expr):
        (then if condition else otherwise)()
        return
    with IfFrame(condition):
        with then_frame():
            then()
        with else_frame():
            otherwise()
