"""Regions of tile calls that certainly reach beyond their buffer: wherever they begin, or in a CTA that certainly gets there.

A tensor copy with ``oob`` may overhang.  Without it what is outside has no meaning, whatever an instruction makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from ...errors import LoweringError
from ...ir import IntImm
from ...ir.index import EvaluationError, Term, evaluate, names, show
from ...ir.index_ir import IndexScope
from ..context import CallContext, Operand
from ..facts.guards import Guard
from ..scope import bounds

SPACES = frozenset(("global", "shared", "cluster"))


def check_regions(contexts: Sequence[CallContext]) -> None:
    """Raise LoweringError for a call with a region that certainly reaches beyond its buffer."""
    for c in contexts:
        if c.call.config.get("oob") is None and c.call.config.get("gather4") is None:
            for o in c.operands.values():
                if o.root.space in SPACES:
                    _check(c, o)


def _check(c: CallContext, o: Operand) -> None:
    shape = o.buffer.const_shape()
    if shape is None:
        return
    scope = c.scope_with()
    for d, (r, extent, whole) in enumerate(zip(o.region.region, o.extents, shape)):
        if isinstance(r.min, IntImm) and 0 <= r.min.value and r.min.value + extent <= whole:
            continue
        term = c.term(r.min, scope)
        low, high = bounds(term, scope.ranges)
        first: int | None = low if low + extent > whole else high if high < 0 else None
        where = "" if low == high else f", where {show(term, limit=60)} is {first}"
        if first is None:
            for point in _reached(c, term, scope):
                value = evaluate(term, point)
                if not 0 <= value <= whole - extent:
                    first = value
                    where = ", at " + ", ".join(f"{n} = {v}" for n, v in sorted(point.items()) if n in names(term))
                    break
        if first is not None:
            raise LoweringError(
                f"'{c.op}' is given elements {first} to {first + extent - 1} of dimension {d} of '{o.buffer.name}', which has "
                f"{whole}{where}",
                hint="tensor copies with oob=\"zero\" or \"nan\" may overhang their array", span=c.span,
            )  # fmt: skip


def _reached(c: CallContext, term: Term, scope: IndexScope) -> Iterator[dict[str, int]]:
    """The corners of the grid from which the call is certainly made, if the term depends on nothing but the CTA."""
    special = {scope.name(v): r for r, v in c.launch.special.items()}
    grid = {n for n, r in special.items() if r.startswith("ctaid.")}
    if c.looped or c.active.data_dependent or not c.active.mask.any() or not all(isinstance(e, int) for e in c.launch.grid):
        return
    # Conditions on the thread alone are what the active threads are known by.
    deciding = [g for g in c.guards if not _on_threads(g, c)]
    conditions = [scope.term(g.condition) for g in deciding]
    used = set(names(term)).union(*map(names, conditions))
    if not used <= grid:
        return
    ordered = sorted(used)
    for corner in product(*(sorted({*scope.ranges[n]}) for n in ordered)):
        point = dict(zip(ordered, corner))
        try:
            if all(evaluate(t, point) for t in conditions):
                yield point
        except EvaluationError:
            continue


def _on_threads(guard: Guard, c: CallContext) -> bool:
    return guard.variables <= {v for r, v in c.launch.special.items() if r.startswith("tid.")}
