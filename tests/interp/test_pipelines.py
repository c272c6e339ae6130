"""Kernels of specialised warps that wait for each other: rings of stages, persistent clusters, pairs of CTAs."""

import numpy as np
import pytest

from tirx_eq.interp import Deadlock, interpret
from tirx_eq.layout import S, TCol, TileLayout, TLane, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.lang import ClusterPersistentScheduler2D, Pipeline, PipelineState
from tirx_eq.script.tirx import tile as Tx

from .kernels import run, zeros

rng = np.random.default_rng(11)
ROWS = TileLayout(S[(128, 128) : (1 @ tid_in_wg, 1)])
CELLS = TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])
STAGES = 2


def persistent_pair(expected_bytes=2 * (128 + 64) * 64 * 2):
    """D = A·Bᵀ by one persistent cluster of two CTAs: 256×128 tiles with cta_group=2, one producer warp, one product
    warp and a warpgroup that writes results, joined by three kinds of barriers."""
    a_layout = mma_shared_layout("float16", 3, (STAGES, 128, 64))
    b_layout = mma_shared_layout("float16", 3, (STAGES, 64, 64))

    @T.prim_func
    def kernel(
        A: T.Buffer((768, 192), "float16"), B: T.Buffer((256, 192), "float16"), D: T.Buffer((768, 256), "float16")
    ):
        T.device_entry()
        cluster = T.cluster_id([1])
        r = T.cta_id_in_cluster([2])
        wg = T.warpgroup_id([2])
        w = T.warp_id([8])
        t = T.thread_id_in_wg([128])
        pool = T.SMEMPool()
        a_s = pool.alloc((STAGES, 128, 64), "float16", layout=a_layout, align=1024)
        b_s = pool.alloc((STAGES, 64, 64), "float16", layout=b_layout, align=1024)
        addr = pool.alloc((1,), "uint32", align=4)
        load = Pipeline(pool, STAGES, full="tma", empty="tcgen05")
        result = Pipeline(pool, 1, full="tcgen05", empty="mbar", init_empty=256)
        pool.commit()
        full_at_leader = load.full.remote_view(0)
        if w == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=128, cta_group=2)
        T.ptx.fence.mbarrier_init()
        T.cuda.cluster_sync()
        acc = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=addr[0], layout=CELLS)
        tiles = ClusterPersistentScheduler2D("tiles", num_m_tiles=3, num_n_tiles=2, num_clusters=1, l2_group_size=2)
        if w == 0:
            if T.ptx.elect_sync():
                slot = PipelineState(STAGES, 1)
                tiles.init(cluster)
                while tiles.valid():
                    for k in T.serial(3):
                        load.empty.wait(slot.stage, slot.phase)
                        m = T.meta_var(tiles.m_idx * 256 + r * 128)
                        n = T.meta_var(tiles.n_idx * 128 + r * 64)
                        if r == 0:
                            load.full.arrive(slot.stage, expected_bytes)
                        Tx.copy_async(
                            a_s[slot.stage, :, :], A[m : m + 128, k * 64 : k * 64 + 64], dispatch="tma_auto",
                            mbar=full_at_leader.ptr_to([slot.stage]), cta_group=2,
                        )  # fmt: skip
                        Tx.copy_async(
                            b_s[slot.stage, :, :], B[n : n + 64, k * 64 : k * 64 + 64], dispatch="tma_auto",
                            mbar=full_at_leader.ptr_to([slot.stage]), cta_group=2,
                        )  # fmt: skip
                        slot.advance()
                    tiles.next_tile()
        if w == 1:
            if r == 0:
                if T.ptx.elect_sync():
                    ready = PipelineState(STAGES, 0)
                    free = PipelineState(1, 1)
                    tiles.init(cluster)
                    while tiles.valid():
                        result.empty.wait(0, free.phase)
                        T.ptx.tcgen05.fence.after_thread_sync()
                        free.advance()
                        for k in T.serial(3):
                            load.full.wait(ready.stage, ready.phase)
                            T.ptx.tcgen05.fence.after_thread_sync()
                            a_now = T.meta_var(a_s[ready.stage, :, :])
                            b_now = T.meta_var(b_s[ready.stage, :, :])
                            Tx.gemm_async(acc[:, :], a_now, b_now, accum=k > 0, cta_group=2)
                            load.empty.arrive(ready.stage, cta_group=2, cta_mask=3)
                            ready.advance()
                        result.full.arrive(0, cta_group=2, cta_mask=3)
                        tiles.next_tile()
        if wg == 1:
            done = PipelineState(1, 0)
            regs = T.alloc_local((128,), "float32")
            rows = regs.view(128, 128, layout=ROWS)
            half = T.alloc_local((128,), "float16")
            tiles.init(cluster)
            while tiles.valid():
                result.full.wait(0, done.phase)
                T.ptx.tcgen05.fence.after_thread_sync()
                done.advance()
                Tx.wg.copy_async(rows[:, :], acc[:, :])
                T.ptx.tcgen05.wait.ld()
                T.ptx.tcgen05.fence.before_thread_sync()
                result.empty.arrive(0, remote=0)
                Tx.cast(half[:], regs[:])
                row = T.meta_var(tiles.m_idx * 256 + r * 128 + t)
                Tx.copy(D[row, tiles.n_idx * 128 : tiles.n_idx * 128 + 128], half[:])
                tiles.next_tile()
        T.cuda.cluster_sync()
        if w == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=128, cta_group=2)

    return kernel


def test_a_persistent_pair_of_ctas_with_specialised_warps():
    a, b = (rng.integers(-2, 3, (n, 192)).astype(np.float16) for n in (768, 256))
    found = run(persistent_pair(), a, b, zeros((768, 256), "float16"))["D"]
    assert np.array_equal(found, a.astype(float) @ b.astype(float).T)


def test_too_few_bytes_are_noticed():
    a, b = np.zeros((768, 192), np.float16), np.zeros((256, 192), np.float16)
    with pytest.raises(Deadlock, match=r"bytes missing"):
        interpret(persistent_pair(expected_bytes=128), a, b, zeros((768, 256), "float16"))


def test_bulk_copies_by_address():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        s = T.alloc_shared((64,), "float32")
        bar = T.alloc_shared((1,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 256)
            T.ptx.cp_async_bulk_g2s_cta(s.ptr_to([0]), A.ptr_to([0]), 256, bar.ptr_to([0]))
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        s[t] = s[t] * T.float32(2.0)
        T.cuda.cta_sync()
        if t == 0:
            T.ptx.cp_async_bulk_s2g(D.ptr_to([0]), s.ptr_to([0]), 256)
            T.ptx.cp_async.bulk.commit_group()
            T.ptx.cp_async.bulk.wait_group(0)

    a = rng.standard_normal(64).astype(np.float32)
    want = np.concatenate([a[:32] * 2, a[32:]])
    assert np.array_equal(run(kernel, a, zeros(64))["D"], want)


def test_cp_async_and_vectors_through_pointers():
    @T.prim_func
    def kernel(A: T.Buffer((128,), "float32"), D: T.Buffer((128,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        s = T.alloc_shared((128,), "float32")
        x = T.alloc_local((4,), "float32")
        T.ptx.cp_async(s.ptr_to([t * 4]), A.ptr_to([t * 4]), 16)
        T.ptx.cp_async.commit_group()
        T.ptx.cp_async.wait_group(0)
        T.cuda.cta_sync()
        T.ptx.ld(
            s.ptr_to([124 - t * 4]), "void", "f32", dst=[x.ptr_to([0]), x.ptr_to([1]), x.ptr_to([2]), x.ptr_to([3])],
            vec="v4", space="shared",
        )  # fmt: skip
        T.ptx.st(D.ptr_to([t * 4]), x[3], x[2], x[1], x[0], vec="v4", ptx_type="f32", space="global")

    a = rng.standard_normal(128).astype(np.float32)
    assert np.array_equal(run(kernel, a, zeros(128))["D"], a[::-1])


def test_cluster_launch_control_gives_no_more_work():
    @T.prim_func
    def kernel(D: T.Buffer((2,), "uint32")):
        T.device_entry()
        c = T.cta_id([2])
        t = T.thread_id([32])
        handle = T.alloc_shared((2,), "uint64")
        bar = T.alloc_shared((1,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 16)
            T.ptx.clc_try_cancel(handle.ptr_to([0]), bar.ptr_to([0]))
        T.cuda.cta_sync()
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        D[c] = T.ptx.clc_query_cancel(handle.ptr_to([0]))

    assert run(kernel, zeros(2, "int32").astype(np.uint32))["D"].tolist() == [0xFFFFFFFF] * 2
