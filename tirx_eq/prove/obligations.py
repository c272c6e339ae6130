"""From a rule's own text to what must be proved of it.

Hypotheses come from the left side (its operators have values), the conditions and the facts; goals from the right side
(it equals the left side and has a value wherever that has one) and from the actions: ``set`` and relation rows must
be true facts, ``union`` must join equals.  Transfer rules of the analyses are therefore obligations like any other.
Everything is an index term over integer variables, so a failed proof is an assignment that anybody can evaluate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import RuleError
from ..ir.index import Term, postorder, show
from .meaning import BIT_HEADS, COMPARISONS, FUNCTIONS, OPERATORS, PRIMITIVES, RELATIONS, SYNTACTIC, eq, le, multiple

Form = Any


@dataclass(frozen=True)
class Goal:
    """One thing to prove; ``label`` says which part of the rule asks for it."""

    label: str
    term: Term


@dataclass(frozen=True)
class Obligation:
    """For all integers: ``hypotheses`` imply each of ``goals``.

    ``sorts`` gives each variable's sort (``E`` or ``i64``); ``logs`` maps a variable r to x where r = floor(log2 x);
    ``multiples`` lists (e, m) with m dividing e; ``exact`` lists (x, s) for which x << s must lose no bit of an i64.
    ``within`` says of a variable that stands for part of a term (a quotient, a factor) that it is no larger than that.
    """

    rule: str
    hypotheses: tuple[Term, ...]
    goals: tuple[Goal, ...]
    sorts: dict[str, str]
    bits: bool
    logs: dict[str, Term] = field(default_factory=dict)
    multiples: tuple[tuple[Term, Term], ...] = ()
    exact: tuple[tuple[Term, Term], ...] = ()
    within: dict[str, Term] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{self.rule}:", *(f"  given {show(h)}" for h in self.hypotheses)]
        return "\n".join([*lines, *(f"  prove {show(g.term)}   ; {g.label}" for g in self.goals)])


@dataclass(frozen=True)
class Signature:
    """Argument and result sorts of every declared head."""

    heads: Mapping[str, tuple[tuple[str, ...], str]]

    @staticmethod
    def of(forms: Iterable[Form]) -> Signature:
        """Read ``datatype``, ``constructor``, ``function`` and ``relation`` declarations."""
        heads: dict[str, tuple[tuple[str, ...], str]] = {}
        for form in forms:
            if not isinstance(form, list) or not form:
                continue
            if form[0] == "datatype":
                for variant in form[2:]:
                    heads[variant[0]] = (tuple(str(s) for s in _before_options(variant[1:])), str(form[1]))
            elif form[0] in ("function", "constructor"):
                heads[form[1]] = (tuple(str(s) for s in form[2]), str(form[3]))
            elif form[0] == "relation":
                heads[form[1]] = (tuple(str(s) for s in form[2]), "unit")
        return Signature(heads)


def _before_options(parts: Sequence[Form]) -> list[Form]:
    out = []
    for p in parts:
        if isinstance(p, str) and p.startswith(":"):
            break
        out.append(p)
    return out


def heads_of(form: Form) -> set[str]:
    """Every head symbol in a form."""
    found: set[str] = set()
    todo = [form]
    while todo:
        f = todo.pop()
        if isinstance(f, list):
            if f and isinstance(f[0], str):
                found.add(f[0])
            todo.extend(f)
    return found


def obligation(name: str, form: Form, signature: Signature) -> Obligation:
    """The obligation of one ``(rewrite ...)`` or ``(rule ...)``.  Raises ``RuleError`` for a head without meaning."""
    reader = _Reader(name, signature)
    if form[0] == "rewrite":
        left = reader.pattern(form[1])
        for f in _option(form, ":when") or []:
            reader.fact(f)
        right = reader.build(form[2])
        reader.goals.append(Goal("right side equals left side", eq(left, right)))
    elif form[0] == "rule":
        for f in form[1]:
            reader.fact(f)
        for action in form[2]:
            reader.action(action)
    else:
        raise RuleError(f"rule {name}: neither a rewrite nor a rule")
    return reader.finish(bool(heads_of(_without_name(form)) & BIT_HEADS))


def merge_obligation(form: Form) -> Obligation:
    """Of ``(function f (E) i64 :merge m)``: if two rows are true facts, so is the merged one."""
    name, merge = form[1], _option(form, ":merge")
    reader = _Reader(f"merge/{name}", Signature({}))
    fact = FUNCTIONS[name]
    old, new = reader.variable("old", "i64"), reader.variable("new", "i64")
    e = reader.variable("e", "E")
    reader.hypotheses += [fact(old, e), fact(new, e)]
    reader.goals.append(Goal(f"merged {name} is a true fact", fact(reader.constant(merge), e)))
    return reader.finish(bool((heads_of(merge) | {name}) & BIT_HEADS))


def _option(form: Form, key: str) -> Form | None:
    return form[form.index(key) + 1] if key in form else None


def _without_name(form: Form) -> Form:
    i = form.index(":name") if ":name" in form else len(form)
    return form[:i]


class _Reader:
    def __init__(self, rule: str, signature: Signature) -> None:
        self.rule = rule
        self.signature = signature
        self.env: dict[str, Term] = {}
        self.sorts: dict[str, str] = {}
        self.hypotheses: list[Term] = []
        self.goals: list[Goal] = []
        self.logs: dict[str, Term] = {}
        self.multiples: list[tuple[Term, Term]] = []
        self.exact: list[tuple[Term, Term]] = []
        self.within: dict[str, Term] = {}
        self._facts: dict[tuple[Any, ...], Term] = {}
        self._ratios: dict[tuple[Term, Term], tuple[Term, Term, Term]] = {}
        self._quotients: dict[tuple[Term, Term], Term] = {}

    # ---- variables

    def variable(self, name: str, sort: str) -> Term:
        """The variable of a pattern symbol."""
        if name not in self.env:
            self.env[name] = name
            self.sorts[name] = sort
        return self.env[name]

    def fresh(self, stem: str, sort: str = "i64") -> str:
        """A variable that no pattern can name."""
        name = f"{stem}${1 + sum(n.startswith(stem + '$') for n in self.sorts)}"
        self.sorts[name] = sort
        return name

    # ---- terms of the e-graph

    def pattern(self, form: Form) -> Term:
        """A matched term: its operators have values, its invariants hold."""
        return self._term(form, self.hypotheses.append)

    def build(self, form: Form) -> Term:
        """A built term: it must have a value and keep the invariants."""
        return self._term(form, lambda t: self.goals.append(Goal(f"{_text(form)} has a value", t)), built=True)

    def _term(self, form: Form, require: Any, built: bool = False) -> Term:
        if isinstance(form, str) and not form.startswith('"'):
            if built and form not in self.env:
                raise RuleError(f"rule {self.rule}: '{form}' on the right is not bound on the left")
            return self.variable(form, "E")
        if not isinstance(form, list):
            raise RuleError(f"rule {self.rule}: {form!r} where a term is expected")
        head, *args = form
        if head == "K":
            return self.constant(args[0], built)
        if head == "V":
            return self.variable(f"V.{_text(args[0])}", "E")
        operator = OPERATORS.get(head)
        declared = self.signature.heads.get(head)
        if operator is None or declared is None:
            raise RuleError(
                f"rule {self.rule}: '{head}' has no {'declaration' if operator else 'meaning'}",
                hint="every operator is declared in rules/ops.egg and has one meaning in prove/meaning.py",
            )
        sorts, _ = declared
        if len(sorts) != len(args):
            raise RuleError(f"rule {self.rule}: '{head}' takes {len(sorts)} operands, not {len(args)}")
        values = [self._term(a, require, built) if s == "E" else self.constant(a, built) for a, s in zip(args, sorts)]
        for condition in (operator.invariant, operator.defined):
            if condition is not None:
                wanted = condition(*values)
                if not _obvious(wanted):
                    require(wanted)
        return (operator.op, *values)

    # ---- constants

    def constant(self, form: Form, built: bool = False) -> Term:
        """An i64 expression: a number, a symbol, a primitive, or an analysis of a term."""
        if isinstance(form, int):
            return form
        if isinstance(form, str):
            if built and form not in self.env:
                raise RuleError(f"rule {self.rule}: '{form}' on the right is not bound on the left")
            return self.variable(form, "i64")
        head, *args = form
        if head in FUNCTIONS or head in SYNTACTIC:
            return self._analysis(head, args[0])
        if built:
            raise RuleError(
                f"rule {self.rule}: primitive '{head}' on the right side",
                hint="a primitive that fails there stops the run; compute it in a condition and bind it",
            )
        if head == "not-i64":
            return ("sub", -1, self.constant(args[0]))
        if head == "abs":
            x = self.constant(args[0])
            return ("max", x, ("sub", 0, x))
        if head == "log2":
            return self._log2(args[0])
        if head in ("numer", "denom"):
            return self._rational(head, args[0])
        if head not in PRIMITIVES:
            raise RuleError(f"rule {self.rule}: primitive '{head}' has no meaning here")
        if len(args) != 2:
            raise RuleError(f"rule {self.rule}: primitive '{head}' takes 2 operands, not {len(args)}")
        a, b = (self.constant(x) for x in args)
        if head in "/%" and (a, b) in self._quotients:
            return self._quotients[a, b] if head == "/" else 0
        if head in "/%" and not (isinstance(b, int) and b):
            self.hypotheses.append(("ne", b, 0))
        if head in ("<<", ">>"):
            if not isinstance(b, int):
                self.hypotheses.append(le(0, b))
            if head == "<<":
                self.exact.append((a, b))
        return (PRIMITIVES[head], a, b)

    def _analysis(self, head: str, form: Form) -> Term:
        e = self.pattern(form)
        key = (head, e)
        if key not in self._facts:
            v = self._facts[key] = self.fresh(head)
            if head in SYNTACTIC:
                pass
            elif head == "al":
                q = self.fresh("q", "E")
                self.within[q] = e
                self.hypotheses += [le(1, v), eq(e, ("mul", v, q))]
                self.multiples.append((e, v))
            else:
                self.hypotheses.append(FUNCTIONS[head](v, e))
        return self._facts[key]

    def _log2(self, form: Form) -> Term:
        if not (isinstance(form, list) and form[0] == "max" and any(isinstance(x, int) and x >= 1 for x in form[1:])):
            raise RuleError(
                f"rule {self.rule}: log2 of {_text(form)}",
                hint="log2 of a number below 1 stops the run; write (log2 (max x 1))",
            )
        x = self.constant(form)
        for known, value in self.logs.items():
            if value == x:
                return known
        r = self.fresh("log")
        self.logs[r] = x
        self.hypotheses += [le(0, r), le(("shl", 1, r), x), ("lt", x, ("shl", 1, ("add", r, 1)))]
        return r

    def _rational(self, part: str, form: Form) -> Term:
        rounding = form[0] if form[0] in ("floor", "ceil") else None
        ratio = form[1] if rounding else form
        if ratio[0] != "rational" or (rounding and part == "denom"):
            raise RuleError(f"rule {self.rule}: {_text([part, form])} has no meaning here")
        a, b = (self.constant(x) for x in ratio[1:])
        if rounding:
            if not (isinstance(b, int) and b):
                self.hypotheses.append(("ne", b, 0))
            return ("div", a, b) if rounding == "floor" else ("sub", 0, ("div", ("sub", 0, a), b))
        if (a, b) not in self._ratios:
            g, u, d = self.fresh("gcd"), self.fresh("numer"), self.fresh("denom")
            self.within.update({g: b, d: b, u: a})
            self._ratios[a, b] = (g, u, d)
            self._quotients[a, u] = self._quotients[b, d] = g
        _, top, bottom = self._ratios[a, b]
        return top if part == "numer" else bottom

    # ---- facts and actions

    def fact(self, form: Form) -> None:
        """One condition or fact of the body."""
        head, *args = form
        if head == "=":
            return self._equation(args)
        if head in RELATIONS:
            self.hypotheses.append(RELATIONS[head](*self._arguments(head, args, built=False)))
        elif head in COMPARISONS:
            if head == "!=" and any(self._sort(a) == "E" for a in args):
                return  # different classes may hold equal values
            self.hypotheses.append(COMPARISONS[head](*(self.constant(a) for a in args)))
        elif head in FUNCTIONS:
            self._analysis(head, args[0])
        elif head in SYNTACTIC:
            for a in args:
                self.pattern(a)
        elif head in OPERATORS or head in ("K", "V"):
            self.pattern(form)
        else:
            raise RuleError(f"rule {self.rule}: fact '{head}' has no meaning", hint="prove/meaning.py has the tables")

    def _arguments(self, head: str, args: Sequence[Form], built: bool) -> list[Term]:
        """Arguments of a relation: classes, and numbers where its declaration says so."""
        sorts = self.signature.heads[head][0] if head in self.signature.heads else ("E",) * len(args)
        as_class = self.build if built else self.pattern
        return [as_class(a) if sort == "E" else self.constant(a, built=built) for a, sort in zip(args, sorts)]

    def _sort(self, form: Form) -> str | None:
        if isinstance(form, list):
            return "E" if form[0] in OPERATORS or form[0] in ("K", "V") else "i64"
        return "i64" if isinstance(form, int) else self.sorts.get(form)

    def _equation(self, parts: list[Form]) -> None:
        sort = next((s for s in map(self._sort, parts) if s), "i64")
        compound = [p for p in parts if not isinstance(p, str)]
        values = [self.pattern(p) if sort == "E" else self.constant(p) for p in compound]
        symbols = [p for p in parts if isinstance(p, str)]
        for s in symbols:
            if s in self.env:
                values.append(self.env[s])
        for s in symbols:
            if s not in self.env:
                if values:
                    self.env[s] = values[0]
                    self.sorts[f"{s}="] = sort  # a name for it, so that != knows its sort
                else:
                    values.append(self.variable(s, sort))
        for other in values[1:]:
            if other != values[0]:
                self.hypotheses.append(eq(values[0], other))

    def action(self, form: Form) -> None:
        """One action of the head."""
        head, *args = form
        if head == "union":
            a, b = (self.build(x) for x in args)
            self.goals.append(Goal(f"union of {_text(args[0])} and {_text(args[1])}", eq(a, b)))
        elif head == "set":
            (function, subject), value = args
            if function in SYNTACTIC:
                return
            if function not in FUNCTIONS:
                raise RuleError(f"rule {self.rule}: '{function}' has no meaning")
            e, v = self.build(subject), self.constant(value, built=True)
            claim = multiple(e, v) if function == "al" else FUNCTIONS[function](v, e)
            self.goals.append(Goal(f"{function} of {_text(subject)} is {_text(value)}", claim))
        elif head == "let":
            self.env[args[0]] = self.build(args[1])
        elif head in SYNTACTIC:
            for a in args:
                self.build(a)
        elif head in RELATIONS:
            self.goals.append(Goal(_text(form), RELATIONS[head](*self._arguments(head, args, built=True))))
        elif head != "subsume":  # subsuming claims nothing about values
            raise RuleError(f"rule {self.rule}: action '{head}' has no meaning")

    def finish(self, bits: bool) -> Obligation:
        """The obligation, with what is known of fractions once all signs are in."""
        for (a, b), (g, u, d) in self._ratios.items():
            known = [le(1, g), le(1, d), eq(a, ("mul", g, u)), eq(b, ("mul", g, d))]
            if not _positive(b, self.hypotheses):
                raise RuleError(f"rule {self.rule}: the denominator {show(b)} of a fraction is not known to be positive")
            self.hypotheses += known
        used = set()
        for t in postorder(*self.hypotheses, *(g.term for g in self.goals), *(x for p in self.exact for x in p)):
            if isinstance(t, str):
                used.add(t)
        sorts = {n: s for n, s in self.sorts.items() if n in used}
        hypotheses = tuple(dict.fromkeys(self.hypotheses))
        goals = tuple(dict.fromkeys(g for g in self.goals if not _obvious(g.term)))
        exact = tuple(dict.fromkeys(self.exact))
        within = {n: t for n, t in self.within.items() if n in used}
        multiples = tuple(self.multiples)
        return Obligation(self.rule, hypotheses, goals, sorts, bits, dict(self.logs), multiples, exact, within)


def _obvious(t: Term) -> bool:
    """True of constants: no need to ask."""
    if not isinstance(t, tuple) or not all(isinstance(a, int) for a in t[1:]):
        return False
    from ..ir.index import evaluate

    return evaluate(t, {}) == 1


def _positive(t: Term, hypotheses: Sequence[Term]) -> bool:
    """Whether some hypothesis says in so many words that ``t`` is at least 1."""
    if isinstance(t, int):
        return t >= 1
    for h in hypotheses:
        if isinstance(h, tuple) and h[0] in ("le", "lt") and h[2] == t and isinstance(h[1], int):
            if h[1] >= (1 if h[0] == "le" else 0):
                return True
    return False


def _text(form: Form) -> str:
    return "(" + " ".join(_text(f) for f in form) + ")" if isinstance(form, list) else str(form)
