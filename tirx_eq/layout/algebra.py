"""Operations that make new layouts of given ones; each states when it is defined and refuses otherwise."""

from __future__ import annotations

from .axis import Axis
from .base import Layout
from .compose import ComposeLayout
from .tile import TileLayout


def storage(layout: Layout) -> Layout:
    """The layout without its thread axes: what one thread's part of it addresses in memory.

    Iters, copies and offsets on thread axes are dropped; sizes shrink accordingly.
    """
    if isinstance(layout, ComposeLayout):
        return ComposeLayout(layout.swizzle, _memory_part(layout.tile))
    return _memory_part(layout) if isinstance(layout, TileLayout) else layout


def _memory_part(tile: TileLayout) -> TileLayout:
    keep: dict[Axis, object] = {a: v for a, v in tile.offset.items() if a.is_memory()}
    return TileLayout.from_iters(
        [i for i in tile.shard if i.axis.is_memory()], [i for i in tile.replica if i.axis.is_memory()], keep
    )
