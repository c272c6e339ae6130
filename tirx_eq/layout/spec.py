"""Layouts as JSON specification dicts (design section 8), in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import LayoutError
from .base import Layout
from .compose import ComposeLayout
from .open import OpenLayout
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout


def from_json(data: Mapping[str, Any]) -> Layout:
    """The layout of a dict ``{"kind": "tile" | "swizzle" | "compose" | "auto", ...}``.

    A compose may hold its swizzle as a dict or spelled out as fields of its own.
    LayoutError names the field that is missing or wrong.
    """
    if not isinstance(data, Mapping):
        raise LayoutError(f"a layout specification must be an object, got {data!r}")
    kind = data.get("kind")
    if kind == "tile":
        return _tile(data)
    if kind == "swizzle":
        return _swizzle(data)
    if kind == "compose":
        if "tile" not in data:
            raise LayoutError("layout specification: a compose needs the field 'tile'")
        return ComposeLayout(_swizzle(data.get("swizzle", data)), _tile(data["tile"]))
    if kind == "auto":
        through = data.get("through")
        made = None if through is None else _tile(through)
        return OpenLayout(data.get("swizzle"), data.get("contiguous"), data.get("thread_axis"), made)
    raise LayoutError(f"layout specification: kind {kind!r} is none of tile, swizzle, compose, auto")


def _swizzle(data: Mapping[str, Any]) -> SwizzleLayout:
    try:
        return SwizzleLayout(
            data["per_element"], data["swizzle_len"], data["atom_len"], data.get("swizzle_inner", True)
        )
    except KeyError as e:
        raise LayoutError(f"layout specification: a swizzle needs the field {e}") from None


def _tile(data: Mapping[str, Any]) -> TileLayout:
    if "shard" not in data:
        raise LayoutError("layout specification: a tile needs the field 'shard'")
    shard, replica = _iters(data["shard"], "shard"), _iters(data.get("replica", ()), "replica")
    return TileLayout(shard, replica, data.get("offset", {}))


def _iters(rows: Any, what: str) -> tuple[Iter, ...]:
    if not isinstance(rows, (list, tuple)):
        raise LayoutError(f"layout specification: {what} must be a list of [extent, stride, axis]")
    made = []
    for k, row in enumerate(rows):
        if not isinstance(row, (list, tuple)) or len(row) not in (2, 3):
            raise LayoutError(f"layout specification: {what}[{k}] must be [extent, stride, axis], got {row!r}")
        made.append(Iter(*row))
    return tuple(made)
