"""Comparison, selection, logic and shifts (PTX ISA 9.7.6 to 9.7.8) and control flow (9.7.12)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Bound, Instruction, Operand, dst, imm, instruction, pred, src

_CMP_INT = "cmp={eq,ne,lt,le,gt,ge,lo,ls,hi,hs}"
_CMP_FLT = "cmp={eq,ne,lt,le,gt,ge,equ,neu,ltu,leu,gtu,geu,num,nan}"
_BOOL = "bool={and,or,xor}"


def _integer_comparison(bound: Bound) -> str | None:
    cmp, type_ = bound["cmp"], bound["T"]
    if type_[0] == "b" and cmp not in ("eq", "ne"):
        return f".{cmp} does not compare bit-size type .{type_}, only .eq and .ne do"
    if type_[0] == "s" and cmp in ("lo", "ls", "hi", "hs"):
        return f".{cmp} compares unsigned types only, not .{type_}"
    return None


def _compare(types: str, cmp: str, flags: str = "", **kw: object) -> tuple[Instruction, ...]:
    """setp in its four shapes: with or without a second result, with or without a combining predicate."""
    p = Operand("p", "pred", "pred", dst=True)
    pq = Operand("p|q", "pair", "pred", dst=True, anyimm=False, sink=True)
    a, b = src("a", "$T"), src("b", "$T")
    rows = []
    for first in (p, pq):
        rows.append(instruction("setp", f"{cmp} {flags} T={types}", first, a, b, **kw))
        rows.append(instruction("setp", f"{cmp} {_BOOL} {flags} T={types}", first, a, b, pred("c"), **kw))
    return tuple(rows)


ROWS: tuple[Instruction, ...] = (
    *_compare("{b16,b32,b64,u16,u32,u64,s16,s32,s64}", _CMP_INT, section="9.7.6", checks=(_integer_comparison,)),
    *_compare("f32", _CMP_FLT, "ftz?", section="9.7.6"),
    *_compare("f64", _CMP_FLT, section="9.7.6"),
    instruction("setp", f"{_CMP_FLT} ftz? T=f16", Operand("p", "pred", "pred", dst=True), src("a", "$T"),
                src("b", "$T"), section="9.7.7"),
    instruction("setp", f"{_CMP_FLT} T=bf16", Operand("p", "pred", "pred", dst=True), src("a", "$T"), src("b", "$T"),
                section="9.7.7", feature="sm_90", ptx=(7, 8)),
    instruction("setp", f"{_CMP_FLT} ftz? T=f16x2", Operand("p|q", "pair", "pred", dst=True, anyimm=False, sink=True),
                src("a", "$T"), src("b", "$T"), section="9.7.7"),
    instruction("setp", f"{_CMP_FLT} T=bf16x2", Operand("p|q", "pair", "pred", dst=True, anyimm=False, sink=True),
                src("a", "$T"), src("b", "$T"), section="9.7.7", feature="sm_90", ptx=(7, 8)),
    instruction("set", f"{_CMP_INT} R={{u32,s32,f32}} T={{u16,u32,u64,s16,s32,s64}}", dst("d", "$R"), src("a", "$T"),
                src("b", "$T"), section="9.7.6", checks=(_integer_comparison,)),
    instruction("set", f"{_CMP_FLT} ftz? R={{u32,s32,f32}} T=f32", dst("d", "$R"), src("a", "$T"), src("b", "$T"),
                section="9.7.6"),
    instruction("selp", "T={b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}", dst("d", "$T"), src("a", "$T"),
                src("b", "$T"), pred("p"), section="9.7.6"),
    instruction("slct", "T={b32,b64,u32,u64,s32,s64,f32,f64} s32", dst("d", "$T"), src("a", "$T"), src("b", "$T"),
                src("c", "s32"), section="9.7.6"),
    *(
        instruction(op, "T={b16,b32,b64}", dst("d", "$T"), src("a", "$T"), src("b", "$T"), section="9.7.8")
        for op in ("and", "or", "xor")
    ),
    *(
        instruction(op, "pred", Operand("d", "pred", "pred", dst=True), pred("a"), pred("b"), section="9.7.8")
        for op in ("and", "or", "xor")
    ),
    instruction("not", "T={b16,b32,b64}", dst("d", "$T"), src("a", "$T"), section="9.7.8"),
    instruction("not", "pred", Operand("d", "pred", "pred", dst=True), pred("a"), section="9.7.8"),
    instruction("cnot", "T={b16,b32,b64}", dst("d", "$T"), src("a", "$T"), section="9.7.8"),
    instruction("lop3", "T=b32", dst("d"), src("a"), src("b"), src("c"), imm("lut", 0, 255), section="9.7.8"),
    instruction("lop3", "bool={or,and} T=b32", Operand("d|p", "pair", "b32", dst=True, anyimm=False, sink=True),
                src("a"), src("b"), src("c"), imm("lut", 0, 255), pred("q"), section="9.7.8", ptx=(8, 2)),
    instruction("shl", "T={b16,b32,b64}", dst("d", "$T"), src("a", "$T"), src("amount", "b32"), section="9.7.8"),
    instruction("shr", "T={b16,b32,b64,u16,u32,u64,s16,s32,s64}", dst("d", "$T"), src("a", "$T"),
                src("amount", "b32"), section="9.7.8"),
    instruction("shf", "{l,r} {clamp,wrap} T=b32", dst("d"), src("lo"), src("hi"), src("amount"), section="9.7.8"),
    instruction("prmt", "T=b32 mode={f4e,b4e,rc8,ecl,ecr,rc16}?", dst("d"), src("a"), src("b"), src("selector"),
                section="9.7.9"),
    # control flow
    instruction("bra", "uni?", Operand("target", "label"), section="9.7.12"),
    instruction("ret", "uni?", section="9.7.12"),
    instruction("exit", "", section="9.7.12"),
    instruction("trap", "", section="9.7.19"),
    instruction("brkpt", "", section="9.7.19"),
    instruction("nanosleep", "u32", src("t", "u32"), section="9.7.19"),
    instruction("pmevent", "", imm("event", 0, 15), section="9.7.19"),
)  # fmt: skip
