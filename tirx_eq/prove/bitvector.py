"""Rule obligations on bit-vectors: every variable any signed w-bit number, in arithmetic so wide that nothing wraps.

Before the solver sees it, an obligation is put into words a SAT solver likes, each step an equivalence or a weakening
of the hypotheses (so "proved" stays proved): a constant known to be a power of two becomes ``1 << s``, a number used
through its lowest set bit becomes ``odd << s``, and what a power of two multiplies, divides or reduces becomes a shift
or a mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..ir.index import Term, postorder, substitute
from .obligations import Goal, Obligation
from .smt import Problem, width_for
from .table import Table

WIDTHS = (8, 16, 32)
RLIMIT = 20_000_000


@dataclass(frozen=True)
class Result:
    """``result`` is sat, unsat or unknown; ``width`` the bits of the arithmetic; ``point`` a model of all variables."""

    result: str
    width: int
    used: int
    point: dict[str, int] | None
    smtlib: str


def power(s: Term) -> Term:
    """``2**s``."""
    return ("shl", 1, s)


def is_power(t: Term) -> bool:
    """Whether a term is a power of two by its form."""
    if isinstance(t, int):
        return t > 0 and t & (t - 1) == 0
    return isinstance(t, tuple) and t[0] == "shl" and t[1] == 1


def exponent(t: Term) -> Term:
    """s of a term that ``is_power``."""
    return t.bit_length() - 1 if isinstance(t, int) else t[2]


def is_lowest_bit(t: Term) -> bool:
    """Whether a term is ``x & -x``."""
    return isinstance(t, tuple) and t[0] == "and" and t[2] == ("sub", 0, t[1])


def at_least_one(t: Term, hypotheses: Sequence[Term]) -> bool:
    """Whether the hypotheses say so in as many words."""
    if isinstance(t, int):
        return t >= 1
    if is_power(t):
        return True
    for h in hypotheses:
        if isinstance(h, tuple) and h[0] in ("le", "lt") and isinstance(h[1], int) and h[2] == t:
            if h[1] >= (1 if h[0] == "le" else 0):
                return True
    return isinstance(t, tuple) and t[0] == "add" and isinstance(t[2], int) and t[2] >= 0 and (at_least_one(t[1], hypotheses))


def rewrite(t: Term, rule: Callable[[Term], Term]) -> Term:
    """``t`` with ``rule`` applied to every subterm, operands first."""
    done: dict[int, Term] = {}

    def now(x: Term) -> Term:
        return done[id(x)] if isinstance(x, tuple) else rule(x)

    for x in postorder(t):
        if isinstance(x, tuple):
            done[id(x)] = rule((x[0], *(now(a) for a in x[1:])))
    return now(t)


def _shifts(t: Term) -> Term:
    """Shifts and masks for what a power of two multiplies, divides or reduces."""
    if not isinstance(t, tuple):
        return t
    if t[0] == "and" and is_lowest_bit(t) and isinstance(t[1], tuple) and t[1][0] == "shl" and _odd(t[1][1]):
        return power(t[1][2])
    if t[0] == "mul":
        for a, b in ((t[1], t[2]), (t[2], t[1])):
            if is_power(b):
                return ("shl", a, exponent(b))
            if _shifted(b):
                return ("shl", _shifts(("mul", a, b[1])), b[2])
        return ("mul", *sorted(t[1:], key=str))
    if t[0] == "and" and isinstance(t[2], tuple) and t[2][:2] == ("sub", 0) and is_power(t[2][2]):
        s = exponent(t[2][2])
        return ("shl", ("shr", t[1], s), s)  # the low bits cleared: shifted down and up again
    if t[0] == "div" and is_power(t[2]):
        return ("shr", t[1], exponent(t[2]))
    if t[0] == "div" and _shifted(t[2]):
        return ("shr", ("div", t[1], t[2][1]), t[2][2])  # floor(a / (z * 2**s)) is floor(floor(a / z) / 2**s)
    if t[0] == "tdiv" and is_power(t[2]) and _shifted(t[1]) and t[1][2] == exponent(t[2]):
        return t[1][1]
    if t[0] == "mod" and is_power(t[2]):
        return ("and", t[1], ("sub", t[2], 1))
    if t[0] == "mod" and is_lowest_bit(t[2]):
        return ("and", t[1], ("sub", t[2], 1))  # where the bit is 0 both sides differ, but then 1 <= bit fails as well
    return t


def _shifted(t: Term) -> bool:
    """Whether a term is ``x << s`` and no power of two."""
    return isinstance(t, tuple) and t[0] == "shl" and t[1] != 1


def _odd(t: Term) -> bool:
    return isinstance(t, tuple) and t[0] == "add" and t[2] == 1 and isinstance(t[1], tuple) and t[1][:2] == ("mul", 2)


class Worded:
    """An obligation being reworded: hypotheses, goals, and how a model of the new variables gives the old ones."""

    def __init__(self, ob: Obligation, weaken: bool = True) -> None:
        self.hypotheses = list(ob.hypotheses)
        self.goals = list(ob.goals)
        self.sorts = dict(ob.sorts)
        self.logs = dict(ob.logs)
        self.exact = list(ob.exact)
        self.within = dict(ob.within)
        self.back: list[tuple[str, Term]] = []
        self.exponents: set[str] = set()
        self._powers()
        self._divisible()
        if weaken:
            self._multiples(ob)
            self._products(ob)
        self._everywhere(lambda t: rewrite(t, _shifts))
        self._logarithms()

    def _everywhere(self, f: Callable[[Term], Term]) -> None:
        self.hypotheses = [f(h) for h in self.hypotheses]
        self.goals = [Goal(g.label, f(g.term)) for g in self.goals]
        self.logs = {r: f(x) for r, x in self.logs.items()}
        self.exact = [(f(x), f(s)) for x, s in self.exact]
        self.within = {n: f(t) for n, t in self.within.items()}

    def _replace(self, name: str, value: Term) -> None:
        self.back.append((name, value))
        self._everywhere(lambda t: substitute(t, {name: value}))

    def _fresh(self, stem: str) -> str:
        name = f"{stem}${len(self.sorts)}"
        self.sorts[name] = "i64"
        return name

    def _powers(self) -> None:
        """k >= 1 with k & (k-1) = 0 is 1 << s."""
        while True:
            for h in list(self.hypotheses):
                found = self._power_of_two(h)
                if found is not None:
                    name, offset = found
                    s = self._fresh("s")
                    self.exponents.add(s)
                    self.hypotheses.remove(h)
                    self._replace(name, power(s) if offset == 0 else ("sub", power(s), offset))
                    self._everywhere(lambda t: rewrite(t, _offsets))
                    break
            else:
                return

    def _divisible(self) -> None:
        """y that leaves no remainder by 2**s is something << s."""
        for h in list(self.hypotheses):
            if not (isinstance(h, tuple) and h[0] == "eq" and h[1] == 0 and isinstance(h[2], tuple)):
                continue
            op, y, *by = h[2]
            if op == "tmod" and isinstance(y, str) and is_power(by[0]):
                self.hypotheses.remove(h)
                self._replace(y, ("shl", self._fresh("part"), exponent(by[0])))

    def _power_of_two(self, h: Term) -> tuple[str, int] | None:
        """(name, c) if ``h`` says that name + c is a power of two, and the hypotheses that it is positive."""
        if not (isinstance(h, tuple) and h[0] == "eq" and 0 in h[1:]):
            return None
        both = h[2] if h[1] == 0 else h[1]
        if not (isinstance(both, tuple) and both[0] == "and"):
            return None
        for k, less in ((both[1], both[2]), (both[2], both[1])):
            if less == ("sub", k, 1) and isinstance(k, str) and at_least_one(k, self.hypotheses):
                return k, 0
            if k == ("add", less, 1) and isinstance(less, str) and at_least_one(k, self.hypotheses):
                return less, 1
        return None

    def _multiples(self, ob: Obligation) -> None:
        """m >= 1 that is used through its lowest bit is odd << s, and its multiples are something << s."""
        for e, m in ob.multiples:
            if not isinstance(m, str):
                continue
            terms = [*self.hypotheses, *(g.term for g in self.goals)]
            if not any(is_lowest_bit(t) and t[1] == m for x in terms for t in postorder(x)):  # type: ignore[index]
                continue
            s, j, p = self._fresh("s"), self._fresh("j"), self._fresh("p")
            self.exponents.add(s)
            stands = next(h for h in self.hypotheses if h[0] == "eq" and h[1] == e and h[2][:2] == ("mul", m))  # type: ignore[index]
            self.hypotheses.remove(stands)  # weakened: of the multiple only the low zeros are kept
            shifted: Term = ("shl", p, s)
            self.hypotheses.append(("le", 0, j))
            if isinstance(e, str):
                self._replace(e, shifted)  # e has as many bits as p then
            else:
                self.within[p] = e
                self.hypotheses.append(("eq", e, shifted))
            self._replace(m, ("shl", ("add", ("mul", 2, j), 1), s))

    def _products(self, ob: Obligation) -> None:
        """What is a multiple of m is written as the product, so that both sides of a goal have it in common."""
        for e, m in ob.multiples:
            for h in self.hypotheses:
                if isinstance(e, str) and isinstance(h, tuple) and h[0] == "eq" and h[1] == e and h[2][:2] == ("mul", m):
                    self.hypotheses.remove(h)
                    self._replace(e, h[2])
                    break

    def _logarithms(self) -> None:
        """log2 of max(1 << s, 1) is s."""
        for r, x in list(self.logs.items()):
            if isinstance(x, tuple) and x[0] == "max" and is_power(x[1]) and x[2] == 1:
                del self.logs[r]
                self._replace(r, exponent(x[1]))
                self._everywhere(lambda t: rewrite(t, _shifts))

    def ranges(self, width: int) -> dict[str, tuple[int, int]]:
        """Signed ``width``-bit numbers; exponents and shift amounts 0..width; a part is no larger than its whole."""
        amounts: set[str] = set()
        for x in (*self.hypotheses, *(g.term for g in self.goals), *(x for p in self.exact for x in p)):
            for t in postorder(x):
                if isinstance(t, tuple) and t[0] in ("shl", "shr") and isinstance(t[2], str):
                    amounts.add(t[2])
        half = 1 << (width - 1)
        found: dict[str, tuple[int, int]] = {}
        for name in self.sorts:
            if name in self.exponents:
                found[name] = (0, width - 1)
            elif name in amounts and name not in self.logs:
                found[name] = (0, width)
            else:
                found[name] = (-half, half - 1)
        for name, whole in [*self.within.items(), *self.logs.items()]:
            lo, hi = _interval(whole, found)
            most = max(abs(lo), abs(hi))
            found[name] = (0, most.bit_length()) if name in self.logs else (-most, most)
        return found

    def original(self, point: dict[str, int]) -> dict[str, int]:
        """A model of the reworded variables as values of the obligation's own."""
        from ..ir.index import evaluate

        values = dict(point)
        for name, value in reversed(self.back):
            values[name] = evaluate(value, values)
        return values


def _interval(t: Term, ranges: dict[str, tuple[int, int]]) -> tuple[int, int]:
    table = Table(ranges)
    return table.interval[table.add(t)]


def _offsets(t: Term) -> Term:
    """(2**s - c) + c is 2**s."""
    if isinstance(t, tuple) and t[0] == "add" and isinstance(t[1], tuple) and t[1][0] == "sub" and t[1][2] == t[2]:
        return t[1][1]
    return t


def check(ob: Obligation, width: int, rlimit: int = RLIMIT, *, weaken: bool = True) -> Result:
    """Is there a counterexample with ``width``-bit variables?  Without goals: can the hypotheses hold at all?

    ``weaken`` lets hypotheses be replaced by weaker ones: then only ``unsat`` means anything.
    """
    worded = Worded(ob, weaken)
    wanted = worded.goals
    table = Table(worded.ranges(width))
    facts = [table.add(h) for h in worded.hypotheses]
    claims = [table.add(g.term) for g in wanted]
    bits = width_for(table, [*facts, *claims])
    problem = Problem(table, table.names(*facts, *claims), bits, rlimit)
    for f in facts:
        problem.solver.add(problem.value(f) != problem.const(0))
    if claims:
        z3 = problem.z3
        problem.solver.add(z3.Or(*(problem.value(c) == problem.const(0) for c in claims), problem.context))
    answer = problem.solve()
    point = None
    if answer.point is not None:
        point = worded.original({**{n: lo for n, (lo, _) in table.ranges.items()}, **answer.point})
    return Result(answer.result, bits, answer.used, point, answer.smtlib)
