"""The definition of a layout, written out as plainly as possible: what every test compares with.

Nothing here uses the package's own evaluation: a layout is read from its specification dict.
"""

from __future__ import annotations

from itertools import product


def image(spec: dict, flat: int) -> dict[str, frozenset] | frozenset:
    """The set of coordinates of element ``flat``, each a frozenset of (axis, value) pairs without zeros."""
    if spec["kind"] == "swizzle":
        return frozenset({_point({"m": swizzle(spec, flat)})})
    tile = spec["tile"] if spec["kind"] == "compose" else spec
    base: dict[str, int] = dict(tile.get("offset", {}))
    rest = flat
    for extent, stride, axis in reversed(tile["shard"]):
        base[axis] = base.get(axis, 0) + rest % extent * stride
        rest //= extent
    places = set()
    for copies in product(*(range(e) for e, _, _ in tile.get("replica", []))):
        at = dict(base)
        for r, (_, stride, axis) in zip(copies, tile.get("replica", [])):
            at[axis] = at.get(axis, 0) + r * stride
        if spec["kind"] == "compose":
            at["m"] = swizzle(spec.get("swizzle", spec), at.get("m", 0))
        places.add(_point(at))
    return frozenset(places)


def swizzle(spec: dict, m: int) -> int:
    low, count, shift = spec["per_element"], spec["swizzle_len"], spec["atom_len"]
    q, r = m >> low, m & ((1 << low) - 1)
    ones = (1 << count) - 1
    q ^= (q & ones << shift) >> shift if spec.get("swizzle_inner", True) else (q & ones) << shift
    return (q << low) + r


def _point(at: dict[str, int]) -> frozenset:
    return frozenset((axis, v) for axis, v in at.items() if v)


def size(spec: dict) -> int:
    tile = spec["tile"] if spec["kind"] == "compose" else spec
    total = 1
    for extent, _, _ in tile["shard"]:
        total *= extent
    return total


def table(spec: dict, count: int | None = None) -> tuple:
    """The whole meaning of a layout, comparable and hashable."""
    return tuple(image(spec, x) for x in range(size(spec) if count is None else count))


def meaning(spec: dict, count: int | None = None):
    """As :func:`table`, but one tuple per axis (zeros left out) where every element has one place; quick then."""
    tile = spec["tile"] if spec["kind"] == "compose" else spec
    n = count if count is not None else size(spec)
    if spec["kind"] == "swizzle" or all(e == 1 or s == 0 for e, s, _ in tile.get("replica", [])):
        return frozenset((a, v) for a, v in _columns(spec, n).items() if any(v))
    found = table(spec, n)
    if any(len(places) > 1 for places in found):
        return found
    columns: dict[str, list[int]] = {}
    for x, (point,) in enumerate(found):
        for axis, v in point:
            columns.setdefault(axis, [0] * n)[x] = v
    return frozenset((a, tuple(v)) for a, v in columns.items())


def _columns(spec: dict, n: int) -> dict[str, tuple]:
    import numpy as np

    flat = np.arange(n, dtype=object if n > 1 << 40 else np.int64)
    if spec["kind"] == "swizzle":
        return {"m": tuple(_swizzled(spec, flat).tolist())}
    tile = spec["tile"] if spec["kind"] == "compose" else spec
    columns = {axis: np.full(n, v) for axis, v in tile.get("offset", {}).items()}
    for extent, stride, axis in reversed(tile["shard"]):
        columns[axis] = columns.get(axis, 0) + flat % extent * stride
        flat = flat // extent
    if spec["kind"] == "compose" and "m" in columns:
        columns["m"] = _swizzled(spec.get("swizzle", spec), columns["m"])
    return {axis: tuple(v.tolist()) for axis, v in columns.items()}


def _swizzled(spec: dict, m):
    low, count, shift = spec["per_element"], spec["swizzle_len"], spec["atom_len"]
    q, r = m >> low, m % (1 << low)
    ones = (1 << count) - 1
    q = q ^ ((q & ones << shift) >> shift if spec.get("swizzle_inner", True) else (q & ones) << shift)
    return (q << low) + r


def flat_of(coord, shape) -> int:
    flat = 0
    for c, e in zip(coord, shape):
        flat = flat * e + c
    return flat


def coords(shape):
    return product(*(range(e) for e in shape))
