"""Formulas over integer polynomials, and the questions about them that z3 answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from . import polynomial as P
from .polynomial import Poly


@dataclass(frozen=True)
class Atom:
    """``poly >= 0`` or ``poly == 0``."""

    kind: str
    poly: Poly


@dataclass(frozen=True)
class Junction:
    """``and``, ``or`` or ``not`` of formulas."""

    kind: str
    parts: tuple[Formula, ...]


Formula = Atom | Junction


def ge(p: Poly) -> Formula:
    """``p >= 0``."""
    return Atom("ge", p)


def zero(p: Poly) -> Formula:
    """``p == 0``."""
    return Atom("eq", p)


def negate(f: Formula) -> Formula:
    """Not ``f``, pushed through inequalities."""
    if isinstance(f, Atom) and f.kind == "ge":
        return ge(P.sub(P.const(-1), f.poly))
    return Junction("not", (f,))


def either(*parts: Formula) -> Formula:
    """At least one of ``parts``."""
    return Junction("or", parts)


def every(*parts: Formula) -> Formula:
    """All of ``parts``."""
    return Junction("and", parts)


def conjuncts(f: Formula) -> list[Formula]:
    """The parts of a conjunction, nested ones too; of anything else, itself."""
    if isinstance(f, Junction) and f.kind == "and":
        return [c for p in f.parts for c in conjuncts(p)]
    return [f]


def atoms(f: Formula) -> list[Poly]:
    """Polynomials of all inequalities and equations in a formula."""
    if isinstance(f, Atom):
        return [f.poly]
    return [p for part in f.parts for p in atoms(part)]


def ruled_out(f: Formula, known: set[Any]) -> bool:
    """Whether the negation of ``f`` is among the known inequalities."""
    return isinstance(f, Atom) and f.kind == "ge" and P.key(P.sub(P.const(-1), f.poly)) in known


def implied(f: Formula, known: set[Any]) -> bool:
    """Whether ``f`` is a known inequality, or weaker by one."""
    return isinstance(f, Atom) and f.kind == "ge" and (P.key(P.sub(f.poly, P.const(1))) in known)


def nonzero(f: Formula, known: set[Any]) -> bool:
    """Whether ``f`` says that something known to be positive is 0."""
    return (
        isinstance(f, Atom)
        and f.kind == "eq"
        and any(P.key(P.sub(q, P.const(1))) in known for q in (f.poly, P.sub({}, f.poly)))
    )


def shape(f: Formula) -> Any:
    """A hashable form, for comparison."""
    return (f.kind, P.key(f.poly)) if isinstance(f, Atom) else (f.kind, tuple(shape(p) for p in f.parts))


def step(b: Poly, d: Poly) -> list[Formula]:
    """b >= 1 and d >= 1 imply b*d >= b; b >= 1 and d <= -1 imply b*d <= -b; d = 0 implies b*d = 0."""
    one, product = P.const(1), P.mul(b, d)
    guard = negate(ge(P.sub(b, one)))
    return [
        either(guard, negate(ge(P.sub(d, one))), ge(P.sub(product, b))),
        either(guard, negate(ge(P.sub(P.const(-1), d))), ge(P.sub(P.sub({}, b), product))),
        either(negate(zero(d)), zero(product)),
    ]


class Query:
    """Facts in a z3 context of their own, and questions to them."""

    def __init__(self, facts: Iterable[Formula], rlimit: int, linear: bool, seed: int = 0) -> None:
        import z3

        self.z3 = z3
        self.context = z3.Context()
        self.linear = linear
        self.solver = z3.SolverFor("QF_LIA", ctx=self.context) if linear else z3.Solver(ctx=self.context)
        self.solver.set("rlimit", rlimit)
        if seed:
            self.solver.set("random_seed", seed)
        self.names: dict[str, Any] = {}
        self._products: dict[P.Monomial, Any] = {}
        self.add(facts)

    def value(self, p: Poly) -> Any:
        """A polynomial; linear queries take every product for a variable."""
        z3 = self.z3
        parts = []
        for m, c in sorted(p.items()):
            product = self._product(m)
            constant = z3.IntVal(c, self.context)
            parts.append(constant if product is None else product if c == 1 else constant * product)
        return z3.Sum(*parts) if len(parts) > 1 else parts[0] if parts else z3.IntVal(0, self.context)

    def _product(self, m: P.Monomial) -> Any:
        if m not in self._products:
            product = None
            for s in ("*".join(m),) if self.linear and m else m:
                if s not in self.names:
                    self.names[s] = self.z3.Int(s, self.context)
                product = self.names[s] if product is None else product * self.names[s]
            self._products[m] = product
        return self._products[m]

    def truth(self, f: Formula) -> Any:
        """A formula."""
        if isinstance(f, Atom):
            return self.value(f.poly) >= 0 if f.kind == "ge" else self.value(f.poly) == 0
        parts = [self.truth(p) for p in f.parts]
        if f.kind == "not":
            return self.z3.Not(parts[0])
        return self.z3.And(*parts, self.context) if f.kind == "and" else self.z3.Or(*parts, self.context)

    def add(self, formulas: Iterable[Formula]) -> None:
        """Assert formulas."""
        for f in formulas:
            self.solver.add(self.truth(f))

    def holds(self, goal: Formula, lemmas: Iterable[Formula]) -> bool:
        """Whether the goal follows, with these lemmas for this question only."""
        self.solver.push()
        self.add(lemmas)
        self.solver.add(self.z3.Not(self.truth(goal)))
        found = self.solver.check() == self.z3.unsat
        self.solver.pop()
        return bool(found)

    def refute(self, goals: Sequence[Formula]) -> tuple[str, int, str]:
        """Ask for a counterexample to some goal: result, rlimit used, SMT-LIB text."""
        self.solver.add(self.z3.Not(self.z3.And(*(self.truth(g) for g in goals), self.context)))
        text = f"(set-logic {'QF_LIA' if self.linear else 'QF_NIA'})\n" + self.solver.to_smt2()
        result = str(self.solver.check())
        return result, int(self.solver.statistics().get_key_value("rlimit count")), text
