"""The product of larger matrices: D = A·Bᵀ in tiles of 128×128, one CTA for each.

What a CTA does is the K loop of ``gemm_k_loop``; its two coordinates choose the rows of A and of B.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

M, N, K = 256, 384, 128
BM, BN, BK = 128, 128, 64

operand_layout = mma_shared_layout("float16", 3, (BM, BK))
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
    A_s = pool.alloc((BM, BK), "float16", align=1024, layout=operand_layout)
    B_s = pool.alloc((BN, BK), "float16", align=1024, layout=operand_layout)
    mbar = pool.alloc((1,), "uint64", align=8)
    tmem_addr = pool.alloc((1,), "uint32")
    pool.commit()

    if warp_id == 0:
        if lane_id == 0:
            T.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=BN, cta_group=1)
    acc = T.decl_buffer((BM, BN), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=accumulator_layout)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()

    for k in T.serial(K // BK):
        Tx.cta.copy(A_s[:, :], A[by * BM : by * BM + BM, k * BK : k * BK + BK])
        Tx.cta.copy(B_s[:, :], B[bx * BN : bx * BN + BN, k * BK : k * BK + BK])
        # The tensor core reads shared memory through the async proxy, which ordinary stores don't reach by themselves.
        T.ptx.fence.proxy_async("shared::cta")
        T.cuda.cta_sync()
        if warp_id == 0:
            if T.ptx.elect_sync():
                Tx.gemm_async(acc[:, :], A_s[:, :], B_s[:, :], accum=k > 0, dispatch="tcgen05", cta_group=1)
                T.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
        # Done multiplying: the slices may be overwritten.
        T.ptx.mbarrier.try_wait(mbar.ptr_to([0]), k % 2)
    T.ptx.tcgen05.fence.after_thread_sync()

    D_reg = T.alloc_local((BN,), "float32")
    D_wg = D_reg.view(BM, BN, layout=row_per_thread)
    Tx.wg.copy_async(D_wg[:, :], acc[:, :])
    T.ptx.tcgen05.wait.ld()
    D16 = T.alloc_local((BN,), "float16")
    Tx.cast(D16[:], D_reg[:])
    Tx.copy(D[by * BM + tid, bx * BN : bx * BN + BN], D16[:])

    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=BN, cta_group=1)


def main() -> None:
    """Compile it, run its PTX in the simulator under every schedule, and compare with numpy."""
    from check_gemm import check

    check(gemm)


if __name__ == "__main__":
    main()
