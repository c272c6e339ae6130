"""Simplify index expressions: encode, saturate, extract, validate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.index import Ranges, Term, check, postorder, show, variables_checked
from . import encode, extract
from .cost import DEFAULT, CostTable, cost
from .engine import Engine, Graph
from .normal import Normal
from .reach import declarations, reachable
from .rules import INDEX_FILES

_SILENT = ("load/", "ana/", "size/", "prune/")
ROUNDS = 8
NODES = 20_000
NODES_PER_INPUT_NODE = 60


@dataclass(frozen=True)
class Simplified:
    """A result: ``expr`` equals the input wherever the input has a value, and costs ``cost`` <= ``cost_in``.

    ``steps`` names the rules that fired in the e-graph this expression shared with its batch; ``validated_by`` is the
    procedure that decided the equality independently of the rules.
    """

    expr: Term
    cost: int
    cost_in: int
    steps: tuple[str, ...]
    validated_by: str


def simplify(term: Term, ranges: Ranges, **options: Any) -> Simplified:
    """``term`` made cheaper under ``ranges`` (inclusive); see ``simplify_all``."""
    return simplify_all([term], ranges, **options)[0]


def saturated(
    encoder: encode.Encoder, roots: Sequence[int], *, rounds: int, nodes: int
) -> tuple[Graph, tuple[str, ...]]:
    """The e-graph of the encoder's nodes after the rules have run, and the names of the equalities that fired."""
    present = {key[0] for key in encoder.keys}
    rules = reachable(INDEX_FILES, present)
    prelude = [
        *declarations(INDEX_FILES),
        *(r.text for r in rules),
        *encode.LOAD,
        *encode.load_rules(present),
    ]
    engine = Engine(prelude)
    nodes = max(nodes, NODES_PER_INPUT_NODE * len(encoder.keys))
    engine.load(encode.tables(encoder, roots))
    engine.run("(run-schedule (saturate load))")
    report = engine.saturate("(seq (saturate ana) fold prune simp)", rounds=rounds, nodes=nodes)
    for schedule, most in (("(seq alt prune)", 3), ("final", 1)):
        if report.nodes <= nodes or schedule == "final":
            last = engine.saturate(schedule, rounds=most, nodes=nodes)
            for name, count in last.fired.items():
                report.fired[name] = report.fired.get(name, 0) + count
    fired = tuple(sorted(n for n, count in report.fired.items() if count and not n.startswith(_SILENT)))
    return engine.freeze(operators=encode.OPERATORS, tables=("root",)), fired


def simplify_all(
    terms: Sequence[Term],
    ranges: Ranges,
    *,
    table: CostTable = DEFAULT,
    rounds: int = ROUNDS,
    nodes: int = NODES,
    check_result: bool = True,
    fast: bool = True,
) -> list[Simplified]:
    """Simplify ``terms`` together in one e-graph; results in the same order.

    Raises ``EvaluationError`` for an undeclared name, an empty range, or a division by a constant zero; ``ParseError``
    for something that is not a term.  An expression beyond 64-bit constants or beyond the budget comes back as it is.
    """
    for t in terms:
        check(t)
    variables_checked(terms, ranges)
    source, encoder = encode.Encoder(), encode.Encoder()
    normal = Normal(source, encoder)
    roots: dict[int, int] = {}
    for i, t in enumerate(terms):
        try:
            roots[i] = normal.build(source.add_term(t, ranges)) if fast else encoder.add_term(t, ranges)
        except encode.TooBig:
            continue
    results: list[Term] = list(terms)
    steps: tuple[str, ...] = ()
    if roots:
        graph, steps = saturated(encoder, list(roots.values()), rounds=rounds, nodes=nodes)
        chosen = extract.greedy(graph.classes, lambda op, args: encode.node_cost(op, args, table))
        memo: dict[int, Term] = {}
        classes: dict[int, int] = dict(graph.tables["root"])
        for r, i in enumerate(roots):
            results[i] = extract.build(classes[r], chosen.node, encode.decode, memo)
    return [_finish(t, r, ranges, table, steps, check_result) for t, r in zip(terms, results)]


def _finish(
    before: Term, after: Term, ranges: Ranges, table: CostTable, steps: tuple[str, ...], checked: bool
) -> Simplified:
    cost_in, cost_out = cost(before, table), cost(after, table)
    if cost_out > cost_in or show(after) == show(before):
        return Simplified(before, cost_in, cost_in, (), "identity")
    if not checked:
        return Simplified(after, cost_out, cost_in, steps, "unchecked")
    decided_by = checked_equal(before, after, ranges)
    if decided_by is None:
        return Simplified(before, cost_in, cost_in, (), "identity")
    return Simplified(after, cost_out, cost_in, steps, decided_by)


def checked_equal(before: Term, after: Term, ranges: Ranges) -> str | None:
    """The procedure that proves ``after`` equal to ``before`` wherever ``before`` has a value, or None if none does."""
    from ..errors import ProofError
    from ..prove.validate import validate

    try:
        verdict = validate(before, after, ranges)
    except ProofError:
        # Somewhere in the ranges the input has no value: compare where it has one.
        try:
            verdict = validate(before, after, ranges, assume=_defined(before))
        except ProofError:
            return None
    return verdict.decided_by if verdict.status == "equal" else None


def _defined(term: Term) -> list[Term]:
    """Conditions under which every operation of ``term`` has a value."""
    out: list[Term] = []
    for t in postorder(term):
        if isinstance(t, tuple) and not isinstance(t[-1], int):
            if t[0] in ("div", "mod", "tdiv", "tmod"):
                out.append(("ne", t[2], 0))
            elif t[0] in ("shl", "shr"):
                out.append(("le", 0, t[2]))
    return out
