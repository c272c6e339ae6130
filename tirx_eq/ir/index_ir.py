"""Between IR expressions and neutral index terms.

An :class:`IndexScope` gives each variable a unique name and a range.  What isn't integer arithmetic (a load, a call of a
device intrinsic) becomes a variable of its own, ranging over its dtype, and is remembered so that code generation can
compute it where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import IRError
from . import dtype as dt
from .arith import binary, bitwise, cast, const, logical_and, logical_not, logical_or, negate, select
from .expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BinaryOp,
    Call,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    Sub,
    Var,
)
from .index import MAX_SHIFT, Term, names

_BINARY: dict[type, str] = {
    Add: "add", Sub: "sub", Mul: "mul", FloorDiv: "div", FloorMod: "mod", Div: "tdiv", Mod: "tmod", Min: "min", Max: "max",
    EQ: "eq", NE: "ne", LT: "lt", LE: "le", And: "land", Or: "lor",
}  # fmt: skip
_CALLS = {
    "tirx.bitwise_and": "and", "tirx.bitwise_or": "or", "tirx.bitwise_xor": "xor",
    "tirx.shift_left": "shl", "tirx.shift_right": "shr",
}  # fmt: skip
_BUILD: dict[str, Callable[[Any, Any], Expr]] = {
    **{op: lambda a, b, c=cls: binary(c, a, b) for cls, op in _BINARY.items()},  # type: ignore[misc]
    **{op: lambda a, b, n=name[5:]: bitwise(n, a, b) for name, op in _CALLS.items()},  # type: ignore[misc]
    "land": logical_and,
    "lor": logical_or,
}


def dtype_range(dtype: str) -> tuple[int, int]:
    """The inclusive range of an integer or bool dtype."""
    kind, bits, _ = dt.parse(dtype)
    if kind == "int":
        return -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return 0, (1 << bits) - 1


@dataclass
class IndexScope:
    """Names and inclusive ranges of the variables of a kernel's index expressions.

    ``bounds`` encloses a term over the ranges; with it a narrowing conversion of a value that fits is seen through.
    """

    bounds: Callable[[Term, dict[str, tuple[int, int]]], tuple[int, int]] | None = None
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    sources: dict[str, Expr] = field(default_factory=dict)
    _names: dict[Any, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    def name(self, source: Expr, bounds: tuple[int, int] | None = None) -> str:
        """The unique name of a variable (or opaque expression); declares it with ``bounds`` when first met."""
        found = self._names.get(source)
        if found is None:
            stem = source.name if isinstance(source, Var) else "value"
            stem = re.sub(r"\W", "_", stem) or "v"
            found, count = stem, self._counts.get(stem, 1)
            while found in self.ranges:
                found, count = f"{stem}_{count}", count + 1
            self._counts[stem] = count
            self._names[source] = found
            self.sources[found] = source
            self.ranges[found] = bounds or dtype_range(source.dtype)
        elif bounds is not None:
            low, high = self.ranges[found]
            self.ranges[found] = (max(low, bounds[0]), min(high, bounds[1]))
        return found

    def term(self, e: Expr) -> Term:
        """``e`` as a neutral term.  Raises IRError if it is no scalar integer or bool expression."""
        if not isinstance(e, Expr) or dt.kind(e.dtype) not in ("int", "uint", "bool") or dt.lanes(e.dtype) != 1:
            raise IRError(f"not an index expression: {e!r}")
        return self._term(e)

    def _term(self, e: Expr) -> Term:
        if isinstance(e, IntImm):
            return e.value
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, BinaryOp) and dt.kind(e.a.dtype) in ("int", "uint", "bool"):
            operand = self._term if isinstance(e, (Add, Sub, Mul)) else self.exact
            if isinstance(e, (GT, GE)):
                return ("lt" if isinstance(e, GT) else "le", operand(e.b), operand(e.a))
            return (_BINARY[type(e)], operand(e.a), operand(e.b))
        if isinstance(e, Not):
            return ("lnot", self._term(e.a))
        if isinstance(e, Select):
            return ("select", self._term(e.condition), self._term(e.true_value), self._term(e.false_value))
        if isinstance(e, Let):
            from .functor import substitute

            return self._term(substitute(e.body, {e.var: e.value}))
        if isinstance(e, Call) and e.op.name in ("tirx.shift_left", "tirx.shift_right") and self.bounds is not None:
            count = self._term(e.args[1])
            if self.bounds(count, self.ranges)[1] >= dt.bits(e.dtype):
                return self.name(e)  # by how much isn't known, so neither is what the result can be
        if isinstance(e, Call) and e.op.name in _CALLS:
            first = self.exact if e.op.name == "tirx.shift_right" else self._term
            if "shift" not in e.op.name:
                return (_CALLS[e.op.name], first(e.args[0]), self._term(e.args[1]))
            amount = self.exact(e.args[1])
            if self.bounds is not None and not isinstance(amount, int):
                low, high = self.bounds(amount, self.ranges)
                if low < 0 or high >= MAX_SHIFT:
                    return self.name(e)
            return (_CALLS[e.op.name], first(e.args[0]), amount)
        if isinstance(e, Call) and e.op.name == "tirx.bitwise_not" and dt.kind(e.dtype) == "int":
            return ("sub", -1, self._term(e.args[0]))
        if isinstance(e, Cast) and dt.kind(e.value.dtype) in ("int", "uint", "bool"):
            inner = self.exact(e.value)
            low, high = dtype_range(e.value.dtype) if self.bounds is None else self.bounds(inner, self.ranges)
            into = dtype_range(e.dtype)
            if into[0] <= low and high <= into[1]:
                return inner
        return self.name(e)

    def exact(self, e: Expr) -> Term:
        """``e`` as a term where its value decides something: unsigned arithmetic that may wrap is a variable of its own."""
        term = self._term(e)
        if self.bounds is None or dt.kind(e.dtype) != "uint" or not isinstance(term, tuple):
            return term
        low, high = self.bounds(term, self.ranges)
        first, last = dtype_range(e.dtype)
        return term if first <= low and high <= last else self.name(e)

    def expr(self, term: Term, dtype: str = "int32") -> Expr:
        """A neutral term as an IR expression of ``dtype`` (the inverse of :meth:`term` up to dtypes).

        Constants are taken modulo two to the width.  Raises IRError if the variables have no common type.
        """
        return self.built(term, dtype)[0]

    def built(self, term: Term, dtype: str = "int32") -> tuple[Expr, int]:
        """:meth:`expr`, and how many different numbers in it are compared with zero to be conditions."""
        make = _Builder(self, self.width(term) if dtype == "bool" else dtype)
        return make.condition(term) if dtype == "bool" else make.number(term), len(make.tested)

    def width(self, term: Term) -> str:
        """The type in which the numbers of a condition are computed: one that has all values of its variables' types."""
        kinds = {dt.parse(self.sources[n].dtype)[:2] for n in names(term)}
        signed = max((bits for kind, bits in kinds if kind == "int"), default=0)
        unsigned = max((bits for kind, bits in kinds if kind == "uint"), default=0)
        if unsigned >= 32 and not signed:
            return f"uint{unsigned}"
        bits = max(32, signed, 2 * unsigned)
        if bits > 64:
            raise IRError(f"no type holds both int{signed} and uint{unsigned}")
        return f"int{bits}"


class _Builder:
    """Makes expressions of terms, their numbers of type ``dtype``."""

    def __init__(self, scope: IndexScope, dtype: str) -> None:
        self.scope = scope
        self.dtype = dtype
        self.tested: set[Expr] = set()

    def number(self, term: Term) -> Expr:
        """A term as a number; a condition is 0 or 1."""
        made = self._made(term)
        return made if made.dtype == self.dtype else cast(self.dtype, made)

    def condition(self, term: Term) -> Expr:
        """A term as a condition; a number holds if it isn't 0."""
        made = self._made(term)
        if made.dtype == "bool":
            return made
        if isinstance(made, IntImm):
            return IntImm("bool", made.value != 0)
        self.tested.add(made)
        return binary(NE, made, const(0, made.dtype))

    def _made(self, term: Term) -> Expr:
        if isinstance(term, int):
            low, high = dtype_range(self.dtype)
            return const((term - low) % (high - low + 1) + low, self.dtype)
        if isinstance(term, str):
            source = self.scope.sources[term]
            return source if source.dtype in ("bool", self.dtype) else cast(self.dtype, source)
        op, *args = term
        if op == "select":
            branches = [self._made(a) for a in args[1:]]
            if all(b.dtype == "bool" for b in branches):
                return select(self.condition(args[0]), *branches)
            return select(self.condition(args[0]), self.number(args[1]), self.number(args[2]))
        if op == "lnot":
            made = self._made(args[0])
            return logical_not(made) if made.dtype == "bool" else binary(EQ, made, const(0, made.dtype))
        if op in ("land", "lor"):
            return _BUILD[op](self.condition(args[0]), self.condition(args[1]))
        if op in ("and", "or", "xor") and all(self._made(a).dtype == "bool" for a in args):
            return _BUILD[op](self._made(args[0]), self._made(args[1]))
        if op == "neg":
            return negate(self.number(args[0]))
        return _BUILD[op](self.number(args[0]), self.number(args[1]))
