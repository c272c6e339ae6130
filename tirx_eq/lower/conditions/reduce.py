"""Conditions on reductions: operations, rows, who holds parts and results."""

from __future__ import annotations

import numpy as np

from ...ptx.target import target_has
from ..code.recipes import ARITHMETIC_DTYPES, FLOATS, cast_path
from ..context import CallContext
from ..sharing.halves import byte_pairs
from ..sharing.holders import thread_expr
from ..sharing.reduction import axes_of, held_rows, memory_share, reduce_op, register_share, result_bytes, rows_of
from .registry import OPTIONS, holds, holds_at
from .vectors import row_vector

MAX_READS = 512  # elements that one thread reads: beyond, the straight-line program would be too long

OPTIONS["group"] = lambda c: [n for n in (32, 16, 8, 4, 2, 1) if n <= c.participants]


@holds("the reduction exists for the dtypes")
def _exists(c: CallContext) -> str | None:
    src, dst = c.inputs[0], c.outputs[0]
    for o in (src, dst):
        if o.dtype not in (*ARITHMETIC_DTYPES, "bool"):
            return f"'{o.name}' is of {o.dtype}"
    if reduce_op(c) not in ("sum", "max", "min"):
        return f"'{reduce_op(c)}' is not a reduction"
    if c.op == "reduce_negate" and src.dtype == "bool":
        return "truth values have no negative: cast them first"
    return None if cast_path(src.dtype, dst.dtype) else f"there is no conversion from {src.dtype} to {dst.dtype}"


@holds("the destination has an element per row")
def _rows(c: CallContext) -> str | None:
    axes = axes_of(c)
    if isinstance(axes, str):
        return axes
    rows = len(rows_of(c))
    size = c.outputs[0].size
    return None if rows == size else f"reducing axes {list(axes)} gives {rows} rows, the destination has {size} elements"


@holds("each row is in the registers of one warp's lanes")
def _share(c: CallContext) -> str | None:
    share = register_share(c)
    return share if isinstance(share, str) else None


@holds("the result goes where it is held")
def result_place(c: CallContext) -> str | None:
    """To registers of the threads that have it, or to memory by one thread."""
    share = register_share(c)
    if isinstance(share, str):
        return share
    if c.outputs[0].root.space == "local":
        found = result_bytes(c, share)
        return found if isinstance(found, str) else None
    if (reason := _halves(c, share.rows)) is not None:
        return reason
    if any(thread_expr(c, share.threads, share.rows[:, g]) is None for g in range(share.rows.shape[1])):
        return "the rows that threads reduce don't follow from the bits of their numbers"
    unit = share.threads // c.participants
    writers = (share.threads & share.copies) == 0
    for u in np.unique(unit):
        written = share.rows[(unit == u) & writers].ravel()
        if len(written) != len(np.unique(written)) or len(written) != c.outputs[0].size:
            return f"{len(written)} results are written, the destination has {c.outputs[0].size} elements"
    return None


def _halves(c: CallContext, rows: np.ndarray) -> str | None:
    """Results of 4 bits in memory are bytes of two, which one thread has."""
    dst = c.outputs[0]
    if dst.bits != 4:
        return None
    if rows.shape[1] % 2 or (rows[:, ::2] % 2).any() or (rows[:, 1::2] != rows[:, ::2] + 1).any():
        return f"of some byte of '{dst.buffer.name}' a thread has one half, and no store is of 4 bits"
    found = byte_pairs(c, dst)
    return found if isinstance(found, str) else None


@holds("pairs are added at once")
def _packed(c: CallContext) -> str | None:
    """add.f32x2 (PTX ISA, add): sums in float32 on sm_100."""
    if not target_has(c.target, "sm_100"):
        return f"{c.target} has no add.f32x2"
    if reduce_op(c) != "sum" or c.inputs[0].dtype not in FLOATS:
        return f"a {reduce_op(c)} of {c.inputs[0].dtype} has no packed form"
    return None


@holds("three values are compared at once")
def _three(c: CallContext) -> str | None:
    """max and min of three f32 values (PTX ISA, max: sm_100, PTX 8.8)."""
    if not target_has(c.target, "sm_100"):
        return f"{c.target} has no max of three"
    if reduce_op(c) == "sum" or c.inputs[0].dtype not in FLOATS:
        return f"a {reduce_op(c)} of {c.inputs[0].dtype} has no form with three operands"
    return None


@holds_at("rows are shared evenly by groups of lanes")
def _groups(c: CallContext, group: int) -> str | None:
    share = memory_share(c, group)
    if isinstance(share, str):
        return share
    if c.inputs[0].bits == 4 and row_vector(c, share) == 1:
        return f"a lane would read half of a byte of '{c.inputs[0].buffer.name}'"
    reads = share.rows.shape[1] * share.members.shape[1] // group
    return None if reads <= MAX_READS else f"each thread would read {reads} elements"


@holds_at("the lanes of a group hold the result")
def _held(c: CallContext, group: int) -> str | None:
    share = memory_share(c, group)
    if isinstance(share, str):
        return share
    if c.outputs[0].root.space != "local":
        return _halves(c, share.rows)
    found = held_rows(c, share.threads, share.rows)
    if isinstance(found, str):
        return found
    if any(thread_expr(c, share.threads, share.rows[:, i]) is None for i in range(share.rows.shape[1])):
        return "the rows that threads hold don't follow from the bits of their numbers"
    return None
