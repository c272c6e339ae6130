"""Copies by threads that go on at once: cp.async, its groups, and its arrival on mbarriers (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tirx_eq.sim import mbarrier
from tirx_eq.sim.clocks import HB
from tirx_eq.sim.isa import entry
from tirx_eq.sim.memory import GLOBAL
from tirx_eq.sim.program import ALU, Decoder, Run
from tirx_eq.sim.text.syntax import Imm, Instr
from tirx_eq.sim.transfers.copies import HINT, global_address, smem_address
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray


class CpAsync:
    """Non-bulk cp.async of every thread: open group numbers and batches not yet performed."""

    def __init__(self, w: Wave) -> None:
        self.group = np.zeros(w.T, np.int32)
        self.base = w.clocks.column("cp.async of thread 0")
        for i in range(1, w.per_cluster):
            w.clocks.column(f"cp.async of thread {i}")
        self.batches: list[dict[str, Any]] = []

    def perform(self, rows: Array, upto: Array) -> None:
        """Perform every batch entry of ``rows`` whose group is at most ``upto``."""
        kept = []
        limit: dict[int, int] = dict(zip(rows.tolist(), upto.tolist()))
        for batch in self.batches:
            take = np.array([limit.get(r, -1) >= n for r, n in zip(batch["rows"].tolist(), batch["group"].tolist())])
            if take.any():
                batch["run"](take & ~batch["done"])
                batch["done"] |= take
            if not batch["done"].all():
                kept.append(batch)
        self.batches = kept


def cp_state(w: Wave) -> CpAsync:
    if "cp" not in w.scratch:
        w.scratch["cp"] = CpAsync(w)
    return w.scratch["cp"]


def cp_async(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.{ca,cg}.shared.global [dst], [src], size{, src-size}"""
    operands = instr.operands
    to = smem_address(decoder, instr, operands[0])
    source = global_address(decoder, operands[1])
    if not isinstance(operands[2], Imm) or operands[2].value not in (4, 8, 16):
        raise decoder.error("the size must be 4, 8 or 16")
    size = operands[2].value
    if "cg" in instr.parts and size != 16:
        raise decoder.error(".cg copies 16 bytes")
    length = decoder.wide(operands[3], "u32") if len(operands) > 3 and "L2::cache_hint" not in instr.parts else None

    def run(w: Wave, g: Group) -> None:
        state = cp_state(w)
        rows = g.idx.copy()
        dst = w.shared_flat(to(w, g), rows, size, size)
        take = np.minimum(length(w, g).astype(np.int64), size) if length else np.full(g.n, size)
        src = source(w, g) - GLOBAL
        data = w.context.buffers.data
        some = take > 0
        w.global_flat(src[some] + GLOBAL, rows[some], size if not length else 1, size)
        actor = w.clocks.cluster[rows] * (1 << 15) + state.base + w.clocks.local[rows]
        epoch = state.group[rows] + 1
        w.checker.write(w.shared_shadow, w.shared_shadow.cells(dst, size), rows, what="cp.async into shared memory",
                        actor=actor, epoch=epoch)
        if some.any():
            w.checker.read(w.context.shadow, w.context.shadow.cells(src[some], size), rows[some],
                           what="cp.async from global memory", actor=actor[some], epoch=epoch[some])

        def perform(mask: Array) -> None:
            at = np.nonzero(mask)[0]
            bytes_ = np.arange(size)
            valid = bytes_[None, :] < take[at][:, None]
            index = np.where(valid, src[at][:, None] + bytes_, 0)
            w.smem[dst[at][:, None] + bytes_] = np.where(valid, data[index], 0)
        batch = {"rows": rows, "group": state.group[rows] + 1, "done": np.zeros(g.n, bool), "run": perform}
        if w.context.policy == "early":
            perform(np.ones(g.n, bool))
            batch["done"][:] = True
        else:
            state.batches.append(batch)
    return run, ALU


def cp_commit(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    def run(w: Wave, g: Group) -> None:
        cp_state(w).group[g.idx] += 1
    return run, ALU


def cp_wait(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.wait_group N / wait_all"""
    keep = 0
    everything = instr.parts[2] == "wait_all"
    if not everything:
        operand = instr.operands[0]
        if not isinstance(operand, Imm):
            raise decoder.error("the number of pending groups must be a constant")
        keep = operand.value

    def run(w: Wave, g: Group) -> None:
        state = cp_state(w)
        upto = state.group[g.idx] + (1 if everything else -keep)
        if everything:
            state.group[g.idx] += 1
        state.perform(g.idx, upto)
        column = state.base + w.clocks.local[g.idx]
        know = w.clocks.know
        know[HB, g.idx, column] = np.maximum(know[HB, g.idx, column], upto)
    return run, ALU


def cp_arrive(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.mbarrier.arrive{.noinc} [bar]: arrives when this thread's earlier cp.async are complete."""
    flat = mbarrier.flats(decoder, instr, instr.operands[0])
    noinc = "noinc" in instr.parts

    def run(w: Wave, g: Group) -> None:
        state = cp_state(w)
        state.group[g.idx] += 1
        for value in dict.fromkeys((at := flat(w, g)).tolist()):
            rows = g.idx[at == value]
            upto = state.group[rows].copy()
            barrier = mbarrier.find(w, value, int(rows[0]))
            if not noinc:
                barrier.pending += len(rows)
            view = w.clocks.release(rows)
            view[HB, state.base + w.clocks.local[rows]] = upto

            def perform(rows: Array = rows, upto: Array = upto, value: int = value, view: Array = view) -> None:
                state.perform(rows, upto)
                left = len(rows)
                while left:
                    barrier = mbarrier.find(w, value, int(rows[0]))
                    take = min(left, barrier.pending)
                    mbarrier.signal(w, barrier, view, take)
                    left -= take
            w.issue(("cp-arrive", next(w.context.serial)), AsyncOp(perform, instr, int(rows[0]), "cp.async arrive"))
    return run, ALU


ENTRIES = [
    *entry("cp.async.ca.shared cp.async.cg.shared cp.async.ca.shared::cta cp.async.cg.shared::cta",
           f"global {HINT} L2::64B L2::128B L2::256B", cp_async),
    *entry("cp.async.commit_group", "", cp_commit), *entry("cp.async.wait_group cp.async.wait_all", "", cp_wait),
    *entry("cp.async.mbarrier.arrive", "noinc shared shared::cta b64", cp_arrive),
]
