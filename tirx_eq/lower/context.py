"""The dispatch context of one tile primitive call: its operands, the threads that execute it, target and ranges."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..errors import Span
from ..ir import Buffer, BufferRegion, Expr, IntImm, Range, TilePrimitiveCall, Var, const, substitute
from ..ir import dtype as dt
from ..ir.index import Term, evaluate_many
from ..ir.index_ir import IndexScope
from ..prove.verdict import Verdict
from .facts.given import compare, facts_of
from .facts.guards import Guards, everywhere
from .program import Block, TileCall
from .scope import folded, new_scope
from .sharing.active import Active
from .sharing.threads import WARP, WARPGROUP, Launch
from .storage import Root, Storage, element_offset, has_constant_steps, place_points

T = TypeVar("T")


@dataclass(frozen=True)
class Operand:
    """A region operand with its storage.  Elements are numbered row-major over the region's extents."""

    name: str
    region: BufferRegion
    root: Root
    storage: Storage = field(repr=False)

    @property
    def buffer(self) -> Buffer:
        return self.region.buffer

    @property
    def dtype(self) -> str:
        return self.region.buffer.dtype

    @property
    def bits(self) -> int:
        """Bits of one element."""
        return dt.storage_bits(self.dtype)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Extents of the region; dimensions that are symbolic make this raise (checked before lowering)."""
        found = self.region.const_extents()
        assert found is not None
        return found

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Extents without those that are 1: what element-wise operations compare."""
        return tuple(e for e in self.extents if e != 1)

    @property
    def size(self) -> int:
        """Elements of the region."""
        return math.prod(self.extents)

    def coords(self, element: Any) -> list[Expr]:
        """Buffer coordinates of the region's element number ``element`` (an integer or an expression)."""
        out: list[Expr] = []
        inner = self.size
        number = const(element)
        for r, extent in zip(self.region.region, self.extents):
            inner //= extent
            digit = number // inner if inner > 1 else number
            if math.prod(self.extents) > inner * extent:
                digit = digit % extent
            out.append(r.min + (digit if extent > 1 else 0))
        return out

    def byte_offset(self, element: Any) -> Expr:
        """Bytes from the root's start to element number ``element``."""
        return self.storage.byte_offset(self.buffer, self.coords(element))

    def element_offset(self, element: Any) -> Expr:
        """The same in elements, for a buffer in memory."""
        return element_offset(self.buffer, self.coords(element))

    def places(self, points: Mapping[Var, np.ndarray]) -> dict[str, np.ndarray]:
        """Storage coordinates of every element, by the layout's own evaluation.

        ``points`` gives variables of the region's minima as arrays of one shape; the result adds a last dimension of
        ``size`` elements.  Memory operands have ``byte`` (from the root's start) instead of ``m``.
        """
        found, m = self._placed(points)
        if self.root.space in ("global", "shared", "cluster", "local"):
            found["byte"] = m * self.bits // 8
        return {axis: np.broadcast_to(v, m.shape) for axis, v in found.items() if axis != "m" or "byte" not in found}

    def bit_places(self, points: Mapping[Var, np.ndarray]) -> np.ndarray:
        """Bits from the root's start to every element of a memory operand, as :meth:`places` has bytes."""
        return self._placed(points)[1] * self.bits

    def _placed(self, points: Mapping[Var, np.ndarray]) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """Storage coordinates, and the place along axis ``m`` in elements of the root."""
        lows = list(np.broadcast_arrays(*(np.asarray(evaluate_at(r.min, points)) for r in self.region.region)))
        again = None
        if lows and lows[0].ndim == 1 and len(lows[0]) > 1 and has_constant_steps(self.buffer):
            # Threads mostly mean one of few regions: each is looked at once.
            rows, inverse = np.unique(np.stack(lows, axis=1), axis=0, return_inverse=True)
            if 2 * len(rows) <= len(lows[0]):
                lows, again = list(rows.T), inverse.reshape(-1)
        grids = np.unravel_index(np.arange(self.size), self.extents) if self.extents else ()
        coords = list(np.broadcast_arrays(*(low[..., None] + grid for low, grid in zip(lows, grids))))
        found = place_points(self.buffer, coords, lambda e: np.asarray(evaluate_at(e, points)))
        if again is not None:
            found = {axis: np.broadcast_to(v, coords[0].shape)[again] for axis, v in found.items()}
        m = found.get("m", np.int64(0)) + np.asarray(evaluate_at(self.buffer.elem_offset, points))[..., None]
        shape = (*((len(again),) if again is not None else coords[0].shape[:-1]), self.size) if coords else (1,)
        return found, np.broadcast_to(m, shape)


def evaluate_at(e: Expr, points: Mapping[Var, np.ndarray]) -> np.ndarray:
    """The value of an index expression at many points."""
    if isinstance(e, IntImm):
        return np.asarray(e.value)
    scope = new_scope()
    term = scope.term(e)
    return np.asarray(evaluate_many(term, {scope.name(v): p for v, p in points.items()}))


@dataclass(frozen=True)
class CallContext:
    """All that conditions, prices and emitters of a call may look at.

    ``environment`` gives the values of scope ids and bound variables in terms of hardware coordinates and loop variables;
    ``ranges`` the inclusive ranges of those.  ``looped``: the call may be executed more than once; ``guards`` are conditions on
    variables that hold where it stands.
    """

    index: int
    call: TilePrimitiveCall
    operands: dict[str, Operand]
    active: Active
    launch: Launch
    storage: Storage
    target: str
    environment: dict[Var, Expr] = field(repr=False)
    ranges: dict[Var, tuple[int, int]] = field(repr=False)
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)  # what conditions have worked out
    looped: bool = False
    guards: Guards = ()

    def once(self, key: Any, compute: Callable[[], T]) -> T:
        """What ``compute`` gives, computed when first asked for under ``key``: conditions, prices and emitters share it."""
        if key not in self.memo:
            self.memo[key] = compute()
        found: T = self.memo[key]
        return found

    @property
    def op(self) -> str:
        return self.call.op.short_name

    @property
    def scope(self) -> str:
        return self.call.scope.kind

    @property
    def span(self) -> Span | None:
        return self.call.span

    @property
    def outputs(self) -> list[Operand]:
        return [self.operands[n] for n in self.call.signature.outputs if n in self.operands]

    @property
    def inputs(self) -> list[Operand]:
        return [self.operands[n] for n in self.call.signature.inputs if n in self.operands]

    @property
    def participants(self) -> int:
        """Threads that share the work of one execution of the call."""
        return {"thread": 1, "warp": WARP, "warpgroup": WARPGROUP}.get(self.scope, self.launch.threads)

    def rank(self) -> Expr:
        """A thread's number among the participants."""
        if self.participants == 1:
            return const(0)
        tid = self.launch.flat_tid()
        return tid if self.participants == self.launch.threads else tid % self.participants

    def executing(self, points: Mapping[Var, np.ndarray]) -> np.ndarray:
        """Threads whose regions together are all that the call means, with variables as in ``points`` (one per thread).

        Where one lane of a warp is elected and all its lanes mean the same regions, that is one thread of each warp.
        """
        active, issuers = np.flatnonzero(self.active.mask), np.asarray(self.active.issuers())
        if not self.active.elected:
            return active
        first = np.searchsorted(issuers // WARP, active // WARP)
        for r in (r for o in self.operands.values() for r in o.region.region):
            low = np.broadcast_to(evaluate_at(r.min, points), (self.launch.threads,))
            if (low[active] != low[issuers][first]).any():
                return active
        return issuers

    def resolve(self, e: Expr) -> Expr:
        """``e`` with scope ids and bound variables replaced by what they stand for."""
        return substitute(e, self.environment)

    def scope_with(self, extra: Mapping[Var, tuple[int, int]] | None = None) -> IndexScope:
        """An index scope that knows the ranges of this place in the program."""
        scope = new_scope()
        self.launch.declare(scope)
        for var, bounds in {**self.ranges, **(extra or {})}.items():
            scope.name(var, bounds)
        return scope

    def lowest(self) -> dict[Var, np.ndarray]:
        """Every variable that regions may depend on, at zero or its value next to that; extents of arrays are large."""
        lows = {v: np.asarray(min(max(low, 0), high)) for v, (low, high) in self.ranges.items()}
        sizes = {v: np.asarray(n) for v, n in self.launch.host.sample(0).items()}
        return lows | sizes | {v: np.asarray(0) for v in self.launch.special.values()}

    def facts(self, scope: IndexScope) -> tuple[Term, ...]:
        """What holds where the call stands, over the names of ``scope`` (see :meth:`scope_with`)."""
        return facts_of(self.guards, scope)

    def compare(self, before: Term, after: Term, scope: IndexScope) -> Verdict:
        """The portfolio's verdict on two terms over the names of ``scope``, where the call stands."""
        return compare(before, after, scope.ranges, self.facts(scope))

    def term(self, e: Expr, scope: IndexScope) -> Term:
        return scope.term(self.resolve(e))


def call_context(
    index: int, call: TilePrimitiveCall, active: Active, launch: Launch, storage: Storage, target: str,
    environment: Mapping[Var, Expr], ranges: Mapping[Var, tuple[int, int]], looped: bool = False,
) -> CallContext:  # fmt: skip
    """The context of ``call``; region minima are resolved in ``environment`` already."""
    operands: dict[str, Operand] = {}
    operand_names: Sequence[str] = call.signature.operands
    for name, arg in zip(operand_names, call.args):
        if isinstance(arg, BufferRegion):
            region = _folded(substitute(arg, environment))
            operands[name] = Operand(name, region, storage.root(arg.buffer), storage)
    return CallContext(
        index, call, operands, active, launch, storage, target, dict(environment), dict(ranges), looped=looped
    )


def guarded(contexts: Sequence[CallContext], program: Block) -> list[CallContext]:
    """The contexts with the conditions that hold where their calls stand in the program."""
    found = {node.index: guards for node, guards in everywhere(program) if isinstance(node, TileCall)}
    return [replace(c, guards=found.get(c.index, ())) for c in contexts]


def _folded(region: BufferRegion) -> BufferRegion:
    """The region with constant minima as numbers: loop variables of unrolled loops are constant by now."""
    ranges = [Range(folded(r.min), r.extent) for r in region.region]
    return BufferRegion(region.buffer, tuple(ranges), span=region.span)
