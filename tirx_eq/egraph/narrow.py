"""What conditions that hold leave of the ranges of variables: intervals pushed back from comparisons to what they are made of.

``m + 128 <= M`` keeps m below M's end, ``t // 32 == 1`` puts t into 32..63.  Every step is interval arithmetic read backwards:
an operand lies where some value of the others lets the whole be in its interval.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.index import Ranges, Term, names
from ..prove.table import Table

#: Rounds over all conditions; what would still move after them stays where it is.
ROUNDS = 4

Interval = tuple[int, int]


def narrowed(conditions: Sequence[Term], ranges: Ranges) -> dict[str, Interval]:
    """The ranges of the variables where every one of ``conditions`` holds, none wider than in ``ranges`` (inclusive).

    An empty range (its lower end above the upper one) says that they don't hold together; ranges are then as far as that was
    found.  Comparisons are read, other conditions say nothing.
    """
    found = {n: (low, high) for n, (low, high) in ranges.items()}
    parts = [t for c in conditions for t in conjuncts(c)]
    for _ in range(ROUNDS):
        before = dict(found)
        for part in parts:
            used = names(part)
            if any(found[n][0] > found[n][1] for n in used):
                return found
            _compare(part, {n: found[n] for n in used}, found)
        if found == before:
            break
    return found


def conjuncts(condition: Term, holds: bool = True) -> list[Term]:
    """The comparisons and other conditions that all hold where ``condition`` does (or, if not ``holds``, doesn't)."""
    if not isinstance(condition, tuple):
        return [condition if holds else ("lnot", condition)] if isinstance(condition, str) else []
    op, *args = condition
    if op == "lnot":
        return conjuncts(args[0], not holds)
    if op == ("land" if holds else "lor"):
        return [t for a in args for t in conjuncts(a, holds)]
    if not holds:
        if op in _OPPOSITE:
            opposite, swapped = _OPPOSITE[op]
            return [(opposite, *(args[::-1] if swapped else args))]
        return [("lnot", condition)]
    return [condition]


_OPPOSITE = {"lt": ("le", True), "le": ("lt", True), "eq": ("ne", False), "ne": ("eq", False)}


def about(facts: tuple[Term, ...], term: Term) -> tuple[Term, ...]:
    """The facts that say something of a term's variables, directly or through other facts.

    So expressions under unrelated conditions share an e-graph.
    """
    known = set(names(term))
    chosen: set[int] = set()
    while True:
        more = [i for i, f in enumerate(facts) if i not in chosen and known & set(names(f))]
        if not more:
            return tuple(f for i, f in enumerate(facts) if i in chosen)
        chosen.update(more)
        known.update(n for i in more for n in names(facts[i]))


def _compare(condition: Term, ranges: dict[str, Interval], found: dict[str, Interval]) -> None:
    """Narrow ``found`` by one comparison over ``ranges``."""
    if not isinstance(condition, tuple) or condition[0] not in _OPPOSITE:
        return
    op, a, b = condition
    table = Table(ranges)
    (a_low, a_high), (b_low, b_high) = (table.interval[table.add(t)] for t in (a, b))
    if op == "eq":
        low, high = max(a_low, b_low), min(a_high, b_high)
        _push(table, a, low, high, found)
        _push(table, b, low, high, found)
    elif op == "ne":
        for term, (low, high), (first, last) in ((a, (a_low, a_high), (b_low, b_high)), (b, (b_low, b_high), (a_low, a_high))):
            if first == last and low < high and first in (low, high):
                _push(table, term, low + (first == low), high - (first == high), found)
    else:
        strict = op == "lt"
        _push(table, a, a_low, min(a_high, b_high - strict), found)
        _push(table, b, max(b_low, a_low + strict), b_high, found)


def _push(table: Table, term: Term, low: int, high: int, found: dict[str, Interval]) -> None:
    """``term`` is in ``low``..``high``: narrow the variables that it is made of."""
    todo: list[tuple[Term, int, int]] = [(term, low, high)]
    while todo:
        t, low, high = todo.pop()
        if isinstance(t, str):
            have = found[t]
            found[t] = max(have[0], low), min(have[1], high)
            if found[t][0] > found[t][1]:
                return
        elif isinstance(t, tuple):
            first, last = table.interval[table.add(t)]
            low, high = max(low, first), min(high, last)
            if (low, high) != (first, last) and low <= high:
                todo += _operands(table, t, low, high)


def _operands(table: Table, t: Term, low: int, high: int) -> list[tuple[Term, int, int]]:
    """Where the operands of ``t`` lie if it is in ``low``..``high``."""
    assert isinstance(t, tuple)
    op, *args = t
    ends = [table.interval[table.add(a)] for a in args]
    a, b = args[0], args[-1]
    (a_low, a_high), (b_low, b_high) = ends[0], ends[-1]
    if op == "neg":
        return [(a, -high, -low)]
    if op == "add":
        return [(a, low - b_high, high - b_low), (b, low - a_high, high - a_low)]
    if op == "sub":
        return [(a, low + b_low, high + b_high), (b, a_low - high, a_high - low)]
    if op == "min":
        return [(a, low, a_high), (b, low, b_high)]
    if op == "max":
        return [(a, a_low, high), (b, b_low, high)]
    if op == "mul":
        return [*_factor(a, (a_low, a_high), b_low, b_high, low, high), *_factor(b, (b_low, b_high), a_low, a_high, low, high)]
    if op == "shl" and isinstance(b, int) and b >= 0:
        return [(a, -(-low >> b), high >> b)]
    if op == "shr" and isinstance(b, int) and b >= 0:
        return [(a, low << b, (high << b) + (1 << b) - 1)]
    if op == "div" and isinstance(b, int) and b > 0:
        return [(a, low * b, high * b + b - 1)]
    if op == "tdiv" and isinstance(b, int) and b > 0 and a_low >= 0:
        return [(a, low * b, high * b + b - 1)]
    return []


def _factor(x: Term, own: Interval, least: int, most: int, low: int, high: int) -> list[tuple[Term, int, int]]:
    """Where ``x`` lies if x times a factor in ``least``..``most`` is in ``low``..``high``; for positive factors."""
    if least < 1:
        return []
    first = -(-low // (least if low <= 0 else most))
    last = high // (least if high >= 0 else most)
    return [(x, max(own[0], first), min(own[1], last))]
