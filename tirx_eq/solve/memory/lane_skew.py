"""Moving elements between two shared layouts that are both given: the order in which lanes take their elements.

Where the layouts can't change (block-scale factors that ``tcgen05.cp`` reads as they are), conflicts can still be avoided:
at step i lane l moves its element ``i ^ (l >> k)`` instead of i.  ``permute_layout`` needs exactly this k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import LayoutError
from ...layout import Layout
from ...layout.conflicts import WARP
from ...layout.value import is_power_of_two
from .access import PHASE_LANES, count_wavefronts, element_bits


@dataclass(frozen=True)
class LaneSkew:
    """At step i of ``steps`` lane l moves the element of row ``i ^ ((l >> shift) % steps)`` (``shift`` None: row i) of a
    (steps, 32) view.  ``reads``, ``writes``: wavefronts over all steps; ``ideal`` for each; ``tried``: cost per shift."""

    shift: int | None
    steps: int
    reads: int
    writes: int
    ideal: int
    tried: tuple[tuple[int | None, int], ...]

    @property
    def conflict_free(self) -> bool:
        return self.reads == self.writes == self.ideal

    def row(self, step: int, lane: int) -> int:
        """The row that a lane moves at a step."""
        return step if self.shift is None else step ^ ((lane >> self.shift) % self.steps)


def lane_skew(src: Layout, dst: Layout, dtype: Any) -> LaneSkew:
    """The shift with the fewest wavefronts for a warp that copies every element from ``src`` to ``dst``, both in shared
    memory, one element per lane and step; exhaustive over shifts 0 to 5 and none.

    LayoutError unless both have the same size, 32 times a power of two.
    """
    sizes = (src.size(), dst.size())
    if sizes[0] != sizes[1] or not isinstance(sizes[0], int) or sizes[0] % WARP or not is_power_of_two(sizes[0] // WARP):
        raise LayoutError(f"lane_skew: layouts of {sizes[0]} and {sizes[1]} elements; both must be 32 times a power of two")
    width = element_bits(dtype) // 8
    if width not in PHASE_LANES:
        raise LayoutError(f"lane_skew: an element of {dtype} isn't 1, 2, 4, 8 or 16 bytes")
    steps = sizes[0] // WARP
    flat = np.arange(sizes[0], dtype=np.int64)
    source, target = (x.evaluate(flat).get("m", flat * 0) * width for x in (src, dst))
    step, lane = np.arange(steps)[:, None], np.arange(WARP)[None, :]
    ideal = steps * -(-WARP * width // 128)
    found: list[tuple[int, int, int | None]] = []
    for shift in (None, *range(6)):
        row = step + 0 * lane if shift is None else step ^ ((lane >> shift) % steps)
        moved = row * WARP + lane
        reads, writes = (int(count_wavefronts(a[moved], width).sum()) for a in (source, target))
        found.append((reads, writes, shift))
    reads, writes, best = min(found, key=lambda f: f[0] + f[1])
    return LaneSkew(best, steps, reads, writes, ideal, tuple((s, r + w) for r, w, s in found))
