"""Conditions on copies between memory and registers that the threads of a scope share out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import Var
from ...ir.index import Term
from ...prove.validate import validate
from ..context import CallContext
from ..spread import local_and_memory, memory_offset, slot_coords, spread_copy, wide_coords
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
        written = found.elements[unit == u][found.copy[unit == u] == 0]
        values, counts = np.unique(written, return_counts=True)
        if len(values) != c.outputs[0].size:
            return f"{len(values)} of {c.outputs[0].size} elements are in the registers of the threads"
        if counts.max() > 1:
            return f"{counts.max()} threads hold a value of one element"
    return None


@dataclass(frozen=True)
class _Vectors:
    """The byte offset of each lane of vector number ``vector``, as terms over ``ranges``."""

    lanes: tuple[Term, ...]
    ranges: dict[str, tuple[int, int]]


def _vectors(c: CallContext, width: int) -> _Vectors | str:
    key = ("spread vectors", width)
    if key not in c.memo:
        c.memo[key] = _make_vectors(c, width)
    found: _Vectors | str = c.memo[key]
    return found


def _make_vectors(c: CallContext, width: int) -> _Vectors | str:
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    memory = both[1]
    lanes = width * 8 // memory.bits
    if found.slots % lanes:
        return f"a thread holds {found.slots} elements, not a multiple of {lanes}"
    if found.slots // lanes > MAX_ACCESSES:
        return f"each thread would make {found.slots // lanes} accesses"
    if not (found.copy.reshape(len(found.threads), -1, lanes) == found.copy[:, ::lanes, None]).all():
        return "the elements of a vector are different copies of theirs"
    vector = Var("vector", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({vector: (0, found.slots // lanes - 1)})
    terms = []
    for lane in range(lanes):
        coords = slot_coords(found, lanes, lane, vector)
        if coords is None:
            return "the elements of a thread's vectors don't follow from the bits of its number and theirs"
        terms.append(c.term(memory_offset(c, memory, wide_coords(found, coords)), scope))
    return _Vectors(tuple(terms), dict(scope.ranges))


@holds_at("vectors of a thread's elements are contiguous in memory")
def _contiguous(c: CallContext, width: int) -> str | None:
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    size = both[1].bits // 8
    if width == size:
        return None if found.slots <= MAX_ACCESSES else f"each thread would make {found.slots} accesses"
    vectors = _vectors(c, width)
    if isinstance(vectors, str):
        return vectors
    for lane in range(len(vectors.lanes) - 1, 0, -1):
        verdict = validate(vectors.lanes[lane], ("add", vectors.lanes[0], lane * size), vectors.ranges)
        if verdict.status != "equal":
            where = f" at {verdict.counterexample}" if verdict.counterexample else ""
            return f"element {lane} of a group of {len(vectors.lanes)} is not {lane * size} bytes after its first{where}"
    return None


@holds_at("vectors of a thread's elements are aligned in memory")
def _aligned(c: CallContext, width: int) -> str | None:
    both = local_and_memory(c)
    assert not isinstance(both, str)
    memory = both[1]
    if memory.root.align % width:
        return f"'{memory.buffer.name}' is known to be aligned to {memory.root.align} bytes only"
    if width * 8 == memory.bits and memory.root.align >= width:
        return None  # elements are where their layout counts them
    vectors = _vectors(c, width)
    if isinstance(vectors, str):
        return vectors
    verdict = validate(("mod", vectors.lanes[0], width), 0, vectors.ranges)
    if verdict.status == "equal":
        return None
    where = f", at {verdict.counterexample}" if verdict.counterexample else ""
    return f"an access is not at a multiple of {width} bytes{where}"


@holds_at("vectors fill whole registers")
def _whole(c: CallContext, width: int) -> str | None:
    """Each register of an access holds its bytes in order; parts of one register are moved by an access of their own."""
    both, found = local_and_memory(c), spread_copy(c)
    if isinstance(both, str) or isinstance(found, str):
        return "there is no sharing of the copy"
    local = both[0]
    size, word = local.bits // 8, local.root.word_bits // 8
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
