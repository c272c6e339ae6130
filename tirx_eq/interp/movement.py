"""Copies: element for element between regions, with what the asynchronous ones do to barriers and to other CTAs."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import BufferRegion, Expr, StringImm, const
from ..ir import dtype as dt
from . import values
from .faults import InterpreterError
from .memory import Pointer
from .operands import barrier_keys, pointer
from .tile import Run, Tile, _fit, combine

if TYPE_CHECKING:
    from .access import Units

Array = Any


def copy(run: Run) -> None:
    """``dst = src``, of one dtype; ``permute_layout`` is a copy whose operands may share storage."""
    dst, src = run.call.operand("dst"), run.call.operand("src")
    _same_dtype(run, dst, src)
    run.m.access.write(dst, run.units, _fit(run.read(src), run.extents(dst), "'src'"))


def _same_dtype(run: Run, dst: BufferRegion, src: BufferRegion) -> None:
    if dst.dtype != src.dtype:
        raise InterpreterError(
            f"{run.call.op.short_name}: '{src.buffer.name}' has {src.dtype}, but '{dst.buffer.name}' {dst.dtype}",
            hint="use cast",
        )


#: Reductions of the copy engine that tile primitives don't have.
_BITWISE = {
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "inc": lambda a, b: np.where(a >= b, 0, a + 1), "dec": lambda a, b: np.where((a == 0) | (a > b), b, a - 1),
}  # fmt: skip


def copy_async(run: Run) -> None:
    """The same, complete at once.

    Config: ``mbar`` gets the bytes; ``cta_mask`` writes to the same place in other CTAs of the cluster (and their
    mbars), ``remote_cta_id`` in one; ``oob`` ("zero", "nan"), or a tensor map of the user's own, gives a value to what
    is outside of the global buffer; ``use_tma_reduce`` combines with the destination; ``gather4`` takes four rows.
    """
    config = run.call.config
    dst, src = run.call.operand("dst"), run.call.operand("src")
    is_tma = str(run.call.dispatch or "").startswith("tma") or {"mbar", "oob", "use_tma_reduce", "cta_mask"} & set(
        config
    )
    op = _name(config.get("use_tma_reduce"))
    parts = _parts(run, bool(op))
    if len(parts) > 1:
        for some in parts:
            copy_async(Run(run.m, run.call, run.m.access.units(some, run.call.scope.kind, run.units.fixed)))
        return
    if dst.buffer.scope == "tmem" and _group(run) == 2:
        _copy_in_pair(run, dst, src)
        return
    if is_tma:
        value = _payload(run, dst, src)
    else:
        _same_dtype(run, dst, src)
        value = _fit(run.read(src), run.extents(dst), "'src'")
    if op:
        before = run.read(dst).array
        bitwise = _BITWISE.get(op)
        value = np.asarray(bitwise(before, value) if bitwise else combine({"add": "sum"}.get(op, op), before, value))
    clip = _may_overhang(run) and dst.buffer.scope == "global"
    targets = _targets(run)
    for units in targets:
        run.m.access.write(dst, units, value, clip=clip)
    if config.get("mbar") is not None:
        _complete(run, dst, targets)


def _parts(run: Run, one_by_one: bool) -> list[Array]:
    """The threads in groups that can copy at once: those of one mask of CTAs, or each unit on what those before it left."""
    units = run.units
    key = np.arange(units.count)
    if not one_by_one:
        mask = run.call.config.get("cta_mask")
        key = np.zeros(units.count, int) if mask is None else run.m.access.uniform(mask, units, "cta_mask").astype(np.int64)
    return [units.threads[key[units.unit] == k] for k in np.unique(key)]


def _group(run: Run) -> int:
    """CTAs that work together on the call: ``cta_group``."""
    return int(const(run.call.config.get("cta_group", 1)))  # type: ignore[call-overload]


def _copy_in_pair(run: Run, dst: BufferRegion, src: BufferRegion) -> None:
    """Shared to tensor memory with cta_group=2: the same regions, in each CTA of the pair between its own memories."""
    if run.m.wave.geometry.cluster_size % 2:
        raise InterpreterError("copy_async with cta_group=2 needs a cluster with an even number of CTAs")
    _same_dtype(run, dst, src)
    for k in range(2):
        mine = run.units.in_ctas(run.units.rows // 2 * 2 + k)
        value = Tile(run.m.access.read(src, mine), src.dtype)
        run.m.access.write(dst, mine, _fit(value, run.extents(dst), "'src'"))


def _name(value: Any) -> str:
    if isinstance(value, StringImm):
        value = value.value
    return str(value) if value else ""


def _may_overhang(run: Run) -> bool:
    """Whether the region may reach beyond the global buffer: the tensor map takes care of what is outside."""
    return run.call.config.get("oob") is not None or run.call.dispatch == "tma_explicit"


def _payload(run: Run, dst: BufferRegion, src: BufferRegion) -> Array:
    """A bulk tensor copy moves bytes: equal extents, or as many bits differently arranged."""
    oob = run.call.config.get("oob")
    fill = {"nan": float("nan")}.get(_name(oob), 0.0)
    outside = src.buffer.scope == "global" and _may_overhang(run)
    gather = run.call.config.get("gather4")
    if gather is not None:
        tile = _gather(run, src, gather, fill)
    else:
        tile = Tile(run.m.access.read(src, run.units, fill=fill if outside else None), src.dtype)
    extents = run.extents(dst)
    if dst.dtype == src.dtype and [e for e in tile.extents if e != 1] == [e for e in extents if e != 1]:
        return _fit(tile, extents, "'src'")
    have = prod(tile.extents) * dt.storage_bits(src.dtype)
    need = prod(extents) * dt.storage_bits(dst.dtype)
    if have != need or dt.storage_bits(src.dtype) % 8 or dt.storage_bits(dst.dtype) % 8:
        raise InterpreterError(f"copy_async: 'src' has {have} bits, but 'dst' takes {need}")
    raw = values.to_bytes(tile.array, src.dtype).reshape(run.units.count, -1)
    made = values.from_bytes(raw.reshape(run.units.count, prod(extents), -1), dst.dtype)
    return made.reshape(run.units.count, *extents)


def _gather(run: Run, src: BufferRegion, rows: Any, fill: float) -> Tile:
    """Four rows of a two-dimensional source, each with the region's columns."""
    from ..ir import Range

    parts = []
    for r in rows:
        low = r if isinstance(r, Expr) else run.call.operand("src").region[0].min * 0 + int(r)
        region = BufferRegion(src.buffer, (Range(low, src.region[0].extent), *src.region[1:]))
        parts.append(run.m.access.read(region, run.units, fill=fill))
    return Tile(np.concatenate(parts, axis=1), src.dtype)


def _targets(run: Run) -> list[Units]:
    """The units with the CTAs whose memory they write."""
    config = run.call.config
    size = run.m.wave.geometry.cluster_size
    first = run.units.rows // size * size
    if not run.units.within_cta and any(config.get(k) is not None for k in ("remote_cta_id", "cta_mask")):
        raise InterpreterError("copy_async at cluster scope writes where its layout says, not to the CTAs that it names")
    if config.get("remote_cta_id") is not None:
        rank = run.m.access.uniform(config["remote_cta_id"], run.units, "remote_cta_id").astype(np.int64)
        _check_rank(rank, size)
        return [run.units.in_ctas(first + rank)]
    mask = config.get("cta_mask")
    if mask is None:
        return [run.units]
    bits = int(run.m.access.uniform(mask, run.units, "cta_mask")[0])
    if not bits:
        return [run.units]
    chosen = [k for k in range(16) if bits >> k & 1]
    _check_rank(np.asarray(chosen), size)
    return [run.units.in_ctas(first + k) for k in chosen]


def _check_rank(rank: Array, size: int) -> None:
    if np.any((rank < 0) | (rank >= size)):
        raise InterpreterError(f"copy_async: there is no CTA {int(np.max(rank))} in a cluster of {size}")


def _complete(run: Run, dst: BufferRegion, targets: list[Units]) -> None:
    """Tell the mbarrier of each CTA written to how many bytes arrived there."""
    if not run.units.within_cta:
        _complete_in_ctas(run, dst)
        return
    count = prod(run.extents(dst)) * dt.storage_bits(dst.dtype) // 8
    p = pointer(run.m, run.call.config["mbar"], run.units.first)
    multicast = len(targets) > 1 or targets[0] is not run.units
    # For a pair of CTAs (cta_group=2) the barrier of the same parity in each receiver's pair is told.
    pair = _group(run) == 2 and bool(np.any(p.rows != run.units.rows))
    for units in targets:
        rows = p.rows
        if multicast:
            rows = units.rows // 2 * 2 + p.rows % 2 if pair else p.rows - run.units.rows + units.rows
        here = Pointer(p.storage, np.broadcast_to(rows, p.byte.shape), p.byte)
        for key in barrier_keys(here):
            run.m.barriers.transferred(key, p.storage.name, count)


def _complete_in_ctas(run: Run, dst: BufferRegion) -> None:
    """Tell each CTA's own barrier of the bytes that arrived there."""
    _, places, _ = run.m.access.places(dst, run.units)
    rows = np.concatenate([np.broadcast_to(p.rows, p.bit.shape).ravel() for p in places])
    here, first = np.unique(run.m.wave.cta[run.units.threads], return_index=True)
    p = pointer(run.m, run.call.config["mbar"], run.units.threads[first])
    for row, key in zip(here, barrier_keys(p)):
        count = int(np.count_nonzero(rows == row)) * dt.storage_bits(dst.dtype) // 8
        if count:
            run.m.barriers.transferred(key, p.storage.name, count)
