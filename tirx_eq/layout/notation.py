"""The notation for tile layouts: ``S[extents : strides] + R[extents : strides] + offset``.

``S`` is the shard (where element x goes), ``R`` the replica (which further places hold it), an offset is ``n`` on axis
m or ``n @ axis``.  A stride without axis is on ``m``; strides that are left out are row-major.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import LayoutError
from .axis import Axis, OnAxis, m
from .value import Value, add, as_value, mul


@dataclass(frozen=True)
class Spec:
    """Shard, replica and offset as written, iters as ``(extent, stride, axis)``; ``TileLayout(spec)`` is the layout."""

    shard: tuple[tuple[Value, Value, Axis], ...] = ()
    replica: tuple[tuple[Value, Value, Axis], ...] = ()
    offset: tuple[tuple[Axis, Value], ...] = ()

    def __add__(self, other: Any) -> Spec:
        if isinstance(other, Spec):
            if other.shard and self.shard:
                raise LayoutError("a layout has one S[...]; use R[...] for copies and numbers for offsets")
            if other.shard:
                raise LayoutError("S[...] must come first in a layout")
            if other.replica and self.replica:
                raise LayoutError("a layout has one R[...]", hint="write R[(e1, e2) : (s1, s2)]")
            return Spec(self.shard, self.replica + other.replica, _merge(self.offset, other.offset))
        return Spec(self.shard, self.replica, _merge(self.offset, (_offset(other),)))

    def __radd__(self, other: Any) -> Spec:
        raise LayoutError("S[...] must come first in a layout")


def _offset(value: Any) -> tuple[Axis, Value]:
    if isinstance(value, OnAxis):
        return value.axis, value.value
    return m, as_value(value, "an offset")


def _merge(a: tuple[tuple[Axis, Value], ...], b: tuple[tuple[Axis, Value], ...]) -> tuple[tuple[Axis, Value], ...]:
    total = dict(a)
    for axis, value in b:
        total[axis] = add(total[axis], value) if axis in total else value
    return tuple(total.items())


def row_major(extents: tuple[Value, ...]) -> tuple[Value, ...]:
    """Strides of a compact row-major array of these extents."""
    strides: list[Value] = []
    below: Value = 1
    for extent in reversed(extents):
        strides.append(below)
        below = mul(below, extent)
    return tuple(reversed(strides))


def _iters(kind: str, key: Any) -> tuple[tuple[Value, Value, Axis], ...]:
    if isinstance(key, slice):
        if key.step is not None:
            raise LayoutError(f"{kind}[...] takes extents : strides and nothing after")
        raw_extents, raw_strides = key.start, key.stop
    else:
        raw_extents, raw_strides = key, None
    extents = tuple(as_value(e, f"an extent in {kind}[...]") for e in _tuple(raw_extents))
    if raw_strides is None:
        return tuple((e, s, m) for e, s in zip(extents, row_major(extents)))
    strides = _tuple(raw_strides)
    if len(strides) != len(extents):
        raise LayoutError(f"{kind}[...] has {len(extents)} extents but {len(strides)} strides")
    made = []
    for extent, stride in zip(extents, strides):
        if isinstance(stride, OnAxis):
            made.append((extent, stride.value, stride.axis))
        else:
            made.append((extent, as_value(stride, f"a stride in {kind}[...]"), m))
    return tuple(made)


def _tuple(value: Any) -> tuple[Any, ...]:
    if value is None:
        raise LayoutError("S[...] and R[...] need extents")
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


class _Builder:
    """``S`` or ``R``; indexing builds the part."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __getitem__(self, key: Any) -> Spec:
        iters = _iters(self._kind, key)
        return Spec(shard=iters) if self._kind == "S" else Spec(replica=iters)

    def __repr__(self) -> str:
        return self._kind


S = _Builder("S")
R = _Builder("R")
