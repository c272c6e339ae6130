"""Tile calls bound by ``dispatch=`` to a variant that isn't the cheapest, by the machine model of the lowering."""

from __future__ import annotations

from typing import Any

from .. import ir
from ..errors import TirxError
from ..ir.node import replace
from .findings import Audit, Finding


def _unbound(func: ir.PrimFunc) -> ir.PrimFunc:
    class Free(ir.StmtMutator):
        def visit_tile_primitive_call(self, value: ir.TilePrimitiveCall) -> Any:
            return replace(value, dispatch=None)

    return func.with_body(Free().visit(func.body))


def check(func: ir.PrimFunc, result: Audit) -> list[Finding]:
    """A hint per call whose variant, named by ``dispatch``, costs more than the one that would be chosen freely.

    A kernel that can't be lowered here isn't priced, and ``result.not_priced`` says why.
    """
    free = _unbound(func)
    if free is func:
        return []
    from ..lower.kernel import compile_function

    try:
        bound, best = compile_function(func), compile_function(free)
    except TirxError as e:
        result.not_priced = e.message
        return []
    found = []
    for mine, theirs in zip(bound.calls, best.calls):
        a, b = mine.choice.chosen, theirs.choice.chosen
        if b.cycles < a.cycles:
            found.append(Finding(
                "tile variant", "hint", mine.choice.context.op,
                f"{a.describe()} takes {a.cycles:.0f} modelled cycles, {b.describe()} takes {b.cycles:.0f}",
                "the machine model; both move every element, as proved", "leave out dispatch=",
                mine.choice.context.span,
            ))  # fmt: skip
    return found
