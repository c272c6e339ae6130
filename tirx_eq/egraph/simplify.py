"""Simplify index expressions: encode, saturate, extract, validate."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.index import Ranges, Term, as_term, check, variables_checked
from . import encode, extract
from .batch import simplify_rows
from .cost import DEFAULT, CostTable
from .facts import gather
from .normal import Normal
from .result import Simplified, checked_equal, choose
from .saturation import ROUNDS, ROUNDS_ALONE, Budget, saturate
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
) -> Simplified:
    """``term`` made cheaper under ``ranges`` (inclusive); arguments and errors as for ``simplify_all``."""
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
        [(term, ranges)], table=table, budget=budget or Budget(), optimal=optimal, check_result=check_result
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
    source, encoder = encode.Encoder(encode.WIDE), encode.Encoder()
    normal = Normal(source, encoder, facts.align)

    def node(term: Term) -> int:
        if not fast:
            return encoder.add_term(term, facts.ranges)
        return normal.build(source.add_term(term, facts.ranges))

    roots: dict[int, int] = {}
    for i, t in enumerate(terms):
        try:
            roots[i] = node(t)
        except encode.TooBig:
            continue
    relations = []
    for a, b, kind in facts.relations:
        try:
            relations.append((node(a), node(b), kind))
        except encode.TooBig:
            continue
    for a, k in facts.multiples:
        try:
            relations.append((node(a), k, "al"))
        except encode.TooBig:
            continue
    results: list[Term] = list(terms)
    steps: tuple[str, ...] = ()
    if roots:
        bounds = budget or Budget(rounds=ROUNDS if fast else ROUNDS_ALONE)
        done = saturate(encoder, list(roots.values()), bounds, strength=optimal, facts=relations)
        steps = done.fired
        classes: dict[int, int] = dict(done.graph.tables["root"])
        chosen = choose(done.graph, [list(classes.values())], table, optimal)[0]
        memo: dict[int, Term] = {}
        for r, i in enumerate(roots):
            results[i] = extract.build(classes[r], chosen, encode.decode, memo)
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
