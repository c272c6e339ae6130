"""Barriers over a whole kernel: waits that nothing can end, and threads that never arrive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import LoweringError, Span
from ...ir import Buffer, BufferLoad, Call, Evaluate, Expr, IntImm, PrimFunc, TilePrimitiveCall, post_order_visit
from ..intrinsics.barriers import PARITY_WAITS
from ..intrinsics.instruction import INSTRUCTION
from ..intrinsics.places import address_operand
from ..storage import Storage, remote_address

INIT = "tirx.ptx.mbarrier_init"


@dataclass(frozen=True)
class Sync:
    """A barrier of all threads of a CTA or cluster, and the threads of a CTA that reach it."""

    what: str
    mask: np.ndarray
    certain: bool
    span: Span | None


def check_all_arrive(syncs: Sequence[Sync]) -> None:
    """Raise LoweringError if some threads reach a barrier of the whole CTA, and others no such barrier at all."""
    if not syncs or not all(s.certain for s in syncs):
        return
    reached = np.logical_or.reduce([s.mask for s in syncs])
    if reached.all() or not reached.any():
        return
    first, missing = syncs[0], int(np.flatnonzero(~reached)[0])
    raise LoweringError(
        f"'{first.what}' waits for all {len(reached)} threads of the CTA, but it is reached by {int(reached.sum())} of them: "
        f"thread {missing} never arrives",
        hint="move it out of the branch, or use a barrier of fewer threads (Tx.ptx.bar.sync with a count)",
        span=first.span,
    )


def check_barriers(func: PrimFunc, storage: Storage) -> None:
    """Raise LoweringError for a wait on an mbarrier that nothing initialises, or for a phase that nothing completes."""
    found = _Survey(storage, _remote(func))
    found.visit(func)
    for span, what, buffer, parity in found.waits:
        where = found.key(buffer)
        if where not in found.begun:
            raise LoweringError(
                f"'{what}' waits on '{buffer.name}', which no mbarrier.init makes a barrier",
                hint="one thread initialises it, then Tx.ptx.fence.mbarrier_init() and a barrier",
                span=span,
            )
        if where not in found.told and parity == 0:
            raise LoweringError(
                f"'{what}' waits for phase 0 of '{buffer.name}', but nothing arrives there: the wait never ends",
                hint="an arrival, a copy with mbar=, or a tcgen05.commit completes a phase",
                span=span,
            )


def _remote(func: PrimFunc) -> dict[Any, Buffer]:
    """Pointers into other CTAs -> the buffer of one's own that they are views of."""
    from ...ir import Bind

    found: dict[Any, Buffer] = {}

    def look(node: Any) -> None:
        if isinstance(node, Bind) and (at := remote_address(node.value)) is not None:
            found[node.var] = at[0].buffer

    post_order_visit(func.body, look)
    return found


class _Survey:
    """Which buffers are initialised, waited on and told, by where they begin."""

    def __init__(self, storage: Storage, remote: dict[Any, Buffer]) -> None:
        self.storage = storage
        self.remote = remote
        self.begun: set[Any] = set()
        self.told: set[Any] = set()
        self.waits: list[tuple[Span | None, str, Buffer, int | None]] = []

    def key(self, buffer: Buffer) -> Any:
        """What views of one place have in common: their storage, and how far into it they begin (in bytes)."""
        buffer = self.remote.get(buffer.data, buffer)
        try:
            start = self.storage.byte_offset(buffer, [0] * len(buffer.shape))
        except LoweringError:
            return id(buffer)
        return (self.storage.root(buffer).name, start.value) if isinstance(start, IntImm) else id(buffer)

    def visit(self, func: PrimFunc) -> None:
        def look(node: Any) -> None:
            if isinstance(node, Evaluate) and isinstance(node.value, Call):
                self._call(node.value, node.span)
            elif isinstance(node, TilePrimitiveCall):
                for value in node.config.values():
                    self._tell(value)

        post_order_visit(func.body, look)

    def _call(self, call: Call, span: Span | None) -> None:
        name = call.op.name
        if name in PARITY_WAITS or name == INIT:
            load = address_operand(call.args[0])
            if load is None:
                return
            if name == INIT:
                self.begun.add(self.key(load.buffer))
                return
            parity = call.args[1]
            self.waits.append((span, call.op.short_name, load.buffer, parity.value if isinstance(parity, IntImm) else None))
            return
        told = self.told
        if name == INSTRUCTION and str(call.args[1].value).startswith("mbarrier.init"):
            self.told = self.begun
        for arg in call.args:
            self._tell(arg)
        self.told = told

    def _tell(self, value: Any) -> None:
        if not isinstance(value, Expr):
            return

        def look(node: Any) -> None:
            load = address_operand(node)
            if load is not None:
                self.told.add(self.key(load.buffer))
            elif isinstance(node, BufferLoad) and node.buffer.data in self.remote:
                self.told.add(self.key(node.buffer))

        post_order_visit(value, look)
