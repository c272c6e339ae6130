"""Why there is no solution: a set of constraints that can't hold together, none of which could be left out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import LoweringError, Span
from ..layout import Layout
from .bindings import Bound
from .constraints import Constraint
from .problem import Problem


@dataclass(frozen=True, eq=False)
class Conflict:
    """Constraints that no candidate layouts satisfy together; without any one of them the others can be satisfied
    (:func:`satisfying` shows both)."""

    bounds: tuple[Bound, ...]
    problem: Problem

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return tuple(b.constraint for b in self.bounds)

    def __str__(self) -> str:
        lines = []
        for c in self.constraints:
            lines += [f"  - {c}", f"      would change it: {c.remedy}"]
        return "\n".join(lines)


class NoLayoutError(LoweringError):
    """Open layouts of a function can't be chosen; ``conflict`` is a minimal set of constraints that clash."""

    def __init__(self, message: str, conflict: Conflict | None, *, hint: str | None = None, span: Span | None = None) -> None:
        super().__init__(message, hint=hint, span=span)
        self.conflict = conflict


def satisfying(problem: Problem, bounds: Sequence[Bound]) -> dict[int, Layout] | None:
    """Layouts from the domains that satisfy all of ``bounds``, by backtracking search; None if there are none.

    Candidates are tried in their order, unknowns with few left first: deterministic.
    """
    domains: dict[int, list[Layout]] = {}
    for u, d in enumerate(problem.domains):
        domains[u] = [w for w in d if all(b.test({u: w}) is None for b in bounds if b.unknowns == (u,))]
        if not domains[u]:
            return None
    wide = [b for b in bounds if len(b.unknowns) > 1]
    _narrow_pairs(domains, wide)
    order = sorted(domains, key=lambda u: (len(domains[u]), u))
    place = {u: k for k, u in enumerate(order)}
    due: list[list[Bound]] = [[] for _ in order]
    for b in wide:
        due[max(place[u] for u in b.unknowns)].append(b)

    def search(k: int, at: dict[int, Layout]) -> dict[int, Layout] | None:
        if k == len(order):
            return dict(at)
        for w in domains[order[k]]:
            at[order[k]] = w
            if all(b.test(at) is None for b in due[k]) and (found := search(k + 1, at)) is not None:
                return found
        del at[order[k]]
        return None

    if any(not d for d in domains.values()):
        return None
    return search(0, {})


def _narrow_pairs(domains: dict[int, list[Layout]], wide: Sequence[Bound]) -> None:
    """Drop candidates that have no partner in a constraint on two unknowns, so that search goes wrong less often."""
    changed = True
    while changed:
        changed = False
        for b in wide:
            if len(b.unknowns) != 2 or len(domains[b.unknowns[0]]) * len(domains[b.unknowns[1]]) > 2500:
                continue
            x, y = b.unknowns
            for u, v in ((x, y), (y, x)):
                kept = [w for w in domains[u] if any(b.test({u: w, v: z}) is None for z in domains[v])]
                changed = changed or len(kept) < len(domains[u])
                domains[u] = kept


def minimal(problem: Problem, bounds: Sequence[Bound] | None = None) -> Conflict | None:
    """A conflict among the constraints of a problem, minimal under deletion; None if they can be satisfied."""
    kept = list(problem.bounds if bounds is None else bounds)
    if satisfying(problem, kept) is not None:
        return None
    kept = _relevant(problem, kept)
    for b in list(kept):
        rest = [x for x in kept if x is not b]
        if satisfying(problem, rest) is None:
            kept = rest
    return Conflict(tuple(kept), problem)


def _relevant(problem: Problem, bounds: list[Bound]) -> list[Bound]:
    """Constraints of one connected part of the problem that is unsatisfiable by itself: fewer to go through."""
    parent: dict[int, int] = {u.index: u.index for u in problem.unknowns}

    def find(u: int) -> int:
        while parent[u] != u:
            u = parent[u]
        return u

    for b in bounds:
        for u in b.unknowns[1:]:
            x, y = sorted((find(b.unknowns[0]), find(u)))
            parent[y] = x
    for root in sorted({find(u) for u in parent}):
        part = [b for b in bounds if b.unknowns and find(b.unknowns[0]) == root]
        if satisfying(problem, part) is None:
            return part
    return bounds


def explain(problem: Problem, bounds: Sequence[Bound] | None = None) -> NoLayoutError:
    """The error for a problem without solution."""
    conflict = minimal(problem, bounds)
    names = _names(problem, conflict)
    if conflict is None:
        return NoLayoutError(f"no layouts were found for {names}", None)
    first = next((c.span for c in conflict.constraints if c.span is not None), None)
    count = len(conflict.bounds)
    what = "this rule can't be met" if count == 1 else f"these {count} rules can't hold together"
    return NoLayoutError(
        f"there is no layout for {names}: {what}, and without any one of them there would be:\n{conflict}"
        if count > 1 else f"there is no layout for {names}: {what}:\n{conflict}",
        conflict, span=first,
    )  # fmt: skip


def _names(problem: Problem, conflict: Conflict | None) -> str:
    used: Mapping[int, None] = dict.fromkeys(u for b in (conflict.bounds if conflict else ()) for u in b.unknowns)
    found = [problem.unknowns[u].name for u in used] or [u.name for u in problem.unknowns]
    return ", ".join(f"'{n}'" for n in found)
