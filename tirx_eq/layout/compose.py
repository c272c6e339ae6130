"""``ComposeLayout``: a tile layout, then a swizzle of its memory address (axis ``m``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..ir.node import node
from .base import Layout
from .swizzle import SwizzleLayout
from .tile import TileLayout
from .value import Value

if TYPE_CHECKING:
    import numpy as np


@node("layout.ComposeLayout")
class ComposeLayout(Layout):
    """``swizzle`` after ``tile``: element x is at ``swizzle(tile(x).m)``; other axes of the tile are left alone.

    Written ``ComposeLayout(swizzle, tile)`` or, as the reference does, ``ComposeLayout(per_element, swizzle_len,
    atom_len, tile, swizzle_inner=True)``.  A replica on m is inside the swizzle: each copy is swizzled by itself.
    """

    swizzle: SwizzleLayout
    tile: TileLayout

    # dataclass(frozen) makes __init__ unless the class has one; this one accepts both spellings.
    def __init__(
        self,
        swizzle: Any = None,
        tile: Any = None,
        atom_len: Any = None,
        tile_layout: TileLayout | None = None,
        swizzle_inner: bool = True,
        *,
        per_element: int | None = None,
        swizzle_len: int | None = None,
    ) -> None:
        if isinstance(swizzle, SwizzleLayout):
            made, inner = swizzle, tile if tile is not None else tile_layout
        else:
            first = swizzle if per_element is None else per_element
            second = tile if swizzle_len is None and not isinstance(tile, TileLayout) else swizzle_len
            inner = tile if isinstance(tile, TileLayout) else tile_layout
            if first is None or second is None or atom_len is None:
                raise LayoutError("ComposeLayout needs (swizzle, tile) or (per_element, swizzle_len, atom_len, tile)")
            made = SwizzleLayout(first, second, atom_len, swizzle_inner)
        if not isinstance(inner, TileLayout):
            raise LayoutError(f"ComposeLayout needs a TileLayout under the swizzle, got {inner!r}")
        object.__setattr__(self, "swizzle", made)
        object.__setattr__(self, "tile", inner)

    @property
    def per_element(self) -> int:
        return self.swizzle.per_element

    @property
    def swizzle_len(self) -> int:
        return self.swizzle.swizzle_len

    @property
    def atom_len(self) -> int:
        return self.swizzle.atom_len

    @property
    def swizzle_inner(self) -> bool:
        return self.swizzle.swizzle_inner

    @property
    def tile_layout(self) -> TileLayout:
        """The tile layout (the reference's name for it)."""
        return self.tile

    def size(self, axis: Any = None) -> Value:
        return self.tile.size(axis)

    def axes(self) -> tuple[str, ...]:
        return self.tile.axes()

    def is_swizzle(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return self.tile.is_constant()

    def _coordinates(self, coord: Sequence[Value], shape: Sequence[Value] | None) -> dict[str, Value]:
        found = self.tile._coordinates(coord, shape)
        if "m" in found:
            found["m"] = self.swizzle.permute(found["m"])
        return found

    def evaluate(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        found = self.tile.evaluate(flat)
        if "m" in found:
            found["m"] = self.swizzle.permute_array(found["m"])
        return found

    def script(self, prefix: str = "Tx") -> str:
        dot = f"{prefix}." if prefix else ""
        s = self.swizzle
        inner = "" if s.swizzle_inner else ", swizzle_inner=False"
        return f"{dot}ComposeLayout({s.per_element}, {s.swizzle_len}, {s.atom_len}, {self.tile.script(prefix)}{inner})"

    def to_json(self) -> dict[str, Any]:
        return {"kind": "compose", "swizzle": self.swizzle.to_json(), "tile": self.tile.to_json()}

    def __repr__(self) -> str:
        return self.script(prefix="")

    def __str__(self) -> str:
        return self.script(prefix="T")
