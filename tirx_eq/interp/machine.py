"""The machine: threads of a wave with their positions, variables and storage; statements; the scheduler."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ..errors import TirxError
from ..ir import (
    AllocBuffer,
    AssertStmt,
    AttrStmt,
    Bind,
    Buffer,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    IntImm,
    PrimFunc,
    ScopeIdDefStmt,
    Stmt,
    StmtVisitor,
    TilePrimitiveCall,
    Var,
)  # fmt: skip
from ..ir import dtype as dt
from . import values
from .access import SCOPE_DIGITS, TMEM_COLUMNS, TMEM_LANES, Access
from .expressions import evaluate
from .faults import Deadlock, InterpreterError
from .launch import Wave, id_values
from .memory import Pointer, Storage
from .places import concrete
from .program import Step, flatten
from .record import Record
from .sync import Barriers

Array = Any
#: Bytes of shared memory a CTA can have on sm_100 (227 KB); buffers beyond it are refused.
MAX_SHARED = 232448
SHARED_ALIGN = 1024
#: Steps after which other threads get a turn, so that a loop that polls memory doesn't keep everything.
PATIENCE = 4096


class Machine:
    """One wave of CTAs executing a function on shared global memory."""

    def __init__(
        self,
        func: PrimFunc,
        wave: Wave,
        storage: dict[Var, Storage],
        scalars: dict[Var, Any],
        max_steps: int,
        record: Record,
    ) -> None:
        self.func = func
        self.wave = wave
        self.env: dict[Var, Any] = dict(scalars)
        self.roots: dict[Var, Storage] = dict(storage)
        self.access = Access(self)
        self.tmem_owned = np.zeros((wave.rows, TMEM_COLUMNS), dtype=bool)
        self.barriers = Barriers(wave, self.release)
        self.steps = flatten(func.body)
        self.scopes = [_convergence(s) for s in self.steps]
        self.ready: dict[int, Array] = {}
        self.postponed: dict[int, Array] = {}
        self.blocked_at = np.full(wave.size, -1, dtype=np.int64)
        self.shared_base: dict[int, int] = {}
        self.shared_end = 0
        self.dynamic_shared = _dynamic_shared(func)
        self.max_steps = max_steps
        self.record = record
        self.position = 0
        self._shapes: dict[Buffer, Any] = {}
        for d in wave.geometry.definitions:
            for var, value in id_values(d, wave):
                self.env[var] = np.asarray(value, dtype=np.int64)

    # -- values -----------------------------------------------------------------------------------------------------

    def value(self, e: Any, threads: Array) -> Any:
        return evaluate(self, e, threads)

    def integer(self, e: Any) -> int:
        """An integer that is the same for all threads (an extent)."""
        if isinstance(e, IntImm):
            return e.value
        found = np.unique(np.asarray(self.value(e, np.arange(self.wave.size))))
        if len(found) != 1:
            raise InterpreterError("an extent or stride differs between threads")
        return int(found[0])

    def concrete(self, buffer: Buffer) -> Any:
        """Shape, layout and strides of a buffer as numbers."""
        found = self._shapes.get(buffer)
        if found is None:
            found = self._shapes[buffer] = concrete(buffer, self.integer)
        return found

    def bind(self, var: Var, value: Any, threads: Array) -> None:
        """Give a variable its value in some threads."""
        n = self.wave.size
        if isinstance(value, (Pointer, str)):
            self._bind_pointer(var, value, threads)
            return
        value = values.wrap(value, var.dtype) if dt.is_integer(var.dtype) else np.asarray(value)
        held = self.env.get(var)
        shape = (*np.shape(value)[:-1], n)
        if not isinstance(held, np.ndarray) or held.shape != shape or held.dtype != value.dtype:
            held = self.env[var] = np.zeros(shape, dtype=value.dtype)
        held[..., threads] = value

    def _bind_pointer(self, var: Var, value: Any, threads: Array) -> None:
        if isinstance(value, str):
            self.env[var] = value
            return
        n = self.wave.size
        held = self.env.get(var)
        if isinstance(held, Pointer) and held.storage is value.storage and np.ndim(held.rows) and np.ndim(held.byte):
            rows, byte = held.rows, held.byte
        else:
            rows, byte = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        rows[threads], byte[threads] = value.rows, value.byte
        self.env[var] = Pointer(value.storage, rows, byte)

    @cached_property
    def tmem(self) -> Storage:
        """Tensor memory: a row of 512 cells of 4 bytes for each lane of each CTA."""
        return Storage("tensor memory", "tmem", self.wave.rows * TMEM_LANES, TMEM_COLUMNS * 4)

    # -- storage ----------------------------------------------------------------------------------------------------

    def allocate(self, buffer: Buffer, threads: Array) -> None:
        """Storage of an AllocBuffer; a register buffer starts undefined each time."""
        found = self.roots.get(buffer.data)
        if found is not None:
            if found.space == "local":
                found.forget(threads)
            return
        scope = buffer.scope
        if scope == "tmem":
            if not buffer.allocated_addr:
                raise InterpreterError(
                    f"tensor memory buffer '{buffer.name}' has no address", hint="give allocated_addr"
                )
            return
        size = self._size(buffer)
        if scope.startswith("shared"):
            if self.concrete(buffer)[0] == (0,):
                size = self.dynamic_shared
            made = Storage(buffer.name, "shared", self.wave.rows, size)
            self.shared_base[id(made)] = self.shared_end
            self.shared_end += -(-size // SHARED_ALIGN) * SHARED_ALIGN
        elif scope == "local":
            made = Storage(buffer.name, "local", self.wave.size, size)
        elif scope == "global":
            made = Storage(buffer.name, "global", 1, size)
        else:
            raise InterpreterError(f"buffer '{buffer.name}': storage scope '{scope}' has no meaning on this device")
        self.roots[buffer.data] = made

    def _size(self, buffer: Buffer) -> int:
        shape, layout, strides = self.concrete(buffer)
        if layout is not None:
            elements = int(layout.storage().span("m"))
            if type(layout).__name__ == "SwizzleLayout":
                total = int(np.prod(shape))
                elements = -(-total // layout.period) * layout.period
        else:
            elements = 1 + sum((e - 1) * s for e, s in zip(shape, strides)) if all(shape) else 0
        return -(-(elements + self.integer(buffer.elem_offset)) * dt.storage_bits(buffer.dtype) // 8)

    def tmem_allocated(self, buffer: Buffer, rows: Array, columns: Array) -> None:
        """Columns must be allocated, in kernels that allocate at all."""
        for k, mine in enumerate(np.asarray(rows)):
            for row in np.unique(mine):
                used = np.unique(columns[k][mine == row]) if np.ndim(mine) else np.unique(columns[k])
                missing = used[~self.tmem_owned[row, used]]
                if len(missing):
                    raise InterpreterError(
                        f"column {int(missing[0])} of tensor memory, used by '{buffer.name}', is not allocated"
                    )

    # -- scheduling -------------------------------------------------------------------------------------------------

    def release(self, position: int, threads: list[int]) -> None:
        """Threads blocked at a step go on behind it."""
        idx = np.sort(np.asarray(threads, dtype=np.int64))
        self.blocked_at[idx] = -1
        self.go(position + 1, idx)

    def go(self, position: int, threads: Array) -> None:
        """Make threads runnable at a position."""
        if not len(threads):
            return
        if position in self.postponed:
            threads = np.concatenate([threads, self.postponed.pop(position)])
        held = self.ready.get(position)
        self.ready[position] = np.sort(threads if held is None else np.concatenate([held, threads]))

    def run(self) -> None:
        """Execute until all threads have ended."""
        self.go(0, np.arange(self.wave.size))
        count = 0
        while True:
            forced = False
            if not self.ready:
                if not self.postponed:
                    break
                position = min(self.postponed)
                self.ready[position] = np.sort(self.postponed.pop(position))
                forced = True
            count += 1
            if count > self.max_steps:
                raise InterpreterError(f"the kernel hasn't ended after {self.max_steps} steps", hint="raise max_steps")
            position = min(self.ready)
            if len(self.ready) > 1 and count // PATIENCE % 2:
                position = sorted(self.ready)[count // (2 * PATIENCE) % len(self.ready)]
            threads = self.ready.pop(position)
            if not forced and self.scopes[position] is not None:
                threads = self._postpone(position, threads)
            if len(threads):
                self._step(position, threads)
        if self.barriers.live.any():
            waiting = self.barriers.explain()
            raise Deadlock("all threads wait: " + "; ".join(waiting or ["for nothing that could come"]))

    def _postpone(self, position: int, threads: Array) -> Array:
        """Leave out the units of which some thread is blocked before this step: it may still come here."""
        behind = np.flatnonzero((self.blocked_at >= 0) & (self.blocked_at < position))
        if not len(behind):
            return threads
        scope = self.scopes[position] or "cta"
        digits = SCOPE_DIGITS[scope]
        late = np.isin(self.access._key(threads, digits, scope), self.access._key(behind, digits, scope))
        if late.any():
            held = self.postponed.get(position)
            some = threads[late]
            self.postponed[position] = some if held is None else np.concatenate([held, some])
        return threads[~late]

    def _step(self, position: int, threads: Array) -> None:
        step = self.steps[position]
        self.position = position
        try:
            self._execute(step, position, threads)
        except TirxError as error:
            raise error.at(getattr(step.stmt, "span", None)) from None

    def _execute(self, step: Step, position: int, threads: Array) -> None:
        match step.kind:
            case "run":
                passing = self.statement(step.stmt, threads)
                self.go(position + 1, threads if passing is None else passing)
            case "branch":
                holds = np.broadcast_to(np.asarray(self.value(step.condition, threads)).astype(bool), threads.shape)
                self.go(position + 1, threads[holds])
                self.go(step.target, threads[~holds])
            case "jump":
                self.go(step.target, threads)
            case "stop":
                self.barriers.leave(threads)
            case "enter":
                self._enter(step.stmt, threads)
                self.go(position + 1, threads)
            case "test":
                inside = self._inside(step.stmt, threads)
                self.go(position + 1, threads[inside])
                self.go(step.target, threads[~inside])
            case "next":
                var = step.stmt.loop_var
                by = 1 if step.stmt.step is None else self.value(step.stmt.step, threads)
                self.env[var][threads] += by
                self.go(step.target, threads)

    def _enter(self, loop: For, threads: Array) -> None:
        low = np.asarray(self.value(loop.min, threads))
        self.bind(loop.loop_var, low, threads)
        self.bind(self._end_of(loop), low + self.value(loop.extent, threads), threads)

    def _end_of(self, loop: For) -> Var:
        key = f"end of {loop.loop_var.name}"
        ends = self.__dict__.setdefault("_ends", {})
        return ends.setdefault(id(loop), Var(key, "int64"))  # type: ignore[arg-type]

    def _inside(self, loop: For, threads: Array) -> Array:
        return self.env[loop.loop_var][threads] < self.env[self._end_of(loop)][threads]

    # -- statements -------------------------------------------------------------------------------------------------

    def statement(self, s: Stmt, threads: Array) -> Array | None:
        """Execute a plain statement; returns the threads that go on at once (None: all)."""
        if isinstance(s, Bind):
            self.bind(s.var, self.value(s.value, threads), threads)
        elif isinstance(s, BufferStore):
            self._store(s, threads)
        elif isinstance(s, Evaluate):
            if isinstance(s.value, Call):
                from .intrinsics import call_effect

                return call_effect(self, s.value, threads)
            self.value(s.value, threads)
        elif isinstance(s, TilePrimitiveCall):
            from .tile import run_tile

            run_tile(self, s, threads)
        elif isinstance(s, AllocBuffer):
            self.allocate(s.buffer, threads)
        elif isinstance(s, DeclBuffer):
            self._declare(s, threads)
        elif isinstance(s, AssertStmt):
            self._assert(s, threads)
        elif not isinstance(s, ScopeIdDefStmt):
            raise InterpreterError(f"a {type(s).__name__} has no meaning to the interpreter")
        return None

    def _declare(self, s: DeclBuffer, threads: Array) -> None:
        data = s.buffer.data
        if s.data is not None and s.data is not data:
            pointer = self.value(s.data, threads)
            if not isinstance(pointer, Pointer):
                raise InterpreterError(f"the data of buffer '{s.buffer.name}' is not a pointer")
            self.bind(data, pointer, threads)
        elif s.buffer.scope != "tmem" and data not in self.roots and data not in self.env:
            raise InterpreterError(f"buffer '{s.buffer.name}' views storage that isn't allocated")

    def _store(self, s: BufferStore, threads: Array) -> None:
        if s.predicate is not None:
            keep = np.broadcast_to(np.asarray(self.value(s.predicate, threads)).astype(bool), threads.shape)
            threads = threads[keep]
            if not len(threads):
                return
        self.access.store(s.buffer, s.indices, self.value(s.value, threads), threads)

    def _assert(self, s: AssertStmt, threads: Array) -> None:
        holds = np.broadcast_to(np.asarray(self.value(s.condition, threads)).astype(bool), threads.shape)
        if not holds.all():
            where = self.wave.describe(int(threads[np.argmin(holds)]))
            parts = "".join(getattr(p, "value", p) for p in s.message_parts) or s.error_kind
            raise InterpreterError(f"an assertion fails in {where}: {parts}")


def _convergence(step: Step) -> str | None:
    """The scope whose threads execute a step together, if it has one: then it waits for stragglers."""
    from .intrinsics import TOGETHER

    if isinstance(step.stmt, TilePrimitiveCall):
        return None if step.stmt.scope.kind == "thread" else step.stmt.scope.kind
    look: Any = step.condition if step.kind == "branch" else step.stmt if step.kind == "run" else None
    if look is None:
        return None
    found: set[str] = set()

    class Walk(StmtVisitor):
        def visit_call(self, value: Call) -> None:
            if value.op.name in TOGETHER:
                found.add(TOGETHER[value.op.name])
            self.visit_children(value)

    Walk().visit(look)
    return "cta" if "cta" in found else "warp" if found else None


def _dynamic_shared(func: PrimFunc) -> int:
    total = 0

    class Walk(StmtVisitor):
        def visit_attr_stmt(self, value: AttrStmt) -> None:
            nonlocal total
            if value.attr_key == "tirx.dyn_smem_bytes" and isinstance(value.value, IntImm):
                total = max(total, value.value.value)
            self.visit_children(value)

    Walk().visit(func.body)
    return total


__all__ = ["Expr", "Machine"]
