"""Conditions on conversions between registers."""

from __future__ import annotations

import numpy as np

from ..context import CallContext
from .registry import holds

#: (from, to) -> PTX conversion of two elements into one 32-bit register, high element first (PTX ISA, cvt).
PACKED_CASTS = {
    ("float32", "float16"): "cvt.rn.f16x2.f32",
    ("float32", "bfloat16"): "cvt.rn.bf16x2.f32",
}
#: (from, to) -> PTX conversion of one element.
SCALAR_CASTS = {
    ("float32", "float16"): "cvt.rn.f16.f32", ("float32", "bfloat16"): "cvt.rn.bf16.f32",
    ("float16", "float32"): "cvt.f32.f16", ("bfloat16", "float32"): "cvt.f32.bf16",
    ("int32", "float32"): "cvt.rn.f32.s32", ("uint32", "float32"): "cvt.rn.f32.u32",
    ("float32", "int32"): "cvt.rzi.s32.f32", ("float32", "uint32"): "cvt.rzi.u32.f32",
}  # fmt: skip


def _cast_pair(c: CallContext) -> tuple[str, str]:
    return c.inputs[0].dtype, c.outputs[0].dtype


@holds("a packed conversion exists")
def _packed(c: CallContext) -> str | None:
    pair = _cast_pair(c)
    return None if pair in PACKED_CASTS else f"there is no packed conversion from {pair[0]} to {pair[1]}"


@holds("a scalar conversion exists")
def _scalar(c: CallContext) -> str | None:
    pair = _cast_pair(c)
    return None if pair in SCALAR_CASTS else f"there is no conversion from {pair[0]} to {pair[1]}"


@holds("destination pairs share a register")
def _pairs(c: CallContext) -> str | None:
    dst = c.outputs[0]
    if dst.root.space != "local" or dst.size % 2 or "byte" not in dst.places({}):
        return "the destination is not an even number of elements in registers"
    byte = dst.places({})["byte"]
    bad = np.flatnonzero((byte[0::2] % 4 != 0) | (byte[1::2] != byte[0::2] + 2))
    return f"elements {2 * int(bad[0])} and {2 * int(bad[0]) + 1} are not in one register" if len(bad) else None
