"""Several terms over the same variables through one e-graph, with facts about them, extracted together."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.index import Ranges, Term
from . import encode, extract
from .cost import DEFAULT, CostTable
from .facts import Facts, gather
from .normal import Normal
from .result import choose
from .saturation import Budget, saturate


def solve_together(
    terms: Sequence[Term], facts: Facts, table: CostTable, budget: Budget, *, optimal: bool = False, fast: bool = True
) -> tuple[list[Term], tuple[str, ...]]:
    """The cheapest equal of each term under ``facts``, and the rules that fired; nothing here is validated.

    ``fast``: whether the linear normal form goes first.  A term beyond 64-bit constants comes back as it is.
    """
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
    if not roots:
        return results, ()
    done = saturate(encoder, list(roots.values()), budget, strength=optimal, facts=relations)
    classes: dict[int, int] = dict(done.graph.tables["root"])
    chosen = choose(done.graph, [list(classes.values())], table, optimal)[0]
    memo: dict[int, Term] = {}
    for r, i in enumerate(roots):
        if r not in classes:
            continue  # a number too big for the e-graph
        results[i] = extract.build(classes[r], chosen, encode.decode, memo)
    return results, done.fired


def solve_under(terms: Sequence[Term], ranges: Ranges, assume: Sequence[Term], table: CostTable = DEFAULT) -> list[Term]:
    """``solve_together`` under conditions; the solver of branches."""
    return solve_together(terms, gather(assume, ranges), table, Budget())[0]
