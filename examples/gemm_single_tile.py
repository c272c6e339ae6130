"""One tile of a matrix product on Blackwell's tensor core: D = A·Bᵀ, 128×128 from 128×64 operands of f16.

The way of the data: global memory → shared memory (128-byte swizzle) → ``tcgen05.mma`` → tensor memory (f32) →
registers → global memory (f16).  One CTA of 128 threads.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as Tx

operand_layout = mma_shared_layout("float16", 3, (128, 64))
accumulator_layout = TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])
row_per_thread = TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)])


@Tx.prim_func
def gemm(
    A: Tx.Buffer((128, 64), "float16"), B: Tx.Buffer((128, 64), "float16"), D: Tx.Buffer((128, 128), "float16")
):
    Tx.device_entry()
    bx = Tx.cta_id([1])
    wg_id = Tx.warpgroup_id([1])
    warp_id = Tx.warp_id_in_wg([4])
    lane_id = Tx.lane_id([32])
    tid = Tx.thread_id([128])

    pool = Tx.SMEMPool()
    tmem_addr = Tx.alloc_shared([1], "uint32")
    A_s = pool.alloc((128, 64), "float16", layout=operand_layout)
    B_s = pool.alloc((128, 64), "float16", layout=operand_layout)
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()

    if warp_id == 0:
        if lane_id == 0:
            Tx.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
        Tx.ptx.tcgen05.alloc(Tx.address_of(tmem_addr[0]), n_cols=128, cta_group=1)
    Tx.cuda.cta_sync()
    tmem = Tx.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=accumulator_layout)

    Tx.cta.copy(A_s[:, :], A[:, :])
    Tx.cta.copy(B_s[:, :], B[:, :])
    Tx.cuda.cta_sync()
    if warp_id == 0:
        if Tx.ptx.elect_sync():
            Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05", cta_group=1)
            Tx.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
    Tx.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    Tx.ptx.tcgen05.fence.after_thread_sync()

    D_reg = Tx.alloc_local((128,), "float32")
    D_wg = D_reg.view(128, 128, layout=row_per_thread)
    Tx.wg.copy_async(D_wg[:, :], tmem[:, :])
    Tx.ptx.tcgen05.wait.ld()
    D16 = Tx.alloc_local((128,), "float16")
    Tx.cast(D16[:], D_reg[:])
    Tx.copy(D[tid, :], D16[:])

    Tx.cuda.cta_sync()
    if warp_id == 0:
        Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        Tx.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=1)


if __name__ == "__main__":
    print(gemm.script(extra_config={"tirx.prefix": "Tx"}))
