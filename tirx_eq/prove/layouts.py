"""Claims about layouts, as verdicts: ``equal``, ``injective``, ``covers``, ``conflict_free``, ``same_up_to``.

Equality goes down the portfolio of the design, cheapest first:

    same text → affine maps over GF(2) → canonical form → all elements (up to 2**18 places) → index terms of both
    (isl, then z3 bit-vectors and integers) → unknown, with the question as SMT-LIB

Two layouts are equal if every element has the same *set* of places; an axis that a layout never names reads as 0.
``different`` names the first element that differs (the first found, where elements are too many to list), both sides'
places, and for a memory address which bits.  Counterexamples are replayed by ``layout_meaning``.
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
from ..layout.linear import LinearMap, first_difference, to_linear
from ..layout.normal import NormalForm as Canonical
from ..layout.normal import normal_form
from . import layout_meaning as meaning
from .layout_meaning import Spec
from .validate import LARGE_BOX, Validator
from .verdict import Certificate, Enumeration, LayoutClaim, Lemmas, Matrix, NormalForm, Structural, Verdict

MAX_COVER = 1 << 22


def equal(a: Layout, b: Layout, shape: Sequence[int] | None = None, *, rlimit: int | None = None) -> Verdict:
    """Whether two layouts of numbers mean the same (see the module text).

    ``shape`` fixes the number of elements (a bare swizzle admits any; default: the other layout's size, or the longer
    period of two swizzles) and how elements are named in a counterexample.  Layouts of different size are different.
    Raises ``LayoutError`` if a layout doesn't admit the shape or is symbolic (see ``symbolic.equal``).
    """
    _constant(a, b)
    size = _size((a, b), shape)
    if size is None:
        return _other_size(a, b)
    claim = LayoutClaim("equal", (), size, None if shape is None else tuple(shape))
    found = _equal(a, b, size, rlimit)
    if found.status == "different":
        found = _described(found, a, b, claim)
    return _claimed(found, claim, a, b)


def _equal(a: Layout, b: Layout, size: int, rlimit: int | None) -> Verdict:
    if a == b:
        return Verdict("equal", "structural", certificate=Structural())
    by_bits = _by_bits(a, b, size)
    if by_bits is not None:
        return by_bits
    forms = normal_form(a, _for_swizzle(a, size)), normal_form(b, _for_swizzle(b, size))
    if forms[0].layout == forms[1].layout:
        return Verdict("equal", "normal form", certificate=NormalForm(str(forms[0].layout)))
    found = _by_elements(a, b, size)
    if found is None:
        found = _by_parts(forms, size, rlimit)
    return _by_terms(a, b, size, rlimit) if found is None else found


def _for_swizzle(layout: Layout, size: int) -> int | None:
    return size if isinstance(layout, SwizzleLayout) else None


def _linear(layout: Layout, size: int) -> LinearMap | None:
    if size & (size - 1):
        return None
    try:
        return to_linear(layout, size)
    except LayoutError:
        return None


def _by_bits(a: Layout, b: Layout, size: int) -> Verdict | None:
    """Both as affine maps over GF(2): always decides where both are."""
    x = _linear(a, size)
    y = _linear(b, size) if x is not None else None
    if x is None or y is None:
        return None
    if x == y or (x := x.normal()) == (y := y.normal()):
        return Verdict("equal", "gf2", certificate=_matrix(x))
    if x.free != y.free or x.axes != y.axes:
        return _first_of_powers(a, b, size)
    found = first_difference(x, y)
    return None if found is None else _different(a, b, found[0], size, "gf2")


def _first_of_powers(a: Layout, b: Layout, size: int) -> Verdict | None:
    for flat in (0, *(1 << bit for bit in range(size.bit_length() - 1))):
        found = _different(a, b, flat, size, "gf2")
        if found is not None:
            return found
    return None


def _matrix(x: LinearMap) -> Matrix:
    """Index bits, then copies, as inputs; axis by axis the coordinate bits as rows (two's complement)."""
    inputs = tuple(("x", i) for i in range(x.bits)) + tuple(("copy", j) for j in range(len(x.free)))
    rows: list[int] = []
    for k in range(len(x.axes)):
        columns = [c[k] for c in (*x.columns, *x.free)]
        height = 1 + max((abs(v).bit_length() for v in (x.offset[k], *columns)), default=0)
        for bit in range(height):
            row = x.offset[k] >> bit & 1
            rows.append(row | sum((c >> bit & 1) << (i + 1) for i, c in enumerate(columns)))
    return Matrix(inputs, tuple(rows))


def _by_elements(a: Layout, b: Layout, size: int) -> Verdict | None:
    """Every place of every element, if there are at most 2**18."""
    import numpy as np

    p, q = a.to_json(), b.to_json()
    copies = max(meaning.copies_of(p), meaning.copies_of(q))
    if size * copies > LARGE_BOX:
        return None
    try:
        x, y = meaning.keys([meaning.table(p, size), meaning.table(q, size)])
    except OverflowError:
        return None
    if copies > 1:
        x, y = _as_sets(x), _as_sets(y)
        width = max(x.shape[1], y.shape[1])
        x, y = (np.pad(v, ((0, 0), (0, width - v.shape[1])), mode="edge") for v in (x, y))
    wrong = (x != y).any(axis=1)
    if wrong.any():
        return _different(a, b, int(np.argmax(wrong)), size, "enumeration")
    return Verdict("equal", "enumeration", certificate=Enumeration(size * copies, (("x", 0, size - 1),)))


def _as_sets(keys: Any) -> Any:
    """Rows sorted, repetitions moved to the end as copies of the largest: equal rows, equal sets."""
    import numpy as np

    rows = np.sort(keys, axis=1)
    repeated = np.zeros(rows.shape, dtype=bool)
    repeated[:, 1:] = rows[:, 1:] == rows[:, :-1]
    rows = np.where(repeated, rows[:, -1:], rows)
    return np.sort(rows, axis=1)


def _by_parts(forms: tuple[Canonical, Canonical], size: int, rlimit: int | None) -> Verdict | None:
    """Canonical forms without swizzle: copies and base point are independent, so compare each by itself."""
    tiles = [f.layout for f in forms]
    if not all(isinstance(t, TileLayout) and f.complete for t, f in zip(tiles, forms)):
        return None
    first, second = tiles
    assert isinstance(first, TileLayout) and isinstance(second, TileLayout)
    if first.replica != second.replica:
        return _different(first, second, 0, size, "normal form")
    bare = [TileLayout(t.shard, (), dict(t.offset)) for t in (first, second)]
    found = _by_terms(bare[0], bare[1], size, rlimit)
    if found.status != "different" or found.counterexample is None:
        return None
    return _different(first, second, found.counterexample["flat"], size, found.decided_by)


def _by_terms(a: Layout, b: Layout, size: int, rlimit: int | None) -> Verdict:
    """Axis by axis as index terms; copies only where both sides have the same, so that a copy can stand for itself."""
    p, q = a.to_json(), b.to_json()
    x, ranges = meaning.terms(p, size)
    y, others = meaning.terms(q, size)
    validator = Validator({"x": (0, size - 1), **ranges, **others}, rlimit=rlimit)
    same_copies = meaning.tile_of(p, size)[1].get("replica") == meaning.tile_of(q, size)[1].get("replica")
    steps: list[tuple[str, Certificate]] = []
    unknown = ""
    for axis in sorted({*x, *y}):
        found = validator.compare(x.get(axis, 0), y.get(axis, 0))
        if found.status == "different" and found.counterexample is not None:
            apart = _different(a, b, found.counterexample.get("x", 0), size, found.decided_by)
            if apart is not None:
                return apart
            return Verdict("unknown", "portfolio", detail="the copies differ, and may still be the same set")
        if found.certificate is None:
            unknown = unknown or found.smtlib
        else:
            steps.append((axis, found.certificate))
    if unknown or (ranges and not same_copies):
        return Verdict("unknown", "portfolio", detail="no procedure decided within its limit", smtlib=unknown)
    by = "+".join(sorted({type(c).__name__ for _, c in steps})) or "structural"
    names = {"Structural": "structural", "Matrix": "gf2", "Empty": "isl", "Enumeration": "enumeration", "Unsat": "z3"}
    return Verdict("equal", "+".join(names.get(n, n) for n in by.split("+")), certificate=Lemmas(tuple(steps)))


# ---- counterexamples


def _places(spec: Spec, flat: int, size: int) -> Any:
    """The places of an element as dicts; the only one by itself."""
    found = [dict(p) for p in meaning.places(spec, flat, size)]
    return found[0] if len(found) == 1 else found


def _different(a: Layout, b: Layout, flat: int, size: int, by: str) -> Verdict | None:
    """``different`` at ``flat`` if the definition agrees."""
    p, q = a.to_json(), b.to_json()
    if meaning.places(p, flat, size) == meaning.places(q, flat, size):
        return None
    return Verdict(
        "different",
        by,
        counterexample={"flat": flat},
        before=_places(p, flat, size),
        after=_places(q, flat, size),
    )


def _described(found: Verdict, a: Layout, b: Layout, claim: LayoutClaim) -> Verdict:
    """Places of the layouts as they were given (not of their canonical forms), the coordinate, and the bits."""
    assert found.counterexample is not None
    flat = found.counterexample["flat"]
    point: dict[str, Any] = {"flat": flat}
    if claim.shape is not None:
        point["coordinate"] = unflatten(flat, claim.shape)
    before, after = _places(a.to_json(), flat, claim.size), _places(b.to_json(), flat, claim.size)
    where = f"element {flat}" + (f" at {tuple(point['coordinate'])}" if claim.shape is not None else "")
    detail = f"{where}: {_text(before)} against {_text(after)}"
    if isinstance(before, dict) and isinstance(after, dict):
        for axis in sorted({*before, *after}):
            bits = before.get(axis, 0) ^ after.get(axis, 0)
            if bits > 0:
                on = ", ".join(str(k) for k in range(bits.bit_length()) if bits >> k & 1)
                detail += f"; {axis} differs in bits {on}"
    return replace(found, counterexample=point, before=before, after=after, detail=detail)


def _text(places: Any) -> str:
    if isinstance(places, dict):
        return ", ".join(f"{a}={v}" for a, v in places.items()) or "0"
    return "{" + " | ".join(_text(p) for p in places) + "}"


def unflatten(flat: int, shape: Sequence[int]) -> list[int]:
    """Row-major coordinate of a flat index."""
    out: list[int] = []
    for extent in reversed(shape):
        flat, c = divmod(flat, extent)
        out.append(c)
    return out[::-1]


def _other_size(a: Layout, b: Layout) -> Verdict:
    sizes = [int(x.size()) for x in (a, b)]  # type: ignore[arg-type]
    flat = min(sizes)
    spec, which = (a.to_json(), "second") if sizes[0] > sizes[1] else (b.to_json(), "first")
    held = _places(spec, flat, max(sizes))
    before, after = (held, None) if sizes[0] > sizes[1] else (None, held)
    detail = f"{sizes[0]} elements against {sizes[1]}: the {which} layout has no element {flat}"
    claim = LayoutClaim("equal", (a.to_json(), b.to_json()), flat, None, {"sizes": sizes})
    return Verdict("different", "size", counterexample={"flat": flat}, before=before, after=after, detail=detail,
                   claim=claim)  # fmt: skip


# ---- sizes


def _constant(*layouts: Layout) -> None:
    for x in layouts:
        if not x.is_constant():
            raise LayoutError("the layout has symbolic extents, strides or offsets", hint="use tirx_eq.prove.symbolic")


def _size(layouts: Sequence[Layout], shape: Sequence[int] | None) -> int | None:
    """Number of elements in question; None if the layouts' sizes differ."""
    own = [int(x.size()) for x in layouts if not isinstance(x, SwizzleLayout)]  # type: ignore[arg-type]
    if shape is not None:
        total = prod(shape)
        for n in own:
            if n != total:
                raise LayoutError(f"the shape {tuple(shape)} has {total} elements, a layout {n}")
        return total
    if not own:
        return max(x.period for x in layouts if isinstance(x, SwizzleLayout))
    return own[0] if len(set(own)) == 1 else None


def _claimed(found: Verdict, claim: LayoutClaim, *layouts: Layout) -> Verdict:
    return replace(found, claim=replace(claim, layouts=tuple(x.to_json() for x in layouts)))


# ---- other questions


def injective(layout: Layout, shape: Sequence[int] | None = None, *, rlimit: int | None = None) -> Verdict:
    """Whether no two elements share a place (copies of one element may coincide).

    ``equal`` means yes.  ``different`` names two elements and the place that they share.
    """
    _constant(layout)
    size = _size((layout,), shape)
    assert size is not None
    claim = LayoutClaim("injective", (), size, None if shape is None else tuple(shape))
    found: Verdict | None = None
    for decide in (_separate, _rank, _collide):
        if found is None:
            found = decide(layout, size)
    return _claimed(_injective_by_solver(layout, size, rlimit) if found is None else found, claim, layout)


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
    x = _linear(layout, size)
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
    return Verdict("equal", "gf2", certificate=_matrix(x))


def _shared(layout: Layout, first: int, second: int, size: int, by: str) -> Verdict | None:
    spec = layout.to_json()
    both = set(meaning.places(spec, first, size)) & set(meaning.places(spec, second, size))
    if not both or first == second:
        return None
    place = dict(min(both))
    detail = f"elements {first} and {second} are both at {_text(place)}"
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

    _constant(layout)
    size = _size((layout,), shape)
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
        return _claimed(done, claim, layout)
    missing = int(np.argmin(reached))
    at = {}
    for a in reversed(order):
        missing, at[a] = divmod(missing, extents.get(a, 1))
    at = {a: at[a] for a in order if a in extents}
    found = Verdict("different", "enumeration", counterexample=at, detail=f"no element is at {_text(at)}")
    return _claimed(found, claim, layout)


def conflict_free(layout: Layout, dtype: Any, access: Access, shape: Sequence[int]) -> Verdict:
    """Whether a warp's access of a shared buffer needs no more wavefronts than its bytes do (see ``layout.conflicts``).

    ``different`` names two lanes that collide, their bank and phase.
    """
    found = conflicts(layout, dtype, access, shape)
    size = prod(shape)
    lanes = [list(c) for c in access.lanes]
    detail = {"dtype": str(dtype), "lanes": lanes, "vector": access.vector, "name": access.name}
    claim = LayoutClaim("conflict_free", (), size, tuple(shape), detail)
    if found.conflict_free:
        box = (("lane", 0, len(access.lanes) - 1),)
        done = Verdict("equal", "enumeration", certificate=Enumeration(len(access.lanes), box))
        return _claimed(done, claim, layout)
    phase, bank, who = found.collisions[0]
    text = (
        f"{found.wavefronts} wavefronts instead of {found.ideal}; {found.ways} ways at worst; lanes {who} meet in bank {bank}"
    )
    point = {"phase": phase, "bank": bank, "lanes": list(who)}
    return _claimed(Verdict("different", "enumeration", counterexample=point, before=found.ideal,
                            after=found.wavefronts, detail=text), claim, layout)  # fmt: skip


def same_up_to(a: Layout, b: Layout, what: str, shape: Sequence[int] | None = None, *, rlimit: int | None = None) -> Verdict:
    """Whether ``a`` is ``b`` moved by one constant per axis (``what="offset"``), or over ``shape`` with its dimensions
    in another order (``what="permutation"``; the claim's detail says which).
    """
    _constant(a, b)
    if what == "offset":
        return _up_to_offset(a, b, shape, rlimit)
    if what == "permutation":
        return _up_to_permutation(a, b, shape, rlimit)
    raise ProofError(f"same_up_to: '{what}' is neither offset nor permutation")


def _up_to_offset(a: Layout, b: Layout, shape: Sequence[int] | None, rlimit: int | None) -> Verdict:
    size = _size((a, b), shape)
    if size is None:
        return _other_size(a, b)
    p, q = a.to_json(), b.to_json()
    first, second = meaning.places(p, 0, size), meaning.places(q, 0, size)
    shift = {x: dict(first[0]).get(x, 0) - dict(second[0]).get(x, 0) for x in _axes(first, second)}
    moved = {x: -v for x, v in shift.items() if v}
    claim = LayoutClaim("same_up_to_offset", (), size, None if shape is None else tuple(shape), {"offset": shift})
    if isinstance(a, TileLayout) and isinstance(b, TileLayout):
        found = _equal(_shifted(a, moved), b, size, rlimit)
    else:
        found = _swizzled_up_to_offset(a, b, moved, size, rlimit)
    if found.status == "different" and found.counterexample is not None:
        flat = found.counterexample["flat"]
        one, two = _places(p, flat, size), _places(q, flat, size)
        text = f"elements 0 are {_text(shift)} apart, but element {flat} is at {_text(one)} against {_text(two)}"
        found = replace(found, before=one, after=two, detail=text)
    return _claimed(found, claim, a, b)


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
            return _claimed(replace(found, detail=text), claim, a, b)
    assert plain is not None
    claim = LayoutClaim("same_up_to_permutation", (), size, tuple(shape))
    return _claimed(replace(plain, detail=f"in no order of the dimensions; as they are, {plain.detail}"), claim, a, b)


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
            before, after = _places(p, flat, size), _places(q, other, size)
            return Verdict("different", "enumeration", counterexample=point, before=before, after=after)
    return Verdict("equal", "enumeration", certificate=Enumeration(size, (("x", 0, size - 1),)))


def _over(layout: Layout, size: int) -> Layout:
    """A bare swizzle as one over the identity of ``size`` elements."""
    if isinstance(layout, SwizzleLayout):
        return ComposeLayout(layout, TileLayout((Iter(size, 1),)))
    return layout
