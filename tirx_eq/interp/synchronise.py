"""Barriers and tensor-memory allocation as calls; fences and waits for completion, which do nothing here."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from .collectives import warp_of
from .expressions import evaluate
from .faults import InterpreterError
from .memory import Pointer
from .operands import barrier_keys, constant_operand, each, named_operands, pointer, text, write_at

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]


def _poll(m: Machine, e: Call, threads: Array) -> Array:
    """Whether the phase of the given parity has completed."""
    p = pointer(m, e.args[0], threads)
    parity = each(evaluate(m, e.args[1], threads), threads)
    return np.array(
        [int(m.barriers.find(k, p.storage.name).phase != int(w) % 2) for k, w in zip(barrier_keys(p), parity)]
    )


def _init(m: Machine, e: Call, threads: Array) -> None:
    p = pointer(m, e.args[0], threads)
    counts = each(evaluate(m, e.args[1], threads), threads)
    for key, count in zip(barrier_keys(p), counts):
        m.barriers.init(key, p.storage.name, int(count))


def _arrive(m: Machine, e: Call, threads: Array) -> None:
    """``mbarrier.arrive`` and ``arrive.expect_tx``, also on the barrier of another CTA of the cluster."""
    given = named_operands(e)
    if (pred := given.get("pred")) is not None:
        threads = threads[each(evaluate(m, pred, threads), threads) != 0]
        if not len(threads):
            return
    p = pointer(m, given["bar"], threads)
    if (remote := given.get("remote")) is not None:
        size = m.wave.geometry.cluster_size
        p = Pointer(p.storage, m.wave.cta[threads] // size * size + each(evaluate(m, remote, threads), threads), p.byte)
    count = (
        each(evaluate(m, given["count"], threads), threads)
        if given.get("count") is not None
        else np.ones(len(threads), int)
    )
    expected = (
        each(evaluate(m, given["byte_count"], threads), threads)
        if "byte_count" in given
        else np.zeros(len(threads), int)
    )
    for key, c, b in zip(barrier_keys(p), count, expected):
        m.barriers.arrive(key, p.storage.name, int(c), int(b))


def _complete_tx(m: Machine, e: Call, threads: Array) -> None:
    given = named_operands(e)
    p = pointer(m, given["bar"], threads)
    for key, count in zip(barrier_keys(p), each(evaluate(m, given["tx_count"], threads), threads)):
        m.barriers.transferred(key, p.storage.name, int(count))


def _copies_arrive(m: Machine, e: Call, threads: Array) -> None:
    """``cp.async.mbarrier.arrive``: the copies are complete, so the arrival comes at once.

    Without noinc the arrival was not counted when the barrier was initialised: it changes nothing.
    """
    given = named_operands(e)
    if not bool(int(getattr(given["noinc"], "value", given["noinc"]))):
        return
    p = pointer(m, given["bar"], threads)
    for key in barrier_keys(p):
        m.barriers.arrive(key, p.storage.name)


def _wait(m: Machine, e: Call, threads: Array) -> Array:
    p = pointer(m, e.args[0], threads)
    parity = each(evaluate(m, e.args[1], threads), threads)
    go = np.ones(len(threads), dtype=bool)
    for k, (key, want) in enumerate(zip(barrier_keys(p), parity)):
        bar = m.barriers.find(key, p.storage.name)
        if bar.phase == int(want) % 2:
            bar.waiting.append((int(threads[k]), m.position, int(want) % 2))
            m.blocked_at[threads[k]] = m.position
            go[k] = False
    return threads[go]


def _commit(m: Machine, e: Call, threads: Array) -> None:
    """``tcgen05.commit``: all earlier operations are complete, so it arrives; with a mask, in the CTAs of the mask."""
    given = named_operands(e)
    if (pred := given.get("pred")) is not None:
        threads = threads[each(evaluate(m, pred, threads), threads) != 0]
    p = pointer(m, given["bar"], threads)
    mask = given.get("cta_mask")
    masks = np.zeros(len(threads), int) if mask is None else each(evaluate(m, mask, threads), threads)
    size = m.wave.geometry.cluster_size
    for (storage, row, byte), bits in zip(barrier_keys(p), masks):
        rows = [row] if not bits else [row // size * size + k for k in range(size) if int(bits) >> k & 1]
        for r in rows:
            m.barriers.arrive((storage, r, byte), p.storage.name)


def _sync(kind: str) -> Handler:
    """A barrier of all running threads of a unit."""

    def apply(m: Machine, e: Call, threads: Array) -> Array:
        m.blocked_at[threads] = m.position
        cta = m.wave.cta[threads]
        unit = {"warp": cta, "cta": cta, "cluster": cta // m.wave.geometry.cluster_size, "grid": cta * 0}[kind]
        if kind == "grid" and m.wave.rows != m.wave.geometry.ctas:
            raise InterpreterError("grid_sync: the grid doesn't run at once here")
        warp = m.wave.warp[threads] if kind == "warp" else cta * 0
        for u, w in sorted(set(zip(unit.tolist(), warp.tolist()))):
            here = threads[(unit == u) & (warp == w)]
            key = ("warp", u, w, "sync") if kind == "warp" else (kind, u, 0)
            m.barriers.sync(key, m.position, here.tolist(), None)
        return threads[:0]

    return apply


def _storage_sync(m: Machine, e: Call, threads: Array) -> Array:
    found: Array = _sync("warp" if text(e.args[0]) == "warp" else "cta")(m, e, threads)
    return found


def _bar(waits: bool, count: Callable[[Any, Call, Any], Array]) -> Handler:
    """``bar.sync``/``bar.arrive`` on a numbered barrier with a number of threads."""

    def apply(m: Machine, e: Call, threads: Array) -> Array | None:
        numbers = each(evaluate(m, e.args[0], threads), threads)
        counts = each(count(m, e, threads), threads)
        cta = m.wave.cta[threads]
        if waits:
            m.blocked_at[threads] = m.position
        for u, number, c in sorted(set(zip(cta.tolist(), numbers.tolist(), counts.tolist()))):
            here = threads[(cta == u) & (numbers == number)]
            m.barriers.sync(("cta", u, int(number)), m.position, here.tolist(), int(c), waits)
        return threads[:0] if waits else None

    return apply


def _cluster_arrive(m: Machine, e: Call, threads: Array) -> None:
    m.barriers.cluster_arrive(threads.tolist())


def _cluster_wait(m: Machine, e: Call, threads: Array) -> Array:
    passing = np.asarray(m.barriers.cluster_wait(threads.tolist(), m.position), dtype=np.int64)
    stay = np.setdiff1d(threads, passing)
    m.blocked_at[stay] = m.position
    return passing


def _tmem_alloc(m: Machine, e: Call, threads: Array) -> None:
    """``tcgen05.alloc``: the first free columns; their contents are undefined."""
    columns = constant_operand(e.args[1], "the number of columns")
    if columns not in (32, 64, 128, 256, 512):
        raise InterpreterError(f"tcgen05.alloc of {columns} columns: a power of two from 32 to 512 is wanted")
    p = pointer(m, e.args[0], threads)
    done: set[int] = set()
    for warp, row, byte in zip(warp_of(m, threads).tolist(), p.rows.tolist(), p.byte.tolist()):
        if warp in done:
            continue
        done.add(warp)
        free = [c for c in range(0, 512, 32) if not m.tmem_owned[row, c : c + columns].any() and c + columns <= 512]
        if not free:
            raise InterpreterError(f"tcgen05.alloc: {columns} columns are wanted, but no such range is free")
        m.tmem_owned[row, free[0] : free[0] + columns] = True
        m.tmem.defined[row * 128 : row * 128 + 128, free[0] * 4 : (free[0] + columns) * 4] = 0
        one = np.asarray([row])
        write_at(m, Pointer(p.storage, one, np.asarray([byte])), np.asarray([free[0]]), "uint32")


def _tmem_dealloc(m: Machine, e: Call, threads: Array) -> None:
    columns = constant_operand(e.args[1], "the number of columns")
    address = each(evaluate(m, e.args[0], threads), threads)
    done: set[int] = set()
    for warp, row, at in zip(warp_of(m, threads).tolist(), m.wave.cta[threads].tolist(), address.tolist()):
        if warp in done:
            continue
        done.add(warp)
        at = int(at) & 0xFFFF
        if not m.tmem_owned[row, at : at + columns].all():
            raise InterpreterError(
                f"tcgen05.dealloc of columns {at} to {at + columns - 1}, which are not all allocated"
            )
        m.tmem_owned[row, at : at + columns] = False


def _trap(m: Machine, e: Call, threads: Array) -> None:
    holds = each(evaluate(m, e.args[0], threads), threads) != 0
    if not holds.all():
        raise InterpreterError(f"trap_when_assert_failed: {m.wave.describe(int(threads[np.argmin(holds)]))}")


#: Ordering and completion: everything is complete at once here.
NO_EFFECT = frozenset(
    f"tirx.{n}" for n in (
        "ptx.fence", "ptx.fence_proxy_async", "ptx.fence_mbarrier_init", "ptx.griddepcontrol_wait",
        "ptx.griddepcontrol_launch_dependents", "ptx.setmaxnreg", "ptx.cp_async_commit_group",
        "ptx.cp_async_wait_group", "prefetch",
        "ptx.cp_async_bulk_commit_group", "ptx.cp_async_bulk_wait_group", "ptx.prefetch_tensormap",
        "ptx.tcgen05_relinquish_alloc_permit", "ptx.tcgen05_fence_before_thread_sync",
        "ptx.tcgen05_fence_after_thread_sync", "ptx.tcgen05_wait_ld", "ptx.tcgen05_wait_st", "ptx.wgmma_fence",
        *(f"cuda.iket_{n}" for n in ("mark", "range_start", "range_end", "range_push", "range_pop")),
        "ptx.wgmma_commit_group", "ptx.wgmma_wait_group", "cuda.thread_fence", "cuda.nano_sleep", "cuda.printf",
    )
)  # fmt: skip


VALUES: dict[str, Handler] = {
    "tirx.ptx.mbarrier_try_wait_once": _poll, "tirx.ptx.mbarrier_test_wait_parity": _poll,
}  # fmt: skip

EFFECTS: dict[str, Handler] = {
    "tirx.ptx.mbarrier_init": _init, "tirx.ptx.mbarrier_arrive": _arrive, "tirx.ptx.mbarrier_arrive_expect_tx": _arrive,
    "tirx.ptx.mbarrier_arrive_no_complete": _arrive, "tirx.ptx.mbarrier_complete_tx": _complete_tx,
    "tirx.ptx.cp_async_mbarrier_arrive": _copies_arrive, "tirx.ptx.mbarrier_try_wait": _wait,
    "tirx.ptx.mbarrier_try_wait_acquire_cluster": _wait,
    "tirx.ptx.tcgen05_commit": _commit, "tirx.cuda.cta_sync": _sync("cta"), "tirx.cuda.warp_sync": _sync("warp"),
    "tirx.cuda.cluster_sync": _sync("cluster"), "tirx.cuda.grid_sync": _sync("grid"),
    "tirx.tvm_storage_sync": _storage_sync,
    "tirx.cuda.warpgroup_sync": _bar(True, lambda m, e, t: np.int64(128)),
    "tirx.ptx.bar_sync": _bar(True, lambda m, e, t: evaluate(m, e.args[1], t)),
    "tirx.ptx.barrier_sync": _bar(True, lambda m, e, t: evaluate(m, e.args[1], t)),
    "tirx.ptx.bar_arrive": _bar(False, lambda m, e, t: evaluate(m, e.args[1], t)),
    "tirx.ptx.barrier_cluster_arrive": _cluster_arrive, "tirx.ptx.barrier_cluster_wait": _cluster_wait,
    "tirx.ptx.tcgen05_alloc": _tmem_alloc, "tirx.ptx.tcgen05_dealloc": _tmem_dealloc,
    "tirx.cuda.trap_when_assert_failed": _trap,
}  # fmt: skip
