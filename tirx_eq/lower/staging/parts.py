"""Registers of their own for a call that is made of several: where a thread has its elements, and their storage."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import LayoutError
from ...ir import Buffer, PointerType, PrimType, Var, const
from ...ir import dtype as dt
from ...layout import TileLayout
from ...layout.slicing import slice_layout
from ...layout.tile import Iter
from ..context import CallContext, Operand
from ..sharing.work import Work, aligned_axes
from ..storage import Root

#: What must hold of an element-wise call whatever the layouts of its registers are.
NEEDED = (
    "the threads are whole units of the scope", "the scope is within a CTA", "operands in memory or registers",
    "the operation exists for the dtypes", "operands fit the destination's extents",
)  # fmt: skip
PLACED = "each thread holds what it computes"


def layout_like(c: CallContext, lead: Operand, o: Operand, work: Work) -> TileLayout | None:
    """Where a thread has the elements of ``o`` that go with those of ``lead`` that it holds, without gaps."""
    whole = lead.buffer.layout
    lead_axes, axes = aligned_axes(lead, work.extents), aligned_axes(o, work.extents)
    if not isinstance(whole, TileLayout) or lead_axes is None or axes is None:
        return None
    try:
        sliced = slice_layout(whole, lead.buffer.shape, lead.region.region)
        assert isinstance(sliced, TileLayout)
        grouped, ends = sliced.group(lead.extents)
    except LayoutError:
        return None
    parts = {a: grouped.shard[ends[d] : ends[d + 1]] for d, a in enumerate(lead_axes) if a is not None}
    shard: list[Iter] = []
    for axis, extent in zip(axes, o.extents):
        shard += parts.get(axis, ()) if axis is not None and extent != 1 else ()
    copies = [i for a, part in parts.items() if a not in axes or o.extents[axes.index(a)] == 1 for i in part]
    replica = [i for i in (*grouped.replica, *copies) if i.axis.is_thread() and i.extent != 1]
    offset = {a: v for a, v in grouped.offset.items() if a.is_thread()}
    return TileLayout(_compact(shard), tuple(replica), offset)


def _compact(iters: list[Iter]) -> tuple[Iter, ...]:
    """Without gaps between registers."""
    strides: dict[int, int] = {}
    step = 1
    memory = [k for k, i in enumerate(iters) if not i.axis.is_thread()]
    for k in sorted(memory, key=lambda k: (abs(int(iters[k].stride)), -k)):  # type: ignore[arg-type]
        strides[k], step = step, step * int(iters[k].extent)  # type: ignore[arg-type]
    made = tuple(Iter(i.extent, strides[k], i.axis) if k in strides else i for k, i in enumerate(iters))
    return made or (Iter(1, 1),)


def new_registers(c: CallContext, o: Operand, shape: Sequence[int], layout: TileLayout, dtype: str | None = None) -> Buffer:
    """A buffer of ``shape`` in new registers, of an operand's dtype or another."""
    used = {root.name for root in c.storage.roots.values()}
    count = 1
    while (name := f"{o.root.name}_moved_{count}") in used:
        count += 1
    dtype = dtype or o.dtype
    data = Var(name, PointerType(PrimType(dtype), "local"))
    words = int(layout.storage().span("m"))  # type: ignore[arg-type]
    bits = max(32, dt.storage_bits(dtype))
    size = -(-words * dt.storage_bits(dtype) // bits) * bits // 8
    c.storage.roots[data] = Root("local", name, size=size, word_bits=bits)
    return Buffer(data, dtype, tuple(const(e) for e in shape), name=name, layout=layout, span=o.buffer.span)
