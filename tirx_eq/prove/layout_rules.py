"""Obligations of the layout rules, read off their own text, and their proof records (``proofs/layout.json``).

What terms mean here: a shard is a map from index to point, one digit per iter; copies are a set of points, one choice per
progression or mask; a layout is a set of points per index, of which only the address m is touched by swizzles.

* A rewrite of lists is proved digit by digit over unbounded integers: every choice on one side has a choice on the
  other with the same value on an arbitrary axis (for shards also the same index, so the map is kept).  Existential
  choices are tried from a short list, the witness is checked by the solver.
* Rules about single bits and known bits are proved on 64-bit vectors for all parameters at once.  Products are opaque
  there; what is used of them (range and divisibility of a digit's contribution) is proved over integers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product as cartesian
from pathlib import Path
from typing import Any

from ..egraph.layouts import layout_rules, layout_sources
from ..egraph.rules import Rule, show_form
from ..errors import ProofError, RuleError
from ..resources import proofs_dir

Form = Any
RLIMIT = 20_000_000
#: what one step on a thread axis is worth in threads, by axis number (see egraph.layouts.AXIS_NUMBER)
THREADS = {6: 1, 7: 32, 8: 1, 9: 128, 10: 1, 11: 32}
_COMPARE = {"<", ">", "<=", ">=", "=", "!="}


@dataclass(frozen=True)
class LayoutProof:
    """What was found for one rule: ``verdict`` proved, refuted or unknown; ``digest`` is of the rule's text."""

    rule: str
    digest: str
    verdict: str
    theory: str
    goals: int
    detail: str = ""


class _Prover:
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


# -- lists of digits, over integers ----------------------------------------------------------------------------------


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

    def __init__(self, form: Form, prover: _Prover) -> None:
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
        if not isinstance(fact, list) or fact[0] not in _COMPARE:
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


def _prove_lists(form: Form, shard: bool) -> tuple[str, int, str]:
    """(verdict, goals, detail) of a rewrite of list terms."""
    prover = _Prover()
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


# -- bits, over 64-bit vectors ---------------------------------------------------------------------------------------


class _Bits:
    """The bit-vector reading of a rule about Layout terms or known bits."""

    WIDTH = 64

    def __init__(self, prover: _Prover) -> None:
        self.p, self.z3 = prover, prover.z3
        self.vars: dict[str, Any] = {}
        self.hypotheses: list[Any] = []

    def const(self, value: int) -> Any:
        return self.z3.BitVecVal(value, self.WIDTH, self.p.ctx)

    def var(self, name: Form) -> Any:
        if isinstance(name, int):
            return self.const(name)
        return self.vars.setdefault(name, self.z3.BitVec(name, self.WIDTH, self.p.ctx))

    def number(self, form: Form) -> Any:
        z3 = self.z3
        if not isinstance(form, list):
            return self.var(form)
        a: Any = self.number(form[1])
        b: Any = self.number(form[2]) if len(form) > 2 else None
        head = form[0]
        if head == "+":
            self.hypotheses += [z3.BVAddNoOverflow(a, b, True), z3.BVAddNoUnderflow(a, b)]
            return a + b
        if head == "-":
            self.hypotheses += [z3.BVSubNoOverflow(a, b), z3.BVSubNoUnderflow(a, b, True)]
            return a - b
        if head == "*":  # opaque: only that equal factors give equal products
            return self.product()(a, b)
        if head == "log2":
            found = z3.FreshConst(z3.BitVecSort(self.WIDTH, self.p.ctx), "log")
            self.hypotheses += [
                a > 0, found >= 0, found < self.WIDTH - 1, self.const(1) << found <= a,
                z3.Or(found == self.WIDTH - 2, a < self.const(2) << found),
            ]  # fmt: skip
            return found
        simple: dict[str, Callable[[], Any]] = {"&": lambda: a & b, "|": lambda: a | b, "^": lambda: a ^ b}
        if head in simple:
            return simple[head]()
        if head == "<<":  # egglog drops bits silently; the amount must be a shift
            self.hypotheses += [b >= 0, b < self.WIDTH]
            return a << b
        raise RuleError(f"no meaning on bits for {show_form(form)}")

    def product(self) -> Any:
        return self.z3.Function("product", *[self.z3.BitVecSort(self.WIDTH, self.p.ctx)] * 3)

    def compare(self, fact: Form) -> Any:
        a: Any = self.number(fact[1])
        b: Any = self.number(fact[2])
        return {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b, "!=": a != b}[fact[0]]

    def apply(self, term: Form, m: Any) -> Any:
        """The address after the swizzle terms of ``term`` on an address ``m`` of its innermost layout."""
        if not isinstance(term, list):
            return m
        z3, head = self.z3, term[0]
        if head == "Lay":
            copies = term[2]
            return m + self.number(copies[2]) if isinstance(copies, list) and copies[0] == "Of" else m
        inner = self.apply(term[-1], m)
        if head == "Bit":
            s, d = self.var(term[1]), self.var(term[2])
            return inner ^ (((inner >> s) & 1) << d)
        if head == "Flip":
            return inner ^ (self.const(1) << self.var(term[1]))
        if head == "Swz":
            low, count, shift, side = (self.var(t) for t in term[1:5])
            ones = (self.const(1) << count) - 1
            down = ((inner >> (low + shift)) & ones) << low
            up = ((inner >> low) & ones) << (low + shift)
            return inner ^ z3.If(side == 1, down, up)
        raise RuleError(f"no meaning for the term {show_form(term)}")


def _innermost(term: Form) -> str:
    while isinstance(term, list) and term[0] != "Lay":
        term = term[-1]
    return show_form(term)


def _shifts(term: Form) -> Iterator[Form]:
    """Bit numbers that occur in a term."""
    if isinstance(term, list):
        if term[0] == "Bit":
            yield from term[1:3]
        elif term[0] == "Flip":
            yield term[1]
        yield from _shifts(term[-1]) if term[0] != "Lay" else ()


def _prove_swizzle(form: Form) -> tuple[str, int, str]:
    """A rewrite of Layout terms: equal addresses for every address of the innermost layout that the facts allow.

    The sizes and other axes are untouched by these terms.  Bit numbers are those of an encoded layout: 0 to 63.
    """
    prover = _Prover()
    bits = _Bits(prover)
    m = bits.z3.BitVec("the address", bits.WIDTH, prover.ctx)
    for fact in body(form):
        if isinstance(fact[2], list) and fact[2][0] in ("zeros", "ones"):
            about = fact[2][1]
            value = bits.apply(about, m) if _innermost(about) == _innermost(form[1]) else m
            known = bits.var(fact[1])
            bits.hypotheses.append(value & known == (0 if fact[2][0] == "zeros" else known))
            bits.hypotheses.append(bits.z3.And(known >= 0, known < 1 << 40))
        else:
            bits.hypotheses.append(bits.compare(fact))
    for name in {*_shifts(form[1]), *_shifts(form[2])}:
        bits.hypotheses += [bits.var(name) >= 0, bits.var(name) < bits.WIDTH]
    bits.hypotheses += _swizzle_ranges(bits, form[1])
    if _is_offset(form[2]):  # an integer addition: it must not wrap
        k = bits.number(form[2][2][2])
        bits.hypotheses += [m >= -(1 << 60), m < 1 << 60, k >= -(1 << 40), k <= 1 << 40]
    goals = [bits.apply(form[1], m) == bits.apply(form[2], m), *_swizzle_ranges(bits, form[2])]
    answers = [prover.refute(bits.hypotheses, g) for g in goals]
    return _verdict(answers), len(goals), ""


def _swizzle_ranges(bits: _Bits, term: Form) -> list[Any]:
    """What makes a Swz term one: counts at least 0, and all its bits among the 64.  Encoded terms are, built ones must be."""
    found: list[Any] = []
    while isinstance(term, list) and term[0] != "Lay":
        if term[0] == "Swz":
            low, count, shift = (bits.var(t) for t in term[1:4])
            found += [low >= 0, count >= 0, shift >= 0, low <= 63, shift <= 63, count <= 63, low + shift + count <= 63]
        term = term[-1]
    return found


def _is_offset(term: Form) -> bool:
    return isinstance(term, list) and term[0] == "Lay" and isinstance(term[2], list) and term[2][0] == "Of"


MASK = (1 << 40) - 1


def _prove_known(rule: Rule) -> tuple[str, int, str]:
    """A transfer rule: each fact it sets is true of the term, given that the facts it reads are true of the parts.

    ``lo`` is exactly the least value on m; ``may`` holds every bit that value - lo can have, of the low 40; ``zeros`` and
    ``ones`` are bits that every address of a layout lacks or has.
    """
    form = rule.form
    term = next(f[2] for f in body(form) if f[0] == "=" and isinstance(f[2], list) and f[2][0][0].isupper())
    answers: list[str] = []
    for action in form[2]:
        if action[0] != "set":
            raise RuleError(f"{rule.name}: no meaning for the action {show_form(action)}")
        function, value = action[1][0], action[2]
        prove = _lo_goal if function.startswith("lo") else _may_goal if function.startswith("may") else _known_goal
        answers.append(prove(form, term, function, value))
    return _verdict(answers), len(answers), ""


def _verdict(answers: Sequence[str]) -> str:
    bad = [a for a in answers if a != "unsat"]
    return "proved" if not bad else "refuted" if "sat" in bad else "unknown"


def _tails(term: Form) -> list[str]:
    """The lists inside a term, whose facts a transfer rule may read."""
    return [str(t) for t in term[1:] if isinstance(t, str)] if term[0] == "Lay" else [str(term[-1])] if term[1:] else []


def _reads(form: Form, function: str) -> list[tuple[str, str]]:
    """(variable, part) for each ``(= variable (function part))``."""
    return [(f[1], f[2][1]) for f in body(form) if f[0] == "=" and isinstance(f[2], list) and f[2][0].startswith(function)]


def _axis_of(term: Form) -> Form:
    places = {"It": 3, "Rp": 3, "Of": 1, "Set": 1}
    return term[places[term[0]]] if term[0] in places else None


def _lo_goal(form: Form, term: Form, function: str, value: Form) -> str:
    """The value is a lower bound of digit + part, and one digit (first or last) attains it at the part's least."""
    prover = _Prover()
    z3, ints = prover.z3, {}  # type: ignore[var-annotated]

    def num(f: Form) -> Any:
        if isinstance(f, int):
            return z3.IntVal(f, prover.ctx)
        if isinstance(f, str):
            return ints.setdefault(f, z3.Int(f, prover.ctx))
        a, b = num(f[1]), num(f[2])
        return {"+": a + b, "-": a - b, "*": a * b}[f[0]]

    hypotheses = []
    for f in body(form):
        try:
            if f[0] in _COMPARE and f[2] != term:
                a, b = num(f[1]), num(f[2])
                pick = {"<": a < b, ">": a > b, "<=": a <= b, ">=": a >= b, "=": a == b, "!=": a != b}
                hypotheses.append(pick[f[0]])
        except (KeyError, IndexError):  # a fact about bits: not used here
            continue
    least = [num(v) for v, _ in _reads(form, "lo")]
    low = least[0] if least else z3.IntVal(0, prover.ctx)
    c, part = z3.Int("digit", prover.ctx), z3.Int("part", prover.ctx)
    axis = _axis_of(term)
    zero = z3.IntVal(0, prover.ctx)
    if term[0] in ("It", "Rp"):
        e, s = num(term[1]), num(term[2])
        moved = z3.If(num(axis) == 0, c * s, zero)
        span = [0 <= c, c < e]
        first, last = z3.If(num(axis) == 0, zero, zero), z3.If(num(axis) == 0, (e - 1) * s, zero)
        lemma = [z3.Implies(s >= 0, c * s >= 0), z3.Implies(s <= 0, c * s >= (e - 1) * s), e >= 1]
        ranged = [0 <= c, c < e]
        if (
            prover.refute(
                [*ranged, e >= 1, z3.Implies(s <= 0, (e - 1 - c) * s <= 0), z3.Implies(s >= 0, c * s >= 0)], z3.And(*lemma)
            )
            != "unsat"
        ):
            return "unknown"
    else:
        moved = first = last = num(term[2]) if term[0] in ("Of", "Set") and axis is not None else zero
        if axis is not None and term[0] in ("Of", "Set"):
            moved = first = last = z3.If(num(axis) == 0, moved, zero)
        span, lemma = [], []
    if term[0] == "Set" and _mask_is_one(form, term) is False and axis == 0:
        return "unknown"
    bound = prover.refute([*hypotheses, *span, *lemma, part >= low], moved + part >= num(value))
    exact = [prover.refute([*hypotheses, *lemma], end + low == num(value)) for end in (first, last)]
    return "unsat" if bound == "unsat" and "unsat" in exact else "sat"


def _mask_is_one(form: Form, term: Form) -> bool:
    return ["=", term[3], ["bigint", 1]] in body(form)


def _bits_with_facts(form: Form, term: Form) -> tuple[_Prover, _Bits]:
    prover = _Prover()
    bits = _Bits(prover)
    for fact in body(form):
        if fact[2] == term or (isinstance(fact[2], list) and "-" in fact[2][0] and len(fact[2][0]) > 1):
            continue
        if isinstance(fact[2], list) and fact[2][0] in ("zeros", "ones", "bigint"):
            continue
        bits.hypotheses.append(bits.compare(fact))
    return prover, bits


def _digit(bits: _Bits, e: Any, s: Any) -> Any:
    """The contribution x of a digit: 0 <= x <= (e-1)s, a multiple of s's lowest bit (for s < 0: counted from below)."""
    z3 = bits.z3
    product = bits.product()
    total = product(e - 1, s)
    size = z3.If(s > 0, total, -total)
    x = z3.FreshConst(z3.BitVecSort(bits.WIDTH, bits.p.ctx), "x")
    bits.hypotheses += [size >= 0, x >= 0, x <= size, x & ((s & -s) - 1) == 0]
    return x


def _may_goal(form: Form, term: Form, function: str, value: Form) -> str:
    """(digit - its least) + (part - its least) has only bits of the value, among the low 40."""
    _, bits = _bits_with_facts(form, term)
    prover = bits.p
    part = sum(_rests(form, term, bits), bits.const(0))
    axis = _axis_of(term)
    moved = bits.const(0)
    if term[0] in ("It", "Rp") and axis == 0:
        moved = _digit(bits, bits.var(term[1]), bits.var(term[2]))
    elif term[0] == "Set" and axis == 0 and not _mask_is_one(form, term):
        return "sat"
    elif term[0] in ("It", "Rp", "Set", "Of") and axis != 0:
        if ["!=", axis, 0] not in body(form):
            return "sat"
    # the part stands for its value modulo 2^40: higher bits of it cannot reach lower ones
    return prover.refute(bits.hypotheses, (moved + part) & MASK & ~bits.number(value) == 0)


def _rests(form: Form, term: Form, bits: _Bits) -> list[Any]:
    """For each list inside the term, what a value of it has above the least one: any bits of its mask, modulo 2^40."""
    masks = {part: v for v, part in _reads(form, "may")}
    found = []
    for part in _tails(term):
        w = bits.z3.FreshConst(bits.z3.BitVecSort(bits.WIDTH, bits.p.ctx), "w")
        bits.hypotheses += [w >= 0, w <= MASK]
        if part in masks:
            mask = bits.var(masks[part])
            bits.hypotheses += [mask >= 0, mask <= MASK, w & ~mask == 0]
        found.append(w)
    return found


def _known_goal(form: Form, term: Form, function: str, value: Form) -> str:
    """Every address of the layout lacks (or has) the bits of the value."""
    _, bits = _bits_with_facts(form, term)
    prover, z3 = bits.p, bits.z3
    sort = z3.BitVecSort(bits.WIDTH, prover.ctx)
    if term[0] == "Lay":
        m = sum(_rests(form, term, bits), bits.const(0))
        lows = {part: v for v, part in _reads(form, "lo")}
        for part in _tails(term):
            m = m + (bits.var(lows[part]) if part in lows else z3.FreshConst(sort, "lo"))
    elif term[0] == "Bit":
        m = z3.FreshConst(sort, "m")
        for v, _ in _reads(form, "zeros"):
            bits.hypotheses.append(m & bits.var(v) == 0)
        for v, _ in _reads(form, "ones"):
            bits.hypotheses.append(m & bits.var(v) == bits.var(v))
        s = bits.var(term[1])
        bits.hypotheses += [s >= 0, s < bits.WIDTH]
        m = bits.apply([term[0], term[1], term[2], "h"], m)
    else:
        raise RuleError(f"no meaning for known bits of {show_form(term)}")
    found = bits.number(value)
    goal = m & found == (0 if function == "zeros" else found)
    return prover.refute(bits.hypotheses, goal)


# -- all rules, records ----------------------------------------------------------------------------------------------


def digit_lemma() -> str:
    """What the bit proofs use of a digit c of extent e and stride s: its contribution c·s lies between 0 and (e-1)·s and
    is a multiple of every divisor of s.  Over all integers; ``unsat`` if it holds."""
    prover = _Prover()
    z3 = prover.z3
    c, e, s, g, q = (z3.Int(n, prover.ctx) for n in "cesgq")
    given = [0 <= c, c < e]
    signs = [z3.Implies(s >= 0, (e - 1 - c) * s >= 0), z3.Implies(s <= 0, (e - 1 - c) * s <= 0)]
    for goal in (z3.Implies(z3.And(e - 1 - c >= 0, s >= 0), (e - 1 - c) * s >= 0),):
        if prover.refute(given, goal) != "unsat":
            return "unknown"
    up = z3.Implies(s >= 0, z3.And(c * s >= 0, c * s <= (e - 1) * s))
    down = z3.Implies(s <= 0, z3.And(c * s <= 0, c * s >= (e - 1) * s))
    answers = [
        prover.refute([*given, *signs, z3.Implies(s >= 0, c * s >= 0), z3.Implies(s <= 0, c * s <= 0)], z3.And(up, down)),
        prover.refute([s == g * q], c * s == g * (q * c)),
    ]
    return "unsat" if all(a == "unsat" for a in answers) else "unknown"


def merge_goal(name: str, merge: Form) -> str:
    """Two facts of one term merge into a true fact: equal exact values, masks that both hold, bits that both know."""
    prover = _Prover()
    bits = _Bits(prover)
    z3 = bits.z3
    a, b, m = (z3.BitVec(n, 64, prover.ctx) for n in ("old", "new", "m"))
    if not isinstance(merge, list) or merge[1:] != ["old", "new"]:
        return "unknown"
    joined = {"&": a & b, "|": a | b, "max": z3.If(a > b, a, b), "min": z3.If(a < b, a, b)}.get(merge[0])
    if joined is None:
        return "unknown"
    if name.startswith("lo"):
        return prover.refute([a == m, b == m], joined == m)  # both are the least value
    if name.startswith("may"):
        return prover.refute([m & ~a == 0, m & ~b == 0], m & ~joined == 0)
    if name == "zeros":
        return prover.refute([m & a == 0, m & b == 0], m & joined == 0)
    return prover.refute([m & a == a, m & b == b], m & joined == joined)


def prove_rule(rule: Rule) -> LayoutProof:
    """The proof of one layout rule."""
    family = rule.family
    try:
        if family == "known":
            theory, found = "bit-vectors and integers", _prove_known(rule)
        elif family == "swizzle":
            theory, found = "bit-vectors", _prove_swizzle(rule.form)
        else:
            shard = isinstance(rule.form[1], list) and rule.form[1][0] in ("It", "Bc")
            theory, found = "integers", _prove_lists(rule.form, shard)
    except RuleError as error:
        return LayoutProof(rule.name, rule.digest, "unknown", "none", 0, error.message)
    verdict, goals, detail = found
    return LayoutProof(rule.name, rule.digest, verdict, theory, goals, detail)


def prove_all() -> list[LayoutProof]:
    """Proofs of every rule and merge of the layout family, in order."""
    import hashlib

    from ..egraph.rules import show_form as show

    found = [prove_rule(rule) for rule in layout_rules()]
    for source in layout_sources():
        form = source.form
        if isinstance(form, list) and form[0] == "function" and ":merge" in form:
            digest = hashlib.sha256(show(form).encode()).hexdigest()[:16]
            answer = merge_goal(str(form[1]), form[form.index(":merge") + 1])
            verdict = {"unsat": "proved", "sat": "refuted"}.get(answer, "unknown")
            found.append(LayoutProof(f"merge/{form[1]}", digest, verdict, "bit-vectors", 1))
    lemma = {"unsat": "proved"}.get(digit_lemma(), "unknown")
    found.append(LayoutProof("lemma/digit", "", lemma, "integers", 2))
    return found


def record_file() -> Path:
    """Where the records are."""
    return proofs_dir() / "layout.json"


def write_records(proofs: Sequence[LayoutProof]) -> None:
    """Replace the records."""
    rows = ",\n ".join(json.dumps({k: v for k, v in asdict(p).items() if v != ""}) for p in proofs)
    record_file().write_text(f"[{rows}]\n")


def read_records() -> dict[str, LayoutProof]:
    """Records by rule; ProofError if the file isn't readable."""
    try:
        rows = json.loads(record_file().read_text())
        return {r["rule"]: LayoutProof(**{"digest": "", "detail": "", **r}) for r in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ProofError(f"proof records of layout rules: {error}") from None


def check(*, recompute: bool = True) -> list[str]:
    """What is wrong: a rule without a current record, a record without a rule, a proof that no longer succeeds."""
    records = read_records()
    problems = []
    found = prove_all() if recompute else []
    fresh = {p.rule: p for p in found}
    rules = {r.name: r.digest for r in layout_rules()}
    for name, digest in rules.items():
        record = records.get(name)
        if record is None:
            problems.append(f"{name}: no proof record")
        elif record.digest != digest:
            problems.append(f"{name}: the rule's text has changed since it was proved")
        elif record.verdict != "proved":
            problems.append(f"{name}: recorded as {record.verdict}")
    problems += [f"{p.rule}: {p.verdict} {p.detail}".rstrip() for p in fresh.values() if p.verdict != "proved"]
    known = set(rules) | {n for n in records if n.startswith(("merge/", "lemma/"))}
    problems += [f"{name}: a record, but no such rule" for name in records if name not in known]
    return problems
