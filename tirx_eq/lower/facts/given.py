"""What the conditions that hold at a place say of index terms there: facts over the names of a scope, and narrower ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from ...egraph.cost import cost
from ...egraph.facts import gather
from ...egraph.narrow import about, conjuncts, narrowed
from ...egraph.result import Simplified, checked_equal
from ...egraph.simplify import simplify_all
from ...errors import ProofError
from ...ir.index import EvaluationError, Ranges, Term, names, postorder, substitute
from ...ir.index_ir import IndexScope
from ...prove.table import Table
from ...prove.validate import prove, validate
from ...prove.verdict import Verdict
from .guards import Guards


@dataclass(frozen=True)
class Narrowing:
    """That a variable is in ``low``..``high`` where ``because`` holds, and the procedure that proved it."""

    name: str
    low: int
    high: int
    because: tuple[Term, ...]
    proved_by: str


def facts_of(guards: Guards, scope: IndexScope) -> tuple[Term, ...]:
    """Conditions as terms over the names of ``scope``, without those that the program may compute otherwise than exactly."""
    found: dict[Term, None] = {}
    for guard in guards:
        term = scope.term(guard.condition)
        if _exact(term, scope, guard.bits):
            found.update(dict.fromkeys(t for t in conjuncts(term) if isinstance(t, tuple)))
    return tuple(found)


def _exact(term: Term, scope: IndexScope, bits: int) -> bool:
    """Whether every value in a condition fits signed integers of ``bits`` bits."""
    limit = 1 << (bits - 1)
    table = Table({n: scope.ranges[n] for n in names(term)})
    intervals = (table.interval[table.add(t)] for t in postorder(term))
    return all(-limit <= low and high < limit for low, high in intervals)


def compare(before: Term, after: Term, ranges: Ranges, facts: tuple[Term, ...]) -> Verdict:
    """The portfolio's verdict on two terms where ``facts`` hold, which are used if the terms aren't equal without them."""
    found = validate(before, after, ranges)
    known = about(facts, ("add", before, after)) if facts and found.status != "equal" else ()
    if not known:
        return found
    try:
        return validate(before, after, ranges, assume=known)
    except ProofError:  # code that is never reached
        return found


def narrowings(
    facts: tuple[Term, ...], scope: IndexScope, terms: Iterable[Term], intervals: Table
) -> tuple[Narrowing, ...]:
    """Ranges that facts narrow so that one of ``terms`` needs 32 bits and not 64, each proved by the portfolio.

    ``intervals`` are those of terms without the facts.

    What isn't proved isn't narrowed; facts that never hold together (code that is never reached) narrow nothing.
    """
    used = frozenset().union(*map(names, facts))
    wide = [t for t in terms if used & names(t) and not all(_narrow(t, intervals))]
    if not wide:
        return ()
    ranges = {n: scope.ranges[n] for n in sorted(used.union(*map(names, wide)))}
    found = narrowed(facts, ranges)
    if any(low > high for low, high in found.values()) or found == ranges:
        return ()
    after = Table(found)
    helped = {n for t in wide if sum(_narrow(t, after)) > sum(_narrow(t, intervals)) for n in names(t)}
    made = [_proved(n, found[n], facts, ranges) for n in sorted(helped) if found[n] != ranges[n]]
    return tuple(m for m in made if m is not None)


def _narrow(term: Term, table: Table) -> list[bool]:
    """For each value on the way to a term whether it fits 32 bits, signed or not."""
    ends = [table.interval[table.add(t)] for t in postorder(term)]
    return [(-(1 << 31) <= low and high < 1 << 31) or (low >= 0 and high < 1 << 32) for low, high in ends]


def _proved(name: str, bounds: tuple[int, int], facts: tuple[Term, ...], ranges: Ranges) -> Narrowing | None:
    """That a name is within the bounds where the facts about it hold, if that is proved."""
    (low, high), (first, last) = bounds, ranges[name]
    ends: list[Term] = [*([("le", low, name)] if low > first else []), *([("le", name, high)] if high < last else [])]
    because = about(facts, name)
    inside = set().union({name}, *map(names, because))
    try:
        claim: Term = ends[0] if len(ends) == 1 else ("land", *ends)
        verdict = prove(claim, {n: ranges[n] for n in sorted(inside)}, assume=because)
    except ProofError:
        return None
    return Narrowing(name, low, high, because, verdict.decided_by) if verdict.status == "equal" else None


COMPARISONS = frozenset(("lt", "le", "eq", "ne"))


def may_gain(term: Term, facts: tuple[Term, ...], ranges: Ranges) -> bool:
    """Whether it is worth the time of an e-graph to ask what ``facts`` make of a term.

    A comparison of one or two operations gains by narrower ranges, or where it is one of the facts.
    """
    if not isinstance(term, tuple) or term[0] not in COMPARISONS or cost(term) > 2 or term in facts:
        return True
    found = narrowed(facts, {n: ranges[n] for n in names(term).union(*map(names, facts))})
    return any(found[n] != ranges[n] for n in names(term))


def simplified_under(
    rows: Sequence[tuple[Term, tuple[Term, ...]]], ranges: Ranges
) -> dict[tuple[Term, tuple[Term, ...]], Simplified]:
    """For (term, facts) what is cheaper than the term where the facts hold, and validated there; all in one e-graph.

    Terms under other facts have variables of their own in it.
    """
    groups: dict[tuple[Term, ...], int] = {}
    terms: list[Term] = []
    assume: list[Term] = []
    own: dict[str, tuple[int, int]] = {}
    solved: list[tuple[Term, tuple[Term, ...]]] = []
    for row in rows:
        term, facts = row
        here = names(term).union(*map(names, facts))
        try:
            gather(facts, {n: ranges[n] for n in here})
        except EvaluationError:  # code that is never reached
            continue
        fresh = facts not in groups
        number = groups.setdefault(facts, len(groups))
        mine: dict[str, Term] = {n: f"{n}@{number}" for n in here}
        own.update({f"{n}@{number}": ranges[n] for n in here})
        terms.append(substitute(term, mine))
        assume += [substitute(f, mine) for f in facts] if fresh else []
        solved.append(row)
    found: dict[tuple[Term, tuple[Term, ...]], Simplified] = {}
    for row, s in zip(solved, simplify_all(terms, own, assume=assume, check_result=False) if terms else ()):
        term, facts = row
        after = substitute(s.expr, {n: n.partition("@")[0] for n in names(s.expr)})
        used = names(term).union(names(after), *map(names, facts))
        by = checked_equal(term, after, {n: ranges[n] for n in sorted(used)}, facts) if s.cost < s.cost_in else None
        if by is not None:
            found[row] = replace(s, expr=after, validated_by=by)
    return found
