"""Running the rules of index arithmetic on encoded nodes: which rules, in what phases, on which engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from . import encode
from .engine import Engine, EngineError, Graph
from .reach import declarations, reachable
from .rules import CONGRUENCE_FILE, INDEX_FILES, STRENGTH_FILE

ROUNDS = 5
"""Rounds of the equality phase: the normal form leaves little to do, and more rounds were never seen to help it."""
ROUNDS_ALONE = 10
"""Rounds when the rules work without the normal form."""
NODES = 20_000
NODES_PER_INPUT_NODE = 60
MAX_POOL = 4
_SILENT = ("load/", "ana/", "size/", "prune/", "order/")


@dataclass(frozen=True)
class Budget:
    """Bounds of a run: rounds of the equality phase, and rows of all tables (at least so many per input node)."""

    rounds: int = ROUNDS
    nodes: int = NODES


DEFAULT_BUDGET = Budget()


@dataclass(frozen=True)
class Saturated:
    """A frozen e-graph, the names of the equalities that fired in it, and whether nothing was left to do.

    ``counts`` and ``seconds`` are the matches and the search-and-apply time of every rule, for those who write rules.
    """

    graph: Graph
    fired: tuple[str, ...]
    complete: bool
    counts: Mapping[str, int]
    seconds: Mapping[str, float]


class _Pool(threading.local):
    """Engines with their rules compiled, per thread (an e-graph belongs to the thread that made it)."""

    def __init__(self) -> None:
        self.engines: dict[tuple[str, ...], Engine] = {}
        self.wanted: set[tuple[str, ...]] = set()


_pool = _Pool()


def _prelude(files: tuple[str, ...], present: set[str]) -> tuple[str, ...]:
    rules = reachable(files, present)
    return (*declarations(files), *(r.text for r in rules), *encode.LOAD, *encode.load_rules(present))


def _engine(prelude: tuple[str, ...]) -> tuple[Engine, bool]:
    """An engine for ``prelude``, and whether it is kept: the second request for a prelude keeps it for the next."""
    kept = _pool.engines.pop(prelude, None)
    if kept is None:
        if prelude not in _pool.wanted:
            _pool.wanted.add(prelude)
            return Engine(prelude), False
        kept = Engine(prelude)
    _pool.engines[prelude] = kept
    while len(_pool.engines) > MAX_POOL:
        del _pool.engines[next(iter(_pool.engines))]
    kept.run("(push)")
    return kept, True


def saturate(
    encoder: encode.Encoder,
    roots: Sequence[int],
    budget: Budget,
    *,
    strength: bool = False,
    facts: Sequence[tuple[int, int, str]] = (),
    tables: Sequence[str] = (),
) -> Saturated:
    """The e-graph of the encoder's nodes after the rules have run.

    ``facts`` are assumptions ``(a, b, kind)`` on nodes: kind ``lt`` or ``le`` (a below b), ``eq`` (the same
    class), or ``al`` (a is a multiple of the number b).
    ``strength`` adds the forms of ``strength.egg``; ``tables`` are read besides ``root``.
    """
    present = {key[0] for key in encoder.keys}
    if facts:
        present |= {"Lt", "Le"}
    files = (*INDEX_FILES, *((CONGRUENCE_FILE,) if facts else ()), *((STRENGTH_FILE,) if strength else ()))
    prelude = _prelude(files, present)
    engine, kept = _engine(prelude)
    try:
        nodes = max(budget.nodes, NODES_PER_INPUT_NODE * len(encoder.keys))
        engine.load(encode.tables(encoder, roots, facts))
        engine.run("(run-schedule (saturate load))")
        # Assumptions may contradict each other, and then intervals can narrow for ever: count the steps.
        analyses = "(repeat 16 ana)" if facts else "(saturate ana)"
        report = engine.saturate(f"(seq {analyses} fold prune simp)", rounds=budget.rounds, nodes=nodes)
        for schedule, most in (("(seq alt prune)", 3), ("final", 1)):
            if report.nodes <= nodes or schedule == "final":
                last = engine.saturate(schedule, rounds=most, nodes=nodes)
                for name, count in last.fired.items():
                    report.fired[name] = report.fired.get(name, 0) + count
                for name, took in last.seconds.items():
                    report.seconds[name] = report.seconds.get(name, 0.0) + took
        graph = engine.freeze(operators=encode.OPERATORS, tables=("root", *tables))
        if kept:
            engine.run("(pop)")
    except EngineError:
        _pool.engines.pop(prelude, None)
        raise
    fired = tuple(sorted(n for n, count in report.fired.items() if count and not n.startswith(_SILENT)))
    return Saturated(graph, fired, report.saturated, report.fired, report.seconds)
