"""What couples the choices of calls, told: the things they share, what these cost, and what any other choice would cost.

Calls whose candidates could share something are chosen together (:mod:`selection`).  For such a group this says which things
the chosen candidates share and for how many cycles, what the combination costs in all, what it would cost if each call looked
at itself only, and for every candidate that wasn't taken the least that the group would cost with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

from ..ptx.tensormap import TensorMap
from .candidates import Candidate, Choice, options_of
from .selection import Option, groups, select, total


@dataclass(frozen=True)
class Shared:
    """One thing that chosen candidates have in common: what it is, its cycles (paid once), and the calls' numbers."""

    what: str
    cycles: float
    calls: tuple[int, ...]


@dataclass(frozen=True)
class Coupling:
    """Calls that are chosen together, by their places in the kernel.

    ``own`` is the sum of the candidates' own cycles, ``shared`` what they use together.  ``apart`` is what the kernel would pay
    for them if each call took the candidate that is cheapest with all that it needs.  ``instead`` has, for a call and the
    number of a candidate that wasn't taken, the least that the group costs with it.
    """

    calls: tuple[int, ...]
    own: float
    shared: tuple[Shared, ...]
    apart: float
    instead: dict[tuple[int, int], float]

    @property
    def total(self) -> float:
        """Cycles of the chosen combination."""
        return self.own + sum(s.cycles for s in self.shared)

    def reason(self) -> str:
        """Why the combination is the one."""
        if self.apart > self.total + 1e-3:
            return f"chosen each for itself they would cost {self.apart:.1f} cycles: {self.apart - self.total:.1f} more"
        if not self.instead:
            return "no call has another candidate"
        return f"any other choice costs at least {min(self.instead.values()):.1f} cycles"


def describe_key(key: Hashable) -> str:
    """What is shared, for people."""
    if isinstance(key, TensorMap):
        box = "x".join(map(str, reversed(key.box)))
        swizzle = "no swizzle" if key.swizzle == "none" else f"swizzle {key.swizzle}"
        return f"tensor map of {key.tensor} (box {box}, {swizzle})"
    return " ".join(map(str, key)) if isinstance(key, tuple) else str(key)


def couplings(choices: Sequence[Choice]) -> list[Coupling]:
    """The groups of two and more calls that could share something, in order."""
    legal = [list(c.candidates) for c in choices]
    options, prices = options_of(legal)
    chosen = [next(k for k, candidate in enumerate(c.candidates) if candidate is c.chosen) for c in choices]
    return [_coupling(group, legal, options, prices, chosen) for group in groups(options, choice=False)]


def _coupling(
    group: Sequence[int], legal: Sequence[Sequence[Candidate]], options: Sequence[Sequence[Option]],
    prices: Mapping[Hashable, float], chosen: Sequence[int],
) -> Coupling:  # fmt: skip
    mine = [options[c] for c in group]
    taken = [chosen[c] for c in group]
    alone = [min(range(len(os)), key=lambda k: (os[k].price + sum(prices[s] for s in os[k].shares), k)) for os in mine]
    instead = {}
    for place, c in enumerate(group):
        for k in range(len(mine[place])):
            if k != taken[place]:
                forced = [[os[k]] if p == place else os for p, os in enumerate(mine)]
                found = select(forced, prices)
                instead[c, k] = total(forced, found, prices)
    candidates: list[Candidate] = [legal[c][k] for c, k in zip(group, taken)]
    keys = dict.fromkeys(key for candidate in candidates for key, _ in candidate.shares)
    shared = tuple(
        Shared(describe_key(key), prices[key], tuple(c for c, k in zip(group, candidates) if key in dict(k.shares)))
        for key in keys
    )
    return Coupling(tuple(group), sum(k.cycles for k in candidates), shared, total(mine, alone, prices), instead)
