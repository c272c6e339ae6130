"""tcgen05 data movement and synchronisation: alloc, ld, st, cp, shift, wait, fence, commit (PTX ISA 9.7.16)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirx_eq.sim import mbarrier
from tirx_eq.sim.clocks import HB, STRIDE, TC
from tirx_eq.sim.control import aligned
from tirx_eq.sim.copies import smem_address, targets_of_mask
from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import ALU, REGISTER_BYTES, SYNC, Decoder, Run
from tirx_eq.sim.syntax import Imm, Instr, Mem, Reg, Sink, Vec
from tirx_eq.sim.tmem import COLUMNS, LANES, MAX_REPEAT, REGISTERS, access
from tirx_eq.sim.wave import BLOCKED, AsyncOp, Group, Wave

Array = np.ndarray


# -- order of tensor-memory accesses ------------------------------------------------------------------
@dataclass
class Queues:
    """Clock columns and sequence numbers of tcgen05 work: per thread (mma, cp, shift) and per warp (ld, st)."""

    thread: dict[int, int] = field(default_factory=dict)
    warp: dict[int, int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)
    owner: dict[int, tuple[str, int]] = field(default_factory=dict)


def queues(w: Wave) -> Queues:
    return w.scratch.setdefault("tc", Queues())


def thread_column(w: Wave, row: int) -> int:
    state = queues(w)
    if row not in state.thread:
        column = w.clocks.column(f"tcgen05 operations of thread {int(w.thread[row])}")
        state.thread[row] = column
        state.count[column] = 0
        state.owner[column] = ("thread", row)
    return state.thread[row]


def warp_column(w: Wave, warp: int) -> int:
    state = queues(w)
    if warp not in state.warp:
        column = w.clocks.column(f"tcgen05.ld/st of warp {warp % w.warps_per_cta}")
        state.warp[warp] = column
        state.count[column] = 0
        state.owner[column] = ("warp", warp)
    return state.warp[warp]


@dataclass
class Actor:
    """Who touches tensor memory, and what it knows: ``view`` (3, columns) and ``after`` (columns)."""

    row: int
    warp: int
    cluster: int
    column: int
    epoch: int
    view: Array
    after: Array
    waiting: Array | None = None


def actor_of_thread(w: Wave, row: int) -> Actor:
    column = thread_column(w, row)
    state = queues(w)
    state.count[column] += 1
    clocks = w.clocks
    return Actor(row, int(w.warp[row]), int(clocks.cluster[row]), column, state.count[column], clocks.snapshot(row),
                 clocks.after[row].copy(), relaxed(w, row))


def relaxed(w: Wave, row: int) -> Array | None:
    """What the thread has seen through relaxed waits only."""
    view = w.clocks.pending.get(row)
    return None if view is None else view[HB]


def touch(w: Wave, who: Actor, cta: int, lane: Any, column: Any, write: bool, what: str,
          queue_ordered: bool = True) -> None:
    """Check and record an access to tensor-memory cells (numpy index arrays ``lane``, ``column``)."""
    if not w.checker.enabled:
        return
    t = w.tmem
    low, high = int(column.min()), int(column.max())
    if (t.owner[cta, low : high + 1] < 0).any() and (t.owner[cta, np.unique(column)] < 0).any():
        owner = t.owner[cta, np.unique(column)]
        first = int(np.unique(column)[int(np.argmax(owner < 0))])
        w.report("tmem-alloc", f"{what} uses column {first}, which is not allocated", row=who.row)
    if not write:
        init = t.initialised[cta, lane, column]
        if not init.all():
            bad = np.argwhere(~init)[0]
            place = cell_at(lane, column, init.shape, tuple(bad))
            w.report("uninitialised", f"{what} reads tensor memory lane {place[0]} column {place[1]}, which nothing has "
                                      "written", row=who.row)
            t.initialised[cta, lane, column] = True
    ordered(w, who, t.writer[cta, lane, column], t.write_epoch[cta, lane, column], "write", what, queue_ordered)
    actor = who.cluster * STRIDE + who.column
    if write:
        ordered(w, who, t.reader[cta, lane, column], t.read_epoch[cta, lane, column], "read", what, queue_ordered)
        t.writer[cta, lane, column] = actor
        t.write_epoch[cta, lane, column] = who.epoch
        t.reader[cta, lane, column] = -1
        t.initialised[cta, lane, column] = True
    else:
        t.reader[cta, lane, column] = actor
        t.read_epoch[cta, lane, column] = who.epoch


def cell_at(lane: Any, column: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> tuple[int, int]:
    return int(np.broadcast_to(lane, shape)[index]), int(np.broadcast_to(column, shape)[index])


def ordered(w: Wave, who: Actor, actor: Array, when: Array, earlier: str, what: str, queue_ordered: bool) -> None:
    mine = who.cluster * STRIDE + who.column
    suspect = actor >= 0
    if queue_ordered:
        suspect &= actor != mine
    if not suspect.any():
        return
    pairs = np.unique(actor[suspect].astype(np.int64) << 32 | when[suspect])
    latest = {int(p) >> 32: int(p) & 0xFFFFFFFF for p in pairs}
    state = queues(w)
    for who_else, epoch in latest.items():
        local = who_else % STRIDE
        name = w.clocks.names.get(local, f"thread {local}")
        if local < len(who.after) and who.after[local] >= epoch:
            continue
        kind, number = state.owner.get(local, ("", -1))
        same = (kind == "thread" and number == who.row) or (kind == "warp" and number == who.warp)
        happens = local < who.view.shape[1] and who.view[HB, local] >= epoch
        if same and happens:
            continue
        if same and kind == "warp":
            w.report("tcgen05-wait", f"{what} is not ordered after the {earlier} by {name}: tcgen05.wait is missing",
                     row=who.row)
        elif not happens:
            if who.waiting is not None and local < len(who.waiting) and who.waiting[local] >= epoch:
                w.report("tcgen05-fence", f"{what} follows the {earlier} by {name} through a relaxed mbarrier wait "
                                          "only, without tcgen05.fence::after_thread_sync", row=who.row)
            else:
                w.report("race", f"{what} is not ordered after the {earlier} by {name}", row=who.row)
        elif who.view[TC, local] < epoch:
            w.report("tcgen05-fence", f"{what}: the {earlier} by {name} was not completed nor followed by "
                                      "tcgen05.fence::before_thread_sync before the synchronisation", row=who.row)
        else:
            w.report("tcgen05-fence", f"{what} follows the {earlier} by {name} through an acquiring synchronisation, "
                                      "but without tcgen05.fence::after_thread_sync", row=who.row)


# -- allocation ---------------------------------------------------------------------------------------
def uniform(w: Wave, g: Group, value: Array, what: str) -> None:
    """All lanes of each warp must agree on an operand of a .sync.aligned instruction."""
    value = np.broadcast_to(value, (g.n,))
    warps = w.warp[g.idx]
    first = np.zeros(len(w.alive), value.dtype)
    first[warps[::-1]] = value[::-1]
    differs = first[warps] != value
    if differs.any():
        w.report("convergence", f"{what} differs between the lanes of a warp", row=int(g.idx[int(np.argmax(differs))]))


def group_number(instr: Instr) -> int:
    return 2 if "cta_group::2" in instr.parts else 1


def alloc(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    to = smem_address(decoder, instr, instr.operands[0])
    count = decoder.wide(instr.operands[1], "u32")
    group = group_number(instr)
    decoder.touches("shared", 4)

    def run(w: Wave, g: Group) -> bool:
        columns = count(w, g)
        uniform(w, g, columns, "the column count")
        addresses = to(w, g)
        done = np.zeros(g.n, bool)
        for warp in dict.fromkeys(w.warp[g.idx].tolist()):
            mine = w.warp[g.idx] == warp
            done[mine] = one(w, g.idx[mine], int(columns[mine][0]), int(addresses[mine][0]))
        if done.all():
            return True
        w.pc[g.idx[done]] += 1
        return False

    def one(w: Wave, rows: Array, n: int, address: int) -> bool:
        t = w.tmem
        row = int(rows[0])
        cta = int(w.cta[row])
        w.current_row = row
        if n not in (32, 64, 128, 256, 512):
            w.report("tmem-alloc", f"{n} columns: the count must be a power of two in 32..512", row=row, fatal=True)
        if not t.permit[cta]:
            w.report("tmem-alloc", "alloc after relinquish_alloc_permit", row=row, fatal=True)
        if t.granularity[cta] not in (0, group):
            w.report("tmem-alloc", "cta_group::1 and ::2 are mixed in one kernel", row=row)
        t.granularity[cta] = group
        if t.last_size[cta] and n > t.last_size[cta]:
            w.report("tmem-alloc", f"alloc of {n} columns after one of {t.last_size[cta]}: sizes may not grow", row=row)
        pair = [cta] if group == 1 else [cta & ~1, cta | 1]
        if group == 2:
            if w.cluster_size % 2:
                w.report("tmem-alloc", "cta_group::2 needs an even cluster size", row=row, fatal=True)
            return pair_alloc(w, rows, n, address, pair)
        start = t.find(cta, n)
        if start is None:
            w.state[rows] = BLOCKED
            for r in rows.tolist():
                w.waiting_on[r] = ("tmem", cta, n)
            w.scratch.setdefault("tmem-wait", []).append(rows)
            return False
        finish(w, rows, n, address, start, [cta])
        return True

    def pair_alloc(w: Wave, rows: Array, n: int, address: int, pair: list[int]) -> bool:
        """Both CTAs of a pair must execute the alloc; the second one completes it for both."""
        t = w.tmem
        cta = int(w.cta[rows[0]])
        waiting = w.scratch.setdefault("pair-alloc", {})
        key = pair[0]
        other = waiting.get(key)
        if other is None or other["cta"] == cta:
            if other is None:
                waiting[key] = {"cta": cta, "rows": rows, "n": n, "address": address}
            w.state[rows] = BLOCKED
            for r in rows.tolist():
                w.waiting_on[r] = ("pair", cta, n)
            return False
        if other["n"] != n:
            w.report("tmem-alloc", f"the CTAs of a pair allocate {other['n']} and {n} columns", row=int(rows[0]), fatal=True)
        start = next((s for s in range(0, COLUMNS, n) if all((t.owner[c, s : s + n] < 0).all() for c in pair)), None)
        if start is None:
            w.state[rows] = BLOCKED
            for r in rows.tolist():
                w.waiting_on[r] = ("tmem", cta, n)
            w.scratch.setdefault("tmem-wait", []).append(rows)
            return False
        del waiting[key]
        for c in pair:
            t.allocate(c, start, n)
            t.last_size[c] = n
            w.scratch.setdefault("pair-event", {})[c, start] = {}
        for who, at in ((other["rows"], other["address"]), (rows, address)):
            write_address(w, who, at, start)
            events = w.scratch["pair-event"]
            events[int(w.cta[who[0]]), start] = (int(who[0]), int(w.clocks.epoch[who[0]]))
        w.clocks.epoch[other["rows"]] += 1
        w.pc[other["rows"]] += 1
        w.wake(other["rows"])
        return True

    def finish(w: Wave, rows: Array, n: int, address: int, start: int, ctas: list[int]) -> None:
        for c in ctas:
            w.tmem.allocate(c, start, n)
            w.tmem.last_size[c] = n
        write_address(w, rows, address, start)

    def write_address(w: Wave, rows: Array, address: int, start: int) -> None:
        at = w.shared_flat(np.array([address]), rows[:1], 4, 4)
        w.checker.write(w.shared_shadow, w.shared_shadow.cells(at, 4), rows[:1], what="tcgen05.alloc result")
        # The whole warp executes the alloc: its lanes may read the address at once, other warps must synchronise.
        clocks = w.clocks
        written = np.zeros((3, clocks.columns), np.int32)
        written[HB, clocks.local[rows[0]]] = clocks.epoch[rows[0]]
        clocks.epoch[rows[0]] += 1
        clocks.acquire(rows, written)
        w.smem.view(np.uint32)[at // 4] = start
    return aligned(run, True), SYNC


def dealloc(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    address = decoder.wide(instr.operands[0], "u32")
    count = decoder.wide(instr.operands[1], "u32")
    group = group_number(instr)

    def run(w: Wave, g: Group) -> None:
        where, n = address(w, g), count(w, g)
        uniform(w, g, where, "the address")
        for warp in dict.fromkeys(w.warp[g.idx].tolist()):
            mine = w.warp[g.idx] == warp
            row = int(g.idx[mine][0])
            one(w, row, int(where[mine][0]), int(n[mine][0]))

    def one(w: Wave, row: int, at: int, n: int) -> None:
        t = w.tmem
        cta = int(w.cta[row])
        start = at & 0xFFFF
        if at >> 16:
            w.report("tmem-alloc", f"dealloc of address {at:#x}, whose lane is not 0", row=row)
        if start not in t.sizes[cta]:
            w.report("tmem-alloc", f"dealloc of columns at {start}, which are not the start of an allocation "
                                   "(freed twice?)", row=row, fatal=True)
        if t.sizes[cta][start] != n:
            w.report("tmem-alloc", f"dealloc of {n} columns, {t.sizes[cta][start]} were allocated", row=row)
        if w.checker.enabled:
            unordered(w, row, cta, start, t.sizes[cta][start])
            if group == 2:
                peer = cta ^ 1
                event = w.scratch.get("pair-event", {}).get((peer, start))
                if event and w.clocks.know[HB, row, w.clocks.local[event[0]]] < event[1]:
                    w.report("tmem-alloc", "dealloc.cta_group::2 is not ordered after the peer CTA's alloc: a cluster "
                                           "barrier is needed between them", row=row)
        t.free(cta, start)
        for rows in w.scratch.pop("tmem-wait", []):
            w.wake(rows)

    def unordered(w: Wave, row: int, cta: int, start: int, n: int) -> None:
        """Everything that used these columns must have completed."""
        t = w.tmem
        know = w.clocks.know[HB, row]
        columns = slice(start, start + n)
        for who, when in ((t.writer, t.write_epoch), (t.reader, t.read_epoch)):
            actor, epoch = who[cta, :, columns], when[cta, :, columns]
            local = np.where(actor >= 0, actor % STRIDE, 0)
            late = (actor >= 0) & (know[np.minimum(local, len(know) - 1)] < epoch)
            if late.any():
                lane, column = np.argwhere(late)[0]
                name = w.clocks.names.get(int(local[lane, column]), "another thread")
                w.report("tmem-alloc", f"dealloc is not ordered after the use of lane {lane} column {start + column} "
                                       f"by {name}", row=row)
                return
        pending = [op for key, ops in w.queues.items() if isinstance(key, tuple) and key[0] == "tc" for op in ops
                   if int(w.cta[op.row]) == cta and op.label != "commit"]
        if pending:
            w.report("tmem-alloc", f"dealloc while {pending[0].label} issued at line {pending[0].instr.line} may still "
                                   "be running", row=row)
    return aligned(run, True), SYNC


def relinquish(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    def run(w: Wave, g: Group) -> None:
        for cta in set(w.cta[g.idx].tolist()):
            w.tmem.permit[cta] = False
    return aligned(run, True), SYNC


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
    if reduced:
        raise decoder.error("tcgen05.ld.red is a feature of sm_103a and sm_110a and is not supported")
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
            column = warp_column(w, warp)
            state.count[column] += 1
            view = clocks.know[:, rows, :].min(axis=1)
            who = Actor(int(rows[0]), warp, int(clocks.cluster[rows[0]]), column, state.count[column], view,
                        clocks.after[rows].min(axis=0), relaxed(w, int(rows[0])))
            touch(w, who, int(w.cta[rows[0]]), lanes[:, mine], columns[:, mine], not loads, name, False)
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
        if w.context.policy == "early":
            perform(np.ones(len(rows), bool))
        for index in indices:
            if index >= 0:
                w.register(index)
                flags = w.U[index]
                flags = np.zeros(w.T, bool) if flags is None else flags.copy()
                flags[rows] = True
                w.U[index] = flags
        w.scratch.setdefault("ld", []).append(Transfer(rows, perform, set(indices), instr))

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
            if warp not in state.warp:
                continue
            column = state.warp[warp]
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
                touch(w, who, cta, lanes, columns, False, "tcgen05.shift")
                touch(w, who, cta, lanes[:-1], columns, True, "tcgen05.shift")
                block = w.tmem.data[cta, lane:, column : column + 8]
                block[:-1] = block[1:].copy()
        w.issue(("tc", row, 2 if pair else 1), AsyncOp(perform, instr, row, "tcgen05.shift"))
    return run, ALU


GROUPS = "cta_group::1 cta_group::2"
SHAPES = " ".join(REGISTERS)
REPEATS = "x1 x2 x4 x8 x16 x32 x64 x128"
ENTRIES = [
    *entry("tcgen05.alloc", f"{GROUPS} sync aligned shared::cta b32", alloc),
    *entry("tcgen05.dealloc", f"{GROUPS} sync aligned b32", dealloc),
    *entry("tcgen05.relinquish_alloc_permit", f"{GROUPS} sync aligned", relinquish),
    *entry("tcgen05.ld", f"sync aligned {SHAPES} {REPEATS} pack::16b b32 red min max abs NaN f32 u32 s32", transfer),
    *entry("tcgen05.st", f"sync aligned {SHAPES} {REPEATS} unpack::16b b32", transfer),
    *entry("tcgen05.wait::ld tcgen05.wait::st", "sync aligned", wait),
    *entry("tcgen05.fence::before_thread_sync", "", before), *entry("tcgen05.fence::after_thread_sync", "", after),
    *entry("tcgen05.commit", f"{GROUPS} mbarrier::arrive::one shared::cluster multicast::cluster b64", commit),
    *entry("tcgen05.shift", f"{GROUPS} down", shift),
]
