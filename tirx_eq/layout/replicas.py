"""Sets of copies: a replica on one axis as a set of integers, and its canonical list of progressions.

Several lists of progressions can have the same sum set ({R[2:3], R[4:2], R[4:2]} = {R[2:5], R[3:2], R[3:3]}), so the
set decides: two replicas are equal if their shifted sets are.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

Progression = tuple[int, int]

#: sets of more candidates than this are not enumerated; the list is then only fused and sorted.
SET_LIMIT = 1 << 20
_SEARCH_BUDGET = 20_000


def normalize(parts: Sequence[Progression]) -> tuple[int, list[Progression], bool]:
    """(shift, progressions, complete): the same set as ``shift + sum of {0 .. extent-1} * stride``.

    Strides come out positive and ascending.  Equal sets give equal results if ``complete``; it is False only for sets
    with over 2**20 candidates that have no evident form, and for those no decomposition was found in the search budget.
    """
    shift = 0
    positive: list[Progression] = []
    for extent, stride in parts:
        if extent == 1 or stride == 0:
            continue
        if stride < 0:
            shift += stride * (extent - 1)
            stride = -stride
        positive.append((extent, stride))
    fused = fuse(positive)
    if _separated(fused):
        return shift, fused, True
    unit = 0
    for _, stride in fused:
        unit = gcd(unit, stride)
    found = sum_set([(e, s // unit) for e, s in fused])
    if found is None:
        return shift, fused, False
    pieces = _peel(frozenset(found))
    if pieces is None:
        pieces = _search(found)
    if pieces is None:
        return shift, fused, False
    return shift, fuse([(e, s * unit) for e, s in pieces]), True


def fuse(parts: Sequence[Progression]) -> list[Progression]:
    """Progressions merged where one fills the gaps of the other without leaving any, sorted by stride."""
    rest = sorted(((e, s) for e, s in parts if e > 1 and s), key=lambda p: (p[1], p[0]))
    again = True
    while again:
        again = False
        for i in range(len(rest)):
            e, s = rest[i]
            for j in range(len(rest)):
                f, t = rest[j]
                if j != i and t % s == 0 and t // s <= e:
                    merged = (e + t // s * (f - 1), s)
                    rest = [p for k, p in enumerate(rest) if k not in (i, j)]
                    rest.append(merged)
                    rest.sort(key=lambda p: (p[1], p[0]))
                    again = True
                    break
            if again:
                break
    return rest


def _separated(parts: Sequence[Progression]) -> bool:
    """Whether each stride is beyond the reach of all smaller ones; such a fused list is the only one of its set."""
    reach = 0
    for extent, stride in parts:
        if stride <= reach:
            return False
        reach += (extent - 1) * stride
    return True


def sum_set(parts: Sequence[Progression]) -> list[int] | None:
    """The sorted sum set; None if it has more than 2**20 candidates at some step."""
    found = {0}
    for extent, stride in parts:
        if len(found) * extent > SET_LIMIT:
            return None
        steps = range(0, extent * stride, stride)
        found = {x + y for x in found for y in steps}
    return sorted(found)


def _peel(members: frozenset[int]) -> list[Progression] | None:
    """Take off the progression of the smallest stride, longest first, keeping all that may remain."""
    if len(members) == 1:
        return []
    stride = min(x for x in members if x)
    longest = 1
    while longest * stride in members:
        longest += 1
    for extent in range(longest, 1, -1):
        steps = range(0, extent * stride, stride)
        rest = frozenset(y for y in members if all(y + d in members for d in steps))
        if len(rest) < len(members) and {y + d for y in rest for d in steps} == members:
            deeper = _peel(rest)
            if deeper is not None:
                return [(extent, stride), *deeper]
    return None


def _search(members: Sequence[int]) -> list[Progression] | None:
    """Some list of progressions with this sum set, by depth-first search in a fixed order; None if the budget ends."""
    goal = frozenset(members)
    top = max(members)
    strides = [x for x in members if x]
    budget = _SEARCH_BUDGET

    def extend(have: frozenset[int], first: int, reach: int) -> list[Progression] | None:
        nonlocal budget
        if have == goal:
            return []
        for k in range(first, len(strides)):
            stride = strides[k]
            longest, grown = 1, have
            options = []
            while True:
                longest += 1
                more = grown | frozenset(x + (longest - 1) * stride for x in have)
                budget -= 1
                if budget < 0 or reach + (longest - 1) * stride > top or not more <= goal:
                    break
                grown = more
                options.append((longest, grown))
            for extent, total in reversed(options):
                deeper = extend(total, k, reach + (extent - 1) * stride)
                if deeper is not None:
                    return [(extent, stride), *deeper]
            if budget < 0:
                return None
        return None

    return extend(frozenset({0}), 0, 0)


def decompose(members: Sequence[int]) -> list[Progression]:
    """A list of progressions with this sum set (0 is its least member); raises ValueError if there is none.

    Only for sets known to be such sums.
    """
    ordered = sorted(members)
    pieces = _peel(frozenset(ordered))
    if pieces is None:
        pieces = _search(ordered)
    if pieces is None:
        raise ValueError("the set isn't a sum of progressions")
    return pieces
