"""Rule obligations over unbounded integers with symbolic constants and divisors.

A division becomes a quotient and a remainder; equations that define a variable are substituted away, so that what is
left are inequalities between polynomials.  z3 then lacks only the few nonlinear facts that the proof turns on.  These
are offered as *instances of three valid schemas*; choosing them badly costs time, never soundness:

    step      b >= 1 and d >= 1  imply  b*d >= b        (d <= -1 implies b*d <= -b, d = 0 implies b*d = 0)
    scale     m >= 0 and p >= 0  imply  m*p >= 0
    product   p >= 0 and q >= 0  imply  p*q >= 0        for p, q among the hypotheses

The differences d come from the algebra: for a division of a by b, what b divides in a, less the quotient; the same
for two divisions by one divisor, and for the two sides of the goal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.index import Term, postorder
from . import polynomial as P
from .formulas import (
    Atom,
    Formula,
    Junction,
    Query,
    atoms,
    conjuncts,
    either,
    every,
    ge,
    implied,
    negate,
    nonzero,
    ruled_out,
    shape,
    step,
    zero,
)
from .obligations import Obligation
from .polynomial import Poly
from .table import BOOLEAN

RLIMIT = 2_000_000
CUT_RLIMIT = 60_000
MAX_CUTS = 4
MAX_PRODUCTS = 80


@dataclass(frozen=True)
class Division:
    """``dividend = divisor * quotient + remainder``."""

    dividend: Poly
    divisor: Poly
    quotient: Poly
    remainder: Poly


class Problem:
    """An obligation as polynomials; ``lemmas(level)`` and ``solve`` do the rest.

    ``branches`` decides the first choices (minimum, maximum, selection, truth values) that the terms contain, one case
    of a proof by cases; ``choices`` is how many there are.
    """

    def __init__(self, ob: Obligation, branches: Sequence[bool] = ()) -> None:
        self.count = 0
        self.branches = list(branches)
        self.choices = 0
        self.divisions: list[Division] = []
        self._made: dict[Term, Poly] = {}
        self._split: dict[Any, tuple[Poly, Poly]] = {}
        self.facts: list[Formula] = []
        for h in ob.hypotheses:
            self.facts += conjuncts(self.formula(h))
        self.goals = [(g.label, self.formula(g.term)) for g in ob.goals]
        self._eliminate()
        self._simplify()

    def fresh(self, stem: str) -> Poly:
        """A new variable."""
        self.count += 1
        return P.symbol(f"{stem}!{self.count}")

    # ---- terms to polynomials

    def poly(self, term: Term) -> Poly:
        """The value of an integer term."""
        for t in postorder(term):
            if t not in self._made:
                self._made[t] = self._node(t)
        return self._made[term]

    def _node(self, t: Term) -> Poly:
        if isinstance(t, int):
            return P.const(t)
        if isinstance(t, str):
            return P.symbol(t)
        op, *args = t
        if op in BOOLEAN:
            return self._choice(self.formula(t), P.const(1), P.const(0))
        x = [self._made[a] for a in args]
        if op in ("add", "sub", "mul"):
            return {"add": P.add, "sub": P.sub, "mul": P.mul}[op](x[0], x[1])
        if op == "neg":
            return P.sub({}, x[0])
        if op in ("min", "max"):
            small = ge(P.sub(x[1], x[0]))
            return self._choice(small, *(x if op == "min" else x[::-1]))
        if op == "select":
            return self._choice(negate(zero(x[0])), x[1], x[2])
        if op in ("div", "mod", "tdiv", "tmod"):
            q, r = self._divide(op[0] == "t", x[0], x[1])
            return q if op.endswith("div") else r
        raise NotImplementedError(f"'{op}' over integers")

    def _choice(self, condition: Formula, yes: Poly, no: Poly) -> Poly:
        self.choices += 1
        if self.choices <= len(self.branches):
            taken = self.branches[self.choices - 1]
            self.facts += conjuncts(condition if taken else negate(condition))
            return yes if taken else no
        v = self.fresh("v")
        self.facts.append(either(negate(condition), zero(P.sub(v, yes))))
        self.facts.append(either(condition, zero(P.sub(v, no))))
        return v

    def _divide(self, truncating: bool, a: Poly, b: Poly) -> tuple[Poly, Poly]:
        key = (truncating, P.key(a), P.key(b))
        if key in self._split:
            return self._split[key]
        q, r = self.fresh("q"), self.fresh("r")
        self._split[key] = q, r
        self.divisions.append(Division(a, b, q, r))
        one = P.const(1)
        self.facts.append(zero(P.sub(a, P.add(P.mul(b, q), r))))
        below, above = P.sub(P.sub(b, one), r), P.sub(P.sub(r, b), one)  # r <= b-1; r >= b+1
        b_positive, b_negative = ge(P.sub(b, one)), ge(P.sub(P.const(-1), b))
        if truncating:
            low = P.add(P.sub(b, one), r)  # r >= 1-b
            self.facts.append(either(negate(b_positive), every(ge(below), ge(low))))
            self.facts.append(either(negate(b_negative), every(ge(above), ge(P.sub(P.sub(P.const(-1), b), r)))))
            self.facts.append(either(ge(P.sub(P.const(-1), a)), ge(r)))
            self.facts.append(either(ge(P.sub(a, one)), ge(P.sub({}, r))))
        else:
            self.facts.append(either(negate(b_positive), every(ge(r), ge(below))))
            self.facts.append(either(negate(b_negative), every(ge(above), ge(P.sub({}, r)))))
        return q, r

    def formula(self, t: Term) -> Formula:
        """The truth of a term (0 is false)."""
        if not isinstance(t, tuple) or t[0] not in BOOLEAN:
            return negate(zero(self.poly(t)))
        op, *args = t
        if op in ("land", "lor"):
            return Junction("and" if op == "land" else "or", tuple(self.formula(a) for a in args))
        if op == "lnot":
            return negate(self.formula(args[0]))
        if op in ("eq", "ne") and args[1] == 0 and isinstance(args[0], tuple) and args[0][0] in BOOLEAN:
            inside = self.formula(args[0])  # a truth value compared with false
            return inside if op == "ne" else negate(inside)
        a, b = self.poly(args[0]), self.poly(args[1])
        d = P.sub(b, a)
        if op == "le":
            return ge(d)
        if op == "lt":
            return ge(P.sub(d, P.const(1)))
        return zero(d) if op == "eq" else negate(zero(d))

    # ---- substitution

    def _eliminate(self) -> None:
        """Use every equation ``x = polynomial without x`` to get rid of x, named variables first."""
        while True:
            found = self._definition()
            if found is None:
                return
            name, value, used = found
            self.facts = [self._substituted(f, name, value) for f in self.facts if f is not used]
            self.goals = [(label, self._substituted(g, name, value)) for label, g in self.goals]
            self.divisions = [_division(d, name, value) for d in self.divisions]

    def _definition(self) -> tuple[str, Poly, Formula] | None:
        for own in (True, False):
            for f in self.facts:
                if not isinstance(f, Atom) or f.kind != "eq":
                    continue
                for m, c in f.poly.items():
                    if len(m) != 1 or abs(c) != 1 or (own and "!" in m[0]):
                        continue
                    if not own and not (self._divided(m[0], f.poly) or (m[0].startswith("r!") and len(f.poly) == 1)):
                        continue  # of the invented variables only those go that are divided in turn, or remainders 0
                    if any(m[0] in n for n in f.poly if n != m):
                        continue
                    rest = {n: -d * c for n, d in f.poly.items() if n != m}
                    if len(rest) > 1 and any(m[0] in P.symbols(d.divisor) for d in self.divisions):
                        continue  # a divisor stays a product, or no lemma could speak of it
                    return m[0], rest, f
        return None

    def _divided(self, name: str, equation: Poly) -> bool:
        """Whether the equation is that of a division of the variable ``name``."""
        for d in self.divisions:
            if P.key(d.dividend) == P.key(P.symbol(name)):
                own = P.sub(d.dividend, P.add(P.mul(d.divisor, d.quotient), d.remainder))
                if P.key(own) == P.key(equation):
                    return True
        return False

    def _substituted(self, f: Formula, name: str, value: Poly) -> Formula:
        if isinstance(f, Atom):
            return Atom(f.kind, P.substitute(f.poly, name, value))
        return Junction(f.kind, tuple(self._substituted(p, name, value) for p in f.parts))

    def _simplify(self) -> None:
        """Drop alternatives that a plain fact rules out: most divisors are known to be positive."""
        self._positive_products()
        while True:
            known = {P.key(f.poly) for f in self.facts if isinstance(f, Atom) and f.kind == "ge"}
            known |= {P.key(P.const(k)) for k in (0, 1)}
            kept: list[Formula] = []
            for f in self.facts:
                if isinstance(f, Junction) and f.kind == "or":
                    if any(implied(p, known) for p in f.parts):
                        continue
                    parts = [p for p in f.parts if not ruled_out(p, known)]
                    f = parts[0] if len(parts) == 1 else Junction("or", tuple(parts))
                if isinstance(f, Junction) and f.kind == "not" and nonzero(f.parts[0], known):
                    continue
                kept += conjuncts(f)
            unchanged = [shape(f) for f in kept] == [shape(f) for f in self.facts]
            self.facts = kept
            if unchanged:
                return

    def _positive_products(self) -> None:
        """A divisor that is a product of variables known to be at least 1 is at least 1."""
        known = {P.key(f.poly) for f in self.facts if isinstance(f, Atom) and f.kind == "ge"}
        for d in self.divisions:
            if len(d.divisor) == 1:
                ((m, c),) = d.divisor.items()
                least = P.sub(d.divisor, P.const(1))
                if c >= 1 and len(m) >= 2 and P.key(least) not in known:
                    if all(P.key(P.sub(P.symbol(s), P.const(1))) in known for s in m):
                        self.facts.append(ge(least))
                        known.add(P.key(least))

    # ---- lemmas

    def lemmas(self, level: int) -> list[Formula]:
        """Instances of the schemas; level 0 none, 1 step and scale, 2 also products of hypotheses."""
        if level == 0:
            return []
        out: list[Formula] = []
        moduli = self._moduli()
        for m in moduli:
            for d in self._differences(m, level):
                out += step(m, d)
        if level >= 2:
            out += self._scaled(moduli) + self._products()
        return out

    def _moduli(self) -> list[Poly]:
        """Divisors, the factors of divisors, and the factors of products among the facts (al = g*u and the like)."""
        found = [d.divisor for d in self.divisions]
        for p in found[:]:
            if len(p) == 1:
                found += [P.symbol(s) for m in p for s in m]
        for f in self.facts:
            for p in atoms(f):
                found += [P.symbol(s) for m in p if len(m) >= 2 for s in m if "!" not in s]
        unique = {P.key(p): p for p in found}
        return [p for _, p in sorted(unique.items()) if P.degree(p) > 0]

    def _differences(self, m: Poly, level: int) -> list[Poly]:
        """Candidates d for the step schema with modulus m."""
        mono = next(iter(m)) if len(m) == 1 and abs(next(iter(m.values()))) == 1 else None
        part: Callable[[Poly], Poly] = (lambda p: P.divide(p, mono)) if mono else (lambda p: {})
        out: list[Poly] = []
        same = [d for d in self.divisions if P.key(d.divisor) == P.key(m)]
        own = [P.sub(part(d.dividend), d.quotient) for d in same]
        out += own + [d.quotient for d in same]
        out += [P.sub(x, y) for i, x in enumerate(own) for y in own[i + 1 :]]
        out += [P.sub(x.quotient, y.quotient) for i, x in enumerate(same) for y in same[i + 1 :]]
        if level >= 2:
            quotients = [d.quotient for d in self.divisions]
            out += [P.sub(x, y) for i, x in enumerate(quotients) for y in quotients[i + 1 :]]
        for _, goal in self.goals:
            for p in atoms(goal):
                out += [p, part(p)]
        if mono:
            for d in self.divisions:
                for p in (d.dividend, d.remainder, P.sub(d.divisor, d.remainder)):
                    out.append(part(p))
            for d in self.divisions:
                if P.key(d.divisor) != P.key(m) and len(d.divisor) == 1 and mono[0] in next(iter(d.divisor)):
                    r = P.sub(d.dividend, P.mul(d.divisor, d.quotient))  # the remainder, spelled out
                    out += [part(r), P.sub(P.divide(d.divisor, mono), part(r))]
                    out += [P.sub(part(r), e.quotient) for e in same]
            for f in self.facts:
                for p in atoms(f):
                    out.append(part(p))
        unique: dict[Any, Poly] = {}
        for p in out:
            if p and P.degree(p) > 0:
                canonical = p if P.key(p) < P.key(P.sub({}, p)) else P.sub({}, p)
                unique.setdefault(P.key(canonical), canonical)
        return list(unique.values())

    def _bounds(self) -> list[Poly]:
        """Polynomials that are at least 0, from unconditional facts and from remainders."""
        out = [f.poly for f in self.facts if isinstance(f, Atom) and f.kind == "ge"]
        for d in self.divisions:
            out += [d.remainder, P.sub(P.sub(d.divisor, P.const(1)), d.remainder)]
        return [p for p in out if P.degree(p) > 0]

    def _scaled(self, moduli: Sequence[Poly]) -> list[Formula]:
        """Bounds and equations times a modulus."""
        out: list[Formula] = []
        for m in moduli:
            for p in self._bounds():
                if P.degree(p) + P.degree(m) <= 3:
                    out.append(either(negate(ge(m)), negate(ge(p)), ge(P.mul(m, p))))
            for f in self.facts:
                if isinstance(f, Atom) and f.kind == "eq" and P.degree(f.poly) + P.degree(m) <= 3:
                    out.append(zero(P.mul(m, f.poly)))
        return out[: 2 * MAX_PRODUCTS]

    def _products(self) -> list[Formula]:
        bounds = [p for p in self._bounds() if P.degree(p) == 1]
        out = []
        for i, p in enumerate(bounds):
            for q in bounds[i:]:
                out.append(either(negate(ge(p)), negate(ge(q)), ge(P.mul(p, q))))
        return out[:MAX_PRODUCTS]

    # ---- cuts

    def cut(self, linear: bool, rlimit: int = CUT_RLIMIT) -> int:
        """Prove equations between quotients one at a time, and use each to substitute; returns how many.

        Two-level mixed radix needs this: that the outer quotients agree must be known before the inner ones can.
        ``linear`` as in ``solve``.
        """
        found = 0
        while found < MAX_CUTS:
            hit = self._next_cut(linear, rlimit)
            if hit is None:
                return found
            self._use(hit)
            found += 1
            if linear and self.ask([g for _, g in self.goals], (), rlimit, True)[0] == "unsat":
                return found
        return found

    def _next_cut(self, linear: bool, rlimit: int) -> Poly | None:
        query = Query(self.facts, rlimit, linear)
        query.add(self._multiples())
        if linear:
            query.add(self._scaled(self._moduli()))
        for m in self._moduli():
            for d in self._cuts(m):
                if query.holds(zero(d), step(m, d)):
                    return d
        return None

    def _cuts(self, m: Poly) -> list[Poly]:
        """Differences that define a quotient if they are 0."""
        return [d for d in self._differences(m, 1) if self._defines(d) is not None]

    def _defines(self, d: Poly) -> tuple[str, Poly] | None:
        for kind in ("q!", "r!"):
            for mono, c in sorted(d.items(), reverse=True):
                if len(mono) == 1 and abs(c) == 1 and mono[0].startswith(kind):
                    if not any(mono[0] in other for other in d if other != mono):
                        return mono[0], {n: -k * c for n, k in d.items() if n != mono}
        return None

    def _multiples(self) -> list[Formula]:
        """What follows from bounds by taking out a common factor.

        A remainder that is a multiple of g, of a divisor that is one too, stays g below it; and m*p >= m*q - (less
        than m) says that p >= q.
        """
        out: list[Formula] = []
        for d in self.divisions:
            gap = P.sub(d.divisor, P.sub(d.dividend, P.mul(d.divisor, d.quotient)))
            for g in sorted({s for m in d.divisor for s in m}):
                part = P.divide(gap, (g,))
                if P.key(P.mul(part, P.symbol(g))) == P.key(gap):
                    out += step(P.symbol(g), part)
        for f in self.facts:
            if isinstance(f, Atom) and f.kind == "ge":
                for g in sorted(P.symbols(f.poly)):
                    part = P.divide(f.poly, (g,))
                    if len(part) >= 2:
                        out += step(P.symbol(g), part)
        return out

    def _use(self, d: Poly) -> None:
        defined = self._defines(d)
        assert defined is not None
        name, value = defined
        self.facts = [self._substituted(f, name, value) for f in self.facts]
        self.goals = [(label, self._substituted(g, name, value)) for label, g in self.goals]
        self.divisions = [_division(e, name, value) for e in self.divisions]
        self._eliminate()

    # ---- z3

    def solve(self, level: int, rlimit: int = RLIMIT, linear: bool = False, seed: int = 0) -> tuple[str, int, str]:
        """(``unsat``/``sat``/``unknown``, rlimit used, SMT-LIB text): is there a counterexample to some goal?

        ``linear`` takes every product of variables for a variable of its own: then the lemmas are all that is known
        of products, only ``unsat`` means anything, and the answer comes fast and always.
        """
        return self.ask([g for _, g in self.goals], self.lemmas(level), rlimit, linear, seed)

    def ask(
        self,
        goals: Sequence[Formula],
        lemmas: Iterable[Formula],
        rlimit: int,
        linear: bool = False,
        seed: int = 0,
    ) -> tuple[str, int, str]:
        """``solve`` for other goals and chosen lemmas."""
        query = Query(self.facts, rlimit, linear, seed)
        query.add(lemmas)
        return query.refute(goals)


def _division(d: Division, name: str, value: Poly) -> Division:
    return Division(*(P.substitute(p, name, value) for p in (d.dividend, d.divisor, d.quotient, d.remainder)))
