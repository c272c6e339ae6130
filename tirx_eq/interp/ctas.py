"""CTAs of a cluster: layouts with the axes cbx, cby and cbz put elements into the registers and memories of several CTAs.

A tile primitive of a cluster may name all of them; one of a smaller scope only its own CTA's.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..layout import Layout
from .faults import InterpreterError, OutOfBounds

if TYPE_CHECKING:
    from .access import Units
    from .launch import Wave

Array = Any
CTA_AXES = ("cbx", "cby", "cbz")


def ctas_of(layout: Layout | None) -> frozenset[str]:
    """The coordinates of a CTA in its cluster that a layout decides."""
    return frozenset() if layout is None else frozenset(layout.axes()) & frozenset(CTA_AXES)


def rows_of(wave: Wave, point: dict[str, Array], units: Units, inner: Sequence[int], name: str) -> list[Array]:
    """The rows (CTAs of the wave) that hold a point's elements, one array per copy; it broadcasts over (units, elements).

    Coordinates that the point has are its own, those that a unit's threads have in common are the unit's; along the
    others every CTA of the cluster has a copy.
    """
    axes = frozenset(point) & frozenset(CTA_AXES)
    own = np.asarray(units.rows).reshape(-1, *inner)
    if not axes and frozenset(CTA_AXES) <= units.fixed:
        return [own]
    extents = wave.geometry.cluster
    first = own // wave.geometry.cluster_size * wave.geometry.cluster_size
    choices: list[list[Array]] = []
    for k, (axis, extent) in enumerate(zip(CTA_AXES, extents)):
        mine = wave.in_cluster_xyz[k][own]
        if axis not in axes:
            choices.append([mine] if axis in units.fixed else [np.int64(x) for x in range(extent)])
            continue
        at = np.asarray(point[axis])
        if at.size and (at.min() < 0 or at.max() >= extent):
            raise OutOfBounds(f"a part of '{name}' is in CTA {int(at.max())} along {axis}; the cluster has {extent}")
        if units.within_cta and np.any(at != mine):
            raise InterpreterError(f"a part of '{name}' is in another CTA along {axis}, which takes no part in the call")
        choices.append([at])
    return [first + x + y * extents[0] + z * (extents[0] * extents[1]) for x, y, z in product(*choices)]
