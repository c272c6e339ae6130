"""What is known of the variables and register scalars of a function: ranges and what divides them.

Ranges and alignments are a fixed point over everything that is ever assigned, in whatever order; a bound that keeps
moving (a counter's) goes to the end of its type, and what was lost by that is taken back where the assignments allow it.
As in TVM's analyses, signed arithmetic of the given program doesn't overflow.
"""

from __future__ import annotations

from math import gcd
from typing import Any

from .. import ir
from ..ir import dtype as dt
from ..ir.index import Term, names, postorder
from ..ir.index_ir import IndexScope, dtype_range
from ..prove.table import Table
from .pure import is_index, is_pure, loads
from .scalars import Scalars, element, scalars

Bounds = tuple[int, int]

#: Rounds after which a bound that still moves goes to the end of its type.
_PATIENCE = 3
#: A larger number that divides a value says no more than this one does.
_MAX_DIVISOR = 1 << 30
_SHUFFLES = ("tirx.tvm_warp_shuffle", "tirx.tvm_warp_shuffle_up", "tirx.tvm_warp_shuffle_down")


class Declared(ir.StmtVisitor):
    """Names the variables of a function with their ranges; ``facts`` gives what divides them."""

    def __init__(self) -> None:
        self.scope = IndexScope(bounds)
        self.found = Scalars({}, frozenset())
        self._align: dict[str, int] = {}

    def learn(self, func: ir.PrimFunc) -> None:
        """Find what is assigned to the variables and scalars of ``func``."""
        self.found = scalars(func)
        for _ in range(2):  # a conversion is seen through once its operand is known to fit
            walk = _Assigned(self.scope, self.found)
            walk.visit(func)
            _solve(self.scope, walk.values)
        found = {n: a if a <= _MAX_DIVISOR else gcd(a, _MAX_DIVISOR) for n, a in _alignments(walk.values).items()}
        self._align = {n: a for n, a in found.items() if a > 1}

    def fixed(self, value: ir.Expr) -> bool:
        """Whether an expression has one value as long as the sequence of statements it stands in goes on."""
        return is_pure(value) and all(element(e.buffer, e.indices) in self.found.once for e in loads(value))

    def facts(self, term: Term) -> tuple[Term, ...]:
        """Divisibilities that hold for the variables of ``term``."""
        return tuple(("eq", ("mod", n, self._align[n]), 0) for n in sorted(names(term)) if n in self._align)

    def visit_for(self, value: ir.For) -> None:
        self.visit(value.min)
        self.visit(value.extent)
        self.range(value.loop_var, value.min, value.extent)
        self.visit(value.body)

    def visit_attr_stmt(self, value: ir.AttrStmt) -> None:
        if value.attr_key in ("thread_extent", "virtual_thread") and isinstance(value.node, ir.IterVar):
            self.range(value.node.var, ir.IntImm(value.value.dtype, 0), value.value)
        self.visit(value.value)
        self.visit(value.body)

    def visit_scope_id_def(self, value: ir.ScopeIdDef) -> None:
        for var, extent in zip(value.def_ids, value.extents or ()):
            self.range(var, ir.IntImm(extent.dtype, 0), extent)
        if value.extents is None:
            low, high = dtype_range(value.def_ids[0].dtype)
            self.scope.name(value.def_ids[0], (max(low, 0), high))

    def range(self, var: ir.Var, low: Any, extent: Any) -> None:
        """A variable from ``low`` on for ``extent`` values; a loop that never runs bounds nothing."""
        first, last = dtype_range(var.dtype)
        if not (is_pure(low) and is_pure(extent)):
            return
        start, count = (bounds(self.scope.term(e), self.scope.ranges) for e in (low, extent))
        high = min(last, start[1] + count[1] - 1)
        if max(first, start[0]) <= high:
            self.scope.name(var, (max(first, start[0]), high))


class _Assigned(Declared):
    """Collects the values assigned to each name."""

    def __init__(self, scope: IndexScope, found: Scalars) -> None:
        super().__init__()
        self.scope = scope
        self.found = found
        self.values: dict[str, tuple[str, list[Term]]] = {}
        """Type and values of each name that is assigned."""

    def visit(self, value: Any) -> None:
        if not isinstance(value, ir.Expr):  # nothing is assigned in an expression
            super().visit(value)

    __call__ = visit

    def visit_bind(self, value: ir.Bind) -> None:
        if is_index(value.var):
            self._assign(value.var, value.value)

    def visit_buffer_store(self, value: ir.BufferStore) -> None:
        place = element(value.buffer, value.indices)
        if place in self.found.stored:
            self._assign(ir.BufferLoad(value.buffer, value.indices), value.value)

    def _assign(self, target: ir.Expr, value: ir.Expr) -> None:
        name = self.scope.name(target)
        source = value
        if isinstance(value, ir.Call) and value.op.name in _SHUFFLES:
            source = value.args[1]  # the value that some lane has
        term = self.scope.term(source) if is_pure(source) and is_index(source) else self.scope.name(source)
        self.values.setdefault(name, (target.dtype, []))[1].append(term)


def bounds(term: Term, ranges: dict[str, Bounds]) -> Bounds:
    """An interval that encloses ``term``."""
    table = Table({n: ranges[n] for n in names(term)})
    return table.interval[table.add(term)]


def _solve(scope: IndexScope, values: dict[str, tuple[str, list[Term]]]) -> None:
    """Narrow the ranges of ``scope`` to what is assigned."""
    uses = {n: set().union(*(names(t) for t in terms)) for n, (_, terms) in values.items()}
    state: dict[str, Bounds | None] = dict.fromkeys(values)
    outer = {n: r for n, r in scope.ranges.items() if n not in values}

    def joined(name: str) -> Bounds | None:
        dtype, terms = values[name]
        first, last = dtype_range(dtype)
        found: list[Bounds] = []
        for t in terms:
            ranges = {n: outer[n] if n in outer else state[n] for n in names(t)}
            if None in ranges.values():
                continue  # a value that nothing has yet
            low, high = bounds(t, ranges)  # type: ignore[arg-type]
            if dt.kind(dtype) != "int" and not first <= low <= high <= last:
                return first, last
            found.append((min(max(low, first), last), max(min(high, last), first)))
        return _both((min(f[0] for f in found), max(f[1] for f in found)), scope.ranges[name]) if found else None

    changed: set[str] = set(values)
    turn = 0
    while changed:
        before, changed = changed, set()
        for name in values:
            if turn and not uses[name] & (before | changed):
                continue
            old, new = state[name], joined(name)
            if new is not None and old is not None:
                first, last = dtype_range(values[name][0])
                new = _both((
                    old[0] if new[0] >= old[0] else new[0] if turn < _PATIENCE else first,
                    old[1] if new[1] <= old[1] else new[1] if turn < _PATIENCE else last,
                ), scope.ranges[name])  # fmt: skip
            if new != old and new is not None:
                state[name] = new
                changed.add(name)
        turn += 1
    for name in values:  # one step down: what follows from a solution is a solution
        new = joined(name)
        if new is not None:
            state[name] = new
    scope.ranges.update({name: bound for name, bound in state.items() if bound is not None})


def _both(new: Bounds, known: Bounds) -> Bounds:
    """What lies in two intervals; the one known before if nothing does (code that never runs)."""
    low, high = max(new[0], known[0]), min(new[1], known[1])
    return (low, high) if low <= high else known


def _alignments(values: dict[str, tuple[str, list[Term]]]) -> dict[str, int]:
    """A number that divides all values of each name."""
    found: dict[str, int] = dict.fromkeys(values, 0)
    for turn in range(12):
        changed = False
        for name, (dtype, terms) in values.items():
            new = gcd(found[name], *(divisor(t, found) for t in terms))
            if dt.kind(dtype) != "int":
                new &= -new  # what wraps keeps powers of two
            if new != found[name]:
                found[name], changed = (new if turn < 10 else 1), True
        if not changed:
            return found
    return {}


def divisor(term: Term, of: dict[str, int]) -> int:
    """A number that divides every value of ``term``, given such numbers for variables; 0 for a term that is 0."""
    memo: dict[int, int] = {}

    def get(t: Term) -> int:
        return abs(t) if isinstance(t, int) else of.get(t, 1) if isinstance(t, str) else memo[id(t)]

    def power(n: int) -> int:
        return n & -n

    for t in postorder(term):
        if isinstance(t, tuple):
            memo[id(t)] = _divisor(t, [get(a) for a in t[1:]], power)
    return get(term)


def _divisor(t: Any, args: list[int], power: Any) -> int:
    match t[0]:
        case "add" | "sub" | "min" | "max":
            return gcd(*args)
        case "select":
            return gcd(args[1], args[2])
        case "mul":
            return args[0] * args[1]
        case "mod" | "tmod":
            return gcd(*args)
        case "neg":
            return args[0]
        case "xor" | "or":
            return gcd(power(args[0]), power(args[1]))
        case "and":
            return max(power(args[0]), power(args[1])) if all(args) else 0
        case "shl" if isinstance(t[2], int) and 0 <= t[2] < 64:
            return args[0] << t[2]
        case "div" if isinstance(t[2], int) and t[2] > 0 and args[0] % t[2] == 0:
            return args[0] // t[2]
    return 1
