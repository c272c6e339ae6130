"""Requirements flow from users to buffers: each rule says what layouts of an operand a call could use.

A rule looks at the call and, where the answer follows from another operand, at the layouts that this one may have so far;
rules are applied until nothing new comes.  What they propose is a finite family per buffer; whether a layout really serves
is decided by the compiler's own conditions, so a rule may be generous.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod

from ..errors import LayoutError
from ..layout import Iter, Layout, TileLayout
from ..lower.context import CallContext, Operand
from ..lower.operations import FAMILIES
from ..lower.sharing.reduction import axes_of
from ..lower.storage import const_shape
from .families import (
    blocked,
    datapaths,
    dimension_orders,
    fragments,
    mma_fragments,
    number,
    padded_rows,
    reduced,
    row_major,
    scale_factors,
    shared_tiles,
    tmem_rows,
)

#: Layouts that an operand of the call may have so far (those of its buffer).
LayoutsOf = Callable[[str], Sequence[Layout]]

#: scope -> thread axes on which registers of its threads are counted
SCOPE_AXES: dict[str, str] = {"warp": "laneid", "warpgroup": "tid_in_wg", "cta": "tx"}


#: scope -> the axis on which its warps are counted
WARP_AXES: dict[str, str] = {"warp": "", "warpgroup": "wid_in_wg", "cta": "warpid"}


@dataclass(frozen=True)
class Asked:
    """An operand with an open layout: its call, its name there, elements of storage that each thread has (registers, None
    if that follows from the layout), and whether its storage may grow."""

    call: CallContext
    name: str
    held: int | None
    may_grow: bool

    @property
    def operand(self) -> Operand:
        return self.call.operands[self.name]

    @property
    def space(self) -> str:
        return self.operand.root.space

    @property
    def shape(self) -> tuple[int, ...]:
        """The whole buffer's shape."""
        return const_shape(self.operand.buffer)

    def others(self) -> list[str]:
        return [n for n in self.call.operands if n != self.name]


@dataclass(frozen=True)
class Requirement:
    """A rule: ``propose`` gives layouts of the operand's buffer; ``once`` if other operands don't matter."""

    name: str
    propose: Callable[[Asked, LayoutsOf], Iterable[Layout]]
    once: bool = True


def by_engine(q: Asked) -> bool:
    """Whether a unit with formats of its own reads or writes the operand: tensor copies, matrix and tcgen05.cp descriptors."""
    c = q.call
    if c.op in ("gemm_async", "gemm"):
        return True
    spaces = {o.root.space for o in c.operands.values()}
    return c.op == "copy_async" and c.scope in ("thread", "warp") and ("tmem" in spaces or _one_thread(c))


def _one_thread(c: CallContext) -> bool:
    return c.active.single_thread() or c.call.config.get("mbar") is not None or (c.call.dispatch or "").startswith("tma")


def _matrices(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    if q.space == "shared" and by_engine(q):
        yield from shared_tiles(q.shape, q.operand.bits)


def _memory(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    if q.space == "shared":
        yield from dimension_orders(q.shape)
        if q.may_grow and not by_engine(q):
            yield from padded_rows(q.shape, q.operand.bits)


def _tensor_memory(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    if q.space != "tmem":
        return
    if q.call.op == "gemm_async":
        if q.name in ("SFA", "SFB"):
            yield from scale_factors(q.shape)
            return
        yield from datapaths(q.shape) if q.name == "C" else tmem_rows(q.shape)
        return
    yield from datapaths(q.shape)
    yield from tmem_rows(q.shape)
    if q.operand.bits == 8:
        yield from scale_factors(q.shape)


def _copied_rows(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    """tcgen05.cp: the shared layout under which the rows of a tensor-memory layout are core matrices of 8 rows by 16 bytes
    (PTX ISA 9.7.16.9): lane l of the copied rows is 16·l bytes further, each 16 bytes of a lane behind all rows."""
    c = q.call
    if q.space != "shared" or c.op != "copy_async":
        return
    for other in q.others():
        o = c.operands[other]
        if o.root.space != "tmem" or o.bits != q.operand.bits or const_shape(o.buffer)[-2:] != q.shape[-2:]:
            continue
        for layout in of(other):
            made = core_rows(layout, q.operand.bits)
            if made is not None:
                yield made


def core_rows(layout: Layout, bits: int) -> TileLayout | None:
    """A tensor-memory layout as addresses of shared memory: see :func:`_copied_rows`."""
    if not isinstance(layout, TileLayout) or layout.offset or bits % 8:
        return None
    rows, per = 1, 128 // bits
    for i in layout.shard:
        if i.axis.name == "TLane":
            rows *= number(i.extent)
    out: list[Iter] = []
    for i in layout.shard:
        extent, stride = number(i.extent), number(i.stride)
        if i.axis.name == "TLane":
            out.append(Iter(extent, stride * per))
        elif stride >= per:
            if stride % per:
                return None
            out.append(Iter(extent, stride // per * rows * per))
        elif stride * extent <= per:
            out.append(Iter(extent, stride))
        else:
            if per % stride or extent * stride % per:
                return None
            out += [Iter(extent * stride // per, rows * per), Iter(per // stride, stride)]
    return TileLayout(tuple(out))


def _private(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    if q.space == "local":
        yield row_major(q.shape)


def _loaded(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    """Registers that tcgen05.ld and .st fill and empty."""
    if q.space == "local" and any(q.call.operands[n].root.space == "tmem" for n in q.others()):
        yield from fragments(q.shape, q.operand.dtype)


def _distributed(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    """Registers that the threads of a scope share: in blocks, whoever the other operands are."""
    c = q.call
    if q.space != "local" or c.scope not in SCOPE_AXES or (q.held is None and prod(q.shape) <= 1):
        return
    if any(c.operands[n].root.space == "tmem" for n in q.others()):
        return
    others = [n for n in q.others() if c.operands[n].root.space == "local"]
    if c.op in FAMILIES and FAMILIES[c.op] == "reduce" and q.name in c.call.signature.outputs and others:
        return  # follows from what is reduced
    widest = max((c.operands[n].bits for n in q.others()), default=q.operand.bits)
    if c.op == "gemm":
        yield from mma_fragments(q.shape, q.operand.bits, c.participants // 32, WARP_AXES[c.scope])
        return
    yield from blocked(q.shape, c.participants, SCOPE_AXES[c.scope], q.held, min(widest, q.operand.bits))


def _elementwise(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    """Threads compute what they hold: operands of equal extents are distributed alike, a broadcast one in every thread that
    uses it."""
    c = q.call
    if q.space != "local" or not (FAMILIES.get(c.op) == "map" or c.op in ("copy", "copy_async")):
        return
    for n in q.others():
        o = c.operands[n]
        if o.root.space != "local":
            continue
        shape = const_shape(o.buffer)
        if shape == q.shape:
            yield from of(n)
        elif len(shape) == len(q.shape):
            axes = [d for d, (mine, other) in enumerate(zip(q.shape, shape)) if mine == 1 and other != 1]
            if all(mine in (1, other) for mine, other in zip(q.shape, shape)):
                for layout in of(n):
                    made = reduced(layout, shape, axes)
                    if made is not None:
                        yield made


def _reduction(q: Asked, of: LayoutsOf) -> Iterable[Layout]:
    """Results of a reduction lie where the parts of their rows are."""
    c = q.call
    if q.space != "local" or FAMILIES.get(c.op) != "reduce" or q.name not in c.call.signature.outputs:
        return
    source = c.inputs[0]
    axes = axes_of(c)
    if source.root.space != "local" or isinstance(axes, str):
        return
    for layout in of(source.name):
        try:
            made = reduced(layout, const_shape(source.buffer), axes)
        except LayoutError:
            continue
        if made is not None and number(made.size()) == prod(q.shape):
            yield made


RULES: tuple[Requirement, ...] = (
    Requirement("what matrix descriptors and tensor copies name", _matrices),
    Requirement("plain memory", _memory),
    Requirement("data paths of tensor memory", _tensor_memory),
    Requirement("core matrices of tcgen05.cp", _copied_rows, once=False),
    Requirement("registers of single threads", _private),
    Requirement("fragments of tcgen05.ld and .st", _loaded),
    Requirement("blocks over the threads of a scope", _distributed),
    Requirement("element-wise operands alike", _elementwise, once=False),
    Requirement("results of a reduction", _reduction, once=False),
)
