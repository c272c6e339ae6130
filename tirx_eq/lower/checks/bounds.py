"""Elements outside of their buffer, where threads that certainly execute the access name them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import LoweringError
from ...ir import Buffer, Expr, IntImm
from ...ir.index import evaluate_many, names
from ...layout import TileLayout
from ..scope import new_scope
from ..sharing.active import Active, thread_points
from ..sharing.cta_spread import AXES
from ..sharing.threads import Launch


def check_element(buffer: Buffer, indices: list[Expr], active: Active, launch: Launch, access: str) -> None:
    """Raise LoweringError if an index that depends on the thread alone is outside of the buffer's shape in an active thread, or
    if elements of the buffer have no addresses.

    Nothing is said of indices where a condition on data may keep the thread away.
    """
    check_addresses(buffer, access)
    shape = buffer.const_shape()
    if shape is None or active.data_dependent or active.elected or active.left_apart() or len(shape) != len(indices):
        return
    for d, (index, extent) in enumerate(zip(indices, shape)):
        found = _per_thread(index, launch)
        if found is None:
            continue
        bad = np.flatnonzero(active.mask & ((found < 0) | (found >= extent)))
        if len(bad):
            thread = int(bad[0])
            raise LoweringError(
                f"{access} of '{buffer.name}': index {int(found[thread])} of dimension {d} is outside of 0..{extent - 1} "
                f"in thread {thread}"
            )


def check_addresses(buffer: Buffer, access: str, ctas: bool = False) -> None:
    """Raise LoweringError for a buffer whose layout puts elements elsewhere than along memory (``ctas``: in any CTA)."""
    beside = {"m", *AXES} if ctas else {"m"}
    axes = sorted(set(buffer.layout.axes()) - beside) if isinstance(buffer.layout, TileLayout) else []
    if axes and buffer.scope != "local":
        raise LoweringError(
            f"{access} of '{buffer.name}' ({buffer.scope}): elements on axis {', '.join(axes)} have no address",
            hint="copy_async brings tensor memory to registers" if buffer.scope == "tmem" else None,
        )


def _per_thread(e: Expr, launch: Launch) -> np.ndarray | None:
    """The value in each thread of a CTA, if nothing else decides it."""
    if isinstance(e, IntImm):
        return np.full(launch.threads, e.value)
    scope = new_scope()
    term = scope.term(e)
    used = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
    registers: dict[str, str] = {scope.name(v): r for r, v in launch.special.items() if r.startswith("tid.")}
    if not used <= set(registers):
        return None
    points: dict[str, Any] = thread_points(launch, {n: registers[n] for n in used})
    return np.broadcast_to(np.asarray(evaluate_many(term, points), dtype=np.int64), (launch.threads,))
