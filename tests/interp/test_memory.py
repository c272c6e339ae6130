"""Storage: 4-bit elements, unaligned access, what is defined, conflicts; host arrays through layouts."""

import ml_dtypes
import numpy as np
import pytest

from tirx_eq.interp import generate_inputs, interpret
from tirx_eq.interp.memory import Storage
from tirx_eq.interp.run import from_memory, to_memory
from tirx_eq.layout import S, SwizzleLayout, TileLayout
from tirx_eq.script import tirx as T

from .kernels import run, zeros


def test_four_bit_elements_share_bytes():
    storage = Storage("s", "shared", 2, 4)
    row, bit = np.int64(1), np.array([0, 4, 12])
    storage.write(row, bit, np.array([1.5, -2.0, 6.0]), "float4_e2m1fn")
    assert storage.data[1, :2].tolist() == [0x3 | 0xC << 4, 0x7 << 4]
    value, undefined = storage.read(row, np.arange(0, 16, 4), "float4_e2m1fn")
    assert value.astype(float).tolist() == [1.5, -2.0, 0.0, 6.0] and undefined.tolist() == [False, False, True, False]


def test_unaligned_access_and_definedness_of_single_bytes():
    storage = Storage("s", "shared", 1, 16)
    storage.write(np.int64(0), np.array([8]), np.array([0x01020304]), "uint32")
    assert storage.data[0, 1:5].tolist() == [4, 3, 2, 1]
    value, undefined = storage.read(np.int64(0), np.array([8, 16]), "uint16")
    assert value.tolist() == [0x0304, 0x0203] and not undefined.any()
    assert storage.read(np.int64(0), np.array([0]), "uint32")[1].all()
    assert storage.outside(np.array([96, 104, -8]), "uint32").tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float4_e2m1fn"])
def test_conflicting_writes_are_told(dtype):
    storage = Storage("s", "shared", 1, 16)
    wrong = storage.write(np.int64(0), np.array([0, 0, 32]), np.array([1, 2, 1]), dtype)
    assert wrong.sum() == 1 and not wrong[2]
    assert not storage.write(np.int64(0), np.array([64, 64]), np.array([1, 1]), dtype).any()


@pytest.mark.parametrize(
    "layout,place",
    [
        (TileLayout(S[(4, 8) : (1, 4)]), lambda i, j: i + 4 * j),
        (TileLayout(S[(4, 8) : (12, 1)]), lambda i, j: 12 * i + j),
        (SwizzleLayout(0, 2, 3), lambda i, j: (8 * i + j) ^ ((8 * i + j) >> 3 & 3)),
    ],
)
def test_host_arrays_go_through_the_layout(layout, place):
    @T.prim_func
    def kernel(A: T.Buffer((4, 8), "int32", layout=layout), B: T.Buffer((4, 8), "int32")):
        T.device_entry()
        t = T.thread_id([32])
        B[t // 8, t % 8] = A[t // 8, t % 8]
        A[t // 8, t % 8] = 7

    a = np.arange(32, dtype=np.int32).reshape(4, 8)
    found = run(kernel, a, zeros((4, 8), "int32"))
    assert np.array_equal(found["B"], a) and (found["A"] == 7).all()
    memory = to_memory(kernel, [a, zeros((4, 8), "int32")])[0].view(np.int32)
    i, j = np.indices((4, 8))
    assert np.array_equal(memory[place(i, j)], a)
    back = from_memory(kernel, [a, zeros((4, 8), "int32")], {"x": memory.view(np.uint8), "y": np.zeros(128, np.uint8)})
    assert np.array_equal(back["A"], a)


def test_packed_parameters():
    @T.prim_func
    def kernel(A: T.Buffer((8,), "float4_e2m1fn"), B: T.Buffer((8,), "float32")):
        T.device_entry()
        t = T.thread_id([8])
        B[t] = T.cast(A[7 - t], "float32")

    a = np.array([0, 0.5, 1, 1.5, -2, 3, -4, 6], np.float32)
    assert np.array_equal(run(kernel, a.astype(ml_dtypes.float4_e2m1fn), zeros(8))["B"], a[::-1])
    assert to_memory(kernel, [a.astype(ml_dtypes.float4_e2m1fn), zeros(8)])[0].tolist() == [0x10, 0x32, 0x5C, 0x7E]


def test_generated_inputs():
    @T.prim_func
    def kernel(a: T.handle, B: T.Buffer((8,), "float16"), k: T.int32):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "int8")
        T.device_entry()
        t = T.thread_id([8])
        B[t] = T.cast(A[0, 0] + T.cast(k, "int8"), "float16")

    first, again, other = (generate_inputs(kernel, s, extents={"n": 6, "k": 3}) for s in (0, 0, 1))
    assert [getattr(v, "shape", v) for v in first] == [(6, 4), (8,), 3]
    assert np.array_equal(first[1], again[1]) and not np.array_equal(first[1], other[1])
    assert (first[1] == np.round(first[1].astype(float))).all() and first[0].dtype == np.int8
    normal = generate_inputs(kernel, 0, "random", {"n": 6, "k": 3})
    assert (normal[1] != np.round(normal[1].astype(float))).any()
    assert interpret(kernel, *first)["B"][0] == first[0][0, 0] + 3
