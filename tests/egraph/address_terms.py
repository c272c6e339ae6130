"""Random terms of the kinds that addresses and guards are made of: fields, swizzles, sums, comparisons, clamps."""

from __future__ import annotations

import random

from tirx_eq.ir.index import Term

_FACTORS = (2, 4, 8, 8, 16, 16, 32, 64, 128, 256, 6, 24, 192, 3, -1, -4, -16, -8)
_OFFSETS = (1, 2, 3, 4, 8, 15, 16, 31, 32, 63, 64, -1, -8, 256)
_BOUNDS = (0, 1, 2, 3, 4, 7, 8, 12, 15, 16, 31, 32, 64, 128, 200)


def random_range(r: random.Random) -> tuple[int, int]:
    """Powers of two more often than not, odd extents, negative values."""
    kind = r.random()
    if kind < 0.6:
        return (0, r.choice((1, 3, 7, 15, 31, 63, 127, 255, 511, 1023, 16383)))
    if kind < 0.8:
        return (0, r.choice((2, 5, 11, 23, 95, 147, 383, r.randint(1, 300))))
    if kind < 0.9:
        low = r.randint(-40, 40)
        return (low, low + r.randint(0, 60))
    return (r.choice((-8, -64, -16384)), r.choice((7, 63, 16383)))


def field(r: random.Random, name: str) -> Term:
    """Some bits of a variable, moved."""
    term: Term = name
    if r.random() < 0.5:
        term = ("div", term, 1 << r.randint(1, 5))
    if r.random() < 0.5:
        term = ("mod", term, 1 << r.randint(1, 5))
    if r.random() < 0.1:
        term = ("and", term, r.choice((6, 12, 24, 48, 5, -4, -8, 96)))
    return ("mul", term, r.choice(_FACTORS)) if r.random() < 0.6 else term


def total(r: random.Random, names: list[str], depth: int) -> Term:
    """A sum of fields, and of what is made of sums."""
    term = field(r, r.choice(names))
    for _ in range(r.randint(0, 3)):
        part = field(r, r.choice(names)) if depth <= 0 or r.random() < 0.6 else _inside(r, names, depth - 1)
        term = (r.choice(("add", "add", "add", "sub")), term, part)
    return ("add", term, r.choice(_OFFSETS)) if r.random() < 0.3 else term


def _inside(r: random.Random, names: list[str], depth: int) -> Term:
    kind = r.random()
    if kind < 0.5:
        other = total(r, names, depth - 1) if r.random() < 0.7 else r.choice((1, 2, 8, 16, 24, 56))
        term: Term = ("xor", total(r, names, depth - 1), other)
        return ("mul", term, r.choice((1, 2, 4, 8, 16))) if r.random() < 0.5 else term
    if kind < 0.8:
        return (r.choice(("div", "mod")), total(r, names, depth - 1), r.choice((2, 4, 8, 16, 32, 64)))
    return ("mul", total(r, names, depth - 1), r.choice((2, 4, 8, 16, 24, 3, -1, -8)))


def comparison(r: random.Random, names: list[str]) -> Term:
    """Two sums, or a sum and a bound."""
    right = total(r, names, 1) if r.random() < 0.4 else r.choice(_BOUNDS)
    return (r.choice(("lt", "le", "eq", "ne")), total(r, names, 1), right)


def mixed(r: random.Random, names: list[str], depth: int) -> Term:
    """Clamps, selections, conditions, products of the above."""
    kind = r.random()
    if depth == 0 or kind < 0.2:
        return total(r, names, 1)
    if kind < 0.4:
        return comparison(r, names)
    if kind < 0.55:
        other = r.choice((0, 0, 1, 7, 16, 32, 128)) if r.random() < 0.6 else mixed(r, names, depth - 1)
        return (r.choice(("min", "max")), mixed(r, names, depth - 1), other)
    if kind < 0.7:
        first: Term = r.choice((0, 1, 16, mixed(r, names, depth - 1)))
        return ("select", comparison(r, names), first, r.choice((0, 1, mixed(r, names, depth - 1))))
    if kind < 0.8:
        return (r.choice(("land", "lor")), comparison(r, names), comparison(r, names))
    if kind < 0.88:
        return (r.choice(("and", "or")), mixed(r, names, depth - 1), mixed(r, names, depth - 1))
    if kind < 0.95:
        return ("mul", mixed(r, names, depth - 1), mixed(r, names, depth - 1))
    return (r.choice(("shl", "shr")), r.choice((1, mixed(r, names, depth - 1))), ("and", r.choice(names), 7))


def around(r: random.Random, names: list[str]) -> Term:
    """A comparison or an extreme of sums that clamps, selections and conditions are in."""
    right: Term = r.choice((0, 1, 7, 16, 64, ("add", mixed(r, names, 1), field(r, r.choice(names)))))
    op = r.choice(("lt", "le", "lt", "eq", "max", "min"))
    return (op, ("add", total(r, names, 0), mixed(r, names, 1)), right)


def row(r: random.Random, kind: str) -> tuple[Term, dict[str, tuple[int, int]]]:
    """A term of ``kind`` (sum, comparison, mixed or around) and the ranges of its variables."""
    names = ["a", "b", "c"][: r.randint(1, 3)]
    ranges = {v: random_range(r) for v in names}
    make = {"sum": lambda: total(r, names, 2), "comparison": lambda: comparison(r, names), "around": lambda: around(r, names)}
    return make.get(kind, lambda: mixed(r, names, 2))(), ranges
