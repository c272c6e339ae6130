"""Copies between tensor memory and registers by a CTA of several warpgroups: one for each warpgroup, of what is its own.

Warp w reaches lanes 32 (w % 4) to 32 (w % 4) + 31 of tensor memory (PTX ISA 9.7.16.2.3.1), so the threads of every warpgroup
reach all lanes, and a layout of registers over a whole CTA gives each warpgroup columns of its own, or copies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise, product

from ...errors import LayoutError
from ...ir import EQ, BufferRegion, ExecScope, Expr, IfThenElse, IntImm, Range, Stmt, TilePrimitiveCall, const
from ...ir.arith import binary
from ...layout import TileLayout
from ...layout.slicing import slice_layout
from ...layout.tile import Iter
from ..sharing.holders import THREAD_AXES
from ..sharing.threads import WARPGROUP, Launch

#: Axes whose numbers say in which warpgroup a thread is.
CTA_AXES = frozenset(name for name, (_, bits) in THREAD_AXES.items() if bits >= WARPGROUP)


@dataclass(frozen=True)
class Digit:
    """A digit of a dimension: ``extent`` values; ``step`` threads (``thread``) or registers of elements apart; of warpgroups,
    if ``group``, ``step`` counts those."""

    extent: int
    step: int
    thread: bool = False
    group: bool = False


def split_warpgroups(call: TilePrimitiveCall, launch: Launch) -> list[Stmt] | None:
    """The calls of single warpgroups that a ``copy_async`` at CTA scope is, or None if the layout doesn't say so."""
    count = launch.threads // WARPGROUP
    dst, src = call.args[:2]
    regs, tmem = (dst, src) if dst.buffer.scope == "local" else (src, dst)
    if call.scope.kind != "cta" or launch.threads % WARPGROUP or count < 2:
        return None
    if {dst.buffer.scope, src.buffer.scope} != {"local", "tmem"} or _wide(regs) != _wide(tmem):
        return None
    found = _digits(regs)
    if found is None:
        return None
    dims, copies, first = found
    shifts = [first + sum(s) for s in product(*(range(0, d.extent * d.step, d.step) for d in _groups(dims)))]
    moves = [sum(s) for s in product(*(range(0, d.extent * d.step, d.step) for d in copies if d.group))]
    decided = _decided(regs)
    held = sorted({s + m for s in shifts for m in moves})
    if decided and (held[0] < 0 or held[-1] >= count):
        return None
    loading = dst.buffer.scope == "local"
    if not decided and not loading:  # every warpgroup has an element, and nothing says that they are alike
        return None
    everyone = not decided or (held == list(range(count)) and first == 0 and len(shifts) * len(moves) == len(held))
    group = launch.flat_tid() // WARPGROUP
    if everyone and (loading or len(moves) == 1):
        values = [const(0) if not decided else group // d.step % d.extent for d in _groups(dims)]
        return list(_calls(call, regs, tmem, dims, copies, values))
    out: list[Stmt] = []
    writers: dict[int, list[int]] = {}
    for digits in product(*(range(d.extent) for d in _groups(dims))):
        at = first + sum(k * d.step for k, d in zip(digits, _groups(dims)))
        for move in moves if loading else moves[:1]:
            writers[at + move] = list(digits)
    for number, mine in sorted(writers.items()):
        for part in _calls(call, regs, tmem, dims, copies, [const(k) for k in mine]):
            out.append(IfThenElse(binary(EQ, group, const(number)), part, span=call.span))
    return out


def _wide(region: BufferRegion) -> list[int] | None:
    extents = region.const_extents()
    return None if extents is None else [e for e in extents if e != 1]


def _groups(dims: list[list[Digit]]) -> list[Digit]:
    return [d for dim in dims for d in dim if d.group]


def _decided(regs: BufferRegion) -> bool:
    """Whether the layout says in which warpgroup an element is."""
    assert regs.buffer.layout is not None
    return bool(CTA_AXES & set(regs.buffer.layout.axes()))


def _digits(regs: BufferRegion) -> tuple[list[list[Digit]], list[Digit], int] | None:
    """Digits of each dimension, those of copies, and the first warpgroup; None if warpgroups are no digits."""
    layout, extents = regs.buffer.layout, regs.const_extents()
    if not isinstance(layout, TileLayout) or extents is None or not all(isinstance(r.min, IntImm) for r in regs.region):
        return None
    try:
        sliced = slice_layout(layout, regs.buffer.shape, regs.region)
        assert isinstance(sliced, TileLayout)
        grouped, ends = sliced.group(extents)
    except LayoutError:
        return None
    if any(i.axis.is_thread() and i.axis.name not in THREAD_AXES for i in (*grouped.shard, *grouped.replica)):
        return None
    dims: list[list[Digit]] = []
    for low, high in pairwise(ends):
        dim = [split for i in grouped.shard[low:high] for split in _split(i)]
        if any(d is None for d in dim):
            return None
        dims.append([d for d in dim if d is not None])
    copies = [split for i in grouped.replica for split in _split(i)]
    offset = sum(int(v) * THREAD_AXES[a.name][0] for a, v in grouped.offset.items() if a.is_thread())  # type: ignore[arg-type, misc]
    if any(d is None for d in copies) or offset % WARPGROUP:
        return None
    return dims, [d for d in copies if d is not None], offset // WARPGROUP


def _split(i: Iter) -> list[Digit | None]:
    """An iter as digits that are within a warpgroup or count warpgroups, the outer first; a None if it's neither."""
    extent, stride = int(i.extent), int(i.stride)  # type: ignore[arg-type]
    if not i.axis.is_thread():
        return [Digit(extent, stride)]
    step = stride * THREAD_AXES[i.axis.name][0]
    if step < 0:
        return [None]
    if step % WARPGROUP == 0 and step:
        return [Digit(extent, step // WARPGROUP, group=True)]
    if step * extent <= WARPGROUP:
        return [Digit(extent, step, thread=True)]
    if WARPGROUP % step or extent % (WARPGROUP // step):
        return [None]
    inner = WARPGROUP // step
    return [Digit(extent // inner, 1, group=True), Digit(inner, step, thread=True)]


def _calls(
    call: TilePrimitiveCall, regs: BufferRegion, tmem: BufferRegion, dims: list[list[Digit]], copies: list[Digit],
    groups: list[Expr],
) -> Iterator[TilePrimitiveCall]:  # fmt: skip
    """The calls of a warpgroup whose digits have these values: one for each run of neighbours along every dimension."""
    values = iter(groups)
    choices: list[list[tuple[Expr, int, list[Digit]]]] = []  # per dimension: (first coordinate, register, digits kept)
    for dim in dims:
        last = max((k for k, d in enumerate(dim) if d.group), default=-1)
        inner = dim[last + 1 :]
        starts: list[tuple[Expr, int]] = [(const(0), 0)]
        rest = math.prod(d.extent for d in dim)
        for d in dim[: last + 1]:
            rest //= d.extent
            if d.group:
                value = next(values)
                starts = [(at + value * rest, register) for at, register in starts]
            else:  # threads along such a digit would not be a box of tensor memory: no variant takes the call then
                starts = [(at + k * rest, register + k * d.step) for at, register in starts for k in range(d.extent)]
        choices.append([(at, register, inner) for at, register in starts])
    replica = [Iter(d.extent, d.step, "tid_in_wg") for d in copies if d.thread]  # type: ignore[arg-type]
    offset = _register_offset(regs)
    for chosen in product(*choices):
        kept = [d for _, _, inner in chosen for d in inner]
        shard = [Iter(d.extent, d.step, "tid_in_wg" if d.thread else "m") for d in kept] or [Iter(1, 1)]  # type: ignore[arg-type]
        extents = [math.prod(d.extent for d in inner) for _, _, inner in chosen]
        at = {"m": offset + sum(register for _, register, _ in chosen)}
        layout = TileLayout.from_iters(shard, replica, at)
        shape = tuple(const(e) for e in extents)
        view = replace(regs.buffer, shape=shape, strides=(), layout=layout).full_region()
        wide = zip(chosen, extents, regs.const_extents() or ())
        moving = iter((first, e) for (first, _, _), e, whole in wide if whole > 1)
        ranges = []
        for r in tmem.region:
            first, extent = next(moving) if int(r.extent) > 1 else (const(0), 1)  # type: ignore[call-overload]
            ranges.append(Range(r.min + first, const(extent)))
        part = BufferRegion(tmem.buffer, tuple(ranges), span=tmem.span)
        args = (view, part) if call.args[0] is regs else (part, view)
        yield replace(call, args=(*args, *call.args[2:]), scope=ExecScope("warpgroup"), span=call.span)


def _register_offset(regs: BufferRegion) -> int:
    sliced = slice_layout(regs.buffer.layout, regs.buffer.shape, regs.region)
    assert isinstance(sliced, TileLayout)
    return sum(int(v) for a, v in sliced.offset.items() if not a.is_thread())  # type: ignore[arg-type, misc]
