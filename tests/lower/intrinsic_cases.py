# ruff: noqa: E501
"""Tiny kernels, one or more for each device intrinsic: what it computes is said by numpy too.

A case is ``(operators, buffers, body, expected)``: ``buffers`` names each with its dtype and shape, inputs first, the last one
is written; ``expected`` gives its contents from the inputs (None: the interpreter's word counts).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

F, U, I = np.float32, np.uint32, np.int32
BF = ml_dtypes.bfloat16
Case = tuple[str, str, str, Callable[..., Any] | None]
FULL = "Tx.uint32(0xFFFFFFFF)"
HEAD = "t = Tx.thread_id([64])\n"
#: An mbarrier ``bar`` for one arrival of thread 0, and shared memory ``S`` of 1024 bytes.
RING = HEAD + """S = Tx.alloc_shared([256], "uint32")
bar = Tx.alloc_shared([1], "uint64")
if t == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
Tx.ptx.fence.mbarrier_init()
Tx.cuda.cta_sync()
"""


def _warps(a: Any, f: Callable[..., Any]) -> Any:
    return np.concatenate([np.full(32, f(w)) for w in a.reshape(-1, 32)]).astype(a.dtype)


def _tree(values: Any) -> Any:
    """The sum of a butterfly, farthest lanes first."""
    held = np.asarray(values)
    step = len(held) // 2
    while step:
        held = held + held[np.arange(len(held)) ^ step]
        step //= 2
    return held[0]



COLLECTIVES: list[Case] = [
    ("tvm_warp_shuffle_xor", "A:float32:64 B:float32:64",
     HEAD + f"B[t] = A[t] + Tx.tvm_warp_shuffle_xor({FULL}, A[t], 5, 32, 32)", lambda a: a + a[np.arange(64) ^ 5]),
    ("tvm_warp_shuffle", "A:int32:64 B:int32:64", HEAD + f"B[t] = Tx.tvm_warp_shuffle({FULL}, A[t], 3, 32, 32)",
     lambda a: a[np.arange(64) // 32 * 32 + 3]),
    ("tvm_warp_shuffle_up", "A:int32:64 B:int32:64", HEAD + f"B[t] = Tx.tvm_warp_shuffle_up({FULL}, A[t], 1, 8, 32)",
     lambda a: a[np.where(np.arange(64) % 8 < 1, np.arange(64), np.arange(64) - 1)]),
    ("tvm_warp_shuffle_down", "A:int32:64 B:int32:64", HEAD + f"B[t] = Tx.tvm_warp_shuffle_down({FULL}, A[t], 2, 32, 32)",
     lambda a: a[np.where(np.arange(64) % 32 > 29, np.arange(64), np.arange(64) + 2)]),
    ("tvm_warp_activemask __activemask", "A:uint32:64 B:uint32:64",
     HEAD + "B[t] = Tx.tvm_warp_activemask() & A[t] & Tx.cuda.__activemask()", lambda a: a),
    ("ballot_sync", "A:int32:64 B:uint32:64", HEAD + f"B[t] = Tx.cuda.ballot_sync({FULL}, A[t] > 7)",
     lambda a: np.repeat([int(sum(1 << k for k in range(32) if w[k] > 7)) for w in a.reshape(2, 32)], 32).astype(U)),
    ("any_sync", "A:int32:64 B:int32:64", HEAD + f"B[t] = Tx.if_then_else(Tx.ptx.any_sync({FULL}, A[t] == 77) != 0, 1, 0)",
     lambda a: np.repeat([int((w == 77).any()) for w in a.reshape(2, 32)], 32).astype(I)),
    ("reduce_add_sync_u32", "A:uint32:64 B:uint32:64", HEAD + f"B[t] = Tx.cuda.reduce_add_sync_u32({FULL}, A[t])",
     lambda a: _warps(a, np.sum)),
    ("reduce_min_sync_u32", "A:uint32:64 B:uint32:64", HEAD + f"B[t] = Tx.cuda.reduce_min_sync_u32({FULL}, A[t])",
     lambda a: _warps(a, np.min)),
    ("warp_reduce", "A:float32:64 B:float32:64", HEAD + "B[t] = Tx.cuda.warp_sum(A[t])", lambda a: _warps(a, _tree)),
    ("warp_reduce", "A:int32:64 B:int32:64", HEAD + "B[t] = Tx.cuda.warp_max(A[t], 8)",
     lambda a: np.repeat(a.reshape(8, 8).max(1), 8)),
    ("warp_reduce", "A:float16:64 B:float16:64", HEAD + "B[t] = Tx.cuda.warp_min(A[t])", lambda a: _warps(a, np.min)),
    ("cta_reduce", "A:float32:64 B:float32:64",
     HEAD + 'S = Tx.alloc_shared([2], "float32")\nB[t] = Tx.cuda.cta_sum(A[t], 2, S.ptr_to([0]))',
     lambda a: np.full(64, _tree([_tree(w) for w in a.reshape(2, 32)]))),
    ("cta_reduce", "A:int32:64 B:int32:64",
     HEAD + 'S = Tx.alloc_shared([2], "int32")\nx = Tx.cuda.cta_max(A[t], 2, S.ptr_to([0]))\nTx.cuda.cta_sync()\n'
     "B[t] = x + Tx.cuda.cta_min(A[t], 2, S.ptr_to([0]))", lambda a: np.full(64, a.max() + a.min())),
    ("syncthreads_and syncthreads_or", "A:int32:64 B:int32:64",
     HEAD + "x = Tx.cuda.syncthreads_and(A[t] < 1000)\ny = Tx.cuda.syncthreads_or(A[t] == 3)\n"
     "B[t] = Tx.if_then_else(x != 0, 2, 0) + Tx.if_then_else(y != 0, 1, 0)",
     lambda a: np.full(64, 2 * (a < 1000).all() + (a == 3).any())),
    ("tvm_storage_sync", "A:float32:64 B:float32:64",
     HEAD + 'S = Tx.alloc_shared([64], "float32")\nS[t] = A[t]\nTx.tvm_storage_sync("shared")\nB[t] = S[63 - t]', lambda a: a[::-1]),
    ("tvm_storage_sync", "A:float32:64 B:float32:64",
     HEAD + 'S = Tx.alloc_shared([64], "float32")\nS[t] = A[t]\nTx.tvm_storage_sync("warp")\nB[t] = S[t ^ 31]',
     lambda a: a[np.arange(64) ^ 31]),
]  # fmt: skip

_ROUNDED = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b}
VALUES: list[Case] = [
    *((f"{op}_f32", "A:float32:64 B:float32:64", HEAD + f"Tx.ptx.{op}_f32(B.ptr_to([t]), A[t], A[63 - t])",
       lambda a, f=f: f(a, a[::-1])) for op, f in _ROUNDED.items()),
    *((f"{op}_f64", "A:float64:64 B:float64:64", HEAD + f"Tx.ptx.{op}_f64(B.ptr_to([t]), A[t], A[63 - t])",
       lambda a, f=f: f(a, a[::-1])) for op, f in _ROUNDED.items()),
    *((f"{op}_f32x2 make_float2 float2_x float2_y", "A:float32:64 B:float32:64",
       HEAD + f"x = Tx.ptx.{op}_f32x2(Tx.cuda.make_float2(A[t], A[63 - t]), Tx.cuda.make_float2(A[t], A[t]), dps=False)\n"
       "B[t] = Tx.cuda.float2_x(x) * Tx.float32(2) + Tx.cuda.float2_y(x)", lambda a, f=f: 2 * f(a, a) + f(a[::-1], a)) for op, f in _ROUNDED.items()),
    ("fma_f32", "A:float32:64 B:float32:64", HEAD + "Tx.ptx.fma_f32(B.ptr_to([t]), A[t], A[63 - t], A[t])",
     lambda a: (a.astype(float) * a[::-1] + a).astype(F)),
    ("fma_f64", "A:float64:64 B:float64:64", HEAD + "Tx.ptx.fma_f64(B.ptr_to([t]), A[t], A[63 - t], A[t])", None),
    ("fma_f32x2", "A:float32:64 B:float32:128",
     HEAD + "x = Tx.cuda.make_float2(A[t], A[63 - t])\nTx.ptx.fma_f32x2(B.ptr_to([2 * t]), x, x, x)",
     lambda a: np.stack([(v.astype(float) * v + v).astype(F) for v in (a, a[::-1])], 1).ravel()),
    ("max_f32", "A:float32:64 B:float32:64", HEAD + "B[t] = Tx.ptx.max_f32(A[t], A[63 - t])", lambda a: np.maximum(a, a[::-1])),
    ("add_rn_f32_bf16", "A:float32:64 C:bfloat16:64 B:float32:64",
     HEAD + 'B[t] = Tx.ptx.add_rn_f32_bf16(A[t], Tx.reinterpret("uint16", C[t]))', lambda a, c: a + c.astype(F)),
    ("ffs_u32", "A:uint32:64 B:int32:64", HEAD + "B[t] = Tx.cuda.ffs_u32(A[t] * 4)",
     lambda a: np.array([(int(v * 4) & -int(v * 4)).bit_length() for v in a])),
    ("fns_b32", "A:uint32:64 B:uint32:64", HEAD + "B[t] = Tx.ptx.fns_b32(A[t] | 6, Tx.uint32(1), 1)", lambda a: np.full(64, 1)),
    ("half2float bfloat162float", "A:float16:64 C:bfloat16:64 B:float32:64",
     HEAD + "B[t] = Tx.cuda.half2float(A[t]) + Tx.cuda.bfloat162float(C[t])", lambda a, c: a.astype(F) + c.astype(F)),
    ("float22half2", "A:float32:64 B:float16:64",
     HEAD + "if t < 32:\n    Tx.cuda.float22half2(B.ptr_to([2 * t]), A.ptr_to([2 * t]))", lambda a: a.astype(np.float16)),
    ("half8tofloat8", "A:float16:64 B:float32:64",
     HEAD + "if t < 8:\n    Tx.cuda.half8tofloat8(A.ptr_to([8 * t]), B.ptr_to([8 * t]))", lambda a: a.astype(F)),
    ("float8tohalf8", "A:float32:64 B:float16:64",
     HEAD + "if t < 8:\n    Tx.cuda.float8tohalf8(A.ptr_to([8 * t]), B.ptr_to([8 * t]))", lambda a: a.astype(np.float16)),
    ("uint_as_float float_as_uint", "A:float32:64 B:float32:64",
     HEAD + "B[t] = Tx.cuda.uint_as_float(Tx.cuda.float_as_uint(A[t]) ^ Tx.uint32(0x80000000))", lambda a: -a),
    ("fmul2_rn fadd2_rn", "A:float32:64 B:float32:64",
     HEAD + "x = Tx.cuda.make_float2(A[t], A[63 - t])\n"
     "B[t] = Tx.cuda.float2_y(Tx.cuda.fadd2_rn(Tx.cuda.fmul2_rn(x, x), x))", lambda a: a[::-1] * a[::-1] + a[::-1]),
    ("float22bfloat162_rn float22bfloat162_rn_from_float2 bfloat1622float2", "A:float32:64 B:float32:64",
     HEAD + "x = Tx.cuda.float22bfloat162_rn(A[t], A[63 - t])\n"
     "y = Tx.cuda.float22bfloat162_rn_from_float2(Tx.cuda.bfloat1622float2(x))\n"
     "B[t] = Tx.cuda.float2_x(Tx.cuda.bfloat1622float2(y)) * Tx.float32(2) + Tx.cuda.float2_y(Tx.cuda.bfloat1622float2(x))",
     lambda a: 2 * a.astype(BF).astype(F) + a[::-1].astype(BF).astype(F)),
    ("hmin2 hmax2", "A:uint32:64 B:uint32:64", HEAD + "B[t] = Tx.cuda.hmin2(A[t], A[63 - t]) * Tx.uint32(1000) + Tx.cuda.hmax2(A[t], A[63 - t])",
     lambda a: np.minimum(a, a[::-1]) * 1000 + np.maximum(a, a[::-1])),
    ("fp8x4_e4m3_from_float4", "A:float32:64 B:uint32:16",
     HEAD + "if t < 16:\n    B[t] = Tx.cuda.fp8x4_e4m3_from_float4(A[4 * t], A[4 * t + 1], A[4 * t + 2], A[4 * t + 3])",
     lambda a: a.astype(ml_dtypes.float8_e4m3fn).view(U)),
    ("cvt", "A:float32:64 B:uint32:64", HEAD + 'B[t] = Tx.ptx.cvt("f16x2", A[63 - t], A[t], atype="f32", rounding="rn")',
     lambda a: np.stack([a, a[::-1]], 1).astype(np.float16).view(U).ravel()),
    ("cvt", "A:float32:64 B:uint16:64", HEAD + 'B[t] = Tx.ptx.cvt("e4m3x2", A[63 - t], A[t], atype="f32", rounding="rn", satfinite=True)',
     lambda a: np.stack([a, a[::-1]], 1).astype(ml_dtypes.float8_e4m3fn).view(np.uint16).ravel()),
    ("cvt", "A:float32:64 B:int32:64", HEAD + 'B[t] = Tx.ptx.cvt("s32", A[t], atype="f32", rounding="rzi")', lambda a: np.trunc(a)),
    ("dp4a", "A:int32:64 B:int32:64", HEAD + "B[t] = Tx.dp4a(A[t] * 65793, A[63 - t], A[t])", None),
    ("q_multiply_shift", "A:int32:64 B:int32:64",
     HEAD + 'B[t] = Tx.call_intrin("int32", "tirx.q_multiply_shift", A[t] * 30000 - 900000, 1395864371 - t, 31, 2)',
     lambda a: (((a * 30000 - 900000).astype(np.int64) * (1395864371 - np.arange(64)) + (1 << 32)) >> 33).astype(np.int32)),
    ("runtime_instr_desc", "A:uint32:64 B:uint32:64",
     HEAD + 'D = Tx.alloc_local([1], "uint32")\nD[0] = A[t]\nTx.cuda.runtime_instr_desc(D.ptr_to([0]), Tx.uint32(2))\nB[t] = D[0]',
     lambda a: (a & U(0x9FFFFFCF)) | U(2 << 29 | 2 << 4)),
    ("get_tmem_addr", "A:uint32:64 B:uint32:64", HEAD + "B[t] = Tx.cuda.get_tmem_addr(A[t], 32, 5)", lambda a: a + U(32 << 16) + U(5)),
]  # fmt: skip

MEMORY: list[Case] = [
    *((f"{name}", "A:float32:64 B:float32:64", HEAD + f'B[t] = Tx.ptx.{name}(A.ptr_to([63 - t]), "float32", "f32"{more})',
       lambda a: a[::-1]) for name, more in (("ld", ""), ("ld_global_nc", ""), ("ld_relaxed", ""), ("ld_acquire", ', scope="cta"'),
                                             ("ld_volatile", ""))),
    ("ld", "A:float32:64 B:float32:64",
     HEAD + 'if t < 16:\n    L = Tx.alloc_local([4], "float32")\n'
     '    Tx.ptx.ld(A.ptr_to([4 * t]), "float32", "f32", dst=L.ptr_to([0]), vec="v4")\n'
     "    for i in Tx.unroll(4):\n        B[4 * t + i] = L[i] * Tx.float32(2)", lambda a: a * 2),
    ("ld", "A:uint32:64 B:uint32:64",
     HEAD + 'S = Tx.alloc_shared([64], "uint32")\nS[t] = A[t]\nTx.cuda.cta_sync()\n'
     'B[t] = Tx.ptx.ld(S.ptr_to([t ^ 1]), "uint32", "u32", space="shared")', lambda a: a[np.arange(64) ^ 1]),
    ("ldg", "A:float32:64 B:float32:64", HEAD + 'B[t] = Tx.cuda.ldg(A.ptr_to([t ^ 3]), "float32")', lambda a: a[np.arange(64) ^ 3]),
    ("ldg", "A:uint32:64 B:uint32:64",
     HEAD + 'if t < 32:\n    L = Tx.alloc_local([2], "uint32")\n'
     '    Tx.cuda.ldg(A.ptr_to([2 * t]), "uint32", dst=[L.ptr_to([0]), L.ptr_to([1])], vec="v2")\n'
     "    B[2 * t] = L[1]\n    B[2 * t + 1] = L[0]", lambda a: a.reshape(-1, 2)[:, ::-1].ravel()),
    ("ld_global_acquire", "A:uint32:64 B:uint32:64",
     HEAD + 'L = Tx.alloc_local([1], "uint32")\nTx.ptx.ld_global_acquire(L[0], A.ptr_to([t ^ 1]))\nB[t] = L[0]',
     lambda a: a[np.arange(64) ^ 1]),
    *((f"{name}", "A:float32:64 B:float32:64", HEAD + f'Tx.ptx.{name}(B.ptr_to([63 - t]), A[t], space="global", ptx_type="f32"{more})',
       lambda a: a[::-1]) for name, more in (("st", ""), ("st_relaxed", ""), ("st_release", ', scope="cta"'), ("st_volatile", ""))),
    ("st", "A:float32:64 B:float32:64",
     HEAD + 'if t < 16:\n    L = Tx.alloc_local([4], "float32")\n    for i in Tx.unroll(4):\n        L[i] = A[4 * t + i]\n'
     '    Tx.ptx.st(B.ptr_to([4 * t]), src=L.ptr_to([0]), space="global", vec="v4", ptx_type="f32")', lambda a: a),
    ("ld_mmio", "A:uint32:64 B:uint32:64",
     HEAD + 'B[t] = Tx.ptx.ld_mmio(A.ptr_to([63 - t]), "uint32", "u32", sem="relaxed")', lambda a: a[::-1]),
    ("ld_mmio", "A:uint32:64 B:uint32:64",
     HEAD + 'L = Tx.alloc_local([1], "uint32")\nTx.ptx.ld_mmio(A.ptr_to([63 - t]), "uint32", "u32", dst=L.ptr_to([0]))\nB[t] = L[0]',
     lambda a: a[::-1]),
    ("st_mmio", "A:uint32:64 B:uint32:64", HEAD + 'Tx.ptx.st_mmio(B.ptr_to([63 - t]), A[t], ptx_type="u32")', lambda a: a[::-1]),
    ("prefetch", "A:uint32:64 B:uint32:64",
     HEAD + 'Tx.call_intrin("void", "tirx.prefetch", A.ptr_to([t]), 0, 3, 1)\nB[t] = A[t]', lambda a: a),
    ("st_bulk", "A:uint32:64 B:uint32:64",
     HEAD + 'S = Tx.alloc_shared([64], "uint32")\nS[t] = A[t]\nTx.cuda.cta_sync()\nif t == 0:\n'
     "    Tx.ptx.st_bulk(S.ptr_to([32]), 128)\nTx.ptx.fence.proxy_async(\"shared::cta\")\nTx.cuda.cta_sync()\nB[t] = S[t]",
     lambda a: np.where(np.arange(64) < 32, a, 0)),
    ("cvta_generic_to_shared", "A:uint32:64 B:uint32:64",
     HEAD + 'S = Tx.alloc_shared([64], "uint32")\nS[t] = A[t]\nTx.cuda.cta_sync()\n'
     'B[t] = Tx.cuda.cvta_generic_to_shared(S.ptr_to([t])) - Tx.cuda.cvta_generic_to_shared(S.ptr_to([0]))',
     lambda a: 4 * np.arange(64)),
]  # fmt: skip

COPIES: list[Case] = [
    ("cp_async cp_async_commit_group cp_async_wait_group", "A:float32:256 B:float32:256",
     HEAD + 'S = Tx.alloc_shared([256], "float32")\nTx.ptx.cp_async(S.ptr_to([4 * t]), A.ptr_to([4 * t]), 16)\n'
     "Tx.ptx.cp_async.commit_group()\nTx.ptx.cp_async.wait_group(0)\nTx.cuda.cta_sync()\n"
     "for i in Tx.unroll(4):\n    B[4 * t + i] = S[255 - 4 * t - i]", lambda a: a[::-1]),
    ("cp_async", "A:float32:64 B:float32:64",
     HEAD + 'S = Tx.alloc_shared([64], "float32")\n'
     'Tx.ptx.cp_async(S.ptr_to([t]), A.ptr_to([t]), 4, predicate=Tx.if_then_else(t < 40, 1, 0), fill_mode="zero")\n'
     "Tx.ptx.cp_async.commit_group()\nTx.ptx.cp_async.wait_group(0)\nB[t] = S[t]", lambda a: np.where(np.arange(64) < 40, a, 0)),
    ("cp_async_mbarrier_arrive mbarrier_init fence_mbarrier_init mbarrier_try_wait", "A:uint32:64 B:uint32:64",
     RING.replace("bar.ptr_to([0]), 1", "bar.ptr_to([0]), 64")
     + "Tx.ptx.cp_async(S.ptr_to([t]), A.ptr_to([t]), 4)\nTx.ptx.cp_async.mbarrier.arrive.noinc(bar.ptr_to([0]))\n"
     "Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\nB[t] = S[t ^ 33]", lambda a: a[np.arange(64) ^ 33]),
    ("cp_async_bulk_g2s_cta mbarrier_arrive_expect_tx", "A:uint32:256 B:uint32:256",
     RING + "if t == 0:\n    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)\n"
     "    Tx.ptx.cp_async_bulk_g2s_cta(S.ptr_to([0]), A.ptr_to([0]), 1024, bar.ptr_to([0]))\n"
     "Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\nfor i in Tx.unroll(4):\n    B[4 * t + i] = S[4 * t + i] + 1", lambda a: a + 1),
    ("cp_async_bulk_g2s_cluster", "A:uint32:256 B:uint32:256",
     RING + "if t == 0:\n    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)\n"
     "    Tx.ptx.cp_async_bulk_g2s_cluster(S.ptr_to([0]), A.ptr_to([0]), 1024, bar.ptr_to([0]))\n"
     "Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\nfor i in Tx.unroll(4):\n    B[4 * t + i] = S[4 * t + i] + 1", lambda a: a + 1),
    ("cp_async_bulk_s2g cp_async_bulk_commit_group cp_async_bulk_wait_group fence_proxy_async", "A:uint32:256 B:uint32:256",
     HEAD + 'S = Tx.alloc_shared([256], "uint32")\nfor i in Tx.unroll(4):\n    S[4 * t + i] = A[4 * t + i] + 3\n'
     'Tx.ptx.fence.proxy_async("shared::cta")\nTx.cuda.cta_sync()\nif t == 0:\n'
     "    Tx.ptx.cp_async_bulk_s2g(B.ptr_to([0]), S.ptr_to([0]), 1024)\n    Tx.ptx.cp_async.bulk.commit_group()\n"
     "    Tx.ptx.cp_async.bulk.wait_group(0)", lambda a: a + 3),
    ("mbarrier_arrive mbarrier_try_wait_once mbarrier_test_wait_parity", "A:uint32:64 B:uint32:64",
     RING + "if t == 0:\n    Tx.ptx.mbarrier.arrive(bar.ptr_to([0]))\nTx.cuda.cta_sync()\n"
     "x = Tx.ptx.mbarrier.try_wait_once(bar.ptr_to([0]), 0, 100)\ny = Tx.ptx.mbarrier_test_wait_parity(bar.ptr_to([0]), 1)\n"
     "B[t] = A[t] * 0 + x * 2 + y", lambda a: np.full(64, 2)),
    ("mbarrier_complete_tx", "A:uint32:64 B:uint32:64",
     RING + "if t == 0:\n    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 64)\n"
     "    Tx.ptx.mbarrier.complete_tx(bar.ptr_to([0]), 64)\nTx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\nB[t] = A[t]", lambda a: a),
    ("mbarrier_arrive_no_complete", "A:uint32:64 B:uint32:64",
     RING.replace("bar.ptr_to([0]), 1", "bar.ptr_to([0]), 2") + "if t == 0:\n    Tx.ptx.mbarrier.arrive.no_complete(bar.ptr_to([0]), 1)\n"
     "    Tx.ptx.mbarrier.arrive(bar.ptr_to([0]))\nTx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\nB[t] = A[t]", lambda a: a),
]  # fmt: skip

CONTROL: list[Case] = [
    ("setmaxnreg", "A:float32:128 B:float32:128", "t = Tx.thread_id([128])\nTx.ptx.setmaxnreg(False, 104)\nB[t] = A[t]", lambda a: a),
    ("fetch_register", "A:int32:64 B:int32:64", HEAD + 'B[t] = Tx.ptx.fetch_register(32, "tid.x") + A[t]', lambda a: a + np.arange(64)),
    ("trap_when_assert_failed nano_sleep thread_fence griddepcontrol_wait griddepcontrol_launch_dependents fence bar_sync",
     "A:int32:64 B:int32:64",
     HEAD + "Tx.cuda.trap_when_assert_failed(A[t] > -1000000)\nTx.cuda.nano_sleep(20)\nTx.cuda.thread_fence()\n"
     'Tx.ptx.griddepcontrol.wait()\nTx.ptx.griddepcontrol.launch_dependents()\nTx.ptx.fence("acq_rel", "gpu")\n'
     "Tx.ptx.bar.sync(1, 64)\nB[t] = A[t]", lambda a: a),
    ("clock64", "A:int32:64 B:int32:64",
     HEAD + 'x = Tx.cuda.clock64()\nB[t] = A[t] + Tx.if_then_else(x < Tx.uint64(0), 1, 0)', lambda a: a),
    ("warpgroup_sync barrier_sync bar_arrive", "A:int32:128 B:int32:128",
     't = Tx.thread_id([128])\nS = Tx.alloc_shared([128], "int32")\nS[t] = A[t]\nTx.cuda.warpgroup_sync(3)\nx = S[127 - t]\n'
     "Tx.ptx.barrier.sync(2, 128)\nif t < 64:\n    Tx.ptx.bar.arrive(4, 128)\nelse:\n    Tx.ptx.bar.sync(4, 128)\nB[t] = x",
     lambda a: a[::-1]),
]  # fmt: skip

MATRIX: list[Case] = [
    ("ldmatrix stmatrix", "A:uint16:256 B:uint16:256",
     'w = Tx.thread_id([32])\nS = Tx.alloc_shared([256], "uint16")\nO = Tx.alloc_shared([256], "uint16")\n'
     'R = Tx.alloc_local([4], "uint32")\nfor i in Tx.unroll(8):\n    S[8 * w + i] = A[8 * w + i]\nTx.cuda.warp_sync()\n'
     'Tx.ptx.ldmatrix(False, 4, "b16", S.ptr_to([8 * w]), R.ptr_to([0]), R.ptr_to([1]), R.ptr_to([2]), R.ptr_to([3]))\n'
     'Tx.ptx.stmatrix(True, 4, "b16", O.ptr_to([8 * w]), R.ptr_to([0]), R.ptr_to([1]), R.ptr_to([2]), R.ptr_to([3]))\n'
     "Tx.cuda.warp_sync()\nfor i in Tx.unroll(8):\n    B[8 * w + i] = O[8 * w + i]",
     lambda a: a.reshape(4, 8, 8).transpose(0, 2, 1).ravel()),
    ("mma", "A:float16:256 C:float16:128 B:float32:128",
     'w = Tx.thread_id([32])\nX = Tx.alloc_local([8], "float16")\nY = Tx.alloc_local([4], "float16")\n'
     'D = Tx.alloc_local([4], "float32")\nfor i in Tx.unroll(8):\n'
     "    X[i] = A[(w // 4 + i // 2 % 2 * 8) * 16 + w % 4 * 2 + i % 2 + i // 4 * 8]\n"
     "for i in Tx.unroll(4):\n    Y[i] = C[(w % 4 * 2 + i % 2 + i // 2 * 8) * 8 + w // 4]\n"
     'Tx.ptx.mma("m16n8k16", "row", "col", "float32", "float16", "float16", "float32", [D.ptr_to([i]) for i in range(4)], '
     "[X.ptr_to([2 * i]) for i in range(4)], [Y.ptr_to([2 * i]) for i in range(2)])\n"
     "for i in Tx.unroll(4):\n    B[(w // 4 + i // 2 * 8) * 8 + w % 4 * 2 + i % 2] = D[i]",
     lambda a, c: (a.astype(float).reshape(16, 16) @ c.astype(float).reshape(16, 8)).ravel()),
]  # fmt: skip

CASES = [*COLLECTIVES, *VALUES, *MEMORY, *COPIES, *CONTROL, *MATRIX]
