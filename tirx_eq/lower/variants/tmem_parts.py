"""Copies of parts of columns between tensor memory and registers, by way of whole columns."""

from __future__ import annotations

from ...errors import LoweringError
from ..block_price import price_block
from ..conditions.tmem import tmem_and_registers, warps_of
from ..conditions.tmem_parts import PartMoves, part_moves
from ..conditions.tmem_place import first_column
from ..context import CallContext
from ..equations.containers import parts_equation
from ..machine import Price
from ..program import Block, Node, Pointer, Temp, Word, instruction
from .base import Variant
from .tmem import LANE, tmem_base

WAIT_LOADED, WAIT_STORED = (f"tcgen05.wait::{what}.sync.aligned" for what in ("ld", "st"))


def _moves(c: CallContext) -> PartMoves:
    found = part_moves(c)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def _runs(columns: list[int]) -> list[list[int]]:
    """Neighbouring columns together, as many at a time as a repeat of 32x32b has."""
    runs: list[list[int]] = []
    for column in columns:
        if runs and column == runs[-1][-1] + 1:
            runs[-1].append(column)
        else:
            runs.append([column])
    out = []
    for run in runs:
        while run:
            count = min(128, 1 << (len(run).bit_length() - 1))
            out.append(run[:count])
            run = run[count:]
    return out


def _transfers(c: CallContext, columns: list[int], held: dict[int, Temp], loading: bool, at: dict[int, Pointer]) -> list[Node]:
    nodes: list[Node] = []
    for run in _runs(columns):
        opcode = f"tcgen05.{'ld' if loading else 'st'}.sync.aligned.32x32b.x{len(run)}.b32"
        words = tuple(held[column] for column in run)
        nodes.append(instruction(opcode, words, at[run[0]]) if loading else instruction(opcode, at[run[0]], words))
    return nodes


def _insert(
    into: Temp | Word, value: Temp | Word, bits: int, moves: list[tuple[int, int]], up: int = 0, down: int = 0
) -> list[Node]:
    """Instructions that put parts of a value into parts of a register; ``moves`` are (to, from), neighbours go together.

    Parts are ``down`` bits above their places in the value, ``up`` bits above them in the register.
    """
    nodes: list[Node] = []
    left = sorted(moves)
    while left:
        run = [left.pop(0)]
        while left and left[0] == (run[-1][0] + 1, run[-1][1] + 1):
            run.append(left.pop(0))
        to, source = run[0]
        if len(run) * bits == 32:
            nodes.append(instruction("mov.b32", into, value))
            continue
        part = value
        if source or down:
            part = Temp("b32")
            nodes.append(instruction("shr.u32", part, value, source * bits + down))
        nodes.append(instruction("bfi.b32", into, part, into, to * bits + up, len(run) * bits))
    return nodes


def _emit(c: CallContext, loading: bool) -> Block:
    """Loaded: columns, a wait, then their parts into registers.  Stored: columns that are changed in part are loaded first.

    Columns of bytes with an element of 4 bits in each begin as zeros instead.
    """
    found, (tmem, regs) = _moves(c), tmem_and_registers(c)
    base_node, base = tmem_base(c, tmem)
    warp_lane = c.launch.flat_tid() // 32 % 4 * (32 * LANE)
    columns = found.columns()
    first = first_column(c, tmem, columns[0])
    at = {column: Pointer(base + warp_lane + (column - columns[0]) + first) for column in columns}
    held = {column: Temp("b32") for column in columns}
    nodes: list[Node] = [base_node]
    changed = columns if loading else [column for column in columns if not found.made_anew(column)]
    if found.shift and not loading:
        nodes += [instruction("mov.b32", held[column], 0) for column in columns]
    if changed and not loading:
        nodes.append(instruction(WAIT_STORED))  # what was stored before must be there to be put back
    nodes += _transfers(c, changed, held, True, at)
    if changed:
        nodes.append(instruction(WAIT_LOADED))
    pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for column, part, register, place in found.moves:
        pairs.setdefault((column, register), []).append((place, part) if loading else (part, place))
    for (column, register), moves in pairs.items():
        word = Word(regs.root, register)
        into, value = (word, held[column]) if loading else (held[column], word)
        up, down = (0, found.shift) if loading else (found.shift, 0)
        nodes += _insert(into, value, found.bits, moves, up, down)
    if not loading:
        nodes += _transfers(c, columns, held, False, at)
    return tuple(nodes)


def emit_parts(c: CallContext, parameters: tuple[int, ...]) -> Block:
    loading = c.outputs[0].root.space == "local"
    return c.once("parts program", lambda: _emit(c, loading))


def _price(c: CallContext, parameters: tuple[int, ...]) -> Price:
    block = emit_parts(c, parameters)
    found = _moves(c)
    loaded = sum(1 for column in found.columns() if c.outputs[0].root.space == "local" or not found.made_anew(column))
    moved = loaded + (0 if c.outputs[0].root.space == "local" else len(found.columns()))
    price = price_block(c, block)
    return Price(price.issue, warps_of(c), tmem=moved * 32 * warps_of(c))


PART_COPIES = (
    Variant("TmemLoadPart", (), _price, emit_parts, equation=parts_equation),
    Variant("TmemStorePart", (), _price, emit_parts, equation=parts_equation),
)
