"""What can the rules not derive?  Enumerate small terms over ranges, pair those with equal values, ask the rules.

    python -m tirx_eq.egraph.gaps --depth 2 --limit 40

Terms are grouped by their values on the whole box, the cheapest of a group is what each of the others should cost; a
term that the rules leave dearer is a gap.  Prints one gap of each shape that holds on a larger box too, smallest first,
and how many were coincidences of few values or other forms of products by constants.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence

import numpy as np

from ..ir.index import Term, evaluate_many, show
from .cost import cost, is_pow2
from .simplify import simplify_all

_UNARY: tuple[tuple[str, int], ...] = (
    ("mul", 2), ("mul", 3), ("mul", 8), ("div", 2), ("div", 3), ("div", 8), ("mod", 2), ("mod", 3), ("mod", 8),
    ("and", 6), ("xor", 5), ("or", 4), ("add", 3), ("sub", 8), ("min", 5), ("max", 2), ("lt", 4), ("eq", 0),
)  # fmt: skip
BOXES = ({"x": (0, 15), "y": (0, 7)}, {"x": (-8, 7), "y": (0, 3)})
WIDER = ({"x": (0, 70), "y": (0, 70)}, {"x": (-40, 40), "y": (0, 40)})
"""Where a gap must hold as well to be a kind of gap and not a coincidence of few values."""
_BINARY = ("add", "sub", "xor", "and", "or", "min", "max", "lt", "le", "eq")


def enumerate_terms(names: Sequence[str], depth: int) -> list[Term]:
    """All terms up to ``depth`` operations deep: constants on the right of one operand, and pairs of shallow operands."""
    levels: list[list[Term]] = [list(names)]
    for d in range(depth):
        fresh: list[Term] = [(op, t, k) for t in levels[-1] for op, k in _UNARY]
        if d < 2:
            shallow = [t for level in levels[:2] for t in level][:40]
            fresh += [(op, a, b) for op in _BINARY for a, b in itertools.product(shallow, repeat=2) if a != b]
        levels.append(fresh)
    return [t for level in levels for t in level]


def find_gaps(
    ranges: dict[str, tuple[int, int]], depth: int, most: int, *, fast: bool = False
) -> list[tuple[Term, Term, int]]:
    """``(term, equal cheaper term, what the rules make of it)``, smallest first; at most ``most`` terms are tried."""
    names = sorted(ranges)
    axes = np.meshgrid(*[np.arange(ranges[v][0], ranges[v][1] + 1) for v in names], indexing="ij")
    point = {v: a.ravel() for v, a in zip(names, axes)}
    groups: dict[bytes, list[Term]] = {}
    for t in enumerate_terms(names, depth):
        values = np.ascontiguousarray(
            np.broadcast_to(evaluate_many(t, point), point[names[0]].shape), dtype=np.int64
        )
        groups.setdefault(values.tobytes(), []).append(t)
    for k in range(-8, 65):
        values = np.full(point[names[0]].shape, k, dtype=np.int64)
        if values.tobytes() in groups:
            groups[values.tobytes()].append(k)
    pairs: list[tuple[Term, Term]] = []
    for members in groups.values():
        best = min(members, key=lambda t: (cost(t), len(show(t))))
        pairs += [(t, best) for t in members if cost(t) > cost(best)]
    pairs.sort(key=lambda p: (len(show(p[0])), show(p[0])))
    pairs = pairs[:most]
    results = simplify_all([t for t, _ in pairs], ranges, fast=fast, check_result=False) if pairs else []
    return [(t, best, r.cost) for (t, best), r in zip(pairs, results) if r.cost > cost(best)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--depth", type=int, default=2)
    parser.add_argument("--limit", type=int, default=40, help="gaps printed")
    parser.add_argument("--most", type=int, default=3000, help="terms tried")
    parser.add_argument("--fast", action="store_true", help="with the normal form in front, as users run it")
    args = parser.parse_args()
    strength = chance = 0
    general: dict[tuple[object, ...], tuple[Term, Term, int]] = {}
    for ranges, wider in zip(BOXES, WIDER):
        gaps = find_gaps(ranges, args.depth, args.most, fast=args.fast)
        for term, best, left in gaps:
            if _multiplies(term) or _multiplies(best):
                strength += 1
            elif not holds_on(term, best, wider):
                chance += 1
            else:
                general.setdefault(_shape(term), (term, best, left))
    for term, best, left in list(general.values())[: args.limit]:
        print(f"{show(term)}  =  {show(best)}   left at cost {left}, not {cost(best)}")
    print(f"{len(general)} kinds of gap hold on larger ranges; {chance} terms are equal on these small ones only, and")
    print(f"{strength} want other forms of products and quotients by constants, which simplify --optimal knows")
    return 0


def holds_on(term: Term, best: Term, ranges: dict[str, tuple[int, int]]) -> bool:
    """Whether two terms are equal on a box as well."""
    axes = np.meshgrid(*[np.arange(lo, hi + 1) for lo, hi in ranges.values()], indexing="ij")
    point = {v: a.ravel() for v, a in zip(ranges, axes)}
    return bool(np.all(evaluate_many(("eq", term, best), point)))


def _multiplies(t: Term) -> bool:
    """Whether a product or quotient by a number that is no power of two occurs."""
    if not isinstance(t, tuple):
        return False
    odd = t[0] in ("mul", "div", "mod") and isinstance(t[2], int) and not is_pow2(abs(t[2]))
    return odd or any(map(_multiplies, t[1:]))


def _shape(t: Term) -> tuple[object, ...]:
    """A term without its numbers, and with variables told apart only by where they stand."""
    names: dict[str, int] = {}

    def walk(t: Term) -> object:
        if isinstance(t, tuple):
            return (t[0], *map(walk, t[1:]))
        return f"v{names.setdefault(t, len(names))}" if isinstance(t, str) else "k"

    return (walk(t),)


if __name__ == "__main__":
    sys.exit(main())
