"""Moves, conversions and address conversions (PTX ISA 9.7.9)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import TYPE_BITS, Bound, Instruction, Need, Operand, dst, instruction, rsrc, src

_SEC = "9.7.9"
_PARAM = (
    Need("space", ("param",), "", (7, 7)),
    Need("space", ("param::entry",), "", (8, 3)),
    Need("space", ("shared::cta",), "", (7, 8)),
    Need("space", ("shared::cluster",), "sm_90", (7, 8)),
)
_CVTA_SPACES = "space={global,shared,shared::cta,shared::cluster,const,local,param}"
_NARROW = {"section": _SEC, "feature": "narrow"}
_INTS = "{u8,u16,u32,u64,s8,s16,s32,s64}"


def _d(t: str) -> Operand:
    return dst("d", t, wide=True)


def _a(t: str) -> Operand:
    return rsrc("a", t, wide=True)


def _pack(bits: int, parts: int) -> tuple[Instruction, ...]:
    """mov between one register of ``bits`` and a vector of ``parts`` smaller ones, both ways."""
    piece = f"b{bits // parts}"
    ptx = (8, 3) if bits == 128 else (7, 0)
    return (
        instruction("mov", f"T=b{bits}", dst("d", f"b{bits}"), Operand("a", "value", piece, count=parts), section=_SEC,
                    ptx=ptx),
        instruction("mov", f"T=b{bits}", Operand("d", "value", piece, dst=True, count=parts, sink=True),
                    rsrc("a", f"b{bits}"), section=_SEC, ptx=ptx),
    )  # fmt: skip


def _float_narrowing(bound: Bound) -> str | None:
    """Rounding is compulsory when precision can be lost and forbidden when it cannot (9.7.9.21)."""
    if bound.get("ftz") and "f32" not in (bound["D"], bound["S"]):
        return ".ftz applies to conversions from or to .f32"
    order = {"f16": 0, "bf16": 0, "f32": 1, "f64": 2}
    d, s, mode = bound["D"], bound["S"], bound["round"]
    if d == s:
        if mode in ("rn", "rz", "rm", "rp"):
            return f"a conversion from .{s} to .{d} takes .rni .rzi .rmi .rpi, not .{mode}"
        return None
    if mode.endswith("i"):
        return f".{mode} rounds to an integral value, which takes equal types, not .{s} to .{d}"
    if order[d] < order[s] and not mode:
        return f"a conversion from .{s} to .{d} needs a rounding mode"
    if order[d] > order[s] and mode:
        return f"a conversion from .{s} to .{d} is exact and takes no rounding mode"
    return None


def _int_saturate(bound: Bound) -> str | None:
    d, s = bound["D"], bound["S"]
    contained = TYPE_BITS[d] >= TYPE_BITS[s] if d[0] == s[0] else d[0] == "s" and TYPE_BITS[d] > TYPE_BITS[s]
    if bound["sat"] and contained:
        return f".{d} holds every .{s}, so .sat is not permitted"
    return None


ROWS: tuple[Instruction, ...] = (
    instruction("mov", "T={b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}", dst("d", "$T"), src("a", "$T"), section=_SEC),
    instruction("mov", "T=b128", dst("d", "b128"), rsrc("a", "b128"), section=_SEC, ptx=(8, 3)),
    instruction("mov", "pred", Operand("d", "pred", "pred", dst=True), Operand("a", "pred", "pred"), section=_SEC),
    *_pack(32, 2),
    *_pack(32, 4),
    *_pack(64, 2),
    *_pack(64, 4),
    *_pack(128, 2),
    *_pack(128, 4),
    instruction("cvta", f"{_CVTA_SPACES} u64", dst("d", "b64"), src("a", "b64"), section=_SEC, needs=_PARAM),
    instruction("cvta", f"to {_CVTA_SPACES} u64", dst("d", "b64"), rsrc("a", "b64"),
                section=_SEC, needs=_PARAM),
    instruction("isspacep", "space={global,shared,shared::cta,const,local,param,param::entry}", dst("p", "pred"),
                rsrc("a", "b64"), section=_SEC, needs=_PARAM),
    instruction("isspacep", "space=shared::cluster", dst("p", "pred"), rsrc("a", "b64"), section=_SEC,
                feature="sm_90", ptx=(7, 8)),
    # integer and float scalars
    instruction("cvt", f"sat=sat? D={_INTS} S={_INTS}", _d("$D"), _a("$S"), section=_SEC, checks=(_int_saturate,)),
    instruction("cvt", f"{{rni,rzi,rmi,rpi}} ftz? sat? D={_INTS} S=f32", _d("$D"), _a("$S"), section=_SEC),
    instruction("cvt", f"{{rni,rzi,rmi,rpi}} sat? D={_INTS} S={{f16,f64}}", _d("$D"), _a("$S"), section=_SEC),
    instruction("cvt", "{rni,rzi,rmi,rpi} D={u16,u32,u64,s16,s32,s64} S=bf16", _d("$D"), _a("$S"), section=_SEC,
                feature="sm_90", ptx=(7, 8)),
    instruction("cvt", f"{{rn,rz,rm,rp}} sat? D={{f16,f32,f64}} S={_INTS}", _d("$D"), _a("$S"), section=_SEC),
    instruction("cvt", "{rn,rz,rm,rp} D=bf16 S={u16,u32,u64,s16,s32,s64}", _d("$D"), _a("$S"), section=_SEC,
                feature="sm_90", ptx=(7, 8)),
    instruction("cvt", "round={rn,rz,rm,rp,rni,rzi,rmi,rpi}? ftz=ftz? sat? D={f16,f32} S={f16,f32}", _d("$D"), _a("$S"),
                section=_SEC, checks=(_float_narrowing,)),
    instruction("cvt", "round={rn,rz,rm,rp,rni,rzi,rmi,rpi}? sat? D={f16,f32,f64} S=f64", _d("$D"), _a("$S"),
                section=_SEC, checks=(_float_narrowing,)),
    instruction("cvt", "round={rn,rz}? D=f64 S={f16,f32}", _d("$D"), _a("$S"), section=_SEC,
                checks=(_float_narrowing,)),
    instruction("cvt", "{rn,rz} relu? D={f16,bf16} S=f32", _d("$D"), _a("$S"), section=_SEC, ptx=(7, 0)),
    instruction("cvt", "rna D=tf32 S=f32", _d("b32"), _a("$S"), section=_SEC, ptx=(7, 0)),
    instruction("cvt", "{rn,rz} relu? D=tf32 S=f32", _d("b32"), _a("$S"), section=_SEC, ptx=(7, 8), feature="sm_90"),
    instruction("cvt", "rna satfinite D=tf32 S=f32", _d("b32"), _a("$S"), section=_SEC, ptx=(8, 1)),
    instruction("cvt", "{rn,rz} satfinite relu? D=tf32 S=f32", _d("b32"), _a("$S"), section=_SEC, ptx=(8, 6),
                feature="sm_100"),
    instruction("cvt", "D=f32 S=bf16", _d("$D"), _a("$S"), section=_SEC, ptx=(7, 1)),
    instruction("cvt", "{rn,rz,rm,rp} D=f16 S=bf16", _d("$D"), _a("$S"), section=_SEC, ptx=(7, 8), feature="sm_90"),
    instruction("cvt", "{rn,rz,rm,rp} D=bf16 S={f16,f64}", _d("$D"), _a("$S"), section=_SEC, ptx=(7, 8),
                feature="sm_90"),
    # packed: the first source becomes the upper half
    instruction("cvt", "{rn,rz} relu? D={f16x2,bf16x2} S=f32", _d("$D"), src("hi", "$S"), src("lo", "$S"),
                section=_SEC, ptx=(7, 0)),
    instruction("cvt", "{rn,rz} relu? satfinite D={f16x2,bf16x2} S=f32", _d("$D"), src("hi", "$S"), src("lo", "$S"),
                section=_SEC, ptx=(8, 1)),
    instruction("cvt", "rs relu? satfinite? D={f16x2,bf16x2} S=f32", _d("$D"), rsrc("hi", "$S"), rsrc("lo", "$S"),
                rsrc("random", "b32"), section=_SEC, ptx=(8, 7), feature="stochastic"),
    instruction("cvt", "rn satfinite relu? D={e4m3x2,e5m2x2} S=f32", _d("$D"), src("hi", "$S"), src("lo", "$S"),
                section=_SEC, ptx=(8, 1), feature="sm_89"),
    instruction("cvt", "rn satfinite relu? D={e4m3x2,e5m2x2} S=f16x2", _d("$D"), rsrc("a", "$S"), section=_SEC,
                ptx=(8, 1), feature="sm_89"),
    instruction("cvt", "rn relu? D=f16x2 S={e4m3x2,e5m2x2}", _d("$D"), rsrc("a", "$S"), section=_SEC, ptx=(8, 1),
                feature="sm_89"),
    instruction("cvt", "rn satfinite relu? D={e2m3x2,e3m2x2,e2m1x2} S=f32", dst("d", "$D"), src("hi", "$S"),
                src("lo", "$S"), section=_SEC, ptx=(8, 6), feature="narrow"),
    instruction("cvt", "rn relu? D=f16x2 S={e2m3x2,e3m2x2,e2m1x2}", _d("$D"), rsrc("a", "$S"), section=_SEC,
                ptx=(8, 6), feature="narrow"),
    # from and to bf16x2, with an optional pair of ue8m0 scales
    instruction("cvt", "rn satfinite relu? D={e4m3x2,e5m2x2} S=bf16x2", dst("d", "$D"), rsrc("a", "$S"), ptx=(9, 1),
                **_NARROW),
    instruction("cvt", "rn satfinite relu? D={e2m3x2,e3m2x2,e2m1x2} S={f16x2,bf16x2}", dst("d", "$D"),
                rsrc("a", "$S"), ptx=(9, 1), **_NARROW),
    instruction("cvt", "rn relu? satfinite? scale=scaled::n2::ue8m0? D=bf16x2 "
                "S={e4m3x2,e5m2x2,e2m3x2,e3m2x2,e2m1x2}", dst("d", "$D"), rsrc("a", "$S"),
                rsrc("scales", "ue8m0x2", when="scale"), ptx=(9, 2), **_NARROW),
    instruction("cvt", "{rz,rp} satfinite? D=ue8m0x2 S=f32", _d("$D"), src("hi", "$S"), src("lo", "$S"), section=_SEC,
                ptx=(8, 6), feature="narrow"),
    instruction("cvt", "{rz,rp} satfinite? D=ue8m0x2 S=bf16x2", _d("$D"), rsrc("a", "$S"), section=_SEC,
                ptx=(8, 6), feature="narrow"),
    instruction("cvt", "rn D=bf16x2 S=ue8m0x2", _d("$D"), rsrc("a", "$S"), section=_SEC, ptx=(8, 6),
                feature="narrow"),
    instruction("cvt", "rs relu? satfinite D={e4m3x4,e5m2x4,e2m3x4,e3m2x4,e2m1x4} S=f32", _d("$D"),
                Operand("a", "value", "$S", count=4), rsrc("random", "b32"), section=_SEC, ptx=(8, 7),
                feature="stochastic"),
    instruction("cvt", "pack.sat C={u16,s16} A=s32 ", dst("d", "b32"), src("a", "s32"), src("b", "s32"), section=_SEC,
                ptx=(6, 5)),
    instruction("cvt", "pack.sat C={u8,s8} A=s32 b32", dst("d", "b32"), src("a", "s32"), src("b", "s32"),
                src("c", "b32"), section=_SEC, ptx=(6, 5)),
)  # fmt: skip
