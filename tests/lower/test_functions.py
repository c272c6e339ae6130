"""Functions of floats, executed with every approximate instruction as far off as it may be: the promises hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tirx_eq.interp import values
from tirx_eq.ir import dtype as dt
from tirx_eq.ir.accuracy import ACCURACY, UNIT, Accuracy, power_accuracy, promised
from tirx_eq.lower.code.functions import FORMS, form_of
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import assemble, find_tool
from tirx_eq.sim import simulate

from .kernels import kernel

COUNT = 1024
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388609.0, -8388609.0, 3.4e38, 1e-20, 1e-40,
    -1e-40, 1.2e-38, 100.0, -100.0, 88.0, -87.5, 104.0, 3e-39, np.inf, -np.inf, np.nan, 0.99999994, 1.0000001,
)  # fmt: skip
EXACT = ("sqrt", "fabs", "floor", "ceil", "trunc", "nearbyint", "round")
UNARY = [*(f for f in ACCURACY if f not in ("silu", "reciprocal", "rcp")), *EXACT]


def arguments(function: str, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(11)
    rest = COUNT - len(SPECIAL)
    spread = np.concatenate([rng.standard_normal(rest // 2) * 8, np.exp2(rng.uniform(-30, 30, rest - rest // 2))])
    spread[::3] *= -1
    with np.errstate(over="ignore"):
        x = np.concatenate([spread, SPECIAL]).astype(dt.numpy_dtype(dtype))
    if function.startswith("log") or "sqrt" in function:
        x = np.abs(x)
    if function in ("sin", "cos"):
        x[np.abs(x.astype(np.float64)) > 2.0**20] = 3
    return x


def compiled(statement: str, dtype: str, result: str | None = None):
    return compile_function(kernel(
        f"t = Tx.thread_id([128])\nb = Tx.cta_id([{COUNT // 128}])\ni = b * 128 + t\n{statement}",
        f'A: Tx.Buffer(({COUNT},), "{dtype}"), B: Tx.Buffer(({COUNT},), "{dtype}"), '
        f'C: Tx.Buffer(({COUNT},), "{result or dtype}")',
    ))  # fmt: skip


def evaluate(statement: str, *given: np.ndarray, result: str | None = None, how: str = "worst") -> np.ndarray:
    dtype = given[0].dtype.name
    made = compiled(statement, dtype, result)
    out = np.zeros(COUNT, dt.numpy_dtype(result or dtype))
    ran = made.simulate(given[0], given[-1], out, approximations=how)
    assert not ran.faults, [str(f) for f in ran.faults[:3]]
    return ran.arrays["C"]


def check(got: np.ndarray, exact: np.ndarray, accuracy: Accuracy | None, dtype: str) -> None:
    """Within the accuracy and one rounding to ``dtype``; infinities and NaN where they should be."""
    unit, own = UNIT[dtype], accuracy or Accuracy(0.0)
    got = got.astype(np.float64)
    with np.errstate(all="ignore"):
        rounded = values.round_to(exact, dtype).astype(np.float64)
        bound = (unit.relative + own.relative) * np.abs(exact) + unit.absolute + own.absolute
        # At the end of the range a result may be rounded to infinity, or not.
        close = np.abs(got - exact) <= bound
        edge = np.abs(exact) * (1 + own.relative + unit.relative) >= dt.FLOAT_MAX.get(dtype, np.finfo(np.float64).max)
        good = close | (got == rounded) | (np.isnan(got) & np.isnan(rounded)) | (edge & np.isinf(got))
    bad = int(np.argmin(good))
    assert good.all(), (bad, got[bad], exact[bad])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("function", UNARY)
def test_functions_are_as_accurate_as_promised(function, dtype):
    x = arguments(function, dtype)
    with np.errstate(all="ignore"):
        exact = values.UNARY[function](x.astype(np.float64))
    check(evaluate(f"C[i] = Tx.{function}(A[i])", x), exact, promised(function, dtype), dtype)


@pytest.mark.parametrize("function", EXACT)
def test_exact_functions_of_float64(function):
    x = arguments(function, "float64")
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate(f"C[i] = Tx.{function}(A[i])", x), values.UNARY[function](x))


@pytest.mark.parametrize("call", ["exp2(T, S)", "exp(T, S)", "log2(T, S)", "reciprocal(T, S)", "silu(T, S)", "sqrt(T, S)"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_tile_primitives_are_as_accurate(call, dtype):
    name = call.partition("(")[0]
    x = arguments(name, dtype)
    text = call.replace("T", "C[b * 128 : b * 128 + 128]").replace("S", "A[b * 128 : b * 128 + 128]")
    with np.errstate(all="ignore"):
        exact = values.UNARY[name](x.astype(np.float64))
    check(evaluate(f"Tx.cta.{text}", x), exact, promised(name, dtype), dtype)


def test_powers():
    rng = np.random.default_rng(5)
    x = np.exp2(rng.uniform(-3, 3, COUNT)).astype(np.float32)
    y = rng.uniform(-9, 9, COUNT).astype(np.float32)
    x[::4] *= -1
    y[::2] = np.rint(y[::2])
    special = [(0, 0), (-0.0, 3), (0, -2), (-2, 0.5), (1, np.inf), (-1, np.inf), (2, np.inf), (0.5, np.inf), (np.nan, 0),
               (1, np.nan), (np.inf, -1), (-np.inf, 3), (-np.inf, 2), (3, 60), (-3, 61), (2, -140)]  # fmt: skip
    x[: len(special)], y[: len(special)] = zip(*special)
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
        product = np.abs(y.astype(np.float64)) * np.maximum(1, np.abs(np.log2(np.abs(x.astype(np.float64)))))
    got = evaluate("C[i] = Tx.pow(A[i], B[i])", x, y)
    for k in range(COUNT):
        grown = float(product[k]) if np.isfinite(product[k]) else 0.0
        check(got[k : k + 1], exact[k : k + 1], power_accuracy(grown), "float32")


def test_signs_and_tests_of_floats():
    x = arguments("fabs", "float32")
    y = np.roll(x, 7)
    np.testing.assert_array_equal(evaluate("C[i] = Tx.copysign(A[i], B[i])", x, y), np.copysign(x, y))
    for name, test in (("isnan", np.isnan), ("isinf", np.isinf), ("isfinite", np.isfinite)):
        got = evaluate(f"C[i] = Tx.Select(Tx.{name}(A[i]), Tx.float32(1), Tx.float32(0))", x)
        np.testing.assert_array_equal(got != 0, test(x), err_msg=name)


def test_counts_of_bits():
    x = np.random.default_rng(2).integers(-(2**31), 2**31, COUNT).astype(np.int32) >> np.arange(COUNT, dtype=np.int32) % 31
    raw = x.view(np.uint32)
    got = evaluate("C[i] = Tx.popcount(A[i])", x)
    np.testing.assert_array_equal(got, [int(v).bit_count() for v in raw])
    np.testing.assert_array_equal(evaluate("C[i] = Tx.clz(A[i])", x), [32 - int(v).bit_length() for v in raw])
    np.testing.assert_array_equal(evaluate("C[i] = Tx.abs(A[i])", x), np.abs(x))


def test_three_values_are_compared_at_once():
    x = arguments("fabs", "float32")
    y = np.roll(x, 11)
    got = evaluate("C[i] = Tx.max(Tx.float32(2), Tx.max(A[i], B[i]))", x, y)
    np.testing.assert_array_equal(got, np.fmax(np.fmax(x, y), np.float32(2)))
    ptx = compiled("C[i] = Tx.min(Tx.min(A[i], B[i]), Tx.float32(2))", "float32").ptx
    assert ptx.count("min.f32") == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_chains_of_maxima_compare_three_values(reverse):
    x = arguments("fabs", "float32")
    y = np.roll(x, 11)
    part = "[b * 128 : b * 128 + 128]"
    call = f"Tx.cta.binary_chain(C{part}, A{part}, B{part}, 2.0, 'maximum', 'maximum', reverse1={reverse})"
    np.testing.assert_array_equal(evaluate(call, x, y), np.fmax(np.fmax(x, y), np.float32(2)))
    assert compiled(call, "float32").ptx.count("max.f32") == 1


def test_a_cheaper_form_is_taken_where_it_is_accurate_enough():
    """The tensor core's softmax needs exp2 without the scaling of subnormal numbers; log2 needs it."""
    assert form_of("exp2").text.startswith("ex2.approx.ftz") and form_of("log2").text.startswith("lg2.approx.f32")
    assert "tanh.approx" in form_of("tanh", "bfloat16").text and "tanh.approx" not in form_of("tanh").text
    assert form_of("log2", "float16", "float16").text.startswith("lg2.approx.ftz")
    assert form_of("log2", "bfloat16", "bfloat16").text.startswith("lg2.approx.f32")  # bf16 has float32's subnormal numbers
    for function, forms in FORMS.items():
        for result in ("float32", "float16", "bfloat16"):
            wanted = promised(function, result)
            assert wanted is None or form_of(function, result).accuracy.within(wanted)
        assert form_of(function).cost == min(f.cost for f in forms if (p := promised(function)) is None or f.accuracy.within(p))


def test_the_page_has_the_promises():
    page = (Path(__file__).parents[2] / "docs" / "numerics.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    for function, accuracy in ACCURACY.items():
        if function == "rcp":
            continue
        (row,) = [r for r in rows if f"`{function}`" in r.split("|")[1]]
        for number in (accuracy.relative, accuracy.absolute):
            shown = "0" if number == 0 else f"2{str(round(np.log2(number))).translate(SUPERSCRIPT)}"
            assert shown in row, (function, shown)


def test_approximations_are_off():
    """The check above sees errors: with the nearest values there are fewer."""
    x = np.linspace(-10, 10, COUNT).astype(np.float32)
    near, far = (evaluate("C[i] = Tx.exp2(A[i])", x, how=how).astype(np.float64) for how in ("nearest", "worst"))
    exact = np.exp2(x.astype(np.float64))
    assert np.abs(near / exact - 1).max() <= 2.0**-24 < 2.0**-22.2 < np.abs(far / exact - 1).max()
    with pytest.raises(Exception, match="nearest"):
        simulate(compiled("C[i] = A[i]", "float32").ptx, approximations="best")


@pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
def test_every_form_assembles():
    calls = [f for f in UNARY if f != "rcp"]
    body = "\n".join(f"C[i] = C[i] + Tx.{f}(A[i])" for f in calls)
    body += "\nC[i] = C[i] + Tx.pow(A[i], B[i]) + Tx.copysign(A[i], B[i])"
    made = assemble(compiled(body, "float32").ptx, "sm_100a")
    assert made.spill_stores == 0
