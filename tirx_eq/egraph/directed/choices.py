"""Minima, maxima, selections, conditions and products of sums: what can be said without a search.

Operands that share a variable are left to the rules, but for the cases named here.
"""

from __future__ import annotations

from math import gcd

from ..cost import DEFAULT
from .compare import bounds, equality, negation, nonzero, order
from .moves import Base, Cluster, Moved, Unsure, shifted
from .shared import related
from .sums import Sum, Sums


def apart(sums: Sums, *operands: Sum) -> None:
    """``Unsure`` where operands share a variable."""
    seen: frozenset[int] = frozenset()
    for s in operands:
        own = sums.variables(s)
        if not seen.isdisjoint(own):
            raise Unsure
        seen |= own


def truth(sums: Sums, s: Sum) -> Base | None:
    """The base that a sum is, if that is a truth value."""
    if s.constant or len(s.terms) != 1 or s.terms[0][0] != 1:
        return None
    base = sums.moves.whole(s.terms[0][1])
    return base if base is not None and base.kind == "truth" else None


def _unit(sums: Sums, *operands: Sum) -> int:
    """A positive number that divides all coefficients and constants."""
    unit = 0
    for s in operands:
        unit = gcd(unit, s.constant, *[c << sums.moves.low(x) for c, x in s.terms])
    return unit


def divided(sums: Sums, s: Sum, unit: int) -> Sum:
    by = (unit & -unit).bit_length() - 1
    odd = unit >> by
    return Sum(s.constant // unit, tuple(sorted([(c // odd, sums.moves.moved(x, -by)) for c, x in s.terms])))


def extreme(sums: Sums, op: str, a: Sum, b: Sum) -> Sum:
    """``min`` or ``max``; a constant of the first operand moves outside."""
    if not a.terms:
        a, b = b, a
    if a == b:
        return a
    apart(sums, a, b)
    if any(sums.moves.mixed(x) for s in (a, b) for _, x in s.terms):
        raise Unsure  # more is known of them than an interval
    (al, ah), (bl, bh) = bounds(sums, a), bounds(sums, b)
    if ah <= bl or bh <= al:
        return a if (ah <= bl) == (op == "min") else b
    if any(related(sums.moves, s.terms, ("truth", "other")) for s in (a, b)):  # what minima and maxima say is in the bounds
        raise Unsure
    outside = a.constant if any(c > 0 for c, _ in a.terms) and (b.constant or not b.terms) else 0
    a, b = a._replace(constant=a.constant - outside), b._replace(constant=b.constant - outside)
    unit = _unit(sums, a, b)
    if unit > 1:
        small = [divided(sums, s, unit) for s in (a, b)]
        if sum(sums.best(s)[0] for s in small) + DEFAULT.times(unit) <= sums.best(a)[0] + sums.best(b)[0]:
            return sums.add(sums.scaled(extreme(sums, op, *small), unit), Sum(outside, ()))
    for s, other in ((a, b), (b, a)):
        if len(s.terms) == 1 and any(sums.moves.bases[m.base].kind == "extreme" for m in s.terms[0][1].moved):
            inner = _wholes(sums, s)
            if other.terms or not inner or inner[0].meaning[0] == op or s.terms[0][0] != 1:
                raise Unsure  # nested in another way than a clamp is
    pick = min if op == "min" else max
    (al, ah), (bl, bh) = sums.interval(a), sums.interval(b)
    found = sums.computed(op, (a, b), pick(al, bl), pick(ah, bh), "extreme", (op, a, b))
    return sums.add(found, Sum(outside, ()))


def select(sums: Sums, c: Sum, a: Sum, b: Sum) -> Sum:
    """``a`` where ``c`` is not 0, else ``b``."""
    if any(sums.moves.mixed(x) for _, x in c.terms):
        raise Unsure  # it may never be 0
    low, high = sums.interval(c)
    if low > 0 or high < 0 or a == b:
        return a
    if low == high:
        return b
    base = truth(sums, c)
    if base is not None and base.op == "lnot":
        return _select(sums, negation(sums, c), b, a)
    if base is not None and base.meaning is not None and base.meaning[0] == "same" and base.meaning[1].constant == 0:
        return _select(sums, base.meaning[1], *((b, a) if base.meaning[2] else (a, b)))
    return _select(sums, c, a, b)


def _select(sums: Sums, c: Sum, a: Sum, b: Sum) -> Sum:
    if c.constant == 0 and len(c.terms) == 1 and abs(c.terms[0][0]) == 1:
        c = sums.of(nonzero(sums, c.terms[0][1])) if sums.interval(c) != (0, 1) or a.terms or b.terms else c
    if not a.terms and not b.terms:
        return _constants(sums, c, a.constant, b.constant)
    if not sums.variables(c).isdisjoint(sums.variables(a) | sums.variables(b)):
        decided = _beside_condition(sums, c, a, b)
        if decided is not None:
            return decided
    else:
        apart(sums, c, a, b)
    if (a.constant and b.constant) or _unit(sums, a, b) > 1:
        raise Unsure
    (al, ah), (bl, bh) = sums.interval(a), sums.interval(b)
    return sums.computed("select", (c, a, b), min(al, bl), max(ah, bh))


def _constants(sums: Sums, c: Sum, a: int, b: int) -> Sum:
    """A selection of two numbers."""
    if a and b:
        raise Unsure
    one = sums.interval(c) == (0, 1)
    if a + b == 1 and not one:
        return equality(sums, c, b != 0)
    if one and a:
        return sums.scaled(c, a)
    if one:
        opposite = negation(sums, c)
        base = truth(sums, opposite)
        if b == 1 or (base is not None and base.op != "lnot"):
            return sums.scaled(opposite, b)
    return sums.computed("select", (c, Sum(a, ()), Sum(b, ())), min(a, b, 0), max(a, b, 0))


def scaled(sums: Sums, s: Sum, k: int) -> Sum:
    """``k * s``; a multiple of whether something is 0 is a selection."""
    base = truth(sums, s)
    if base is None or k in (0, 1, -1) or base.meaning is None or type(base.term) is not tuple:
        return sums.scaled(s, k)
    op = base.term[0]
    if op == "lnot":
        return sums.computed("select", (negation(sums, s), Sum(0, ()), Sum(k, ())), min(k, 0), max(k, 0))
    if base.meaning[0] == "same" and base.term[2] == 0:
        pair = (Sum(0, ()), Sum(k, ())) if op == "eq" else (Sum(k, ()), Sum(0, ()))
        return sums.computed("select", (base.meaning[1], *pair), min(k, 0), max(k, 0))
    return sums.scaled(s, k)


def _beside_condition(sums: Sums, c: Sum, a: Sum, b: Sum) -> Sum | None:
    """A selection of a number or a sum that is over variables of the condition: the sum, or None if it stays."""
    base = truth(sums, c)
    if base is None or base.meaning is None or (a.terms and b.terms):
        raise Unsure
    number, other = (b, a) if a.terms else (a, b)
    compared = base.meaning[1]
    apart_by = sums.add(other, sums.scaled(compared, -1))
    if base.meaning[0] == "same":
        if apart_by.terms or (not a.terms) != base.meaning[2]:
            raise Unsure
        return other if apart_by == number else None
    if not apart_by.terms or not sums.add(other, compared).terms:
        raise Unsure  # a minimum or maximum
    return None


def conjunction(sums: Sums, a: Sum, b: Sum) -> Sum:
    """``a`` and ``b`` as conditions."""
    found = _both(sums, a, b)
    return sums.computed("land", (a, b), 0, 1, "truth") if found is None else found


def disjunction(sums: Sums, a: Sum, b: Sum) -> Sum:
    """``a`` or ``b`` as conditions."""
    if any(x.terms and truth(sums, x) is None for x in (a, b)):
        raise Unsure
    found = _both(sums, negation(sums, a), negation(sums, b))
    return sums.computed("lor", (a, b), 0, 1, "truth") if found is None else negation(sums, found)


def _both(sums: Sums, a: Sum, b: Sum) -> Sum | None:
    """The conjunction as one comparison; None where there is none."""
    for x, y in ((a, b), (b, a)):
        if not x.terms:
            return equality(sums, y, False) if x.constant else Sum(0, ())
    first, second = truth(sums, a), truth(sums, b)
    if first is None or second is None or first.meaning is None or second.meaning is None:
        raise Unsure
    kinds = (first.meaning[0], second.meaning[0])
    x, y = first.meaning[1], second.meaning[1]
    together = not sums.variables(a).isdisjoint(sums.variables(b))
    if kinds == ("less", "less"):
        return _between(sums, x, y) if together else _extreme_below(sums, x, y)
    if kinds != ("same", "same") or not (first.meaning[2] and second.meaning[2]):
        if together or first.meaning[-1] is True or second.meaning[-1] is True:
            raise Unsure
        return None
    if together:
        return _both_fields(sums, x, y)
    if x.constant and y.constant:
        return None
    bounds = [sums.interval(s) for s in (x, y)]
    low = 0 if min(bounds)[0] >= 0 else -_ones(-min(bounds)[0]) - 1
    either = sums.computed("or", (x, y), low, _ones(max(h for _, h in bounds)))
    return equality(sums, either, True)


def _extreme_below(sums: Sums, x: Sum, y: Sum) -> Sum | None:
    """``x < 0`` and ``y < 0`` as a comparison of the larger, where the constants are one."""
    if x.constant != y.constant:
        return None
    k = x.constant
    x, y = x._replace(constant=0), y._replace(constant=0)
    minus_x, minus_y = sums.scaled(x, -1), sums.scaled(y, -1)
    if sums.best(minus_x)[0] + sums.best(minus_y)[0] <= sums.best(x)[0] + sums.best(y)[0]:
        return order(sums, sums.add(Sum(k, ()), sums.scaled(extreme(sums, "min", minus_x, minus_y), -1)))
    return order(sums, sums.add(Sum(k, ()), extreme(sums, "max", x, y)))


def _between(sums: Sums, x: Sum, y: Sum) -> Sum | None:
    """Both bounds of one value: a block of aligned values is one quotient."""
    if sums.add(x, y).terms or len(x.terms) != 1:
        raise Unsure
    if x.terms[0][0] > 0:
        x, y = y, x
    low, high = x.constant + 1, -y.constant - 1  # x = low - 1 - value, y = value - high - 1
    width = high - low + 1
    cluster = y.terms[0][1]
    if width <= 0:
        return Sum(0, ())
    if width & (width - 1) or low % width:
        return None
    blocks = sums.of(sums.moves.moved(cluster, 1 - width.bit_length()))
    return equality(sums, sums.add(blocks, Sum(-low // width, ())), True)


def _both_fields(sums: Sums, x: Sum, y: Sum) -> Sum:
    """Two fields of one variable, each with its value: one field."""
    mask = value = 0
    bases = set()
    for s in (x, y):
        if len(s.terms) != 1 or s.terms[0][0] != 1 or len(s.terms[0][1].moved) != 1 or s.terms[0][1].constant:
            raise Unsure
        m = s.terms[0][1].moved[0]
        bases.add(m.base)
        own, k = shifted(m.mask, -m.shift), shifted(-s.constant, -m.shift)
        if (value ^ k) & mask & own:
            return Sum(0, ())
        mask, value = mask | own, value | k
    if len(bases) > 1 or mask < 0:
        raise Unsure
    field = sums.moves.masked(Cluster(0, (Moved(bases.pop(), 0, mask),)), mask)
    return equality(sums, sums.add(sums.of(field), Sum(-value, ())), True)


def either(sums: Sums, a: Sum, b: Sum) -> Sum:
    """``a | b`` where the rules have nothing to share between the two; more is known of it than its interval."""
    if truth(sums, a) is not None and truth(sums, b) is not None:
        return disjunction(sums, a, b)
    high = _ones(max(sums.interval(s)[1] for s in (a, b)))
    if min(sums.interval(s)[0] for s in (a, b)) < 0:
        raise Unsure
    for x, y in ((a, b), (b, a)) if not (a.terms and b.terms) else ():
        if not x.terms:
            cluster = sums.cluster(y)
            if x.constant == 0:
                return y
            if cluster is None or any(sums.moves.bases[m.base].kind != "variable" for m in cluster.moved):
                raise Unsure
            if sums.moves.bits(cluster) & ~x.constant == 0:
                return x
    for x, y in ((a, b), (b, a)):
        base = _masked_variables(sums, x)
        if base is not None:
            whole = sums.cluster(y)
            if whole is not None and len(whole.moved) == 1 and not whole.constant:
                other = sums.moves.bases[whole.moved[0].base]
                if isinstance(base.term, tuple) and other.term in base.term[1:] and sums.moves.whole(whole) is other:
                    return y
            if whole is not None:
                apart(sums, x, y)
            elif any(sums.moves.mixed(z) for _, z in y.terms):
                raise Unsure
            return sums.computed("or", (a, b), 0, high, mixed=True)
    apart(sums, a, b)
    places = []
    for s in (a, b):
        cluster = sums.cluster(s)
        if cluster is None or sums.moves.mixed(cluster):
            raise Unsure
        places += [(m.shift, m.mask == sums.moves.available(m)) for m in cluster.moved]
    shifts = [shift for shift, _ in places if shift]
    if len(set(shifts)) < len(shifts) or sum(not free for _, free in places) > 1:
        raise Unsure
    if not a.terms or not b.terms:
        bases = [base for s in (a, b) for base in _wholes(sums, s)]
        if len(places) != 1 or len(bases) != 1 or bases[0].kind != "variable":
            raise Unsure
    return sums.computed("or", (a, b), 0, high, mixed=True)


def _masked_variables(sums: Sums, s: Sum) -> Base | None:
    """The base of a sum that is a bitwise and of two variables."""
    if s.constant or len(s.terms) != 1 or s.terms[0][0] != 1:
        return None
    base = sums.moves.whole(s.terms[0][1])
    return base if base is not None and base.kind == "other" and base.op == "and" else None


def shift(sums: Sums, op: str, a: Sum, b: Sum) -> Sum:
    """A shift of a number by a sum."""
    low, high = sums.interval(b)
    low = max(low, 0)  # elsewhere the shift has no value
    if a.terms or a.constant < 0 or high < low or high > 1 << 20 or any(sums.moves.mixed(x) for _, x in b.terms):
        raise Unsure
    if op == "shr":
        return sums.computed("shr", (a, b), a.constant >> high, a.constant >> low)
    if high > 62:
        raise Unsure
    return sums.computed("shl", (a, b), a.constant << low, a.constant << high)


def _ones(n: int) -> int:
    return (1 << n.bit_length()) - 1


def _wholes(sums: Sums, s: Sum) -> list[Base]:
    """The bases that are terms of a sum by themselves."""
    return [base for _, x in s.terms if (base := sums.moves.whole(x)) is not None]


def product(sums: Sums, a: Sum, b: Sum) -> Sum:
    """``a * b``."""
    for x, y in ((a, b), (b, a)):
        if not x.terms:
            return sums.scaled(y, x.constant)
    apart(sums, a, b)
    if any(base.op == "shl" for s in (a, b) for base in _wholes(sums, s)):
        raise Unsure
    unit = 1
    factors = []
    for s in (a, b):
        u = _unit(sums, s)
        unit *= u
        factors.append(divided(sums, s, u))
    (al, ah), (bl, bh) = (sums.interval(s) for s in factors)
    corners = [al * bl, al * bh, ah * bl, ah * bh]
    return sums.scaled(sums.computed("mul", factors, min(corners), max(corners)), unit)

