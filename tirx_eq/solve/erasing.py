"""Erasing layouts: every layout of a function left open, its meaning kept."""

from __future__ import annotations

from math import prod

from ..errors import TirxError
from ..ir import Buffer, IntImm, PrimFunc
from ..ir import dtype as dt
from ..layout import Layout, OpenLayout
from ..lower.storage import const_shape
from .erase import Declared, declared, with_layouts
from .meaning import read_meaning
from .relations import numbering, register_numbering
from .unknowns import Unknown, find_unknowns, space_of
from .uses import uses_of


def erase_layouts(func: PrimFunc, target: str = "sm_100a") -> PrimFunc:
    """The function with the layout of every shared, local and tensor-memory buffer left open.

    Parameters keep theirs, since callers know them; so do buffers with strides, and those that were given no layout.  Where a
    view numbers the elements of its storage in an order of its own, or the program uses registers by position, that order is
    what the program means: it is kept as ``auto(through=…)``, or, where it isn't one of digits, as the layouts that were given.
    """
    found = declared(func)
    erased = {d.buffer: OpenLayout() for d in found if _erasable(d.buffer)}
    groups: dict[int, list[Buffer]] = {}
    for b in erased:
        if space_of(b) == "shared":
            groups.setdefault(id(b.data), []).append(b)
    for group in groups.values():
        _keep_numbering(group, erased)
    trial = with_layouts(func, erased)
    for view, layout in _positions(func, found, trial, erased, target).items():
        if layout is None:
            del erased[view]
        else:
            erased[view] = layout
    return with_layouts(func, erased)


def _erasable(b: Buffer) -> bool:
    empty = any(isinstance(e, IntImm) and int(e) == 0 for e in b.shape)
    return b.scope != "global" and isinstance(b.layout, Layout) and not b.strides and not empty and b.const_shape() is not None


def _keep_numbering(group: list[Buffer], erased: dict[Buffer, OpenLayout]) -> None:
    """Views of the same bytes in another order say so."""
    order = sorted(group, key=lambda b: -prod(const_shape(b)) * dt.storage_bits(b.dtype))
    for k, view in enumerate(order):
        for whole in order[:k]:
            same = prod(const_shape(whole)) == prod(const_shape(view)) and whole.dtype == view.dtype
            if not same or repr(whole.elem_offset) != repr(view.elem_offset):
                continue
            size = prod(const_shape(view))
            through = numbering(whole.layout, view.layout, size)
            if through is None:
                erased.pop(whole, None)
                erased.pop(view, None)
            elif view in erased:
                erased[view] = OpenLayout(through=through)
            break


def _positions(
    func: PrimFunc, found: list[Declared], trial: PrimFunc, erased: dict[Buffer, OpenLayout], target: str
) -> dict[Buffer, OpenLayout | None]:
    """Views of registers that are used by position, with the order of their elements (None: it isn't one of digits)."""
    views = [u for u in find_unknowns(declared(trial)) if u.space == "local"]
    try:
        pinned = read_meaning(views, uses_of(func, target), found).pinned
    except TirxError:
        return {}
    out: dict[Buffer, OpenLayout | None] = {}
    for u in views:
        if u.index in pinned:
            for old in _originals(u, found):
                if old in erased and u.capacity is not None:
                    through = register_numbering(old.layout, u.size // u.capacity, u.capacity)
                    out[old] = None if through is None else OpenLayout(through=through)
    return out


def _originals(u: Unknown, found: list[Declared]) -> list[Buffer]:
    """The buffers of the function that an unknown of the erased one stands for."""
    shapes = {const_shape(m.buffer) for m in u.members}
    return [d.buffer for d in found if d.buffer.data is u.leader.data and d.buffer.const_shape() in shapes]
