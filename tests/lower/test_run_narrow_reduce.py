"""Reductions of dtypes that have conversions only, of truth values, and negatives of unsigned numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

FP4, E8M0 = "float4_e2m1fn", "float8_e8m0fnu"
AXES = "from tirx_eq.layout import laneid, tid_in_wg, warpid\n"
HEAD = "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n"
#: A has 128 x 2 rows of 16, D a result for each of them.
PARAMS = 'A: Tx.Buffer((128, 2, 16), "{0}"), D: Tx.Buffer((128, 2), "{0}")'
LOAD = 'a = Tx.alloc_local((2, 16), "{0}")\nTx.copy(a[:, :], A[tid, :, :])\n'
LOAD += 'r = Tx.alloc_local((2,), "{0}")\nTx.copy(r[:], D[tid, :])\n'
STORE = "\nTx.copy(D[tid, :], r[:])"
VIEWS = (
    "v = a.view(32, 2, 16, layout=TileLayout(S[(32, 2, 16):(1 @ laneid, 16, 1)]))\n"
    "u = r.view(32, 2, layout=TileLayout(S[(32, 2):(1 @ laneid, 1)]))\n"
)
SHARED = 's = Tx.alloc_shared((128, 2, 16), "{0}")\nTx.copy(s[tid, :, :], A[tid, :, :])\nTx.cuda.cta_sync()\n'
PLACES = {
    "registers, a thread": LOAD + "Tx.{1}(r[:], a[:, :]{2})" + STORE,
    "registers, a warp": LOAD + VIEWS + "Tx.warp.{1}(u[:, :], v[:, :, :]{2})" + STORE,
    "registers to memory": LOAD + VIEWS + "Tx.warp.{1}(D[w * 32 : w * 32 + 32, :], v[:, :, :]{2})",
    "memory, a thread": "Tx.{1}(D[tid, :], A[tid, :, :]{2})",
    "memory, a warp": "Tx.warp.{1}(D[w * 32 : w * 32 + 32, :], A[w * 32 : w * 32 + 32, :, :]{2})",
    "memory, a CTA": "Tx.cta.{1}(D[:, :], A[:, :, :]{2})",
    "shared memory to registers": LOAD + SHARED + "Tx.{1}(r[:], s[tid, :, :]{2})" + STORE,
    "over lanes": 'a = Tx.alloc_local((2, 16), "{0}")\nTx.copy(a[:, :], A[tid, :, :])\n'
        "v = a.view(8, 2, 64, layout=TileLayout(S[(8, 2, 4, 16):(4 @ laneid, 16, 1 @ laneid, 1)]))\n"
        "Tx.warp.{1}(D[w * 8 : w * 8 + 8, :], v[:, :, :]{2})",
}  # fmt: skip
CALLS = {
    "sum": ("sum", ""), "max": ("max", ""), "min": ("min", ""), "more": ("sum", ", accum=True"),
    "less": ("min", ", accum=True"), "negated sum": ("reduce_negate", ", 'sum'"), "negated max": ("reduce_negate", ", 'max'"),
}  # fmt: skip
DTYPES = (FP4, E8M0, "bool", "uint8")
CASES = [(p, c, d) for i, p in enumerate(PLACES) for j, c in enumerate(CALLS) for k, d in enumerate(DTYPES)
         if (d == FP4 or (i + j + k) % 4 == 0) and not (d == "bool" and c.startswith("negated"))]  # fmt: skip


def values(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) < 0.1
    low, high = {FP4: (0, 16), E8M0: (110, 140)}.get(dtype, (0, 256))
    made: np.ndarray = rng.integers(low, high, shape).astype(np.uint8).view(dt.numpy_dtype(dtype))
    return made


@pytest.mark.parametrize(("place", "call", "dtype"), CASES)
def test_reductions(place, call, dtype):
    func = kernel(HEAD + PLACES[place].format(dtype, *CALLS[call]), PARAMS.format(dtype), AXES)
    given = [values(dtype, (128, 2, 16), 1), values(dtype, (128, 2), 2)]
    result = compile_function(func).simulate(*given)
    assert not result.faults
    got, wanted = (np.asarray(x["D"]).astype(np.float64) for x in (result.arrays, interpret(func, *given)))
    np.testing.assert_array_equal(got, wanted)


def test_a_sum_of_scale_factors_is_rounded_up():
    func = kernel(HEAD + PLACES["registers, a thread"].format(E8M0, "sum", ""), PARAMS.format(E8M0))
    a = np.full((128, 2, 16), 2.0**-60)
    a[:, :, 0] = 1.0
    given = [x.astype(np.float32).astype(dt.numpy_dtype(E8M0)) for x in (a, np.ones((128, 2)))]
    assert (compile_function(func).simulate(*given).arrays["D"].astype(np.float32) == 2).all()
    assert (interpret(func, *given)["D"].astype(np.float32) == 2).all()


def test_truth_values_have_no_negative():
    func = kernel(HEAD + PLACES["memory, a CTA"].format("bool", "reduce_negate", ", 'sum'"), PARAMS.format("bool"))
    with pytest.raises(NoCandidate, match="truth values have no negative"):
        compile_function(func)


@pytest.mark.parametrize("call", [
    "Tx.cta.sum(D[0, 0:1], A[:, 0, 0:8], axes=[0, 1, 2])",  # one result of 4 bits
    "Tx.cta.sum(D[:, 0], A[:, 0, :])",  # a half of each byte
    "Tx.cta.max(D[:, :], A[:, :, 1:4])",  # halves of bytes are read
])  # fmt: skip
def test_halves_of_bytes(call):
    with pytest.raises(NoCandidate, match=r"no store is of 4 bits|half of a byte"):
        compile_function(kernel(HEAD + call, PARAMS.format(FP4)))
