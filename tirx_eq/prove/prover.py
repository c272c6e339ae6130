"""Proves one rule: its obligation, by the procedure that fits, with every answer checked where it can be.

    bit rules       bit-vectors at 8, 16, 32 and 64 bits, in arithmetic that cannot wrap
    the others      unbounded integers with symbolic constants and divisors: plain, with lemmas, by cases, with cuts

A refutation is an assignment that the scalar evaluator confirms.  A rule whose hypotheses cannot hold is "vacuous",
which counts as a failure: it would prove anything.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..ir.index import EvaluationError, Term, evaluate, parse, show
from . import bitvector, nonlinear
from .hints import WITNESSES
from .obligations import Goal, Obligation
from .verdict import Lemmas, Unsat

WIDTHS = (8, 16, 32, 64)
REQUIRED_WIDTHS = (8, 16, 32)
MAX_CHOICES = 5
REFUTE_RLIMIT = 4_000_000


@dataclass(frozen=True)
class Proof:
    """What became of one obligation.

    ``verdict``: proved, refuted, unknown, vacuous, or "no claim" (the rule only subsumes).  ``procedure``: integers or
    bit-vectors.  ``level``, ``cases`` and ``cuts`` say how many lemma schemas, cases and intermediate equations a proof
    on integers took; ``widths`` the operand widths proved and ``arithmetic`` the bits of the arithmetic at each;
    ``rlimit`` the most resource units that one query used.
    """

    rule: str
    verdict: str
    procedure: str
    goals: int
    level: int = 0
    cases: int = 1
    cuts: int = 0
    widths: tuple[int, ...] = ()
    arithmetic: tuple[int, ...] = ()
    rlimit: int = 0
    hint: bool = False
    counterexample: dict[str, int] | None = None
    detail: str = ""
    queries: tuple[str, ...] = field(default=(), compare=False)

    @property
    def ok(self) -> bool:
        """Whether the rule may ship."""
        return self.verdict in ("proved", "no claim")


def prove(ob: Obligation, widths: Sequence[int] = WIDTHS, rlimit: int = bitvector.RLIMIT) -> Proof:
    """The proof of one obligation; ``rlimit`` bounds each query on bit-vectors."""
    if not ob.goals and not ob.exact:
        return Proof(ob.rule, "no claim", "none", 0)
    hinted = with_hint(ob)
    hint = hinted is not ob
    found = _bits(hinted, widths, rlimit) if ob.bits else integers(hinted)
    if found.verdict == "unknown":
        point = find_counterexample(ob)
        if point is not None:
            found = replace(found, verdict="refuted", counterexample=point, detail=explain(ob, point))
    if found.verdict == "proved":
        found = _with_shifts_exact(ob, found)
    if found.verdict == "proved" and witness(ob) is None:
        found = replace(found, verdict="vacuous", detail="no assignment satisfies the hypotheses")
    return replace(found, hint=hint)


def with_hint(ob: Obligation) -> Obligation:
    """``ob`` with its divisibility goal replaced by the witness of ``hints``, if there is one for the rule."""
    text = WITNESSES.get(ob.rule)
    if text is None:
        return ob
    quotient = parse(text)
    goals = []
    for g in ob.goals:
        t = g.term
        if isinstance(t, tuple) and t[0] == "land" and t[2][0] == "eq" and t[2][1][0] == "mod" and t[2][2] == 0:
            _, e, m = t[2][1]
            goals += [Goal(g.label, t[1]), Goal(g.label, ("eq", e, ("mul", m, quotient)))]
        else:
            goals.append(g)
    return replace(ob, goals=tuple(goals))


# ---- the two procedures


def _bits(ob: Obligation, widths: Sequence[int], rlimit: int) -> Proof:
    proved: list[int] = []
    arithmetic: list[int] = []
    queries: list[str] = []
    used = 0
    for w in widths:
        result = bitvector.check(ob, w, rlimit) if ob.goals else bitvector.Result("unsat", w, 0, None, "")
        used = max(used, result.used)
        queries.append(result.smtlib)
        if result.result == "sat" and result.point is not None and violates(ob, result.point):
            detail = explain(ob, result.point)
            return Proof(ob.rule, "refuted", "bit-vectors", len(ob.goals), widths=tuple(proved), rlimit=used,
                         counterexample=result.point, detail=detail)  # fmt: skip
        if result.result == "unsat":
            proved.append(w)
            arithmetic.append(result.width)
        elif w in REQUIRED_WIDTHS:
            break
    done = set(REQUIRED_WIDTHS) <= set(proved)
    return Proof(ob.rule, "proved" if done else "unknown", "bit-vectors", len(ob.goals), widths=tuple(proved),
                 arithmetic=tuple(arithmetic), rlimit=used, queries=tuple(queries))  # fmt: skip


@dataclass(frozen=True)
class Attempt:
    """One way to ask: lemma level, products as variables (``linear``) or as products, and how much it may cost."""

    level: int
    linear: bool
    rlimit: int
    seed: int = 0


QUICK = (Attempt(0, True, 200_000), Attempt(1, True, 400_000))
PLAIN = (Attempt(0, False, 150_000),)
NEXT = (Attempt(0, True, 200_000), Attempt(1, True, 400_000))
THOROUGH = (Attempt(2, True, 400_000), Attempt(1, False, 400_000))
AFTER_CUTS = (Attempt(1, True, 400_000), Attempt(2, True, 400_000), Attempt(0, False, 200_000), Attempt(1, False, 600_000))
LAST = (
    Attempt(1, False, 3_000_000),
    Attempt(2, False, 4_000_000),
    Attempt(1, False, 3_000_000, seed=1),
    Attempt(2, False, 3_000_000, seed=2),
)


@dataclass
class _Tally:
    """What a proof on integers took so far."""

    level: int = 0
    cuts: int = 0
    cases: int = 0
    rlimit: int = 0
    queries: list[str] = field(default_factory=list)

    def tried(self, problem: nonlinear.Problem, attempts: Sequence[Attempt]) -> str:
        """Result of the first attempt that decides; ``sat`` counts only without lemmas left out."""
        for a in attempts:
            result, used, text = problem.solve(a.level, a.rlimit, a.linear, a.seed)
            if result == "unsat":
                self.level, self.rlimit = max(self.level, a.level), max(self.rlimit, used)
                self.queries.append(text)
                return result
            if result == "sat" and not a.linear:
                return result
        return "unknown"


def integers(ob: Obligation) -> Proof:
    """Proof over unbounded integers: verdict proved or unknown.  ``NotImplementedError`` for a bit operation."""
    tally = _Tally()
    problem = nonlinear.Problem(ob)
    result = tally.tried(problem, QUICK)
    if result == "unknown" and 0 < problem.choices <= MAX_CHOICES:
        result = tally.tried(problem, PLAIN)
        if result == "unknown" and _by_cases(ob, problem.choices, tally):
            result = "unsat"
    if result == "unknown":
        result = _thoroughly(problem, tally)
    if result == "unknown":
        result = tally.tried(problem, LAST)
    verdict = "proved" if result == "unsat" else "unknown"
    return Proof(ob.rule, verdict, "integers", len(ob.goals), tally.level, max(1, tally.cases), tally.cuts,
                 rlimit=tally.rlimit, queries=tuple(tally.queries))  # fmt: skip


def _thoroughly(problem: nonlinear.Problem, tally: _Tally) -> str:
    """Cuts that linear reasoning finds, products as products, more lemmas, all cuts."""
    cuts = problem.cut(linear=True)
    result = tally.tried(problem, (*(NEXT if cuts else ()), *PLAIN))
    if result == "unknown":
        result = tally.tried(problem, THOROUGH)
    if result == "unknown":
        more = problem.cut(linear=False)
        cuts += more
        result = tally.tried(problem, AFTER_CUTS) if more else result
    tally.cuts = max(tally.cuts, cuts)
    return result


def _by_cases(ob: Obligation, choices: int, tally: _Tally) -> bool:
    """Every outcome of the minima, maxima and selections by itself: together they are all there are."""
    mine = _Tally()
    for branches in itertools.product((True, False), repeat=choices):
        problem = nonlinear.Problem(ob, branches)
        if problem.choices > choices:
            return False
        result = mine.tried(problem, (*QUICK, *PLAIN))
        if result == "unknown":
            result = _thoroughly(problem, mine)
        if result != "unsat":
            return False
        mine.cases += 1
    tally.level, tally.cases, tally.cuts = mine.level, mine.cases, mine.cuts
    tally.rlimit, tally.queries = mine.rlimit, mine.queries
    return True


def _with_shifts_exact(ob: Obligation, proof: Proof) -> Proof:
    """``<<`` on constants drops bits silently: no rule may shift one out of 64 bits."""
    if not ob.exact:
        return proof
    top: Term = (1 << 63) - 1
    goals = []
    for x, s in ob.exact:
        moved: Term = ("shl", x, s)
        goals.append(Goal("amount of <<", ("land", ("le", 0, s), ("le", s, 63))))
        goals.append(Goal("bits of <<", ("land", ("le", moved, top), ("le", ("sub", -1, top), moved))))
    result = bitvector.check(replace(ob, goals=tuple(goals)), 64)
    if result.result == "unsat":
        return replace(proof, rlimit=max(proof.rlimit, result.used), goals=proof.goals + len(ob.exact))
    shifts = ", ".join(f"{show(x)} << {show(s)}" for x, s in ob.exact)
    return replace(proof, verdict="refuted" if result.result == "sat" else "unknown", counterexample=result.point,
                   detail=f"{shifts} may lose bits of a 64-bit constant")  # fmt: skip


def certificate(proof: Proof) -> Lemmas:
    """The certificate of a proof on integers: one unsatisfiable query per case."""
    steps = []
    for k, text in enumerate(proof.queries):
        logic = text.split(")", 1)[0].split()[-1]
        digest = hashlib.sha256(text.encode()).hexdigest()
        steps.append((f"query {k}", Unsat(logic, 0, nonlinear.RLIMIT, proof.rlimit, digest)))
    return Lemmas(tuple(steps))


# ---- assignments


def _true(t: Term, point: dict[str, int]) -> bool:
    try:
        return evaluate(t, point) != 0
    except EvaluationError:
        return False


def admissible(ob: Obligation, point: dict[str, int]) -> bool:
    """Whether every hypothesis holds at ``point``."""
    return all(_true(h, point) for h in ob.hypotheses)


def violates(ob: Obligation, point: dict[str, int]) -> bool:
    """Whether ``point`` is a counterexample: every hypothesis holds and some goal fails."""
    return admissible(ob, point) and not all(_true(g.term, point) for g in ob.goals)


def explain(ob: Obligation, point: dict[str, int]) -> str:
    """Which goal fails at ``point``."""
    for g in ob.goals:
        if not _true(g.term, point):
            at = ", ".join(f"{n}={v}" for n, v in sorted(point.items()) if n in ob.sorts)
            return f"{g.label}: {show(g.term)} fails at {at}"
    return ""


def find_counterexample(ob: Obligation, widths: Sequence[int] = (5, 8)) -> dict[str, int] | None:
    """A small counterexample, found on bit-vectors and confirmed by evaluation; None if there is none to be found."""
    for w in widths:
        result = bitvector.check(ob, w, REFUTE_RLIMIT, weaken=False)
        if result.point is not None and violates(ob, result.point):
            return result.point
    return None


def witness(ob: Obligation) -> dict[str, int] | None:
    """An assignment at which all hypotheses hold: the rule can fire."""
    for w in (6, 10, 20, 64):
        result = bitvector.check(replace(ob, goals=()), w, REFUTE_RLIMIT, weaken=False)
        if result.point is not None and admissible(ob, result.point):
            return result.point
    return None


def prove_all(obligations: Sequence[Obligation], widths: Sequence[int] = WIDTHS, map_: Callable[..., Any] = map) -> list[Proof]:
    """``prove`` on each; ``map_`` may be the ``map`` of a process pool."""
    return list(map_(prove, obligations, [tuple(widths)] * len(obligations)))
