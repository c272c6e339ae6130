"""The equations of copies that reach other CTAs: which CTAs are written, whose barriers are told, and the elements moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...ir import Expr, Var, const
from ...ir.index import evaluate_many, names
from ...prove.verdict import Enumeration, Verdict
from ..code.accesses import access_bytes
from ..conditions.cluster import barrier_of, cta_points, mask_of
from ..context import CallContext, evaluate_at
from ..indices import Indices
from ..program import Block, Index, Instruction, Memory, walk
from ..sharing.active import thread_points
from .element_names import Names
from .issue import executed
from .movement import Trace, difference, movement, points_of, unique

COPIES = ("cp.async.bulk.",)


def _wrong(what: str, rank: int, got: Any, wanted: Any) -> Verdict:
    return Verdict(
        "different", "enumeration", counterexample={"CTA": rank, "got": got, "wanted": wanted},
        detail=f"{what} in CTA {rank}: {got} instead of {wanted}",
    )  # fmt: skip


def _differs(what: str, rank: int, got: Any, wanted: Any) -> Verdict | None:
    """None if two values (one for each thread, or None for what isn't there) are the same."""
    if got is None or wanted is None:
        return None if got is wanted else _wrong(what, rank, got, wanted)
    got, wanted = np.broadcast_arrays(np.atleast_1d(got), np.atleast_1d(wanted))
    bad = np.flatnonzero(got != wanted)
    return _wrong(what, rank, int(got[bad[0]]), int(wanted[bad[0]])) if len(bad) else None


def _first(*found: Verdict | None) -> Verdict | None:
    return next((v for v in found if v is not None), None)


class _Ctas:
    """Values of expressions in some threads of each CTA of a cluster: simplified ones as emitted, the call's own as written."""

    def __init__(self, c: CallContext, indices: Indices) -> None:
        self.c, self.indices = c, indices
        everyone = thread_points(c.launch, {r: r for r in ("tid.x", "tid.y", "tid.z")})
        self.points = [everyone | values for values in cta_points(c)]

    def emitted(self, e: Expr, rank: int, threads: Any = 0) -> np.ndarray:
        """What the program computes; loop variables at their lowest."""
        term, scope = self.indices.term(e), self.indices.scope
        special = {scope.name(v): r for r, v in self.c.launch.special.items()}
        used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
        at = {n: self._at(special[n], rank, threads) if n in special else int(scope.ranges[n][0]) for n in used}
        return np.asarray(evaluate_many(term, at))

    def written(self, e: Any, rank: int, threads: Any = 0) -> np.ndarray:
        """What the call says, evaluated from its source."""
        at: dict[Var, np.ndarray] = {
            **{v: np.asarray(low) for v, (low, _) in self.c.ranges.items()},
            **{v: self._at(r, rank, threads) for r, v in self.c.launch.special.items()},
        }
        return np.asarray(evaluate_at(self.c.resolve(const(e)), at))

    def _at(self, register: str, rank: int, threads: Any) -> np.ndarray:
        found = np.asarray(self.points[rank].get(register, 0))
        return found[threads] if found.ndim else found


def _copies(block: Block) -> list[Instruction]:
    return [n for n in walk(block) if isinstance(n, Instruction) and n.opcode.startswith(COPIES)]


def shared_load_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on a tensor load for several CTAs: elements as for one, the CTAs of the mask, the barrier's CTA and place."""
    ctas = _Ctas(c, indices)
    made = {n.operands[0]: n.operands[1] for n in walk(block) if isinstance(n, Instruction) and not n.opcode.startswith(COPIES)}
    wanted_bar = barrier_of(c)
    assert wanted_bar is not None
    for rank in range(len(ctas.points)):
        everyone = mask_of(c)
        wanted = ctas.written(everyone, rank) if everyone is not None else None
        for copy in _copies(block):
            barrier, *mask = copy.operands[2:]
            if bool(mask) != ("multicast" in copy.opcode):
                return _wrong("the form of the copy", rank, copy.opcode, "one with a mask" if mask else "one without")
            value = made[mask[0]] if mask else None
            got = ctas.emitted(value.expr, rank) if isinstance(value, Index) else value
            verdict = _first(_differs("the mask of CTAs", rank, got, wanted), _same_place(ctas, rank, barrier, wanted_bar))
            if verdict is not None:
                return verdict
            if wanted_bar.root.space == "cluster" and ".cta_group::2" not in copy.opcode:
                return _wrong("the barrier", rank, "one's own", "that of the other CTA")
    return movement(c, tuple(_copies(block)), indices)


def _same_place(
    ctas: _Ctas, rank: int, got: object, wanted: Memory, remote: Any = None, threads: Any = 0
) -> Verdict | None:
    """None if a shared operand is at the wanted place, in the wanted CTA (``remote``: instead of the one it is written for)."""
    assert isinstance(got, Memory)

    def home(m: Memory, value: Any) -> Any:
        return value(m.root.address, rank, threads) if m.root.space == "cluster" else rank

    there = home(wanted, ctas.written) if remote is None else ctas.written(remote, rank, threads)
    here, place = (value(m.offset, rank, threads) + m.root.offset for value, m in ((ctas.emitted, got), (ctas.written, wanted)))
    return _first(
        _differs("the barrier's CTA", rank, home(got, ctas.emitted), there), _differs("the barrier's byte", rank, here, place)
    )


def peer_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on a copy into the CTA that ``remote_cta_id`` names: the elements, the CTA they go to, the barrier told."""
    ctas = _Ctas(c, indices)
    for rank in range(len(ctas.points)):
        for copy in _copies(block):
            verdict = _at_peer(ctas, rank, copy, 0)
            if verdict is not None:
                return verdict
    return movement(c, tuple(_copies(block)), indices)


def _at_peer(ctas: _Ctas, rank: int, copy: Instruction, threads: Any) -> Verdict | None:
    """None if what these threads of a CTA copy goes to the CTA that the call names, whose barrier is told."""
    into, barrier, named = copy.operands[0], barrier_of(ctas.c), ctas.c.call.config["remote_cta_id"]
    assert barrier is not None and isinstance(into, Memory) and into.root.address is not None
    got, wanted = ctas.emitted(into.root.address, rank, threads), ctas.written(named, rank, threads)
    return _first(
        _differs("the CTA copied to", rank, got, wanted),
        _same_place(ctas, rank, copy.operands[-1], barrier, named, threads),
    )


def peer_store_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on registers stored into the CTA that ``remote_cta_id`` names: as :func:`peer_equation`, for every thread; and
    together the stores tell the barrier as many bytes as the elements have, which is what it expects."""
    ctas = _Ctas(c, indices)
    for points in points_of(c, block, indices):
        told, active = 0, np.zeros(points.threads, dtype=bool)
        senders = c.executing(points.by_var())
        active[senders] = True
        for store, threads in executed(block, points, active, {}):
            if not store.opcode.startswith("st.async."):
                continue
            told += access_bytes(store.opcode) * len(threads)
            for rank in range(len(ctas.points)):
                verdict = _at_peer(ctas, rank, store, threads)
                if verdict is not None:
                    return verdict
        expected = len(np.unique(senders // c.participants)) * c.outputs[0].size * c.outputs[0].bits // 8
        if told != expected:
            return _wrong("bytes told to the barrier", 0, told, expected)
    return movement(c, block, indices)


def spread_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on a copy whose elements are dealt out to the CTAs of a cluster: together they move each element once."""
    source, target = c.inputs[0], c.outputs[0]
    element_names = Names.of(c, source, target)
    special = {indices.scope.name(v): register for register, v in c.launch.special.items()}
    total = 0
    for points in points_of(c, block, indices):
        moved: list[tuple[np.ndarray, np.ndarray]] = []
        for values in cta_points(c):
            here = {n: np.int64(values[register]) for n, register in special.items() if register in values}
            at = replace(points, values={**points.values, **here})
            trace = Trace(c, at, source, target, c.active.mask.copy())
            trace.run(block)
            moved += trace.pairs
            wanted = unique(*element_names.expected(at.by_var()))
        got = unique(*(np.concatenate([p[k] for p in moved] or [np.empty(0, np.int64)]) for k in (0, 1)))
        count = sum(len(p[0]) for p in moved)
        if got.shape != wanted.shape or not np.array_equal(got, wanted):
            return difference(source, target, got, wanted)
        if count != len(wanted):
            return _wrong("elements moved", 0, count, len(wanted))
        total += count
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"{total} elements moved by the cluster")
