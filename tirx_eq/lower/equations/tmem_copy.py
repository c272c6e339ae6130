"""The equation of tcgen05.cp: descriptors decoded back, every byte of tensor memory compared with the source's layout.

A copy that decompresses gives elements of 4 bits a byte each; bytes of shared memory are then told by their bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.index import evaluate_many
from ...prove.verdict import Enumeration, Verdict
from ...ptx.descriptor import MatrixDescriptor
from ..code.shared import shared_address
from ..conditions.gemm import cta_group, element_bits
from ..conditions.tmem_copy import COPY_SHAPES, DECOMPRESSING
from ..conditions.tmem_place import in_container
from ..context import CallContext
from ..indices import Indices
from ..program import Block, Index, Instruction, Pointer, walk
from .movement import Points, points_of


def copy_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict: the pairs (byte of tensor memory, byte of shared memory) are those of the layouts, copies included."""
    total = 0
    if (wrong := _group(c, block)) is not None:
        return wrong
    for points in points_of(c, block, indices):
        issuers = c.active.issuers()
        got = set().union(*(_moved(c, block, indices, points, t) for t in issuers))
        wanted = set().union(*(_expected(c, points, t) for t in issuers))
        total += len(wanted)
        if got != wanted:
            lane, byte, source = sorted(wanted ^ got)[0]
            return Verdict(
                "different", "enumeration", counterexample={"lane": lane, "byte": byte, "shared bit": source},
                detail=f"{len(wanted - got)} bytes are missing, {len(got - wanted)} are wrong",
            )  # fmt: skip
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"{total} bytes copied")


def _group(c: CallContext, block: Block) -> Verdict | None:
    """None if every copy is made in the CTAs that the call is for."""
    wanted = f"tcgen05.cp.cta_group::{cta_group(c)}."
    for node in walk(block):
        if isinstance(node, Instruction) and node.opcode.startswith("tcgen05.cp.") and not node.opcode.startswith(wanted):
            return Verdict(
                "different", "enumeration", counterexample={"CTAs": node.opcode.split(".")[2], "wanted": cta_group(c)},
                detail=f"{node.opcode} doesn't copy in {cta_group(c)} CTA",
            )  # fmt: skip
    return None


def _moved(
    c: CallContext, block: Block, indices: Indices, points: Points, issuer: int
) -> set[tuple[int, int, int]]:
    """(lane, byte of the lane, shared bit) that the instructions of one thread move."""
    values: dict[str, Any] = {n: int(np.broadcast_to(v, (points.threads,))[issuer]) for n, v in points.values.items()}
    values[indices.scope.name(shared_address())] = 0
    known: dict[object, int] = {}
    found: set[tuple[int, int, int]] = set()
    for node in walk(block):
        if not isinstance(node, Instruction) or node.opcode == "elect.sync":
            continue
        if node.opcode == "mov.b64":
            low, high = (_value(i, indices, values) for i in node.operands[1])  # type: ignore[union-attr]
            known[node.operands[0]] = high << 32 | low
            continue
        narrow = node.opcode.endswith(DECOMPRESSING)
        shape = next(s for s in COPY_SHAPES if node.opcode.removesuffix(DECOMPRESSING).endswith(s.name))
        at, register = node.operands
        assert isinstance(at, Pointer)
        column = int(evaluate_many(indices.term(at.expr), values))
        row, byte = np.meshgrid(np.arange(shape.rows), np.arange(shape.width), indexing="ij")
        descriptor = MatrixDescriptor.decode(known[register])
        source = element_bits(descriptor, "K", 4 if narrow else 8, 8, row, byte)
        for copy in range(shape.extent):
            lane = shape.lane(row) + copy * shape.stride
            found |= set(zip(lane.ravel().tolist(), (4 * column + byte).ravel().tolist(), np.asarray(source).ravel().tolist()))
    return found


def _expected(c: CallContext, points: Points, issuer: int) -> set[tuple[int, int, int]]:
    """The same by the layouts of the operands."""
    at = {v: p[issuer] for v, p in points.by_var().items()}
    source, target = c.inputs[0], c.outputs[0]
    size = max(1, target.bits // 8)
    places = target.places(at)
    bit, shared_bit = places["TCol"] * target.bits, source.bit_places(at)
    if in_container(target):
        made = (places["TLane"], bit // 8, shared_bit + 8 * source.root.offset)
        return {(lane + s, b, at_) for lane, b, at_ in zip(*(v.tolist() for v in made)) for s in _replicas(c)}
    if (bit % 8 != shared_bit % 8).any():  # bytes are copied whole: in no place would the element be right
        return set()
    shared = shared_bit // 8 + source.root.offset
    found: set[tuple[int, int, int]] = set()
    for shift in _replicas(c):
        for j in range(size):
            lane, byte = places["TLane"] + shift, bit // 8 + j
            found |= set(zip(lane.tolist(), byte.tolist(), (8 * (shared + j)).tolist()))
    return found


def _replicas(c: CallContext) -> list[int]:
    """Lane shifts of the copies that the destination's layout asks for."""
    shifts = [0]
    for i in getattr(c.outputs[0].buffer.layout, "replica", ()):
        if str(i.axis) == "TLane":
            shifts = [s + k * int(i.stride) for s in shifts for k in range(int(i.extent))]
    return shifts


def _value(i: object, indices: Indices, values: dict[str, Any]) -> int:
    assert isinstance(i, Index)
    return int(evaluate_many(indices.term(i.expr), values)) & 0xFFFFFFFF
