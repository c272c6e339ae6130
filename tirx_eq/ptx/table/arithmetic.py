"""Integer and floating-point arithmetic (PTX ISA 9.7.1 to 9.7.5)."""

from __future__ import annotations

from tirx_eq.ptx.syntax import Instruction, Need, Operand, dst, instruction, src

_INT = "9.7.1"
_FLT = "9.7.3"
_HALF = "9.7.4"
_F32 = "T=f32"

_MINMAX = (Need("NaN", ("NaN",), "", (7, 0)), Need("xs", ("xorsign.abs",), "sm_86", (7, 2)))


def _a(t: str = "$T") -> Operand:
    return src("a", t)


def _b(t: str = "$T") -> Operand:
    return src("b", t)


def _c(t: str = "$T") -> Operand:
    return src("c", t)


def _d(t: str = "$T") -> Operand:
    return dst("d", t)


def _double(type_: str) -> str:
    return {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}[type_]


_INTEGER = (
    instruction("add", "T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), section=_INT),
    instruction("add", "sat T=s32", _d(), _a(), _b(), section=_INT),
    instruction("add", "T={u16x2,s16x2}", _d(), _a(), _b(), section=_INT, feature="sm_90", ptx=(8, 0)),
    instruction("sub", "T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), section=_INT),
    instruction("sub", "sat T=s32", _d(), _a(), _b(), section=_INT),
    instruction("mul", "{lo,hi} T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), section=_INT),
    *(instruction("mul", f"wide T={t}", _d(_double(t)), _a(), _b(), section=_INT)
      for t in ("u16", "s16", "u32", "s32")),
    instruction("mad", "{lo,hi} T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), _c(), section=_INT),
    instruction("mad", "hi.sat T=s32", _d(), _a(), _b(), _c(), section=_INT),
    *(
        instruction("mad", f"wide T={t}", _d(_double(t)), _a(), _b(), _c(_double(t)), section=_INT)
        for t in ("u16", "s16", "u32", "s32")
    ),
    instruction("mul24", "{lo,hi} T={u32,s32}", _d(), _a(), _b(), section=_INT),
    instruction("mad24", "{lo,hi} T={u32,s32}", _d(), _a(), _b(), _c(), section=_INT),
    instruction("mad24", "hi.sat T=s32", _d(), _a(), _b(), _c(), section=_INT),
    instruction("sad", "T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), _c(), section=_INT),
    instruction("div", "T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), section=_INT),
    instruction("rem", "T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), section=_INT),
    instruction("abs", "T={s16,s32,s64}", _d(), _a(), section=_INT),
    instruction("neg", "T={s16,s32,s64}", _d(), _a(), section=_INT),
    *(
        instruction(op, "T={u16,u32,u64,s16,s32,s64}", _d(), _a(), _b(), section=_INT) for op in ("min", "max")
    ),
    *(
        instruction(op, "relu T={s16x2,s32}", _d(), _a(), _b(), section=_INT, feature="sm_90", ptx=(8, 0))
        for op in ("min", "max")
    ),
    *(
        instruction(op, "T={u16x2,s16x2}", _d(), _a(), _b(), section=_INT, feature="sm_90", ptx=(8, 0))
        for op in ("min", "max")
    ),
    instruction("popc", "T={b32,b64}", _d("b32"), _a(), section=_INT),
    instruction("clz", "T={b32,b64}", _d("b32"), _a(), section=_INT),
    instruction("bfind", "shiftamt? T={u32,u64,s32,s64}", _d("b32"), _a(), section=_INT),
    instruction("brev", "T={b32,b64}", _d(), _a(), section=_INT),
    instruction("bfe", "T={u32,u64,s32,s64}", _d(), _a(), src("b", "b32"), src("c", "b32"), section=_INT),
    instruction("bfi", "T={b32,b64}", _d(), _a(), _b(), src("c", "b32"), src("e", "b32"), section=_INT),
    instruction("fns", "T=b32", _d(), _a(), src("base", "b32"), src("offset", "s32"), section=_INT),
    instruction("bmsk", "{clamp,wrap} T=b32", _d(), _a(), _b(), section=_INT, ptx=(7, 6)),
    instruction("szext", "{clamp,wrap} T={u32,s32}", _d(), _a(), src("b", "u32"), section=_INT, ptx=(7, 6)),
    instruction("dp4a", "A={u32,s32} B={u32,s32}", dst("d", "b32"), src("a", "$A"), src("b", "$B"), src("c", "b32"),
                section=_INT),
    instruction("dp2a", "{lo,hi} A={u32,s32} B={u32,s32}", dst("d", "b32"), src("a", "$A"), src("b", "$B"),
                src("c", "b32"), section=_INT),
    *(instruction(op, "cc? T={u32,s32,u64,s64}", _d(), _a(), _b(), section="9.7.2") for op in ("addc", "subc")),
    *(instruction(op, "cc T={u32,s32,u64,s64}", _d(), _a(), _b(), section="9.7.2") for op in ("add", "sub")),
    *(instruction(op, "{lo,hi} cc? T={u32,s32,u64,s64}", _d(), _a(), _b(), _c(), section="9.7.2") for op in ("madc",)),
    instruction("mad", "{lo,hi} cc T={u32,s32,u64,s64}", _d(), _a(), _b(), _c(), section="9.7.2"),
)  # fmt: skip

_ROUND = "{rn,rz,rm,rp}"

_FLOAT = (
    *(instruction(op, f"{_ROUND}? ftz? sat? {_F32}", _d(), _a(), _b(), section=_FLT) for op in ("add", "sub", "mul")),
    *(instruction(op, f"{_ROUND}? T=f64", _d(), _a(), _b(), section=_FLT) for op in ("add", "sub", "mul")),
    *(
        instruction(op, f"{_ROUND}? ftz? T=f32x2", _d(), _a(), _b(), section=_FLT, feature="sm_100", ptx=(8, 6))
        for op in ("add", "sub", "mul")
    ),
    instruction("fma", f"{_ROUND} ftz? sat? {_F32}", _d(), _a(), _b(), _c(), section=_FLT),
    instruction("fma", f"{_ROUND} T=f64", _d(), _a(), _b(), _c(), section=_FLT),
    instruction("fma", f"{_ROUND} ftz? T=f32x2", _d(), _a(), _b(), _c(), section=_FLT, feature="sm_100", ptx=(8, 6)),
    instruction("mad", f"{_ROUND} T=f64", _d(), _a(), _b(), _c(), section=_FLT),
    instruction("rcp", "approx.ftz T=f64", _d(), _a(), section=_FLT),
    instruction("rsqrt", "approx ftz? T=f64", _d(), _a(), section=_FLT),
    instruction("mad", f"{_ROUND} ftz? sat? {_F32}", _d(), _a(), _b(), _c(), section=_FLT),
    instruction("div", f"{{approx,full}} ftz? {_F32}", _d(), _a(), _b(), section=_FLT),
    instruction("div", f"{_ROUND} ftz? {_F32}", _d(), _a(), _b(), section=_FLT),
    instruction("div", f"{_ROUND} T=f64", _d(), _a(), _b(), section=_FLT),
    *(instruction(op, f"ftz? {_F32}", _d(), _a(), section=_FLT) for op in ("abs", "neg")),
    *(instruction(op, "T=f64", _d(), _a(), section=_FLT) for op in ("abs", "neg")),
    *(
        instruction(op, f"ftz? NaN=NaN? xs=xorsign.abs? {_F32}", _d(), _a(), _b(), section=_FLT, needs=_MINMAX)
        for op in ("min", "max")
    ),
    *(
        instruction(op, f"ftz? NaN? abs? {_F32}", _d(), _a(), _b(), _c(), section=_FLT, feature="sm_100", ptx=(8, 8))
        for op in ("min", "max")
    ),
    *(instruction(op, "T=f64", _d(), _a(), _b(), section=_FLT) for op in ("min", "max")),
    *(instruction(op, f"approx ftz? {_F32}", _d(), _a(), section=_FLT) for op in ("rcp", "sqrt", "rsqrt")),
    *(instruction(op, f"{_ROUND} ftz? {_F32}", _d(), _a(), section=_FLT) for op in ("rcp", "sqrt")),
    *(instruction(op, f"{_ROUND} T=f64", _d(), _a(), section=_FLT) for op in ("rcp", "sqrt")),
    *(instruction(op, f"approx ftz? {_F32}", _d(), _a(), section=_FLT) for op in ("sin", "cos", "lg2", "ex2")),
    instruction("tanh", f"approx {_F32}", _d(), _a(), section=_FLT, ptx=(7, 0)),
    instruction("copysign", "T={f32,f64}", _d(), _a(), _b(), section=_FLT),
    instruction("testp", "{finite,infinite,number,notanumber,normal,subnormal} T={f32,f64}", dst("p", "pred"), _a(),
                section=_FLT),
)  # fmt: skip

_HALVES = (
    *(
        instruction(op, "rn? ftz? sat? T={f16,f16x2}", _d(), _a(), _b(), section=_HALF)
        for op in ("add", "sub", "mul")
    ),
    *(
        instruction(op, "rn? T={bf16,bf16x2}", _d(), _a(), _b(), section=_HALF, feature="sm_90", ptx=(7, 8))
        for op in ("add", "sub", "mul")
    ),
    instruction("fma", "rn ftz? sat? T={f16,f16x2}", _d(), _a(), _b(), _c(), section=_HALF),
    instruction("fma", "rn ftz? relu T={f16,f16x2}", _d(), _a(), _b(), _c(), section=_HALF, ptx=(7, 0)),
    instruction("fma", "rn relu? T={bf16,bf16x2}", _d(), _a(), _b(), _c(), section=_HALF, ptx=(7, 0)),
    instruction("fma", "rn oob relu? T={f16,f16x2,bf16,bf16x2}", _d(), _a(), _b(), _c(), section=_HALF,
                feature="sm_90", ptx=(8, 1)),
    *(instruction(op, "ftz? T={f16,f16x2}", _d(), _a(), section=_HALF) for op in ("abs", "neg")),
    *(instruction(op, "T={bf16,bf16x2}", _d(), _a(), section=_HALF, ptx=(7, 0)) for op in ("abs", "neg")),
    *(
        instruction(op, "ftz? NaN? xs=xorsign.abs? T={f16,f16x2}", _d(), _a(), _b(), section=_HALF, needs=_MINMAX)
        for op in ("min", "max")
    ),
    *(
        instruction(op, "NaN? xs=xorsign.abs? T={bf16,bf16x2}", _d(), _a(), _b(), section=_HALF, needs=_MINMAX)
        for op in ("min", "max")
    ),
    instruction("tanh", "approx T={f16,f16x2}", _d(), _a(), section=_HALF, ptx=(7, 0)),
    instruction("tanh", "approx T={bf16,bf16x2}", _d(), _a(), section=_HALF, ptx=(7, 8), feature="sm_90"),
    instruction("ex2", "approx T={f16,f16x2}", _d(), _a(), section=_HALF, ptx=(7, 0)),
    instruction("ex2", "approx.ftz T={bf16,bf16x2}", _d(), _a(), section=_HALF, ptx=(7, 8), feature="sm_90"),
    # mixed precision: the result and one addend are f32 (9.7.5)
    *(
        instruction(op, "{rn,rz,rm,rp}? sat? f32 S={f16,bf16}", dst("d", "f32"), src("a", "$S"), src("c", "f32"),
                    section="9.7.5", feature="sm_100", ptx=(8, 6))
        for op in ("add", "sub")
    ),
    instruction("fma", "{rn,rz,rm,rp} sat? f32 S={f16,bf16}", dst("d", "f32"), src("a", "$S"), src("b", "$S"),
                src("c", "f32"), section="9.7.5", feature="sm_100", ptx=(8, 6)),
)  # fmt: skip

ROWS: tuple[Instruction, ...] = _INTEGER + _FLOAT + _HALVES
