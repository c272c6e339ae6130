"""Arithmetic of single 8-bit floats: in float32, and rounded in the end; the larger of two is one of the two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import Expr, Max, Min
from ...ptx.operands import Reg
from .casts import convert

if TYPE_CHECKING:
    from .values import ValueCode


def arithmetic(code: ValueCode, e: Expr, opcode: str) -> Reg:
    """A sum, difference, product, quotient, maximum or minimum; ``opcode`` is that of float32 without its type."""
    left, right = code.wide((e.a, e.b))  # type: ignore[attr-defined]
    made = code.k.op(f"{opcode}.f32", left, right)
    if type(e) not in (Max, Min):
        return convert(code, made, "float32", e.dtype)
    # Converted back, infinity would become the largest number: the operand itself is taken, by its bits.
    found, first = (code.k.op("mov.b32", r) for r in (made, left))
    operands = [code.register(x) for x in (e.a, e.b)]  # type: ignore[attr-defined]
    return code.k.op("selp.b16", *operands, code.k.op("setp.eq.s32", found, first))
