"""An fp8 matrix product with block-wise scale factors: D = (A·scale)·(B·scale)ᵀ, e4m3 in, bf16 out.

A has a factor per row and 128 elements of K, B one per 128×128 block.  The tensor core multiplies 128 elements of K at a
time into one of two accumulators in tensor memory; a warpgroup takes each partial product, scales it and adds it up in its
registers, in full float32 precision, while the next one is made.  Warp 4 brings the operands by tensor copies.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

M, N, K = 128, 256, 640
BLOCK = 128
BLOCKS = K // BLOCK
STAGES = 3
#: Columns that are scaled at a time: all accumulated columns and these are in registers at once.
PART = 64

ring_layout = mma_shared_layout("float8_e4m3fn", 3, (STAGES, 128, BLOCK))
tmem_tile = TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])
thread_part = TileLayout(S[(128, PART) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(
    A: T.Buffer((M, K), "float8_e4m3fn"), B: T.Buffer((N, K), "float8_e4m3fn"),
    SA: T.Buffer((BLOCKS, M), "float32"), SB: T.Buffer((N // 128, BLOCKS), "float32"), D: T.Buffer((M, N), "bfloat16"),
):  # fmt: skip
    T.device_entry()
    bx, by = T.cta_id([N // 128, M // 128])
    warp_id = T.warp_id([6])
    lane_id = T.lane_id([32])
    tid = T.thread_id([192])
    pool = T.SMEMPool()
    tmem_addr = T.alloc_shared([1], "uint32")
    A_s = pool.alloc((STAGES, 128, BLOCK), "float8_e4m3fn", layout=ring_layout)
    B_s = pool.alloc((STAGES, 128, BLOCK), "float8_e4m3fn", layout=ring_layout)
    full = pool.alloc((STAGES,), "uint64", align=8)
    free = pool.alloc((STAGES,), "uint64", align=8)
    made = pool.alloc((2,), "uint64", align=8)
    taken = pool.alloc((2,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            for s in T.unroll(STAGES):
                T.ptx.mbarrier.init(full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(free.ptr_to([s]), 1)
            for s in T.unroll(2):
                T.ptx.mbarrier.init(made.ptr_to([s]), 1)
                T.ptx.mbarrier.init(taken.ptr_to([s]), 128)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=256, cta_group=1)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()

    if warp_id == 4:
        if T.ptx.elect_sync():
            for k in T.serial(BLOCKS):
                T.ptx.mbarrier.try_wait(free.ptr_to([k % STAGES]), (k // STAGES + 1) % 2)
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([k % STAGES]), 2 * 128 * BLOCK)
                a = T.meta_var(A[by * 128 : by * 128 + 128, k * BLOCK : k * BLOCK + BLOCK])
                b = T.meta_var(B[bx * 128 : bx * 128 + 128, k * BLOCK : k * BLOCK + BLOCK])
                Tx.copy_async(A_s[k % STAGES, :, :], a, dispatch="tma_auto", mbar=full.ptr_to([k % STAGES]))
                Tx.copy_async(B_s[k % STAGES, :, :], b, dispatch="tma_auto", mbar=full.ptr_to([k % STAGES]))

    # One block of K per accumulator, alternately: an accumulator is overwritten once its sums have been taken.
    if warp_id == 5:
        if T.ptx.elect_sync():
            for k in T.serial(BLOCKS):
                product = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0] + k % 2 * 128,
                                         layout=tmem_tile)  # fmt: skip
                T.ptx.mbarrier.try_wait(full.ptr_to([k % STAGES]), k // STAGES % 2)
                T.ptx.mbarrier.try_wait(taken.ptr_to([k % 2]), (k // 2 + 1) % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(product[:, :], A_s[k % STAGES, :, :], B_s[k % STAGES, :, :], accum=False, dispatch="tcgen05")
                T.ptx.tcgen05.commit(free.ptr_to([k % STAGES]), cta_group=1)
                T.ptx.tcgen05.commit(made.ptr_to([k % 2]), cta_group=1)

    # Each thread scales and adds up one row.
    if warp_id < 4:
        total = T.alloc_local((128,), "float32")
        part = T.alloc_local((PART,), "float32")
        part_wg = part.view(128, PART, layout=thread_part)
        scale = T.alloc_local((1,), "float32")
        result = T.alloc_local((128,), "bfloat16")
        Tx.fill(total[:], 0.0)
        for k in T.serial(BLOCKS):
            tile = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0] + k % 2 * 128,
                                  layout=tmem_tile)  # fmt: skip
            scale[0] = SA[k, by * 128 + tid] * SB[bx, k]
            T.ptx.mbarrier.try_wait(made.ptr_to([k % 2]), k // 2 % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            for c in T.unroll(128 // PART):
                Tx.wg.copy_async(part_wg[:, :], tile[:, c * PART : c * PART + PART])
                T.ptx.tcgen05.wait.ld()
                sums = T.meta_var(total[c * PART : c * PART + PART])
                Tx.fma(sums, part[:], scale[:], sums)
            T.ptx.tcgen05.fence.before_thread_sync()
            T.ptx.mbarrier.arrive(taken.ptr_to([k % 2]))
        Tx.cast(result[:], total[:])
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
    a, b = (rng.standard_normal((n, K)).astype(ml_dtypes.float8_e4m3fn) for n in (M, N))
    sa, sb = (rng.uniform(0.25, 4, shape).astype(np.float32) for shape in ((BLOCKS, M), (N // 128, BLOCKS)))
    wide_a = a.astype(np.float64) * np.repeat(sa.T.astype(np.float64), BLOCK, axis=1)
    wide_b = b.astype(np.float64) * np.repeat(np.repeat(sb.astype(np.float64), 128, axis=0), BLOCK, axis=1)
    exact = wide_a @ wide_b.T
    # The result is rounded to bf16; a sum of K products in float32 is off by at most K · 2^-24 of their magnitudes.
    bound = 2.0**-8 * np.abs(exact) + (K + 2) * 2.0**-24 * (np.abs(wide_a) @ np.abs(wide_b).T)
    for policy in ("late", "early", "random"):
        result = kernel.simulate(a, b, sa, sb, np.zeros((M, N), ml_dtypes.bfloat16), policy=policy)
        error = float(np.max(np.abs(result.arrays["D"].astype(np.float64) - exact) / bound))
        right = error <= 1 and not result.faults
        print(f"policy {policy}: {'right' if right else 'WRONG'}, {error:.2f} of the error allowed, "
              f"{len(result.faults)} faults")  # fmt: skip
        assert right
    made = kernel.assemble()
    print(f"{made.registers} registers, {made.spill_stores + made.spill_loads} bytes of spills")


if __name__ == "__main__":
    main()
