"""The machine state of a wave: the clusters that run at the same time, as arrays over all their threads.

Rows are threads: row = (cluster * CTAs + rank) * threads per CTA + linear thread index.  A ``Group`` is the set of rows
that execute one instruction together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tirx_eq.sim.clocks import Clocks
from tirx_eq.sim.faults import Fault, FaultLog, Halt
from tirx_eq.sim.memory import (
    GENERIC,
    GLOBAL,
    LOCAL,
    OFFSET_MASK,
    PARAM,
    RANK_SHIFT,
    SHARED,
    SHARED_BASE,
    Checker,
    Shadow,
)
from tirx_eq.sim.tcgen05.tmem import Tmem

if TYPE_CHECKING:
    from tirx_eq.sim.machine import Context
    from tirx_eq.sim.mbarrier import Barrier
    from tirx_eq.sim.program import Program, Step
    from tirx_eq.sim.text.syntax import Instr

Array = np.ndarray
RUN, BLOCKED, CONVERGE, EXITED = 0, 1, 2, 3


class Group:
    """Rows executing together; ``full`` if these are all rows of the wave in order."""

    __slots__ = ("full", "idx", "n")

    def __init__(self, idx: Array, full: bool) -> None:
        self.idx = idx
        self.full = full
        self.n = len(idx)

    def where(self, mask: Array) -> Group:
        """The rows for which ``mask`` (one entry per row of this group) holds."""
        if mask.all():
            return self
        return Group(self.idx[mask], False)


@dataclass
class AsyncOp:
    """One asynchronous operation waiting to take effect.

    ``run`` performs it.  Operations of one ``queue`` take effect in order; different queues are unordered.
    """

    run: Callable[[], None]
    instr: Instr
    row: int
    label: str
    epoch: int = 0
    issued: int = 0
    registers: frozenset[int] = frozenset()


@dataclass
class CtaBarrier:
    """A hardware barrier (bar.sync) of one CTA."""

    expected: int = 0
    arrived: int = 0
    waiting: list[Array] = field(default_factory=list)
    view: Array | None = None
    operand: list[tuple[Array, Array]] = field(default_factory=list)
    results: list[tuple[Array, Callable[[Array], None]]] = field(default_factory=list)
    mode: str = ""
    line: int = 0


class Wave:
    """All state of the CTAs that run together."""

    def __init__(self, context: Context, program: Program, first_cluster: int, clusters: int) -> None:
        launch = context.launch
        self.context = context
        self.program = program
        self.per_cta = launch.threads
        self.cluster_size = launch.cluster_ctas
        self.per_cluster = self.per_cta * self.cluster_size
        self.first_cluster = first_cluster
        self.clusters = clusters
        self.ctas = clusters * self.cluster_size
        self.T = self.ctas * self.per_cta
        self.rows = np.arange(self.T)
        self.cta = self.rows // self.per_cta
        self.rank = self.cta % self.cluster_size
        self.thread = self.rows % self.per_cta
        self.warps_per_cta = -(-self.per_cta // 32)
        self.warp = self.cta * self.warps_per_cta + self.thread // 32
        self.lane = self.thread % 32
        self.alive = np.bincount(self.warp, minlength=self.ctas * self.warps_per_cta)
        self.diverged = np.zeros(len(self.alive), bool)
        self.pc = np.zeros(self.T, np.int64)
        self.state = np.zeros(self.T, np.uint8)
        self.tired = np.zeros(self.T, bool)
        self.R: list[Array | None] = [None] * program.register_count
        self.U: list[Array | None] = [None] * program.register_count
        self.special = launch.special_registers(self)
        self.clock = np.zeros(1, np.int64)

        self.smem_size = -(-program.shared_size // 1024) * 1024 + 1024
        self.smem = np.zeros(self.ctas * self.smem_size, np.uint8)
        self.smem_limit: int = program.shared_size
        self.shared_shadow = Shadow(len(self.smem), program.shared_shift, False)
        self.local_size = -(-program.local_size // 16) * 16
        self.local = np.zeros(self.T * self.local_size + 64, np.uint8)
        self.log: FaultLog = context.log
        self.clocks = Clocks(self.T, self.per_cluster, first_cluster, self.per_cta)
        self.checker = Checker(self.clocks, self.report)
        self.checker.enabled = context.races
        self.checker.crossed = context.crossed
        self._tmem: Tmem | None = None
        self.barriers: dict[tuple[int, int], CtaBarrier] = {}
        self.mbarriers: dict[tuple[int, int], Barrier] = {}
        self.queues: dict[Any, deque[AsyncOp]] = {}
        self.spun: dict[int, tuple[int, int, int]] = {}
        self.waiting_on: dict[int, Any] = {}
        self.warp_sync: dict[int, list[tuple[Array, int]]] = {}
        self.scratch: dict[Any, Any] = {}
        self.remote: dict[tuple[int, int], tuple[int, Instr | None]] = {}
        self.current: Instr | None = None
        self.current_row: int | None = None
        self.steps = 0

    # -- registers ------------------------------------------------------------------------------
    def undefined(self, index: int, group: Group) -> None:
        """A register that may be undefined is read by ``group``: report if it is."""
        flags = self.U[index]
        if flags is not None and flags[group.idx].any():
            row = int(group.idx[int(np.argmax(flags[group.idx]))])
            register = self.program.registers[index].name
            if self.pending_load(index, row):
                self.report("tcgen05-wait", f"register {register} is used before tcgen05.wait::ld", row=row)
            else:
                self.report("uninitialised", f"register {register} is read before it is written", row=row)
            flags = flags.copy()
            flags[group.idx] = False
            self.U[index] = flags

    def pending_load(self, index: int, row: int) -> bool:
        """Is ``register`` the destination of a tcgen05.ld that this row's warp has not waited for?"""
        return any(index in op.registers and row in op.rows for op in self.scratch.get("ld", ()))

    def register(self, index: int) -> Array:
        array = self.R[index]
        if array is None:
            array = self.R[index] = self.program.blank(index, self.T)
            self.U[index] = np.ones(self.T, bool)
        return array

    def store(self, index: int, group: Group, value: Array) -> None:
        """Write a register whose array dtype ``value`` already has."""
        if group.full and self.U[index] is None:
            if value.shape[0] != self.T:
                value = np.broadcast_to(value, (self.T, *value.shape[1:])).copy()
            self.R[index] = value
            return
        array = self.register(index)
        array[group.idx] = value
        flags = self.U[index]
        if flags is not None:
            if group.full:
                self.U[index] = None
            else:
                flags = flags.copy()
                flags[group.idx] = False
                self.U[index] = flags if flags.any() else None

    # -- faults ---------------------------------------------------------------------------------
    def report(self, kind: str, message: str, *, row: int | None = None, cell: tuple[Shadow, int] | None = None,
               address: int | None = None, fatal: bool = False, warning: bool = False) -> None:
        instr = self.current
        if row is None:
            row = self.current_row
        if cell is not None:
            shadow, index = cell
            flat = index << shadow.shift
            if shadow is self.shared_shadow:
                address = flat % self.smem_size + SHARED_BASE
                message += f" (shared memory of CTA {self.cta_number(flat // self.smem_size)}: " \
                           f"{self.program.describe_shared(address)})"
            elif shadow is self.context.shadow:
                address = GLOBAL + flat
                message += f" (global memory: {self.context.buffers.describe(flat)})"
        line = instr.line if instr else 0
        text = self.program.source(line) if instr else ""
        add = self.log.warn if warning else self.log.add
        add(Fault(kind, message, line, text, None if row is None else self.cta_number(int(self.cta[row])),
                  None if row is None else int(self.thread[row]), address))
        if fatal:
            raise Halt

    def cta_number(self, cta: int) -> int:
        """Linear number of a wave-local CTA in the grid."""
        return self.context.launch.cta_number(self.first_cluster + cta // self.cluster_size,
                                              cta % self.cluster_size)

    # -- tensor memory --------------------------------------------------------------------------
    @property
    def tmem(self) -> Tmem:
        if self._tmem is None:
            self._tmem = Tmem(self.ctas)
        return self._tmem

    # -- addresses ------------------------------------------------------------------------------
    def shared_flat(self, addresses: Array, rows: Array, size: int, align: int, cluster: bool = False) -> Array:
        """Flat offsets into ``smem`` of 32-bit shared addresses; checks window, bounds and alignment."""
        address = addresses.astype(np.int64)
        rank = address >> RANK_SHIFT
        offset = address & OFFSET_MASK
        bad = (offset < SHARED_BASE) | (offset + size > SHARED_BASE + self.smem_limit)
        own = self.rank[rows]
        bad |= (rank >= self.cluster_size) if cluster else (rank != own)
        if bad.any():
            i = int(np.argmax(bad))
            if not cluster and 0 <= rank[i] < self.cluster_size and rank[i] != own[i]:
                self.report("bounds", f"address of CTA rank {rank[i]} used in .shared::cta of rank {own[i]}",
                            row=int(rows[i]), address=int(address[i]), fatal=True)
            self.report("bounds", f"{size} bytes at shared offset {int(offset[i]) - SHARED_BASE} are outside of the "
                                  f"{self.smem_limit} bytes of this CTA", row=int(rows[i]), address=int(address[i]),
                        fatal=True)
        if align > 1:
            bad = offset % align != 0
            if bad.any():
                i = int(np.argmax(bad))
                self.report("alignment", f"a {align}-byte aligned shared address is needed", row=int(rows[i]),
                            address=int(address[i]), fatal=True)
        cta = self.cta[rows] - own + rank
        if cluster and (rank != own).any():
            self.remote_access(rows[rank != own], cta[rank != own])
        return cta * self.smem_size + offset - SHARED_BASE

    def remote_access(self, rows: Array, ctas: Array) -> None:
        """Remember accesses to other CTAs' shared memory: their owners must not exit before."""
        for row, cta in zip(rows.tolist(), ctas.tolist()):
            self.remote[cta, row] = (int(self.clocks.epoch[row]), self.current)

    def global_flat(self, addresses: Array, rows: Array, size: int, align: int) -> Array:
        """Flat offsets into the global array; checks bounds and alignment."""
        flat = addresses.astype(np.int64) - GLOBAL
        good = self.context.buffers.inside(flat, size)
        if not good.all():
            i = int(np.argmin(good))
            self.report("bounds", f"{size} bytes of global memory at {self.context.buffers.describe(int(flat[i]))}",
                        row=int(rows[i]), address=int(addresses[i]), fatal=True)
        if align > 1:
            bad = flat % align != 0
            if bad.any():
                i = int(np.argmax(bad))
                self.report("alignment", f"a {align}-byte aligned global address is needed", row=int(rows[i]),
                            address=int(addresses[i]), fatal=True)
        return flat

    def local_flat(self, addresses: Array, rows: Array, size: int) -> Array:
        offset = addresses.astype(np.int64)
        bad = (offset < 0) | (offset + size > self.local_size)
        if bad.any():
            i = int(np.argmax(bad))
            self.report("bounds", f"{size} bytes at local offset {int(offset[i])} of {self.local_size}",
                        row=int(rows[i]), fatal=True)
        return rows * self.local_size + offset

    def classify(self, addresses: Array) -> Array:
        """State space of generic addresses: 0 global, 1 shared, 2 local, 3 parameter, 4 none."""
        window = addresses.astype(np.uint64) >> np.uint64(40)
        out = np.full(len(addresses), 4)
        out[window >= (GLOBAL >> 40)] = 0
        for number, base in ((1, SHARED), (2, LOCAL), (3, PARAM)):
            out[window == (base >> 40)] = number
        return out

    # -- asynchronous work ----------------------------------------------------------------------
    def issue(self, queue: Any, op: AsyncOp) -> None:
        """Queue an asynchronous operation; the ``early`` policy performs it at once."""
        op.issued = self.steps
        self.context.trace.issued(self, op)
        self.queues.setdefault(queue, deque()).append(op)
        if self.context.policy == "early":
            self.drain(queue)

    def drain(self, queue: Any, keep: int = 0) -> None:
        """Perform the operations of ``queue`` until ``keep`` are left."""
        pending = self.queues.get(queue)
        while pending and len(pending) > keep:
            self.perform(queue)

    def perform(self, queue: Any) -> None:
        """Perform the oldest operation of ``queue``."""
        pending = self.queues[queue]
        op = pending.popleft()
        if not pending:
            del self.queues[queue]
        saved = self.current, self.current_row
        self.current, self.current_row = op.instr, op.row
        op.run()
        self.context.trace.performed(self, op)
        self.current, self.current_row = saved

    def wake(self, rows: Array) -> None:
        self.state[rows] = RUN
        self.context.trace.woken(self, rows)
        for row in rows.tolist():
            self.waiting_on.pop(row, None)

    def step_of(self, row: int) -> Step:
        return self.program.code[int(self.pc[row])]


__all__ = ["BLOCKED", "CONVERGE", "EXITED", "GENERIC", "RUN", "AsyncOp", "CtaBarrier", "Group", "Wave"]
