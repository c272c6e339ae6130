"""Number formats: half, bfloat16, tf32, fp8, fp6, fp4, ue8m0 and their conversions, with exact rounding.

Narrow formats are handled as bit patterns; values are float32 or float64 arrays.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

from tirx_eq.sim.program import Decoder, Reader, Writer
from tirx_eq.sim.text.syntax import Imm, Operand
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray

NARROW = {
    "e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "e2m3": np.dtype(ml_dtypes.float6_e2m3fn), "e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
    "e2m1": np.dtype(ml_dtypes.float4_e2m1fn), "ue8m0": np.dtype(ml_dtypes.float8_e8m0fnu),
}
LARGEST = {"e4m3": 448.0, "e5m2": 57344.0, "e2m3": 7.5, "e3m2": 28.0, "e2m1": 6.0}


def widen(bits: Array, kind: str) -> Array:
    """float32 values of bit patterns of ``kind`` (f16, bf16, tf32, e4m3, ...)."""
    if kind == "f16":
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if kind == "tf32":
        return (bits.astype(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    if kind in ("f32", "u8", "s8"):
        return bits.view({"f32": np.float32, "u8": np.uint8, "s8": np.int8}[kind]).astype(np.float32)
    table = _TABLES.get(kind)
    if table is None:
        every: Array = np.arange(256, dtype=np.uint8)
        with np.errstate(all="ignore"):
            if kind in ("e2m3", "e3m2"):
                every = every & 0x3F
            elif kind == "e2m1":
                every = every & 0x0F
            if kind == "ue4m3":
                table = (every & 0x7F).view(NARROW["e4m3"]).astype(np.float32)
            else:
                table = every.view(NARROW[kind]).astype(np.float32)
        _TABLES[kind] = table
    return table[bits.astype(np.uint8)]


_TABLES: dict[str, Array] = {}


def round_odd(high: Array, error: Array) -> Array:
    """float64 ``high + error`` (|error| below one unit of high) rounded to odd: rounds once more without bias."""
    bits = np.ascontiguousarray(high).view(np.int64)
    inexact = (error != 0) & np.isfinite(high) & (bits & 1 == 0)
    toward = np.where((error > 0) == (high >= 0), 1, -1)
    zero = high == 0
    return np.where(inexact & ~zero, (bits + toward).view(np.float64), np.where(zero & (error != 0), error, high))


def exact_sum(a: Array, b: Array) -> Array:
    """float64 a + b rounded to odd."""
    with np.errstate(all="ignore"):
        total = a + b
        part = total - a
        error = (a - (total - part)) + (b - part)
        return round_odd(total, np.where(np.isfinite(total), error, 0.0))


def round_f32(value: Array, mode: str = "rn") -> Array:
    """float64 (exact or rounded to odd) to float32 by rounding mode rn, rz, rm or rp."""
    with np.errstate(all="ignore"):
        nearest = value.astype(np.float32)
        if mode in ("rn", "rna"):
            return nearest
        back = nearest.astype(np.float64)
        down, up = np.float32(-np.inf), np.float32(np.inf)
        above, below = back > value, back < value
        if mode == "rz":
            return np.where((above & (value > 0)) | (below & (value < 0)), np.nextafter(nearest, np.float32(0)), nearest)
        if mode == "rm":
            return np.where(above, np.nextafter(nearest, down), nearest)
        return np.where(below, np.nextafter(nearest, up), nearest)


def flush(value: Array) -> Array:
    """Subnormal float32 values to zero of the same sign."""
    tiny = np.abs(value) < np.float32(1.1754944e-38)
    return np.where(tiny, np.copysign(np.float32(0), value), value)


def to_f16(value: Array, mode: str = "rn") -> Array:
    """Bits of float16."""
    with np.errstate(all="ignore"):
        near = value.astype(np.float16)
        if mode == "rz":
            back = near.astype(np.float64)
            out = np.abs(back) > np.abs(value)
            near = np.where(out, np.nextafter(near, np.float16(0)), near)
        return near.view(np.uint16)


def to_bf16(value: Array, mode: str = "rn") -> Array:
    """Bits of bfloat16 from float32 or float64."""
    if value.dtype == np.float64:
        odd = round_f32_odd(value)
    else:
        odd = value
    bits = np.ascontiguousarray(odd).view(np.uint32)
    nan = np.isnan(odd)
    if mode == "rz":
        result = bits >> np.uint32(16)
    else:
        result = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(nan, np.uint32(0x7FFF), result).astype(np.uint16)


def round_f32_odd(value: Array) -> Array:
    """float64 to float32, rounded to odd."""
    with np.errstate(all="ignore"):
        cut = round_f32(value, "rz")
        bits = cut.view(np.uint32)
        inexact = (cut.astype(np.float64) != value) & np.isfinite(cut) & (bits & 1 == 0)
        return np.where(inexact, (bits + np.uint32(1)).view(np.float32), cut)


def to_tf32(value: Array, mode: str = "rna") -> Array:
    """Bits (32) of tf32: 10 mantissa bits, low 13 bits zero."""
    bits = np.ascontiguousarray(value.astype(np.float32)).view(np.uint32)
    if mode == "rz":
        return bits & np.uint32(0xFFFFE000)
    if mode == "rn":
        bits = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
    else:
        bits = bits + np.uint32(0x1000)
    return np.where(np.isnan(value), np.uint32(0x7FFFFFFF), bits & np.uint32(0xFFFFE000))


def to_narrow(value: Array, kind: str, saturate: bool = True) -> Array:
    """Bits (uint8) of an fp8/fp6/fp4 format from float32, round to nearest even, saturating to the largest finite."""
    with np.errstate(all="ignore"):
        limited = np.clip(value, -LARGEST[kind], LARGEST[kind]) if saturate else value
        bits = limited.astype(NARROW[kind]).view(np.uint8)
    if kind == "e4m3":
        bits = np.where(np.isnan(value), np.uint8(0x7F), bits)
    elif kind == "e5m2":
        bits = np.where(np.isnan(value), np.uint8(0x7F), bits)
    elif np.isnan(value).any():
        largest = {"e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x07}[kind]
        bits = np.where(np.isnan(value), np.uint8(largest), bits)
    return bits.astype(np.uint8)


def to_ue8m0(value: Array, mode: str = "rp") -> Array:
    """Bits of ue8m0 (power of two scale) from float32: rounded up (rp) or towards zero (rz); magnitude only."""
    magnitude = np.abs(value.astype(np.float64))
    with np.errstate(all="ignore"):
        mantissa, exponent = np.frexp(magnitude)
    power = exponent - 1
    if mode == "rp":
        power = power + (mantissa > 0.5)
    bits = np.clip(power + 127, 0, 254)
    bits = np.where(magnitude == 0, 0, np.where(np.isinf(magnitude), 254, bits))
    return np.where(np.isnan(value), 255, bits).astype(np.uint8)


def padded_bytes(raw: Array, bits: int) -> Array:
    """16 elements of 6 or 4 bits with padding to 16 bytes, shape (..., 16), as one byte per element (b6x16_p32, b4x16_p64)."""
    fields = np.unpackbits(raw[..., : 2 * bits], axis=-1, bitorder="little").reshape(*raw.shape[:-1], 16, bits)
    return np.packbits(fields, axis=-1, bitorder="little")[..., 0]


# -- operands ---------------------------------------------------------------------------------------
def float_source(decoder: Decoder, operand: Operand, kind: str) -> Reader:
    """Reader of float values: f16/bf16 as float32, f32 and f64 as themselves, packed types as shape (rows, 2)."""
    if kind in ("f32", "f64"):
        return decoder.source(operand, kind)
    if kind in ("f16", "bf16"):
        if isinstance(operand, Imm) and operand.kind != "int":
            constant = decoder.source(operand, "f32")
            return constant
        raw = decoder.source(operand, "u16")
        return lambda w, g: widen(raw(w, g), kind)
    if kind in ("f16x2", "bf16x2"):
        both = decoder.source(operand, "u32")
        half = kind[:-2]

        def read(w: Wave, g: Group) -> Array:
            value = both(w, g)
            return np.stack([widen(value & np.uint32(0xFFFF), half), widen(value >> np.uint32(16), half)], axis=1)
        return read
    if kind == "f32x2":
        pair = decoder.source(operand, "u64")

        def read2(w: Wave, g: Group) -> Array:
            value = np.ascontiguousarray(pair(w, g))
            return value.view(np.float32).reshape(len(value), 2)
        return read2
    return decoder.source(operand, kind)


def float_target(decoder: Decoder, operand: Operand, kind: str) -> Writer:
    """Writer of float values as ``float_source`` reads them; f16/bf16 accept float64 and round once."""
    if kind in ("f32", "f64"):
        return decoder.target(operand, kind)
    narrow: dict[str, Callable[[Array], Array]] = {"f16": to_f16, "bf16": to_bf16}
    if kind in narrow:
        target = decoder.target(operand, "u16")
        convert = narrow[kind]
        return lambda w, g, v: target(w, g, convert(v))
    if kind in ("f16x2", "bf16x2"):
        target = decoder.target(operand, "u32")
        convert = narrow[kind[:-2]]

        def write(w: Wave, g: Group, v: Array) -> None:
            bits = convert(v).astype(np.uint32)
            target(w, g, bits[:, 0] | (bits[:, 1] << np.uint32(16)))
        return write
    target = decoder.target(operand, "u64")
    return lambda w, g, v: target(w, g, np.ascontiguousarray(v.astype(np.float32)).view(np.uint64)[:, 0].copy())
