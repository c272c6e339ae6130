"""A block-scaled fp4 matrix product: D = alpha·(A·scale)·(B·scale)ᵀ, e2m1 with an e4m3 factor per 16 elements, f16 out.

Two elements share a byte.  Factors lie in global memory as the tensor core wants them: for 128 rows and 64 elements of K
a block of 32×16 bytes, byte 4·g + j of line r being the j-th factor of row 32·g + r.  Warp 4 brings operands and factors
by tensor copies into a ring of two stages; warp 5 moves a stage's factors to tensor memory (tcgen05.cp, which repeats
them in all four quarters of the lanes) and multiplies; each stage has its own columns for factors.
"""

from tirx_eq.layout import R, S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

M, N, K = 128, 256, 768
#: Elements of K of one stage (128 bytes of a row), and its factors per row.
BLOCK = 256
FACTORS = BLOCK // 16
BLOCKS = K // BLOCK
STAGES = 2

ring_layout = mma_shared_layout("float4_e2m1fn", 3, (STAGES, 128, BLOCK))
#: Factor 4·c + j of row 32·g + r is in byte 4·g + j of line r of block c.
factor_lines = TileLayout(S[(STAGES, 4, 32, FACTORS // 4, 4) : (128 * FACTORS, 4, 16, 512, 1)])
factor_tmem = TileLayout(S[(4, 32, FACTORS // 4, 4) : (4 @ TCol, 1 @ TLane, 16 @ TCol, 1 @ TCol)] + R[4 : 32 @ TLane])
tmem_tile = TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])
thread_row = TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(
    A: T.Buffer((M, K), "float4_e2m1fn"), B: T.Buffer((N, K), "float4_e2m1fn"),
    FA: T.Buffer((M // 128, K // 64, 32, 16), "float8_e4m3fn"), FB: T.Buffer((N // 128, K // 64, 32, 16), "float8_e4m3fn"),
    alpha: T.float32, D: T.Buffer((M, N), "float16"),
):  # fmt: skip
    T.device_entry()
    bx, by = T.cta_id([N // 128, M // 128])
    warp_id = T.warp_id([6])
    lane_id = T.lane_id([32])
    tid = T.thread_id([192])
    pool = T.SMEMPool()
    tmem_addr = T.alloc_shared([1], "uint32")
    A_s = pool.alloc((STAGES, 128, BLOCK), "float4_e2m1fn", layout=ring_layout)
    B_s = pool.alloc((STAGES, 128, BLOCK), "float4_e2m1fn", layout=ring_layout)
    FA_s = pool.alloc((STAGES, FACTORS // 4, 32, 16), "float8_e4m3fn", align=128)
    FB_s = pool.alloc((STAGES, FACTORS // 4, 32, 16), "float8_e4m3fn", align=128)
    full = pool.alloc((STAGES,), "uint64", align=8)
    free = pool.alloc((STAGES,), "uint64", align=8)
    done = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    FA_rows = FA_s.view(STAGES, 128, FACTORS, layout=factor_lines)
    FB_rows = FB_s.view(STAGES, 128, FACTORS, layout=factor_lines)
    if warp_id == 0:
        if lane_id == 0:
            for s in T.unroll(STAGES):
                T.ptx.mbarrier.init(full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(free.ptr_to([s]), 1)
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=256, cta_group=1)
    tmem = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=tmem_tile)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()

    if warp_id == 4:
        if T.ptx.elect_sync():
            for k in T.serial(BLOCKS):
                s = T.meta_var(k % STAGES)
                T.ptx.mbarrier.try_wait(free.ptr_to([s]), (k // STAGES + 1) % 2)
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([s]), 2 * 128 * (BLOCK // 2 + FACTORS))
                a = T.meta_var(A[by * 128 : by * 128 + 128, k * BLOCK : k * BLOCK + BLOCK])
                b = T.meta_var(B[bx * 128 : bx * 128 + 128, k * BLOCK : k * BLOCK + BLOCK])
                fa = T.meta_var(FA[by, k * (FACTORS // 4) : k * (FACTORS // 4) + FACTORS // 4, :, :])
                fb = T.meta_var(FB[bx, k * (FACTORS // 4) : k * (FACTORS // 4) + FACTORS // 4, :, :])
                Tx.copy_async(A_s[s, :, :], a, dispatch="tma_auto", mbar=full.ptr_to([s]))
                Tx.copy_async(B_s[s, :, :], b, dispatch="tma_auto", mbar=full.ptr_to([s]))
                Tx.copy_async(FA_s[s, :, :, :], fa, dispatch="tma_auto", mbar=full.ptr_to([s]))
                Tx.copy_async(FB_s[s, :, :, :], fb, dispatch="tma_auto", mbar=full.ptr_to([s]))

    if warp_id == 5:
        if T.ptx.elect_sync():
            for k in T.serial(BLOCKS):
                s = T.meta_var(k % STAGES)
                SFA = T.decl_buffer((128, FACTORS), "float8_e4m3fn", scope="tmem",
                                     allocated_addr=tmem_addr[0] + (128 + s * 32), layout=factor_tmem)  # fmt: skip
                SFB = T.decl_buffer((128, FACTORS), "float8_e4m3fn", scope="tmem",
                                     allocated_addr=tmem_addr[0] + (144 + s * 32), layout=factor_tmem)  # fmt: skip
                T.ptx.mbarrier.try_wait(full.ptr_to([s]), k // STAGES % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.copy_async(SFA[:, :], FA_rows[s, :, :])
                Tx.copy_async(SFB[:, :], FB_rows[s, :, :])
                Tx.gemm_async(tmem[:, :], A_s[s, :, :], B_s[s, :, :], SFA=SFA[:, :], SFB=SFB[:, :], accum=k > 0,
                              dispatch="tcgen05")  # fmt: skip
                T.ptx.tcgen05.commit(free.ptr_to([s]), cta_group=1)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)

    if warp_id < 4:
        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
        T.ptx.tcgen05.fence.after_thread_sync()
        row = T.alloc_local((128,), "float32")
        row_wg = row.view(128, 128, layout=thread_row)
        result = T.alloc_local((128,), "float16")
        Tx.wg.copy_async(row_wg[:, :], tmem[:, :])
        T.ptx.tcgen05.wait.ld()
        Tx.mul(row[:], row[:], alpha)
        Tx.cast(result[:], row[:])
        Tx.copy(D[by * 128 + tid, bx * 128 : bx * 128 + 128], result[:])
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=256, cta_group=1)


def main() -> None:
    """Compile it, run the PTX on the simulator, compare with numpy in double precision, and assemble it."""
    import ml_dtypes
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(gemm)
    print(kernel.explain())
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, K)).astype(np.float32).astype(ml_dtypes.float4_e2m1fn) for n in (M, N))
    fa, fb = (rng.uniform(0.25, 4, (n // 128, K // 64, 32, 16)).astype(ml_dtypes.float8_e4m3fn) for n in (M, N))
    alpha = np.float32(0.1)

    def scaled(x: np.ndarray, f: np.ndarray) -> np.ndarray:
        """The matrix with its factors, which are put in the order of rows and columns first."""
        ordered = f.astype(np.float64).reshape(-1, K // 64, 32, 4, 4).transpose(0, 3, 2, 1, 4).reshape(-1, K // 16)
        return x.astype(np.float64) * np.repeat(ordered, 16, axis=1)

    wide_a, wide_b = scaled(a, fa), scaled(b, fb)
    exact = float(alpha) * (wide_a @ wide_b.T)
    # The result is rounded to f16, a sum of K products in float32 is off by at most K · 2^-24 of their magnitudes.
    bound = 2.0**-11 * np.abs(exact) + (K + 2) * 2.0**-24 * float(alpha) * (np.abs(wide_a) @ np.abs(wide_b).T) + 2.0**-25
    for policy in ("late", "early", "random"):
        result = kernel.simulate(a, b, fa, fb, alpha, np.zeros((M, N), np.float16), policy=policy)
        error = float(np.max(np.abs(result.arrays["D"].astype(np.float64) - exact) / bound))
        right = error <= 1 and not result.faults
        print(f"policy {policy}: {'right' if right else 'WRONG'}, {error:.2f} of the error allowed, "
              f"{len(result.faults)} faults")  # fmt: skip
        assert right
    made = kernel.assemble()
    print(f"{made.registers} registers, {made.spill_stores + made.spill_loads} bytes of spills")


if __name__ == "__main__":
    main()
