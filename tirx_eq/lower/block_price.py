"""The price of a program by what is in it: instructions by kind, and the traffic of its memory accesses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.index import evaluate_many
from ..layout.conflicts import bank_conflicts
from .code.accesses import access_bytes
from .context import CallContext
from .machine import Price, slots
from .program import Block, Instruction, Memory, Store, walk
from .sharing.active import thread_points

#: Instructions whose throughput is that of conversions, and those of the special function unit (CUDA C++ Programming Guide).
CONVERTS = ("cvt",)
SPECIAL = ("ex2", "lg2", "rcp", "sqrt", "div")
#: Moves that only rename registers are left out by the assembler for the most part.
FREE = ("mov.b64", "mov.b32", "mov.f32", "mov.b16", "bar")
#: Issue slots of a move that joins two registers into 64 bits, or splits them: counted in SASS, nearly all disappear, since the
#: values can be put into neighbouring registers from the start (sums of 8 to 64 loaded or computed values).
PACK_COST = 0.1


def price_block(c: CallContext, block: Block) -> Price:
    """Issue slots, conversions, special functions, shared-memory wavefronts and global sectors of a block."""
    issue = converts = special = 0.0
    accesses: dict[tuple[str, str, str], list[Instruction]] = {}
    for node in walk(block):
        if isinstance(node, Store):
            issue += 1
        if not isinstance(node, Instruction):
            continue
        head = node.opcode.split(".", 1)[0]
        issue += _slots(node)
        converts += 32 * (head in CONVERTS)
        special += 32 * (head in SPECIAL) * (2 if node.opcode.endswith("x2") else 1)
        for o in node.operands:
            if isinstance(o, Memory):
                accesses.setdefault((node.opcode, o.root.space, o.root.name), []).append(node)
    price = Price(issue=issue, warps=max(1, len(c.active.warps())), converts=converts, special=special)
    waves = sectors = 0.0
    for (opcode, space, _), group in accesses.items():
        one_wave, one_sector = _traffic(c, opcode, space, group[0])
        waves, sectors = waves + one_wave * len(group), sectors + one_sector * len(group)
    return replace(price, wavefronts=waves, sectors=sectors)


def _slots(node: Instruction) -> float:
    if node.opcode.startswith("mov.") and any(isinstance(o, tuple) for o in node.operands):
        return PACK_COST if node.opcode == "mov.b64" else 1.0
    return 0.25 if node.opcode in FREE else slots(node.opcode)


def _traffic(c: CallContext, opcode: str, space: str, node: Instruction) -> tuple[float, float]:
    """Wavefronts and sectors of one access by all active threads, CTA and loop variables at their lowest values."""
    at = next(o for o in node.operands if isinstance(o, Memory))
    matrices = opcode.partition(".x")[2][:1] if "matrix." in opcode else ""  # ldmatrix: rows of the first 8 lanes per matrix
    width = 16 if matrices else access_bytes(opcode)
    scope = c.scope_with()
    term = c.term(at.offset, scope)
    points: dict[str, np.ndarray | int] = {name: low for name, (low, _) in scope.ranges.items()}
    registers = {scope.name(v): r for r, v in c.launch.special.items() if r.startswith("tid.")}
    points.update(thread_points(c.launch, registers))
    offsets = np.broadcast_to(np.asarray(evaluate_many(term, points)), (c.launch.threads,))
    if c.active.elected:
        return (1.0, 0.0) if space == "shared" else (0.0, float(max(1, width // 32)))
    waves = sectors = 0.0
    for w in range(0, c.launch.threads, 32):
        lanes = [int(a) // width * width if on else None for a, on in zip(offsets[w : w + 32], c.active.mask[w : w + 32])]
        if matrices:
            lanes = lanes[: (16 if "m16n16" in opcode else 8) * int(matrices)]
        moved = [a for a in lanes if a is not None]
        if not moved:
            continue
        if space == "shared":
            waves += bank_conflicts(lanes, min(width, 16)).wavefronts
        else:
            sectors += len({(a + b) // 32 for a in moved for b in range(0, width, 32)})
    return waves, sectors
