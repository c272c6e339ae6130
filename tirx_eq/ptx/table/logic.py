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


def _set(results: str, types: str, cmp: str, flags: str = "", **kw: object) -> tuple[Instruction, ...]:
    """set, with and without a combining predicate."""
    d, a, b = dst("d", "$R"), src("a", "$T"), src("b", "$T")
    kinds = f"{flags} R={results} T={types}"
    return (
        instruction("set", f"{cmp} {kinds}", d, a, b, section="9.7.6", **kw),
        instruction("set", f"{cmp} {_BOOL} {kinds}", d, a, b, pred("c"), section="9.7.6", **kw),
    )


def _compare(types: str, cmp: str, flags: str = "", shapes: str = "pq", **kw: object) -> tuple[Instruction, ...]:
    """setp with one ("p") or two ("q") results, each with and without a combining predicate."""
    p = Operand("p", "pred", "pred", dst=True)
    pq = Operand("p|q", "pair", "pred", dst=True, anyimm=False, sink=True)
    a, b = src("a", "$T"), src("b", "$T")
    rows = []
    for first in [{"p": p, "q": pq}[shape] for shape in shapes]:
        rows.append(instruction("setp", f"{cmp} {flags} T={types}", first, a, b, **kw))
        rows.append(instruction("setp", f"{cmp} {_BOOL} {flags} T={types}", first, a, b, pred("c"), **kw))
    return tuple(rows)


ROWS: tuple[Instruction, ...] = (
    *_compare("{b16,b32,b64,u16,u32,u64,s16,s32,s64}", _CMP_INT, section="9.7.6", checks=(_integer_comparison,)),
    *_compare("f32", _CMP_FLT, "ftz?", section="9.7.6"),
    *_compare("f64", _CMP_FLT, section="9.7.6"),
    *_compare("f16", _CMP_FLT, "ftz?", shapes="p", section="9.7.7"),
    *_compare("bf16", _CMP_FLT, shapes="p", section="9.7.7", feature="sm_90", ptx=(7, 8)),
    *_compare("f16x2", _CMP_FLT, "ftz?", shapes="q", section="9.7.7"),
    *_compare("bf16x2", _CMP_FLT, shapes="q", section="9.7.7", feature="sm_90", ptx=(7, 8)),
    *_set("{u32,s32,f32}", "{u16,u32,u64,s16,s32,s64,b16,b32,b64}", _CMP_INT, checks=(_integer_comparison,)),
    *_set("{u32,s32,f32}", "f32", f"{_CMP_FLT}", "ftz?"),
    *_set("{u32,s32,f32}", "f64", _CMP_FLT),
    *_set("{u16,s16,u32,s32,f16}", "f16", _CMP_FLT, "ftz?"),
    *_set("{u32,s32,f16x2}", "f16x2", _CMP_FLT, "ftz?"),
    instruction("selp", "T={b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64}", dst("d", "$T"), src("a", "$T"),
                src("b", "$T"), pred("p"), section="9.7.6"),
    instruction("slct", "T={b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64} s32", dst("d", "$T"), src("a", "$T"),
                src("b", "$T"), src("c", "s32"), section="9.7.6"),
    instruction("slct", "ftz? T={b16,b32,b64,u16,u32,u64,s16,s32,s64,f32,f64} f32", dst("d", "$T"), src("a", "$T"),
                src("b", "$T"), src("c", "f32"), section="9.7.6"),
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
