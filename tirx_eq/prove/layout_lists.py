"""Obligations of rewrites of shard and copies terms, over unbounded integers.

A shard is a map from index to point, one digit per iter; copies are a set of points, one choice per progression or mask.
A rewrite holds if every choice on one side has a choice on the other with the same value on an arbitrary axis (for
shards also the same index, so that the map is kept).  Existential choices are tried from a short list; the solver checks
the witness, so a poor list can only fail to prove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product as cartesian
from typing import Any

from ..egraph.rules import show_form
from ..errors import RuleError

Form = Any
RLIMIT = 20_000_000
#: what one step on a thread axis is worth in threads, by axis number (see egraph.layouts.AXIS_NUMBER)
THREADS = {6: 1, 7: 32, 8: 1, 9: 128, 10: 1, 11: 32}
COMPARISONS = {"<", ">", "<=", ">=", "=", "!="}


class Prover:
    """One solver context for one rule."""

    def __init__(self) -> None:
        import z3

        self.z3 = z3
        self.ctx = z3.Context()
        self.goals = 0

    def refute(self, hypotheses: Sequence[Any], goal: Any) -> str:
        """unsat if the goal follows, sat if it doesn't, unknown; vacuous if the hypotheses contradict each other."""
        solver = self.z3.Solver(ctx=self.ctx)
        solver.set("rlimit", RLIMIT)
        solver.add(*hypotheses)
        solver.push()
        solver.add(self.z3.Not(goal))
        answer = str(solver.check())
        solver.pop()
        if answer == "unsat":  # a contradiction is found at once if there is one
            solver.set("rlimit", RLIMIT // 100)
            return "vacuous" if str(solver.check()) == "unsat" else answer
        return answer


def body(form: Form) -> list[Form]:
    """Facts of a rule, or conditions of a rewrite."""
    if form[0] == "rule":
        return list(form[1])
    return list(form[form.index(":when") + 1]) if ":when" in form else []


@dataclass
class _Part:
    """One summand of a list: a digit (``extent``, ``stride``) or a mask (``mask``), plus ``shift``, on ``axis``."""

    axis: Any
    extent: Any = None
    stride: Any = None
    shift: Any = None
    mask: str | None = None


class _Lists:
    """The integer reading of one rewrite of Shard or Copies terms."""

    def __init__(self, form: Form, prover: Prover) -> None:
        self.p, self.z3 = prover, prover.z3
        self.ints: dict[str, Any] = {}
        self.hypotheses: list[Any] = []
        self.masks: dict[str, Form] = {}
        self.quotients: dict[str, Any] = {}
        self.cta = False
        for fact in body(form):
            self.fact(fact)
        self.left, self.right = self.parts(form[1]), self.parts(form[2])

    def var(self, name: Form) -> Any:
        if isinstance(name, int):
            return self.z3.IntVal(name, self.p.ctx)
        return self.ints.setdefault(name, self.z3.Int(name, self.p.ctx))

    def number(self, form: Form) -> Any:
        if not isinstance(form, list):
            return self.var(form)
        values = [self.number(f) for f in form[1:]]
        if form[0] in ("+", "-", "*"):
            a, b = values
            return a + b if form[0] == "+" else a - b if form[0] == "-" else a * b
        if form[0] in ("/", "%") and isinstance(form[2], int) and form[2] > 0:
            return self.quotient(form, values[0], form[2])
        raise RuleError(f"no meaning over integers for {show_form(form)}")

    def quotient(self, form: Form, a: Any, k: int) -> Any:
        """Truncated quotient or remainder by a positive constant."""
        key = show_form(["/", *form[1:]])
        if key not in self.quotients:
            q = self.z3.FreshInt("q", self.p.ctx)
            self.quotients[key] = q
            r = a - k * q
            self.hypotheses.append(self.z3.If(a >= 0, self.z3.And(0 <= r, r < k), self.z3.And(-k < r, r <= 0)))
        return self.quotients[key] if form[0] == "/" else a - k * self.quotients[key]

    def fact(self, fact: Form) -> None:
        if fact == ["cta"]:
            self.cta = True
            return
        if not isinstance(fact, list) or fact[0] not in COMPARISONS:
            raise RuleError(f"no meaning for the condition {show_form(fact)}")
        if fact[0] == "=" and isinstance(fact[2], list) and fact[2][0] in ("bigint", "|"):
            self.masks[fact[1]] = fact[2]
            return
        a, b = self.number(fact[1]), self.number(fact[2])
        self.hypotheses.append({"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b, "!=": a != b}[fact[0]])

    def parts(self, term: Form) -> list[_Part]:
        """Summands of a list term; the tail (a variable or the empty list) is the same unknown on both sides."""
        made: list[_Part] = []
        while isinstance(term, list) and term[0] not in ("Nil", "None"):
            head, args = term[0], term[1:-1]
            if head in ("It", "Rp"):
                made.append(_Part(self.number(args[2]), self.number(args[0]), self.number(args[1])))
            elif head == "Bc":
                made.append(_Part(self.var("any-axis"), self.number(args[0]), self.var(0)))
            elif head == "Of":
                made.append(_Part(self.number(args[0]), shift=self.number(args[1])))
            elif head == "Set":
                made.append(_Part(self.number(args[0]), shift=self.number(args[1]), mask=self.mask(args[2])))
            elif head == "Grow":
                made.append(_Part(self.number(args[2]), self.number(args[0]), self.number(args[1])))
                made.append(_Part(self.number(args[2]), shift=self.number(args[3]), mask=self.mask(args[4])))
            else:
                raise RuleError(f"no meaning for the term {show_form(term)}")
            term = term[-1]
        self.tails = [*getattr(self, "tails", []), show_form(term)]
        return made

    def mask(self, form: Form) -> str:
        name = form if isinstance(form, str) else show_form(form)
        if not isinstance(form, str):
            self.masks[name] = form
        return name

    def member(self, mask: str | None, i: Any) -> Any:
        """Whether bit i of a mask (a non-negative big integer) is set."""
        form = self.masks.get(mask or "")
        z3 = self.z3
        if form is None:
            bits = z3.Function(f"bits-{mask}", z3.IntSort(self.p.ctx), z3.BoolSort(self.p.ctx))
            return z3.And(i >= 0, bits(i))
        if form[0] == "bigint" and form[1] == 1:
            return i == 0
        if form[0] == "|":
            return z3.Or(*(self.member_of(part, i) for part in form[1:]))
        raise RuleError(f"no meaning for the mask {show_form(form)}")

    def member_of(self, form: Form, i: Any) -> Any:
        if isinstance(form, str):
            return self.member(form, i)
        if form[0] == "<<" and isinstance(form[1], str):
            d = self.number(form[2])
            return self.z3.And(d >= 0, self.member(form[1], i - d))
        raise RuleError(f"no meaning for the mask {show_form(form)}")

    # a choice is one integer per summand: the digit, or the member of the mask

    def fresh(self, parts: Sequence[_Part], tag: str) -> list[Any]:
        return [self.z3.Int(f"{tag}{k}", self.p.ctx) for k in range(len(parts))]

    def allowed(self, parts: Sequence[_Part], choice: Sequence[Any]) -> list[Any]:
        return [
            self.z3.And(0 <= c, c < p.extent) if p.extent is not None else self.member(p.mask, c)
            for p, c in zip(parts, choice)
            if p.extent is not None or p.mask is not None
        ]

    def value(self, parts: Sequence[_Part], choice: Sequence[Any], axis: Any) -> Any:
        """Sum on an arbitrary axis; in CTA scope also weighted to threads if ``axis`` is None."""
        z3, zero = self.z3, self.z3.IntVal(0, self.p.ctx)
        total = zero
        for p, c in zip(parts, choice):
            moved = (c * p.stride if p.stride is not None else c if p.mask is not None else zero) + (
                p.shift if p.shift is not None else zero
            )
            if axis is None:
                weight = zero
                for number, factor in THREADS.items():
                    weight = z3.If(p.axis == number, z3.IntVal(factor, self.p.ctx), weight)
                total = total + weight * moved
            else:
                total = total + z3.If(p.axis == axis, moved, zero)
        return total


def prove_lists(form: Form, shard: bool) -> tuple[str, int, str]:
    """(verdict, goals, detail) of a rewrite of list terms."""
    prover = Prover()
    lists = _Lists(form, prover)
    if lists.tails[0] != lists.tails[1]:
        return "refuted", 1, f"the tails {lists.tails[0]} and {lists.tails[1]} differ"
    done = 0
    directions = [(lists.left, lists.right, "every left point is on the right")]
    if not shard:
        directions.append((lists.right, lists.left, "every right point is on the left"))
    for source, target, what in directions:
        given = lists.fresh(source, "c")
        axes = [lists.z3.Int("A", prover.ctx)] if not lists.cta else [None, lists.z3.Int("A", prover.ctx)]
        hypotheses = [
            *lists.hypotheses,
            *lists.allowed(source, given),
        ]
        if lists.cta:  # outside the thread axes nothing changes
            hypotheses.append(lists.z3.Not(lists.z3.Or(*(axes[1] == n for n in THREADS))))
        verdict, detail = "refuted", ""
        for choice in _choices(lists, source, target, given):
            goals = [*lists.allowed(target, choice)]
            goals += [lists.value(source, given, a) == lists.value(target, choice, a) for a in axes]
            if shard:
                goals += _same_index(lists, source, target, given, choice)
            answers = [prover.refute([*hypotheses, *_products(lists, source, target, given)], g) for g in goals]
            if all(a == "unsat" for a in answers):
                verdict, done = "proved", done + len(goals)
                break
            if "unknown" in answers:
                verdict = "unknown"
            detail = f"{what}: goal {next(i for i, a in enumerate(answers) if a != 'unsat')} fails"
        if verdict != "proved":
            return verdict, done, detail
    return "proved", done, ""


def _same_index(
    lists: _Lists, source: Sequence[_Part], target: Sequence[_Part], given: Sequence[Any], choice: Sequence[Any]
) -> list[Any]:
    """Goals: both lists have the same size and the choices the same index, above a common tail of n elements at r."""
    n, r = lists.z3.Int("n", lists.p.ctx), lists.z3.Int("r", lists.p.ctx)

    def index(parts: Sequence[_Part], digits: Sequence[Any]) -> tuple[Any, Any]:
        at, size = r, n
        for p, c in reversed(list(zip(parts, digits))):
            at, size = at + c * size, size * p.extent
        return at, size

    (a, sa), (b, sb) = index(source, given), index(target, choice)
    return [a == b, sa == sb]


def _products(lists: _Lists, source: Sequence[_Part], target: Sequence[_Part], given: Sequence[Any]) -> list[Any]:
    """The one nonlinear lemma: x, y >= 0 implies x y >= 0, for digits, extents and what is left of them."""
    bounded = [(c, p.extent) for c, p in zip(given, source) if p.extent is not None]
    terms = [x for c, e in bounded for x in (c, e - 1 - c)] + [p.extent - 1 for p in target if p.extent is not None]
    terms += list(lists.ints.values())[:6]
    z3 = lists.z3
    return [z3.Implies(z3.And(x >= 0, y >= 0), x * y >= 0) for i, x in enumerate(terms) for y in terms[i:]]


def _choices(lists: _Lists, source: Sequence[_Part], target: Sequence[_Part], given: Sequence[Any]) -> Iterator[list[Any]]:
    """Witnesses to try: for each summand of the target, something made of the source's choice."""
    z3 = lists.z3
    zero = z3.IntVal(0, lists.p.ctx)
    movable = [g for g, p in zip(given, source) if p.extent is not None or p.mask is not None]
    options: list[list[Any]] = []
    for p in target:
        if p.extent is None and p.mask is None:
            options.append([zero])
            continue
        mine: list[Any] = [*movable, zero]
        for g, q in zip(given, source):
            if q.extent is not None and p.extent is not None:
                mine.append(q.extent - 1 - g)
        if len(movable) == 2 and len([t for t in target if t.extent is not None]) == 1:
            inner = next(q.extent for q in reversed(source) if q.extent is not None)
            mine.append(movable[0] * inner + movable[1])
        halves = _halves(lists, source, target, given)
        mine += [h[0] if p.extent is not None else h[1] for h in halves]
        options.append(mine)
    yield from (list(c) for c in cartesian(*options))


def _halves(lists: _Lists, source: Sequence[_Part], target: Sequence[_Part], given: Sequence[Any]) -> list[tuple[Any, Any]]:
    """For doubling: a digit below h stays; above, its excess e - h goes into the mask (and back)."""
    digits = [(p, g) for p, g in zip(source, given) if p.extent is not None]
    masks = [(p, g) for p, g in zip(source, given) if p.mask is not None]
    wanted = [p for p in target if p.extent is not None]
    goals = [t.mask for t in target if t.mask is not None]
    if len(digits) != 1 or len(masks) != 1 or len(wanted) != 1 or len(goals) != 1:
        return []
    (p, c), (_, i), q = digits[0], masks[0], wanted[0]
    z3 = lists.z3
    down = p.extent - q.extent
    moved = z3.If(c < q.extent, c, c - down), z3.If(c < q.extent, i, i + p.stride * down)
    up = q.extent - p.extent
    stays = lists.member(goals[0], i)
    back = z3.If(stays, c, c + up), z3.If(stays, i, i - p.stride * up)
    return [moved, back]
