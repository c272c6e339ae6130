"""What the random kernels have found."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.interp.compare import compare
from tirx_eq.lower.kernel import compile_function

from ..lower.kernels import kernel, with_tensor_memory


def agrees(func, **more):
    outcome = execute(func, seed=1, policy="random", **more)
    assert outcome.good, outcome.to_json()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "uint8", "int16", "float64"])
def test_select_of_two_constants(dtype):
    agrees(kernel(
        f"t = Tx.thread_id([32])\nTx.cta.select(D[:, :], Tx.{dtype}(1.0), Tx.{dtype}(3.0), lambda i, j: i < j)",
        f'D: Tx.Buffer((4, 16), "{dtype}")',
    ))  # fmt: skip


@pytest.mark.parametrize(("threads", "rows", "columns"), [(96, 1, 384), (160, 3, 640), (192, 5, 384), (224, 2, 448)])
def test_reductions_by_a_number_of_warps_that_is_no_power_of_two(threads, rows, columns):
    func = kernel(f"t = Tx.thread_id([{threads}])\nTx.cta.sum(D[:], A[:, :])",
                  f'A: Tx.Buffer(({rows}, {columns}), "float32"), D: Tx.Buffer(({rows},), "float32")')  # fmt: skip
    agrees(func)
    found = [k for c in compile_function(func).calls for k in c.choice.candidates if k.node.startswith("ReduceWarps")]
    assert found and all(k.values[0] // 1000 in (64, 96, 160, 192, 224) for k in found)


def test_copies_in_five_warps():
    """One of them stores the sum."""
    agrees(kernel(
        't = Tx.thread_id([160])\nr = Tx.alloc_local((1,), "int32")\n'
        "v = r.view(4, 8, layout=TileLayout(S[(4, 8) : (8 @ tx, 1 @ tx)] + R[5 : 32 @ tx]))\n"
        "Tx.cta.copy(v[:, :], A[:, :])\nTx.cta.sum(D[:], v[:, :])",
        'A: Tx.Buffer((4, 8), "int32"), D: Tx.Buffer((4,), "int32")', "from tirx_eq.layout import tx\n",
    ))  # fmt: skip


def test_numbers_that_unrolling_makes_constant():
    """``1 - k`` in a round of an unrolled loop is a number, wherever an instruction wants one."""
    func = kernel(
        "t = Tx.thread_id([32])\ns = Tx.alloc_shared((2, 32, 4), 'float32')\n"
        "for k in Tx.unroll(2):\n    Tx.cta.copy_async(s[k, :, :], A[k, :, :])\n    Tx.ptx.cp_async.commit_group()\n"
        "for k in Tx.unroll(2):\n    Tx.ptx.cp_async.wait_group(1 - k)\n    Tx.cuda.cta_sync()\n"
        "    Tx.cta.copy(D[k, :, :], s[k, :, :])",
        ", ".join(f'{n}: Tx.Buffer((2, 32, 4), "float32")' for n in "AD"),
    )
    agrees(func)
    assert "wait_group 1;" in compile_function(func).ptx and "wait_group 0;" in compile_function(func).ptx


def test_parts_of_a_composition_on_tensor_memory_wait_for_each_other():
    agrees(kernel(
        "t = Tx.thread_id([128])\nw = Tx.warp_id([4])\n" + with_tensor_memory(
            'm = Tx.decl_buffer((128, 8), "float32", scope="tmem", allocated_addr=addr[0],\n'
            "                   layout=TileLayout(S[(128, 8):(1 @ TLane, 1 @ TCol)]))\n"
            "Tx.cta.copy(m[:, :], A[:, :])\n"
            "with Tx.compose_op():\n    Tx.cta.mul(D[:, 0:8], m[:, :], A[:, :])\n"
            "    Tx.cta.maximum(D[:, 0:8], D[:, 0:8], A[:, :])", 32),
        'A: Tx.Buffer((128, 8), "float32"), D: Tx.Buffer((128, 8), "float32")',
    ))  # fmt: skip


def test_the_sign_of_a_sum_that_is_zero_is_free():
    """Products of zeros: a sum that begins with a 0 is 0, one that begins with the first product may be -0."""
    func = kernel("t = Tx.thread_id([32])\nTx.gemm(D[t, :, :], A[t, :, :], B[t, :, :], D[t, :, :], beta=0.0)",
                  'A: Tx.Buffer((32, 1, 2), "float32"), B: Tx.Buffer((32, 2, 3), "float32"), '
                  'D: Tx.Buffer((32, 1, 3), "float32")')  # fmt: skip
    agrees(func)
    plus, minus, old = np.zeros(4, np.float32), -np.zeros(4, np.float32), np.ones(4, np.float32)
    assert not compare("D", plus, minus, old, True).agrees and compare("D", plus, minus, old, True, signed_zeros=False).agrees
