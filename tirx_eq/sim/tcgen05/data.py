"""tcgen05 data movement and synchronisation: ld, st, wait, fence, commit, shift (PTX ISA 9.7.16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirx_eq.sim import mbarrier
from tirx_eq.sim.clocks import HB, TC
from tirx_eq.sim.control import aligned
from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import ALU, REGISTER_BYTES, SYNC, Decoder, Run
from tirx_eq.sim.tcgen05.order import (
    Actor,
    actor_of_thread,
    group_number,
    queues,
    relaxed,
    thread_column,
    touch,
    uniform,
    warp_column,
    window,
)
from tirx_eq.sim.tcgen05.tmem import COLUMNS, LANES, MAX_REPEAT, REGISTERS, access
from tirx_eq.sim.text.syntax import Imm, Instr, Mem, Reg, Sink, Vec
from tirx_eq.sim.transfers.copies import smem_address, targets_of_mask
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray


# -- ld and st ----------------------------------------------------------------------------------------
@dataclass
class Transfer:
    """A tcgen05.ld or .st between its issue and its wait."""

    rows: Array
    run: Any
    registers: set[int]
    instr: Instr
    #: plain moves of a register not yet loaded: (to, from, rows); they take effect with the load
    moves: list[tuple[int, int, Array]] = field(default_factory=list)


def data_path(decoder: Decoder, instr: Instr) -> tuple[str, int, bool]:
    shape = next((p for p in instr.parts if p in REGISTERS), "")
    repeat = next((p for p in instr.parts if p[0] == "x" and p[1:].isdigit()), "")
    if not shape or not repeat:
        raise decoder.error("shape and repeat are needed")
    n = int(repeat[1:])
    if n > MAX_REPEAT[shape] or n & (n - 1):
        raise decoder.error(f"{repeat} is not allowed with {shape}")
    packed = "pack::16b" in instr.parts or "unpack::16b" in instr.parts
    return shape, n, packed


def transfer(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tcgen05.ld and tcgen05.st"""
    loads = instr.parts[1] == "ld"
    shape, repeat, packed = data_path(decoder, instr)
    operands = list(instr.operands)
    reduced = "red" in instr.parts
    vector = operands.pop(0) if loads else operands.pop()
    reduce = None
    if reduced:
        if decoder.program.module.target not in ("sm_103a", "sm_103f", "sm_110a", "sm_110f"):
            raise decoder.error(f"tcgen05.ld.red is a feature of sm_103 and sm_110, not of {decoder.program.module.target}")
        reduce = reduction(decoder, instr, operands.pop(0))
    if not isinstance(vector, Vec) or not isinstance(operands[0], Mem):
        raise decoder.error("{registers} and [address] are needed")
    count = REGISTERS[shape] * repeat
    if len(vector.items) != count:
        raise decoder.error(f"{len(vector.items)} registers where {count} are needed")
    split = 0
    if shape == "16x32bx2":
        if len(operands) < 2 or not isinstance(operands[1], Imm):
            raise decoder.error("the constant offset of the second half is needed")
        split = operands[1].value
    address = decoder.address(operands[0])
    path = access(shape, repeat, packed, split)
    indices: list[int] = []
    for item in vector.items:
        if isinstance(item, Sink):
            indices.append(-1)
        elif isinstance(item, Reg) and REGISTER_BYTES[decoder.program.registers[item.index].type] == 4:
            indices.append(item.index)
        elif loads:
            raise decoder.error("32-bit registers are needed")
    sources = [] if loads else [decoder.wide(o, "u32") for o in vector.items]
    loaded = [*indices, reduce[0]] if reduce is not None else indices
    name = f"tcgen05.{instr.parts[1]}"
    halves = 16 if shape != "32x32b" else 32

    def places(w: Wave, g: Group) -> tuple[Array, Array, Array]:
        """(registers, rows) arrays of lane and column, and the CTA of each row."""
        at = address(w, g)
        uniform(w, g, at, "the tensor-memory address")
        lane = (at >> 16) & 0xFFFF
        column = at & 0xFFFF
        window = 32 * ((w.thread[g.idx] // 32) % 4)
        relative = (lane < 32) & (window > 0)
        if relative.any():
            i = int(np.argmax(relative))
            w.report("tmem-lane", f"{name} at lane {int(lane[i])} by warp {int(w.thread[g.idx[i]]) // 32}: the lane is taken "
                                  f"relative to the warp's window at {int(window[i])}, as shipped kernels rely on; the ISA "
                                  "asks for the absolute lane", row=int(g.idx[i]), warning=True)
            lane = np.where(relative, lane + window, lane)
        allowed = (lane == window) | ((halves == 16) & (lane == window + 16))
        if not allowed.all():
            i = int(np.argmin(allowed))
            w.report("tmem-lane", f"{name} at lane {int(lane[i])} by warp {int(w.thread[g.idx[i]]) // 32}, which may "
                                  f"access lanes {int(window[i])}..{int(window[i]) + 31}", row=int(g.idx[i]))
        lanes = path.lane[:, w.lane[g.idx]] + lane
        columns = path.column[:, w.lane[g.idx]] + column
        if lanes.max() >= LANES or columns.max() + packed >= COLUMNS or columns.min() < 0:
            i = int(np.argmax((lanes >= LANES) | (columns + packed >= COLUMNS)) % g.n)
            w.report("bounds", f"{name} reaches lane {int(lanes.max())} column {int(columns.max())} of tensor memory",
                     row=int(g.idx[i]), fatal=True)
        return lanes, columns, w.cta[g.idx]

    def check(w: Wave, g: Group, lanes: Array, columns: Array) -> None:
        clocks = w.clocks
        state = queues(w)
        warps = w.warp[g.idx]
        for warp in dict.fromkeys(warps.tolist()):
            mine = warps == warp
            rows = g.idx[mine]
            column = warp_column(w, warp, instr.parts[1])
            state.count[column] += 1
            view = clocks.know[:, rows, :].min(axis=1)
            who = Actor(int(rows[0]), warp, int(clocks.cluster[rows[0]]), column, state.count[column], view,
                        clocks.after[rows].min(axis=0), relaxed(w, int(rows[0])))
            # registers run along the rows of these arrays: transposed, they are lanes by columns
            touch(w, who, int(w.cta[rows[0]]), *window(lanes[:, mine].T, columns[:, mine].T), not loads, name, False)
            if packed:
                touch(w, who, int(w.cta[rows[0]]), lanes[:, mine], columns[:, mine] + 1, not loads, name, False)

    def run_load(w: Wave, g: Group) -> None:
        lanes, columns, ctas = places(w, g)
        check(w, g, lanes, columns)
        rows = g.idx.copy()

        def perform(mask: Array) -> None:
            group = Group(rows[mask], bool(mask.all()) and g.full)
            data = w.tmem.data[ctas[mask][None, :], lanes[:, mask], columns[:, mask]]
            if packed:
                upper = w.tmem.data[ctas[mask][None, :], lanes[:, mask], columns[:, mask] + 1]
                data = (data & np.uint32(0xFFFF)) | (upper << np.uint32(16))
            for i, index in enumerate(indices):
                if index >= 0:
                    w.store(index, group, data[i].copy())
            if reduce is not None:
                w.store(reduce[0], group, reduce[1](data))
        if w.context.policy == "early":
            perform(np.ones(len(rows), bool))
        for index in loaded:
            if index >= 0:
                w.register(index)
                flags = w.U[index]
                flags = np.zeros(w.T, bool) if flags is None else flags.copy()
                flags[rows] = True
                w.U[index] = flags
        w.scratch.setdefault("ld", []).append(Transfer(rows, perform, set(loaded), instr))

    def run_store(w: Wave, g: Group) -> None:
        lanes, columns, ctas = places(w, g)
        check(w, g, lanes, columns)
        values = np.stack([s(w, g) for s in sources])
        rows = g.idx.copy()

        def perform(mask: Array) -> None:
            t = w.tmem
            at = ctas[mask][None, :], lanes[:, mask], columns[:, mask]
            if packed:
                t.data[at] = values[:, mask] & np.uint32(0xFFFF)
                t.data[at[0], at[1], at[2] + 1] = values[:, mask] >> np.uint32(16)
            else:
                t.data[at] = values[:, mask]
        if w.context.policy == "early":
            perform(np.ones(len(rows), bool))
            return
        w.scratch.setdefault("st", []).append(Transfer(rows, perform, set(), instr))
    return aligned(run_load if loads else run_store, True), SYNC


def reduction(decoder: Decoder, instr: Instr, operand: object) -> tuple[int, Callable[[Array], Array]]:
    """tcgen05.ld.red: the register of the per-thread minimum or maximum, and how it follows from the loaded words."""
    if not isinstance(operand, Reg):
        raise decoder.error("a register for the reduction is needed")
    kind = instr.parts[-1]
    dtype = np.dtype({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[kind])
    pick = {("min", False): np.fmin, ("max", False): np.fmax, ("min", True): np.minimum,
            ("max", True): np.maximum}["min" if "min" in instr.parts else "max", "NaN" in instr.parts]
    magnitude = "abs" in instr.parts

    def reduce(words: Array) -> Array:
        values = np.ascontiguousarray(words).view(dtype)
        result: Array = pick.reduce(np.abs(values) if magnitude else values, axis=0)
        return result.view(np.uint32)
    return operand.index, reduce


def wait(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tcgen05.wait::ld / ::st"""
    which = "ld" if instr.parts[1] == "wait::ld" else "st"

    def run(w: Wave, g: Group) -> None:
        kept = []
        for op in w.scratch.get(which, []):
            mask = np.isin(op.rows, g.idx)
            if not mask.any():
                kept.append(op)
                continue
            if which == "st" or w.context.policy != "early":
                op.run(mask)
            for to, source, rows in op.moves:
                moved = rows[np.isin(rows, g.idx)]
                w.register(to)[moved] = w.register(source)[moved]
            if which == "ld":
                for index in op.registers:
                    if index >= 0 and w.U[index] is not None:
                        flags = w.U[index].copy()
                        flags[op.rows[mask]] = False
                        w.U[index] = flags if flags.any() else None
            if not mask.all():
                left = ~mask
                inner = op.run
                kept.append(Transfer(op.rows[left], rest(inner, left), op.registers, op.instr, op.moves))
        w.scratch[which] = kept
        clocks, state = w.clocks, queues(w)
        for warp in dict.fromkeys(w.warp[g.idx].tolist()):
            if (warp, which) not in state.warp:
                continue
            column = state.warp[warp, which]
            rows = g.idx[w.warp[g.idx] == warp]
            for kind in (HB, TC):
                clocks.know[kind, rows, column] = state.count[column]

    def rest(inner: Any, left: Array) -> Any:
        def run_rest(mask: Array) -> None:
            full = np.zeros(len(left), bool)
            full[np.nonzero(left)[0][mask]] = True
            inner(full)
        return run_rest
    return aligned(run, True), SYNC


# -- fences and commit ----------------------------------------------------------------------------------
def before(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    def run(w: Wave, g: Group) -> None:
        state = queues(w)
        w.clocks.tc_before(g.idx)
        for row in g.idx.tolist():
            column = state.thread.get(row)
            if column is not None:
                w.clocks.know[TC, row, column] = state.count[column]
                w.clocks.know[HB, row, column] = state.count[column]
    return run, ALU


def after(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: w.clocks.tc_after(g.idx)), ALU


def commit(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tcgen05.commit: arrives on mbarriers when the thread's earlier tcgen05 work is complete."""
    bar = smem_address(decoder, instr, instr.operands[0])
    multicast = "multicast::cluster" in instr.parts
    mask = decoder.wide(instr.operands[1], "u16") if multicast else None
    group = group_number(instr)

    def run(w: Wave, g: Group) -> None:
        masks = mask(w, g) if mask else np.zeros(g.n, np.int64)
        for row, at, m in zip(g.idx.tolist(), bar(w, g).tolist(), masks.tolist()):
            one(w, row, at, m)

    def one(w: Wave, row: int, at: int, m: int) -> None:
        flat = int(w.shared_flat(np.array([at]), np.array([row]), 8, 8, True)[0])
        column = thread_column(w, row)
        view = w.clocks.snapshot(row)
        view[HB, column] = view[TC, column] = queues(w).count[column]
        homes = targets_of_mask(w, row, m) if multicast else [flat // w.smem_size]

        def perform() -> None:
            for home in homes:
                barrier = mbarrier.find(w, home * w.smem_size + flat % w.smem_size, row)
                mbarrier.async_use(w, barrier, view, "tcgen05.commit")
                mbarrier.signal(w, barrier, view, 1)
        w.issue(("tc", row, group), AsyncOp(perform, instr, row, "commit"))
    return run, ALU


# -- cp and shift -----------------------------------------------------------------------------------------
def shift(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tcgen05.shift.down: 32-byte rows move one lane down (lane i takes lane i+1), the last lane keeps its value."""
    address = decoder.address(instr.operands[0])
    pair = group_number(instr) == 2

    def run(w: Wave, g: Group) -> None:
        for row, at in zip(g.idx.tolist(), address(w, g).tolist()):
            one(w, row, at)

    def one(w: Wave, row: int, at: int) -> None:
        lane, column = (at >> 16) & 0xFFFF, at & 0xFFFF
        if lane % 32 or lane >= LANES or column + 8 > COLUMNS:
            w.report("isa", f"tcgen05.shift at lane {lane} column {column}: the lane must be a multiple of 32", row=row,
                     fatal=True)
        who = actor_of_thread(w, row)
        ctas = [int(w.cta[row])] if not pair else [int(w.cta[row]) & ~1, int(w.cta[row]) | 1]

        def perform() -> None:
            for cta in ctas:
                lanes = np.arange(lane, LANES)[:, None]
                columns = np.arange(column, column + 8)[None, :]
                touch(w, who, cta, *window(lanes, columns), False, "tcgen05.shift")
                touch(w, who, cta, *window(lanes[:-1], columns), True, "tcgen05.shift")
                block = w.tmem.data[cta, lane:, column : column + 8]
                block[:-1] = block[1:].copy()
        w.issue(("tc", row, 2 if pair else 1), AsyncOp(perform, instr, row, "tcgen05.shift"))
    return run, ALU


GROUPS = "cta_group::1 cta_group::2"
SHAPES = " ".join(REGISTERS)
REPEATS = "x1 x2 x4 x8 x16 x32 x64 x128"
ENTRIES = [
    *entry("tcgen05.ld", f"sync aligned {SHAPES} {REPEATS} pack::16b b32 red min max abs NaN f32 u32 s32", transfer),
    *entry("tcgen05.st", f"sync aligned {SHAPES} {REPEATS} unpack::16b b32", transfer),
    *entry("tcgen05.wait::ld tcgen05.wait::st", "sync aligned", wait),
    *entry("tcgen05.fence::before_thread_sync", "", before), *entry("tcgen05.fence::after_thread_sync", "", after),
    *entry("tcgen05.commit", f"{GROUPS} mbarrier::arrive::one shared::cluster multicast::cluster b64", commit),
    *entry("tcgen05.shift", f"{GROUPS} down", shift),
]
