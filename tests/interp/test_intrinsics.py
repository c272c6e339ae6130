"""Calls: functions of values, votes and reductions, addresses and atomic operations, barriers."""

import math

import numpy as np
import pytest

from tirx_eq import ir
from tirx_eq.interp import InterpreterError, OutOfBounds, UndefinedRead, interpret
from tirx_eq.layout import S, TileLayout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

from .kernels import run, zeros

rng = np.random.default_rng(5)
F = np.float32


def test_bits_of_values():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32"), U: T.Buffer((32, 6), "uint32"), D: T.Buffer((32, 4), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        x: T.float32 = A[t]
        U[t, 0] = T.reinterpret("uint32", x)
        U[t, 1] = T.cuda.float_as_uint(x)
        U[t, 2] = T.popcount(T.reinterpret("uint32", x))
        U[t, 3] = T.cast(T.clz(T.reinterpret("uint32", x)), "uint32")
        U[t, 4] = T.cast(T.cuda.ffs_u32(T.reinterpret("uint32", x)), "uint32")
        U[t, 5] = ~T.reinterpret("uint32", x)
        D[t, 0] = T.cuda.uint_as_float(T.reinterpret("uint32", x))
        one = T.cuda.make_float2(x, x * T.float32(2.0))
        pair: T.uint64 = T.cuda.fadd2_rn(one, T.cuda.make_float2(x, T.float32(1.0)))
        D[t, 1] = T.cuda.float2_x(pair)
        D[t, 2] = T.cuda.float2_y(pair)
        D[t, 3] = T.cuda.half2float(T.cast(x, "float16"))

    a = rng.standard_normal(32).astype(F)
    found = run(kernel, a, np.zeros((32, 6), np.uint32), zeros((32, 4)))
    bits = a.view(np.uint32).astype(np.int64)
    want = [bits, bits, [int(b).bit_count() for b in bits], [32 - int(b).bit_length() for b in bits],
            [(int(b) & -int(b)).bit_length() for b in bits], bits ^ 0xFFFFFFFF]  # fmt: skip
    assert np.array_equal(found["U"], np.array(want).T)
    assert np.array_equal(found["D"], np.stack([a, a + a, a * F(2) + F(1), a.astype(np.float16).astype(F)], axis=1))


def test_packed_arithmetic_into_addresses():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), D: T.Buffer((4, 64), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        x: T.uint64 = T.cuda.make_float2(A[2 * t], A[2 * t + 1])
        T.ptx.add_f32x2(D.ptr_to([0, 2 * t]), x, x)
        T.ptx.fma_f32x2(D.ptr_to([1, 2 * t]), x, x, x)
        T.ptx.mul_f32(D.ptr_to([2, 2 * t]), A[2 * t], A[2 * t + 1])
        T.ptx.fma_f32(D.ptr_to([2, 2 * t + 1]), A[2 * t], A[2 * t + 1], A[2 * t])
        D[3, 2 * t] = T.ptx.reduce3_max_f32(A[2 * t], A[2 * t + 1], T.float32(0.0))
        D[3, 2 * t + 1] = T.ptx.max_f32(A[2 * t], A[2 * t + 1])

    a = rng.standard_normal(64).astype(F)
    d = run(kernel, a, zeros((4, 64)))["D"]
    wide = a.astype(float)
    x, y = a[::2], a[1::2]
    assert np.array_equal(d[0], a + a) and np.array_equal(d[1], (wide * wide + wide).astype(F))
    assert np.array_equal(d[2, ::2], x * y)
    assert np.array_equal(d[2, 1::2], (x.astype(float) * y.astype(float) + x.astype(float)).astype(F))
    assert np.array_equal(d[3, ::2], np.maximum(np.maximum(x, y), 0)) and np.array_equal(d[3, 1::2], np.maximum(x, y))


UNARY = {
    "exp": math.exp, "exp10": lambda x: 10.0**x, "log": math.log, "log2": math.log2, "log10": math.log10,
    "log1p": math.log1p, "rsqrt": lambda x: 1 / math.sqrt(x), "sin": math.sin, "cos": math.cos, "tan": math.tan,
    "tanh": math.tanh, "sigmoid": lambda x: 1 / (1 + math.exp(-x)), "erf": math.erf, "trunc": math.trunc,
    "nearbyint": round, "round": lambda x: math.floor(x + 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_functions_are_correctly_rounded(name):
    function = getattr(T, name)

    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32"), D: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        D[t] = function(A[t])

    a = np.abs(rng.standard_normal(32)).astype(F) + F(0.01)
    a[:4] = [0.5, 1.5, 2.5, 3.5]
    want = np.array([UNARY[name](float(v)) for v in a]).astype(F)
    found = run(kernel, a, zeros(32))["D"]
    assert np.all(np.abs(found - want) <= np.spacing(np.abs(want)) * (name not in ("trunc", "nearbyint", "round")))


def test_two_operands_tests_and_limits():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), D: T.Buffer((8, 3), "float32"), L: T.Buffer((8, 5), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        D[t, 0] = T.pow(T.fabs(A[t]), T.float32(2.0))
        D[t, 1] = T.fmod(A[t], T.float32(0.75))
        D[t, 2] = T.infinity("float32") if A[t] > 0 else T.max_value("float32")
        L[t, 0] = T.cast(T.isnan(A[t]), "int32")
        L[t, 1] = T.cast(T.isfinite(A[t]), "int32")
        L[t, 2] = T.max_value("int32")
        L[t, 3] = T.cast(T.min_value("int8"), "int32")
        L[t, 4] = T.Let(T.int32(3) * t, where={t: t + 1})

    a = rng.standard_normal(8).astype(F)
    a[0] = np.nan
    found = run(kernel, a, zeros((8, 3)), zeros((8, 5), "int32"))
    with np.errstate(invalid="ignore"):
        assert np.array_equal(found["D"][1:, 0], (np.abs(a[1:]).astype(float) ** 2).astype(F))
        assert np.array_equal(found["D"][1:, 1], np.fmod(a, F(0.75))[1:])
    assert found["L"][:, 0].tolist() == [1] + [0] * 7 and found["L"][:, 1].tolist() == [0] + [1] * 7
    assert (found["L"][:, 2] == 2**31 - 1).all() and (found["L"][:, 3] == -128).all()
    assert found["L"][:, 4].tolist() == [3 * (t + 1) for t in range(8)]


def test_vectors_are_shuffled_and_guarded():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        D[2 * t : 2 * t + 2] = T.Shuffle([A[2 * t : 2 * t + 2], T.Broadcast(t, 2)], [1, 2])

    a = np.arange(100, 116, dtype=np.int32)
    want = np.stack([a[1::2], np.arange(8)], axis=1).reshape(-1)
    assert np.array_equal(run(kernel, a, zeros(16, "int32"))["D"], want)


def test_predicated_loads_and_stores():
    """Built from nodes: a false predicate gives 0 and stores nothing."""
    t = ir.Var("t", ir.PrimType("int32"))
    a, d = ir.make_buffer("A", (4,), "int32"), ir.make_buffer("D", (8,), "int32")
    load = ir.BufferLoad(a, (t,), predicate=t < 4)
    body = ir.seq(
        [
            ir.ScopeIdDefStmt(ir.ScopeIdDef((t,), (ir.const(8),), "cta", "thread")),
            ir.BufferStore(d, load + 1, (t,), predicate=t < 6),
        ]
    )
    params = {ir.Var(b.name, b.data.ty): b for b in (a, d)}
    kernel = ir.PrimFunc(tuple(params), params, body)
    assert run(kernel, np.arange(4, dtype=np.int32), zeros(8, "int32"))["D"].tolist() == [1, 2, 3, 4, 1, 1, -1, -1]


def test_votes_and_reductions_of_a_cta():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "int32"), D: T.Buffer((64, 6), "int32")):
        T.device_entry()
        t = T.thread_id([64])
        x: T.int32 = A[t]
        scratch = T.alloc_shared((32,), "int32")
        D[t, 0] = T.cast(T.cuda.syncthreads_and(x > 0), "int32")
        D[t, 1] = T.cast(T.cuda.syncthreads_or(x > 7), "int32")
        D[t, 2] = T.cuda.cta_sum(x, 2, scratch.ptr_to([0]))
        D[t, 3] = T.ptx.any_sync(T.uint32(0xFFFFFFFF), x > 7)
        D[t, 4] = T.cast(T.cuda.reduce_add_sync_u32(T.uint32(0xFFFFFFFF), T.cast(x, "uint32")), "int32")
        D[t, 5] = T.cuda.thread_rank()

    a = rng.integers(1, 8, 64).astype(np.int32)
    a[40] = 8
    d = run(kernel, a, zeros((64, 6), "int32"))["D"]
    assert (d[:, 0] == 1).all() and (d[:, 1] == 1).all() and (d[:, 2] == a.sum()).all()
    assert np.array_equal(d[:, 3], np.arange(64) // 32) and np.array_equal(d[:, 5], np.arange(64))
    assert np.array_equal(d[:, 4], a.reshape(2, 32).sum(1)[np.arange(64) // 32])

    @T.prim_func
    def partial(D: T.Buffer((64,), "int32")):
        T.device_entry()
        t = T.thread_id([64])
        if t < 32:
            D[t] = T.cast(T.cuda.syncthreads_and(t > 0), "int32")

    with pytest.raises(InterpreterError, match="part of the CTA's threads only"):
        interpret(partial, zeros(64, "int32"))


def test_atomics_in_order_of_threads():
    @T.prim_func
    def kernel(D: T.Buffer((6,), "uint32"), E: T.Buffer((8,), "uint32"), G: T.Buffer((1,), "float32")):
        T.device_entry()
        t = T.thread_id([8])
        v = T.meta_var(T.cast(t + 1, "uint32"))
        E[t] = T.ptx.atom_scalar(D.ptr_to([0]), v, op="add", ptx_type="u32")
        T.ptx.red_scalar(D.ptr_to([1]), v, op="max", ptx_type="u32")
        T.ptx.red_scalar(D.ptr_to([2]), v, op="xor", ptx_type="u32")
        T.ptx.red_scalar(D.ptr_to([3]), T.uint32(4), op="inc", ptx_type="u32")
        T.evaluate(T.ptx.atom_scalar(D.ptr_to([4]), v, op="exch", ptx_type="u32"))
        T.evaluate(T.cuda.atomic_cas(D.ptr_to([5]), T.uint32(0), v))
        T.evaluate(T.cuda.atomic_add(G.ptr_to([0]), T.float32(0.5)))

    found = run(kernel, np.zeros(6, np.uint32), np.zeros(8, np.uint32), np.zeros(1, F))
    assert found["D"].tolist() == [36, 8, 1 ^ 2 ^ 3 ^ 4 ^ 5 ^ 6 ^ 7 ^ 8, 3, 8, 1]
    assert found["E"].tolist() == [0, 1, 3, 6, 10, 15, 21, 28] and found["G"][0] == 4


def test_pointers_move_and_are_checked():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "int32"), D: T.Buffer((32,), "int32"), k: T.int32):
        T.device_entry()
        t = T.thread_id([16])
        p = T.ptr_byte_offset(A.ptr_to([t]), k, "int32")
        D[t] = T.ptx.ld(p, "int32", "s32")
        view = T.decl_buffer((8,), "int32", data=T.ptr_byte_offset(D.ptr_to([16]), 16, "int32"))
        if t < 8:
            view[t] = t

    a = np.arange(32, dtype=np.int32)
    found = interpret(kernel, a, zeros(32, "int32"), 64)["D"]
    assert np.array_equal(found[:16], a[16:]) and found[16:].tolist() == [-1] * 4 + list(range(8)) + [-1] * 4
    with pytest.raises(OutOfBounds, match="outside of the 128 bytes of 'A'"):
        interpret(kernel, a, zeros(32, "int32"), 100)


def test_shared_addresses_as_numbers():
    @T.prim_func
    def kernel(D: T.Buffer((2, 32), "int32")):
        T.device_entry()
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([32])
        unused = T.alloc_shared((100,), "int32")
        s = T.alloc_shared((32,), "int32")
        s[t] = r * 100 + t
        unused[t] = 0
        T.cuda.cluster_sync()
        leader: T.uint32 = T.cuda.sm100_2sm_leader_smem_addr(s.ptr_to([t]))
        D[r, t] = T.ptx.ld(leader, "int32", "s32", space="shared::cluster")
        T.cuda.cluster_sync()

    assert run(kernel, zeros((2, 32), "int32"))["D"].tolist() == [list(range(32))] * 2


def test_cluster_arrive_and_wait():
    @T.prim_func
    def kernel(D: T.Buffer((2,), "int32")):
        T.device_entry()
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([32])
        s = T.alloc_shared((1,), "int32")
        if t == 0:
            s[0] = r + 5
        T.ptx.barrier.cluster.arrive()
        T.ptx.barrier.cluster.wait()
        if t == 0:
            D[r] = T.ptx.ld(T.ptx.mapa(s.ptr_to([0]), 1 - r), "int32", "s32", space="shared::cluster")

    assert run(kernel, zeros(2, "int32"))["D"].tolist() == [6, 5]


def test_polling_an_mbarrier_and_warp_barriers():
    @T.prim_func
    def kernel(D: T.Buffer((64,), "int32")):
        T.device_entry()
        w = T.warp_id([2])
        lane = T.lane_id([32])
        s = T.alloc_shared((32,), "int32")
        bar = T.alloc_shared((1,), "uint64")
        if w == 0:
            if lane == 0:
                T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        T.tvm_storage_sync("shared")
        if w == 0:
            if lane == 0:
                while T.ptx.mbarrier.try_wait_once(bar.ptr_to([0]), 0, 100) == 0:
                    T.evaluate(0)
            T.cuda.warp_sync()
            D[lane] = s[lane]
        else:
            s[lane] = lane * 3
            T.cuda.warp_sync()
            D[32 + lane] = s[31 - lane]
            if lane == 0:
                T.ptx.mbarrier.arrive(bar.ptr_to([0]))

    found = run(kernel, zeros(64, "int32"))["D"]
    assert found.tolist() == [3 * k for k in range(32)] + [3 * (31 - k) for k in range(32)]


def test_tensor_memory_allocation():
    def make(first, second, free):
        @T.prim_func
        def kernel(D: T.Buffer((2,), "uint32")):
            T.device_entry()
            t = T.thread_id([32])
            addr = T.alloc_shared((2,), "uint32")
            T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=first)
            T.ptx.tcgen05.alloc(addr.ptr_to([1]), n_cols=second)
            if t < 2:
                D[t] = addr[t]
            T.ptx.tcgen05.dealloc(addr[0], n_cols=free)

        return kernel

    assert run(make(64, 128, 64), np.zeros(2, np.uint32))["D"].tolist() == [0, 64]
    with pytest.raises(InterpreterError, match="100 columns: a power of two"):
        interpret(make(64, 100, 64), np.zeros(2, np.uint32))
    with pytest.raises(InterpreterError, match="512 columns are wanted, but no such range is free"):
        interpret(make(64, 512, 64), np.zeros(2, np.uint32))
    with pytest.raises(InterpreterError, match="dealloc of columns 0 to 255, which are not all allocated"):
        interpret(make(64, 64, 256), np.zeros(2, np.uint32))


def test_too_many_arrivals():
    @T.prim_func
    def kernel(D: T.Buffer((1,), "int32")):
        T.device_entry()
        T.thread_id([32])
        bar = T.alloc_shared((1,), "uint64")
        T.ptx.mbarrier.init(bar.ptr_to([0]), 3)
        T.ptx.mbarrier.arrive(bar.ptr_to([0]), count=4)
        D[0] = 1

    with pytest.raises(InterpreterError, match="gets 4 arrivals but only 3 are pending"):
        interpret(kernel, zeros(1, "int32"))


def test_undefined_bytes_through_a_pointer():
    @T.prim_func
    def kernel(D: T.Buffer((1,), "int32")):
        T.device_entry()
        s = T.alloc_shared((4,), "int32")
        D[0] = T.ptx.ld(s.ptr_to([2]), "int32", "s32", space="shared")

    with pytest.raises(UndefinedRead, match="byte 8 of 's' was never written, but is read by thread 0"):
        interpret(kernel, zeros(1, "int32"))


def test_registers_of_other_threads_cant_be_reached():
    def make(shift):
        @T.prim_func
        def kernel(D: T.Buffer((128,), "float32")):
            T.device_entry()
            t = T.thread_id([128])
            regs = T.alloc_local((2,), "float32")
            rows = regs.view(128, 2, layout=TileLayout(S[(128, 2) : (1 @ tid_in_wg, 1)]))
            rows[t, 1] = T.cast(t, "float32")
            D[t] = rows[(t + shift) % 128, 1]

        return kernel

    assert np.array_equal(run(make(0), zeros(128))["D"], np.arange(128))
    with pytest.raises(OutOfBounds, match=r"'rows\[1, 1\]' is in another thread's registers, accessed by thread 0"):
        interpret(make(1), zeros(128))


def test_bulk_copies_to_another_cta_with_reduction_and_gather():
    @T.prim_func
    def kernel(A: T.Buffer((8, 16), "float32"), D: T.Buffer((2, 4, 16), "float32"), E: T.Buffer((4, 16), "float32")):
        T.device_entry()
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([32])
        s = T.alloc_shared((4, 16), "float32")
        u = T.alloc_shared((4, 16), "float32")
        bar = T.alloc_shared((2,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.mbarrier.init(bar.ptr_to([1]), 1)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 256)
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([1]), 256)
        T.cuda.cluster_sync()
        if t == 0:
            Tx.copy_async(s[:, :], A[0:1, :], dispatch="tma_explicit", mbar=bar.ptr_to([0]), gather4=[6, 1, r, 3])
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        if t == 0:
            Tx.copy_async(u[:, :], s[:, :], remote_cta_id=1 - r, mbar=bar.ptr_to([1]))
            Tx.copy_async(E[:, :], s[:, :], dispatch="tma_explicit", use_tma_reduce="add")
        T.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)
        Tx.cta.copy(D[r, :, :], u[:, :])

    a, e = (rng.integers(-9, 10, shape).astype(F) for shape in ((8, 16), (4, 16)))
    found = run(kernel, a, zeros((2, 4, 16)), e)
    rows = [a[[6, 1, r, 3]] for r in (0, 1)]
    assert np.array_equal(found["D"], np.stack(rows[::-1]))
    assert np.array_equal(found["E"], e + rows[0] + rows[1])
