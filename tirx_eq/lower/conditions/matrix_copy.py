"""Conditions on copies between shared memory and registers by ldmatrix and stmatrix (PTX ISA 9.7.14.5.15, .16)."""

from __future__ import annotations

from ...ptx.target import target_has
from ..code.matrix_rows import BYTES, ROW_BYTES, TRANSPOSED, matrix_copy
from ..context import CallContext
from ..sharing.spread import local_and_memory
from ..sharing.spread_vectors import not_aligned, not_contiguous
from .registry import OPTIONS, holds, holds_at, in_space

OPTIONS["matrices"] = lambda c: [k + t for t in (0, TRANSPOSED, BYTES) for k in (4, 2, 1)]


@holds("source in shared memory and destination in registers")
def _load(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "shared") or in_space(c.outputs[0], "local")


@holds("source in registers and destination in shared memory")
def _store(c: CallContext) -> str | None:
    return in_space(c.inputs[0], "local") or in_space(c.outputs[0], "shared")


@holds("the target has stmatrix")
def _stmatrix(c: CallContext) -> str | None:
    return None if target_has(c.target, "sm_90") else f"{c.target} has no stmatrix"


@holds_at("the registers of a warp are such matrices")
def _matrices(c: CallContext, code: int) -> str | None:
    found = matrix_copy(c, code)
    return found if isinstance(found, str) else None


@holds_at("rows of matrices are 16 contiguous bytes")
def _rows(c: CallContext, code: int) -> str | None:
    found, both = matrix_copy(c, code), local_and_memory(c)
    if isinstance(found, str) or isinstance(both, str):
        return "the registers are no matrices"
    return not_contiguous(c, found.rows, both[1], ROW_BYTES)


@holds_at("rows of matrices are aligned to 16 bytes")
def _aligned(c: CallContext, code: int) -> str | None:
    found, both = matrix_copy(c, code), local_and_memory(c)
    if isinstance(found, str) or isinstance(both, str):
        return "the registers are no matrices"
    return not_aligned(c, found.rows, both[1], ROW_BYTES)
