"""Faults: what the simulator reports about a kernel, with place, address and the rule that is broken.

A fault is a statement about the program, independent of whether this run's numbers came out right.  ``RULES`` gives
for each kind the sentence of the PTX ISA or memory model it rests on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

RULES = {
    "race": "PTX memory model: conflicting accesses need happens-before, or both to be strong (8.7-8.10)",
    "proxy": "PTX memory model, proxies: a generic-proxy write reaches the async proxy only through fence.proxy.async",
    "uninitialised": "reading memory, tensor memory or a register nobody has written",
    "bounds": "PTX ISA state spaces: an address outside of every object",
    "alignment": "PTX ISA 5.1.6: addresses are aligned to the access size",
    "tcgen05-fence": "PTX ISA tcgen05 memory consistency: tcgen05 operations of different threads are ordered by a "
                     "thread synchronisation followed by tcgen05.fence::after_thread_sync",
    "tcgen05-wait": "PTX ISA tcgen05.ld/st: registers and tensor memory may be used after tcgen05.wait::ld / ::st",
    "tmem-lane": "PTX ISA tcgen05: warp w of a warpgroup accesses lanes 32(w%4) .. 32(w%4)+31 only",
    "tmem-alloc": "PTX ISA tcgen05.alloc: only allocated columns may be used; all must be freed before exit",
    "descriptor": "PTX ISA tcgen05 matrix and instruction descriptors: field values and alignment",
    "collector": "PTX ISA tcgen05.mma .collector_usage: use needs a fill that is still valid, of the same operand",
    "convergence": "PTX ISA .sync.aligned: all threads of the warp execute the same instruction",
    "deadlock": "nothing left to run and nothing pending",
    "mbarrier": "PTX ISA mbarrier: initialised object, counts and transaction counts in range and balanced",
    "mbarrier-fence": "PTX ISA fence.mbarrier_init: an initialised mbarrier reaches the async proxy only through "
                      "fence.mbarrier_init or fence.proxy.async",
    "async-group": "PTX ISA cp.async.bulk: source and destination may be reused only after wait_group",
    "barrier": "PTX ISA barrier: barrier number, thread count and participation",
    "exit": "asynchronous work still uses a CTA's memory when the CTA ends",
    "tensormap": "PTX ISA tensors: box, stride, coordinate and alignment rules of tensor maps",
    "collective": "PTX ISA: the executing thread must be in the member mask, masks must agree",
    "launch": "launch bounds declared by the kernel",
    "budget": "step budget used up: the kernel may not terminate",
    "isa": "PTX ISA: operand value outside of what the instruction allows",
}


@dataclass(frozen=True)
class Fault:
    """One fault.  ``line`` is the PTX line (from 1), ``thread`` the linear thread in the CTA, ``cta`` in the grid."""

    kind: str
    message: str
    line: int
    instruction: str
    cta: int | None = None
    thread: int | None = None
    address: int | None = None

    @property
    def rule(self) -> str:
        return RULES[self.kind]

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else "at exit"
        who = "" if self.thread is None else f", CTA {self.cta} thread {self.thread}"
        where = "" if self.address is None else f", address {self.address:#x}"
        return f"{self.kind}: {place}{who}{where}: {self.message} [{self.instruction}]"


class Halt(Exception):
    """Raised inside the simulator when execution cannot go on; the fault is already in the log."""


@dataclass
class FaultLog:
    """Collects faults, one per kind and line."""

    limit: int = 64
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    seen: set[tuple[str, int]] = field(default_factory=set)

    def add(self, fault: Fault) -> None:
        key = (fault.kind, fault.line)
        if key in self.seen or len(self.faults) >= self.limit:
            return
        self.seen.add(key)
        self.faults.append(fault)

    def warn(self, fault: Fault) -> None:
        """Note something the ISA's text does not allow but hardware is known to do."""
        key = (fault.kind + " warning", fault.line)
        if key not in self.seen and len(self.warnings) < self.limit:
            self.seen.add(key)
            self.warnings.append(fault)
