"""Conditions on block-scaled matrix multiplication, and where each instruction finds its scale factors (PTX ISA 9.7.16)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ptx.descriptor import BlockScaledDescriptor
from ..context import CallContext
from .gemm import kind_of, mma_shape, transposed
from .registry import holds, in_space
from .tmem_factor import lane_copies
from .tmem_place import fixed


@dataclass(frozen=True)
class Scales:
    """Scale factors of one operand for one instruction: their first column, and the byte of the cell that holds them."""

    column: int
    byte: int


@holds("a block-scaled kind takes the dtypes")
def _kind(c: CallContext) -> str | None:
    if "SFA" not in c.operands:
        return "the call has no scale factors"
    if kind_of(c) is None:
        told = ", ".join(f"{n} is {c.operands[n].dtype}" for n in ("A", "B", "C", "SFA", "SFB"))
        return f"no block-scaled kind takes these: {told}"
    a, b = c.operands["SFA"], c.operands["SFB"]
    return None if a.dtype == b.dtype else f"the scale factors are {a.dtype} and {b.dtype}"


@holds("scale factors in tensor memory")
def _space(c: CallContext) -> str | None:
    if "SFA" not in c.operands:
        return "the call has no scale factors"
    return in_space(c.operands["SFA"], "tmem") or in_space(c.operands["SFB"], "tmem")


@holds("the CTA works alone")
def _alone(c: CallContext) -> str | None:
    group = int(c.call.config.get("cta_group", 1))
    return None if group == 1 else f"cta_group is {group}"


@dataclass(frozen=True, eq=False)
class FactorPlaces:
    """Where the data path looks for the factors of row r: ``lane[r]``, ``column[r]`` after the first, and again at every
    one of the lane distances ``copies``."""

    lane: np.ndarray
    column: np.ndarray
    copies: frozenset[int]


def factor_places(c: CallContext, name: str) -> FactorPlaces:
    """Rows of scale factors of A or B in the tensor memory of one CTA (PTX ISA 9.7.16.10, and CUTLASS).

    32 rows are one column of cells, in every quarter of the lanes.  In a pair of CTAs each has the factors of its own rows
    of A and of all columns of B; with 64 rows per CTA (data path layout B) the halves of B's columns are in the halves of
    the lanes, and their factors with them.
    """
    shape = mma_shape(c)
    row = np.arange(shape.m if name == "A" else shape.n)
    if name == "A" or shape.m == 128:
        return FactorPlaces(row % 32, row // 32, frozenset((0, 32, 64, 96)))
    half = len(row) // 2
    return FactorPlaces(row % half % 32 + 64 * (row // half), row % half // 32, frozenset((0, 32)))


def scales(c: CallContext, name: str) -> list[Scales] | str:
    """Where each instruction finds the scale factors of A or B, or why its layout isn't the tensor core's.

    Factor t of a row is in byte ``id + t`` of the row's cell: the factors of one instruction are neighbours.
    """
    o, kind, shape = c.operands[f"SF{name}"], kind_of(c), mma_shape(c)
    if kind is None or not kind.scales:
        return "no block-scaled kind takes the dtypes"
    where = factor_places(c, name)
    rows = len(where.lane)
    steps = shape.k // kind.k
    if o.shape != (rows, steps * kind.scales) and not (o.size == rows * steps * kind.scales and rows in o.extents):
        return f"'{o.name}' has extents {list(o.extents)}; {rows} rows of {steps * kind.scales} factors are needed"
    if not where.copies <= lane_copies(o):
        return f"'{o.buffer.name}' is not in all quarters of the lanes ({_replica(where.copies)})"
    if not fixed(o):
        return f"the factors in '{o.buffer.name}' must begin at a constant place"
    places = o.places(c.lowest())
    if "TLane" not in places or "TCol" not in places:
        return f"'{o.buffer.name}' has no layout on TLane and TCol"
    lane, byte = (places[axis].reshape(rows, -1) for axis in ("TLane", "TCol"))
    found = []
    for step in range(steps):
        part = slice(step * kind.scales, (step + 1) * kind.scales)
        first = int(byte[0, step * kind.scales])
        wanted = first + 4 * where.column[:, None] + np.arange(kind.scales)[None, :]
        bad = np.argwhere((lane[:, part] != where.lane[:, None]) | (byte[:, part] != wanted))
        if len(bad):
            m, t = (int(v) for v in bad[0])
            return (
                f"factor {step * kind.scales + t} of row {m} is in lane {int(lane[m, part][t])}, byte {int(byte[m, part][t])} "
                f"of the lane; the tensor core reads lane {int(where.lane[m])}, byte {int(wanted[m, t])}"
            )
        if first % 4 + kind.scales > 4 or (kind.scales > 1 and first % 2):
            return f"the factors of instruction {step} begin at byte {first % 4} of a cell"
        found.append(Scales(first // 4, first % 4))
    return found


def _replica(copies: frozenset[int]) -> str:
    return f"a replica of {len(copies)} at 32 @ TLane"


def scaled_descriptor(c: CallContext, a: Scales, b: Scales) -> BlockScaledDescriptor:
    """The instruction descriptor of one instruction: the bytes of its scale factors are in it."""
    kind, shape = kind_of(c), mma_shape(c)
    assert kind is not None
    return BlockScaledDescriptor(
        kind.name, shape.pair_m, shape.n, kind.a, kind.b, kind.scale_type, a.byte, b.byte,
        transposed(c, "A"), transposed(c, "B"),
    )  # fmt: skip


@holds("the scale factors lie as the tensor core reads them")
def _scales(c: CallContext) -> str | None:
    for name in ("A", "B"):
        found = scales(c, name)
        if isinstance(found, str):
            return found
    return None
