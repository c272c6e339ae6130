"""Tile primitives against numpy, in memory and in registers of several threads."""

import ml_dtypes
import numpy as np
import pytest

from tirx_eq import ir
from tirx_eq.interp import InterpreterError, UndefinedRead, interpret
from tirx_eq.interp.run import interpret_recorded
from tirx_eq.layout import R, S, TCol, TileLayout, TLane, laneid, mma_shared_layout, tid_in_wg, warpid
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

from .kernels import run, zeros

rng = np.random.default_rng(0)


def normal(*shape, dtype="float32"):
    return rng.standard_normal(shape).astype(np.float32).astype(dtype)


def elementwise(name, inputs, dtype="float32", scalar=None, shape=(8, 16)):
    """A kernel that applies a primitive to whole buffers in CTA scope."""
    op = getattr(Tx.cta, name)
    if inputs == 1:

        @T.prim_func
        def kernel(A: T.Buffer(shape, dtype), D: T.Buffer(shape, dtype)):
            T.device_entry()
            T.thread_id([32])
            op(D[:, :], A[:, :])

    elif scalar is None:

        @T.prim_func
        def kernel(A: T.Buffer(shape, dtype), B: T.Buffer(shape, dtype), D: T.Buffer(shape, dtype)):
            T.device_entry()
            T.thread_id([32])
            op(D[:, :], A[:, :], B[:, :])

    else:

        @T.prim_func
        def kernel(A: T.Buffer(shape, dtype), D: T.Buffer(shape, dtype)):
            T.device_entry()
            T.thread_id([32])
            op(D[:, :], A[:, :], T.float32(scalar))

    return kernel


F = np.float32
UNARY = {
    "copy": lambda x: x, "sqrt": np.sqrt, "exp": lambda x: np.exp(x.astype(float)).astype(F),
    "exp2": lambda x: np.exp2(x.astype(float)).astype(F), "log2": lambda x: np.log2(x.astype(float)).astype(F),
    "reciprocal": lambda x: F(1) / x, "silu": lambda x: (x / (1 + np.exp(-x.astype(float)))).astype(F),
    "zero": lambda x: np.zeros_like(x), "cast": lambda x: x, "permute_layout": lambda x: x, "copy_async": lambda x: x,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "fdiv": np.divide, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    a = np.abs(normal(8, 16)) + F(0.1)
    assert np.array_equal(run(elementwise(name, 1), a, zeros((8, 16)))["D"], UNARY[name](a))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, dtype):
    a, b = normal(8, 16, dtype=dtype), normal(8, 16, dtype=dtype)
    assert np.array_equal(run(elementwise(name, 2, dtype), a, b, zeros((8, 16), dtype))["D"], BINARY[name](a, b))


@pytest.mark.parametrize("name", BINARY)
def test_binary_with_a_number(name):
    a = normal(8, 16)
    assert np.array_equal(run(elementwise(name, 2, scalar=1.5), a, zeros((8, 16)))["D"], BINARY[name](a, F(1.5)))


def test_bias_and_scale():
    @T.prim_func
    def kernel(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), D: T.Buffer((8, 16), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.exp2(D[:, :], A[:, :], B[:, :], T.float32(0.5))

    a, b = normal(8, 16), normal(8, 16)
    want = np.exp2((a * F(0.5) + b).astype(float)).astype(F)
    assert np.array_equal(run(kernel, a, b, zeros((8, 16)))["D"], want)


def test_fma_rounds_once():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), D: T.Buffer((64,), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.fma(D[:], A[:], B[:], T.float32(-1.0))

    a = (1 + rng.integers(0, 2**12, 64) * 2.0**-12).astype(F)
    want = (a.astype(float) * a.astype(float) - 1).astype(F)
    found = run(kernel, a, a, zeros(64))["D"]
    assert np.array_equal(found, want) and not np.array_equal(found, a * a - F(1))


def test_fill_memset_select_and_chain():
    @T.prim_func
    def kernel(A: T.Buffer((8, 16), "float32"), B: T.Buffer((8, 16), "float32"), D: T.Buffer((4, 8, 16), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.fill(D[0, :, :], T.float32(2.5))
        Tx.cta.memset(D[1, :, :], T.float32(0.0))
        Tx.cta.select(D[2, :, 0:8], A[:, 0:8], T.float32(-1.0), lambda k, i, j: i > j)
        Tx.cta.select(D[2, :, 8:16], T.float32(0.0), B[:, 8:16], lambda k, i, j: k == 0 and i > j)
        Tx.cta.binary_chain(D[3, :, :], A[:, :], B[:, :], T.float32(3.0), "sub", "mul")

    a, b = normal(8, 16), normal(8, 16)
    d = run(kernel, a, b, zeros((4, 8, 16)))["D"]
    i, j = np.indices((8, 16))
    assert (d[0] == 2.5).all() and (d[1] == 0).all()
    assert np.array_equal(d[2][:, :8], np.where(i > j, a, -1)[:, :8])
    assert np.array_equal(d[2][:, 8:], np.where(i > j - 8, 0, b)[:, 8:])  # coordinates count from the region's start
    assert np.array_equal(d[3], (b - a) * F(3))


def test_reversed_chain():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        T.device_entry()
        Tx.binary_chain(D[:], A[:], B[:], T.float32(3.0), "mul", "sub", reverse1=True)

    a, b = normal(8), normal(8)
    assert np.array_equal(run(kernel, a, b, zeros(8))["D"], F(3) - b * a)


@pytest.mark.parametrize("name,op", [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_reductions_over_axes(name, op):
    reduce = getattr(Tx.cta, name)

    @T.prim_func
    def kernel(A: T.Buffer((4, 6, 8), "float32"), D: T.Buffer((4, 6), "float32"), E: T.Buffer((6,), "float32")):
        T.device_entry()
        T.thread_id([32])
        reduce(D[:, :], A[:, :, :], axes=-1)
        reduce(E[:], A[:, :, :], axes=(0, 2), accum=True)

    a = rng.integers(-9, 10, (4, 6, 8)).astype(F)
    e = rng.integers(-9, 10, 6).astype(F)
    found = run(kernel, a, zeros((4, 6)), e)
    both = {"sum": np.add, "max": np.maximum, "min": np.minimum}[name]
    assert np.array_equal(found["D"], op(a, axis=2))
    assert np.array_equal(found["E"], both(e, op(a, axis=(0, 2))))


def test_fused_reductions():
    @T.prim_func
    def kernel(
        A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32"), P: T.Buffer((2, 4, 8), "float32"),
        D: T.Buffer((2, 4), "float32"),
    ):  # fmt: skip
        T.device_entry()
        T.thread_id([32])
        Tx.cta.binary_reduce(P[0, :, :], D[0, :], A[:, :], B[:, :], "mul", "sum", -1)
        Tx.cta.unary_reduce(P[1, :, :], D[1, :], A[:, :], "exp2", "max", reduce_axes=-1)

    a, b = (rng.integers(-3, 4, (4, 8)).astype(F) for _ in range(2))
    found = run(kernel, a, b, zeros((2, 4, 8)), zeros((2, 4)))
    assert np.array_equal(found["P"], np.stack([a * b, np.exp2(a)]))
    assert np.array_equal(found["D"], np.stack([(a * b).sum(1), np.exp2(a).max(1)]))


def test_negated_reduction():
    """Built from nodes, with the operands that the registered signature names."""
    a, d = ir.make_buffer("A", (4, 8), "float32"), ir.make_buffer("D", (4,), "float32")
    op = ir.Op.get("tirx.tile.reduce_negate")
    given = {"axes": (-1,), "reduce_axes": (-1,), "accum": False, "reduce_op": ir.Op.get("tirx.tile.sum")}
    regions = [d.full_region(), a.full_region()]
    args = (*regions, *(given[name] for name in op.tile.operands[2:]))
    params = [ir.Var(b.name, b.data.ty) for b in (a, d)]
    kernel = ir.PrimFunc(tuple(params), dict(zip(params, (a, d))), ir.TilePrimitiveCall(op, args))
    x = rng.integers(-9, 10, (4, 8)).astype(F)
    assert np.array_equal(run(kernel, x, zeros(4))["D"], -x.sum(1))


def test_compose_op_runs_its_parts_in_order():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float32"), D: T.Buffer((8,), "float32")):
        T.device_entry()
        with Tx.compose_op():
            Tx.add(D[:], A[:], T.float32(1.0))
            Tx.mul(D[:], D[:], T.float32(2.0))

    a = normal(8)
    assert np.array_equal(run(kernel, a, zeros(8))["D"], (a + F(1)) * F(2))


def test_operands_are_spread_as_numpy_does():
    @T.prim_func
    def kernel(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 1), "float32"), D: T.Buffer((4, 8), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.sub(D[:, :], A[:, :], B[:, :])

    a, b = normal(4, 8), normal(4, 1)
    assert np.array_equal(run(kernel, a, b, zeros((4, 8)))["D"], a - b)


def test_casts_round_to_nearest_even_and_saturate():
    @T.prim_func
    def kernel(
        A: T.Buffer((64,), "float32"), H: T.Buffer((64,), "float16"), E: T.Buffer((64,), "float8_e4m3fn"),
        I: T.Buffer((64,), "int32"),
    ):  # fmt: skip
        T.device_entry()
        Tx.cast(H[:], A[:])
        Tx.cast(E[:], A[:])
        Tx.cast(I[:], A[:])

    a = normal(64) * F(300)
    found = run(kernel, a, zeros(64, "float16"), zeros(64, "float8_e4m3fn"), zeros(64, "int32"))
    assert np.array_equal(found["H"], a.astype(np.float16))
    want = np.clip(a, -448, 448).astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(found["E"].view(np.uint8), want.view(np.uint8))
    assert np.array_equal(found["I"], np.trunc(a).astype(np.int32))


def test_a_swizzled_layout_moves_bytes_not_values():
    layout = mma_shared_layout("float16", 3, (64, 64))

    @T.prim_func
    def kernel(A: T.Buffer((64, 64), "float16"), D: T.Buffer((64, 64), "float16"), E: T.Buffer((4096,), "float16")):
        T.device_entry()
        t = T.thread_id([64])
        s = T.alloc_shared((64, 64), "float16", layout=layout)
        flat = T.decl_buffer((4096,), "float16", data=s.data, scope="shared")
        Tx.cta.copy(s[:, :], A[:, :])
        T.cuda.cta_sync()
        Tx.cta.copy(D[:, :], s[:, :])
        Tx.copy(E[t * 64 : t * 64 + 64], flat[t * 64 : t * 64 + 64])

    a = np.arange(4096).astype(np.float16).reshape(64, 64)
    found = run(kernel, a, zeros((64, 64), "float16"), zeros(4096, "float16"))
    assert np.array_equal(found["D"], a)
    row, column = np.indices((64, 64))
    bits = np.empty(4096, np.float16)
    bits[row * 64 + (column ^ (row % 8 * 8))] = a  # 16-byte cells are XORed with the row within 8
    assert np.array_equal(found["E"], bits)


def test_rows_in_the_registers_of_a_warpgroup():
    """Through TMEM: 32-bit cells of 128 lanes, 16-bit elements two to a cell."""

    @T.prim_func
    def kernel(A: T.Buffer((128, 32), "float32"), D: T.Buffer((128, 32), "float32"), H: T.Buffer((128, 64), "float16")):
        T.device_entry()
        t = T.thread_id([128])
        w = T.warp_id([4])
        addr = T.alloc_shared((1,), "uint32")
        if w == 0:
            T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=64, cta_group=1)
        T.cuda.cta_sync()
        tmem = T.decl_buffer(
            (128, 32), "float32", scope="tmem", allocated_addr=addr[0] + 32,
            layout=TileLayout(S[(128, 32) : (1 @ TLane, 1 @ TCol)]),
        )  # fmt: skip
        half = T.decl_buffer(
            (128, 64), "float16", scope="tmem", allocated_addr=addr[0] + 32,
            layout=TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)]),
        )  # fmt: skip
        regs = T.alloc_local((32,), "float32")
        rows = regs.view(128, 32, layout=TileLayout(S[(128, 32) : (1 @ tid_in_wg, 1)]))
        Tx.copy(regs[:], A[t, :])
        Tx.wg.copy_async(tmem[:, :], rows[:, :])
        T.ptx.tcgen05.wait.st()
        back = T.alloc_local((32,), "float32")
        backs = back.view(128, 32, layout=TileLayout(S[(128, 32) : (1 @ tid_in_wg, 1)]))
        Tx.wg.copy_async(backs[:, :], tmem[:, :])
        Tx.wg.add(back[:], back[:], T.float32(1.0))
        Tx.copy(D[t, :], back[:])
        halves = T.alloc_local((64,), "float16")
        half_rows = halves.view(128, 64, layout=TileLayout(S[(128, 64) : (1 @ tid_in_wg, 1)]))
        Tx.wg.copy_async(half_rows[:, :], half[:, :])
        Tx.copy(H[t, :], halves[:])
        T.cuda.cta_sync()
        if w == 0:
            T.ptx.tcgen05.dealloc(addr[0], n_cols=64, cta_group=1)

    a = normal(128, 32)
    found = run(kernel, a, zeros((128, 32)), zeros((128, 64), "float16"))
    assert np.array_equal(found["D"], a + F(1))
    assert np.array_equal(found["H"].view(np.uint16), a.view(np.uint16))


def test_tensor_memory_must_be_allocated_and_written():
    def make(columns):
        @T.prim_func
        def kernel(D: T.Buffer((128, 32), "float32")):
            T.device_entry()
            t = T.thread_id([128])
            w = T.warp_id([4])
            addr = T.alloc_shared((1,), "uint32")
            if w == 0:
                T.ptx.tcgen05.alloc(T.address_of(addr[0]), n_cols=32, cta_group=1)
            T.cuda.cta_sync()
            layout = TileLayout(S[(128, 32) : (1 @ TLane, 1 @ TCol)])
            tmem = T.decl_buffer((128, 32), "float32", scope="tmem", allocated_addr=addr[0] + columns, layout=layout)
            regs = T.alloc_local((32,), "float32")
            rows = regs.view(128, 32, layout=TileLayout(S[(128, 32) : (1 @ tid_in_wg, 1)]))
            Tx.wg.copy_async(rows[:, :], tmem[:, :])
            Tx.copy(D[t, :], regs[:])

        return kernel

    with pytest.raises(InterpreterError, match="column 32 of tensor memory, used by 'tmem', is not allocated"):
        interpret(make(1), zeros((128, 32)))
    with pytest.raises(UndefinedRead, match=r"'tmem\[0, 0\]' was never written"):
        interpret(make(0), zeros((128, 32)))


def test_registers_shared_out_over_warps_and_lanes():
    """A cta-wide tile in registers: element (i, j) with warp i // 8, lane 4 * (i % 8) + j // 2 and register j % 2."""

    @T.prim_func
    def kernel(A: T.Buffer((16, 8), "float32"), D: T.Buffer((16, 8), "float32"), E: T.Buffer((64, 2), "float32")):
        T.device_entry()
        t = T.thread_id([64])
        regs = T.alloc_local((2,), "float32")
        tile = regs.view(16, 8, layout=TileLayout(S[(2, 8, 4, 2) : (1 @ warpid, 4 @ laneid, 1 @ laneid, 1)]))
        Tx.cta.copy(tile[:, :], A[:, :])
        Tx.cta.mul(tile[:, :], tile[:, :], T.float32(2.0))
        Tx.cta.copy(D[:, :], tile[:, :])
        Tx.copy(E[t, :], regs[:])

    a = normal(16, 8)
    found = run(kernel, a, zeros((16, 8)), zeros((64, 2)))
    assert np.array_equal(found["D"], a * 2) and np.array_equal(found["E"], a.reshape(64, 2) * 2)


def test_a_reduction_across_lanes_leaves_copies():
    shards = TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])
    sums = TileLayout(S[8 : 4 @ laneid] + R[4 : 1 @ laneid])

    @T.prim_func
    def kernel(A: T.Buffer((8, 8), "float32"), D: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        regs = T.alloc_local((2,), "float32")
        tile = regs.view(8, 8, layout=shards)
        total = T.alloc_local((1,), "float32")
        rows = total.view(8, layout=sums)
        Tx.warp.copy(tile[:, :], A[:, :])
        Tx.warp.sum(rows[:], tile[:, :], axes=-1)
        D[t] = total[0]

    a = rng.integers(-9, 10, (8, 8)).astype(F)
    assert np.array_equal(run(kernel, a, zeros(32))["D"], np.repeat(a.sum(1), 4))


def test_copies_in_registers_must_agree():
    @T.prim_func
    def kernel(D: T.Buffer((1,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        x = T.alloc_local((1,), "float32")
        x[0] = T.cast(t, "float32")
        Tx.warp.copy(D[:], x[:])

    with pytest.raises(InterpreterError, match=r"copies of 'x\[0\]' differ"):
        interpret(kernel, zeros(1))


def test_registers_of_threads_that_take_no_part():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        x = T.alloc_local((1,), "float32")
        tile = x.view(32, layout=TileLayout(S[32 : 1 @ laneid]))
        if t < 16:
            Tx.warp.copy(tile[:], A[:])

    with pytest.raises(InterpreterError, match="in the registers of thread 16, which takes no part"):
        interpret(kernel, zeros(32))


def test_regions_must_be_uniform():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32"), D: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        Tx.warp.copy(D[t : t + 1], A[0:1])

    with pytest.raises(InterpreterError, match="start of the region of 'D' is not the same for all threads"):
        interpret(kernel, zeros(32), zeros(32))


def test_bulk_copies_count_bytes_and_fill_what_is_outside():
    @T.prim_func
    def kernel(A: T.Buffer((20, 32), "float32"), D: T.Buffer((16, 32), "float32")):
        T.device_entry()
        c = T.cta_id([1])
        t = T.thread_id([32])
        s = T.alloc_shared((16, 32), "float32")
        bar = T.alloc_shared((1,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
        T.cuda.cta_sync()
        if t == 0:
            rows = T.meta_var(A[c * 16 + 8 : c * 16 + 24, :])
            Tx.copy_async(s[:, :], rows, dispatch="tma_explicit", mbar=bar.ptr_to([0]), oob="zero")
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 16 * 32 * 4)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        Tx.cta.copy(D[:, :], s[:, :])

    a = normal(20, 32)
    want = np.concatenate([a[8:], np.zeros((4, 32), F)])
    assert np.array_equal(run(kernel, a, zeros((16, 32)))["D"], want)


def test_multicast_writes_every_cta_of_the_mask():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32"), D: T.Buffer((2, 32), "float32")):
        T.device_entry()
        r = T.cta_id_in_cluster([2])
        t = T.thread_id([32])
        s = T.alloc_shared((32,), "float32")
        bar = T.alloc_shared((1,), "uint64")
        if t == 0:
            T.ptx.mbarrier.init(bar.ptr_to([0]), 1)
            T.ptx.fence.mbarrier_init()
            T.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128)
        T.cuda.cluster_sync()
        if r == 0:
            if t == 0:
                Tx.copy_async(s[:], A[:], dispatch="tma_explicit", mbar=bar.ptr_to([0]), cta_mask=3)
        T.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
        D[r, t] = s[t]

    a = normal(32)
    assert np.array_equal(run(kernel, a, zeros((2, 32)))["D"], np.stack([a, a]))


def test_what_is_noted_for_comparisons():
    func = elementwise("exp", 1)
    _, record = interpret_recorded(func, normal(8, 16), zeros((8, 16)))
    assert record.approximate == {"exp"}
    _, record = interpret_recorded(elementwise("sqrt", 1), np.abs(normal(8, 16)), zeros((8, 16)))
    assert record.approximate == set() and record.terms == 0
