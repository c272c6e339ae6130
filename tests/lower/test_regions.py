"""Regions of tile calls that certainly reach beyond their array are refused, those that may not are not."""

from __future__ import annotations

import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((256, 64), "float16"), B: Tx.Buffer((256, 64), "float16"), n: Tx.int32'
TMA = """
bx = Tx.cta_id([{ctas}])
t = Tx.thread_id([128])
s = Tx.alloc_shared((64, 64), "float16", layout=mma_shared_layout("float16", 3, (64, 64)))
bar = Tx.alloc_shared((1,), "uint64")
if t == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
Tx.cuda.cta_sync()
{guard}
    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8192)
    Tx.copy_async(s[:, :], A[{begin} : {begin} + 64, :], mbar=bar.ptr_to([0]), dispatch="tma_load"{more})
"""


def tma(begin: str, guard: str = "if t == 0:", ctas: int = 4, more: str = ""):
    return kernel(TMA.format(begin=begin, guard=guard, ctas=ctas, more=more), PARAMS)


@pytest.mark.parametrize(
    ("begin", "guard", "ctas", "says"),
    [
        ("bx * 64", "if t == 0:", 5, "elements 256 to 319 of dimension 0 of 'A', which has 256, at ctaid_x = 4"),
        ("bx * 64 + 1", "if t == 0:", 4, "elements 193 to 256"), ("bx * 64 - 1", "if t == 0:", 4, "elements -1 to 62"),
        ("bx * 64 + 256", "if t == 0:", 4, "elements 256 to 319"), ("n % 4 + 200", "if t == 0:", 4, "elements 200 to 263"),
        ("bx * 64", "if t == 0 and bx > 2:", 5, "elements 256 to 319"),
    ],
)  # fmt: skip
def test_a_region_that_is_outside_is_refused(begin, guard, ctas, says):
    with pytest.raises(LoweringError, match=says) as e:
        compile_function(tma(begin, guard, ctas))
    assert e.value.span is not None


@pytest.mark.parametrize(
    ("begin", "guard", "ctas", "more"),
    [
        ("bx * 64", "if t == 0:", 4, ""), ("bx * 64", "if t == 0:", 5, ', oob="zero"'),
        ("bx * 64", "if t == 0 and bx < 4:", 5, ""), ("n", "if t == 0:", 4, ""), ("bx * 64", "if t == 0 and n > 3:", 5, ""),
        ("bx * n", "if t == 0:", 5, ""),
    ],
)  # fmt: skip
def test_a_region_that_may_be_inside_is_not(begin, guard, ctas, more):
    compile_function(tma(begin, guard, ctas, more))


def test_copies_by_threads_too():
    copy = "Tx.cta.copy(B[bx * 128 : bx * 128 + 128, :], A[0:128, :])"
    func = kernel(f"bx = Tx.cta_id([3])\nt = Tx.thread_id([32])\n{copy}", PARAMS)
    with pytest.raises(LoweringError, match="elements 256 to 383 of dimension 0 of 'B'"):
        compile_function(func)
