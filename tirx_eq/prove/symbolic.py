"""Equality of layouts with symbolic extents, strides and offsets.

    canonical form, as far as the values show it → per axis, on unbounded integers: each division a quotient and a
    remainder, lemmas of mixed radix, outer quotients before inner ones (``nonlinear``) → the index portfolio within the
    ranges → unknown, with the question

A refutation gives numbers to the variables as well: with them the layouts are plain ones that differ at an element.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..errors import LayoutError
from ..ir.expr import Expr, Var
from ..ir.index import EvaluationError, Term, evaluate, names
from ..ir.index_ir import IndexScope
from ..layout import ComposeLayout, Iter, Layout, SwizzleLayout, TileLayout
from ..layout.axis import Axis
from ..layout.normal import normal_form
from . import layouts
from .obligations import Goal, Obligation
from .prover import certificate, integers
from .validate import Validator
from .verdict import AxisClaims, Certificate, IndexClaim, Lemmas, NormalForm, Verdict

Bounds = Mapping[Any, tuple[int, int]]
SAMPLES = 40
DEFAULT_BOUNDS = (1, (1 << 31) - 1)


def equal(
    a: Layout,
    b: Layout,
    shape: Sequence[Any] | None = None,
    *,
    ranges: Bounds | None = None,
    assume: Sequence[Any] = (),
    rlimit: int | None = None,
) -> Verdict:
    """Whether two layouts mean the same for all values of their variables.

    ``ranges`` maps variables (``Var`` or name) to inclusive bounds, by default 1 .. 2**31 - 1; ``assume`` lists
    conditions (expressions or index terms) that hold of them, divisibility say.  ``shape`` (numbers or expressions)
    names elements by coordinates, which are in its extents.  Copies must be the same on both sides.
    """
    space = _Space(a, b, shape, ranges or {}, assume)
    return replace(_equal(a, b, space, rlimit), claim=space.claims())


def _equal(a: Layout, b: Layout, space: _Space, rlimit: int | None) -> Verdict:
    if normal_form(a).layout == normal_form(b).layout:
        return Verdict("equal", "normal form", certificate=NormalForm(str(normal_form(a).layout)))
    refuted = space.refute()
    if refuted is not None:
        return refuted
    steps: list[tuple[str, Certificate]] = []
    for name, before, after in space.equations():
        found = space.proved(name, before, after)
        if found is None:
            found = space.validated(before, after, rlimit)
            if found.certificate is None:
                return Verdict("unknown", "portfolio", detail=f"{name}: not decided", smtlib=found.smtlib)
        steps.append((name, found.certificate))  # type: ignore[arg-type]
    return Verdict("equal", "integers", certificate=Lemmas(tuple(steps)))


class _Space:
    """Both layouts as index terms over one set of variables."""

    def __init__(self, a: Layout, b: Layout, shape: Sequence[Any] | None, ranges: Bounds, assume: Sequence[Any]) -> None:
        self.layouts = (a, b)
        self.scope = IndexScope()
        self.shape = None if shape is None else [self.term(e) for e in shape]
        self.sides = [_Side(layout, self) for layout in (a, b)]
        self.assume: list[Term] = [self.term(f) if isinstance(f, Expr) else f for f in assume]
        given = {(k.name if isinstance(k, Var) else str(k)): v for k, v in ranges.items()}
        self.bounds = {n: given.get(n, DEFAULT_BOUNDS) for n in sorted(self._symbols())}
        if _replicas(self.sides[0]) != _replicas(self.sides[1]):
            raise LayoutError("equality of symbolic layouts: the copies must be the same on both sides")

    def _symbols(self) -> set[str]:
        found: set[str] = set()
        for side in self.sides:
            for extent, stride, _ in (*side.shard, *side.replica):
                found |= names(extent, stride)
            found |= names(*side.offset.values())
        for t in (*(self.shape or ()), *self.assume):
            found |= names(t)
        return found

    def term(self, value: Any) -> Term:
        """An extent, stride or offset as an index term."""
        if isinstance(value, int):
            return value
        if not isinstance(value, Expr):
            raise LayoutError(f"symbolic layouts: {value!r} is neither a number nor an expression")
        return self.scope.term(value)

    def coordinates(self) -> tuple[Term, dict[str, Term]]:
        """The flat index, and the extent of each coordinate in it."""
        if self.shape is None:
            return "x", {"x": self.sides[0].size}
        flat: Term = 0
        extents: dict[str, Term] = {}
        for d, e in enumerate(self.shape):
            flat = f"c{d}" if d == 0 else ("add", ("mul", flat, e), f"c{d}")
            extents[f"c{d}"] = e
        return flat, extents

    def equations(self) -> list[tuple[str, Term, Term]]:
        """Equal sizes, then equal coordinates on every axis."""
        flat, _ = self.coordinates()
        first, second = self.sides
        out: list[tuple[str, Term, Term]] = [("size", first.size, second.size)]
        if self.shape is not None:
            total: Term = 1
            for e in self.shape:
                total = _times(total, e)
            out.append(("size of the shape", first.size, total))
        x, y = first.at(flat), second.at(flat)
        if first.swizzle is not None or second.swizzle is not None:
            if first.swizzle != second.swizzle:
                x, y = first.swizzled(x), second.swizzled(y)  # of equal swizzles the addresses beneath decide
        return out + [(f"axis {axis}", x.get(axis, 0), y.get(axis, 0)) for axis in sorted({*x, *y})]

    def hypotheses(self) -> list[Term]:
        """Bounds of the variables, extents at least 1, coordinates inside their extents, what is assumed."""
        out: list[Term] = []
        for n, (lo, hi) in self.bounds.items():
            out += [("le", lo, n), ("le", n, hi)]
        for side in self.sides:
            out += [("le", 1, e) for e, _, _ in side.shard if not isinstance(e, int)]
        for c, e in self.coordinates()[1].items():
            out += [("le", 0, c), ("lt", c, e)]
        return out + self.assume

    def claims(self) -> AxisClaims:
        """The equations as claims about index terms within the ranges."""
        ranges, inside = self.box()
        parts = []
        for name, before, after in self.equations():
            facts = (*self.assume, *inside)
            used = names(before, after, *facts)
            box = tuple((n, lo, hi) for n, (lo, hi) in sorted(ranges.items()) if n in used)
            parts.append((name, IndexClaim(before, after, box, facts)))
        return AxisClaims(tuple(parts))

    def box(self) -> tuple[dict[str, tuple[int, int]], list[Term]]:
        """Ranges of all variables, coordinates too; and that coordinates are inside symbolic extents."""
        _, extents = self.coordinates()
        ranges = dict(self.bounds)
        table = Validator(ranges).table
        for c, e in extents.items():
            ranges[c] = (0, max(0, table.interval[table.add(e)][1] - 1))
        return ranges, [("lt", c, e) for c, e in extents.items() if not isinstance(e, int)]

    def proved(self, name: str, before: Term, after: Term) -> Verdict | None:
        """On unbounded integers; None if that doesn't decide."""
        goal = Goal(name, ("eq", before, after))
        facts = tuple(self.hypotheses())
        sorts = dict.fromkeys(sorted(names(before, after, *facts)), "i64")
        try:
            proof = integers(Obligation(name, facts, (goal,), sorts, False))
        except NotImplementedError:
            return None
        if proof.verdict != "proved":
            return None
        return Verdict("equal", "integers", certificate=certificate(proof))

    def validated(self, before: Term, after: Term, rlimit: int | None) -> Verdict:
        """Within the ranges, by the index portfolio."""
        ranges, inside = self.box()
        return Validator(ranges, assume=[*self.assume, *inside], rlimit=rlimit).compare(before, after)

    def refute(self, seed: int = 4) -> Verdict | None:
        """Small numbers for the variables under which the layouts, plain then, differ."""
        rng = random.Random(seed)
        for trial in range(SAMPLES):
            values = {
                n: min(hi, max(lo, rng.choice((1, 2, 3, 4, 5, 6, 7, 8, 12, 16)) + (lo if lo > 1 else 0)))
                if trial
                else min(hi, max(lo, 2))
                for n, (lo, hi) in self.bounds.items()
            }
            if any(not _holds(f, values) for f in self.assume):
                continue
            try:
                plain = [side.plain(values) for side in self.sides]
                shape = None if self.shape is None else [evaluate(e, values) for e in self.shape]
                found = layouts.equal(plain[0], plain[1], shape)
            except (LayoutError, EvaluationError):
                continue
            if found.status == "different" and found.counterexample is not None:
                point = {**values, **found.counterexample}
                at = ", ".join(f"{n}={v}" for n, v in values.items())
                return replace(found, counterexample=point, detail=f"with {at}: {found.detail}")
        return None


class _Side:
    """One layout as terms."""

    def __init__(self, layout: Layout, space: _Space) -> None:
        tile = layout.tile if isinstance(layout, ComposeLayout) else layout
        self.swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else None
        if isinstance(layout, SwizzleLayout):
            raise LayoutError("symbolic layouts: a bare swizzle has no size", hint="compose it with a tile")
        assert isinstance(tile, TileLayout)
        self.shard = [(space.term(i.extent), space.term(i.stride), i.axis.name) for i in tile.shard]
        self.replica = [(space.term(i.extent), space.term(i.stride), i.axis.name) for i in tile.replica]
        self.offset = {axis.name: space.term(v) for axis, v in tile.offset.items()}
        size: Term = 1
        for extent, _, _ in self.shard:
            size = _times(size, extent)
        self.size = size

    def at(self, flat: Term) -> dict[str, Term]:
        """Base point of a flat index, before the swizzle."""
        out: dict[str, Term] = dict(self.offset)
        rest = flat
        for k, (extent, stride, axis) in reversed(list(enumerate(self.shard))):
            digit: Term = rest if k == 0 else ("mod", rest, extent)
            part = _times(digit, stride)
            out[axis] = ("add", out[axis], part) if axis in out else part
            rest = ("div", rest, extent)
        return out

    def swizzled(self, at: dict[str, Term]) -> dict[str, Term]:
        """The swizzle applied to axis m."""
        if self.swizzle is None or self.swizzle.swizzle_len == 0:
            return at
        s = self.swizzle
        m = at.get("m", 0)
        move = ("shr" if s.swizzle_inner else "shl", ("and", m, s.source_mask), s.atom_len)
        return {**at, "m": ("xor", m, move)}

    def plain(self, values: Mapping[str, int]) -> Layout:
        """The layout with numbers for its variables."""
        iters = [
            [Iter(evaluate(e, values), evaluate(s, values), Axis.get(axis)) for e, s, axis in part]
            for part in (self.shard, self.replica)
        ]
        offset: Any = {axis: evaluate(v, values) for axis, v in self.offset.items()}
        tile = TileLayout(tuple(iters[0]), tuple(iters[1]), offset)
        return tile if self.swizzle is None else ComposeLayout(self.swizzle, tile)


def _replicas(side: _Side) -> list[Any]:
    return sorted(map(str, side.replica))


def _times(a: Term, b: Term) -> Term:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return b if a == 1 else a if b == 1 else 0 if 0 in (a, b) else ("mul", a, b)


def _holds(fact: Term, values: Mapping[str, int]) -> bool:
    try:
        return evaluate(fact, values) != 0
    except EvaluationError:
        return False
