"""Distributions of elements over threads and registers, as tables.

A layout maps an element (flat index of a logical tile) to thread axes and to m, its slot among the thread's elements; a
replica means that several threads or slots hold a copy.  ``held[thread, slot]`` is the other direction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import LayoutError
from ..ir import dtype as dt
from ..layout import ComposeLayout, Iter, Layout, TileLayout
from ..layout.axis import THREAD_FACTORS
from ..layout.threads import to_thread

WARP = 32
#: most elements (copies counted) that a distribution may have: tables are enumerated
MOST = 1 << 20
MOST_REGISTERS = 255


@dataclass(frozen=True)
class Distribution:
    """``held[thread, slot]``: element or -1; slots of ``bits`` bits, packed into 32-bit registers, low first.

    ``layout`` is on tx and m.  ``scope`` is warp, warpgroup or cta, by the number of threads.
    """

    layout: Layout
    held: np.ndarray
    size: int
    bits: int

    @property
    def threads(self) -> int:
        return int(self.held.shape[0])

    @property
    def words(self) -> int:
        """32-bit registers per thread."""
        return -(-self.held.shape[1] * self.bits // 32)

    @property
    def scope(self) -> str:
        return {32: "warp", 128: "warpgroup"}.get(self.threads, "cta")


def distribution_of(layout: Layout, dtype: Any, threads: int | None = None) -> Distribution:
    """The table of a distribution; threads are rounded up to whole warps, or to ``threads``.

    Raises LayoutError for symbolic layouts, other axes than threads' and m, negative slots, two elements in one slot, more
    than 255 registers, elements of more than 32 or less than 8 bits.
    """
    bits = dt.bits(dt.normalize(dtype)) * dt.lanes(dt.normalize(dtype))
    if bits not in (8, 16, 32):
        raise LayoutError(f"distribution: elements must have 8, 16 or 32 bits, {dtype} has {bits}")
    if not layout.is_constant():
        raise LayoutError("distribution: extents, strides and offsets must be numbers")
    others = [a for a in layout.axes() if a not in THREAD_FACTORS and a not in ("m", "tx")]
    if others or not isinstance(layout, (TileLayout, ComposeLayout)):
        raise LayoutError(f"distribution: registers are on thread axes and m, not {', '.join(others) or 'a bare swizzle'}")
    fused = to_thread(layout)
    tile = fused.tile if isinstance(fused, ComposeLayout) else fused
    assert isinstance(tile, TileLayout)
    size = int(tile.size())  # type: ignore[arg-type]
    places = _places(fused, tile, size)
    tx, slot = places
    if tx.min(initial=0) < 0 or slot.min(initial=0) < 0:
        raise LayoutError("distribution: a thread or slot is negative")
    most = -(-(int(tx.max()) + 1) // WARP) * WARP
    count = most if threads is None else threads
    if count < most or count % WARP or count > 1024:
        raise LayoutError(f"distribution: it uses {most} threads, {count} are given (a multiple of 32, at most 1024)")
    slots = int(slot.max()) + 1
    if slots * bits > 32 * MOST_REGISTERS:
        raise LayoutError(f"distribution: {slots} elements of {bits} bits in a thread exceed {MOST_REGISTERS} registers")
    held = np.full((count, slots), -1, dtype=np.int64)
    for c in range(tx.shape[1]):
        taken = held[tx[:, c], slot[:, c]]
        clash = (taken >= 0) & (taken != np.arange(size))
        if clash.any():
            e = int(np.argmax(clash))
            raise LayoutError(
                f"distribution: elements {int(taken[e])} and {e} are both in slot {int(slot[e, c])} of thread {int(tx[e, c])}"
            )
        held[tx[:, c], slot[:, c]] = np.arange(size)
        again = held[tx[:, c], slot[:, c]] != np.arange(size)
        if again.any():
            e = int(np.argmax(again))
            raise LayoutError(
                f"distribution: elements {e} and {int(held[tx[e, c], slot[e, c]])} are both in slot {int(slot[e, c])} "
                f"of thread {int(tx[e, c])}"
            )
    return Distribution(fused, held, size, bits)


def _places(fused: Layout, tile: TileLayout, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(size, copies) arrays of thread and slot."""
    copies = [(0, 0)]
    for it in tile.replica:
        copies = [(t + k * _on(it, "tx"), s + k * _on(it, "m")) for t, s in copies for k in range(int(it.extent))]  # type: ignore[arg-type]
    if size * len(copies) > MOST:
        raise LayoutError(f"distribution: {size} elements in {len(copies)} copies are more than {MOST}")
    flat = np.arange(size, dtype=np.int64)
    base = tile.evaluate(flat)
    tx = base.get("tx", 0 * flat)[:, None] + np.array([t for t, _ in copies])
    slot = base.get("m", 0 * flat)[:, None] + np.array([s for _, s in copies])
    if isinstance(fused, ComposeLayout):
        slot = fused.swizzle.permute_array(slot)
    return tx, slot


def _on(it: Iter, axis: str) -> int:
    return int(it.stride) if it.axis.name == axis else 0  # type: ignore[arg-type]
