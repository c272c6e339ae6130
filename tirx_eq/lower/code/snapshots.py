"""Loads and calls in expressions replaced by expressions that keep their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ir import BufferLoad, Call, Expr
from ...ir.functor import ExprMutator
from ...ir.node import replace


def replace_reads(node: Any, value: Callable[[BufferLoad | Call], Expr | None]) -> Any:
    """``node`` with each load or call for which ``value`` gives an expression replaced by it, also in indices of loads.

    A load whose address is taken isn't one; its indices are.
    """

    return _Replace(value).visit(node)


class _Replace(ExprMutator):
    def __init__(self, value: Callable[[BufferLoad | Call], Expr | None]) -> None:
        self.value = value

    def visit_buffer_load(self, load: BufferLoad) -> Any:
        new = self.value(load)
        return self.visit_children(load) if new is None else new

    def visit_call(self, call: Call) -> Any:
        if call.op.name == "tirx.address_of" and isinstance(call.args[0], BufferLoad):
            return replace(call, args=(self.visit_children(call.args[0]), *call.args[1:]))
        new = self.value(call)
        return self.visit_children(call) if new is None else new
