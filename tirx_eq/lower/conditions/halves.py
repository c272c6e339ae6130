"""Conditions on elements of 4 bits, of which a byte has two."""

from __future__ import annotations

from ..context import CallContext
from ..operations import filled
from ..sharing.halves import half_fill, half_moves
from .registry import holds, regions


@holds("elements are whole bytes")
def _whole(c: CallContext) -> str | None:
    return next((f"'{o.name}' has elements of {o.bits} bits" for o in regions(c) if o.bits < 8), None)


@holds("elements of 4 bits")
def _four(c: CallContext) -> str | None:
    o = c.outputs[0]
    return None if o.bits == 4 else f"'{o.name}' has elements of {o.bits} bits"


@holds("a constant fills")
def _constant(c: CallContext) -> str | None:
    return None if isinstance(filled(c.call), int) else str(filled(c.call))


@holds("bytes of memory are written whole")
def _whole_bytes(c: CallContext) -> str | None:
    """No store is of 4 bits, and two threads that each change half of a byte would race for it."""
    if c.outputs[0].root.space == "local":
        return None
    found = half_moves(c) if c.inputs else half_fill(c)
    return found if isinstance(found, str) else None


@holds("each thread holds the halves that it gets")
def _held(c: CallContext) -> str | None:
    if c.outputs[0].root.space != "local":
        return None
    found = half_moves(c) if c.inputs else half_fill(c)
    return found if isinstance(found, str) else None
