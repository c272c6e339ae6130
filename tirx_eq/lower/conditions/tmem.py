"""Conditions on copies between tensor memory and registers (PTX ISA 9.7.16)."""

from __future__ import annotations

import numpy as np

from ..context import CallContext, Operand
from .registry import OPTIONS, coordinate, holds, holds_at, regions

OPTIONS["repeat"] = lambda c: [128, 64, 32, 16, 8, 4, 2, 1]



def tmem_and_registers(c: CallContext) -> tuple[Operand, Operand]:
    """The tensor-memory operand and the register operand of a call that has one of each."""
    a, b = c.outputs[0], c.inputs[0]
    return (a, b) if a.root.space == "tmem" else (b, a)


@holds("elements of 32 bits")
def _bits32(c: CallContext) -> str | None:
    return None if c.outputs[0].bits == 32 else f"elements have {c.outputs[0].bits} bits"


@holds("thread t holds lane t, register j column j")
def _datapath(c: CallContext) -> str | None:
    """PTX ISA, tcgen05.ld shape .32x32b: thread t of a warp and its lane t, register j and column j."""
    if {o.root.space for o in regions(c)} != {"tmem", "local"}:
        return "one operand must be in tensor memory, the other in registers"
    tmem, regs = tmem_and_registers(c)
    t, r = tmem.places({}), regs.places({})
    if "TLane" not in t or "TCol" not in t:
        return f"'{tmem.buffer.name}' has no layout on TLane and TCol"
    thread = r.get("tid_in_wg")
    if thread is None:
        return f"'{regs.buffer.name}' is not spread over the warpgroup (axis tid_in_wg)"
    bad = np.flatnonzero(t["TLane"] != thread)
    if len(bad):
        k = int(bad[0])
        return f"element {coordinate(tmem, k)} is in lane {int(t['TLane'][k])}, but thread {int(thread[k])} holds it"
    shift = t["TCol"] - r["byte"] // 4
    bad = np.flatnonzero(shift != shift[0])
    if len(bad):
        k = int(bad[0])
        return f"element {coordinate(tmem, k)} is in column {int(t['TCol'][k])}, but register {int(r['byte'][k]) // 4}"
    if len(np.unique(thread)) != 128 or len(np.unique(t["TLane"] * 512 + t["TCol"])) != tmem.size:
        return "the region doesn't have 128 rows, each in its own lane"
    columns = np.unique(t["TCol"])
    if columns[-1] - columns[0] + 1 != len(columns):
        return "the columns are not consecutive"
    return None


@holds_at("the columns are a multiple of the repeat")
def _repeat(c: CallContext, n: int) -> str | None:
    columns = tmem_and_registers(c)[0].size // 128
    return None if columns and columns % n == 0 else f"{columns} columns are not a multiple of {n}"
