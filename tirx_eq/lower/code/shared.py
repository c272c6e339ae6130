"""The CTA's shared memory block as an index variable: its address is one register, known to be aligned and small."""

from __future__ import annotations

from ...ir import Var
from ..storage import MAX_SHARED, SHARED_ALIGN

_BASE = Var("shared_base", "int32")  # type: ignore[arg-type]

#: Shared addresses are 32-bit offsets in the CTA's window, the reserved first kilobyte included.
SHARED_RANGE = (0, MAX_SHARED + SHARED_ALIGN)


def shared_address() -> Var:
    """The variable that stands for the shared block's address in bytes."""
    return _BASE
