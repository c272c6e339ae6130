"""Stores of vectors and vectorized loops: all lanes are computed before one is stored, neighbours in one access."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import Broadcast, StmtMutator, const
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel


def check(body: str, params: str, policies=("late",)):
    func = kernel(body, params)
    made = compile_function(func)
    made.assemble()
    given = []
    for k, p in enumerate(func.params):
        b = func.buffer_map[p]
        given.append(np.random.default_rng(k).integers(0, 40, b.const_shape()).astype(dt.numpy_dtype(b.dtype)))
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=1)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, value in wanted.items():
            np.testing.assert_array_equal(
                np.asarray(result.arrays[name]).astype(np.float64), np.asarray(value).astype(np.float64))  # fmt: skip
    return made.ptx


FLAT = 'A: Tx.Buffer((256,), "{0}"), B: Tx.Buffer((256,), "{0}")'
HEAD = "t = Tx.thread_id([32])\n"
RAMP = "Tx.ramp({0}, 1, {1})"


def flat(dtype: str) -> str:
    return FLAT.format(dtype)


@pytest.mark.parametrize(("dtype", "lanes", "access"), [
    ("float32", 4, "v4.b32"), ("float32", 8, "v8.b32"), ("float16", 8, "v4.b32"), ("uint8", 4, "b32"), ("float64", 2, "v2.b64"),
    ("int64", 4, "v4.b64"), ("bfloat16", 2, "b32"),
])  # fmt: skip
def test_neighbours_move_together(dtype, lanes, access):
    index = RAMP.format(f"t * {lanes}", lanes)
    ptx = check(f"{HEAD}B[{index}] = A[{index}] + A[{index}]", flat(dtype))
    assert ptx.count(f"ld.global.{access}") == 1 and ptx.count(f"st.global.{access}") == 1
    loop = check(f"{HEAD}for i in Tx.vectorized({lanes}):\n    B[t * {lanes} + i] = A[t * {lanes} + i] + A[t * {lanes} + i]",
                 flat(dtype))  # fmt: skip
    assert loop.count(f"ld.global.{access}") == 1 and loop.count(f"st.global.{access}") == 1


@pytest.mark.parametrize("body", [
    "B[Tx.ramp(t * 4, 1, 4)] = Tx.Broadcast(A[t], 4)",
    "B[Tx.ramp(t * 4, 1, 4)] = A[Tx.ramp(t + 3, -1, 4)]",  # in reverse: one by one
    "B[Tx.ramp(t * 8 + 1, 2, 4)] = A[Tx.ramp(t * 4, 1, 4)]",
    "B[Tx.ramp(t * 8, 1, 4)] = B[Tx.ramp(t * 8 + 2, 1, 4)]",  # all lanes are read first
    "r = Tx.alloc_local((8,), 'float32')\nr[Tx.ramp(2, 1, 4)] = A[Tx.ramp(t * 4, 1, 4)]\n"
    "B[Tx.ramp(t * 4, 1, 4)] = r[Tx.ramp(2, 1, 4)]",
    "s = Tx.alloc_shared((128,), 'float32')\ns[Tx.ramp(t * 4, 1, 4)] = A[Tx.ramp(t * 4, 1, 4)]\nTx.cuda.warp_sync()\n"
    "B[Tx.ramp(t * 4, 1, 4)] = s[Tx.ramp(124 - t * 4, 1, 4)] * Tx.Broadcast(Tx.float32(2.0), 4)",
    "B[Tx.ramp(t * 4, 1, 4)] = Tx.cast(Tx.ramp(t, 3, 4), 'float32x4')",
    "B[Tx.ramp(t * 4, 1, 4)] = Tx.Select(Tx.ramp(t, 1, 4) < Tx.Broadcast(9, 4), A[Tx.ramp(t * 4, 1, 4)], "
    "Tx.Broadcast(Tx.float32(1), 4))",
])  # fmt: skip
def test_vectors(body):
    check(HEAD + body, flat("float32"), ("late", "random"))


@pytest.mark.parametrize("body", [
    "for i in Tx.vectorized(4):\n    B[t * 5 + i] = A[t * 4 + i]",  # no alignment
    "for i in Tx.vectorized(4):\n    B[t * 4 + i] = A[i * 32 + t]",  # loads apart, one store
    "for i in Tx.vectorized(4):\n    B[t * 8 + i + 1] = B[t * 8 + i]",  # each round reads what the one before wrote
    "for i in Tx.vectorized(4):\n    B[t * 8 + i] = B[t * 8 + 3 - i]",
    "for i in Tx.vectorized(3):\n    B[t * 4 + i] = Tx.exp2(Tx.float32(0)) + A[t]",
    "for i in Tx.vectorized(2, 6):\n    B[t * 4 + i - 2] = A[t * 4 + i - 2]",
])  # fmt: skip
def test_loops(body):
    check(HEAD + body, flat("float32"), ("late", "random"))


class Guard(StmtMutator):
    """Stores of vectors get a predicate: their place is below ``limit`` (as a whole, or lane by lane)."""

    def __init__(self, limit: int, apart: bool) -> None:
        self.limit, self.apart = limit, apart

    def visit_buffer_store(self, value):
        index = value.indices[0]
        below = index < Broadcast(const(self.limit), 4) if self.apart else index.base < const(self.limit)
        return dataclasses.replace(value, predicate=below)


@pytest.mark.parametrize(("limit", "apart"), [(64, False), (64, True), (62, True)])
def test_a_predicate_keeps_from_loads_too(limit, apart):
    """What no lane may read isn't read."""
    func = Guard(limit, apart).visit_prim_func(kernel(HEAD + "B[Tx.ramp(t * 4, 1, 4)] = A[Tx.ramp(t * 4, 1, 4)]",
                                          'A: Tx.Buffer((64,), "float32"), B: Tx.Buffer((128,), "float32")'))  # fmt: skip
    made = compile_function(func)
    a, b = np.arange(64, dtype=np.float32), np.zeros(128, np.float32)
    result = made.simulate(a, b)
    assert not result.faults
    np.testing.assert_array_equal(result.arrays["B"], np.where(np.arange(128) < limit, np.resize(a, 128), 0))
    if not apart:  # the interpreter has predicates of threads
        np.testing.assert_array_equal(interpret(func, a, b)["B"], result.arrays["B"])


def test_elements_outside_are_refused():
    with pytest.raises(LoweringError, match=r"outside of 0\.\.255"):
        check(HEAD + "B[Tx.ramp(t * 8 + 5, 1, 4)] = A[Tx.ramp(t * 4, 1, 4)]", flat("float32"))
