"""Conditions on products of matrices that threads compute element by element."""

from __future__ import annotations

from ...ir import dtype as dt
from ..code.recipes import ARITHMETIC_DTYPES, FLOAT4, accumulator, cast_path
from ..code.scalar_operand import held_dtype
from ..context import CallContext
from ..product import plain, uses_addend
from ..sharing.product_work import product_work
from .registry import SPACE_NAMES, holds


@holds("matrices in memory or registers")
def _spaces(c: CallContext) -> str | None:
    for name in "DABC" if uses_addend(c) else "DAB":
        o = c.operands[name]
        if o.root.space not in ("global", "shared", "local"):
            return f"'{name}' ({o.buffer.name}) is in {SPACE_NAMES[o.root.space]}"
    return None


@holds("there is a multiplication of the dtypes")
def _dtypes(c: CallContext) -> str | None:
    names = "ABC" if uses_addend(c) else "AB"
    d = c.operands["D"].dtype
    if d not in (*ARITHMETIC_DTYPES, "bool") or d == FLOAT4:
        return f"D is of {d}"
    inner = accumulator(d)
    for name in names:
        source = c.operands[name].dtype
        if source not in (*ARITHMETIC_DTYPES, "bool"):
            return f"'{name}' is of {source}"
        if cast_path(source, inner) is None or (dt.is_float(source) and not dt.is_float(inner)):
            return f"'{name}' of {source} can't be multiplied in {inner}, of which D's {d} is made"
    return None if cast_path(inner, d) else f"there is no conversion from {inner} to {d}"


@holds("alpha and beta are numbers of the product's kind")
def _factors(c: CallContext) -> str | None:
    d = c.operands["D"].dtype
    for name in ("alpha", "beta"):
        value = plain(c.call.operand(name))
        if isinstance(value, (int, float)):
            if not dt.is_float(d) and value != int(value):
                return f"{name} is {value}, but the product is of integers"
            continue
        held = held_dtype(value)
        if (dt.is_float(held) and not dt.is_float(d)) or cast_path(held, accumulator(d)) is None:
            return f"{name} is of {value.dtype}, but the product of {d}"
    return None


@holds("each thread reaches what it multiplies")
def _reaches(c: CallContext) -> str | None:
    found = product_work(c)
    return found if isinstance(found, str) else None
