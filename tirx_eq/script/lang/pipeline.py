"""Software pipelines over mbarriers: the state of a ring, barriers by who signals them, full/empty pairs."""

from __future__ import annotations

from typing import Any

from ...errors import IRError
from ...ir import EQ, Buffer, Call, Expr, Op, PointerType, PrimType, Var, const
from ..buffers import decl_buffer, local_scalar
from ..builder import current
from ..control import bind, unroll
from ..meta import meta_class
from ..views import ptr_to
from .emission import call, emit_call, if_then, store


@meta_class
class PipelineState:
    """Stage and phase of a ring of ``depth`` slots; ``advance`` goes to the next slot, the phase flips on wrapping."""

    def __init__(self, depth: int, phase: Any = None) -> None:
        self.stage = local_scalar("int32")
        self.phase = local_scalar("int32")
        self.depth = depth
        if phase is not None:
            self.init(phase)

    def init(self, phase: Any) -> None:
        """Start at stage 0 with ``phase``."""
        store(self.stage, 0)
        store(self.phase, phase)

    def advance(self) -> None:
        """Go to the next slot."""
        if self.depth > 1:
            store(self.stage, self.stage + 1)
            with if_then(EQ(self.stage, const(self.depth, "int32"))):
                store(self.stage, 0)
                store(self.phase, self.phase ^ 1)
        else:
            store(self.phase, self.phase ^ 1)


@meta_class
class MBarrier:
    """``depth`` mbarriers in shared memory, signaled by ``mbarrier.arrive``.

    ``phase_offset`` is XORed into the phase of every wait; ``leader`` is the condition under which one thread
    initialises them (default: thread 0 of the CTA).
    """

    def __init__(self, pool: Any, depth: int, phase_offset: int = 0, leader: Any = None) -> None:
        self.buf: Buffer = pool.alloc((depth,), "uint64", align=8)
        self.depth = depth
        self.phase_offset = phase_offset
        rank = None if leader is not None else call("cuda.thread_rank")
        self.leader = leader if rank is None else EQ(rank, const(0, "int32"))
        self._local = self.buf
        self._remote_rank: Any = None

    def _refuse_remote(self, what: str) -> None:
        if self._remote_rank is not None:
            raise IRError(f"a remote view of a barrier can't be {what}")

    def init(self, count: Any) -> None:
        """Emit the initialisation for ``count`` arrivals per phase."""
        self._refuse_remote("initialised")
        with if_then(self.leader), unroll(self.depth) as i:
            emit_call("ptx.mbarrier.init", self.ptr_to([i]), count)

    def wait(self, stage: Any, phase: Any) -> None:
        """Emit a wait for the phase of a slot to complete."""
        self._refuse_remote("waited on")
        emit_call("ptx.mbarrier.try_wait", self.ptr_to([stage]), phase ^ self.phase_offset)

    def _target(self, stage: Any, remote: Any) -> tuple[Expr, Any]:
        if self._remote_rank is None:
            return self.ptr_to([stage]), remote
        if remote is not None:
            raise IRError("a remote view of a barrier has its target; remote= can't be given too")
        return ptr_to(self._local, [stage]), self._remote_rank

    def arrive(self, stage: Any, remote: Any = None, pred: Any = None, count: Any = None) -> None:
        """Emit an arrival: at this CTA's barrier, or at that of CTA ``remote`` of the cluster."""
        bar, rank = self._target(stage, remote)
        if rank is None:
            emit_call("ptx.mbarrier.arrive", bar)
        else:
            emit_call("ptx.mbarrier.arrive", bar, remote=rank, pred=_predicate(pred), count=count)

    def ptr_to(self, indices: Any) -> Expr:
        """The address of a slot."""
        return ptr_to(self.buf, indices)

    def remote_view(self, rank: Any) -> Any:
        """The same barriers in the shared memory of CTA ``rank`` of the cluster."""
        self._refuse_remote("viewed remotely again")
        address = call("ptx.map_shared_rank", self.ptr_to([0]), rank)
        pointer = Var("remote_mbar_ptr", PointerType(PrimType("uint64"), "shared"))
        bind(Call("handle", Op.get("tirx.reinterpret"), (address,)), var=pointer)
        made = object.__new__(type(self))
        made.buf = decl_buffer([self.depth], "uint64", data=pointer, scope="shared")
        made.depth, made.phase_offset, made.leader = self.depth, self.phase_offset, self.leader
        made._local, made._remote_rank = self._local, rank
        return made


def _predicate(pred: Any) -> Expr:
    """The condition of a remote arrival, in a scalar as TIRx keeps it (true if none is given)."""
    scalar = local_scalar("bool")
    current().name(scalar.buffer, "actual_pred")
    store(scalar, True if pred is None else pred)
    return scalar


class TMABar(MBarrier):
    """Barriers signaled by bulk copies: an arrival says how many bytes are expected."""

    def arrive(  # type: ignore[override]
        self, stage: Any, tx_count: Any = None, remote: Any = None, pred: Any = None
    ) -> None:
        """Emit an arrival that expects ``tx_count`` bytes (without: a plain arrival)."""
        bar, rank = self._target(stage, remote)
        path, more = ("ptx.mbarrier.arrive", ()) if tx_count is None else ("ptx.mbarrier.arrive.expect_tx", (tx_count,))
        if rank is None:
            emit_call(path, bar, *more)
        else:
            emit_call(path, bar, *more, remote=rank, pred=_predicate(pred))


class TCGen05Bar(MBarrier):
    """Barriers signaled by ``tcgen05.commit``; one thread must issue it."""

    def arrive(self, stage: Any, cta_group: int = 1, cta_mask: Any = None) -> None:  # type: ignore[override]
        """Emit a commit of the matrix operations issued so far to a slot."""
        if cta_mask is None and cta_group == 1:
            emit_call("ptx.tcgen05.commit", self.ptr_to([stage]))
        else:
            mask = 0 if cta_mask is None else cta_mask
            emit_call("ptx.tcgen05.commit", self.ptr_to([stage]), cta_group=cta_group, cta_mask=mask)


BARRIER_KINDS: dict[str, type[MBarrier]] = {"tma": TMABar, "tcgen05": TCGen05Bar, "mbar": MBarrier}


@meta_class
class Pipeline:
    """A pair of barriers for a ring of ``stages`` slots: ``full`` (data is there) and ``empty`` (the slot is free).

    ``full`` and ``empty`` say who signals: ``"tma"``, ``"tcgen05"`` or ``"mbar"``; both are initialised at once.
    """

    def __init__(
        self, pool: Any, stages: int, *, full: str, empty: str, init_full: Any = 1, init_empty: Any = 1,
        empty_phase_offset: int = 0, leader: Any = None,
    ) -> None:  # fmt: skip
        for kind in (full, empty):
            if kind not in BARRIER_KINDS:
                raise IRError(f"'{kind}' is not a kind of barrier", hint=f"one of {', '.join(BARRIER_KINDS)}")
        self.stages = stages
        self.full = BARRIER_KINDS[full](pool, stages, leader=leader)
        self.full.init(init_full)
        self.empty = BARRIER_KINDS[empty](pool, stages, phase_offset=empty_phase_offset, leader=leader)
        self.empty.init(init_empty)
