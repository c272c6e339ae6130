"""Scalar operands of tile primitives in registers: constants, and expressions that are known at run time only."""

from __future__ import annotations

from typing import Any

from ...ir import Expr, cast, const
from ...ir import dtype as dt
from ..context import CallContext
from ..operations import scalar_dtype
from ..program import Memory, Node, Operand, Store, Temp, Word, instruction
from ..storage import Root
from .lanes import Lanes, convert
from .recipes import SINGLE


def held_dtype(value: Any) -> str:
    """The dtype in which a register holds a scalar: 32 or 64 bits of its kind."""
    shown = scalar_dtype(value)
    kind = dt.kind(shown) if dt.kind(shown) in ("float", "int") else "uint"
    return f"{kind}{64 if dt.bits(shown) == 64 else 32}"


def runtime_scalar(c: CallContext, name: str, value: Expr, nodes: list[Node]) -> Lanes:
    """One lane with the value of the operand ``name``, in its own kind."""
    held = held_dtype(value)
    bits = dt.bits(held)
    root = Root("local", f"scalar_{c.index}_{name}", size=bits // 8, word_bits=bits)
    nodes.append(Store(Memory(root, const(0)), held, cast(held, c.resolve(value))))
    return Lanes(held, 1, nodes, [Word(root, 0)])


def factor(c: CallContext, name: str, value: Any, dtype: str, nodes: list[Node]) -> Operand:
    """A register of ``dtype`` (32 or 64 bits) that holds the operand ``name``: ``value`` is a number or an expression."""
    if isinstance(value, Expr):
        return convert(runtime_scalar(c, name, value, nodes), dtype, False).single(0)
    register = Temp(SINGLE[64 if dtype.endswith("64") else 32])
    floating = dtype.startswith("float")
    opcode = f"mov.{'f' if floating else 'b'}{register.type[1:]}"
    nodes.append(instruction(opcode, register, float(value) if floating else int(value)))
    return register
