"""What a selection's own condition says inside its branches: ``select(x < 8, x mod 8, y)`` is ``select(x < 8, x, y)``.

A branch is only read where its condition holds (or doesn't), and where those of the selections around it do, so it may be
simplified with them as facts.  Every branch in which a fact could matter is a problem of its own, with variables of its
own, and all of them go into one e-graph; a term with its branches replaced is then a candidate beside the original.
Answers are remembered up to the names of variables.  Nothing here needs to be trusted: what comes of a candidate is
validated against the original.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from ..errors import TirxError
from ..ir.index import EvaluationError, Ranges, Term, evaluate, names, postorder, substitute
from .facts import Facts, gather

Simplifier = Callable[[Sequence[Term], Ranges, Sequence[Term]], Sequence[Term]]
"""Terms made cheaper under ranges and assumptions."""
SENSITIVE = frozenset("div mod tdiv tmod and or xor shr min max lt le eq ne land lor lnot select".split())
"""Operations that a narrower range or an order may simplify."""
MAX_HEIGHT = 4
"""Selections inside selections that are looked at, from the innermost."""
MAX_CONDITIONS = 4
MAX_JOBS = 128
MAX_ASKED = 512
"""Branches of one term that are looked at per height, with all lists of conditions."""
MAX_SIZE = 2_000
"""Nodes of a branch with its conditions, shared ones counted each time: terms are compared and hashed as trees."""
MAX_VISITS = 20_000
"""Subterms looked at in one term, each once per list of conditions around it: there may be exponentially many lists."""
MEMO_SIZE = 20_000
_NEAR = 8
_TRIES = 64
_memo: OrderedDict[Any, Term] = OrderedDict()


def forget() -> None:
    """Empty the memo of branches (for measurements)."""
    _memo.clear()


@dataclass(frozen=True)
class _Job:
    """A branch under its conditions, its variables numbered; ``ranges`` are those of the numbers, narrowed by the facts."""

    branch: Term
    conditions: tuple[Term, ...]
    ranges: tuple[tuple[int, int], ...]


def with_branches(rows: Sequence[tuple[Term, Ranges]], solve: Simplifier) -> list[Term | None]:
    """For each row the term with its branches simplified under their conditions, None where that changes nothing."""
    out: list[Term | None] = [None] * len(rows)
    current = {i: term for i, (term, _) in enumerate(rows) if _has_select(term)}
    for height in range(1, MAX_HEIGHT + 1):
        wanted: dict[_Job, None] = {}

        def note(job: _Job, wanted: dict[_Job, None] = wanted) -> Term | None:
            wanted[job] = None
            return None

        for i in list(current):
            try:
                _Walk(rows[i][1], height, note).rebuilt(current[i])
            except (RecursionError, TirxError):
                del current[i]  # too deep or too wide for this
        jobs = [job for job in wanted if job not in _memo][:MAX_JOBS]
        if jobs:
            _run(jobs, solve)
        for i, term in current.items() if wanted else ():
            changed = _Walk(rows[i][1], height, _memo.get).rebuilt(term)
            if changed is not term:
                current[i] = out[i] = changed
    while len(_memo) > MEMO_SIZE:
        _memo.popitem(last=False)
    return out


def _has_select(term: Term) -> bool:
    return any(isinstance(t, tuple) and t[0] == "select" for t in postorder(term))


def _run(jobs: Sequence[_Job], solve: Simplifier) -> None:
    """Solve the jobs in one e-graph and remember the answers."""
    terms: list[Term] = []
    assume: list[Term] = []
    ranges: dict[str, tuple[int, int]] = {}
    back: list[dict[str, Term]] = []
    for j, job in enumerate(jobs):
        mine: dict[str, Term] = {f"v{i}": f"v{i}@{j}" for i in range(len(job.ranges))}
        back.append({f"v{i}@{j}": f"v{i}" for i in range(len(job.ranges))})
        terms.append(substitute(job.branch, mine))
        assume += [substitute(c, mine) for c in job.conditions]
        ranges |= {f"v{i}@{j}": bounds for i, bounds in enumerate(job.ranges)}
    try:
        results = solve(terms, ranges, assume)
    except TirxError:
        results = terms
    for job, result, names_back in zip(jobs, results, back):
        _memo[job] = substitute(result, names_back)


class _TooWide(TirxError):
    """More lists of conditions around subterms than ``MAX_VISITS`` allows."""


class _Walk:
    """One term rebuilt with what ``ask`` gives for its branches of one height; itself where that changes nothing."""

    def __init__(self, ranges: Ranges, height: int, ask: Callable[[_Job], Term | None]) -> None:
        self.ranges = ranges
        self.height = height
        self.ask = ask
        self._asked = 0
        self._heights: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._negated: dict[int, Term] = {}
        # By identity: hashing a term takes time for every path into it, of which a shared term may have 2**64.
        self._memo: dict[tuple[int, ...], Term] = {}

    def rebuilt(self, t: Term, conditions: tuple[Term, ...] = ()) -> Term:
        """``t`` with its branches replaced, where ``conditions`` hold."""
        if not isinstance(t, tuple) or not self._selections(t):
            return t
        key = (id(t), *map(id, conditions))
        known = self._memo.get(key)
        if known is None:
            if len(self._memo) > MAX_VISITS:
                raise _TooWide("too many branches within branches")
            if t[0] == "select":
                _, c, a, b = t
                parts: tuple[Term, ...]
                other = self._negated.setdefault(id(c), ("lnot", c))
                parts = (self.rebuilt(c, conditions), self._branch(a, c, conditions), self._branch(b, other, conditions))
            else:
                parts = tuple([self.rebuilt(x, conditions) for x in t[1:]])
            same = all(new is old for new, old in zip(parts, t[1:]))
            known = self._memo[key] = t if same else (t[0], *parts)
        return known

    def _branch(self, branch: Term, condition: Term, outer: tuple[Term, ...]) -> Term:
        conditions = (*outer, condition)[-MAX_CONDITIONS:]
        if not isinstance(branch, tuple):
            return branch
        fits = self._selections(branch) + 1 == self.height and sum(map(self._size, (branch, *conditions))) <= MAX_SIZE
        if fits and self._asked < MAX_ASKED:
            self._asked += 1
            order, alias = _numbered(branch, conditions, self.ranges)
            job = order and self._job(branch, conditions, order, alias)
            found = self.ask(job) if job else None
            if found is not None and job and found != job.branch:
                return substitute(found, {f"v{i}": v for i, v in enumerate(order)})
        return self.rebuilt(branch, conditions)

    def _job(self, branch: Term, conditions: tuple[Term, ...], order: list[str], alias: dict[str, Term]) -> _Job | None:
        try:
            facts = gather(conditions, self.ranges)
        except TirxError:
            return None  # a branch that is never taken
        if not _useful(branch, facts, self.ranges) or not _possible(conditions, {v: facts.ranges[v] for v in order}):
            return None
        renamed = tuple(substitute(c, alias) for c in conditions)
        return _Job(substitute(branch, alias), renamed, tuple(facts.ranges[v] for v in order))

    def _selections(self, t: Term) -> int:
        """How many selections are nested in ``t``."""
        return _folded(t, self._heights, lambda op, inside: max(inside, default=0) + (op == "select"))

    def _size(self, t: Term) -> int:
        """Nodes of ``t`` as a tree."""
        return _folded(t, self._sizes, lambda op, inside: 1 + sum(inside))


def _folded(t: Term, memo: dict[int, int], combine: Callable[[str, list[int]], int]) -> int:
    """A number for ``t`` from its operator and the numbers of its operands, 0 for a leaf; ``memo`` by identity."""
    if not isinstance(t, tuple):
        return 0
    if id(t) not in memo:
        for x in postorder(t):
            if isinstance(x, tuple) and id(x) not in memo:
                memo[id(x)] = combine(x[0], [memo[id(a)] if isinstance(a, tuple) else 0 for a in x[1:]])
    return memo[id(t)]


def _numbered(branch: Term, conditions: tuple[Term, ...], ranges: Ranges) -> tuple[list[str], dict[str, Term]]:
    """Variables in the order that a walk over branch and conditions meets them, and a new name for each."""
    found: dict[str, None] = {}
    for t in postorder(branch, *conditions):
        if isinstance(t, str):
            found[t] = None
    order = list(found)
    return order, {v: f"v{i}" for i, v in enumerate(order)}


def _possible(conditions: Sequence[Term], ranges: Ranges) -> bool:
    """Whether a point is found at which all conditions hold.

    Facts that contradict each other would make numbers equal in the e-graph that all branches share.
    """
    random = Random(0)
    order = list(ranges)
    for i in range(_TRIES):
        if i < _NEAR:  # all variables near one end, where equal ones and multiples are
            point = {v: min(lo + i, hi) for v, (lo, hi) in ranges.items()}
        elif i < 2 * _NEAR:
            point = {v: max(hi - i + _NEAR, lo) for v, (lo, hi) in ranges.items()}
        else:
            point = {v: random.randint(*ranges[v]) for v in order}
            if i % 2:
                same = random.choice(order)
                point = {v: min(max(point[same], lo), hi) for v, (lo, hi) in ranges.items()}
        try:
            if all(evaluate(c, point) for c in conditions):
                return True
        except EvaluationError:
            continue
    return False


def _useful(branch: Term, facts: Facts, ranges: Ranges) -> bool:
    """Whether one of the facts could matter to an operation of ``branch``."""
    every = list(postorder(branch))
    present = set(every)
    if any(kind == "eq" and (a in present or b in present) for a, b, kind in facts.relations if not isinstance(a, int)):
        return True
    inside = [t for t in every if isinstance(t, tuple) and t[0] in SENSITIVE]
    sensitive = set().union(*(names(t) for t in inside))
    if any(facts.ranges[v] != ranges[v] for v in sensitive):
        return True
    operands = {a for t in inside for a in t[1:] if not isinstance(a, int)}
    between = [(a, b) for a, b, _ in facts.relations if {type(a), type(b)} != {str, int}]  # those narrowed a range, or didn't
    if any(a in operands or b in operands for a, b in between):
        return True
    return any(names(a) & sensitive for a, _ in facts.multiples)
