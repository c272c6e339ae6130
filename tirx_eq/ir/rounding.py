"""Numbers of narrow float formats: what a float64 value becomes in each, rounded once, as the target's conversions do."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import dtype as dt

Array = Any

#: Formats to which a conversion saturates (PTX ISA, cvt: .satfinite is the only form for these).
SATURATING = {
    "float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float6_e2m3fn": 7.5, "float6_e3m2fn": 28.0, "float4_e2m1fn": 6.0,
}  # fmt: skip
#: Formats that have no NaN: it becomes the largest number (PTX ISA, cvt.satfinite).
WITHOUT_NAN = ("float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn")
#: Scale factors: powers of two from 2^-127 on, without a sign.
SCALE = "float8_e8m0fnu"


def widen(value: Array) -> Array:
    """Any float array as float64, exactly."""
    a = np.asarray(value)
    return (
        a
        if a.dtype == np.float64
        else a.astype(np.float32).astype(np.float64)
        if _is_extension(a)
        else a.astype(np.float64)
    )


def _is_extension(a: Array) -> bool:
    return a.dtype.kind not in "fiub"


def round_to(value: Array, dtype: str) -> Array:
    """A float64 array rounded once to the float ``dtype``, ties to even; narrow formats saturate."""
    value = np.asarray(value, dtype=np.float64)
    base = dt.element(dtype)
    target = np.dtype(dt.numpy_dtype(base))
    with np.errstate(all="ignore"):
        if base == "float64":
            return value
        if base in ("float32", "float16"):
            return value.astype(target)
        if base == "tfloat32":
            odd = _float32_odd(value).view(np.uint32)
            return ((odd + 0xFFF + ((odd >> 13) & 1)) & np.uint32(0xFFFFE000)).view(np.float32)
        if base in SATURATING:
            value = np.clip(value, -SATURATING[base], SATURATING[base])
            if base in WITHOUT_NAN:
                value = np.where(np.isnan(value), SATURATING[base], value)
        if base == SCALE:
            return _power_of_two(value, target)
        # Through float32 rounded to odd, so that the second rounding sees whether the first was exact.
        return _float32_odd(value).astype(target)


def _float32_odd(value: Array) -> Array:
    """float64 to float32, inexact results with the last bit set."""
    near = np.atleast_1d(value.astype(np.float32))
    back = near.astype(np.float64)
    toward_zero = np.where(np.abs(back) > np.abs(value), np.nextafter(near, np.float32(0)), near).astype(np.float32)
    bits = toward_zero.view(np.uint32)
    inexact = (toward_zero.astype(np.float64) != value) & np.isfinite(toward_zero)
    return np.where(inexact, bits | 1, bits).astype(np.uint32).view(np.float32).reshape(np.shape(value))


def _power_of_two(value: Array, target: Any) -> Array:
    """Scale factors: the next power of two not below the magnitude (cvt.rp.satfinite.ue8m0x2)."""
    mantissa, exponent = np.frexp(np.abs(value))
    power = np.where(value == 0, -127, np.where(np.isinf(value), 127, np.clip(exponent - (mantissa == 0.5), -127, 127)))
    return (
        np.where(np.isnan(value), np.float32(np.nan), np.ldexp(np.float32(1), power)).astype(np.float32).astype(target)
    )
