"""What a warp, or an engine, does with a shared buffer: the input of :func:`tirx_eq.solve.memory.best_layout.best_layout`.

A :class:`WarpAccess` gives each lane's first element, or None for a lane whose predicate is off.  Lanes keep their number:
a quarter warp of 16-byte accesses is lanes 0-7, whatever is masked (CUDA C++ Programming Guide, "Shared memory").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any

from ...errors import LayoutError
from ...ir import dtype as dt
from ...layout.base import Layout
from ...layout.conflicts import BANKS, PHASE_LANES, WARP, Access, column_access, ldmatrix_access, row_access, unflatten

if TYPE_CHECKING:
    import numpy as np

Coord = tuple[int, ...]

#: engines that read or write shared memory in the hardware's own layouts
ENGINES = ("tma", "mma")


@dataclass(frozen=True)
class WarpAccess:
    """One load or store of a warp: lane i touches ``vector`` elements from coordinate ``lanes[i]`` on (None: inactive).

    ``weight``: how often the access is made, at least 1.
    """

    name: str
    lanes: tuple[Coord | None, ...]
    vector: int = 1
    weight: int = 1

    def where(self, active: Callable[[int], bool]) -> WarpAccess:
        """The access with the lanes for which ``active(lane)`` is false switched off."""
        return replace(self, lanes=tuple(c if active(i) else None for i, c in enumerate(self.lanes)))

    def times(self, weight: int) -> WarpAccess:
        """The access made ``weight`` times as often."""
        return replace(self, weight=self.weight * weight)


@dataclass(frozen=True)
class EngineAccess:
    """A tensor copy (``"tma"``) or a matrix descriptor of tcgen05.mma (``"mma"``) names the whole buffer.

    It restricts the layout to what the hardware can name; every such layout takes one wavefront for 128 bytes.
    """

    name: str
    engine: str
    weight: int = 1

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise LayoutError(f"access '{self.name}': unknown engine '{self.engine}'", hint=f"one of {', '.join(ENGINES)}")


AnyAccess = WarpAccess | EngineAccess


def element_bits(dtype: Any) -> int:
    """Bits of an element; LayoutError for a dtype without a size."""
    kind, bits, lanes = dt.parse(dt.normalize(dtype))
    if kind in ("handle", "void") or bits * lanes not in (4, 8, 16, 32, 64, 128):
        raise LayoutError(f"shared memory can't hold elements of {dtype}")
    return bits * lanes


def rows(shape: Sequence[int], vector: int = 1, start: int = 0) -> WarpAccess:
    """Lanes along the flattened buffer, ``vector`` elements each; those beyond its end are inactive."""
    total = prod(shape)
    lanes = row_access(shape, vector, start).lanes
    inside = [start + lane * vector + vector <= total for lane in range(WARP)]
    return WarpAccess("row", tuple(c if ok else None for c, ok in zip(lanes, inside)), vector)


def columns(shape: Sequence[int], vector: int = 1, column: int = 0) -> WarpAccess:
    """Lane r at row r of the last two dimensions, ``vector`` elements from ``column`` on."""
    return WarpAccess("column", tuple(column_access(shape, vector, column).lanes), vector)


def ldmatrix(shape: Sequence[int], dtype: Any, row: int = 0, column: int = 0, matrices: int = 4) -> WarpAccess:
    """``ldmatrix``/``stmatrix`` ``.x1/.x2/.x4``: eight rows of 16 bytes per matrix, one phase each.

    ``.trans`` changes which lane gets which element, not the addresses.
    """
    made = ldmatrix_access(shape, dtype, row, column, matrices)
    return WarpAccess("ldmatrix", tuple(made.lanes), made.vector)


def distributed(distribution: Layout, shape: Sequence[int], dtype: Any, vector: int = 1, name: str = "") -> list[WarpAccess]:
    """The accesses by which threads read or write their registers' elements of a buffer of ``shape``.

    ``distribution`` maps elements to thread axes and registers (m); registers are taken ``vector`` at a time.  One access
    per warp and group of registers, replicas included.  LayoutError if a group isn't ``vector`` neighbours in the buffer.
    """
    from ...redistribution.distribution import distribution_of

    held = distribution_of(distribution, dtype).held
    made = []
    for warp in range(held.shape[0] // WARP):
        for first in range(0, held.shape[1] - vector + 1, vector):
            mine = held[warp * WARP : (warp + 1) * WARP, first : first + vector]
            lanes: list[Coord | None] = []
            for lane in range(WARP):
                e = [int(x) for x in mine[lane]]
                if -1 in e:
                    lanes.append(None)
                elif e != list(range(e[0], e[0] + vector)):
                    raise LayoutError(f"distributed: thread {warp * WARP + lane}'s registers {first} on hold the elements {e}")
                else:
                    lanes.append(unflatten(e[0], shape))
            if any(c is not None for c in lanes):
                made.append(WarpAccess(f"{name or 'registers'} {first} of warp {warp}", tuple(lanes), vector))
    return made


#: access by name, as the command line takes them
NAMED: dict[str, Callable[[Sequence[int], Any, int], AnyAccess]] = {
    "row": lambda shape, dtype, vector: rows(shape, vector),
    "column": lambda shape, dtype, vector: columns(shape, vector),
    "ldmatrix": lambda shape, dtype, vector: ldmatrix(shape, dtype),
    "tma": lambda shape, dtype, vector: EngineAccess("tma", "tma"),
    "mma": lambda shape, dtype, vector: EngineAccess("mma", "mma"),
}


def named_access(text: str, shape: Sequence[int], dtype: Any) -> AnyAccess:
    """``row``, ``column:8`` (elements per lane; default 16 bytes), ``ldmatrix``, ``tma``, ``mma``; ``*3`` for a weight."""
    body, _, times = text.partition("*")
    name, _, width = body.partition(":")
    if name not in NAMED or not (times or "1").isdigit() or not (width or "1").isdigit() or "0" in (times, width):
        raise LayoutError(f"unknown access '{text}'", hint=f"{', '.join(NAMED)}, with :elements per lane and *weight")
    vector = int(width) if width else max(1, 128 // element_bits(dtype))
    made = NAMED[name](shape, dtype, vector)
    return replace(made, weight=int(times)) if times else made


def as_access(given: Any, shape: Sequence[int], dtype: Any) -> AnyAccess:
    """An access from what a caller may give: an access, one of ``layout.conflicts``, a name, or (any of those, weight)."""
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], int):
        if given[1] < 1:
            raise LayoutError(f"an access's weight must be at least 1, got {given[1]}")
        inner = as_access(given[0], shape, dtype)
        return replace(inner, weight=inner.weight * given[1])
    if isinstance(given, (WarpAccess, EngineAccess)):
        return given
    if isinstance(given, Access):
        return WarpAccess(given.name, tuple(given.lanes), given.vector)
    if isinstance(given, str):
        return named_access(given, shape, dtype)
    raise LayoutError(f"an access is a WarpAccess, an EngineAccess, an Access or a name, got {type(given).__name__}")


@dataclass(frozen=True)
class Lanes:
    """A warp access in numbers: ``starts`` the flat first element of each lane, -1 where inactive; ``width`` in bytes."""

    access: WarpAccess
    starts: tuple[int, ...]
    width: int

    @property
    def phases(self) -> list[list[int]]:
        """Active lanes' first elements, per phase."""
        count = PHASE_LANES[self.width]
        return [
            [s for s in self.starts[first : first + count] if s >= 0] for first in range(0, len(self.starts), count)
        ]

    def least(self, bits: int) -> int:
        """Wavefronts that no layout can go below: each phase's distinct bytes over 128, and one for any that is active."""
        total = 0
        for starts in self.phases:
            elements = {s + k for s in starts for k in range(self.access.vector)}
            total += -(-(len(elements) * bits) // (8 * 4 * BANKS))
        return total


def lanes_of(access: WarpAccess, shape: Sequence[int], dtype: Any) -> Lanes:
    """The numbers of an access of a buffer of ``shape``; LayoutError names the lane that is outside of it."""
    bits = element_bits(dtype)
    total = prod(shape)
    if access.vector < 1 or access.weight < 1:
        raise LayoutError(f"access '{access.name}': vector and weight must be at least 1")
    if bits * access.vector % 8 or (width := bits * access.vector // 8) not in PHASE_LANES:
        raise LayoutError(
            f"access '{access.name}': a lane moves 1, 2, 4, 8 or 16 bytes, {access.vector} elements of {dtype} aren't that"
        )
    if len(access.lanes) > WARP:
        raise LayoutError(f"access '{access.name}': a warp has {WARP} lanes, got {len(access.lanes)}")
    starts = []
    for lane, coord in enumerate(access.lanes):
        if coord is None:
            starts.append(-1)
            continue
        if len(coord) != len(shape) or any(not 0 <= c < e for c, e in zip(coord, shape)):
            raise LayoutError(f"access '{access.name}': lane {lane}'s element {coord} isn't in {tuple(shape)}")
        flat = 0
        for c, e in zip(coord, shape):
            flat = flat * e + c
        if flat + access.vector > total:
            raise LayoutError(f"access '{access.name}': lane {lane}'s {access.vector} elements leave the buffer")
        starts.append(flat)
    if all(s < 0 for s in starts):
        raise LayoutError(f"access '{access.name}': every lane is inactive")
    return Lanes(access, tuple(starts), width)


def count_wavefronts(addresses: np.ndarray, width: int) -> np.ndarray:
    """Wavefronts of one access under many layouts at once.

    ``addresses``: (layouts, lanes) byte addresses, -1 for an inactive lane, multiples of ``width`` (bytes per lane).
    """
    import numpy as np

    count, lanes = addresses.shape
    per_phase = PHASE_LANES[width]
    padded = -(-lanes // per_phase) * per_phase
    if padded != lanes:
        addresses = np.concatenate([addresses, np.full((count, padded - lanes), -1, dtype=np.int64)], axis=1)
    words = max(1, width // 4)
    first = addresses // 4
    each = np.where(addresses[:, :, None] < 0, -1, first[:, :, None] + np.arange(words))
    group = np.sort(each.reshape(count * padded // per_phase, per_phase * words), axis=1)
    new = group >= 0
    new[:, 1:] &= group[:, 1:] != group[:, :-1]
    keys = np.arange(len(group))[:, None] * BANKS + group % BANKS
    load = np.bincount(keys[new], minlength=len(group) * BANKS).reshape(len(group), BANKS).max(axis=1)
    return load.reshape(count, -1).sum(axis=1)
