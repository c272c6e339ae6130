"""CTAs that stay: D = A·Bᵀ, a fixed number of CTAs takes tile after tile from a scheduler.

Neighbouring tiles are worked on at the same time, so that they share operands in the L2 cache.  The ring of stages goes on
from tile to tile: its state is a stage and a phase that flips whenever the ring starts again.
"""

from tirx_eq.layout import S, TileLayout, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.lang import ClusterPersistentScheduler2D, PipelineState, TCGen05Bar, TMABar
from tirx_eq.script.tirx import tile as Tx

M, N, K = 384, 256, 192
BM, BN, BK = 128, 128, 64
CTAS, L2_GROUP = 4, 2
STAGES = 2
STEPS = K // BK
STEP_BYTES = (BM + BN) * BK * 2

operand_layout = mma_shared_layout("float16", 3, (STAGES, BM, BK))
result_layout = mma_shared_layout("float16", 3, (BM, BN))
row_per_thread = TileLayout(S[(BM, BN) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), D: T.Buffer((M, N), "float16")):
    T.device_entry()
    bx = T.cta_id([CTAS])
    wg_id = T.warpgroup_id([1])
    warp_id = T.warp_id_in_wg([4])
    tid = T.thread_id([128])

    pool = T.SMEMPool()
    A_s = pool.alloc((STAGES, BM, BK), "float16", align=1024, layout=operand_layout)
    B_s = pool.alloc((STAGES, BN, BK), "float16", align=1024, layout=operand_layout)
    D_s = pool.alloc((BM, BN), "float16", align=1024, layout=result_layout)
    full = TMABar(pool, STAGES)
    free = TCGen05Bar(pool, STAGES)
    done = TCGen05Bar(pool, 1)
    tmem_pool = T.TMEMPool(pool, total_cols=512)
    acc = tmem_pool.alloc((BM, BN), "float32")
    tmem_pool.commit()
    pool.commit()
    full.init(1)
    free.init(1)
    done.init(1)
    T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()

    tiles = ClusterPersistentScheduler2D("tiles", M // BM, N // BN, CTAS, l2_group_size=L2_GROUP)
    fetch = PipelineState(STAGES, 1)  # a stage that was never filled counts as free
    use = PipelineState(STAGES, 0)
    result = PipelineState(1, 0)

    @T.inline
    def load(k):
        free.wait(fetch.stage, fetch.phase)
        full.arrive(fetch.stage, STEP_BYTES)
        a = T.meta_var(A[tiles.m_idx * BM : tiles.m_idx * BM + BM, k * BK : k * BK + BK])
        b = T.meta_var(B[tiles.n_idx * BN : tiles.n_idx * BN + BN, k * BK : k * BK + BK])
        Tx.copy_async(A_s[fetch.stage, :, :], a, dispatch="tma_auto", mbar=full.ptr_to([fetch.stage]))
        Tx.copy_async(B_s[fetch.stage, :, :], b, dispatch="tma_auto", mbar=full.ptr_to([fetch.stage]))
        fetch.advance()

    D_reg = T.alloc_local((BN,), "float32")
    D_wg = D_reg.view(BM, BN, layout=row_per_thread)
    D16 = T.alloc_local((BN,), "float16")
    tiles.init(bx)
    while tiles.valid():
        if warp_id == 0:
            if T.ptx.elect_sync():
                load(0)
                for k in T.serial(STEPS):
                    if k + 1 < STEPS:
                        load(k + 1)
                    full.wait(use.stage, use.phase)
                    T.ptx.tcgen05.fence.after_thread_sync()
                    Tx.gemm_async(
                        acc[:, :], A_s[use.stage, :, :], B_s[use.stage, :, :], accum=k > 0, dispatch="tcgen05", cta_group=1
                    )
                    free.arrive(use.stage)
                    use.advance()
                done.arrive(0)
        done.wait(0, result.phase)
        result.advance()
        T.ptx.tcgen05.fence.after_thread_sync()

        Tx.wg.copy_async(D_wg[:, :], acc[:, :])
        T.ptx.tcgen05.wait.ld()
        Tx.cast(D16[:], D_reg[:])
        Tx.copy(D_s[tid, :], D16[:])
        T.ptx.fence.proxy_async("shared::cta")
        T.ptx.tcgen05.fence.before_thread_sync()
        T.cuda.cta_sync()
        T.ptx.tcgen05.fence.after_thread_sync()
        if warp_id == 0:
            if T.ptx.elect_sync():
                d = T.meta_var(D[tiles.m_idx * BM : tiles.m_idx * BM + BM, tiles.n_idx * BN : tiles.n_idx * BN + BN])
                Tx.copy_async(d, D_s[:, :], dispatch="tma_auto")
                T.ptx.cp_async.bulk.commit_group()
                T.ptx.cp_async.bulk.wait_group(0)
        # The next tile's result goes where this one's was until just now.
        T.cuda.cta_sync()
        tiles.next_tile()
    tmem_pool.dealloc()


def main() -> None:
    """Compile it, run its PTX in the simulator under every schedule, and compare with numpy."""
    from check_gemm import check

    check(gemm)


if __name__ == "__main__":
    main()
