"""Conditions known to hold (enclosing branches, loops, asserts, divisibility) as what the analyses can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ir.index import EvaluationError, Ranges, Term, names, show, substitute
from .narrow import conjuncts, narrowed


@dataclass
class Facts:
    """Narrowed ranges, alignments of variables, ``(a, b, kind)`` with kind lt, le or eq between terms, and terms that are
    multiples of a number."""

    ranges: dict[str, tuple[int, int]]
    align: dict[str, int] = field(default_factory=dict)
    relations: list[tuple[Term, Term, str]] = field(default_factory=list)
    multiples: list[tuple[Term, int]] = field(default_factory=list)


def gather(assume: Sequence[Term], ranges: Ranges) -> Facts:
    """What follows at once from ``assume``; conditions of other shapes are only used by validation.

    Raises ``EvaluationError`` if the conditions leave a variable no value.
    """
    parts = [part for condition in assume for part in conjuncts(condition)]
    found = narrowed(parts, ranges)
    if any(low > high for low, high in found.values()):  # between terms: no variable by itself is to blame
        found = narrowed([p for p in parts if isinstance(p, tuple) and {str, int} == {type(a) for a in p[1:]}], ranges)
    for name, (low, high) in found.items():
        if low > high:
            conditions = ", ".join(show(t, limit=80) for t in assume)
            raise EvaluationError(f"no value of '{name}' satisfies the assumptions {conditions}"[:400])
    facts = Facts(found)
    for part in parts:
        _relate(facts, part)
    return facts


def _relate(facts: Facts, condition: Term) -> None:
    """Note what a comparison says beside ranges."""
    if not isinstance(condition, tuple) or condition[0] not in ("lt", "le", "eq"):
        return
    op, a, b = condition
    for x, y in ((a, b), (b, a)) if op == "eq" else ():
        if y == 0 and isinstance(x, tuple) and x[0] in ("mod", "tmod") and isinstance(x[2], int) and x[2] > 1:
            if isinstance(x[1], str):
                facts.align[x[1]] = max(facts.align.get(x[1], 1), x[2])
            facts.multiples.append((x[1], x[2]))
    facts.relations.append((a, b, op))


def eliminate(
    terms: Sequence[Term], ranges: Ranges, assume: Sequence[Term]
) -> tuple[list[Term], dict[str, tuple[int, int]], list[Term]]:
    """``terms`` without the variables that an assumption defines, the ranges of those left, and the other assumptions.

    ``x = t`` replaces x by t where t doesn't depend on x, and ``x mod k = 0`` replaces x by k times a variable of the same
    name.  The results hold for at least the points that the given ones hold for: a range that goes with x is given up.
    """
    given: dict[str, Term] = {}
    """What a variable is replaced by, in terms of others or of itself."""
    rest: list[Term] = []
    left: dict[str, tuple[int, int]] = dict(ranges)
    for fact in assume:
        match fact:
            case ("eq", str() as name, value) if name not in given and not _leads_to(name, value, given):
                given[name] = value
            case ("eq", ("mod", str() as name, int() as k), 0) if k > 1 and name not in given:
                low, high = -(-ranges[name][0] // k), ranges[name][1] // k
                if low <= high:
                    given[name] = ("mul", name, k)
                    left[name] = (low, high)
                else:
                    rest.append(fact)
            case _:
                rest.append(fact)
    whole: dict[str, Term] = {}

    def without(term: Term) -> Term:
        for name in sorted(names(term) & given.keys()):
            if name not in whole:
                value = given[name]
                whole[name] = value if name in names(value) else without(value)
        return substitute(term, whole)

    gone = {n for n, t in given.items() if n not in names(t)}
    return [without(t) for t in terms], {n: r for n, r in left.items() if n not in gone}, [without(t) for t in rest]


def _leads_to(name: str, value: Term, given: dict[str, Term]) -> bool:
    """Whether ``value`` depends on ``name``, directly or through what variables are replaced by."""
    seen: set[str] = set()
    stack = list(names(value))
    while stack:
        n = stack.pop()
        if n == name:
            return True
        if n not in seen:
            seen.add(n)
            stack += [m for m in names(given.get(n, n)) if m != n]
    return False
