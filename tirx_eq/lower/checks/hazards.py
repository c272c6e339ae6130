"""Reuse of memory that nothing orders: races that are certain from the program's text, reported before any code runs.

The program is read as a list of events in order.  Two accesses of the same elements race if between them, on every way from
one to the other, stands nothing that could order them: no barrier, fence or wait of the kind that the pair needs, whoever
executes it.  So everything reported is certain; what depends on who waits for what is left to the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import LoweringError
from ...ir import Expr, IntImm, structural_equal
from ...ir.index import evaluate_many, names
from ..context import CallContext, Operand
from ..program import Block, If, Instruction, Loop, Repeat, TileCall, Wait, walk
from ..scope import new_scope
from ..sharing.active import is_elect, thread_points
from ..sharing.threads import Launch

#: What an instruction orders, by the beginning of its opcode; "all" for what isn't known.
_ORDERS = (
    ("bar.", "sync"), ("barrier.", "sync"), ("fence.proxy.async", "proxy"), ("cp.async.wait", "copies"),
    ("cp.async.mbarrier", "copies"), ("cp.async.bulk.wait_group", "bulk"), ("tcgen05.wait::ld", "loaded"),
    ("tcgen05.wait::st", "stored"), ("mbarrier.test_wait", "wait"), ("mbarrier.try_wait", "wait"),
)  # fmt: skip
#: Instructions that order nothing by themselves (an arrival takes effect at the wait).
_PLAIN = (
    "mbarrier.", "tcgen05.", "fence.", "cp.async.commit_group", "cp.async.bulk.commit_group", "mov.", "nanosleep", "trap",
    "elect.sync", "setmaxnreg", "cvt.", "mapa", "add.", "clusterlaunchcontrol.", "prefetch",
)  # fmt: skip

#: Variants whose operands are accessed by the asynchronous proxy, and what completes them.
_TMEM_LOADS, _TMEM_STORES = ("TmemLoad", "TmemLoadPart"), ("TmemStore", "TmemStorePart")
_MMA = ("Tcgen05Mma", "Tcgen05MmaTmem", "Tcgen05MmaScaled", "Tcgen05MmaScaledTmem", "Tcgen05MmaStationary",
        "Tcgen05MmaStationaryTmem")  # fmt: skip
_LOADS = ("TensorLoad", "TensorMulticast", "TensorPairLoad")
_STORES = ("TensorStore", "TensorReduce")
_PROXY_READS = (*_MMA, "TmemCopy", *_STORES, "PeerCopy")


@dataclass(frozen=True)
class _Event:
    """Something in the program's order: a tile call with its variant, or what an instruction orders.

    ``path``: the branches and loops around it, each with whether it is certainly entered.
    """

    orders: str
    path: tuple[tuple[int, bool], ...]
    call: CallContext | None = None
    variant: str = ""


@dataclass(frozen=True)
class _Rule:
    """A pair of accesses that needs an event of one of ``needs`` between them.

    ``first`` and ``second`` are variants and access ("r", "w" or "rw") of memory in ``space``; None: any other variant.
    ``again``: also from one round of a loop to the next.
    """

    space: str
    first: tuple[str, ...] | None
    first_access: str
    second: tuple[str, ...] | None
    second_access: str
    needs: frozenset[str]
    says: str
    hint: str
    again: bool = False


def _needs(*kinds: str) -> frozenset[str]:
    return frozenset((*kinds, "all"))


_SLOW = (*_MMA, *_LOADS, "TmemCopy", *_STORES, "PeerCopy", "AsyncCopy", *_TMEM_LOADS, *_TMEM_STORES, "PeerStore")
RULES = (
    _Rule("shared", None, "w", _PROXY_READS, "r", _needs("proxy"),
          "reads '{buffer}' through the asynchronous proxy, but no fence orders it after what '{first}' wrote there",
          "call Tx.ptx.fence.proxy_async(\"shared::cta\") after the write, before the barrier"),
    _Rule("shared", None, "w", _PROXY_READS, "r", _needs("sync", "wait"),
          "reads '{buffer}', which '{first}' wrote by {threads}, but no barrier comes between",
          "Tx.cuda.cta_sync() between the two"),
    _Rule("shared", _LOADS, "w", None, "r", _needs("sync", "wait"),
          "reads '{buffer}' before the copy '{first}' is known to be complete: nothing waits for its barrier",
          "wait for the phase of the copy's mbar"),
    _Rule("shared", _LOADS, "w", _PROXY_READS, "r", _needs("sync", "wait"),
          "reads '{buffer}' before the copy '{first}' is known to be complete: nothing waits for its barrier",
          "wait for the phase of the copy's mbar"),
    _Rule("shared", ("AsyncCopy",), "w", None, "r", _needs("copies", "wait"),
          "reads '{buffer}' before the copy '{first}' is known to be complete: no cp.async.wait_group comes between",
          "Tx.ptx.cp_async.commit_group(), Tx.ptx.cp_async.wait_group(0) and a barrier"),
    _Rule("shared", (*_MMA, "TmemCopy"), "r", None, "w", _needs("wait"),
          "overwrites '{buffer}' while '{first}' may still be reading it: nothing waits for its commit",
          "commit to a barrier and wait for its phase before the buffer is used again", again=True),
    _Rule("shared", (*_MMA, "TmemCopy"), "r", (*_LOADS, "AsyncCopy"), "w", _needs("wait"),
          "overwrites '{buffer}' while '{first}' may still be reading it: nothing waits for its commit",
          "commit to a barrier and wait for its phase before the buffer is used again", again=True),
    _Rule("shared", _STORES, "r", None, "w", _needs("bulk"),
          "overwrites '{buffer}' while '{first}' may still be reading it: no cp.async.bulk.wait_group comes between",
          "Tx.ptx.cp_async.bulk.commit_group() and wait_group(0), then a barrier", again=True),
    _Rule("shared", _STORES, "r", _LOADS, "w", _needs("bulk"),
          "overwrites '{buffer}' while '{first}' may still be reading it: no cp.async.bulk.wait_group comes between",
          "Tx.ptx.cp_async.bulk.commit_group() and wait_group(0), then a barrier", again=True),
    _Rule("tmem", _MMA, "w", (*_TMEM_LOADS, "TmemStorePart"), "r", _needs("wait"),
          "reads '{buffer}' before the products of '{first}' are known to be complete: nothing waits for its commit",
          "commit to a barrier and wait for its phase"),
    _Rule("tmem", _TMEM_STORES, "w", (*_MMA, *_TMEM_LOADS), "r", _needs("stored"),
          "reads '{buffer}' before what '{first}' stored is there: no tcgen05.wait.st comes between",
          "Tx.ptx.tcgen05.wait.st() after the store"),
    _Rule("local", ("TmemLoad",), "w", None, "r", _needs("loaded"),
          "reads the registers of '{buffer}' before '{first}' has filled them: no tcgen05.wait.ld comes between",
          "Tx.ptx.tcgen05.wait.ld() after the load"),
)  # fmt: skip


def check_hazards(
    program: Block, contexts: Sequence[CallContext], variants: Mapping[int, str], bodies: Mapping[int, Block], launch: Launch
) -> None:
    """Raise LoweringError for the first certain race of a program whose tile calls are still in place.

    ``variants`` and ``bodies``: what was chosen for each call.
    """
    events = list(_Reader(contexts, variants, bodies, launch).read(program, ()))
    known = _Between(events)
    for j, second in enumerate(events):
        if second.call is None:
            continue
        for rule in RULES:
            if not _is_of(second, rule.second):
                continue
            for i in range(len(events) if rule.again else j):
                first = events[i]
                if first.call is None or not _is_of(first, rule.first):
                    continue
                again = i >= j
                if again and not _repeated(first, second):
                    continue
                if not known.lacks(i, j, rule.needs, first.path if again else None) or not _together(first, second):
                    continue
                found = _meeting(rule, first, second, launch, again)
                if found is not None:
                    raise _error(rule, first, second, found)


@dataclass
class _Reader:
    contexts: Sequence[CallContext]
    variants: Mapping[int, str]
    bodies: Mapping[int, Block]
    launch: Launch
    count: int = 0

    def read(self, block: Block, path: tuple[tuple[int, bool], ...]) -> Iterator[_Event]:
        for node in block:
            if isinstance(node, TileCall):
                call = self.contexts[node.index]
                body = walk(self.bodies[node.index])
                if any(isinstance(n, Instruction) and n.opcode.startswith(("bar", "atom", "red")) for n in body):
                    yield _Event("all", path)
                yield _Event("", path, call, self.variants[node.index])
            elif isinstance(node, Wait):
                yield _Event("wait", path)
            elif isinstance(node, Instruction):
                yield from (_Event(kind, path) for kind in _ordered(node.opcode))
            elif isinstance(node, If):
                role = not isinstance(node.condition, Expr) or self._is_role(node.condition)
                for branch in (node.then, node.orelse):
                    yield from self.read(branch, (*path, self._step(role)))
            elif isinstance(node, Loop):
                yield from self.read(node.body, (*path, self._step(_rounds(node) > 0, _rounds(node) > 1)))
            elif isinstance(node, Repeat):
                # What a loop polls may order anything.
                yield _Event("all", path)
                yield from self.read((*node.head, *node.body), (*path, self._step(False)))
                yield _Event("all", path)

    def _step(self, certain: bool, twice: bool = False) -> tuple[int, bool]:
        """A branch (even number) or a loop that certainly runs twice (odd)."""
        self.count += 2
        return self.count + twice, certain

    def _is_role(self, condition: Expr) -> bool:
        """Whether a condition tells which threads take a branch, not whether any does."""
        if is_elect(condition):
            return True
        scope = new_scope()
        term = scope.term(condition)
        used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
        special = list(self.launch.special.values())
        return all(any(scope.sources[n] is v for v in special) for n in used)


def _rounds(loop: Loop) -> int:
    """How often a loop runs, as far as that is known: 0 if it may not run at all."""
    if not all(isinstance(e, IntImm) for e in (loop.start, loop.stop, loop.step)):
        return 0
    start, stop, step = (int(e) for e in (loop.start, loop.stop, loop.step))  # type: ignore[call-overload]
    return max(0, -(-(stop - start) // step)) if step > 0 else 0


def _ordered(opcode: str) -> list[str]:
    for start, kind in _ORDERS:
        if opcode.startswith(start):
            return [kind]
    return [] if opcode.startswith(_PLAIN) else ["all"]


class _Between:
    """Which kinds of ordering stand between two events of the list."""

    def __init__(self, events: list[_Event]) -> None:
        self.events = events
        kinds = sorted({e.orders for e in events} - {""})
        self.sums = {k: np.concatenate([[0], np.cumsum([e.orders == k for e in events])]) for k in kinds}

    def _any(self, low: int, high: int, kinds: frozenset[str]) -> bool:
        return any(self.sums[k][high] > self.sums[k][low] for k in kinds if k in self.sums)

    def lacks(self, i: int, j: int, kinds: frozenset[str], around: tuple[tuple[int, bool], ...] | None) -> bool:
        """None of the kinds between i and j; ``around``: through the end of the innermost loop of event i and its start."""
        if around is None:
            return not self._any(i + 1, j, kinds)
        loop = _loop_of(around)
        inside = [k for k, e in enumerate(self.events) if any(step[0] == loop for step in e.path)]
        return not self._any(i + 1, inside[-1] + 1, kinds) and not self._any(inside[0], j, kinds)


def _loop_of(path: tuple[tuple[int, bool], ...]) -> int | None:
    """The innermost loop of a path that certainly runs twice."""
    return next((step for step, _ in reversed(path) if step % 2), None)


def _repeated(first: _Event, second: _Event) -> bool:
    """Whether both are in one loop that certainly runs twice, the innermost of the first."""
    loop = _loop_of(first.path)
    return loop is not None and any(step == loop for step, _ in second.path)


def _together(first: _Event, second: _Event) -> bool:
    """Whether, if one is executed, so is the other: what encloses only one of them is certainly entered."""
    common = 0
    while common < min(len(first.path), len(second.path)) and first.path[common] == second.path[common]:
        common += 1
    return all(certain for _, certain in (*first.path[common:], *second.path[common:]))


def _is_of(e: _Event, variants: tuple[str, ...] | None) -> bool:
    return e.variant not in _SLOW if variants is None else e.variant in variants


def _operands(e: _Event, access: str) -> list[Operand]:
    assert e.call is not None
    found = e.call.outputs if access == "w" else e.call.inputs
    return [o for o in found if not (access == "r" and o in e.call.outputs and e.call.op == "gemm_async")]


def _meeting(rule: _Rule, first: _Event, second: _Event, launch: Launch, again: bool) -> tuple[Operand, list[int]] | None:
    """The second's operand that meets the first's elements, and where, if that is certain."""
    assert first.call is not None and second.call is not None
    if rule.first is None and rule.needs >= {"sync"} and first.call.active.threads() == 1:
        return None
    for a in _operands(first, rule.first_access):
        for b in _operands(second, rule.second_access):
            if a.root.space != rule.space or a.root != b.root:
                continue
            if rule.space == "local":
                return b, [0] * len(b.extents)
            where = _overlap(first.call, a, second.call, b, launch, again)
            if where is not None:
                return b, where
    return None


def _overlap(c: CallContext, a: Operand, d: CallContext, b: Operand, launch: Launch, again: bool) -> list[int] | None:
    """Coordinates in the buffer that both certainly access (0 where only known to be the same), or None."""
    x, y = a.buffer, b.buffer
    if x is not y and not (x.data is y.data and x.shape == y.shape and structural_equal(x.elem_offset, y.elem_offset)):
        return None
    if x is not y and not structural_equal(x.layout, y.layout):
        return None
    lows_a, lows_b, where = [], [], []
    for p, q in zip(a.region.region, b.region.region):
        low_p, low_q = _lows(c, p.min, launch), _lows(d, q.min, launch)
        if low_p is None or low_q is None:
            if again or low_p is not low_q or not structural_equal(p.min, q.min) or _depends_on_thread(p.min, launch):
                return None
            low_p = low_q = np.zeros(1, dtype=np.int64)
        lows_a.append(low_p)
        lows_b.append(low_q)
    first, second = (np.stack(np.broadcast_arrays(*lows), axis=1) for lows in (lows_a, lows_b))
    first, second = np.unique(first, axis=0), np.unique(second, axis=0)
    low = np.maximum(first[:, None], second[None])
    high = np.minimum(first[:, None] + np.array(a.extents), second[None] + np.array(b.extents))
    met = np.argwhere((low < high).all(axis=2))
    if not len(met):
        return None
    where = low[met[0][0], met[0][1]]
    return [int(v) for v in where]


def _used(e: Expr, launch: Launch) -> tuple[Any, set[str], dict[str, str]]:
    """The term of an index, the names in it, and the names that are thread ids with their registers."""
    scope = new_scope()
    term = scope.term(e)
    used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
    return term, used, {scope.name(v): r for r, v in launch.special.items() if r.startswith("tid.")}


def _depends_on_thread(e: Expr, launch: Launch) -> bool:
    _, used, registers = _used(e, launch)
    return bool(used & set(registers))


def _lows(c: CallContext, e: Expr, launch: Launch) -> np.ndarray | None:
    """The first coordinate of each active thread's region in one dimension, if it depends on the thread alone."""
    if isinstance(e, IntImm):
        return np.array([e.value])
    term, used, registers = _used(e, launch)
    if not used <= set(registers):
        return None
    points: dict[str, Any] = thread_points(launch, {n: registers[n] for n in used})
    found = np.broadcast_to(np.asarray(evaluate_many(term, points)), (launch.threads,))
    mask = c.active.mask
    return found[mask] if not c.active.elected else found[mask][:1] if len(np.unique(found[mask])) == 1 else None


def _error(rule: _Rule, first: _Event, second: _Event, found: tuple[Operand, list[int]]) -> LoweringError:
    assert first.call is not None and second.call is not None
    o, where = found
    place = f"{first.call.op} at {first.call.span}" if first.call.span else first.call.op
    text = rule.says.format(buffer=f"{o.buffer.name}{where}", first=place, threads=first.call.active.describe())
    return LoweringError(f"'{second.call.op}' {text}", hint=rule.hint, span=second.call.span)



