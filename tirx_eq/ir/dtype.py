"""Data types by name: ``float16``, ``int32``, ``float8_e4m3fn``, ``float32x4``, ``bool``, ``handle``.

A dtype is a string, as in TVM; these functions answer questions about it.  Sizes are in bits unless a name says bytes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ..errors import IRError

_FLOATS = {
    "float64": 64, "float32": 32, "float16": 16, "bfloat16": 16, "tfloat32": 32,
    "float8_e3m4": 8, "float8_e4m3": 8, "float8_e4m3b11fnuz": 8, "float8_e4m3fn": 8, "float8_e4m3fnuz": 8,
    "float8_e5m2": 8, "float8_e5m2fnuz": 8, "float8_e8m0fnu": 8,
    "float6_e2m3fn": 6, "float6_e3m2fn": 6, "float4_e2m1fn": 4,
}  # fmt: skip
_SHORT = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "tf32": "tfloat32",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "e2m1": "float4_e2m1fn",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
#: The largest finite value of the formats narrower than float64 (OCP and IEEE 754; bfloat16 is float32's top half).
FLOAT_MAX = {
    "float32": (2 - 2**-23) * 2.0**127, "tfloat32": (2 - 2**-10) * 2.0**127, "bfloat16": (2 - 2**-7) * 2.0**127,
    "float16": 65504.0, "float8_e4m3": 240.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0,
    "float8_e4m3b11fnuz": 30.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0, "float8_e3m4": 15.5,
    "float6_e2m3fn": 7.5, "float6_e3m2fn": 28.0, "float4_e2m1fn": 6.0,
}  # fmt: skip
_VECTOR = re.compile(r"(.+?)x(\d+)")
_INT = re.compile(r"(u?int)(\d+)")


@cache
def parse(dtype: str) -> tuple[str, int, int]:
    """(kind, bits per lane, lanes) of a dtype; kind is one of int, uint, float, bool, handle, void.

    Raises IRError if the name is no dtype.
    """
    base, lanes = dtype, 1
    if dtype not in _FLOATS and (m := _VECTOR.fullmatch(dtype)):
        base, lanes = m[1], int(m[2])
    if base in _FLOATS:
        return "float", _FLOATS[base], lanes
    if m := _INT.fullmatch(base):
        return m[1], int(m[2]), lanes
    if base == "bool":
        return "bool", 1, lanes
    if base == "handle":
        return "handle", 64, lanes
    if base in ("void", ""):
        return "void", 0, lanes
    raise IRError(f"'{dtype}' is not a data type", hint="for example float16, bfloat16, int32, uint8, bool, float32x4")


def normalize(dtype: Any) -> str:
    """A dtype's full name from a full name, a short one (``f16``, ``e4m3``, ``s32``), or a numpy/ml_dtypes type."""
    text = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    text = _SHORT.get(text, text)
    parse(text)
    return text


def kind(dtype: str) -> str:
    """int, uint, float, bool, handle or void."""
    return parse(dtype)[0]


def bits(dtype: str) -> int:
    """Bits of one lane (bool is 1 bit as a value; it is stored in a byte)."""
    return parse(dtype)[1]


def lanes(dtype: str) -> int:
    """Number of lanes: 1 for scalars."""
    return parse(dtype)[2]


def storage_bits(dtype: str) -> int:
    """Bits that one element (all lanes) takes in memory."""
    name, width, count = parse(dtype)
    return (8 if name == "bool" else width) * count


def element(dtype: str) -> str:
    """The dtype of one lane."""
    return dtype if lanes(dtype) == 1 else _VECTOR.fullmatch(dtype)[1]  # type: ignore[index]


def with_lanes(dtype: str, count: int) -> str:
    """The vector type of ``count`` lanes of a dtype's element."""
    return element(dtype) if count == 1 else f"{element(dtype)}x{count}"


def is_integer(dtype: str) -> bool:
    """Signed or unsigned integer (bool is not one)."""
    return kind(dtype) in ("int", "uint")


def is_float(dtype: str) -> bool:
    """Any floating-point type, 4 to 64 bits."""
    return kind(dtype) == "float"


def numpy_dtype(dtype: str) -> Any:
    """The numpy (or ml_dtypes) scalar type of a dtype's element."""
    import numpy as np

    base = element(dtype)
    if base == "bool":
        return np.dtype(bool)
    if base == "tfloat32":
        return np.dtype("float32")
    try:
        return np.dtype(base)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, base))
