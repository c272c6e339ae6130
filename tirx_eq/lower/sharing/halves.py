"""Copies of elements of 4 bits one by one: which half of a byte goes where, in registers and in memory.

No instruction moves half a byte to memory, so what is written there is made of whole bytes: both halves must be one thread's.
In registers any half can be replaced.  Places count halves of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...ir import Expr, Var
from ..context import CallContext, Operand
from ..storage import element_offset
from .holders import held
from .spread import Spread, places_in, region_element, spread_of, wide_coords
from .spread_vectors import not_paired

#: Halves of bytes that one thread moves; beyond, the straight-line program would be too long.
MAX_HALVES = 512


@dataclass(frozen=True)
class Slots:
    """To registers: half ``to[k]`` of a thread's registers gets half ``source[k]`` of them, or the element of memory in slot k
    of ``spread``, if that is given."""

    to: tuple[int, ...]
    source: tuple[int, ...] = ()
    spread: Spread | None = None


@dataclass(frozen=True)
class Bytes:
    """From registers to memory: byte k, where ``spread`` says, is made of the halves ``low[k]`` and ``high[k]``."""

    low: tuple[int, ...]
    high: tuple[int, ...]
    spread: Spread


@dataclass(frozen=True)
class Pairs:
    """Within memory: elements 2k and 2k + 1 of the destination are a byte, for all of its ``count`` bytes."""

    count: int


def element_number(c: CallContext, o: Operand, coords: list[Expr]) -> Expr:
    """How many elements after the root's start the element at these coordinates (of extents that exceed 1) is."""
    return c.resolve(element_offset(o.buffer, region_element(o, coords)))


def half_moves(c: CallContext) -> Slots | Bytes | Pairs | str:
    """How a copy of 4-bit elements is made, or why it can't be."""
    return c.once("half moves", lambda: _half_moves(c))


def _half_moves(c: CallContext) -> Slots | Bytes | Pairs | str:
    dst, src = c.outputs[0], c.inputs[0]
    if any(o.root.space == "local" and o.root.word_bits != 32 for o in (dst, src)):
        return "registers of 64 bits are moved whole"
    if dst.root.space != "local":
        return byte_pairs(c, dst) if src.root.space != "local" else _bytes(c, dst, src)
    found = spread_of(c, dst, 4)
    if isinstance(found, str):
        return found
    if found.slots > MAX_HALVES:
        return f"each thread would move {found.slots} halves of bytes"
    if src.root.space != "local":
        if any(found.coords(s) is None for s in range(found.slots)):
            return "the elements that threads hold don't follow from the bits of their numbers"
        return Slots(found.bytes, spread=found)
    where = held(src, 4)
    if isinstance(where, str):
        return where
    places = places_in(where, found)
    return places if isinstance(places, str) else Slots(found.bytes, places)


def _bytes(c: CallContext, dst: Operand, src: Operand) -> Bytes | str:
    """The bytes of memory that each thread has both halves of."""
    found = spread_of(c, src, 4)
    if isinstance(found, str):
        return found
    number = dst.bit_places(c.lowest()).ravel()[found.elements] // 4  # (threads, slots)
    order = np.argsort(number[0], kind="stable")
    number, elements, copy = number[:, order], found.elements[:, order], found.copy[:, order]
    halves = tuple(found.bytes[int(k)] for k in order)
    if len(halves) > MAX_HALVES:
        return f"each thread would move {len(halves)} halves of bytes"
    if len(halves) % 2 or (number[:, ::2] % 2).any() or (number[:, 1::2] != number[:, ::2] + 1).any():
        return f"of some byte of '{dst.buffer.name}' a thread has one half, and no store is of 4 bits"
    if (copy[:, ::2] != copy[:, 1::2]).any():
        return f"the halves of a byte of '{dst.buffer.name}' are different copies of their elements"
    spread = replace(
        found, bytes=tuple(range(len(halves) // 2)), elements=elements[:, ::2], copy=copy[:, ::2], upper=elements[:, 1::2]
    )
    if any(spread.coords(s) is None or spread.writer(s) is None for s in range(spread.slots)):
        return "the elements that threads hold don't follow from the bits of their numbers"
    if (reason := not_paired(c, spread, dst)) is not None:
        return reason
    unit = found.threads // c.participants
    for u in np.unique(unit):
        written = spread.elements[unit == u][spread.copy[unit == u] == 0]
        if 2 * len(np.unique(written)) != dst.size or len(written) != len(np.unique(written)):
            return f"{2 * len(np.unique(written))} of {dst.size} elements are in the registers of one thread each"
    return Bytes(halves[::2], halves[1::2], spread)


def byte_pairs(c: CallContext, dst: Operand) -> Pairs | str:
    """The bytes of a destination in memory, dealt out to the threads."""
    if dst.size % 2:
        return f"{dst.size} elements don't fill bytes of '{dst.buffer.name}', and no store is of 4 bits"
    pair = Var("pair", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({pair: (0, dst.size // 2 - 1)})
    for half in (0, 1):
        at, first = dst.element_offset(pair * 2 + half), dst.element_offset(pair * 2)
        wanted = ("add", c.term(first, scope), 1) if half else 0
        got = c.term(at, scope) if half else ("mod", c.term(at, scope), 2)
        if c.compare(got, wanted, scope).status != "equal":
            return f"elements {half} of pairs needn't be in that half of a byte of '{dst.buffer.name}'; no store is of 4 bits"
    if dst.size // 2 > MAX_HALVES * c.participants:
        return f"each thread would write {dst.size // 2 // c.participants} bytes"
    return Pairs(dst.size // 2)


def half_fill(c: CallContext) -> Slots | Pairs | str:
    """Which halves of a destination's registers, or bytes of memory, a constant fills; or why that can't be said."""
    return c.once("half fill", lambda: _half_fill(c))


def _half_fill(c: CallContext) -> Slots | Pairs | str:
    dst = c.outputs[0]
    if dst.root.space != "local":
        return byte_pairs(c, dst)
    if dst.root.word_bits != 32:
        return "registers of 64 bits are moved whole"
    found = spread_of(c, dst, 4)
    return found if isinstance(found, str) else Slots(found.bytes)


def source_coords(spread: Spread, slot: int) -> list[Expr]:
    """Coordinates of the element in a slot along extents that exceed 1."""
    coords = spread.coords(slot)
    assert coords is not None
    return wide_coords(spread, coords)
