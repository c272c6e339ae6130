"""``te.convert``: the cheapest way from one distribution over registers to another.

Candidates: moves and byte permutes within threads; shuffles within warps, as few as there can be; through shared memory,
without conflicts, in several vector widths or by 8x8 matrices.  The machine model chooses.  The plan that wins is run on
the names of all bytes (every thread, every register): that is its proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...errors import LayoutError, ProofError
from ...ir import PrimFunc
from ...ir import dtype as dt
from ...layout import Layout
from ...layout.draw import default_shape
from ...prove.verdict import Enumeration, Verdict
from ...redistribution.distribution import Distribution, distribution_of
from ...redistribution.linear import linear_form, rounds_of, shuffle_plan, stays_in_warp, transfer
from ...redistribution.plan import Plan, execute
from ...redistribution.shared import MAX_SHARED, shared_plans
from .cost import Cost, cost_of
from .table import padded_round_trip, register_plan, table_plan

WAYS = ("registers", "shuffle", "shared")


@dataclass(frozen=True)
class Candidate:
    """A plan with its cost."""

    plan: Plan
    cost: Cost

    def describe(self) -> str:
        c = self.cost
        parts = [
            (c.shuffles, "shuffle"), (c.selects, "select"), (c.permutes, "prmt"), (c.stores, "store"), (c.loads, "load"),
            (c.barriers, "barrier"), (c.wavefronts, "wavefront"),
        ]  # fmt: skip
        return ", ".join(f"{n} {what}{'s' if n != 1 else ''}" for n, what in parts if n) or "renames only"


@dataclass(frozen=True)
class Conversion:
    """``plan`` takes ``src`` to ``dst``; ``proof`` says that every element arrives.

    ``others``: the other candidates, cheapest first; ``refused``: ways that don't exist, with the reason.
    """

    source: Layout
    target: Layout
    dtype: str
    shape: tuple[int, ...]
    plan: Plan
    cost: Cost
    proof: Verdict
    src: Distribution = field(repr=False)
    dst: Distribution = field(repr=False)
    others: tuple[Candidate, ...] = field(default=(), repr=False)
    refused: tuple[tuple[str, str], ...] = ()

    @cached_property
    def program(self) -> PrimFunc:
        """The plan as a TIRx function of (A: threads x source registers, D: threads x destination registers), uint32."""
        from .program import program_of

        return program_of(self.plan)

    @cached_property
    def ptx(self) -> str:
        """The same as a PTX module with one kernel, ``convert``."""
        return self.kernel.ptx

    @cached_property
    def kernel(self) -> Any:
        """The kernel with its launch data; see :class:`~tirx_eq.solve.redistribution.emit.PlanKernel`."""
        from .emit import kernel_of

        return kernel_of(self.plan)

    def registers(self, values: np.ndarray) -> np.ndarray:
        """Source registers (threads, words) as uint32 that hold ``values`` (one per element, of the dtype's size)."""
        return pack_registers(self.src, values)

    def elements(self, registers: np.ndarray) -> np.ndarray:
        """(threads, slots) of the destination: raw values; slots that hold nothing are 0."""
        return unpack_registers(self.dst, registers)

    def describe(self) -> str:
        return Candidate(self.plan, self.cost).describe()

    def to_json(self) -> dict[str, Any]:
        """JSON-able data without the programs."""
        from dataclasses import asdict

        return {
            "source": self.source.script(prefix=""), "target": self.target.script(prefix=""), "dtype": self.dtype,
            "shape": list(self.shape), "threads": self.plan.threads, "scope": self.dst.scope, "way": self.plan.kind,
            "note": self.plan.note, "cost": asdict(self.cost), "proof": {
                "status": self.proof.status, "decided_by": self.proof.decided_by, "detail": self.proof.detail,
            },
            "others": [{"way": c.plan.kind, "note": c.plan.note, "cost": asdict(c.cost)} for c in self.others],
            "refused": [{"way": w, "reason": r} for w, r in self.refused],
        }  # fmt: skip


def pack_registers(d: Distribution, values: np.ndarray) -> np.ndarray:
    """Registers (threads, words) of uint32 that hold each element's raw value in its slots; the rest is 0."""
    unsigned: Any = {8: np.uint8, 16: np.uint16, 32: np.uint32}[d.bits]
    raw = np.ascontiguousarray(values).reshape(-1).view(unsigned)
    slots = np.zeros((d.threads, d.words * 32 // d.bits), dtype=unsigned)
    held = d.held
    slots[:, : held.shape[1]] = np.where(held >= 0, raw[np.maximum(held, 0)], 0)
    return slots.view(np.uint32)


def unpack_registers(d: Distribution, registers: np.ndarray) -> np.ndarray:
    """Raw values (threads, slots), 0 where a slot holds no element."""
    unsigned: Any = {8: np.uint8, 16: np.uint16, 32: np.uint32}[d.bits]
    slots = np.ascontiguousarray(registers, dtype=np.uint32).view(unsigned)[:, : d.held.shape[1]]
    made: np.ndarray = np.where(d.held >= 0, slots, 0)
    return made


def convert(
    src: Layout, dst: Layout, dtype: Any = "float32", *, shape: Sequence[int] | None = None, way: str | None = None,
    threads: int | None = None, scratch: int = MAX_SHARED,
) -> Conversion:  # fmt: skip
    """The cheapest conversion of registers from distribution ``src`` to ``dst``.

    Both map the same elements (flat index of a logical tile) to thread axes (laneid, warpid, tid_in_wg, tx, …) and m, the
    slot among the thread's elements; elements of 8, 16 or 32 bits, packed into 32-bit registers.  ``shape``: the logical
    tile, for the row pitch of a way through shared memory.  ``way`` restricts to ``registers``, ``shuffle`` or ``shared``;
    ``threads`` sets the number of threads that take part (default: as many warps as the wider side has).  ``scratch``: bytes
    of shared memory that may be used; a tile that is larger goes through it in rounds, where it can be cut.

    Raises LayoutError for layouts that are no distributions (see :func:`distribution_of`), of different sizes, a
    destination element that no source register holds, or if no way exists; ProofError if a plan were wrong.
    """
    name = dt.normalize(dtype)
    if way is not None and way not in WAYS:
        raise LayoutError(f"convert: unknown way '{way}'", hint=f"one of {', '.join(WAYS)}")
    first, second = distribution_of(src, name, threads), distribution_of(dst, name, threads)
    count = max(first.threads, second.threads)
    if first.threads != second.threads:
        first, second = distribution_of(src, name, count), distribution_of(dst, name, count)
    if first.size != second.size:
        raise LayoutError(f"convert: the source has {first.size} elements, the destination {second.size}")
    dims = tuple(int(e) for e in shape) if shape is not None else default_shape(src)
    if prod(dims) != first.size:
        raise LayoutError(f"convert: the shape {dims} has {prod(dims)} elements, the layouts {first.size}")
    found, refused = _candidates(first, second, dims, way, scratch)
    if not found:
        raise LayoutError("convert: no way exists:\n" + "\n".join(f"  {w}: {r}" for w, r in refused))
    ranked = sorted(found, key=lambda c: (c.cost.cycles, WAYS.index(c.plan.kind)))
    best = ranked[0]
    proof = prove_plan(best.plan, first, second)
    return Conversion(src, dst, name, dims, best.plan, best.cost, proof, first, second, tuple(ranked[1:]), tuple(refused))


def _candidates(
    src: Distribution, dst: Distribution, shape: Sequence[int], way: str | None, scratch: int
) -> tuple[list[Candidate], list[tuple[str, str]]]:
    plans: list[Plan] = []
    refused: list[tuple[str, str]] = []
    moves = register_plan(src, dst) if way in (None, "registers") else None
    if moves is not None:
        plans.append(moves)
    elif way in (None, "registers"):
        refused.append(("registers", "an element is in another thread, or in another slot in some threads"))
    a, b = linear_form(src), linear_form(dst)
    path = transfer(a, b) if a is not None and b is not None else None
    if way != "shared" and moves is None:
        if path is None:
            refused.append(("shuffle", "a distribution isn't linear over GF(2)"))
        else:
            rounds = rounds_of(path, (32 // src.bits).bit_length() - 1)
            if isinstance(rounds, str):
                refused.append(("shuffle", rounds))
            else:
                plan = shuffle_plan(src, dst, rounds)
                if way in (None, plan.kind):
                    plans.append(plan)
    if way in (None, "shared") and moves is None:
        plans += _through_memory(src, dst, a, b, path, shape, min(scratch, MAX_SHARED), refused)
    return [Candidate(p, cost_of(p)) for p in plans], refused


def _through_memory(
    src: Distribution, dst: Distribution, a: Any, b: Any, path: Any, shape: Sequence[int], scratch: int,
    refused: list[tuple[str, str]],
) -> list[Plan]:  # fmt: skip
    size = src.size * src.bits // 8
    if path is not None:
        plans = list(shared_plans(src, dst, a, b, stays_in_warp(path), scratch)) if scratch >= 16 else []
        if not plans:
            text = f"{size} bytes are more than {scratch}, and no way to cut them suits the threads of both sides"
            refused.append(("shared", text))
        return plans
    made = f"{size} bytes are more than {scratch}" if size > scratch else table_plan(src, dst, shape)
    if isinstance(made, Plan) and made.shared > scratch:
        made = f"the tile's {made.shared} bytes are more than {scratch}"
    if isinstance(made, str):
        refused.append(("shared", made))
        return []
    return [made]


def prove_plan(plan: Plan, src: Distribution, dst: Distribution) -> Verdict:
    """Every destination slot holds its element, in every thread: by executing the plan on the names of bytes.

    ProofError with the first slot where that fails.
    """
    size = src.bits // 8
    names = np.full((src.threads, src.words * 4), -1, dtype=np.int64)
    slots = src.held.shape[1]
    each = np.where(src.held[:, :, None] < 0, -1, src.held[:, :, None] * size + np.arange(size))
    names[:, : slots * size] = each.reshape(src.threads, -1)
    got = execute(plan, names.reshape(src.threads, src.words, 4)).reshape(src.threads, -1)
    wanted = np.where(dst.held[:, :, None] < 0, -1, dst.held[:, :, None] * size + np.arange(size)).reshape(dst.threads, -1)
    got = got[:, : wanted.shape[1]]
    bad = (wanted >= 0) & (got != wanted)
    if bad.any():
        t, k = (int(i) for i in np.argwhere(bad)[0])
        have = int(got[t, k])
        raise ProofError(
            f"convert: thread {t}'s slot {k // size} should hold element {int(wanted[t, k]) // size}, the {plan.kind} plan "
            f"leaves {'nothing' if have < 0 else f'element {have // size}'} there"
        )
    box = (("thread", 0, dst.threads - 1), ("slot", 0, dst.held.shape[1] - 1))
    text = f"all {int((wanted >= 0).sum()) // size} slots that hold an element get it"
    return Verdict("equal", "symbolic execution", certificate=Enumeration(dst.threads * dst.held.shape[1], box), detail=text)


def baseline_wavefronts(c: Conversion) -> int:
    """Wavefronts of a round trip through a row-major tile with the best row pitch."""
    return padded_round_trip(c.src, c.dst, c.shape).total


