"""What all layouts have in common: :class:`Layout`.

A layout maps a flat index x in [0, size) to a *set* of coordinates, one integer per axis; an axis that is not named
reads as 0.  A coordinate over a shape means the flat index of its row-major flattening, so one layout admits every
shape with the right product.  Integers are mathematical.

Most operations are functions in sibling modules; the methods here are their short names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..ir.expr import Expr
from .value import Value, as_expr, as_value, prod

if TYPE_CHECKING:
    import numpy as np

    from .tile import TileLayout


class Layout(ABC):
    """Base of ``TileLayout``, ``SwizzleLayout`` and ``ComposeLayout``."""

    # -- what each kind defines -------------------------------------------------------------------------------------

    @abstractmethod
    def size(self, axis: Any = None) -> Value:
        """Number of elements; with ``axis``, the product of the shard extents on that axis (1 if there is none)."""

    @abstractmethod
    def axes(self) -> tuple[str, ...]:
        """Names of the axes in use, sorted."""

    @abstractmethod
    def _coordinates(self, coord: Sequence[Value], shape: Sequence[Value] | None) -> dict[str, Value]:
        """Base point at a coordinate; see :meth:`apply`."""

    @abstractmethod
    def evaluate(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Base points of the flat indices in an integer array, as int64 arrays of its shape, one per axis in use.

        Needs a layout without symbolic values (LayoutError).
        """

    @abstractmethod
    def script(self, prefix: str = "Tx") -> str:
        """Source text that evaluates back to this layout; ``prefix`` is the namespace, empty for none."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The specification form: ``{"kind": "tile" | "swizzle" | "compose", ...}``."""

    @abstractmethod
    def is_swizzle(self) -> bool:
        """Whether there is an XOR swizzle in it (one that may be the identity counts)."""

    @abstractmethod
    def is_constant(self) -> bool:
        """Whether all extents, strides and offsets are numbers."""

    # -- shared -----------------------------------------------------------------------------------------------------

    def apply(self, *coord: Any, shape: Sequence[Any] | None = None) -> dict[str, Expr]:
        """The base point (no replica) of a coordinate: axis name -> expression, constants folded.

        Without ``shape``: one flat index, or (tile layouts) one coordinate per shard iter.  With ``shape``: one
        coordinate per dimension; the shape's product must be the layout's size (any, for a bare swizzle).
        The leading digit is not reduced, so an index beyond the size extrapolates, as in the reference.
        """
        values = [as_value(c, "a coordinate") for c in coord]
        dims = None if shape is None else [as_value(e, "an extent of the shape") for e in shape]
        if dims is not None and len(dims) != len(values):
            raise LayoutError(f"apply: {len(values)} coordinates for a shape of {len(dims)} dimensions")
        return {axis: as_expr(v) for axis, v in self._coordinates(values, dims).items()}

    def at(self, *coord: int, shape: Sequence[int] | None = None) -> dict[str, int]:
        """:meth:`apply` on plain numbers, giving plain numbers."""
        found = self._coordinates(list(coord), None if shape is None else list(shape))
        for axis, value in found.items():
            if not isinstance(value, int):
                raise LayoutError(f"at: the coordinate on axis {axis} isn't a number", hint="use apply")
        return found  # type: ignore[return-value]

    def is_default(self, shape: Sequence[Any]) -> bool:
        """Whether it is the row-major layout that a buffer of ``shape`` has when none is named."""
        return False

    def admits(self, shape: Sequence[Any]) -> bool:
        """Whether a buffer of this shape can have this layout (its product is the size)."""
        return as_value(prod([as_value(e) for e in shape])) == self.size()

    def canonicalize(self) -> Layout:
        """The canonical form: layouts of equal size and meaning have equal canonical forms (see ``normal``)."""
        from .normal import canonicalize

        return canonicalize(self)

    def span(self, axis: Any = None) -> Value:
        """One more than the largest coordinate of the image on ``axis`` (default ``m``), replicas and swizzle included.

        An allocation starts at 0; :func:`tirx_eq.layout.image.bounds` gives the lower end too.
        """
        from .image import span

        return span(self, axis)

    def slice(self, shape: Sequence[Any], region: Sequence[Any]) -> Layout:
        """The layout of a box of a buffer of ``shape``; see :func:`tirx_eq.layout.slicing.slice_layout`.

        ``region``: per dimension a ``Range``, a Python slice, or a pair ``(begin, end)``.
        """
        from .slicing import slice_layout

        return slice_layout(self, shape, region)

    def storage(self) -> Layout:
        """This layout without its thread axes: the part of it that addresses memory."""
        from .algebra import storage

        return storage(self)

    def is_trivial(self) -> bool:
        """Whether it is the identity onto one memory axis: flat index x at x, no copies, no offset."""
        from .tile import TileLayout

        form = self.canonicalize()
        if not isinstance(form, TileLayout) or form.replica or form.offset:
            return False
        if form.size() == 1:
            return True
        return len(form.shard) == 1 and form.shard[0].stride == 1 and form.shard[0].axis.is_memory()

    # -- algebra, by short name -------------------------------------------------------------------------------------

    def tiled(self, outer: TileLayout, outer_shape: Sequence[Any], inner_shape: Sequence[Any]) -> Layout:
        """``outer`` copies of this layout; see :func:`tirx_eq.layout.algebra.tile`."""
        from .algebra import tile

        return tile(outer, self, outer_shape, inner_shape)

    def tile_to(self, to_shape: Sequence[Any], current_shape: Sequence[Any]) -> Layout:
        """This layout over ``current_shape`` repeated row-major to ``to_shape``."""
        from .algebra import tile_to

        return tile_to(self, to_shape, current_shape)

    def direct_sum(self, left: TileLayout, left_shape: Sequence[Any], right_shape: Sequence[Any]) -> Layout:
        """``left`` ⊕ this layout; see :func:`tirx_eq.layout.algebra.direct_sum`."""
        from .algebra import direct_sum

        return direct_sum(left, self, left_shape, right_shape)

    def unpack(self, num: int, axis: Any = "m") -> Layout:
        """The layout of ``num`` parts of every element; see :func:`tirx_eq.layout.algebra.unpack`."""
        from .algebra import unpack

        return unpack(self, num, axis)

    def pack(self, num: int, axis: Any = "m") -> Layout:
        """The layout of groups of ``num`` elements; see :func:`tirx_eq.layout.algebra.pack`."""
        from .algebra import pack

        return pack(self, num, axis)

    def permute_dims(self, perm: Sequence[int], shape: Sequence[Any] | None = None) -> Layout:
        """Dimensions in the order ``perm``: those of ``shape``, or the shard iters."""
        from .algebra import permute_dims

        return permute_dims(self, self._iter_shape() if shape is None else shape, perm)

    def broadcast(self, num: int, position: int = -1, axis: Any = "m") -> Layout:
        """A new iter of ``num`` equal values before iter ``position`` (-1: after the last)."""
        from .algebra import broadcast

        return broadcast(self, num, position, axis)

    def apply_to_shape(self, coord: Sequence[Any], input_shape: Sequence[Any]) -> list[Expr]:
        """A coordinate over ``input_shape`` as one per iter, iters grouped by that shape."""
        from .algebra import iter_coordinates

        return [as_expr(v) for v in iter_coordinates(self, coord, input_shape)]

    def is_tile_inner(self, tile_layout: Layout, tiled_shape: Sequence[Any], inner_shape: Sequence[Any]) -> Layout | None:
        """The outer layout of ``tile_layout`` (over ``tiled_shape``) if this is its inner one, else None."""
        from .algebra import quotient, tile_outer_of

        return tile_outer_of(tile_layout, self, quotient(tiled_shape, inner_shape), inner_shape)

    def is_tile_outer(self, tile_layout: Layout, tiled_shape: Sequence[Any], outer_shape: Sequence[Any]) -> Layout | None:
        """The inner layout of ``tile_layout`` (over ``tiled_shape``) if this is its outer one, else None."""
        from .algebra import as_tile, quotient, tile_inner_of

        return tile_inner_of(tile_layout, as_tile(self), outer_shape, quotient(tiled_shape, outer_shape))

    def is_direct_sum_right(
        self, sum_layout: Layout, interleaved_shape: Sequence[Any], right_shape: Sequence[Any]
    ) -> Layout | None:
        """The left summand of ``sum_layout`` (over left and right extents in turn) if this is the right one, else None."""
        from .algebra import sum_left_of

        return sum_left_of(sum_layout, self, list(interleaved_shape)[0::2], right_shape)

    def is_direct_sum_left(
        self, sum_layout: Layout, interleaved_shape: Sequence[Any], left_shape: Sequence[Any]
    ) -> Layout | None:
        """The right summand of ``sum_layout`` (over left and right extents in turn) if this is the left one, else None."""
        from .algebra import as_tile, sum_right_of

        return sum_right_of(sum_layout, as_tile(self), left_shape, list(interleaved_shape)[1::2])

    def _iter_shape(self) -> list[Value]:
        """Extents of the shard iters."""
        from .algebra import iter_extents

        return iter_extents(self)

    def _repr_html_(self) -> str:
        from .draw import html

        return html(self)

    def __str__(self) -> str:
        return self.script(prefix="T")


def symbolic(value: Value) -> bool:
    """Whether a value is not a number."""
    return not isinstance(value, int)


def from_json(data: Mapping[str, Any]) -> Layout:
    """The layout of a specification dict (design section 8); LayoutError naming the field that is wrong."""
    from .spec import from_json as read

    return read(data)
