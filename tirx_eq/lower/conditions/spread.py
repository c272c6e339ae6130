"""Conditions on copies between memory and registers that the threads of a scope share out."""

from __future__ import annotations

import numpy as np

from ..context import CallContext
from ..sharing.spread import local_and_memory, slot_bytes, spread_copy
from ..sharing.spread_vectors import not_aligned, not_contiguous, not_paired
from .registry import holds, holds_at

MAX_ACCESSES = 512  # of one thread: beyond, the straight-line program would be too long


@holds("registers of several threads and memory")
def _shared_out(c: CallContext) -> str | None:
    both = local_and_memory(c)
    if isinstance(both, str):
        return both
    return None if c.participants > 1 else "each thread copies its own registers"


@holds("threads have their elements in the same registers")
def _slots(c: CallContext) -> str | None:
    found = spread_copy(c)
    if isinstance(found, str):
        return found
    if any(found.coords(s) is None for s in range(found.slots)):
        return "the elements that threads hold don't follow from the bits of their numbers"
    return None


@holds("halves of bytes stay together")
def _paired(c: CallContext) -> str | None:
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    return not_paired(c, found, both[1])


@holds("one thread writes each element")
def _once(c: CallContext) -> str | None:
    """To memory: of an element's copies the layout's first is written, and it must be in one thread."""
    found = spread_copy(c)
    if isinstance(found, str):
        return found
    if c.outputs[0].root.space == "local":
        return None
    if any(found.writer(s) is None for s in range(found.slots)):
        return "which thread has the first copy of an element doesn't follow from the bits of its number"
    unit = found.threads // c.participants
    for u in np.unique(unit):
        first = found.copy[unit == u] == 0
        written = np.concatenate([e[unit == u][first] for e in (found.elements, found.upper) if e is not None])
        values, counts = np.unique(written, return_counts=True)
        if len(values) != c.outputs[0].size:
            return f"{len(values)} of {c.outputs[0].size} elements are in the registers of the threads"
        if counts.max() > 1:
            return f"{counts.max()} threads hold a value of one element"
    return None


@holds_at("vectors of a thread's elements are contiguous in memory")
def _contiguous(c: CallContext, width: int) -> str | None:
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    accesses = found.slots * slot_bytes(both[1]) // width
    if accesses > MAX_ACCESSES:
        return f"each thread would make {accesses} accesses"
    return not_contiguous(c, found, both[1], width)


@holds_at("vectors of a thread's elements are aligned in memory")
def _aligned(c: CallContext, width: int) -> str | None:
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    return not_aligned(c, found, both[1], width)


@holds_at("vectors fill whole registers")
def _whole(c: CallContext, width: int) -> str | None:
    """Each register of an access holds its bytes in order; parts of one register are moved by an access of their own."""
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    local = both[0]
    size, word = slot_bytes(local), local.root.word_bits // 8
    if width < word == 8:
        return "registers of 64 bits are moved whole"
    piece = min(width, word)
    lanes = piece // size
    if found.slots % lanes:
        return f"a thread holds {found.slots} elements, not a multiple of {lanes}"
    byte = np.array(found.bytes).reshape(-1, lanes)
    bad = np.flatnonzero((byte != byte[:, :1] + np.arange(lanes) * size).any(axis=1) | (byte[:, 0] % piece != 0))
    if len(bad):
        return f"neighbours in memory are at bytes {byte[bad[0]].tolist()} of the registers"
    return None
