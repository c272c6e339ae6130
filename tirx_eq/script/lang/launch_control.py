"""Tiles by cluster launch control: a running cluster takes over the tile of one that hasn't been launched yet."""

from __future__ import annotations

from typing import Any

from ...ir import EQ, NE, Expr, const
from ..buffers import local_scalar
from ..control import while_loop
from ..math import address_of, logical_and
from ..meta import meta_class
from .emission import call, emit_call, if_then, store
from .pipeline import Pipeline, PipelineState
from .tile_scheduler import ClusterPersistentScheduler2D

#: What a query answers when there was no launch left to cancel.
DRAINED = 0xFFFFFFFF
#: Bytes of the answer.
HANDLE_BYTES = 16


class LaunchControlWorker(ClusterPersistentScheduler2D):
    """A role's view of a :class:`ClusterLaunchControlScheduler`: its tile, and its part in the handshake.

    The first tile is the cluster's own (``init``); a role without coordinates calls ``reset`` instead.  Then, for each round:
    ``consume`` (or ``consume_wg``), ``advance_coords``, ``mark_done_if_drained``.
    """

    def __init__(self, clc: ClusterLaunchControlScheduler, prefix: str) -> None:
        super().__init__(prefix, clc.num_m_tiles, clc.num_n_tiles, clc.num_m_tiles * clc.num_n_tiles, clc.l2_group_size)
        self._control = clc
        self._state = PipelineState(1, 0)
        self._done = local_scalar("int32")
        self._next = local_scalar("uint32")

    def reset(self) -> None:
        """Start without coordinates."""
        store(self._done, 0)

    def init(self, cluster_id: Any) -> None:
        """Start with the cluster's own tile."""
        super().init(cluster_id)
        self.reset()

    def valid(self) -> Expr:  # type: ignore[override]
        """Whether tiles may be left."""
        return EQ(self._done, const(0, "int32"))

    def _receive(self) -> None:
        self._control.sched_arr.full.wait(0, self._state.phase)
        self._state.advance()
        store(self._next, self._control.query())

    def _release(self) -> None:
        self._control.sched_fin.empty.arrive(0, remote=0, pred=True)

    def consume(self) -> None:
        """Wait for the answer, read it, and release its place; in the scope of one thread."""
        self._receive()
        self._release()

    def consume_wg(self, wg_id: Any, warp_id: Any, lane_id: Any) -> None:
        """The same in the scope of a warpgroup: all threads read, one releases.  Barrier ``wg_id + 1`` is used."""
        self._receive()
        emit_call("cuda.warpgroup_sync", wg_id + 1)
        with if_then(logical_and(EQ(warp_id, const(0, "int32")), EQ(lane_id, const(0, "int32")))):
            self._release()

    def advance_coords(self) -> None:
        """The coordinates of the tile that was taken over, if one was."""
        with if_then(NE(self._next, const(DRAINED, "uint32"))):
            self.update_current_m_n_idx(self._control.tile_of(self._next))

    def mark_done_if_drained(self) -> None:
        """End after this round if there was nothing to take over."""
        with if_then(EQ(self._next, const(DRAINED, "uint32"))):
            store(self._done, 1)


@meta_class
class ClusterLaunchControlScheduler:
    """Tiles of a matrix, one launch each, that running clusters of ``cta_group`` CTAs take over (sm_100; PTX ISA 9.7.13.17).

    A scheduler warp calls ``run_scheduler``; every other role has a ``worker``.  In shared memory are the answer (16 bytes), a
    barrier that tells that it has arrived, and one that tells that it was read, which takes ``finish_arrivals`` arrivals a
    round: one of each role (and of the scheduler) in every CTA of the cluster.
    """

    def __init__(
        self, pool: Any, num_m_tiles: int, num_n_tiles: int, l2_group_size: int, cta_group: int, finish_arrivals: int
    ) -> None:
        self.num_m_tiles, self.num_n_tiles = num_m_tiles, num_n_tiles
        self.l2_group_size, self.cta_group = l2_group_size, cta_group
        self.sched_arr = Pipeline(pool, 1, full="tma", empty="mbar", init_empty=1)
        self.sched_fin = Pipeline(pool, 1, full="mbar", empty="mbar", init_empty=finish_arrivals)
        self.clc_handle = pool.alloc((4,), "uint32", align=HANDLE_BYTES)
        self._done = local_scalar("int32")
        self._next = local_scalar("uint32")

    def worker(self, prefix: str) -> LaunchControlWorker:
        """A role's view."""
        return LaunchControlWorker(self, prefix)

    def query(self) -> Expr:
        """The first CTA of the cluster whose launch was cancelled, or ``DRAINED``."""
        return call("ptx.clc_query_cancel", address_of(self.clc_handle[0]))

    def tile_of(self, cta: Expr) -> Expr:
        """The number of the cluster that a CTA is in."""
        return cta // self.cta_group

    def run_scheduler(self, cbx: Any) -> None:
        """Ask for launches to cancel until there are none; ``cbx`` is the CTA's rank in its cluster, of which 0 asks."""
        with if_then(call("ptx.elect_sync")):
            arrived, finished = PipelineState(1, 0), PipelineState(1, 1)
            store(self._done, 0)
            with while_loop(EQ(self._done, const(0, "int32"))):
                with if_then(EQ(cbx, const(0, "int32"))):
                    self.sched_fin.empty.wait(0, finished.phase)
                    finished.advance()
                self.sched_arr.full.arrive(0, HANDLE_BYTES)
                with if_then(EQ(cbx, const(0, "int32"))):
                    emit_call("ptx.clc_try_cancel", address_of(self.clc_handle[0]), self.sched_arr.full.ptr_to([0]))
                self.sched_arr.full.wait(0, arrived.phase)
                arrived.advance()
                store(self._next, self.query())
                self.sched_fin.empty.arrive(0, remote=0, pred=True)
                with if_then(EQ(self._next, const(DRAINED, "uint32"))):
                    store(self._done, 1)
