"""``break`` and ``continue`` that no loop is around."""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import Break, Continue, For, PrimFunc, StmtVisitor, While


def check_jumps(func: PrimFunc) -> None:
    """Raise LoweringError, at its place, for a jump that leaves no loop."""
    _Jumps().visit(func.body)


class _Jumps(StmtVisitor):
    depth = 0

    def _loop(self, value: For | While) -> None:
        self.depth += 1
        self.visit_children(value)
        self.depth -= 1

    def visit_for(self, value: For) -> None:
        self._loop(value)

    def visit_while(self, value: While) -> None:
        self._loop(value)

    def visit_break(self, value: Break) -> None:
        self._jump(value, "break")

    def visit_continue(self, value: Continue) -> None:
        self._jump(value, "continue")

    def _jump(self, value: Break | Continue, what: str) -> None:
        if not self.depth:
            raise LoweringError(f"'{what}' outside of a loop", span=value.span)
