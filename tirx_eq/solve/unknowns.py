"""The unknowns of a function: each is one layout, shared by all views of the same storage.

A view of the very same bytes is the same array in another shape, so it has the layout of what it views (or that layout with
elements packed or unpacked, or its first part where it is one of several equal parts).  Views of other extents are another
use of the storage.  Registers: a buffer that each thread has for itself, and larger views that spread over threads, say by
the view's layout which thread has what; see :mod:`tirx_eq.solve.meaning`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from ..errors import LayoutError, Span
from ..ir import Buffer, Expr, Var
from ..ir import dtype as dt
from ..ir.linear import linear_form
from ..layout import ComposeLayout, Iter, Layout, OpenLayout, TileLayout, is_open
from ..lower.storage import const_shape
from .erase import Declared
from .families import number


@dataclass(frozen=True)
class Member:
    """A buffer whose layout is that of the unknown: ``same``, with ``factor`` elements packed into one (``pack``), each cut
    into ``factor`` (``unpack``), the first of ``factor`` equal parts (``part``), or with elements numbered otherwise
    (``permute``: dimensions ``order`` of ``digits``)."""

    buffer: Buffer
    how: str = "same"
    factor: int = 1
    digits: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    def layout(self, whole: Layout) -> Layout | str:
        """The buffer's layout when the unknown's is ``whole``, or why there is none."""
        axis = "TCol" if self.buffer.scope == "tmem" else "m"
        try:
            if self.how == "pack":
                return whole.pack(self.factor, axis)
            if self.how == "unpack":
                return whole.unpack(self.factor, axis)
            if self.how == "permute":
                return whole.permute_dims(list(self.order), list(self.digits))
            return _part(whole, self.factor) if self.how == "part" else whole
        except LayoutError as error:
            return error.message

    def whole(self, mine: Layout) -> Layout | None:
        """A layout of the unknown under which this buffer has the layout ``mine``; None if there is none."""
        axis = "TCol" if self.buffer.scope == "tmem" else "m"
        try:
            if self.how == "pack":
                return mine.unpack(self.factor, axis)
            if self.how == "unpack":
                return mine.pack(self.factor, axis)
            if self.how == "permute":
                back = [self.order.index(d) for d in range(len(self.order))]
                return mine.permute_dims(back, [self.digits[d] for d in self.order])
            return _repeated(mine, self.factor) if self.how == "part" else mine
        except LayoutError:
            return None


def _part(whole: Layout, factor: int) -> Layout | str:
    """The layout of the first of equal parts, each as far from the last as its size, under one layout."""
    size = number(whole.size()) // factor
    made = whole.slice([factor, size], [(0, 1), (0, size)])
    every = np.arange(factor * size)
    first, places = made.evaluate(np.arange(size)), whole.evaluate(every)
    for axis, v in places.items():
        step = size if axis == "m" else 0
        wanted = np.tile(np.broadcast_to(first.get(axis, 0), (size,)), factor) + np.repeat(np.arange(factor) * step, size)
        if not np.array_equal(v, wanted):
            return f"its {factor} parts don't lie one after the other in the same way"
    return made


def _repeated(mine: Layout, factor: int) -> Layout | None:
    tile = mine.tile if isinstance(mine, ComposeLayout) else mine
    if not isinstance(tile, TileLayout):
        return None
    made = TileLayout((Iter(factor, tile.size()), *tile.shard), tile.replica, dict(tile.offset))
    return ComposeLayout(mine.swizzle, made) if isinstance(mine, ComposeLayout) else made


@dataclass(frozen=True)
class Wanted:
    """What a partial layout says of one buffer."""

    buffer: Buffer
    partial: OpenLayout
    span: Span | None


@dataclass(frozen=True, eq=False)
class Unknown:
    """One layout to choose: that of ``leader``.

    ``room``: elements of storage that it may span (None: its allocation grows with it); ``fixed``: the layout that a view
    with a given layout leaves as the only one, with that view.
    """

    index: int
    leader: Buffer
    members: tuple[Member, ...]
    space: str
    wanted: tuple[Wanted, ...]
    room: int | None
    span: Span | None
    fixed: tuple[Layout, Buffer] | None = None
    capacity: int | None = field(default=None)

    @property
    def name(self) -> str:
        return self.leader.name

    @property
    def shape(self) -> tuple[int, ...]:
        return const_shape(self.leader)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def bits(self) -> int:
        """Bits of an element of the leader."""
        return dt.storage_bits(self.leader.dtype)

    def member_of(self, buffer: Buffer) -> Member:
        """The member that is a buffer of the function."""
        return next(m for m in self.members if m.buffer is buffer)


def space_of(buffer: Buffer) -> str:
    return "shared" if buffer.scope.startswith("shared") else buffer.scope


def find_unknowns(found: Sequence[Declared]) -> list[Unknown]:
    """The unknowns of the declared buffers, in the order of their first declaration."""
    groups: list[list[Declared]] = []
    for d in found:
        if d.buffer.const_shape() in (None, (0,)):
            continue
        home = next((g for g in groups if _same_root(g[0].buffer, d.buffer)), None)
        groups.append([d]) if home is None else home.append(d)
    drafts = [u for g in groups if any(is_open(d.buffer.layout) for d in g) for u in _of_root(g)]
    order = {id(d.buffer): k for k, d in enumerate(found)}
    drafts.sort(key=lambda u: min(order[id(m.buffer)] for m in u[0]))
    return [_made(k, members, group) for k, (members, group) in enumerate(drafts)]


def _same_root(a: Buffer, b: Buffer) -> bool:
    if space_of(a) != space_of(b):
        return False
    if a.scope == "tmem" and a.allocated_addr and b.allocated_addr:
        return _base(a) == _base(b)
    return a.data is b.data


def _base(b: Buffer) -> frozenset[Expr]:
    """What was read from memory to make a tensor-memory address: its allocation."""
    terms, _ = linear_form(b.allocated_addr[0])
    return frozenset(atom for atom in terms if not isinstance(atom, Var))


def _of_root(group: list[Declared]) -> list[tuple[list[Member], list[Declared]]]:
    """The buffers of one root in sets that share a layout: the largest first, views of the same bytes with it."""
    order = sorted(group, key=lambda d: -_bits(d.buffer))
    sets: list[list[Member]] = []
    for d in order:
        for members in sets:
            tied = _tie(members[0].buffer, d.buffer)
            if tied is not None:
                members.append(tied)
                break
        else:
            sets.append([Member(d.buffer)])
    return [(s, group) for s in sets if any(is_open(m.buffer.layout) for m in s)]


def _bits(b: Buffer) -> int:
    return prod(const_shape(b)) * dt.storage_bits(b.dtype)


def _tie(whole: Buffer, view: Buffer) -> Member | None:
    """How ``view`` follows from ``whole`` if it is the same bytes (or one of equal parts of them), else None."""
    a, b = dt.storage_bits(whole.dtype), dt.storage_bits(view.dtype)
    total, mine = _bits(whole), _bits(view)
    terms, rest = _distance(whole, view)
    if whole.scope == "tmem":
        # Addresses that run-time numbers make may be the same: then the two are views of one array.
        if total != mine or (not terms and rest != 0):
            return None
        terms, rest = {}, 0
    if total == mine and not terms and rest == 0:
        if a == b:
            through = view.layout.through if isinstance(view.layout, OpenLayout) else None
            return Member(view) if through is None else permuted_member(view, through)
        return Member(view, "pack", b // a) if b > a else Member(view, "unpack", a // b)
    size = prod(const_shape(view))
    parts = total // mine
    inside = 0 <= rest < parts * size and rest % size == 0 and all(v % size == 0 for v in terms.values())
    if a == b and parts > 1 and total % mine == 0 and inside and space_of(whole) == "shared" and (terms or rest):
        return Member(view, "part", parts)
    return None


def permuted_member(view: Buffer, through: TileLayout) -> Member | None:
    """The member whose element x is element ``through(x)``; None if ``through`` doesn't only reorder digits."""
    digits = [i for i in through.shard if i.extent != 1]
    falling = sorted(range(len(digits)), key=lambda k: -number(digits[k].stride))
    stride = 1
    for k in reversed(falling):
        if number(digits[k].stride) != stride:
            return None
        stride *= number(digits[k].extent)
    place = {k: p for p, k in enumerate(falling)}
    extents = tuple(number(digits[k].extent) for k in falling)
    return Member(view, "permute", 1, extents, tuple(place[k] for k in range(len(digits))))


def _distance(whole: Buffer, view: Buffer) -> tuple[dict[Expr, int], int]:
    """How far the view begins behind the start of ``whole``, as coefficients and a constant: elements of the view, or
    columns of tensor memory."""
    if whole.scope == "tmem" and whole.allocated_addr and view.allocated_addr:
        terms, rest = linear_form(view.allocated_addr[0] - whole.allocated_addr[0])
        return {k: v for k, v in terms.items() if v}, rest
    a, b = dt.storage_bits(whole.dtype), dt.storage_bits(view.dtype)
    first, start = linear_form(whole.elem_offset)
    terms, rest = linear_form(view.elem_offset)
    if a != b:
        moved = {k: v * a // b for k, v in first.items()}, start * a // b
    else:
        moved = first, start
    for k, v in moved[0].items():
        terms[k] = terms.get(k, 0) - v
    return {k: v for k, v in terms.items() if v}, rest - moved[1]


def _made(index: int, members: list[Member], group: list[Declared]) -> Unknown:
    leader = members[0].buffer
    spans = {id(d.buffer): d.span for d in group}
    allocated = any(d.allocated and any(m.buffer is d.buffer for m in members) for d in group)
    space = space_of(leader)
    wanted = tuple(
        Wanted(m.buffer, m.buffer.layout.wishes(), spans[id(m.buffer)])
        for m in members
        if isinstance(m.buffer.layout, OpenLayout) and m.buffer.layout.wishes() != OpenLayout()
    )
    fixed = None
    for m in members:
        if not is_open(m.buffer.layout) and m.buffer.layout is not None and (w := m.whole(m.buffer.layout)) is not None:
            fixed = (w, m.buffer)
            break
    room = None if allocated or space != "shared" else prod(const_shape(leader))
    capacity = None
    if space == "local" and not allocated:
        own = next((d.buffer for d in group if d.allocated), None)
        if own is not None:
            capacity = _bits(own) // dt.storage_bits(leader.dtype)
    return Unknown(index, leader, tuple(members), space, wanted, room, spans[id(leader)], fixed, capacity)
