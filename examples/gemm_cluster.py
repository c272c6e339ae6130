"""Two CTAs as one: D = A·Bᵀ by clusters of two, whose tensor cores multiply 256 rows together (cta_group::2).

Each CTA brings its 128 rows of A and half of the columns' rows of B; the pair reads both halves of B, so each is copied once
for two CTAs.  Copies of both CTAs report to one barrier, in the even CTA, whose tensor core works for the pair; its commits go
to both CTAs by multicast, and the warps that write results tell it across CTAs when an accumulator is free again.
"""

from tirx_eq.layout import S, TileLayout, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.lang import ClusterPersistentScheduler2D, MBarrier, PipelineState, TCGen05Bar, TMABar
from tirx_eq.script.tirx import tile as Tx

M, N, K = 768, 256, 256
BM, BN, BK = 256, 128, 64  # of the pair
CTAS = 2
CLUSTERS, L2_GROUP = 1, 2
ROWS_A, ROWS_B = BM // CTAS, BN // CTAS  # of one CTA
STAGES = 3
STEPS = K // BK
PAIR_BYTES = CTAS * (ROWS_A + ROWS_B) * BK * 2
WRITE = 128  # columns that are in registers at a time

a_layout = mma_shared_layout("float16", 3, (STAGES, ROWS_A, BK))
b_layout = mma_shared_layout("float16", 3, (STAGES, ROWS_B, BK))
result_layout = mma_shared_layout("float16", 3, (ROWS_A, WRITE))
row_per_thread = TileLayout(S[(ROWS_A, WRITE) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), D: T.Buffer((M, N), "float16")):
    T.device_entry()
    cluster = T.cluster_id([CLUSTERS])
    rank = T.cta_id_in_cluster([CTAS])
    wg_id = T.warpgroup_id([2])
    warp_id = T.warp_id_in_wg([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id_in_wg([128])

    pool = T.SMEMPool()
    A_s = pool.alloc((STAGES, ROWS_A, BK), "float16", align=1024, layout=a_layout)
    B_s = pool.alloc((STAGES, ROWS_B, BK), "float16", align=1024, layout=b_layout)
    D_s = pool.alloc((ROWS_A, WRITE), "float16", align=1024, layout=result_layout)
    full = TMABar(pool, STAGES)
    free = TCGen05Bar(pool, STAGES)
    acc_full = TCGen05Bar(pool, 2)
    acc_free = MBarrier(pool, 2)
    tmem_pool = T.TMEMPool(pool, total_cols=256, cta_group=2)
    acc = tmem_pool.alloc((ROWS_A, 2 * BN), "float32")
    tmem_pool.commit()
    pool.commit()
    full.init(1)
    free.init(1)
    acc_full.init(1)
    acc_free.init(CTAS * 128)
    full_of_pair = full.remote_view(0)
    T.ptx.fence.mbarrier_init()
    T.cuda.cluster_sync()

    tiles = ClusterPersistentScheduler2D("tiles", M // BM, N // BN, CLUSTERS, l2_group_size=L2_GROUP)
    tiles.init(cluster)
    if wg_id == 1:
        if warp_id == 3:
            if T.ptx.elect_sync():
                fetch = PipelineState(STAGES, 1)
                while tiles.valid():
                    for k in T.serial(STEPS):
                        free.wait(fetch.stage, fetch.phase)
                        if rank == 0:
                            full.arrive(fetch.stage, PAIR_BYTES)
                        m = T.meta_var(tiles.m_idx * BM + rank * ROWS_A)
                        n = T.meta_var(tiles.n_idx * BN + rank * ROWS_B)
                        Tx.copy_async(
                            A_s[fetch.stage, :, :], A[m : m + ROWS_A, k * BK : k * BK + BK], dispatch="tma_auto",
                            mbar=full_of_pair.ptr_to([fetch.stage]), cta_group=2,
                        )  # fmt: skip
                        Tx.copy_async(
                            B_s[fetch.stage, :, :], B[n : n + ROWS_B, k * BK : k * BK + BK], dispatch="tma_auto",
                            mbar=full_of_pair.ptr_to([fetch.stage]), cta_group=2,
                        )  # fmt: skip
                        fetch.advance()
                    tiles.next_tile()
        if warp_id == 0:
            if rank == 0:
                if T.ptx.elect_sync():
                    use = PipelineState(STAGES, 0)
                    to_fill = PipelineState(2, 1)
                    while tiles.valid():
                        acc_free.wait(to_fill.stage, to_fill.phase)
                        T.ptx.tcgen05.fence.after_thread_sync()
                        for k in T.serial(STEPS):
                            full.wait(use.stage, use.phase)
                            T.ptx.tcgen05.fence.after_thread_sync()
                            first = T.meta_var(to_fill.stage * BN)
                            Tx.gemm_async(
                                acc[:, first : first + BN], A_s[use.stage, :, :], B_s[use.stage, :, :],
                                accum=k > 0, dispatch="tcgen05", cta_group=2,
                            )  # fmt: skip
                            free.arrive(use.stage, cta_group=2, cta_mask=3)
                            use.advance()
                        acc_full.arrive(to_fill.stage, cta_group=2, cta_mask=3)
                        to_fill.advance()
                        tiles.next_tile()
    if wg_id == 0:
        to_read = PipelineState(2, 0)
        D_reg = T.alloc_local((WRITE,), "float32")
        D_wg = D_reg.view(ROWS_A, WRITE, layout=row_per_thread)
        D16 = T.alloc_local((WRITE,), "float16")
        while tiles.valid():
            acc_full.wait(to_read.stage, to_read.phase)
            T.ptx.tcgen05.fence.after_thread_sync()
            for c in T.unroll(BN // WRITE):
                first = T.meta_var(to_read.stage * BN + c * WRITE)
                Tx.wg.copy_async(D_wg[:, :], acc[:, first : first + WRITE])
                T.ptx.tcgen05.wait.ld()
                if c == BN // WRITE - 1:
                    T.ptx.tcgen05.fence.before_thread_sync()
                    acc_free.arrive(to_read.stage, remote=0)
                Tx.cast(D16[:], D_reg[:])
                Tx.copy(D_s[tid, :], D16[:])
                T.ptx.fence.proxy_async("shared::cta")
                T.cuda.warpgroup_sync(1)
                if warp_id == 0:
                    if T.ptx.elect_sync():
                        row = T.meta_var(tiles.m_idx * BM + rank * ROWS_A)
                        column = T.meta_var(tiles.n_idx * BN + c * WRITE)
                        Tx.copy_async(D[row : row + ROWS_A, column : column + WRITE], D_s[:, :], dispatch="tma_auto")
                        T.ptx.cp_async.bulk.commit_group()
                        T.ptx.cp_async.bulk.wait_group(0)
                T.cuda.warpgroup_sync(1)
            to_read.advance()
            tiles.next_tile()
    T.cuda.cluster_sync()
    tmem_pool.dealloc()


def main() -> None:
    """Compile it, run its PTX in the simulator under every schedule, and compare with numpy."""
    from check_gemm import check

    check(gemm)


if __name__ == "__main__":
    main()
