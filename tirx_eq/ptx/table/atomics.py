"""Atomic operations and reductions in memory (PTX ISA 9.7.13)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Bound, Instruction, Need, Operand, addr, dst, instruction, rsrc, src
from tirx_eq.ptx.table.memory import HINT, POLICY, SCOPE_NEEDS, SHARED, SPACE_NEEDS, global_only

_SEC = "9.7.13"
_ORDER = "sem={relaxed,acquire,release,acq_rel}? scope={cta,cluster,gpu,sys}?"
_WEAKER = "sem={relaxed,release}? scope={cta,cluster,gpu,sys}?"
_SPACE = f"ss={{global,{SHARED}}}?"
_NEEDS = SPACE_NEEDS + SCOPE_NEEDS
_COMMON = {"section": _SEC, "needs": _NEEDS, "checks": (global_only,)}

#: (operations and flags, types) of scalar read-modify-write operations.
_SCALAR = (
    ("op=add", "T={u32,s32,u64,f32,f64}"),
    ("op={min,max}", "T={u32,s32,u64,s64}"),
    ("op={and,or,xor}", "T={b32,b64}"),
    ("op={inc,dec}", "T=u32"),
    ("op=add noftz", "T={f16,f16x2,bf16,bf16x2}"),
)
_VECTOR = (
    ("op=add", "V=v{2,4} T=f32"),
    ("op={add,min,max} noftz", "V=v{2,4,8} T={f16,bf16}"),
    ("op={add,min,max} noftz", "V=v{2,4} T={f16x2,bf16x2}"),
)


def _scalars() -> list[Instruction]:
    rows = []
    for op, types in _SCALAR:
        kw = dict(_COMMON)
        if "bf16" in types:
            kw["needs"] = (*_NEEDS, Need("T", ("bf16", "bf16x2"), "sm_90", (7, 8)))
        rows += [
            instruction("atom", f"{_ORDER} {_SPACE} {op} {HINT} {types}", dst("d", "$T", sink=True), addr("a", "$ss"),
                        src("b", "$T"), POLICY, **kw),
            instruction("red", f"{_WEAKER} {_SPACE} {op} {HINT} {types}", addr("a", "$ss"), src("b", "$T"), POLICY,
                        **kw),
        ]  # fmt: skip
    wide = {**_COMMON, "feature": "sm_90", "ptx": (8, 4)}
    rows += [
        instruction("atom", f"{_ORDER} {_SPACE} op=exch {HINT} T={{b32,b64}}", dst("d", "$T"), addr("a", "$ss"),
                    src("b", "$T"), POLICY, **_COMMON),
        instruction("atom", f"{_ORDER} {_SPACE} op=cas T={{b16,b32,b64}}", dst("d", "$T"), addr("a", "$ss"),
                    src("compare", "$T"), src("value", "$T"), **_COMMON),
        instruction("atom", f"{_ORDER} {_SPACE} op=exch {HINT} T=b128", dst("d", "b128"), addr("a", "$ss"),
                    rsrc("b", "b128"), POLICY, **wide),
        instruction("atom", f"{_ORDER} {_SPACE} op=cas T=b128", dst("d", "b128"), addr("a", "$ss"),
                    rsrc("compare", "b128"), rsrc("value", "b128"), **wide),
    ]  # fmt: skip
    return rows


def _vectors() -> list[Instruction]:
    rows = []
    kw = {**_COMMON, "feature": "sm_90", "ptx": (8, 1)}
    given = Operand("b", "value", "$T", count="$V", anyimm=False)
    got = Operand("d", "value", "$T", dst=True, count="$V", anyimm=False)
    for op, types in _VECTOR:
        rows += [
            instruction("red", f"{_WEAKER} ss=global? {op} {HINT} {types}", addr("a", "$ss"), given, POLICY, **kw),
            instruction("atom", f"{_ORDER} ss=global? {op} {HINT} {types}", got, addr("a", "$ss"), given, POLICY, **kw),
        ]
    return rows


def _red_async(bound: Bound) -> str | None:
    legal = {"inc": ("u32",), "dec": ("u32",), "and": ("b32",), "or": ("b32",), "xor": ("b32",)}
    types = legal.get(bound["op"], ("u32", "s32"))
    return None if bound["T"] in types else f".{bound['op']} takes .{', .'.join(types)}, not .{bound['T']}"


ROWS: tuple[Instruction, ...] = (
    *_scalars(),
    *_vectors(),
    instruction("red.async", "relaxed.cluster ss=shared::cluster? mbarrier::complete_tx::bytes "
                "op={add,min,max,inc,dec,and,or,xor} T={u32,s32,b32}", addr("a", "shared::cluster"), src("b", "$T"),
                addr("mbar", "shared::cluster"), section=_SEC, feature="sm_90", ptx=(8, 1), checks=(_red_async,)),
    instruction("red.async", "relaxed.cluster ss=shared::cluster? mbarrier::complete_tx::bytes op=add T=u64",
                addr("a", "shared::cluster"), src("b", "$T"), addr("mbar", "shared::cluster"), section=_SEC,
                feature="sm_90", ptx=(8, 1)),
)  # fmt: skip
