"""Conditions on copies between two layouts of registers."""

from __future__ import annotations

from ..context import CallContext
from ..sharing.redistribute import moved_bytes, pieces
from .registry import holds, in_space, regions


@holds("registers of several threads on both sides")
def _both(c: CallContext) -> str | None:
    for o in regions(c):
        if (reason := in_space(o, "local")) is not None:
            return reason
    return None if c.participants > 1 else "each thread copies its own registers"


@holds("each thread holds what it gets")
def _moves(c: CallContext) -> str | None:
    found = moved_bytes(c)
    return found if isinstance(found, str) else None


@holds("each lane gets registers of lanes of its warp")
def _shuffles(c: CallContext) -> str | None:
    found = pieces(c)
    return found if isinstance(found, str) else None
