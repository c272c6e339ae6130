"""Element-wise primitives whose result goes to memory from several threads that hold it: one of them writes each element.

Where the registers that decide who computes what (the *leader*, see ``sharing/work.py``) are in several threads, as copies that
the layout names, the result is made in registers like those, and ``copy`` has one thread write each element.  Where the leader
is spread over some dimensions only (a factor for each row, in the four lanes that share the row), its copies share the others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import BufferRegion, ExecScope, Op, Range, Stmt, TilePrimitiveCall, const
from ...ir.op import TILE_PREFIX
from ...layout import Iter, TileLayout
from ...layout.grouping import try_group
from ..code.lane_access import register_bytes
from ..context import CallContext, Operand
from ..operations import FAMILIES
from ..sharing.holders import Held
from ..sharing.work import Work, active_threads, aligned_axes, holders_of, leader, owned_work, regions_of
from ..storage import const_shape
from .expand import barrier_between
from .parts import new_registers

SCOPES = ("warp", "warpgroup", "cta")


def stage_copies(c: CallContext) -> list[Stmt] | None:
    """The call on new registers (with their storage in the call's) and the copy to memory that a call is made of; None if no
    element is held by several threads, or it isn't known that they hold the same."""
    dst = c.outputs[0] if c.outputs else None
    if FAMILIES.get(c.op) != "map" or c.scope not in SCOPES or dst is None or dst.root.space == "local":
        return None
    if any(o.bits < 8 or aligned_axes(o, dst.extents) is None for o in regions_of(c)):
        return None
    where, first = holders_of(c), leader(c)
    if isinstance(where, str) or first is None:
        return None
    work = owned_work(c, first, 1)
    if isinstance(work, str) or isinstance(register_bytes(work, first, where[first.name]), str):
        return None
    if not _held_often(c, work) or _unnamed_copies(c, where[first.name]):
        return None
    held = _held(c, dst, first)
    if held is None:
        return None
    args = tuple(held if n == dst.name else a for n, a in zip(c.call.signature.operands, c.call.args))
    made: list[Stmt] = [replace(c.call, args=(*args, *c.call.args[len(args) :]), span=c.span)]
    if any(o.root == dst.root for o in c.inputs):  # all have read before one writes
        made += barrier_between(c.call, dst.root.space, c.launch)
    op = Op.get(TILE_PREFIX + "copy")
    return [*made, TilePrimitiveCall(op, (dst.region, held), scope=ExecScope(c.scope), span=c.span)]


def _held_often(c: CallContext, work: Work) -> bool:
    """Whether several threads of a unit compute one element."""
    unit = active_threads(c) // c.participants
    first = work.elements[unit == unit[0]].ravel()
    return len(set(first.tolist())) < len(first)


def _unnamed_copies(c: CallContext, held: Held) -> bool:
    """Whether threads have a first copy that the layout doesn't tell from another's (warps, say, each its own lanes')."""
    threads = active_threads(c)
    unit = threads[threads // c.participants == threads[0] // c.participants]
    return bool(((unit & held.mask) == held.parts[0][0]).sum() > 1)


@dataclass(frozen=True)
class _Dimension:
    """A dimension of the result: the iters of the leader's layout that its coordinate goes through (none: the leader is the
    same along it), the extent that these have, and where the region begins among them."""

    extent: int
    start: int = 0
    iters: tuple[Iter, ...] = ()


def _held(c: CallContext, dst: Operand, first: Operand) -> BufferRegion | None:
    """Registers for the result, spread as the leader is, or None if its layout isn't one of digits for each dimension."""
    layout, axes = first.buffer.layout, aligned_axes(first, dst.extents)
    if not isinstance(layout, TileLayout) or not layout.is_constant() or axes is None:
        return None
    grouped = try_group(layout, const_shape(first.buffer))
    if grouped is None:
        return None
    made, seps = grouped
    dims = [_Dimension(e) for e in dst.extents]
    for d, axis in enumerate(axes):
        mine = tuple(i for i in made.shard[seps[d] : seps[d + 1]] if i.extent != 1)
        if axis is not None:
            dims[axis] = _Dimension(const_shape(first.buffer)[d], getattr(first.region.region[d].min, "value", 0), mine)
        elif any(i.axis.is_thread() for i in mine):
            return None  # only some threads hold the row that is meant
    copies = [i for i in layout.replica if i.axis.is_thread()]
    shard: list[Iter] = []
    for dim in dims:
        shard += dim.iters or _shared_out(dim.extent, copies)
    spread = TileLayout(_packed(shard), tuple(copies), {a: v for a, v in layout.offset.items() if a.is_thread()})
    buffer = new_registers(c, dst, [d.extent for d in dims], spread)
    return BufferRegion(buffer, tuple(Range(const(d.start), const(e)) for d, e in zip(dims, dst.extents)))


def _shared_out(extent: int, copies: list[Iter]) -> list[Iter]:
    """A dimension along which the leader is the same: its copies take parts, as far as they divide it (and are copies no more);
    the rest is in registers."""
    mine = []
    for r in list(copies):
        count = int(r.extent)  # type: ignore[arg-type]
        if count > 1 and extent % count == 0:
            mine.append(r)
            copies.remove(r)
            extent //= count
    return [*mine, Iter(extent, 0)]


def _packed(digits: list[Iter]) -> tuple[Iter, ...]:
    """The digits with those in registers one after the other, in the order of their strides (new ones, of stride 0, lowest)."""
    made, step = list(digits), 1
    mine = [k for k, i in enumerate(digits) if not i.axis.is_thread()]
    for k in sorted(mine, key=lambda k: (int(digits[k].stride), -k)):  # type: ignore[arg-type]
        made[k] = Iter(digits[k].extent, step)
        step *= int(digits[k].extent)  # type: ignore[arg-type]
    return tuple(made)
