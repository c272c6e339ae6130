"""Loads, stores, prefetches and cache hints (PTX ISA 9.7.9)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import (
    TYPE_BITS,
    Bound,
    Instruction,
    Need,
    Operand,
    Range,
    addr,
    dst,
    imm,
    instruction,
    rsrc,
    src,
)

_SEC = "9.7.9"
_SCALARS = "T={b8,b16,b32,b64,u8,u16,u32,u64,s8,s16,s32,s64,f32,f64}"
SHARED = "shared,shared::cta,shared::cluster"
_SPACES = f"ss={{global,{SHARED},local,const,param,param::entry}}"
_CTA = Need("ss", ("shared::cta", "shared::cluster"), "", (7, 8))
_CLUSTER = Need("ss", ("shared::cluster",), "sm_90", (7, 8))
_PARAM_ENTRY = Need("ss", ("param::entry",), "", (8, 3))
HINTS = tuple(Need(group, (), "", (7, 4)) for group in ("hint", "pre", "ev"))
SPACE_NEEDS = (_CTA, _CLUSTER, _PARAM_ENTRY, *HINTS)
_VOLATILE = (*SPACE_NEEDS, Need("ss", ("local",), "", (9, 1)))
_SCOPE = "scope={cta,cluster,gpu,sys}"
SCOPE_NEEDS = (Need("scope", ("cluster",), "sm_90", (7, 8)),)
_EVICT = "L1::{evict_normal,evict_unchanged,evict_first,evict_last,no_allocate}"
_EVICT_L2 = "L2::evict_{last,normal,first}"
_WIDE = ("V=v8 T={b32,u32,s32,f32}", "V=v4 T={b64,u64,s64,f64}")
_PREFETCH = "pre=L2::{64B,128B,256B}?"
HINT = "hint=L2::cache_hint?"
POLICY = rsrc("policy", "b64", when="hint")


def vector_bits(bound: Bound) -> str | None:
    """A vector access moves at most 128 bits; accesses of 256 bits have rows of their own (9.7.9.8)."""
    if not bound["V"]:
        return None
    bits = TYPE_BITS[bound["T"]] * int(bound["V"][1:])
    if bits <= 128:
        return None
    return f".{bound['V']}.{bound['T']} moves {bits} bits; at most 128, or 256 of 32- or 64-bit elements in .global"


_VEC = "V=v{2,4}?"
#: Accesses to registers of devices; ordered ones since PTX 9.3.
_MMIO = (Need("sem", ("acquire", "release"), "", (9, 3)),)
_STORED_ONE = Operand("b", "value", "$T", wide=True)
_LOADED_ONE = Operand("d", "value", "$T", dst=True, anyimm=False, wide=True)
_STORED_ONE = Operand("b", "value", "$T", wide=True)
_LOADED = Operand("d", "value", "$T", dst=True, count="$V", anyimm=False, wide=True, sink=True)
_STORED = Operand("b", "value", "$T", count="$V", wide=True)


def _loads() -> list[Instruction]:
    rows = [
        instruction("ld", f"weak? {_SPACES} cop={{ca,cg,cs,lu,cv}}? {HINT} {_PREFETCH} {_VEC} {_SCALARS}",
                    _LOADED, addr("a", "$ss"), POLICY, section=_SEC, needs=SPACE_NEEDS,
                    checks=(vector_bits, global_only)),
        instruction("ld", f"weak? ss=global? ev={_EVICT} {HINT} {_PREFETCH} {_VEC} {_SCALARS}",
                    _LOADED, addr("a", "$ss"), POLICY, section=_SEC, ptx=(7, 4), checks=(vector_bits,)),
        instruction("ld", f"weak? {_VEC} {_SCALARS}", _LOADED, addr("a", ""), section=_SEC, checks=(vector_bits,),
                    note="generic address"),
        instruction("ld", f"volatile ss={{global,{SHARED},local}} {_VEC} {_SCALARS}", _LOADED, addr("a", "$ss"),
                    section=_SEC, needs=_VOLATILE, checks=(vector_bits,)),
        instruction("ld", f"sem={{relaxed,acquire}} {_SCOPE} ss={{global,{SHARED}}}? ev={_EVICT}? {HINT} {_PREFETCH} "
                    f"{_VEC} {_SCALARS}", _LOADED, addr("a", "$ss"), POLICY, section=_SEC,
                    needs=SPACE_NEEDS + SCOPE_NEEDS, checks=(vector_bits, global_only)),
        instruction("ld", f"mmio sem={{relaxed,acquire}} sys ss=global? {_SCALARS}", _LOADED_ONE, addr("a", "$ss"),
                    section=_SEC, ptx=(8, 2), needs=_MMIO),
        instruction("ld", f"ss=global cop={{ca,cg,cs}}? nc {HINT} {_PREFETCH} {_VEC} {_SCALARS}",
                    _LOADED, addr("a", "$ss"), POLICY, section=_SEC, ptx=(7, 4), checks=(vector_bits,)),
        instruction("ld", f"ss=global nc ev={_EVICT} {HINT} {_PREFETCH} {_VEC} {_SCALARS}",
                    _LOADED, addr("a", "$ss"), POLICY, section=_SEC, ptx=(7, 4), checks=(vector_bits,)),
        # 256 bits at once, global memory only
        *(
            instruction("ld", f"{order} ss=global {nc} l1={_EVICT}? l2={_EVICT_L2}? {HINT} {_PREFETCH} {shape}",
                        _LOADED, addr("a", "$ss"), POLICY, section=_SEC, feature="sm_100", ptx=(8, 8),
                        needs=SCOPE_NEEDS)
            for shape in _WIDE
            for order, nc in (("weak?", ""), ("", "nc"), (f"sem={{relaxed,acquire}} {_SCOPE}", ""))
        ),
        instruction("ld", f"sem={{relaxed,acquire}} {_SCOPE} ss={{global,{SHARED}}}? T=b128", dst("d", "b128"),
                    addr("a", "$ss"), section=_SEC, ptx=(8, 4), needs=SPACE_NEEDS + SCOPE_NEEDS),
        instruction("ld", f"weak? ss={{global,{SHARED}}} T=b128", dst("d", "b128"), addr("a", "$ss"), section=_SEC,
                    ptx=(8, 3), needs=SPACE_NEEDS),
    ]  # fmt: skip
    return rows


def _stores() -> list[Instruction]:
    return [
        instruction("st", f"weak? ss={{global,{SHARED},local}} cop={{wb,cg,cs,wt}}? {HINT} {_VEC} {_SCALARS}",
                    addr("a", "$ss"), _STORED, POLICY, section=_SEC, needs=SPACE_NEEDS,
                    checks=(vector_bits, global_only)),
        instruction("st", f"weak? ss=global? ev={_EVICT} {HINT} {_VEC} {_SCALARS}", addr("a", "$ss"), _STORED, POLICY,
                    section=_SEC, ptx=(7, 4), checks=(vector_bits,)),
        instruction("st", f"weak? {_VEC} {_SCALARS}", addr("a", ""), _STORED, section=_SEC, checks=(vector_bits,),
                    note="generic address"),
        instruction("st", f"volatile ss={{global,{SHARED},local}} {_VEC} {_SCALARS}", addr("a", "$ss"), _STORED,
                    section=_SEC, needs=_VOLATILE, checks=(vector_bits,)),
        instruction("st", f"sem={{relaxed,release}} {_SCOPE} ss={{global,{SHARED}}}? ev={_EVICT}? {HINT} {_VEC} "
                    f"{_SCALARS}", addr("a", "$ss"), _STORED, POLICY, section=_SEC, needs=SPACE_NEEDS + SCOPE_NEEDS,
                    checks=(vector_bits, global_only)),
        instruction("st", f"mmio sem={{relaxed,release}} sys ss=global? {_SCALARS}", addr("a", "$ss"), _STORED_ONE,
                    section=_SEC, ptx=(8, 2), needs=_MMIO),
        *(
            instruction("st", f"{order} ss=global l1={_EVICT}? l2={_EVICT_L2}? {HINT} {shape}", addr("a", "$ss"),
                        _STORED, POLICY, section=_SEC, feature="sm_100", ptx=(8, 8), needs=SCOPE_NEEDS)
            for shape in _WIDE
            for order in ("weak?", f"sem={{relaxed,release}} {_SCOPE}")
        ),
        instruction("st", f"sem={{relaxed,release}} {_SCOPE} ss={{global,{SHARED}}}? T=b128", addr("a", "$ss"),
                    rsrc("b", "b128"), section=_SEC, ptx=(8, 4), needs=SPACE_NEEDS + SCOPE_NEEDS),
        instruction("st", f"weak? ss={{global,{SHARED}}} T=b128", addr("a", "$ss"), rsrc("b", "b128"), section=_SEC,
                    ptx=(8, 3), needs=SPACE_NEEDS),
        instruction("st.async", "weak? ss=shared::cluster? mbarrier::complete_tx::bytes V=v{2,4}? "
                    "T={b32,b64,u32,u64,s32,s64,f32,f64}", addr("a", "shared::cluster"), _STORED,
                    addr("mbar", "shared::cluster"), section=_SEC, feature="sm_90", ptx=(8, 1), checks=(vector_bits,)),
        instruction("st.bulk", "weak? ss=shared::cta?", addr("a", "$ss"),
                    src("size", "b64", Range(0, (1 << 24) - 8, 8)),
                    imm("zero", 0, 0),
                    section=_SEC, feature="sm_100", ptx=(8, 6)),
    ]  # fmt: skip


def global_only(bound: Bound) -> str | None:
    """Cache hints, prefetch sizes and eviction priorities belong to global memory."""
    for group in ("hint", "pre", "ev"):
        if bound.get(group) and bound.get("ss") not in ("global", ""):
            return f".{bound[group]} applies to .global, not to .{bound['ss']}"
    return None


ROWS: tuple[Instruction, ...] = (
    *_loads(),
    *_stores(),
    instruction("ldu", f"ss=global? {_VEC} {_SCALARS}", _LOADED, addr("a", "$ss"), section=_SEC,
                checks=(vector_bits,)),
    instruction("prefetch", "ss={global,local} L{1,2}", addr("a", "$ss"), section=_SEC),
    instruction("prefetch", "L{1,2}", addr("a", ""), section=_SEC),
    instruction("prefetch", "ss=global L2::evict_{last,normal}", addr("a", "$ss"), section=_SEC, ptx=(7, 4)),
    instruction("prefetch", "ss={const,param}? tensormap", addr("map", "$ss"), section=_SEC, feature="sm_90",
                ptx=(8, 0)),
    instruction("prefetchu", "L1", addr("a", ""), section=_SEC),
    instruction("applypriority", "ss=global? L2::evict_normal", addr("a", "$ss"),
                imm("size", 128, 128), section=_SEC, ptx=(7, 4)),
    instruction("discard", "ss=global? L2", addr("a", "$ss"), imm("size", 128, 128), section=_SEC,
                ptx=(7, 4)),
    instruction("createpolicy.fractional", "L2::evict_{last,normal,first,unchanged} L2::evict_{first,unchanged}? b64",
                dst("policy", "b64"), src("fraction", "f32", when="?"), section=_SEC, ptx=(7, 4)),
    instruction("createpolicy.range", "ss=global? L2::evict_{last,normal,first,unchanged} "
                "L2::evict_{first,unchanged}? b64", dst("policy", "b64"), addr("a", "$ss"), src("primary", "b32"),
                src("total", "b32"), section=_SEC, ptx=(7, 4)),
    instruction("createpolicy.cvt", "L2 b64", dst("policy", "b64"), rsrc("access_property", "b64"), section=_SEC,
                ptx=(7, 4)),
)  # fmt: skip
