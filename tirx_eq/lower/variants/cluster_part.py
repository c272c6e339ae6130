"""Primitives of a cluster on global memory: each CTA makes its part of the tile, as a CTA would alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ...ir import LT, const
from ...ir.arith import binary
from ...prove.verdict import Enumeration, Verdict
from ..context import CallContext
from ..indices import Indices
from ..machine import Price
from ..program import Block, If
from ..sharing.cluster_part import Part, candidates_of_part, part_of
from .base import Variant

if TYPE_CHECKING:
    from ..candidates import Candidate


def _chosen(c: CallContext, parameters: tuple[int, ...]) -> tuple[Part, Candidate]:
    part, found = part_of(c), candidates_of_part(c)
    assert isinstance(part, Part) and not isinstance(found, str)
    return part, found[parameters[0]]


def emit_part(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """The program of a CTA, in the CTAs that have a part."""
    from . import VARIANTS

    part, k = _chosen(c, parameters)
    body = c.once(("part of a CTA", *parameters), lambda: VARIANTS[k.node].emit(part.context, k.values))
    if part.parts == math.prod(c.launch.cluster):
        return body
    return (If(binary(LT, c.launch.cta_rank(), const(part.parts)), body),)


def price_part(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """Of one CTA."""
    return _chosen(c, parameters)[1].price


def part_equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """The equation of a CTA's program for its part, and that the parts are the whole tile, each element once."""
    from . import VARIANTS

    part = part_of(c)
    assert isinstance(part, Part)
    count = 0
    for o in c.operands.values():
        whole = np.arange(o.size)
        parts = [part.region_of(o, rank) for rank in range(part.parts)]
        together = np.sort(np.concatenate(parts)) if part.axes[o.name] is not None else parts[0]
        mine = part.context.operands[o.name]
        if not np.array_equal(together, whole) or any(len(p) != mine.size for p in parts):
            return Verdict("different", "enumeration", counterexample={"operand": o.name}, detail="parts are not the whole")
        count += o.size
    body = block
    if part.parts != math.prod(c.launch.cluster):
        (guard,) = block
        assert isinstance(guard, If)
        body = guard.then
    node = _known(c)[0].node  # all of them are of one family, and so is what they are proved by
    inner = VARIANTS[node].equation(part.context, body, indices)
    if inner.status != "equal":
        return inner
    whole_tile = Enumeration(count, (("rank", 0, part.parts - 1),))
    return Verdict("equal", inner.decided_by, certificate=whole_tile, detail=f"{inner.detail}, in each CTA's part")


def _known(c: CallContext) -> list[Candidate]:
    found = candidates_of_part(c)
    assert not isinstance(found, str)
    return found


CLUSTER_PARTS = (
    Variant("ClusterPart", ("candidate",), price_part, emit_part, ("vec_len",), equation=part_equation),
)
