"""Calls that the threads of a warp or a CTA execute together: shuffles, votes, reductions, election."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from . import values
from .expressions import evaluate
from .faults import InterpreterError
from .operands import arguments, each, text

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]


#: Calls that the threads of a warp or CTA execute together.
TOGETHER: dict[str, str] = {
    **{f"tirx.cuda.{n}": "warp" for n in (
        "__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__activemask", "ballot_sync",
        "warp_reduce", "reduce_add_sync_u32", "reduce_min_sync_u32")},
    **{f"tirx.tvm_warp_{n}": "warp" for n in ("shuffle", "shuffle_up", "shuffle_down", "shuffle_xor", "activemask")},
    "tirx.ptx.elect_sync": "warp", "tirx.ptx.any_sync": "warp", "tirx.ptx.tcgen05_alloc": "warp",
    "tirx.ptx.tcgen05_dealloc": "warp", "tirx.cuda.syncthreads_and": "cta", "tirx.cuda.syncthreads_or": "cta",
    "tirx.cuda.cta_reduce": "cta",
}  # fmt: skip


def _lane_of(m: Machine, threads: Array) -> tuple[Array, Array]:
    """Per thread: the first thread of its warp (numbered in the wave), and its lane."""
    lane = m.wave.tid[threads] % 32
    return threads - lane, lane


def _exchange(m: Machine, value: Array, threads: Array, source: Array, in_segment: Array) -> Array:
    """The value that lane ``source`` of the warp holds; the thread's own where the source is outside of its segment."""
    first, lane = _lane_of(m, threads)
    partner = np.where(in_segment, source, lane) + first
    place = np.searchsorted(threads, partner)
    bad = (place >= len(threads)) | (threads[np.minimum(place, len(threads) - 1)] != partner)
    if bad.any():
        t = int(threads[np.argmax(bad)])
        raise InterpreterError(
            f"a shuffle reads lane {int((partner - first)[np.argmax(bad)])}, which takes no part ({m.wave.describe(t)})"
        )
    return each(value, threads)[place]


def _shuffle(kind: str) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        _, value, operand, width = arguments(m, e, threads)[:4]
        w = int(np.asarray(width).flat[0])
        _, lane = _lane_of(m, threads)
        n = each(operand, threads).astype(np.int64)
        start = lane // w * w
        source = {"": start + n % w, "up": lane - n, "down": lane + n, "xor": lane ^ n}[kind]
        return _exchange(m, value, threads, source, (source >= start) & (source < start + w))

    return apply


_REDUCERS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": lambda a, b: a + b, "max": values.maximum, "min": values.minimum,
}  # fmt: skip


def _warp_reduce(m: Machine, e: Call, threads: Array) -> Array:
    value = evaluate(m, e.args[0], threads)
    op = text(e.args[1])
    width = int(e.args[2]) if len(e.args) > 2 else 32
    _, lane = _lane_of(m, threads)
    held = each(value, threads)
    step = width // 2  # the farthest lanes first, as the device does
    while step:
        other = _exchange(m, held, threads, lane ^ step, np.ones(len(threads), dtype=bool))
        held = _REDUCERS[op](held, other)
        step //= 2
    return held


def _over_units(units: Array, value: Array, op: str) -> Array:
    """A reduction over the threads of each unit, given back to all of them."""
    out = np.array(value)
    for u in np.unique(units):
        here = units == u
        total = value[here][0]
        for v in value[here][1:]:
            total = _REDUCERS[op](total, v)
        out[here] = total
    return out


def _whole_cta(m: Machine, threads: Array, what: str) -> None:
    for row in np.unique(m.wave.cta[threads]):
        if np.count_nonzero(m.wave.cta[threads] == row) != np.count_nonzero(m.barriers.live & (m.wave.cta == row)):
            raise InterpreterError(f"{what} is reached by a part of the CTA's threads only")


def _cta_reduce(m: Machine, e: Call, threads: Array) -> Array:
    _whole_cta(m, threads, "cta_reduce")
    held, op = each(evaluate(m, e.args[0], threads), threads), text(e.args[1])
    out = np.array(held)
    for cta in np.unique(m.wave.cta[threads]):
        here = m.wave.cta[threads] == cta
        whole = held[here]
        warps = [_butterfly(whole[k : k + 32], op) for k in range(0, len(whole), 32)]
        out[here] = _butterfly(np.asarray(warps), op)
    return out


def _butterfly(held: Array, op: str) -> Any:
    """All of a power of two of values combined, the farthest first."""
    while len(held) > 1:
        held = _REDUCERS[op](held[: len(held) // 2], held[len(held) // 2 :])
    return held[0]


def _cta_vote(op: str) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        _whole_cta(m, threads, "syncthreads")
        holds = each(evaluate(m, e.args[0], threads), threads) != 0
        return _over_units(m.wave.cta[threads], holds.astype(np.int64), op)

    return apply


def warp_of(m: Machine, threads: Array) -> Array:
    return _lane_of(m, threads)[0]


def _ballot(m: Machine, e: Call, threads: Array) -> Array:
    holds = each(evaluate(m, e.args[1], threads), threads) != 0 if e.args else np.ones(len(threads), dtype=bool)
    first, lane = _lane_of(m, threads)
    out = np.zeros(len(threads), dtype=np.int64)
    for u in np.unique(first):
        here = first == u
        out[here] = int(np.sum(np.where(holds[here], np.int64(1) << lane[here], 0)))
    return out


def _any(m: Machine, e: Call, threads: Array) -> Array:
    return (_ballot(m, e, threads) != 0).astype(np.int64)


def _warp_total(op: str) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        total = _over_units(warp_of(m, threads), each(evaluate(m, e.args[1], threads), threads), op)
        return values.wrap(total, e.dtype)

    return apply


def _elect(m: Machine, e: Call, threads: Array) -> Array:
    """One lane of each warp: the lowest that takes part."""
    _, first = np.unique(warp_of(m, threads), return_index=True)
    out = np.zeros(len(threads), dtype=np.int64)
    out[first] = 1
    return out


VALUES: dict[str, Handler] = {
    "tirx.ptx.elect_sync": _elect, "tirx.ptx.any_sync": _any,
    "tirx.cuda.warp_reduce": _warp_reduce, "tirx.cuda.cta_reduce": _cta_reduce,
    "tirx.cuda.ballot_sync": _ballot, "tirx.cuda.__activemask": _ballot,
    "tirx.cuda.syncthreads_and": _cta_vote("min"), "tirx.cuda.syncthreads_or": _cta_vote("max"),
    "tirx.cuda.reduce_add_sync_u32": _warp_total("sum"), "tirx.cuda.reduce_min_sync_u32": _warp_total("min"),
    "tirx.tvm_warp_activemask": _ballot,
    **{f"tirx.tvm_warp_shuffle{'_' if k else ''}{k}": _shuffle(k) for k in ("", "up", "down", "xor")},
    "tirx.cuda.__shfl_sync": _shuffle(""), "tirx.cuda.__shfl_up_sync": _shuffle("up"),
    "tirx.cuda.__shfl_down_sync": _shuffle("down"), "tirx.cuda.__shfl_xor_sync": _shuffle("xor"),
}  # fmt: skip
