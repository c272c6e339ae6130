"""What holds where a statement stands, and expressions there: values of variables and scalars, places of elements."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import LoweringError
from ..ir import Buffer, BufferLoad, Call, Expr, PointerType, PrimFunc, PrimType, Stmt, Var, const, substitute
from ..ir import dtype as dt
from ..ir.index_ir import IndexScope
from ..prove.validate import validate
from ..ptx.tensormap import TensorMap
from .checks.barriers import Sync
from .code.atomics import atomic_of, check_places, is_atomic, program_of_atomic
from .code.snapshots import replace_reads
from .context import CallContext
from .facts.scalars import Scalars
from .facts.values import Fact, Facts
from .program import Define, Memory, Node
from .scope import bounds, new_scope
from .sharing.active import Active
from .sharing.agreement import agree
from .sharing.threads import Launch
from .statement_parts import has_atomics
from .storage import Root, Storage, at_rank


@dataclass
class Place:
    """What holds where a statement stands: variables' values, ranges of what they are made of, active threads.

    ``facts`` are those about scalars in registers; ``snapshots`` gives for some of them an expression that has the
    scalar's present value and keeps it; ``pending`` are definitions that must come before the statement.  ``unrolled`` says
    that the innermost loop is an unrolled one with jumps, ``looped`` that the statement may be executed more than once.
    """

    environment: dict[Var, Expr]
    ranges: dict[Var, tuple[int, int]]
    active: Active
    facts: Facts = field(default_factory=dict)
    snapshots: dict[Var, Expr] = field(default_factory=dict)
    pending: list[Node] = field(default_factory=list)
    unrolled: bool = False
    looped: bool = False


def inner_place(place: Place, active: Active) -> Place:
    """The place of a statement within the one at ``place``, for these threads."""
    return Place(
        dict(place.environment), dict(place.ranges), active, place.facts, dict(place.snapshots), unrolled=place.unrolled,
        looped=place.looped,
    )


class Placed:
    """Expressions of a function at a place in it: the base of the :class:`~tirx_eq.lower.statements.Lowerer`."""

    def __init__(self, func: PrimFunc, launch: Launch, storage: Storage, target: str) -> None:
        self.func = func
        self.launch = launch
        self.storage = storage
        self.target = target
        self.contexts: list[CallContext] = []
        self.ranges = launch.host.ranges
        self.scalars = Scalars(func, launch)
        self.syncs: list[Sync] = []
        self.notes: list[str] = []
        self.tensor_maps: dict[Var, TensorMap] = {}
        self.atomics = has_atomics(func.body)
        self.returned: list[Active] = []  # the threads at each return statement so far

    def resolve(self, e: Expr, place: Place) -> Expr:
        if self.atomics:
            check_places(e)
        return self._settled(substitute(e, place.environment), place)

    def _settled(self, node: Any, place: Place) -> Any:
        """``node`` with scalars in registers replaced by expressions that keep the present value."""
        return replace_reads(node, lambda read: self._snapshot(read, place))

    def _snapshot(self, read: BufferLoad | Call, place: Place) -> Expr | None:
        if isinstance(read, Call) and is_atomic(read):
            return self._atomic_value(read, place)
        if isinstance(read, Call):
            return self.launch.flat_tid() if read.op.name == "tirx.cuda.thread_rank" else None
        data = read.buffer.data
        if data not in self.scalars.tracked or data not in place.facts:
            return None
        if dt.kind(read.dtype) == "bool" and place.facts[data].low != place.facts[data].high:
            return None  # part of a register: it is read where it is wanted
        if data not in place.snapshots:
            buffer, fact = self.scalars.tracked[data], place.facts[data]
            place.snapshots[data] = self._defined(place, buffer.name, BufferLoad(buffer, (const(0),)), fact)
        return place.snapshots[data]

    def _defined(self, place: Place, name: str, value: Expr, fact: Fact) -> Expr:
        """A variable for what ``value`` is now; a constant if that is known."""
        if fact.low == fact.high:
            return const(fact.low, value.dtype)
        var = Var(name, PrimType(value.dtype))
        place.ranges[var] = self.ranges[var] = (fact.low, fact.high)
        if agree(fact.classes, place.active):
            place.active = place.active.knowing(var)
        place.pending.append(Define(var, value, (fact.low, fact.high)))
        return var

    def _atomic_value(self, call: Call, place: Place) -> Expr:
        """The old value of an atomic operation, which is executed right before the statement, once."""
        buffer = self._register(call.dtype)
        place.pending += self._atomic(call, place, self.storage.roots[buffer.data])
        load = BufferLoad(buffer, (const(0),))
        if dt.is_float(call.dtype):
            var = Var(buffer.name, PrimType(call.dtype))
            place.pending.append(Define(var, load))
            return var
        if call.dtype == "uint64":  # beyond what index arithmetic counts with
            return load
        return self._defined(place, buffer.name, load, self.scalars.unknown(call.dtype))

    def _register(self, dtype: str) -> Buffer:
        """A new register of each thread."""
        name = f"old_{len(self.storage.roots)}"
        buffer = Buffer(Var(name, PointerType(PrimType(dtype), "local")), dtype, (const(1),), name=name)
        bits = max(32, dt.bits(dtype))
        self.storage.roots[buffer.data] = Root("local", name, size=bits // 8, word_bits=bits)
        return buffer

    def _atomic(self, call: Call, place: Place, result: Root | None) -> list[Node]:
        """Instructions of an atomic operation; the old value goes to ``result``."""
        call = replace(call, args=tuple(replace_reads(a, lambda read: self._snapshot(read, place)) for a in call.args))

        def aligned(offset: Expr, to: int) -> bool:
            scope = self.scope_at(place)
            return validate(("mod", scope.term(offset), to), 0, scope.ranges).status == "equal"

        def fresh(dtype: str) -> Root:
            return self.storage.roots[self._register(dtype).data]

        return program_of_atomic(
            atomic_of(call), call, lambda load, rank=None: self.memory(load, place, rank), fresh, result, aligned
        )

    def _inside(self, place: Place, body: Stmt, active: Active, changed: Collection[Var] = ()) -> Place:
        """The place where ``body`` starts, a branch or a loop's round; the loop may have changed some scalars before."""
        inner = inner_place(place, active)
        facts = self.scalars.before(body)
        for data in list(inner.snapshots):
            # What a condition has told is worth another variable, with the narrower range.
            if data in changed or facts.get(data) != place.facts.get(data):
                del inner.snapshots[data]
        return inner

    def _forget(self, place: Place, s: Stmt) -> None:
        """After ``s``, which may have stored scalars on some way through it."""
        for data in self.scalars.written(s):
            place.snapshots.pop(data, None)

    def memory(self, load: BufferLoad, place: Place, rank: Expr | None = None) -> Memory:
        """The element's place; with ``rank``, in the shared memory of that CTA of the cluster."""
        root = self.storage.root(load.buffer)
        if rank is not None:
            if root.space != "shared":
                raise LoweringError(f"'{root.name}' is in {root.space} memory, so no other CTA has a part of it")
            root = self._reached(at_rank(root, rank), place)
        return Memory(root, self.resolve(self.storage.offset_of(load), place))

    def _reached(self, root: Root, place: Place) -> Root:
        """A cluster root with its rank resolved, which must not certainly lie outside of the cluster."""
        assert root.address is not None
        rank = self.resolve(root.address, place)
        low, high = self._limits(rank, place)
        size = math.prod(self.launch.cluster)
        if low >= size or high < 0:
            raise LoweringError(f"'{root.name}' of CTA {max(low, high)} is named, but a cluster has {size} CTAs")
        return replace(root, address=rank)

    def _limits(self, e: Expr, place: Place) -> tuple[int, int]:
        """The least and the greatest value that an index expression may have here."""
        scope = self.scope_at(place)
        low, high = bounds(scope.term(e), scope.ranges)
        return int(low), int(high)

    def scope_at(self, place: Place) -> IndexScope:
        """An index scope that knows the ranges of this place."""
        scope = new_scope()
        self.launch.declare(scope)
        for var, limits in place.ranges.items():
            scope.name(var, limits)
        return scope
