# ruff: noqa: E501
"""The tensor core by instruction: descriptors that the kernel encodes, products, tensor memory there and back, against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

POLICIES = ("late", "early", "random")


def product(store: bool = False, wait: bool = True):
    """D = A·Cᵀ for A 128x16, C 64x16 of halves, their 8x8 parts one after the other in shared memory."""
    place = "(t % 8) * 8 + t // 8 * 128 + k // 8 * 64 + k % 8"
    regs = "*[R[i] for i in range(64)]"
    at = "row=t // 32 * 32"
    again = (
        f'for i in Tx.unroll(64):\n    R[i] = R[i] * Tx.float32(2)\nTx.ptx.tcgen05.st(addr[0], {regs}, shape="32x32b", num=64, {at})\n'
        f'Tx.ptx.tcgen05.wait.st()\nTx.ptx.tcgen05.ld(addr[0], {regs}, shape="32x32b", num=64, {at})\nTx.ptx.tcgen05.wait.ld()\n'
    )
    return kernel(
        't = Tx.thread_id([128])\nSA = Tx.alloc_shared([2048], "float16")\nSB = Tx.alloc_shared([1024], "float16")\n'
        'addr = Tx.alloc_shared([1], "uint32")\nbar = Tx.alloc_shared([1], "uint64")\n'
        "if t < 32:\n    Tx.ptx.tcgen05.alloc(addr.ptr_to([0]), 64, 1)\nif t == 0:\n    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)\n"
        f"Tx.ptx.fence.mbarrier_init()\nfor k in Tx.unroll(16):\n    SA[{place}] = A[t * 16 + k]\n"
        f"if t < 64:\n    for k in Tx.unroll(16):\n        SB[{place}] = C[t * 16 + k]\n"
        'Tx.ptx.fence.proxy_async("shared::cta")\nTx.ptx.tcgen05.fence.before_thread_sync()\nTx.cuda.cta_sync()\n'
        'Tx.ptx.tcgen05.fence.after_thread_sync()\nda = Tx.alloc_local([1], "uint64")\ndb = Tx.alloc_local([1], "uint64")\n'
        'di = Tx.alloc_local([1], "uint32")\n'
        "Tx.ptx.tcgen05.encode_matrix_descriptor(da.ptr_to([0]), SA.ptr_to([0]), 8, 16, 0)\n"
        "Tx.ptx.tcgen05.encode_matrix_descriptor(db.ptr_to([0]), SB.ptr_to([0]), 8, 16, 0)\n"
        'Tx.ptx.tcgen05.encode_instr_descriptor(di.ptr_to([0]), d_dtype="float32", a_dtype="float16", b_dtype="float16", M=128, '
        "N=64, K=16, trans_a=False, trans_b=False)\n"
        'if t == 0:\n    Tx.ptx.tcgen05.mma(addr[0], da[0], db[0], di[0], d_dtype="float32", a_dtype="float16", b_dtype="float16", '
        "use_a_tmem=False, cta_group=1, enable_input_d=0)\n    Tx.ptx.tcgen05.commit(bar.ptr_to([0]), 1)\n"
        + ("Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\n" if wait else "")
        + f'Tx.ptx.tcgen05.fence.after_thread_sync()\nR = Tx.alloc_local([64], "float32")\n'
        f'Tx.ptx.tcgen05.ld(addr[0], {regs}, shape="32x32b", num=64, {at})\nTx.ptx.tcgen05.wait.ld()\n'
        + (again if store else "")
        + "for i in Tx.unroll(64):\n    B[t * 64 + i] = R[i]\nTx.ptx.tcgen05.fence.before_thread_sync()\nTx.cuda.cta_sync()\n"
        "if t < 32:\n    Tx.ptx.tcgen05.relinquish_alloc_permit(1)\n    Tx.ptx.tcgen05.dealloc(addr[0], 64, 1)",
        'A: Tx.Buffer((2048,), "float16"), C: Tx.Buffer((1024,), "float16"), B: Tx.Buffer((8192,), "float32")',
    )


def operands() -> list[np.ndarray]:
    random = np.random.default_rng(4)
    return [random.integers(-4, 5, n).astype(np.float16) for n in (2048, 1024)] + [np.zeros(8192, np.float32)]


@pytest.mark.parametrize("store", [False, True])
def test_a_product_by_instructions(store):
    a, c, out = operands()
    made = compile_function(product(store))
    made.assemble()
    want = a.reshape(128, 16).astype(float) @ c.reshape(64, 16).T.astype(float) * (2 if store else 1)
    for policy in POLICIES:
        got = made.simulate(a, c, out, policy=policy)
        assert not got.faults, [str(f) for f in got.faults[:2]]
        np.testing.assert_array_equal(got.arrays["B"].reshape(128, 64), want)


def test_without_the_wait_the_simulator_tells():
    assert compile_function(product(wait=False)).simulate(*operands(), policy="late").faults
