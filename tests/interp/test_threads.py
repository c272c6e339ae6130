"""Scope ids, warps acting together, barriers and clusters."""

import numpy as np
import pytest

from tirx_eq.interp import Deadlock, InterpreterError, interpret
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

from .kernels import run, zeros


def test_scope_ids_of_several_dimensions():
    @T.prim_func
    def kernel(B: T.Buffer((2, 3, 4, 8, 6), "int32")):
        T.device_entry()
        cx, cy = T.cta_id([2, 3])
        tx, ty = T.thread_id([4, 8])
        w = T.warp_id()
        lane = T.lane_id()
        B[cx, cy, tx, ty, 0] = cx
        B[cx, cy, tx, ty, 1] = cy
        B[cx, cy, tx, ty, 2] = tx
        B[cx, cy, tx, ty, 3] = ty
        B[cx, cy, tx, ty, 4] = w
        B[cx, cy, tx, ty, 5] = lane

    found = run(kernel, zeros((2, 3, 4, 8, 6), "int32"))["B"]
    want = np.indices((2, 3, 4, 8)).transpose(1, 2, 3, 4, 0)
    assert np.array_equal(found[..., :4], want)
    assert (found[..., 4] == 0).all() and np.array_equal(found[..., 5], want[..., 3] * 4 + want[..., 2])


def test_ids_in_warpgroups_and_clusters():
    @T.prim_func
    def kernel(B: T.Buffer((4, 256, 6), "int32")):
        T.device_entry()
        cluster = T.cluster_id([2])
        rank = T.cta_id_in_cluster([2])
        t = T.thread_id([256])
        wg = T.warpgroup_id([2])
        in_wg = T.thread_id_in_wg([128])
        w = T.warp_id_in_wg([4])
        pair = T.cta_id_in_pair()
        c = T.meta_var(cluster * 2 + rank)
        B[c, t, 0] = cluster
        B[c, t, 1] = rank
        B[c, t, 2] = wg
        B[c, t, 3] = in_wg
        B[c, t, 4] = w
        B[c, t, 5] = pair

    found = run(kernel, zeros((4, 256, 6), "int32"))["B"]
    c, t = np.indices((4, 256))
    want = np.stack([c // 2, c % 2, t // 128, t % 128, t // 32 % 4, c % 2], axis=-1)
    assert np.array_equal(found, want)


def test_contradicting_ids_are_refused():
    @T.prim_func
    def kernel(B: T.Buffer((4,), "int32")):
        T.device_entry()
        t = T.thread_id([64])
        w = T.warp_id([4])
        B[0] = t * 0 + w * 0

    with pytest.raises(InterpreterError, match="thread_id: 64, warp_id: 128"):
        interpret(kernel, zeros(4, "int32"))


def test_shuffles_votes_and_reductions():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "int32"), B: T.Buffer((64, 8), "int32")):
        T.device_entry()
        t = T.thread_id([64])
        x: T.int32 = A[t]
        B[t, 0] = T.cuda.__shfl_xor_sync(T.uint32(0xFFFFFFFF), x, 3, 32)
        B[t, 1] = T.cuda.__shfl_down_sync(T.uint32(0xFFFFFFFF), x, 2, 16)
        B[t, 2] = T.cuda.__shfl_up_sync(T.uint32(0xFFFFFFFF), x, 1, 32)
        B[t, 3] = T.cuda.__shfl_sync(T.uint32(0xFFFFFFFF), x, 5, 8)
        B[t, 4] = T.cuda.warp_sum(x)
        B[t, 5] = T.cuda.warp_max(x, width=4)
        B[t, 6] = T.cast(T.cuda.ballot_sync(T.uint32(0xFFFFFFFF), x > 0), "int32")
        B[t, 7] = T.cast(T.ptx.elect_sync(), "int32")

    a = np.random.default_rng(3).integers(-9, 10, 64).astype(np.int32)
    found = run(kernel, a, zeros((64, 8), "int32"))["B"]
    t = np.arange(64)
    w, lane = t // 32 * 32, t % 32
    assert np.array_equal(found[:, 0], a[t ^ 3])
    assert np.array_equal(found[:, 1], a[np.where(lane % 16 < 14, t + 2, t)])
    assert np.array_equal(found[:, 2], a[np.where(lane > 0, t - 1, t)])
    assert np.array_equal(found[:, 3], a[t // 8 * 8 + 5])
    assert np.array_equal(found[:, 4], a.reshape(2, 32).sum(1)[t // 32])
    assert np.array_equal(found[:, 5], a.reshape(16, 4).max(1)[t // 4])
    bits = [sum(int(a[i] > 0) << (i % 32) for i in range(k, k + 32)) for k in (0, 32)]
    assert np.array_equal(found[:, 6].astype(np.uint32), np.array(bits, np.uint32)[t // 32])
    assert np.array_equal(found[:, 7], (t == w).astype(int))


def test_a_shuffle_from_a_thread_that_takes_no_part():
    @T.prim_func
    def kernel(B: T.Buffer((32,), "int32")):
        T.device_entry()
        t = T.thread_id([32])
        x: T.int32 = t
        if t < 16:
            B[t] = T.cuda.__shfl_xor_sync(T.uint32(0xFFFF), x, 16, 32)

    with pytest.raises(InterpreterError, match="reads lane 16, which takes no part"):
        interpret(kernel, zeros(32, "int32"))


def test_atomics_count():
    @T.prim_func
    def kernel(A: T.Buffer((128,), "int32"), B: T.Buffer((4,), "int32")):
        T.device_entry()
        c = T.cta_id([2])
        t = T.thread_id([64])
        i = T.meta_var(c * 64 + t)
        T.evaluate(T.cuda.atomic_add(B.ptr_to([A[i]]), 1))

    a = np.random.default_rng(4).integers(0, 4, 128).astype(np.int32)
    assert np.array_equal(run(kernel, a, np.zeros(4, np.int32))["B"], np.bincount(a, minlength=4))


def test_a_producer_and_a_consumer_warp_with_two_stages():
    """Warps that wait for each other: neither could run to its end alone."""

    @T.prim_func
    def kernel(A: T.Buffer((6, 32), "int32"), B: T.Buffer((6, 32), "int32")):
        T.device_entry()
        w = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((2, 32), "int32")
        full = T.alloc_shared((2,), "uint64")
        empty = T.alloc_shared((2,), "uint64")
        if w == 0:
            if lane < 2:
                T.ptx.mbarrier.init(full.ptr_to([lane]), 32)
                T.ptx.mbarrier.init(empty.ptr_to([lane]), 32)
        T.cuda.cta_sync()
        if w == 0:
            for i in T.serial(6):
                T.ptx.mbarrier.try_wait(empty.ptr_to([i % 2]), (i // 2 + 1) % 2)
                s[i % 2, lane] = A[i, lane]
                T.ptx.mbarrier.arrive(full.ptr_to([i % 2]))
        else:
            for i in T.serial(6):
                T.ptx.mbarrier.try_wait(full.ptr_to([i % 2]), i // 2 % 2)
                B[i, lane] = s[i % 2, lane] * 2
                T.ptx.mbarrier.arrive(empty.ptr_to([i % 2]))

    a = np.arange(192, dtype=np.int32).reshape(6, 32)
    assert np.array_equal(run(kernel, a, zeros((6, 32), "int32"))["B"], a * 2)


def test_a_wait_for_what_never_comes_is_explained():
    @T.prim_func
    def kernel(B: T.Buffer((32,), "int32")):
        T.device_entry()
        t = T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
        T.cuda.cta_sync()
        if t == 0:
            T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        B[t] = 1

    with pytest.raises(Deadlock, match="thread 0 and 31 more for phase 0 of mbarrier 'bar' \\(1 arrivals missing\\)"):
        interpret(kernel, zeros(32, "int32"))


def test_mbarrier_misuse():
    @T.prim_func
    def uninitialised(B: T.Buffer((1,), "int32")):
        T.device_entry()
        bar = T.alloc_shared((1,), "uint64")
        T.ptx.mbarrier.arrive(bar.ptr_to([0]))
        B[0] = 1

    with pytest.raises(InterpreterError, match=r"used before mbarrier\.init"):
        interpret(uninitialised, zeros(1, "int32"))


def test_named_barriers_join_a_part_of_the_cta():
    @T.prim_func
    def kernel(B: T.Buffer((64,), "int32")):
        T.device_entry()
        t = T.thread_id([96])
        s = T.alloc_shared((64,), "int32")
        if t < 64:
            s[t] = t
            T.ptx.bar.sync(3, 64)
            B[t] = s[63 - t]

    assert run(kernel, zeros(64, "int32"))["B"].tolist() == list(range(63, -1, -1))


def test_a_barrier_inside_a_divergent_branch_deadlocks():
    @T.prim_func
    def kernel(B: T.Buffer((64,), "int32")):
        T.device_entry()
        t = T.thread_id([64])
        if t < 32:
            T.ptx.bar.sync(1, 64)
        B[t] = 1

    with pytest.raises(Deadlock, match="cta barrier 1, where 32 arrived"):
        interpret(kernel, zeros(64, "int32"))


def test_polling_memory_doesnt_starve_the_writer():
    @T.prim_func
    def kernel(F: T.Buffer((1,), "int32"), B: T.Buffer((2,), "int32")):
        T.device_entry()
        w = T.warp_id([2])
        lane = T.lane_id([32])
        if w == 0:
            if lane == 0:
                while T.ptx.ld_acquire(F.ptr_to([0]), "int32", "s32") == 0:
                    T.evaluate(0)
                B[0] = 1
        else:
            if lane == 0:
                F[0] = 1
                B[1] = 2

    assert run(kernel, np.zeros(1, np.int32), zeros(2, "int32"))["B"].tolist() == [1, 2]


def test_clusters_exchange_through_distributed_shared_memory():
    @T.prim_func
    def kernel(B: T.Buffer((4, 32), "int32")):
        T.device_entry()
        c = T.cta_id([4])
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([32])
        s = T.alloc_shared((32,), "int32")
        s[t] = c * 100 + t
        T.cuda.cluster_sync()
        other = T.ptx.mapa(s.ptr_to([t]), 1 - r)
        B[c, t] = T.ptx.ld(other, "int32", "s32", space="shared::cluster")

    found = run(kernel, zeros((4, 32), "int32"))["B"]
    c, t = np.indices((4, 32))
    assert np.array_equal(found, (c ^ 1) * 100 + t)


def test_remote_arrivals():
    @T.prim_func
    def kernel(B: T.Buffer((2,), "int32")):
        T.device_entry()
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 2)
        T.cuda.cluster_sync()
        if t == 0:
            T.ptx.mbarrier.arrive(bar.ptr_to([0]), remote=0)
            if r == 0:
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            B[r] = 1

    assert run(kernel, zeros(2, "int32"))["B"].tolist() == [1, 1]


def test_tile_calls_wait_for_threads_that_are_behind():
    """Lane 0 is held at a barrier; the copy of the whole warp must not run without it."""

    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32"), B: T.Buffer((32,), "int32")):
        T.device_entry()
        w = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "int32")
        bar = T.alloc_shared((1,), "uint64")
        if w == 0:
            if lane == 0:
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.cuda.cta_sync()
        if w == 0:
            if lane == 0:
                T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
            Tx.warp.copy(B[:], s[:])
        else:
            Tx.warp.copy(s[:], A[:])
            if lane == 0:
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))

    a = np.arange(32, dtype=np.int32)
    assert np.array_equal(run(kernel, a, zeros(32, "int32"))["B"], a)
