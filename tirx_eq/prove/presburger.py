"""Constant-extent index arithmetic without XOR, decided by the integer set library (``islpy``, optional).

Terms become piecewise quasi-affine expressions; the sides differ exactly if the set of points where they do is not
empty, and then isl hands out one of its points.  A subterm that is not affine (an XOR, a product of variables) becomes
a coordinate of its own, any value of its interval: sound for "equal", and ``exact`` tells when a point may be trusted.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

from .table import BOOLEAN, Table

MAX_OPAQUE = 64  # subterms that become coordinates of their own
MAX_OPERATIONS = 1_000_000  # isl's own count, so the answer is the same on every machine


def disagreement(table: Table, names: Sequence[str], a: int, b: int, facts: Sequence[int]) -> tuple[bool, Any] | None:
    """(exact, point) where nodes ``a`` and ``b`` differ and ``facts`` hold, the point None if there is none anywhere.

    None if isl would need more than ``MAX_OPERATIONS`` (nested minima and divisions may fall into millions of pieces).
    """
    import islpy as isl

    try:
        encoder = Encoder(table, names, [a, b, *facts])
        wrong = encoder.expr(a).ne_set(encoder.expr(b))
        for f in facts:
            wrong = wrong.intersect(encoder.condition(f))
        return encoder.exact, encoder.point(wrong)
    except isl.Error:
        return None


def available() -> bool:
    """Whether ``islpy`` can be imported."""
    return importlib.util.find_spec("islpy") is not None


class Encoder:
    """The ``roots`` of a ``Table`` over the box of ``names``, in an isl context of its own."""

    def __init__(self, table: Table, names: Sequence[str], roots: Sequence[int]) -> None:
        import islpy as isl

        self.isl = isl
        self.table = table
        self.names = list(names)
        order = sorted({i for r in roots for i in table.reach(r)})
        self.opaque = [i for i in order if not self._affine(i)]
        if len(self.opaque) > MAX_OPAQUE:
            raise isl.Error("too many coordinates")
        self.exact = not self.opaque
        self.context = isl.Context()
        self.context.set_max_operations(MAX_OPERATIONS)
        bounds = [table.ranges[n] for n in names] + [table.interval[i] for i in self.opaque]
        space = isl.Space.create_from_names(self.context, set=[f"v{k}" for k in range(len(bounds))])
        self.local = isl.LocalSpace.from_space(space)
        box = isl.BasicSet.universe(space)
        for k, (lo, hi) in enumerate(bounds):
            for sign, bound in ((1, -lo), (-1, hi)):
                row = isl.Constraint.inequality_alloc(self.local)
                row = row.set_coefficient_val(isl.dim_type.set, k, self._val(sign))
                box = box.add_constraint(row.set_constant_val(self._val(bound)))
        self.box = isl.Set.from_basic_set(box)
        self._made: dict[int, Any] = {}
        for i in order:
            self._made[i] = self._axis(len(self.names) + self.opaque.index(i)) if i in self.opaque else self._node(i)

    def _affine(self, i: int) -> bool:
        """Whether node ``i`` is affine in its operands, given which of them are constants."""
        op, *args = self.table.nodes[i]
        if op in ("const", "var") or self._literal(i) is not None:
            return True
        if op == "mul":
            return any(self._literal(a) is not None for a in args)
        if op in ("div", "mod", "tdiv", "tmod", "shl", "shr"):
            right = self._literal(args[1])
            return right is not None and (right != 0 if op[0] in "dmt" else right >= 0)
        if op == "and":
            right = self._literal(args[1])
            return right is not None and right >= 0
        return op not in ("or", "xor")

    def _axis(self, k: int) -> Any:
        return self.isl.PwAff.var_on_domain(self.local, self.isl.dim_type.set, k)

    def _val(self, k: int) -> Any:
        return (
            self.isl.Val.int_from_si(self.context, k) if abs(k) < 1 << 62 else self.isl.Val.read_from_str(self.context, str(k))
        )

    def const(self, k: int) -> Any:
        """The constant ``k`` on the whole space."""
        return self.isl.PwAff.from_aff(self.isl.Aff.val_on_domain(self.local, self._val(k)))

    def expr(self, root: int) -> Any:
        """``root`` as a piecewise quasi-affine expression."""
        return self._made[root]

    def _literal(self, i: int) -> int | None:
        lo, hi = self.table.interval[i]
        return lo if lo == hi else None

    def _node(self, i: int) -> Any:
        value = self._literal(i)
        if value is not None:
            return self.const(value)
        op, *args = self.table.nodes[i]
        if op == "var":
            return self._axis(self.names.index(args[0]))
        if op in BOOLEAN:
            return self._indicator(self.condition(i))
        if op == "select":
            return self._select(*args)
        if op in _DIRECT:
            return getattr(self._made[args[0]], _DIRECT[op])(*(self._made[a] for a in args[1:]))
        if op == "mul":
            x, k = args if self._literal(args[1]) is not None else args[::-1]
            return self._made[x].scale_val(self._val(self._constant(k)))
        return self._by_constant(op, args[0], self._made[args[0]], self._constant(args[1]))

    def _constant(self, i: int) -> int:
        value = self._literal(i)
        assert value is not None
        return value

    def _by_constant(self, op: str, node: int, x: Any, k: int) -> Any:
        if op == "shl":
            return x.scale_val(self._val(1 << k))
        if op == "shr":
            return self._floor(x, 1 << k)
        if op == "div":
            return self._floor(x, k)
        if op == "mod":
            return x.sub(self._floor(x, k).scale_val(self._val(k)))
        if op in ("tdiv", "tmod"):
            q = self._trunc(node, x, k)
            return q if op == "tdiv" else x.sub(q.scale_val(self._val(k)))
        return self._mask(x, k)

    def _floor(self, x: Any, k: int) -> Any:
        if k < 0:
            return self._floor(x.neg(), -k)
        return x.scale_down_val(self._val(k)).floor()

    def _trunc(self, node: int, x: Any, k: int) -> Any:
        if k < 0:
            return self._trunc(node, x, -k).neg()
        if self.table.interval[node][0] >= 0:
            return self._floor(x, k)
        negative = x.lt_set(self.const(0))
        return self._branch(negative, x.scale_down_val(self._val(k)).ceil(), self._floor(x, k))

    def _mask(self, x: Any, mask: int) -> Any:
        """``x & mask``: each run of ones in the mask is a digit of x (flooring, so right for negative x too)."""
        total = self.const(0)
        low = 0
        while mask >> low:
            if not mask >> low & 1:
                low += 1
                continue
            high = low
            while mask >> high & 1:
                high += 1
            digit = self._floor(x, 1 << low)
            run = 1 << (high - low)
            digit = digit.sub(self._floor(digit, run).scale_val(self._val(run)))
            total = total.add(digit.scale_val(self._val(1 << low)))
            low = high
        return total

    def _indicator(self, where: Any) -> Any:
        return self._branch(where, self.const(1), self.const(0))

    def _branch(self, where: Any, a: Any, b: Any) -> Any:
        return a.intersect_domain(where).union_add(b.intersect_domain(where.complement()))

    def _select(self, c: int, a: int, b: int) -> Any:
        lo, hi = self.table.interval[c]
        if lo > 0 or hi < 0 or lo == hi:
            return self._made[b if lo == hi == 0 else a]
        return self._branch(self.condition(c), self._made[a], self._made[b])

    def condition(self, i: int) -> Any:
        """The set of points of the space at which node ``i`` is not zero."""
        op, *args = self.table.nodes[i]
        if op in _COMPARE and self._literal(i) is None:
            return getattr(self._made[args[0]], _COMPARE[op])(self._made[args[1]])
        if op in ("land", "lor", "lnot") and self._literal(i) is None:
            sets = [self.condition(a) for a in args]
            return (
                sets[0].complement()
                if op == "lnot"
                else (sets[0].intersect(sets[1]) if op == "land" else sets[0].union(sets[1]))
            )
        return self._made[i].ne_set(self.const(0))

    def point(self, where: Any) -> dict[str, int] | None:
        """A point of the box in ``where``, or None if there is none."""
        inside = where.intersect(self.box)
        if inside.is_empty():
            return None
        found = inside.sample_point()
        kind = self.isl.dim_type.set
        return {n: int(found.get_coordinate_val(kind, k).to_python()) for k, n in enumerate(self.names)}


_DIRECT = {"add": "add", "sub": "sub", "neg": "neg", "min": "min", "max": "max"}
_COMPARE = {"lt": "lt_set", "le": "le_set", "eq": "eq_set", "ne": "ne_set"}
