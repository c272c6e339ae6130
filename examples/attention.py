"""Attention forward: O = softmax(Q·Kᵀ / sqrt(d))·V, f16 in and out, one pass over the keys with an online softmax.

A CTA has 256 queries: two warpgroups take 128 each, one query per thread.  Warp 8 brings keys and values by tensor copies
into a ring of two stages, warp 9 multiplies.  Scores and probabilities share columns of tensor memory: a warpgroup reads
its scores, and writes the probabilities over them, from where the second product takes them as its operand A.  While one
warpgroup works on its softmax, the tensor core works for the other.
"""

from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

HEADS, QUERIES, KEYS, DEPTH = 2, 256, 384, 64
BLOCK = 128
BLOCKS = KEYS // BLOCK
#: exp(x / sqrt(d)) = exp2(x · log2(e) / sqrt(d))
SCALE = 1.4426950408889634 / DEPTH**0.5
NEGATIVE_INFINITY = -float("inf")

query_layout = mma_shared_layout("float16", 3, (2, 128, DEPTH))
ring_layout = mma_shared_layout("float16", 3, (2, BLOCK, DEPTH))
#: A row per lane of tensor memory, for both warpgroups; a row per thread of a warpgroup.
tmem_scores = TileLayout(S[(128, 2 * BLOCK) : (1 @ TLane, 1 @ TCol)])
tmem_weights = TileLayout(S[(128, 4 * BLOCK) : (1 @ TLane, 1 @ TCol)])
tmem_output = TileLayout(S[(128, 2 * DEPTH) : (1 @ TLane, 1 @ TCol)])
thread_scores = TileLayout(S[(128, BLOCK) : (1 @ tid_in_wg, 1)])
thread_pairs = TileLayout(S[(128, BLOCK // 2) : (1 @ tid_in_wg, 1)])
thread_output = TileLayout(S[(128, DEPTH) : (1 @ tid_in_wg, 1)])


@T.prim_func
def attention(
    Q: T.Buffer((HEADS, QUERIES, DEPTH), "float16"), K: T.Buffer((HEADS, KEYS, DEPTH), "float16"),
    V: T.Buffer((HEADS, KEYS, DEPTH), "float16"), O: T.Buffer((HEADS, QUERIES, DEPTH), "float16"),
):  # fmt: skip
    T.device_entry()
    bx, head = T.cta_id([QUERIES // 256, HEADS])
    warp_id = T.warp_id([10])
    lane_id = T.lane_id([32])
    wg_id = T.meta_var(warp_id // 4)
    tid = T.thread_id([320])
    pool = T.SMEMPool()
    tmem_addr = T.alloc_shared([1], "uint32")
    Q_s = pool.alloc((2, 128, DEPTH), "float16", layout=query_layout)
    K_s = pool.alloc((2, BLOCK, DEPTH), "float16", layout=ring_layout)
    V_s = pool.alloc((2, BLOCK, DEPTH), "float16", layout=ring_layout)
    q_full = pool.alloc((1,), "uint64", align=8)
    kv_full = pool.alloc((2,), "uint64", align=8)
    kv_free = pool.alloc((2,), "uint64", align=8)
    s_full = pool.alloc((2,), "uint64", align=8)
    p_full = pool.alloc((2,), "uint64", align=8)
    o_full = pool.alloc((2,), "uint64", align=8)
    pool.commit()
    if warp_id == 0:
        if lane_id == 0:
            T.ptx.mbarrier.init(q_full.ptr_to([0]), 1)
            for s in T.unroll(2):
                T.ptx.mbarrier.init(kv_full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(kv_free.ptr_to([s]), 1)
                T.ptx.mbarrier.init(s_full.ptr_to([s]), 1)
                T.ptx.mbarrier.init(p_full.ptr_to([s]), 128)
                T.ptx.mbarrier.init(o_full.ptr_to([s]), 1)
            T.ptx.fence.mbarrier_init()
        T.ptx.tcgen05.alloc(T.address_of(tmem_addr[0]), n_cols=512, cta_group=1)
    # Scores of the two warpgroups; over them the probabilities, as f16 for the product and as pairs for who writes them.
    scores = T.decl_buffer((128, 2 * BLOCK), "float32", scope="tmem", allocated_addr=tmem_addr[0], layout=tmem_scores)
    weights = T.decl_buffer((128, 4 * BLOCK), "float16", scope="tmem", allocated_addr=tmem_addr[0], layout=tmem_weights)
    pairs = T.decl_buffer((128, 2 * BLOCK), "uint32", scope="tmem", allocated_addr=tmem_addr[0], layout=tmem_scores)
    output = T.decl_buffer((128, 2 * DEPTH), "float32", scope="tmem", allocated_addr=tmem_addr[0] + 256, layout=tmem_output)
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()

    # Keys and values: a stage is refilled once both products of it are done for both warpgroups.
    if warp_id == 8:
        if T.ptx.elect_sync():
            T.ptx.mbarrier.arrive.expect_tx(q_full.ptr_to([0]), 2 * 128 * DEPTH * 2)
            for s in T.unroll(2):
                q = T.meta_var(Q[head, bx * 256 + s * 128 : bx * 256 + s * 128 + 128, :])
                Tx.copy_async(Q_s[s, :, :], q, dispatch="tma_auto", mbar=q_full.ptr_to([0]))
            for j in T.serial(BLOCKS):
                T.ptx.mbarrier.try_wait(kv_free.ptr_to([j % 2]), (j // 2 + 1) % 2)
                T.ptx.mbarrier.arrive.expect_tx(kv_full.ptr_to([j % 2]), 2 * BLOCK * DEPTH * 2)
                k = T.meta_var(K[head, j * BLOCK : j * BLOCK + BLOCK, :])
                v = T.meta_var(V[head, j * BLOCK : j * BLOCK + BLOCK, :])
                Tx.copy_async(K_s[j % 2, :, :], k, dispatch="tma_auto", mbar=kv_full.ptr_to([j % 2]))
                Tx.copy_async(V_s[j % 2, :, :], v, dispatch="tma_auto", mbar=kv_full.ptr_to([j % 2]))

    # Products: for each warpgroup its output as soon as its probabilities are there, and then its next scores, which
    # overwrite the probabilities; meanwhile the other warpgroup works on its own.
    if warp_id == 9:
        if T.ptx.elect_sync():
            T.ptx.mbarrier.try_wait(q_full.ptr_to([0]), 0)
            T.ptx.mbarrier.try_wait(kv_full.ptr_to([0]), 0)
            for s in T.unroll(2):
                mine = T.meta_var(scores[:, s * BLOCK : s * BLOCK + BLOCK])
                Tx.gemm_async(mine, Q_s[s, :, :], K_s[0, :, :], accum=False, dispatch="tcgen05")
                T.ptx.tcgen05.commit(s_full.ptr_to([s]), cta_group=1)
            for j in T.serial(BLOCKS):
                if j + 1 < BLOCKS:
                    T.ptx.mbarrier.try_wait(kv_full.ptr_to([(j + 1) % 2]), (j + 1) // 2 % 2)
                for s in T.unroll(2):
                    T.ptx.mbarrier.try_wait(p_full.ptr_to([s]), j % 2)
                    T.ptx.tcgen05.fence.after_thread_sync()
                    p = T.meta_var(weights[:, s * 2 * BLOCK : s * 2 * BLOCK + BLOCK])
                    out = T.meta_var(output[:, s * DEPTH : s * DEPTH + DEPTH])
                    Tx.gemm_async(out, p, V_s[j % 2, :, :], transB=True, accum=j > 0, dispatch="tcgen05")
                    T.ptx.tcgen05.commit(o_full.ptr_to([s]), cta_group=1)
                    if j + 1 < BLOCKS:
                        T.ptx.mbarrier.try_wait(o_full.ptr_to([s]), j % 2)
                        T.ptx.tcgen05.fence.after_thread_sync()
                        mine = T.meta_var(scores[:, s * BLOCK : s * BLOCK + BLOCK])
                        Tx.gemm_async(mine, Q_s[s, :, :], K_s[(j + 1) % 2, :, :], accum=False, dispatch="tcgen05")
                        T.ptx.tcgen05.commit(s_full.ptr_to([s]), cta_group=1)
                T.ptx.tcgen05.commit(kv_free.ptr_to([j % 2]), cta_group=1)

    # Softmax: the maximum so far, the sum of what was exponentiated so far, and the output scaled to the maximum.
    if warp_id < 8:
        score = T.alloc_local((BLOCK,), "float32")
        weight = T.alloc_local((BLOCK,), "float16")
        out_reg = T.alloc_local((DEPTH,), "float32")
        result = T.alloc_local((DEPTH,), "float16")
        score_wg = score.view(128, BLOCK, layout=thread_scores)
        weight_wg = weight.view("uint32").view(128, BLOCK // 2, layout=thread_pairs)
        out_wg = out_reg.view(128, DEPTH, layout=thread_output)
        largest = T.alloc_local((1,), "float32")
        before = T.alloc_local((1,), "float32")
        shift = T.alloc_local((1,), "float32")
        change = T.alloc_local((1,), "float32")
        total = T.alloc_local((1,), "float32")
        part = T.alloc_local((1,), "float32")
        Tx.fill(largest[:], NEGATIVE_INFINITY)
        Tx.fill(total[:], 0.0)
        for j in T.serial(BLOCKS):
            T.ptx.mbarrier.try_wait(s_full.ptr_to([wg_id]), j % 2)
            T.ptx.tcgen05.fence.after_thread_sync()
            Tx.wg.copy_async(score_wg[:, :], scores[:, wg_id * BLOCK : wg_id * BLOCK + BLOCK])
            T.ptx.tcgen05.wait.ld()
            Tx.copy(before[:], largest[:])
            Tx.max(largest[:], score[:], accum=True)
            Tx.mul(shift[:], largest[:], -SCALE)
            Tx.exp2(score[:], score[:], shift[:], SCALE)
            Tx.exp2(change[:], before[:], shift[:], SCALE)
            Tx.sum(part[:], score[:])
            Tx.fma(total[:], total[:], change[:], part[:])
            Tx.cast(weight[:], score[:])
            Tx.wg.copy_async(pairs[:, wg_id * BLOCK : wg_id * BLOCK + BLOCK // 2], weight_wg[:, :])
            if j > 0:
                # The scores came after the output so far was done: the output may be scaled.
                Tx.wg.copy_async(out_wg[:, :], output[:, wg_id * DEPTH : wg_id * DEPTH + DEPTH])
                T.ptx.tcgen05.wait.ld()
                Tx.mul(out_reg[:], out_reg[:], change[:])
                Tx.wg.copy_async(output[:, wg_id * DEPTH : wg_id * DEPTH + DEPTH], out_wg[:, :])
            T.ptx.tcgen05.wait.st()
            T.ptx.tcgen05.fence.before_thread_sync()
            T.ptx.mbarrier.arrive(p_full.ptr_to([wg_id]))
        T.ptx.mbarrier.try_wait(o_full.ptr_to([wg_id]), (BLOCKS + 1) % 2)
        T.ptx.tcgen05.fence.after_thread_sync()
        Tx.wg.copy_async(out_wg[:, :], output[:, wg_id * DEPTH : wg_id * DEPTH + DEPTH])
        T.ptx.tcgen05.wait.ld()
        Tx.reciprocal(total[:], total[:])
        Tx.mul(out_reg[:], out_reg[:], total[:])
        Tx.cast(result[:], out_reg[:])
        Tx.copy(O[head, bx * 256 + tid, :], result[:])
    T.ptx.tcgen05.fence.before_thread_sync()
    T.cuda.cta_sync()
    T.ptx.tcgen05.fence.after_thread_sync()
    if warp_id == 0:
        T.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
        T.ptx.tcgen05.dealloc(tmem_addr[0], n_cols=512, cta_group=1)


def main() -> None:
    """Compile it, run the PTX on the simulator, compare with numpy in double precision, and assemble it."""
    import numpy as np

    import tirx_eq as te

    kernel = te.compile(attention)
    print(kernel.explain())
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((HEADS, n, DEPTH)).astype(np.float16) for n in (QUERIES, KEYS, KEYS))
    wide_q, wide_k, wide_v = (x.astype(np.float64) for x in (q, k, v))
    scores = wide_q @ wide_k.transpose(0, 2, 1) / np.sqrt(DEPTH)
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    exact = weights @ wide_v
    # Probabilities and results are rounded to f16: 2^-11 of what is added up, and of the result.  Below 2^-14 the steps of
    # f16 are 2^-24 wide.  Scores and exponents are f32: less than 2^-15 for |scores| < 16.
    magnitudes = weights @ np.abs(wide_v)
    bound = (2.0**-11 + 2.0**-15) * magnitudes + 2.0**-11 * np.abs(exact) + KEYS * 2.0**-25 * np.abs(wide_v).max()
    for policy in ("late", "early", "random"):
        result = kernel.simulate(q, k, v, np.zeros_like(q), policy=policy)
        error = float(np.max(np.abs(result.arrays["O"] - exact) / bound))
        right = error <= 1 and not result.faults
        print(f"policy {policy}: {'right' if right else 'WRONG'}, {error:.2f} of the error allowed, "
              f"{len(result.faults)} faults")  # fmt: skip
        assert right
    made = kernel.assemble()
    print(f"{made.registers} registers, {made.spill_stores + made.spill_loads} bytes of spills")


if __name__ == "__main__":
    main()
