"""Which sums have variables in common between their terms, in ways that constructing each term by itself may miss."""

from __future__ import annotations

from collections.abc import Sequence

from .moves import Cluster, Moved, Moves, Terms, Unsure, shifted


def refuse(moves: Moves, terms: Terms, rejoined: bool) -> None:
    """``Unsure`` where a variable is in several terms that may help each other in more ways than are looked at.

    ``rejoined``: whether a quotient and its remainder among them are looked at together.
    """
    if any(not _tidy(moves, (1, x)) for _, x in terms if moves.mixed(x)):
        raise Unsure
    if any(opens(moves, x) and not moves.mixed(x) and not _disjoint(moves, x) for _, x in terms):
        raise Unsure
    if len(terms) == 1:
        return
    computed = [x for _, x in terms if _computed(moves, x)]
    if not _apart([moves.variables(x) for x in computed]):
        raise Unsure  # results of operations on the same variables may be complementary
    owners = [owned(moves, x) for _, x in terms]
    every = [v for own in owners for v in own]
    if any(every.count(v) > 2 for v in every):
        raise Unsure
    mixed = [moves.mixed(x) for _, x in terms]
    for j, own in enumerate(owners):
        for i in range(j):
            if owners[i].isdisjoint(own):
                continue
            pair = (terms[i], terms[j])
            if mixed[i] or mixed[j]:
                if mixed[i] == mixed[j] or sum(mixed) > 1 or not all(_tidy(moves, t) for t in pair):
                    raise Unsure
                places = [m.base for m in pair[mixed[j]][1].moved]
                if max(map(places.count, places)) > 2 or opens(moves, pair[mixed[i]][1]):
                    raise Unsure
                if not _apart([o for o, m in zip(owners, mixed) if not m]):
                    raise Unsure
            elif (pair[0][0] < 0) != (pair[1][0] < 0) or any(moves.bits(x) < 0 or opens(moves, x) for _, x in pair):
                raise Unsure
            elif any(_akin(moves, a, b) for a in pair[0][1].moved for b in pair[1][1].moved):
                raise Unsure
            elif any(abs(c) > 1 for c, _ in pair) and not all(_quotient(moves, m) for _, x in pair for m in x.moved):
                if not rejoined:
                    raise Unsure


def owned(moves: Moves, x: Cluster) -> frozenset[int]:
    """Variables of a cluster; a base that no rule looks into from a sum is one."""
    found: set[int] = set()
    for m in x.moved:
        base = moves.bases[m.base]
        found |= base.variables if base.kind in ("variable", "sum") else {m.base}
    return frozenset(found)


def _disjoint(moves: Moves, x: Cluster) -> bool:
    """Whether no sum in a cluster has a variable of another operand."""
    for i, m in enumerate(x.moved):
        base = moves.bases[m.base]
        others = [moves.bases[o.base].variables for j, o in enumerate(x.moved) if j != i and o.base != m.base]
        if base.kind == "sum" and not base.variables.isdisjoint(frozenset().union(*others)):
            return False
    return True


def opens(moves: Moves, x: Cluster) -> bool:
    return any(moves.bases[m.base].kind == "sum" for m in x.moved)


def _tidy(moves: Moves, term: tuple[int, Cluster]) -> bool:
    """A positive term, its sums having each variable once."""
    c, x = term
    if c != 1 or moves.bits(x) < 0:
        return False
    for m in x.moved:
        base = moves.bases[m.base]
        if base.kind == "sum" and not once(moves, base.meaning.terms):
            return False
    return True


def once(moves: Moves, terms: Terms) -> bool:
    """Whether no variable is in two terms."""
    return _apart([owned(moves, x) for _, x in terms])


def _apart(sets: Sequence[frozenset[int]]) -> bool:
    return len(frozenset().union(*sets)) == sum(map(len, sets))


def related(moves: Moves, terms: Terms, kinds: Sequence[str] = ("truth", "other", "extreme")) -> bool:
    """Whether the result of an operation, of ``kinds``, stands beside its own variables: an order may be known."""
    for i, (_, x) in enumerate(terms):
        bases = [moves.bases[m.base] for m in x.moved]
        if any(b.kind in kinds or (b.kind == "extreme" and b.meaning[2].terms) for b in bases):
            own = moves.variables(x)
            if any(j != i and not own.isdisjoint(moves.variables(y)) for j, (_, y) in enumerate(terms)):
                return True
    return False


def _computed(moves: Moves, x: Cluster) -> bool:
    """Whether the result of an operation is in a cluster, but for divisions: those here have no rules."""
    bases = [moves.bases[m.base] for m in x.moved]
    return any(b.kind not in ("variable", "sum") and b.op not in ("div", "mod") for b in bases)


def _akin(moves: Moves, a: Moved, b: Moved) -> bool:
    """Whether two fields of one base may be cheaper together: a shared quotient, or a quotient rounded up."""
    if a.base != b.base:
        return False
    x, y = sorted((shifted(a.mask, -a.shift), shifted(b.mask, -b.shift)), key=lambda m: m & -m)
    low, next_low = (x & -x).bit_length(), (y & -y).bit_length()
    if low == next_low:
        return low > 1
    return abs(a.shift - b.shift) == 1 and x > 0 and x.bit_length() == next_low - 1


def _quotient(moves: Moves, m: Moved) -> bool:
    """Whether an operand is a multiple of a quotient, no bit above being masked."""
    return m.mask == moves.available(m) & -(m.mask & -m.mask)
