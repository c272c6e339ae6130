"""Layouts in the e-graph: many at once, equal ones in one class.

The rules (``rules/layout*.egg``) are complete for layouts without swizzle and decide nearly all swizzled ones; a class
that they leave open is closed by the canonical form of :mod:`tirx_eq.layout.normal`, computed outside.  A single pair is
decided faster by that form alone: this is for batches, for traces, and as an independent second way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import LayoutError
from ..layout.axis import AXES, Axis
from ..layout.base import Layout
from ..layout.compose import ComposeLayout
from ..layout.normal import normal_form
from ..layout.swizzle import SwizzleLayout
from ..layout.tile import Iter, TileLayout
from .engine import Engine, Report
from .rules import Rule, Source, read_files, rules_of

#: The layout family, in loading order; ``layout.egg`` declares the sorts.
LAYOUT_FILES = ("layout.egg", "layout_threads.egg", "layout_swizzle.egg")

AXIS_NUMBER: dict[str, int] = {name: k for k, name in enumerate(AXES)}

#: Terms come as rows of relations, children before parents: reading text costs egglog far more.
_LOADING = """
(relation n-nil (i64)) (relation n-none (i64)) (relation n-it (i64 i64 i64 i64 i64)) (relation n-rp (i64 i64 i64 i64 i64))
(relation n-of (i64 i64 i64 i64)) (relation n-lay (i64 i64 i64)) (relation n-swz (i64 i64 i64 i64 i64 i64))
(relation n-root (i64 i64)) (relation n-same (i64 i64)) (relation n-den (i64 String))
(function shard-at (i64) Shard :no-merge) (function copies-at (i64) Copies :no-merge) (function at (i64) Layout :no-merge)
(rule ((n-nil i)) ((set (shard-at i) (Nil))) :ruleset load)
(rule ((n-none i)) ((set (copies-at i) (None))) :ruleset load)
(rule ((n-it i e s a t) (= u (shard-at t))) ((set (shard-at i) (It e s a u))) :ruleset load)
(rule ((n-rp i e s a t) (= u (copies-at t))) ((set (copies-at i) (Rp e s a u))) :ruleset load)
(rule ((n-of i a k t) (= u (copies-at t))) ((set (copies-at i) (Of a k u))) :ruleset load)
(rule ((n-lay i h q) (= u (shard-at h)) (= v (copies-at q))) ((set (at i) (Lay u v))) :ruleset load)
(rule ((n-swz i m b p n l) (= u (at l))) ((set (at i) (Swz m b p n u))) :ruleset load)
(rule ((n-root r l) (= u (at l))) ((set (root r) u)) :ruleset load)
(rule ((n-same r l) (= u (root r)) (= v (at l))) ((union u v)) :ruleset load)
(rule ((n-den r d) (= u (root r))) ((union u (Den d))) :ruleset load)
"""

_CLOSE = "(seq (saturate load) (saturate shard) (saturate (seq (saturate copies) (saturate known) swizzle)))"


def layout_rules() -> list[Rule]:
    """The rules of the layout family."""
    return rules_of(layout_sources())


def layout_sources() -> tuple[Source, ...]:
    """All forms of the layout family's files."""
    return read_files(LAYOUT_FILES)


@dataclass(frozen=True)
class Classes:
    """``ids[i]``: the class of layout i, equal ids exactly for equal meaning.  ``by_rules[i]``: whether its canonical tile
    was reached by rules alone (a swizzle that acts never is one).  ``report``: what the run did."""

    ids: tuple[int, ...]
    by_rules: tuple[bool, ...]
    report: Report


class _Rows:
    """Terms as numbered rows, shared where equal."""

    def __init__(self) -> None:
        self.tables: dict[str, list[tuple[Any, ...]]] = {}
        self.seen: dict[tuple[Any, ...], int] = {}
        self.count = 0

    def node(self, table: str, *fields: Any) -> int:
        key = (table, *fields)
        if key not in self.seen:
            self.count += 1
            self.seen[key] = self.count
            self.tables.setdefault(table, []).append((self.count, *fields))
        return self.seen[key]

    def layout(self, layout: Layout, size: int | None = None) -> int:
        if isinstance(layout, SwizzleLayout):
            count = layout.period if size is None else size
            return self.swizzled(layout, TileLayout((Iter(count, 1),)))
        if isinstance(layout, ComposeLayout):
            return self.swizzled(layout.swizzle, layout.tile)
        assert isinstance(layout, TileLayout)
        return self.tile(layout)

    def swizzled(self, s: SwizzleLayout, tile: TileLayout) -> int:
        return self.node(
            "n-swz", s.per_element, s.swizzle_len, s.atom_len, int(s.swizzle_inner), self.tile(tile)
        )

    def tile(self, tile: TileLayout) -> int:
        if not tile.is_constant():
            raise LayoutError("only layouts of numbers can be compared in the e-graph")
        shard = self.node("n-nil")
        for it in reversed(tile.shard):
            shard = self.node("n-it", it.extent, it.stride, _number(it.axis), shard)
        copies = self.node("n-none")
        for axis, value in tile.offset.items():
            copies = self.node("n-of", _number(axis), value, copies)
        for it in tile.replica:
            copies = self.node("n-rp", it.extent, it.stride, _number(it.axis), copies)
        return self.node("n-lay", shard, copies)

    def take(self) -> dict[str, list[tuple[Any, ...]]]:
        tables, self.tables = self.tables, {}
        return tables


def _number(axis: Axis) -> int:
    return AXIS_NUMBER[axis.name]


def prelude() -> list[str]:
    """The forms an engine for layouts starts with."""
    return [s.text for s in layout_sources()] + [f for f in _LOADING.strip().splitlines() if f]


def classes(
    layouts: Sequence[Layout], *, sizes: Sequence[int | None] | None = None, cta: bool = False
) -> Classes:
    """Which of many layouts mean the same.  ``sizes`` are for bare swizzles; ``cta``: thread axes are one CTA's parts.

    Layouts of different size are never equal.  With ``cta`` the layouts must pass the range check of
    :func:`tirx_eq.layout.threads.to_thread` (LayoutError).  Only layouts of numbers (LayoutError).
    """
    wanted = sizes or [None] * len(layouts)
    if cta:
        from ..layout.threads import to_thread

        for layout in layouts:
            to_thread(layout)
    engine = Engine(prelude())
    rows = _Rows()
    roots = [rows.layout(layout, size) for layout, size in zip(layouts, wanted)]
    rows.tables["n-root"] = list(enumerate(roots))
    engine.load(rows.take())
    if cta:
        engine.run("(cta)")
    schedule = f"(seq (saturate load) (saturate threads) {_CLOSE})" if cta else _CLOSE
    report = engine.saturate(schedule, rounds=2, nodes=5_000_000)
    graph = engine.freeze(operators=("Lay",), tables=("root",))
    found: dict[int, int] = dict(graph.tables["root"])
    plain = {i: found[i] in graph.classes for i in range(len(layouts))}
    open_classes: dict[int, int] = {}
    for i in range(len(layouts)):
        if not plain[i]:
            open_classes.setdefault(found[i], i)
    if open_classes:
        _close(engine, rows, layouts, wanted, list(open_classes.values()))
        engine.saturate(_CLOSE, rounds=2, nodes=5_000_000)
        found = dict(engine.rows("root"))
    numbers: dict[tuple[int, Any], int] = {}
    counts = [layout.size() if size is None else size for layout, size in zip(layouts, wanted)]
    ids = tuple(numbers.setdefault((found[i], counts[i]), len(numbers)) for i in range(len(layouts)))
    return Classes(ids, tuple(plain[i] for i in range(len(layouts))), report)


def _close(
    engine: Engine, rows: _Rows, layouts: Sequence[Layout], sizes: Sequence[int | None], which: Iterable[int]
) -> None:
    """Tell the e-graph the meaning of classes that the rules left open: a plain tile as a term, others by name."""
    same: list[tuple[Any, ...]] = []
    named: list[tuple[Any, ...]] = []
    for i in which:
        form = normal_form(layouts[i], sizes[i])
        if not form.complete:
            raise LayoutError(f"the meaning of layout {i} is too large for its canonical form to be complete")
        if isinstance(form.layout, TileLayout):
            same.append((i, rows.layout(form.layout)))
        else:
            named.append((i, f"{form.size}:{form.layout!r}"))
    tables = rows.take()
    tables.update({"n-same": same, "n-den": named})
    engine.load({name: made for name, made in tables.items() if made})
