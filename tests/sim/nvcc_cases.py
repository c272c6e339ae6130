"""CUDA C++ kernels compiled by nvcc: inputs, launch and the expected arrays, each in a few lines of numpy."""

from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

from tirx_eq.sim import Launch, TensorMap

f32, f16, i32 = np.float32, np.float16, np.int32


@dataclass
class Case:
    """``expected``: argument index or name -> array; ``tolerance`` relative, 0 = bit for bit."""

    launch: Launch
    arguments: list | dict
    expected: dict
    tolerance: float = 0.0
    maps: dict[str, TensorMap] = field(default_factory=dict)


def rng(seed=0):
    return np.random.default_rng(seed)


def floats(*shape, seed=0):
    return rng(seed).standard_normal(shape).astype(f32)


def ints(*shape, low=-100, high=100, seed=0, dtype=i32):
    return rng(seed).integers(low, high, shape).astype(dtype)


def vector_add():
    a, b = floats(1000), floats(1000, seed=1)
    return Case(Launch((8, 1, 1), (128, 1, 1)), [a, b, np.zeros(1024, f32), 1000],
                {2: np.concatenate([a + b, np.zeros(24, f32)])})


def saxpy4():
    x, y = ints(512 * 4, seed=1).astype(f32), ints(512 * 4, seed=2).astype(f32)
    return Case(Launch((2, 1, 1), (64, 1, 1)), [2.5, x, y, 512], {2: (2.5 * x + y).astype(f32)})


def matmul_tiled():
    a, b = ints(32, 32, seed=1).astype(f32), ints(32, 32, seed=2).astype(f32)
    return Case(Launch((2, 2, 1), (16, 16, 1)), [a, b, np.zeros((32, 32), f32), 32], {2: a @ b})


def reduce_shuffle():
    x = ints(1000)
    return Case(Launch((4, 1, 1), (256, 1, 1)), [x, np.zeros(1, i32), 1000], {1: x.sum(keepdims=True, dtype=i32)})


def transpose_swizzled():
    x = floats(64, 64)
    return Case(Launch((2, 2, 1), (32, 8, 1)), [x, np.zeros((64, 64), f32), 64], {1: x.T})


def cp_async_pipeline():
    x = floats(5, 128, 4)
    return Case(Launch((1, 1, 1), (128, 1, 1)), [x, np.zeros_like(x), 5], {1: x[:, ::-1, ::-1]})


def softmax_rows():
    x = floats(8, 100)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return Case(Launch((2, 1, 1), (128, 1, 1)), [x, np.zeros_like(x), 100], {1: e / e.sum(axis=1, keepdims=True)}, 1e-5)


def layernorm():
    x, g = floats(3, 300), floats(300, seed=1)
    wide = x.astype(np.float64)
    y = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * g
    return Case(Launch((3, 1, 1), (128, 1, 1)), [x, g, np.zeros_like(x), 300], {2: y}, 1e-4)


def histogram():
    x = ints(3000, low=0, high=256, dtype=np.uint8)
    return Case(Launch((3, 1, 1), (128, 1, 1)), [x, np.zeros(256, np.uint32), 3000],
                {1: np.bincount(x, minlength=256).astype(np.uint32)})


def prefix_sum():
    x = ints(512)
    return Case(Launch((1, 1, 1), (512, 1, 1)), [x, np.zeros(512, i32)], {1: np.cumsum(x, dtype=i32)})


def half2_math():
    a, b = (rng(s).standard_normal((100, 2)).astype(f16) for s in (1, 2))
    wide = [v.astype(np.float64) for v in (a, b)]
    inner = (wide[0] + 0.5).astype(f16).astype(np.float64)
    v = (wide[0] * wide[1] + inner).astype(f16)
    return Case(Launch((1, 1, 1), (128, 1, 1)), [a, b, np.zeros_like(a), np.zeros((100, 2), np.uint16), 100],
                {2: np.maximum(v, -b), 3: v.astype(f32).astype(ml_dtypes.bfloat16).view(np.uint16)})


def bf16_gemv():
    a, x = ints(8, 96, low=-8, high=9), ints(96, low=-8, high=9, seed=1)
    bits = [v.astype(ml_dtypes.bfloat16).view(np.uint16) for v in (a, x)]
    return Case(Launch((2, 1, 1), (128, 1, 1)), [*bits, np.zeros(8, f32), 96], {2: (a @ x).astype(f32)})


def fp8_convert():
    x = (floats(200, 2) * 60).astype(f32)
    x[0], x[1] = (1e9, -1e9), (0.001, 0.0)
    four = np.clip(x, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    five = np.clip(x, -57344, 57344).astype(ml_dtypes.float8_e5m2)
    return Case(Launch((2, 1, 1), (128, 1, 1)),
                [x, np.zeros(200, np.uint16), np.zeros(200, np.uint16), np.zeros((200, 2), f32), 200],
                {1: four.view(np.uint16).ravel(), 2: five.view(np.uint16).ravel(), 3: four.astype(f32)})


def last_block_sum():
    x = ints(4 * 128)
    return Case(Launch((4, 1, 1), (128, 1, 1)), [x, np.zeros(4, i32), np.zeros(1, i32)],
                {2: x.sum(keepdims=True, dtype=i32)})


def bitonic_sort():
    x = ints(2, 256, high=10000)
    return Case(Launch((2, 1, 1), (256, 1, 1)), [x], {0: np.sort(x, axis=1)})


def compact():
    x = ints(128)
    return Case(Launch((1, 1, 1), (128, 1, 1)), [x, np.zeros(128, i32), np.zeros(1, i32), 128],
                {2: np.array([(x > 0).sum()], i32)})


def bit_tricks():
    x = rng(3).integers(0, 1 << 32, 100).astype(np.uint32)
    x[:3] = 0, 0xFFFFFFFF, 1
    rows = [[v & 0xFFFFFFFF for v in bits(int(v))] for v in x]
    return Case(Launch((1, 1, 1), (128, 1, 1)), [x, np.zeros((100, 12), np.uint32), 100], {1: np.array(rows, np.uint32)})


def bits(v):
    m = 0xFFFFFFFF
    signed = v - (1 << 32) if v >> 31 else v
    both = v | (~v & m) << 32
    pick = [both >> 8 * n & 0xFF for n in (5, 1, 7, 3)]
    s = v & 31
    return [v.bit_count(), 32 - v.bit_length(), int(f"{v:032b}"[::-1], 2), (v & -v).bit_length(),
            sum(b << 8 * i for i, b in enumerate(pick)), (((~v & m) << 32 | v) << s) >> 32 & m, v * 0x9E3779B9 >> 32,
            v // 7, abs(signed) % 13 * (1 if signed >= 0 else -1), (v >> 5 & 0x1FF) | (v & 0xF0F) ^ (~(v << 3) & m),
            v * v >> 17, max(signed, -5) - min(signed, 77)]


def double_math():
    a, b = (rng(s).standard_normal(100) for s in (1, 2))
    q = np.sqrt(np.abs(a)) / np.array([_fma(y, y, 1.0) for y in b])
    return Case(Launch((1, 1, 1), (128, 1, 1)), [a, b, np.zeros(100), 100],
                {2: np.array([_fma(*t) for t in zip(a, b, q)])})


def _fma(x, y, z):
    from fractions import Fraction
    return float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)))


def local_array():
    x = ints(64, 16, low=0, high=256)
    out = []
    for i, row in enumerate(x.tolist()):
        s, at = 0, i & 15
        for k in range(20):
            s = (s * 3 + row[at]) & 0xFFFFFFFF
            row[at] = s & 0xFF
            at = (at + row[(k * 7) & 15]) & 15
        out.append(s)
    return Case(Launch((1, 1, 1), (64, 1, 1)), [x, np.zeros(64, i32), 20], {1: np.array(out, np.uint32).view(i32)})


def device_call():
    x = ints(64, low=-3, high=4).astype(f32)

    def poly(v, n):
        s = 1.0
        for i in range(n):
            s = s * v + i
        return s
    y = np.array([poly(float(v), i % 7) - poly(float(v), 2) for i, v in enumerate(x)], f32)
    return Case(Launch((2, 1, 1), (32, 1, 1)), [x, np.zeros(64, f32), 7], {1: y})


def wmma_matmul():
    a, b = (ints(32, 32, low=-8, high=9, seed=s).astype(f16) for s in (1, 2))
    return Case(Launch((2, 2, 1), (32, 1, 1)), [a, b, np.zeros((32, 32), f32), 32], {2: a.astype(f32) @ b.astype(f32).T})


def mma_sync():
    a, b = ints(16, 16, low=-8, high=9, seed=1).astype(f16), ints(8, 16, low=-8, high=9, seed=2).astype(f16)
    return Case(Launch((1, 1, 1), (32, 1, 1)), [a, b, np.zeros((16, 8), f32)], {2: a.astype(f32) @ b.astype(f32).T})


def bulk_mbarrier():
    x = ints(3, 1024)
    return Case(Launch((3, 1, 1), (128, 1, 1)), [x, np.zeros_like(x)], {1: 2 * x + 1})


def cuda_barrier():
    x = ints(4, 256)
    return Case(Launch((1, 1, 1), (256, 1, 1)), [x, np.zeros_like(x)], {1: x[:, ::-1]})


def cluster_dsmem():
    x = ints(2, 4, 64)
    t = np.arange(64)
    total = sum(x[:, r][:, (t + r) % 64] for r in range(4))
    return Case(Launch((8, 1, 1), (64, 1, 1), (4, 1, 1)), [x, np.zeros_like(x)], {1: np.repeat(total[:, None], 4, 1)})


def warp_reduce_ops():
    x = ints(2, 64)
    out = np.zeros((128, 6), np.uint32)
    for w, v in enumerate(x.reshape(4, 32)):
        same = [sum(1 << j for j in range(32) if v[j] & 7 == v[i] & 7) for i in range(32)]
        rows = out[32 * w : 32 * w + 32]
        rows[:, 0], rows[:, 1] = np.uint32(int(v.sum()) & 0xFFFFFFFF), np.uint32(int(v.max()) & 0xFFFFFFFF)
        rows[:, 2], rows[:, 3] = np.bitwise_xor.reduce(v.view(np.uint32)), np.array(same, np.uint32)
        rows[:, 4], rows[:, 5] = 2 * (v == 5).any() + (v < 100).all(), 0xFFFFFFFF
    return Case(Launch((2, 1, 1), (64, 1, 1)), [x, np.zeros((128, 6), np.uint32)], {1: out})


def divergent():
    x = ints(128, low=1, high=1000)
    y = []
    for v in x.tolist():
        steps = 0
        while v != 1 and steps < 60:
            v = 3 * v + 1 if v & 1 else v >> 1
            steps += 1
            if steps % 5 == 0:
                continue
            if v > 100000:
                break
        y.append([steps, -steps, steps * steps, v][steps % 4])
    return Case(Launch((2, 1, 1), (64, 1, 1)), [x, np.zeros(128, i32), 60], {1: np.array(y, i32)})


def small(*shape, seed=0):
    return ints(*shape, low=-8, high=9, seed=seed).astype(f16)


def tile(array, rows, k, box_rows, element="f16", size=2):
    return TensorMap(array, element, (k, rows), (k * size,), (128 // size, box_rows), swizzle="128B")


def tc_gemm_sync():
    a, b = small(128, 64, seed=1), small(128, 64, seed=2)
    return Case(Launch((1, 1, 1), (128, 1, 1), dynamic_shared=32768), [a, b, np.zeros((128, 128), f16)],
                {2: (a.astype(f32) @ b.astype(f32).T).astype(f16)})


def tc_gemm_pipeline(n=256, k=320):
    a, b = small(n, k, seed=1), small(n, k, seed=2)
    p = "tc_gemm_pipeline_param_"
    return Case(Launch((n // 128, n // 128, 1), (192, 1, 1), dynamic_shared=3 * 32768),
                {p + "2": np.zeros((n, n), f32), p + "3": n, p + "4": k, "A": a, "B": b},
                {p + "2": a.astype(f32) @ b.astype(f32).T}, maps={p + "0": tile("A", n, k, 128), p + "1": tile("B", n, k, 128)})


def tma_transpose():
    x = floats(64, 96)
    p = "tma_transpose_param_"
    return Case(Launch((3, 2, 1), (128, 1, 1)), {"X": x, "Y": np.zeros((96, 64), f32)}, {"Y": x.T},
                maps={p + "0": tile("X", 64, 96, 32, "f32", 4), p + "1": tile("Y", 96, 64, 32, "f32", 4)})


def tc_block_scaled():
    a, b = (ints(rows, 32, low=-8, high=9, seed=s).astype(f32) for rows, s in ((128, 1), (64, 2)))
    sa, sb = ints(128, low=124, high=131, seed=3, dtype=np.uint8), ints(64, low=124, high=131, seed=4, dtype=np.uint8)
    images = []
    for s in (sa, sb):
        image = np.full((32, 4, 4), 127, np.uint8)
        image[:, : len(s) // 32, 0] = s.reshape(-1, 32).T
        images.append(image)
    scaled = [v * 2.0 ** (s.astype(np.float64) - 127)[:, None] for v, s in ((a, sa), (b, sb))]
    fp8 = [v.astype(ml_dtypes.float8_e4m3fn).view(np.uint8) for v in (a, b)]
    return Case(Launch((1, 1, 1), (128, 1, 1)), [*fp8, *images, np.zeros((128, 64), f32)], {4: scaled[0] @ scaled[1].T})


def tc_pair():
    a, b = small(256, 64, seed=1), small(128, 64, seed=2)
    p = "tc_pair_param_"
    return Case(Launch((2, 1, 1), (128, 1, 1), (2, 1, 1), 32768),
                {p + "2": np.zeros((256, 128), f32), "A": a, "B": b}, {p + "2": a.astype(f32) @ b.astype(f32).T},
                maps={p + "0": tile("A", 256, 64, 128), p + "1": tile("B", 128, 64, 64)})


def tma_multicast():
    x = ints(16, 40)
    out = np.zeros((8, 8, 32), i32)
    for cta in range(8):
        leader = cta // 4 * 4
        out[cta, :, 4:] = x[2 * leader : 2 * leader + 8, :28]
        out[cta] += cta % 4
    p = "tma_multicast_param_"
    return Case(Launch((8, 1, 1), (64, 1, 1), (4, 1, 1)), {p + "1": np.zeros_like(out), "X": x}, {p + "1": out},
                maps={p + "0": TensorMap("X", "s32", (40, 16), (160,), (32, 8))})


def clc_persistent():
    x = ints(30, 64)
    return Case(Launch((30, 1, 1), (64, 1, 1)), [x, np.zeros_like(x), np.zeros(1, i32)],
                {1: 3 * x + np.arange(30, dtype=i32)[:, None]})


def st_async_ring():
    x = ints(2, 4, 32)
    y = np.roll(x, 1, axis=1)[:, :, ::-1] * 1000 + np.roll(x, 2, axis=1).sum(axis=2, keepdims=True)
    return Case(Launch((8, 1, 1), (32, 1, 1), (4, 1, 1)), [x, np.zeros_like(x)], {1: y})


def named_barriers():
    x = ints(5, 64)
    return Case(Launch((1, 1, 1), (128, 1, 1)), [x, np.zeros_like(x), 5],
                {1: x[:, ::-1] + np.arange(5, dtype=i32)[:, None]})


def packed_math():
    a, b = floats(32, 2, seed=1), floats(32, 2, seed=2)
    wide = [v.astype(np.float64) for v in (a, b)]
    z = (wide[0] * wide[1] + wide[0]).astype(f32)
    exact = z.astype(np.float64) * wide[1]
    w = exact.astype(f32)
    w = np.where(np.abs(w.astype(np.float64)) > np.abs(exact), np.nextafter(w, f32(0)), w)
    m = np.maximum(np.maximum(a[:, 0], a[:, 1]), b[:, 0])
    return Case(Launch((1, 1, 1), (32, 1, 1)), [a, b, np.zeros_like(a), np.zeros(32, f32)], {2: w + a, 3: m + m.max()})


def atomics():
    x = ints(200)
    both = np.array([(200 << 32) + int((x & 7).sum())], np.uint64)
    return Case(Launch((2, 1, 1), (128, 1, 1)),
                [x, np.full(1, -(10**6), i32), np.zeros(1, i32), np.zeros(1, f32), np.zeros(1, np.uint64), 200],
                {1: x.max(keepdims=True), 2: np.array([400], i32), 3: np.array([(x & 15).sum()], f32), 4: both})


def tc_attention():
    q, k, v = (rng(s).standard_normal((128, 64)).astype(f16) for s in (1, 2, 3))
    score = q.astype(np.float64) @ k.astype(np.float64).T
    p = 2.0 ** (score - score.max(axis=1, keepdims=True))
    return Case(Launch((1, 1, 1), (128, 1, 1), dynamic_shared=49152), [q, k, v, np.zeros((128, 64), f32)],
                {3: p @ v.astype(np.float64) / p.sum(axis=1, keepdims=True)}, 2e-3)


def tvm_scale():
    x = floats(1024)
    return Case(Launch((4, 1, 1), (256, 1, 1)), [x, np.zeros_like(x)], {1: 2 * x})


def tvm_gemm():
    a, b = small(128, 64, seed=1), small(128, 64, seed=2)
    return Case(Launch((1, 1, 1), (128, 1, 1), dynamic_shared=33792), [a, b, np.zeros((128, 128), f16)],
                {2: (a.astype(f32) @ b.astype(f32).T).astype(f16)})


def tvm_reduce():
    x = ints(64, 128).astype(f32)
    return Case(Launch((1, 1, 1), (128, 1, 1)), [x, np.zeros(64, f32)], {1: x.sum(axis=1)})


def tvm_elementwise():
    x = rng().random((64, 64)).astype(f32)
    return Case(Launch((1, 1, 1), (128, 1, 1)), [x, np.zeros_like(x)], {1: np.sqrt(x)}, 1e-6)


TVM_CASES = {f.__name__: f for f in (tvm_scale, tvm_gemm, tvm_reduce, tvm_elementwise)}
CASES = {f.__name__: f for f in (
    vector_add, saxpy4, matmul_tiled, reduce_shuffle, transpose_swizzled, cp_async_pipeline, softmax_rows, layernorm,
    histogram, prefix_sum, half2_math, bf16_gemv, fp8_convert, last_block_sum, bitonic_sort, compact, bit_tricks,
    double_math, local_array, device_call, wmma_matmul, mma_sync, bulk_mbarrier, cuda_barrier, cluster_dsmem,
    warp_reduce_ops, divergent, tc_gemm_sync, tc_gemm_pipeline, tma_transpose, tc_block_scaled, tc_pair, tma_multicast,
    clc_persistent, st_async_ring, named_barriers, packed_math, atomics, tc_attention)}
