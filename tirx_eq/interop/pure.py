"""Which expressions of a function are index arithmetic, and which may be copied, dropped and moved."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .. import ir
from ..ir import dtype as dt
from ..ir.node import fields

#: Calls whose value depends on their arguments alone, so they may be copied and dropped.
_PURE_CALLS = (
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right", "popcount", "clz", "abs",
)  # fmt: skip


def is_index(e: ir.Expr) -> bool:
    """Whether an expression is a scalar of integer or bool type."""
    return dt.kind(e.dtype) in ("int", "uint", "bool") and dt.lanes(e.dtype) == 1


def is_pure(e: Any) -> bool:
    """Whether an expression has no effect and the same value each time: arithmetic on variables and loads."""
    if isinstance(e, (ir.Opaque, ir.Reduce)):
        return False
    if isinstance(e, ir.Call) and e.op.name.removeprefix("tirx.") not in _PURE_CALLS:
        return False
    if isinstance(e, (ir.Var, ir.Buffer)) or not isinstance(e, (ir.Expr, tuple)):
        return True
    children = e if isinstance(e, tuple) else [v for _, v in fields(e)]
    return all(is_pure(c) for c in children)


def loads(e: Any) -> Iterator[ir.BufferLoad]:
    """The outermost loads in an expression."""
    if isinstance(e, ir.BufferLoad):
        yield e
    elif isinstance(e, (ir.Expr, tuple)) and not isinstance(e, ir.Var):
        for child in e if isinstance(e, tuple) else [v for _, v in fields(e)]:
            yield from loads(child)
