"""Copies between two layouts of registers: moves within threads, and shuffles among the lanes of warps."""

from __future__ import annotations

from ...errors import LoweringError
from ..block_price import price_block
from ..context import CallContext
from ..machine import Price
from ..program import Block, Index, Node, Operand, Temp, Word, instruction
from ..sharing.redistribute import Piece, moved_bytes, pieces
from .base import Variant
from .copy import moves

FULL = 0xFFFFFFFF


def emit_moves(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Each thread moves what it holds."""
    found = moved_bytes(c)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return moves(c.inputs[0], c.outputs[0], *found)


def emit_shuffles(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """For each register of the destination a shuffle per register that some lane needs, and a selection among them."""
    found = pieces(c)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    src, dst = c.inputs[0].root, c.outputs[0].root
    nodes: list[Node] = []
    late: list[Node] = []
    for piece in found:
        value = _received(piece, [Word(src, w) for w in piece.sources], nodes)
        target = Word(dst, piece.target)
        end = late if src == dst else nodes  # what is overwritten must have been sent
        if piece.bits == 32:
            end.append(instruction("mov.b32", target, value))
            continue
        if not isinstance(piece.shift, int) or piece.shift:
            part = Temp("b32")
            by = piece.shift if isinstance(piece.shift, int) else Index(piece.shift)
            nodes.append(instruction("shr.u32", part, value, by))
            value = part
        end.append(instruction("bfi.b32", target, value, target, piece.first, piece.bits))
    return tuple(nodes + late)


def _received(piece: Piece, sources: list[Word], nodes: list[Node]) -> Operand:
    lane = Index(piece.lane)
    value: Operand = Temp("b32")
    nodes.append(instruction("shfl.sync.idx.b32", value, sources[0], lane, 31, FULL))
    for word in sources[1:]:
        assert piece.which is not None
        other, chosen, mine = Temp("b32"), Temp("b32"), Temp("pred")
        nodes.append(instruction("shfl.sync.idx.b32", other, word, lane, 31, FULL))
        nodes.append(instruction("setp.eq.u32", mine, Index(piece.which), word.index))
        nodes.append(instruction("selp.b32", chosen, other, value, mine))
        value = chosen
    return value


def _price_moves(c: CallContext, parameters: tuple[int, ...]) -> Price:
    return price_block(c, emit_moves(c, parameters))


def _price_shuffles(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """A shuffle takes the shared-memory pipe for a cycle (CUDA C++ Programming Guide: 32 lanes per cycle and SM)."""
    body = emit_shuffles(c, parameters)
    count = sum(1 for n in body if getattr(n, "opcode", "").startswith("shfl"))
    price = price_block(c, body)
    return Price(price.issue, price.warps, wavefronts=count * price.warps)


REDISTRIBUTIONS = (
    Variant("SpreadMove", (), _price_moves, emit_moves),
    Variant("Shuffle", (), _price_shuffles, emit_shuffles),
)
