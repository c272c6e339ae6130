"""Instructions of a warp or warpgroup: shuffles, votes, reductions, election, register reallocation."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Bound, Instruction, Operand, dst, imm, instruction, pred, src

_SEC = "9.7.9"
_SYNC = "9.7.13"
_MASK = src("mask", "b32")


def _redux(bound: Bound) -> str | None:
    type_, op = bound["T"], bound["op"]
    if op in ("and", "or", "xor"):
        return None if type_ == "b32" else f".{op} takes .b32, not .{type_}"
    return None if type_ in ("u32", "s32") else f".{op} takes .u32 or .s32, not .{type_}"


def _shuffle(destination: Operand) -> Instruction:
    return instruction("shfl.sync", "mode={up,down,bfly,idx} b32", destination, src("a", "b32"), src("lane", "b32"),
                       src("clamp", "b32"), _MASK, issuer="warp", section=_SEC)  # fmt: skip


ROWS: tuple[Instruction, ...] = (
    _shuffle(dst("d", "b32")),
    _shuffle(Operand("d|p", "pair", "b32", dst=True, anyimm=False, sink=True)),
    instruction("vote.sync", "{all,any,uni} pred", Operand("d", "pred", "pred", dst=True), pred("a"), _MASK,
                issuer="warp", section=_SYNC),
    instruction("vote.sync", "ballot b32", dst("d", "b32"), pred("a"), _MASK, issuer="warp", section=_SYNC),
    instruction("match.any.sync", "T={b32,b64}", dst("d", "b32"), src("a", "$T"), _MASK, issuer="warp", section=_SYNC),
    instruction("match.all.sync", "T={b32,b64}", Operand("d|p", "pair", "b32", dst=True, anyimm=False, sink=True),
                src("a", "$T"), _MASK, issuer="warp", section=_SYNC),
    instruction("activemask", "b32", dst("d", "b32"), section=_SYNC),
    instruction("redux.sync", "op={add,min,max,and,or,xor} T={u32,s32,b32}", dst("d", "$T"), src("a", "$T"), _MASK,
                issuer="warp", section=_SYNC, ptx=(7, 0), checks=(_redux,)),
    instruction("redux.sync", "op={min,max} abs? NaN? T=f32", dst("d", "f32"), src("a", "f32"), _MASK, issuer="warp",
                section=_SYNC, feature="redux.f32", ptx=(8, 6)),
    instruction("elect.sync", "", Operand("d|p", "pair", "b32", dst=True, anyimm=False, sink=True), _MASK,
                issuer="warp", section=_SYNC, feature="sm_90", ptx=(8, 0)),
    instruction("setmaxnreg", "{inc,dec} sync.aligned u32", imm("registers", 24, 256, 8), issuer="warpgroup",
                section="9.7.19", feature="setmaxnreg", ptx=(8, 0)),
)  # fmt: skip
