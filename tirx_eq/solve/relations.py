"""What a view means beside what it views, said without layouts: as the order of its elements.

Two buffers over the same bytes with given layouts relate element by element; if both layouts are to be left open, that
relation must be kept, or the program would mean something else.
"""

from __future__ import annotations

import numpy as np

from ..errors import LayoutError
from ..layout import Iter, Layout, TileLayout


def numbering(whole: Layout, view: Layout, size: int) -> TileLayout | None:
    """For each flat element of ``view`` the flat element of ``whole`` that is in its place, as digits; None if there is no
    such layout.  Both have ``size`` elements, one per place."""
    try:
        a, b = (w.evaluate(np.arange(size)).get("m", np.zeros(size, dtype=np.int64)) for w in (whole, view))
    except LayoutError:
        return None
    if len(np.unique(a)) != size or not np.array_equal(np.sort(a), np.sort(b)):
        return None
    order = np.argsort(a)
    return digits_of(order[np.searchsorted(a[order], b)])


def register_numbering(view: Layout, threads: int, held: int) -> TileLayout | None:
    """For each flat element of a view of registers the number thread · ``held`` + register that has it; None if some are
    held more than once, or there is no such layout."""
    from ..layout.threads import to_thread

    try:
        plain = to_thread(view)
        places = plain.evaluate(np.arange(threads * held))
    except LayoutError:
        return None
    if not isinstance(plain, TileLayout) or plain.replica or set(places) - {"m", "tx"}:
        return None
    number = places.get("tx", np.int64(0)) * held + places.get("m", np.int64(0))
    values = np.broadcast_to(number, (threads * held,))
    return digits_of(values) if len(np.unique(values)) == len(values) else None


def digits_of(values: np.ndarray) -> TileLayout | None:
    """The tile layout on axis m that gives these values for 0, 1, …; None if there is none without offset."""
    size = len(values)
    digits: list[Iter] = []
    done = 1
    while done < size:
        step = int(values[done] - values[0])
        extent = 1
        while extent * done < size and size % ((extent + 1) * done) == 0 and values[extent * done] - values[0] == extent * step:
            extent += 1
        while size % (extent * done):
            extent -= 1
        if extent == 1:
            return None
        digits.insert(0, Iter(extent, step))
        done *= extent
    made = TileLayout(tuple(digits or [Iter(1, 1)]))
    return made if np.array_equal(made.evaluate(np.arange(size))["m"], values) else None
