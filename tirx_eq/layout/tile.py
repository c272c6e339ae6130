"""``TileLayout``: digits of the index times strides on named axes, plus copies, plus an offset.

For flat index x (row-major over any shape of the right size) the shard splits x into digits, last iter fastest:
``c_k = x // (e_{k+1} * … * e_n) % e_k``; the base point is ``sum of c_k * stride_k`` per axis plus the offset.  The
replica adds every combination ``r_t * stride_t`` with ``0 <= r_t < extent_t``: each of these places holds the element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..ir.expr import Expr
from ..ir.node import node
from .axis import Axis, m
from .base import Layout
from .notation import Spec, row_major
from .value import Value, add, as_value, div, mod, mul, prod

if TYPE_CHECKING:
    import numpy as np


@node("layout.Iter")
class Iter:
    """One digit: ``extent`` values, ``stride`` apart on ``axis``.  A constant extent must be at least 1."""

    extent: Value
    stride: Value
    axis: Axis = m

    def __post_init__(self) -> None:
        object.__setattr__(self, "extent", as_value(self.extent, "the extent of an iter"))
        object.__setattr__(self, "stride", as_value(self.stride, "the stride of an iter"))
        object.__setattr__(self, "axis", Axis.get(self.axis))
        if isinstance(self.extent, int) and self.extent < 1:
            raise LayoutError(f"the extent of an iter must be at least 1, got {self.extent} (stride {self.stride})")

    def __repr__(self) -> str:
        return f"Iter({self.extent}, {self.stride}, {self.axis.name!r})"


@node("layout.TileLayout")
class TileLayout(Layout):
    """Shard, replica and offset; usually ``TileLayout(S[(128, 64) : (64, 1)] + R[2 : 64 @ TLane] + 5 @ TCol)``."""

    shard: tuple[Iter, ...]
    replica: tuple[Iter, ...] = ()
    offset: dict[Axis, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shard: Any = self.shard
        if isinstance(shard, Spec):
            if self.replica or self.offset:
                raise LayoutError("TileLayout(S[...] …) takes no further replica or offset")
            iters = tuple(Iter(*i) for i in shard.shard)
            object.__setattr__(self, "replica", tuple(Iter(*i) for i in shard.replica))
            object.__setattr__(self, "offset", dict(shard.offset))
            object.__setattr__(self, "shard", iters)
            return
        object.__setattr__(self, "shard", _iters(shard, "shard"))
        object.__setattr__(self, "replica", _iters(self.replica, "replica"))
        if not isinstance(self.offset, Mapping):
            raise LayoutError(f"the offset must be a mapping from axis to integer, got {self.offset!r}")
        offset = {Axis.get(a): as_value(v, f"the offset on axis {a}") for a, v in self.offset.items()}
        object.__setattr__(self, "offset", offset)

    @staticmethod
    def from_iters(
        shard: Sequence[Any], replica: Sequence[Any] = (), offset: Mapping[Any, Any] | None = None
    ) -> TileLayout:
        """From iters (or ``(extent, stride, axis)`` tuples) and a mapping axis -> offset."""
        return TileLayout(tuple(shard), tuple(replica), dict(offset or {}))

    # -- facts ------------------------------------------------------------------------------------------------------

    def size(self, axis: Any = None) -> Value:
        if axis is None:
            return prod(i.extent for i in self.shard)
        wanted = Axis.get(axis)
        return prod(i.extent for i in self.shard if i.axis == wanted)

    def axes(self) -> tuple[str, ...]:
        names = {i.axis.name for i in self.shard} | {i.axis.name for i in self.replica}
        return tuple(sorted(names | {a.name for a in self.offset}))

    def is_default(self, shape: Sequence[Any]) -> bool:
        return self == default_layout(shape)

    def is_swizzle(self) -> bool:
        return False

    def is_constant(self) -> bool:
        found: bool | None = self.__dict__.get("_constant")
        if found is None:
            found = all(isinstance(v, int) for v in self._values())
            object.__setattr__(self, "_constant", found)
        return found

    def _values(self) -> Iterator[Value]:
        for i in (*self.shard, *self.replica):
            yield i.extent
            yield i.stride
        yield from self.offset.values()

    def tile(self, outer: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> Layout:
        """The reference's name for :meth:`tiled` (on a ComposeLayout, ``tile`` is the tile layout itself)."""
        return self.tiled(outer, outer_shape, inner_shape)

    def group(self, shape: Sequence[Any]) -> tuple[TileLayout, tuple[int, ...]]:
        """Iters split at the dimensions of ``shape``; see :func:`tirx_eq.layout.grouping.group`."""
        from .grouping import group

        return group(self, list(shape))

    def group_many(self, shapes: Sequence[Sequence[Any]]) -> tuple[TileLayout, tuple[tuple[int, ...], ...]]:
        """Iters split at the dimensions of all of ``shapes``; see :func:`tirx_eq.layout.grouping.group_many`."""
        from .grouping import group_many

        return group_many(self, [list(s) for s in shapes])

    # -- meaning ----------------------------------------------------------------------------------------------------

    def _coordinates(self, coord: Sequence[Value], shape: Sequence[Value] | None) -> dict[str, Value]:
        if shape is None and len(coord) == len(self.shard) and len(coord) != 1:
            return self._combine(coord)
        if shape is not None:
            self._check_size(shape)
            grouped = self._digits_over(coord, shape)
            if grouped is not None:
                return grouped
            return self._combine(self._split(flatten(coord, shape)))
        if len(coord) != 1:
            raise LayoutError(
                f"apply: {len(coord)} coordinates, but the layout has {len(self.shard)} iters",
                hint="give one flat index, one coordinate per iter, or shape=",
            )
        return self._combine(self._split(coord[0]))

    def _check_size(self, shape: Sequence[Value]) -> None:
        total, size = prod(shape), self.size()
        if isinstance(total, int) and isinstance(size, int) and total != size:
            raise LayoutError(f"apply: a shape of {total} elements for a layout of {size}")

    def _split(self, flat: Value) -> list[Value]:
        """Digits of a flat index, outermost first; the outermost is not reduced."""
        digits: list[Value] = []
        rest = flat
        for k, it in reversed(list(enumerate(self.shard))):
            digits.append(rest if k == 0 else mod(rest, it.extent))
            rest = div(rest, it.extent)
        return list(reversed(digits))

    def _combine(self, digits: Sequence[Value]) -> dict[str, Value]:
        total: dict[str, Value] = {}
        for digit, it in zip(digits, self.shard):
            part = mul(digit, it.stride)
            name = it.axis.name
            total[name] = add(total[name], part) if name in total else part
        for axis, value in self.offset.items():
            total[axis.name] = add(total[axis.name], value) if axis.name in total else value
        return total

    def _digits_over(self, coord: Sequence[Value], shape: Sequence[Value]) -> dict[str, Value] | None:
        """The base point with div and mod kept within each dimension; None if iters straddle dimensions."""
        from .grouping import try_group

        found = try_group(self, shape)
        if found is None:
            return None
        layout, seps = found
        digits: list[Value] = []
        for dim, c in enumerate(coord):
            part = TileLayout(layout.shard[seps[dim] : seps[dim + 1]])
            digits.extend(part._split(c))
        return layout._combine(digits)

    def evaluate(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        import numpy as np

        if not self.is_constant():
            raise LayoutError("evaluate: the layout has symbolic extents, strides or offsets")
        if self._reach() >= 1 << 62:
            raise LayoutError("evaluate: coordinates don't fit in 64 bits", hint="use at, which takes any integers")
        rest = np.asarray(flat, dtype=np.int64)
        out: dict[str, np.ndarray] = {}
        for k, it in reversed(list(enumerate(self.shard))):
            extent, stride = int(it.extent), int(it.stride)  # type: ignore[arg-type]
            if k == 0:
                digit = rest
            elif extent & (extent - 1) == 0:
                digit = rest & (extent - 1)
                rest = rest >> (extent.bit_length() - 1)
            else:
                rest, digit = np.divmod(rest, extent)
            part = digit * stride
            name = it.axis.name
            out[name] = out[name] + part if name in out else part
        for axis, value in self.offset.items():
            shift = int(value)  # type: ignore[arg-type]
            base = out.get(axis.name)
            out[axis.name] = np.full(rest.shape, shift, dtype=np.int64) if base is None else base + shift
        return out

    def _reach(self) -> int:
        """A bound on the size of every coordinate of a layout of numbers, copies left out."""
        parts = [(i.extent, i.stride) for i in self.shard] + [(1, v) for v in self.offset.values()]
        return sum(e * abs(s) for e, s in parts if isinstance(e, int) and isinstance(s, int))

    # -- text -------------------------------------------------------------------------------------------------------

    def script(self, prefix: str = "Tx") -> str:
        dot = f"{prefix}." if prefix else ""
        text = f"{dot}S[{_iters_text(self.shard)}]"
        if self.replica:
            text += f" + {dot}R[{_iters_text(self.replica)}]"
        for axis, value in self.offset.items():
            text += f" + {on_axis(value, axis)}"
        return f"{dot}TileLayout({text})"

    def to_json(self) -> dict[str, Any]:
        if not self.is_constant():
            raise LayoutError("the JSON form holds numbers only; this layout has symbolic values", hint="use save_json")
        return {
            "kind": "tile",
            "shard": [[i.extent, i.stride, i.axis.name] for i in self.shard],
            "replica": [[i.extent, i.stride, i.axis.name] for i in self.replica],
            "offset": {a.name: v for a, v in self.offset.items()},
        }

    def __repr__(self) -> str:
        return self.script(prefix="")

    def __str__(self) -> str:
        return self.script(prefix="T")


def _iters(value: Any, what: str) -> tuple[Iter, ...]:
    if not isinstance(value, (tuple, list)):
        raise LayoutError(f"the {what} of a TileLayout must be a sequence of iters or S[...], got {value!r}")
    return tuple(i if isinstance(i, Iter) else Iter(*i) for i in value)


def flatten(coord: Sequence[Value], shape: Sequence[Value]) -> Value:
    """Row-major flat index of a coordinate."""
    flat: Value = 0
    for k, (c, extent) in enumerate(zip(coord, shape)):
        flat = c if k == 0 else add(mul(flat, extent), c)
    return flat


def default_layout(shape: Sequence[Any]) -> TileLayout:
    """The compact row-major layout of a shape, which a buffer has when none is given."""
    extents = tuple(as_value(e, "an extent") for e in shape)
    return TileLayout(tuple(Iter(e, s) for e, s in zip(extents, row_major(extents))))


def value_text(value: Value) -> str:
    """A value as script text."""
    if isinstance(value, Expr):
        from ..ir import printer

        show = getattr(printer, "expr_text", None)
        return show(value) if show else str(value)
    return str(value)


def on_axis(value: Value, axis: Axis) -> str:
    """``value`` or ``value @ Axis.name``; axis m is left out."""
    text = value_text(value)
    if isinstance(value, Expr) and axis != m:
        text = f"({text})"
    return text if axis == m else f"{text} @ Axis.{axis.name}"


def _iters_text(iters: Sequence[Iter]) -> str:
    extents = [value_text(i.extent) for i in iters]
    strides = [on_axis(i.stride, i.axis) for i in iters]
    if len(iters) == 1:
        return f"{extents[0]}:{strides[0]}"
    return f"({', '.join(extents)}):({', '.join(strides)})"
