"""Factors of a product that lie in tensor memory and are wanted by threads other than those that reach their lanes.

A thread reads its own lane of tensor memory only.  The second factor of ``gemm`` (and a transposed first one) is wanted by
all of them: who has a row of it in registers stores that to shared memory, and the product reads it there.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import (
    GE,
    LT,
    AllocBuffer,
    Buffer,
    BufferRegion,
    DeclBuffer,
    ExecScope,
    Expr,
    IfThenElse,
    IntImm,
    Op,
    PointerType,
    PrimType,
    Stmt,
    TilePrimitiveCall,
    Var,
    const,
)
from ...ir.arith import binary, logical_and
from ...ir.expr import Range
from ...ir.op import TILE_PREFIX
from ...layout import TileLayout
from ..product import is_number, plain
from ..sharing.threads import Launch
from .expand import barrier_between


@dataclass(frozen=True)
class Factor:
    """A factor's way: ``whole`` is the region of tensor memory to load into ``held``; ``stores`` put its rows where the product
    finds them (``region``); ``declared`` are the buffers."""

    declared: tuple[Stmt, ...]
    whole: BufferRegion
    held: BufferRegion
    stores: tuple[Stmt, ...]
    region: BufferRegion


def shared_factors(value: TilePrimitiveCall) -> tuple[str, ...]:
    """The operands of a ``gemm`` of which every thread wants all rows; none of other calls."""
    if value.op.short_name != "gemm":
        return ()
    return ("A", "B") if plain(value.operand("transpose_A")) else ("B",)


def unused(value: TilePrimitiveCall, name: str) -> bool:
    """Whether an operand isn't looked at: the addend of a ``gemm`` that is multiplied by 0."""
    return value.op.short_name == "gemm" and name == "C" and is_number(plain(value.operand("beta")), 0)


def shared_factor(
    value: TilePrimitiveCall, region: BufferRegion, launch: Launch, lanes: int, axis: str, name: str
) -> Factor | None:
    """How a factor in tensor memory gets to all threads of each unit of ``lanes`` threads; None if its rows aren't lanes that
    the unit reaches, from a place on that is known."""
    extents = region.const_extents()
    wide = [] if extents is None else [d for d, e in enumerate(extents) if e != 1]
    if extents is None or len(wide) != 2 or extents[wide[0]] > lanes:
        return None
    rows, columns = (extents[d] for d in wide)
    start, size = region.region[wide[0]].min, region.buffer.shape[wide[0]]
    first = start.value % lanes if isinstance(start, IntImm) else 0
    begin: Expr = const(start.value - first) if isinstance(start, IntImm) else start
    if first + rows > lanes or (isinstance(size, IntImm) and size.value % lanes):
        return None
    ranges = list(region.region)
    ranges[wide[0]] = Range(begin, const(lanes))
    dtype, span = region.dtype, region.buffer.span
    data = Var(name, PointerType(PrimType(dtype), "local"))
    mine = Buffer(data, dtype, (const(columns),), name=name, span=span)
    layout = TileLayout.from_iters([(lanes, 1, axis), (columns, 1, "m")])
    spread = Buffer(data, dtype, (const(lanes), const(columns)), name=f"{name}_rows", layout=layout, span=span)
    units = launch.threads // lanes
    shape = (const(units), const(rows), const(columns))
    common = Buffer(Var(f"{name}_all", PointerType(PrimType(dtype), "shared")), dtype, shape, name=f"{name}_all", span=span)
    tid = launch.flat_tid()
    unit = tid // lanes if units > 1 else const(0)
    row = (tid % lanes if units > 1 else tid) - first
    place = BufferRegion(common, (Range(unit, const(1)), Range(row, const(1)), Range(const(0), const(columns))), span=span)
    store: Stmt = TilePrimitiveCall(
        Op.get(TILE_PREFIX + "copy"), (place, mine.full_region()), scope=ExecScope("thread"), span=value.span
    )
    if rows < lanes:
        inside = binary(LT, row, rows)
        store = IfThenElse(logical_and(binary(GE, row, 0), inside) if first else inside, store, span=value.span)
    whole = BufferRegion(common, (Range(unit, const(1)), *(Range(const(0), e) for e in shape[1:])), span=span)
    declared = (AllocBuffer(mine, span=span), DeclBuffer(spread, data=data, span=span), AllocBuffer(common, span=span))
    stores = (store, *barrier_between(value, "shared", launch))
    return Factor(declared, BufferRegion(region.buffer, tuple(ranges), span=region.span), spread.full_region(), stores, whole)
