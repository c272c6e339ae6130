"""Simplify index expressions: encode, saturate, extract, validate."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..ir.index import Ranges, Term, as_term, check, variables_checked
from .batch import simplify_rows
from .branches import with_branches
from .cost import DEFAULT, CostTable, cost
from .facts import gather
from .joint import solve_together, solve_under
from .result import Simplified, checked_equal
from .saturation import ROUNDS, ROUNDS_ALONE, Budget
from .table import TermTable

__all__ = ["Simplified", "simplify", "simplify_all"]


def simplify(
    term: Term,
    ranges: Ranges,
    *,
    assume: Sequence[Term] = (),
    table: CostTable = DEFAULT,
    budget: Budget | None = None,
    optimal: bool = False,
    check_result: bool = True,
    traced: bool = False,
) -> Simplified:
    """``term`` made cheaper under ``ranges`` (inclusive); arguments and errors as for ``simplify_all``.

    ``traced``: whether to search also where the cheapest term can be constructed, so that ``steps`` names the rules.
    """
    term = as_term(term)
    if assume:
        return simplify_all(
            [term],
            ranges,
            assume=assume,
            table=table,
            budget=budget,
            optimal=optimal,
            check_result=check_result,
        )[0]
    result = simplify_rows(
        [(term, ranges)], table=table, budget=budget or Budget(), optimal=optimal, check_result=check_result, traced=traced
    )[0]
    if isinstance(result, Simplified):
        return result
    raise result


def simplify_all(
    terms: Sequence[Term],
    ranges: Ranges,
    *,
    assume: Sequence[Term] = (),
    table: CostTable = DEFAULT,
    budget: Budget | None = None,
    optimal: bool = False,
    check_result: bool = True,
    fast: bool = True,
) -> list[Simplified]:
    """Simplify ``terms`` (nested tuples, or text such as ``(add x 1)``) together in one e-graph; results in the same order.

    ``assume``: conditions known to hold (of enclosing branches and loops, asserts, divisibility of shapes).
    ``table``: what operations cost.  ``budget``: bounds of the run; what was found within them is used.
    ``optimal``: exact extraction over all terms together (needs ``highspy``) and strength-reduced forms.
    ``fast``: whether the linear normal form goes first; without it the rules do everything.
    ``check_result``: validate every result; one that is not proved equal is dropped for its input.

    Raises ``EvaluationError`` for an undeclared name, an empty range, or a division by a constant zero; ``ParseError``
    for something that is not a term.  An expression beyond 64-bit constants or beyond the budget comes back as it is.
    """
    terms, assume = [as_term(t) for t in terms], [as_term(t) for t in assume]
    for t in (*terms, *assume):
        check(t)
    variables_checked([*terms, *assume], ranges)
    facts = gather(assume, ranges)
    bounds = budget or Budget(rounds=ROUNDS if fast else ROUNDS_ALONE)
    results, steps = solve_together(terms, facts, table, bounds, optimal=optimal, fast=fast)
    inside = with_branches([(t, facts.ranges) for t in terms], partial(solve_under, table=table)) if fast else ()
    if any(t is not None for t in inside):
        others, more = solve_together(
            [t if new is None else new for t, new in zip(terms, inside)], facts, table, bounds, optimal=optimal
        )
        if cost(others, table) < cost(results, table):
            results, steps = others, tuple(sorted({*steps, *more}))
    numbers = TermTable(table)
    return [_finish(t, r, ranges, assume, numbers, steps, check_result) for t, r in zip(terms, results)]


def _finish(
    before: Term,
    after: Term,
    ranges: Ranges,
    assume: Sequence[Term],
    numbers: TermTable,
    steps: tuple[str, ...],
    checked: bool,
) -> Simplified:
    first, last = numbers.add(before), numbers.add(after)
    cost_in, cost_out = numbers.cost(first), numbers.cost(last)
    if cost_out > cost_in or first == last:
        return Simplified(before, cost_in, cost_in, (), "identity")
    if not checked:
        return Simplified(after, cost_out, cost_in, steps, "unchecked")
    decided_by = checked_equal(before, after, ranges, assume)
    if decided_by is None:
        return Simplified(before, cost_in, cost_in, (), "identity")
    return Simplified(after, cost_out, cost_in, steps, decided_by)
