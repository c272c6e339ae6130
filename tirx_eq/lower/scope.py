"""Index scopes of the lowering: names, ranges, and intervals of terms."""

from __future__ import annotations

from ..ir import Expr, IntImm, const
from ..ir.index import Term, evaluate_many, names
from ..ir.index_ir import IndexScope
from ..prove.table import Table


def bounds(term: Term, ranges: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """An interval that encloses the term over the ranges."""
    table = Table({n: ranges[n] for n in names(term) if n in ranges})
    return table.interval[table.add(term)]


def new_scope() -> IndexScope:
    """An index scope that sees through conversions of values that fit."""
    return IndexScope(bounds)


def folded(e: Expr) -> Expr:
    """An index expression without variables as a number, any other as it is."""
    if isinstance(e, IntImm):
        return e
    term = new_scope().term(e)
    return e if names(term) else const(int(evaluate_many(term, {})), e.dtype)
