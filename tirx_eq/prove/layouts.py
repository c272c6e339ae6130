"""Claims about layouts, as verdicts: ``equal``, ``injective``, ``covers``, ``conflict_free``, ``same_up_to``.

``equal`` (in ``layout_equality``) tells whether every element has the same set of places; the others are here.  "Equal"
as a status means yes, with a certificate; "different" means no, with elements, points or lanes that show it, replayed by
the definition in ``layout_meaning``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import prod
from typing import Any

from ..errors import LayoutError, ProofError
from ..layout import ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout
from ..layout.conflicts import Access, conflicts
from . import layout_meaning as meaning
from .layout_equality import (
    claimed,
    common_size,
    constant,
    equal,
    equal_of_size,
    linear_form,
    matrix_of,
    other_size,
    place_text,
    places,
    unflatten,
)
from .validate import LARGE_BOX, Validator
from .verdict import Certificate, Enumeration, LayoutClaim, Lemmas, Structural, Verdict

__all__ = ["conflict_free", "covers", "equal", "injective", "same_up_to", "unflatten"]

MAX_COVER = 1 << 22


def injective(layout: Layout, shape: Sequence[int] | None = None, *, rlimit: int | None = None) -> Verdict:
    """Whether no two elements share a place (copies of one element may coincide).

    ``equal`` means yes.  ``different`` names two elements and the place that they share.
    """
    constant(layout)
    size = common_size((layout,), shape)
    assert size is not None
    claim = LayoutClaim("injective", (), size, None if shape is None else tuple(shape))
    found: Verdict | None = None
    for decide in (_separate, _rank, _collide):
        if found is None:
            found = decide(layout, size)
    return claimed(_injective_by_solver(layout, size, rlimit) if found is None else found, claim, layout)


def _separate(layout: Layout, size: int) -> Verdict | None:
    """On every axis each stride is beyond the reach of the smaller ones: a mixed radix, whose digits can be read off."""
    _, tile = meaning.tile_of(layout.to_json(), size)
    iters = [*tile["shard"], *tile.get("replica", [])]
    if any(stride == 0 and extent > 1 for extent, stride, _ in tile["shard"]):
        return None
    for axis in {a for _, _, a in iters}:
        reach = 0
        for stride, extent in sorted((abs(s), e) for e, s, a in iters if a == axis and e > 1 and s):
            if stride <= reach:
                return None
            reach += (extent - 1) * stride
    return Verdict("equal", "mixed radix", certificate=Structural("each stride is beyond the reach of the smaller"))


def _rank(layout: Layout, size: int) -> Verdict | None:
    """Over GF(2): the index columns are independent of each other and of the copies."""
    x = linear_form(layout, size)
    if x is None:
        return None
    width = 2 + max((abs(v).bit_length() for c in (*x.columns, *x.free) for v in c), default=0)

    def packed(c: Sequence[int]) -> int:
        return sum((v & ((1 << width) - 1)) << (k * width) for k, v in enumerate(c))

    basis: dict[int, tuple[int, int]] = {}  # leading bit -> (vector, which index bits make it)
    for j, c in enumerate((*x.free, *x.columns)):
        index = 1 << (j - len(x.free)) if j >= len(x.free) else 0
        v, made = packed(c), index
        while v and v.bit_length() in basis:
            w, other = basis[v.bit_length()]
            v, made = v ^ w, made ^ other
        if v:
            basis[v.bit_length()] = (v, made)
        elif made:
            return _shared(layout, 0, made, size, "gf2")
    return Verdict("equal", "gf2", certificate=matrix_of(x))


def _shared(layout: Layout, first: int, second: int, size: int, by: str) -> Verdict | None:
    spec = layout.to_json()
    both = set(meaning.places(spec, first, size)) & set(meaning.places(spec, second, size))
    if not both or first == second:
        return None
    place = dict(min(both))
    detail = f"elements {first} and {second} are both at {place_text(place)}"
    return Verdict("different", by, counterexample={"first": first, "second": second, "place": place}, detail=detail)


def _collide(layout: Layout, size: int) -> Verdict | None:
    import numpy as np

    spec = layout.to_json()
    copies = meaning.copies_of(spec)
    if size * copies > MAX_COVER:
        return None
    try:
        (keys,) = meaning.keys([meaning.table(spec, size)])
    except OverflowError:
        return None
    owner = np.repeat(np.arange(size), keys.shape[1])
    order = np.argsort(keys.ravel(), kind="stable")
    flat = keys.ravel()[order]
    meet = (flat[1:] == flat[:-1]) & (owner[order][1:] != owner[order][:-1])
    if meet.any():
        second = owner[order][1:][meet]
        pick = int(np.argmin(second))
        return _shared(layout, int(owner[order][:-1][meet][pick]), int(second[pick]), size, "enumeration")
    return Verdict("equal", "enumeration", certificate=Enumeration(size * copies, (("x", 0, size - 1),)))


def _injective_by_solver(layout: Layout, size: int, rlimit: int | None) -> Verdict:
    """x < y with all axes equal: bit-vectors, then integers."""
    spec = layout.to_json()
    first, ranges = meaning.terms(spec, size, "x", "r")
    second, others = meaning.terms(spec, size, "y", "s")
    bounds = {"x": (0, size - 1), "y": (0, size - 1), **ranges, **others}
    apart: Any = ("lt", "x", "y")
    for axis in sorted(first):
        apart = ("land", apart, ("eq", first[axis], second[axis]))
    found = Validator(bounds, rlimit=rlimit).compare(apart, 0)
    if found.status == "different" and found.counterexample is not None:
        point = found.counterexample
        shared = _shared(layout, point["x"], point["y"], size, found.decided_by)
        if shared is not None:
            return shared
    return replace(found, claim=None)


def covers(layout: Layout, extents: Mapping[str, int], shape: Sequence[int] | None = None) -> Verdict:
    """Whether every point ``0 <= coordinate < extents[axis]`` is a place of some element (other axes 0).

    ``different`` names the first point that none reaches.  ``LayoutError`` beyond 2**22 points or places.
    """
    import numpy as np

    constant(layout)
    size = common_size((layout,), shape)
    assert size is not None
    spec = layout.to_json()
    points, copies = prod(extents.values()), meaning.copies_of(spec)
    if max(points, size * copies) > MAX_COVER:
        raise LayoutError(f"covers: {max(points, size * copies)} points are more than the {MAX_COVER} that are checked")
    claim = LayoutClaim("covers", (), size, None if shape is None else tuple(shape), {"extents": dict(extents)})
    names, values = meaning.table(spec, size)
    inside = np.ones(values.shape[1:], dtype=bool)
    key = np.zeros(values.shape[1:], dtype=np.int64)
    order = sorted({*names, *extents})
    for a in order:
        extent = extents.get(a, 1)
        v = values[names.index(a)] if a in names else np.zeros(values.shape[1:], dtype=np.int64)
        inside &= (v >= 0) & (v < extent)
        key = key * extent + v
    reached = np.zeros(points, dtype=bool)
    reached[key[inside]] = True
    if reached.all():
        done = Verdict("equal", "enumeration", certificate=Enumeration(size * copies, (("x", 0, size - 1),)))
        return claimed(done, claim, layout)
    missing = int(np.argmin(reached))
    at = {}
    for a in reversed(order):
        missing, at[a] = divmod(missing, extents.get(a, 1))
    at = {a: at[a] for a in order if a in extents}
    found = Verdict("different", "enumeration", counterexample=at, detail=f"no element is at {place_text(at)}")
    return claimed(found, claim, layout)


def conflict_free(layout: Layout, dtype: Any, access: Access, shape: Sequence[int]) -> Verdict:
    """Whether a warp's access of a shared buffer needs no more wavefronts than its bytes do (see ``layout.conflicts``).

    ``different`` names two lanes that collide, their bank and phase.
    """
    found = conflicts(layout, dtype, access, shape)
    size = prod(shape)
    lanes = [None if c is None else list(c) for c in access.lanes]
    detail = {"dtype": str(dtype), "lanes": lanes, "vector": access.vector, "name": access.name}
    claim = LayoutClaim("conflict_free", (), size, tuple(shape), detail)
    if found.conflict_free:
        box = (("lane", 0, len(access.lanes) - 1),)
        done = Verdict("equal", "enumeration", certificate=Enumeration(len(access.lanes), box))
        return claimed(done, claim, layout)
    phase, bank, who = found.collisions[0]
    text = (
        f"{found.wavefronts} wavefronts instead of {found.ideal}; {found.ways} ways at worst; lanes {who} meet in bank {bank}"
    )
    point = {"phase": phase, "bank": bank, "lanes": list(who)}
    return claimed(Verdict("different", "enumeration", counterexample=point, before=found.ideal,
                            after=found.wavefronts, detail=text), claim, layout)  # fmt: skip


def same_up_to(a: Layout, b: Layout, what: str, shape: Sequence[int] | None = None, *, rlimit: int | None = None) -> Verdict:
    """Whether ``a`` is ``b`` moved by one constant per axis (``what="offset"``), or over ``shape`` with its dimensions
    in another order (``what="permutation"``; the claim's detail says which).
    """
    constant(a, b)
    if what == "offset":
        return _up_to_offset(a, b, shape, rlimit)
    if what == "permutation":
        return _up_to_permutation(a, b, shape, rlimit)
    raise ProofError(f"same_up_to: '{what}' is neither offset nor permutation")


def _up_to_offset(a: Layout, b: Layout, shape: Sequence[int] | None, rlimit: int | None) -> Verdict:
    size = common_size((a, b), shape)
    if size is None:
        return other_size(a, b)
    p, q = a.to_json(), b.to_json()
    first, second = meaning.places(p, 0, size), meaning.places(q, 0, size)
    shift = {x: dict(first[0]).get(x, 0) - dict(second[0]).get(x, 0) for x in _axes(first, second)}
    moved = {x: -v for x, v in shift.items() if v}
    claim = LayoutClaim("same_up_to_offset", (), size, None if shape is None else tuple(shape), {"offset": shift})
    if isinstance(a, TileLayout) and isinstance(b, TileLayout):
        found = equal_of_size(_shifted(a, moved), b, size, rlimit)
    else:
        found = _swizzled_up_to_offset(a, b, moved, size, rlimit)
    if found.status == "different" and found.counterexample is not None:
        flat = found.counterexample["flat"]
        one, two = places(p, flat, size), places(q, flat, size)
        text = f"elements 0 are {place_text(shift)} apart, but element {flat} is at {place_text(one)} against {place_text(two)}"
        found = replace(found, before=one, after=two, detail=text)
    return claimed(found, claim, a, b)


def _axes(*places: Any) -> list[str]:
    return sorted({axis for side in places for place in side for axis, _ in place})


def _shifted(tile: TileLayout, by: Mapping[str, int]) -> TileLayout:
    offset = {x.name: v for x, v in tile.offset.items()}
    for axis, v in by.items():
        offset[axis] = int(offset.get(axis, 0)) + v  # type: ignore[arg-type]
    return TileLayout(tile.shard, tile.replica, offset)  # type: ignore[arg-type]


def _swizzled_up_to_offset(a: Layout, b: Layout, moved: Mapping[str, int], size: int, rlimit: int | None) -> Verdict:
    """Under a swizzle a shift is no layout, so compare index terms; elements first, where they are few."""
    p, q = a.to_json(), b.to_json()
    x, ranges = meaning.terms(p, size)
    y, others = meaning.terms(q, size)
    if ranges or others:
        raise LayoutError("same_up_to offset: copies under a swizzle aren't supported")
    validator = Validator({"x": (0, size - 1)}, rlimit=rlimit)
    steps: list[tuple[str, Certificate]] = []
    for axis in sorted({*x, *y}):
        found = validator.compare(("add", x.get(axis, 0), moved.get(axis, 0)), y.get(axis, 0))
        if found.status == "different" and found.counterexample is not None:
            return replace(found, counterexample={"flat": found.counterexample.get("x", 0)})
        if found.certificate is None:
            return found
        steps.append((axis, found.certificate))
    return Verdict("equal", "terms", certificate=Lemmas(tuple(steps)))


def _up_to_permutation(a: Layout, b: Layout, shape: Sequence[int] | None, rlimit: int | None) -> Verdict:
    from ..layout.algebra import permute_dims

    if shape is None or len(shape) > 6:
        raise ProofError("same_up_to permutation: needs a shape of at most 6 dimensions")
    size = prod(shape)
    dims = range(len(shape))
    plain: Verdict | None = None
    for order in permutations(dims):
        try:
            moved = permute_dims(_over(b, size), [shape[d] for d in order], [order.index(d) for d in dims])
        except LayoutError:  # the second's digits straddle these dimensions: no layout, so go by elements
            found = _in_order(a, b, order, shape)
        else:
            found = equal(_over(a, size), moved, shape, rlimit=rlimit)
        plain = found if plain is None else plain
        if found.status == "equal":
            claim = LayoutClaim("same_up_to_permutation", (), size, tuple(shape), {"order": list(order)})
            text = f"the dimensions of the second in the order {list(order)}"
            return claimed(replace(found, detail=text), claim, a, b)
    assert plain is not None
    claim = LayoutClaim("same_up_to_permutation", (), size, tuple(shape))
    return claimed(replace(plain, detail=f"in no order of the dimensions; as they are, {plain.detail}"), claim, a, b)


def _in_order(a: Layout, b: Layout, order: Sequence[int], shape: Sequence[int]) -> Verdict:
    """``equal`` of ``a`` and ``b`` with its dimensions in ``order``, element by element."""
    size = prod(shape)
    p, q = a.to_json(), b.to_json()
    if size * max(meaning.copies_of(p), meaning.copies_of(q)) > LARGE_BOX:
        raise LayoutError(f"same_up_to permutation: the second layout's digits straddle the dimensions {list(order)}")
    inner = [shape[d] for d in order]
    for flat in range(size):
        coordinate = unflatten(flat, shape)
        other = 0
        for d, e in zip(order, inner):
            other = other * e + coordinate[d]
        if meaning.places(p, flat, size) != meaning.places(q, other, size):
            point = {"flat": flat, "coordinate": coordinate}
            before, after = places(p, flat, size), places(q, other, size)
            return Verdict("different", "enumeration", counterexample=point, before=before, after=after)
    return Verdict("equal", "enumeration", certificate=Enumeration(size, (("x", 0, size - 1),)))


def _over(layout: Layout, size: int) -> Layout:
    """A bare swizzle as one over the identity of ``size`` elements."""
    if isinstance(layout, SwizzleLayout):
        return ComposeLayout(layout, TileLayout((Iter(size, 1),)))
    return layout
