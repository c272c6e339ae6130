"""Copies between tensor memory and the registers of a warpgroup (PTX ISA 9.7.16, tcgen05.ld and tcgen05.st)."""

from __future__ import annotations

from ...ir import Var
from ..conditions.tmem import tmem_and_registers
from ..context import CallContext, Operand
from ..machine import Price
from ..program import Block, Define, Node, Pointer, instruction
from .base import Variant, word_of

#: An address that tcgen05.alloc wrote: lane 0, a column below 512 (PTX ISA 9.7.16.7).
TMEM_BASE_RANGE = (0, 511)
LANE = 1 << 16  # a TMEM address has the lane in bits 31-16, the column in bits 15-0


def tmem_base(c: CallContext, o: Operand, name: str = "tmem_base") -> tuple[Define, Var]:
    """The node that reads the address of a tensor-memory buffer, and the variable that has it from there on."""
    address = o.root.address
    assert address is not None
    base = Var(name, "int32")  # type: ignore[arg-type]
    return Define(base, c.resolve(address), TMEM_BASE_RANGE), base


def _transfers(c: CallContext, repeat: int, loading: bool) -> Block:
    """Each warp moves its 32 lanes, ``repeat`` columns at a time; its address carries the warp's first lane."""
    tmem, regs = tmem_and_registers(c)
    t, r = tmem.places({}), regs.places({})
    load_base, base = tmem_base(c, tmem)
    column = int(t["TCol"].min())
    first = int(r["byte"].min())
    warp_lane = c.launch.flat_tid() // 32 % 4 * (32 * LANE)
    nodes: list[Node] = [load_base]
    for k in range(0, tmem.size // 128, repeat):
        words = tuple(word_of(regs, first + 4 * (k + j)) for j in range(repeat))
        at = Pointer(base + warp_lane + (column + k))
        if loading:
            nodes.append(instruction(f"tcgen05.ld.sync.aligned.32x32b.x{repeat}.b32", words, at))
        else:
            nodes.append(instruction(f"tcgen05.st.sync.aligned.32x32b.x{repeat}.b32", at, words))
    return tuple(nodes)


def _price(c: CallContext, parameters: tuple[int, ...]) -> Price:
    (repeat,) = parameters
    columns = tmem_and_registers(c)[0].size // 128
    return Price(issue=columns // repeat, warps=4, tmem=columns * 32 * 4)


TMEM_COPIES = (
    Variant("TmemLoad", ("repeat",), _price, lambda c, p: _transfers(c, p[0], True)),
    Variant("TmemStore", ("repeat",), _price, lambda c, p: _transfers(c, p[0], False)),
)
