"""Two consumers: D = A·Bᵀ in tiles of 256×128, one warp copies, two multiply, two warpgroups write results.

Both consumers read the same slice of B, each multiplies its own 128 rows of A into its own accumulator.  A stage is free when
both have read it.
"""

from tirx_eq.layout import S, TileLayout, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.lang import ClusterPersistentScheduler2D, MBarrier, PipelineState, TCGen05Bar, TMABar
from tirx_eq.script.tirx import tile as Tx

M, N, K = 512, 256, 256
CONSUMERS = 2
BM, BN, BK = 128, 128, 64  # rows of one consumer
CTAS, L2_GROUP = 2, 2
STAGES = 3
STEPS = K // BK
STEP_BYTES = (CONSUMERS * BM + BN) * BK * 2
WRITE = 64  # columns that are in registers at a time

a_layout = mma_shared_layout("float16", 3, (STAGES, CONSUMERS, BM, BK))
b_layout = mma_shared_layout("float16", 3, (STAGES, BN, BK))
result_layout = mma_shared_layout("float16", 3, (CONSUMERS, BM, WRITE))
row_per_thread = TileLayout(S[(BM, WRITE) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), D: T.Buffer((M, N), "float16")):
    T.device_entry()
    bx = T.cta_id([CTAS])
    wg_id = T.warpgroup_id([3])
    warp_id = T.warp_id_in_wg([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id_in_wg([128])

    pool = T.SMEMPool()
    A_s = pool.alloc((STAGES, CONSUMERS, BM, BK), "float16", align=1024, layout=a_layout)
    B_s = pool.alloc((STAGES, BN, BK), "float16", align=1024, layout=b_layout)
    D_s = pool.alloc((CONSUMERS, BM, WRITE), "float16", align=1024, layout=result_layout)
    full = TMABar(pool, STAGES)
    free = TCGen05Bar(pool, STAGES)
    acc_full = TCGen05Bar(pool, CONSUMERS)
    acc_free = MBarrier(pool, CONSUMERS)
    tmem_pool = T.TMEMPool(pool, total_cols=512)
    acc = tmem_pool.alloc((BM, CONSUMERS * BN), "float32")
    tmem_pool.commit()
    pool.commit()
    full.init(1)
    free.init(CONSUMERS)
    acc_full.init(1)
    acc_free.init(128)
    T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()

    tiles = ClusterPersistentScheduler2D("tiles", M // (CONSUMERS * BM), N // BN, CTAS, l2_group_size=L2_GROUP)
    tiles.init(bx)
    if wg_id == 2:
        if warp_id == 3:
            if T.ptx.elect_sync():
                fetch = PipelineState(STAGES, 1)
                while tiles.valid():
                    for k in T.serial(STEPS):
                        free.wait(fetch.stage, fetch.phase)
                        full.arrive(fetch.stage, STEP_BYTES)
                        for i in T.unroll(CONSUMERS):
                            row = T.meta_var((tiles.m_idx * CONSUMERS + i) * BM)
                            a = T.meta_var(A[row : row + BM, k * BK : k * BK + BK])
                            Tx.copy_async(A_s[fetch.stage, i, :, :], a, dispatch="tma_auto", mbar=full.ptr_to([fetch.stage]))
                        b = T.meta_var(B[tiles.n_idx * BN : tiles.n_idx * BN + BN, k * BK : k * BK + BK])
                        Tx.copy_async(B_s[fetch.stage, :, :], b, dispatch="tma_auto", mbar=full.ptr_to([fetch.stage]))
                        fetch.advance()
                    tiles.next_tile()
        if warp_id < CONSUMERS:
            if T.ptx.elect_sync():
                use = PipelineState(STAGES, 0)
                to_fill = PipelineState(1, 1)
                while tiles.valid():
                    acc_free.wait(warp_id, to_fill.phase)
                    T.ptx.tcgen05.fence.after_thread_sync()
                    for k in T.serial(STEPS):
                        full.wait(use.stage, use.phase)
                        T.ptx.tcgen05.fence.after_thread_sync()
                        Tx.gemm_async(
                            acc[:, warp_id * BN : warp_id * BN + BN], A_s[use.stage, warp_id, :, :], B_s[use.stage, :, :],
                            accum=k > 0, dispatch="tcgen05", cta_group=1,
                        )  # fmt: skip
                        free.arrive(use.stage)
                        use.advance()
                    acc_full.arrive(warp_id)
                    to_fill.advance()
                    tiles.next_tile()
    if wg_id < CONSUMERS:
        to_read = PipelineState(1, 0)
        D_reg = T.alloc_local((WRITE,), "float32")
        D_wg = D_reg.view(BM, WRITE, layout=row_per_thread)
        D16 = T.alloc_local((WRITE,), "float16")
        while tiles.valid():
            acc_full.wait(wg_id, to_read.phase)
            T.ptx.tcgen05.fence.after_thread_sync()
            for c in T.unroll(BN // WRITE):
                first = T.meta_var(wg_id * BN + c * WRITE)
                Tx.wg.copy_async(D_wg[:, :], acc[:, first : first + WRITE])
                T.ptx.tcgen05.wait.ld()
                if c == BN // WRITE - 1:
                    T.ptx.tcgen05.fence.before_thread_sync()
                    acc_free.arrive(wg_id)
                Tx.cast(D16[:], D_reg[:])
                Tx.copy(D_s[wg_id, tid, :], D16[:])
                T.ptx.fence.proxy_async("shared::cta")
                T.cuda.warpgroup_sync(wg_id + 1)
                if warp_id == 0:
                    if T.ptx.elect_sync():
                        row = T.meta_var((tiles.m_idx * CONSUMERS + wg_id) * BM)
                        column = T.meta_var(tiles.n_idx * BN + c * WRITE)
                        d = T.meta_var(D[row : row + BM, column : column + WRITE])
                        Tx.copy_async(d, D_s[wg_id, :, :], dispatch="tma_auto")
                        T.ptx.cp_async.bulk.commit_group()
                        T.ptx.cp_async.bulk.wait_group(0)
                T.cuda.warpgroup_sync(wg_id + 1)
            to_read.advance()
            tiles.next_tile()
    T.cuda.cta_sync()
    tmem_pool.dealloc()


def main() -> None:
    """Compile it, run its PTX in the simulator under every schedule, and compare with numpy."""
    from check_gemm import check

    check(gemm)


if __name__ == "__main__":
    main()
