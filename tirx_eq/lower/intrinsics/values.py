"""Arithmetic and conversions that a kernel asks for by instruction (PTX ISA 9.7.1, 9.7.3, 9.7.4, 9.7.9)."""

from __future__ import annotations

from ...errors import LoweringError
from .language import Arguments, Template, constant

_ROUNDED = "{.rounding}{.ftz}{.sat}"


def _into(op: str, operands: str) -> dict[str, tuple[Template, ...]]:
    return {f"tirx.ptx.{op}_{t}": (Template(f"{op}{_ROUNDED}.{t} d_addr {operands}"),) for t in ("f32", "f64")}


def _nearest(given: Arguments) -> Arguments:
    """Left out, the rounding is to nearest."""
    return {"rounding": constant(given["rounding"]) or "rn"}


def _pairs(op: str, operands: str) -> tuple[Template, ...]:
    return (
        Template(f"{op}{{.rounding}}{{.ftz}}.f32x2 d {operands}", "result=void", _nearest),
        Template(f"{op}{{.rounding}}{{.ftz}}.f32x2 %d {operands}", "result=uint64"),
    )


#: Formats of fewer than 16 bits: their conversions always saturate, and say so before ``.relu``.
_NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s2f6")


def _convert(given: Arguments) -> str:
    to, source = str(constant(given["dtype"])), str(constant(given["atype"]))
    flags = {n: bool(constant(given[n])) for n in ("ftz", "sat", "relu", "satfinite")}
    rounding, scaled = str(constant(given["rounding"]) or ""), str(constant(given["scaled"]) or "")
    order: tuple[str, ...]
    if to.startswith(_NARROW):
        order = ("relu", "satfinite") if rounding == "rs" else ("satfinite", "relu")
        rounding, flags["satfinite"] = rounding or "rn", True
    else:
        order = ("relu", "satfinite", "ftz", "sat")
        if source.startswith(_NARROW) or (source == "ue8m0x2"):
            rounding = rounding or "rn"
    written = [rounding, *(n for n in order if flags[n]), f"scaled::{scaled}" if scaled else "", to, source]
    opcode = ".".join(["cvt", *(w for w in written if w)])
    return f"{opcode} %d *values"


def _all_values(given: Arguments) -> Arguments:
    if any(v.dtype == "float32x2" for v in given["values"]):
        raise LoweringError("a vector is converted lane by lane")
    return {}


def _halves(to_float: bool) -> str:
    if to_float:
        return "; ".join(f"cvt.f32.f16 dst_addr+{4 * k} ^src_addr+{2 * k}" for k in range(8))
    return "; ".join(f"cvt.rn.f16x2.f32 dst_addr+{4 * k} ^src_addr+{8 * k + 4} ^src_addr+{8 * k}" for k in range(4))


def _dot(given: Arguments) -> str:
    kinds = ["u32" if given[n].dtype.startswith("uint") else "s32" for n in ("vec1", "vec2")]
    return f"dp4a.{kinds[0]}.{kinds[1]} %d vec1 vec2 acc"


def _fixed_point(given: Arguments) -> str:
    """round(x·y·2^-(q + s)), halves up, by a product of 64 bits."""
    q, s = (constant(given[n]) for n in ("q", "s"))
    if not (isinstance(q, int) and isinstance(s, int) and 1 <= q + s <= 62):
        raise LoweringError("q_multiply_shift needs constant q and s, with q + s from 1 to 62")
    return f"mul.wide.s32 %p x y; add.s64 %r %p {1 << (q + s - 1)}; shr.s64 %t %r {q + s}; cvt.u32.u64 %d %t"


TEMPLATES: dict[str, tuple[Template, ...]] = {
    "tirx.ptx.max_f32": (Template("max{.ftz}{.nan:NaN}.f32 %d a b"),),
    "tirx.ptx.add_rn_f32_bf16": (Template("cvt.f32.bf16 %x x; add.rn.f32 %d %x acc"),),
    **_into("add", "a b"), **_into("sub", "a b"), **_into("mul", "a b"), **_into("fma", "a b c"),
    **{f"tirx.ptx.{op}_f32x2": _pairs(op, "a b c" if op == "fma" else "a b") for op in ("add", "sub", "mul", "fma")},
    "tirx.ptx.cvt": (Template(_convert, derive=_all_values),),
    "tirx.ptx.fns_b32": (Template("fns.b32 %d mask base offset"),),
    "tirx.cuda.ffs_u32": (
        Template("mov.b32 %v value; neg.s32 %n %v; and.b32 %l %v %n; clz.b32 %z %l; neg.s32 %m %z; add.s32 %d %m 32"),
    ),
    "tirx.cuda.half2float": (Template("cvt.f32.f16 %d src"),),
    "tirx.cuda.bfloat162float": (Template("cvt.f32.bf16 %d src"),),
    "tirx.cuda.float22half2": (Template("cvt.rn.f16x2.f32 dst ^src+4 ^src"),),
    "tirx.cuda.half8tofloat8": (Template(_halves(True)),),
    "tirx.cuda.float8tohalf8": (Template(_halves(False)),),
    "tirx.cuda.runtime_instr_desc": (
        Template("mov.b32 %s sf_id; shl.b32 %a %s 29; shl.b32 %b %s 4; or.b32 %c %a %b; and.b32 %k ^desc 0x9fffffcf; "
                 "or.b32 desc %k %c"),
    ),
    "tirx.cuda.uint_as_float": (Template("mov.b32 %d bits"),),
    "tirx.cuda.float_as_uint": (Template("mov.b32 %d x"),),
    "tirx.cuda.make_float2": (Template("mov.b64 %d x y"),),
    "tirx.cuda.float2_x": (Template("mov.b64 %d _ packed"),),
    "tirx.cuda.float2_y": (Template("mov.b64 _ %d packed"),),
    "tirx.cuda.fmul2_rn": (Template("mul.rn.f32x2 %d a b"),),
    "tirx.cuda.fadd2_rn": (Template("add.rn.f32x2 %d a b"),),
    "tirx.cuda.float22bfloat162_rn": (Template("cvt.rn.bf16x2.f32 %d v1 v0"),),
    "tirx.cuda.float22bfloat162_rn_from_float2": (Template("mov.b64 %l %h packed; cvt.rn.bf16x2.f32 %d %h %l"),),
    "tirx.cuda.bfloat1622float2": (
        Template("mov.b32 %l:b16 %h:b16 packed; cvt.f32.bf16 %a %l; cvt.f32.bf16 %b %h; mov.b64 %d %a %b"),
    ),
    "tirx.cuda.hmin2": (Template("min.bf16x2 %d a b"),),
    "tirx.cuda.hmax2": (Template("max.bf16x2 %d a b"),),
    "tirx.cuda.fp8x4_e4m3_from_float4": (
        Template("cvt.rn.satfinite.e4m3x2.f32 %l y x; cvt.rn.satfinite.e4m3x2.f32 %h w z; mov.b32 %d %l %h"),
    ),
    "tirx.dp4a": (Template(_dot),), "tirx.q_multiply_shift": (Template(_fixed_point),),
}  # fmt: skip
