"""What is known about scalars held in registers (``x: Tx.int32``, pipeline states) wherever a statement stands.

An abstract interpretation of the function: each scalar has an interval and classes of threads that hold the same value.
Conditions narrow intervals, loops are iterated to a fixed point (upwards over the constants of the
program, then twice down again), assignments beyond the dtype give the dtype's range, since registers wrap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    AllocBuffer,
    And,
    AttrStmt,
    Bind,
    Break,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Continue,
    DeclBuffer,
    Expr,
    For,
    IfThenElse,
    Not,
    Or,
    PrimFunc,
    Return,
    SeqStmt,
    Stmt,
    TilePrimitiveCall,
    Var,
    While,
    post_order_visit,
)  # fmt: skip
from ...ir import dtype as dt
from ...ir.index import Term, evaluate_many, names
from ...ir.index_ir import dtype_range
from ..scope import bounds, new_scope
from ..sharing.active import Active, narrow, same_as, thread_points
from ..sharing.agreement import agree, chosen, classes_of, meet, scattered
from ..sharing.threads import Launch
from .jumps import has_jump, inner_statements, returns
from .values import Fact, Facts, join
from .widening import Steps

#: rounds of a loop whose growing bounds are taken as they come, before they jump to constants of the program
PATIENCE = 2
#: rounds that only tighten bounds, before they are taken as they are: one that begins at 2^32 may lose one in each
SETTLING = 8


#: Calls that write elements that are their operands.
_WRITING = frozenset(f"tirx.ptx.{n}" for n in ("instruction", "tcgen05_ld", "ld_global_acquire"))


@dataclass(frozen=True)
class _Read:
    """An expression as a term, and the scalars and variables in it: names, and keys of facts about them.

    ``unknown``: something else in it may differ between threads.  The expression is kept, since it is known by its id.
    """

    expr: Expr
    term: Term
    ranges: dict[str, tuple[int, int]]
    names: tuple[str, ...]
    keys: tuple[Var, ...]
    unknown: bool


@dataclass
class _Frame:
    """The loop being walked: facts where it is left by ``break``, and where a round ends by ``continue``."""

    left: list[Facts] = field(default_factory=list)
    again: list[Facts] = field(default_factory=list)


class Scalars:
    """Facts about a function's scalars.

    A scalar is a local buffer of one bool, or 32- or 64-bit integer, that is only loaded and stored; it is known by the
    ``data`` variable of its buffer.  Threads that load the same element of an array that the kernel doesn't change hold the
    same value (arrays don't overlap: each parameter is the only way to its memory, which whoever launches the kernel promises).
    ``unchanged`` are these arrays.
    """

    def __init__(self, func: PrimFunc, launch: Launch) -> None:
        self.func = func
        self.launch = launch
        self.tracked: dict[Var, Buffer] = {}
        self.unchanged: frozenset[Var] = frozenset()
        self._before: dict[int, Facts] = {}
        self._heads: dict[int, Facts] = {}
        self._written: dict[int, frozenset[Var]] = {}
        self._mentioned: dict[int, tuple[Var, ...]] = {}
        self._fixed: dict[tuple[Any, ...], tuple[Facts, Facts | None]] = {}
        self._recording = False
        self._reads: dict[int, _Read] = {}
        self._values: dict[tuple[int, tuple[Fact | None, ...]], Fact] = {}
        self._apart = classes_of(np.arange(launch.threads))
        once = self._survey(func)
        self._steps = Steps(func.body, self.tracked)
        if once:
            self._recording = True
            self._run(func.body, self._ids(), None, Active.all(launch))

    def before(self, s: Stmt) -> Facts:
        """Facts wherever ``s`` is reached (no scalar without a value on every way there is among them)."""
        return self._before.get(id(s), {})

    def head(self, s: Stmt) -> Facts:
        """Facts whenever the condition of the loop ``s`` is tested, or its loop variable takes a value."""
        return self._heads.get(id(s), {})

    def written(self, s: Stmt) -> frozenset[Var]:
        """The scalars that ``s`` may store."""
        if id(s) not in self._written:
            own = {s.buffer.data} if isinstance(s, BufferStore) and s.buffer.data in self.tracked else set()
            self._written[id(s)] = frozenset(own.union(*map(self.written, inner_statements(s))))
        return self._written[id(s)]

    def leaves_apart(self, body: Stmt, active: Active) -> bool:
        """Whether some of the threads that run the body of a loop may leave it (or skip a round) and others not."""
        if isinstance(body, SeqStmt):
            return any(self.leaves_apart(s, active) for s in body.seq)
        if isinstance(body, AttrStmt):
            return self.leaves_apart(body.body, active)
        if isinstance(body, IfThenElse):
            branches = [b for b in (body.then_case, body.else_case) if b is not None]
            if any(map(has_jump, branches)) and not self.agreed(body.condition, self.before(body), active):
                return True
            return any(self.leaves_apart(b, active) for b in branches)
        return isinstance(body, (For, While)) and returns(body) and self._returns_apart(body, active)

    def _returns_apart(self, s: Stmt, active: Active) -> bool:
        """Whether some of the threads that come to ``s`` may return in it and others not."""
        if not returns(s):
            return False
        if isinstance(s, IfThenElse) and not self.agreed(s.condition, self.before(s), active):
            return True
        if isinstance(s, For) and not all(self.agreed(e, self.before(s), active) for e in (s.min, s.extent)):
            return True
        if isinstance(s, While) and not self.agreed(s.condition, self.head(s), active):
            return True
        return any(self._returns_apart(inner, active) for inner in inner_statements(s))

    # -- which scalars ---------------------------------------------------------------------------------------------

    def _survey(self, func: PrimFunc) -> bool:
        """Find the scalars; False if a statement stands at two places of the function."""
        views: dict[Var, set[int]] = {}
        escaped: set[Var] = set()
        changed: set[Var] = set()
        count: dict[int, int] = {}

        def statements(s: Any) -> None:
            count[id(s)] = count.get(id(s), 0) + 1
            for child in inner_statements(s):
                statements(child)

        def look(node: Any) -> None:
            if isinstance(node, AllocBuffer) and _is_scalar(node.buffer):
                self.tracked[node.buffer.data] = node.buffer
            if isinstance(node, (AllocBuffer, DeclBuffer)):
                views.setdefault(node.buffer.data, set()).add(id(node.buffer))
            if isinstance(node, Call) and node.op.name == "tirx.address_of" and isinstance(node.args[0], BufferLoad):
                escaped.add(node.args[0].buffer.data)
                changed.add(node.args[0].buffer.data)
            if isinstance(node, BufferStore):
                changed.add(node.buffer.data)
            if isinstance(node, Call) and node.op.name in _WRITING:
                escaped.update(a.buffer.data for a in node.args if isinstance(a, BufferLoad))
                changed.update(a.buffer.data for a in node.args if isinstance(a, BufferLoad))
            if isinstance(node, TilePrimitiveCall):
                escaped.update(r.buffer.data for r in node.regions())
                changed.update(r.buffer.data for r in node.dsts)
            if isinstance(node, Call):
                passed = {a.data for a in node.args if isinstance(a, Buffer)}
                escaped.update(passed)
                changed.update(passed)

        post_order_visit(func.body, look)
        statements(func.body)
        for data in list(self.tracked):
            if data in escaped or len(views[data]) > 1:
                del self.tracked[data]
        self.unchanged = frozenset(b.data for b in func.buffer_map.values()) - changed
        once = all(n == 1 for n in count.values())
        if not once:
            self.tracked.clear()
        return once

    def _ids(self) -> Facts:
        facts: Facts = {}
        for var, meaning in self.launch.ids.items():
            scope = new_scope()
            self.launch.declare(scope)
            term = scope.term(meaning)
            low, high = bounds(term, scope.ranges)
            tid = {scope.name(v): r for r, v in self.launch.special.items() if r.startswith("tid.")}
            if names(term) & set(tid):
                points = thread_points(self.launch, tid) | {n: np.asarray(0) for n in names(term) - set(tid)}
                facts[var] = Fact(low, high, classes_of(np.broadcast_to(evaluate_many(term, points), self.launch.threads)))
            else:
                facts[var] = Fact(low, high)
        for var in self.func.params:
            if dt.kind(var.dtype) in ("int", "uint", "bool"):
                facts[var] = Fact(*dtype_range(var.dtype))
        return facts

    # -- values ----------------------------------------------------------------------------------------------------

    def fact(self, e: Expr, facts: Facts) -> Fact:
        """What is known about the mathematical value of a scalar integer or bool expression."""
        seen = self._read(e)
        known = tuple(facts.get(key) for key in seen.keys)
        if (id(e), known) not in self._values:
            ranges, classes, unknown = dict(seen.ranges), None, seen.unknown
            for name, fact in zip(seen.names, known):
                if fact is not None:
                    ranges[name] = (fact.low, fact.high)
                    classes = meet(classes, fact.classes)
                unknown = unknown or fact is None
            low, high = bounds(seen.term, ranges)
            same = None if low == high else self._apart if unknown else classes
            self._values[id(e), known] = Fact(low, high, same)
        return self._values[id(e), known]

    def _read(self, e: Expr) -> _Read:
        """What an expression is made of; looked at once."""
        if id(e) not in self._reads:
            scope = new_scope()
            sources: dict[Expr, Var] = {}
            unknown = False

            def look(node: Any) -> None:
                nonlocal unknown
                if isinstance(node, BufferLoad):
                    unknown = unknown or not (node.buffer.data in self.tracked or node.buffer.data in self.unchanged)
                    if node.buffer.data in self.tracked:
                        sources[node] = node.buffer.data
                elif isinstance(node, Var):
                    sources[node] = node
                elif isinstance(node, Call) and not node.op.name.startswith(("tirx.bitwise", "tirx.shift")):
                    unknown = True

            post_order_visit(e, look)
            term = scope.term(e)
            kept = {source: key for source, key in sources.items() if dt.kind(source.dtype) in ("int", "uint", "bool")}
            names_of = tuple(scope.name(source) for source in kept)
            self._reads[id(e)] = _Read(e, term, scope.ranges, names_of, tuple(kept.values()), unknown)
        return self._reads[id(e)]

    def unknown(self, dtype: str) -> Fact:
        """What is known about any value of a dtype."""
        return Fact(*dtype_range(dtype), self._apart)

    def agreed(self, e: Expr, facts: Facts, active: Active) -> bool:
        """Whether an integer or bool expression is the same for all active threads."""
        return _is_integer(e) and agree(self.fact(e, facts).classes, active)

    def _kept(self, e: Expr, facts: Facts) -> Fact:
        """The same after it was written to a register of the dtype."""
        found = self.fact(e, facts)
        low, high = dtype_range(e.dtype)
        return found if low <= found.low and found.high <= high else Fact(low, high, found.classes)

    def narrow(self, condition: Expr, facts: Facts, holds: bool) -> Facts:
        """``facts`` where the condition has that truth value."""
        if isinstance(condition, Not):
            return self.narrow(condition.a, facts, not holds)
        if (isinstance(condition, And) and holds) or (isinstance(condition, Or) and not holds):
            return self.narrow(condition.b, self.narrow(condition.a, facts, holds), holds)
        compare = _COMPARE.get(type(condition))
        if compare is None or not _is_integer(condition.a):  # type: ignore[attr-defined]
            return facts
        a, b = condition.a, condition.b  # type: ignore[attr-defined]
        op = compare if holds else _OPPOSITE[compare]
        return self._compare(b, _FLIPPED[op], a, self._compare(a, op, b, facts))

    def _compare(self, a: Expr, op: str, b: Expr, facts: Facts) -> Facts:
        key = a.buffer.data if isinstance(a, BufferLoad) else a
        if not isinstance(key, Var) or key not in facts or (isinstance(a, BufferLoad) and key not in self.tracked):
            return facts
        known, other = facts[key], self.fact(b, facts)
        low, high = known.low, known.high
        if op == "eq":
            low, high = max(low, other.low), min(high, other.high)
        elif op == "ne" and other.low == other.high:
            low += low == other.low
            high -= high == other.low
        elif op in ("lt", "le"):
            high = min(high, other.high - (op == "lt"))
        elif op in ("gt", "ge"):
            low = max(low, other.low + (op == "gt"))
        # What can't be is never reached; an empty interval would only make trouble.
        return {**facts, key: Fact(low, high, known.classes)} if low <= high else facts

    # -- statements ------------------------------------------------------------------------------------------------

    def _run(self, s: Stmt, facts: Facts, frame: _Frame | None, active: Active) -> Facts | None:
        """Facts after ``s``, or None if what follows it is never reached."""
        if self._recording:
            self._before[id(s)] = facts
        if isinstance(s, SeqStmt):
            after: Facts | None = facts
            for inner in s.seq:
                if after is None:
                    break
                after = self._run(inner, after, frame, active)
            return after
        if isinstance(s, Bind):
            # What is bound keeps its mathematical value where it stands for its expression.
            return {**facts, s.var: self.fact(s.value, facts)} if _is_integer(s.value) else facts
        if isinstance(s, BufferStore) and s.buffer.data in self.tracked and _is_integer(s.value):
            return {**facts, s.buffer.data: self._kept(s.value, facts)}
        if isinstance(s, AttrStmt):
            return self._run(s.body, facts, frame, active)
        if isinstance(s, IfThenElse):
            return self._branch(s, facts, frame, active)
        if isinstance(s, (For, While)):
            return self._loop(s, facts, active)
        if isinstance(s, (Break, Continue)):
            if frame is not None:
                (frame.left if isinstance(s, Break) else frame.again).append(facts)
            return None
        return None if isinstance(s, Return) else facts

    def _branch(self, s: IfThenElse, facts: Facts, frame: _Frame | None, active: Active) -> Facts | None:
        agreed = self.agreed(s.condition, facts, active)
        ways: list[Facts | None] = []
        within: list[Active] = []
        for body, holds in ((s.then_case, True), (s.else_case, False)):
            start = self.narrow(s.condition, facts, holds)
            within.append(active if agreed else narrow(active, s.condition, self.launch, holds))
            ways.append(start if body is None else self._run(body, start, frame, within[-1]))
        after = join(ways)
        if after is None or agreed:
            return after
        then, otherwise = ways
        if then is None or otherwise is None or within[0].elected or within[0].data_dependent:
            return self._scatter(after, s, active)
        for k in self.written(s) & after.keys():
            classes = chosen(within[0].mask, then[k].classes, otherwise[k].classes)
            after[k] = Fact(after[k].low, after[k].high, classes)
        return after

    def _scatter(self, facts: Facts, s: Stmt, active: Active) -> Facts:
        """Facts after ``s``, when it isn't known which of the active threads took which way through it."""
        written = self.written(s)
        return {
            k: Fact(f.low, f.high, scattered(active.mask, f.classes)) if k in written else f for k, f in facts.items()
        }

    def _loop(self, s: For | While, entry: Facts, active: Active) -> Facts | None:
        """Facts after a loop.

        What isn't mentioned in it is the same before and after; entered with facts about the rest that were seen before, it
        is as it was then: so loops in loops take as many rounds as there are facts, not the product of all rounds.
        """
        mentioned = {k: entry[k] for k in self._mentions(s) if k in entry}
        key = (id(s), tuple(mentioned.items()), same_as(active))
        if key not in self._fixed:
            recording, self._recording = self._recording, False
            self._fixed[key] = self._fixed_point(s, mentioned, active)
            self._recording = recording
        head, after = self._fixed[key]
        if self._recording:  # not within a loop whose facts are yet to be found: these are the last for what is inside
            self._heads[id(s)] = {**entry, **head}
            self._round(s, self._heads[id(s)], active)
        return None if after is None else {**entry, **after}

    def _mentions(self, s: Stmt) -> tuple[Var, ...]:
        """The variables and scalars in a statement: what it reads, writes, binds or tests."""
        if id(s) not in self._mentioned:
            found: dict[Var, None] = {}

            def look(node: Any) -> None:
                if isinstance(node, Var):
                    found[node] = None
                elif isinstance(node, (BufferLoad, BufferStore)):
                    found[node.buffer.data] = None
                elif isinstance(node, Bind):
                    found[node.var] = None
                elif isinstance(node, For):
                    found[node.loop_var] = None

            post_order_visit(s, look)
            self._mentioned[id(s)] = tuple(found)
        return self._mentioned[id(s)]

    def _fixed_point(self, s: For | While, entry: Facts, active: Active) -> tuple[Facts, Facts | None]:
        """Facts at the head of a loop, and after it, from those with which it is entered."""
        head, rounds, settling = entry, 0, 0
        while settling < SETTLING:
            again = self._round(s, head, active)[0]
            wider = head if again is None else join([entry, again])
            assert wider is not None
            if rounds >= PATIENCE:
                wider = {k: self._widen(head.get(k), f, k) for k, f in wider.items()}
            rounds += 1
            if wider == head:
                break
            settling += wider.keys() == head.keys() and all(f.within(head[k]) for k, f in wider.items())
            head = wider
        for _ in range(2):
            again = self._round(s, head, active)[0]
            head = join([entry, again]) or entry
        _, left, agreed = self._round(s, head, active)
        after = join([self.narrow(s.condition, head, False) if isinstance(s, While) else head, *left])
        return head, after if after is None or agreed else self._scatter(after, s, active)

    def _round(self, s: For | While, head: Facts, active: Active) -> tuple[Facts | None, list[Facts], bool]:
        """One round: (facts at its end, facts at every break, whether all threads do as many rounds)."""
        frame = _Frame()
        if isinstance(s, While):
            agreed = self.agreed(s.condition, head, active)
            inside = self.narrow(s.condition, head, True)
            within = active if agreed else narrow(active, s.condition, self.launch)
        else:
            inside = self._counted(s, head)
            agreed = agree(inside[s.loop_var].classes, active)
            within = active if agreed else replace(active, data_dependent=True)
        end = join([self._run(s.body, inside, frame, within), *frame.again])
        if end is not None and frame.again:
            end = self._scatter(end, s, active)
        return end, frame.left, agreed and not frame.left

    def _counted(self, s: For, head: Facts) -> Facts:
        start, extent = self.fact(s.min, head), self.fact(s.extent, head)
        low, high = dtype_range(s.loop_var.dtype)
        last = max(start.low, start.high + extent.high - 1)
        return {**head, s.loop_var: Fact(max(low, start.low), min(high, last), meet(start.classes, extent.classes))}

    def _widen(self, old: Fact | None, new: Fact, key: Var) -> Fact:
        """``new``, with bounds that are still moving set to the next constant of the program."""
        if old is None or (old.low <= new.low and new.high <= old.high):
            return new
        low, high = dtype_range(self.tracked[key].dtype if key in self.tracked else key.dtype)
        high = self._steps.next_above(key, new.high, high) if new.high > old.high else new.high
        low = self._steps.next_below(key, new.low, low) if new.low < old.low else new.low
        return Fact(low, high, new.classes)


_COMPARE: dict[type, str] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}
_OPPOSITE = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}


def _is_scalar(buffer: Buffer) -> bool:
    kind, bits, lanes = dt.parse(buffer.dtype)
    known = kind == "bool" or (kind in ("int", "uint") and bits in (32, 64))
    return buffer.scope == "local" and buffer.const_shape() == (1,) and known and lanes == 1


def _is_integer(e: Expr) -> bool:
    return dt.kind(e.dtype) in ("int", "uint", "bool") and dt.lanes(e.dtype) == 1
