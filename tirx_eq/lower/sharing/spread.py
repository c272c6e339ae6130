"""Copies between memory and registers that threads share out: which thread moves which element, from and to which byte.

Every thread executes the same instructions, so a *slot* (a byte of the registers) is one for all threads; the element in it
differs from thread to thread.  Slots are ordered by their place in memory, so that neighbours make vectors.  Elements of 4 bits
share slots, two in each.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...ir import EQ, Expr, Var
from ...ir.arith import binary
from ..context import CallContext, Operand
from .holders import SCOPE_BITS, Held, digit_sum, held, thread_expr, unit_of
from .work import active_threads

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Spread:
    """``elements[t, s]`` is the element that thread ``threads[t]`` has in slot s, at byte ``bytes[s]`` of its registers.

    ``copy[t, s]`` counts which of the layout's copies of the element that is; ``upper[t, s]`` is the element in the upper half
    of the byte, if elements have 4 bits.
    """

    threads: Array
    bytes: tuple[int, ...]
    elements: Array
    copy: Array
    extents: tuple[int, ...]
    context: CallContext = field(repr=False)
    upper: Array | None = None

    @property
    def slots(self) -> int:
        return len(self.bytes)

    def ordered(self, order: Array) -> Spread:
        """The same with slots in another order."""
        return replace(
            self, bytes=tuple(self.bytes[int(k)] for k in order), elements=self.elements[:, order], copy=self.copy[:, order],
            upper=None if self.upper is None else self.upper[:, order],
        )  # fmt: skip

    def coords(self, slot: int) -> list[Expr] | None:
        """Coordinates in the region of the element in a slot, as a function of the thread; None if it isn't one of its bits."""
        return coordinates(self.context, self.threads, self.elements[:, slot], self.extents)

    def writer(self, slot: int) -> Expr | bool | None:
        """Where a thread has the first copy of its element in a slot; None if that doesn't follow from its bits."""
        mine = self.copy[:, slot]
        if not mine.any():
            return True
        rank = thread_expr(self.context, self.threads, mine)
        return None if rank is None else binary(EQ, rank, 0)


def coordinates(c: CallContext, threads: Array, elements: Array, extents: tuple[int, ...]) -> list[Expr] | None:
    """Coordinates of one element per thread; None if an axis isn't a sum over the bits of the thread's number."""
    out: list[Expr] = []
    for axis in np.unravel_index(elements, extents):
        e = thread_expr(c, threads, axis)
        if e is None:
            return None
        out.append(e)
    return out


def local_and_memory(c: CallContext) -> tuple[Operand, Operand] | str:
    """The operand in registers and the one in memory, or why there aren't both."""
    both = [c.outputs[0], *c.inputs]
    local = [o for o in both if o.root.space == "local"]
    memory = [o for o in both if o.root.space in ("global", "shared", "cluster")]
    if len(local) != 1 or len(memory) != 1:
        return ", ".join(f"'{o.name}' ({o.buffer.name}) is in {o.root.space}" for o in both)
    return local[0], memory[0]


def spread_copy(c: CallContext) -> Spread | str:
    """How a copy between registers and memory is shared out, or why it can't be."""
    return c.once("spread copy", lambda: _spread_copy(c))


def _spread_copy(c: CallContext) -> Spread | str:
    both = local_and_memory(c)
    if isinstance(both, str):
        return both
    local, memory = both
    found = spread_of(c, local) if local.bits >= 8 else spread_pairs(c, local)
    if isinstance(found, str):
        return found
    at = memory.places(c.lowest())["byte"].ravel()
    if not len(found.threads):
        return "no thread makes the copy"
    return found.ordered(np.lexsort((found.bytes, at[found.elements[0]])))


def spread_of(c: CallContext, o: Operand, unit: int = 8) -> Spread | str:
    """The slots of a register operand, in the order of their places, or why threads don't have the same ones.

    Places count ``unit`` bits, at most an element.
    """
    if o.bits % unit:
        return f"elements of {o.bits} bits are parts of bytes"
    where = held(o, unit)
    if isinstance(where, str):
        return where
    if where.mask & ~SCOPE_BITS[c.scope]:
        return f"'{o.name}' is spread over more threads than a {c.scope} has"
    threads = active_threads(c)
    rows: dict[int, tuple[tuple[int, ...], Array, Array]] = {}
    for key in np.unique(threads & where.mask):
        rows[int(key)] = _held_by(where, int(key))
    layouts = {row[0] for row in rows.values()}
    if len(layouts) != 1:
        return f"threads hold elements of '{o.name}' in different registers"
    (bytes_,) = layouts
    if not bytes_:
        return f"the threads hold no element of '{o.name}'"
    keys = [int(k) for k in threads & where.mask]
    elements = np.stack([rows[k][1] for k in keys])
    copy = np.stack([rows[k][2] for k in keys])
    return Spread(threads, bytes_, elements, copy, o.extents, c)


def held_alike(c: CallContext, o: Operand) -> tuple[Held, Array, Array, Array] | str:
    """Where a register operand is, the active threads, and for each its elements (ascending) and the place of each
    (:func:`unit_of`); or why threads don't hold as many."""
    where = held(o, unit_of(o))
    if isinstance(where, str):
        return where
    if where.mask & ~SCOPE_BITS[c.scope]:
        return f"'{o.name}' is spread over more threads than a {c.scope} has"
    threads = active_threads(c)
    per_key = {int(k): where.elements_of(int(k)) for k in np.unique(threads & where.mask)}
    if len({len(v) for v in per_key.values()}) != 1 or not all(len(v) for v in per_key.values()):
        return f"threads hold different numbers of elements of '{o.name}'"
    elements = np.stack([per_key[int(k)] for k in threads & where.mask])
    return where, threads, elements, where.find(threads[:, None], elements)


def places_in(where: Held, found: Spread) -> tuple[int, ...] | str:
    """For each slot the place at which every thread holds the element that it gets in another operand; or why there is none."""
    at = where.find(found.threads[:, None], found.elements)
    if (at < 0).any():
        t, s = (int(i) for i in np.argwhere(at < 0)[0])
        return f"thread {int(found.threads[t])} gets element {int(found.elements[t, s])}, which it doesn't hold"
    if (at != at[:1]).any():
        return "threads hold what they get in different registers"
    return tuple(int(p) for p in at[0])


def spread_pairs(c: CallContext, o: Operand) -> Spread | str:
    """The bytes of a register operand of 4-bit elements as slots, or why threads don't have the same whole bytes."""
    halves = spread_of(c, o, 4)
    if isinstance(halves, str):
        return halves
    place = np.array(halves.bytes)
    alone = np.flatnonzero(~np.isin(place ^ 1, place))
    if len(alone):
        return f"of byte {int(place[alone[0]]) // 2} of '{o.name}' a thread holds one half"
    if (halves.copy[:, ::2] != halves.copy[:, 1::2]).any():
        return f"the halves of a byte of '{o.name}' are different copies of their elements"
    return replace(
        halves, bytes=tuple(int(p) // 2 for p in place[::2]), elements=halves.elements[:, ::2], copy=halves.copy[:, ::2],
        upper=halves.elements[:, 1::2],
    )  # fmt: skip


def slot_bytes(o: Operand) -> int:
    """Bytes of a slot of an operand: an element, or a pair of 4 bits each."""
    return max(1, o.bits // 8)


def _held_by(where: Held, key: int) -> tuple[tuple[int, ...], Array, Array]:
    """(bytes, elements, copies) of a thread with these bits, by byte; of copies in one place the first counts."""
    copy, element = np.nonzero(where.parts == key)
    byte = where.byte[copy, element]
    order = np.lexsort((copy, byte))
    byte, element, copy = byte[order], element[order], copy[order]
    first = np.ones(len(byte), dtype=bool)
    first[1:] = byte[1:] != byte[:-1]
    return tuple(int(b) for b in byte[first]), element[first], copy[first]


def memory_offset(c: CallContext, o: Operand, coords: list[Expr]) -> Expr:
    """Bytes from the root's start to the element of a memory operand at coordinates of another operand's region.

    The regions have equal extents, those of 1 aside.
    """
    return c.resolve(o.storage.byte_offset(o.buffer, region_element(o, coords)))


def region_element(o: Operand, coords: list[Expr]) -> list[Expr]:
    """Buffer coordinates of an operand's element, from those of its extents that exceed 1."""
    moving = iter(coords)
    return [r.min if e == 1 else r.min + next(moving) for r, e in zip(o.region.region, o.extents)]


def wide_coords(spread: Spread, coords: list[Expr]) -> list[Expr]:
    """The coordinates along extents that exceed 1."""
    return [e for e, extent in zip(coords, spread.extents) if extent != 1]


def slot_coords(spread: Spread, lanes: int, lane: int, vector: Var) -> list[Expr] | None:
    """Coordinates of the element at ``lane`` of vector number ``vector`` of ``lanes`` slots, for any thread.

    None unless they are sums of what the thread's bits and the vector's bits add: then one proof covers all vectors.
    """
    elements = spread.elements[:, lane::lanes]
    out: list[Expr] = []
    for axis in np.unravel_index(elements, spread.extents):
        base = thread_expr(spread.context, spread.threads, axis[:, 0])
        rest = axis - axis[:, :1]
        if base is None or (rest != rest[:1]).any():
            return None
        added = _digits_of(vector, rest[0], spread.slots // lanes)
        if added is None:
            return None
        out.append(base + added)
    return out


def _digits_of(number: Expr, values: Array, count: int) -> Expr | None:
    """``values[number]`` as a sum over the bits of ``number``, or None."""
    bits = max(0, (count - 1).bit_length())
    weights = [int(values[1 << b]) for b in range(bits)]
    every = np.arange(count)[:, None] >> np.arange(bits) & 1
    if not np.array_equal(every @ np.array(weights, dtype=np.int64), values):
        return None
    return digit_sum(number, weights, count)
