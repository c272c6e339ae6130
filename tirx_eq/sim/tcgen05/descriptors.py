"""Decoding of tcgen05 instruction and shared-memory matrix descriptors (PTX ISA 9.7.16.4), written from the ISA tables.

This is deliberately separate from the encoder: the simulator must not share a mistake with the emitter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tirx_eq.sim.transfers.tensormap import swizzle

Array = np.ndarray


class BadDescriptor(Exception):
    """A field value the ISA forbids."""


@dataclass(frozen=True)
class MatrixDescriptor:
    """Shared-memory matrix descriptor; addresses and offsets in bytes, ``mode`` as in ``tensormap.swizzle``."""

    start: int
    leading: int
    stride: int
    mode: str


MODES = {0: "none", 1: "128B_atom32B", 2: "128B", 4: "64B", 6: "32B"}


def matrix_descriptor(value: int) -> MatrixDescriptor:
    """Decode 64 bits; raises ``BadDescriptor`` naming the field."""
    code = value >> 61 & 7
    if code not in MODES:
        raise BadDescriptor(f"swizzle mode {code} (bits 61-63) is not one of 0, 1, 2, 4, 6")
    if value >> 46 & 7 != 1:
        raise BadDescriptor(f"bits 46-48 are {value >> 46 & 7:#05b}; they must be 0b001")
    if value >> 53 & 0xFF:
        raise BadDescriptor("bits 53-60 must be zero")
    if value >> 52 & 1:
        raise BadDescriptor("bit 52 (absolute leading-dimension address) is for sm_103a K=96 only")
    if value >> 14 & 3 or value >> 30 & 3:
        raise BadDescriptor("bits 14-15 and 30-31 must be zero (an address or offset overflowed its 14-bit field?)")
    if value >> 49 & 7:
        raise BadDescriptor(f"base offset {value >> 49 & 7}: tiles off their natural swizzle boundary are not modelled")
    return MatrixDescriptor((value & 0x3FFF) << 4, (value >> 16 & 0x3FFF) << 4, (value >> 32 & 0x3FFF) << 4, MODES[code])


SPAN = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_atom32B": 128}


@lru_cache(maxsize=512)
def k_major(rows: int, chunks: int, leading: int, stride: int, mode: str) -> Array:
    """Offsets before the swizzle of 16-byte chunks, shape (rows, chunks): row i, bytes 16c.. along K."""
    i = np.arange(rows)[:, None]
    c = np.arange(chunks)[None, :]
    if mode == "none":
        return (i % 8) * 16 + (i // 8) * stride + c * leading
    return (i % 8) * SPAN[mode] + (i // 8) * stride + 16 * c


@lru_cache(maxsize=512)
def mn_major(depth: int, chunks: int, leading: int, stride: int, mode: str) -> Array:
    """Offsets before the swizzle of 16-byte chunks, shape (depth, chunks): k, bytes 16c.. along M or N."""
    k = np.arange(depth)[:, None]
    c = np.arange(chunks)[None, :]
    if mode == "none":
        return c * stride + (k % 8) * 16 + (k // 8) * leading
    span = SPAN[mode]
    group = 4 if mode == "128B_atom32B" else 8
    return (16 * c) % span + (16 * c // span) * leading + (k % group) * span + (k // group) * stride


def addresses(descriptor: MatrixDescriptor, offsets: Array) -> Array:
    """Shared addresses (18 bits, absolute) of the chunks at ``offsets``."""
    return swizzle(descriptor.start + offsets, descriptor.mode)


F8 = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
A_TYPES = {
    "f16": {0: "f16", 1: "bf16"}, "tf32": {2: "tf32"}, "f8f6f4": F8, "i8": {0: "u8", 1: "s8"}, "mxf8f6f4": F8,
    "mxf4": {1: "e2m1"}, "mxf4nvf4": {1: "e2m1"},
}
D_TYPES = {"f16": {0: "f16", 1: "f32"}, "tf32": {1: "f32"}, "f8f6f4": {0: "f16", 1: "f32"}, "i8": {2: "s32"}}
#: K of one dense instruction
DEPTH = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


@dataclass(frozen=True)
class InstructionDescriptor:
    """Decoded 32-bit instruction descriptor."""

    kind: str
    m: int
    n: int
    k: int
    a: str
    b: str
    d: str
    transpose_a: bool
    transpose_b: bool
    negate_a: bool
    negate_b: bool
    saturate: bool
    scale: str = ""
    sfa_id: int = 0
    sfb_id: int = 0
    sparse: bool = False
    #: which of a pair of metadata columns (f16 and tf32)
    sparsity: int = 0
    max_shift: int = 0


def instruction_descriptor(value: int, kind: str, group: int, weight_stationary: bool, sparse: bool) \
        -> InstructionDescriptor:
    """Decode and check against the ISA's shape and type tables; raises ``BadDescriptor``."""
    block = kind.startswith("mx")
    if bool(value >> 2 & 1) != sparse:
        raise BadDescriptor("bit 2 (sparse) does not match the instruction")
    n = (value >> 17 & 0x3F) << 3
    types = A_TYPES[kind]
    scale, sfa, sfb, d = "", 0, 0, "f32"
    if block:
        fp4 = kind != "mxf8f6f4"
        zero = [(0, 1), (3, 3), (6, 6), (24, 26)]
        if fp4:
            zero += [(12, 12), (15, 16)]
        else:
            zero += [(31, 31)]
        a, b = value >> 7 & 7, value >> 10 & (3 if fp4 else 7)
        m = (value >> 27 & 3) << 7
        scale = "ue8m0" if value >> 23 & 1 else "ue4m3"
        sfa, sfb = value >> 29 & 3, value >> 4 & 3
        if scale == "ue4m3" and kind != "mxf4nvf4":
            raise BadDescriptor(f"bit 23: kind::{kind} has ue8m0 scales only")
        if fp4 and value >> 31:
            raise BadDescriptor("K = 96 (bit 31) is an sm_103a feature")
        if fp4 and (sfa & 1 or sfb & 1):
            raise BadDescriptor(f"scale factor ids {sfa}, {sfb}: only 0 and 2 are allowed with kind::{kind}")
    else:
        zero = [(6, 6), (23, 23), (29, 29)]
        if not sparse:
            zero.append((0, 1))
        if kind != "i8":
            zero.append((3, 3))
        if not weight_stationary:
            zero.append((30, 31))
        a, b = value >> 7 & 7, value >> 10 & 7
        m = (value >> 24 & 0x1F) << 4
        code = value >> 4 & 3
        if code not in D_TYPES[kind]:
            raise BadDescriptor(f"D type {code} (bits 4-5) is not allowed with kind::{kind}")
        d = D_TYPES[kind][code]
        if kind == "i8" and value >> 13 & 3:
            raise BadDescriptor("negation (bits 13-14) is not allowed with kind::i8")
    for low, high in zero:
        if value >> low & ((1 << (high - low + 1)) - 1):
            raise BadDescriptor(f"reserved bits {low}-{high} are not zero")
    if sparse and not block and value & 3:
        if kind in ("i8", "f8f6f4"):
            raise BadDescriptor(f"the sparsity selector is {value & 3}; it must be 0 with kind::{kind}")
        if value & 2:
            raise BadDescriptor(f"sparsity selector {value & 3}: which columns it selects is not public; 0 and 1 are modelled")
    for name, code in (("A", a), ("B", b)):
        if code not in types:
            raise BadDescriptor(f"{name} type code {code} is not allowed with kind::{kind}")
    if kind == "f16" and types[a] != types[b]:
        raise BadDescriptor(f"A is {types[a]} and B is {types[b]}: kind::f16 does not mix them")
    if kind == "f16" and d == "f16" and types[a] == "bf16":
        raise BadDescriptor("bf16 operands need an f32 accumulator")
    shape(kind, group, weight_stationary, sparse, m, n)
    ta, tb = bool(value >> 15 & 1), bool(value >> 16 & 1)
    if (ta and kind in ("f8f6f4", "mxf8f6f4") and types[a] not in ("e4m3", "e5m2")) or \
            (tb and kind in ("f8f6f4", "mxf8f6f4") and types[b] not in ("e4m3", "e5m2")):
        raise BadDescriptor("only 8-bit types can be transposed")
    return InstructionDescriptor(kind, m, n, DEPTH[kind] * (2 if sparse else 1), types[a], types[b], d, ta, tb,
                                 bool(value >> 13 & 1), bool(value >> 14 & 1), bool(value >> 3 & 1), scale, sfa, sfb,
                                 sparse, 0 if block else value & 3, 0 if block else (0, 8, 16, 32)[value >> 30])


def shape(kind: str, group: int, weight_stationary: bool, sparse: bool, m: int, n: int) -> None:
    """The ISA's table of legal M and N."""
    good_m: tuple[int, ...]
    if weight_stationary:
        good_m, good_n = (32, 64, 128), (64, 128) if sparse else (64, 128, 256)
        ok = n in good_n
    elif kind.startswith("mx"):
        good_m = (128,) if group == 1 else ((256,) if sparse else (128, 256))
        step = 8 if group == 1 else 16
        ok = step <= n <= 256 and n % step == 0
    else:
        good_m = (64, 128) if group == 1 else (128, 256)
        if kind == "i8":
            ok = (n in (8, 16, 24, 32) or (n % 16 == 0 and 16 <= n <= 256)) if group == 1 \
                else (n % 32 == 0 and 32 <= n <= 256)
        else:
            step = 8 if group == 1 else 16
            ok = step <= n <= 256 and n % step == 0
    if m not in good_m:
        raise BadDescriptor(f"M = {m} is not allowed with kind::{kind} and cta_group::{group} ({good_m})")
    if not ok:
        raise BadDescriptor(f"N = {n} is not allowed with kind::{kind}, M = {m} and cta_group::{group}")
