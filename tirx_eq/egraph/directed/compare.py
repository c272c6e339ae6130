"""Comparisons of sums: what is equal on both sides, what cannot tip the balance, and where the constant stands for free."""

from __future__ import annotations

from math import gcd

from ...ir.index import Term
from .moves import Cluster, Moves
from .sums import Sum, Sums, Terms, Unsure

Found = tuple[int, Term]
"""Cost and term; an integer where the comparison is decided."""


def less(sums: Sums, s: Sum) -> Found:
    """The cheapest term for ``s < 0``."""
    low, high = sums.interval(s)
    if high < 0 or low >= 0:
        return 0, int(high < 0)
    s = _coarsened(sums, s)
    found: list[Found] = []
    if len(s.terms) == 1:
        c, x = s.terms[0]
        n = _quotient(sums.moves, x)
        if n is not None:
            whole, k = sums.inside(x.moved[0].base), s.constant
            return _below(sums, whole, -k << n) if c > 0 else _above(sums, whole, ((k + 1) << n) - 1)
        if sums.moves.interval(x) == (0, 1):
            found.append(_truth(sums, x, c < 0))
    for scaled in _scalings(sums, s):
        k = scaled.constant
        for a, b in _sides(scaled.terms):
            if not a.terms:
                found.append(_relation(sums, "lt", Sum(k, ()), b))
            elif not b.terms:
                found.append(_relation(sums, "lt", a, Sum(-k, ())))
            elif k == -1:
                found.append(_relation(sums, "le", a, b))
            else:
                found.append(_relation(sums, "lt", a._replace(constant=k), b))
                if k:
                    found.append(_relation(sums, "lt", a, b._replace(constant=-k)))
    return min(found, key=lambda f: f[0])


def same(sums: Sums, s: Sum, equal: bool) -> Found:
    """The cheapest term for ``s = 0``, or for ``s != 0``."""
    op = "eq" if equal else "ne"
    low, high = sums.interval(s)
    if low == high == 0:
        return 0, int(equal)
    if _never_zero(sums, s):
        return 0, int(not equal)
    unit = 0
    for c, x in s.terms:
        unit = gcd(unit, abs(c) << sums.moves.low(x))
    s = _divided(sums, s, unit)
    if len(s.terms) == 1:
        c, x = s.terms[0]
        return _equals(sums, x, -s.constant * c, equal)
    if s.constant == 0 and (all(c > 0 for c, _ in s.terms) or all(c < 0 for c, _ in s.terms)):
        raise Unsure  # each is zero, which can be asked in several ways
    if any(len(x.moved) > 1 or x.constant for _, x in s.terms):
        raise Unsure  # bits known from both sides may decide
    found: list[Found] = []
    for scaled in _scalings(sums, s):
        k = scaled.constant
        for a, b in _sides(scaled.terms):
            if not a.terms:
                found.append(_relation(sums, op, b, Sum(k, ())))
            elif not b.terms:
                found.append(_relation(sums, op, a, Sum(-k, ())))
            else:
                found.append(_relation(sums, op, a._replace(constant=k), b))
                if k:
                    found.append(_relation(sums, op, a, b._replace(constant=-k)))
    return min(found, key=lambda f: f[0])


def _never_zero(sums: Sums, s: Sum) -> bool:
    """Whether the small terms never add up to a multiple of what divides the rest."""
    terms = sorted(s.terms, key=lambda t: (abs(t[0]) << sums.moves.low(t[1]), t))
    low, high = sums.interval(s)
    if low > 0 or high < 0:
        return True
    for i in range(len(terms)):
        unit = 0
        for c, x in terms[i:]:
            unit = gcd(unit, abs(c) << sums.moves.low(x))
        low, high = sums.interval(Sum(s.constant, tuple(terms[:i])))
        if -(-low // unit) * unit > high:
            return True
    return False


def _scalings(sums: Sums, s: Sum) -> list[Sum]:
    """Multiples by powers of two, under which one of the terms need not be shifted down."""
    shifts = {-m.shift for _, x in s.terms for m in x.moved if m.shift < 0}
    return [s, *[sums.scaled(s, 1 << n) for n in sorted(shifts)]]


def _sides(terms: Terms) -> list[tuple[Sum, Sum]]:
    """Left and right of a comparison: negative terms on the right, or all on one side, the constant on the other."""
    left = tuple([t for t in terms if t[0] > 0])
    right = tuple([(-c, x) for c, x in terms if c < 0])
    found = [(left, right)]
    if left and right:
        found += [(terms, ()), ((), tuple(sorted([(-c, x) for c, x in terms])))]
    return [(Sum(0, a), Sum(0, b)) for a, b in found]


def _relation(sums: Sums, op: str, a: Sum, b: Sum) -> Found:
    (left, x), (right, y) = sums.best(a), sums.best(b)
    return left + right + 1, (op, x, y)


def _coarsened(sums: Sums, s: Sum) -> Sum:
    """``s < 0`` without the small terms that cannot change the floor of ``s / unit``, divided by the unit of the rest."""
    moves = sums.moves
    terms = sorted(s.terms, key=lambda t: (abs(t[0]) << moves.low(t[1]), t))
    for i in range(len(terms)):
        unit = 0
        for c, x in terms[i:]:
            unit = gcd(unit, abs(c) << moves.low(x))
        if unit == 1:
            continue
        low, high = sums.interval(Sum(s.constant, tuple(terms[:i])))
        if low // unit == high // unit:
            return _divided(sums, Sum(low // unit * unit, tuple(sorted(terms[i:]))), unit)
    return s


def _divided(sums: Sums, s: Sum, unit: int) -> Sum:
    by = (unit & -unit).bit_length() - 1
    return Sum(s.constant // unit, tuple(sorted([(c // (unit >> by), sums.moves.moved(x, -by)) for c, x in s.terms])))


def _truth(sums: Sums, x: Cluster, positive: bool) -> Found:
    """A value of 0 or 1 as a condition, or its negation."""
    price, term = sums.moves.best(x)
    return (price, term) if positive else (price + 1, ("lnot", term))


def _quotient(moves: Moves, x: Cluster) -> int | None:
    """``n`` where ``x`` is a base shifted down by ``n``."""
    if len(x.moved) != 1 or x.constant:
        return None
    m = x.moved[0]
    return -m.shift if m.shift < 0 and m.mask == moves.available(m) else None


def _below(sums: Sums, s: Sum, k: int) -> Found:
    return less(sums, s._replace(constant=s.constant - k))


def _above(sums: Sums, s: Sum, k: int) -> Found:
    return less(sums, sums.scaled(s._replace(constant=s.constant - k), -1))


def _equals(sums: Sums, x: Cluster, k: int, equal: bool) -> Found:
    """``x = k`` or ``x != k`` for bits ``x``."""
    moves = sums.moves
    if x.constant:
        x, k = x._replace(constant=0), k ^ x.constant
    low, high = moves.interval(x)
    if k & ~moves.bits(x) or not low <= k <= high:
        return 0, int(not equal)
    if len(x.moved) > 1 and len(sums.of(x).terms) == 1:
        raise Unsure  # operands of an exclusive or may change sides
    if len(x.moved) == 1 and sums.opened_whole(x.moved[0]):
        whole = sums.inside(x.moved[0].base)
        return same(sums, whole._replace(constant=whole.constant - k), equal)
    price, term = moves.best(x)
    found: Found = price + 1, ("eq" if equal else "ne", term, k)
    for m in x.moved:
        if m.shift < 0:
            wide, other = moves.best(moves.moved(x, -m.shift))
            found = min(found, (wide + 1, (found[1][0], other, k << -m.shift)), key=lambda f: f[0])  # type: ignore[index]
    n = _quotient(moves, x)
    if n is not None and k in (low, high):
        base = x.moved[0].base
        whole = sums.inside(base)
        if (k == low) == equal:  # below the second value, or below the last
            bound = low + 1 if equal else high
            opened = _below(sums, whole, bound << n)
        else:
            bound = high if equal else low + 1
            opened = _above(sums, whole, (bound << n) - 1)
        if opened[0] - sums.hidden(base) <= found[0]:
            return opened
    return min(found, _truth(sums, x, bool(k) == equal), key=lambda f: f[0]) if (low, high) == (0, 1) else found
