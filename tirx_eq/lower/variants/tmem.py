"""Copies between tensor memory and the registers of warps (PTX ISA 9.7.16, tcgen05.ld and tcgen05.st)."""

from __future__ import annotations

import numpy as np

from ...errors import LoweringError
from ...ir import Var
from ..conditions.tmem import PACKING, Fragment, fragment, tmem_and_registers, transfer_of, warps_of
from ..conditions.tmem_place import first_column
from ..context import CallContext, Operand
from ..indices import TMEM_BASE_RANGE
from ..machine import Price
from ..program import Block, Define, Node, Pointer, Temp, instruction
from .base import Variant, word_of

LANE = 1 << 16  # a TMEM address has the lane in bits 31-16, the column in bits 15-0


def tmem_base(c: CallContext, o: Operand, name: str = "tmem_base") -> tuple[Define, Var]:
    """The node that reads the address of a tensor-memory buffer, and the variable that has it from there on."""
    address = o.root.address
    assert address is not None
    base = Var(name, "int32")  # type: ignore[arg-type]
    return Define(base, c.resolve(address), TMEM_BASE_RANGE), base


def _fragment(c: CallContext, code: int) -> Fragment:
    found = fragment(c, code >= PACKING)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def _transfers(c: CallContext, code: int, loading: bool) -> Block:
    """Each warp moves its own lanes (half of them at a time for 16-lane shapes), ``repeat`` times the shape's columns at
    once; its address carries the warp's first lane.

    Registers of 64 bits are moved as pairs of 32 bits.  What is loaded is put together after a wait of its own: until then
    the pairs aren't there.
    """
    shape, repeat = transfer_of(code)
    found, (tmem, regs) = _fragment(c, code), tmem_and_registers(c)
    load_base, base = tmem_base(c, tmem)
    starts = found.first_registers() if shape.lanes == 16 else {0: int(found.register.min())}
    first, width = first_column(c, tmem, int(found.column.min())), int(found.column.max() - found.column.min()) + 1
    warp_lane = c.launch.flat_tid() // 32 % 4 * (32 * LANE)
    packing = "" if found.stride == 1 else ".pack::16b" if loading else ".unpack::16b"
    wide = regs.root.word_bits == 64
    pairs: dict[int, Temp] = {}
    if wide:
        pairs = {r: Temp("b32") for r in sorted({int(r) for r in found.register})}
    halves = [((pairs[r], pairs[r + 1]), word_of(regs, 4 * r)) for r in pairs if r % 2 == 0]
    nodes: list[Node] = [load_base]
    if not loading:
        nodes += [instruction("mov.b64", pair, word) for pair, word in halves]
    for half, start in starts.items():
        for k in range(width // (shape.columns * repeat)):
            register = start + k * repeat * shape.registers
            registers = range(register, register + repeat * shape.registers)
            words = tuple(pairs[r] if wide else word_of(regs, 4 * r) for r in registers)
            at = Pointer(base + warp_lane + (half * 16 * LANE + k * repeat * shape.columns * found.stride) + first)
            opcode = f"tcgen05.{'ld' if loading else 'st'}.sync.aligned.{shape.name}.x{repeat}{packing}.b32"
            nodes.append(instruction(opcode, words, at) if loading else instruction(opcode, at, words))
    if loading and wide:
        nodes.append(instruction("tcgen05.wait::ld.sync.aligned"))
        nodes += [instruction("mov.b64", word, pair) for pair, word in halves]
    return tuple(nodes)


def _price(c: CallContext, parameters: tuple[int, ...]) -> Price:
    shape, repeat = transfer_of(parameters[0])
    found = _fragment(c, parameters[0])
    words = len(found.lane)
    moves = words // (warps_of(c) * shape.lanes * shape.columns * repeat)
    wide = tmem_and_registers(c)[1].root.word_bits == 64
    pairs = len(np.unique(found.register)) // 2 + 1 if wide else 0
    return Price(issue=moves + pairs, warps=warps_of(c), tmem=words * found.stride)


def _show(values: tuple[int, ...]) -> str:
    shape, repeat = transfer_of(values[0])
    return f"{shape.name}.x{repeat}" + (", 16-bit halves" if values[0] >= PACKING else "")


TMEM_COPIES = (
    Variant("TmemLoad", ("transfer",), _price, lambda c, p: _transfers(c, p[0], True), show=_show),
    Variant("TmemStore", ("transfer",), _price, lambda c, p: _transfers(c, p[0], False), show=_show),
)
