"""Statements to the device program, with the set of active threads, ranges and values of variables at each place.

Tile primitive calls become :class:`TileCall` nodes first, since their lowerings are chosen together for the whole kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..errors import LoweringError, TirxError
from ..ir import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Break,
    Buffer,
    BufferLoad,
    BufferRegion,
    BufferStore,
    Call,
    Continue,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    IfThenElse,
    IntImm,
    Opaque,
    Ramp,
    Return,
    ScopeIdDefStmt,
    SeqStmt,
    Stmt,
    TensorMapType,
    TilePrimitiveCall,
    Var,
    While,
    const,
    post_order_visit,
    substitute,
)  # fmt: skip
from ..ir import dtype as dt
from ..ir.index_ir import dtype_range
from ..ir.node import replace as replace_node
from .checks.barriers import Sync
from .checks.bounds import check_addresses, check_element
from .code.atomics import ATOMICS, check_places
from .code.snapshots import replace_reads
from .context import CallContext, call_context, guarded
from .facts.jumps import always_jumps
from .intrinsics.barriers import PARITY_WAITS
from .intrinsics.build import arguments as named_arguments
from .intrinsics.build import lower_call
from .intrinsics.host_maps import encoded_map, encodes_map
from .intrinsics.instruction import INSTRUCTION
from .intrinsics.language import constant
from .intrinsics.places import Places, in_space
from .named_barriers import barriers_of, with_barriers
from .place import Place, Placed
from .program import (
    Block,
    Comment,
    Define,
    If,
    Index,
    Instruction,
    Jump,
    Loop,
    Memory,
    Node,
    Repeat,
    Store,
    TileCall,
    Wait,
    walk,
)  # fmt: skip
from .sharing.active import Active, narrow, with_loop
from .sharing.agreement import agree, classes_of, come_by_class, meet, scattered
from .staging.cluster import stage_cluster
from .staging.copies import stage_copies
from .staging.expand import expand
from .staging.halves import stage_halves
from .staging.products import stage_products
from .staging.registers import stage_registers
from .staging.stack import in_registers
from .statement_parts import always_loaded, constant_value, is_plain_index, jumps, uses
from .vectors import store_lanes, store_vector, vector_of_loop

MAX_UNROLL = 1024  # iterations; above this an unrolled loop is a mistake
#: What makes several calls of one, in the order in which they are asked.
STAGES: tuple[Callable[[CallContext], Sequence[Stmt] | None], ...] = (
    stage_cluster, stage_products, stage_copies, stage_registers, stage_halves,
)  # fmt: skip
MAX_STAGES = 3  # layouts, then halves of bytes, which may be exchanged, and put in order for that


class Lowerer(Placed):
    """Turns a function's body into a program; ``contexts`` collects the tile calls in order, ``notes`` what to warn of."""

    def run(self) -> Block:
        place = Place(dict(self.launch.ids), self.launch.host.ranges, Active.all(self.launch))
        program = self.block(self.func.body, place)
        program = with_barriers(program, self.storage.barriers, self.launch)
        self.contexts = guarded(self.contexts, program)
        return program

    def block(self, stmt: Stmt, place: Place) -> Block:
        nodes: list[Node] = []
        for s in stmt.seq if isinstance(stmt, SeqStmt) else (stmt,):
            try:
                handler = _HANDLERS.get(type(s))
                if handler is None:
                    raise LoweringError(f"a {type(s).__name__} can't be lowered")
                place.facts = self.scalars.before(s)
                made = [replace(n, span=s.span) if isinstance(n, Instruction) else n for n in handler(self, s, place)]
                nodes += [*place.pending, *made]
                place.pending.clear()
            except TirxError as error:
                raise error.at(s.span) from None
        return tuple(nodes)

    def nothing(self, s: Stmt, place: Place) -> list[Node]:
        return []

    def attr(self, s: AttrStmt, place: Place) -> list[Node]:
        if s.attr_key == "thread_extent":
            raise LoweringError("thread_extent attributes are for scheduled kernels; use scope ids such as Tx.thread_id")
        return list(self.block(s.body, place))

    def bind(self, s: Bind, place: Place) -> list[Node]:
        value = self.resolve(s.value, place)
        if isinstance(s.var.ty, TensorMapType):
            return []
        if s.value.dtype == "handle" and s.var not in self.storage.roots:
            # What an address is made of is read now; the address itself stands wherever its name does.
            place.environment[s.var] = replace_reads(value, lambda read: self._read_now(read, place))
            return []
        if s.var in self.storage.roots:  # where a remote buffer is: its rank may depend on what is bound here
            root = self.storage.roots[s.var]
            if root.address is not None:  # what the rank is made of is read now
                now = replace_reads(self.resolve(root.address, place), lambda read: self._read_now(read, place))
                root = replace(root, address=now)
            root = self._reached(root, place)
            if root.address is None or not is_plain_index(root.address):
                raise LoweringError(f"the rank of the CTA that has '{root.name}' depends on data")
            self.storage.roots[s.var] = root
            return []
        if is_plain_index(value):
            place.environment[s.var] = value
            return []
        var = s.var
        if dt.kind(var.dtype) in ("int", "uint", "bool"):
            if var in self.ranges:  # another round of an unrolled loop, another value: nothing made of the old one is its
                var = place.environment[s.var] = Var(var.name, var.ty)
            place.ranges[var] = self.ranges[var] = dtype_range(var.dtype)
        return [Define(var, value)]

    def _read_now(self, read: BufferLoad | Call, place: Place) -> Expr | None:
        """What a load is when an address is bound."""
        if isinstance(read, Call) or dt.kind(read.dtype) not in ("int", "uint"):
            return None
        return self._defined(place, read.buffer.name, self.resolve(read, place), self.scalars.unknown(read.dtype))

    def store(self, s: BufferStore, place: Place) -> list[Node]:
        if s.predicate is not None or any(isinstance(i, Ramp) for i in s.indices):
            return store_vector(self, s, place)
        value = self.resolve(s.value, place)
        self.check_elements(s, place)
        at = self.memory(BufferLoad(s.buffer, s.indices), place)
        data = s.buffer.data
        if data in self.scalars.tracked:
            place.snapshots.pop(data, None)
            fact, (low, high) = self.scalars.fact(s.value, place.facts), dtype_range(s.buffer.dtype)
            if low <= fact.low and fact.high <= high:
                if not isinstance(value, IntImm):
                    value = self._defined(place, s.buffer.name, value, fact)
                place.snapshots[data] = value
        return [Store(at, s.buffer.dtype, value)]

    def check_elements(self, s: BufferStore, place: Place) -> None:
        """The element stored, and those loaded for it wherever it is stored."""

        def check(buffer: Buffer, indices: Sequence[Expr], access: str) -> None:
            check_element(buffer, [self.resolve(i, place) for i in indices], place.active, self.launch, access)

        check(s.buffer, s.indices, "a store")
        for load in always_loaded(s.value):
            check(load.buffer, load.indices, "a load")

    def evaluate(self, s: Evaluate, place: Place) -> list[Node]:
        call = s.value
        if isinstance(call, (IntImm, Var)) or (isinstance(call, Call) and call.op.name == "tirx.address_of"):
            return []
        if isinstance(call, Opaque):
            raise LoweringError(f"there is no counterpart of {call.foreign_type}, so no PTX")
        if not isinstance(call, Call):
            raise LoweringError("an expression is evaluated for nothing")
        if call.op.name in ATOMICS:
            check_places(call)
            return self._atomic(substitute(call, place.environment), place, None)
        resolved = self.resolve(call, place)
        assert isinstance(resolved, Call)
        if encodes_map(call):
            var, made = encoded_map(call, self.launch.host, self.storage)
            self.tensor_maps[var] = made
            return []
        if call.op.name in PARITY_WAITS:
            return [self._wait(resolved, place)]
        if call.op.name in _ALL_ARRIVE:
            a = place.active
            if a.elected and self.launch.threads > 1:
                raise LoweringError(f"'{call.op.short_name}' waits for all threads, but it is reached by {a.describe()}")
            self.syncs.append(Sync(call.op.short_name, a.mask, not (a.elected or a.data_dependent or a.left_apart()), s.span))
        self._check_mask(resolved)
        block, _ = lower_call(resolved, self._places(place))
        self.storage.barriers |= barriers_of(block, lambda number: self._limits(number, place))
        active = place.active
        if call.op.name == INSTRUCTION:  # whose author knows which conditions on data are the same in a warp
            active = replace(active, data_dependent=False)
        if any(isinstance(n, Instruction) and _aligned(n.opcode) for n in walk(block)) and not active.whole(32):
            raise LoweringError(
                f"'{call.op.short_name}' needs whole warps, but it is reached by {place.active.describe()}"
            )
        return list(block)

    def _wait(self, call: Call, place: Place) -> Node:
        barrier = in_space(self._places(place).locate(call.args[0]), "shared::cta")
        if not isinstance(barrier, Memory):
            raise LoweringError(f"the barrier of '{call.op.name}' must be the address of an element of a shared buffer")
        return Wait(barrier, Index(call.args[1]), PARITY_WAITS[call.op.name])

    def _places(self, place: Place) -> Places:
        """What is known of addresses here."""
        return Places(
            lambda load: self.memory(load, place), self.storage.roots.get, lambda root: self._reached(root, place),
            self.tensor_maps.get,
        )  # fmt: skip

    def _check_mask(self, call: Call) -> None:
        """A constant mask of CTAs must name CTAs of the cluster."""
        mask = constant(named_arguments(call).get("cta_mask")) if "commit" in call.op.name else None
        size = math.prod(self.launch.cluster)
        if isinstance(mask, int) and mask >> size:
            raise LoweringError(f"'{call.op.short_name}': the mask is {mask:#x}, but the cluster has {size} CTAs")

    def if_then_else(self, s: IfThenElse, place: Place) -> list[Node]:
        condition = self.resolve(s.condition, place)
        known = condition.value if isinstance(condition, IntImm) else constant_value(condition)
        if known is not None:
            taken = s.then_case if known else s.else_case
            return list(self.block(taken, place)) if taken is not None else []
        branches: list[Block] = []
        ends: list[tuple[Active, Active]] = []
        for body, holds in ((s.then_case, True), (s.else_case, False)):
            if body is None:
                branches.append(())
                continue
            inner = self._inside(place, body, self._narrowed(place, s.condition, condition, holds))
            start = inner.active
            branches.append(self.block(body, inner))
            ends.append((start, inner.active))
        self._forget(place, s)
        for body, holds in ((s.then_case, True), (s.else_case, False)):
            if body is not None and always_jumps(body):
                place.active = self._narrowed(place, s.condition, condition, not holds)
        for start, end in ends:
            place.active = place.active.without_lost(start, end)
            if end.left is not None and end.left != start.left:
                place.active = replace(place.active, left=meet(place.active.left, end.left))
        return [If(condition, *branches)]

    def _narrowed(self, place: Place, written: Expr, condition: Expr, holds: bool = True) -> Active:
        """The threads for which a condition has a truth value; if only data decide, those of a class of it all or none."""
        found = narrow(place.active, condition, self.launch, holds)
        if not found.data_dependent or place.active.data_dependent or found.elected or dt.is_float(written.dtype):
            return found
        apart = found.apart or math.prod(self.launch.cluster) > 1  # data may differ between CTAs
        found = replace(found, data_dependent=False, apart=apart)
        return come_by_class(found, self.scalars.fact(written, place.facts).classes)

    def _after_loop(self, place: Place, before: int) -> None:
        """After a loop whose returns are those from number ``before`` on: who took one is gone."""
        for a in self.returned[before:]:
            left = place.active.left
            one_by_one = a.data_dependent or a.elected
            left = scattered(a.mask, left) if one_by_one else meet(meet(left, a.left), classes_of(a.mask))
            place.active = replace(place.active, left=left)

    def for_(self, s: For, place: Place) -> list[Node]:
        start, extent = self.resolve(s.min, place), self.resolve(s.extent, place)
        step = self.resolve(s.step, place) if s.step is not None else const(1, start.dtype)
        constant = isinstance(start, IntImm) and isinstance(extent, IntImm) and isinstance(step, IntImm)
        if s.kind == "thread_binding":
            raise LoweringError("a loop bound to threads is for scheduled kernels; use scope ids such as Tx.thread_id")
        if s.kind == "vectorized" and jumps(s.body):
            raise LoweringError("break and continue have no meaning in a vectorized loop", hint="use Tx.unroll or Tx.serial")
        if constant and (s.kind in ("unrolled", "vectorized") or self._indexes_registers(s)):
            low, count, by = int(start), int(extent), int(step)  # type: ignore[call-overload]
            if count > MAX_UNROLL * by:
                raise LoweringError(f"the loop over '{s.loop_var.name}' would be unrolled {count // by} times")
            if s.kind == "vectorized" and by == 1 and (lanes := vector_of_loop(self, s, low, count, place)) is not None:
                return store_lanes(self, lanes, place)
            jumping = jumps(s.body)
            active = self._remaining(s, place)
            returned = len(self.returned)
            nodes: list[Node] = []
            for value in range(low, low + count, by):
                inner = self._inside(place, s.body, active)
                inner.environment[s.loop_var] = const(value, s.loop_var.dtype)
                inner.unrolled = jumping
                body = self.block(s.body, inner)
                nodes += (Repeat((*body, Jump("break"))),) if jumping else body
                self._forget(place, s)
            self._after_loop(place, returned)
            # With jumps: rounds are loops that run once (leaving one is its continue), in one that all of them leave.
            return [Repeat((*nodes, Jump("break")))] if jumping else nodes
        fact = self.scalars.before(s.body).get(s.loop_var)
        active = with_loop(self._remaining(s, place), s.loop_var, (start, extent, step), self.launch)
        if fact is not None:
            agreed = agree(fact.classes, place.active)
            active = active.knowing(s.loop_var) if agreed else come_by_class(active, fact.classes)
        inner = self._inside(place, s.body, active, self.scalars.written(s))
        inner.unrolled, inner.looped = False, True
        limits = dtype_range(s.loop_var.dtype) if fact is None else (fact.low, fact.high)
        if isinstance(start, IntImm) and isinstance(extent, IntImm):
            limits = (start.value, start.value + max(0, extent.value - 1))
        before = self.ranges.get(s.loop_var, limits)  # of another round of an unrolled loop around this one
        inner.ranges[s.loop_var] = limits
        self.ranges[s.loop_var] = min(limits[0], before[0]), max(limits[1], before[1])
        returned = len(self.returned)
        body = self.block(s.body, inner)
        self._after_loop(place, returned)
        self._forget(place, s)
        return [Loop(s.loop_var, start, start + extent, step, body)]

    def _indexes_registers(self, s: For) -> bool:
        """Whether the loop variable chooses a register: then the loop must be unrolled."""
        found = False

        def look(node: Any) -> None:
            nonlocal found
            if isinstance(node, (BufferLoad, BufferStore)) and node.buffer.scope == "local":
                found = found or any(uses(i, s.loop_var) for i in node.indices)
            if isinstance(node, TilePrimitiveCall):
                found = found or any(
                    r.buffer.scope in ("local", "tmem") and any(uses(b.min, s.loop_var) for b in r.region)
                    for r in node.regions()
                )

        post_order_visit(s.body, look)
        return found

    def while_(self, s: While, place: Place) -> list[Node]:
        test = self._inside(place, s, place.active, self.scalars.written(s))
        test.facts = self.scalars.head(s)
        condition = self.resolve(s.condition, test)
        head = tuple(test.pending)
        test.active = self._remaining(s, test)
        inner = self._inside(test, s.body, self._narrowed(test, s.condition, condition))
        inner.unrolled, inner.looped = False, True
        returned = len(self.returned)
        body = self.block(s.body, inner)
        self._after_loop(place, returned)
        self._forget(place, s)
        return [Repeat(body, condition, head)]

    def _remaining(self, s: For | While, place: Place) -> Active:
        """The threads that are in a round of the loop: nobody knows how many, if only some leave it."""
        splits = self.scalars.leaves_apart(s.body, place.active)
        return replace(place.active, data_dependent=True) if splits else place.active

    def jump(self, s: Stmt, place: Place) -> list[Node]:
        if place.unrolled:
            return [Jump("break", 1 if isinstance(s, Break) else 0)]
        return [Jump("break" if isinstance(s, Break) else "continue")]

    def return_(self, s: Return, place: Place) -> list[Node]:
        if s.value is not None and not (isinstance(s.value, IntImm) and s.value.value == 0):
            raise LoweringError("a kernel can't return a value")
        self.returned.append(place.active)
        return [Jump("exit")]

    def assert_(self, s: AssertStmt, place: Place) -> list[Node]:
        return [If(self.resolve(s.condition, place), (), (Instruction("trap"),))]

    def _fixed_regions(self, s: TilePrimitiveCall, place: Place) -> TilePrimitiveCall:
        """The call with whatever its regions read from memory read once, before it."""
        found: dict[BufferLoad, Expr] = {}

        def fix(load: BufferLoad | Call) -> Expr | None:
            if isinstance(load, Call):
                return None
            if load not in found:
                value = self.resolve(load, place)
                found[load] = self._defined(place, f"{load.buffer.name}_at", value, self.scalars.unknown(load.dtype))
            return found[load]

        args = tuple(replace_reads(a, fix) if isinstance(a, BufferRegion) else a for a in s.args)
        return replace_node(s, args=args)

    def tile_call(self, s: TilePrimitiveCall, place: Place, depth: int = 0) -> list[Node]:
        if not place.active.mask.any():
            self.notes.append(f"{s.span}: no thread reaches this call of '{s.op.short_name}'")
            return []
        s = self._settled(s, place)
        if (parts := expand(s, self.launch)) is not None:
            pending, place.pending = place.pending, []
            return [*pending, *(node for part in parts for node in self.block(part, place))]
        s = self._fixed_regions(s, place)
        for region in s.regions():
            if self.storage.root(region.buffer).space in ("global", "shared", "cluster"):
                check_addresses(region.buffer, f"'{s.op.short_name}'", s.scope.kind == "cluster")
            if region.const_extents() is None:
                raise LoweringError(f"the extents of the region of '{region.buffer.name}' must be constant")
        s, before, after = in_registers(s, self.storage)
        if before:
            return [*before, *self.tile_call(s, place), *after]
        context = call_context(
            len(self.contexts), s, place.active, self.launch, self.storage, self.target, place.environment, place.ranges,
            place.looped,
        )
        staged = self.stages(context) if depth < MAX_STAGES else None
        if staged is not None:
            return self._staged(staged, place, depth + 1)
        self.contexts.append(context)
        return [Comment(f"{s.op.short_name} at {s.scope} scope", s.span), TileCall(context.index)]

    def stages(self, context: CallContext) -> Sequence[Stmt] | None:
        """The statements that a call is made of, or None: it is lowered as it is."""
        return next((made for stage in STAGES if (made := stage(context))), None)

    def _staged(self, parts: Sequence[Stmt], place: Place, depth: int) -> list[Node]:
        """What a call is made of, which may be made of others in turn."""
        nodes, place.pending = place.pending, []
        for part in parts:
            made = self.tile_call(part, place, depth) if isinstance(part, TilePrimitiveCall) else self.block(part, place)
            nodes += [*place.pending, *made]
            place.pending.clear()
        return nodes


def _aligned(opcode: str) -> bool:
    """Whether an instruction wants all threads of the warp at once."""
    return ".aligned" in opcode


#: Barriers for which all threads of the CTA must arrive.
_ALL_ARRIVE = frozenset(("tirx.cuda.cta_sync", "tirx.cuda.cluster_sync"))


_HANDLERS: dict[type, Any] = {
    AllocBuffer: Lowerer.nothing, DeclBuffer: Lowerer.nothing, ScopeIdDefStmt: Lowerer.nothing, AttrStmt: Lowerer.attr,
    Bind: Lowerer.bind, BufferStore: Lowerer.store, Evaluate: Lowerer.evaluate, IfThenElse: Lowerer.if_then_else,
    For: Lowerer.for_, While: Lowerer.while_, Break: Lowerer.jump, Continue: Lowerer.jump, Return: Lowerer.return_,
    AssertStmt: Lowerer.assert_, TilePrimitiveCall: Lowerer.tile_call,
}  # fmt: skip
