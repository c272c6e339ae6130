"""Claims about sums, cut into claims about parts that share no variable.

f(x) + g(y) = f'(x) + g'(y) for all x and y if, for some number c, f = f' + c and g + c = g'.  Each is a smaller question, often
one for another procedure: a stage of a ring is linear with a remainder, a thread's place in a slot is bits of few values.
"""

from __future__ import annotations

from ..ir.index import MAX_SHIFT, EvaluationError, Ranges, Term, evaluate, names

#: A multiple of a term that is no sum itself.
Addend = tuple[int, Term]


def apart(before: Term, after: Term, ranges: Ranges) -> list[tuple[Term, Term]]:
    """Claims that together say ``before == after`` over the (inclusive) ranges, each about variables of its own.

    None at all if the variables don't fall apart, or one point shows that the sums differ.
    """
    sides: tuple[list[Addend], list[Addend]] = ([], [])
    number = _addends(before, 1, sides[0]) - _addends(after, 1, sides[1])
    used = {id(t): sorted(names(t)) for side in sides for _, t in side}
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for members in used.values():
        for name in members[1:]:
            leader[lead(name)] = lead(members[0])
    groups = sorted({lead(n) for members in used.values() for n in members})
    if len(groups) < 2 or not all(used.values()):
        return []
    claims: list[tuple[Term, Term]] = []
    for group in groups:
        left, right = (_sum([a for a in side if lead(used[id(a[1])][0]) == group]) for side in sides)
        point = {n: ranges[n][0] for n in sorted(names(left, right))}
        try:
            difference = evaluate(left, point) - evaluate(right, point)
        except EvaluationError:
            return []
        number += difference
        claims.append((left, ("add", right, difference)))
    return claims if number == 0 else []


def _addends(term: Term, factor: int, out: list[Addend]) -> int:
    """Collects the multiples that ``factor`` times a term is a sum of; returns the constant in it."""
    if isinstance(term, int):
        return factor * term
    if isinstance(term, tuple):
        op, *args = term
        if op in ("add", "sub"):
            return _addends(args[0], factor, out) + _addends(args[1], factor if op == "add" else -factor, out)
        if op == "mul" and isinstance(args[1], int):
            return _addends(args[0], factor * args[1], out)
        if op == "mul" and isinstance(args[0], int):
            return _addends(args[1], factor * args[0], out)
        if op == "shl" and isinstance(args[1], int) and 0 <= args[1] < MAX_SHIFT:
            return _addends(args[0], factor << args[1], out)
    out.append((factor, term))
    return 0


def _sum(addends: list[Addend]) -> Term:
    total: Term = 0
    for factor, term in addends:
        part = term if factor == 1 else ("mul", term, factor)
        total = part if total == 0 else ("add", total, part)
    return total
