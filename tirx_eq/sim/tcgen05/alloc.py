"""tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX ISA 9.7.16.7)."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.clocks import HB, KINDS, STRIDE
from tirx_eq.sim.control import aligned
from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import SYNC, Decoder, Run
from tirx_eq.sim.tcgen05.order import group_number, uniform
from tirx_eq.sim.tcgen05.tmem import COLUMNS
from tirx_eq.sim.text.syntax import Instr
from tirx_eq.sim.transfers.copies import smem_address
from tirx_eq.sim.wave import BLOCKED, Group, Wave

Array = np.ndarray


# -- allocation ---------------------------------------------------------------------------------------
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
        written = np.zeros((KINDS, clocks.columns), np.int32)
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


GROUPS = "cta_group::1 cta_group::2"
ENTRIES = [
    *entry("tcgen05.alloc", f"{GROUPS} sync aligned shared::cta b32", alloc),
    *entry("tcgen05.dealloc", f"{GROUPS} sync aligned b32", dealloc),
    *entry("tcgen05.relinquish_alloc_permit", f"{GROUPS} sync aligned", relinquish),
]
