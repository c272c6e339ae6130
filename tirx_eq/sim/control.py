"""Control flow, barriers, warp collectives and fences (PTX ISA 9.7.12, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tirx_eq.sim.clocks import PROXY, PROXY_GLOBAL, join
from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import ALU, BRANCH, EXIT, SYNC, Decoder, Reader, Run
from tirx_eq.sim.text.syntax import Imm, Instr, Operand
from tirx_eq.sim.wave import BLOCKED, CONVERGE, EXITED, RUN, CtaBarrier, Group, Wave

Array = np.ndarray


def branch(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: None), BRANCH


def leave(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: None), EXIT


def nothing(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: None), ALU


def trap(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    def run(w: Wave, g: Group) -> None:
        w.report("isa", "the kernel executes trap", row=int(g.idx[0]), fatal=True)
    return run, ALU


# -- convergence ------------------------------------------------------------------------------------
def converged(w: Wave, g: Group) -> bool:
    """Are all living lanes of every warp of ``g`` in ``g``?  If not, the lanes here wait for the others."""
    if g.full and not (w.state == EXITED).any():
        return True
    here = np.bincount(w.warp[g.idx], minlength=len(w.alive))
    partial = (here > 0) & (here < w.alive)
    if not partial.any():
        return True
    stay = partial[w.warp[g.idx]]
    park(w, g.idx[stay])
    return False


def park(w: Wave, rows: Array) -> None:
    """``rows`` wait for more lanes of their warps; lanes already parked at the same place join them for a new try."""
    pc = w.pc[rows[0]]
    before = (w.state == CONVERGE) & (w.pc == pc)
    w.state[rows] = CONVERGE
    if before.any():
        mine = np.zeros(len(w.alive), bool)
        mine[w.warp[rows]] = True
        again = np.zeros(len(w.alive), bool)
        again[w.warp[before]] = True
        retry = mine & again
        w.state[(w.state == CONVERGE) & (w.pc == pc) & retry[w.warp]] = RUN


def aligned(inner: Callable[[Wave, Group], bool | None], explicit: bool = False) -> Run:
    """Wrap a ``.sync.aligned`` instruction: runs only when whole warps are here.

    ``explicit``: warn if the warp has diverged and was brought together by nothing but the compiler's goodwill.
    """
    def run(w: Wave, g: Group) -> bool | None:
        if not converged(w, g):
            return False
        if explicit and w.diverged[w.warp[g.idx]].any():
            row = int(g.idx[int(np.argmax(w.diverged[w.warp[g.idx]]))])
            w.report("convergence", "the warp has diverged before and no bar.warp.sync or barrier has joined it since: "
                                    "convergence is up to the compiler", row=row, warning=True)
            w.diverged[w.warp[g.idx]] = False
        result = inner(w, g)
        return True if result is None else result
    return run


def members(read: Reader, inner: Callable[[Wave, Group, Array], None]) -> Run:
    """Wrap a ``.sync`` instruction with a member mask: waits until all living members are here."""
    def run(w: Wave, g: Group) -> bool:
        masks = np.broadcast_to(read(w, g), (g.n,))
        present = np.zeros(len(w.alive), np.uint64)
        np.bitwise_or.at(present, w.warp[g.idx], np.uint64(1) << w.lane[g.idx].astype(np.uint64))
        bit = np.uint64(1) << w.lane[g.idx].astype(np.uint64)
        mask = masks.astype(np.uint64)
        if ((mask & bit) == 0).any():
            i = int(np.argmax((mask & bit) == 0))
            w.report("collective", f"lane {int(w.lane[g.idx[i]])} is not in the member mask {int(mask[i]):#x}",
                     row=int(g.idx[i]), fatal=True)
        living = living_lanes(w)
        missing = (mask & living[w.warp[g.idx]]) & ~present[w.warp[g.idx]]
        stay = missing != 0
        if stay.any():
            park(w, g.idx[stay])
            return False
        inner(w, g, mask)
        return True
    return run


def living_lanes(w: Wave) -> Array:
    living = np.zeros(len(w.alive), np.uint64)
    rows = np.nonzero(w.state != EXITED)[0]
    np.bitwise_or.at(living, w.warp[rows], np.uint64(1) << w.lane[rows].astype(np.uint64))
    return living


# -- CTA barriers -----------------------------------------------------------------------------------
def bar(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """bar / barrier{.cta}.{sync,arrive,red}"""
    parts = [p for p in instr.parts if p != "cta"]
    name = parts[1]
    operands = list(instr.operands)
    result = operands.pop(0) if name == "red" else None
    if not operands:
        raise decoder.error("a barrier number is needed")
    number = decoder.wide(operands[0], "u32")
    value = None
    if name == "red":
        value = decoder.source(operands.pop(), "pred")
    count = decoder.wide(operands[1], "u32") if len(operands) > 1 else None
    if name == "arrive" and count is None:
        raise decoder.error("a thread count is needed")
    write = None
    mode = next((p for p in parts if p in ("popc", "and", "or")), "")
    if result is not None:
        write = decoder.target(result, "u32" if mode == "popc" else "pred")

    def run(w: Wave, g: Group) -> bool:
        numbers = number(w, g)
        counts = count(w, g) if count else np.zeros(g.n, np.int64)
        ctas = w.cta[g.idx]
        values = np.broadcast_to(value(w, g), (g.n,)) if value else None
        w.diverged[w.warp[g.idx]] = False
        if name != "arrive":
            w.pc[g.idx] += 1
            w.state[g.idx] = BLOCKED
        for cta, n in sorted(set(zip(ctas.tolist(), numbers.tolist()))):
            mine = (ctas == cta) & (numbers == n)
            rows = g.idx[mine]
            if n > 15:
                w.report("barrier", f"barrier number {n} is not in 0..15", row=int(rows[0]), fatal=True)
            expected = int(counts[mine][0])
            if expected % 32:
                w.report("barrier", f"thread count {expected} is not a multiple of 32", row=int(rows[0]), fatal=True)
            barrier = w.barriers.setdefault((cta, n), CtaBarrier())
            if barrier.arrived and barrier.expected != expected:
                w.report("barrier", f"barrier {n} is used with thread counts {barrier.expected} and {expected}",
                         row=int(rows[0]))
            if barrier.arrived and barrier.mode != mode:
                w.report("barrier", f"barrier {n}: different reductions meet", row=int(rows[0]))
            barrier.expected, barrier.mode, barrier.line = expected, mode, instr.line
            barrier.arrived += len(rows)
            view = w.clocks.release(rows)
            barrier.view = view if barrier.view is None else join(barrier.view, view)
            if values is not None:
                barrier.operand.append((rows, values[mine]))
            if name != "arrive":
                barrier.waiting.append(rows)
                if write is not None:
                    barrier.results.append((rows, partial(write, w, Group(rows, False))))
                for row in rows.tolist():
                    w.waiting_on[row] = (cta, n)
            if name != "arrive":
                w.context.trace.blocked(w, rows, f"bar {n}")
            complete(w, cta, n)
        return name == "arrive"
    return (aligned(run) if instr.parts[0] == "bar" or "aligned" in instr.parts else run), SYNC


def complete(w: Wave, cta: int, number: int) -> None:
    """Release a barrier whose threads have all arrived; exited threads count as arrived when no count is given."""
    barrier = w.barriers.get((cta, number))
    if barrier is None:
        return
    first = cta * w.per_cta
    expected = barrier.expected
    if not expected:
        expected = int((w.state[first : first + w.per_cta] != EXITED).sum())
        expected = max(expected, 1)
    if barrier.arrived < expected:
        return
    if barrier.arrived > expected:
        w.report("barrier", f"{barrier.arrived} threads arrive at barrier {number}, which expects {expected}")
    del w.barriers[cta, number]
    if barrier.waiting:
        rows = np.concatenate(barrier.waiting)
        if barrier.view is not None:
            w.clocks.acquire(rows, barrier.view)
        if barrier.results:
            total = np.concatenate([v for _, v in barrier.operand])
            answer = {"popc": np.uint32(total.sum()), "and": total.all(), "or": total.any()}[barrier.mode]
            for who, write in barrier.results:
                write(np.full(len(who), answer))
        w.wake(rows)


def warp_sync(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """bar.warp.sync: lanes may arrive from different places."""
    read = decoder.wide(instr.operands[0], "u32")

    def run(w: Wave, g: Group) -> bool:
        masks = read(w, g)
        warps = w.warp[g.idx]
        w.pc[g.idx] += 1
        w.state[g.idx] = BLOCKED
        for warp in dict.fromkeys(warps.tolist()):
            mine = warps == warp
            rows = g.idx[mine]
            mask = int(masks[mine][0])
            for row in rows.tolist():
                if not mask >> int(w.lane[row]) & 1:
                    w.report("collective", f"lane {int(w.lane[row])} is not in the mask {mask:#x}", row=row, fatal=True)
                w.waiting_on[row] = ("warp", warp, mask)
            w.warp_sync.setdefault(warp, []).append((rows, mask))
            warp_complete(w, warp)
        return False
    return run, SYNC


def warp_complete(w: Wave, warp: int) -> None:
    """Release lanes of a warp whose member mask is complete."""
    waiting = w.warp_sync.get(warp)
    if not waiting:
        return
    living = int(living_of(w, warp))
    for mask in {m for _, m in waiting}:
        mine = [r for r, m in waiting if m == mask]
        rows = np.concatenate(mine)
        here = 0
        for row in rows.tolist():
            here |= 1 << int(w.lane[row])
        if mask & living & ~here == 0:
            w.clocks.synchronise(rows)
            if here & living == living:
                w.diverged[warp] = False
            w.wake(rows)
            w.warp_sync[warp] = [(r, m) for r, m in waiting if m != mask]
            waiting = w.warp_sync[warp]


def living_of(w: Wave, warp: int) -> int:
    cta, index = divmod(warp, w.warps_per_cta)
    first = cta * w.per_cta + 32 * index
    last = min(first + 32, (cta + 1) * w.per_cta)
    return sum(1 << i for i in range(last - first) if w.state[first + i] != EXITED)


# -- cluster barrier --------------------------------------------------------------------------------
def cluster_barrier(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """barrier.cluster.arrive / wait"""
    arrives = instr.parts[2] == "arrive"
    relaxed = "relaxed" in instr.parts

    def run(w: Wave, g: Group) -> bool:
        clusters = w.cta[g.idx] // w.cluster_size
        state = w.scratch.setdefault("cluster", {})
        phase_of = w.scratch.setdefault("cluster-phase", np.full(w.T, -1, np.int64))
        passed = True
        for cluster in dict.fromkeys(clusters.tolist()):
            rows = g.idx[clusters == cluster]
            w.diverged[w.warp[rows]] = False
            barrier = state.setdefault(cluster, {"phase": 0, "arrived": 0, "view": None, "done": None, "waiting": []})
            if arrives:
                if (phase_of[rows] >= 0).any():
                    w.report("barrier", "barrier.cluster.arrive twice without wait", row=int(rows[0]), fatal=True)
                phase_of[rows] = barrier["phase"]
                barrier["arrived"] += len(rows)
                if not relaxed:
                    view = w.clocks.release(rows)
                    barrier["view"] = view if barrier["view"] is None else join(barrier["view"], view)
                cluster_complete(w, cluster)
                continue
            if (phase_of[rows] < 0).any():
                w.report("barrier", "barrier.cluster.wait without arrive", row=int(rows[0]), fatal=True)
            waiting = rows[phase_of[rows] >= barrier["phase"]]
            ready = rows[phase_of[rows] < barrier["phase"]]
            if len(ready):
                phase_of[ready] = -1
                if barrier["done"] is not None:
                    w.clocks.acquire(ready, barrier["done"])
                w.pc[ready] += 1
            if len(waiting):
                w.state[waiting] = BLOCKED
                barrier["waiting"].append(waiting)
                for row in waiting.tolist():
                    w.waiting_on[row] = ("cluster", cluster)
            passed = False
        return passed
    return (aligned(run) if "aligned" in instr.parts else run), SYNC


def cluster_complete(w: Wave, cluster: int) -> None:
    barrier = w.scratch.get("cluster", {}).get(cluster)
    if barrier is None:
        return
    first = cluster * w.per_cluster
    living = int((w.state[first : first + w.per_cluster] != EXITED).sum())
    if barrier["arrived"] < living or not barrier["arrived"]:
        return
    barrier["phase"] += 1
    barrier["arrived"] = 0
    if barrier["view"] is not None:
        barrier["done"] = barrier["view"] if barrier["done"] is None else join(barrier["done"], barrier["view"])
        barrier["view"] = None
    if barrier["waiting"]:
        w.wake(np.concatenate(barrier["waiting"]))
        barrier["waiting"] = []


def retire(w: Wave, rows: Array) -> None:
    """Threads exit: whoever waits for everybody may go on."""
    w.state[rows] = EXITED
    w.alive -= np.bincount(w.warp[rows], minlength=len(w.alive))
    for cta in set(w.cta[rows].tolist()):
        for key in [k for k in w.barriers if k[0] == cta]:
            complete(w, *key)
        cluster_complete(w, cta // w.cluster_size)
    if (w.state == CONVERGE).any():
        left = np.isin(w.warp, w.warp[rows]) & (w.state == CONVERGE)
        w.state[left] = RUN
    for warp in set(w.warp[rows].tolist()):
        warp_complete(w, warp)


# -- fences -----------------------------------------------------------------------------------------
def fence(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """fence.*, membar.*"""
    parts = instr.parts
    proxy = any(p.startswith("async") for p in parts)
    init = "mbarrier_init" in parts
    kinds: tuple[int, ...] = (PROXY, PROXY_GLOBAL)
    if "global" in parts or "async.global" in parts:
        kinds = (PROXY_GLOBAL,)
    elif any("shared::" in p for p in parts):
        kinds = (PROXY,)

    def run(w: Wave, g: Group) -> None:
        if init:
            rows = set(g.idx.tolist())
            for barrier in w.mbarriers.values():
                if barrier.init_row in rows:
                    barrier.visible = True
        elif proxy:
            w.clocks.proxy_fence(g.idx, kinds)
        elif "proxy" not in parts:
            w.clocks.fence(g.idx)
            fenced = w.scratch.setdefault("fenced", {})
            for row in g.idx.tolist():
                fenced[row] = w.clocks.snapshot(row)
    return run, ALU


def nanosleep(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: True), SYNC


def max_registers(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """setmaxnreg"""
    operand: Operand = instr.operands[0]
    if not isinstance(operand, Imm) or operand.value % 8 or not 24 <= operand.value <= 256:
        raise decoder.error("the register count must be a multiple of 8 in 24..256")
    return aligned(lambda w, g: None), SYNC


ALL = "sync arrive red popc and or pred aligned cta u32"
FENCES = ("sc acq_rel acquire release cta cluster gpu sys mbarrier_init proxy alias async async.global "
          "shared::cta shared::cluster global async::generic sync_restrict::shared::cta "
          "sync_restrict::shared::cluster gl generic")
ENTRIES = [
    *entry("bra", "uni", branch), *entry("ret exit", "uni", leave), *entry("trap brkpt", "", trap),
    *entry("bar.warp.sync", "", warp_sync), *entry("bar barrier", ALL, bar),
    *entry("barrier.cluster", "arrive wait release relaxed acquire aligned", cluster_barrier),
    *entry("fence membar", FENCES, fence), *entry("nanosleep", "u32", nanosleep),
    *entry("setmaxnreg", "inc dec sync aligned u32", max_registers),
    *entry("griddepcontrol", "wait launch_dependents", nothing), *entry("pmevent", "mask", nothing),
]
