"""Comparisons of sums: what is equal on both sides, what cannot tip the balance, and where the constant stands for free."""

from __future__ import annotations

from math import gcd
from typing import Any

from ...ir.index import Term
from .moves import Base, Cluster, Moves, Terms, Unsure
from .shared import related
from .sums import Sum, Sums

Found = tuple[int, Term]
"""Cost and term; an integer where the comparison is decided."""


def order(sums: Sums, s: Sum) -> Sum:
    """``s < 0`` as a value of 0 or 1."""
    s = _narrowed(sums, s)
    if len(s.terms) == 1:
        c, x = s.terms[0]
        base = sums.moves.whole(x)
        if base is not None and base.kind == "truth":
            return sums.of(x) if c < 0 else _opposite(sums, s, base)
        if c < 0 and sums.moves.interval(x) == (0, 1):
            return sums.of(x)
    return _value(sums, less(sums, s)[1], s, ("less", s))


def bounds(sums: Sums, s: Sum) -> tuple[int, int]:
    """An interval of ``s``: a minimum or maximum in it is bounded by each of its operands too, which may cancel."""
    low, high = sums.interval(s)
    for i, (c, x) in enumerate(s.terms):
        base = sums.moves.whole(sums.moves.moved(x, -sums.moves.low(x)))
        if base is None or base.kind != "extreme":
            continue
        rest = s._replace(terms=s.terms[:i] + s.terms[i + 1 :])
        factor = c << sums.moves.low(x)
        for operand in base.meaning[1:]:
            a, b = sums.interval(sums.add(rest, sums.scaled(operand, factor)))
            if (base.meaning[0] == "max") == (c > 0):
                low = max(low, a)
            else:
                high = min(high, b)
    return low, high


def _narrowed(sums: Sums, s: Sum) -> Sum:
    """A sum that is negative where ``s`` is: without what cannot change the answer; a number where it is decided."""
    low, high = bounds(sums, s)
    if high < 0 or low >= 0:
        return Sum(-1 if high < 0 else 0, ())
    s = _coarsened(sums, s)
    if len(s.terms) == 1:
        c, x = s.terms[0]
        base = sums.moves.whole(x)
        if base is not None and base.kind == "extreme":
            return _clamped(sums, s, base.meaning, c > 0)
        upper = _upper_bits(sums, c, x, s.constant)
        if upper != x:
            return _narrowed(sums, Sum(s.constant, ((c, upper),)))
    return s


def _upper_bits(sums: Sums, c: int, x: Cluster, k: int) -> Cluster:
    """The bits of ``x`` that can tip ``x + k < 0``, or ``k - x < 0``: those below the lowest bit of the bound can't."""
    bound = -k if c > 0 else k + 1
    if len(x.moved) != 1 or x.constant or bound <= 0 or x.moved[0].mask == sums.moves.available(x.moved[0]):
        return x
    return sums.moves.masked(x, -(bound & -bound))


def equality(sums: Sums, s: Sum, equal: bool) -> Sum:
    """``s = 0``, or ``s != 0``, as a value of 0 or 1."""
    if s.terms and s.terms[0][0] < 0:
        s = sums.scaled(s, -1)
    if len(s.terms) == 1 and s.terms[0][0] == 1 and s.constant in (0, -1):
        base = sums.moves.whole(s.terms[0][1])
        if base is not None and base.kind == "truth":
            return sums.of(s.terms[0][1]) if (s.constant == -1) == equal else _opposite(sums, s, base)
    if not s.terms or _never_zero(sums, s):
        return Sum(int((s == (0, ())) == equal), ())
    s = _divided(sums, s, _unit(sums, s))
    if len(s.terms) == 1 and s.constant in (0, -1) and (s.constant == -1) == equal:
        c, x = s.terms[0]
        if c == 1 and sums.moves.interval(x) == (0, 1):
            return sums.of(x)
    return _value(sums, same(sums, s, equal)[1], s, ("same", s, equal))


def _opposite(sums: Sums, s: Sum, base: Base) -> Sum:
    if base.meaning is None:
        return sums.known(("lnot", base.term), (s,), 0, 1, "truth")
    if base.meaning[0] == "same":
        return equality(sums, base.meaning[1], not base.meaning[2])
    return order(sums, sums.add(Sum(-1, ()), sums.scaled(base.meaning[1], -1)))


def negation(sums: Sums, s: Sum) -> Sum:
    """1 where ``s`` is 0, else 0."""
    return equality(sums, s, True)


def _value(sums: Sums, term: Term, s: Sum, meaning: tuple[Any, ...]) -> Sum:
    if type(term) is int:
        return Sum(term, ())
    return sums.known(term, (s,), 0, 1, "truth", meaning)


def _clamps(sums: Sums, s: Sum) -> bool:
    """Whether the minima and maxima among three terms or more are clamped between two numbers: ``bounds`` says it all."""
    found = [b for _, x in s.terms if (b := sums.moves.whole(x)) is not None and b.kind == "extreme"]
    inner = [sums.moves.whole(x) for b in found for _, x in b.meaning[1].terms]
    return len(s.terms) > 2 and all(b is not None and b.kind == "extreme" and not b.meaning[2].terms for b in inner)


def _plain(sums: Sums, s: Sum) -> None:
    """``Unsure`` where more is known of the sides than intervals and alignment say."""
    if any(sums.moves.mixed(x) for _, x in s.terms):
        raise Unsure  # bits known to be 1
    kinds = ("truth", "other") if _clamps(sums, s) else ("truth", "other", "extreme")
    if related(sums.moves, s.terms, kinds) or any(sums.moves.bases[m.base].op == "select" for _, x in s.terms for m in x.moved):
        raise Unsure
    plus, minus = (Sum(0, tuple([t for t in s.terms if (t[0] > 0) == side])) for side in (True, False))
    if any(len(side.terms) == 1 and abs(side.terms[0][0]) > 1 for side in (plus, minus)):
        raise Unsure  # a multiple against the rest may be a comparison of the quotient
    if not sums.variables(plus).isdisjoint(sums.variables(minus)):
        raise Unsure  # both sides may be multiples of one variable and little else
    if len(s.terms) == 2:
        for _, x in s.terms:
            base = sums.moves.whole(x)
            if base is not None and base.kind == "extreme":
                raise Unsure  # it splits into two comparisons, of which one may be decided


def less(sums: Sums, s: Sum) -> Found:
    """The cheapest term for ``s < 0``."""
    s = _narrowed(sums, s)
    if not s.terms:
        return 0, int(s.constant < 0)
    _plain(sums, s)
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
        for a, b in _sides(sums, scaled.terms):
            if not a.terms:
                found.append(_relation(sums, "lt", Sum(k, ()), b))
            elif not b.terms:
                found.append(_relation(sums, "lt", a, Sum(-k, ())))
            elif k == -1:
                found.append(_relation(sums, "le", a, b))
            else:
                found.append(_relation(sums, "lt", a._replace(constant=k), b))
                if k and sums.absorbing(b):
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
    s = _divided(sums, s, _unit(sums, s))
    _plain(sums, s)
    if len(s.terms) == 1:
        c, x = s.terms[0]
        return _equals(sums, x, -s.constant * c, equal)
    if s.constant == 0 and (all(c > 0 for c, _ in s.terms) or all(c < 0 for c, _ in s.terms)):
        raise Unsure  # each is zero, which can be asked in several ways
    found: list[Found] = []
    for scaled in _scalings(sums, s):
        k = scaled.constant
        for a, b in _sides(sums, scaled.terms):
            if not a.terms:
                found.append(_relation(sums, op, b, Sum(k, ())))
            elif not b.terms:
                found.append(_relation(sums, op, a, Sum(-k, ())))
            else:
                found.append(_relation(sums, op, a._replace(constant=k), b))
                if k and sums.absorbing(b):
                    found.append(_relation(sums, op, a, b._replace(constant=-k)))
    return min(found, key=lambda f: f[0])


def _never_zero(sums: Sums, s: Sum) -> bool:
    """Whether the small terms never add up to a multiple of what divides the rest."""
    terms = sorted(s.terms, key=lambda t: (abs(t[0]) << sums.moves.low(t[1]), t))
    low, high = sums.interval(s)
    if low > 0 or high < 0:
        return True
    if all(c == 1 for c, _ in s.terms) and _lacks(-s.constant, [sums.moves.bits(x) for _, x in s.terms]):
        return True
    for i in range(len(terms)):
        unit = 0
        for c, x in terms[i:]:
            unit = gcd(unit, abs(c) << sums.moves.low(x))
        low, high = sums.interval(Sum(s.constant, tuple(terms[:i])))
        if -(-low // unit) * unit > high:
            return True
        if i == 1 and terms[0][0] == 1 and 0 <= low - s.constant and high - s.constant < unit:
            if -s.constant % unit & ~sums.moves.bits(terms[0][1]):
                return True  # needs a bit that is never set
    return False


def _lacks(k: int, masks: list[int]) -> bool:
    """Whether a sum of values with these bits can't be ``k``: no carry comes from below the lowest bit that two have."""
    every = twice = 0
    for m in masks:
        twice |= every & m
        every |= m
    return bool(k & ~every & ((twice & -twice) - 1))


def _scalings(sums: Sums, s: Sum) -> list[Sum]:
    """The sum, and its multiple by a power of two under which the terms cost less: some need not be shifted down."""
    shifts = {-m.shift for _, x in s.terms for m in x.moved if m.shift < 0}
    found, least = [s], sums.price(s.terms)
    for n in sorted(shifts):
        scaled = sums.scaled(s, 1 << n)
        price = sums.price(scaled.terms)
        if price < least:
            found, least = [s, scaled], price
    return found


def _sides(sums: Sums, terms: Terms) -> list[tuple[Sum, Sum]]:
    """Left and right of a comparison: negative terms on the right; or all on one side, the constant on the other."""
    left = tuple([t for t in terms if t[0] > 0])
    right = tuple([(-c, x) for c, x in terms if c < 0])
    found = [(left, right)]
    units = {side: [abs(c) << sums.moves.low(x) for c, x in side] for side in (left, right)}
    if any(gcd(a, b) > 1 for a in units[left] for b in units[right]):  # they may have a factor
        found += [(terms, ()), ((), _negated(terms))]
    if len(terms) > 1:
        for i, (c, x) in enumerate(terms):  # one term against the others: they may have a factor, or it takes the sign in
            rest = terms[:i] + terms[i + 1 :]
            if not (left and right) or _unit(sums, Sum(0, rest)) > 1:
                found += [(((c, x),), _negated(rest)), (rest, ((-c, x),))]
    return [(Sum(0, a), Sum(0, b)) for a, b in found]


def _negated(terms: Terms) -> Terms:
    return tuple(sorted([(-c, x) for c, x in terms]))


def _relation(sums: Sums, op: str, a: Sum, b: Sum) -> Found:
    (left, x), (right, y) = sums.best(a), sums.best(b)
    return left + right + 1, (op, x, y)


def _coarsened(sums: Sums, s: Sum) -> Sum:
    """``s < 0`` without the small terms that cannot change the floor of ``s / unit``, divided by the unit of the rest."""
    moves = sums.moves
    terms = sorted(s.terms, key=lambda t: (abs(t[0]) << moves.low(t[1]), t))
    unit = 0
    for i in range(len(terms) - 1, -1, -1):
        c, x = terms[i]
        unit = gcd(unit, abs(c) << moves.low(x))
        low, high = sums.interval(Sum(s.constant, tuple(terms[:i])))
        if unit > 1 and low // unit == high // unit:
            return _divided(sums, Sum(low // unit * unit, tuple(sorted(terms[i:]))), unit)
    return s


def _unit(sums: Sums, s: Sum) -> int:
    """A positive number that divides all terms."""
    return gcd(0, *[abs(c) << sums.moves.low(x) for c, x in s.terms])


def _divided(sums: Sums, s: Sum, unit: int) -> Sum:
    by = (unit & -unit).bit_length() - 1
    return Sum(s.constant // unit, tuple(sorted([(c // (unit >> by), sums.moves.moved(x, -by)) for c, x in s.terms])))


def _truth(sums: Sums, x: Cluster, positive: bool) -> Found:
    """A value of 0 or 1 as a condition, or its negation."""
    if positive:
        return sums.moves.best(x)
    price, term = sums.moves.best(nonzero(sums, x))
    return price + 1, ("lnot", term)


def nonzero(sums: Sums, x: Cluster) -> Cluster:
    """The multiple of ``x`` by a power of two that is cheapest; it is 0 where ``x`` is."""
    by = {0} | {-m.shift for m in x.moved if m.shift < 0}
    return min([sums.moves.moved(x, n) for n in sorted(by)], key=lambda y: sums.moves.best(y)[0])


def _clamped(sums: Sums, s: Sum, meaning: tuple[str, Sum, Sum], below: bool) -> Sum:
    """``s`` for ``x + k < 0`` (``below``) or ``k - x < 0`` where ``x`` is a minimum or maximum: one of its operands may do."""
    op, *operands = meaning
    sides = [_narrowed(sums, sums.add(Sum(s.constant, ()), sums.scaled(o, 1 if below else -1))) for o in operands]
    for side, other in (sides, sides[::-1]):
        if not side.terms:
            return side if (side.constant < 0) == ((op == "max") != below) else other
    return s


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
    base = moves.whole(x)
    if base is not None and base.kind == "sum":
        return same(sums, base.meaning._replace(constant=base.meaning.constant - k), equal)
    if base is not None and base.kind == "extreme":
        raise Unsure
    price, term = moves.best(x)
    op = "eq" if equal else "ne"
    found: Found = price + 1, (op, term, k)
    for m in x.moved:
        if m.shift < 0:
            wide, other = moves.best(moves.moved(x, -m.shift))
            found = min(found, (wide + 1, (op, other, k << -m.shift)), key=lambda f: f[0])
    n = _quotient(moves, x)
    if n is not None and k in (low, high):
        number = x.moved[0].base
        whole = sums.inside(number)
        if (k == low) == equal:  # below the second value, or below the last
            bound = low + 1 if equal else high
            opened = _below(sums, whole, bound << n)
        else:
            bound = high if equal else low + 1
            opened = _above(sums, whole, (bound << n) - 1)
        if opened[0] - sums.hidden(number) <= found[0]:
            return opened
    return min(_truth(sums, x, bool(k) == equal), found, key=lambda f: f[0]) if (low, high) == (0, 1) else found
