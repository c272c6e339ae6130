"""Integer arithmetic (PTX ISA 9.7.1, 9.7.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirx_eq.sim.isa import INTEGERS, entry
from tirx_eq.sim.program import ALU, DTYPES, Decoder, Run
from tirx_eq.sim.text.syntax import Instr
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


def kind_of(instr: Instr) -> str:
    return instr.parts[-1]


def need(decoder: Decoder, instr: Instr, *counts: int) -> None:
    """Operand count check."""
    if len(instr.operands) not in counts:
        raise decoder.error(f"{len(instr.operands)} operands where {' or '.join(map(str, counts))} are needed")


def wider(kind: str) -> str:
    return kind[0] + str(2 * int(kind[1:]))


def simple(function: Callable[..., Array], arity: int) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    """Factory for ``op.type d, a, ...`` with all operands of one type."""
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        need(decoder, instr, arity + 1)
        kind = kind_of(instr)
        target = decoder.target(instr.operands[0], kind)
        sources = [decoder.source(o, kind) for o in instr.operands[1:]]
        if arity == 1:
            (a,) = sources
            return lambda w, g: target(w, g, function(a(w, g))), ALU
        if arity == 2:
            a, b = sources
            return lambda w, g: target(w, g, function(a(w, g), b(w, g))), ALU
        return lambda w, g: target(w, g, function(*[s(w, g) for s in sources])), ALU
    return build


# -- arithmetic -------------------------------------------------------------------------------------
def high(a: Array, b: Array) -> Array:
    """Upper half of the product, at the operands' width."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return ((a.astype(wide) * b.astype(wide)) >> bits).astype(a.dtype)
    x, y = a.astype(np.uint64), b.astype(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
    low = xl * yl
    mid = xh * yl + (low >> half)
    mid2 = xl * yh + (mid & mask)
    result = xh * yh + (mid >> half) + (mid2 >> half)
    if a.dtype.kind == "i":
        result = result - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return result.astype(a.dtype)


def multiply(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mul and mad, .lo .hi .wide."""
    kind = kind_of(instr)
    accumulate = instr.parts[0] == "mad"
    need(decoder, instr, 4 if accumulate else 3)
    a, b = (decoder.source(o, kind) for o in instr.operands[1:3])
    if "wide" in instr.parts:
        result = wider(kind)
        dtype = DTYPES[result]

        def product(w: Wave, g: Group) -> Array:
            return a(w, g).astype(dtype) * b(w, g).astype(dtype)
    elif "hi" in instr.parts:
        result = kind

        def product(w: Wave, g: Group) -> Array:
            return high(a(w, g), b(w, g))
    else:
        result = kind

        def product(w: Wave, g: Group) -> Array:
            return a(w, g) * b(w, g)
    target = decoder.target(instr.operands[0], result)
    if not accumulate:
        return lambda w, g: target(w, g, product(w, g)), ALU
    c = decoder.source(instr.operands[3], result)
    if "sat" in instr.parts:
        return lambda w, g: target(w, g, add_saturating(product(w, g), c(w, g))), ALU
    return lambda w, g: target(w, g, product(w, g) + c(w, g)), ALU


def divide(a: Array, b: Array) -> Array:
    """Integer division towards zero; by zero gives all ones."""
    zero = b == 0
    safe = np.where(zero, np.ones_like(b), b)
    with np.errstate(over="ignore"):
        if a.dtype.kind == "u":
            return np.where(zero, ~np.zeros_like(a), a // safe).astype(a.dtype)
        quotient = a // safe
        remainder = a - quotient * safe
        quotient = quotient + ((remainder != 0) & ((a < 0) != (safe < 0))).astype(a.dtype)
        return np.where(zero, ~np.zeros_like(a), quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    return np.where(b == 0, a, a - divide(a, b) * b).astype(a.dtype)


def add_saturating(a: Array, b: Array) -> Array:
    wide = a.astype(np.int64) + b.astype(np.int64)
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def sub_saturating(a: Array, b: Array) -> Array:
    wide = a.astype(np.int64) - b.astype(np.int64)
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def additive(plain: Callable[[Array, Array], Array], saturating: Callable[[Array, Array], Array]) \
        -> Callable[[Decoder, Instr], tuple[Run, int]]:
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        return simple(saturating if "sat" in instr.parts else plain, 2)(decoder, instr)
    return build


def carry(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """add.cc addc sub.cc subc mad.lo.cc madc: extended precision with the carry flag."""
    kind = kind_of(instr)
    unsigned = "u" + kind[1:]
    bits = int(kind[1:])
    name = instr.parts[0]
    operands = [decoder.source(o, unsigned) for o in instr.operands[1:]]
    target = decoder.target(instr.operands[0], unsigned)
    takes = name in ("addc", "subc", "madc")
    gives = "cc" in instr.parts
    upper = "hi" in instr.parts

    def run(w: Wave, g: Group) -> None:
        flag = w.scratch.setdefault("carry", np.zeros(w.T, np.uint64))
        if name.startswith("mad"):
            a, b, c = (o(w, g) for o in operands)
            x, y = (high(a, b) if upper else a * b), c
        else:
            x, y = (o(w, g) for o in operands)
        cin = flag[g.idx].astype(x.dtype) if takes else np.zeros(g.n, x.dtype)
        if name.startswith("sub"):
            result = x - y - cin
            borrow = (x < y) | ((x == y) & (cin > 0))
            out = borrow
        else:
            partial = x + y
            result = partial + cin
            out = (partial < x) | (result < partial)
        target(w, g, np.broadcast_to(result, (g.n,)).copy())
        if gives:
            flag[g.idx] = out
    del bits
    return run, ALU


# -- narrow and packed integers -----------------------------------------------------------------------
def multiply24(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mul24 and mad24, .lo or .hi: 24-bit factors, bits 0-31 or 16-47 of the product."""
    kind = kind_of(instr)
    a, b = (decoder.source(o, kind) for o in instr.operands[1:3])
    c = decoder.source(instr.operands[3], kind) if instr.parts[0] == "mad24" else None
    target = decoder.target(instr.operands[0], kind)
    upper, saturate = "hi" in instr.parts, "sat" in instr.parts

    def narrow(v: Array) -> Array:
        low = v.astype(np.int64) & 0xFFFFFF
        return low - ((low >> 23) << 24) if kind == "s32" else low

    def run(w: Wave, g: Group) -> None:
        product = narrow(a(w, g)) * narrow(b(w, g))
        value = product >> 16 if upper else product
        value = ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000
        if c is not None:
            value = value + c(w, g).astype(np.int64)
        if saturate:
            value = np.clip(value, -(1 << 31), (1 << 31) - 1)
        target(w, g, (value & 0xFFFFFFFF).astype(np.uint32).view(DTYPES[kind]))
    return run, ALU


def pairs16(function: Callable[[Array, Array], Array]) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    """Factory for the packed 16-bit integer types u16x2 and s16x2."""
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        need(decoder, instr, 3)
        dtype = np.uint16 if kind_of(instr) == "u16x2" else np.int16
        a, b = (decoder.wide(o, "u32") for o in instr.operands[1:])
        target = decoder.target(instr.operands[0], "u32")
        relu = "relu" in instr.parts

        def run(w: Wave, g: Group) -> None:
            x, y = (np.ascontiguousarray(v(w, g)).view(dtype) for v in (a, b))
            result = function(x, y)
            if relu:
                result = np.maximum(result, dtype(0))
            target(w, g, result.astype(dtype).view(np.uint32))
        return run, ALU
    return build


def extremum(function: Callable[[Array, Array], Array]) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    """min and max with .relu"""
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        if "relu" not in instr.parts:
            return simple(function, 2)(decoder, instr)
        return simple(lambda a, b: np.maximum(function(a, b), a.dtype.type(0)), 2)(decoder, instr)
    return build


def dot(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """dp4a.atype.btype: four 8-bit products; dp2a.{lo,hi}.atype.btype: two products of 16 bits by the lower or upper 8."""
    kinds = instr.parts[-2:]
    halves = instr.parts[0] == "dp2a"
    a, b = (decoder.wide(o, "u32") for o in instr.operands[1:3])
    signed = "s32" in kinds
    c = decoder.wide(instr.operands[3], "s32" if signed else "u32")
    target = decoder.target(instr.operands[0], "s32" if signed else "u32")
    first = 2 if "hi" in instr.parts else 0

    def pieces(value: Array, kind: str, bits: int) -> Array:
        return np.ascontiguousarray(value).view(f"{'i' if kind == 's32' else 'u'}{bits // 8}").reshape(len(value), -1)

    def run(w: Wave, g: Group) -> None:
        left = pieces(a(w, g), kinds[0], 16 if halves else 8).astype(np.int64)
        right = pieces(b(w, g), kinds[1], 8)
        total = c(w, g).astype(np.int64) + (left * (right[:, first : first + 2] if halves else right)).sum(axis=1)
        target(w, g, (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32 if signed else np.uint32))
    return run, ALU


def absolute(a: Array) -> Array:
    return np.where(a < 0, -a, a).astype(a.dtype)


def sad(a: Array, b: Array, c: Array) -> Array:
    return (np.where(a > b, a - b, b - a) + c).astype(a.dtype)


INT = INTEGERS - {"u8", "s8"}
ENTRIES = [
    *entry("add", "sat", additive(np.add, add_saturating), INT),
    *entry("sub", "sat", additive(np.subtract, sub_saturating), INT),
    *entry("add.cc sub.cc mad.lo.cc mad.hi.cc", "", carry, INT),
    *entry("addc subc madc", "cc lo hi", carry, INT),
    *entry("mul mad", "lo hi wide sat", multiply, INT),
    *entry("div", "", simple(divide, 2), INT), *entry("rem", "", simple(remainder, 2), INT),
    *entry("min", "relu", extremum(np.minimum), INT), *entry("max", "relu", extremum(np.maximum), INT),
    *entry("add", "u16x2 s16x2", pairs16(np.add)), *entry("min", "u16x2 s16x2 relu", pairs16(np.minimum)),
    *entry("max", "u16x2 s16x2 relu", pairs16(np.maximum)), *entry("mul24 mad24", "lo hi sat u32 s32", multiply24),
    *entry("abs", "", simple(absolute, 1), INT), *entry("neg", "", simple(np.negative, 1), INT),
    *entry("sad", "", simple(sad, 3), INT),
    *entry("dp2a", "lo hi u32 s32", dot), *entry("dp4a", "s32 u32", dot),
]
