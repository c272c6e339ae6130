"""One tile of a matrix product on Blackwell's tensor core: D = A·Bᵀ, 128×128 from 128×64 operands of f16.

The way of the data: global memory → shared memory (128-byte swizzle) → ``tcgen05.mma`` → tensor memory (f32) →
registers → global memory (f16).  One CTA of 128 threads.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

operand_layout = mma_shared_layout("float16", 3, (128, 64))
accumulator_layout = TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])
row_per_thread = TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)])


@T.prim_func
def gemm(
    A: T.Buffer((128, 64), "float16"), B: T.Buffer((128, 64), "float16"), D: T.Buffer((128, 128), "float16")
):
    T.device_entry()
    bx = T.cta_id([1])
    wg_id = T.warpgroup_id([1])
    warp_id = T.warp_id_in_wg([4])
    lane_id = T.lane_id([32])
    tid = T.thread_id([128])

    pool = T.SMEMPool()
    tmem_addr = T.alloc_shared([1], "uint32")
    A_s = pool.alloc((128, 64), "float16", layout=operand_layout)
    B_s = pool.alloc((128, 64), "float16", layout=operand_layout)
    mbar = pool.alloc((1,), "uint64", align=8)
    pool.commit()

    if warp_id == 0:
        if lane_id == 0:
            T.ptx.mbarrier.init(mbar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=128, cta_group=1)
    tmem = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=accumulator_layout)

    Tx.cta.copy(A_s[:, :], A[:, :])
    Tx.cta.copy(B_s[:, :], B[:, :])
    # The tensor core reads shared memory through the async proxy, which ordinary stores don't reach by themselves.
    T.ptx.fence.proxy_async("shared::cta")
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            Tx.gemm_async(tmem[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05", cta_group=1)
            T.ptx.tcgen05.commit(mbar.ptr_to([0]), cta_group=1)
    T.ptx.mbarrier.try_wait(mbar.ptr_to([0]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()

    D_reg = T.alloc_local((128,), "float32")
    D_wg = D_reg.view(128, 128, layout=row_per_thread)
    Tx.wg.copy_async(D_wg[:, :], tmem[:, :])
    T.ptx.tcgen05.wait.ld()
    D16 = T.alloc_local((128,), "float16")
    Tx.cast(D16[:], D_reg[:])
    Tx.copy(D[tid, :], D16[:])

    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=128, cta_group=1)


def main() -> None:
    """Show how the objects of the kernel hang together, then compile it."""
    import tirx_eq as te
    from tirx_eq.ir import DeclBuffer, TilePrimitiveCall, post_order_visit

    print("type:", type(gemm).__name__)
    print("params:", [f"{p.name}: {p.dtype}" for p in gemm.params])
    print("buffer_map:", {p.name: b for p, b in gemm.buffer_map.items()})
    print("layout of the first buffer:", gemm.buffer_map[gemm.params[0]].layout)

    calls: list[TilePrimitiveCall] = []
    views: list[DeclBuffer] = []
    kinds = {TilePrimitiveCall: calls, DeclBuffer: views}
    post_order_visit(gemm.body, lambda n: kinds[type(n)].append(n) if type(n) in kinds else None)
    mma = next(c for c in calls if c.op.name == "tirx.tile.gemm_async")
    print("op:", mma.op.name, "| scope:", mma.scope, "| dispatch:", mma.dispatch, "| config:", mma.config)
    print("args[0:3]:", [f"{type(a).__name__} of {a.buffer.name}" for a in mma.args[0:3]])
    print("args[3:6]:", [int(a) for a in mma.args[3:6]])
    shared = next(v.buffer for v in views if v.buffer.name == "A_s")
    print("A_s is one object in its declaration, the copy and the product:",
          shared is mma.args[1].buffer is calls[0].args[0].buffer)  # fmt: skip
    print("\nscript without sugar:\n")
    print(gemm.script(syntax_sugar=False, extra_config={"tirx.prefix": "Tx"}))

    kernel = te.compile(gemm)
    print("\nlowerings:\n")
    print(kernel.explain())


if __name__ == "__main__":
    main()
