"""Conversions between registers of one thread."""

from __future__ import annotations

from ..conditions.casts import PACKED_CASTS, SCALAR_CASTS
from ..context import CallContext, Operand
from ..machine import Price
from ..program import Block, Node, Temp, instruction
from ..program import Operand as Value
from .base import Variant, constant_bytes, word_of


def _pair(c: CallContext) -> tuple[str, str]:
    return c.inputs[0].dtype, c.outputs[0].dtype


def emit_packed(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One conversion per two elements; the first operand becomes the high half (PTX ISA, cvt .f16x2)."""
    src, dst = c.inputs[0], c.outputs[0]
    a, b = constant_bytes(src), constant_bytes(dst)
    opcode = PACKED_CASTS[_pair(c)]
    return tuple(
        instruction(opcode, word_of(dst, b[k]), word_of(src, a[k + 1]), word_of(src, a[k])) for k in range(0, src.size, 2)
    )


def emit_scalar(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One conversion per element; 16-bit values are unpacked before or packed after."""
    src, dst = c.inputs[0], c.outputs[0]
    opcode = SCALAR_CASTS[_pair(c)]
    nodes: list[Node] = []
    for x, y in zip(constant_bytes(src), constant_bytes(dst)):
        nodes += _convert(opcode, src, x, dst, y)
    return tuple(nodes)


def _convert(opcode: str, src: Operand, x: int, dst: Operand, y: int) -> list[Node]:
    nodes: list[Node] = []
    value: Value = word_of(src, x)
    if src.bits == 16:
        half = (Temp("b16"), Temp("b16"))
        nodes.append(instruction("mov.b32", half, value))
        value = half[x % 4 // 2]
    if dst.bits == 16:
        result, low, high = Temp("b16"), Temp("b16"), Temp("b16")
        word = word_of(dst, y)
        nodes.append(instruction(opcode, result, value))
        nodes.append(instruction("mov.b32", (low, high), word))
        nodes.append(instruction("mov.b32", word, (result, high) if y % 4 == 0 else (low, result)))
    else:
        nodes.append(instruction(opcode, word_of(dst, y), value))
    return nodes


def price_packed(c: CallContext, parameters: tuple[int, ...]) -> Price:
    count = c.inputs[0].size // 2
    return Price(issue=count, warps=len(c.active.warps()), converts=32 * count)


def price_scalar(c: CallContext, parameters: tuple[int, ...]) -> Price:
    count = c.inputs[0].size
    extra = (1 if c.inputs[0].bits == 16 else 0) + (2 if c.outputs[0].bits == 16 else 0)
    return Price(issue=count * (1 + extra), warps=len(c.active.warps()), converts=32 * count)


CASTS = (
    Variant("PackedCast", (), price_packed, emit_packed),
    Variant("ScalarCast", (), price_scalar, emit_scalar),
)
