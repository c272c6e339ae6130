"""What is known about the value of a scalar: an interval, and threads that hold the same."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Var
from ..sharing.agreement import Classes, meet


@dataclass(frozen=True)
class Fact:
    """A value is in ``low``..``high`` (inclusive), and the same in all threads of each of its classes."""

    low: int
    high: int
    classes: Classes = None

    def join(self, other: Fact) -> Fact:
        """What holds of a value that is one or the other for all threads."""
        return Fact(min(self.low, other.low), max(self.high, other.high), meet(self.classes, other.classes))

    def within(self, other: Fact) -> bool:
        """Whether whatever this holds of, ``other`` holds of."""
        return other.low <= self.low and self.high <= other.high and meet(self.classes, other.classes) == other.classes


Facts = dict[Var, Fact]


def join(facts: list[Facts | None]) -> Facts | None:
    """What holds in every one of these: facts about what has a value in all."""
    reached = [f for f in facts if f is not None]
    if not reached:
        return None
    out = dict(reached[0])
    for other in reached[1:]:
        out = {k: f.join(other[k]) for k, f in out.items() if k in other}
    return out
