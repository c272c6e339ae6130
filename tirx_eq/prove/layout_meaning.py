"""The definition of a layout, written out a second time from its specification dict.

Verdicts about layouts are made with ``tirx_eq.layout`` and checked with this: a scalar evaluator, an array evaluator,
and index terms.  Nothing here calls the layout package.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from ..ir.index import Term

Spec = Mapping[str, Any]
Place = tuple[tuple[str, int], ...]


def tile_of(spec: Spec, size: int) -> tuple[Spec | None, Spec]:
    """(swizzle or None, tile); a bare swizzle is over the identity of ``size`` elements."""
    if spec["kind"] == "tile":
        return None, spec
    if spec["kind"] == "swizzle":
        return spec, {"kind": "tile", "shard": [[size, 1, "m"]], "replica": [], "offset": {}}
    return spec.get("swizzle", spec), spec["tile"]


def size_of(spec: Spec) -> int | None:
    """Number of elements; None for a bare swizzle, which admits any."""
    if spec["kind"] == "swizzle":
        return None
    total = 1
    for extent, _, _ in tile_of(spec, 1)[1]["shard"]:
        total *= extent
    return total


def swizzled(swizzle: Spec, m: Any) -> Any:
    """The swizzled address; also of an array."""
    low, count, shift = swizzle["per_element"], swizzle["swizzle_len"], swizzle["atom_len"]
    ones = (1 << count) - 1
    if swizzle.get("swizzle_inner", True):
        return m ^ ((m >> (low + shift) & ones) << low)
    return m ^ ((m >> low & ones) << (low + shift))


def places(spec: Spec, flat: int, size: int) -> list[Place]:
    """All places of element ``flat``, each sorted (axis, value) pairs without zeros; sorted, without repetitions."""
    swizzle, tile = tile_of(spec, size)
    base: dict[str, int] = dict(tile.get("offset", {}))
    rest = flat
    for extent, stride, axis in reversed(tile["shard"]):
        rest, digit = divmod(rest, extent)
        base[axis] = base.get(axis, 0) + digit * stride
    found = set()
    copies = tile.get("replica", [])
    for steps in product(*(range(e) for e, _, _ in copies)):
        at = dict(base)
        for r, (_, stride, axis) in zip(steps, copies):
            at[axis] = at.get(axis, 0) + r * stride
        if swizzle is not None:
            at["m"] = swizzled(swizzle, at.get("m", 0))
        found.add(tuple(sorted((a, v) for a, v in at.items() if v)))
    return sorted(found)


def copies_of(spec: Spec) -> int:
    """Places that each element has, counted with repetitions."""
    total = 1
    for extent, _, _ in tile_of(spec, 1)[1].get("replica", []):
        total *= extent
    return total


def table(spec: Spec, size: int) -> tuple[list[str], Any]:
    """(axes, array of shape (axes, elements, copies)) of all places, unsorted."""
    import numpy as np

    swizzle, tile = tile_of(spec, size)
    replica = tile.get("replica", [])
    axes = sorted({a for _, _, a in (*tile["shard"], *replica)} | set(tile.get("offset", {})) | {"m"})
    values = {a: np.full((size, 1), tile.get("offset", {}).get(a, 0), dtype=np.int64) for a in axes}
    rest = np.arange(size, dtype=np.int64)
    for extent, stride, axis in reversed(tile["shard"]):
        rest, digit = np.divmod(rest, extent)
        values[axis] = values[axis] + (digit * stride)[:, None]
    for extent, stride, axis in replica:
        step = np.arange(extent, dtype=np.int64) * stride
        for a in axes:
            add = step if a == axis else np.zeros(extent, dtype=np.int64)
            values[a] = (values[a][:, :, None] + add[None, None, :]).reshape(size, -1)
    if swizzle is not None:
        values["m"] = swizzled(swizzle, values["m"])
    return axes, np.stack([values[a] for a in axes])


def keys(tables: Sequence[tuple[list[str], Any]]) -> list[Any]:
    """Each table as one integer per place (elements, copies), comparable between tables: equal place, equal key.

    Raises ``OverflowError`` if the places need more than 62 bits.
    """
    import numpy as np

    axes = sorted({a for names, _ in tables for a in names})
    low = dict.fromkeys(axes, 0)
    high = dict.fromkeys(axes, 0)
    for names, values in tables:
        for k, a in enumerate(names):
            low[a], high[a] = min(low[a], int(values[k].min())), max(high[a], int(values[k].max()))
    total = 1
    for a in axes:
        total *= high[a] - low[a] + 1
    if total >= 1 << 62:
        raise OverflowError("places need more than 62 bits")
    out = []
    for names, values in tables:
        key = np.zeros(values.shape[1:], dtype=np.int64)
        for a in axes:
            key = key * (high[a] - low[a] + 1)
            key += (values[names.index(a)] if a in names else 0) - low[a]
        out.append(key)
    return out


def terms(spec: Spec, size: int, x: Term = "x", copy: str = "r") -> tuple[dict[str, Term], dict[str, tuple[int, int]]]:
    """Each axis as an index term in ``x`` (and one variable per replica), with the ranges of the replica variables."""
    swizzle, tile = tile_of(spec, size)
    out: dict[str, Term] = dict(tile.get("offset", {}))
    ranges: dict[str, tuple[int, int]] = {}

    def plus(axis: str, digit: Term, stride: int) -> None:
        part: Term = digit if stride == 1 else ("mul", digit, stride)
        out[axis] = ("add", out[axis], part) if axis in out else part

    rest: Term = x
    left = size
    for extent, stride, axis in reversed(tile["shard"]):
        left //= extent
        if extent > 1:
            plus(axis, rest if left == 1 else ("mod", rest, extent), stride)
            rest = ("div", rest, extent)
    for k, (extent, stride, axis) in enumerate(tile.get("replica", [])):
        if extent > 1:
            ranges[f"{copy}{k}"] = (0, extent - 1)
            plus(axis, f"{copy}{k}", stride)
    if swizzle is not None and swizzle["swizzle_len"]:
        low, count, shift = swizzle["per_element"], swizzle["swizzle_len"], swizzle["atom_len"]
        ones = (1 << count) - 1
        m = out.get("m", 0)
        if swizzle.get("swizzle_inner", True):
            out["m"] = ("xor", m, ("shr", ("and", m, ones << (low + shift)), shift))
        else:
            out["m"] = ("xor", m, ("shl", ("and", m, ones << low), shift))
    return out, ranges
