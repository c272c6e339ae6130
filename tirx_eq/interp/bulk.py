"""Copies of bytes by address: ``cp.async`` and its bulk forms, and the cluster launch control that answers by such."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from .expressions import evaluate
from .faults import InterpreterError
from .memory import Pointer
from .operands import barrier_keys, constant_operand, each, named_operands, pointer, read_at, text, write_at

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]


def move_bytes(m: Machine, dst: Pointer, src: Pointer, size: Array, threads: Array) -> None:
    """Copy ``size`` bytes (per thread) at once."""
    counts = each(size, threads)
    for count in np.unique(counts):
        here = np.flatnonzero(counts == count)
        width = next(w for w in (8, 4, 2, 1) if count % w == 0)
        dtype = f"uint{8 * width}"
        a, b = (Pointer(p.storage, each(p.rows, threads)[here], each(p.byte, threads)[here]) for p in (dst, src))
        for k in range(0, int(count), width):
            write_at(m, a.moved(k), read_at(m, b.moved(k), dtype, threads[here]), dtype)


def _cp_async(m: Machine, e: Call, threads: Array) -> None:
    """``cp.async``; where its predicate is false nothing is read and (``fill_mode="zero"``) zeros are written."""
    given = named_operands(e)
    size = constant_operand(given["cp_size"], "the size of cp.async")
    predicate = given.get("predicate", -1)
    holds = each(evaluate(m, predicate, threads), threads) != 0
    dst = pointer(m, given["dst_ptr"], threads)
    if holds.any():
        some = threads[holds]
        move_bytes(m, _part(dst, holds), pointer(m, given["src_ptr"], some), np.int64(size), some)
    if text(given.get("fill_mode", "")) == "zero" and not holds.all():
        for k in range(size):
            write_at(m, _part(dst, ~holds).moved(k), np.int64(0), "uint8")


def _part(p: Pointer, keep: Array) -> Pointer:
    return Pointer(p.storage, p.rows[keep], p.byte[keep])


def _bulk(*, barrier: str | None) -> Handler:
    """A bulk copy of ``num_bytes`` (or ``size``); ``barrier`` names the operand of the mbarrier that gets the bytes."""

    def apply(m: Machine, e: Call, threads: Array) -> None:
        given = named_operands(e)
        size = each(evaluate(m, given.get("num_bytes", given.get("size")), threads), threads)
        if np.any(size % 16):
            raise InterpreterError(f"'{e.op.name}' of {int(size[0])} bytes: a multiple of 16 is wanted")
        dst, src = pointer(m, given["dst_ptr"], threads), pointer(m, given["src_ptr"], threads)
        bars = [] if barrier is None else [pointer(m, given[barrier], threads)]
        mask = given.get("cta_mask")
        bits = np.zeros(len(threads), int) if mask is None else each(evaluate(m, mask, threads), threads)
        cluster = m.wave.geometry.cluster_size
        multicast = bool(int(getattr(given.get("multicast", 0), "value", given.get("multicast", 0))))
        for rank in range(cluster) if multicast else (None,):
            keep = np.ones(len(threads), dtype=bool) if rank is None else (bits >> rank & 1) != 0
            if not keep.any():
                continue
            first = m.wave.cta[threads] // cluster * cluster

            def at(p: Pointer, rank: int | None = rank, keep: Array = keep, first: Array = first) -> Pointer:
                return _part(p if rank is None else Pointer(p.storage, first + rank, p.byte), keep)

            move_bytes(m, at(dst), _part(src, keep), size[keep], threads[keep])
            for bar in bars:
                for key, count in zip(barrier_keys(at(bar)), size[keep]):
                    m.barriers.transferred(key, bar.storage.name, int(count))

    return apply


def _try_cancel(m: Machine, e: Call, threads: Array) -> None:
    """All CTAs of the grid run here, so there is none to take over: 16 bytes say so, in every CTA of the cluster."""
    handle, bar = (pointer(m, a, threads) for a in e.args[:2])
    cluster = m.wave.geometry.cluster_size
    first = m.wave.cta[threads] // cluster * cluster
    for rank in range(cluster):
        for k in (0, 8):
            write_at(m, Pointer(handle.storage, first + rank, handle.byte + k), np.int64(0), "uint64")
        for key in barrier_keys(Pointer(bar.storage, first + rank, bar.byte)):
            m.barriers.transferred(key, bar.storage.name, 16)


def _query_cancel(m: Machine, e: Call, threads: Array) -> Array:
    """No CTA was taken over: 0xFFFFFFFF."""
    read_at(m, pointer(m, e.args[0], threads), "uint64", threads)
    return np.asarray(0xFFFFFFFF, dtype=np.int64)


VALUES: dict[str, Handler] = {"tirx.ptx.clc_query_cancel": _query_cancel}

EFFECTS: dict[str, Handler] = {
    "tirx.ptx.cp_async": _cp_async, "tirx.ptx.clc_try_cancel": _try_cancel,
    "tirx.ptx.cp_async_bulk_g2s_cta": _bulk(barrier="mbarrier_ptr"),
    "tirx.ptx.cp_async_bulk_g2s_cluster": _bulk(barrier="mbarrier_ptr"),
    "tirx.ptx.cp_async_bulk_s2s_cluster": _bulk(barrier="mbarrier"), "tirx.ptx.cp_async_bulk_s2g": _bulk(barrier=None),
    "tirx.ptx.cp_async_bulk_shared_to_cluster": _bulk(barrier="mbar"),
}  # fmt: skip
