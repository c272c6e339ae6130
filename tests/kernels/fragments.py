"""Kernels on fragments of ``mma.sync`` and on rows of warps: causal attention, stream-K, cross entropy with its gradient."""

import numpy as np

from tirx_eq.layout import R, S, TileLayout, laneid
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

rng = np.random.default_rng(0)
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


# FlashAttention-2 with mma.sync fragments, causal, one warp = 16 queries, key blocks of 16
D_ = 32
acc16 = TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])  # 16x16 accumulator
a16 = TileLayout(S[(2, 8, 2, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])  # 16x16 A operand
b16 = TileLayout(S[(2, 8, 2, 4, 2) : (4, 4 @ laneid, 2, 1 @ laneid, 1)])  # 16(n) x 16(k) B operand, transposed
acc32 = TileLayout(S[(2, 8, 4, 4, 2) : (2, 4 @ laneid, 4, 1 @ laneid, 1)])  # 16x32
a32 = TileLayout(S[(2, 8, 2, 2, 4, 2) : (2, 4 @ laneid, 8, 4, 1 @ laneid, 1)])  # 16x32 A
b32 = TileLayout(S[(2, 8, 2, 2, 4, 2) : (4, 4 @ laneid, 8, 2, 1 @ laneid, 1)])  # 16(n) x 32(k)
v32 = TileLayout(S[(2, 4, 2, 4, 8) : (2, 1 @ laneid, 1, 4, 4 @ laneid)])  # 16(k) x 32(n)
quad = TileLayout(S[(2, 8, 1) : (1, 4 @ laneid, 1)] + R[4 : 1 @ laneid])


@T.prim_func
def fa2(
    Q: T.Buffer((32, D_), "float16"),
    K: T.Buffer((32, D_), "float16"),
    V: T.Buffer((32, D_), "float16"),
    O: T.Buffer((32, D_), "float32"),
):
    T.device_entry()
    w = T.warp_id([2])
    T.lane_id([32])
    q = T.alloc_local((16,), "float16").view(16, D_, layout=a32)
    k = T.alloc_local((16,), "float16").view(16, D_, layout=b32)
    v = T.alloc_local((16,), "float16").view(16, D_, layout=v32)
    s = T.alloc_local((8,), "float32").view(16, 16, layout=acc16)
    p = T.alloc_local((8,), "float16").view(16, 16, layout=a16)
    o = T.alloc_local((16,), "float32").view(16, D_, layout=acc32)
    m_r = T.alloc_local((2,), "float32")
    n_r = T.alloc_local((2,), "float32")
    l_r = T.alloc_local((2,), "float32")
    r_r = T.alloc_local((2,), "float32")
    m = m_r.view(16, 1, layout=quad)
    new = n_r.view(16, 1, layout=quad)
    tot = l_r.view(16, 1, layout=quad)
    row = r_r.view(16, 1, layout=quad)
    Tx.warp.copy(q[:, :], Q[w * 16 : w * 16 + 16, :])
    Tx.warp.zero(o[:, :])
    Tx.fill(m_r[:], T.float32(-1e30))
    Tx.zero(l_r[:])
    for j in T.serial(w + 1):
        Tx.warp.copy(k[:, :], K[j * 16 : j * 16 + 16, :])
        Tx.warp.copy(v[:, :], V[j * 16 : j * 16 + 16, :])
        Tx.warp.zero(s[:, :])
        Tx.warp.gemm(s[:, :], q[:, :], k[:, :], s[:, :], False, True, beta=1.0)
        if j == w:
            Tx.warp.select(s[:, :], s[:, :], -1e30, lambda a, b: b <= a)
        Tx.warp.copy(new[:, :], m[:, :])
        Tx.warp.max(new[:, 0], s[:, :], accum=True)
        Tx.sub(m_r[:], m_r[:], n_r[:])
        Tx.exp(m_r[:], m_r[:])
        Tx.warp.sub(s[:, :], s[:, :], new[:, :])
        Tx.warp.exp(s[:, :], s[:, :])
        Tx.warp.sum(row[:, 0], s[:, :])
        Tx.fma(l_r[:], l_r[:], m_r[:], r_r[:])
        Tx.warp.mul(o[:, :], o[:, :], m[:, :])
        Tx.warp.copy(m[:, :], new[:, :])
        Tx.warp.cast(p[:, :], s[:, :])
        Tx.warp.gemm(o[:, :], p[:, :], v[:, :], o[:, :], False, False, beta=1.0)
    Tx.warp.fdiv(o[:, :], o[:, :], tot[:, :])
    Tx.warp.copy(O[w * 16 : w * 16 + 16, :], o[:, :])


@case
def case_fa2():
    q, k, v = ((rng.standard_normal((32, D_)) / 2).astype(np.float16) for _ in range(3))
    s = q.astype(float) @ k.astype(float).T
    s = np.where(np.tril(np.ones((32, 32))) > 0, s, -np.inf)
    p = np.exp(s - s.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    return fa2, (q, k, v, np.zeros((32, D_), np.float32)), {"O": (p @ v.astype(float), 5e-3)}


# stream-K: 3 CTAs share 2 tiles x 4 steps; partial tiles by atomics on f32
@T.prim_func
def stream_k(A: T.Buffer((32, 64), "float16"), B: T.Buffer((16, 64), "float16"), D: T.Buffer((32, 16), "float32")):
    T.device_entry()
    bx = T.cta_id([3])
    l = T.lane_id([32])
    a = T.alloc_local((8,), "float16").view(16, 16, layout=a16)
    b = T.alloc_local((8,), "float16").view(16, 16, layout=b16)
    d_r = T.alloc_local((8,), "float32")
    d = d_r.view(16, 16, layout=acc16)
    it: T.int32 = bx * 8 // 3
    end = (bx + 1) * 8 // 3
    while it < end:
        tile = it // 4
        last = T.min(end, (tile + 1) * 4)
        Tx.warp.zero(d[:, :])
        for k in T.serial(it, last):
            Tx.warp.copy(a[:, :], A[tile * 16 : tile * 16 + 16, k % 4 * 16 : k % 4 * 16 + 16])
            Tx.warp.copy(b[:, :], B[:, k % 4 * 16 : k % 4 * 16 + 16])
            Tx.warp.gemm(d[:, :], a[:, :], b[:, :], d[:, :], False, True, beta=1.0)
        for i in T.unroll(8):
            T.cuda.atomic_add(D.ptr_to([tile * 16 + i // 2 % 2 * 8 + l // 4, i // 4 * 8 + l % 4 * 2 + i % 2]), d_r[i])
        it = last


@case
def case_stream():
    a, b = rng.integers(-3, 4, (32, 64)).astype(np.float16), rng.integers(-3, 4, (16, 64)).astype(np.float16)
    return stream_k, (a, b, np.zeros((32, 16), np.float32)), {"D": (a.astype(float) @ b.astype(float).T, 0)}


# softmax cross entropy with gradient, classes not a multiple of the warp
@T.prim_func
def xent(
    L: T.Buffer((8, 100), "float32"),
    Y: T.Buffer((8,), "int32"),
    LOSS: T.Buffer((8,), "float32"),
    G: T.Buffer((8, 100), "float32"),
):
    T.device_entry()
    w = T.warp_id([8])
    l = T.lane_id([32])
    s = T.alloc_shared((8, 100), "float32")
    red = T.alloc_shared((8, 2), "float32")
    Tx.warp.max(red[w, 0:1], L[w, :])
    T.cuda.warp_sync()
    Tx.warp.sub(s[w, :], L[w, :], red[w, 0])
    T.cuda.warp_sync()
    Tx.warp.exp(s[w, :], s[w, :])
    T.cuda.warp_sync()
    Tx.warp.sum(red[w, 1:2], s[w, :])
    T.cuda.warp_sync()
    if l == 0:
        LOSS[w] = T.log(red[w, 1]) + red[w, 0] - L[w, Y[w]]
    Tx.warp.mul(s[w, :], s[w, :], T.float32(1) / red[w, 1])
    T.cuda.warp_sync()
    if l == 0:
        s[w, Y[w]] = s[w, Y[w]] - T.float32(1)
    T.cuda.warp_sync()
    Tx.warp.copy(G[w, :], s[w, :])


@case
def case_xent():
    x = rng.standard_normal((8, 100)).astype(np.float32)
    y = rng.integers(0, 100, 8).astype(np.int32)
    p = np.exp(x - x.max(1, keepdims=True).astype(float))
    p /= p.sum(1, keepdims=True)
    g = p.copy()
    g[np.arange(8), y] -= 1
    return (
        xent,
        (x, y, np.zeros(8, np.float32), np.zeros((8, 100), np.float32)),
        {"LOSS": (-np.log(p[np.arange(8), y]), 1e-5), "G": (g, 1e-5)},
    )
