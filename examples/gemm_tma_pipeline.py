"""A pipelined matrix product: D = A·Bᵀ of 256×256 f16, four CTAs, tensor copies and products overlapped.

Warp 0 fills a ring of two stages by tensor copies (TMA), warp 1 multiplies, and all four warps write the result.  Each
stage has a barrier that tells when it is full and one that tells when it is free again; phases alternate.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

operand_layout = mma_shared_layout("float16", 3, (2, 128, 64))
accumulator_layout = TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])
row_per_thread = TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)])

@T.prim_func
def gemm(
    A: T.Buffer((256, 256), "float16"), B: T.Buffer((256, 256), "float16"), D: T.Buffer((256, 256), "float16")
):
    T.device_entry()
    bx, by = T.cta_id([2, 2])
    warp_id = T.warp_id_in_wg([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id([128])
    pool = T.SMEMPool()
    tmem_addr = T.alloc_shared([1], "uint32")
    A_s = pool.alloc((2, 128, 64), "float16", layout=operand_layout)
    B_s = pool.alloc((2, 128, 64), "float16", layout=operand_layout)
    full = pool.alloc((2,), "uint64", align=8)
    free = pool.alloc((2,), "uint64", align=8)
    done = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            for s in T.unroll(2):
                T.ptx.mbarrier.init(full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(free.ptr_to([s]), 1)
            T.ptx.mbarrier.init(done.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=128, cta_group=1)
    tmem = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=accumulator_layout)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    # Producer: fills a stage once the tensor core has read what was in it.
    if warp_id == 0:
        if T.ptx.elect_sync():
            for k in T.serial(4):
                T.ptx.mbarrier.try_wait(free.ptr_to([k % 2]), (k // 2 + 1) % 2)
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([k % 2]), 32768)
                a = T.meta_var(A[by * 128 : by * 128 + 128, k * 64 : k * 64 + 64])
                b = T.meta_var(B[bx * 128 : bx * 128 + 128, k * 64 : k * 64 + 64])
                Tx.copy_async(A_s[k % 2, :, :], a, dispatch="tma_auto", mbar=full.ptr_to([k % 2]))
                Tx.copy_async(B_s[k % 2, :, :], b, dispatch="tma_auto", mbar=full.ptr_to([k % 2]))
    # Consumer: multiplies a full stage and gives it back when the products are done.
    if warp_id == 1:
        if T.ptx.elect_sync():
            for k in T.serial(4):
                T.ptx.mbarrier.try_wait(full.ptr_to([k % 2]), k // 2 % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(tmem[:, :], A_s[k % 2, :, :], B_s[k % 2, :, :], accum=k > 0, dispatch="tcgen05", cta_group=1)
                T.ptx.tcgen05.commit(free.ptr_to([k % 2]), cta_group=1)
            T.ptx.tcgen05.commit(done.ptr_to([0]), cta_group=1)
    # Epilogue: each thread takes one row from tensor memory to global memory.
    T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    D_reg = T.alloc_local((128,), "float32")
    D_wg = D_reg.view(128, 128, layout=row_per_thread)
    Tx.wg.copy_async(D_wg[:, :], tmem[:, :])
    T.ptx.tcgen05.wait.ld()
    D16 = T.alloc_local((128,), "float16")
    Tx.cast(D16[:], D_reg[:])
    Tx.copy(D[by * 128 + tid, bx * 128 : bx * 128 + 128], D16[:])
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=1)


def main() -> None:
    """Compile it, run the PTX on the simulator with asynchronous work delayed and hurried, and compare with numpy."""
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(gemm)
    print(kernel.explain())
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (256, 256)).astype(np.float16) for _ in range(2))
    d = np.zeros((256, 256), np.float16)
    for policy in ("late", "early", "random"):
        result = kernel.simulate(a, b, d, policy=policy)
        right = np.array_equal(result.arrays["D"].astype(np.float32), a.astype(np.float32) @ b.astype(np.float32).T)
        print(f"asynchronous work {policy}: {'right' if right and not result.faults else 'WRONG'}, {len(result.faults)} faults")
        assert right and not result.faults


if __name__ == "__main__":
    main()
