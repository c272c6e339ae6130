"""Sets of copies: a replica on one axis as a set of integers, and its canonical list of progressions.

Several lists of progressions can have the same sum set ({R[2:3], R[4:2], R[4:2]} = {R[2:5], R[3:2], R[3:3]}), so the
set decides: two replicas are equal if their shifted sets are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd

Progression = tuple[int, int]

#: sets of more candidates than this are not enumerated; the list is then only fused and sorted.
SET_LIMIT = 1 << 20
_SEARCH_BUDGET = 5_000


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
    pieces = decompose(found)
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
    """The sorted sum set (strides at least 0); None if it has more than 2**20 candidates at some step."""
    found = {0}
    for extent, stride in parts:
        if len(found) * extent > SET_LIMIT:
            return None
        steps = range(0, extent * stride, stride) if stride else (0,)
        found = {x + y for x in found for y in steps}
    return sorted(found)


def decompose(members: Sequence[int]) -> list[Progression] | None:
    """A list of progressions whose sum set this is (0 its least member), the same one for the same set.

    None if there is none, or none was found within the search budget.
    """
    if max(members) >= SET_LIMIT:
        return None
    mask = 0
    for x in members:
        mask |= 1 << x
    return _decompose(mask)


@lru_cache(maxsize=4096)
def _decompose(mask: int) -> list[Progression] | None:
    if int(bin(mask)[:1:-1], 2) != mask:
        return None  # a sum of progressions is symmetric: x is a member exactly if max - x is
    found = _peel(mask)
    return _search(mask) if found is None else found


def _peel(mask: int) -> list[Progression] | None:
    """Take off the progression of the smallest stride, longest first, keeping all that may remain.

    A set is a mask: bit x is set if x is a member.
    """
    if mask == 1:
        return []
    stride = ((mask & ~1) & -(mask & ~1)).bit_length() - 1
    rests = []  # rests[k]: members from which k + 2 steps stay inside
    rest = mask & mask >> stride
    while rest & 1:
        rests.append(rest)
        rest &= mask >> stride * (len(rests) + 1)
    for k in reversed(range(len(rests))):
        covered = 0
        for step in range(k + 2):
            covered |= rests[k] << stride * step
        if covered == mask:
            deeper = _peel(rests[k])
            if deeper is not None:
                return [(k + 2, stride), *deeper]
    return None


def _search(goal: int) -> list[Progression] | None:
    """Some list of progressions with this sum set, by depth-first search in a fixed order; None if the budget ends."""
    budget = _SEARCH_BUDGET
    strides = [x for x in range(1, goal.bit_length()) if goal >> x & 1]

    def extend(have: int, first: int) -> list[Progression] | None:
        nonlocal budget
        if have == goal:
            return []
        for k in range(first, len(strides)):
            stride = strides[k]
            options = []
            grown, moved = have, have
            while budget > 0:
                budget -= 1
                moved <<= stride
                grown |= moved
                if grown & ~goal:
                    break
                options.append(grown)
            for extent, total in reversed(list(enumerate(options, 2))):
                deeper = extend(total, k)
                if deeper is not None:
                    return [(extent, stride), *deeper]
            if budget <= 0:
                return None
        return None

    return extend(1, 0)
