"""Conditions on matrix multiplication that keeps B in the tensor core (tcgen05.mma.ws, PTX ISA 9.7.16.10)."""

from __future__ import annotations

import numpy as np

from ...errors import PtxError
from ...ptx.idesc import check_shape
from ..context import CallContext
from ..intrinsics.language import constant
from .gemm import Shape, accumulator_elsewhere, instruction_descriptor, kind_of, matrices, mma_shape, transposed
from .registry import holds


def wants_stationary(c: CallContext) -> bool:
    """Whether the call asks for the weight-stationary form."""
    return constant(c.call.config.get("weight_stationary")) not in (None, 0)


@holds("the weights need not be stationary")
def _moving(c: CallContext) -> str | None:
    return "weight_stationary asks for the form that keeps B in the tensor core" if wants_stationary(c) else None


@holds("the stationary form has the shape")
def _shape(c: CallContext) -> str | None:
    if (reason := matrices(c)) is not None:
        return reason
    kind, shape = kind_of(c), mma_shape(c)
    if kind is None:
        return "no kind takes the dtypes"
    if shape.k % kind.k:
        return f"K is {shape.k}, not a multiple of {kind.k}"
    try:
        check_shape(kind.name, shape.m, shape.n, 1, ws=True, narrow_b=transposed(c, "B") and kind.k == 32)
        instruction_descriptor(c)
    except PtxError as error:
        return error.message
    return None


def _places(shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    """Lane and column of D[m][n]: data path layouts D (M = 128), E (64) and G (32): N is cut into 1, 2 or 4 parts."""
    row, column = np.unravel_index(np.arange(shape.m * shape.n), (shape.m, shape.n))
    width = shape.n * shape.m // 128
    return row + shape.m * (column // width), column % width


@holds("the accumulator has the layout of the stationary form")
def _accumulator(c: CallContext) -> str | None:
    return accumulator_elsewhere(c, lambda: _places(mma_shape(c)))
