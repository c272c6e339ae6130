"""Floating-point instructions (PTX ISA 9.7.3-9.7.5): f32/f64 with IEEE rounding modes, f16, bf16 and packed types.

Sums and products of f32 are formed in float64, exactly or rounded to odd, and rounded once; ``approx`` functions return
the correctly rounded value, which lies within every stated error bound, or what is as far off as that (:mod:`approximate`).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from tirx_eq.sim.arithmetic.alu import need
from tirx_eq.sim.arithmetic.approximate import worst, worst_narrow
from tirx_eq.sim.arithmetic.formats import exact_sum, float_source, float_target, flush, round_f32, widen
from tirx_eq.sim.isa import FLOATS, entry
from tirx_eq.sim.program import ALU, Decoder, Run
from tirx_eq.sim.text.syntax import Instr
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray
MODES = ("rn", "rz", "rm", "rp")


def exact(name: str, a: Array, b: Array, c: Array | None) -> Array:
    """The operation on float32 or half operands, in float64, rounded to odd where float64 is not exact."""
    x, y = a.astype(np.float64), b.astype(np.float64)
    if name == "add":
        return exact_sum(x, y)
    if name == "sub":
        return exact_sum(x, -y)
    if name == "mul":
        return x * y
    assert c is not None
    return exact_sum(x * y, c.astype(np.float64))


def fma64(a: Array, b: Array, c: Array) -> Array:
    """float64 fma by exact rational arithmetic (rare, so one element at a time)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    plain = a * b + c
    result = []
    for x, y, z, p in zip(a.tolist(), b.tolist(), c.tolist(), plain.tolist()):
        if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
            result.append(p)
            continue
        value = Fraction(x) * Fraction(y) + Fraction(z)
        # Beyond the largest number the plain result is infinite too; nearer, it is the fraction's.
        result.append(float(value) if value and np.isfinite(p) else p)
    return np.array(result)


def arithmetic(name: str) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        kind = next(p for p in reversed(instr.parts) if p in FLOATS)
        operands = instr.operands
        need(decoder, instr, 4 if name == "fma" else 3)
        target = float_target(decoder, operands[0], kind)
        mixed = len([p for p in instr.parts if p in FLOATS]) == 2
        low = instr.parts[-1] if mixed else kind
        if mixed:
            kind = next(p for p in instr.parts if p in FLOATS)
            target = float_target(decoder, operands[0], kind)
        reads = [float_source(decoder, o, low) for o in operands[1:]]
        if mixed:
            reads[-1] = float_source(decoder, operands[-1], kind)
        mode = next((p for p in instr.parts if p in MODES), "rn")
        ftz, sat, relu = "ftz" in instr.parts, "sat" in instr.parts, "relu" in instr.parts

        fill = "oob" in instr.parts
        if fill and (name != "fma" or kind.replace("x2", "") not in ("f16", "bf16")):
            raise decoder.error(".oob goes with fma of f16 and bf16")

        def run(w: Wave, g: Group) -> None:
            values = [r(w, g) for r in reads]
            if kind == "f64":
                if name == "fma":
                    result = fma64(*values)
                else:
                    result = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](*values)
                target(w, g, result)
                return
            if kind == "f32" and mode == "rn" and name != "fma" and not ftz:
                result = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[name](*values)
            else:
                if ftz and kind in ("f32", "f32x2"):
                    values = [flush(v) for v in values]
                result = exact(name, values[0], values[1], values[2] if name == "fma" else None)
                if kind in ("f32", "f32x2"):
                    result = round_f32(result, mode)
                    if ftz:
                        result = flush(result)
            if sat:
                result = np.where(np.isnan(result), np.float32(0), np.clip(result, np.float32(0), np.float32(1)))
            if relu:
                result = np.where(result > 0, result, result * 0)
            if fill:
                # what a tensor map with NaN fill writes outside of the tensor counts as a product of zero
                outside = is_fill(values[0], kind) | is_fill(values[1], kind)
                result = np.where(outside, result.dtype.type(0), result)
            target(w, g, result)
        return run, ALU
    return build


def is_fill(value: Array, kind: str) -> Array:
    """Where float32 values, widened from f16 or bf16, are the NaN that fills a box outside of its tensor (0x7FFF)."""
    pattern = widen(np.array([0x7FFF], np.uint16), kind.replace("x2", "")).view(np.uint32)
    found: Array = np.ascontiguousarray(value, np.float32).view(np.uint32) == pattern
    return found


def minimum(a: Array, b: Array) -> Array:
    return np.where(a == b, np.where(np.signbit(a), a, b), np.fmin(a, b))


def maximum(a: Array, b: Array) -> Array:
    return np.where(a == b, np.where(np.signbit(a), b, a), np.fmax(a, b))


def extremum(pick: Callable[[Array, Array], Array]) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    """min and max, two or three operands, .NaN and .xorsign.abs"""
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        kind = instr.parts[-1]
        need(decoder, instr, 3, 4)
        reads = [float_source(decoder, o, kind) for o in instr.operands[1:]]
        target = float_target(decoder, instr.operands[0], kind)
        propagate, magnitude, signs = "NaN" in instr.parts, "abs" in instr.parts, "xorsign" in instr.parts
        ftz = "ftz" in instr.parts

        def run(w: Wave, g: Group) -> None:
            raw = [r(w, g) for r in reads]
            if ftz and kind == "f32":
                raw = [flush(v) for v in raw]
            values = [np.abs(v) for v in raw] if magnitude else raw
            result = values[0]
            for other in values[1:]:
                result = pick(result, other)
            if propagate:
                for v in values:
                    result = np.where(np.isnan(v), np.float32(np.nan).astype(v.dtype), result)
            if signs:
                negative = np.signbit(raw[0]) ^ np.signbit(raw[1])
                result = np.where(negative, -result, result)
            target(w, g, result)
        return run, ALU
    return build


def unary(function: Callable[[Array], Array], double: bool = False) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    """One-operand functions; evaluated in float64 when ``double`` and rounded once."""
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        kind = instr.parts[-1]
        need(decoder, instr, 2)
        read = float_source(decoder, instr.operands[1], kind)
        target = float_target(decoder, instr.operands[0], kind)
        ftz = "ftz" in instr.parts
        inexact = "approx" in instr.parts and kind == "f32"
        narrow = kind.removesuffix("x2") if "approx" in instr.parts and kind not in ("f32", "f64") else ""
        mode = next((p for p in instr.parts if p in MODES), "rn")

        def run(w: Wave, g: Group) -> None:
            value = read(w, g)
            if ftz and kind == "f32":
                value = flush(value)
            if double and kind != "f64":
                result = function(value.astype(np.float64))
                if inexact and w.context.approximations == "worst":
                    result = worst(instr.parts[0], value, result)
                elif narrow and w.context.approximations == "worst":
                    result = worst_narrow(instr.parts[0], narrow, value, result)
                if kind == "f32":
                    result = round_f32(result, mode)
            else:
                result = function(value)
            if ftz and kind == "f32":
                result = flush(result)
            target(w, g, result)
        return run, ALU
    return build


def division(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    kind = instr.parts[-1]
    need(decoder, instr, 3)
    a, b = (decoder.source(o, kind) for o in instr.operands[1:])
    target = decoder.target(instr.operands[0], kind)
    mode = next((p for p in instr.parts if p in MODES), "rn")
    ftz = "ftz" in instr.parts
    inexact = "approx" in instr.parts or "full" in instr.parts

    def run(w: Wave, g: Group) -> None:
        x, y = a(w, g), b(w, g)
        if kind == "f64":
            target(w, g, x / y)
            return
        if ftz:
            x, y = flush(x), flush(y)
        quotient = x.astype(np.float64) / y.astype(np.float64)
        if inexact and w.context.approximations == "worst":
            quotient = worst("div", x, quotient)
        result = round_f32(quotient, mode)
        target(w, g, flush(result) if ftz else result)
    return run, ALU


def negate(value: Array) -> Array:
    return -value


def copysign(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """copysign d, a, b: the sign of a with the magnitude of b."""
    kind = instr.parts[-1]
    a, b = (decoder.source(o, kind) for o in instr.operands[1:])
    target = decoder.target(instr.operands[0], kind)
    return lambda w, g: target(w, g, np.copysign(b(w, g), a(w, g))), ALU


def test(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """testp"""
    kind = instr.parts[-1]
    a = decoder.source(instr.operands[1], kind)
    target = decoder.target(instr.operands[0], "pred")
    tiny = np.finfo(np.float32 if kind == "f32" else np.float64).tiny
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite, "infinite": np.isinf, "number": lambda v: ~np.isnan(v), "notanumber": np.isnan,
        "normal": lambda v: np.isfinite(v) & (np.abs(v) >= tiny),
        "subnormal": lambda v: (v != 0) & (np.abs(v) < tiny),
    }
    function = tests[instr.parts[1]]
    return lambda w, g: target(w, g, np.broadcast_to(function(a(w, g)), (g.n,)).copy()), ALU


ROUNDING = "rn rz rm rp ftz sat relu"
ENTRIES = [
    *[e for name in ("add", "sub", "mul", "fma") for e in entry(name, ROUNDING + " oob", arithmetic(name), FLOATS)],
    *entry("mad", ROUNDING, arithmetic("fma"), {"f32", "f64"}),
    *entry("min", "ftz NaN xorsign abs", extremum(minimum), FLOATS),
    *entry("max", "ftz NaN xorsign abs", extremum(maximum), FLOATS),
    *entry("abs", "ftz", unary(np.abs), FLOATS), *entry("neg", "ftz", unary(negate), FLOATS),
    *entry("div", "rn rz rm rp ftz full approx", division, {"f32", "f64"}),
    *entry("rcp", "rn rz rm rp ftz approx", unary(lambda v: 1.0 / v, True), {"f32", "f64"}),
    *entry("sqrt", "rn rz rm rp ftz approx", unary(np.sqrt, True), {"f32", "f64"}),
    *entry("rsqrt", "ftz approx", unary(lambda v: 1.0 / np.sqrt(v), True), {"f32", "f64"}),
    *entry("sin", "ftz approx", unary(np.sin, True), {"f32"}), *entry("cos", "ftz approx", unary(np.cos, True), {"f32"}),
    *entry("lg2", "ftz approx", unary(np.log2, True), {"f32"}),
    *entry("ex2", "ftz approx", unary(np.exp2, True), FLOATS),
    *entry("tanh", "approx", unary(np.tanh, True), FLOATS), *entry("copysign", "", copysign, {"f32", "f64"}),
    *entry("testp", "finite infinite number notanumber normal subnormal", test, {"f32", "f64"}),
]
