"""The equation of a matrix multiplication: descriptors decoded back and compared with the operands' layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir import IntImm, Var, const
from ...ir.index import evaluate_many
from ...prove.verdict import Enumeration, Verdict
from ...ptx.descriptor import BlockScaledDescriptor, InstructionDescriptor, MatrixDescriptor
from ..code.shared import shared_address
from ..conditions.gemm import (
    Kind,
    cta_group,
    element_bits,
    instruction_descriptor,
    kind_of,
    matrix_bits,
    mma_shape,
    transposed,
)  # fmt: skip
from ..conditions.scaled_gemm import factor_places
from ..conditions.tmem_factor import lane_copies, row_lanes
from ..conditions.tmem_place import cells, in_container
from ..context import CallContext
from ..indices import Indices
from ..program import Block, Index, Instruction, Pointer, walk
from ..storage import MAX_SHARED, SHARED_ALIGN
from .movement import Points, points_of


def stationary_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """The same for the weight-stationary form, which puts the accumulator elsewhere unless M is 128."""
    return matrix_equation(c, block, indices, ".ws")


def matrix_equation(c: CallContext, block: Block, indices: Indices, form: str = "") -> Verdict:
    """Every element that the instructions read is the layout's element, each K slice is multiplied once, in order.

    Checked for the lowest and the highest address that the shared block can have, and with CTA coordinates and loop
    variables at their lowest, middle and highest values.
    """
    total = 0
    wanted = f"tcgen05.mma{form}.cta_group::{cta_group(c)}.kind::"
    for node in walk(block):
        if isinstance(node, Instruction) and node.opcode.startswith("tcgen05.mma") and not node.opcode.startswith(wanted):
            return Verdict("different", "enumeration", counterexample={"instruction": node.opcode}, detail=f"not {wanted}")
    highest = (MAX_SHARED - c.storage.shared_bytes) // SHARED_ALIGN * SHARED_ALIGN
    for points in points_of(c, block, indices):
        for base, issuer in ((b, t) for b in (0, highest) for t in c.active.issuers()):
            problem, count = _check(c, block, indices, points, base, issuer, form)
            total += count
            if problem:
                return Verdict("different", "enumeration", counterexample={"shared_base": base}, detail=problem)
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"{total} operand elements read")


def _check(
    c: CallContext, block: Block, indices: Indices, points: Points, base: int, issuer: int, form: str
) -> tuple[str | None, int]:
    """What is wrong at one point, if anything, and how many operand elements were compared."""
    kind, shape = kind_of(c), mma_shape(c)
    assert kind is not None
    values = {name: int(np.broadcast_to(v, (points.threads,))[issuer]) for name, v in points.values.items()}
    values[indices.scope.name(shared_address())] = base
    at_point = {v: p[issuer] for v, p in points.by_var().items()}
    known, multiplied = _registers(block, indices, values)
    if len(multiplied) != shape.k // kind.k:
        return f"{len(multiplied)} multiplications for K = {shape.k}", 0
    tmem = c.operands["C"]
    column = int(cells(tmem, tmem.places(at_point))[0].min())
    accumulate = const(c.call.operand("accum"))
    count = 0
    for step, (at, a, b, idesc, *factors, enable) in enumerate(multiplied):
        problem = _descriptor(c, kind, known[idesc], step, [_address(p, indices, values) for p in factors])
        if problem:
            return problem, count
        if _address(at, indices, values) != column:
            return "the accumulator's address is not that of its first column", count
        wanted = int(accumulate) if step == 0 and isinstance(accumulate, IntImm) else 1 if step else -1
        if known[enable] != wanted:
            return f"multiplication {step} {'adds to' if known[enable] else 'overwrites'} the accumulator", count
        for name, operand in (("A", a), ("B", b)):
            if isinstance(operand, Pointer):
                problem = _tmem_operand(c, _address(operand, indices, values), step, kind.k, at_point, form)
            else:
                problem = _shared_operand(c, name, MatrixDescriptor.decode(known[operand]), step, base, at_point)
            if problem:
                return problem, count
            count += c.operands[name].size * kind.k // shape.k
    return None, count


def _descriptor(c: CallContext, kind: Kind, value: int, step: int, factors: list[int]) -> str | None:
    """The instruction descriptor decoded back; for a block-scaled kind also where it finds the scale factors."""
    if not kind.scales:
        dense = InstructionDescriptor.decode(value, kind.name)
        return None if dense == instruction_descriptor(c) else f"the instruction descriptor means {dense}"
    decoded = BlockScaledDescriptor.decode(value, kind.name)
    shape = mma_shape(c)
    meant = (decoded.m, decoded.n, decoded.a_type, decoded.b_type, decoded.scale_type)
    major = (decoded.transpose_a, decoded.transpose_b)
    if meant != (shape.pair_m, shape.n, kind.a, kind.b, kind.scale_type) or major != tuple(transposed(c, x) for x in "AB"):
        return f"the instruction descriptor means {decoded}"
    for name, column, byte in (("A", factors[0], decoded.sfa_id), ("B", factors[1], decoded.sfb_id)):
        o, where = c.operands[f"SF{name}"], factor_places(c, name)
        places = o.places(c.lowest())
        part = slice(step * kind.scales, (step + 1) * kind.scales)
        lane, at = (places[axis].reshape(len(where.lane), -1)[:, part] for axis in ("TLane", "TCol"))
        wanted = 4 * (column + where.column[:, None]) + byte + np.arange(kind.scales)[None, :]
        if (lane != where.lane[:, None]).any() or (at != wanted).any() or not where.copies <= lane_copies(o):
            return f"instruction {step} doesn't read the factors of '{o.name}' from column {column}, byte {byte}"
    return None


def _registers(block: Block, indices: Indices, values: dict[str, Any]) -> tuple[dict[object, int], list[tuple[Any, ...]]]:
    """Constants in registers, and the operands of the multiplications in order."""
    known: dict[object, int] = {}
    multiplied = []
    for node in walk(block):
        if not isinstance(node, Instruction):
            continue
        if node.opcode == "mov.b64":
            low, high = (_value(i, indices, values) for i in node.operands[1])  # type: ignore[union-attr]
            known[node.operands[0]] = high << 32 | low
        elif node.opcode == "mov.b32":
            known[node.operands[0]] = int(node.operands[1])  # type: ignore[arg-type]
        elif node.opcode.startswith("setp."):
            x, y = node.operands[1:]
            same = isinstance(x, int) and (x == y) == node.opcode.startswith("setp.eq")
            known[node.operands[0]] = int(same) if isinstance(x, int) else -1
        elif node.opcode.startswith("tcgen05.mma"):
            multiplied.append(node.operands)
    return known, multiplied


def _address(at: object, indices: Indices, values: dict[str, Any]) -> int:
    assert isinstance(at, Pointer)
    return int(evaluate_many(indices.term(at.expr), values))


def _shared_operand(
    c: CallContext, name: str, descriptor: MatrixDescriptor, step: int, base: int, at: dict[Var, np.ndarray]
) -> str | None:
    """Every element of the slice: where the descriptor reads it, and where the layout has it."""
    o, kind = c.operands[name], kind_of(c)
    assert kind is not None
    major = "MN" if transposed(c, name) else "K"
    address = matrix_bits(o, major == "K", at) + 8 * base  # type: ignore[arg-type]
    row, k = np.meshgrid(np.arange(address.shape[0]), np.arange(kind.k), indexing="ij")
    read = element_bits(descriptor, major, o.bits, kind.container(o.bits), row, k)
    bad = np.argwhere(read != address[:, step * kind.k : (step + 1) * kind.k])
    if not len(bad):
        return None
    i, j = (int(v) for v in bad[0])
    return f"slice {step} of '{name}': element (row {i}, k {step * kind.k + j}) is read from byte {int(read[i, j]) // 8}"


def _tmem_operand(
    c: CallContext, address: int, step: int, depth: int, at: dict[Var, np.ndarray], form: str
) -> str | None:
    """A in tensor memory: lanes and cell of every element of the slice, from its address on."""
    a, kind = c.operands["A"], kind_of(c)
    assert kind is not None
    places = a.places(at)
    cell, part = (v.reshape(a.shape)[:, step * depth : (step + 1) * depth] for v in cells(a, places))
    lane = places["TLane"].reshape(a.shape)[:, step * depth : (step + 1) * depth]
    k = np.arange(depth)[None, :]
    apart = kind.container(a.bits) // a.bits
    per = 32 // kind.container(a.bits)
    wanted = row_lanes(mma_shape(c), cta_group(c), form == ".ws")
    right = (cell == address + k // per).all() and (part == k % per * apart).all() and (lane == wanted.lane[:, None]).all()
    right = right and wanted.offsets <= lane_copies(a) and (apart == 1) == (in_container(a) == 0)
    return None if right else f"slice {step} of 'A' is not at column {address} of tensor memory"


def _value(i: object, indices: Indices, values: dict[str, Any]) -> int:
    assert isinstance(i, Index)
    return int(evaluate_many(indices.term(i.expr), values)) & 0xFFFFFFFF
