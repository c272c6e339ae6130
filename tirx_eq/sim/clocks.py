"""Vector clocks: who knows what to have happened.

Every thread of a cluster, every asynchronous queue and every mbarrier is an *actor* with a column; an event is a pair
(actor, epoch).  Thread ``t`` knows an event if its row holds at least that epoch in the actor's column.  Four kinds of
knowledge are kept side by side and travel along the same synchronisation edges:

* ``HB``: happens-before;
* ``PROXY``, ``PROXY_GLOBAL``: happens-before with a ``fence.proxy.async`` for shared or global memory somewhere on the way
  (what the async proxy may read);
* ``TC``: happens-before into tcgen05 order (completed, or covered by ``fence::before_thread_sync``).

``after`` is the tcgen05 knowledge a thread has taken in by ``fence::after_thread_sync``; it does not travel.
Actor ids are ``cluster * STRIDE + column`` so that an event names its cluster.
"""

from __future__ import annotations

import numpy as np

HB, PROXY, TC, PROXY_GLOBAL = 0, 1, 2, 3
KINDS = 4
STRIDE = 1 << 15

Array = np.ndarray


class Clocks:
    """Clocks of all threads of a wave.

    ``threads`` rows; ``per_cluster`` threads in each cluster (columns ``0..per_cluster-1`` are threads).
    """

    def __init__(self, threads: int, per_cluster: int, first_cluster: int, per_cta: int) -> None:
        self.per_cluster = per_cluster
        self.per_cta = per_cta
        self.columns = per_cluster
        self.capacity = per_cluster + 32
        self.know = np.zeros((KINDS, threads, self.capacity), np.int32)
        self.after = np.zeros((threads, self.capacity), np.int32)
        self.epoch = np.ones(threads, np.int32)
        self.local = np.arange(threads, dtype=np.int32) % per_cluster
        self.cluster = np.arange(threads, dtype=np.int32) // per_cluster + first_cluster
        self.actor = self.cluster * STRIDE + self.local
        self.pending: dict[int, Array] = {}
        self.names: dict[int, str] = {}

    def column(self, name: str) -> int:
        """A fresh actor column (the same number in every cluster)."""
        if self.columns == self.capacity:
            grow = max(64, self.capacity // 2)
            self.know = np.concatenate([self.know, np.zeros((KINDS, len(self.epoch), grow), np.int32)], axis=2)
            self.after = np.concatenate([self.after, np.zeros((len(self.epoch), grow), np.int32)], axis=1)
            self.capacity += grow
        if self.columns >= STRIDE:
            raise MemoryError("too many asynchronous actors in one cluster")
        self.columns += 1
        self.names[self.columns - 1] = name
        return self.columns - 1

    # -- snapshots ------------------------------------------------------------------------------
    def release(self, rows: Array) -> Array:
        """Knowledge of ``rows`` joined, their own events included; starts a new epoch in each. Shape (KINDS, columns)."""
        view = self.know[:, rows, :].max(axis=1)
        local = self.local[rows]
        view[HB, local] = np.maximum(view[HB, local], self.epoch[rows])
        self.epoch[rows] += 1
        return view

    def snapshot(self, row: int) -> Array:
        """What ``row`` knows now, its own events included; starts a new epoch. Shape (KINDS, columns)."""
        view = self.know[:, row, :].copy()
        view[HB, self.local[row]] = self.epoch[row]
        self.epoch[row] += 1
        return view

    def acquire(self, rows: Array, view: Array) -> None:
        """Join ``view`` into every row of ``rows``."""
        width = view.shape[1]
        mine = self.know[:, rows, :width]
        self.know[:, rows, :width] = np.maximum(mine, view[:, None, :])

    def synchronise(self, rows: Array) -> None:
        """A barrier among ``rows``: afterwards everybody knows what anybody knew."""
        self.acquire(rows, self.release(rows))

    # -- fences ---------------------------------------------------------------------------------
    def proxy_fence(self, rows: Array, kinds: tuple[int, ...] = (PROXY, PROXY_GLOBAL)) -> None:
        """fence.proxy.async by each of ``rows``: what it knows may now be seen by the async proxy."""
        know = self.know
        mine = know[HB, rows, :]
        mine[np.arange(len(rows)), self.local[rows]] = self.epoch[rows]
        for kind in kinds:
            know[kind, rows, :] = np.maximum(know[kind, rows, :], mine)
        self.epoch[rows] += 1

    def tc_before(self, rows: Array) -> None:
        """tcgen05.fence::before_thread_sync by each of ``rows``."""
        know = self.know
        know[TC, rows, :] = np.maximum(know[TC, rows, :], know[HB, rows, :])

    def tc_after(self, rows: Array) -> None:
        """tcgen05.fence::after_thread_sync by each of ``rows``."""
        self.after[rows, :] = np.maximum(self.after[rows, :], self.know[TC, rows, :])
        for row in rows.tolist():
            view = self.pending.get(row)
            if view is not None:
                width = view.shape[1]
                self.after[row, :width] = np.maximum(self.after[row, :width], view[TC])

    # -- relaxed acquires -----------------------------------------------------------------------
    def remember(self, rows: Array, view: Array) -> None:
        """A relaxed observation: takes effect at the thread's next fence.acq_rel."""
        for row in rows.tolist():
            old = self.pending.get(row)
            if old is None or old.shape != view.shape:
                self.pending[row] = view.copy() if old is None else _join(old, view)
            else:
                self.pending[row] = np.maximum(old, view)

    def fence(self, rows: Array) -> None:
        """fence.acq_rel / membar by each of ``rows``: earlier relaxed observations become acquires."""
        if not self.pending:
            return
        for row in rows.tolist():
            view = self.pending.pop(row, None)
            if view is not None:
                self.acquire(np.array([row]), view)


def _join(a: Array, b: Array) -> Array:
    width = max(a.shape[1], b.shape[1])
    out = np.zeros((KINDS, width), np.int32)
    out[:, : a.shape[1]] = a
    out[:, : b.shape[1]] = np.maximum(out[:, : b.shape[1]], b)
    return out


join = _join
