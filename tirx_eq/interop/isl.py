"""Integer relations as ISL text, in and out: ``{ [i, j] -> [m] : … }`` from a buffer's coordinate to its address.

ISL has no XOR, so a swizzle is written bit by bit: bit d becomes ``(floor(t/2^d) + floor(t/2^s)) mod 2``.  Axes other
than m appear as further outputs, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InteropError, LayoutError, ParseError
from ..layout import Axis, Iter, Layout, TileLayout
from ..layout.digest import as_compose
from ..layout.linear import LinearMap, from_linear
from ..layout.table import plain_digits
from ..layout.value import product_int

POINT_LIMIT = 1 << 16


def to_isl(layout: Layout, shape: Sequence[int] | None = None) -> str:
    """ISL text of the map from coordinates over ``shape`` (default: one flat index) to the axes in use, sorted.

    With copies it is a relation: each place of an element is one pair.  InteropError for symbolic layouts.
    """
    swizzle, tile = as_compose(layout, None if shape is None else product_int(shape))
    if not tile.is_constant():
        raise InteropError("isl: extents, strides and offsets must be numbers")
    size = int(tile.size())  # type: ignore[arg-type]
    dims = [size] if shape is None else [int(e) for e in shape]
    if product_int(dims) != size:
        raise InteropError(f"isl: a shape of {product_int(dims)} elements for a layout of {size}")
    names = [f"i{d}" for d in range(len(dims))]
    flat = "0"
    for name, extent in zip(names, dims):
        flat = name if flat == "0" else f"{extent}*({flat}) + {name}"
    axes = tile.axes() or ("m",)
    terms: dict[str, list[str]] = {a: [] for a in axes}
    below = size
    for k, it in enumerate(tile.shard):
        extent = int(it.extent)  # type: ignore[arg-type]
        below //= extent
        digit = f"floor(({flat})/{below})" if below > 1 else f"({flat})"
        terms[it.axis.name].append(f"{it.stride}*({digit}{f' mod {extent}' if k else ''})")
    constraints = [f"0 <= {n} < {e}" for n, e in zip(names, dims)]
    inner: list[str] = []
    for r, it in enumerate(tile.replica):
        inner.append(f"r{r}")
        constraints.append(f"0 <= r{r} < {it.extent}")
        terms[it.axis.name].append(f"{it.stride}*r{r}")
    for axis, value in tile.offset.items():
        terms[axis.name].append(str(value))
    for axis_name in axes:
        total = " + ".join(terms[axis_name]) or "0"
        if axis_name == "m" and swizzle is not None and swizzle.swizzle_len:
            inner.append("t")
            constraints.append(f"t = {total}")
            total = "t"
            for bit in range(swizzle.swizzle_len):
                low, high = swizzle.per_element + bit, swizzle.per_element + swizzle.atom_len + bit
                target, source = (low, high) if swizzle.swizzle_inner else (high, low)
                here = f"floor(t/{1 << target})"
                total += f" + {1 << target}*((({here} + floor(t/{1 << source})) mod 2) - ({here} mod 2))"
        constraints.append(f"{axis_name} = {total}")
    quantified = f"exists {', '.join(inner)} : " if inner else ""
    return f"{{ [{', '.join(names)}] -> [{', '.join(axes)}] : {quantified}{' and '.join(constraints)} }}"


def from_isl(text: str, axes: Sequence[str] = ("m",)) -> Layout:
    """The layout of an ISL map from a box at 0 to ``axes``, up to 65,536 points and without copies.  Needs ``islpy``.

    ParseError for text that isl can't read; InteropError if the domain is no box at 0, the map isn't a function, or it is
    neither a tile nor a swizzle over one.
    """
    try:
        import islpy as isl
    except ImportError:
        raise InteropError("isl: reading ISL text needs islpy", hint="pip install 'tirx-eq[isl]'") from None
    import numpy as np

    try:
        relation = isl.Map(text)
    except isl.Error as error:
        raise ParseError(f"isl: {error}") from None
    if not relation.is_single_valued():
        raise InteropError("isl: the map gives a point several images; copies can't be read from ISL text")
    domain = relation.domain()
    rank = domain.dim(isl.dim_type.set)
    extents = []
    for d in range(rank):
        high = domain.dim_max_val(d) if domain.is_bounded() else None
        if high is None:
            raise InteropError("isl: the domain has no bound")
        extents.append(high.to_python() + 1)
    count = product_int(extents)
    box = isl.Set("{ [" + ",".join(f"i{d}" for d in range(rank)) + "] : "
                  + " and ".join(f"0 <= i{d} < {e}" for d, e in enumerate(extents)) + " }")  # fmt: skip
    if not domain.is_equal(box):
        raise InteropError(f"isl: the domain {domain} isn't a box at 0")
    if count > POINT_LIMIT:
        raise InteropError(f"isl: {count} points are more than the {POINT_LIMIT} that are read")
    if relation.dim(isl.dim_type.out) != len(axes):
        raise InteropError(f"isl: the map has {relation.dim(isl.dim_type.out)} outputs for the axes {', '.join(axes)}")
    values = {a: np.zeros(count, dtype=np.int64) for a in axes}

    def visit(point: Any) -> None:
        at = [point.get_coordinate_val(isl.dim_type.set, k).to_python() for k in range(rank + len(axes))]
        flat = 0
        for c, e in zip(at[:rank], extents):
            flat = flat * e + c
        for a, v in zip(axes, at[rank:]):
            values[a][flat] = v

    relation.wrap().flatten().foreach_point(visit)
    digits = plain_digits(values)
    if digits is not None:
        offset = {Axis.get(a): int(v[0]) for a, v in values.items() if v[0]}
        return TileLayout(tuple(Iter(e, s, Axis.get(a)) for e, s, a in digits) or (Iter(1, 1),), (), offset)  # type: ignore[arg-type]
    linear = _affine(values, count)
    if linear is None:
        raise InteropError("isl: the map is neither a tile of digits nor affine over GF(2)")
    try:
        return from_linear(linear)
    except LayoutError as error:
        raise InteropError(f"isl: {error.message}") from None


def _affine(values: dict[str, Any], count: int) -> LinearMap | None:
    import numpy as np

    if count & (count - 1):
        return None
    axes = tuple(sorted(values))
    bits = count.bit_length() - 1
    start = tuple(int(values[a][0]) for a in axes)
    columns = tuple(tuple(int(values[a][1 << i]) ^ s for a, s in zip(axes, start)) for i in range(bits))
    for k, a in enumerate(axes):
        rebuilt = np.full(1, start[k], dtype=np.int64)
        for c in columns:
            rebuilt = np.concatenate([rebuilt, rebuilt ^ c[k]])
        if not (rebuilt == values[a]).all():
            return None
    return LinearMap(axes, start, columns)
