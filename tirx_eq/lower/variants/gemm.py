"""Matrix multiplication on the fifth-generation tensor core (PTX ISA 9.7.16, tcgen05.mma)."""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import IntImm, cast, const
from ...ptx.descriptor import InstructionDescriptor
from ..conditions.gemm import F16_KINDS, MMA_K, KSlice, k_slices, mma_shape
from ..context import CallContext
from ..machine import B200, Price
from ..program import Block, If, Index, Node, Pointer, Temp, instruction
from ..shared import shared_address
from .base import Variant
from .tmem import tmem_base


def instruction_descriptor(c: CallContext) -> InstructionDescriptor:
    """The 32-bit descriptor of the call: types, shape, both operands K-major."""
    m, n, _ = mma_shape(c)
    a, d = F16_KINDS[c.operands["A"].dtype, c.operands["C"].dtype]
    return InstructionDescriptor("f16", m, n, a, a, d)


def slices_of(c: CallContext, name: str, code: int) -> list[KSlice]:
    """The K slices of operand ``name``."""
    found = k_slices(c, name, code)
    if isinstance(found, str):
        raise LoweringError(found, span=c.span)
    return found


def emit_mma(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One tcgen05.mma per 16 elements of K; the first overwrites the accumulator unless ``accum`` is set."""
    (code,) = parameters
    idesc = Temp("b32")
    nodes: list[Node] = [instruction("mov.b32", idesc, instruction_descriptor(c).encode())]
    slices = []
    for name in ("A", "B"):
        temps = []
        for piece in slices_of(c, name, code):
            template = piece.descriptor.template
            # The start address fills the low 14 bits of the field, so it can be added: shared addresses are below 2^18.
            low = (shared_address() + c.resolve(piece.start)) // 16 + (template & 0xFFFFFFFF)
            temp = Temp("b64")
            nodes.append(instruction("mov.b64", temp, (Index(low), Index(const(template >> 32, "int64")))))
            temps.append(temp)
        slices.append(temps)
    tmem = c.operands["C"]
    load_base, base = tmem_base(c, tmem)
    nodes.append(load_base)
    at = Pointer(base + int(tmem.places({})["TCol"].min()))
    accumulate = const(c.call.operand("accum"))
    yes, first = Temp("pred"), Temp("pred")
    if len(slices[0]) > 1:
        nodes.append(instruction("setp.eq.u32", yes, 0, 0))
    if isinstance(accumulate, IntImm):
        nodes.append(instruction("setp.ne.u32", first, int(accumulate), 0))
    else:
        nodes.append(instruction("setp.ne.u32", first, Index(cast("int32", c.resolve(accumulate))), 0))
    for k, (a, b) in enumerate(zip(*slices)):
        opcode = "tcgen05.mma.cta_group::1.kind::f16"
        nodes.append(instruction(opcode, at, a, b, idesc, first if k == 0 else yes))
    if c.scope == "warp":
        elected = Temp("pred")
        return (instruction("elect.sync", ("|", elected), 0xFFFFFFFF), If(elected, tuple(nodes)))
    return tuple(nodes)


def price_mma(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """Tensor-core cycles, or shared-memory bandwidth for the operands if that is more (128 bytes per cycle)."""
    m, n, k = mma_shape(c)
    math = 2 * m * n * k / B200.mma_f16 * (2 if m == 64 else 1)
    operands = (m + n) * k * 2 / B200.shared_bytes
    return Price(issue=3 * k // MMA_K + 6, tensor=max(math, operands))


GEMMS = (Variant("Tcgen05Mma", ("swizzle",), price_mma, emit_mma, ("cta_group",)),)
