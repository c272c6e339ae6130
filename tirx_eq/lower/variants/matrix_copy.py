"""Copies between shared memory and the registers of warps by matrices: ldmatrix and stmatrix."""

from __future__ import annotations

from ...errors import LoweringError
from ..block_price import price_block
from ..code.matrix_rows import BYTES, ROW_BYTES, TRANSPOSED, form_of, matrix_copy
from ..context import CallContext
from ..machine import Price
from ..program import Block, Memory, Node, Word, instruction
from ..sharing.spread import local_and_memory, memory_offset, wide_coords
from .base import Variant


def _emit(c: CallContext, code: int) -> Block:
    """One instruction for up to four registers; each lane gives the address of a row."""
    found, both = matrix_copy(c, code), local_and_memory(c)
    if isinstance(found, str) or isinstance(both, str):
        raise LoweringError(str(found), span=c.span)
    local, memory = both
    loading = c.outputs[0] is local
    opcode = f"{'ldmatrix' if loading else 'stmatrix'}.sync.aligned.{form_of(code, loading).name}"
    nodes: list[Node] = []
    per_row = ROW_BYTES * 8 // local.bits
    for step, registers in enumerate(found.registers):
        coords = found.rows.coords(step * per_row)
        assert coords is not None
        at = Memory(memory.root, memory_offset(c, memory, wide_coords(found.rows, coords)))
        words = tuple(Word(local.root, r) for r in registers)
        nodes.append(instruction(opcode, words, at) if loading else instruction(opcode, at, words))
    return tuple(nodes)


def emit_matrix_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    key = ("matrix copy program", *parameters)
    return c.once(key, lambda: _emit(c, parameters[0]))


def price_matrix_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    return price_block(c, emit_matrix_copy(c, parameters))


def _show(values: tuple[int, ...]) -> str:
    (code,) = values
    return f"x{code % TRANSPOSED}" + (".trans.b8" if code >= BYTES else ".trans" if code >= TRANSPOSED else "")


MATRIX_COPIES = (
    Variant("MatrixLoad", ("matrices",), price_matrix_copy, emit_matrix_copy, show=_show),
    Variant("MatrixStore", ("matrices",), price_matrix_copy, emit_matrix_copy, show=_show),
)
