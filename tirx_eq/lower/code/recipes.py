"""PTX for operations on values in registers, as tables: (operation, dtype, lanes) -> a few instructions.

A recipe is text: instructions separated by ``;``, each an opcode and its operands.  ``d`` is the result, ``a b c`` the
operands; in a recipe for two lanes ``A B C D`` are both lanes in one register, ``a0 a1`` the lanes apart.  Other names are
temporaries, ``name:b16`` tells a type (else that of one lane); numbers are immediates; ``{x,y}`` is a vector, ``_`` unwanted.

Sources: PTX ISA 9.7.1 (integers), 9.7.3 (f32), 9.7.4 (halves), 9.7.9 (cvt).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...ir import dtype as dt
from ...ir.rounding import SCALE
from .double import DOUBLE
from .functions import FORMS, NARROW_FORMS, form_of

#: Register type of one lane and of two lanes together, by bits of a lane.
SINGLE = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}
PAIR = {4: "b8", 8: "b16", 16: "b32", 32: "b64"}

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
FLOAT4 = "float4_e2m1fn"  # exists in pairs only, two to a byte
INTEGERS = ("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8")
#: Floats that have conversions only: each operation is done in float32, and its result rounded.
CONVERTED = (*FLOAT8, FLOAT4, SCALE)
#: Floats that are computed in float32 where they have no instruction of their own.
FLOATS = ("float32", "float16", "bfloat16", *CONVERTED)
ARITHMETIC_DTYPES = ("float64", *FLOATS, *INTEGERS)
#: What truth values have: or, and; they are computed as numbers, of which any that isn't 0 is true.
TRUTH = ("select", "maximum", "minimum", "add", "mul", "fma")
PTX = {
    "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    FLOAT4: "e2m1",
    "int32": "s32", "uint32": "u32", "int16": "s16", "uint16": "u16", "int8": "s8", "uint8": "u8",
    "float64": "f64", "int64": "s64", "uint64": "u64",
}  # fmt: skip

#: Operation -> PTX of one lane; ``{t}`` is the type.
_HALF = {
    "add": "add.rn.{t} d a b", "sub": "sub.rn.{t} d a b", "mul": "mul.rn.{t} d a b", "fma": "fma.rn.{t} d a b c",
    "maximum": "max.{t} d a b", "minimum": "min.{t} d a b", "neg": "neg.{t} d a",
}  # fmt: skip
_F32 = {**_HALF, **{function: form_of(function).text for function in FORMS}}
_INT = {
    "add": "add.{t} d a b", "sub": "sub.{t} d a b", "mul": "mul.lo.{t} d a b", "fma": "mad.lo.{t} d a b c",
    "maximum": "max.{t} d a b", "minimum": "min.{t} d a b",
}  # fmt: skip
#: The double-precision unit has no functions but the last three (PTX ISA 9.7.3); the others are made of sums and products.
_F64 = {**_HALF, **DOUBLE, "fdiv": "div.rn.f64 d a b", "sqrt": "sqrt.rn.f64 d a", "reciprocal": "rcp.rn.f64 d a"}
_F32X2 = ("add", "sub", "mul", "fma")  # sm_100; PTX 8.6


def _arithmetic() -> dict[tuple[str, str, int], str]:
    made: dict[tuple[str, str, int], str] = {}
    for op, text in _F32.items():
        made[op, "float32", 1] = text.replace("{t}", "f32")
    for op in _F32X2:
        made[op, "float32", 2] = _upper(_HALF[op].format(t="f32x2"))
    for dtype in ("float16", "bfloat16"):
        for op, text in _HALF.items():
            made[op, dtype, 1] = text.format(t=PTX[dtype])
            made[op, dtype, 2] = _upper(text.format(t=PTX[dtype] + "x2"))
    for (op, dtype), text in NARROW_FORMS.items():
        made[op, dtype, 1] = text.format(v="")
        made[op, dtype, 2] = _upper(text.format(v="x2"))
    for op, text in _F64.items():
        made[op, "float64", 1] = text.replace("{t}", "f64")
    for dtype in ("int64", "uint64", "int32", "uint32", "int16", "uint16"):
        for op, text in _INT.items():
            made[op, dtype, 1] = text.format(t=PTX[dtype])
        made["neg", dtype, 1] = f"neg.s{dt.bits(dtype)} d a"  # the same low bits for unsigned ones
    for dtype in ("int16", "uint16"):  # sm_90; PTX 8.0
        for op in ("add", "maximum", "minimum"):
            made[op, dtype, 2] = _upper(_INT[op].format(t=PTX[dtype] + "x2"))
    return made


def _upper(text: str) -> str:
    opcode, *operands = text.split()
    return " ".join([opcode, *(o.upper() for o in operands)])


def _casts() -> dict[tuple[str, str, int], str]:
    made: dict[tuple[str, str, int], str] = {}
    for half in ("float16", "bfloat16"):
        t = PTX[half]
        made["float32", half, 1] = f"cvt.rn.{t}.f32 d a"
        made["float32", half, 2] = f"cvt.rn.{t}x2.f32 D a1 a0"
        made[half, "float32", 1] = f"cvt.f32.{t} d a"
    made["float16", "bfloat16", 1] = "cvt.rn.bf16.f16 d a"
    made["bfloat16", "float16", 1] = "cvt.rn.f16.bf16 d a"
    made["float32", "float64", 1] = "cvt.f64.f32 d a"
    made["float64", "float32", 1] = "cvt.rn.f32.f64 d a"
    made["float16", "float64", 1] = "cvt.f64.f16 d a"
    made["float64", "float16", 1] = "cvt.rn.f16.f64 d a"
    for narrow in FLOAT8:
        t = PTX[narrow] + "x2"
        made["float32", narrow, 1] = f"cvt.rn.satfinite.{t}.f32 d 0.0 a"
        made["float32", narrow, 2] = f"cvt.rn.satfinite.{t}.f32 D a1 a0"
        made["float16", narrow, 1] = f"mov.b32 t:b32 {{a,a}}; cvt.rn.satfinite.{t}.f16x2 d t"
        made["float16", narrow, 2] = f"cvt.rn.satfinite.{t}.f16x2 D A"
        made[narrow, "float16", 1] = f"cvt.rn.f16x2.{t} t:b32 a; mov.b32 {{d,_}} t"
        made[narrow, "float16", 2] = f"cvt.rn.f16x2.{t} D A"
        made[narrow, "float32", 1] = f"cvt.rn.f16x2.{t} t:b32 a; mov.b32 {{u:b16,_}} t; cvt.f32.f16 d u"
        made[narrow, "float32", 2] = (
            f"cvt.rn.f16x2.{t} t:b32 A; mov.b32 {{u:b16,v:b16}} t; cvt.f32.f16 d0 u; cvt.f32.f16 d1 v"
        )
    made["float32", FLOAT4, 2] = "cvt.rn.satfinite.e2m1x2.f32 D a1 a0"
    made[FLOAT4, "float16", 2] = "cvt.rn.f16x2.e2m1x2 D A"
    made["float32", SCALE, 1] = "cvt.rp.satfinite.ue8m0x2.f32 d 0.0 a"
    made["float32", SCALE, 2] = "cvt.rp.satfinite.ue8m0x2.f32 D a1 a0"
    made["bfloat16", SCALE, 1] = "mov.b32 t:b32 {a,a}; cvt.rp.satfinite.ue8m0x2.bf16x2 d t"
    made["bfloat16", SCALE, 2] = "cvt.rp.satfinite.ue8m0x2.bf16x2 D A"
    made[SCALE, "bfloat16", 1] = "cvt.rn.bf16x2.ue8m0x2 t:b32 a; mov.b32 {d,_} t"
    made[SCALE, "bfloat16", 2] = "cvt.rn.bf16x2.ue8m0x2 D A"
    made[SCALE, "float32", 1] = "cvt.rn.bf16x2.ue8m0x2 t:b32 a; mov.b32 {u:b16,_} t; cvt.f32.bf16 d u"
    made[SCALE, "float32", 2] = (
        "cvt.rn.bf16x2.ue8m0x2 t:b32 A; mov.b32 {u:b16,v:b16} t; cvt.f32.bf16 d0 u; cvt.f32.bf16 d1 v"
    )
    made["float64", "bfloat16", 1] = "cvt.rn.bf16.f64 d a"
    for whole in INTEGERS:
        t = PTX[whole]
        made["float32", whole, 1] = f"cvt.rzi.{t}.f32 d a"
        made["float64", whole, 1] = f"cvt.rzi.{t}.f64 d a"
        made[whole, "float64", 1] = f"cvt.rn.f64.{t} d a"
        made["float16", whole, 1] = f"cvt.rzi.{t}.f16 d a"
        made[whole, "float32", 1] = f"cvt.rn.f32.{t} d a"
        made[whole, "float16", 1] = f"cvt.rn.f16.{t} d a"
        if dt.bits(whole) > 8:
            made["bfloat16", whole, 1] = f"cvt.rzi.{t}.bf16 d a"
            made[whole, "bfloat16", 1] = f"cvt.rn.bf16.{t} d a"
        for other in INTEGERS:
            if other == whole:
                continue
            same = dt.bits(other) == dt.bits(whole)
            made[whole, other, 1] = f"mov.{SINGLE[dt.bits(whole)]} d a" if same else f"cvt.{PTX[other]}.{t} d a"
    return made


def _odd(lane: str) -> str:
    """float64 to float32, towards zero, the last bit set where anything was cut off: rounded once more, it is as if once."""
    return (
        f"cvt.rz.f32.f64 t{lane}:f32 a{lane}; cvt.f64.f32 u{lane} t{lane}; setp.neu.f64 p{lane}:pred u{lane} a{lane}; "
        f"selp.b32 o{lane}:b32 1 0 p{lane}; or.b32 w{lane}:b32 t{lane} o{lane}"
    )


def _routines() -> dict[tuple[str, str, int], str]:
    """Conversions of several steps that are right as a whole."""
    made: dict[tuple[str, str, int], str] = {}
    for narrow in FLOAT8:
        made["float64", narrow, 1] = f"{_odd('')}; cvt.rn.satfinite.{PTX[narrow]}x2.f32 d 0.0 w"
    made["float64", FLOAT4, 2] = f"{_odd('0')}; {_odd('1')}; cvt.rn.satfinite.e2m1x2.f32 D w1 w0"
    # The next power of two up: no matter what is rounded up before.
    scale = "cvt.rp.satfinite.ue8m0x2.f32 d 0.0 t"
    made["float64", SCALE, 1] = f"abs.f64 m a; cvt.rp.f32.f64 t:f32 m; {scale}"
    for bits in (32, 64):
        made[f"int{bits}", SCALE, 1] = f"abs.s{bits} m a; cvt.rp.f32.u{bits} t:f32 m; {scale}"
        made[f"uint{bits}", SCALE, 1] = f"cvt.rp.f32.u{bits} t:f32 a; {scale}"
    # Truth values are bytes, of which any that isn't 0 is true.
    truth = "cvt.u16.u8 t:b16 a; setp.ne.u16 p:pred t 0; "
    for dtype in ("float64", "float32"):
        made[dtype, "bool", 1] = f"setp.neu.{PTX[dtype]} p:pred a 0.0; selp.b16 d 1 0 p"
        made["bool", dtype, 1] = f"{truth}selp.{PTX[dtype]} d 1.0 0.0 p"
    for whole in INTEGERS:
        bits = dt.bits(whole)
        test = "cvt.u16.u8 t:b16 a; setp.ne.u16 p:pred t 0" if bits == 8 else f"setp.ne.u{bits} p:pred a 0"
        made[whole, "bool", 1] = f"{test}; selp.b16 d 1 0 p"
        made["bool", whole, 1] = f"{truth}selp.b{max(16, bits)} d 1 0 p"
    return made


ARITHMETIC = _arithmetic()
_ROUTINE_CASTS = _routines()
CASTS = {**_casts(), **_ROUTINE_CASTS}
#: (source, target) of conversions and (operation, dtype) of functions that equations take as a whole.
ROUTINES = frozenset((*((a, b) for a, b, _ in _ROUTINE_CASTS), *((op, "float64") for op in DOUBLE)))


def cast_path(source: str, target: str) -> tuple[str, ...] | None:
    """The dtypes on the way of a conversion, ends included; None if there is none.

    A way through another dtype is taken only where its first step is exact, so that the value is rounded once: float8 and
    bfloat16 fit float32 (float8 also float16), integers of 8 and 16 bits fit float32.
    """
    if source == target:
        return (source,)
    if _converts(source, target):
        return (source, target)
    for middle in ("float16", "float32"):
        exact = source in (*FLOAT8, FLOAT4) or (middle == "float32" and (source == "bfloat16" or dt.bits(source) <= 16))
        if exact and _converts(source, middle) and _converts(middle, target):
            return (source, middle, target)
    if source == "float64":
        return None
    # Integers to float8 and float4: what is too long for float32 is beyond the largest number.
    if _converts(source, "float32") and _converts("float32", target):
        return (source, "float32", target)
    # float4 to float8 and bfloat16: exact in float16 and float32
    if source == FLOAT4 and _converts("float32", target):
        return (source, "float16", "float32", target)
    return None


def _converts(source: str, target: str) -> bool:
    """Whether there is a recipe, for one lane or for two."""
    return (source, target, 1) in CASTS or (source, target, 2) in CASTS


def recipe(op: str, dtype: str, lanes: int, result: str | None = None, argument: str = "float32") -> str | None:
    """The recipe of an operation on ``dtype``; ``result`` is the dtype to which its result is rounded in the end, ``argument``
    one that its operand is a number of."""
    if op in FORMS and dtype == "float32" and lanes == 1 and result is not None:
        return form_of(op, result, argument).text
    return ARITHMETIC.get((op, dtype, lanes))


def compute_dtype(op: str, dtype: str) -> str | None:
    """The dtype in which ``op`` on ``dtype`` is computed: its own, or float32 for floats that lack it; None: not at all."""
    if (op, dtype, 1) in ARITHMETIC:
        return dtype
    if dtype in FLOATS and (op, "float32", 1) in ARITHMETIC:
        return "float32"
    return None


def accumulator(dtype: str) -> str:
    """The dtype in which sums, greatest and least values are formed: those of narrow types would round each time."""
    if dt.bits(dtype) == 64:
        return dtype
    return "float32" if dtype in FLOATS else "uint32" if dtype.startswith("uint") else "int32"


@dataclass(frozen=True)
class Line:
    """One instruction of a recipe; operands are names, numbers, or tuples of names."""

    opcode: str
    operands: tuple[str | int | float | tuple[str, ...], ...]


@cache
def parse_recipe(text: str) -> tuple[Line, ...]:
    """The instructions of a recipe."""
    lines = []
    for part in text.split(";"):
        opcode, *operands = part.split()
        lines.append(Line(opcode, tuple(_operand(o) for o in operands)))
    return tuple(lines)


def _operand(word: str) -> str | int | float | tuple[str, ...]:
    if word.startswith("{"):
        return tuple(word[1:-1].split(","))
    if word in ("nan", "inf", "-inf"):
        return float(word)
    if word[0].isdigit() or word[0] == "-":
        return float(word) if "." in word or "e" in word else int(word)
    return word
