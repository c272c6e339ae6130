"""Calls that are functions of their operands' values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import Call
from ..ir import dtype as dt
from . import noise, values
from .expressions import evaluate, lazy
from .faults import InterpreterError
from .memory import Pointer
from .operands import arguments, pointer, to_number

if TYPE_CHECKING:
    from .machine import Machine

Array = Any
Handler = Callable[[Any, Call, Any], Any]


def _bitwise(op: Callable[[Array, Array], Array]) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        a, b = arguments(m, e, threads)
        if isinstance(a, Pointer):
            a = to_number(m, a)
        return op(np.asarray(a), np.asarray(b))

    return apply


def _not(m: Machine, e: Call, threads: Array) -> Array:
    value = ~np.asarray(evaluate(m, e.args[0], threads))
    return values.wrap(value, e.dtype) if dt.kind(e.dtype) == "uint" else value


def _shift(name: str) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        a, b = arguments(m, e, threads)
        return values.shift(name, a, b, e.dtype)

    return apply


def _if_then_else(m: Machine, e: Call, threads: Array) -> Any:
    return lazy(m, evaluate(m, e.args[0], threads), threads, e.args[1], e.args[2], e.dtype)


def _function(name: str) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        x = evaluate(m, e.args[0], threads)
        if not dt.is_float(e.args[0].dtype):
            if name in ("fabs", "abs"):
                return np.abs(x)
            if name in ("floor", "ceil", "round", "trunc", "nearbyint"):
                return np.asarray(x)
            raise InterpreterError(f"{name} of a {e.args[0].dtype}")
        if name not in values.EXACT and name != "abs":
            m.record.used(name)
        return values.unary("fabs" if name == "abs" else name, x, e.dtype)

    return apply


def _two(function: Callable[[Array, Array], Array]) -> Handler:
    """A function of two floats, in float64."""

    def apply(m: Machine, e: Call, threads: Array) -> Array:
        a, b = arguments(m, e, threads)
        m.record.used(e.op.short_name)
        with np.errstate(all="ignore"):
            made = function(values.widen(a), values.widen(b))
            if function is np.power:
                made = noise.power(values.widen(a), values.widen(b), made, dt.element(e.dtype))
            else:
                made = noise.function(e.op.short_name, made, e.dtype)
            return values.round_to(made, e.dtype)

    return apply


def _exact_two(function: Callable[[Array, Array], Array]) -> Handler:
    """A function of two floats that is exact."""
    return lambda m, e, t: values.round_to(function(*(values.widen(x) for x in arguments(m, e, t))), e.dtype)


def _test(function: Callable[[Array], Array]) -> Handler:
    return lambda m, e, t: function(values.widen(evaluate(m, e.args[0], t)))


def _fma(m: Machine, e: Call, threads: Array) -> Array:
    a, b, c = arguments(m, e, threads)
    return values.fma(a, b, c, e.dtype)


def _reinterpret(m: Machine, e: Call, threads: Array) -> Any:
    source = e.args[0].dtype if hasattr(e.args[0], "dtype") else "int32"
    value = evaluate(m, e.args[0], threads)
    if isinstance(value, Pointer):
        return value if dt.kind(e.dtype) == "handle" else to_number(m, value)
    if dt.kind(e.dtype) == "handle":
        return pointer(m, e.args[0], threads)
    lanes_in, lanes_out = dt.lanes(source), dt.lanes(e.dtype)
    raw = values.to_bytes(values.wrap(value, source), dt.element(source))
    if lanes_in > 1:
        raw = np.concatenate(list(raw), axis=-1)
    size = dt.storage_bits(dt.element(e.dtype)) // 8
    if raw.shape[-1] != size * lanes_out:
        raise InterpreterError(f"reinterpret: {source} has other bits than {e.dtype}")
    parts = [values.from_bytes(raw[..., k * size : (k + 1) * size], dt.element(e.dtype)) for k in range(lanes_out)]
    return parts[0] if lanes_out == 1 else np.stack([np.atleast_1d(p) for p in parts])


def _limit(which: str) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        kind, bits, _ = dt.parse(e.dtype)
        if which == "infinity":
            return values.round_to(np.float64(np.inf), e.dtype)
        if kind == "float":
            largest = dt.FLOAT_MAX.get(dt.element(e.dtype), np.finfo(np.float64).max)
            return values.round_to(np.float64(largest if which == "max" else -largest), e.dtype)
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "int" else (0, (1 << bits) - 1)
        return values.constant(high if which == "max" else low, e.dtype)

    return apply


def _round_float(source: str) -> Handler:
    return lambda m, e, t: values.convert(evaluate(m, e.args[0], t), e.args[0].dtype, source)


def _identity(m: Machine, e: Call, threads: Array) -> Any:
    return evaluate(m, e.args[0], threads)


def packed_parts(m: Machine, e: Any, threads: Array) -> tuple[Array, Array]:
    bits = np.asarray(evaluate(m, e, threads)).astype(np.uint64)
    return (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.float32), (bits >> np.uint64(32)).astype(
        np.uint32
    ).view(np.float32)


def pack(low: Array, high: Array) -> Array:
    a, b = (np.asarray(v, dtype=np.float32).view(np.uint32).astype(np.uint64) for v in (low, high))
    return a | (b << np.uint64(32))


def _packed(op: Callable[..., Array], operands: int) -> Handler:
    """Arithmetic on two floats in 64 bits."""

    def apply(m: Machine, e: Call, threads: Array) -> Array:
        parts = [packed_parts(m, a, threads) for a in e.args[:operands]]
        return pack(*(op(*(p[k] for p in parts)) for k in (0, 1)))

    return apply


def _three(op: Callable[[Array, Array], Array]) -> Handler:
    def apply(m: Machine, e: Call, threads: Array) -> Array:
        a, b, c = arguments(m, e, threads)
        return op(op(a, b), c)

    return apply


def add(a: Array, b: Array) -> Array:
    return a + b


def subtract(a: Array, b: Array) -> Array:
    return a - b


def multiply(a: Array, b: Array) -> Array:
    return a * b


def fma32(a: Array, b: Array, c: Array) -> Array:
    return values.fma(a, b, c, "float32")


def _bits(value: Array, dtype: str) -> Array:
    return np.ascontiguousarray(np.asarray(value).astype(dtype))


def _float_bits(m: Machine, e: Call, threads: Array) -> Array:
    return _bits(evaluate(m, e.args[0], threads), "float32").view(np.uint32).astype(np.int64)


def _ldexp(m: Machine, e: Call, threads: Array) -> Array:
    """The first operand times two to the power of the second, rounded once."""
    x, count = arguments(m, e, threads)
    with np.errstate(all="ignore"):
        return values.round_to(np.ldexp(values.widen(x), np.clip(np.asarray(count), -4000, 4000)), e.dtype)


def _nextafter(m: Machine, e: Call, threads: Array) -> Array:
    x, towards = (np.asarray(v) for v in arguments(m, e, threads))
    if e.dtype not in ("float32", "float64"):
        raise InterpreterError(f"nextafter of a {e.dtype}")
    with np.errstate(all="ignore"):
        return np.nextafter(x, towards)


def _find_first_set(m: Machine, e: Call, threads: Array) -> Array:
    """The number of the lowest one bit, from 1; 0 if there is none."""
    x = np.asarray(evaluate(m, e.args[0], threads)).astype(np.int64)
    return 32 - values.leading_zeros(x & -x, "uint32")


VALUES: dict[str, Handler] = {
    "tirx.bitwise_and": _bitwise(lambda a, b: a & b), "tirx.bitwise_or": _bitwise(lambda a, b: a | b),
    "tirx.bitwise_xor": _bitwise(lambda a, b: a ^ b), "tirx.bitwise_not": _not,
    "tirx.shift_left": _shift("shift_left"), "tirx.shift_right": _shift("shift_right"),
    "tirx.if_then_else": _if_then_else, "tirx.likely": _identity, "tirx.assume": _identity,
    "tirx.reinterpret": _reinterpret, "tirx.fma": _fma,
    "tirx.min_value": _limit("min"), "tirx.max_value": _limit("max"), "tirx.infinity": _limit("infinity"),
    "tirx.pow": _two(np.power), "tirx.power": _two(np.power), "tirx.atan2": _two(np.arctan2),
    "tirx.hypot": _two(np.hypot), "tirx.copysign": _exact_two(np.copysign),
    "tirx.ldexp": _ldexp, "tirx.nextafter": _nextafter,
    "tirx.fmod": lambda m, e, t: values.fmod(*arguments(m, e, t)),
    "tirx.popcount": lambda m, e, t: values.population_count(evaluate(m, e.args[0], t), e.args[0].dtype),
    "tirx.clz": lambda m, e, t: values.leading_zeros(evaluate(m, e.args[0], t), e.args[0].dtype),
    "tirx.isnan": _test(np.isnan), "tirx.isinf": _test(np.isinf), "tirx.isfinite": _test(np.isfinite),
    **{f"tirx.{n}": _function(n) for n in values.UNARY if n not in ("silu", "rcp", "reciprocal")},
    "tirx.abs": _function("abs"), "tirx.ptx.exp2": _function("exp2"), "tirx.ptx.rcp": _function("rcp"),
    "tirx.ptx.reduce3_max_f32": _three(values.maximum), "tirx.ptx.reduce3_min_f32": _three(values.minimum),
    "tirx.ptx.max_f32": lambda m, e, t: values.maximum(*(evaluate(m, a, t) for a in e.args[:2])),
    "tirx.cuda.half2float": _round_float("float32"), "tirx.cuda.bfloat162float": _round_float("float32"),
    "tirx.cuda.fdividef": lambda m, e, t: values.binary("Div", *arguments(m, e, t)),
    "tirx.cuda.uint_as_float": lambda m, e, t: _bits(evaluate(m, e.args[0], t), "uint32").view(np.float32),
    "tirx.cuda.float_as_uint": _float_bits,
    "tirx.cuda.ffs_u32": _find_first_set, "tirx.cuda.make_float2": lambda m, e, t: pack(*arguments(m, e, t)),
    "tirx.cuda.float2_x": lambda m, e, t: packed_parts(m, e.args[0], t)[0],
    "tirx.cuda.float2_y": lambda m, e, t: packed_parts(m, e.args[0], t)[1],
    "tirx.cuda.fmul2_rn": _packed(multiply, 2), "tirx.cuda.fadd2_rn": _packed(add, 2),
}  # fmt: skip
