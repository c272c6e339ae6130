"""Integer arithmetic, logic and shifts (PTX ISA 9.7.1, 9.7.2, 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirx_eq.sim.isa import BITS, INTEGERS, TYPES, entry
from tirx_eq.sim.program import ALU, DTYPES, Decoder, Reader, Run, Writer
from tirx_eq.sim.syntax import Imm, Instr, Pair
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


# -- bits -------------------------------------------------------------------------------------------
def logic(function: Callable[..., Array], arity: int) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    return simple(function, arity)


def shift(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    kind = kind_of(instr)
    need(decoder, instr, 3)
    left = instr.parts[0] == "shl"
    bits = int(kind[1:])
    a = decoder.source(instr.operands[1], kind)
    n = decoder.source(instr.operands[2], "u32")
    target = decoder.target(instr.operands[0], kind)
    dtype = np.dtype(DTYPES[kind])

    def run(w: Wave, g: Group) -> None:
        amount = n(w, g)
        value = a(w, g)
        if left or dtype.kind == "u":
            safe = np.minimum(amount, bits - 1).astype(dtype)
            result = value << safe if left else value >> safe
            result = np.where(amount >= bits, dtype.type(0), result)
        else:
            result = value >> np.minimum(amount, bits - 1).astype(dtype)
        target(w, g, result)
    return run, ALU


def popcount(a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def leading(a: Array) -> Array:
    """Count of leading zeros."""
    bits = a.dtype.itemsize * 8
    count = np.zeros(a.shape, np.uint32)
    value = a.copy()
    step = bits // 2
    while step:
        empty = value >> a.dtype.type(bits - step) == 0
        count += np.where(empty, step, 0).astype(np.uint32)
        value = np.where(empty, value << a.dtype.type(step), value)
        step //= 2
    return count + (a == 0).astype(np.uint32)


def counted(function: Callable[[Array], Array]) -> Callable[[Decoder, Instr], tuple[Run, int]]:
    """Factory for bit counts: the result is 32 bits whatever the operand."""
    def build(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
        need(decoder, instr, 2)
        a = decoder.source(instr.operands[1], kind_of(instr))
        target = decoder.target(instr.operands[0], "u32")
        return lambda w, g: target(w, g, function(a(w, g))), ALU
    return build


def find(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    kind = kind_of(instr)
    a = decoder.source(instr.operands[1], kind)
    target = decoder.target(instr.operands[0], "u32")
    bits = int(kind[1:])
    amount = "shiftamt" in instr.parts

    def run(w: Wave, g: Group) -> None:
        value = a(w, g)
        if kind[0] == "s":
            value = np.where(value < 0, ~value, value)
        unsigned = value.astype(f"u{bits // 8}")
        zeros = leading(unsigned)
        result = zeros if amount else (np.uint32(bits - 1) - zeros)
        target(w, g, np.where(unsigned == 0, np.uint32(0xFFFFFFFF), result).astype(np.uint32))
    return run, ALU


def reverse(a: Array) -> Array:
    bits = a.dtype.itemsize * 8
    result = np.zeros_like(a)
    one = a.dtype.type(1)
    for i in range(bits):
        result |= ((a >> a.dtype.type(i)) & one) << a.dtype.type(bits - 1 - i)
    return result


def extract(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """bfe"""
    kind = kind_of(instr)
    bits = int(kind[1:])
    a = decoder.source(instr.operands[1], kind)
    position, length = (decoder.source(o, "u32") for o in instr.operands[2:4])
    target = decoder.target(instr.operands[0], kind)

    if bits == 32:
        return extract32(a, position, length, target, kind), ALU

    def run(w: Wave, g: Group) -> None:
        value = a(w, g).astype(object)
        p = position(w, g).astype(np.int64) & 0xFF
        n = length(w, g).astype(np.int64) & 0xFF
        result = []
        for v, pp, nn in np.broadcast(value, p, n):
            v, pp, nn = int(v), int(pp), int(nn)
            unsigned = v & ((1 << bits) - 1)
            field = (unsigned >> pp) & ((1 << nn) - 1)
            if kind[0] == "s" and nn and pp + nn > 0:
                top = min(pp + nn - 1, bits - 1)
                if (unsigned >> top) & 1:
                    field |= -1 << max(0, min(nn, top - pp + 1))
            result.append(field & ((1 << bits) - 1))
        target(w, g, np.array(result, f"u{bits // 8}").view(DTYPES[kind]))
    return run, ALU


def extract32(a: Reader, position: Reader, length: Reader, target: Writer, kind: str) -> Run:
    """bfe on 32 bits, in 64-bit arithmetic."""
    def run(w: Wave, g: Group) -> None:
        p = (position(w, g) & np.uint32(0xFF)).astype(np.int64)
        n = (length(w, g) & np.uint32(0xFF)).astype(np.int64)
        value = a(w, g).view(np.uint32).astype(np.int64)
        near, some = np.minimum(p, 32), np.minimum(n, 33)
        field = (value >> near) & ((np.int64(1) << some) - 1)
        if kind[0] == "s":
            sign = (value >> np.minimum(np.maximum(p + n - 1, 0), 31)) & 1
            first = np.minimum(n, np.maximum(32 - p, 0))
            field = np.where((n > 0) & (sign > 0), field | (-np.int64(1) << first), field)
        target(w, g, (field & 0xFFFFFFFF).astype(np.uint32).view(DTYPES[kind]))
    return run


def insert(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """bfi"""
    kind = kind_of(instr)
    bits = int(kind[1:])
    a, b = (decoder.source(o, kind) for o in instr.operands[1:3])
    position, length = (decoder.source(o, "u32") for o in instr.operands[3:5])
    target = decoder.target(instr.operands[0], kind)

    def run(w: Wave, g: Group) -> None:
        dtype = np.dtype(DTYPES[kind])
        p = np.minimum(position(w, g) & 0xFF, bits).astype(dtype)
        n = np.minimum(length(w, g) & 0xFF, bits).astype(dtype)
        ones = np.where(n >= bits, ~dtype.type(0), (dtype.type(1) << np.minimum(n, bits - 1).astype(dtype))
                        - dtype.type(1)).astype(dtype)
        inside = np.where(p >= bits, dtype.type(0), ones << np.minimum(p, bits - 1).astype(dtype)).astype(dtype)
        moved = np.where(p >= bits, dtype.type(0), a(w, g) << np.minimum(p, bits - 1).astype(dtype)).astype(dtype)
        target(w, g, (b(w, g) & ~inside) | (moved & inside))
    return run, ALU


def permute(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """prmt"""
    need(decoder, instr, 4)
    a, b, c = (decoder.source(o, "u32") for o in instr.operands[1:4])
    target = decoder.target(instr.operands[0], "u32")
    modes = {"f4e": lambda s, i: (s + i) & 7, "b4e": lambda s, i: (s - i) & 7, "rc8": lambda s, i: s & 3,
             "ecl": lambda s, i: np.maximum(s & 3, i), "ecr": lambda s, i: np.minimum(s & 3, i),
             "rc16": lambda s, i: (s & 1) * 2 + (i & 1)}
    mode = next((p for p in instr.parts if p in modes), None)

    def run(w: Wave, g: Group) -> None:
        joined = a(w, g).astype(np.uint64) | (b(w, g).astype(np.uint64) << np.uint64(32))
        selector = c(w, g)
        result = np.zeros(g.n, np.uint32)
        for i in range(4):
            if mode:
                index = modes[mode](selector & np.uint32(3), i)
                sign = np.zeros(1, bool)
            else:
                nibble = (selector >> np.uint32(4 * i)) & np.uint32(15)
                index, sign = nibble & np.uint32(7), (nibble & 8) != 0
            byte = ((joined >> (np.asarray(index).astype(np.uint64) * np.uint64(8))) & np.uint64(255)).astype(np.uint32)
            byte = np.where(sign, np.where(byte & 0x80, np.uint32(255), np.uint32(0)), byte)
            result |= byte.astype(np.uint32) << np.uint32(8 * i)
        target(w, g, result)
    return run, ALU


def lop3(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    operands = instr.operands
    destination = operands[0].first if isinstance(operands[0], Pair) else operands[0]
    join = next((p for p in instr.parts if p in ("and", "or", "xor")), "")
    if bool(join) != isinstance(operands[0], Pair):
        raise decoder.error("d|p goes with .and, .or or .xor")
    flag = decoder.target(operands[0].second, "pred") if isinstance(operands[0], Pair) else None
    other = decoder.source(operands[5], "pred") if join else None
    a, b, c = (decoder.source(o, "u32") for o in operands[1:4])
    if not isinstance(operands[4], Imm) or not 0 <= operands[4].value < 256:
        raise decoder.error("the lookup table must be a constant in 0..255")
    lut = operands[4].value
    target = decoder.target(destination, "u32")

    def run(w: Wave, g: Group) -> None:
        x, y, z = a(w, g), b(w, g), c(w, g)
        result = np.zeros(g.n, np.uint32)
        for i in range(8):
            if lut >> i & 1:
                result |= (x if i & 4 else ~x) & (y if i & 2 else ~y) & (z if i & 1 else ~z)
        nonzero = result != 0
        target(w, g, result)
        if flag and other:
            ops = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
            flag(w, g, ops[join](nonzero, other(w, g)))
    return run, ALU


def funnel(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """shf.l / shf.r with .wrap or .clamp"""
    a, b, n = (decoder.source(o, "u32") for o in instr.operands[1:4])
    target = decoder.target(instr.operands[0], "u32")
    left, wrap = "l" in instr.parts, "wrap" in instr.parts

    def run(w: Wave, g: Group) -> None:
        amount = n(w, g).astype(np.uint64)
        amount = amount & np.uint64(31) if wrap else np.minimum(amount, np.uint64(32))
        joined = a(w, g).astype(np.uint64) | (b(w, g).astype(np.uint64) << np.uint64(32))
        result = (joined << amount) >> np.uint64(32) if left else joined >> amount
        target(w, g, result.astype(np.uint32))
    return run, ALU


def mask(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """bmsk.clamp / .wrap"""
    a, b = (decoder.source(o, "u32") for o in instr.operands[1:3])
    target = decoder.target(instr.operands[0], "u32")
    wrap = "wrap" in instr.parts

    def run(w: Wave, g: Group) -> None:
        p, n = a(w, g).astype(np.uint64), b(w, g).astype(np.uint64)
        if wrap:
            p, n = p & np.uint64(31), n & np.uint64(31)
        p, n = np.minimum(p, np.uint64(32)), np.minimum(n, np.uint64(32))
        target(w, g, (((np.uint64(1) << n) - np.uint64(1)) << p).astype(np.uint32))
    return run, ALU


def dot4(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """dp4a.atype.btype"""
    kinds = instr.parts[-2:]
    a, b = (decoder.source(o, "u32") for o in instr.operands[1:3])
    signed = "s32" in kinds
    c = decoder.source(instr.operands[3], "s32" if signed else "u32")
    target = decoder.target(instr.operands[0], "s32" if signed else "u32")

    def run(w: Wave, g: Group) -> None:
        total = np.broadcast_to(c(w, g), (g.n,)).astype(np.int64)
        values = []
        for reader, kind in zip((a, b), kinds):
            raw = np.ascontiguousarray(np.broadcast_to(reader(w, g), (g.n,)))
            values.append(raw.view(np.int8 if kind == "s32" else np.uint8).reshape(g.n, 4).astype(np.int64))
        total = total + (values[0] * values[1]).sum(axis=1)
        target(w, g, total.astype(np.int32) if signed else total.astype(np.uint32))
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


def extend(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """szext.{clamp,wrap}: sign- or zero-extend from bit position b."""
    kind = kind_of(instr)
    a, b = (decoder.source(o, "u32") for o in instr.operands[1:3])
    target = decoder.target(instr.operands[0], "u32")
    wrap = "wrap" in instr.parts

    def run(w: Wave, g: Group) -> None:
        n = b(w, g).astype(np.int64)
        n = n & 31 if wrap else np.minimum(n, 32)
        value = a(w, g).astype(np.int64) & ((np.int64(1) << n) - 1)
        if kind == "s32":
            top = np.where(n > 0, (value >> np.maximum(n - 1, 0)) & 1, 0)
            value = value - (top << n)
        target(w, g, (value & 0xFFFFFFFF).astype(np.uint32))
    return run, ALU


def dot2(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """dp2a.{lo,hi}.atype.btype: two 16-bit by 8-bit products."""
    kinds = instr.parts[-2:]
    a, b = (decoder.wide(o, "u32") for o in instr.operands[1:3])
    signed = "s32" in kinds
    c = decoder.wide(instr.operands[3], "s32" if signed else "u32")
    target = decoder.target(instr.operands[0], "s32" if signed else "u32")
    first = 2 if "hi" in instr.parts else 0

    def run(w: Wave, g: Group) -> None:
        wide = np.ascontiguousarray(a(w, g)).view(np.int16 if kinds[0] == "s32" else np.uint16).reshape(-1, 2)
        bytes_ = np.ascontiguousarray(b(w, g)).view(np.int8 if kinds[1] == "s32" else np.uint8).reshape(-1, 4)
        total = c(w, g).astype(np.int64) + (wide.astype(np.int64) * bytes_[:, first : first + 2]).sum(axis=1)
        target(w, g, (total & 0xFFFFFFFF).astype(np.uint32).view(np.int32 if signed else np.uint32))
    return run, ALU


def nth_set(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """fns.b32 d, mask, base, offset: the offset-th set bit of mask, counted from base."""
    read = [decoder.wide(o, k) for o, k in zip(instr.operands[1:4], ("u32", "u32", "s32"))]
    target = decoder.target(instr.operands[0], "u32")

    def one(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if base < 32 and mask >> base & 1 else 0xFFFFFFFF
        order = range(base, 32) if offset > 0 else range(min(base, 31), -1, -1)
        found = [i for i in order if mask >> i & 1]
        return found[abs(offset) - 1] if abs(offset) <= len(found) else 0xFFFFFFFF

    def run(w: Wave, g: Group) -> None:
        columns = [r(w, g).tolist() for r in read]
        target(w, g, np.array([one(*row) for row in zip(*columns)], np.uint32))
    return run, ALU


def absolute(a: Array) -> Array:
    return np.where(a < 0, -a, a).astype(a.dtype)


def sad(a: Array, b: Array, c: Array) -> Array:
    return (np.where(a > b, a - b, b - a) + c).astype(a.dtype)


INT = INTEGERS - {"u8", "s8"}
LOGIC = BITS | {"pred"}
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
    *entry("szext", "clamp wrap u32 s32", extend), *entry("dp2a", "lo hi u32 s32", dot2), *entry("fns", "b32", nth_set),
    *entry("abs", "", simple(absolute, 1), INT), *entry("neg", "", simple(np.negative, 1), INT),
    *entry("sad", "", simple(sad, 3), INT),
    *entry("and", "", logic(np.bitwise_and, 2), LOGIC), *entry("or", "", logic(np.bitwise_or, 2), LOGIC),
    *entry("xor", "", logic(np.bitwise_xor, 2), LOGIC), *entry("not", "", logic(np.invert, 1), LOGIC),
    *entry("cnot", "", simple(lambda a: (a == 0).astype(a.dtype), 1), BITS),
    *entry("shl shr", "", shift, TYPES), *entry("popc", "", counted(popcount), BITS),
    *entry("clz", "", counted(leading), BITS), *entry("bfind", "shiftamt", find, INT),
    *entry("brev", "", simple(reverse, 1), BITS), *entry("bfe", "", extract, INT), *entry("bfi", "", insert, BITS),
    *entry("prmt", "b32 f4e b4e rc8 ecl ecr rc16", permute), *entry("lop3", "and or xor b32", lop3),
    *entry("shf", "l r wrap clamp b32", funnel), *entry("bmsk", "clamp wrap b32", mask),
    *entry("dp4a", "s32 u32", dot4),
]
