"""A digest of a layout's meaning by its table of values: equal exactly when size and meaning are (up to SHA-256).

The fallback where the canonical form isn't complete (large swizzled layouts whose digits carry).  Values are evaluated
with numpy: about 1 ms for 8,192 elements.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ..errors import LayoutError
from .axis import Axis
from .base import Layout
from .compose import ComposeLayout
from .image import digits_on
from .replicas import sum_set
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout

if TYPE_CHECKING:
    import numpy as np

#: most values (elements times copies) in a table
TABLE_LIMIT = 1 << 22



def as_compose(layout: Layout, size: int | None = None) -> tuple[SwizzleLayout | None, TileLayout]:
    """(swizzle or None, tile); a bare swizzle is over the identity of ``size`` elements (default one period)."""
    if isinstance(layout, SwizzleLayout):
        return layout, TileLayout((Iter(layout.period if size is None else size, 1),))
    if isinstance(layout, ComposeLayout):
        return layout.swizzle, layout.tile
    assert isinstance(layout, TileLayout)
    return None, layout


def value_table(
    layout: Layout, size: int | None = None
) -> tuple[dict[str, np.ndarray], dict[str, list[int]], np.ndarray | None]:
    """The meaning as (least coordinate per axis and element, copies per axis as shifts from it, rows of m).

    Axes that are always 0 are left out; the third part is used only if the copies on m differ between elements.
    LayoutError for symbolic layouts and beyond 2**22 values.
    """
    import numpy as np

    swizzle, tile = as_compose(layout, size)
    if not tile.is_constant():
        raise LayoutError("digest: the layout has symbolic extents, strides or offsets")
    count = int(tile.size())  # type: ignore[arg-type]
    if count > TABLE_LIMIT:
        raise LayoutError(f"digest: {count} elements are more than the {TABLE_LIMIT} that are tabulated")
    base = tile.evaluate(np.arange(count, dtype=np.int64))
    copies: dict[str, list[int]] = {}
    rows: np.ndarray | None = None
    for name in {i.axis.name for i in tile.replica}:
        parts = digits_on(TileLayout((), tile.replica), name)
        low = sum((e - 1) * s for e, s in parts if s < 0)
        shifts = sum_set([(e, abs(s)) for e, s in parts])
        if shifts is None or (name == "m" and swizzle is not None and len(shifts) * count > TABLE_LIMIT):
            raise LayoutError(f"digest: the copies on axis {name} are more than are tabulated")
        base[name] = base.get(name, np.zeros(count, dtype=np.int64)) + low
        copies[name] = shifts
    if swizzle is not None and "m" in base:
        if len(copies.get("m", [0])) == 1:
            base["m"] = swizzle.permute_array(base["m"])
        else:
            table = np.sort(swizzle.permute_array(base["m"][:, None] + np.array(copies.pop("m"))[None, :]), axis=1)
            base["m"] = table[:, 0]
            shifted = table - table[:, :1]
            if (shifted == shifted[0]).all():
                copies["m"] = [int(v) for v in shifted[0]]
            else:
                rows = shifted
    used = {n: v for n, v in base.items() if v.any()}
    return used, {n: s for n, s in copies.items() if len(s) > 1}, rows


def table_digest(layout: Layout, size: int | None = None) -> str:
    """SHA-256 of the table of values; see :func:`value_table` for the limits."""
    import numpy as np

    _, tile = as_compose(layout, size)
    base, copies, rows = value_table(layout, size)
    digest = hashlib.sha256(str(tile.size()).encode())
    for name in sorted(base, key=lambda n: Axis.get(n).name):
        digest.update(f"|{name}|".encode())
        digest.update(np.ascontiguousarray(base[name]).tobytes())
    digest.update(repr(sorted(copies.items())).encode())
    if rows is not None:
        digest.update(np.ascontiguousarray(rows).tobytes())
    return digest.hexdigest()
