"""A simplification: what it is, which nodes of the e-graph it takes, and the check of its equality by something else."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.index import Ranges, Term, names, postorder, substitute, tree_size
from . import encode, extract
from .apart import apart
from .cost import CostTable, is_pow2
from .engine import ENode, Graph
from .facts import eliminate
from .remainders import over_remainders
from .sharing import share


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


def choose(
    graph: Graph, groups: Sequence[Sequence[int]], table: CostTable, optimal: bool
) -> list[Mapping[int, ENode]]:
    """The nodes taken for each group of root classes: greedy with sharing inside the group, or its optimum."""

    def price(op: str, args: tuple[Any, ...]) -> int:
        return encode.node_cost(op, args, table)

    greedy = extract.greedy(graph.classes, price)
    if not optimal:
        return [share(graph.classes, g, price, greedy) if len(g) > 1 else greedy.node for g in groups]
    from .ilp import optimal as solve

    return [solve(graph.classes, group, price, greedy).node for group in groups]


def checked_equal(before: Term, after: Term, ranges: Ranges, assume: Sequence[Term] = ()) -> str | None:
    """The procedure that proves ``after`` equal to ``before`` wherever ``before`` has a value, or None if none does."""
    from ..prove.parity import equal

    if equal(before, after, ranges):
        return "parity"
    if assume:
        (before, after), ranges, assume = eliminate([before, after], ranges, assume)
        if equal(before, after, ranges):
            return "parity"
    if _beyond_proof(before, ranges):
        return None
    if tree_size(before, after, *assume) > _HASHABLE:
        return _decided_by(before, after, ranges, assume)
    # A kernel asks the same about many of its variables, and of arrays that begin at other places.
    (before, first), (after, second) = _without_constant(before), _without_constant(after)
    after = ("add", after, second - first) if second != first else after
    used = {t: f"v{i}" for i, t in enumerate(dict.fromkeys(t for t in postorder(before, after, *assume) if isinstance(t, str)))}
    terms = tuple([substitute(t, used) for t in (before, after, *assume)])
    key = (terms, tuple([tuple(ranges[n]) for n in used]))
    if key not in _verdicts:
        _verdicts[key] = _decided(terms[0], terms[1], {v: ranges[n] for n, v in used.items()}, terms[2:])
        while len(_verdicts) > _MEMO_SIZE:
            _verdicts.popitem(last=False)
    return _verdicts[key]


def _decided(before: Term, after: Term, ranges: Ranges, assume: Sequence[Term]) -> str | None:
    """The procedure that decides, of the last part of a sum that falls into parts of different variables.

    Parts and remainders are tried without assumptions: what holds everywhere holds where those do.
    """
    by: str | None = None
    for left, right in apart(before, after, ranges):
        by = checked_equal(left, right, ranges)
        if by is None:
            break
    if by is None and (claim := over_remainders(before, after, ranges)) is not None:
        by = _decided_by(*claim, ())
    return by or _decided_by(before, after, ranges, assume)


def _without_constant(term: Term) -> tuple[Term, int]:
    """(rest, number) whose sum is ``term``: the numbers of a sum of sums, and what is left of it."""
    if isinstance(term, int):
        return 0, term
    if not isinstance(term, tuple) or term[0] not in ("add", "sub"):
        return term, 0
    (left, a), (right, b) = _without_constant(term[1]), _without_constant(term[2])
    if a == b == 0:
        return term, 0
    number = a + b if term[0] == "add" else a - b
    if right == 0:
        return left, number
    return (right if left == 0 and term[0] == "add" else (term[0], left, right)), number


_MEMO_SIZE = 5_000
_verdicts: OrderedDict[Any, str | None] = OrderedDict()
"""What decided claims, up to the names of variables."""


def _decided_by(before: Term, after: Term, ranges: Ranges, assume: Sequence[Term]) -> str | None:
    from ..errors import ProofError
    from ..prove.validate import validate

    try:
        verdict = validate(before, after, ranges, assume=assume)
    except ProofError:
        # Somewhere in the ranges the input has no value: compare where it has one.
        try:
            verdict = validate(before, after, ranges, assume=[*assume, *_defined(before)])
        except ProofError:
            return None
    return verdict.decided_by if verdict.status == "equal" else None


_MAX_HARD = 24
_HASHABLE = 4_000
_DIVISIONS = frozenset({"div", "mod", "tdiv", "tmod"})
_PIECEWISE = frozenset({"min", "max", "select"})
_ENUMERABLE = 1 << 11


def _beyond_proof(term: Term, ranges: Ranges) -> bool:
    """Whether ``term`` has so many divisions and pieces over so many points that no procedure would end in reasonable time."""
    points = 1
    for name in names(term):
        lo, hi = ranges[name]
        points *= hi - lo + 1
    if points <= _ENUMERABLE:
        return False
    hard = {
        id(t)
        for t in postorder(term)
        if isinstance(t, tuple)
        and (t[0] in _PIECEWISE or (t[0] in _DIVISIONS and not (isinstance(t[2], int) and is_pow2(t[2]))))
    }
    return len(hard) > _MAX_HARD


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
