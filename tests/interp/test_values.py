"""Scalar arithmetic against exact rational arithmetic and ml_dtypes."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.interp import values
from tirx_eq.interp.faults import InterpreterError

singles = st.floats(width=32, allow_nan=False, allow_infinity=False)


def nearest(exact: Fraction, dtype) -> float:
    """The value of a small format nearest to a rational, ties to the even bit pattern; by trying all values."""
    count = 1 << (8 * np.dtype(dtype).itemsize)
    raw = np.arange(count, dtype=np.uint8 if count == 256 else np.uint16)
    if np.dtype(dtype) == ml_dtypes.float4_e2m1fn:
        raw = raw[:16]
    every = raw.view(dtype).astype(np.float64)
    good = np.isfinite(every)
    best = min(zip(raw[good].tolist(), every[good].tolist()), key=lambda p: (abs(Fraction(p[1]) - exact), p[0] & 1))
    return best[1]


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
@settings(max_examples=40, deadline=None)
@given(st.floats(-500, 500))
def test_rounding_to_narrow_formats(name, x):
    limit = values.SATURATING[name]
    found = float(values.round_to(np.float64(x), name))
    assert found == (math.copysign(limit, x) if abs(x) >= limit else nearest(Fraction(x), getattr(ml_dtypes, name)))


@settings(max_examples=60, deadline=None)
@given(st.floats(-1e4, 1e4))
def test_rounding_to_bfloat16_is_a_single_rounding(x):
    found = values.round_to(np.float64(x), "bfloat16")
    down = np.nextafter(found, ml_dtypes.bfloat16(-np.inf)).astype(np.float64)
    up = np.nextafter(found, ml_dtypes.bfloat16(np.inf)).astype(np.float64)
    error = abs(Fraction(float(found)) - Fraction(x))
    assert error <= abs(Fraction(float(down)) - Fraction(x)) and error <= abs(Fraction(float(up)) - Fraction(x))


def test_double_rounding_is_avoided():
    # Just above the middle of two bfloat16 values, by less than float32 can see.
    x = 1.0 + 2.0**-8 + 2.0**-40
    assert float(values.round_to(np.float64(x), "bfloat16")) == 1.0 + 2.0**-7


@settings(max_examples=100, deadline=None)
@given(singles, singles, singles)
def test_fma_rounds_once(a, b, c):
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    found = values.fma(np.float32(a), np.float32(b), np.float32(c), "float32")
    assert found.dtype == np.float32
    try:
        wide = float(exact)
    except OverflowError:
        return
    with np.errstate(over="ignore"):
        candidate = np.float32(wide)
    if not abs(candidate) < 1e38 or abs(wide) < 1e-30:
        return
    options = [candidate, np.nextafter(candidate, np.float32(-np.inf)), np.nextafter(candidate, np.float32(np.inf))]
    best = min(abs(Fraction(float(o)) - exact) for o in options)
    assert abs(Fraction(float(np.ravel(found)[0])) - exact) == best


def test_fma_differs_from_two_roundings():
    a = np.float32(1 + 2**-12)
    found = values.fma(a, a, np.float32(-1), "float32")
    assert float(np.ravel(found)[0]) == 2.0**-11 + 2.0**-24
    assert float(a * a - np.float32(1)) == 2.0**-11


@pytest.mark.parametrize(
    "value,source,target,result",
    [
        (2.9, "float32", "int32", 2), (-2.9, "float32", "int32", -2), (1e20, "float32", "int32", 2**31 - 1),
        (-1e20, "float32", "int32", -(2**31)), (float("nan"), "float32", "int32", 0), (-1.0, "float32", "uint8", 0),
        (300, "int32", "uint8", 44), (200, "int32", "int8", -56), (-1, "int32", "uint32", 2**32 - 1),
        (7, "int32", "bool", True), (0.5, "float32", "bool", True), (70000.0, "float32", "float16", np.inf),
        (500.0, "float32", "float8_e4m3fn", 448.0), (2**24 + 1, "int32", "float32", 2.0**24),
        (1e30, "float64", "int64", 2**63 - 1), (0.3, "float32", "float8_e8m0fnu", 0.5),
    ],
)  # fmt: skip
def test_conversions(value, source, target, result):
    given_value = values.constant(value, source)
    assert values.convert(given_value, source, target) == result


@pytest.mark.parametrize(
    "name,a,b,result",
    [
        ("FloorDiv", -7, 2, -4), ("FloorMod", -7, 2, 1), ("Div", -7, 2, -3), ("Mod", -7, 2, -1),
        ("FloorMod", 7, -2, -1), ("Div", 7, -2, -3), ("Min", 3, -4, -4), ("Max", 3, -4, 3), ("LE", 3, 3, True),
        ("NE", 3, 3, False),
    ],
)  # fmt: skip
def test_integer_operators(name, a, b, result):
    assert values.binary(name, np.int64(a), np.int64(b)) == result


def test_minimum_and_maximum_of_special_values():
    nan, zero = np.float32(np.nan), np.float32(0)
    assert values.maximum(nan, np.float32(2)) == 2 and values.minimum(np.float32(2), nan) == 2
    assert np.signbit(values.minimum(zero, -zero)) and not np.signbit(values.maximum(-zero, zero))


def test_division_by_zero_and_wide_shifts_are_refused():
    with pytest.raises(InterpreterError, match="division by zero"):
        values.binary("FloorDiv", np.int64(1), np.asarray([1, 0]))
    with pytest.raises(InterpreterError, match="shift of a int32 by 32"):
        values.shift("shift_left", np.int64(1), np.int64(32), "int32")


def test_products_beyond_64_bits_are_refused():
    big = np.asarray([1 << 40])
    with pytest.raises(InterpreterError, match="beyond 64 bits"):
        values.binary("Mul", big, big)
    assert values.binary("Mul", big, np.asarray([1 << 20])) == 1 << 60


def test_bits():
    x = np.asarray([0, 1, -1, 12])
    assert values.population_count(x, "int32").tolist() == [0, 1, 32, 2]
    assert values.leading_zeros(x, "int32").tolist() == [32, 31, 0, 28]
    assert values.from_bytes(values.to_bytes(np.float32(1), "float32"), "uint32") == 0x3F800000
