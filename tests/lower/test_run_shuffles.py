"""Shuffles in scalar code, compiled and executed, against the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp import interpret
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

FULL = "Tx.uint32(0xFFFFFFFF)"


def shuffled(name: str, dtype: str, width: str):
    return kernel(
        f"t = Tx.thread_id([64])\nx = A[t] + A[t]\ny = Tx.cuda.{name}({FULL}, x, 3, {width})\n"
        f"B[t] = y + Tx.cuda.{name}({FULL}, y, t % 5, {width})",
        f'A: Tx.Buffer((64,), "{dtype}"), B: Tx.Buffer((64,), "{dtype}")',
    )


@pytest.mark.parametrize("dtype", ["float32", "int32", "uint32", "float16", "uint64"])
@pytest.mark.parametrize("name", ["__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync"])
@pytest.mark.parametrize("width", [32, 8])
def test_shuffles(name, dtype, width):
    func = shuffled(name, dtype, str(width))
    a, b = np.arange(64).astype(dtype) * 3, np.zeros(64, dtype)
    result = compile_function(func).simulate(a, b)
    assert not result.faults
    np.testing.assert_array_equal(result.arrays["B"], interpret(func, a, b)["B"])


def test_refusals():
    with pytest.raises(LoweringError, match="power of two"):
        compile_function(shuffled("__shfl_sync", "float32", "t % 5"))
