"""Matrices in the registers of a warp (PTX ISA 9.7.14)."""

from __future__ import annotations

from typing import Any

from ...errors import LoweringError
from ...ir import Call, const
from .language import Arguments, Template, constant

#: Names that types of mma.sync have in the script -> in PTX.
_PTX = {
    "float16": "f16", "fp16": "f16", "bfloat16": "bf16", "float32": "f32", "fp32": "f32", "float64": "f64", "fp64": "f64",
    "tensor_float32": "tf32", "int8": "s8", "uint8": "u8", "int32": "s32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "int4": "s4", "uint4": "u4", "int1": "b1", "uint1": "b1", "bit1": "b1",
}  # fmt: skip


def _bare(given: Arguments) -> Arguments:
    return {"kind": str(constant(given["dtype"])).lstrip(".")}


def _multiply(given: Arguments) -> str:
    types = [_PTX.get(t, t) for t in (str(constant(given[f"{x}_type"])).lstrip(".") for x in "dabc")]
    saturate = ".satfinite" if constant(given["saturate"]) and types[0] == "s32" else ""
    shape, order = constant(given["shape"]), f"{constant(given['a_layout'])}.{constant(given['b_layout'])}"
    if constant(given.get("bit_op")) not in (None, ""):
        raise LoweringError("products of single bits have no instruction on this target")
    c = "^*c" if given["c"] else " ".join(["0.0" if types[3] in ("f32", "f64") else "0"] * len(given["d"]))
    return f"mma.sync.aligned.{shape}.{order}{saturate}.{'.'.join(types)} *d ^*a ^*b {c}"


def mma_operands(call: Call) -> dict[str, Any]:
    """The operands of ``ptx.mma``, whose lists of pointers are counted."""
    shape, a_layout, b_layout, d, a, b, c, *rest = call.args
    counts = [int(constant(n) or 0) for n in rest[:4]]
    bare = bool(constant(rest[4]))
    pointers, place = [], 5
    for k, count in enumerate(counts):
        count = 0 if k == 3 and bare else count
        pointers.append(tuple(rest[place : place + count]))
        place += count
    tail = rest[place:]
    return {
        "shape": shape, "a_layout": a_layout, "b_layout": b_layout, "d_type": d, "a_type": a, "b_type": b, "c_type": c,
        **dict(zip("dabc", pointers)), "saturate": tail[0] if tail else const(0), "bit_op": tail[1] if len(tail) > 1 else None,
    }  # fmt: skip


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.ptx.ldmatrix": (
        Template("ldmatrix.sync.aligned.m8n8.x{num}{.trans}.shared.{kind} *dst_handles [smem_ptr]", derive=_bare),
    ),
    "tirx.ptx.stmatrix": (
        Template("stmatrix.sync.aligned.{shape}.x{num}{.trans}.shared.{kind} [smem_ptr] ^*src_handles", derive=_bare),
    ),
    "tirx.ptx.mma": (Template(_multiply),),
}  # fmt: skip
