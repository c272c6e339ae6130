"""Primitives on operands in tensor memory go through registers of the warps that make the call."""

from __future__ import annotations

import pytest

from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from ..primitives.cells import TMEM, Cell, cell_kernel
from ..primitives.run import execute, outcomes

LOAD, STORE = "copy_async/tcgen05_ld", "copy_async/tcgen05_st"


@pytest.mark.parametrize(
    ("primitive", "placement", "dtype", "variants"),
    [
        ("fill", TMEM, "float32", ("map/scalar", STORE)), ("add", TMEM, "float16", (LOAD, "map/packed", STORE)),
        ("sum", TMEM, "float32", (LOAD, "reduce/packed", STORE)), ("cast", TMEM, "bfloat16", (LOAD, "map/packed", STORE)),
        ("compose_op", TMEM, "float32", (LOAD, "map/packed", STORE)),
        ("copy", "registers <- tensor memory", "float32", (LOAD,)),
        ("copy", "tensor memory <- registers", "uint8", (STORE,)),
        ("copy", "global <- tensor memory", "float16", (LOAD, "copy/spread")),
        ("copy", "tensor memory <- tensor memory", "int32", (LOAD, STORE)),
        ("add", TMEM, "float64", (LOAD, "map/scalar", STORE)), ("sum", TMEM, "int64", (LOAD, "reduce/serial", STORE)),
        ("copy", "registers <- tensor memory", "float4_e2m1fn", (LOAD,)),
        ("binary_reduce", TMEM, "float32", (LOAD, "map/packed", STORE, "reduce/packed")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("scope", ["warp", "warpgroup", "cta"])
def test_through_registers(primitive, placement, dtype, variants, scope):
    cell = Cell(primitive, scope, placement, dtype)
    (found,) = outcomes([cell])
    assert found.variants == variants
    execute(cell)


def test_one_thread_reaches_no_tensor_memory():
    with pytest.raises(NoCandidate, match="is in tensor memory"):
        compile_function(cell_kernel(Cell("add", "thread", TMEM, "float32")))
