"""Functions of floats, executed with every approximate instruction as far off as it may be: the promises hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tirx_eq.interp import values
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.ir.accuracy import ACCURACY, ACCURACY_DOUBLE, UNIT, Accuracy, power_accuracy, promised
from tirx_eq.lower.code.functions import FORMS, form_of
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import assemble, find_tool
from tirx_eq.sim import simulate

from .kernels import kernel
from .value_kernels import COLUMNS, value_kernel

COUNT = 1024
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.49999997, -0.49999997, 8388609.0, -8388609.0, 3.4e38, 1e-20, 1e-40,
    -1e-40, 1.2e-38, 100.0, -100.0, 88.0, -87.5, 104.0, 3e-39, np.inf, -np.inf, np.nan, 0.99999994, 1.0000001,
)  # fmt: skip
EXACT = ("sqrt", "fabs", "floor", "ceil", "trunc", "nearbyint", "round")
TWO = ("atan2", "hypot")
UNARY = [*(f for f in ACCURACY if f not in ("silu", "reciprocal", "rcp", *TWO)), *EXACT]


def arguments(function: str, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(11)
    rest = COUNT - len(SPECIAL)
    spread = np.concatenate([rng.standard_normal(rest // 2) * 8, np.exp2(rng.uniform(-30, 30, rest - rest // 2))])
    spread[::3] *= -1
    with np.errstate(over="ignore"):
        x = np.concatenate([spread, SPECIAL]).astype(dt.numpy_dtype(dtype))
    if function.startswith("log") or "sqrt" in function:
        x = np.abs(x)
    if function in ("asin", "acos", "atanh"):
        x[: COUNT // 2] = np.linspace(-1, 1, COUNT // 2)
    if function in ("sinh", "cosh"):
        x[: COUNT // 2] = np.linspace(-89.5, 89.5, COUNT // 2)
    if function in ("sin", "cos", "tan"):
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


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("function", TWO)
def test_functions_of_two_numbers(function, dtype):
    x = arguments(function, dtype)
    y = np.roll(x, 29)
    x[:400], y[:400] = (v.ravel() for v in np.meshgrid(x[-20:], x[-20:]))
    with np.errstate(all="ignore"):
        exact = getattr(np, {"atan2": "arctan2"}.get(function, function))(x.astype(np.float64), y.astype(np.float64))
    got = evaluate(f"C[i] = Tx.{function}(A[i], B[i])", x, y)
    check(got, exact, promised(function, dtype), dtype)
    zero = exact == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(exact[zero]))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_remainders_are_exact(dtype):
    """Quotients of up to 277 bits; the result is exact, with the sign of the first number."""
    rng = np.random.default_rng(8)
    with np.errstate(all="ignore"):
        x = (rng.choice([-1, 1], COUNT) * np.exp2(rng.uniform(-149, 128, COUNT))).astype(dt.numpy_dtype(dtype))
        y = (rng.choice([-1, 1], COUNT) * np.exp2(rng.uniform(-149, 128, COUNT))).astype(dt.numpy_dtype(dtype))
        x[:200], y[:200] = rng.integers(-40, 40, 200), rng.integers(-9, 9, 200)
        x[200:300] = y[200:300] * rng.integers(1, 100, 100).astype(x.dtype)
        edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, -2.5, 3.0, 1.0], np.float32).astype(x.dtype)
    x[300:400], y[300:400] = (v.ravel() for v in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        wanted = np.fmod(x.astype(np.float64), y.astype(np.float64))
    got = evaluate("C[i] = Tx.fmod(A[i], B[i])", x, y).astype(np.float64)
    np.testing.assert_array_equal(got, wanted)
    np.testing.assert_array_equal(np.signbit(got[wanted == 0]), np.signbit(wanted[wanted == 0]))


def test_neighbours_and_scales():
    x = arguments("fabs", "float32")
    y = np.roll(x, 5)
    y[::9] = x[::9]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluate("C[i] = Tx.nextafter(A[i], B[i])", x, y), np.nextafter(x, y))
        for count in (-300, -160, -149, -24, 0, 3, 127, 280, 400):
            exact = np.ldexp(x.astype(np.float64), count).astype(np.float32)
            np.testing.assert_array_equal(evaluate(f"C[i] = Tx.ldexp(A[i], {count})", x), exact, err_msg=str(count))
        made = evaluate("C[i] = Tx.ldexp(A[i], Tx.cast(i, 'int32') - 500)", x)
        np.testing.assert_array_equal(made, np.ldexp(x.astype(np.float64), np.arange(COUNT) - 500).astype(np.float32))


def test_powers():
    rng = np.random.default_rng(5)
    x = np.exp2(rng.uniform(-3, 3, COUNT)).astype(np.float32)
    y = rng.uniform(-9, 9, COUNT).astype(np.float32)
    x[::4] *= -1
    y[::2] = np.rint(y[::2])
    special = [(0, 0), (-0.0, 3), (0, -2), (-2, 0.5), (1, np.inf), (-1, np.inf), (2, np.inf), (0.5, np.inf), (np.nan, 0),
               (1, np.nan), (np.inf, -1), (-np.inf, 3), (-np.inf, 2), (-np.inf, 0.5),
               (-0.0, 0.5), (3, 60), (-3, 61), (2, -140)]  # fmt: skip
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


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int64", "uint64"])
def test_counts_of_bits_of_other_widths(dtype):
    bits = dt.bits(dtype)
    x = np.random.default_rng(4).integers(0, 2**63, COUNT).astype(dtype) >> np.arange(COUNT).astype(dtype) % bits
    x[:4] = (0, 1, -1 if dtype.startswith("i") else 3, np.iinfo(dtype).max)
    raw = x.view(f"u{bits // 8}")
    counts = [int(v).bit_count() for v in raw]
    np.testing.assert_array_equal(evaluate("C[i] = Tx.popcount(A[i])", x), np.array(counts).astype(dtype))
    wanted = [bits - int(v).bit_length() for v in raw]
    np.testing.assert_array_equal(evaluate("C[i] = Tx.clz(A[i])", x, result="int32"), wanted)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("text", [
    "A[i] + B[i]", "A[i] - B[i]", "A[i] * B[i]", "A[i] / B[i]", "Tx.max(A[i], B[i])", "Tx.Select(A[i] < B[i], A[i], B[i])",
    "A[i] * Tx.cast(1.5, A.dtype)",
])  # fmt: skip
def test_arithmetic_of_8_bits_is_rounded_once(text, dtype):
    """Every pair of 8-bit numbers, in 64 launches' worth of blocks; sums that are too large saturate."""
    every = np.arange(256, dtype=np.uint8).view(dt.numpy_dtype(dtype))
    a, b = (v.ravel() for v in np.meshgrid(every[::4], every[1::4]))
    func = kernel(
        f"t = Tx.thread_id([128])\nb = Tx.cta_id([32])\ni = b * 128 + t\nC[i] = {text}",
        ", ".join(f'{n}: Tx.Buffer((4096,), "{dtype}")' for n in "ABC"),
    )  # fmt: skip
    given = (a, b, np.zeros_like(a))
    got = compile_function(func).simulate(*given).arrays["C"].astype(np.float32)
    np.testing.assert_array_equal(got, interpret(func, *given)["C"].astype(np.float32))
    if text == "A[i] + B[i]":
        x, y = a.astype(np.float64), b.astype(np.float64)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(got, values.round_to(x + y, dtype).astype(np.float32))


def test_functions_and_quotients_of_narrow_floats():
    x = np.linspace(-4, 4, COUNT).astype(dt.numpy_dtype("float8_e4m3fn"))
    exact = values.round_to(np.exp(x.astype(np.float64)), "float8_e4m3fn").astype(np.float64)
    got = evaluate("C[i] = Tx.exp(A[i])", x).astype(np.float64)
    assert (np.abs(got - exact) <= np.abs(exact) / 8).all() and (got == exact).mean() > 0.99
    for dtype in ("float16", "bfloat16"):
        a = arguments("fabs", dtype)
        b = np.roll(a, 3)
        with np.errstate(all="ignore"):
            wanted = values.round_to(a.astype(np.float64) / b.astype(np.float64), dtype)
        np.testing.assert_array_equal(evaluate("C[i] = A[i] / B[i]", a, b).astype(np.float32), wanted.astype(np.float32))


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


@pytest.mark.parametrize("how", ["worst", "nearest"])
@pytest.mark.parametrize("name", ["exp2", "tanh"])
def test_every_bfloat16(name, how):
    """The instructions of bf16: all 65536 arguments, within what is promised for that dtype."""
    every = np.arange(1 << 16, dtype=np.uint16).view(dt.numpy_dtype("bfloat16"))
    blocks = (1 << 16) // 128
    made = compile_function(kernel(
        f"t = Tx.thread_id([128])\nb = Tx.cta_id([{blocks}])\ni = b * 128 + t\nC[i] = Tx.{name}(A[i])",
        'A: Tx.Buffer((65536,), "bfloat16"), C: Tx.Buffer((65536,), "bfloat16")',
    ))  # fmt: skip
    assert {"exp2": "ex2.approx.ftz.bf16 ", "tanh": "tanh.approx.bf16 "}[name] in made.ptx
    got = made.simulate(every, np.zeros_like(every), approximations=how).arrays["C"]
    with np.errstate(all="ignore"):
        exact = values.UNARY[name](every.astype(np.float32).astype(np.float64))
    check(got, exact, promised(name, "bfloat16"), "bfloat16")


@pytest.mark.parametrize("call", ["exp2(C{p}, A{p})", "exp2(C{p}, A{p}, None, 0.5)"])
def test_pairs_of_bfloat16_have_an_exponential(call):
    """Two at once, if the argument is a number of bf16; a product isn't, and goes through float32."""
    made = compiled(f"Tx.cta.{call.format(p='[b * 128 : b * 128 + 128]')}", "bfloat16")
    plain = "None" not in call
    assert ("ex2.approx.ftz.bf16" in made.ptx) == plain and ("ex2.approx.ftz.f32" in made.ptx) != plain
    wide = compiled("Tx.cta.exp2(C[b * 128 : b * 128 + 128], A[b * 128 : b * 128 + 128])", "float16")
    assert "ex2.approx.ftz.f32" in wide.ptx  # f16 promises more than its instruction keeps
    pairs = compile_function(value_kernel("exp2({D}, {A})", dict.fromkeys("DA", ("bfloat16", "registers", COLUMNS)), "thread"))
    assert pairs.ptx.count("ex2.approx.ftz.bf16x2 ") == COLUMNS // 2 and "cvt" not in pairs.ptx.replace("cvta", "")
    x = arguments("exp2", "bfloat16")
    with np.errstate(all="ignore"):
        exact = np.exp2(x.astype(np.float64) * (1.0 if plain else 0.5))
    got = made.simulate(x, x, np.zeros_like(x), approximations="worst").arrays["C"]
    check(got, exact, promised("exp2", "bfloat16"), "bfloat16")


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
    single, double = page.split("## Functions of float64")
    for text, accuracies in ((single, ACCURACY), (double, ACCURACY_DOUBLE)):
        rows = [line for line in text.splitlines() if line.startswith("| `")]
        for function, accuracy in accuracies.items():
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
    two = ("pow", "copysign", "fmod", "nextafter", *TWO)
    body += "\n" + "\n".join(f"C[i] = C[i] + Tx.{f}(A[i], B[i])" for f in two) + "\nC[i] = C[i] + Tx.ldexp(A[i], i)"
    made = assemble(compiled(body, "float32").ptx, "sm_100a")
    assert made.spill_stores == 0
