"""Families of layouts, generated from shapes and element sizes: what the hardware's units read, write and hold.

Every function gives layouts of a whole buffer as a list without duplicates, in a fixed order.  Shapes are in elements,
leading dimensions (stages) stay outermost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from ..errors import LayoutError
from ..layout import ComposeLayout, Iter, Layout, SwizzleLayout, TCol, TileLayout, TLane, default_layout, m
from ..layout.axis import Axis
from ..layout.hardware import DATAPATHS, LOAD_ATOMS, tcgen05_atom_layout, tmem_datapath_layout
from ..ptx.swizzle_modes import SWIZZLES, SwizzleMode

#: Bytes by which a row may be lengthened against bank conflicts: one access of a lane, 4 to 16 bytes.
PADS = (4, 8, 16)
MAX_ORDERED = 3  # dimensions of which every order is tried


def number(value: Any) -> int:
    """An extent, stride or span of a layout without symbolic values."""
    return int(value)


def plain_form(layout: Layout) -> Layout:
    """A form in which layouts written with other digits are equal: the canonical tile, under the swizzle as it is (the full
    canonical form of a swizzle takes a fifth of a second)."""
    if isinstance(layout, ComposeLayout):
        tile = layout.tile.canonicalize()
        return ComposeLayout(layout.swizzle, tile) if isinstance(tile, TileLayout) else layout
    return layout.canonicalize()


def same_places(a: Layout, b: Layout) -> bool:
    """Whether two layouts put every element, and every copy, in the same places."""
    if plain_form(a) == plain_form(b):
        return True
    if number(a.size()) != number(b.size()) or any(isinstance(w, TileLayout) and w.replica for w in (a, b)):
        return False
    flat = np.arange(number(a.size()))
    x, y = a.evaluate(flat), b.evaluate(flat)
    zero = np.zeros_like(flat)
    return all(np.array_equal(x.get(axis, zero), y.get(axis, zero)) for axis in {*x, *y})


def unique(layouts: Iterable[Layout]) -> list[Layout]:
    """The layouts without repetitions, in order."""
    return list(dict.fromkeys(layouts))


def row_major(shape: Sequence[int]) -> TileLayout:
    """Compact, the last dimension fastest."""
    plain = default_layout([e for e in shape if e != 1] or [1])
    return TileLayout(tuple(i for i in plain.shard))


def dimension_orders(shape: Sequence[int]) -> list[Layout]:
    """Compact layouts with the dimensions in any order (beyond three, the last two)."""
    real = [d for d, e in enumerate(shape) if e > 1]
    if not real:
        return [row_major(shape)]
    free = real if len(real) <= MAX_ORDERED else real[-2:]
    head = [d for d in real if d not in free]
    made = []
    for order in sorted(permutations(free), key=lambda o: [-d for d in reversed(o)]):
        stride, strides = 1, {}
        for d in reversed([*head, *order]):
            strides[d] = stride
            stride *= shape[d]
        made.append(TileLayout(tuple(Iter(shape[d], strides[d]) for d in real)))
    return unique(made)


def padded_rows(shape: Sequence[int], bits: int) -> list[Layout]:
    """Row-major with longer rows, whole elements; only for storage that may grow."""
    if len(shape) < 2 or bits % 8 or shape[-1] == 1:
        return []
    made: list[Layout] = []
    for pad in PADS:
        if pad * 8 % bits:
            continue
        pitch = shape[-1] + pad * 8 // bits
        iters, stride = [Iter(shape[-1], 1)], pitch
        for e in reversed(shape[:-1]):
            iters.insert(0, Iter(e, stride))
            stride *= e
        made.append(TileLayout(tuple(i for i in iters if i.extent != 1)))
    return made


# -- swizzled tiles of shared memory ---------------------------------------------------------------------------------


def element_swizzle(mode: SwizzleMode, bits: int) -> SwizzleLayout | None:
    """A mode's XOR of byte addresses as one of element addresses."""
    if not mode.mask:
        return None
    low = (mode.mask & -mode.mask).bit_length() - 1
    count = mode.mask.bit_count()
    unit = max(0, (bits // 8).bit_length() - 1) if bits >= 8 else -((8 // bits).bit_length() - 1)
    return SwizzleLayout(low - unit, count, mode.shift)


def swizzled_tiles(shape: Sequence[int], bits: int, mode: SwizzleMode) -> list[Layout]:
    """Atoms of 8 rows by the mode's span: rows along either of the last two dimensions, atoms in either order.

    These are the canonical forms of matrix descriptors, K-major and MN-major (PTX ISA 9.7.16.4), and the boxes of a tensor
    copy.  Without a swizzle: core matrices of 8 rows by 16 bytes.
    """
    if len(shape) < 2:
        return []
    span = (mode.span or 16) * 8 // bits
    stages = prod(shape[:-2])
    swizzle = element_swizzle(mode, bits)
    made: list[Layout] = []
    for along in (len(shape) - 1, len(shape) - 2):
        across = 2 * len(shape) - 3 - along
        rows, columns = shape[across], shape[along]
        if columns % span or rows % 8:
            continue
        for rows_first in (True, False):
            tile = _atoms(stages, rows, columns, span, along > across, rows_first)
            made.append(tile if swizzle is None else ComposeLayout(swizzle, tile))
    return unique(made)


def _atoms(stages: int, rows: int, columns: int, span: int, last: bool, rows_first: bool) -> TileLayout:
    """Rows of ``span`` elements, 8 to an atom; ``rows_first``: atoms follow each other along the rows, then the columns."""
    atoms, parts = rows // 8, columns // span
    between = (8 * span, rows * span) if rows_first else (columns * 8, 8 * span)
    across = [Iter(atoms, between[0]), Iter(8, span)]
    along = [Iter(parts, between[1]), Iter(span, 1)]
    digits = [*across, *along] if last else [*along, *across]
    whole = [Iter(stages, rows * columns), *digits]
    return fused([i for i in whole if i.extent != 1])


def fused(iters: Sequence[Iter]) -> TileLayout:
    """Neighbouring digits that are one progression as one digit, for short texts."""
    out: list[Iter] = []
    for i in iters:
        if out and out[-1].axis == i.axis and out[-1].stride == number(i.stride) * number(i.extent):
            out[-1] = Iter(number(out[-1].extent) * number(i.extent), i.stride, i.axis)
        else:
            out.append(i)
    return TileLayout(tuple(out or [Iter(1, 1)]))


def shared_tiles(shape: Sequence[int], bits: int) -> list[Layout]:
    """All modes, the widest first."""
    order = ("128B", "64B", "32B", "none", "128B_ATOM_32B")
    return unique(t for name in order for t in swizzled_tiles(shape, bits, SWIZZLES[name]))


# -- tensor memory ---------------------------------------------------------------------------------------------------


def staged(shape: Sequence[int], make: Any) -> list[Layout]:
    """Layouts of (rows, columns) from ``make(rows, columns)``, stages behind one another along the columns."""
    if len(shape) < 2:
        return []
    stages, (rows, columns) = prod(shape[:-2]), shape[-2:]
    made = []
    for tile in make(rows, columns):
        staging = Iter(stages, number(tile.span("TCol")), TCol)
        made.append(tile if stages == 1 else TileLayout((staging, *tile.shard), tile.replica, dict(tile.offset)))
    return unique(made)


def datapaths(shape: Sequence[int]) -> list[Layout]:
    """Accumulators in every data path that has as many rows (PTX ISA 9.7.16.2, data path layouts A to G)."""

    def make(rows: int, columns: int) -> list[TileLayout]:
        made = []
        for letter, path in DATAPATHS.items():
            if path.rows == rows:
                for slab in range(path.sub_slabs):
                    try:
                        made.append(tmem_datapath_layout(letter, rows, columns, slab))
                    except LayoutError:
                        continue
        return made

    return staged(shape, make)


def tmem_rows(shape: Sequence[int]) -> list[Layout]:
    """Row r in lane r (up to 128), elements along the columns; also with a copy 64 lanes on, as data path B reads A."""

    def make(rows: int, columns: int) -> list[TileLayout]:
        if rows > 128:
            return []
        plain = (Iter(rows, 1, TLane), Iter(columns, 1, TCol))
        made = [TileLayout(plain)]
        if rows == 64:
            made.append(TileLayout(plain, (Iter(2, 64, TLane),)))
            made.append(TileLayout((Iter(4, 32, TLane), Iter(16, 1, TLane), Iter(columns, 1, TCol))))
        return made

    return staged(shape, make)


def scale_factors(shape: Sequence[int], per_instruction: Sequence[int] = (4, 2, 1)) -> list[Layout]:
    """Block scale factors: row r in lane r % 32 of every quarter, 32 rows to a column, several factors to a column
    (PTX ISA 9.7.16.10).  TCol counts elements of 8 bits."""

    def make(rows: int, factors: int) -> list[TileLayout]:
        if rows % 32:
            return []
        made = []
        for packed in per_instruction:
            if factors % packed:
                continue
            groups = rows // 32
            further = Iter(factors // packed, 4 * groups, TCol)
            shard = [Iter(groups, 4, TCol), Iter(32, 1, TLane), further, Iter(packed, 1, TCol)]
            made.append(TileLayout(tuple(i for i in shard if i.extent != 1), (Iter(4, 32, TLane),)))
        return made

    return staged(shape, make)


# -- registers -------------------------------------------------------------------------------------------------------


def fragments(shape: Sequence[int], dtype: str) -> list[Layout]:
    """Registers of a warpgroup as each shape of ``tcgen05.ld``/``st`` fills them (PTX ISA 9.7.16.8), (rows, columns)."""
    made: list[Layout] = []
    real = [e for e in shape if e != 1]
    if len(real) == 2:
        for name in LOAD_ATOMS:
            try:
                made.append(tcgen05_atom_layout(name, real, dtype))
            except LayoutError:
                continue
    return unique(made)


def mma_fragments(shape: Sequence[int], bits: int, warps: int = 1, axis: str = "") -> list[Layout]:
    """Fragments of ``mma.sync`` (PTX ISA 9.7.15.5) tiled over two dimensions, either of them along the lanes' groups of four.

    A and D: row r is with lanes 4·(r % 8) to + 3, rows 8 apart in further registers, each lane ``v`` neighbours of a row; B
    the same without the second half of rows.  ``warps`` on ``axis`` share out the rows (A and D), or all hold all (B).
    """
    real = [d for d, e in enumerate(shape) if e != 1]
    if len(real) != 2 or bits not in (8, 16, 32):
        return []
    made: list[Layout] = []
    for along in (real[1], real[0]):
        rows, columns = shape[real[0] if along == real[1] else real[1]], shape[along]
        for v in dict.fromkeys((2, max(1, 32 // bits), 1)):
            if columns % (4 * v):
                continue
            parts = columns // (4 * v)
            for halves, split in ((2, warps), (1, 1)):
                if rows % (8 * halves * split):
                    continue
                lanes = Axis.get("laneid")
                across = [Iter(rows // (8 * halves * split), halves * v * parts), Iter(halves, v), Iter(8, 4, lanes)]
                if split > 1:
                    across.insert(0, Iter(split, 1, Axis.get(axis)))
                down = [Iter(parts, halves * v), Iter(4, 1, lanes), Iter(v, 1)]
                digits = [*across, *down] if along == real[1] else [*down, *across]
                copies = (Iter(warps, 1, Axis.get(axis)),) if split < warps else ()
                made.append(TileLayout(tuple(i for i in digits if i.extent != 1), copies))
    return unique(made)


def blocked(shape: Sequence[int], threads: int, axis: str, held: int | None, bits: int = 32) -> list[Layout]:
    """Distributions over ``threads`` threads: a thread's vector of neighbours, then threads along the last dimension, the
    other threads along the others, the rest in registers.

    ``held``: elements that a thread has (None: size / threads).  Where there are fewer elements than threads, some threads
    hold copies.  Extents that aren't powers of two must be covered by registers alone.
    """
    size = prod(shape)
    made: list[Layout] = []
    inner = shape[-1]
    if threads & (threads - 1):
        return []
    for vector in _powers(min(inner, 512 // max(1, bits))):
        if inner % vector:
            continue
        along = inner // vector
        for lanes in reversed(_powers(min(threads, along))):
            if along % lanes:
                continue
            found = _blocked(shape, threads, axis, vector, lanes)
            if found is not None and (held is None or size // found[1] == held):
                made.append(found[0])
    return unique(made)


def _powers(most: int) -> list[int]:
    return [1 << k for k in range(most.bit_length()) if 1 << k <= most]


def _blocked(shape: Sequence[int], threads: int, axis: str, vector: int, lanes: int) -> tuple[TileLayout, int] | None:
    """The layout and the number of threads among which the elements are spread (others hold copies)."""
    on = Axis.get(axis)
    left = threads // lanes
    stride = lanes
    thread_digits: list[tuple[int, int]] = []  # per leading dimension, innermost first: threads, their stride
    for extent in reversed(shape[:-1]):
        n = 1
        while left > 1 and extent % (2 * n) == 0:
            n, left = 2 * n, left // 2
        thread_digits.append((n, stride))
        stride *= n
    used = threads // left
    inner = shape[-1]
    registers = vector
    inner_parts = inner // (vector * lanes)
    last = [Iter(inner_parts, registers), Iter(lanes, 1, on), Iter(vector, 1)]
    registers *= inner_parts
    digits: list[Iter] = last
    for extent, (n, step) in zip(reversed(shape[:-1]), thread_digits):
        digits = [Iter(extent // n, registers), Iter(n, step, on), *digits]
        registers *= extent // n
    kept = tuple(i for i in digits if i.extent != 1) or (Iter(1, 1),)
    copies = (Iter(left, used, on),) if left > 1 else ()
    return TileLayout(kept, copies), used


def reduced(layout: Layout, shape: Sequence[int], axes: Sequence[int]) -> TileLayout | None:
    """The distribution of a reduction's results: what is left of ``layout`` when the digits of ``axes`` go, each thread
    that had a part of a row holding the row's result.  ``axes`` count dimensions of ``shape``, whose extents become 1."""
    if not isinstance(layout, TileLayout):
        return None
    try:
        grouped, seps = layout.group(list(shape))
    except LayoutError:
        return None
    kept: list[Iter] = []
    copies = [i for i in layout.replica if i.axis.is_thread()]
    for d in range(len(shape)):
        for i in grouped.shard[seps[d] : seps[d + 1]]:
            if d not in axes:
                kept.append(i)
            elif i.axis.is_thread() and i.extent != 1:
                copies.append(i)
    return TileLayout(_renumbered(kept), tuple(copies))


def _renumbered(iters: Sequence[Iter]) -> tuple[Iter, ...]:
    """Register digits packed densely again, in the order of their strides."""
    order = sorted((k for k, i in enumerate(iters) if i.axis == m and i.extent != 1), key=lambda k: number(iters[k].stride))
    out, stride = list(iters), 1
    for k in order:
        out[k] = Iter(iters[k].extent, stride)
        stride *= number(iters[k].extent)
    kept = tuple(i for i in out if i.extent != 1)
    return kept or (Iter(1, 1),)
