"""mbarrier objects (PTX ISA 9.7.13.15): counts, transaction bytes, phases, and the knowledge they carry."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tirx_eq.sim.clocks import HB, KINDS, PROXY, TC, join
from tirx_eq.sim.isa import entry
from tirx_eq.sim.memory import SHARED, SHARED_BASE
from tirx_eq.sim.program import ALU, SYNC, Decoder, Run
from tirx_eq.sim.text.syntax import Instr, Mem, Operand, Sink
from tirx_eq.sim.wave import BLOCKED, Group, Wave

Array = np.ndarray
MAX_COUNT = (1 << 20) - 1


@dataclass
class Barrier:
    """One mbarrier: ``pending`` arrivals and ``tx`` bytes outstanding in the current ``phase`` (counted from 0)."""

    cta: int
    offset: int
    expected: int
    pending: int
    column: int
    init_row: int
    init_epoch: int
    visible: bool = False
    phase: int = 0
    tx: int = 0
    collected: Array | None = None
    done: Array = field(default_factory=lambda: np.zeros((KINDS, 1), np.int32))
    waiting: list[int] = field(default_factory=list)
    init_line: int = 0

    def describe(self, wave: Wave) -> str:
        name = wave.program.describe_shared(self.offset + SHARED_BASE)
        return (f"mbarrier {name} of CTA {wave.cta_number(self.cta)} (phase {self.phase}, {self.pending} of "
                f"{self.expected} arrivals and {self.tx} bytes outstanding)")


def find(wave: Wave, flat: int, row: int | None) -> Barrier:
    """The barrier at a flat shared offset; a fault if none was initialised there."""
    key = divmod(flat, wave.smem_size)
    barrier = wave.mbarriers.get(key)
    if barrier is None:
        wave.report("mbarrier", f"no mbarrier was initialised at {wave.program.describe_shared(key[1] + SHARED_BASE)} "
                                f"of CTA {wave.cta_number(key[0])}", row=row, fatal=True)
        raise AssertionError
    return barrier


def ordered_after_init(wave: Wave, barrier: Barrier, row: int) -> None:
    """Generic use by ``row``: the initialisation must happen before."""
    if row == barrier.init_row:
        return
    clocks = wave.clocks
    if clocks.know[HB, row, clocks.local[barrier.init_row]] < barrier.init_epoch and wave.checker.enabled:
        wave.report("race", f"{barrier.describe(wave)} is used, but its initialisation by thread "
                            f"{int(wave.thread[barrier.init_row])} is not ordered before", row=row)


def async_use(wave: Wave, barrier: Barrier, view: Array, what: str) -> None:
    """Use by the async proxy: the initialisation must have been fenced."""
    if barrier.visible or not wave.checker.enabled:
        return
    local = int(wave.clocks.local[barrier.init_row])
    if view[PROXY, local] >= barrier.init_epoch:
        barrier.visible = True
        return
    wave.report("mbarrier-fence", f"{what} signals {barrier.describe(wave)} through the async proxy, but no "
                                  "fence.mbarrier_init or fence.proxy.async follows its initialisation")


def signal(wave: Wave, barrier: Barrier, view: Array | None, arrivals: int = 0, tx: int = 0) -> None:
    """Arrivals and completed bytes; ``view`` is the knowledge released with them."""
    if view is not None:
        barrier.collected = view if barrier.collected is None else join(barrier.collected, view)
    if arrivals > barrier.pending:
        wave.report("mbarrier", f"{arrivals} arrivals exceed the pending count of {barrier.describe(wave)}")
        arrivals = barrier.pending
    barrier.pending -= arrivals
    barrier.tx += tx
    if abs(barrier.tx) > MAX_COUNT:
        wave.report("mbarrier", f"the transaction count of {barrier.describe(wave)} leaves its range", fatal=True)
    flip(wave, barrier)


def flip(wave: Wave, barrier: Barrier) -> None:
    if barrier.pending or barrier.tx:
        return
    barrier.phase += 1
    barrier.pending = barrier.expected
    width = max(barrier.done.shape[1], wave.clocks.columns)
    fresh = np.zeros((KINDS, width), np.int32)
    fresh[HB, barrier.column] = fresh[TC, barrier.column] = barrier.phase
    barrier.done = join(barrier.done, fresh)
    if barrier.collected is not None:
        barrier.done = join(barrier.done, barrier.collected)
        barrier.collected = None
    if barrier.waiting:
        wave.wake(np.array(barrier.waiting))
        barrier.waiting = []


# -- instructions -----------------------------------------------------------------------------------
def flats(decoder: Decoder, instr: Instr, operand: Operand):  # type: ignore[no-untyped-def]
    """Reader of flat shared offsets of an mbarrier operand, in .shared::cta, ::cluster or generic space."""
    if not isinstance(operand, Mem):
        raise decoder.error("an address in brackets is needed")
    read = decoder.address(operand)
    cluster = "shared::cluster" in instr.parts
    generic = not cluster and not any(p in instr.parts for p in ("shared", "shared::cta")) \
        and decoder.space_of(operand) != "shared"

    def resolve(w: Wave, g: Group) -> Array:
        address = read(w, g)
        if generic:
            if (w.classify(address) != 1).any():
                w.report("mbarrier", "an mbarrier must lie in shared memory", row=int(g.idx[0]), fatal=True)
            address = address - SHARED
        return w.shared_flat(address, g.idx, 8, 8, cluster or generic)
    return resolve


def init(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    flat = flats(decoder, instr, instr.operands[0])
    count = decoder.wide(instr.operands[1], "u32")

    def run(w: Wave, g: Group) -> None:
        for row, at, n in zip(g.idx.tolist(), flat(w, g).tolist(), count(w, g).tolist()):
            if not 1 <= n <= MAX_COUNT:
                w.report("mbarrier", f"count {n} is not in 1..{MAX_COUNT}", row=row, fatal=True)
            key = divmod(at, w.smem_size)
            old = w.mbarriers.get(key)
            if old is not None and (old.waiting or old.tx):
                w.report("mbarrier", f"{old.describe(w)} is initialised again while in use", row=row)
            name = f"mbarrier {w.program.describe_shared(key[1] + SHARED_BASE)}"
            column = old.column if old else w.clocks.column(name)
            barrier = Barrier(key[0], key[1], n, n, column, row, int(w.clocks.epoch[row]))
            if old is not None:
                barrier.done = old.done
                barrier.phase = 0
                barrier.column = w.clocks.column(name)
            barrier.init_line = instr.line
            w.mbarriers[key] = barrier
    return run, ALU


def invalidate(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    flat = flats(decoder, instr, instr.operands[0])

    def run(w: Wave, g: Group) -> None:
        for row, at in zip(g.idx.tolist(), flat(w, g).tolist()):
            barrier = find(w, at, row)
            settled(w, barrier)
            del w.mbarriers[barrier.cta, barrier.offset]
    return run, ALU


def settled(wave: Wave, barrier: Barrier) -> None:
    """A barrier that goes away must not owe or be owed bytes."""
    if barrier.tx:
        wave.report("mbarrier", f"{barrier.describe(wave)} ends with unbalanced transaction bytes: expect_tx and the "
                                "bytes that arrived differ")


def arrive(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mbarrier.arrive, arrive_drop, arrive.expect_tx, expect_tx, complete_tx"""
    parts = instr.parts
    operands = list(instr.operands)
    name = parts[1]
    arrives = name in ("arrive", "arrive_drop")
    expects = "expect_tx" in parts
    state = None
    if arrives and not isinstance(operands[0], Mem):
        first = operands.pop(0)
        state = None if isinstance(first, Sink) else decoder.target(first, "u64")
    flat = flats(decoder, instr, operands[0])
    count = decoder.wide(operands[1], "u32") if len(operands) > 1 else None
    relaxed = "relaxed" in parts

    def run(w: Wave, g: Group) -> None:
        at = flat(w, g)
        amount = count(w, g) if count else np.ones(g.n, np.uint32)
        phases = np.zeros(g.n, np.uint64)
        for value in dict.fromkeys(at.tolist()):
            mine = np.nonzero(at == value)[0]
            barrier = find(w, value, int(g.idx[mine[0]]))
            for i in mine.tolist():
                ordered_after_init(w, barrier, int(g.idx[i]))
            start = 0
            while start < len(mine):
                take = len(mine) - start
                if arrives and not (expects or count):
                    take = min(take, max(1, barrier.pending))
                elif arrives:
                    take = 1
                chosen = mine[start : start + take]
                start += take
                phases[chosen] = barrier.phase | barrier.pending << 32
                rows = g.idx[chosen]
                w.current_row = int(rows[0])
                n = int(amount[chosen].sum())
                if name == "complete_tx":
                    signal(w, barrier, None, 0, -n)
                    continue
                if expects:
                    barrier.tx += n
                    if not arrives:
                        continue
                if name == "arrive_drop":
                    barrier.expected -= len(rows) if expects else n
                view = None if relaxed else w.clocks.release(rows)
                signal(w, barrier, view, len(rows) if expects else n)
        if state:
            state(w, g, phases)
    return run, ALU


def wait(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """test_wait and try_wait, by parity or state token.

    The first unsuccessful attempt returns false, as hardware may; a second one of the same thread at the same phase
    puts the thread to sleep until the phase completes, so that spin loops cost nothing.
    """
    flat = flats(decoder, instr, instr.operands[1])
    by_parity = "parity" in instr.parts
    operand = decoder.wide(instr.operands[2], "u32" if by_parity else "u64")
    target = decoder.target(instr.operands[0], "pred")
    relaxed = "relaxed" in instr.parts

    def run(w: Wave, g: Group) -> bool:
        at = flat(w, g)
        which = operand(w, g)
        ready = np.zeros(g.n, bool)
        asleep = np.zeros(g.n, bool)
        for value in dict.fromkeys(at.tolist()):
            mine = np.nonzero(at == value)[0]
            barrier = find(w, value, int(g.idx[mine[0]]))
            for i in mine.tolist():
                row = int(g.idx[i])
                ordered_after_init(w, barrier, row)
                asked = int(which[i])
                if by_parity and asked > 1:
                    w.report("isa", f"phase parity {asked} is neither 0 nor 1", row=row)
                done = (barrier.phase & 1) != (asked & 1) if by_parity else barrier.phase > asked & 0xFFFFFFFF
                if done:
                    ready[i] = True
                    w.spun.pop(row, None)
                    continue
                attempt = (value, barrier.phase, instr.line)
                if w.spun.get(row) == attempt:
                    asleep[i] = True
                    barrier.waiting.append(row)
                    w.waiting_on[row] = barrier
                else:
                    w.spun[row] = attempt
            rows = g.idx[mine[ready[mine]]]
            if len(rows):
                if relaxed:
                    w.clocks.remember(rows, barrier.done)
                else:
                    w.clocks.acquire(rows, barrier.done)
        awake = ~asleep
        if not asleep.any():
            target(w, g, ready)
            return True
        if awake.any():
            rest = Group(g.idx[awake], False)
            target(w, rest, ready[awake])
            w.pc[rest.idx] += 1
        w.state[g.idx[asleep]] = BLOCKED
        w.context.trace.blocked(w, g.idx[asleep], w.program.describe_shared(int(at[0]) % w.smem_size + SHARED_BASE))
        return False
    return run, SYNC


def pending_count(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """The pending count that a state token was taken at (here: its upper 32 bits)."""
    state = decoder.source(instr.operands[1], "u64")
    target = decoder.target(instr.operands[0], "u32")
    return lambda w, g: target(w, g, (state(w, g) >> np.uint64(32)).astype(np.uint32)), ALU


SCOPES = "release acquire relaxed cta cluster gpu shared shared::cta shared::cluster b64"
ENTRIES = [
    *entry("mbarrier.init", SCOPES, init), *entry("mbarrier.inval", SCOPES, invalidate),
    *entry("mbarrier.arrive mbarrier.arrive_drop", SCOPES + " expect_tx noComplete", arrive),
    *entry("mbarrier.expect_tx mbarrier.complete_tx", SCOPES, arrive),
    *entry("mbarrier.test_wait mbarrier.try_wait", SCOPES + " parity", wait),
    *entry("mbarrier.pending_count", "b64", pending_count),
]
