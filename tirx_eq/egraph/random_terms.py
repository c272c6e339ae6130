"""Deterministic random index expressions and sample points, for fuzzing the simplifier and for finding gaps in the rules."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

from ..ir.index import Ranges, Term

_OPERATORS = {
    "add": 8, "sub": 5, "mul": 5, "div": 6, "mod": 6, "tdiv": 2, "tmod": 2, "shl": 1, "shr": 2, "and": 4, "or": 3,
    "xor": 5, "min": 2, "max": 2, "lt": 2, "le": 2, "eq": 2, "ne": 1, "land": 1, "lor": 1,
}  # fmt: skip
_CONSTANTS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 31, 32, 63, 64, 100, -1, -2, -8)
_DIVISORS = (1, 2, 3, 4, 5, 6, 8, 8, 16, 24, 32, 64, -3, -4)
_MASKS = (1, 3, 7, 8, 15, 24, 31, 56, 63, -8, -1, 0)
_POSITIVE = "n"


def random_term(r: random.Random, depth: int, names: list[str]) -> Term:
    """A term of all operators, at most ``depth`` deep, that has a value wherever ``n`` is positive."""
    if depth == 0 or r.random() < 0.12:
        return r.choice(names) if r.random() < 0.75 else r.choice(_CONSTANTS)

    def inner() -> Term:
        return random_term(r, depth - 1, names)

    kind = r.random()
    if kind < 0.04:
        return ("select", inner(), inner(), inner())
    if kind < 0.06:
        return (r.choice(("neg", "lnot")), inner())
    op = r.choices(list(_OPERATORS), list(_OPERATORS.values()))[0]
    a = inner()
    if op in ("div", "mod", "tdiv", "tmod"):
        kind = r.random()
        if kind < 0.75:
            return (op, a, r.choice(_DIVISORS))
        return (op, a, _POSITIVE if kind < 0.9 else ("add", ("and", inner(), 7), 1))
    if op in ("shl", "shr"):
        return (op, a, r.randint(0, 5) if r.random() < 0.8 else ("and", inner(), 3))
    if op == "mul" and r.random() < 0.8:
        return (op, a, r.choice(_CONSTANTS))
    if op in ("and", "or", "xor") and r.random() < 0.5:
        return (op, a, r.choice(_MASKS))
    return (op, a, inner())


def random_range(r: random.Random) -> tuple[int, int]:
    """An inclusive range: powers of two, odd extents, negative values."""
    kind = r.random()
    if kind < 0.5:
        return (0, r.choice((1, 3, 7, 15, 31, 63, 127, 1023)))
    if kind < 0.7:
        return (0, r.randint(0, 200))
    if kind < 0.85:
        low = r.randint(-40, 40)
        return (low, low + r.randint(0, 60))
    return (r.choice((-8, -16, -64)), r.choice((7, 15, 63)))


def random_row(r: random.Random, depth: int = 8) -> tuple[Term, dict[str, tuple[int, int]]]:
    """A random expression with the ranges of its variables."""
    names = ["x", "y", "z"][: r.randint(1, 3)]
    ranges = {v: random_range(r) for v in names}
    ranges[_POSITIVE] = (r.randint(1, 4), r.randint(4, 20))
    return random_term(r, r.randint(1, depth), names), ranges


def sample(r: random.Random, ranges: Ranges, count: int) -> Iterator[dict[str, int]]:
    """All points of a small box, else its corners' neighbourhood and random points, ``count`` of them."""
    names = sorted(ranges)
    size = 1
    for name in names:
        size *= ranges[name][1] - ranges[name][0] + 1
    if size <= count:
        for point in itertools.product(*[range(ranges[v][0], ranges[v][1] + 1) for v in names]):
            yield dict(zip(names, point))
        return
    for _ in range(count):
        yield {
            v: r.choice((lo, hi, r.randint(lo, hi), r.randint(lo, hi)))
            for v in names
            for lo, hi in (ranges[v],)
        }
