"""Asynchronous copies between global and shared memory: cp.async, and tensor copies (PTX ISA 9.7.9)."""

from __future__ import annotations

from collections.abc import Hashable

from ...errors import LoweringError
from ...ir import const
from ...prove.verdict import Verdict
from ..conditions.cluster import barrier_of
from ..conditions.tensor_copy import TensorCopy, global_and_shared, tensor_copies
from ..conditions.tensor_reduce import reduction_of
from ..context import CallContext
from ..equations.cluster import shared_load_equation
from ..equations.movement import movement
from ..indices import Indices
from ..intrinsics.language import constant
from ..machine import Price
from ..program import Block, Box, If, Instruction, Memory, Node, instruction, walk
from .base import Variant
from .copy import price_memory_copy, vector_steps
from .issue import by_one_thread

MAP_BYTES = 128  # of a CUtensorMap


def emit_async_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Participant t copies vectors t, t+T, …; the caller commits and waits for the group."""
    (width,) = parameters
    src, dst = c.inputs[0], c.outputs[0]
    lanes = width * 8 // src.bits
    _, rounds, rest = vector_steps(c, width)
    rank = c.rank()
    # Only the 16-byte form bypasses L1 (.cg); narrower ones exist as .ca.
    opcode = "cp.async.cg.shared.global" if width == 16 else "cp.async.ca.shared.global"

    def move(i: int) -> Node:
        element = (rank + i * c.participants) * lanes
        into, out = (Memory(o.root, c.resolve(o.byte_offset(element))) for o in (dst, src))
        return instruction(opcode, into, out, width)

    nodes: list[Node] = [move(i) for i in range(rounds)]
    if rest:
        nodes.append(If(rank < rest, (move(rounds),)))
    return tuple(nodes)


def price_async_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """As the synchronous copy, with one instruction per vector and no registers held."""
    p = price_memory_copy(c, parameters)
    return Price(p.issue / 2, p.warps, p.wavefronts, p.sectors)


def planned_copies(c: CallContext, code: int) -> list[TensorCopy]:
    """The boxes of a call that the conditions have accepted."""
    found = tensor_copies(c, code)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def emit_tensor_load(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One tensor copy per box; each reports its bytes to the barrier, whose expectation the caller sets."""
    barrier = barrier_of(c)
    assert barrier is not None
    shared = global_and_shared(c)[1]
    nodes = []
    for copy in planned_copies(c, parameters[0]):
        opcode = f"cp.async.bulk.tensor.{copy.map.rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
        into = Memory(shared.root, c.resolve(copy.shared))
        nodes.append(instruction(opcode, into, box_of(c, copy), barrier))
    return tuple(nodes)


def emit_tensor_store(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One tensor copy per box; the caller commits and waits for the group."""
    shared = global_and_shared(c)[1]
    return tuple(
        instruction(
            f"cp.async.bulk.tensor.{copy.map.rank}d.global.shared::cta.tile.bulk_group",
            box_of(c, copy), Memory(shared.root, c.resolve(copy.shared)),
        )
        for copy in planned_copies(c, parameters[0])
    )  # fmt: skip


def emit_tensor_reduce(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """The same, each element combined with what is there; other CTAs may do so at the same time."""
    shared = global_and_shared(c)[1]
    return tuple(
        instruction(
            f"cp.reduce.async.bulk.tensor.{copy.map.rank}d.global.shared::cta.{reduction_of(c)}.tile.bulk_group",
            box_of(c, copy), Memory(shared.root, c.resolve(copy.shared)),
        )
        for copy in planned_copies(c, parameters[0])
    )  # fmt: skip


def reduce_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on the elements, and that every copy combines as the call says."""
    wanted = c.call.config["use_tma_reduce"]
    for node in walk(block):
        if isinstance(node, Instruction) and ".bulk.tensor." in node.opcode:
            got = node.opcode.partition("shared::cta.")[2].partition(".")[0]
            if not node.opcode.startswith("cp.reduce.") or got != str(constant(wanted)):
                told = f"{node.opcode} doesn't {wanted}"
                return Verdict("different", "enumeration", counterexample={"got": got}, detail=told)
    return movement(c, block, indices)


def box_of(c: CallContext, copy: TensorCopy) -> Box:
    """The operand that names a copy's tensor map and coordinates."""
    return Box(copy.map, tuple(c.resolve(const(e)) for e in copy.coords))


def tensor_maps_of(c: CallContext, parameters: tuple[int, ...]) -> dict[Hashable, float]:
    """The tensor maps of a call's boxes: a descriptor is a parameter of the kernel, fetched once through the L2 cache."""
    return {copy.map: Price(issue=2, sectors=MAP_BYTES / 32).cycles() for copy in planned_copies(c, parameters[0])}


def price_tensor_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """One instruction per box; the copy engine writes 128 bytes per cycle and moves whole sectors."""
    copies = planned_copies(c, parameters[0])
    written, read = (sum(n) for n in zip(*((copy.map.box_bytes, copy.map.transaction_bytes) for copy in copies)))
    return Price(issue=4 * len(copies), wavefronts=written / 128, sectors=read / 32)


ASYNC_COPIES = (
    Variant("AsyncCopy", ("bytes",), price_async_copy, emit_async_copy, ("vec_len",)),
    by_one_thread(Variant("TensorLoad", ("swizzle",), price_tensor_copy, emit_tensor_load, ("mbar", "cta_group", "oob"),
                          equation=shared_load_equation, shares=tensor_maps_of)),
    by_one_thread(Variant("TensorStore", ("swizzle",), price_tensor_copy, emit_tensor_store, ("cta_group", "oob"),
                          shares=tensor_maps_of)),
    by_one_thread(Variant("TensorReduce", ("swizzle",), price_tensor_copy, emit_tensor_reduce,
                          ("cta_group", "oob", "use_tma_reduce"), equation=reduce_equation, shares=tensor_maps_of)),
)  # fmt: skip
