"""Shared-memory bank conflicts of one warp access, counted exactly from the addresses.

Shared memory has 32 banks of 4 bytes; one wavefront serves any number of lanes as long as each bank is asked for one
word.  A warp's access is served in phases: all 32 lanes at once for up to 4 bytes per lane, half warps for 8 bytes,
quarter warps for 16 bytes (CUDA programming guide, "Shared memory"); ``ldmatrix`` takes 8 rows of 16 bytes per
matrix, one phase each.  Lanes that ask for the same word share it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import LayoutError
from ..ir import dtype as dt
from .base import Layout
from .compose import ComposeLayout
from .swizzle import SwizzleLayout
from .tile import TileLayout

BANKS = 32
BANK_BYTES = 4
WARP = 32

#: lanes per phase for the bytes that one lane moves
PHASE_LANES = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}


@dataclass(frozen=True)
class Access:
    """What a warp does in one instruction: each lane's first element (a coordinate) and ``vector`` elements on.

    ``name`` is for reports.  An inactive lane is None: lanes keep their numbers, which decide the phase they are served in.
    """

    name: str
    lanes: tuple[tuple[int, ...] | None, ...]
    vector: int = 1


@dataclass(frozen=True)
class BankConflicts:
    """``wavefronts`` needed and the least possible (``ideal``); ``ways`` is the worst number of words asked of one bank
    in a phase; ``collisions`` lists (phase, bank, lanes) with the lanes of different words of that bank."""

    wavefronts: int
    ideal: int
    ways: int
    collisions: tuple[tuple[int, int, tuple[int, ...]], ...] = ()

    @property
    def conflict_free(self) -> bool:
        return self.wavefronts == self.ideal


def bank_conflicts(addresses: Sequence[int | None], width: int) -> BankConflicts:
    """Conflicts of one access: lane i moves ``width`` bytes (1, 2, 4, 8 or 16) at byte ``addresses[i]``, or nothing (None).

    LayoutError if a width isn't one of these or an address isn't a multiple of it.
    """
    lanes = PHASE_LANES.get(width)
    if lanes is None:
        raise LayoutError(f"bank conflicts: a lane moves 1, 2, 4, 8 or 16 bytes at once, not {width}")
    if len(addresses) > WARP:
        raise LayoutError(f"bank conflicts: a warp has 32 lanes, got {len(addresses)} addresses")
    total = ideal = worst = 0
    collisions: list[tuple[int, int, tuple[int, ...]]] = []
    for phase, start in enumerate(range(0, len(addresses), lanes)):
        words: dict[int, dict[int, list[int]]] = {}
        distinct: set[int] = set()
        for lane in range(start, min(start + lanes, len(addresses))):
            address = addresses[lane]
            if address is None:
                continue
            if address % width:
                raise LayoutError(f"bank conflicts: lane {lane}'s address {address} isn't a multiple of {width} bytes")
            first = address // BANK_BYTES
            for word in range(first, first + max(1, width // BANK_BYTES)):
                distinct.add(word)
                words.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        ways = max((len(w) for w in words.values()), default=0)
        total += ways
        ideal += -(-len(distinct) // BANKS)
        worst = max(worst, ways)
        for bank, by_word in sorted(words.items()):
            if len(by_word) > 1:
                collisions.append((phase, bank, tuple(sorted({x for who in by_word.values() for x in who}))))
    return BankConflicts(total, ideal, worst, tuple(collisions))


def access_addresses(layout: Layout, dtype: Any, access: Access, shape: Sequence[int]) -> tuple[list[int | None], int]:
    """(byte address per lane, None where it is inactive; bytes per lane) of an access of a buffer of ``shape`` with ``layout``.

    A lane's vector must be contiguous in memory and its bytes 1, 2, 4, 8 or 16; LayoutError names the lane otherwise.
    """
    import numpy as np

    _, bits, count = dt.parse(dt.normalize(dtype))
    width = bits * count * access.vector
    if width % 8:
        raise LayoutError(f"access '{access.name}': {access.vector} elements of {dtype} aren't whole bytes")
    if set(layout.axes()) - {"m"}:
        others = ", ".join(sorted(set(layout.axes()) - {"m"}))
        raise LayoutError(f"bank conflicts: the layout must be of memory (axis m), it also uses {others}")
    strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
    starts = np.array([sum(c * s for c, s in zip(lane or (), strides)) for lane in access.lanes], dtype=np.int64)
    for lane, coord in enumerate(access.lanes):
        if coord is None:
            continue
        if len(coord) != len(shape) or any(not 0 <= c < e for c, e in zip(coord, shape)):
            raise LayoutError(f"access '{access.name}': lane {lane}'s element {coord} isn't in {tuple(shape)}")
    flat = starts[:, None] + np.arange(access.vector, dtype=np.int64)[None, :]
    places = layout.evaluate(flat).get("m", np.zeros_like(flat))
    ragged = np.flatnonzero((places != places[:, :1] + np.arange(access.vector)).any(axis=1))
    if len(ragged):
        lane = int(ragged[0])
        raise LayoutError(
            f"access '{access.name}': lane {lane}'s {access.vector} elements aren't contiguous: "
            f"they are at {[int(p) for p in places[lane]]}"
        )
    return [
        None if coord is None else int(p) * bits * count // 8 for coord, p in zip(access.lanes, places[:, 0])
    ], width // 8


def conflicts(layout: Layout, dtype: Any, access: Access, shape: Sequence[int]) -> BankConflicts:
    """Bank conflicts of a warp access of a shared buffer; see :func:`bank_conflicts` and :func:`access_addresses`."""
    addresses, width = access_addresses(layout, dtype, access, shape)
    return bank_conflicts(addresses, width)


# -- access patterns -------------------------------------------------------------------------------------------------


def row_access(shape: Sequence[int], vector: int = 1, start: int = 0) -> Access:
    """Lanes along the flattened buffer, ``vector`` elements each, from flat index ``start``."""
    return Access("row", tuple(unflatten(start + lane * vector, shape) for lane in range(WARP)), vector)


def column_access(shape: Sequence[int], vector: int = 1, column: int = 0) -> Access:
    """Lane r at row r of a 2-D buffer, ``vector`` elements from ``column`` on; fewer lanes if there are fewer rows."""
    rows = min(WARP, shape[-2])
    lead = (0,) * (len(shape) - 2)
    return Access("column", tuple((*lead, r, column) for r in range(rows)), vector)


def ldmatrix_access(shape: Sequence[int], dtype: Any, row: int = 0, column: int = 0, matrices: int = 4) -> Access:
    """``ldmatrix.x1/.x2/.x4``: lane 8 i + r gives the address of row r (16 bytes) of matrix i.

    Matrices are 8 rows x 16 bytes: the second is 8 rows below the first, the third and fourth 16 bytes to the right.
    """
    _, bits, lanes = dt.parse(dt.normalize(dtype))
    vector = 128 // (bits * lanes)
    lead = (0,) * (len(shape) - 2)
    coords = [
        (*lead, row + 8 * (i % 2) + r, column + vector * (i // 2)) for i in range(matrices) for r in range(8)
    ]
    return Access("ldmatrix", tuple(coords), vector)


def unflatten(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major coordinate of a flat index."""
    coord: list[int] = []
    for extent in reversed(shape):
        flat, c = divmod(flat, extent)
        coord.append(c)
    return tuple(reversed(coord))


#: access patterns by name, as the command line takes them: (shape, dtype, vector) -> Access
PATTERNS: dict[str, Callable[[Sequence[int], Any, int], Access]] = {
    "row": lambda shape, dtype, vector: row_access(shape, vector),
    "column": lambda shape, dtype, vector: column_access(shape, vector),
    "ldmatrix": lambda shape, dtype, vector: ldmatrix_access(shape, dtype),
}


# -- the best swizzle ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BestSwizzle:
    """``layout`` has the least total of ``wavefronts`` among ``tried`` swizzles; ``ideal``: without conflicts."""

    layout: Layout
    wavefronts: int
    ideal: int
    tried: int
    runner_up: int | None


def best_swizzle(
    layout: TileLayout, accesses: Sequence[Access], dtype: Any, shape: Sequence[int], *, max_atom: int = 5
) -> BestSwizzle:
    """The swizzle of ``layout`` under which the accesses together need the fewest wavefronts.

    Optimal over the whole family ``per_element >= log2(longest vector)``, ``swizzle_len <= max_atom``, ``atom_len``
    up to the address width, both kinds: each is counted, or is the same map on this tile as one that was.  A smaller
    ``per_element`` would break a vector's contiguity.  Fewest bits win among equals.  A swizzle that leaves the tile's
    allocation isn't considered.
    """
    if not accesses:
        raise LayoutError("best_swizzle needs at least one access")
    reach = layout.span("m")
    if not isinstance(reach, int):
        raise LayoutError("best_swizzle: the layout's span must be a number")
    width = max(1, (reach - 1).bit_length())
    vector = max(a.vector for a in accesses)
    least = (vector - 1).bit_length()
    best: tuple[int, Layout] | None = None
    runner: int | None = None
    tried = 0
    for candidate in [None, *_family(least, width, max_atom)]:
        made: Layout = layout if candidate is None else ComposeLayout(candidate, layout)
        if candidate is not None and made.span("m") != reach:
            continue
        tried += 1
        total = sum(conflicts(made, dtype, a, shape).wavefronts for a in accesses)
        if best is None or total < best[0]:
            runner = best[0] if best is not None else None
            best = (total, made)
        elif runner is None or total < runner:
            runner = total
    assert best is not None
    ideal = sum(conflicts(best[1], dtype, a, shape).ideal for a in accesses)
    return BestSwizzle(best[1], best[0], ideal, tried, runner)


def _family(least: int, width: int, most: int) -> list[SwizzleLayout]:
    """Swizzles that can act on ``width`` address bits, fewest bits first."""
    return [
        SwizzleLayout(low, count, shift, inner)
        for count in range(1, min(most, width) + 1)
        for inner in (True, False)
        for shift in range(count, width)
        for low in range(least, width - shift)
    ]
