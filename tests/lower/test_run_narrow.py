"""Element-wise primitives on dtypes that have conversions only: every result is that of the interpreter, to the bit.

Operands are widened, computed with, and the result of each operation is rounded once, as a conversion to the dtype does.
"""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

ROWS, COLUMNS = 128, 16
FP4, E8M0 = "float4_e2m1fn", "float8_e8m0fnu"
NARROW = (FP4, E8M0, "float8_e4m3fn", "float8_e5m2")
EXACT = {
    "add": "add({D}, {A}, {B})", "sub": "sub({D}, {A}, {B})", "mul": "mul({D}, {A}, {B})", "fdiv": "fdiv({D}, {A}, {B})",
    "maximum": "maximum({D}, {A}, {B})", "minimum": "minimum({D}, {A}, {B})", "fma": "fma({D}, {A}, {B}, {C})",
    "fma with constants": "fma({D}, {A}, 2.0, 1.0)", "constant minus": "sub({D}, 3.0, {A})",
    "scalar": "mul({D}, {A}, Tx.cast(b + 3, 'float32'))", "select": "select({D}, {A}, {B}, lambda i, j: i < j)",
    "chain": "binary_chain({D}, {A}, {B}, {C}, 'mul', 'add')",
    "three": "binary_chain({D}, {A}, {B}, {C}, 'maximum', 'maximum')",
    "reversed chain": "binary_chain({D}, {A}, {B}, {C}, 'sub', 'add', reverse1=True)",
    "sqrt": "sqrt({D}, {A})", "sqrt of affine": "sqrt({D}, {A}, {B}, {C})", "fill": "fill({D}, 1000.0)",
    "fill below": "fill({D}, -3.0)", "zero": "zero({D})",
}  # fmt: skip
FUNCTIONS = ("exp", "exp2", "log2", "reciprocal", "silu")


def made(call: str, dtype: str):
    """A kernel on 128 rows by two CTAs of 32 threads."""
    text = f"b = Tx.cta_id([2])\nt = Tx.thread_id([32])\nTx.cta.{call}"
    for name in "DABC":
        text = text.replace(f"{{{name}}}", f"{name}[b * 64 : b * 64 + 64, :]")
    return kernel(text, ", ".join(f'{name}: Tx.Buffer(({ROWS}, {COLUMNS}), "{dtype}")' for name in "DABC"))


def values(dtype: str, near: bool = False) -> list[np.ndarray]:
    """Any bits, NaN and the largest among them (no infinity: a conversion to e5m2 makes the largest number of it); ``near``:
    not far from 1."""
    rng = np.random.default_rng(5)
    target = dt.numpy_dtype(dtype)
    if dtype == "bool":
        return [rng.integers(0, 2, (ROWS, COLUMNS)).astype(bool) for _ in "DABC"]
    low, high = (120, 134) if near and dtype == E8M0 else (0, 16 if dtype == FP4 else 256)
    some = [np.where(rng.random((ROWS, COLUMNS)) < 0.5, rng.integers(low, high, (ROWS, COLUMNS)),
                     rng.integers(115, 140, (ROWS, COLUMNS)) if dtype == E8M0 and not near else
                     rng.integers(low, high, (ROWS, COLUMNS))) for _ in "DABC"]  # fmt: skip
    infinite = 0x7C if dtype == "float8_e5m2" else 0x100
    return [np.where(x & 0x7F == infinite, 1, x).astype(np.uint8).view(target) for x in some]


def both(call: str, dtype: str, near: bool = False) -> tuple[np.ndarray, np.ndarray]:
    func, given = made(call, dtype), values(dtype, near)
    result = compile_function(func).simulate(*given)
    assert not result.faults
    return tuple(np.asarray(x["D"]).astype(np.float64) for x in (result.arrays, interpret(func, *given)))  # type: ignore[return-value]


#: What e4m3 and e5m2 do differently from wider floats.
EIGHT = ("fma", "chain", "reversed chain", "sqrt of affine", "fill")


@pytest.mark.parametrize(("name", "dtype"), [(n, d) for d in NARROW for n in (EXACT if d in NARROW[:2] else EIGHT)])
def test_results_are_rounded_once(name, dtype):
    got, wanted = both(EXACT[name], dtype)
    # Of e5m2 a product and what is added to it may be more than 24 bits apart.
    np.testing.assert_allclose(got, wanted, rtol=0.25 if (name, dtype) == ("fma", "float8_e5m2") else 0)


@pytest.mark.parametrize("dtype", NARROW[:2])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, dtype):
    """A function near a power of two may be rounded to the next one; here none is."""
    got, wanted = both(f"{name}({{D}}, {{A}})", dtype, near=True)
    np.testing.assert_array_equal(got, wanted)


def test_a_sum_of_scale_factors_is_rounded_up():
    """1 + 2^-60 is more than 1, though float32 and float64 have no such number."""
    func = made("add({D}, {A}, {B})", E8M0)
    given = [np.full((ROWS, COLUMNS), x).astype(np.float32).astype(dt.numpy_dtype(E8M0)) for x in (1, 1, 2.0**-60, 1)]
    result = compile_function(func).simulate(*given)
    assert (result.arrays["D"].astype(np.float32) == 2).all()
    assert (interpret(func, *given)["D"].astype(np.float32) == 2).all()


TRUTH = {"add": np.logical_or, "mul": np.logical_and, "maximum": np.logical_or, "minimum": np.logical_and}


@pytest.mark.parametrize("name", TRUTH)
def test_truth_values(name):
    got, wanted = both(f"{name}({{D}}, {{A}}, {{B}})", "bool")
    _, a, b, _ = values("bool")
    np.testing.assert_array_equal(got, TRUTH[name](a, b))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize(("call", "what"), [("fma({D}, {A}, {B}, {C})", "or"), (EXACT["chain"], "or")])
def test_truth_values_of_three(call, what):
    got, _ = both(call, "bool")
    _, a, b, c = values("bool")
    np.testing.assert_array_equal(got, a & b | c)


@pytest.mark.parametrize("op", ["sub", "fdiv"])
def test_truth_values_have_no_difference(op):
    with pytest.raises(NoCandidate, match=f"truth values have no {op}: cast them first"):
        compile_function(made(f"{op}({{D}}, {{A}}, {{B}})", "bool"))
