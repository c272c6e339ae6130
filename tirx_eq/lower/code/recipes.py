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
from .functions import FORMS, form_of

#: Register type of one lane and of two lanes together, by bits of a lane.
SINGLE = {8: "b16", 16: "b16", 32: "b32", 64: "b64"}
PAIR = {4: "b8", 8: "b16", 16: "b32", 32: "b64"}

FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
FLOAT4 = "float4_e2m1fn"  # exists in pairs only, two to a byte, and is converted only
INTEGERS = ("int64", "uint64", "int32", "uint32", "int16", "uint16", "int8", "uint8")
#: Floats that are computed in float32 where they have no instruction of their own.
FLOATS = ("float32", "float16", "bfloat16", *FLOAT8, FLOAT4)
#: Dtypes that can be moved and chosen from, but not computed with.
OPAQUE = ("float8_e8m0fnu", "bool")
ARITHMETIC_DTYPES = ("float64", *FLOATS, *INTEGERS)
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
#: The double-precision unit has no functions but these (PTX ISA 9.7.3).
_F64 = {**_HALF, "fdiv": "div.rn.f64 d a b", "sqrt": "sqrt.rn.f64 d a", "reciprocal": "rcp.rn.f64 d a"}
_F32X2 = ("add", "sub", "mul", "fma")  # sm_100; PTX 8.6


def _arithmetic() -> dict[tuple[str, str, int], str]:
    made: dict[tuple[str, str, int], str] = {}
    for op, text in _F32.items():
        made[op, "float32", 1] = text.format(t="f32")
    for op in _F32X2:
        made[op, "float32", 2] = _upper(_HALF[op].format(t="f32x2"))
    for dtype in ("float16", "bfloat16"):
        for op, text in _HALF.items():
            made[op, dtype, 1] = text.format(t=PTX[dtype])
            made[op, dtype, 2] = _upper(text.format(t=PTX[dtype] + "x2"))
    for op, text in _F64.items():
        made[op, "float64", 1] = text.format(t="f64")
    for dtype in ("int64", "uint64", "int32", "uint32", "int16", "uint16"):
        for op, text in _INT.items():
            made[op, dtype, 1] = text.format(t=PTX[dtype])
        if dtype.startswith("int"):
            made["neg", dtype, 1] = f"neg.{PTX[dtype]} d a"
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


ARITHMETIC = _arithmetic()
CASTS = _casts()


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
    # 32-bit integers to float8: float32 keeps 24 bits, the target 4 at most
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
    if word == "nan":
        return float(word)
    if word[0].isdigit() or word[0] == "-":
        return float(word) if "." in word or "e" in word else int(word)
    return word
