"""Instruction descriptors of tcgen05.mma (32 bits): dense kinds and block-scaled kinds.

Bit positions and type codes: PTX ISA 9.7.16.4.2.  Shapes: the table "kinds and shapes" of the same section; where
NVIDIA's CUTLASS asks for a coarser step of N than the ISA does, the coarser one is demanded, so that both sources
agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tirx_eq.errors import PtxError

_F8F6F4 = {"e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}

#: Code of each operand type, per kind.
OPERAND_CODES: Mapping[str, Mapping[str, int]] = MappingProxyType({
    "f16": {"f16": 0, "bf16": 1},
    "tf32": {"tf32": 2},
    "f8f6f4": _F8F6F4,
    "i8": {"u8": 0, "s8": 1},
    "mxf8f6f4": _F8F6F4,
    "mxf4": {"e2m1": 1},
    "mxf4nvf4": {"e2m1": 1},
})  # fmt: skip

#: Code of each accumulator type.
ACCUMULATOR_CODES: Mapping[str, int] = MappingProxyType({"f16": 0, "f32": 1, "s32": 2})

#: Accumulator types each kind permits.
ACCUMULATORS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"f16": ("f16", "f32"), "tf32": ("f32",), "f8f6f4": ("f16", "f32"), "i8": ("s32",)}
)

#: K of one dense instruction, per kind (sparse: twice).
MMA_K: Mapping[str, int] = MappingProxyType(
    {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
)

_SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
_TRANSPOSABLE = ("f16", "bf16", "tf32", "e4m3", "e5m2", "u8", "s8")


def _legal_n(kind: str, m: int, cta_group: int, ws: bool, sparse: bool) -> list[int]:
    if ws:
        return [64, 128] if sparse else [64, 128, 256]
    if kind == "i8":
        return [8, 16, 24, *range(32, 257, 16)] if cta_group == 1 and m == 64 else (
            list(range(16, 257, 16)) if cta_group == 1 else list(range(32, 257, 32)))  # fmt: skip
    if cta_group == 2:
        return list(range(32, 257, 32)) if m == 256 else list(range(16, 257, 16))
    return list(range(8, 257, 8)) if m == 64 else list(range(16, 257, 16))


def _legal_m(kind: str, cta_group: int, ws: bool, sparse: bool) -> tuple[int, ...]:
    if ws:
        return (32, 64, 128)
    if kind in _SCALED:
        if cta_group == 1:
            return (128,)
        return (256,) if sparse and kind != "mxf4nvf4" else (128, 256)
    return (64, 128) if cta_group == 1 else (128, 256)


def check_shape(
    kind: str, m: int, n: int, cta_group: int, ws: bool = False, sparse: bool = False, narrow_b: bool = False
) -> None:
    """Raise ``PtxError`` unless (``m``, ``n``) is a shape of ``kind``.

    ``m`` is that of the pair for ``cta_group`` 2.  ``narrow_b``: B has 8-bit elements and is MN-major, which
    doubles the step of ``n``.
    """
    if cta_group not in (1, 2) or (ws and cta_group == 2):
        raise PtxError(f"mma shape: cta_group {cta_group}{' with .ws' if ws else ''} does not exist")
    if ws and kind in _SCALED:
        raise PtxError(f"mma shape: kind {kind} has no weight-stationary form")
    legal_m = _legal_m(kind, cta_group, ws, sparse)
    if m not in legal_m:
        raise PtxError(
            f"mma shape: M = {m} is not in {{{', '.join(map(str, legal_m))}}} for kind {kind}, cta_group {cta_group}"
        )
    legal_n = _legal_n(kind, m, cta_group, ws, sparse)
    if narrow_b:
        legal_n = [v for v in legal_n if v % (16 if cta_group == 1 else 32) == 0]
    if n not in legal_n:
        step = f"{legal_n[0]}..{legal_n[-1]} in steps of {legal_n[-1] - legal_n[-2]}"
        raise PtxError(f"mma shape: N = {n} is not permitted for kind {kind}, M = {m}, cta_group {cta_group} ({step})")


def _code(kind: str, operand: str, type_: str) -> int:
    if kind not in OPERAND_CODES:
        raise PtxError(f"instruction descriptor: unknown kind '{kind}'")
    codes = OPERAND_CODES[kind]
    if type_ not in codes:
        raise PtxError(f"instruction descriptor: {operand} type {type_} is not one of kind {kind} ({', '.join(codes)})")
    return codes[type_]


def _check_transpose(operand: str, type_: str, transposed: bool) -> None:
    if transposed and type_ not in _TRANSPOSABLE:
        raise PtxError(f"instruction descriptor: {operand} of type {type_} must be K-major")


def _field(what: str, value: int, low: int, high: int, step: int) -> int:
    if not low <= value <= high or value % step:
        raise PtxError(f"instruction descriptor: {what} = {value} is not a multiple of {step} in {low}..{high}")
    return value


@dataclass(frozen=True)
class InstructionDescriptor:
    """Dense (and sparse) kinds f16, tf32, f8f6f4, i8.

    ``kind`` without the ``kind::`` prefix; types as PTX names ("f16", "e4m3", "s8", "f32"…); ``m`` that of the pair for
    cta_group 2; ``transpose_*``: True for MN-major operands; ``sparsity``: selector 0..3, only with ``sparse``;
    ``max_shift``: .ws maximal B shift (0, 8, 16, 32).
    """

    kind: str
    m: int
    n: int
    a_type: str
    b_type: str
    d_type: str = "f32"
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    saturate: bool = False
    sparse: bool = False
    sparsity: int = 0
    max_shift: int = 0

    def __post_init__(self) -> None:
        if self.kind not in ACCUMULATORS:
            raise PtxError(f"instruction descriptor: '{self.kind}' is not a dense kind ({', '.join(ACCUMULATORS)})")
        _code(self.kind, "A", self.a_type)
        _code(self.kind, "B", self.b_type)
        if self.d_type not in ACCUMULATORS[self.kind]:
            raise PtxError(
                f"instruction descriptor: D type {self.d_type} is not one of kind {self.kind} "
                f"({', '.join(ACCUMULATORS[self.kind])})"
            )
        if self.kind == "f16" and self.a_type != self.b_type:
            raise PtxError(f"instruction descriptor: kind f16 needs A and B alike, not {self.a_type} and {self.b_type}")
        if self.kind == "f16" and self.d_type == "f16" and self.a_type != "f16":
            raise PtxError(f"instruction descriptor: D type f16 needs f16 operands, not {self.a_type}")
        _check_transpose("A", self.a_type, self.transpose_a)
        _check_transpose("B", self.b_type, self.transpose_b)
        if self.kind == "i8" and (self.negate_a or self.negate_b):
            raise PtxError("instruction descriptor: kind i8 cannot negate an operand")
        if self.saturate and self.kind != "i8":
            raise PtxError(f"instruction descriptor: kind {self.kind} cannot saturate, only i8 can")
        if self.sparsity and not self.sparse:
            raise PtxError("instruction descriptor: a sparsity selector needs a sparse operation")
        _field("sparsity selector", self.sparsity, 0, 3, 1)
        _field("N", self.n, 8, 256, 8)
        _field("M", self.m, 32, 256, 16)
        if self.max_shift not in (0, 8, 16, 32):
            raise PtxError(f"instruction descriptor: maximal shift {self.max_shift} is not 0, 8, 16 or 32")

    @property
    def k(self) -> int:
        """K of one instruction, in elements."""
        return MMA_K[self.kind] * (2 if self.sparse else 1)

    def validate(self, cta_group: int = 1, ws: bool = False) -> None:
        """Raise ``PtxError`` unless the shape exists for this ``cta_group`` (and weight-stationary form)."""
        if self.max_shift and not ws:
            raise PtxError("instruction descriptor: a maximal shift of B belongs to weight-stationary MMAs")
        narrow_b = self.transpose_b and self.kind in ("f8f6f4", "i8")
        check_shape(self.kind, self.m, self.n, cta_group, ws, self.sparse, narrow_b)

    def encode(self) -> int:
        """The 32-bit value."""
        return (
            self.sparsity
            | int(self.sparse) << 2
            | int(self.saturate) << 3
            | ACCUMULATOR_CODES[self.d_type] << 4
            | _code(self.kind, "A", self.a_type) << 7
            | _code(self.kind, "B", self.b_type) << 10
            | int(self.negate_a) << 13
            | int(self.negate_b) << 14
            | int(self.transpose_a) << 15
            | int(self.transpose_b) << 16
            | (self.n >> 3) << 17
            | (self.m >> 4) << 24
            | (0, 8, 16, 32).index(self.max_shift) << 30
        )

    @staticmethod
    def decode(value: int, kind: str) -> InstructionDescriptor:
        """The fields of ``value`` for an instruction of ``kind``; raises ``PtxError`` for undefined bits or codes."""
        _reserved(value, (1 << 6) | (1 << 23) | (1 << 29))
        if kind not in ACCUMULATORS:
            raise PtxError(f"instruction descriptor: '{kind}' is not a dense kind ({', '.join(ACCUMULATORS)})")
        return InstructionDescriptor(
            kind=kind,
            m=(value >> 24 & 0x1F) << 4,
            n=(value >> 17 & 0x3F) << 3,
            a_type=_name(OPERAND_CODES[kind], value >> 7 & 7, "A type", kind),
            b_type=_name(OPERAND_CODES[kind], value >> 10 & 7, "B type", kind),
            d_type=_name(ACCUMULATOR_CODES, value >> 4 & 3, "D type", kind),
            transpose_a=bool(value >> 15 & 1),
            transpose_b=bool(value >> 16 & 1),
            negate_a=bool(value >> 13 & 1),
            negate_b=bool(value >> 14 & 1),
            saturate=bool(value >> 3 & 1),
            sparse=bool(value >> 2 & 1),
            sparsity=value & 3,
            max_shift=(0, 8, 16, 32)[value >> 30 & 3],
        )


@dataclass(frozen=True)
class BlockScaledDescriptor:
    """Block-scaled kinds mxf8f6f4, mxf4, mxf4nvf4; the accumulator is f32.

    ``scale_type``: "ue8m0" or "ue4m3" (mxf4nvf4 only); ``sfa_id``/``sfb_id``: which part of the 32-bit cell holds the
    scales (byte 0..3 for mxf8f6f4, half-word 0 or 2 for the fp4 kinds); ``k``: 32, or 64 and 96 for fp4 (sparse:
    twice).
    """

    kind: str
    m: int
    n: int
    a_type: str
    b_type: str
    scale_type: str = "ue8m0"
    sfa_id: int = 0
    sfb_id: int = 0
    transpose_a: bool = False
    transpose_b: bool = False
    negate_a: bool = False
    negate_b: bool = False
    sparse: bool = False
    k96: bool = False

    def __post_init__(self) -> None:
        if self.kind not in _SCALED:
            raise PtxError(f"instruction descriptor: '{self.kind}' is not a block-scaled kind ({', '.join(_SCALED)})")
        _code(self.kind, "A", self.a_type)
        _code(self.kind, "B", self.b_type)
        scales = ("ue8m0", "ue4m3") if self.kind == "mxf4nvf4" else ("ue8m0",)
        if self.scale_type not in scales:
            raise PtxError(
                f"instruction descriptor: scale type {self.scale_type} is not one of kind {self.kind} "
                f"({', '.join(scales)})"
            )
        ids = (0, 1, 2, 3) if self.kind == "mxf8f6f4" else (0, 2)
        for what, value in (("SFA id", self.sfa_id), ("SFB id", self.sfb_id)):
            if value not in ids:
                raise PtxError(f"instruction descriptor: {what} {value} is not one of {ids} for kind {self.kind}")
        _check_transpose("A", self.a_type, self.transpose_a)
        _check_transpose("B", self.b_type, self.transpose_b)
        _field("N", self.n, 8, 256, 8)
        _field("M", self.m, 128, 256, 128)
        if self.k96 and (self.kind == "mxf8f6f4" or self.sparse):
            raise PtxError("instruction descriptor: K = 96 exists for dense mxf4 and mxf4nvf4 only")

    @property
    def k(self) -> int:
        """K of one instruction, in elements."""
        return 96 if self.k96 else MMA_K[self.kind] * (2 if self.sparse else 1)

    def validate(self, cta_group: int = 1) -> None:
        """Raise ``PtxError`` unless the shape exists for this ``cta_group``."""
        if self.k96 and (cta_group != 2 or self.m != 256):
            raise PtxError("mma shape: K = 96 needs M = 256 and cta_group 2")
        narrow_b = self.transpose_b
        check_shape(self.kind, self.m, self.n, cta_group, False, self.sparse, narrow_b)

    def encode(self) -> int:
        """The 32-bit value."""
        return (
            int(self.sparse) << 2
            | self.sfb_id << 4
            | _code(self.kind, "A", self.a_type) << 7
            | _code(self.kind, "B", self.b_type) << 10
            | int(self.negate_a) << 13
            | int(self.negate_b) << 14
            | int(self.transpose_a) << 15
            | int(self.transpose_b) << 16
            | (self.n >> 3) << 17
            | int(self.scale_type == "ue8m0") << 23
            | (self.m >> 7) << 27
            | self.sfa_id << 29
            | int(self.k96) << 31
        )

    @staticmethod
    def decode(value: int, kind: str) -> BlockScaledDescriptor:
        """The fields of ``value`` for an instruction of ``kind``; raises ``PtxError`` for undefined bits or codes."""
        if kind not in _SCALED:
            raise PtxError(f"instruction descriptor: '{kind}' is not a block-scaled kind ({', '.join(_SCALED)})")
        narrow = kind != "mxf8f6f4"
        _reserved(value, 0b11 | (1 << 3) | (1 << 6) | (7 << 24) | ((1 << 12) if narrow else (1 << 31)))
        return BlockScaledDescriptor(
            kind=kind,
            m=(value >> 27 & 3) << 7,
            n=(value >> 17 & 0x3F) << 3,
            a_type=_name(OPERAND_CODES[kind], value >> 7 & 7, "A type", kind),
            b_type=_name(OPERAND_CODES[kind], value >> 10 & (3 if narrow else 7), "B type", kind),
            scale_type="ue8m0" if value >> 23 & 1 else "ue4m3",
            sfa_id=value >> 29 & 3,
            sfb_id=value >> 4 & 3,
            transpose_a=bool(value >> 15 & 1),
            transpose_b=bool(value >> 16 & 1),
            negate_a=bool(value >> 13 & 1),
            negate_b=bool(value >> 14 & 1),
            sparse=bool(value >> 2 & 1),
            k96=bool(value >> 31 & 1),
        )


def decode_instruction_descriptor(value: int, kind: str) -> InstructionDescriptor | BlockScaledDescriptor:
    """Decode for any kind (with or without the ``kind::`` prefix)."""
    kind = kind.removeprefix("kind::")
    return BlockScaledDescriptor.decode(value, kind) if kind in _SCALED else InstructionDescriptor.decode(value, kind)


def _reserved(value: int, mask: int) -> None:
    if not 0 <= value < 1 << 32:
        raise PtxError(f"instruction descriptor: {value:#x} does not fit 32 bits")
    if value & mask:
        raise PtxError(f"instruction descriptor {value:#010x}: reserved bits {value & mask:#x} are set")


def _name(codes: Mapping[str, int], code: int, what: str, kind: str) -> str:
    for name, number in codes.items():
        if number == code:
            return name
    raise PtxError(f"instruction descriptor: {what} code {code} is not defined for kind {kind}")
