"""Copies ahead of products: D = A·Bᵀ, the slices of the next step are fetched while those of this one are multiplied.

Shared memory holds two stages.  A stage is full when its bytes are there and free when the tensor core has read them; each
has a barrier for either, used in turn with alternating phases.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

M, N, K = 256, 256, 256
BM, BN, BK = 128, 128, 64
STAGES = 2
STEP_BYTES = (BM + BN) * BK * 2

operand_layout = mma_shared_layout("float16", 3, (STAGES, BM, BK))
result_layout = mma_shared_layout("float16", 3, (BM, BN))
accumulator_layout = TileLayout(S[(BM, BN) : (1 @ TLane, 1 @ TCol)])
row_per_thread = TileLayout(S[(BM, BN) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(A: T.Buffer((M, K), "float16"), B: T.Buffer((N, K), "float16"), D: T.Buffer((M, N), "float16")):
    T.device_entry()
    bx, by = T.cta_id([N // BN, M // BM])
    wg_id = T.warpgroup_id([1])
    warp_id = T.warp_id_in_wg([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id([128])

    pool = T.SMEMPool()
    A_s = pool.alloc((STAGES, BM, BK), "float16", align=1024, layout=operand_layout)
    B_s = pool.alloc((STAGES, BN, BK), "float16", align=1024, layout=operand_layout)
    D_s = pool.alloc((BM, BN), "float16", align=1024, layout=result_layout)
    full = pool.alloc((STAGES,), "uint64", align=8)
    free = pool.alloc((STAGES,), "uint64", align=8)
    done = pool.alloc((1,), "uint64", align=8)
    tmem_addr = pool.alloc((1,), "uint32")
    pool.commit()

    if warp_id == 0:
        if lane_id == 0:
            for s in T.unroll(STAGES):
                T.ptx.mbarrier.init(full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(free.ptr_to([s]), 1)
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=BN, cta_group=1)
    acc = T.decl_buffer((BM, BN), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=accumulator_layout)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()

    @T.inline
    def load(stage, k):
        T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([stage]), STEP_BYTES)
        a = T.meta_var(A[by * BM : by * BM + BM, k * BK : k * BK + BK])
        b = T.meta_var(B[bx * BN : bx * BN + BN, k * BK : k * BK + BK])
        Tx.copy_async(A_s[stage, :, :], a, dispatch="tma_auto", mbar=full.ptr_to([stage]))
        Tx.copy_async(B_s[stage, :, :], b, dispatch="tma_auto", mbar=full.ptr_to([stage]))

    if warp_id == 0:
        if T.ptx.elect_sync():
            load(0, 0)
            for k in T.serial(K // BK):
                if k + 1 < K // BK:
                    # The other stage was last read by step k - 1.
                    if k > 0:
                        T.ptx.mbarrier.try_wait(free.ptr_to([(k + 1) % 2]), (k - 1) // 2 % 2)
                    load((k + 1) % 2, k + 1)
                T.ptx.mbarrier.try_wait(full.ptr_to([k % 2]), k // 2 % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(acc[:, :], A_s[k % 2, :, :], B_s[k % 2, :, :], accum=k > 0, dispatch="tcgen05", cta_group=1)
                T.ptx.tcgen05.commit(free.ptr_to([k % 2]), cta_group=1)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()

    D_reg = T.alloc_local((BN,), "float32")
    D_wg = D_reg.view(BM, BN, layout=row_per_thread)
    Tx.wg.copy_async(D_wg[:, :], acc[:, :])
    T.ptx.tcgen05.wait.ld()
    D16 = T.alloc_local((BN,), "float16")
    Tx.cast(D16[:], D_reg[:])
    Tx.copy(D_s[tid, :], D16[:])
    T.ptx.fence.proxy_async("shared::cta")
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            Tx.copy_async(D[by * BM : by * BM + BM, bx * BN : bx * BN + BN], D_s[:, :], dispatch="tma_auto")
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=BN, cta_group=1)


def main() -> None:
    """Compile it, run its PTX in the simulator under every schedule, and compare with numpy."""
    from check_gemm import check

    check(gemm)


if __name__ == "__main__":
    main()
