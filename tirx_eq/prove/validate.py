"""Are two index terms equal at every point of their ranges?  A portfolio, cheapest procedure first.

    same term → affine over GF(2) → small box, all points → Presburger (isl) → box up to 2**18 points
              → integers with the lemmas of mixed radix, if a divisor is a variable → integers, briefly, unless all is bits
              → bit-vectors at a width that holds every intermediate value → integers → unknown, with the question

Integers get a short turn before bit-vectors because nested division by constants that are no powers of two takes them
10 ms, and a bit-blasted divider 200 ms or for ever; where they fail they fail on their small limit.  Operations on bits beside
divisors that are powers of two are nothing for them.
"Equal" means: wherever ``before`` has a value, ``after`` has the same one.  Every counterexample is replayed by the
scalar evaluator before it is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import ProofError
from ..ir.index import EvaluationError, Term, evaluate, show
from .gf2 import MAX_INPUTS, BitView
from .table import DIVISIONS, Ranges, Table
from .verdict import Certificate, Empty, Enumeration, IndexClaim, Structural, Unsat, Verdict

SMALL_BOX = 1 << 11
LARGE_BOX = 1 << 18
MAX_DIVISIONS = 10
"""Quotients and remainders that the lemmas are tried on: each brings products with all the others."""
UNDEFINED = "undefined"
NOT_ARITHMETIC = frozenset(("and", "or", "xor", "shl", "shr"))


def validate(before: Term, after: Term, ranges: Ranges, *, assume: Sequence[Term] = (), rlimit: int | None = None) -> Verdict:
    """Verdict on ``before == after`` for all integers in ``ranges`` (inclusive) that satisfy every term of ``assume``.

    Raises ``ProofError`` if ``before`` may divide by zero or shift by a negative amount (with the point), if a name
    has no range, a range is empty, or no point satisfies ``assume``.  If ``after`` has no value where ``before`` has
    one, the verdict is ``different`` and its ``after`` reads "undefined".
    """
    return Validator(ranges, assume=assume, rlimit=rlimit).compare(before, after)


def validate_all(
    pairs: Iterable[tuple[Term, Term]], ranges: Ranges, *, assume: Sequence[Term] = (), rlimit: int | None = None
) -> list[Verdict]:
    """``validate`` for many pairs over the same ranges; subterms that pairs share are looked at once."""
    validator = Validator(ranges, assume=assume, rlimit=rlimit)
    return [validator.compare(a, b) for a, b in pairs]


def prove(claim: Term, ranges: Ranges, *, assume: Sequence[Term] = (), rlimit: int | None = None) -> Verdict:
    """Verdict on a condition: ``equal`` means that it holds at every point, ``different`` refutes it at one."""
    return validate(("ne", claim, 0), 1, ranges, assume=assume, rlimit=rlimit)


class Validator:
    """The portfolio over one table of terms; keeps what it learns about shared subterms.

    ``asked`` counts how often each procedure was tried and ``decided`` how often it answered.
    """

    def __init__(self, ranges: Ranges, *, assume: Sequence[Term] = (), rlimit: int | None = None) -> None:
        self.table = Table(ranges)
        self.bits = BitView(self.table)
        self.facts = [self.table.add(("ne", f, 0)) for f in assume]
        self.assume = tuple(assume)
        self.rlimit = rlimit
        self.asked: dict[str, int] = {}
        self.decided: dict[str, int] = {}
        self._defined: set[int] = set()
        self._fact_names = self.table.names(*self.facts) if self.facts else []
        if self.facts:
            self._facts_possible()

    def compare(self, before: Term, after: Term) -> Verdict:
        """See ``validate``."""
        a, b = self.table.add(before), self.table.add(after)
        if self.table.partial[a]:
            self._require_defined(a)
        guarded = self.table.partial[b] and a != b
        for name, step in self._steps(a, b, guarded):
            self.asked[name] = self.asked.get(name, 0) + 1
            found = step(a, b)
            if found is not None:
                self.decided[name] = self.decided.get(name, 0) + 1
                return self._with_claim(found, before, after)
        why = "no procedure decided within its limit"
        found = Verdict("unknown", "portfolio", detail=why, smtlib=self._question(a, b))
        return self._with_claim(found, before, after)

    def _steps(self, a: int, b: int, guarded: bool) -> list[tuple[str, Any]]:
        steps: list[tuple[str, Any]] = []
        if not guarded:
            steps += [("structural", self._structural), ("gf2", self._gf2)]
        points = self.table.size(self._names(a, b))
        if points <= SMALL_BOX:
            return [*steps, ("enumeration", self._enumerate)]
        steps.append(("sample", self._sample))
        if not guarded:
            steps.append(("isl", self._isl))
        if points <= LARGE_BOX:
            return [*steps, ("enumeration", self._enumerate)]
        return [
            *steps,
            ("lemmas", self._lemmas),
            *([] if self._all_bits(a, b) else [("z3-int", self._integers_briefly)]),
            ("z3-bv", self._bitvector),
            ("z3-int", self._integers),
        ]

    def _all_bits(self, a: int, b: int) -> bool:
        """Whether there are operations on bits, and every division takes some bits of a number."""
        nodes = {self.table.nodes[i] for r in (a, b, *self.facts) for i in self.table.reach(r)}
        divisors = [self.table.interval[n[2]] for n in nodes if n[0] in DIVISIONS]
        powers = all(0 < low == high and low & (low - 1) == 0 for low, high in divisors)
        return powers and any(n[0] in NOT_ARITHMETIC for n in nodes)

    def _names(self, a: int, b: int) -> list[str]:
        return self.table.names(a, b, *self.facts)

    def _with_claim(self, verdict: Verdict, before: Term, after: Term) -> Verdict:
        names = self.table.names(self.table.add(before), self.table.add(after), *self.facts)
        ranges = tuple((n, *self.table.ranges[n]) for n in names)
        return replace(verdict, claim=IndexClaim(before, after, ranges, self.assume))

    # ---- the procedures: each returns a verdict or None

    def _structural(self, a: int, b: int) -> Verdict | None:
        return Verdict("equal", "structural", certificate=Structural()) if a == b else None

    def _gf2(self, a: int, b: int) -> Verdict | None:
        if len(self.bits.inputs) > MAX_INPUTS // 2:
            self.bits = BitView(self.table)
        x = self.bits.rows(a)
        y = self.bits.rows(b) if x is not None else None
        if x is None or y is None:
            return None
        if x == y:
            return Verdict("equal", "gf2", certificate=self.bits.matrix(x, show))  # type: ignore[arg-type]
        point = self.bits.difference(x, y)
        return None if point is None else self._refuted(a, b, point, "gf2")

    def _sample(self, a: int, b: int) -> Verdict | None:
        from .grid import sample_points

        names = self._names(a, b)
        point = self._differing(a, b, sample_points(self.table, names))
        return None if point is None else self._refuted(a, b, point, "sample")

    def _enumerate(self, a: int, b: int) -> Verdict | None:
        from .grid import box_axes

        names = self._names(a, b)
        point = self._differing(a, b, box_axes(self.table, names))
        if point is not None:
            return self._refuted(a, b, point, "enumeration")
        box = tuple((n, *self.table.ranges[n]) for n in names)
        return Verdict("equal", "enumeration", certificate=Enumeration(self.table.size(names), box))

    def _differing(self, a: int, b: int, points: dict[str, Any]) -> dict[str, int] | None:
        from .grid import Values, both, first_true

        (x, _), (y, y_ok), *facts = Values(self.table, points).run([a, b, *self.facts])
        wrong = (x != y) if y_ok is None else (x != y) | ~y_ok
        for fact, fact_ok in facts:
            wrong = wrong & both(fact != 0, fact_ok)
        return first_true(wrong, points)

    def _isl(self, a: int, b: int) -> Verdict | None:
        from . import presburger

        if not presburger.available():
            return None
        found = presburger.disagreement(self.table, self._names(a, b), a, b, self.facts)
        if found is None:
            return None
        exact, point = found
        if point is None:
            import islpy

            version = str(getattr(islpy.version, "VERSION_TEXT", ""))
            return Verdict("equal", "isl", certificate=Empty(f"islpy {version}", "before != after, within ranges"))
        return self._refuted(a, b, point, "isl") if exact else None

    def _bitvector(self, a: int, b: int) -> Verdict | None:
        from .smt import MAX_WIDTH, width_for

        width = width_for(self.table, [a, b, *self.facts])
        return self._solve(a, b, width, "z3-bv") if width <= MAX_WIDTH else None

    def _integers(self, a: int, b: int) -> Verdict | None:
        return self._solve(a, b, 0, "z3-int")

    def _integers_briefly(self, a: int, b: int) -> Verdict | None:
        from .smt import RLIMIT

        return self._solve(a, b, 0, "z3-int", (self.rlimit or RLIMIT) // 10)

    def _lemmas(self, a: int, b: int) -> Verdict | None:
        """Variable divisors: the rule prover, which proves outer quotients before inner ones."""
        nodes = {self.table.nodes[i] for r in (a, b, *self.facts) for i in self.table.reach(r)}
        divisions = [n for n in nodes if n[0] in DIVISIONS]
        variable = any(self.table.nodes[n[2]][0] != "const" for n in divisions)
        if not variable or len(divisions) > MAX_DIVISIONS or any(n[0] in NOT_ARITHMETIC for n in nodes):
            return None
        from .obligations import Goal, Obligation
        from .prover import certificate, integers

        names = self._names(a, b)
        bounds: list[Term] = [("le", self.table.ranges[n][0], n) for n in names]
        bounds += [("le", n, self.table.ranges[n][1]) for n in names]
        facts = (*bounds, *(self.table.term(f) for f in self.facts))
        goal = Goal("equal", ("eq", self.table.term(a), self.table.term(b)))
        proof = integers(Obligation("claim", facts, (goal,), dict.fromkeys(names, "i64"), False))
        if proof.verdict != "proved":
            return None
        return Verdict("equal", "lemmas", certificate=certificate(proof))

    def _problem(self, a: int, b: int, width: int, rlimit: int | None = None) -> Any:
        from .smt import RLIMIT, Problem

        problem = Problem(self.table, self._names(a, b), width, rlimit or self.rlimit or RLIMIT)
        for f in self.facts:
            problem.solver.add(problem.value(f) != problem.const(0))
        wrong = problem.value(a) != problem.value(b)
        ok = problem.defined(b)
        problem.solver.add(wrong if ok is None else problem.z3.Or(wrong, problem.z3.Not(ok)))
        return problem

    def _solve(self, a: int, b: int, width: int, name: str, rlimit: int | None = None) -> Verdict | None:
        problem = self._problem(a, b, width, rlimit)
        answer = problem.solve()
        if answer.result == "unsat":
            certificate: Certificate = Unsat(problem.logic, width, problem.rlimit, answer.used, answer.digest)
            return Verdict("equal", name, certificate=certificate)
        if answer.point is None or not problem.exact:
            return None
        return self._refuted(a, b, answer.point, name)

    def _question(self, a: int, b: int) -> str:
        """SMT-LIB text: bit-vectors unless they would be absurdly wide and integers can say it all."""
        from .smt import MAX_WIDTH, width_for

        width = width_for(self.table, [a, b, *self.facts])
        problem = self._problem(a, b, 0)
        if width <= MAX_WIDTH or not problem.exact:
            problem = self._problem(a, b, width)
        return f"(set-logic {problem.logic})\n" + str(problem.solver.to_smt2())

    # ---- counterexamples and definedness

    def _refuted(self, a: int, b: int, point: dict[str, int], by: str) -> Verdict | None:
        """``different`` if the scalar evaluator agrees that the sides differ at ``point`` (inside the ranges)."""
        names = self._names(a, b)
        full = {n: point.get(n, self.table.ranges[n][0]) for n in names}
        if any(not self.table.ranges[n][0] <= v <= self.table.ranges[n][1] for n, v in full.items()):
            return None
        x = self._at(a, full)
        y = self._at(b, full)
        if x == UNDEFINED or x == y or any(self._at(f, full) != 1 for f in self.facts):
            return None
        detail = f"{x} against {y} at " + ", ".join(f"{n}={v}" for n, v in full.items())
        return Verdict("different", by, counterexample=dict(full), before=x, after=y, detail=detail)

    def _at(self, node: int, point: dict[str, int]) -> int | str:
        try:
            return evaluate(self.table.term(node), point)
        except EvaluationError:
            return UNDEFINED

    def _require_defined(self, root: int) -> None:
        """``ProofError`` unless ``root`` has a value at every point of the ranges (and assumptions)."""
        if root in self._defined:
            return
        names = self.table.names(root, *self.facts)
        point: dict[str, int] | None = None
        surely = False
        if self.table.size(names) <= LARGE_BOX:
            from .grid import Values, both, box_axes, first_true

            points = box_axes(self.table, names)
            (_, ok), *facts = Values(self.table, points).run([root, *self.facts])
            if ok is not None:
                wrong = ~ok
                for fact, fact_ok in facts:
                    wrong = wrong & both(fact != 0, fact_ok)
                point = first_true(wrong, points)
            surely = point is None
        else:
            point, surely = self._solve_defined(root, names)
        if surely:
            self._defined.add(root)
            return
        raise ProofError(self._undefined(root, point))

    def _solve_defined(self, root: int, names: Sequence[str]) -> tuple[dict[str, int] | None, bool]:
        from .smt import MAX_WIDTH, RLIMIT, Problem, width_for

        width = width_for(self.table, [root, *self.facts])
        for w in (0, width) if width <= MAX_WIDTH else (0,):
            problem = Problem(self.table, names, w, self.rlimit or RLIMIT)
            for f in self.facts:
                problem.solver.add(problem.value(f) != problem.const(0))
            ok = problem.defined(root)
            if ok is None:
                return None, True
            problem.solver.add(problem.z3.Not(ok))
            answer = problem.solve()
            if answer.result == "unsat" or (answer.result == "sat" and problem.exact):
                return answer.point, answer.result == "unsat"
        return None, False

    def _undefined(self, root: int, point: dict[str, int] | None) -> str:
        """Names the operation at fault, its operand, and the range (and point) that allows it."""
        for i in self.table.reach(root):
            if not self.table.own_partial(i):
                continue
            op, _, right = self.table.nodes[i]
            term = self.table.term(right)
            if point is not None and not _at_fault(self.table.term(i), point):
                continue
            lo, hi = self.table.interval[right]
            what = "divisor may be zero" if op in DIVISIONS else "shift amount may be negative"
            at = "" if point is None else " at " + ", ".join(f"{n}={v}" for n, v in sorted(point.items()))
            return f"{op}: {what}: {show(term)} ranges over {lo}..{hi}{at}"
        return "index term: no value everywhere in its ranges"

    def _facts_possible(self) -> None:
        """``ProofError`` if no point satisfies the assumptions: they would prove anything."""
        no = self.table.add(0)
        one = self.table.add(1)
        names = self._fact_names
        if self.table.size(names) <= LARGE_BOX:
            from .grid import box_axes

            possible = self._differing(no, one, box_axes(self.table, names)) is not None
        else:
            from .grid import sample_points

            possible = self._differing(no, one, sample_points(self.table, names)) is not None
            if not possible:
                from .smt import width_for

                answer = self._problem(no, one, width_for(self.table, self.facts)).solve()
                possible = answer.result != "unsat"
        if not possible:
            facts = "; ".join(show(self.table.term(f)) for f in self.facts)
            what = f"assumptions: no point of the ranges satisfies {facts}"
            raise ProofError(what, hint="they would prove any claim")


def _at_fault(term: Any, point: dict[str, int]) -> bool:
    try:
        evaluate(term, point)
    except EvaluationError:
        return True
    return False
