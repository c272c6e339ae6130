"""What open register views mean: which thread holds which element, where the program itself tells.

``D_reg`` has n elements in every thread; its view ``D_wg`` over T threads has T·n.  If the program uses ``D_reg`` by position
(``D[tid, :] = D_reg[:]``), the view's layout is part of what the program means.  A layout left open there means *row-major
pieces*: thread t holds elements t·n to t·n + n - 1.  Buffers that only whole element-wise calls of single threads connect have
one meaning; where nothing but such calls touches them, every distribution means the same, so the solver may choose, but one
for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from ..errors import Span
from ..ir import Buffer, Var
from ..ir import dtype as dt
from ..layout import Iter, OpenLayout, TileLayout
from ..layout.axis import Axis
from ..lower.context import CallContext, Operand
from ..lower.operations import FAMILIES
from ..lower.storage import const_shape
from .erase import Declared
from .unknowns import Unknown, permuted_member
from .uses import Uses


@dataclass(frozen=True)
class Reading:
    """What the program says about open register views.

    ``pinned``: per unknown (by index) the layout it must have, and the use that reveals positions; ``together``: sets of
    unknowns that must have one layout.
    """

    pinned: dict[int, tuple[TileLayout, str]]
    together: tuple[tuple[int, ...], ...]


class _Classes:
    """Union-find over register roots (by their data variables)."""

    def __init__(self) -> None:
        self.parent: dict[Var, Var] = {}
        self.revealed: dict[Var, str] = {}

    def find(self, v: Var) -> Var:
        root = v
        while self.parent.get(root, root) is not root:
            root = self.parent[root]
        self.parent[v] = root
        return root

    def join(self, a: Var, b: Var) -> None:
        x, y = self.find(a), self.find(b)
        if x is not y:
            self.parent[y] = x
            if y in self.revealed:
                self.revealed.setdefault(x, self.revealed[y])

    def reveal(self, v: Var, why: str) -> None:
        self.revealed.setdefault(self.find(v), why)


def read_meaning(unknowns: Sequence[Unknown], uses: Uses, found: Sequence[Declared]) -> Reading:
    """Pins and ties of the open views of registers; ``found`` are the function's declarations."""
    spread = [u for u in unknowns if u.space == "local" and u.capacity is not None and u.size > u.capacity]
    own = {d.buffer.data: _bits(d.buffer) for d in found if d.allocated and d.buffer.scope == "local"}
    classes = _Classes()
    for c in uses.contexts:
        _call(c, own, classes)
    for s in uses.scalars:
        b = s.buffer
        if b.data in own and _bits(b) == own[b.data]:
            classes.reveal(b.data, f"a statement{_place(s.span)} uses '{b.name}' by position")
    by_class: dict[Var, list[Unknown]] = {}
    for u in spread:
        by_class.setdefault(classes.find(u.leader.data), []).append(u)
    pinned: dict[int, tuple[TileLayout, str]] = {}
    together = []
    for root, members in by_class.items():
        why = classes.revealed.get(classes.find(root))
        shapes = {(u.shape, u.capacity) for u in members}
        if why is None and len(shapes) > 1:
            why = "views of other extents are connected with it element by element"
        if why is None:
            if len(members) > 1:
                together.append(tuple(u.index for u in members))
            continue
        for u in members:
            assert u.capacity is not None
            pinned[u.index] = (row_pieces(u), why)
    return Reading(pinned, tuple(together))


def row_pieces(u: Unknown) -> TileLayout:
    """Thread t holds the t-th piece of the flattened view, or of what the view's elements are numbered by (``through``)."""
    assert u.capacity is not None
    threads = u.size // u.capacity
    axis = Axis.get(thread_axis(threads))
    pieces = TileLayout((Iter(threads, 1, axis), Iter(u.capacity, 1)))
    through = u.leader.layout.through if isinstance(u.leader.layout, OpenLayout) else None
    if through is not None and (member := permuted_member(u.leader, through)) is not None:
        made = member.layout(pieces)
        if isinstance(made, TileLayout):
            return made
    return pieces


def thread_axis(threads: int) -> str:
    """The axis on which so many threads are counted: a warp's, a warpgroup's, else the CTA's."""
    return "laneid" if threads <= 32 else "tid_in_wg" if threads == 128 else "tx"


def _call(c: CallContext, own: dict[Var, int], classes: _Classes) -> None:
    """What a call of single threads says: connected whole operands, or a use by position."""
    regions = [o for o in c.operands.values() if o.root.space == "local" and o.buffer.data in own]
    mine = [o for o in regions if o.buffer.data in own and _private(o, own)]
    if not mine or c.scope != "thread":
        return
    place = _place(c.span)
    whole = [o for o in mine if o.size == prod(const_shape(o.buffer))]
    elementwise = c.op in FAMILIES or c.op == "copy"
    sizes = {o.size for o in mine}
    others = [o for o in c.operands.values() if not any(o is m for m in mine) and o.size > 1]
    if not elementwise or len(whole) < len(mine) or len(sizes) > 1 or others:
        for o in mine:
            classes.reveal(o.buffer.data, f"'{c.op}'{place} uses '{o.buffer.name}' by position")
        if elementwise:
            for o in mine[1:]:
                classes.join(mine[0].buffer.data, o.buffer.data)
        return
    for o in mine[1:]:
        classes.join(mine[0].buffer.data, o.buffer.data)


def _place(span: Span | None) -> str:
    return f" in line {span.line}" if span else ""


def _private(o: Operand, own: dict[Var, int]) -> bool:
    """Whether the operand's buffer is what each thread has for itself."""
    return _bits(o.buffer) == own[o.buffer.data]


def _bits(b: Buffer) -> int:
    return prod(const_shape(b)) * dt.storage_bits(b.dtype)
