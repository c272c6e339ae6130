"""Scalar arithmetic on arrays: one array element per thread (vectors: lanes first).

Integers narrower than 64 bits are held in int64 and are mathematical: they are cut to their width only where they are
stored or cast.  uint64 wraps.  Floats are held in their own dtype and every operation rounds once, to nearest even;
transcendental functions are evaluated in float64 and rounded.  min and max take the number if the other is a NaN, and
-0 is below +0 (IEEE 754-2019 minimumNumber, as PTX).
"""

from __future__ import annotations

from collections.abc import Callable
from math import fsum, isfinite
from typing import Any

import numpy as np

from ..ir import dtype as dt
from ..ir.rounding import SATURATING, SCALE, round_to, widen
from . import noise
from .faults import InterpreterError

Array = Any


def holding(dtype: str) -> np.dtype[Any]:
    """The numpy dtype in which values of ``dtype`` are computed."""
    kind, bits, _ = dt.parse(dtype)
    if kind in ("int", "uint"):
        return np.dtype(np.uint64 if kind == "uint" and bits == 64 else np.int64)
    return np.dtype(dt.numpy_dtype(dtype))


def wrap(value: Array, dtype: str) -> Array:
    """Integers cut to the width of ``dtype``, held as :func:`holding` says; other kinds are returned as they are."""
    kind, bits, _ = dt.parse(dtype)
    if kind == "bool":
        return np.asarray(value) != 0
    if kind not in ("int", "uint"):
        return value
    if bits == 64:
        return np.asarray(value).astype(holding(dtype))
    v = np.asarray(value).astype(np.int64) & ((1 << bits) - 1)
    return np.where(v >> (bits - 1) != 0, v - (1 << bits), v) if kind == "int" else v


def constant(value: Any, dtype: str) -> Array:
    """A 0-dimensional array with a constant of ``dtype``."""
    if dt.is_float(dtype):
        return np.asarray(round_to(np.float64(value), dtype))
    if dt.kind(dtype) == "bool":
        return np.asarray(bool(value))
    return np.asarray(int(value), dtype=holding(dtype))


def convert(value: Array, source: str, target: str) -> Array:
    """A value of dtype ``source`` as ``target``.

    Float to integer rounds towards zero and saturates (NaN gives 0); between integers the low bits are kept; to bool:
    is it non-zero.
    """
    a, b = dt.element(source), dt.element(target)
    if a == b:
        return value
    if dt.kind(b) == "bool":
        return np.asarray(widen(value) if dt.is_float(a) else value) != 0
    if dt.is_float(b):
        if dt.is_float(a):
            return round_to(widen(value), b)
        whole = np.asarray(value)
        near = whole.astype(np.float64)
        if b == "float64" or not np.any(np.abs(near) >= 2.0**53):
            return round_to(near, b)
        # Beyond 53 bits, rounded to odd first, they are rounded once.
        rest = [int(x) - int(y) for x, y in zip(whole.ravel().tolist(), near.ravel().tolist())]
        odd = _to_odd(near.ravel(), np.asarray(rest, dtype=np.float64))
        return round_to(odd.reshape(whole.shape), b)
    if not dt.is_float(a):
        return wrap(np.asarray(value).astype(np.int64) if dt.kind(a) == "bool" else value, b)
    kind, bits, _ = dt.parse(b)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "int" else (0, (1 << bits) - 1)
    whole = np.trunc(np.nan_to_num(widen(value), nan=0.0, posinf=np.inf, neginf=-np.inf))
    inside = np.clip(whole, float(low), float(high))
    # float(high) of 64-bit types is one too many; handle the end point by itself.
    safe = np.where(inside >= float(high), 0.0, inside)
    made = safe.astype(holding(b))
    return np.where(inside >= float(high), np.asarray(high, dtype=holding(b)), made)


# -- binary operators -------------------------------------------------------------------------------------------------


def _check_divisor(b: Array) -> None:
    if np.any(np.asarray(b) == 0):
        raise InterpreterError("an integer division by zero")


def _floor_div(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind in "iu":
        _check_divisor(b)
    return np.floor_divide(a, b)


def _floor_mod(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind in "iu":
        _check_divisor(b)
        return np.remainder(a, b)
    return a - np.floor_divide(a, b) * b


def _div(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind not in "iu":
        return a / b
    _check_divisor(b)
    if np.asarray(a).dtype.kind == "u":
        return a // b
    q = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -q, q)


def _mod(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind not in "iu":
        return fmod(a, b)
    return a - b * _div(a, b)


def minimum(a: Array, b: Array) -> Array:
    """The smaller; a number rather than a NaN; -0 rather than +0."""
    a, b = np.broadcast_arrays(a, b)
    if a.dtype.kind in "iub":
        return np.minimum(a, b)
    x, y = widen(a), widen(b)
    return np.where((x < y) | np.isnan(y) | ((x == y) & np.signbit(x)), a, b)


def maximum(a: Array, b: Array) -> Array:
    """The larger; a number rather than a NaN; +0 rather than -0."""
    a, b = np.broadcast_arrays(a, b)
    if a.dtype.kind in "iub":
        return np.maximum(a, b)
    x, y = widen(a), widen(b)
    return np.where((x > y) | np.isnan(y) | ((x == y) & ~np.signbit(x)), a, b)


#: Node name -> function of two arrays of one dtype.
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Div": _div, "Mod": _mod, "FloorDiv": _floor_div, "FloorMod": _floor_mod, "Min": minimum, "Max": maximum,
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "LT": lambda a, b: a < b, "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b, "GE": lambda a, b: a >= b,
}  # fmt: skip


def binary(name: str, a: Array, b: Array) -> Array:
    """The value of a binary node."""
    a, b = np.asarray(a), np.asarray(b)
    if name in _NUMBERS_ONLY and a.dtype == b.dtype == np.bool_:
        raise InterpreterError(f"{name} of truth values: cast them first")
    if name == "Mul" and a.dtype == np.int64 and a.size and b.size and _size(a) * _size(b) >= 1 << 63:
        raise InterpreterError("an integer product beyond 64 bits")
    with np.errstate(all="ignore"):
        if name in _ROUNDED and a.dtype.name in _CONVERTED:
            exact = _sum if name == "Add" and a.dtype.name == SCALE else BINARY[name]
            made = round_to(exact(widen(a), widen(b)), a.dtype.name)
        else:
            made = BINARY[name](a, b)
    return made if name not in _ROUNDED or not noise.active() else _disturbed(made)


def _sum(a: Array, b: Array) -> Array:
    """A sum in float64, of which a later rounding in any direction is that of the exact sum."""
    total = a + b
    rest = total - a
    error = (a - (total - rest)) + (b - rest)
    return _to_odd(total, np.where(np.isfinite(total), error, 0.0)).reshape(np.shape(total))


def total(wide: Array, axes: tuple[int, ...], dtype: str) -> Array:
    """The sum of float64 values over ``axes``, which keep extent 1; for scale factors one that is rounded as the exact sum."""
    made = np.sum(wide, axis=axes, keepdims=True)
    if dtype != SCALE:
        return made
    rows = np.moveaxis(wide, axes, range(-len(axes), 0)).reshape(made.size, -1).tolist()
    near = [fsum(row) for row in rows]
    rest = [fsum([*row, -x]) if isfinite(x) else 0.0 for row, x in zip(rows, near)]
    return _to_odd(np.array(near), np.array(rest)).reshape(made.shape)


#: Formats without arithmetic of their own: results are converted to them, which saturates.
_CONVERTED = frozenset((*SATURATING, SCALE))
#: Operators that truth values don't have; a sum is true if any is, a product if all are.
_NUMBERS_ONLY = frozenset(("Sub", "Div", "Mod", "FloorDiv", "FloorMod"))
#: Operators that round.
_ROUNDED = frozenset(("Add", "Sub", "Mul", "Div"))


def _disturbed(made: Array) -> Array:
    """A float result off by a rounding."""
    made = np.asarray(made)
    if made.dtype.kind in "iub":
        return made
    return round_to(noise.rounding(widen(made), made.dtype.name), made.dtype.name)


def _size(a: Array) -> int:
    return max(abs(int(a.min())), abs(int(a.max())))


def shift(name: str, a: Array, count: Array, dtype: str) -> Array:
    """``shift_left`` and ``shift_right`` (arithmetic for signed); counts must be within 0 … width - 1."""
    bits = dt.bits(dtype)
    count = np.asarray(count)
    if np.any((count < 0) | (count >= bits)):
        raise InterpreterError(
            f"a shift of a {dtype} by {int(count.flat[np.argmax((count < 0) | (count >= bits))])} bits"
        )
    a = np.asarray(a)
    count = count.astype(a.dtype)
    return a << count if name == "shift_left" else a >> count


# -- functions --------------------------------------------------------------------------------------------------------


def fma(a: Array, b: Array, c: Array, dtype: str) -> Array:
    """``a * b + c`` rounded once."""
    if not dt.is_float(dtype):
        return np.asarray(a) * b + c
    if dt.element(dtype) == "float64":
        return _fma64(a, b, c)
    x, y, z = (widen(v) for v in (a, b, c))
    with np.errstate(all="ignore"):
        product = x * y  # exact: at most 2 * 24 bits
        total = product + z
        rest = total - product
        error = (product - (total - rest)) + (z - rest)
        made = _to_odd(total, np.where(np.isfinite(total), error, 0.0))
    return round_to(noise.rounding(made, dt.element(dtype)), dtype)


def _to_odd(total: Array, error: Array) -> Array:
    """``total + error`` with |error| below one unit of total: rounded so that a later rounding is right."""
    total = np.array(total, dtype=np.float64, ndmin=1)
    error = np.broadcast_to(np.asarray(error, dtype=np.float64), total.shape)
    bits = total.view(np.int64)
    change = (error != 0) & (bits & 1 == 0) & (total != 0) & np.isfinite(total)
    step = np.where((error > 0) == (total > 0), 1, -1)
    return np.where(change, (bits + step).view(np.float64), np.where(total == 0, total + error, total))


def _fma64(a: Array, b: Array, c: Array) -> Array:
    from fractions import Fraction

    x, y, z = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (a, b, c)))
    plain = np.array(x * y + z, ndmin=1)
    flat = plain.reshape(-1)
    for k, (p, q, r) in enumerate(zip(x.flat, y.flat, z.flat)):
        if np.isfinite(p) and np.isfinite(q) and np.isfinite(r):
            exact = Fraction(float(p)) * Fraction(float(q)) + Fraction(float(r))
            flat[k] = float(exact) if exact else flat[k]
    return plain.reshape(x.shape)


def fmod(a: Array, b: Array) -> Array:
    """The remainder with the sign of ``a``."""
    if np.asarray(a).dtype.kind == "f":
        return np.fmod(a, b)
    return np.fmod(np.asarray(a).astype(np.float32), np.asarray(b).astype(np.float32)).astype(np.asarray(a).dtype)


def _erf(x: Array) -> Array:
    from math import erf

    return np.vectorize(erf, otypes=[np.float64])(x) if np.size(x) else x


def _logistic(x: Array) -> Array:
    """1 / (1 + e^-x) without overflow."""
    grown = np.exp(-np.abs(x))
    return np.where(x < 0, grown, 1.0) / (1.0 + grown)


#: Functions of one float, in float64.
UNARY: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "expm1": np.expm1, "cbrt": np.cbrt,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1.0 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "sigmoid": _logistic, "silu": lambda x: x * _logistic(x), "erf": _erf,
    "reciprocal": lambda x: 1.0 / x, "rcp": lambda x: 1.0 / x, "fabs": np.abs, "floor": np.floor, "ceil": np.ceil,
    "trunc": np.trunc, "nearbyint": np.rint, "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
#: Those whose result is exact or correctly rounded on the target too; the others are approximate there.
EXACT = frozenset(("sqrt", "fabs", "floor", "ceil", "trunc", "nearbyint", "round"))


def unary(name: str, x: Array, dtype: str) -> Array:
    """A function of one argument, rounded to ``dtype``."""
    with np.errstate(all="ignore"):
        made = UNARY[name](widen(x))
    return round_to(made if name in EXACT else noise.function(name, made, dtype), dtype)


def population_count(x: Array, dtype: str) -> Array:
    """The number of one bits."""
    v = np.array(wrap(x, dtype)).astype(np.int64).view(np.uint64)
    bits = dt.bits(dtype)
    if bits < 64:
        v = v & np.uint64((1 << bits) - 1)
    total = np.zeros(v.shape, dtype=np.int64)
    for k in range(bits):
        total += ((v >> np.uint64(k)) & np.uint64(1)).astype(np.int64)
    return total


def leading_zeros(x: Array, dtype: str) -> Array:
    """Zero bits above the highest one bit (all of them for 0)."""
    bits = dt.bits(dtype)
    v = np.array(wrap(x, dtype)).astype(np.int64).view(np.uint64)
    if bits < 64:
        v = v & np.uint64((1 << bits) - 1)
    length = np.zeros(v.shape, dtype=np.int64)
    for k in range(bits):
        length = np.where((v >> np.uint64(k)) != 0, k + 1, length)
    return bits - length


def to_bytes(value: Array, dtype: str) -> Array:
    """The little-endian bytes of values (a last dimension is added); ``dtype`` has whole bytes."""
    storage = np.dtype(np.uint8) if dt.kind(dtype) == "bool" else np.dtype(dt.numpy_dtype(dtype))
    a = np.ascontiguousarray(np.asarray(value).astype(storage))
    return a.reshape(*a.shape, 1).view(np.uint8)


def from_bytes(raw: Array, dtype: str) -> Array:
    """Values from their little-endian bytes in the last dimension, held as :func:`holding` says."""
    if dt.kind(dtype) == "bool":
        return raw[..., 0] != 0
    made = np.ascontiguousarray(raw).view(dt.numpy_dtype(dtype))[..., 0]
    return made.astype(holding(dtype)) if dt.is_integer(dtype) else made
