"""Thread coordinates: what each scope id is in terms of the hardware's ``tid``, ``ctaid`` and cluster coordinates.

Also the launch: how many CTAs and threads a kernel needs, from the extents of its scope ids.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from ...errors import LoweringError, Span
from ...ir import Expr, IntImm, PrimFunc, ScopeIdDef, ScopeIdDefStmt, StmtVisitor, Var, const
from ...ir.index_ir import IndexScope
from ..host import HostValues, host_values
from ..scope import bounds, new_scope

MAX_CLUSTER = 16  # CTAs, where the launch allows more than the portable 8
MAX_THREADS = 1024  # per CTA; CUDA C++ Programming Guide, technical specifications per compute capability
#: CTAs per dimension, at most (same table).
MAX_GRID = (2**31 - 1, 65535, 65535)
WARP = 32
WARPGROUP = 128

#: An extent of a grid: a number, or an expression over scalar parameters and extents of arrays.
Extents = tuple[int | Expr, ...]
Grid = tuple[int | Expr, int | Expr, int | Expr]


@dataclass(frozen=True)
class Launch:
    """Launch shape of a kernel and the meaning of its scope ids.

    ``grid``, ``cluster`` and ``block`` count CTAs, CTAs and threads per dimension (x, y, z); the grid may depend on what is
    known at the launch.  ``ids`` maps each scope-id variable to an expression over ``special``'s variables, whose names are
    PTX special registers (``tid.x``).
    """

    grid: Grid
    cluster: tuple[int, int, int]
    block: tuple[int, int, int]
    ids: dict[Var, Expr] = field(repr=False)
    special: dict[str, Var] = field(repr=False)
    host: HostValues = field(repr=False)

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return math.prod(self.block)

    @property
    def warps(self) -> int:
        return -(-self.threads // WARP)

    def extent(self, register: str) -> int:
        """The number of values that a special register has in this launch, at most."""
        name, _, axis = register.partition(".")
        if name == "cluster_ctarank":
            return math.prod(self.cluster)
        place = "xyz".index(axis)
        if name in ("ctaid", "clusterid"):
            ctas = self._largest(self.grid[place], MAX_GRID[place])
            return ctas // self.cluster[place] if name == "clusterid" else ctas
        return {"tid": self.block, "cluster_ctaid": self.cluster}[name][place]

    def _largest(self, extent: int | Expr, limit: int) -> int:
        if isinstance(extent, int):
            return extent
        scope = new_scope()
        for var, limits in self.host.ranges.items():
            scope.name(var, limits)
        return max(1, min(bounds(scope.term(extent), scope.ranges)[1], limit))

    def declare(self, scope: IndexScope) -> None:
        """Give the special registers their ranges in ``scope``."""
        for register, var in self.special.items():
            scope.name(var, (0, self.extent(register) - 1))

    def cta_rank(self) -> Expr:
        """The CTA's number in its cluster."""
        return _register(self.special, "cluster_ctarank") if math.prod(self.cluster) > 1 else const(0)

    def cta_in_cluster(self, axis: str) -> Expr:
        """The CTA's coordinate in its cluster along x, y or z."""
        return _register(self.special, f"cluster_ctaid.{axis}") if self.cluster["xyz".index(axis)] > 1 else const(0)

    def flat_tid(self) -> Expr:
        """The thread's number in its CTA, x fastest."""
        return _flat_tid(self.block, self.special)


class _Collect(StmtVisitor):
    def __init__(self) -> None:
        self.found: list[ScopeIdDef] = []
        self.spans: list[Span | None] = []

    def visit_scope_id_def_stmt(self, value: ScopeIdDefStmt) -> None:
        self.found.append(value.definition)
        self.spans.append(value.span)


def find_launch(func: PrimFunc) -> Launch:
    """The launch of a kernel from its scope ids.

    Raises LoweringError if extents contradict each other, are not constant (but those of the grid), or exceed 1024 threads.
    """
    collect = _Collect()
    collect.visit(func.body)
    _check_repeated(collect)
    try:
        return _launch(func, collect)
    except LoweringError as error:
        raise error.at(next((s for s in reversed(collect.spans) if s is not None), None)) from None


def _check_repeated(collect: _Collect) -> None:
    """Raise LoweringError for ids of one kind that are declared twice, with different extents."""
    known: dict[tuple[str, str], list[int | Expr]] = {}
    for d, span in zip(collect.found, collect.spans):
        if d.extents is None:
            continue
        mine = [e.value if isinstance(e, IntImm) else e for e in d.extents]
        first = known.setdefault((d.parent, d.child), mine)
        if all(isinstance(e, int) for e in (*first, *mine)) and _without_ones(first) != _without_ones(mine):
            unit = f"the {d.child}s of a {d.parent}"
            raise LoweringError(f"{unit} are declared with extents {first}, and here with {mine}", span=span)


def _without_ones(extents: list[int | Expr]) -> list[int | Expr]:
    return [e for e in extents if not isinstance(e, int) or e != 1]


def _launch(func: PrimFunc, collect: _Collect) -> Launch:
    grids = {d.child: _grid_extents(d) for d in collect.found if d.extents is not None and d.parent == "kernel"}
    extents = {(d.parent, d.child): _extents(d) for d in collect.found if d.extents is not None and d.parent != "kernel"}
    cluster = _constant(_three(extents.get(("cluster", "cta"), (1,))))
    if math.prod(cluster) > MAX_CLUSTER:
        raise LoweringError(f"{math.prod(cluster)} CTAs in a cluster: the limit is {MAX_CLUSTER}")
    grid = _grid(grids, cluster)
    block = _block(extents)
    special: dict[str, Var] = {}
    ids: dict[Var, Expr] = {}
    for d in collect.found:
        for var, value in zip(d.def_ids, _meanings(d, block, special)):
            ids[var] = value
    return Launch(grid, cluster, block, ids, special, host_values(func))


def _extents(d: ScopeIdDef) -> tuple[int, ...]:
    assert d.extents is not None
    if not all(isinstance(e, IntImm) for e in d.extents):
        raise LoweringError(f"the extent of '{d.def_ids[0].name}' ({d.scope}) must be constant")
    return tuple(int(e) for e in d.extents)  # type: ignore[call-overload]


def _grid_extents(d: ScopeIdDef) -> Extents:
    assert d.extents is not None
    return tuple(e.value if isinstance(e, IntImm) else e for e in d.extents)


def _three(extents: Extents) -> Grid:
    if len(extents) > 3:
        raise LoweringError(f"a launch has at most 3 dimensions, got extents {list(extents)}")
    x, y, z = (*extents, 1, 1, 1)[:3]
    return x, y, z


def _constant(grid: Grid) -> tuple[int, int, int]:
    x, y, z = (e for e in grid if isinstance(e, int))
    return x, y, z


def _grid(extents: dict[str, Extents], cluster: tuple[int, int, int]) -> Grid:
    ctas, clusters = extents.get("cta"), extents.get("cluster")
    x, y, z = (n * c for n, c in zip(_three(clusters or (1,)), cluster))
    if ctas is None:
        return x, y, z
    grid = _three(ctas)
    if clusters is not None and _differ(grid, (x, y, z)):
        raise LoweringError(f"cta_id has extents {list(ctas)} but clusters of {list(cluster)} make {[x, y, z]}")
    for axis, g, c in zip("xyz", grid, cluster):
        if isinstance(g, int) and g % c:
            raise LoweringError(f"the grid's {axis} extent {g} is not a multiple of the cluster's {c}")
    return grid


def _differ(a: Grid, b: Grid) -> bool:
    """Whether two grids certainly have different numbers of CTAs."""
    counts = [math.prod(e for e in grid if isinstance(e, int)) for grid in (a, b)]
    return all(isinstance(e, int) for e in (*a, *b)) and counts[0] != counts[1]


def _block(extents: dict[tuple[str, str], tuple[int, ...]]) -> tuple[int, int, int]:
    """Threads per CTA, demanded equal by every scope id that tells."""
    counts: dict[str, int] = {}
    shape: tuple[int, int, int] | None = None
    if (found := extents.get(("cta", "thread"))) is not None:
        shape = _constant(_three(found))
        counts["thread_id"] = math.prod(shape)
    if (found := extents.get(("cta", "warp"))) is not None:
        counts["warp_id"] = math.prod(found) * WARP
    if (found := extents.get(("cta", "warpgroup"))) is not None:
        counts["warpgroup_id"] = math.prod(found) * WARPGROUP
    fixed = {("warp", "thread"): WARP, ("warpgroup", "thread"): WARPGROUP, ("warpgroup", "warp"): WARPGROUP // WARP}
    for (parent, child), units in fixed.items():
        if (found := extents.get((parent, child))) is not None and math.prod(found) != units:
            raise LoweringError(f"a {parent} has {units} {child}s, but ids with extent {math.prod(found)} are declared")
    if not counts:
        if ("warpgroup", "thread") in extents or ("warpgroup", "warp") in extents:
            counts["warpgroup"] = WARPGROUP
        else:
            counts["lane_id"] = WARP if ("warp", "thread") in extents else 1
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{name} says {n}" for name, n in counts.items())
        raise LoweringError(f"scope ids disagree about the threads of a CTA: {told}")
    threads = next(iter(counts.values()))
    if not 1 <= threads <= MAX_THREADS:
        raise LoweringError(f"{threads} threads in a CTA: the limit is {MAX_THREADS}")
    return shape or (threads, 1, 1)


def _register(special: dict[str, Var], name: str) -> Var:
    return special.setdefault(name, Var(name, "int32"))  # type: ignore[arg-type]


def _flat_tid(block: tuple[int, int, int], special: dict[str, Var]) -> Expr:
    flat: Expr = _register(special, "tid.x")
    if block[1] > 1:
        flat = flat + _register(special, "tid.y") * block[0]
    if block[2] > 1:
        flat = flat + _register(special, "tid.z") * (block[0] * block[1])
    return flat


def _meanings(d: ScopeIdDef, block: tuple[int, int, int], special: dict[str, Var]) -> Iterator[Expr]:
    """The value of each id of a definition, in order."""
    direct = {
        ("cta", "thread"): "tid", ("kernel", "cta"): "ctaid", ("cluster", "cta"): "cluster_ctaid",
        ("kernel", "cluster"): "clusterid",
    }  # fmt: skip
    key = (d.parent, d.child)
    if key in direct and (len(d.def_ids) > 1 or key != ("cta", "thread") or block[1:] == (1, 1)):
        for axis, _ in zip("xyz", d.def_ids):
            yield _register(special, f"{direct[key]}.{axis}")
        return
    tid = _flat_tid(block, special)
    flat = {
        ("cta", "thread"): lambda: tid,
        ("warp", "thread"): lambda: tid % WARP,
        ("warpgroup", "thread"): lambda: tid % WARPGROUP,
        ("cta", "warp"): lambda: tid // WARP,
        ("cta", "warpgroup"): lambda: tid // WARPGROUP,
        ("warpgroup", "warp"): lambda: tid // WARP % (WARPGROUP // WARP),
        ("cluster", "cta_pair"): lambda: _register(special, "cluster_ctarank") % 2,
    }[key]()
    sizes = [int(e) for e in d.extents] if d.extents else [1]  # type: ignore[call-overload]
    for k in range(len(d.def_ids)):
        inner = math.prod(sizes[:k])
        value = flat // inner if inner > 1 else flat
        yield value % sizes[k] if k + 1 < len(d.def_ids) else value
