"""The threads of a launch: how many, and what each scope id is for each of them.

Computed from the scope-id definitions alone.  Ids of several dimensions count with the first fastest (x, y, z); CTAs of
a launch are numbered x fastest, clusters are boxes of CTAs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..ir import Expr, PrimFunc, ScopeIdDef, ScopeIdDefStmt, StmtVisitor, Var
from .faults import InterpreterError

Array = Any
#: Threads per unit of each scope that has a fixed number.
UNIT = {"warp": 32, "warpgroup": 128}
MAX_THREADS = 1024
#: CTAs that run together, so that their shared memory stays within bounds.
MAX_CTAS = 512


@dataclass(frozen=True)
class Geometry:
    """``grid``, ``cluster`` and ``block`` per dimension, in CTAs, CTAs and threads."""

    grid: tuple[int, int, int]
    cluster: tuple[int, int, int]
    block: tuple[int, int, int]
    definitions: tuple[ScopeIdDef, ...] = ()

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return prod(self.block)

    @property
    def ctas(self) -> int:
        return prod(self.grid)

    @property
    def cluster_size(self) -> int:
        return prod(self.cluster)


@dataclass(frozen=True)
class Wave:
    """The CTAs that run together (whole clusters), and per thread its place among them.

    ``cta``: the CTA's row in this wave; ``tid``: the thread in its CTA; the other arrays are per CTA row.
    """

    geometry: Geometry
    first: int
    cta: Array
    tid: Array
    cta_xyz: tuple[Array, Array, Array]
    cluster_xyz: tuple[Array, Array, Array]
    in_cluster_xyz: tuple[Array, Array, Array]
    rank: Array

    @property
    def size(self) -> int:
        """Threads of the wave."""
        return len(self.tid)

    @property
    def rows(self) -> int:
        """CTAs of the wave."""
        return len(self.rank)

    @property
    def warp(self) -> Array:
        return self.tid // 32

    def describe(self, thread: int) -> str:
        """A thread for an error message."""
        row = int(self.cta[thread])
        x, y, z = (int(a[row]) for a in self.cta_xyz)
        place = f"thread {int(self.tid[thread])}"
        if self.geometry.ctas == 1:
            return place
        return f"{place} of CTA {x}" if self.geometry.grid[1:] == (1, 1) else f"{place} of CTA ({x}, {y}, {z})"


class _Collect(StmtVisitor):
    def __init__(self) -> None:
        self.found: list[ScopeIdDef] = []

    def visit_scope_id_def_stmt(self, value: ScopeIdDefStmt) -> None:
        self.found.append(value.definition)


def find_geometry(func: PrimFunc, integer: Callable[[Expr], int]) -> Geometry:
    """The launch of a kernel; ``integer`` evaluates an extent.  InterpreterError if scope ids contradict each other."""
    collect = _Collect()
    collect.visit(func.body)
    known: dict[tuple[str, str], tuple[int, ...]] = {}
    for d in collect.found:
        if d.extents is None:
            continue
        extents = tuple(integer(e) for e in d.extents)
        if known.setdefault((d.parent, d.child), extents) != extents:
            raise InterpreterError(
                f"ids of {d.child} in {d.parent} are declared with {known[d.parent, d.child]} and {extents}"
            )
    cluster = _xyz(known.get(("cluster", "cta"), ()))
    return Geometry(_grid(known, cluster), cluster, _block(known), tuple(collect.found))


def _xyz(extents: Sequence[int]) -> tuple[int, int, int]:
    if len(extents) > 3:
        raise InterpreterError(f"a launch has at most 3 dimensions, got {list(extents)}")
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


def _grid(known: dict[tuple[str, str], tuple[int, ...]], cluster: tuple[int, int, int]) -> tuple[int, int, int]:
    ctas, clusters = known.get(("kernel", "cta")), known.get(("kernel", "cluster"))
    if ctas is not None:
        grid = _xyz(ctas)
    else:
        a, b, c = _xyz(clusters or ())
        grid = (a * cluster[0], b * cluster[1], c * cluster[2])
    if any(g % c for g, c in zip(grid, cluster)):
        raise InterpreterError(f"a grid of {list(grid)} CTAs can't be cut into clusters of {list(cluster)}")
    if ctas is not None and clusters is not None and prod(clusters) * prod(cluster) != prod(grid):
        raise InterpreterError(f"{prod(clusters)} clusters of {prod(cluster)} CTAs are not {prod(grid)} CTAs")
    return grid


def _block(known: dict[tuple[str, str], tuple[int, ...]]) -> tuple[int, int, int]:
    told = {f"{child}_id": prod(known["cta", child]) * UNIT.get(child, 1)
            for child in ("thread", "warp", "warpgroup") if ("cta", child) in known}  # fmt: skip
    if len(set(told.values())) > 1:
        raise InterpreterError(
            "scope ids disagree about the threads of a CTA: " + ", ".join(f"{k}: {v}" for k, v in told.items())
        )
    for parent, child in (("warp", "thread"), ("warpgroup", "thread"), ("warpgroup", "warp")):
        given = known.get((parent, child))
        if given is not None and prod(given) != UNIT[parent] // UNIT.get(child, 1):
            raise InterpreterError(f"a {parent} hasn't {prod(given)} {child}s")
    if ("cta", "thread") in known:
        block = _xyz(known["cta", "thread"])
    elif told:
        block = (next(iter(told.values())), 1, 1)
    else:
        widest = (
            "warpgroup" if any(p == "warpgroup" for p, _ in known) else "warp" if ("warp", "thread") in known else ""
        )
        block = (UNIT.get(widest, 1), 1, 1)
    if not 1 <= prod(block) <= MAX_THREADS:
        raise InterpreterError(f"{prod(block)} threads in a CTA: at most {MAX_THREADS} are possible")
    return block


def waves(geometry: Geometry, most_threads: int = 1 << 14) -> Iterator[Wave]:
    """The launch in waves of whole clusters, in order, of at most ``most_threads`` threads (at least one cluster)."""
    clusters = geometry.ctas // geometry.cluster_size
    per_wave = max(1, min(most_threads // geometry.threads, MAX_CTAS) // geometry.cluster_size)
    for first in range(0, clusters, per_wave):
        yield _wave(geometry, first, min(per_wave, clusters - first))


def _split(flat: Array, extents: Sequence[int]) -> tuple[Array, Array, Array]:
    x, y, _ = extents
    return flat % x, flat // x % y, flat // (x * y)


def _wave(g: Geometry, first: int, count: int) -> Wave:
    number = np.repeat(np.arange(first, first + count), g.cluster_size)
    rank = np.tile(np.arange(g.cluster_size), count)
    cluster = _split(number, [a // b for a, b in zip(g.grid, g.cluster)])
    inside = _split(rank, g.cluster)
    cx, cy, cz = (c * e + i for c, e, i in zip(cluster, g.cluster, inside))
    rows = len(rank)
    return Wave(
        g, first * g.cluster_size, np.repeat(np.arange(rows), g.threads), np.tile(np.arange(g.threads), rows),
        (cx, cy, cz), cluster, inside, rank,
    )  # fmt: skip


def id_values(d: ScopeIdDef, wave: Wave) -> list[tuple[Var, Array]]:
    """What each id of a definition is, per thread of the wave."""
    g = wave.geometry
    key = (d.parent, d.child)
    if d.child == "cta" or d.child == "cluster":
        source = {("kernel", "cta"): wave.cta_xyz, ("cluster", "cta"): wave.in_cluster_xyz}.get(key, wave.cluster_xyz)
        return [(v, a[wave.cta]) for v, a in zip(d.def_ids, source)]
    if key == ("cta", "thread") and len(d.def_ids) > 1:
        return list(zip(d.def_ids, _split(wave.tid, g.block)))
    flat = {
        ("cta", "thread"): wave.tid, ("cta", "warp"): wave.tid // 32, ("cta", "warpgroup"): wave.tid // 128,
        ("warpgroup", "thread"): wave.tid % 128, ("warpgroup", "warp"): wave.tid // 32 % 4,
        ("warp", "thread"): wave.tid % 32, ("cluster", "cta_pair"): wave.rank[wave.cta] % 2,
    }[key]  # fmt: skip
    out = []
    extents = [int(e) for e in d.extents] if d.extents is not None else []  # type: ignore[call-overload]
    for k, var in enumerate(d.def_ids):
        last = k + 1 == len(d.def_ids)
        out.append((var, flat if last else flat % extents[k]))
        flat = flat if last else flat // extents[k]
    return out
