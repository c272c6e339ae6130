"""Index terms in z3: bit-vectors at a width that holds every intermediate value, or unbounded integers.

A problem gets a context of its own, so nothing that one question asserts can reach another; limits are ``rlimit``
units, never time, so the answer is the same on every machine.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .table import BOOLEAN, DIVISIONS, SHIFTS, Table

RLIMIT = 4_000_000  # about half a second
MAX_WIDTH = 256


@dataclass(frozen=True)
class Answer:
    """``result`` is ``sat``/``unsat``/``unknown``; ``point`` the model's variables when sat."""

    result: str
    point: dict[str, int] | None
    used: int
    smtlib: str

    @property
    def digest(self) -> str:
        """SHA-256 of the SMT-LIB text."""
        return hashlib.sha256(self.smtlib.encode()).hexdigest()


def width_for(table: Table, roots: Sequence[int]) -> int:
    """Bits of a signed integer that holds every node below ``roots``, with one to spare for quotients of minus one."""
    need = 1
    for r in roots:
        for i in table.reach(r):
            lo, hi = table.interval[i]
            need = max(need, hi.bit_length() if hi >= 0 else 0, (~lo).bit_length() if lo < 0 else 0)
    return need + 2


class Problem:
    """One question about terms of a ``Table``: variables in their ranges, facts added, then ``solve``."""

    def __init__(self, table: Table, names: Sequence[str], width: int = 0, rlimit: int = RLIMIT) -> None:
        import z3

        self.z3 = z3
        self.table = table
        self.names = list(names)
        self.width = width
        self.rlimit = rlimit
        self.logic = "QF_BV" if width else "QF_NIA"
        self.context = z3.Context()
        self.solver = z3.SolverFor("QF_BV", ctx=self.context) if width else z3.Solver(ctx=self.context)
        self.solver.set("rlimit", rlimit)
        self.vars: dict[str, Any] = {}
        for n in names:
            lo, hi = table.ranges[n]
            v = z3.BitVec(n, width, self.context) if width else z3.Int(n, self.context)
            self.vars[n] = v
            self.solver.add(v >= self.const(lo), v <= self.const(hi))
        self.exact = True  # no subterm had to be abstracted, so a model is a point
        self._made: dict[int, Any] = {}
        self._ok: dict[int, Any] = {}

    def const(self, k: int) -> Any:
        """The integer ``k``."""
        return self.z3.BitVecVal(k, self.width, self.context) if self.width else self.z3.IntVal(k, self.context)

    def value(self, root: int) -> Any:
        """The z3 term of ``root``.

        Over integers a bit operation that has no arithmetic form is any value of its interval (``exact`` is then
        False): sound for "equal", not for a model.
        """
        for i in self.table.reach(root):
            if i not in self._made:
                self._made[i] = self._node(i)
        return self._made[root]

    def defined(self, root: int) -> Any:
        """Condition under which ``root`` has a value; None if it always has."""
        if not self.table.partial[root]:
            return None
        self.value(root)
        for i in self.table.reach(root):
            if i not in self._ok:
                self._ok[i] = self._defined(i)
        return self._ok[root]

    def _defined(self, i: int) -> Any:
        op = self.table.nodes[i][0]
        args = self.table.children(i)
        if op == "select":
            present = [a for a in args if a in self._ok]
            if len(present) == 3:
                c, a, b = (self._ok[x] for x in args)
                if a is not None or b is not None:
                    yes = self._true() if a is None else a
                    no = self._true() if b is None else b
                    return self._both(c, self.z3.If(self._made[args[0]] != self.const(0), yes, no))
            return self._all([self._ok[a] for a in present])
        parts = [self._ok[a] for a in args]
        if op in DIVISIONS and self.table.own_partial(i):
            parts.append(self._made[args[1]] != self.const(0))
        if op in SHIFTS and self.table.own_partial(i):
            parts.append(self._made[args[1]] >= self.const(0))
        return self._all(parts)

    def _true(self) -> Any:
        return self.z3.BoolVal(True, self.context)

    def _both(self, a: Any, b: Any) -> Any:
        return b if a is None else a if b is None else self.z3.And(a, b)

    def _all(self, parts: Sequence[Any]) -> Any:
        out = None
        for p in parts:
            out = self._both(out, p)
        return out

    def _node(self, i: int) -> Any:
        lo, hi = self.table.interval[i]
        op, *args = self.table.nodes[i]
        if op == "var":
            return self.vars[args[0]]
        if lo == hi and not self.table.partial[i]:
            return self.const(lo)
        if op == "select":
            if args[1] not in self._made or args[2] not in self._made:
                return self._made[args[1] if args[1] in self._made else args[2]]
            return self.z3.If(self._made[args[0]] != self.const(0), self._made[args[1]], self._made[args[2]])
        x = [self._made[a] for a in args]
        if op in BOOLEAN:
            condition = _CONDITION[op](self, *x)
            return self.z3.If(condition, self.const(1), self.const(0))
        bounds = [self.table.interval[a] for a in args]
        if op in ("div", "mod", "tdiv", "tmod"):
            return self._divide(op, x, bounds)
        if op in ("min", "max"):
            return self.z3.If(x[0] <= x[1], *(x if op == "min" else x[::-1]))
        if op in ("add", "sub", "mul", "neg"):
            return _PLAIN[op](*x)
        return self._bits(i, op, x, bounds)

    def _divide(self, op: str, x: list[Any], bounds: list[tuple[int, int]]) -> Any:
        a, b = x
        lo, hi = bounds[1]
        if self.width:
            if lo == hi and lo > 0 and lo & (lo - 1) == 0 and (op in ("div", "mod") or bounds[0][0] >= 0):
                shift = lo.bit_length() - 1
                return a >> self.const(shift) if op in ("div", "tdiv") else a & self.const(lo - 1)
            if bounds[0][0] >= 0 and lo > 0:
                return self.z3.UDiv(a, b) if op in ("div", "tdiv") else self.z3.URem(a, b)
            q, r = a / b, self.z3.SRem(a, b)
            if op == "tdiv":
                return q
            if op == "tmod":
                return r
            zero = self.const(0)
            fix = self.z3.And(r != zero, (r < zero) != (b < zero))
            return self.z3.If(fix, q - 1, q) if op == "div" else self.z3.If(fix, r + b, r)
        return int_divide(self.z3, op, a, b, bounds)

    def _bits(self, i: int, op: str, x: list[Any], bounds: list[tuple[int, int]]) -> Any:
        if self.width:
            return _BITS[op](*x)
        lo, hi = bounds[1]
        if lo == hi >= 0:
            if op == "shl":
                return x[0] * self.const(1 << lo)
            if op == "shr":
                return x[0] / self.const(1 << lo)
            if op == "and" and lo & (lo + 1) == 0:
                return x[0] % self.const(lo + 1)
        self.exact = False
        free = self.z3.Int(f"node!{i}", self.context)
        low, high = self.table.interval[i]
        self.solver.add(free >= self.const(low), free <= self.const(high))
        return free

    def solve(self) -> Answer:
        """Ask; the SMT-LIB text is that of exactly this question."""
        text = f"(set-logic {self.logic})\n" + self.solver.to_smt2()
        result = str(self.solver.check())
        used = int(self.solver.statistics().get_key_value("rlimit count"))
        point = None
        if result == "sat":
            model = self.solver.model()
            point = {n: _integer(model.eval(v, model_completion=True)) for n, v in self.vars.items()}
        return Answer(result, point, used, text)


def _integer(value: Any) -> int:
    return int(value.as_signed_long()) if hasattr(value, "as_signed_long") else int(value.as_long())


def int_divide(z3: Any, op: str, a: Any, b: Any, bounds: Sequence[tuple[int, int]]) -> Any:
    """Flooring and truncating division over z3 integers.

    SMT-LIB's ``div`` is Euclidean (remainder never negative), which is flooring only for positive divisors; for
    negative ones both operands change sign, which changes nothing in the quotient.
    """
    (alo, ahi), (lo, hi) = bounds
    if op in ("div", "mod"):
        up = a / b if op == "div" else a % b
        down = (-a) / (-b) if op == "div" else -((-a) % (-b))
        return up if lo > 0 else down if hi < 0 else z3.If(b > 0, up, down)
    up, down = a / b, -((-a) / b)
    q = up if alo >= 0 else down if ahi < 0 else z3.If(a >= 0, up, down)
    return q if op == "tdiv" else a - b * q


_PLAIN: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}
_BITS: dict[str, Callable[..., Any]] = {
    "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_CONDITION: dict[str, Callable[..., Any]] = {
    "lt": lambda p, a, b: a < b,
    "le": lambda p, a, b: a <= b,
    "eq": lambda p, a, b: a == b,
    "ne": lambda p, a, b: a != b,
    "land": lambda p, a, b: p.z3.And(a != p.const(0), b != p.const(0)),
    "lor": lambda p, a, b: p.z3.Or(a != p.const(0), b != p.const(0)),
    "lnot": lambda p, a: a == p.const(0),
}
