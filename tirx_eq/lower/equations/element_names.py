"""Names of elements in the layout equation: units of memory or of a lane of tensor memory, units of a thread's registers.

A unit is a byte, or half of one where elements are that small.

Several threads (or several registers of one) may hold copies of one element, because a layout says so, or because it leaves
some bits of the thread's number open.  Sources are named after the first copy, so that any may be moved; a destination has
a name per copy, since each must get the element.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...ir import Var
from ..conditions.tmem_place import in_container
from ..context import CallContext, Operand
from ..sharing.holders import SCOPE_BITS, Held, held

#: Names of private elements carry their thread: thread * SPAN + unit.
SPAN = 1 << 32
LANE = 1 << 16

Array = np.ndarray
Points = dict[Var, Array]


@dataclass(frozen=True, eq=False)
class Names:
    """The names of a call's source and destination elements."""

    c: CallContext
    source: Operand
    target: Operand
    unit: int
    piece: int
    held: dict[str, Held] = field(default_factory=dict)

    @staticmethod
    def of(c: CallContext, source: Operand, target: Operand, unit: int = 0) -> Names:
        """``unit``: bits of a unit, and of what has a name; default :func:`unit_bits` and :func:`piece_units`."""
        piece, unit = (1, unit) if unit else (piece_units(target), unit_bits(target))
        found: dict[str, Held] = {}
        for o in (source, target):
            if o.root.space == "local":
                where = held(o, unit)
                assert not isinstance(where, str), where
                found[o.name] = where
        return Names(c, source, target, unit, piece, found)

    @property
    def open_bits(self) -> int:
        """Bits of the thread's number that the source leaves open and that don't count: memory gets one of the copies."""
        if self.target.root.space == "local" or self.source.name not in self.held:
            return 0
        return SCOPE_BITS.get(self.c.scope, 0) & ~self.held[self.source.name].mask

    def expected(self, points: Points) -> tuple[Array, Array]:
        """(destination, source) names of all elements (or halves) for every unit of threads that makes the call."""
        thread, element, name = self._targets(points)
        source = self._sources(thread, element, points)
        parts = self._parts
        return np.concatenate([name + j for j in parts]), np.concatenate([source + j for j in parts])

    @property
    def _parts(self) -> range:
        """Units from an element's first to each of the pieces of it that have names."""
        return range(0, self.target.bits // self.unit, self.piece)

    def _targets(self, points: Points) -> tuple[Array, Array, Array]:
        """(thread that means it, element, name) of every place of the destination."""
        active = self.c.executing(points)
        units = np.unique(active // self.c.participants, return_index=True)[1]
        if self.target.name not in self.held:
            first = active[units]
            places = self._places(self.target, first, points)
            return np.repeat(first, self.target.size), np.tile(np.arange(self.target.size), len(first)), places.ravel()
        where = self.held[self.target.name]
        threads, elements, names = [], [], []
        for parts, byte in zip(where.parts, where.byte):
            t, e = np.nonzero(parts[None, :] == (active & where.mask)[:, None])
            threads.append(active[t])
            elements.append(e)
            names.append(active[t] * SPAN + byte[e])
        return np.concatenate(threads), np.concatenate(elements), np.concatenate(names)

    def _sources(self, threads: Array, elements: Array, points: Points) -> Array:
        if self.source.name in self.held:
            where = self.held[self.source.name]
            owner = (where.parts[0][elements] | (threads & ~where.mask)) & ~self.open_bits
            return owner * SPAN + where.byte[0][elements]
        unique, inverse = np.unique(threads, return_inverse=True)
        found: Array = self._places(self.source, unique, points)[inverse.ravel(), elements]
        return found

    def _places(self, o: Operand, threads: Array, points: Points) -> Array:
        """(threads, elements) names of a memory operand's elements as each thread means them."""
        at = {v: p[threads] for v, p in points.items()}
        if o.root.space == "tmem":
            places = o.places(at)
            name = places["TLane"] * LANE + (places["TCol"] * o.bits + in_container(o)) // self.unit
        else:
            name = o.bit_places(at) // self.unit
        return np.broadcast_to(name, (len(threads), o.size))

    def first_copies(self, names: Array) -> Array:
        """Names of registers of the source as those of the first copy of the element in them; others as they are."""
        where = self.held.get(self.source.name)
        if where is None:
            return names
        thread, place = names // SPAN, names % SPAN
        rest = place % max(1, self.source.bits // self.unit)  # registers hold whole elements: this is the piece
        byte = place - rest
        copies = (where.parts << 32 | where.byte).ravel()
        order = np.argsort(copies, kind="stable")
        code = (thread & where.mask) << 32 | byte
        at = np.minimum(np.searchsorted(copies[order], code), len(copies) - 1)
        hit = (copies[order][at] == code) & (names >= 0)
        element = order[at] % where.parts.shape[1]
        owner = (where.parts[0][element] | (thread & ~where.mask)) & ~self.open_bits
        return np.where(hit, owner * SPAN + where.byte[0][element] + rest, names)


def unit_bits(o: Operand) -> int:
    """Bits of a unit: a byte, or an element of less."""
    return min(8, o.bits)


def piece_units(o: Operand) -> int:
    """Units of what has a name: an element, or half of one of 64 bits (instructions move registers of 32 bits)."""
    return min(32, o.bits) // unit_bits(o)
