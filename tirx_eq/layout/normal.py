"""The canonical form of a layout: equal size and meaning give equal forms.

Plain part, unique by a theorem: shifting each axis's copies to start at 0 (the shift goes to the offset), a layout is
``f(x) + R``; taking the smallest member per axis gives f, hence R.  So shard, replica and offset are independent:

* shard: unit digits dropped, stride 0 has no axis of its own, neighbours fused where they continue each other;
* replica: per axis the *set*, written as a canonical list of progressions (:mod:`.replicas`);
* offset: zero entries dropped, sorted by axis.

Swizzles are in :mod:`.swizzle_normal`.  With symbolic values the same steps are done as far as the values show; the
form is then right but not complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import LayoutError
from .axis import Axis, m
from .base import Layout
from .compose import ComposeLayout
from .replicas import normalize
from .swizzle import SwizzleLayout
from .tile import Iter, TileLayout
from .value import Value, add, equal_values, mul


@dataclass(frozen=True)
class NormalForm:
    """A canonical layout with the number of elements it stands for (a bare swizzle admits any).

    ``complete``: another layout of this size and meaning is sure to have an equal NormalForm.
    """

    size: Value
    layout: Layout
    complete: bool


def canonicalize(layout: Layout) -> Layout:
    """The canonical form of ``layout``; a swizzle over the identity becomes a bare ``SwizzleLayout``."""
    return normal_form(layout).layout


def normal_form(layout: Layout, size: Value | None = None, *, search: bool = True) -> NormalForm:
    """Canonical form together with the size; ``size`` (default: the layout's) matters only to a bare swizzle.

    Without ``search``, a swizzled layout whose digits carry and that has over 256 values keeps its own swizzle and is not
    complete: for those who would rather compare values than wait some milliseconds.  LayoutError if ``size`` isn't the
    layout's.
    """
    if isinstance(layout, SwizzleLayout):
        count = layout.period if size is None else size
        layout = ComposeLayout(layout, TileLayout((Iter(count, 1),)))
    elif size is not None and not equal_values(size, layout.size()):
        raise LayoutError(f"normal form: the layout has {layout.size()} elements, not {size}")
    if isinstance(layout, ComposeLayout):
        from .swizzle_normal import canonical_compose

        form, complete = canonical_compose(layout, search)
    else:
        assert isinstance(layout, TileLayout)
        form, complete = canonical_tile(layout)
    return NormalForm(layout.size(), form, complete)


def fuse_shard(shard: Sequence[Iter]) -> tuple[Iter, ...]:
    """Digits without units, neighbours fused where ``outer.stride == inner.extent * inner.stride`` on one axis."""
    made: list[Iter] = []
    for it in shard:
        if isinstance(it.extent, int) and it.extent == 1:
            continue
        if isinstance(it.stride, int) and it.stride == 0 and it.axis != m:
            it = Iter(it.extent, 0)
        if made and made[-1].axis == it.axis and equal_values(made[-1].stride, mul(it.extent, it.stride)):
            made[-1] = Iter(mul(made[-1].extent, it.extent), it.stride, it.axis)
        else:
            made.append(it)
    return tuple(made)


def canonical_tile(layout: TileLayout) -> tuple[TileLayout, bool]:
    """Canonical form of a tile layout, and whether it is complete."""
    shard = fuse_shard(layout.shard) or (Iter(1, 1),)
    offset: dict[Axis, Value] = dict(layout.offset)
    replica, complete = canonical_replica(layout.replica, offset)
    return TileLayout(shard, replica, sorted_offset(offset)), complete and layout.is_constant()


def sorted_offset(offset: dict[Axis, Value]) -> dict[Axis, Value]:
    """Nonzero entries, sorted by axis name."""
    return {a: v for a, v in sorted(offset.items(), key=lambda p: p[0].name) if not (isinstance(v, int) and v == 0)}


def canonical_replica(replica: Sequence[Iter], offset: dict[Axis, Value]) -> tuple[tuple[Iter, ...], bool]:
    """Canonical copies, by axis name and then descending stride; shifts of negative strides are added to ``offset``."""
    constant: dict[Axis, list[tuple[int, int]]] = {}
    symbolic: list[Iter] = []
    for it in replica:
        if isinstance(it.extent, int) and isinstance(it.stride, int):
            constant.setdefault(it.axis, []).append((it.extent, it.stride))
        else:
            symbolic.append(it)
    made: list[Iter] = []
    complete = True
    for axis in sorted(constant, key=lambda a: a.name):
        shift, parts, sure = normalize(constant[axis])
        complete = complete and sure
        if shift:
            offset[axis] = add(offset.get(axis, 0), shift)
        made.extend(Iter(e, s, axis) for e, s in reversed(parts))
    rest = sorted(symbolic, key=lambda i: (i.axis.name, str(i.extent), str(i.stride)))
    return tuple(made + rest), complete
