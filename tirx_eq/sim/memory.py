"""Memory: one flat byte array per state space, with bounds, alignment, and a shadow that remembers who touched what.

Generic addresses: shared memory of a cluster sits at ``SHARED``, local memory at ``LOCAL``, parameters at ``PARAM`` and
global buffers from ``GLOBAL`` upwards.  A shared address is 32 bits: ``rank << 24 | offset`` with the CTA's rank in its
cluster (PTX ISA ``mapa``; this is what the 0xFEFFFFFF trick of CTA pairs relies on), offsets starting at 1024 since the
first KB belongs to the system.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirx_eq.sim.clocks import HB, PROXY, PROXY_GLOBAL, STRIDE, Clocks

Array = np.ndarray

SHARED = 0x0000_0100_0000_0000
LOCAL = 0x0000_0200_0000_0000
PARAM = 0x0000_0300_0000_0000
GLOBAL = 0x0000_7000_0000_0000
SHARED_BASE = 1024
SHARED_LIMIT = 232_448
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
GUARD = 4096

#: How an access was made; kept in the shadow beside the last writer.
GENERIC, ASYNC, STRONG, REDUCTION = 0, 1, 2, 3

Report = Callable[..., None]


class Shadow:
    """Last writer and last two readers of every cell of ``1 << shift`` bytes."""

    def __init__(self, size: int, shift: int, initialised: bool) -> None:
        #: the clock that says whether a generic write may be read through the async proxy
        self.proxy = PROXY_GLOBAL if initialised else PROXY
        cells = (size >> shift) + 2
        self.shift = shift
        self.writer = np.full(cells, -1, np.int32)
        self.write_epoch = np.zeros(cells, np.int32)
        self.write_kind = np.zeros(cells, np.uint8)
        self.reader = np.full((2, cells), -1, np.int32)
        self.read_epoch = np.zeros((2, cells), np.int32)
        self.read_kind = np.zeros(cells, np.uint8)
        self.initialised = np.full(cells, initialised, bool)

    def cells(self, starts: Array, size: int) -> Array:
        """Cell indices of ``size`` bytes at each start, shape (len(starts), cells)."""
        count = max(1, size >> self.shift)
        first = np.asarray(starts >> self.shift).astype(np.int64)
        return first[:, None] + np.arange(count)

    def reset(self, low: int, high: int) -> None:
        """Forget everything about bytes ``low..high``."""
        a, b = low >> self.shift, high >> self.shift
        self.writer[a:b] = -1
        self.reader[:, a:b] = -1
        self.initialised[a:b] = False


class Buffers:
    """The global state space: named objects in one flat array with guard zones between."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.starts: list[int] = []
        self.sizes: list[int] = []
        self.size = GUARD

    def add(self, name: str, size: int, align: int = 512) -> int:
        """Reserve ``size`` bytes; returns the flat offset."""
        start = -(-self.size // align) * align
        self.names.append(name)
        self.starts.append(start)
        self.sizes.append(size)
        self.size = start + size + GUARD
        return start

    def freeze(self) -> None:
        self.data = np.zeros(-(-self.size // 64) * 64, np.uint8)
        self.low = np.array(self.starts + [1 << 62], np.int64)
        self.high = np.array([s + n for s, n in zip(self.starts, self.sizes)] + [1 << 62], np.int64)

    def inside(self, offsets: Array, size: int) -> Array:
        """For each flat offset: do ``size`` bytes lie inside one object?"""
        if not self.starts:
            return np.zeros(len(offsets), bool)
        which = np.searchsorted(self.low, offsets, side="right") - 1
        return (which >= 0) & (offsets + size <= self.high[which])

    def describe(self, offset: int) -> str:
        """``name + bytes`` of a flat offset, for messages."""
        which = int(np.searchsorted(self.low, offset, side="right")) - 1
        if which < 0:
            return "before every buffer"
        beyond = offset - self.starts[which]
        return f"{self.names[which]} + {beyond} (size {self.sizes[which]} bytes)"


class Checker:
    """Happens-before checks of one wave's accesses against a shadow."""

    def __init__(self, clocks: Clocks, report: Report) -> None:
        self.clocks = clocks
        self.report = report
        self.enabled = True
        #: cross-cluster ordering through strong accesses: (reader cluster, writer cluster) pairs seen
        self.crossed: set[tuple[int, int]] = set()

    # -- generic accesses by threads --------------------------------------------------------------
    def read(self, shadow: Shadow, cells: Array, rows: Array, kind: int = GENERIC, what: str = "memory",
             actor: Array | None = None, epoch: Array | None = None) -> None:
        """Threads ``rows`` read ``cells`` (shape (len(rows), k))."""
        if not self.enabled:
            return
        init = shadow.initialised[cells]
        if not init.all():
            bad = np.argwhere(~init)[0]
            self.report("uninitialised", f"{what} is read before anything was written there",
                        row=int(rows[bad[0]]), cell=(shadow, int(cells[bad[0], bad[1]])))
            shadow.initialised[cells] = True
        actor = (self.clocks.actor[rows] if actor is None else actor)[:, None]
        epoch = (self.clocks.epoch[rows] if epoch is None else epoch)[:, None]
        self.conflicts(shadow, cells, rows, shadow.writer[cells], shadow.write_epoch[cells],
                       shadow.write_kind[cells], kind, f"{what}: read", "write")
        old = shadow.reader[0][cells]
        other = old != actor
        if other.any():
            shadow.reader[1][cells] = np.where(other, old, shadow.reader[1][cells])
            shadow.read_epoch[1][cells] = np.where(other, shadow.read_epoch[0][cells], shadow.read_epoch[1][cells])
        flat = cells.ravel()
        who = np.broadcast_to(actor, cells.shape).ravel()
        when = np.broadcast_to(epoch, cells.shape).ravel()
        shadow.reader[0][flat] = who
        shadow.read_epoch[0][flat] = when
        shadow.read_kind[flat] = kind
        if len(rows) > 1 and (shadow.reader[0][flat[: cells.shape[1]]] != who[: cells.shape[1]]).any():
            shadow.reader[1][flat[::-1]] = who[::-1]
            shadow.read_epoch[1][flat[::-1]] = when[::-1]

    def write(self, shadow: Shadow, cells: Array, rows: Array, kind: int = GENERIC, what: str = "memory",
              actor: Array | None = None, epoch: Array | None = None) -> None:
        """Threads ``rows`` write ``cells``."""
        if not self.enabled:
            return
        self.conflicts(shadow, cells, rows, shadow.writer[cells], shadow.write_epoch[cells],
                       shadow.write_kind[cells], kind, f"{what}: write", "write")
        for slot in (0, 1):
            self.conflicts(shadow, cells, rows, shadow.reader[slot][cells], shadow.read_epoch[slot][cells],
                           shadow.read_kind[cells], kind, f"{what}: write", "read")
        actor = self.clocks.actor[rows] if actor is None else actor
        epoch = self.clocks.epoch[rows] if epoch is None else epoch
        shadow.writer[cells] = actor[:, None]
        if kind != STRONG and len(rows) > 1:
            lost = shadow.writer[cells] != actor[:, None]
            if lost.any():
                bad = np.argwhere(lost)[0]
                self.report("race", f"{what}: two threads write the same bytes in one instruction",
                            row=int(rows[bad[0]]), cell=(shadow, int(cells[bad[0], bad[1]])))
        shadow.write_epoch[cells] = epoch[:, None]
        shadow.write_kind[cells] = kind
        shadow.reader[:, cells] = -1
        shadow.initialised[cells] = True

    def conflicts(self, shadow: Shadow, cells: Array, rows: Array, who: Array, when: Array, how: Array, kind: int,
                  what: str, earlier: str) -> None:
        """Report every earlier event (who, when) that a thread of ``rows`` does not know."""
        clocks = self.clocks
        suspect = (who >= 0) & (who != clocks.actor[rows][:, None])
        if kind == STRONG:
            suspect &= (how != STRONG) & (how != REDUCTION)
        if not suspect.any():
            return
        at, column = np.nonzero(suspect)
        actor = who[at, column]
        row = rows[at]
        same = actor // STRIDE == clocks.cluster[row]
        known = np.zeros(len(at), bool)
        local = actor % STRIDE
        inside = same & (local < clocks.know.shape[2])
        known[inside] = clocks.know[HB, row[inside], local[inside]] >= when[at, column][inside]
        outside = ~same
        if outside.any():
            known[outside] = [self.crosses(int(r), int(a) // STRIDE) for r, a in zip(row[outside], actor[outside])]
        if known.all():
            return
        first = int(np.argmin(known))
        cell = int(cells[at[first], column[first]])
        self.report("race", f"{what} is not ordered after the {earlier} by {self.name(int(actor[first]))}",
                    row=int(row[first]), cell=(shadow, cell))

    def crosses(self, row: int, cluster: int) -> bool:
        return (int(self.clocks.cluster[row]), cluster) in self.crossed

    def name(self, actor: int) -> str:
        """An actor in words."""
        cluster, local = divmod(actor, STRIDE)
        text = self.clocks.names.get(local)
        if text is None:
            rank, thread = divmod(local, self.clocks.per_cta)
            text = f"thread {thread}" + (f" of CTA rank {rank}" if self.clocks.per_cta < self.clocks.per_cluster else "")
        return text if cluster == self.clocks.cluster[0] else f"{text} of cluster {cluster}"

    # -- accesses by asynchronous operations ------------------------------------------------------
    def async_access(self, shadow: Shadow, cells: Array, cluster: int, view: Array, event: tuple[int, int],
                     write: bool, what: str, own: tuple[int, ...] = (), kind: int = ASYNC) -> None:
        """An asynchronous operation touches ``cells`` (flat).

        ``view`` is what its issuing thread knew (KINDS, columns); ``event`` = (column, epoch) by which others will know
        it; ``own`` columns count as ordered (the same in-order queue).  A write of ``kind`` REDUCTION is atomic: it needs no
        order among others and strong writes.
        """
        if not self.enabled:
            return
        if not write:
            init = shadow.initialised[cells]
            if not init.all():
                cell = int(cells[int(np.argmin(init))])
                self.report("uninitialised", f"{what} reads memory that nothing has written", cell=(shadow, cell))
                shadow.initialised[cells] = True
        self.async_conflict(shadow, cells, cluster, view, own, what, write,
                            shadow.writer[cells], shadow.write_epoch[cells], shadow.write_kind[cells], "write", kind)
        if write:
            for slot in (0, 1):
                self.async_conflict(shadow, cells, cluster, view, own, what, write, shadow.reader[slot][cells],
                                    shadow.read_epoch[slot][cells], None, "read", kind)
        actor = cluster * STRIDE + event[0]
        if write:
            shadow.writer[cells] = actor
            shadow.write_epoch[cells] = event[1]
            shadow.write_kind[cells] = kind
            shadow.reader[:, cells] = -1
            shadow.initialised[cells] = True
        else:
            old = shadow.reader[0][cells]
            move = old != actor
            shadow.reader[1][cells] = np.where(move, old, shadow.reader[1][cells])
            shadow.read_epoch[1][cells] = np.where(move, shadow.read_epoch[0][cells], shadow.read_epoch[1][cells])
            shadow.reader[0][cells] = actor
            shadow.read_epoch[0][cells] = event[1]
            shadow.read_kind[cells] = ASYNC

    def async_conflict(self, shadow: Shadow, cells: Array, cluster: int, view: Array, own: tuple[int, ...], what: str,
                       write: bool, who: Array, when: Array, how: Array | None, earlier: str, kind: int) -> None:
        suspect = who >= 0
        if kind == REDUCTION and how is not None:
            suspect &= (how != STRONG) & (how != REDUCTION)
        for column in own:
            suspect &= who != cluster * STRIDE + column
        at = np.nonzero(suspect)[0]
        if not len(at):
            return
        actor = who[at]
        local = actor % STRIDE
        inside = (actor // STRIDE == cluster) & (local < view.shape[1])
        need = when[at]
        happens = np.zeros(len(at), bool)
        happens[inside] = view[HB, local[inside]] >= need[inside]
        outside = actor // STRIDE != cluster
        if outside.any():
            happens[outside] = [(cluster, int(a) // STRIDE) in self.crossed for a in actor[outside]]
        done = "writes" if write else "reads"
        if not happens.all():
            first = int(np.argmin(happens))
            self.report("race", f"{what} {done} memory and is not ordered after the {earlier} by "
                                f"{self.name(int(actor[first]))}", cell=(shadow, int(cells[at[first]])))
            return
        if how is None:
            return
        generic = (how[at] != ASYNC) & (how[at] != REDUCTION) & inside
        if not generic.any():
            return
        fenced = view[shadow.proxy, local[generic]] >= need[generic]
        if not fenced.all():
            first = int(np.nonzero(generic)[0][int(np.argmin(fenced))])
            self.report("proxy", f"{what} {done} memory through the async proxy, but the write by "
                                 f"{self.name(int(actor[first]))} went through the generic proxy with no "
                                 "fence.proxy.async since", cell=(shadow, int(cells[at[first]])))
