"""What a function does with its buffers: tile calls and scalar accesses, each with how often it runs.

The compiler's own lowering walks the function, so that threads, ranges and unrolled loops are those that it sees.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..errors import Span
from ..ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    IfThenElse,
    PrimFunc,
    Ramp,
    SeqStmt,
    Stmt,
    StmtVisitor,
    TilePrimitiveCall,
    Var,
)
from ..lower.context import CallContext
from ..lower.program import Block, Loop
from ..lower.sharing.active import Active
from ..lower.sharing.threads import Launch, find_launch
from ..lower.staging.distribute import distribute
from ..lower.statements import Lowerer, Place
from ..lower.storage import Storage, plan


@dataclass(frozen=True, eq=False)
class ScalarAccess:
    """An element of a buffer that a statement reads or writes; ``indices`` in hardware coordinates and loop variables."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    active: Active
    ranges: dict[Var, tuple[int, int]] = field(repr=False)
    writes: bool
    span: Span | None


@dataclass(frozen=True, eq=False)
class Uses:
    """Tile calls in the compiler's order with their weights (executions, as far as loops have constant extents), scalar
    accesses with theirs, and the buffers whose addresses instructions are given (with one place each)."""

    func: PrimFunc
    launch: Launch
    storage: Storage
    contexts: tuple[CallContext, ...]
    weights: tuple[int, ...]
    scalars: tuple[ScalarAccess, ...]
    scalar_weights: tuple[int, ...]
    addressed: dict[Buffer, Span | None]


class _Walker(Lowerer):
    """The compiler's lowering, which also counts iterations and notes scalar accesses."""

    def __init__(self, func: PrimFunc, launch: Launch, storage: Storage, target: str, undecided: Collection[Buffer]) -> None:
        super().__init__(func, launch, storage, target)
        self.undecided = {id(b) for b in undecided}
        self.weights: list[int] = []
        self.element_accesses: list[ScalarAccess] = []
        self.element_weights: list[int] = []
        self.addressed: dict[Buffer, Span | None] = {}

    def block(self, stmt: Stmt, place: Place) -> Block:
        nodes: list[Any] = []
        for s in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
            calls, scalars = len(self.contexts), len(self.element_accesses)
            self._note(s, place)
            made = super().block(s, place)
            nodes += made
            self.weights += [1] * (len(self.contexts) - len(self.weights))
            self.element_weights += [1] * (len(self.element_accesses) - len(self.element_weights))
            if isinstance(s, For) and made and isinstance(made[-1], Loop):
                trips = _trips(made[-1])
                for k in range(calls, len(self.contexts)):
                    self.weights[k] *= trips
                for k in range(scalars, len(self.element_accesses)):
                    self.element_weights[k] *= trips
        return tuple(nodes)

    def stages(self, context: CallContext) -> Sequence[Stmt] | None:
        """A call on layouts that are to be chosen is lowered as it is: a mismatch of layouts now says nothing."""
        open_ = any(id(o.buffer) in self.undecided for o in context.operands.values())
        return None if open_ else super().stages(context)

    def _note(self, s: Stmt, place: Place) -> None:
        if isinstance(s, BufferStore):
            self._access(BufferLoad(s.buffer, s.indices), place, True, s.span)
            parts: tuple[Any, ...] = (s.value, s.indices, s.predicate)
        elif isinstance(s, (For, IfThenElse)):
            parts = (s.min, s.extent) if isinstance(s, For) else (s.condition,)
        elif isinstance(s, TilePrimitiveCall):
            parts = (s.config, *[r.min for region in s.regions() for r in region.region])
            parts += tuple(a for a in s.args if isinstance(a, Expr))
        elif isinstance(s, Evaluate) or hasattr(s, "value"):
            parts = (getattr(s, "value", None),)
        else:
            parts = (getattr(s, "condition", None),)
        loads, addressed = _loads(parts)
        for load in loads:
            self._access(load, place, False, s.span)
        for b in addressed:
            self.addressed.setdefault(b, s.span)

    def _access(self, load: BufferLoad, place: Place, writes: bool, span: Span | None) -> None:
        if any(isinstance(i, Ramp) for i in load.indices):
            return
        indices = tuple(self.resolve(i, place) for i in load.indices)
        self.element_accesses.append(ScalarAccess(load.buffer, indices, place.active, dict(place.ranges), writes, span))


def _trips(loop: Loop) -> int:
    """Rounds of a loop with constant bounds, 1 where they are known at run time only."""
    from ..ir import IntImm

    bounds = (loop.start, loop.stop, loop.step)
    if not all(isinstance(b, IntImm) for b in bounds):
        return 1
    start, stop, step = (int(b) for b in bounds)  # type: ignore[call-overload]
    return max(0, -(-(stop - start) // step)) if step > 0 else 1


class _Loads(StmtVisitor):
    def __init__(self) -> None:
        self.loads: list[BufferLoad] = []
        self.addressed: list[Buffer] = []

    def visit_call(self, value: Call) -> None:
        if value.op.name == "tirx.address_of" and isinstance(value.args[0], BufferLoad):
            self.addressed.append(value.args[0].buffer)
            self.visit(value.args[0].indices)
            return
        self.visit_children(value)

    def visit_buffer_load(self, value: BufferLoad) -> None:
        self.loads.append(value)
        self.visit_children(value)


def _loads(parts: Any) -> tuple[list[BufferLoad], list[Buffer]]:
    walk = _Loads()
    walk.visit(parts)
    return walk.loads, walk.addressed


def uses_of(func: PrimFunc, target: str, undecided: Collection[Buffer] = ()) -> Uses:
    """What a function with concrete layouts does with its buffers; those of ``undecided`` ones stand for any.

    Raises LoweringError as compiling it would, but for shared memory beyond the limit: that is a constraint of its own.
    """
    launch = find_launch(func)
    func = distribute(func, launch)  # what each CTA of a cluster does
    storage = plan(func, limit=None)
    walk = _Walker(func, launch, storage, target, undecided)
    walk.run()
    return Uses(
        func, launch, storage, tuple(walk.contexts), tuple(walk.weights), tuple(walk.element_accesses),
        tuple(walk.element_weights), walk.addressed,
    )  # fmt: skip
