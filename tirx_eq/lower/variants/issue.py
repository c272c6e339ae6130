"""Instructions that one thread issues for all: at wider scopes one lane is elected, and the equation counts who issues."""

from __future__ import annotations

from dataclasses import replace

from ...prove.verdict import Verdict
from ..context import CallContext
from ..equations.issue import issued_otherwise
from ..indices import Indices
from ..program import Block, If, Temp, instruction
from ..sharing.threads import WARP
from .base import Variant


def by_one_thread(variant: Variant) -> Variant:
    """The variant, whose program and equation are those of the issuing thread, for calls at any scope within a CTA."""

    def emit(c: CallContext, values: tuple[int, ...]) -> Block:
        return _elected(c, variant.emit(c, values))

    def equation(c: CallContext, block: Block, indices: Indices) -> Verdict:
        wrong = issued_otherwise(c, block, indices)
        return variant.equation(c, block, indices) if wrong is None else wrong

    return replace(variant, emit=emit, equation=equation)


def _elected(c: CallContext, block: Block) -> Block:
    """``block`` by one lane of the first warp of each unit that makes the call.

    ``elect.sync`` names the same lane each time (PTX ISA 9.7.13.15), so what the thread commits or waits for later, after
    an election in the same warp, is what it issued here.
    """
    if c.scope == "thread":
        return block
    elected = Temp("pred")
    chosen = (instruction("elect.sync", ("|", elected), 0xFFFFFFFF), If(elected, block))
    return chosen if c.participants <= WARP else (If(c.rank() < WARP, chosen),)
