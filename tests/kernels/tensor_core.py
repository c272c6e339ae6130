"""Kernels of the tensor core: products by group, a convolution, weights of 4 bits."""

import ml_dtypes
import numpy as np

from tirx_eq.layout import S, TileLayout, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.lang import TCGen05Bar, TMABar
from tirx_eq.script.tirx import tile as Tx

rng = np.random.default_rng(0)
bf16 = ml_dtypes.bfloat16
op64 = mma_shared_layout("bfloat16", 3, (128, 64))


def rows(n):
    return TileLayout(S[(128, n) : (1 @ tid_in_wg, 1)])


CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


# grouped GEMM with offsets: rows of A sorted by expert; a CTA per (expert); rows masked at the store
@T.prim_func
def grouped(
    A: T.Buffer((256, 64), "bfloat16"),
    B: T.Buffer((3, 64, 64), "bfloat16"),
    OFF: T.Buffer((4,), "int32"),
    D: T.Buffer((256, 64), "float32"),
):
    T.device_entry()
    e = T.cta_id([3])
    warp_id = T.warp_id([4])
    tid = T.thread_id([128])
    pool = T.SMEMPool()
    A_s = pool.alloc((128, 64), "bfloat16", align=1024, layout=op64)
    B_s = pool.alloc((64, 64), "bfloat16", align=1024, layout=mma_shared_layout("bfloat16", 3, (64, 64)))
    full = TMABar(pool, 1)
    done = TCGen05Bar(pool, 1)
    tmem_pool = T.TMEMPool(pool, total_cols=64)
    acc = tmem_pool.alloc((128, 64), "float32")
    tmem_pool.commit()
    pool.commit()
    full.init(1)
    done.init(1)
    T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    first = OFF[e]
    last = OFF[e + 1]
    r = T.alloc_local((64,), "float32")
    rw = r.view(128, 64, layout=rows(64))
    for i in T.serial((last - first + 127) // 128):
        if warp_id == 0:
            if T.ptx.elect_sync():
                full.arrive(0, (128 + 64) * 64 * 2)
                Tx.copy_async(
                    A_s[:, :],
                    A[first + i * 128 : first + i * 128 + 128, :],
                    dispatch="tma_auto",
                    mbar=full.ptr_to([0]),
                    oob="zero",
                )
                Tx.copy_async(B_s[:, :], B[e, :, :], dispatch="tma_auto", mbar=full.ptr_to([0]))
                full.wait(0, i % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(acc[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05")
                done.arrive(0)
        done.wait(0, i % 2)
        T.ptx.tcgen05.fence.after_thread_sync()
        Tx.wg.copy_async(rw[:, :], acc[:, :])
        T.ptx.tcgen05.wait.ld()
        if first + i * 128 + tid < last:
            Tx.copy(D[first + i * 128 + tid, :], r[:])
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
    T.cuda.cta_sync()
    tmem_pool.dealloc()


@case
def case_grouped():
    a, b = rng.standard_normal((256, 64)).astype(bf16), rng.standard_normal((3, 64, 64)).astype(bf16)
    off = np.array([0, 150, 150, 256], np.int32)
    w = np.concatenate([a[off[i] : off[i + 1]].astype(float) @ b[i].astype(float).T for i in range(3)])
    return grouped, (a, b, off, np.zeros((256, 64), np.float32)), {"D": (w, 1e-4)}


# conv 3x3 as implicit GEMM: TMA boxes shifted, out-of-bounds zero, NHWC 8x16 spatial tile = 128 pixels
@T.prim_func
def conv(
    X: T.Buffer((2, 8, 16, 64), "float16"),
    W: T.Buffer((3, 3, 64, 64), "float16"),
    Y: T.Buffer((2, 8, 16, 64), "float32"),
):
    T.device_entry()
    n = T.cta_id([2])
    warp_id = T.warp_id([4])
    tid = T.thread_id([128])
    pool = T.SMEMPool()
    A_s = pool.alloc((8, 16, 64), "float16", align=1024, layout=mma_shared_layout("float16", 3, (8, 16, 64)))
    B_s = pool.alloc((64, 64), "float16", align=1024, layout=mma_shared_layout("float16", 3, (64, 64)))
    A_m = T.decl_buffer(
        (128, 64),
        "float16",
        data=A_s.data,
        scope="shared.dyn",
        elem_offset=A_s.elem_offset,
        layout=mma_shared_layout("float16", 3, (128, 64)),
    )
    full = TMABar(pool, 1)
    done = TCGen05Bar(pool, 1)
    tmem_pool = T.TMEMPool(pool, total_cols=64)
    acc = tmem_pool.alloc((128, 64), "float32")
    tmem_pool.commit()
    pool.commit()
    full.init(1)
    done.init(1)
    T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            for k in T.serial(9):
                full.arrive(0, (128 + 64) * 64 * 2)
                Tx.copy_async(
                    A_s[:, :, :],
                    X[n, k // 3 - 1 : k // 3 + 7, k % 3 - 1 : k % 3 + 15, :],
                    dispatch="tma_auto",
                    mbar=full.ptr_to([0]),
                    oob="zero",
                )
                Tx.copy_async(B_s[:, :], W[k // 3, k % 3, :, :], dispatch="tma_auto", mbar=full.ptr_to([0]))
                full.wait(0, k % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(acc[:, :], A_m[:, :], B_s[:, :], accum=k > 0, dispatch="tcgen05")
                done.arrive(0)
                done.wait(0, k % 2)
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    r = T.alloc_local((64,), "float32")
    rw = r.view(128, 64, layout=rows(64))
    Tx.wg.copy_async(rw[:, :], acc[:, :])
    T.ptx.tcgen05.wait.ld()
    Tx.copy(Y[n, tid // 16, tid % 16, :], r[:])
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    tmem_pool.dealloc()


@case
def case_conv():
    x, w = (
        rng.integers(-3, 4, (2, 8, 16, 64)).astype(np.float16),
        rng.integers(-3, 4, (3, 3, 64, 64)).astype(np.float16),
    )
    p = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.zeros((2, 8, 16, 64))
    for i in range(3):
        for j in range(3):
            y += p[:, i : i + 8, j : j + 16] @ w[i, j].astype(float).T
    return conv, (x, w, np.zeros((2, 8, 16, 64), np.float32)), {"Y": (y, 0)}


# weight-only int4: dequantise B into swizzled shared memory, tensor core
@T.prim_func
def int4_gemm(
    A: T.Buffer((128, 64), "float16"),
    Q: T.Buffer((64, 8), "uint32"),
    SC: T.Buffer((64, 2), "float16"),
    D: T.Buffer((128, 64), "float16"),
):
    T.device_entry()
    warp_id = T.warp_id([4])
    tid = T.thread_id([128])
    pool = T.SMEMPool()
    A_s = pool.alloc((128, 64), "float16", align=1024, layout=mma_shared_layout("float16", 3, (128, 64)))
    B_s = pool.alloc((64, 64), "float16", align=1024, layout=mma_shared_layout("float16", 3, (64, 64)))
    full = TMABar(pool, 1)
    done = TCGen05Bar(pool, 1)
    tmem_pool = T.TMEMPool(pool, total_cols=64)
    acc = tmem_pool.alloc((128, 64), "float32")
    tmem_pool.commit()
    pool.commit()
    full.init(1)
    done.init(1)
    T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            full.arrive(0, 128 * 64 * 2)
            Tx.copy_async(A_s[:, :], A[:, :], dispatch="tma_auto", mbar=full.ptr_to([0]))
    h = T.alloc_local((8,), "float16")
    for i in T.unroll(4):
        n = T.meta_var(i * 16 + tid // 8)
        word = Q[n, tid % 8]
        for j in T.unroll(8):
            h[j] = T.cast(T.cast((word >> T.uint32(4 * j)) & T.uint32(15), "int32") - 8, "float16")
        Tx.mul(h[:], h[:], SC[n, tid % 8 // 4])
        Tx.copy(B_s[n, tid % 8 * 8 : tid % 8 * 8 + 8], h[:])
    T.ptx.fence.proxy_async("shared::cta")
    T.cuda.cta_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            full.wait(0, 0)
            Tx.gemm_async(acc[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05")
            done.arrive(0)
    done.wait(0, 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    Tx.wg.cast(D[:, :], acc[:, :])
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    tmem_pool.dealloc()


@case
def case_int4g():
    a = rng.integers(-3, 4, (128, 64)).astype(np.float16)
    q = rng.integers(0, 16, (64, 64))
    sc = rng.choice([0.5, 1.0, 2.0], (64, 2)).astype(np.float16)
    words = sum(q.reshape(64, 8, 8)[..., j].astype(np.uint32) << np.uint32(4 * j) for j in range(8)).astype(np.uint32)
    d = a.astype(float) @ ((q - 8) * np.repeat(sc.astype(float), 32, 1)).T
    return int4_gemm, (a, words, sc, np.zeros((128, 64), np.float16)), {"D": (d, 1e-3)}
