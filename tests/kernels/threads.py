"""Kernels of threads and warps: layer normalisation, routing of experts, attention over pages."""

import ml_dtypes
import numpy as np

from tirx_eq.layout import S, TileLayout, laneid
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

rng = np.random.default_rng(0)
bf16 = ml_dtypes.bfloat16
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


# layernorm + residual, vectors of a warp, rows of 384 (3*128)
@T.prim_func
def layernorm(
    X: T.Buffer((8, 384), "bfloat16"),
    RES: T.Buffer((8, 384), "bfloat16"),
    G: T.Buffer((384,), "float32"),
    Bt: T.Buffer((384,), "float32"),
    Y: T.Buffer((8, 384), "bfloat16"),
):
    T.device_entry()
    bx = T.cta_id([2])
    w = T.warp_id([4])
    x = T.alloc_local((12,), "float32")
    d = T.alloc_local((12,), "float32")
    m = T.alloc_local((1,), "float32")
    v = T.alloc_local((1,), "float32")
    rows = TileLayout(S[(3, 32, 4) : (4, 1 @ laneid, 1)])
    xv = x.view(384, layout=rows)
    dv = d.view(384, layout=rows)
    row = T.meta_var(bx * 4 + w)
    Tx.warp.cast(xv[:], X[row, :])
    Tx.warp.add(xv[:], xv[:], RES[row, :])
    Tx.warp.sum(m[:], xv[:])
    Tx.mul(m[:], m[:], 1.0 / 384)
    Tx.warp.sub(dv[:], xv[:], m[0])
    Tx.mul(x[:], d[:], d[:])
    Tx.warp.sum(v[:], xv[:])
    v[0] = T.rsqrt(v[0] / 384.0 + 1e-5)
    Tx.mul(d[:], d[:], v[0])
    Tx.warp.mul(dv[:], dv[:], G[:])
    Tx.warp.add(dv[:], dv[:], Bt[:])
    Tx.warp.cast(Y[row, :], dv[:])


@case
def case_layernorm():
    x, r = (rng.standard_normal((8, 384)).astype(bf16) for _ in range(2))
    g, b = (rng.standard_normal(384).astype(np.float32) for _ in range(2))
    s = x.astype(np.float64) + r.astype(np.float64)
    want = (s - s.mean(1, keepdims=True)) / np.sqrt(s.var(1, keepdims=True) + 1e-5) * g + b
    return layernorm, (x, r, g, b, np.zeros((8, 384), bf16)), {"Y": (want, 1e-2)}


# MoE routing: softmax over 8 experts, top 2, renormalised weights and counts per expert
@T.prim_func
def route(
    L: T.Buffer((64, 8), "float32"),
    W: T.Buffer((64, 2), "float32"),
    I: T.Buffer((64, 2), "int32"),
    CNT: T.Buffer((8,), "int32"),
):
    T.device_entry()
    bx = T.cta_id([2])
    t = T.thread_id([32])
    x = T.alloc_local((8,), "float32")
    m = T.alloc_local((1,), "float32")
    Tx.copy(x[:], L[bx * 32 + t, :])
    Tx.max(m[:], x[:])
    Tx.sub(x[:], x[:], m[0])
    Tx.exp(x[:], x[:])
    b0: T.float32 = -1.0
    b1: T.float32 = -1.0
    i0: T.int32 = 0
    i1: T.int32 = 0
    for e in T.unroll(8):
        if x[e] > b0:
            b1 = b0
            i1 = i0
            b0 = x[e]
            i0 = e
        else:
            if x[e] > b1:
                b1 = x[e]
                i1 = e
    W[bx * 32 + t, 0] = b0 / (b0 + b1)
    W[bx * 32 + t, 1] = b1 / (b0 + b1)
    I[bx * 32 + t, 0] = i0
    I[bx * 32 + t, 1] = i1
    T.cuda.atomic_add(CNT.ptr_to([i0]), 1)
    T.cuda.atomic_add(CNT.ptr_to([i1]), 1)


@case
def case_route():
    x = rng.standard_normal((64, 8)).astype(np.float32)
    p = np.exp(x - x.max(1, keepdims=True))
    i = np.argsort(-p, 1)[:, :2]
    ww = np.take_along_axis(p, i, 1)
    ww /= ww.sum(1, keepdims=True)
    return (
        route,
        (x, np.zeros((64, 2), np.float32), np.zeros((64, 2), np.int32), np.zeros(8, np.int32)),
        {"W": (ww, 1e-5), "I": (i, 0), "CNT": (np.bincount(i.ravel(), minlength=8), 0)},
    )


# paged decode attention: a warp per head, pages of 8 keys through a table
@T.prim_func
def paged(
    Q: T.Buffer((2, 64), "float16"),
    KC: T.Buffer((6, 8, 64), "float16"),
    VC: T.Buffer((6, 8, 64), "float16"),
    TB: T.Buffer((2, 3), "int32"),
    LEN: T.Buffer((2,), "int32"),
    O: T.Buffer((2, 64), "float32"),
):
    T.device_entry()
    b = T.cta_id([2])
    l = T.lane_id([32])
    q = T.alloc_local((2,), "float32")
    k = T.alloc_local((2,), "float32")
    o = T.alloc_local((2,), "float32")
    Tx.cast(q[:], Q[b, l * 2 : l * 2 + 2])
    Tx.zero(o[:])
    m: T.float32 = -1e30
    s: T.float32 = 0.0
    n = LEN[b]
    for p in T.serial((n + 7) // 8):
        page = TB[b, p]
        for j in T.serial(8):
            if p * 8 + j < n:
                Tx.cast(k[:], KC[page, j, l * 2 : l * 2 + 2])
                x: T.float32 = q[0] * k[0] + q[1] * k[1]
                for i in T.unroll(5):
                    x = x + T.cuda.__shfl_xor_sync(T.uint32(0xFFFFFFFF), x, 16 >> i, 32)
                x = x * T.float32(0.125)
                new = T.max(m, x)
                f = T.exp(m - new)
                e = T.exp(x - new)
                s = s * f + e
                m = new
                Tx.cast(k[:], VC[page, j, l * 2 : l * 2 + 2])
                Tx.mul(o[:], o[:], f)
                Tx.fma(o[:], k[:], e, o[:])
    Tx.mul(o[:], o[:], T.float32(1) / s)
    Tx.copy(O[b, l * 2 : l * 2 + 2], o[:])


@case
def case_paged():
    q = rng.standard_normal((2, 64)).astype(np.float16)
    kc, vc = (rng.standard_normal((6, 8, 64)).astype(np.float16) for _ in range(2))
    tb = np.array([[3, 0, 5], [1, 4, 2]], np.int32)
    ln = np.array([19, 7], np.int32)
    out = []
    for b in range(2):
        k = kc[tb[b]].reshape(-1, 64)[: ln[b]].astype(float)
        v = vc[tb[b]].reshape(-1, 64)[: ln[b]].astype(float)
        s = k @ q[b].astype(float) / 8
        p = np.exp(s - s.max())
        out.append(p @ v / p.sum())
    return paged, (q, kc, vc, tb, ln, np.zeros((2, 64), np.float32)), {"O": (np.array(out), 1e-4)}
