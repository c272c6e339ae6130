"""What has no meaning is refused with the reason, at the statement."""

import numpy as np
import pytest

from tirx_eq import ir
from tirx_eq.errors import IRError, TirxError
from tirx_eq.interp import InterpreterError, OutOfBounds, generate_inputs, interpret
from tirx_eq.layout import S, TCol, TileLayout, TLane, bx, laneid
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

from .kernels import run, zeros


def refused(func, *arrays):
    """The message with which ``func`` is refused."""
    with pytest.raises(TirxError) as e:
        interpret(func, *arrays)
    return e.value.message


def ids(*definitions):
    """A kernel that only declares scope ids: (parent, child, extents)."""
    made = [
        ir.ScopeIdDefStmt(ir.ScopeIdDef(tuple(ir.Var(f"v{k}{i}", ir.PrimType("int32")) for i in range(len(extents))),
                                        tuple(ir.const(e) for e in extents), parent, child))
        for k, (parent, child, extents) in enumerate(definitions)
    ]  # fmt: skip
    return ir.PrimFunc((), {}, ir.seq(made))


@pytest.mark.parametrize(
    "definitions,message",
    [
        ([("kernel", "cta", [2, 2, 2, 2])], "at most 3 dimensions"),
        ([("kernel", "cta", [3]), ("cluster", "cta", [2])], "can't be cut into clusters"),
        ([("kernel", "cta", [4]), ("cluster", "cta", [2]), ("kernel", "cluster", [3])], "are not 4 CTAs"),
        ([("warp", "thread", [16])], "a warp hasn't 16 threads"),
        ([("cta", "thread", [2048])], "2048 threads in a CTA: at most 1024"),
        ([("cta", "thread", [32]), ("cta", "thread", [64])], r"declared with \(32,\) and \(64,\)"),
    ],
)
def test_launches(definitions, message):
    with pytest.raises(InterpreterError, match=message):
        interpret(ids(*definitions))


def test_jumps_outside_of_loops_and_other_nodes():
    with pytest.raises(InterpreterError, match="a break outside of a loop"):
        interpret(ir.PrimFunc((), {}, ir.Break()))
    loop = ir.For(ir.Var("i"), ir.const(0), ir.const(4), "thread_binding", ir.Evaluate(ir.const(0)))
    with pytest.raises(InterpreterError, match="a loop bound to threads"):
        interpret(ir.PrimFunc((), {}, loop))
    with pytest.raises(InterpreterError, match="thread_extent attributes"):
        interpret(ir.PrimFunc((), {}, ir.AttrStmt(0, "thread_extent", ir.const(4), ir.Evaluate(ir.const(0)))))
    b = ir.make_buffer("B", (4,), "int32")
    store = ir.BufferStore(b, ir.Var("x"), (ir.const(0),))
    with pytest.raises(InterpreterError, match="the variable 'x' has no value here"):
        interpret(ir.PrimFunc((), {}, ir.seq([ir.AllocBuffer(b), store])))
    with pytest.raises(InterpreterError, match="'B' is used, but it has no storage"):
        interpret(ir.PrimFunc((), {}, ir.BufferStore(b, ir.const(1), (ir.const(0),))))
    with pytest.raises(InterpreterError, match="views storage that isn't allocated"):
        interpret(ir.PrimFunc((), {}, ir.DeclBuffer(b)))


def test_layouts_without_a_place():
    @T.prim_func
    def in_memory(D: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        s = T.alloc_shared((32,), "float32", layout=TileLayout(S[32 : 1 @ laneid]))
        s[t] = T.float32(1)
        D[t] = T.float32(0)

    assert "isn't in registers, but its layout uses axis laneid" in refused(in_memory, zeros(32))

    @T.prim_func
    def across_ctas(D: T.Buffer((32,), "float32")):
        T.device_entry()
        T.cta_id([2])
        T.thread_id([32])
        x = T.alloc_local((1,), "float32")
        tile = x.view(2, layout=TileLayout(S[2 : 1 @ bx]))
        Tx.cta.fill(tile[:], T.float32(0))
        D[0] = x[0]

    assert "axis bx has no meaning in registers" in refused(across_ctas, zeros(32))

    @T.prim_func
    def parameter(A: T.Buffer((32,), "float32", layout=TileLayout(S[32 : 1 @ laneid]))):
        T.device_entry()
        A[0] = T.float32(1)

    assert "must give each element one address in memory" in refused(parameter, zeros(32))


def test_tensor_memory_addresses():
    def make(lanes, first, layout_lanes=0):
        layout = TileLayout(S[(128, 32) : (1 @ TLane, 1 @ TCol)] + layout_lanes @ TLane)

        @T.prim_func
        def kernel(A: T.Buffer((128, 32), "float32")):
            T.device_entry()
            T.thread_id([128])
            addr = T.alloc_shared((1,), "uint32")
            if T.cuda.thread_rank() < 32:
                T.ptx.tcgen05.alloc(addr.ptr_to([0]), n_cols=512)
            T.cuda.cta_sync()
            tmem = T.decl_buffer((128, 32), "float32", scope="tmem", allocated_addr=addr[0] + first, layout=layout)
            Tx.cta.copy(tmem[:, :], A[:, :])
            Tx.cta.copy(A[:, :], tmem[:, :])

        return kernel

    assert np.array_equal(run(make(0, 480), zeros((128, 32)))["A"], zeros((128, 32)))
    assert "reaches lane 128; there are 128" in refused(make(0, 0, 1), zeros((128, 32)))
    assert "reaches column 512; there are 512" in refused(make(0, 481), zeros((128, 32)))

    @T.prim_func
    def single(D: T.Buffer((1,), "float32")):
        T.device_entry()
        lanes = TileLayout(S[128 : 1 @ TLane])
        tmem = T.decl_buffer((128, 1), "float32", scope="tmem", allocated_addr=0, layout=lanes)
        D[0] = tmem[0, 0]

    assert "an element of tensor memory buffer 'tmem' can't be accessed by itself" in refused(single, zeros(1))


def test_operands_that_do_not_fit():
    @T.prim_func
    def kernel(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float16"), D: T.Buffer((8,), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.copy(A[:, :], B[:, :])
        D[0] = T.float32(0)

    found = refused(kernel, zeros((8, 4)), zeros((8, 4), "float16"), zeros(8))
    assert "copy: 'B' has float16, but 'A' float32" in found

    @T.prim_func
    def reduced(A: T.Buffer((8, 4), "float32"), D: T.Buffer((4,), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.sum(D[:], A[:, :], axes=1)

    assert "sum: the result has 8×1, but the destination 4" in refused(reduced, zeros((8, 4)), zeros(4))

    @T.prim_func
    def axis(A: T.Buffer((8, 4), "float32"), D: T.Buffer((4,), "float32")):
        T.device_entry()
        T.thread_id([32])
        Tx.cta.sum(D[:], A[:, :], axes=2)

    assert "there is no axis 2 in 2 dimensions" in refused(axis, zeros((8, 4)), zeros(4))


def test_storage_smaller_than_a_view_of_it():
    @T.prim_func
    def kernel(D: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([32])
        s = T.alloc_shared((16,), "float32")
        v = T.decl_buffer((32,), "float32", data=s.data, scope="shared")
        v[t] = D[t]

    with pytest.raises(OutOfBounds, match=r"'v\[16\]' is outside of the 64 bytes of its storage, .* by thread 16"):
        interpret(kernel, zeros(32))


def test_input_kinds():
    @T.prim_func
    def kernel(A: T.Buffer((64,), "bool"), E: T.Buffer((64,), "float8_e8m0fnu"), U: T.Buffer((64,), "uint8")):
        T.device_entry()
        A[0] = T.bool(True)

    a, e, u = generate_inputs(kernel, 3)
    assert a.dtype == bool and set(e.astype(float)) <= {0.5, 1.0, 2.0, 4.0} and u.max() <= 8
    with pytest.raises(InterpreterError, match="'integers' or 'random', not 'zeros'"):
        generate_inputs(kernel, 0, "zeros")


def test_strided_buffers_and_symbolic_regions():
    @T.prim_func
    def kernel(a: T.handle, D: T.Buffer((64,), "int32")):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "int32", strides=[8, 2], layout=None)
        T.device_entry()
        t = T.thread_id([32])
        for i in T.serial(n):
            if t < 4:
                D[i * 4 + t] = A[i, t]

    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    found = interpret(kernel, a, zeros(64, "int32"))
    assert np.array_equal(found["D"][:12], a.reshape(-1)) and np.array_equal(found["A"], a)


def test_errors_know_their_place():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        A[t] = A[t] // (t - 3)

    with pytest.raises(InterpreterError, match="an integer division by zero") as e:
        interpret(kernel, zeros(8, "int32"))
    assert e.value.span.file.endswith("test_refusals.py") and "A[t] // (t - 3)" in str(e.value)
    assert not isinstance(e.value, IRError)
