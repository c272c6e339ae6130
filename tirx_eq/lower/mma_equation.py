"""The equation of a matrix multiplication: descriptors decoded back and compared with the operands' layouts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..ir import IntImm, Var, const
from ..ir.index import evaluate_many
from ..prove.verdict import Enumeration, Verdict
from ..ptx.descriptor import InstructionDescriptor, MatrixDescriptor, element_address
from .conditions.gemm import F16_KINDS, MMA_K, mma_shape
from .context import CallContext
from .equation import Points, points_of
from .indices import Indices
from .program import Block, If, Index, Instruction, Pointer, walk
from .shared import shared_address
from .storage import MAX_SHARED, SHARED_ALIGN


def matrix_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Every element that the instructions read is the layout's element, each K slice is multiplied once, in order.

    Checked for the lowest and the highest address that the shared block can have, and with CTA coordinates and loop
    variables at their lowest, middle and highest values.
    """
    total = 0
    highest = (MAX_SHARED - c.storage.shared_bytes) // SHARED_ALIGN * SHARED_ALIGN
    for points in points_of(c, block, indices):
        for base in (0, highest):
            problem, count = _check(c, block, indices, points, base)
            total += count
            if problem:
                return Verdict("different", "enumeration", counterexample={"shared_base": base}, detail=problem)
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"{total} operand elements read")


def _check(c: CallContext, block: Block, indices: Indices, points: Points, base: int) -> tuple[str | None, int]:
    m, n, k = mma_shape(c)
    issuer = int(np.flatnonzero(c.active.mask)[0])
    values = {name: int(np.broadcast_to(v, (points.threads,))[issuer]) for name, v in points.values.items()}
    values[indices.scope.name(shared_address())] = base
    at_point = {v: p[issuer] for v, p in points.by_var().items()}
    known: dict[object, int] = {}
    multiplied = []
    for node in _instructions(block):
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
    if len(multiplied) != k // MMA_K:
        return f"{len(multiplied)} multiplications for K = {k}", 0
    types = F16_KINDS[c.operands["A"].dtype, c.operands["C"].dtype]
    column = int(c.operands["C"].places({})["TCol"].min())
    accumulate = const(c.call.operand("accum"))
    count = 0
    for step, (at, a, b, idesc, enable) in enumerate(multiplied):
        decoded = InstructionDescriptor.decode(known[idesc], "f16")
        if decoded != InstructionDescriptor("f16", m, n, types[0], types[0], types[1]):
            return f"the instruction descriptor means {decoded}", count
        assert isinstance(at, Pointer)
        if int(evaluate_many(indices.term(at.expr), values)) != column:
            return "the accumulator's address is not that of its first column", count
        wanted = int(accumulate) if step == 0 and isinstance(accumulate, IntImm) else 1 if step else -1
        if known[enable] != wanted:
            return f"multiplication {step} {'adds to' if known[enable] else 'overwrites'} the accumulator", count
        for name, register in (("A", a), ("B", b)):
            problem = _operand(c, name, MatrixDescriptor.decode(known[register]), step, base, at_point)
            if problem:
                return problem, count
            count += c.operands[name].shape[0] * MMA_K
    return None, count


def _operand(
    c: CallContext, name: str, descriptor: MatrixDescriptor, step: int, base: int, at: dict[Var, np.ndarray]
) -> str | None:
    o = c.operands[name]
    rows, depth = o.shape
    address = (o.places(at)["byte"] + o.root.offset + base).reshape(rows, depth)
    row, k = np.meshgrid(np.arange(rows), np.arange(MMA_K), indexing="ij")
    read = np.asarray(element_address(descriptor, "K", o.bits, row, k))  # type: ignore[arg-type]
    bad = np.argwhere(read != address[:, step * MMA_K : (step + 1) * MMA_K])
    if not len(bad):
        return None
    i, j = (int(v) for v in bad[0])
    return f"slice {step} of '{name}': element [{i}, {step * MMA_K + j}] is read from byte {int(read[i, j])}"


def _instructions(block: Block) -> Iterator[Instruction]:
    yield from (n for n in walk(block) if isinstance(n, Instruction) and not isinstance(n, If))


def _value(i: object, indices: Indices, values: dict[str, Any]) -> int:
    assert isinstance(i, Index)
    return int(evaluate_many(indices.term(i.expr), values)) & 0xFFFFFFFF
