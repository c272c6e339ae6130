"""Conditions on lowerings that meet in shared memory: barriers, room, and reductions over several warps."""

from __future__ import annotations

from ..context import CallContext
from ..sharing.exchange import exchange_plans, needed
from ..sharing.partials import MAX_STEPS, Way, memory_groups, partials, readers, scratch_bytes, steps, ways
from ..sharing.reduction import MemoryShare, register_share
from ..sharing.scratch import first_barrier, no_room, region, units
from ..sharing.threads import WARP
from .reduce import result_place
from .registry import OPTIONS, holds, holds_at
from .vectors import row_vector

OPTIONS["way of partials"] = ways


@holds("several threads reduce")
def _several(c: CallContext) -> str | None:
    return None if c.participants > 1 else "one thread has all of the row"


@holds("shuffles within warps don't do")
def _needed(c: CallContext) -> str | None:
    """Rows of registers that one warp's lanes have, and whose results they hold, take no shared memory."""
    share = register_share(c) if c.inputs[0].root.space == "local" else "in memory"
    if isinstance(share, str):
        return None
    where = result_place(c)
    return None if where is not None else "the lanes of one warp have each row, and hold the result"


@holds("barriers are left for the scope")
def _barriers(c: CallContext) -> str | None:
    if c.participants <= WARP or c.participants == c.launch.threads or first_barrier(c) is not None:
        return None
    return f"the kernel uses {sorted(c.storage.barriers)} of the barriers 1 to 15; {units(c)} in a row are needed"


@holds("the call is made once")
def _once(c: CallContext) -> str | None:
    return "it is in a loop: the next round's stores would meet this one's loads" if c.looped else None


@holds_at("warps have partial results of the rows")
def _partials(c: CallContext, code: int) -> str | None:
    way = Way.of(code)
    found = partials(c, way.group)
    if isinstance(found, str):
        return found
    share = memory_groups(c, way.group) if way.group and c.inputs[0].bits == 4 else None
    if isinstance(share, MemoryShare) and row_vector(c, share) == 1:
        return f"a thread would read half of a byte of '{c.inputs[0].buffer.name}'"
    if found.parts % way.lanes:
        return f"{found.parts} partial results are not shared by {way.lanes} lanes"
    count = steps(c, way)
    return None if count <= MAX_STEPS else f"a thread's program would have more than {MAX_STEPS} steps: {count}"


@holds_at("the readers of partial results agree")
def _readers(c: CallContext, code: int) -> str | None:
    found = readers(c, Way.of(code).lanes)
    return found if isinstance(found, str) else None


@holds_at("shared memory has room for partial results")
def _room(c: CallContext, code: int) -> str | None:
    return no_room(c, region(c, scratch_bytes(c, Way.of(code)), False))


OPTIONS["plan of an exchange"] = lambda c: list(range(_number_of_plans(c)))


def _number_of_plans(c: CallContext) -> int:
    return max(len(p) if isinstance(p := exchange_plans(c, own), list) else 1 for own in (False, True))


@holds("threads get what others hold")
def _exchanged(c: CallContext) -> str | None:
    return needed(c)


@holds_at("a plan brings every element to its threads")
def _plan(c: CallContext, number: int) -> str | None:
    return _no_plan(c, number, False)


@holds_at("a plan through scratch of its own brings every element to its threads")
def _own_plan(c: CallContext, number: int) -> str | None:
    return _no_plan(c, number, True)


def _no_plan(c: CallContext, number: int, own: bool) -> str | None:
    plans = exchange_plans(c, own)
    if isinstance(plans, str):
        return plans
    return None if number < len(plans) else f"there are {len(plans)} plans"
