"""The rules at work: one expression round by round, and what each rule costs over many expressions.

Both leave the normal form and the direct constructions out, so that everything a rule can do is done by rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from ..ir.index import Ranges, Term, variables_checked
from . import encode
from .cost import DEFAULT, CostTable, cost
from .facts import gather
from .joint import solve_together
from .saturation import ROUNDS_ALONE, Budget, saturate

CHUNK = 64


@dataclass(frozen=True)
class Step:
    """What is cheapest after some round: ``expr`` with its cost, and the rules that fired for the first time in it."""

    expr: Term
    cost: int
    rules: tuple[str, ...]


def trace(term: Term, ranges: Ranges, assume: Sequence[Term] = (), table: CostTable = DEFAULT) -> list[Step]:
    """``term`` by rules alone, in the order in which its forms get cheaper; the first step is ``term`` itself.

    Rounds that bring nothing cheaper are joined to the next one that does.  Errors as for ``simplify_all``.
    """
    variables_checked([term, *assume], ranges)
    facts = gather(assume, ranges)
    steps = [Step(term, cost([term], table), ())]
    told: set[str] = set()
    before: tuple[str, ...] | None = None
    for rounds in range(1, ROUNDS_ALONE + 1):
        (found,), fired = solve_together([term], facts, table, Budget(rounds=rounds), fast=False)
        price = cost([found], table)
        if price < steps[-1].cost:
            steps.append(Step(found, price, tuple(r for r in fired if r not in told)))
            told.update(fired)
        elif fired == before:
            break
        before = fired
    return steps


@dataclass(frozen=True)
class Use:
    """How often a rule matched, and the seconds that searching for it and applying it took."""

    matches: int
    seconds: float


def measure(rows: Iterable[tuple[Term, Ranges]]) -> dict[str, Use]:
    """Every rule's use over ``rows``, each simplified by rules alone; rows beyond 64 bits are left out.

    Rows go into e-graphs of ``CHUNK``, where the same subterm over variables of the same ranges is there once.
    """
    matches: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    todo = iter(rows)
    while chunk := list(islice(todo, CHUNK)):
        encoder = encode.Encoder()
        roots = []
        for term, ranges in chunk:
            variables_checked([term], ranges)
            alias = {n: f"{n}:{lo}:{hi}" for n, (lo, hi) in ranges.items()}
            try:
                roots.append(encoder.add_term(term, ranges, alias))
            except encode.TooBig:
                continue
        if roots:
            done = saturate(encoder, roots, Budget(rounds=ROUNDS_ALONE))
            matches.update(done.counts)
            for name, took in done.seconds.items():
                seconds[name] += took  # type: ignore[assignment]
    return {n: Use(matches[n], float(seconds[n])) for n in sorted(matches) if not n.startswith("load/")}
