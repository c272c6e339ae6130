"""Any number of rows, columns and steps: D = A·Bᵀ of arrays whose extents are known when the kernel is launched.

One compiled kernel takes all shapes. The grid and the tensor maps are terms over the extents, which the host works out;
tiles that overhang the arrays are filled with zeros when they are read, and cut off when they are written.
"""

from tirx_eq.layout import S, TileLayout, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

BM, BN, BK = 128, 64, 64
STEP_BYTES = (BM + BN) * BK * 2

row_per_thread = TileLayout(S[(BM, BN) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(a: T.handle, b: T.handle, d: T.handle):
    m = T.int32()
    n = T.int32()
    k = T.int32()
    A = T.match_buffer(a, (m, k), "float16")
    B = T.match_buffer(b, (n, k), "float16")
    D = T.match_buffer(d, (m, n), "float32")
    T.device_entry()
    bx, by = T.cta_id([T.ceildiv(m, BM), T.ceildiv(n, BN)])
    warp_id = T.warp_id([4])
    tid = T.thread_id([128])

    pool = T.SMEMPool()
    A_s = pool.alloc((BM, BK), "float16", align=1024, layout=mma_shared_layout("float16", 3, (BM, BK)))
    B_s = pool.alloc((BN, BK), "float16", align=1024, layout=mma_shared_layout("float16", 3, (BN, BK)))
    full = pool.alloc((1,), "uint64", align=8)
    used = pool.alloc((1,), "uint64", align=8)
    done = pool.alloc((1,), "uint64", align=8)
    tmem_pool = T.TMEMPool(pool, total_cols=64)
    acc = tmem_pool.alloc((BM, BN), "float32")
    tmem_pool.commit()
    pool.commit()
    if tid == 0:
        T.ptx.mbarrier.init(full.ptr_to([0]), 1)
        T.ptx.mbarrier.init(used.ptr_to([0]), 1)
        T.ptx.mbarrier.init(done.ptr_to([0]), 1)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()

    if warp_id == 0:
        if T.ptx.elect_sync():
            for i in T.serial(T.ceildiv(k, BK)):
                T.ptx.mbarrier.arrive.expect_tx(full.ptr_to([0]), STEP_BYTES)
                rows = T.meta_var(A[bx * BM : bx * BM + BM, i * BK : i * BK + BK])
                columns = T.meta_var(B[by * BN : by * BN + BN, i * BK : i * BK + BK])
                Tx.copy_async(A_s[:, :], rows, dispatch="tma_explicit", mbar=full.ptr_to([0]), oob="zero")
                Tx.copy_async(B_s[:, :], columns, dispatch="tma_explicit", mbar=full.ptr_to([0]), oob="zero")
                T.ptx.mbarrier.try_wait(full.ptr_to([0]), i % 2)
                T.ptx.tcgen05.fence.after_thread_sync()
                Tx.gemm_async(acc[:, :], A_s[:, :], B_s[:, :], accum=i > 0, dispatch="tcgen05", cta_group=1)
                T.ptx.tcgen05.commit(used.ptr_to([0]), cta_group=1)
                T.ptx.mbarrier.try_wait(used.ptr_to([0]), i % 2)
            T.ptx.mbarrier.arrive(done.ptr_to([0]))
    T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    D_reg = T.alloc_local((BN,), "float32")
    Tx.wg.copy_async(D_reg.view(BM, BN, layout=row_per_thread)[:, :], acc[:, :])
    T.ptx.tcgen05.wait.ld()
    if bx * BM + tid < m:
        for j in T.serial(BN):
            if by * BN + j < n:
                D[bx * BM + tid, by * BN + j] = D_reg[j]
    T.cuda.cta_sync()
    tmem_pool.dealloc()


def main() -> None:
    """Compile it once, run its PTX in the simulator for several shapes, and compare with numpy."""
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(gemm)
    print(kernel.explain())
    rng = np.random.default_rng(0)
    for shape, policy in (((1, 1, 8), "late"), ((77, 40, 72), "early"), ((130, 136, 200), "random")):
        m, n, k = shape
        a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float16) for rows in (m, n))
        result = kernel.simulate(a, b, np.zeros((m, n), np.float32), policy=policy)
        right = np.array_equal(result.arrays["D"], a.astype(np.float32) @ b.astype(np.float32).T) and not result.faults
        print(f"{m} x {n} x {k}, asynchronous work {policy}: {'right' if right else 'WRONG'}, {len(result.faults)} faults")
        assert right
    made = kernel.assemble()
    print(f"{made.registers} registers, {made.spill_stores + made.spill_loads} bytes of spills")


if __name__ == "__main__":
    main()
