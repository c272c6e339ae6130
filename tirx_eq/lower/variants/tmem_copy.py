"""Copies from shared to tensor memory by tcgen05.cp (PTX ISA 9.7.16.9)."""

from __future__ import annotations

from ...errors import LoweringError
from ...ir import const
from ..code.shared import shared_address
from ..conditions.gemm import cta_group
from ..conditions.tmem_copy import COPY_SHAPES, DECOMPRESSING, copy_steps
from ..conditions.tmem_place import in_container
from ..context import CallContext
from ..equations.tmem_copy import copy_equation
from ..machine import B200, Price
from ..program import Block, Index, Node, Pointer, Temp, instruction
from .base import Variant
from .issue import by_one_thread
from .tmem import tmem_base


def emit_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One instruction per ``width`` bytes of the lanes; asynchronous, ordered before later products of the thread.

    With cta_group::2 each CTA of the pair copies from its own shared memory, at the addresses that the issuer gives.
    """
    steps = copy_steps(c, parameters[0])
    if isinstance(steps, str):
        raise LoweringError(steps, span=c.span)
    load_base, base = tmem_base(c, c.outputs[0])
    nodes: list[Node] = [load_base]
    for step in steps:
        template = step.descriptor.template
        low = (shared_address() + c.resolve(step.start)) // 16 + (template & 0xFFFFFFFF)
        temp = Temp("b64")
        nodes.append(instruction("mov.b64", temp, (Index(low), Index(const(template >> 32, "int64")))))
        opcode = f"tcgen05.cp.cta_group::{cta_group(c)}.{COPY_SHAPES[parameters[0]].name}"
        opcode += DECOMPRESSING if in_container(c.outputs[0]) else ""
        nodes.append(instruction(opcode, Pointer(base + step.column), temp))
    return tuple(nodes)


def price_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    moved = c.outputs[0].size * (8 if in_container(c.outputs[0]) else c.outputs[0].bits) / 8
    shape = COPY_SHAPES[parameters[0]]
    return Price(issue=3 * moved / (shape.rows * shape.width), wavefronts=moved / B200.shared_bytes)


COPIES_TO_TMEM = (
    by_one_thread(Variant("TmemCopy", ("shape",), price_copy, emit_copy, ("cta_group",), lambda v: COPY_SHAPES[v[0]].name,
                          copy_equation)),
)  # fmt: skip
