"""Equality of layouts of numbers, as a verdict; ``layouts`` is the module to import.

Equality goes down the portfolio of the design, cheapest first:

    same text → affine maps over GF(2) → canonical form → all elements (up to 2**18 places) → index terms of both
    (isl, then z3 bit-vectors and integers) → unknown, with the question as SMT-LIB

Two layouts are equal if every element has the same *set* of places; an axis that a layout never names reads as 0.
``different`` names the first element that differs (the first found, where elements are too many to list), both sides'
places, and for a memory address which bits.  Counterexamples are replayed by ``layout_meaning``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ..errors import LayoutError
from ..layout import Layout, SwizzleLayout, TileLayout
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
    constant(a, b)
    size = common_size((a, b), shape)
    if size is None:
        return other_size(a, b)
    claim = LayoutClaim("equal", (), size, None if shape is None else tuple(shape))
    found = equal_of_size(a, b, size, rlimit)
    if found.status == "different":
        found = _described(found, a, b, claim)
    return claimed(found, claim, a, b)


def equal_of_size(a: Layout, b: Layout, size: int, rlimit: int | None) -> Verdict:
    if a == b:
        return Verdict("equal", "structural", certificate=Structural())
    by_bits = _by_bits(a, b, size)
    if by_bits is not None:
        return by_bits
    # The form without search, then all elements, are quicker than the search for the form of a swizzle over digits that carry.
    for search in (False, True):
        forms = [normal_form(x, _for_swizzle(x, size), search=search) for x in (a, b)]
        if forms[0].layout == forms[1].layout:
            return Verdict("equal", "normal form", certificate=NormalForm(str(forms[0].layout)))
        if not search and (found := _by_elements(a, b, size)) is not None:
            return found
    by_parts = _by_parts((forms[0], forms[1]), size, rlimit)
    return _by_terms(a, b, size, rlimit) if by_parts is None else by_parts


def _for_swizzle(layout: Layout, size: int) -> int | None:
    return size if isinstance(layout, SwizzleLayout) else None


def linear_form(layout: Layout, size: int) -> LinearMap | None:
    if size & (size - 1):
        return None
    try:
        return to_linear(layout, size)
    except LayoutError:
        return None


def _by_bits(a: Layout, b: Layout, size: int) -> Verdict | None:
    """Both as affine maps over GF(2): always decides where both are."""
    x = linear_form(a, size)
    y = linear_form(b, size) if x is not None else None
    if x is None or y is None:
        return None
    if x == y or (x := x.normal()) == (y := y.normal()):
        return Verdict("equal", "gf2", certificate=matrix_of(x))
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


def matrix_of(x: LinearMap) -> Matrix:
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


def places(spec: Spec, flat: int, size: int) -> Any:
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
        before=places(p, flat, size),
        after=places(q, flat, size),
    )


def _described(found: Verdict, a: Layout, b: Layout, claim: LayoutClaim) -> Verdict:
    """Places of the layouts as they were given (not of their canonical forms), the coordinate, and the bits."""
    assert found.counterexample is not None
    flat = found.counterexample["flat"]
    point: dict[str, Any] = {"flat": flat}
    if claim.shape is not None:
        point["coordinate"] = unflatten(flat, claim.shape)
    before, after = places(a.to_json(), flat, claim.size), places(b.to_json(), flat, claim.size)
    where = f"element {flat}" + (f" at {tuple(point['coordinate'])}" if claim.shape is not None else "")
    detail = f"{where}: {place_text(before)} against {place_text(after)}"
    if isinstance(before, dict) and isinstance(after, dict):
        for axis in sorted({*before, *after}):
            bits = before.get(axis, 0) ^ after.get(axis, 0)
            if bits > 0:
                on = ", ".join(str(k) for k in range(bits.bit_length()) if bits >> k & 1)
                detail += f"; {axis} differs in bits {on}"
    return replace(found, counterexample=point, before=before, after=after, detail=detail)


def place_text(places: Any) -> str:
    if isinstance(places, dict):
        return ", ".join(f"{a}={v}" for a, v in places.items()) or "0"
    return "{" + " | ".join(place_text(p) for p in places) + "}"


def unflatten(flat: int, shape: Sequence[int]) -> list[int]:
    """Row-major coordinate of a flat index."""
    out: list[int] = []
    for extent in reversed(shape):
        flat, c = divmod(flat, extent)
        out.append(c)
    return out[::-1]


def other_size(a: Layout, b: Layout) -> Verdict:
    sizes = [int(x.size()) for x in (a, b)]  # type: ignore[arg-type]
    flat = min(sizes)
    spec, which = (a.to_json(), "second") if sizes[0] > sizes[1] else (b.to_json(), "first")
    held = places(spec, flat, max(sizes))
    before, after = (held, None) if sizes[0] > sizes[1] else (None, held)
    detail = f"{sizes[0]} elements against {sizes[1]}: the {which} layout has no element {flat}"
    claim = LayoutClaim("equal", (a.to_json(), b.to_json()), flat, None, {"sizes": sizes})
    return Verdict("different", "size", counterexample={"flat": flat}, before=before, after=after, detail=detail,
                   claim=claim)  # fmt: skip


# ---- sizes


def constant(*layouts: Layout) -> None:
    for x in layouts:
        if not x.is_constant():
            raise LayoutError("the layout has symbolic extents, strides or offsets", hint="use tirx_eq.prove.symbolic")


def common_size(layouts: Sequence[Layout], shape: Sequence[int] | None) -> int | None:
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


def claimed(found: Verdict, claim: LayoutClaim, *layouts: Layout) -> Verdict:
    return replace(found, claim=replace(claim, layouts=tuple(x.to_json() for x in layouts)))
