"""Conditions on products of matrices that threads compute element by element."""

from __future__ import annotations

from ...ir import dtype as dt
from ..code.recipes import ARITHMETIC_DTYPES, accumulator, cast_path
from ..context import CallContext
from ..product import plain
from ..sharing.product_work import product_work
from .registry import SPACE_NAMES, holds


@holds("matrices in memory or registers")
def _spaces(c: CallContext) -> str | None:
    for name in "DABC" if plain(c.call.operand("beta")) != 0 else "DAB":
        o = c.operands[name]
        if o.root.space not in ("global", "shared", "local"):
            return f"'{name}' ({o.buffer.name}) is in {SPACE_NAMES[o.root.space]}"
    return None


@holds("there is a multiplication of the dtypes")
def _dtypes(c: CallContext) -> str | None:
    names = "ABC" if plain(c.call.operand("beta")) != 0 else "AB"
    d = c.operands["D"].dtype
    if d not in ARITHMETIC_DTYPES or dt.bits(d) < 8:
        return f"D is of {d}"
    inner = accumulator(d)
    for name in names:
        source = c.operands[name].dtype
        if source not in ARITHMETIC_DTYPES or dt.bits(source) < 8:
            return f"'{name}' is of {source}"
        if cast_path(source, inner) is None or (dt.is_float(source) and not dt.is_float(inner)):
            return f"'{name}' of {source} can't be multiplied in {inner}, of which D's {d} is made"
    return None if cast_path(inner, d) else f"there is no conversion from {inner} to {d}"


@holds("alpha and beta are constants")
def _constants(c: CallContext) -> str | None:
    for name in ("alpha", "beta"):
        value = plain(c.call.operand(name))
        if not isinstance(value, (int, float)):
            return f"{name} is known at run time only"
        if not dt.is_float(c.operands["D"].dtype) and value != int(value):
            return f"{name} is {value}, but the product is of integers"
    return None


@holds("each thread reaches what it multiplies")
def _reaches(c: CallContext) -> str | None:
    found = product_work(c)
    return found if isinstance(found, str) else None
