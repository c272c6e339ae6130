"""Logic, shifts and bit fields of integers (PTX ISA 9.7.1, 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirx_eq.sim.arithmetic.alu import INT, kind_of, need, simple
from tirx_eq.sim.isa import BITS, TYPES, entry
from tirx_eq.sim.program import ALU, DTYPES, Decoder, Reader, Run, Writer
from tirx_eq.sim.text.syntax import Imm, Instr, Pair
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


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


LOGIC = BITS | {"pred"}
ENTRIES = [
    *entry("and", "", logic(np.bitwise_and, 2), LOGIC), *entry("or", "", logic(np.bitwise_or, 2), LOGIC),
    *entry("xor", "", logic(np.bitwise_xor, 2), LOGIC), *entry("not", "", logic(np.invert, 1), LOGIC),
    *entry("cnot", "", simple(lambda a: (a == 0).astype(a.dtype), 1), BITS),
    *entry("shl shr", "", shift, TYPES), *entry("popc", "", counted(popcount), BITS),
    *entry("clz", "", counted(leading), BITS), *entry("bfind", "shiftamt", find, INT),
    *entry("brev", "", simple(reverse, 1), BITS), *entry("bfe", "", extract, INT), *entry("bfi", "", insert, BITS),
    *entry("prmt", "b32 f4e b4e rc8 ecl ecr rc16", permute), *entry("lop3", "and or xor b32", lop3),
    *entry("shf", "l r wrap clamp b32", funnel), *entry("bmsk", "clamp wrap b32", mask),
    *entry("szext", "clamp wrap u32 s32", extend), *entry("fns", "b32", nth_set),
]
