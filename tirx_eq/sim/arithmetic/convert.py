"""cvt: conversions between all types (PTX ISA 9.7.9.21), cvt.pack, and cvta."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from tirx_eq.sim.arithmetic import formats
from tirx_eq.sim.isa import INTEGERS, entry
from tirx_eq.sim.memory import LOCAL, PARAM, SHARED
from tirx_eq.sim.program import ALU, DTYPES, Decoder, Run
from tirx_eq.sim.text.syntax import Instr, Vec
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray
PAIRS = {"e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "e2m1x2", "ue8m0x2", "f16x2", "bf16x2"}
QUADS = {"e4m3x4", "e5m2x4", "e2m3x4", "e3m2x4", "e2m1x4"}
SCALARS = INTEGERS | {"f16", "bf16", "f32", "f64", "tf32"} | PAIRS | QUADS
ROUND = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def cvt(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    kinds = [p for p in instr.parts[1:] if p in SCALARS]
    if len(kinds) < 2:
        raise decoder.error("two types are needed")
    to, source = kinds[-2:]
    modes = set(instr.parts)
    if to in PAIRS or to in QUADS:
        return to_packed(decoder, instr, to, source, modes)
    if source in PAIRS:
        raise decoder.error(f"conversion from {source} to {to} is not in the ISA")
    read = formats.float_source(decoder, instr.operands[1], source)
    if to == "tf32":
        target = decoder.target(instr.operands[0], "u32")
        mode = next((m for m in ("rn", "rz") if m in modes), "rna")
        return lambda w, g: target(w, g, formats.to_tf32(read(w, g), mode)), ALU
    if source in INTEGERS:
        return from_integer(decoder, instr, to, source, modes)
    if to in INTEGERS:
        integer_target = decoder.target(instr.operands[0], to)
        rounding = next((ROUND[m] for m in ROUND if m in modes), np.trunc)
        ftz = "ftz" in modes
        return lambda w, g: integer_target(w, g, to_integer(rounding(
            (formats.flush(read(w, g)) if ftz else read(w, g)).astype(np.float64)), to)), ALU
    target = formats.float_target(decoder, instr.operands[0], to)
    whole = next((ROUND[m] for m in ROUND if m in modes), None)
    mode = next((m for m in ("rz", "rm", "rp") if m in modes), "rn")

    def run(w: Wave, g: Group) -> None:
        value = read(w, g)
        if "ftz" in modes and value.dtype == np.float32:
            value = formats.flush(value)
        if whole is not None:
            value = whole(value)
        if "sat" in modes:
            value = np.where(np.isnan(value), value.dtype.type(0), np.clip(value, 0, 1)).astype(value.dtype)
        if "relu" in modes:
            value = np.where(value > 0, value, value.dtype.type(0))
        if to == "f32" and value.dtype != np.float32:
            value = formats.round_f32(value, mode)
        elif to == "f64":
            value = value.astype(np.float64)
        elif mode == "rz" and to in ("f16", "bf16"):
            bits = formats.to_f16(value, "rz") if to == "f16" else formats.to_bf16(value, "rz")
            value = formats.widen(bits, to)
        target(w, g, value.copy() if value.shape[0] == w.T else value)
    return run, ALU


def to_integer(value: Array, kind: str) -> Array:
    """Clamp float64 (already whole) to the integer type; NaN gives 0."""
    dtype: Any = np.dtype(DTYPES[kind])
    info = np.iinfo(dtype)
    value = np.where(np.isnan(value), 0.0, value)
    high = value >= float(info.max)
    low = value <= float(info.min)
    inside = np.where(high | low, 0.0, value).astype(dtype)
    return np.where(high, dtype.type(info.max), np.where(low, dtype.type(info.min), inside)).astype(dtype)


def from_integer(decoder: Decoder, instr: Instr, to: str, source: str, modes: set[str]) -> tuple[Run, int]:
    read = narrow_source(decoder, instr, source)
    if to in INTEGERS:
        target = decoder.target(instr.operands[0], to)
        info = np.iinfo(cast(Any, DTYPES[to]))
        saturate = "sat" in modes

        def run(w: Wave, g: Group) -> None:
            value = read(w, g)
            if saturate:
                if value.dtype == np.uint64 or to == "u64":
                    value = np.array([min(max(int(v), info.min), info.max) for v in value], DTYPES[to])
                else:
                    value = np.clip(value.astype(np.int64), info.min, info.max)
            target(w, g, value.astype(DTYPES[to]))
        return run, ALU
    target = formats.float_target(decoder, instr.operands[0], to)
    mode = next((m for m in ("rz", "rm", "rp") if m in modes), "rn")

    def run_float(w: Wave, g: Group) -> None:
        value = read(w, g)
        if value.dtype.itemsize < 8 or to == "f64":
            result = value.astype(np.float64)
        else:
            with np.errstate(all="ignore"):
                close = value.astype(np.float64)
                back = np.array([int(a) - int(b) for a, b in zip(value.tolist(), close.tolist())], np.float64)
                result = formats.round_odd(close, back)
        target(w, g, formats.round_f32(result, mode) if to == "f32" else result)
    return run_float, ALU


def narrow_source(decoder: Decoder, instr: Instr, kind: str):  # type: ignore[no-untyped-def]
    """8-bit sources live in the low byte of wider registers."""
    if kind not in ("u8", "s8"):
        return decoder.source(instr.operands[1], kind)
    inner = decoder.source(instr.operands[1], "u8")
    return (lambda w, g: inner(w, g).view(np.int8)) if kind == "s8" else inner


def to_packed(decoder: Decoder, instr: Instr, to: str, source: str, modes: set[str]) -> tuple[Run, int]:
    """d = {hi: a, lo: b} from two floats, or pairs of a narrow format to f16x2."""
    each = to[:-2]
    relu = "relu" in modes

    def limit(value: Array) -> Array:
        return np.where(value > 0, value, np.where(np.isnan(value), value, np.float32(0))) if relu else value

    def bits_of(value: Array) -> Array:
        if each == "f16":
            return formats.to_f16(value, "rz" if "rz" in modes else "rn").astype(np.uint32)
        if each == "bf16":
            return formats.to_bf16(value, "rz" if "rz" in modes else "rn").astype(np.uint32)
        if each == "ue8m0":
            return formats.to_ue8m0(value, "rp" if "rp" in modes else "rz").astype(np.uint32)
        return formats.to_narrow(value, each).astype(np.uint32)

    width = {"f16": 16, "bf16": 16, "e2m1": 4}.get(each, 8)
    if source in PAIRS:
        from_each = source[:-2]
        from_width = {"f16": 16, "bf16": 16, "e2m1": 4}.get(from_each, 8)
        read_pair = decoder.source(instr.operands[1], {16: "u32", 8: "u16", 4: "u8"}[from_width])
        target = decoder.target(instr.operands[0], {16: "u32", 8: "u16", 4: "u8"}[width])
        mask = (1 << from_width) - 1

        def run_pair(w: Wave, g: Group) -> None:
            raw = read_pair(w, g).astype(np.uint32)
            low, high = raw & np.uint32(mask), (raw >> np.uint32(from_width)) & np.uint32(mask)
            parts = [bits_of(limit(formats.widen(v, from_each))) for v in (low, high)]
            target(w, g, (parts[0] | (parts[1] << np.uint32(width))).astype(f"u{max(1, width // 4)}"))
        return run_pair, ALU
    if "rs" in modes:
        return stochastic(decoder, instr, to, relu)
    operands = instr.operands
    if len(operands) != 3:
        raise decoder.error("two sources are needed")
    a, b = (formats.float_source(decoder, o, source) for o in operands[1:])
    target = decoder.target(operands[0], {16: "u32", 8: "u16", 4: "u8"}[width])

    def run(w: Wave, g: Group) -> None:
        high, low = bits_of(limit(a(w, g))), bits_of(limit(b(w, g)))
        target(w, g, (low | (high << np.uint32(width))).astype(f"u{max(1, width // 4)}"))
    return run, ALU


#: formats of cvt.rs -> (random bits an element gets, mantissa bits, exponent of the least normal number)
STOCHASTIC = {"f16": (13, 10, -14), "bf16": (16, 7, -126), "e4m3": (16, 3, -6), "e5m2": (16, 2, -14), "e2m3": (16, 3, 0),
              "e3m2": (16, 2, -2)}


def mirrored(half: Array) -> Array:
    """The 16 low bits in reverse order."""
    found = np.zeros_like(half)
    for bit in range(16):
        found |= ((half >> np.uint32(bit)) & np.uint32(1)) << np.uint32(15 - bit)
    return found


def stochastic(decoder: Decoder, instr: Instr, to: str, relu: bool) -> tuple[Run, int]:
    """cvt.rs: an element is rounded away from zero if its random bits, added to the bits that are cut off, carry out.

    Which bits an element gets is the ISA's text for the pairs.  For four elements {a, b, e, f} of f8 and f6 types the text
    gives the half-word (f, e: low; b, a: high); that e and a read it bit-reversed was measured on sm_100a in public (torchao's
    model of ``cvt.rs.satfinite.e4m3x4``).  For e2m1x4 the order is not public.
    """
    each = to[:-2]
    if each not in STOCHASTIC:
        raise decoder.error(f"which random bits the elements of {to} get is not public")
    count, mantissa, least = STOCHASTIC[each]
    operands = instr.operands
    items = operands[1].items if isinstance(operands[1], Vec) else operands[1:3]
    if len(items) != (4 if to in QUADS else 2) or len(operands) != (3 if to in QUADS else 4):
        raise decoder.error("the values and a register of random bits are needed")
    reads = [formats.float_source(decoder, o, "f32") for o in reversed(items)]
    random = decoder.wide(operands[-1], "u32")
    target = decoder.target(operands[0], "u32")
    width = 16 if to in PAIRS else 8

    def run(w: Wave, g: Group) -> None:
        words = random(w, g)
        result = np.zeros(g.n, np.uint32)
        for i, read in enumerate(reads):
            half = words >> np.uint32(16 * (i if to in PAIRS else i // 2)) & np.uint32(0xFFFF)
            if to in QUADS and i % 2:
                half = mirrored(half)
            bits = encoded(np.broadcast_to(read(w, g), (g.n,)).astype(np.float64), half & np.uint32((1 << count) - 1))
            result |= bits.astype(np.uint32) << np.uint32(width * i)
        target(w, g, result)

    def encoded(value: Array, half: Array) -> Array:
        if relu:
            value = np.where(value > 0, value, np.where(np.isnan(value), value, 0.0))
        exponent = np.maximum(np.frexp(value)[1] - 1, least)
        unit = np.ldexp(1.0, exponent - mantissa)
        with np.errstate(all="ignore"):
            steps = np.abs(value) / unit
            whole = np.floor(steps)
            whole = whole + (steps - whole + half / float(1 << count) >= 1)
            rounded = np.where(np.isfinite(value), np.copysign(whole * unit, value), value)
        if each == "f16":
            finite = np.clip(rounded, -65504, 65504) if "satfinite" in instr.parts else rounded
            return formats.to_f16(np.where(np.isnan(value), value, finite))
        if each == "bf16":
            return formats.to_bf16(rounded)
        return formats.to_narrow(rounded.astype(np.float32), each)
    return run, ALU


def pack(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cvt.pack.sat.{s16,u16,s8,u8}.s32[.b32] d, a, b {, c}"""
    kind = instr.parts[3]
    bits = int(kind[1:])
    info = np.iinfo(cast(Any, DTYPES[kind]))
    a, b = (decoder.source(o, "s32") for o in instr.operands[1:3])
    c = decoder.source(instr.operands[3], "u32") if len(instr.operands) > 3 else None
    target = decoder.target(instr.operands[0], "u32")
    mask = np.int64((1 << bits) - 1)

    def run(w: Wave, g: Group) -> None:
        high = np.clip(a(w, g).astype(np.int64), info.min, info.max) & mask
        low = np.clip(b(w, g).astype(np.int64), info.min, info.max) & mask
        value = low | (high << bits)
        if c is not None:
            value = value | ((c(w, g).astype(np.int64) << (2 * bits)) & 0xFFFFFFFF)
        target(w, g, value.astype(np.uint32))
    return run, ALU


WINDOWS = {"shared": SHARED, "shared::cta": SHARED, "shared::cluster": SHARED, "local": LOCAL, "param": PARAM,
           "global": 0, "const": 0, "param::entry": PARAM}


def cvta(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cvta and cvta.to: between generic addresses and addresses in a state space."""
    to = "to" in instr.parts
    space = instr.parts[2] if to else instr.parts[1]
    base = np.uint64(WINDOWS[space])
    read = decoder.source(instr.operands[1], "u64")
    target = decoder.target(instr.operands[0], "u64")

    def run(w: Wave, g: Group) -> None:
        value = read(w, g)
        target(w, g, value - base if to else value + base)
    return run, ALU


def in_space(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """isspacep"""
    read = decoder.wide(instr.operands[1], "u64")
    target = decoder.target(instr.operands[0], "pred")
    number = {"global": 0, "const": 0, "shared": 1, "local": 2, "param": 3}[instr.parts[1].split("::")[0]]
    return lambda w, g: target(w, g, w.classify(read(w, g)) == number), ALU


ENTRIES = [
    *entry("cvt.pack.sat", "s16 u16 s8 u8 s32 b32", pack),
    *entry("cvt", "rn rz rm rp rni rzi rmi rpi rna rs ftz sat relu satfinite scaled", cvt, SCALARS),
    *entry("cvta", "to u64", cvta, WINDOWS),
    *entry("isspacep", "", in_space, WINDOWS),
]
