"""A second opinion: ``check(verdict)`` replays a verdict by other means than those that reached it.

Counterexamples are evaluated; certificates are recomputed from the definition of the claim, by procedures that the
deciding one does not share: a matrix is multiplied out, a box is enumerated again by the scalar or array evaluator, a
normal form is compared with both sides element by element (or axis by axis as index terms), an unsatisfiable query is
asked again in another theory or at another width.  Nothing is taken from the verdict but the claim and the evidence.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ProofError
from ..ir.index import EvaluationError, evaluate, evaluate_many, parse
from . import layout_meaning as meaning
from .validate import Validator
from .verdict import AxisClaims, Enumeration, IndexClaim, LayoutClaim, Matrix, Structural, Verdict

POINTS = 1 << 18
SAMPLES = 200


@dataclass(frozen=True)
class Checked:
    """``ok``: the claim and the evidence agree.  ``how`` says what was done; ``complete`` is False where only samples
    could be replayed (then ``ok`` means that nothing was found against the verdict)."""

    ok: bool
    how: str
    complete: bool = True

    def __bool__(self) -> bool:
        return self.ok


def check(verdict: Verdict) -> Checked:
    """Replay ``verdict``.  ``ProofError`` if it carries no claim or is ``unknown`` (there is nothing to replay)."""
    if verdict.claim is None:
        raise ProofError("check: the verdict does not say what was asked")
    if verdict.status == "unknown":
        raise ProofError("check: an unknown verdict has no evidence", hint="its smtlib text can be given to any solver")
    if isinstance(verdict.claim, IndexClaim):
        return _index(verdict, verdict.claim)
    if isinstance(verdict.claim, AxisClaims):
        return _axis_claims(verdict, verdict.claim)
    return _LAYOUT[verdict.claim.question](verdict, verdict.claim)


# ---- index terms


def _index(verdict: Verdict, claim: IndexClaim) -> Checked:
    ranges = {n: (lo, hi) for n, lo, hi in claim.ranges}
    if verdict.status == "different":
        return _refutation(verdict, claim, ranges)
    bad = _some_point(claim, ranges)
    if bad is not None:
        return Checked(False, f"the sides differ at {bad}")
    if isinstance(verdict.certificate, Matrix):
        wrong = _matrix(verdict.certificate, claim, ranges)
        if wrong:
            return Checked(False, wrong)
    size = 1
    for lo, hi in ranges.values():
        size *= hi - lo + 1
    if isinstance(verdict.certificate, Enumeration) and verdict.certificate.points != size:
        return Checked(False, f"{verdict.certificate.points} points were listed, the box has {size}")
    if size <= POINTS:
        return _everywhere(claim, ranges, size)
    return _asked_otherwise(verdict, claim, ranges)


def _axis_claims(verdict: Verdict, claim: AxisClaims) -> Checked:
    if verdict.status == "equal":
        how = []
        complete = True
        for name, part in claim.parts:
            again = replace(verdict, claim=part, certificate=Structural("one axis"), decided_by="integers")
            found = _index(again, part)
            if not found.ok:
                return Checked(False, f"{name}: {found.how}")
            how.append(f"{name}: {found.how}")
            complete = complete and found.complete
        return Checked(True, "; ".join(how), complete)
    point = dict(verdict.counterexample or {})
    point["x"] = point.get("flat", 0)
    point.update({f"c{d}": c for d, c in enumerate(point.pop("coordinate", ()))})
    for name, part in claim.parts:
        try:
            if all(lo <= point[n] <= hi for n, lo, hi in part.ranges) and all(evaluate(f, point) for f in part.assume):
                if evaluate(part.before, point) != evaluate(part.after, point):
                    return Checked(True, f"{name} differs at the counterexample")
        except (KeyError, EvaluationError) as error:
            return Checked(False, f"{name}: {error}")
    return Checked(False, "the sides agree at the counterexample")


def _refutation(verdict: Verdict, claim: IndexClaim, ranges: Mapping[str, tuple[int, int]]) -> Checked:
    point = dict(verdict.counterexample or {})
    for n, (lo, hi) in ranges.items():
        if not lo <= point.get(n, lo) <= hi:
            return Checked(False, f"{n}={point[n]} is outside {lo}..{hi}")
    try:
        if not all(evaluate(f, point) for f in claim.assume):
            return Checked(False, "the point does not satisfy the assumptions")
        before = evaluate(claim.before, point)
    except EvaluationError as error:
        return Checked(False, error.message)
    try:
        after: int | str = evaluate(claim.after, point)
    except EvaluationError:
        after = "undefined"
    if before == after:
        return Checked(False, f"both sides are {before} at the point")
    if (before, after) != (verdict.before, verdict.after):
        return Checked(False, f"the sides are {before} and {after}, not {verdict.before} and {verdict.after}")
    return Checked(True, "evaluated the counterexample")


def _some_point(claim: IndexClaim, ranges: Mapping[str, tuple[int, int]]) -> dict[str, int] | None:
    """A random point at which the sides differ, if one turns up."""
    rng = random.Random(11)
    for _ in range(SAMPLES):
        point = {n: rng.choice((lo, hi, rng.randint(lo, hi), rng.randint(lo, hi))) for n, (lo, hi) in ranges.items()}
        try:
            if all(evaluate(f, point) for f in claim.assume) and (
                evaluate(claim.before, point) != evaluate(claim.after, point)
            ):
                return point
        except EvaluationError:
            continue
    return None


def _matrix(matrix: Matrix, claim: IndexClaim, ranges: Mapping[str, tuple[int, int]]) -> str:
    """What is wrong with a matrix, multiplied out at random points and compared with both sides."""
    rng = random.Random(12)
    terms = [(parse(text), bit) for text, bit in matrix.inputs]
    for _ in range(SAMPLES):
        point = {n: rng.randint(lo, hi) for n, (lo, hi) in ranges.items()}
        bits = [evaluate(t, point) >> b & 1 for t, b in terms]
        value = 0
        for i, row in enumerate(matrix.rows):
            bit = row & 1
            for j, x in enumerate(bits):
                bit ^= (row >> (j + 1) & 1) & x
            value |= bit << i
        for side in (claim.before, claim.after):
            if evaluate(side, point) != value:
                return f"the matrix gives {value} at {point}, the term {evaluate(side, point)}"
    return ""


def _everywhere(claim: IndexClaim, ranges: Mapping[str, tuple[int, int]], size: int) -> Checked:
    import numpy as np

    axes = np.meshgrid(*(np.arange(lo, hi + 1) for lo, hi in ranges.values()), indexing="ij")
    env = {n: v.ravel() for n, v in zip(ranges, axes)}
    try:
        wrong = np.asarray(evaluate_many(claim.before, env) != evaluate_many(claim.after, env))
        for f in claim.assume:
            wrong = wrong & np.asarray(evaluate_many(f, env) != 0)
    except EvaluationError:
        return _one_by_one(claim, ranges)
    if np.any(wrong):
        return Checked(False, "the sides differ at some point of the box")
    return Checked(True, f"evaluated all {size} points")


def _one_by_one(claim: IndexClaim, ranges: Mapping[str, tuple[int, int]]) -> Checked:
    from itertools import product

    for values in product(*(range(lo, hi + 1) for lo, hi in ranges.values())):
        point = dict(zip(ranges, values))
        try:
            if all(evaluate(f, point) for f in claim.assume) and (
                evaluate(claim.before, point) != evaluate(claim.after, point)
            ):
                return Checked(False, f"the sides differ at {point}")
        except EvaluationError as error:
            return Checked(False, error.message)
    return Checked(True, "evaluated every point one by one")


def _asked_otherwise(verdict: Verdict, claim: IndexClaim, ranges: Mapping[str, tuple[int, int]]) -> Checked:
    """Another procedure of the portfolio on the same question."""
    validator = Validator(dict(ranges), assume=claim.assume)
    a, b = validator.table.add(claim.before), validator.table.add(claim.after)
    others = {
        "gf2": validator._gf2,
        "isl": validator._isl,
        "lemmas": validator._lemmas,
        "z3-int": validator._integers_briefly,
        "z3-bv": validator._bitvector,
    }
    for name, ask in others.items():
        if name == verdict.decided_by:
            continue
        found = ask(a, b)
        if found is not None:
            return Checked(found.status == "equal", f"asked {name} instead of {verdict.decided_by}")
    again = others.get(verdict.decided_by)
    found = again(a, b) if again is not None else None
    if found is not None:
        return Checked(found.status == "equal", f"asked {verdict.decided_by} again; no other procedure decides")
    return Checked(True, f"{SAMPLES} random points agree; no other procedure decides", complete=False)


# ---- layouts


def _equal(verdict: Verdict, claim: LayoutClaim) -> Checked:
    a, b = claim.layouts
    if verdict.status == "different":
        return _layout_refutation(verdict, claim)
    return _same_layouts(a, b, claim.size)


def _layout_refutation(verdict: Verdict, claim: LayoutClaim) -> Checked:
    a, b = claim.layouts
    point = verdict.counterexample or {}
    flat = int(point.get("flat", -1))
    sizes = claim.detail.get("sizes")
    if sizes is not None:
        own = [meaning.size_of(s) for s in claim.layouts]
        if own != list(sizes) or own[0] == own[1]:
            return Checked(False, f"the sizes are {own}, not {sizes}")
        return Checked(True, "compared the sizes")
    if not 0 <= flat < claim.size:
        return Checked(False, f"element {flat} isn't one of {claim.size}")
    x, y = (meaning.places(s, flat, claim.size) for s in (a, b))
    if x == y:
        return Checked(False, f"element {flat} is at the same places on both sides")
    return Checked(True, f"evaluated element {flat} on both sides")


def _same_layouts(a: Mapping[str, Any], b: Mapping[str, Any], size: int) -> Checked:
    copies = max(meaning.copies_of(a), meaning.copies_of(b))
    if size * copies <= POINTS:
        names = None
        try:
            names = meaning.keys([meaning.table(a, size), meaning.table(b, size)])
        except OverflowError:
            pass
        if names is not None:
            same = all(set(x) == set(y) for x, y in zip(*(k.tolist() for k in names)))
            return Checked(same, f"compared the places of all {size} elements")
    rng = random.Random(13)
    for flat in {0, size - 1, *(rng.randrange(size) for _ in range(SAMPLES))}:
        if copies <= POINTS and meaning.places(a, flat, size) != meaning.places(b, flat, size):
            return Checked(False, f"element {flat} is at different places")
    if meaning.copies_of(a) > 1 or meaning.copies_of(b) > 1:
        bare = [{**meaning.tile_of(s, size)[1], "replica": []} for s in (a, b)]
        if meaning.tile_of(a, size)[0] is not None or meaning.tile_of(b, size)[0] is not None:
            return Checked(True, f"{SAMPLES} random elements agree", complete=False)
        return _moved_apart(bare[0], bare[1], a, b, size)
    return _axes(a, b, size)


def _moved_apart(p: Any, q: Any, a: Any, b: Any, size: int) -> Checked:
    """Without a swizzle the copies are the same set at every element, so element 0 compares them; then the base points,
    each shifted to its smallest copy."""
    first, second = meaning.places(a, 0, size), meaning.places(b, 0, size)
    if first != second:
        return Checked(False, "the copies of element 0 differ")
    low = []
    for spec, tile in ((a, p), (b, q)):
        offset = dict(tile.get("offset", {}))
        for extent, stride, axis in meaning.tile_of(spec, size)[1].get("replica", []):
            offset[axis] = offset.get(axis, 0) + min(0, (extent - 1) * stride)
        low.append({**tile, "offset": offset})
    return _axes(low[0], low[1], size)


def _axes(a: Mapping[str, Any], b: Mapping[str, Any], size: int) -> Checked:
    x, _ = meaning.terms(a, size)
    y, _ = meaning.terms(b, size)
    validator = Validator({"x": (0, size - 1)})
    by = set()
    for axis in sorted({*x, *y}):
        found = validator.compare(x.get(axis, 0), y.get(axis, 0))
        by.add(found.decided_by)
        if found.status != "equal":
            undecided = found.status == "unknown"
            return Checked(undecided, f"axis {axis}: {found.detail or found.status}", complete=not undecided)
    return Checked(True, f"compared each axis as index terms ({', '.join(sorted(by))})")


def _injective(verdict: Verdict, claim: LayoutClaim) -> Checked:
    (spec,) = claim.layouts
    if verdict.status == "different":
        point = verdict.counterexample or {}
        first, second = int(point["first"]), int(point["second"])
        place = tuple(sorted(point["place"].items()))
        held = all(place in meaning.places(spec, x, claim.size) for x in (first, second))
        return Checked(held and first != second, "evaluated both elements")
    copies = meaning.copies_of(spec)
    if claim.size * copies <= 4 * POINTS:
        seen: dict[Any, int] = {}
        (keys,) = meaning.keys([meaning.table(spec, claim.size)])
        for flat, row in enumerate(keys.tolist()):
            for k in row:
                if seen.setdefault(k, flat) != flat:
                    return Checked(False, f"elements {seen[k]} and {flat} share a place")
        return Checked(True, f"listed the places of all {claim.size} elements")
    rng = random.Random(14)
    owner: dict[Any, int] = {}
    for _ in range(20 * SAMPLES):
        flat = rng.randrange(claim.size)
        for place in meaning.places(spec, flat, claim.size):
            if owner.setdefault(place, flat) != flat:
                return Checked(False, f"elements {owner[place]} and {flat} share a place")
    return Checked(True, "random elements share no place", complete=False)


def _covers(verdict: Verdict, claim: LayoutClaim) -> Checked:
    (spec,) = claim.layouts
    extents: dict[str, int] = claim.detail["extents"]
    reached: set[Any] = set()
    for flat in range(claim.size):
        reached.update(meaning.places(spec, flat, claim.size))
    if verdict.status == "different":
        point = verdict.counterexample or {}
        inside = all(0 <= point.get(a, 0) < e for a, e in extents.items()) and set(point) <= set(extents)
        missing = tuple(sorted((a, v) for a, v in point.items() if v)) not in reached
        return Checked(inside and missing, "listed all places")
    total = 1
    for e in extents.values():
        total *= e
    box = [p for p in reached if all(a in extents and 0 <= v < extents[a] for a, v in p)]
    return Checked(len(box) == total, f"{len(box)} of {total} points are reached")


def _conflicts(verdict: Verdict, claim: LayoutClaim) -> Checked:
    """Words and banks counted again from the definition (32 banks of 4 bytes; phases of 32, 16 or 8 lanes)."""
    (spec,) = claim.layouts
    if claim.shape is None:
        raise ProofError("check: the claim has no shape")
    from ..ir import dtype as dt

    _, bits, count = dt.parse(dt.normalize(claim.detail["dtype"]))
    size, vector = bits * count, int(claim.detail["vector"])
    width = size * vector // 8
    lanes = {1: 32, 2: 32, 4: 32, 8: 16, 16: 8}[width]
    waves = least = 0
    starts = [None if c is None else _flat(c, claim.shape) for c in claim.detail["lanes"]]
    for phase in range(0, len(starts), lanes):
        words: set[int] = set()
        for start in starts[phase : phase + lanes]:
            if start is None:  # an inactive lane
                continue
            at = dict(meaning.places(spec, start, claim.size)[0]).get("m", 0) * size // 8
            words.update(range(at // 4, (at + max(width, 1) - 1) // 4 + 1))
        load = [sum(1 for w in words if w % 32 == bank) for bank in range(32)]
        waves, least = waves + max(load), least + -(-len(words) // 32)
    free = waves == least
    return Checked(free == (verdict.status == "equal"), f"{waves} wavefronts, {least} at least")


def _flat(coord: Sequence[int], shape: Sequence[int]) -> int:
    flat = 0
    for c, e in zip(coord, shape):
        flat = flat * e + c
    return flat


def _up_to_offset(verdict: Verdict, claim: LayoutClaim) -> Checked:
    a, b = claim.layouts
    if verdict.status == "equal":
        shift: dict[str, int] = claim.detail["offset"]
    else:
        p, q = dict(meaning.places(a, 0, claim.size)[0]), dict(meaning.places(b, 0, claim.size)[0])
        shift = {x: p.get(x, 0) - q.get(x, 0) for x in {*p, *q}}
    picks = range(claim.size) if claim.size <= POINTS else (claim.size - 1, *range(SAMPLES))
    if verdict.status == "different":
        picks = ((verdict.counterexample or {})["flat"],)
    for flat in picks:
        moved = sorted(_moved(place, shift) for place in meaning.places(b, flat, claim.size))
        if moved != meaning.places(a, flat, claim.size):
            return Checked(verdict.status == "different", f"element {flat} is not {shift} away")
    return Checked(verdict.status == "equal", "moved every element", complete=claim.size <= POINTS)


def _moved(place: meaning.Place, shift: Mapping[str, int]) -> meaning.Place:
    at = dict(place)
    for axis, v in shift.items():
        at[axis] = at.get(axis, 0) + v
    return tuple(sorted((x, v) for x, v in at.items() if v))


def _up_to_permutation(verdict: Verdict, claim: LayoutClaim) -> Checked:
    from itertools import permutations

    a, b = claim.layouts
    assert claim.shape is not None
    shape = claim.shape
    orders = [claim.detail["order"]] if verdict.status == "equal" else list(permutations(range(len(shape))))
    for order in orders:
        for flat in range(min(claim.size, POINTS)):
            coord, rest = [], flat
            for e in reversed(shape):
                rest, c = divmod(rest, e)
                coord.append(c)
            coord.reverse()
            other = _flat([coord[d] for d in order], [shape[d] for d in order])
            if meaning.places(a, flat, claim.size) != meaning.places(b, other, claim.size):
                break
        else:
            return Checked(verdict.status == "equal", f"the order {list(order)} agrees on every element")
    return Checked(verdict.status == "different", "no order agrees")


_LAYOUT = {
    "equal": _equal,
    "injective": _injective,
    "covers": _covers,
    "conflict_free": _conflicts,
    "same_up_to_offset": _up_to_offset,
    "same_up_to_permutation": _up_to_permutation,
}
