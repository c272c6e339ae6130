"""Matrix products of every dense kind, executed: compile, run the PTX in the simulator, compare with numpy exactly."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.script import parse_source
from tirx_eq.sim import Launch, TensorMap, simulate

from .witnesses_scaled import CALL, scaled_kernel

SOURCE = """
from tirx_eq.layout import S, R, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg, SwizzleLayout, ComposeLayout
from tirx_eq.layout import tcgen05_atom_layout
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def gemm(A: Tx.Buffer({a_shape}, "{a}"), B: Tx.Buffer({b_shape}, "{b}"), D: Tx.Buffer(({m}, {n}), "{d}")):
    Tx.device_entry()
    warp_id = Tx.warp_id_in_wg([4])
    lane_id = Tx.lane_id([32])
    tid = Tx.thread_id([128])
    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc({a_shape}, "{a}", layout={a_layout})
    B_s = pool.alloc({b_shape}, "{b}", layout={b_layout})
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            Tx.ptx.fence.mbarrier_init()
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=512, cta_group=1)
    tmem = Tx.decl_buffer(({m}, {n}), "{d}", scope="tmem", allocated_addr=tmem_addr[0], layout={d_layout})
    lanes = Tx.decl_buffer((128, {n}), "{d}", scope="tmem", allocated_addr=tmem_addr[0],
                           layout=TileLayout(S[(128, {n}) : (1 @ TLane, 1 @ TCol)]))
    Tx.cta.copy(A_s[:, :], A[:, :])
    Tx.cta.copy(B_s[:, :], B[:, :])
    Tx.ptx.fence.proxy_async("shared::cta")
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        if Tx.ptx.elect_sync():
            Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], transA={ta}, transB={tb}, accum=False, dispatch="tcgen05")
            Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
    Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()
    regs = Tx.alloc_local(({n},), "{d}")
    view = regs.view(128, {n}, layout=TileLayout(S[(128, {n}) : (1 @ tid_in_wg, 1)]))
    {load}
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cta_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=512, cta_group=1)
"""

ALL_ROWS = "Tx.wg.copy_async(view[:, :], lanes[:, :])\n    Tx.ptx.tcgen05.wait.ld()\n    Tx.copy(D[tid, :], regs[:])"
#: M = 64 fills 16 of each 32 lanes: a 16-lane shape reads them; lane l has row l // 4 (+ 8) of its warp's 16.
HALF_ROWS = """half = Tx.alloc_local(({n} // 2,), "{d}")
    rows = half.view(64, {n}, layout=tcgen05_atom_layout("{shape}", (64, {n}), "{d}"))
    Tx.wg.copy_async(rows[:, :], tmem[:, :])
    Tx.ptx.tcgen05.wait.ld()
    for i in Tx.unroll({n} // 2):
        {store}"""
#: shape -> where element i of a thread's registers goes
STORES = {
    "16x64b": "D[warp_id * 16 + lane_id % 2 * 8 + lane_id // 4, 2 * i + lane_id // 2 % 2] = half[i]",
    "16x128b": "D[warp_id * 16 + lane_id // 4 + i % 2 * 8, i // 2 * 4 + lane_id % 4] = half[i]",
    "16x256b": "D[warp_id * 16 + lane_id // 4 + i // 2 % 2 * 8, i // 4 * 8 + lane_id % 4 * 2 + i % 2] = half[i]",
}


def shared_layout(dtype: str, mode: str, rows: int, depth: int, mn_major: bool) -> str:
    """A K-major or MN-major shared layout in canonical form, as source text."""
    if mode == "128B_ATOM_32B":  # rows of 32 words by 4 of K
        atoms = f"S[({depth // 4}, 4, {rows // 32}, 32) : (128, 32, {depth * 32}, 1)]"
        return f"ComposeLayout(SwizzleLayout(3, 2, 2), TileLayout({atoms}))"
    if not mn_major:
        return f'mma_shared_layout("{dtype}", "{mode}", ({rows}, {depth}))'
    # MN-major: the buffer is (K, rows), rows contiguous; atoms of (span elements x 8 of K).
    return f'mma_shared_layout("{dtype}", "{mode}", ({depth}, {rows}))'


def build(a="float16", b=None, d="float32", m=128, n=128, k=64, mode="128B", ta=False, tb=False, shape="16x256b"):
    b = b or a
    values = {
        "a": a, "b": b, "d": d, "m": m, "n": n, "ta": ta, "tb": tb,
        "a_shape": (k, m) if ta else (m, k), "b_shape": (k, n) if tb else (n, k),
        "a_layout": shared_layout(a, mode, m, k, ta), "b_layout": shared_layout(b, mode, n, k, tb),
        "d_layout": f"TileLayout(S[(128, {n}) : (1 @ TLane, 1 @ TCol)])" if m == 128 else
                    f"TileLayout(S[(4, 16, {n}) : (32 @ TLane, 1 @ TLane, 1 @ TCol)])",
        "load": ALL_ROWS if m == 128 else HALF_ROWS.format(n=n, d=d, shape=shape, store=STORES[shape]),
    }  # fmt: skip
    return parse_source(SOURCE.format(**values), "gemm.py")["gemm"]


def run(func, arrays, grid=(1, 1, 1), **options):
    """Simulate a compiled kernel; its output array, with no fault tolerated."""
    kernel = compile_function(func)
    maps = {}
    for p in kernel.launch.params:
        if p.tensor_map:
            t = p.tensor_map
            maps[p.name] = TensorMap(t.tensor, t.dtype, t.shape, t.strides, t.box, t.element_strides, t.interleave, t.swizzle,
                                     t.oob_fill, t.offset)  # fmt: skip
    launch = Launch(kernel.launch.grid or grid, kernel.launch.block, kernel.launch.cluster or (1, 1, 1),
                    kernel.launch.dynamic_shared_bytes)  # fmt: skip
    result = simulate(kernel.ptx, None, launch, arrays, maps, **options)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    return result.arrays


def integers(shape, dtype, seed):
    """Small integers of a dtype: products and sums are exact whatever the order."""
    low = 0 if dtype.startswith("u") else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(dt.numpy_dtype(dtype))


def check(policy="late", **options):
    func = build(**options)
    a, b, d = func.buffer_map.values()
    A, B = integers(a.const_shape(), a.dtype, 0), integers(b.const_shape(), b.dtype, 1)
    D = np.zeros(d.const_shape(), dt.numpy_dtype(d.dtype))
    out = run(func, {"A": A, "B": B, "D": D}, policy=policy)["D"]
    left = A.astype(np.float64).T if options.get("ta") else A.astype(np.float64)
    right = B.astype(np.float64).T if options.get("tb") else B.astype(np.float64)
    np.testing.assert_array_equal(out.astype(np.float64), left @ right.T)


PAIR = """
from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as Tx
operand = mma_shared_layout("float16", "128B", ({m}, 64))
half = mma_shared_layout("float16", "128B", (64, 64))
rows = TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)])

@Tx.prim_func
def gemm(A: Tx.Buffer((256, 64), "float16"), B: Tx.Buffer((128, 64), "float16"), D: Tx.Buffer((256, 128), "float32")):
    Tx.device_entry()
    bx = Tx.cta_id([2])
    rank = Tx.cta_id_in_cluster([2])
    warp_id = Tx.warp_id_in_wg([4])
    lane_id = Tx.lane_id([32])
    tid = Tx.thread_id([128])
    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc((128, 64), "float16", layout=operand)
    B_s = pool.alloc((64, 64), "float16", layout=half)
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            Tx.ptx.fence.mbarrier_init()
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=128, cta_group=2)
    tmem = Tx.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0],
                          layout=TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)]))
    Tx.cta.copy(A_s[:, :], A[bx * 128 : bx * 128 + 128, :])
    Tx.cta.copy(B_s[:, :], B[bx * 64 : bx * 64 + 64, :])
    Tx.ptx.fence.proxy_async("shared::cta")
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cluster_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if rank == 0:
        if warp_id == 0:
            if Tx.ptx.elect_sync():
                Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05", cta_group=2)
                Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=2, cta_mask=3)
    Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()
    regs = Tx.alloc_local((128,), "float32")
    view = regs.view(128, 128, layout=rows)
    Tx.wg.copy_async(view[:, :], tmem[:, :])
    Tx.ptx.tcgen05.wait.ld()
    Tx.copy(D[bx * 128 + tid, :], regs[:])
    Tx.ptx.tcgen05.fence.before_thread_sync()
    Tx.cuda.cluster_sync()
    Tx.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=2)
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=2)
"""


def test_a_pair_of_ctas_multiplies_together():
    func = parse_source(PAIR.format(m=128), "pair.py")["gemm"]
    A, B = integers((256, 64), "float16", 0), integers((128, 64), "float16", 1)
    out = run(func, {"A": A, "B": B, "D": np.zeros((256, 128), np.float32)})["D"]
    np.testing.assert_array_equal(out, A.astype(np.float32) @ B.astype(np.float32).T)


KINDS = [
    ("float16", "float16", "float32"), ("bfloat16", "bfloat16", "float32"), ("float32", "float32", "float32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float32"), ("float8_e4m3fn", "float8_e5m2", "float32"),
    ("int8", "int8", "int32"), ("uint8", "int8", "int32"),
]  # fmt: skip


@pytest.mark.parametrize(("a", "b", "d"), KINDS)
def test_every_dense_kind(a, b, d):
    check(a=a, b=b, d=d, k=128 * 8 // dt.bits(a))


@pytest.mark.parametrize("mode", ["128B", "64B", "32B", "none"])
def test_every_swizzle(mode):
    check(mode=mode, k=64)


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 64), (64, 256, 64), (128, 16, 64), (128, 256, 64), (128, 96, 128)])
def test_shapes(m, n, k):
    check(m=m, n=n, k=k)


@pytest.mark.parametrize("shape", ["16x64b", "16x128b", "16x256b"])
def test_every_shape_reads_half_the_lanes(shape):
    check(m=64, n=64, shape=shape)


@pytest.mark.parametrize(("ta", "tb"), [(True, False), (False, True), (True, True)])
@pytest.mark.parametrize("mode", ["128B", "64B", "32B"])
def test_either_majorness(ta, tb, mode):
    check(ta=ta, tb=tb, mode=mode, m=128, n=64, k=32 if mode == "64B" else 64)


@pytest.mark.parametrize("k", [8, 32])
def test_tf32_with_m_and_n_contiguous(k):
    """Of all modes only that with atoms of 32 bytes holds such operands."""
    check(a="float32", ta=True, tb=True, mode="128B_ATOM_32B", m=128, n=64, k=k)
    with pytest.raises(NoCandidate, match="MN-major tf32 needs the 32-byte atom"):
        compile_function(build(a="float32", ta=True, tb=True, mode="none", m=128, n=64, k=k))


@pytest.mark.parametrize("policy", ["early", "random"])
def test_asynchronous_work_at_other_times(policy):
    check(policy=policy)


def cells_of(scale: np.ndarray, columns: int) -> np.ndarray:
    """The 32-bit cells that hold factors (rows, factors): row m in lane m % 32 of every quarter, four to a cell."""
    raw = scale.view(np.uint8)
    cell = np.zeros((32, columns * 4), np.uint8)
    rows, factors = raw.shape
    for m in range(rows):
        for f in range(factors):
            cell[m % 32, (f // 4 * 4 + m // 32) * 4 + f % 4] = raw[m, f]
    return np.tile(cell, (4, 1)).view(np.int32)


@pytest.mark.parametrize(
    ("a", "sf", "block"),
    [
        ("float8_e4m3fn", "float8_e8m0fnu", 32), ("float8_e5m2", "float8_e8m0fnu", 32),
        ("float4_e2m1fn", "float8_e8m0fnu", 32), ("float4_e2m1fn", "float8_e8m0fnu", 16),
        ("float4_e2m1fn", "float8_e4m3fn", 16),
    ],
)  # fmt: skip
def test_block_scaled_kinds(a, sf, block):
    scaled_product(a, sf, block)


@pytest.mark.parametrize(("ta", "tb"), [(True, False), (False, True), (True, True)])
def test_block_scaled_with_either_majorness(ta, tb):
    scaled_product("float8_e4m3fn", "float8_e8m0fnu", 32, ta, tb)


def test_packed_elements_are_k_major():
    half = "tmem[:, :], A_s[:, 0:128], B_s[:, 0:128], SFA=SFA[:, 0:4], SFB=SFB[:, 0:4], transA=True, accum=False"
    with pytest.raises(NoCandidate, match="A of type e2m1 must be K-major"):
        compile_function(scaled_kernel("float4_e2m1fn", changes=((CALL, f"Tx.gemm_async({half}"),))[0])


def scaled_product(a: str, sf: str, block: int, ta: bool = False, tb: bool = False) -> None:
    major = CALL.replace("accum", f"transA={ta}, transB={tb}, accum")
    func, k, factors, columns = scaled_kernel(a, sf, block, ((CALL, major),))
    rng = np.random.default_rng(3)
    values = [0.0, 1.0, 2.0, -1.0, -2.0, 0.5, 3.0]
    A, B = (rng.choice(values, (128, k)).astype(dt.numpy_dtype(a)) for _ in range(2))
    powers = [0.5, 1.0, 2.0, 4.0]
    SA, SB = (rng.choice(powers, (128, factors)).astype(dt.numpy_dtype(sf)) for _ in range(2))
    cells = np.concatenate([cells_of(SA, columns), cells_of(SB, columns)], axis=1)
    result = compile_function(func).simulate(A, B, cells, np.zeros((128, 128), np.float32))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    wide = [x.astype(np.float64).T if t else x.astype(np.float64) for x, t in ((A, ta), (B, tb))]
    left, right = (x * np.repeat(s.astype(np.float64), block, axis=1) for x, s in zip(wide, (SA, SB)))
    np.testing.assert_array_equal(result.arrays["D"].astype(np.float64), left @ right.T)
