"""Intrinsic calls as the other modules of the lowering see them: their arguments, constants and addresses."""

from __future__ import annotations

from typing import Any, Protocol

from ...ir import BufferLoad, Call, Expr
from ..intrinsics.build import arguments as named_arguments
from ..intrinsics.language import constant
from ..program import Memory


class MemoryOf(Protocol):
    """The place of an element; with a rank, of the same element in that CTA of the cluster."""

    def __call__(self, load: BufferLoad, rank: Expr | None = None) -> Memory: ...


#: Calls that wait for a phase of an mbarrier -> ordering modifiers.
PARITY_WAITS = {
    "tirx.ptx.mbarrier_try_wait": "",
    "tirx.ptx.mbarrier_try_wait_acquire_cluster": "acquire.cluster",
}


def address_operand(arg: Any) -> BufferLoad | None:
    """The element whose address ``arg`` is (``address_of(B[i])``), or None."""
    if isinstance(arg, Call) and arg.op.name == "tirx.address_of" and isinstance(arg.args[0], BufferLoad):
        return arg.args[0]
    return None


__all__ = ["PARITY_WAITS", "MemoryOf", "address_operand", "constant", "named_arguments"]
