"""Extents, strides and offsets: Python ints when constant, expressions otherwise; and the arithmetic on them.

Keeping constants as plain ints makes equality of layouts structural and keeps the constant paths fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..errors import LayoutError
from ..ir.arith import bitwise, const
from ..ir.expr import Add, Expr, IntImm, Mul, Sub, Var
from ..ir.node import fields, is_node

Value = int | Expr


def as_value(x: Any, what: str = "a value") -> Value:
    """``x`` as an int if it is constant, else as the expression it is; LayoutError for anything but an integer."""
    if isinstance(x, int) and not isinstance(x, bool):
        return x
    if isinstance(x, IntImm):
        return x.value
    if isinstance(x, Expr):
        if not x.dtype.startswith(("int", "uint")):
            raise LayoutError(f"{what} must be an integer, got an expression of {x.dtype}")
        return x
    if hasattr(x, "__index__") and not isinstance(x, bool):
        return int(x)
    raise LayoutError(f"{what} must be an integer or an integer expression, got {x!r}")


def as_expr(x: Value) -> Expr:
    """``x`` as an IR expression (int32 unless it doesn't fit)."""
    return const(x)


def add(a: Value, b: Value) -> Value:
    """Sum; constants stay ints."""
    return as_value(a + b)


def mul(a: Value, b: Value) -> Value:
    """Product; a constant zero gives 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if (isinstance(a, int) and a == 0) or (isinstance(b, int) and b == 0):
        return 0
    return as_value(a * b)


def div(a: Value, b: Value) -> Value:
    """Quotient rounded down; ``b`` must not be a constant zero."""
    if isinstance(b, int) and b == 0:
        raise LayoutError("a division by an extent of 0")
    return as_value(a // b)


def mod(a: Value, b: Value) -> Value:
    """Remainder of :func:`div`."""
    if isinstance(b, int) and b == 0:
        raise LayoutError("a division by an extent of 0")
    return as_value(a % b)


def xor(a: Value, b: Value) -> Value:
    """Bitwise exclusive or."""
    if isinstance(a, int) and isinstance(b, int):
        return a ^ b
    if isinstance(a, int) and a == 0:
        return b
    if isinstance(b, int) and b == 0:
        return a
    return as_value(bitwise("bitwise_xor", a, b))


def prod(values: Iterable[Value]) -> Value:
    """Product of extents; 1 if there are none."""
    total: Value = 1
    for v in values:
        total = mul(total, v)
    return total


def same(a: Value, b: Value) -> bool:
    """Whether two values are the same int or structurally the same expression (not a proof that they differ)."""
    return type(a) is type(b) and a == b


def polynomial(value: Value) -> dict[tuple[str, ...], int]:
    """``value`` as a sum of products: sorted factor names -> coefficient.

    Factors that are no sums, differences or products are kept whole, named by identity of variables and structure
    otherwise, so equal polynomials are equal values (the converse needs more than this).
    """
    if isinstance(value, int):
        return {(): value} if value else {}
    if isinstance(value, IntImm):
        return {(): value.value} if value.value else {}
    if isinstance(value, (Add, Sub)):
        total = dict(polynomial(value.a))
        sign = -1 if isinstance(value, Sub) else 1
        for factors, c in polynomial(value.b).items():
            total[factors] = total.get(factors, 0) + sign * c
        return {f: c for f, c in total.items() if c}
    if isinstance(value, Mul):
        total = {}
        right = polynomial(value.b)
        for f, c in polynomial(value.a).items():
            for g, d in right.items():
                key = tuple(sorted(f + g))
                total[key] = total.get(key, 0) + c * d
        return {f: c for f, c in total.items() if c}
    return {(_factor(value),): 1}


def _factor(value: Expr) -> str:
    if isinstance(value, Var):
        return f"{value.name}#{id(value)}"
    return repr(value) + "#" + ",".join(sorted(str(id(v)) for v in _variables(value)))


def _variables(value: Any) -> list[Var]:
    if isinstance(value, Var):
        return [value]
    if isinstance(value, (tuple, list)):
        return [v for part in value for v in _variables(part)]
    if not is_node(value):
        return []
    return [v for _, part in fields(value) for v in _variables(part)]


def equal_values(a: Value, b: Value) -> bool:
    """Whether two values are the same polynomial: True is sure, False means "not shown" unless both are numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return same(a, b) or polynomial(a) == polynomial(b)


def subtract(a: Value, b: Value) -> Value:
    """``a - b``, a number whenever the difference of the polynomials is one."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    rest = polynomial(a)
    for factors, c in polynomial(b).items():
        rest[factors] = rest.get(factors, 0) - c
    rest = {f: c for f, c in rest.items() if c}
    if not rest:
        return 0
    if set(rest) == {()}:
        return rest[()]
    return a if isinstance(b, int) and b == 0 else as_value(a - b)


def exact_div(a: Value, b: Value) -> Value | None:
    """``a / b`` if ``a`` is evidently a multiple of ``b`` (constants, products, sums of such), else None."""
    if same(a, b):
        return 1
    if isinstance(b, int):
        if b == 1:
            return a
        if isinstance(a, int):
            return a // b if b != 0 and a % b == 0 else None
    if isinstance(a, int):
        return 0 if a == 0 else None
    if isinstance(a, Mul):
        for x, y in ((a.a, a.b), (a.b, a.a)):
            part = exact_div(as_value(x), b)
            if part is not None:
                return mul(part, as_value(y))
        if isinstance(b, Mul):  # cancel a factor of b first
            for x, y in ((b.a, b.b), (b.b, b.a)):
                rest = exact_div(a, as_value(x))
                found = None if rest is None else exact_div(rest, as_value(y))
                if found is not None:
                    return found
    if isinstance(a, Add):
        left, right = exact_div(as_value(a.a), b), exact_div(as_value(a.b), b)
        if left is not None and right is not None:
            return add(left, right)
    return None


def is_power_of_two(n: int) -> bool:
    """Whether n is 1, 2, 4, …"""
    return n > 0 and n & (n - 1) == 0


def product_int(values: Iterable[int]) -> int:
    """Product of plain ints."""
    total = 1
    for v in values:
        total *= v
    return total
