"""The equations of copies that reach other CTAs: which CTAs are written, whose barriers are told, and the elements moved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ...ir import Expr, Var, const
from ...ir.index import evaluate_many, names
from ...prove.verdict import Enumeration, Verdict
from ..conditions.cluster import barrier_of, cta_points, mask_of
from ..context import CallContext, evaluate_at
from ..indices import Indices
from ..program import Block, Index, Instruction, Memory, walk
from .element_names import Names
from .movement import Trace, difference, movement, points_of, unique

COPIES = ("cp.async.bulk.", "st.async.")


def _wrong(what: str, rank: int, got: Any, wanted: Any) -> Verdict:
    return Verdict(
        "different", "enumeration", counterexample={"CTA": rank, "got": got, "wanted": wanted},
        detail=f"{what} in CTA {rank}: {got} instead of {wanted}",
    )  # fmt: skip


class _Ctas:
    """Values of expressions in each CTA of a cluster: simplified ones as emitted, and the call's own as written."""

    def __init__(self, c: CallContext, indices: Indices) -> None:
        self.c, self.indices = c, indices
        self.points = cta_points(c)

    def emitted(self, e: Expr, rank: int) -> int:
        """What the program computes; loop variables at their lowest."""
        term, scope = self.indices.term(e), self.indices.scope
        special = {scope.name(v): self.points[rank].get(r, 0) for r, v in self.c.launch.special.items()}
        used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
        found: Any = evaluate_many(term, {n: int(special.get(n, scope.ranges[n][0])) for n in used})
        return int(found)

    def written(self, e: Any, rank: int) -> int:
        """What the call says, evaluated from its source."""
        at: dict[Var, np.ndarray] = {
            **{v: np.asarray(low) for v, (low, _) in self.c.ranges.items()},
            **{v: np.asarray(self.points[rank].get(r, 0)) for r, v in self.c.launch.special.items()},
        }
        return int(evaluate_at(self.c.resolve(const(e)), at))


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
            if got != wanted:
                return _wrong("the mask of CTAs", rank, got, wanted)
            verdict = _same_place(ctas, rank, barrier, wanted_bar)
            if verdict is not None:
                return verdict
            if wanted_bar.root.space == "cluster" and ".cta_group::2" not in copy.opcode:
                return _wrong("the barrier", rank, "one's own", "that of the other CTA")
    return movement(c, tuple(_copies(block)), indices)


def _same_place(ctas: _Ctas, rank: int, got: object, wanted: Memory, remote: Any = None) -> Verdict | None:
    """None if a shared operand is at the wanted place, in the wanted CTA (``remote``: instead of the one it is written for)."""
    assert isinstance(got, Memory)

    def where(m: Memory, value: Any) -> tuple[int, int]:
        home = value(m.root.address, rank) if m.root.space == "cluster" else rank
        return home, value(m.offset, rank) + m.root.offset

    here, there = where(got, ctas.emitted), where(wanted, ctas.written)
    if remote is not None:
        there = (ctas.written(remote, rank), there[1])
    return None if here == there else _wrong("the barrier (CTA, byte)", rank, here, there)


def peer_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on a copy into the CTA that ``remote_cta_id`` names: the elements, the CTA they go to, the barrier told."""
    ctas = _Ctas(c, indices)
    barrier = barrier_of(c)
    assert barrier is not None
    for rank in range(len(ctas.points)):
        wanted = ctas.written(c.call.config["remote_cta_id"], rank)
        for copy in _copies(block):
            into = copy.operands[0]
            assert isinstance(into, Memory) and into.root.address is not None
            got = ctas.emitted(into.root.address, rank)
            if got != wanted:
                return _wrong("the CTA copied to", rank, got, wanted)
            verdict = _same_place(ctas, rank, copy.operands[-1], barrier, c.call.config["remote_cta_id"])
            if verdict is not None:
                return verdict
    return movement(c, tuple(_copies(block)), indices)


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
