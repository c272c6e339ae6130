"""Canonical form of a swizzle over a tile.

Among all (swizzle, tile) pairs with the same meaning, the one with the fewest swizzle bits is chosen, then the inner
kind, then the least ``atom_len``, then the least ``per_element``.  The choice depends on the meaning only, so it is
canonical; a swizzle that can't act (short tile, coarse strides, constant phase, ``swizzle_len`` 0) comes out as a tile.

Two procedures find it.  If the address is an affine map over GF(2) of the index bits, a tile of digits is plain exactly
if every address bit depends on at most one index bit.  An address bit that depends on two is *bad*; the target bits of
the swizzle must cover the bad bits and need be no more than their hull, so only (kind, atom_len) is searched: about 2 w
steps for w address bits.  Otherwise the values are tabulated and all parameters tried, up to 65,536 values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .axis import Axis, m
from .base import Layout
from .compose import ComposeLayout
from .normal import canonical_replica, canonical_tile, fuse_shard, sorted_offset
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout
from .value import is_power_of_two

if TYPE_CHECKING:
    import numpy as np

#: most values (elements times copies) that are tabulated for the search over all swizzles.
TABLE_LIMIT = 1 << 16
#: how many of the first values rule out swizzles before the whole table is looked at
_PREFIXES = (32, 256)


def canonical_compose(layout: ComposeLayout, search: bool = True) -> tuple[Layout, bool]:
    """Canonical form and whether it is complete; see ``normal_form`` for ``search``."""
    tile, sure = canonical_tile(layout.tile)
    swizzle = layout.swizzle
    if swizzle.swizzle_len == 0:
        return tile, sure
    if not tile.is_constant():
        return _assemble(swizzle, tile), False
    found = _by_bits(swizzle, tile)
    if found is None:
        found = _by_table(swizzle, tile, TABLE_LIMIT if search else 256)
    if found is None:
        found = _apart_from_whole_periods(swizzle, tile)
        sure = False
    if found is None:
        return _assemble(swizzle, tile), False
    return _assemble(*found), sure


def _assemble(swizzle: SwizzleLayout | None, tile: TileLayout) -> Layout:
    tile, _ = canonical_tile(tile)
    if swizzle is None:
        return tile
    identity = len(tile.shard) == 1 and tile.shard[0].stride == 1 and tile.shard[0].axis == m
    return swizzle if identity and not tile.replica and not tile.offset else ComposeLayout(swizzle, tile)


# -- by bits ---------------------------------------------------------------------------------------------------------


def index_columns(shard: Sequence[Iter], offset: int) -> list[int] | None:
    """Address columns over GF(2), first index bit first, if the digits' address is affine over GF(2); else None.

    The address on m is ``offset`` XOR the columns of the index bits that are set.  Exact: a sum of digits is affine
    over GF(2) if and only if the bits that the steps change, seen from the offset, are disjoint.
    """
    columns: list[int] = []
    used = 0
    for it in reversed(shard):
        extent, stride = int(it.extent), int(it.stride)  # type: ignore[arg-type]
        if not is_power_of_two(extent):
            return None
        if it.axis != m:
            columns.extend([0] * (extent.bit_length() - 1))
            continue
        for _ in range(extent.bit_length() - 1):
            column = (offset + stride) ^ offset
            if used & column:
                return None
            used |= column
            columns.append(column)
            stride *= 2
    return columns


def choose_swizzle(columns: Sequence[int]) -> tuple[SwizzleLayout | None, list[int]] | None:
    """The least swizzle that separates address columns, and the columns without it; None if there is none."""
    seen = bad = 0
    for column in columns:
        bad |= seen & column
        seen |= column
    if not bad:
        return None, list(columns)
    low = (bad & -bad).bit_length() - 1
    count = bad.bit_length() - low
    targets = ((1 << count) - 1) << low
    width = max(c.bit_length() for c in columns)
    for shift in range(count, max(count, width - low) + 1):
        plain = [c ^ (c >> shift & targets) for c in columns]
        if _disjoint(plain):
            return SwizzleLayout(low, count, shift), plain
    for shift in range(count, low + 1):
        plain = [c ^ (c << shift & targets) for c in columns]
        if _disjoint(plain):
            return SwizzleLayout(low - shift, count, shift, False), plain
    return None


def _disjoint(columns: Sequence[int]) -> bool:
    seen = 0
    for column in columns:
        if seen & column:
            return False
        seen |= column
    return True


def _by_bits(swizzle: SwizzleLayout, tile: TileLayout) -> tuple[SwizzleLayout | None, TileLayout] | None:
    if any(i.axis == m for i in tile.replica):
        return None
    offset = int(tile.offset.get(m, 0))  # type: ignore[arg-type]
    columns = index_columns(tile.shard, offset)
    if columns is None:
        return None
    chosen = choose_swizzle([_permute(swizzle, c) for c in columns])
    if chosen is None:
        return None
    least, plain = chosen
    start = swizzle.permute(offset)
    assert isinstance(start, int)
    if least is not None:
        start = _permute(least, start)
    return least, _tile_of_columns(tile, plain, start)


def _permute(swizzle: SwizzleLayout, value: int) -> int:
    moved = swizzle.permute(value)
    assert isinstance(moved, int)
    return moved


def _tile_of_columns(tile: TileLayout, columns: Sequence[int], start: int) -> TileLayout:
    """The tile with these address columns in place of its digits on m, and ``start`` as offset."""
    digits: list[Iter] = []
    bit = 0
    for it in reversed(tile.shard):
        count = int(it.extent).bit_length() - 1  # type: ignore[arg-type]
        if it.axis != m:
            digits.append(it)
        else:
            digits.extend(Iter(2, (columns[bit + k] ^ start) - start) for k in range(count))
        bit += count
    offset = {**tile.offset, m: start}
    return TileLayout(fuse_shard(digits[::-1]), tile.replica, sorted_offset(offset))


# -- by values -------------------------------------------------------------------------------------------------------


def _by_table(
    swizzle: SwizzleLayout, tile: TileLayout, limit: int
) -> tuple[SwizzleLayout | None, TileLayout] | None:
    """Try every swizzle on the table of values; None if there are more than ``limit``."""
    import numpy as np

    size = int(tile.size())  # type: ignore[arg-type]
    copies = [(int(i.extent), int(i.stride)) for i in tile.replica if i.axis == m]  # type: ignore[arg-type]
    deltas = np.zeros(1, dtype=np.int64)
    for extent, stride in copies:
        if len(deltas) * extent * size > limit:
            return None
        deltas = np.unique((deltas[:, None] + np.arange(extent) * stride).ravel())
    if size * len(deltas) > limit:
        return None
    values = tile.evaluate(np.arange(size))
    others = {k: v for k, v in values.items() if k != "m"}
    base = values.get("m", np.zeros(size, dtype=np.int64))
    table = np.sort(swizzle.permute_array(base[:, None] + deltas[None, :]), axis=1)
    found = _plain_sets(table, others)
    if found is not None:
        return None, _tile_of_table(tile, *found)
    used = int(np.bitwise_or.reduce(table.ravel()))
    width = max(int(table.max()).bit_length(), int(table.min()).bit_length(), 1)
    for count in range(1, width + 1):
        for low, shift, inner in _survivors(_parameters(count, width, used), table, others):
            candidate = SwizzleLayout(low, count, shift, inner)
            found = _plain_sets(np.sort(candidate.permute_array(table), axis=1), others)
            if found is not None:
                return candidate, _tile_of_table(tile, *found)
    return None


_Parameters = tuple["np.ndarray", "np.ndarray", "np.ndarray", "np.ndarray"]


def _parameters(count: int, width: int, used: int) -> _Parameters:
    """(per_element, atom_len, inner, source mask) of every swizzle of ``count`` bits that reads a bit that occurs in the
    values, in the canonical order."""
    import numpy as np

    shifts = np.arange(count, max(count, width) + 1)
    inner, shift, low = (
        part.ravel() for part in np.meshgrid([True, False], shifts, np.arange(width), indexing="ij")
    )
    source = ((1 << count) - 1) << (low + np.where(inner, shift, 0))
    acts = used & source != 0
    return low[acts], shift[acts], inner[acts], source[acts]


def _survivors(
    parameters: _Parameters, table: np.ndarray, others: dict[str, np.ndarray]
) -> list[tuple[int, int, bool]]:
    """The swizzles without which the first values could still be plain: all are tried on those at once.

    A plain table runs evenly up to its first break, at a divisor of its size, and every further block has the same run;
    its rows are one set of copies, shifted.
    """
    import numpy as np

    low, shift, inner, source = parameters
    size = len(table)
    if table.shape[1] > 1:  # the first rows must be one set, shifted, and symmetric as every sum of progressions is
        rows = table[: max(1, 512 // table.shape[1])][:4]
        picked = rows[None] & source[:, None, None]
        away = shift[:, None, None]
        moved = np.sort(rows[None] ^ np.where(inner[:, None, None], picked >> away, picked << away), axis=2)
        gaps: np.ndarray = moved - moved[:, :, :1]
        ends: np.ndarray = gaps[:, 0] + gaps[:, 0, ::-1]
        kept: np.ndarray = (gaps == gaps[:, :1]).all(axis=(1, 2)) & (ends == ends[:, :1]).all(axis=1)
        low, shift, inner, source = low[kept], shift[kept], inner[kept], source[kept]
    for prefix in _PREFIXES if table.shape[1] == 1 and size >= 4 else ():
        first = table[:prefix, 0]
        length = len(first)
        even = np.ones(length - 1, dtype=bool)  # where the other axes go on as they start
        for values in others.values():
            step = values[1:length] - values[: length - 1]
            even &= step == step[0]
        picked = first[None, :] & source[:, None]
        away = shift[:, None]
        plain = first[None, :] ^ np.where(inner[:, None], picked >> away, picked << away)
        step = plain[:, 1:] - plain[:, :-1]
        same = (step == step[:, :1]) & even[None, :]
        broken = ~same.all(axis=1)
        run = np.where(broken, np.argmin(same, axis=1) + 1, length)
        blocks = np.arange(1, length)[None, :] % run[:, None] == 0
        kept = (same | blocks).all(axis=1) & (~broken | (size % run == 0))
        low, shift, inner, source = low[kept], shift[kept], inner[kept], source[kept]
    return [(int(a), int(b), bool(c)) for a, b, c in zip(low, shift, inner)]


def _plain_sets(
    table: np.ndarray, others: dict[str, np.ndarray]
) -> tuple[list[tuple[int, int, str]], list[tuple[int, int]], int] | None:
    """(digits, copies, start) if every row of the table is one set shifted by a plain address; else None."""
    from .replicas import decompose
    from .table import plain_digits

    base = table[:, 0]
    if table.shape[1] > 1 and not (table - base[:, None] == table[0] - base[0]).all():
        return None
    digits = plain_digits({**others, "m": base})
    if digits is None:
        return None
    copies = decompose([int(x) for x in table[0] - base[0]])
    return None if copies is None else (digits, copies, int(base[0]))


def _tile_of_table(
    tile: TileLayout, digits: Sequence[tuple[int, int, str]], copies: Sequence[tuple[int, int]], start: int
) -> TileLayout:
    replica = [i for i in tile.replica if i.axis != m]
    replica.extend(Iter(e, s) for e, s in copies)
    offset = {**tile.offset, m: start}
    made, _ = canonical_replica(replica, offset)
    return TileLayout(tuple(Iter(e, s, Axis.get(a)) for e, s, a in digits), made, sorted_offset(offset))


# -- large and not affine --------------------------------------------------------------------------------------------


def _apart_from_whole_periods(
    swizzle: SwizzleLayout, tile: TileLayout
) -> tuple[SwizzleLayout | None, TileLayout] | None:
    """Set aside digits and copies that step by whole periods, which the swizzle doesn't see; the rest by bits.

    Exact: adding a multiple of the period changes no bit that is read or written.
    """
    period = swizzle.period
    offset = int(tile.offset.get(m, 0))  # type: ignore[arg-type]
    if any(i.axis == m and int(i.stride) % period for i in tile.replica):  # type: ignore[arg-type]
        return None
    low: list[Iter] = []
    pieces: list[Iter | None] = []  # None: the next digit of the low part
    for it in tile.shard:
        extent, stride = int(it.extent), int(it.stride)  # type: ignore[arg-type]
        if it.axis != m:
            pieces.append(it)
            continue
        fine = 1
        while stride * fine % period:
            fine *= 2
        if extent % fine == 0 and extent != fine:
            pieces.append(Iter(extent // fine, stride * fine))
            extent = fine
        if extent > 1:
            low.append(Iter(extent, stride))
            pieces.append(None)
    found = _by_bits(swizzle, TileLayout(tuple(low), (), {m: offset % period}))
    if found is None:
        return None
    least, plain = found
    if least is not None and period % least.period:
        return None
    digits = list(_refill(low, plain.shard))
    shard: list[Iter] = []
    for piece in pieces:
        if piece is not None:
            shard.append(piece)
        else:
            shard.extend(digits.pop(0))
    start = int(plain.offset.get(m, 0)) + offset - offset % period  # type: ignore[arg-type]
    return least, TileLayout(fuse_shard(shard), tile.replica, sorted_offset({**tile.offset, m: start}))


def _refill(low: Sequence[Iter], plain: Sequence[Iter]) -> list[list[Iter]]:
    """The plain digits cut to the places of the low ones (both have powers of two as extents)."""
    bits: list[Iter] = []
    for it in plain:
        count = int(it.extent).bit_length() - 1  # type: ignore[arg-type]
        bits.extend(Iter(2, int(it.stride) << k, it.axis) for k in reversed(range(count)))  # type: ignore[arg-type]
    made: list[list[Iter]] = []
    for it in low:
        count = int(it.extent).bit_length() - 1  # type: ignore[arg-type]
        made.append(bits[:count])
        bits = bits[count:]
    return made
