"""Which threads of a CTA reach a statement: conditions on thread ids, evaluated for every thread."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ...ir import And, Call, Expr, Not, Var, substitute
from ...ir.index import evaluate_many, names
from ...ir.index_ir import IndexScope
from ..scope import new_scope
from .threads import WARP, WARPGROUP, Launch


@dataclass(frozen=True)
class Active:
    """The threads that execute a statement.

    ``mask[t]`` says whether thread ``t`` may; ``elected`` that of each active warp only one lane does (``elect_sync``);
    ``data_dependent`` that a condition on data narrows them further, by an amount not known here; ``uniform`` are loop
    variables that have one value in all of them.  ``left`` are classes of threads (as in :mod:`agreement`) that may not have
    come here, having returned in a loop, or under a condition on data or in a loop whose rounds differ: those of one class
    all or none, those of two apart; None if all are here.
    ``apart``: a condition on the CTA may keep others of its cluster from coming here.
    """

    mask: np.ndarray
    elected: bool = False
    data_dependent: bool = False
    uniform: frozenset[Var] = frozenset()
    left: bytes | None = None
    apart: bool = False

    @staticmethod
    def all(launch: Launch) -> Active:
        return Active(np.ones(launch.threads, dtype=bool))

    def knowing(self, var: Var) -> Active:
        """The same, with a variable that has one value in all of them."""
        return replace(self, uniform=self.uniform | {var})

    def without_lost(self, start: Active, end: Active) -> Active:
        """The same without the threads that left a branch on its way from ``start`` to ``end``."""
        unknown = self.data_dependent or (end.data_dependent and not start.data_dependent)
        return replace(self, mask=self.mask & ~(start.mask & ~end.mask), data_dependent=unknown)

    def left_apart(self) -> bool:
        """Whether some of these threads may be absent, and others not."""
        return self.left is not None and len(np.unique(np.frombuffer(self.left, dtype=np.int16)[self.mask])) > 1

    def threads(self) -> int:
        """How many threads execute (one per active warp if elected)."""
        return len(self.warps()) if self.elected else int(self.mask.sum())

    def warps(self) -> list[int]:
        """Numbers of the warps with an active thread."""
        return sorted({int(t) // WARP for t in np.flatnonzero(self.mask)})

    def whole(self, unit: int) -> bool:
        """Whether every aligned group of ``unit`` threads takes part entirely or not at all, and at least one does.

        Threads beyond the last whole group must not take part.
        """
        rest = len(self.mask) % unit
        if self.elected or self.data_dependent or (rest and self.mask[-rest:].any()):
            return False
        groups = self.mask[: len(self.mask) - rest].reshape(-1, unit)
        if self.left is not None:
            classes = np.frombuffer(self.left, dtype=np.int16)[: groups.size].reshape(-1, unit)
            if (groups.any(axis=1) & (classes != classes[:, :1]).any(axis=1)).any():
                return False
        return bool(groups.any()) and bool((groups.all(axis=1) | ~groups.any(axis=1)).all())

    def issuers(self) -> list[int]:
        """One thread of each active warp: those that execute, where one lane of each is elected."""
        return first_of_warps(self.mask)

    def single_thread(self) -> bool:
        return self.threads() == 1

    def fits(self, scope: str) -> bool:
        """Whether the threads are what a call at ``scope`` needs: whole units of it (any threads for ``thread``)."""
        if scope == "thread":
            return self.threads() > 0
        if scope == "cluster" and self.apart:
            return False
        units = {"warp": WARP, "warpgroup": WARPGROUP, "cta": len(self.mask), "cluster": len(self.mask)}
        return self.whole(units[scope])

    def describe(self) -> str:
        """For messages: ``128 threads``, ``one thread``, ``one lane of warps 0 and 2``."""
        if self.elected:
            warps = self.warps()
            return "one thread" if len(warps) == 1 else f"one lane of each of {len(warps)} warps"
        n = self.threads()
        text = "one thread" if n == 1 else f"{n} of {len(self.mask)} threads"
        text += ", fewer by a condition on data" if self.data_dependent else ""
        text += " of some CTAs of the cluster" if self.apart else ""
        return text + (", of which some may have returned or not come here" if self.left_apart() else "")


def same_as(active: Active) -> tuple[Hashable, ...]:
    """A key that two descriptions share if they say the same of the same threads."""
    values = (getattr(active, f.name) for f in fields(Active))
    return tuple(v.tobytes() if isinstance(v, np.ndarray) else v for v in values)


def first_of_warps(mask: np.ndarray) -> list[int]:
    """The first thread of the mask in each warp that has one."""
    threads = np.flatnonzero(mask)
    return [int(t) for t in threads[np.unique(threads // WARP, return_index=True)[1]]]


def narrow(active: Active, condition: Expr, launch: Launch, holds: bool = True) -> Active:
    """``active`` where ``condition`` has the truth value ``holds``."""
    if isinstance(condition, And) and holds:
        return narrow(narrow(active, condition.a, launch), condition.b, launch)
    if isinstance(condition, Not):
        return narrow(active, condition.a, launch, not holds)
    if is_elect(condition):
        return replace(active, elected=True) if holds else replace(active, data_dependent=True)
    scope = new_scope()
    launch.declare(scope)
    term = scope.term(substitute(condition, launch.ids))
    used = names(term)
    tid = {scope.name(v): r for r, v in launch.special.items() if r.startswith("tid.")}
    if not used <= set(tid):
        # A condition on the CTA, or on how often a loop ran, is the same for all its threads; one on data may differ.
        active = _among_ctas(active, used, scope, launch)
        return active if _uniform(active, used, scope, launch) else replace(active, data_dependent=True)
    truth = np.broadcast_to(evaluate_many(term, thread_points(launch, tid)), active.mask.shape) != 0
    return replace(active, mask=active.mask & (truth == holds))


def with_loop(active: Active, var: Var, bounds: Sequence[Expr], launch: Launch) -> Active:
    """``active`` in the body of a loop over ``var`` from, to and by ``bounds``: uniform if these are."""
    scope = new_scope()
    launch.declare(scope)
    used = set().union(*(names(scope.term(substitute(e, launch.ids))) for e in bounds))
    active = _among_ctas(active, used, scope, launch)
    return replace(active, uniform=active.uniform | {var}) if _uniform(active, used, scope, launch) else active


def _among_ctas(active: Active, used: set[str], scope: IndexScope, launch: Launch) -> Active:
    """``active`` under a condition made of these names: does it tell CTAs of a cluster apart?"""
    tells = {scope.name(v) for r, v in launch.special.items() if r.startswith(("ctaid.", "cluster_cta"))}
    return replace(active, apart=True) if math.prod(launch.cluster) > 1 and used & tells else active


def _uniform(active: Active, used: set[str], scope: IndexScope, launch: Launch) -> bool:
    """Whether what is made of these names has one value in all threads of a CTA that are active."""
    same = [v for r, v in launch.special.items() if not r.startswith("tid.")]
    return used <= {scope.name(v) for v in (*same, *active.uniform)}


def thread_points(launch: Launch, registers: dict[str, str]) -> dict[str, np.ndarray]:
    """Values of the ``tid`` registers for threads 0, 1, … of a CTA; ``registers`` maps names to ``tid.x`` and so on."""
    flat = np.arange(launch.threads, dtype=np.int64)
    x, y, _ = launch.block
    values = {"tid.x": flat % x, "tid.y": flat // x % y, "tid.z": flat // (x * y)}
    return {name: values[register] for name, register in registers.items()}


def is_elect(condition: Expr) -> bool:
    """Whether a condition is ``elect_sync()``, bare or compared with zero/one by the script's truth conversion."""
    while not isinstance(condition, Call):
        inner = getattr(condition, "value", getattr(condition, "a", None))
        if not isinstance(inner, Expr):
            return False
        condition = inner
    return condition.op.name == "tirx.ptx.elect_sync"
