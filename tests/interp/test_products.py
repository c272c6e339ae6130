"""Products of matrices against numpy."""

import ml_dtypes
import numpy as np
import pytest

from tirx_eq.interp import InterpreterError, interpret
from tirx_eq.layout import R, S, TCol, TileLayout, TLane
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

from .kernels import run, zeros

rng = np.random.default_rng(7)
DENSE = TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)])


def whole(shape, dtype, most=3):
    return rng.integers(-most, most + 1, shape).astype(np.float32).astype(dtype)


def tensor_core(a_dtype, b_dtype, c_dtype, trans_a=False, trans_b=False, accum=False, k=64):
    """C[128, 64] from A[128, k] and B[64, k] (or transposed), shared memory to tensor memory and back."""
    a_shape, b_shape = (k, 128) if trans_a else (128, k), (k, 64) if trans_b else (64, k)

    @T.prim_func
    def kernel(A: T.Buffer(a_shape, a_dtype), B: T.Buffer(b_shape, b_dtype), C: T.Buffer((128, 64), c_dtype)):
        T.device_entry()
        t = T.thread_id([128])
        w = T.warp_id([4])
        addr = T.alloc_shared((1,), "uint32")
        s_a = T.alloc_shared(a_shape, a_dtype)
        s_b = T.alloc_shared(b_shape, b_dtype)
        bar = T.alloc_shared((1,), "uint64")
        if w == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=64, cta_group=1)
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        Tx.cta.copy(s_a[:, :], A[:, :])
        Tx.cta.copy(s_b[:, :], B[:, :])
        T.cuda.cta_sync()
        acc = T.decl_buffer((128, 64), c_dtype, scope="tmem", allocated_addr=addr[0], layout=DENSE)
        Tx.cta.copy(acc[:, :], C[:, :])
        if w == 0:
            if T.ptx.elect_sync():
                Tx.gemm_async(acc[:, :], s_a[:, :], s_b[:, :], transA=trans_a, transB=trans_b, accum=accum)
                T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=1)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(C[:, :], acc[:, :])

    return kernel


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("accum", [False, True])
def test_gemm_async(trans_a, trans_b, accum):
    a, b = whole((64, 128) if trans_a else (128, 64), "float16"), whole((64, 64), "float16")
    c = whole((128, 64), "float32")
    want = (a.T if trans_a else a).astype(float) @ (b if trans_b else b.T).astype(float) + (c if accum else 0)
    kernel = tensor_core("float16", "float16", "float32", trans_a, trans_b, accum)
    assert np.array_equal(run(kernel, a, b, c)["C"], want)


@pytest.mark.parametrize(
    "dtype,acc", [("bfloat16", "float32"), ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"), ("int8", "int32"),
                  ("float16", "float16"), ("float4_e2m1fn", "float32")],
)  # fmt: skip
def test_operand_types(dtype, acc):
    a, b = whole((128, 64), dtype, 2), whole((64, 64), dtype, 2)
    want = a.astype(float) @ b.astype(float).T
    assert np.array_equal(run(tensor_core(dtype, dtype, acc), a, b, zeros((128, 64), acc))["C"], want)


def test_float32_operands_are_cut_to_tf32():
    a, b = (rng.standard_normal((n, 64)).astype(np.float32) for n in (128, 64))
    cut = [(v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(float) for v in (a, b)]
    found = run(tensor_core("float32", "float32", "float32"), a, b, zeros((128, 64)))["C"]
    assert np.array_equal(found, (cut[0] @ cut[1].T).astype(np.float32))


def test_block_scales():
    """One factor for 32 elements of K, held in four copies in tensor memory."""
    scales = TileLayout(S[(4, 32, 2) : (4 @ TCol, 1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    scales_b = TileLayout(S[(2, 32, 2) : (4 @ TCol, 1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane])
    e8 = "float8_e8m0fnu"

    @T.prim_func
    def kernel(
        A: T.Buffer((128, 64), "float8_e4m3fn"), B: T.Buffer((64, 64), "float8_e4m3fn"), P: T.Buffer((128, 2), e8),
        Q: T.Buffer((64, 2), e8), C: T.Buffer((128, 64), "float32"),
    ):  # fmt: skip
        T.device_entry()
        t = T.thread_id([128])
        w = T.warp_id([4])
        addr = T.alloc_shared((1,), "uint32")
        s_a = T.alloc_shared((128, 64), "float8_e4m3fn")
        s_b = T.alloc_shared((64, 64), "float8_e4m3fn")
        if w == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=128, cta_group=1)
        Tx.cta.copy(s_a[:, :], A[:, :])
        Tx.cta.copy(s_b[:, :], B[:, :])
        T.cuda.cta_sync()
        acc = T.decl_buffer((128, 64), "float32", scope="tmem", allocated_addr=addr[0], layout=DENSE)
        p = T.decl_buffer((128, 2), e8, scope="tmem", allocated_addr=addr[0] + 64, layout=scales)
        q = T.decl_buffer((64, 2), e8, scope="tmem", allocated_addr=addr[0] + 96, layout=scales_b)
        Tx.cta.copy(p[:, :], P[:, :])
        Tx.cta.copy(q[:, :], Q[:, :])
        if t == 0:
            Tx.gemm_async(acc[:, :], s_a[:, :], s_b[:, :], p[:, :], q[:, :])
        T.cuda.cta_sync()
        Tx.cta.copy(C[:, :], acc[:, :])

    a, b = whole((128, 64), "float8_e4m3fn"), whole((64, 64), "float8_e4m3fn")
    p, q = (np.exp2(rng.integers(-2, 3, (n, 2))).astype(np.float32).astype(ml_dtypes.float8_e8m0fnu) for n in (128, 64))
    wide = [np.repeat(s.astype(float), 32, axis=1) * x.astype(float) for s, x in ((p, a), (q, b))]
    assert np.array_equal(run(kernel, a, b, p, q, zeros((128, 64)))["C"], wide[0] @ wide[1].T)


def test_a_pair_of_ctas_shares_the_rows_of_b():
    layout = TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)])

    @T.prim_func
    def kernel(A: T.Buffer((256, 32), "float16"), B: T.Buffer((64, 32), "float16"), C: T.Buffer((256, 64), "float32")):
        T.device_entry()
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([128])
        w = T.warp_id([4])
        addr = T.alloc_shared((1,), "uint32")
        s_a = T.alloc_shared((128, 32), "float16")
        s_b = T.alloc_shared((32, 32), "float16")
        bar = T.alloc_shared((1,), "uint64")
        if w == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=64, cta_group=2)
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        Tx.cta.copy(s_a[:, :], A[r * 128 : r * 128 + 128, :])
        Tx.cta.copy(s_b[:, :], B[r * 32 : r * 32 + 32, :])
        T.cuda.cluster_sync()
        acc = T.decl_buffer((128, 64), "float32", scope="tmem", allocated_addr=addr[0], layout=layout)
        if r == 0:
            if t == 0:
                Tx.gemm_async(acc[:, :], s_a[:, :], s_b[:, :], cta_group=2)
                T.ptx.tcgen05.commit(bar.ptr_to([0]), cta_group=2, cta_mask=3)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(C[r * 128 : r * 128 + 128, :], acc[:, :])

    a, b = whole((256, 32), "float16"), whole((64, 32), "float16")
    assert np.array_equal(run(kernel, a, b, zeros((256, 64)))["C"], a.astype(float) @ b.astype(float).T)


def test_two_warps_multiply_at_once():
    """Each warp its own rows; both reach the call in one step."""

    @T.prim_func
    def kernel(A: T.Buffer((16, 8), "float16"), C: T.Buffer((16, 8), "float32")):
        T.device_entry()
        t = T.thread_id([64])
        w = T.warp_id([2])
        if t % 32 == 0:
            Tx.gemm_async(C[w * 8 : w * 8 + 8, :], A[w * 8 : w * 8 + 8, :], A[0:8, :])

    a = whole((16, 8), "float16")
    assert np.array_equal(run(kernel, a, zeros((16, 8)))["C"], a.astype(float) @ a[:8].astype(float).T)


def test_gemm_async_by_every_thread_is_refused():
    @T.prim_func
    def kernel(A: T.Buffer((8, 8), "float16"), C: T.Buffer((8, 8), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.gemm_async(C[:, :], A[:, :], A[:, :])

    with pytest.raises(InterpreterError, match="executed by 32 units of thread scope"):
        interpret(kernel, zeros((8, 8), "float16"), zeros((8, 8)))


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_gemm(trans_a, trans_b):
    a_shape, b_shape = (16, 16), (8, 16) if trans_b else (16, 8)

    @T.prim_func
    def kernel(
        A: T.Buffer(a_shape, "float16"), B: T.Buffer(b_shape, "float16"), C: T.Buffer((16, 8), "float32"),
        D: T.Buffer((16, 8), "float32"),
    ):  # fmt: skip
        T.device_entry()
        T.thread_id([32])
        Tx.warp.gemm(D[:, :], A[:, :], B[:, :], C[:, :], trans_a, trans_b, 1.0, 1.0)

    a, b, c = whole(a_shape, "float16"), whole(b_shape, "float16"), whole((16, 8), "float32")
    want = (a.T if trans_a else a).astype(float) @ (b.T if trans_b else b).astype(float) + c
    assert np.array_equal(run(kernel, a, b, c, zeros((16, 8)))["D"], want)
