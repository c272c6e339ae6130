"""Distributions of any kind, by their tables: register moves where everything is at hand, else a tile in shared memory.

The tile holds the elements in order, as rows with a pitch or an XOR swizzle from :func:`best_layout`; a thread's share of an
address is found as a sum of digits of its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...layout import ComposeLayout, SwizzleLayout
from ...layout.conflicts import unflatten
from ...redistribution.distribution import Distribution
from ...redistribution.plan import Barrier, Builder, Get, Plan, Put, Term, pruned, thread_values
from ..memory.access import WARP, WarpAccess
from ..memory.best_layout import BestLayout, best_layout

Array = np.ndarray
WIDEST = 16


def register_plan(src: Distribution, dst: Distribution) -> Plan | None:
    """Moves within each thread, the same in all threads; None where an element isn't there."""
    size, per_word = src.bits // 8, 32 // src.bits
    b = Builder(src.words)
    slots: list[int | None] = []
    for k in range(dst.held.shape[1]):
        wanted = dst.held[:, k]
        live = wanted >= 0
        if not live.any():
            slots.append(None)
            continue
        first = int(np.argmax(live))
        here = [int(s) for s in np.flatnonzero(src.held[first] == wanted[first])]
        mine = next((s for s in here if (src.held[live, s] == wanted[live]).all()), None)
        if mine is None:
            return None
        slots.append(mine)
    outputs = []
    for word in range(dst.words):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e, slot in enumerate(slots[word * per_word : (word + 1) * per_word]):
            if slot is not None:
                for byte in range(size):
                    parts[e * size + byte] = (slot // per_word, slot % per_word * size + byte)
        outputs.append(b.gather(parts))
    note = "every element stays in its thread"
    return Plan("registers", src.threads, src.words, pruned(b.steps, outputs), tuple(outputs), 0, note)


def widest_vector(d: Distribution, columns: int) -> int:
    """Elements of the longest access: neighbouring slots that are neighbouring, aligned elements in every thread."""
    vector = WIDEST * 8 // d.bits
    while vector > 1:
        if columns % vector == 0 and d.held.shape[1] % vector == 0:
            group = d.held.reshape(d.threads, -1, vector)
            first = group[:, :, :1]
            neighbours = (group == first + np.arange(vector)) & (first % vector == 0)
            if (neighbours.all(axis=2) | (group == -1).all(axis=2)).all():
                return vector
        vector //= 2
    return 1


def accesses_of(d: Distribution, shape: Sequence[int], vector: int, store: bool) -> list[WarpAccess]:
    """One access per warp and group of slots; a store writes each element once."""
    starts = group_starts(d, vector, store)
    made = []
    for k in range(starts.shape[1]):
        for warp in range(d.threads // WARP):
            lanes = [None if s < 0 else unflatten(int(s), shape) for s in starts[warp * WARP : (warp + 1) * WARP, k]]
            if any(c is not None for c in lanes):
                made.append(WarpAccess(f"{'store' if store else 'load'} {k} of warp {warp}", tuple(lanes), vector))
    return made


def group_starts(d: Distribution, vector: int, store: bool) -> Array:
    """(threads, groups): the first element of each access, -1 where a thread takes no part."""
    starts = d.held[:, ::vector].copy()
    if store:
        seen = np.zeros(d.size, dtype=bool)
        for k in range(starts.shape[1]):
            _, first = np.unique(starts[:, k], return_index=True)
            once = np.zeros(d.threads, dtype=bool)
            once[first] = True
            mine = starts[:, k]
            keep = once & (mine >= 0)
            keep[keep] &= ~seen[mine[keep]]
            seen[mine[keep]] = True
            starts[~keep, k] = -1
    return starts


def padded_round_trip(src: Distribution, dst: Distribution, shape: Sequence[int]) -> BestLayout:
    """The best row pitch for a round trip of these distributions through a row-major tile."""
    return best_layout(shape, _dtype(src), _both(src, dst, shape), family="padding")


def _both(src: Distribution, dst: Distribution, shape: Sequence[int]) -> list[WarpAccess]:
    columns = shape[-1]
    return [
        *accesses_of(src, shape, widest_vector(src, columns), True),
        *accesses_of(dst, shape, widest_vector(dst, columns), False),
    ]


def _dtype(d: Distribution) -> str:
    return f"uint{d.bits}"


def table_plan(src: Distribution, dst: Distribution, shape: Sequence[int]) -> Plan | str:
    """The plan through a padded or swizzled tile of ``shape``, or why there is none."""
    columns, size = shape[-1], src.bits // 8
    found = best_layout(shape, _dtype(src), _both(src, dst, shape), family=("padding", "xor"))
    pitch, swizzle = _pitch_of(found, columns)
    b = Builder(src.words)
    per_word = 32 // src.bits
    for store, d in ((True, src), (False, dst)):
        vector = widest_vector(d, columns)
        starts = group_starts(d, vector, store)
        width = vector * size
        loaded: dict[int, tuple[int, int]] = {}
        for k in range(starts.shape[1]):
            live = starts[:, k] >= 0
            if not live.any():
                continue
            term = thread_term(starts[:, k])
            if term is None:
                return "no digits of the thread number give the elements' addresses"
            address = _placed(term, columns, pitch, swizzle, size)
            guard = None if live.all() else _live(live)
            if not store:
                outs = tuple(b.new() for _ in range(max(1, width // 4)))
                b.steps.append(Get(outs, address, 0, width, guard))
                for i in range(vector):
                    loaded[k * vector + i] = (outs[i * size // 4], i * size % 4)
                continue
            b.steps.append(Put(tuple(_words(b, k * vector, vector, size, per_word)), address, 0, width, guard))
        if store:
            b.steps.append(Barrier("cta" if src.threads > WARP else "warp"))
    outputs: list[int | None] = []
    for word in range(dst.words):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e in range(per_word):
            place = loaded.get(word * per_word + e)
            for byte in range(size):
                parts[e * size + byte] = None if place is None else (place[0], place[1] + byte)
        outputs.append(b.gather(parts))
    note = f"a tile of {'x'.join(map(str, shape))}, {found.label}"
    shared = -(-found.bytes // 16) * 16
    return Plan("shared", src.threads, src.words, pruned(b.steps, outputs), tuple(outputs), shared, note)


def _words(b: Builder, first: int, vector: int, size: int, per_word: int) -> list[int]:
    out = []
    for start in range(0, vector, per_word):
        parts: list[tuple[int, int] | None] = [None] * 4
        for e in range(min(per_word, vector)):
            slot = first + start + e
            for byte in range(size):
                parts[e * size + byte] = (slot // per_word, slot % per_word * size + byte)
        made = b.gather(parts)
        assert made is not None
        out.append(made)
    return out


def _pitch_of(found: BestLayout, columns: int) -> tuple[int, SwizzleLayout | None]:
    layout: Any = found.layout
    tile = layout.tile if isinstance(layout, ComposeLayout) else layout
    pitch = int(tile.shard[-2].stride) if len(tile.shard) > 1 else columns  # type: ignore[arg-type]
    return pitch, layout.swizzle if isinstance(layout, ComposeLayout) else None


def _placed(element: Term, columns: int, pitch: int, swizzle: SwizzleLayout | None, size: int) -> Term:
    """The byte address of an element's term."""
    at = element
    if pitch != columns:
        at = ("add", ("mul", ("div", element, columns), pitch), ("mod", element, columns))
    if swizzle is not None and swizzle.swizzle_len:
        picked: Term = ("and", at, swizzle.source_mask)
        at = ("xor", at, ("shr" if swizzle.swizzle_inner else "shl", picked, swizzle.atom_len))
    return ("mul", at, size) if size > 1 else at


def _is_prefix(live: Array) -> bool:
    count = int(live.sum())
    return bool(live[:count].all())


def _live(live: Array) -> Term:
    return ("lt", "tid", int(live.sum()))


def thread_term(values: Array) -> Term | None:
    """An index term over ``tid`` that is ``values[tid]`` wherever that is not negative; None if those aren't a range of
    threads from 0 on, or no sum of digits gives them."""
    live = values >= 0
    count = int(live.sum())
    if not _is_prefix(live):
        return None
    digits = _digits([int(v) for v in values[:count]])
    if digits is None:
        return None
    term: Term = int(values[0])
    for divisor, extent, stride, last in digits:
        if not stride:
            continue
        part: Term = ("div", "tid", divisor) if divisor > 1 else "tid"
        part = part if last else ("mod", part, extent)
        part = ("mul", part, stride) if stride != 1 else part
        term = part if term == 0 else ("add", term, part)
    assert (thread_values(term, count) == values[:count]).all()
    return term


def _digits(values: list[int]) -> list[tuple[int, int, int, bool]] | None:
    """(divisor, extent, stride, is the leading one) with values[t] = values[0] + sum of (t // divisor % extent) * stride."""

    def cut(rest: list[int], divisor: int) -> list[tuple[int, int, int, bool]] | None:
        n = len(rest)
        if n == 1:
            return []
        stride = rest[1] - rest[0]
        for extent in range(n, 1, -1):
            if n % extent or any(rest[i] != rest[0] + i * stride for i in range(extent)):
                continue
            heads = rest[::extent]
            if all(rest[i] == heads[i // extent] + i % extent * stride for i in range(n)):
                more = cut(heads, divisor * extent)
                if more is not None:
                    return [(divisor, extent, stride, extent == n), *more]
        return None

    return cut(values, 1)
