"""A second reading of the rule files, which shares nothing with the prover's: plain Python numbers, drawn at random.

A rule is instantiated by drawing a value for every class and constant that its left side names, then facts that are true
of those values; what its conditions define follows, and where all of them hold the rule fires.  A rewrite must then give
the same value, an action must state something true.  Drawing is meant to hit guards: multiples, powers of two, bounds
that are tight and bounds that are not.
"""

from __future__ import annotations

import operator
import random
import re
from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor
from typing import Any

Form = Any
Env = dict[str, int]

_TOKEN = re.compile(r'"[^"]*"|[()]|[^\s()"]+')


class Misfit(Exception):
    """This draw does not satisfy the rule's conditions."""


class Wrong(Exception):
    """The rule claims something that is not so."""


def forms(text: str) -> list[Form]:
    """The parenthesised forms of a rule file, comments left out."""
    stack: list[list[Form]] = [[]]
    for token in _TOKEN.findall("\n".join(line.split(";")[0] for line in text.splitlines())):
        if token == "(":
            stack.append([])
        elif token == ")":
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(int(token) if re.fullmatch(r"-?\d+", token) else token)
    return stack[0]


def _floor_div(a: int, b: int) -> int:
    if b == 0:
        raise Misfit
    return a // b


def _trunc_div(a: int, b: int) -> int:
    if b == 0:
        raise Misfit
    return int(Fraction(a, b))


def _shift(a: int, b: int) -> int:
    if not 0 <= b <= 1 << 16:
        raise Misfit
    return a << b


OPERATORS: dict[str, Callable[..., int]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul,
    "Div": _floor_div, "Mod": lambda a, b: a - b * _floor_div(a, b),
    "TDiv": _trunc_div, "TMod": lambda a, b: a - b * _trunc_div(a, b),
    "And": operator.and_, "Or": operator.or_, "Xor": operator.xor,
    "Shl": _shift, "Shr": lambda a, b: a // _shift(1, b), "Min": min, "Max": max,
    "Lt": lambda a, b: int(a < b), "Le": lambda a, b: int(a <= b),
    "Eq": lambda a, b: int(a == b), "Ne": lambda a, b: int(a != b),
    "LAnd": lambda a, b: int(bool(a) and bool(b)), "LOr": lambda a, b: int(bool(a) or bool(b)),
    "LNot": lambda a: int(not a), "Sel": lambda c, a, b: a if c else b,
}  # fmt: skip
WITH_CONSTANT = {f"{op}K": op for op in ("Add", "Mul", "Div", "Mod", "TDiv", "TMod", "And", "Or", "Xor")}
POSITIVE = ("DivK", "ModK", "TDivK", "TModK")
"""Operators whose constant is at least 1: no rule may build one with less."""
ANALYSES: dict[str, Callable[[int, int], bool]] = {
    "lo": lambda e, v: e >= v,
    "hi": lambda e, v: e <= v,
    "al": lambda e, v: v >= 1 and e % v == 0,
    "kz": lambda e, v: e & v == 0,
    "ko": lambda e, v: e & v == v,
}
RELATIONS: dict[str, Callable[..., bool]] = {
    "nn": lambda e: e >= 0,
    "ps": lambda e: e >= 1,
    "lt": operator.lt,
    "le": operator.le,
    "cg": lambda e, m, r: m >= 2 and e % m == r,
}
PRIMITIVES: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _trunc_div, "%": lambda a, b: a - b * _trunc_div(a, b),
    "&": operator.and_, "|": operator.or_, "^": operator.xor, "<<": _shift, ">>": lambda a, b: a // _shift(1, b),
    "min": min, "max": max, "abs": abs, "not-i64": operator.invert, "floor": floor, "ceil": ceil,
    "rational": lambda a, b: Fraction(a, b) if b else _trunc_div(a, b),
    "numer": lambda q: Fraction(q).numerator, "denom": lambda q: Fraction(q).denominator,
}  # fmt: skip
TESTS: dict[str, Callable[..., bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne,
}  # fmt: skip
SILENT = ("sz", "ask")
"""Facts on terms, not on values."""
WORD = 1 << 63


def is_term(form: Form) -> bool:
    """Whether a form is an e-graph term with an operator."""
    return isinstance(form, list) and form[0] in ("K", "V", *OPERATORS, *WITH_CONSTANT)


class Rule:
    """One ``rewrite`` or ``rule`` form: what it matches, its conditions, and what it claims."""

    def __init__(self, form: Form) -> None:
        self.name = form[form.index(":name") + 1].strip('"')
        if form[0] == "rewrite":
            when = form[form.index(":when") + 1] if ":when" in form else []
            self.facts = [form[1], *when]
            self.claims: list[Form] = [["union", form[1], form[2]]]
        else:
            self.facts = form[1]
            self.claims = [a for a in form[2] if (a[1][0] if a[0] == "set" else a[0]) not in ("subsume", *SILENT)]
        self.defined = {f[1]: f[2] for f in self.facts if f[0] == "=" and isinstance(f[1], str) and is_term(f[2])}
        self.classes = _leaves(self.facts)
        text = str(self.facts)
        self.nonneg = {f[1] for f in self.facts if f[0] in ("nn", "ps")}
        self.bits = any(h in text for h in ("'&'", "'kz'", "'ko'", "'And", "'Or", "'Xor", "log2", "'<<'"))
        self.order = [f for f in self.facts if f[0] != "=" or is_term(f[1])] + [
            f for f in self.facts if f[0] == "=" and not is_term(f[1])
        ]

    def fire(self, rng: random.Random) -> bool:
        """Draw once: whether the rule fired.  ``Wrong`` if what it then claims is false."""
        draw = _Draw(self, rng)
        try:
            draw.match()
        except Misfit:
            return False
        for claim in self.claims:
            if not draw.holds(claim):
                raise Wrong(f"{self.name}: {claim} at {draw.env}")
        return True


def _leaves(form: Form) -> set[str]:
    """Names that stand for classes: operands of operators, of analyses, of relations."""
    out: set[str] = set()
    if isinstance(form, list) and form:
        if isinstance(form[0], str):
            if form[0] in WITH_CONSTANT:
                out |= {form[1]} if isinstance(form[1], str) else set()
            elif form[0] in OPERATORS or form[0] in ANALYSES or form[0] in SILENT or form[0] in RELATIONS:
                out |= {a for a in (form[1:2] if form[0] == "cg" else form[1:]) if isinstance(a, str)}
        for f in form:
            out |= _leaves(f)
    return out


class _Draw:
    def __init__(self, rule: Rule, rng: random.Random) -> None:
        self.rule, self.rng = rule, rng
        self.env: Env = {}
        self.known: dict[tuple[str, int], int] = {}
        kind = rng.random()
        self.unit = 1 if kind < 0.4 else rng.choice((2, 3, 4, 5, 6, 8, 12, 16, 64)) if kind < 0.9 else 1 << rng.randint(4, 24)
        """Many numbers of one draw are multiples of this."""

    # ---- numbers

    def value(self, name: str) -> int:
        """A class of the left side: what defines it, else a number."""
        if name not in self.env:
            if name in self.rule.defined:
                self.env[name] = -1  # in the making; a cycle would be met by the check of the fact
                self.env[name] = self.term(self.rule.defined[name])
            else:
                r = self.rng
                v = r.choice((0, 1, 2, r.randint(-9, 9), r.randint(0, 80), r.randint(-300, 300), 1 << r.randint(0, 9)))
                v *= r.choice((1, self.unit))
                self.env[name] = abs(v) if name in self.rule.nonneg else v
        return self.env[name]

    def number(self, name: str, least: int | None = None) -> int:
        """A constant inside an operator."""
        if name not in self.env:
            r = self.rng
            if self.rule.bits and r.random() < 0.7:
                v = r.choice((1 << r.randint(0, 7), (1 << r.randint(0, 7)) - 1, -(1 << r.randint(0, 7)), r.randint(0, 255)))
            else:
                u = self.unit
                v = r.choice((-1, 0, 1, 2, 3, u, u, -u, u * r.randint(-4, 6), r.randint(-20, 40)))
            self.env[name] = v if least is None or v >= least else least + abs(v)
        if least is not None and self.env[name] < least:
            raise Misfit
        return self.env[name]

    def fact(self, head: str, e: int) -> int:
        """Something true that an analysis may know of a class with value ``e``."""
        if (head, e) not in self.known:
            r = self.rng
            slack = r.choice((0, 0, 0, 1, 2, self.unit - 1, r.randint(0, 50)))
            if head == "lo":
                v = e - slack
                v = max(v, 0) if e >= 0 and r.random() < 0.7 else v
            elif head == "hi":
                v = e + slack
            elif head == "al":
                v = r.choice([m for m in {1, 2, 3, 4, self.unit, 2 * self.unit, 4 * self.unit, abs(e), 64} if m and e % m == 0])
            else:
                every = ~e if head == "kz" else e
                v = every & r.choice((-1, -1, 0, self.unit - 1, -self.unit, r.randint(0, 255)))
            self.known[head, e] = v
        return self.known[head, e]

    # ---- terms and constants

    def term(self, form: Form, built: bool = False) -> int:
        """Value of a term; ``built``: on the right side, where nothing new may be named."""
        if isinstance(form, str):
            if built and form not in self.env:
                raise Wrong(f"{self.rule.name}: {form} from nowhere")
            return self.value(form)
        head, *args = form
        if head == "K":
            return self.constant(args[0], built, free=True)
        if head == "V":
            return self.value("V " + str(args[0]))
        if head in WITH_CONSTANT:
            a = self.term(args[0], built)
            least = 1 if head in POSITIVE else None
            if isinstance(args[1], str) and not built:
                k = self.number(args[1], least)
            else:
                k = self.constant(args[1], built)
            if least is not None and k < least:
                raise Wrong(f"{self.rule.name}: {head} by {k}") if built else Misfit
            return OPERATORS[WITH_CONSTANT[head]](a, k)
        values = [self.term(a, built) for a in args]
        if head in ("Shl", "Shr") and not built and values[1] > 1 << 12:
            raise Misfit  # so that sums of amounts can be evaluated too
        try:
            return OPERATORS[head](*values)
        except Misfit:
            if built:
                raise Wrong(f"{self.rule.name}: {form} has no value at {self.env}") from None
            raise

    def constant(self, form: Form, built: bool = False, free: bool = False) -> Any:
        """Value of an expression on constants."""
        if isinstance(form, int):
            return form
        if isinstance(form, str):
            if form in self.env:
                return self.env[form]
            if built:
                raise Wrong(f"{self.rule.name}: {form} from nowhere")
            if free:
                return self.number(form)
            raise Misfit
        head, *args = form
        if head in ANALYSES or head in SILENT:
            return 1 if head in SILENT else self.fact(head, self.term(args[0]))
        values = [self.constant(a) for a in args]
        if head == "log2":
            if values[0] < 1:
                raise Misfit
            return int(values[0]).bit_length() - 1
        out = PRIMITIVES[head](*values)
        if not -WORD <= out < WORD:
            raise Misfit  # checked primitives: no match
        return out

    # ---- conditions and claims

    def match(self) -> None:
        """Draw what the rule matches; ``Misfit`` where a condition fails."""
        waiting = list(self.rule.order)
        while waiting:
            late = [f for f in waiting if not self._condition(f)]
            if len(late) == len(waiting):
                raise Misfit
            waiting = late

    def _condition(self, fact: Form) -> bool:
        """Check one condition or define by it; False if it must wait for another."""
        head, *args = fact
        if head == "=":
            return self._equation(args)
        if head in RELATIONS:
            values = [self.term(args[0]), *args[1:]]
            if head == "cg":
                m = self.env.setdefault(args[1], max(2, abs(self.unit))) if isinstance(args[1], str) else args[1]
                if m < 2:
                    raise Misfit
                r = self.env.setdefault(args[2], values[0] % m) if isinstance(args[2], str) else args[2]
                values = [values[0], m, r]
            else:
                values = [self.term(a) for a in args]
            if not RELATIONS[head](*values):
                raise Misfit
        elif head in TESTS:
            if head == "!=" and all(isinstance(a, str) and a in self.rule.classes for a in args):
                return True  # other classes, maybe of equal value
            if not self._bound(args):
                return False
            if not TESTS[head](*[self.constant(a) for a in args]):
                raise Misfit
        elif is_term(fact):
            self.term(fact)
        elif head in SILENT or head in ANALYSES:
            for a in args:
                self.term(a)
        else:
            raise Wrong(f"{self.rule.name}: what is {head}?")
        return True

    def _equation(self, args: list[Form]) -> bool:
        a, b = args
        if any(is_term(x) or (isinstance(x, str) and x in self.rule.classes) for x in args):
            if self.term(a) != self.term(b):
                raise Misfit
            return True
        for x, y in ((a, b), (b, a)):
            if isinstance(x, str) and x not in self.env:
                if not self._bound([y]):
                    return False
                self.env[x] = self.constant(y)
                return True
        if not self._bound(args):
            return False
        if self.constant(a) != self.constant(b):
            raise Misfit
        return True

    def _bound(self, args: list[Form]) -> bool:
        return all(n in self.env for a in args for n in _symbols(a) - self.rule.classes)

    def holds(self, claim: Form) -> bool:
        """Whether an action states something true."""
        head, *args = claim
        if head == "union":
            return self.term(args[0], True) == self.term(args[1], True)
        if head == "set":
            (analysis, target), value = args
            return ANALYSES[analysis](self.term(target, True), self.constant(value, True))
        if head == "cg":
            return RELATIONS[head](self.term(args[0], True), *[self.constant(a, True) for a in args[1:]])
        if head in RELATIONS:
            return RELATIONS[head](*[self.term(a, True) for a in args])
        raise Wrong(f"{self.rule.name}: what does {head} claim?")


def _symbols(form: Form) -> set[str]:
    if isinstance(form, str):
        return {form}
    return {s for f in form[1:] for s in _symbols(f)} if isinstance(form, list) else set()
