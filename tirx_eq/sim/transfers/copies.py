"""Bulk copies (PTX ISA 9.7.9.25): cp.async.bulk, reductions and groups, st.async; helpers of all asynchronous copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tirx_eq.sim import mbarrier
from tirx_eq.sim.clocks import HB
from tirx_eq.sim.isa import entry
from tirx_eq.sim.loads import ATOMIC, combine_elements
from tirx_eq.sim.memory import ASYNC, GLOBAL, REDUCTION, SHARED
from tirx_eq.sim.program import ALU, DTYPES, SYNC, Decoder, Reader, Run
from tirx_eq.sim.text.syntax import Imm, Instr, Operand, Vec
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray


# -- helpers ----------------------------------------------------------------------------------------
def smem_address(decoder: Decoder, instr: Instr, operand: Operand) -> Reader:
    """32-bit shared addresses of an operand (generic addresses are brought into the window)."""
    read = decoder.address(operand)

    def resolve(w: Wave, g: Group) -> Array:
        value = read(w, g)
        return np.where((value >> 40) == (SHARED >> 40), value - SHARED, value)
    return resolve


def global_address(decoder: Decoder, operand: Operand) -> Reader:
    return decoder.address(operand)


def each_row(g: Group, *values: Array) -> zip:
    return zip(g.idx.tolist(), *(np.broadcast_to(v, (g.n,)).tolist() for v in values))


def flat_of(w: Wave, row: int, address: int, size: int, align: int, cluster: bool = True) -> int:
    return int(w.shared_flat(np.array([address]), np.array([row]), size, align, cluster)[0])


def cells_of_chunks(w: Wave, chunks: Array) -> Array:
    """Shadow cells of 16-byte chunks at flat shared offsets."""
    shift = w.shared_shadow.shift
    return ((chunks >> shift)[:, None] + np.arange(16 >> shift)).ravel()


def global_cells(w: Wave, flat: Array) -> Array:
    cells: Array = flat >> w.context.shadow.shift
    step = np.diff(cells)
    if (step < 0).any():
        return np.unique(cells)
    return cells if step.all() else cells[np.concatenate([[True], step != 0])]


def targets_of_mask(w: Wave, row: int, mask: int) -> list[int]:
    first = int(w.cta[row]) - int(w.rank[row])
    if mask >> w.cluster_size:
        w.report("bounds", f"multicast mask {mask:#x} names CTAs outside of the cluster of {w.cluster_size}", row=row)
    return [first + i for i in range(w.cluster_size) if mask >> i & 1]


class BulkGroups:
    """Bulk groups of every thread: numbers of open and waited groups, and their clock columns."""

    def __init__(self) -> None:
        self.current: dict[int, int] = {}
        self.columns: dict[int, tuple[int, int]] = {}
        self.issued: dict[int, int] = {}
        self.read_waited: dict[int, int] = {}

    def column(self, w: Wave, row: int) -> tuple[int, int]:
        if row not in self.columns:
            name = f"bulk store of thread {int(w.thread[row])}"
            self.columns[row] = (w.clocks.column(name + " (reading its source)"), w.clocks.column(name))
        return self.columns[row]


def groups(w: Wave) -> BulkGroups:
    return w.scratch.setdefault("bulk", BulkGroups())


# -- loads into shared memory -----------------------------------------------------------------------
def deliver(w: Wave, cta: int, chunks: Array, payload: Array, barrier_flat: int, tx: int, view: Array, cluster: int,
            what: str, carried: int = 16) -> None:
    """Write 16-byte chunks at flat shared offsets and complete ``tx`` bytes on the barrier.

    Of each chunk the first ``carried`` bytes have a value; the rest is undefined afterwards.
    """
    barrier = mbarrier.find(w, barrier_flat, None)
    mbarrier.async_use(w, barrier, view, what)
    cells = cells_of_chunks(w, chunks)
    w.checker.async_access(w.shared_shadow, cells, cluster, view, (barrier.column, barrier.phase + 1), True, what)
    if carried < 16:
        w.shared_shadow.initialised[w.shared_shadow.cells(chunks + carried, 16 - carried).ravel()] = False
    w.smem.reshape(-1, 16)[chunks >> 4] = payload.reshape(-1, 16)
    mbarrier.signal(w, barrier, None, 0, -tx)


def check_global(w: Wave, flat: Array, what: str) -> None:
    good = w.context.buffers.inside(flat, 1)
    if not good.all():
        bad = int(flat[int(np.argmin(good))])
        w.report("bounds", f"{what} touches global memory at {w.context.buffers.describe(bad)}", address=GLOBAL + bad,
                 fatal=True)


def bulk_load(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.bulk to shared memory, from global memory or another CTA's shared memory, signalling an mbarrier."""
    parts = instr.parts
    from_shared = parts[4] == "shared::cta"
    multicast = "multicast::cluster" in parts
    to = smem_address(decoder, instr, instr.operands[0])
    source = smem_address(decoder, instr, instr.operands[1]) if from_shared \
        else global_address(decoder, instr.operands[1])
    size = decoder.wide(instr.operands[2], "u32")
    bar = smem_address(decoder, instr, instr.operands[3])
    mask = decoder.wide(instr.operands[4], "u16") if multicast else None

    def run(w: Wave, g: Group) -> None:
        masks = mask(w, g) if mask else np.zeros(g.n, np.int64)
        for row, dst, src, n, bar_at, m in each_row(g, to(w, g), source(w, g), size(w, g), bar(w, g), masks):
            if n % 16 or n <= 0:
                w.report("alignment", f"bulk copy of {n} bytes: the size must be a positive multiple of 16", row=row,
                         fatal=True)
            one(w, row, dst, src, n, bar_at, m)

    def one(w: Wave, row: int, dst: int, src: int, n: int, bar_at: int, m: int) -> None:
        flat = flat_of(w, row, dst, n, 16)
        bar_flat = flat_of(w, row, bar_at, 8, 8)
        if from_shared:
            origin = flat_of(w, row, src, n, 16, False)
        else:
            origin = int(w.global_flat(np.array([src]), np.array([row]), n, 16)[0])
        view = w.clocks.snapshot(row)
        cluster = int(w.clocks.cluster[row])
        homes = targets_of_mask(w, row, m) if multicast else [flat // w.smem_size]
        what = f"cp.async.bulk of thread {int(w.thread[row])}"

        def perform() -> None:
            for home in homes:
                at = home * w.smem_size + flat % w.smem_size
                bar_here = home * w.smem_size + bar_flat % w.smem_size if multicast else bar_flat
                barrier = mbarrier.find(w, bar_here, row)
                event = (barrier.column, barrier.phase + 1)
                if from_shared:
                    inner = cells_of_chunks(w, np.arange(origin, origin + n, 16))
                    w.checker.async_access(w.shared_shadow, inner, cluster, view, event, False, what)
                    payload = w.smem[origin : origin + n].copy()
                else:
                    cells = global_cells(w, np.arange(origin, origin + n))
                    w.checker.async_access(w.context.shadow, cells, cluster, view, event, False, what)
                    payload = w.context.buffers.data[origin : origin + n].copy()
                deliver(w, home, np.arange(at, at + n, 16), payload, bar_here, n, view, cluster, what)
        w.issue(("tma", next(w.context.serial)), AsyncOp(perform, instr, row, "bulk load"))
    return run, ALU


# -- stores from shared memory ----------------------------------------------------------------------
def queue_store(w: Wave, instr: Instr, row: int, read: Callable[[tuple[int, int]], Any],
                write: Callable[[Any, tuple[int, int]], None], what: str) -> None:
    """A bulk-group operation in two halves: reading its shared source, and writing its destination."""
    state = groups(w)
    read_column, write_column = state.column(w, row)
    epoch = state.current.get(row, 0) + 1
    state.issued[row] = epoch
    held: list[Any] = []

    def first() -> None:
        if not held:
            held.append(read((read_column, epoch)))

    def second() -> None:
        first()
        write(held[0], (write_column, epoch))
    w.issue(("bulk-read", row), AsyncOp(first, instr, row, what + " (read)", epoch))
    w.issue(("bulk-write", row), AsyncOp(second, instr, row, what, epoch))


def bulk_store(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.bulk.global.shared::cta.bulk_group and cp.reduce.async.bulk to global memory."""
    source = smem_address(decoder, instr, instr.operands[1])
    to = global_address(decoder, instr.operands[0])
    size = decoder.wide(instr.operands[2], "u32")
    combine = reduction(decoder, instr)
    masked = "cp_mask" in instr.parts
    byte_mask = decoder.wide(instr.operands[-1], "u16") if masked else None

    def run(w: Wave, g: Group) -> None:
        masks = byte_mask(w, g) if byte_mask else np.full(g.n, 0xFFFF)
        for row, dst, src, n, mask in each_row(g, to(w, g), source(w, g), size(w, g), masks):
            if n % 16 or n <= 0:
                w.report("alignment", f"bulk copy of {n} bytes: the size must be a positive multiple of 16", row=row,
                         fatal=True)
            one(w, row, dst, src, n, mask)

    def one(w: Wave, row: int, dst: int, src: int, n: int, mask: int) -> None:
        chosen = np.array([mask >> (i % 16) & 1 for i in range(n)], bool)
        flat = flat_of(w, row, src, n, 16, False)
        target = int(w.global_flat(np.array([dst]), np.array([row]), n, 16)[0])
        view, cluster = w.clocks.snapshot(row), int(w.clocks.cluster[row])
        what = f"bulk store of thread {int(w.thread[row])}"

        def read(event: tuple[int, int]) -> Array:
            cells = cells_of_chunks(w, np.arange(flat, flat + n, 16))
            w.checker.async_access(w.shared_shadow, cells, cluster, view, event, False, what)
            return w.smem[flat : flat + n].copy()

        def write(payload: Array, event: tuple[int, int]) -> None:
            data = w.context.buffers.data
            places = np.arange(target, target + n)[chosen]
            w.checker.async_access(w.context.shadow, global_cells(w, places), cluster, view, event, True, what,
                                   kind=ASYNC if combine is None else REDUCTION)
            if combine is None:
                data[places] = payload[chosen]
            else:
                combine(data, places, payload)
        queue_store(w, instr, row, read, write, what)
    return run, ALU


def bulk_reduce_remote(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.reduce.async.bulk.shared::cluster.shared::cta: reduce into another CTA, completing bytes on its mbarrier."""
    to = smem_address(decoder, instr, instr.operands[0])
    source = smem_address(decoder, instr, instr.operands[1])
    size = decoder.wide(instr.operands[2], "u32")
    bar = smem_address(decoder, instr, instr.operands[3])
    combine = reduction(decoder, instr)
    decoder.touches("shared", 4)

    def run(w: Wave, g: Group) -> None:
        for row, dst, src, n, at in each_row(g, to(w, g), source(w, g), size(w, g), bar(w, g)):
            if n % 16 or n <= 0:
                w.report("alignment", f"bulk copy of {n} bytes: the size must be a positive multiple of 16", row=row,
                         fatal=True)
            one(w, row, dst, src, n, at)

    def one(w: Wave, row: int, dst: int, src: int, n: int, at: int) -> None:
        flat, origin, bar_flat = flat_of(w, row, dst, n, 16), flat_of(w, row, src, n, 16, False), flat_of(w, row, at, 8, 8)
        view, cluster = w.clocks.snapshot(row), int(w.clocks.cluster[row])
        what = f"bulk reduction of thread {int(w.thread[row])}"

        def perform() -> None:
            barrier = mbarrier.find(w, bar_flat, row)
            mbarrier.async_use(w, barrier, view, what)
            event = (barrier.column, barrier.phase + 1)
            chunks = np.arange(0, n, 16)
            w.checker.async_access(w.shared_shadow, cells_of_chunks(w, origin + chunks), cluster, view, event, False, what)
            w.checker.async_access(w.shared_shadow, cells_of_chunks(w, flat + chunks), cluster, view, event, True, what,
                                   (barrier.column,), REDUCTION)
            assert combine is not None
            combine(w.smem, np.arange(flat, flat + n), w.smem[origin : origin + n].copy())
            mbarrier.signal(w, barrier, None, 0, -n)
        w.issue(("tma", next(w.context.serial)), AsyncOp(perform, instr, row, what))
    return run, ALU


def bulk_zero(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """st.bulk: zero a range of shared memory."""
    to = smem_address(decoder, instr, instr.operands[0])
    size = decoder.wide(instr.operands[1], "u64")
    decoder.touches("shared", 4)

    def run(w: Wave, g: Group) -> None:
        for row, dst, n in each_row(g, to(w, g), size(w, g)):
            if n % 8:
                w.report("alignment", f"st.bulk of {n} bytes: the size must be a multiple of 8", row=row, fatal=True)
            flat = flat_of(w, row, dst, n, 8, False)
            w.checker.write(w.shared_shadow, w.shared_shadow.cells(np.array([flat]), n), np.array([row]), what="st.bulk")
            w.smem[flat : flat + n] = 0
    return run, ALU


def reduction(decoder: Decoder, instr: Instr) -> Callable[[Array, Array, Array], None] | None:
    """For cp.reduce: combine payload bytes into data at byte indices."""
    if instr.parts[1] != "reduce":
        return None
    operation = next(p for p in instr.parts if p in ATOMIC)
    kind = next((p for p in reversed(instr.parts) if p in DTYPES), "")

    return lambda data, index, payload: combine_elements(data, index, payload, operation, kind)


def bulk_commit(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    def run(w: Wave, g: Group) -> None:
        state = groups(w)
        for row in g.idx.tolist():
            state.current[row] = state.current.get(row, 0) + 1
    return run, ALU


def bulk_wait(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.bulk.wait_group{.read} N"""
    operand = instr.operands[0]
    if not isinstance(operand, Imm):
        raise decoder.error("the number of pending groups must be a constant")
    keep = operand.value
    only_read = "read" in instr.parts

    def run(w: Wave, g: Group) -> bool:
        state = groups(w)
        for row in g.idx.tolist():
            done = state.current.get(row, 0) - keep
            if row not in state.columns or done <= 0:
                continue
            read_column, write_column = state.columns[row]
            for queue in (("bulk-read", row),) + ((("bulk-write", row),) if not only_read else ()):
                pending = w.queues.get(queue)
                while pending and pending[0].epoch <= done:
                    w.perform(queue)
                    pending = w.queues.get(queue)
            know = w.clocks.know
            know[HB, row, read_column] = max(know[HB, row, read_column], done)
            state.read_waited[row] = max(state.read_waited.get(row, 0), done)
            if not only_read:
                know[HB, row, write_column] = max(know[HB, row, write_column], done)
        return True
    return run, SYNC


# -- st.async, red.async ------------------------------------------------------------------------------
def remote_store(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """st.async / red.async: store to, or reduce into, a CTA of the cluster, completing bytes on its mbarrier."""
    kind = instr.parts[-1]
    to = smem_address(decoder, instr, instr.operands[0])
    value = instr.operands[1]
    items = value.items if isinstance(value, Vec) else (value,)
    sources = [decoder.wide(o, kind) for o in items]
    bar = smem_address(decoder, instr, instr.operands[2])
    operation = next((p for p in instr.parts if p in ATOMIC), "") if instr.parts[0] == "red" else ""
    dtype = np.dtype(DTYPES[kind])
    total = dtype.itemsize * len(items)
    decoder.touches("shared", dtype.itemsize)

    def run(w: Wave, g: Group) -> None:
        values = np.stack([s(w, g) for s in sources], axis=1)
        for i, (row, dst, bar_at) in enumerate(each_row(g, to(w, g), bar(w, g))):
            one(w, row, dst, bar_at, values[i].copy())

    def one(w: Wave, row: int, dst: int, bar_at: int, data: Array) -> None:
        flat, bar_flat = flat_of(w, row, dst, total, total), flat_of(w, row, bar_at, 8, 8)
        if flat // w.smem_size != bar_flat // w.smem_size:
            w.report("mbarrier", "the mbarrier lies in another CTA than the destination", row=row)
        view, cluster = w.clocks.snapshot(row), int(w.clocks.cluster[row])

        def perform() -> None:
            barrier = mbarrier.find(w, bar_flat, row)
            mbarrier.async_use(w, barrier, view, instr.parts[0] + ".async")
            cells = w.shared_shadow.cells(np.array([flat]), total).ravel()
            place = w.smem.view(dtype)[flat // dtype.itemsize : flat // dtype.itemsize + len(data)]
            own = (barrier.column,) if operation else ()
            w.checker.async_access(w.shared_shadow, cells, cluster, view, (barrier.column, barrier.phase + 1), True,
                                   instr.parts[0] + ".async", own)
            place[:] = ATOMIC[operation](place, data) if operation else data
            mbarrier.signal(w, barrier, view, 0, -total)
        w.issue(("tma", next(w.context.serial)), AsyncOp(perform, instr, row, instr.parts[0] + ".async"))
    return run, ALU


def prefetch(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: None), ALU


HINT = "L2::cache_hint"
DIMS = "1d 2d 3d 4d 5d"
REDUCE = "add min max inc dec and or xor"
TYPES = "f16 bf16 f32 f64 u32 s32 u64 s64 b32 b64 noftz"
ENTRIES = [
    *entry("st.async", "weak shared::cluster mbarrier::complete_tx::bytes v2 v4 b32 b64 u32 u64 s32 s64 f32 f64", remote_store),
    *entry("red.async", f"relaxed cluster shared::cluster mbarrier::complete_tx::bytes {REDUCE} u32 s32 u64 b32", remote_store),
    *entry("cp.async.bulk.shared::cluster.global cp.async.bulk.shared::cta.global",
           f"mbarrier::complete_tx::bytes multicast::cluster {HINT}", bulk_load),
    *entry("cp.async.bulk.shared::cluster.shared::cta", "mbarrier::complete_tx::bytes", bulk_load),
    *entry("cp.async.bulk.global.shared::cta", f"bulk_group {HINT} cp_mask", bulk_store),
    *entry("cp.reduce.async.bulk.global.shared::cta", f"bulk_group {HINT} {REDUCE} {TYPES}", bulk_store),
    *entry("cp.reduce.async.bulk.shared::cluster.shared::cta", f"mbarrier::complete_tx::bytes {REDUCE} {TYPES}",
           bulk_reduce_remote),
    *entry("st.bulk", "weak shared::cta", bulk_zero),
    *entry("cp.async.bulk.prefetch", f"{DIMS} L2 global tile tile::gather4 im2col tensor {HINT}", prefetch),
    *entry("cp.async.bulk.commit_group", "", bulk_commit), *entry("cp.async.bulk.wait_group", "read", bulk_wait),
]
