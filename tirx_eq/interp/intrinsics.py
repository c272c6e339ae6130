"""What calls mean: a table from operator name to a function of the machine, the call and its threads.

Values return arrays; effects return the threads that go on at once (None: all).  Synchronisation has its sequential
meaning: what is asynchronous on the device is complete at once, so fences and waits for completion do nothing; barriers
do hold threads back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir import Call
from . import addresses, bulk, collectives, functions, matrices, registers, synchronise
from .collectives import TOGETHER as COLLECTIVE
from .faults import InterpreterError
from .synchronise import NO_EFFECT

if TYPE_CHECKING:
    from .machine import Machine

#: Calls that the threads of a warp or CTA execute together.
TOGETHER = {**COLLECTIVE, **matrices.TOGETHER}
Array = Any
Handler = Callable[[Any, Call, Any], Any]


def _thread_rank(m: Machine, e: Call, threads: Array) -> Array:
    return m.wave.tid[threads]


VALUES: dict[str, Handler] = {
    **functions.VALUES,
    **collectives.VALUES,
    **addresses.VALUES,
    **bulk.VALUES,
    **synchronise.VALUES,
    **registers.VALUES,
    "tirx.cuda.thread_rank": _thread_rank,
}
EFFECTS: dict[str, Handler] = {
    **addresses.EFFECTS, **bulk.EFFECTS, **synchronise.EFFECTS, **registers.EFFECTS, **matrices.EFFECTS,
}  # fmt: skip


def call_value(m: Machine, e: Call, threads: Array) -> Any:
    """The value of a call."""
    handler = VALUES.get(e.op.name)
    if handler is None:
        if e.op.name in EFFECTS or e.op.name in NO_EFFECT:
            raise InterpreterError(f"'{e.op.name}' is a statement and has no value")
        raise InterpreterError(f"the reference interpreter has no meaning for '{e.op.name}'", span=e.span)
    return handler(m, e, threads)


def call_effect(m: Machine, e: Call, threads: Array) -> Array | None:
    """Execute a call as a statement."""
    if e.op.name in NO_EFFECT:
        return None
    handler = EFFECTS.get(e.op.name)
    if handler is not None:
        found: Array | None = handler(m, e, threads)
        return found
    call_value(m, e, threads)
    return None


__all__ = ["EFFECTS", "NO_EFFECT", "TOGETHER", "VALUES", "call_effect", "call_value"]
