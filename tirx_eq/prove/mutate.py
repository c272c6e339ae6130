"""Small wrong versions of every rule: does the prover notice?

Each mutant changes one thing that a rule author could get wrong: a condition left out, ``<`` for ``<=``, a constant off
by one, two operands or two variables swapped.  What becomes of it:

    refuted    a counterexample, confirmed by the scalar evaluator
    rejected   no rule any more: a variable that nothing binds, say; the reader of rules refuses it
    sound      another true theorem, with a proof of its own: the change weakens nothing that soundness needs
    idle       its conditions contradict each other, which is proved: it never fires

Anything else would be a hole in the prover.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..egraph.rules import INDEX_FILES, Rule, load_rules, read_files, show_form
from ..errors import RuleError
from ..jobs import map_jobs
from .meaning import COMPARISONS, OPERATORS, PRIMITIVES
from .obligations import Goal, Obligation, Signature, obligation
from .powers import with_powers
from .prover import REQUIRED_WIDTHS, Proof, find_counterexample, prove, violates

Form = Any
RLIMIT = 2_000_000  # a mutant need not be proved at every width
_LOOSER = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "!=": "="}
DROPPED, CONSTANT, COMPARED, OPERANDS, VARIABLES = (
    "condition left out", "constant off by one", "comparison changed", "operands swapped", "variables swapped",
)  # fmt: skip
KINDS = (DROPPED, CONSTANT, COMPARED, OPERANDS, VARIABLES)
STATUSES = ("refuted", "rejected", "sound", "idle")
_SYMMETRIC = frozenset("Add Mul And Or Xor Min Max Eq Ne LAnd LOr + * & | ^ min max = !=".split())


@dataclass(frozen=True)
class Mutant:
    """``what`` says in words what was changed in the rule, ``kind`` what sort of change that is."""

    rule: str
    what: str
    form: Form
    kind: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


@dataclass(frozen=True)
class Outcome:
    """``status`` as above; ``proof`` is that of a sound or idle mutant."""

    mutant: Mutant
    status: str
    counterexample: dict[str, int] | None = None
    proof: Proof | None = None


def mutants(rule: Rule, signature: Signature) -> list[Mutant]:
    """All mutants of one rule, in a fixed order, without repetitions."""
    seen = {show_form(rule.form)}
    out = []
    for kind, what, form in _variants(rule.form, signature):
        text = show_form(form)
        if text not in seen:
            seen.add(text)
            out.append(Mutant(rule.name, what, form, kind))
    return out


def _variants(form: Form, signature: Signature) -> Iterator[tuple[str, str, Form]]:
    body = _body(form)
    if body is not None:
        for i, fact in enumerate(form[body]):
            yield DROPPED, f"without {show_form(fact)}", _with(form, (body,), form[body][:i] + form[body][i + 1 :])
    for path in _paths(form):
        part = _at(form, path)
        in_left = form[0] == "rewrite" and path[0] == 1
        if isinstance(part, int) and not isinstance(part, bool) and not in_left:
            for k in (part + 1, part - 1):
                yield CONSTANT, f"{k} for {part} in {show_form(_at(form, path[:-1]))}", _with(form, path, k)
        if not isinstance(part, list) or not part or not isinstance(part[0], str):
            continue
        head = part[0]
        if head in COMPARISONS and head in _LOOSER:
            yield COMPARED, f"{_LOOSER[head]} for {head} in {show_form(part)}", _with(form, path, [_LOOSER[head], *part[1:]])
        if len(part) == 3 and head not in _SYMMETRIC and _same_sorts(part, signature):
            yield OPERANDS, f"operands of {show_form(part)} swapped", _with(form, path, [head, part[2], part[1]])
        if head == "=" and len(part) == 3 and isinstance(part[1], str) and isinstance(part[2], list):
            if part[2][0] in PRIMITIVES or part[2][0] in ("not-i64", "numer", "denom"):
                for shift in (1, -1):
                    yield (CONSTANT, f"{part[1]} off by {shift}", _with(form, path, ["=", part[1], ["+", part[2], shift]]))
    if form[0] == "rewrite" and isinstance(form[2], list):
        names = sorted({v for v in _symbols(form[2]) if v in _symbols(form[1])})
        for i, a in enumerate(names):
            for b in names[i + 1 :]:
                if _is_class(form, a) == _is_class(form, b):
                    yield VARIABLES, f"{a} and {b} swapped on the right", _with(form, (2,), _renamed(form[2], {a: b, b: a}))


def _body(form: Form) -> int | None:
    """Index of the list of conditions."""
    if form[0] == "rule":
        return 1
    return form.index(":when") + 1 if ":when" in form else None


def _paths(form: Form) -> Iterator[tuple[int, ...]]:
    """Paths to every part of the rule proper (not its options), outermost first."""
    keep = [1, 2]
    body = _body(form)
    if body is not None and body not in keep:
        keep.append(body)
    todo: list[tuple[int, ...]] = [(k,) for k in keep]
    while todo:
        path = todo.pop(0)
        part = _at(form, path)
        if isinstance(part, list):
            todo += [(*path, i) for i in range(len(part))]
            yield path
        elif isinstance(part, int):
            yield path


def _at(form: Form, path: Sequence[int]) -> Form:
    for i in path:
        form = form[i]
    return form


def _with(form: Form, path: Sequence[int], value: Form) -> Form:
    if not path:
        return value
    out = list(form)
    out[path[0]] = _with(form[path[0]], path[1:], value)
    return out


def _same_sorts(part: Form, signature: Signature) -> bool:
    if part[0] in OPERATORS:
        sorts = signature.heads[part[0]][0]
        return sorts[0] == sorts[1]
    return part[0] in PRIMITIVES or part[0] == "rational" or part[0] in COMPARISONS


def _symbols(form: Form) -> set[str]:
    if isinstance(form, str):
        return {form}
    return (
        {s for f in form[0 if isinstance(form, list) and form and isinstance(form[0], list) else 1 :] for s in _symbols(f)}
        if isinstance(form, list)
        else set()
    )


def _is_class(form: Form, name: str) -> bool:
    """Whether ``name`` stands for a class (an operand of an operator) rather than for a constant."""
    for path in _paths(form):
        part = _at(form, path)
        if isinstance(part, list) and part and isinstance(part[0], str) and part[0] in OPERATORS and name in part[1:]:
            return not (part[0].endswith("K") and part[-1] == name and name not in part[1:-1])
    return False


def _renamed(form: Form, names: dict[str, str]) -> Form:
    if isinstance(form, list):
        return [form[0], *(_renamed(f, names) for f in form[1:])]
    return names.get(form, form) if isinstance(form, str) else form


def judge(mutant: Mutant, signature: Signature) -> Outcome:
    """Refute the mutant, or prove it sound."""
    try:
        ob: Obligation = obligation(mutant.rule, mutant.form, signature)
    except RuleError:
        return Outcome(mutant, "rejected")
    point = find_counterexample(ob, (5,))
    if point is None:
        proof = prove(ob, REQUIRED_WIDTHS, RLIMIT)
        if proof.verdict == "unknown" and ob.bits:
            ob = with_powers(ob, REQUIRED_WIDTHS, RLIMIT)
            proof = prove(ob, REQUIRED_WIDTHS)  # with all it takes
        if proof.verdict in ("proved", "no claim"):
            return Outcome(mutant, "sound", proof=proof)
        if proof.verdict == "vacuous":
            never = prove(replace(ob, goals=(Goal("never fires", 0),), exact=()), REQUIRED_WIDTHS, RLIMIT)
            if never.verdict in ("vacuous", "proved"):
                return Outcome(mutant, "idle", proof=never)
            return Outcome(mutant, "sound", proof=proof)  # no way to fire was found, and what it says is proved
        point = proof.counterexample
    if point is None:
        return Outcome(mutant, "unknown")
    assert violates(ob, point) or ob.exact
    return Outcome(mutant, "refuted", point)


def claiming() -> list[Rule]:
    """The rules that say something of values: the others only hide terms or measure them."""
    return [r for r in load_rules() if r.family not in ("prune", "size")]


def judge_all(names: Sequence[str] = (), executor: str = "serial", cached_in: str | Path | None = None) -> Iterator[Outcome]:
    """Outcomes of all mutants of the rules that make claims (of ``names`` only, if given), in order."""
    signature = Signature.of(s.form for s in read_files(INDEX_FILES))
    rules = [r for r in (load_rules() if names else claiming()) if not names or r.name in names]
    todo = [m for r in rules for m in mutants(r, signature)]
    yield from map_jobs(partial(judge, signature=signature), todo, executor, cached_in=cached_in)
