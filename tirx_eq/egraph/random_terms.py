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


_WORDS = (8, 16, 31, 32, 33, 63)
_WIDE_CONSTANTS = (
    255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, -(1 << 31), (1 << 62) - 1, (1 << 63) - 1,
    -(1 << 63), 1000003, 97,
)  # fmt: skip


def wide_range(r: random.Random) -> tuple[int, int]:
    """An inclusive range as index types have them: whole words, extents in the millions, one value, negative values only."""
    kind = r.random()
    bits = r.choice(_WORDS)
    if kind < 0.3:
        return (0, (1 << bits) - 1) if kind < 0.15 else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if kind < 0.5:
        return (0, r.randint(1 << 10, 1 << 24))
    if kind < 0.6:
        low = r.choice((0, 1, -1, 7, 64, 1 << 31))
        return (low, low)
    if kind < 0.7:
        low = -r.randint(1, 1 << r.choice(_WORDS))
        return (low, r.randint(low, 0))
    return random_range(r)


def wide_term(r: random.Random, depth: int, names: list[str], pool: list[Term]) -> Term:
    """A term with what programs do to words: wrapped, cast, clamped, swizzled, compared with symbolic bounds, and shared.

    ``pool`` holds subterms made before; one may be used again.
    """
    if pool and r.random() < 0.12:
        return r.choice(pool)
    if depth == 0 or r.random() < 0.1:
        return r.choice(names) if r.random() < 0.8 else r.choice((*_CONSTANTS, *_WIDE_CONSTANTS))

    def inner() -> Term:
        return wide_term(r, depth - 1, names, pool)

    bits = r.choice((5, 8, 16, 31, 32))
    ones, half = (1 << bits) - 1, 1 << (bits - 1)
    kind = r.randrange(14)
    t: Term
    if kind == 0:  # a cast to an unsigned word
        t = ("and", inner(), ones) if r.random() < 0.5 else ("mod", inner(), 1 << bits)
    elif kind == 1:  # a cast to a signed word
        t = ("sub", ("xor", ("and", inner(), ones), half), half)
    elif kind == 2:
        low, high = sorted((r.choice(_CONSTANTS), r.choice((*_CONSTANTS, *_WIDE_CONSTANTS))))
        t = ("min", ("max", inner(), low), high)
    elif kind == 3:  # in range of a symbolic extent, as guards are
        extent: Term = ("mul", _POSITIVE, r.choice((1, 2, 4, 8, 3)))
        t = ("land", ("le", 0, inner()), (r.choice(("lt", "le")), inner(), extent))
    elif kind == 4:
        t = ("select", (r.choice(("lt", "le", "ne", "eq")), inner(), ("mul", _POSITIVE, r.choice((1, 4)))), inner(), inner())
    elif kind == 5:
        a = inner()
        t = ("xor", a, ("and", ("shr", a, r.randint(1, 5)), r.choice(_MASKS)))
    elif kind == 6:  # quotient and remainder of the same
        a, k = inner(), r.choice((*_DIVISORS, _POSITIVE, ("mul", _POSITIVE, 4)))
        pair = ("tdiv", "tmod") if r.random() < 0.4 else ("div", "mod")
        t = ("add", ("mul", (pair[0], a, k), r.choice((1, 4, k))), (pair[1], a, k))
    elif kind == 7:
        t = (r.choice(("div", "mod", "tdiv", "tmod")), inner(), r.choice((*_DIVISORS, 1 << 31, 1000003, -97, _POSITIVE)))
    elif kind == 8:
        t = (r.choice(("shl", "shr")), inner(), r.choice((0, 1, 3, 16, 31, 32, ("and", inner(), 7))))
    elif kind == 9:
        t = (r.choice(("mul", "and", "or", "xor", "add")), inner(), r.choice((*_CONSTANTS, *_WIDE_CONSTANTS)))
    elif kind == 10:
        t = (r.choice(("lnot", "neg")), inner())
    elif kind == 11:
        t = (r.choice(("land", "lor")), inner(), inner())
    else:
        t = (r.choice(("add", "sub", "mul", "min", "max", "lt", "le", "eq", "ne", "and", "or", "xor")), inner(), inner())
    pool.append(t)
    return t


def wide_row(r: random.Random, depth: int = 6) -> tuple[Term, dict[str, tuple[int, int]]]:
    """A random expression on words with the ranges of its variables."""
    names = ["x", "y", "z"][: r.randint(1, 3)]
    ranges = {v: wide_range(r) for v in names}
    ranges[_POSITIVE] = (r.randint(1, 4), r.choice((9, 20, 1 << 20, (1 << 31) - 1)))
    return wide_term(r, r.randint(1, depth), names, []), ranges


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
