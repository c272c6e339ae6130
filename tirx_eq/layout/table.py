"""Maps given by their values: recognising a tile of digits in a table.

A table is one int64 array per axis, value at flat index x.  It is *plain* if it is a sum of digits times strides, each
stride on one axis, plus a constant.  The digits of a plain table, fused as far as they go, are unique: the innermost
stride is the first step, its extent the longest run of that step, and so on outwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

Digit = tuple[int, int, str]


def plain_digits(values: Mapping[str, np.ndarray]) -> list[Digit] | None:
    """Digits (extent, stride, axis) of a plain table, outermost first, fused; None if the table isn't plain.

    A step of zero on every axis is a digit of stride 0 on ``m``.  The constant is the value at 0.
    """
    import numpy as np

    if not values:
        return None
    names = sorted(values)
    table = np.stack([values[n] for n in names])
    digits: list[Digit] = []
    while table.shape[1] > 1:
        step = table[:, 1] - table[:, 0]
        moving = np.flatnonzero(step)
        if len(moving) > 1:
            return None
        same = (table[:, 1:] - table[:, :-1] == step[:, None]).all(axis=0)
        breaks = np.flatnonzero(~same)
        run = int(breaks[0]) + 1 if len(breaks) else table.shape[1]
        if table.shape[1] % run:
            return None
        grid = table.reshape(len(names), -1, run)
        ramp = step[:, None] * np.arange(run, dtype=np.int64)[None, :]
        if not (grid == grid[:, :, :1] + ramp[:, None, :]).all():
            return None
        stride, axis = (int(step[moving[0]]), names[moving[0]]) if len(moving) else (0, "m")
        digits.append((run, stride, axis))
        table = np.ascontiguousarray(grid[:, :, 0])
    return digits[::-1]
