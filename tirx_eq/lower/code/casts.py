"""Conversions of single values: an instruction where there is one, else the recipes of tile conversions."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from ...errors import LoweringError
from ...ir import Cast
from ...ir import dtype as dt
from ...ir.rounding import SCALE
from ...ptx.operands import Imm, Reg
from .recipes import CASTS, FLOAT8, ROUTINES, SINGLE, cast_path

if TYPE_CHECKING:
    from .values import ValueCode

_PTX_FLOAT = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def ptx_type(dtype: str) -> str:
    """The PTX type of a scalar dtype: f32, s32, u16 …; bool is u8 in memory."""
    if dt.is_float(dtype):
        if dtype not in _PTX_FLOAT:
            raise LoweringError(f"there is no arithmetic on {dtype}; convert it first")
        return _PTX_FLOAT[dtype]
    kind, bits, _ = dt.parse(dtype)
    return "u8" if kind == "bool" else f"{'s' if kind == 'int' else 'u'}{bits}"


def cast(code: ValueCode, e: Cast) -> Reg:
    """The value of a Cast node."""
    source, target = e.value.dtype, e.dtype
    if source == target:
        return code.register(e.value)
    if dt.kind(source) == "bool":
        p = code.register(e.value)
        one = code.k.op(f"selp.b{64 if dt.bits(target) == 64 and not dt.is_float(target) else 32}", 1, 0, p)
        if not dt.is_float(target):
            return one
        if target not in _PTX_FLOAT:
            return convert(code, one, "uint32", target)
        return code.k.op(f"cvt.rn.{_PTX_FLOAT[target]}.u32", one)
    value = code.register(e.value)
    if dt.kind(target) == "bool":
        if dt.is_float(source) and source not in ("float32", "float64"):
            value, source = convert(code, value, source, "float32"), "float32"
        elif dt.bits(source) == 8:
            value, source = code.k.op(f"cvt.{ptx_type(source)[0]}32.{ptx_type(source)}", value), "int32"
        compare = "neu" if dt.is_float(source) else "ne"
        zero: Imm = Imm(0.0) if dt.is_float(source) else Imm(0)
        return code.k.op(f"setp.{compare}.{ptx_type(source)}", value, zero)
    if dt.is_float(source) != dt.is_float(target) or (dt.is_float(source) and source != target):
        steps = (source, target, 1) not in CASTS or (source, target) in ROUTINES
        if steps or not {source, target}.isdisjoint((*FLOAT8, SCALE)):
            return convert(code, value, source, target)
    a, b = ptx_type(source), ptx_type(target)
    if dt.is_float(source) and dt.is_float(target):
        return code.k.op(f"cvt.{b}.{a}" if dt.bits(target) > dt.bits(source) else f"cvt.rn.{b}.{a}", value)
    if dt.is_float(source):
        return code.k.op(f"cvt.rzi.{b}.{a}", value)
    if dt.is_float(target):
        return code.k.op(f"cvt.rn.{b}.{a}", value)
    return value if dt.bits(source) == dt.bits(target) else code.k.op(f"cvt.{b}.{a}", value)


def convert(code: ValueCode, value: Reg, source: str, target: str) -> Reg:
    """By the recipes for one lane, in one step or several."""
    path = cast_path(source, target)
    if path is None or any((a, b, 1) not in CASTS for a, b in pairwise(path)):
        raise LoweringError(f"there is no conversion of a single {source} to {target}")
    for a, b in pairwise(path):
        wide = SINGLE[max(dt.storage_bits(a), dt.storage_bits(b))]
        held = {"float32": "f32", "float64": "f64"}.get(b, SINGLE[dt.storage_bits(b)])
        value = code.recipe(CASTS[a, b, 1], [value], held, wide)
    return value
