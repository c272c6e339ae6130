"""Statements and expressions of single threads."""

import numpy as np
import pytest

from tirx_eq.interp import InterpreterError, OutOfBounds, UndefinedRead, WriteConflict, interpret
from tirx_eq.layout import S, TileLayout
from tirx_eq.script import tirx as T

from .kernels import run, zeros

ints = np.arange(-8, 8, dtype=np.int32)


def test_for_loops_with_step_break_and_continue():
    @T.prim_func
    def kernel(A: T.Buffer((4, 16), "int32"), B: T.Buffer((4,), "int32")):
        T.device_entry()
        t = T.thread_id([4])
        total: T.int32 = 0
        for i in T.serial(2, 16, step=3):
            if A[t, i] < 0:
                continue
            if i > 12:
                break
            total = total + A[t, i]
        B[t] = total

    a = np.random.default_rng(0).integers(-3, 9, (4, 16)).astype(np.int32)
    want = [sum(int(r[i]) for i in range(2, 16, 3) if r[i] >= 0 and i <= 12) for r in a]
    assert run(kernel, a, zeros(4, "int32"))["B"].tolist() == want


def test_loops_of_different_length_per_thread():
    @T.prim_func
    def kernel(N: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        total: T.int32 = 0
        for i in T.serial(N[t]):
            for j in T.unroll(i):
                total = total + j
        B[t] = total

    n = np.arange(8, dtype=np.int32)
    assert run(kernel, n, zeros(8, "int32"))["B"].tolist() == [sum(sum(range(i)) for i in range(k)) for k in n]


def test_while_and_nested_if():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        T.device_entry()
        t = T.thread_id([16])
        x: T.int32 = A[t]
        steps: T.int32 = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            steps = steps + 1
        B[t] = steps

    def collatz(x):
        n = 0
        while x != 1:
            x, n = (x // 2 if x % 2 == 0 else 3 * x + 1), n + 1
        return n

    a = np.arange(1, 17, dtype=np.int32)
    assert run(kernel, a, zeros(16, "int32"))["B"].tolist() == [collatz(int(v)) for v in a]


def test_integer_expressions():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "int32"), B: T.Buffer((16, 12), "int32")):
        T.device_entry()
        t = T.thread_id([16])
        x = A[t]
        B[t, 0] = x // 3
        B[t, 1] = x % 3
        B[t, 2] = T.truncdiv(x, 3)
        B[t, 3] = T.truncmod(x, 3)
        B[t, 4] = T.min(x, 2) + T.max(x, -2)
        B[t, 5] = (x & 5) | (x ^ 9)
        B[t, 6] = x << 2
        B[t, 7] = x >> 1
        B[t, 8] = T.Select(T.And(x > -3, T.Not(x == 2)), x, -x)
        B[t, 9] = T.if_then_else(T.Or(x < -4, x >= 5), 1, 0)
        B[t, 10] = T.cast(T.cast(x, "uint8"), "int32")
        B[t, 11] = ~x

    x = ints.astype(np.int64)
    trunc = np.trunc(x / 3).astype(int)
    want = np.stack(
        [
            x // 3, x % 3, trunc, x - 3 * trunc, np.minimum(x, 2) + np.maximum(x, -2), (x & 5) | (x ^ 9), x << 2,
            x >> 1, np.where((x > -3) & (x != 2), x, -x), (x < -4) | (x >= 5), x & 255, ~x,
        ], axis=1,
    )  # fmt: skip
    assert np.array_equal(run(kernel, ints, zeros((16, 12), "int32"))["B"], want)


def test_float_functions_round_once():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((16, 6), "float32"), C: T.Buffer((16,), "float16")):
        T.device_entry()
        t = T.thread_id([16])
        x = A[t]
        B[t, 0] = x * T.float32(0.1) + x
        B[t, 1] = T.exp2(x)
        B[t, 2] = T.sqrt(T.fabs(x))
        B[t, 3] = T.fma(x, x, T.float32(1.0))
        B[t, 4] = x / T.float32(3.0)
        B[t, 5] = T.floor(x) - T.ceil(x)
        C[t] = T.cast(x, "float16") * T.float16(3.0)

    a = np.random.default_rng(1).standard_normal(16).astype(np.float32)
    found = run(kernel, a, zeros((16, 6)), zeros(16, "float16"))
    f, wide = np.float32, a.astype(np.float64)
    assert np.array_equal(found["B"][:, 0], a * f(0.1) + a)
    assert np.array_equal(found["B"][:, 1], np.exp2(wide).astype(f))
    assert np.array_equal(found["B"][:, 2], np.sqrt(np.abs(a)))
    assert np.array_equal(found["B"][:, 3], (wide * wide + 1).astype(f))
    assert np.array_equal(found["B"][:, 4], a / f(3))
    assert np.array_equal(found["B"][:, 5], np.floor(a) - np.ceil(a))
    assert np.array_equal(found["C"], a.astype(np.float16) * np.float16(3))


def test_lazy_branches_guard_loads():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "int32"), B: T.Buffer((8,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        B[t] = T.if_then_else(t < 4, A[t], 7)

    a = np.arange(4, dtype=np.int32)
    assert run(kernel, a, zeros(8, "int32"))["B"].tolist() == [0, 1, 2, 3, 7, 7, 7, 7]


def test_out_of_bounds_names_buffer_coordinate_and_thread():
    @T.prim_func
    def kernel(A: T.Buffer((2, 3), "int32"), B: T.Buffer((8,), "int32")):
        T.device_entry()
        c = T.cta_id([2])
        t = T.thread_id([4])
        B[c * 4 + t] = A[c, t]

    text = r"'A\[0, 3\]' is outside of the shape \[2, 3\], accessed by thread 3 of CTA 0"
    with pytest.raises(OutOfBounds, match=text) as e:
        interpret(kernel, np.zeros((2, 3), np.int32), zeros(8, "int32"))
    assert "A[c, t]" in e.value.span.text


def test_undefined_reads_are_found():
    @T.prim_func
    def kernel(B: T.Buffer((8,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        s = T.alloc_shared((8,), "int32")
        if t != 5:
            s[t] = t
        T.cuda.cta_sync()
        B[t] = s[7 - t]

    with pytest.raises(UndefinedRead, match=r"'s\[5\]' was never written, but is read by thread 2"):
        interpret(kernel, zeros(8, "int32"))


def test_a_local_buffer_is_fresh_in_each_iteration():
    @T.prim_func
    def kernel(B: T.Buffer((2,), "int32")):
        T.device_entry()
        for i in T.serial(2):
            x = T.alloc_local((1,), "int32")
            if i == 0:
                x[0] = 3
            B[i] = x[0]

    with pytest.raises(UndefinedRead, match=r"'x\[0\]'"):
        interpret(kernel, zeros(2, "int32"))


def test_conflicting_stores_are_found():
    @T.prim_func
    def kernel(B: T.Buffer((1,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        B[0] = t

    with pytest.raises(WriteConflict, match=r"different values are written at once to 'B\[0\]'"):
        interpret(kernel, zeros(1, "int32"))


def test_views_share_storage():
    @T.prim_func
    def kernel(A: T.Buffer((16,), "float32"), B: T.Buffer((4, 4), "float32"), C: T.Buffer((16,), "uint32")):
        T.device_entry()
        t = T.thread_id([16])
        s = T.alloc_shared((16,), "float32")
        v = T.decl_buffer((4, 4), "float32", data=s.data, scope="shared", layout=TileLayout(S[(4, 4) : (1, 4)]))
        u = T.decl_buffer((8,), "uint32", data=s.data, scope="shared", elem_offset=8)
        s[t] = A[t]
        T.cuda.cta_sync()
        B[t // 4, t % 4] = v[t // 4, t % 4]
        C[t] = u[t % 8]

    a = np.random.default_rng(2).standard_normal(16).astype(np.float32)
    found = run(kernel, a, zeros((4, 4)), zeros(16, "uint32"))
    assert np.array_equal(found["B"], a.reshape(4, 4).T)
    assert np.array_equal(found["C"], np.tile(a.view(np.uint32)[8:], 2))


def test_symbolic_extents_and_scalars():
    @T.prim_func
    def kernel(a: T.handle, b: T.handle, k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "int32")
        B = T.match_buffer(b, (n, 4), "int32")
        T.device_entry()
        t = T.thread_id([32])
        for i in T.serial(n):
            if t < 4:
                B[i, t] = A[i, t] * k

    a = np.arange(12, dtype=np.int32).reshape(3, 4)
    assert np.array_equal(interpret(kernel, a, np.zeros_like(a), 5)["B"], a * 5)
    with pytest.raises(InterpreterError, match="'B': dimension 0 must be 3, got 2"):
        interpret(kernel, a, np.zeros((2, 4), np.int32), 5)


def test_arguments_are_checked():
    @T.prim_func
    def kernel(A: T.Buffer((4,), "float16")):
        T.device_entry()
        A[0] = T.float16(1)

    with pytest.raises(InterpreterError, match="takes 1 arguments"):
        interpret(kernel)
    with pytest.raises(InterpreterError, match="must be an array of float16, got float32"):
        interpret(kernel, np.zeros(4, np.float32))
    with pytest.raises(InterpreterError, match="must have 1 dimensions"):
        interpret(kernel, np.zeros((2, 2), np.float16))


def test_assertions_and_endless_loops_stop():
    @T.prim_func
    def asserting(A: T.Buffer((4,), "int32")):
        T.device_entry()
        t = T.thread_id([4])
        assert A[t] > 0, "must be positive"
        A[t] = 0

    with pytest.raises(InterpreterError, match="fails in thread 2: must be positive"):
        interpret(asserting, np.array([1, 1, 0, 1], np.int32))

    @T.prim_func
    def endless(A: T.Buffer((4,), "int32")):
        T.device_entry()
        while A[0] == 0:
            A[1] = 1

    with pytest.raises(InterpreterError, match="hasn't ended after 500 steps"):
        interpret(endless, np.zeros(4, np.int32), max_steps=500)


def test_vector_loads_and_stores():
    @T.prim_func
    def kernel(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.device_entry()
        t = T.thread_id([8])
        B[t * 4 : t * 4 + 4] = A[t * 4 : t * 4 + 4] * T.Broadcast(T.float32(2.0), 4)

    a = np.arange(32, dtype=np.float32)
    assert np.array_equal(run(kernel, a, zeros(32))["B"], a * 2)


def test_return_ends_threads():
    @T.prim_func
    def kernel(B: T.Buffer((8,), "int32")):
        T.device_entry()
        t = T.thread_id([8])
        if t >= 3:
            return
        T.cuda.cta_sync()
        B[t] = 1

    assert run(kernel, zeros(8, "int32"))["B"].tolist() == [1, 1, 1, -1, -1, -1, -1, -1]


def test_unknown_intrinsics_are_named():
    @T.prim_func
    def kernel(B: T.Buffer((1,), "int32")):
        T.device_entry()
        T.ptx.tcgen05.shift(T.uint32(0))
        B[0] = 1

    with pytest.raises(InterpreterError, match=r"no meaning for 'tirx.ptx.tcgen05_shift'"):
        interpret(kernel, zeros(1, "int32"))
