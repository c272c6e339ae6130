"""Building expressions: operand conversion and constant folding, as TIRx's own constructors do them.

The foldings here are exactly those of the reference (both constant, x+0, x-0, x*1, x*0, x//1, x%1, true and p …), so that
the same source gives the same tree in both.  Real simplification is the e-graph's job.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ..errors import IRError
from . import dtype as dt
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
    Broadcast,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    StringImm,
    Sub,
)
from .op import Op


def const(value: Any, dtype: str | None = None) -> Expr:
    """``value`` as a constant expression of ``dtype`` (default: int32, float32 or bool by the Python type)."""
    if isinstance(value, Expr):
        return value
    if isinstance(value, str):
        return StringImm(value)
    if dtype is None:
        if isinstance(value, bool):
            dtype = "bool"
        elif isinstance(value, float):
            dtype = "float32"
        elif hasattr(value, "__index__"):
            dtype = "int32" if -(1 << 31) <= int(value) < 1 << 31 else "int64"
        else:
            raise IRError(f"{value!r} can't be used as an expression")
    count = dt.lanes(dtype)
    base = dt.element(dtype)
    made: Expr = FloatImm(base, float(value)) if dt.is_float(base) else IntImm(base, int(value))
    return made if count == 1 else Broadcast(made, count)


def cast(dtype: str, value: Expr) -> Expr:
    """``value`` converted to ``dtype``; constants are converted at once, an equal dtype changes nothing."""
    dtype = dt.normalize(dtype)
    if value.dtype == dtype:
        return value
    if isinstance(value, (IntImm, FloatImm)) and dt.lanes(dtype) == 1 and dt.kind(dtype) != "handle":
        if dt.is_float(dtype):
            return FloatImm(dtype, float(value.value))
        if isinstance(value, IntImm) or float(value.value).is_integer():
            return IntImm(dtype, _wrap(int(value.value), dtype))
    if dt.lanes(value.dtype) == 1 and dt.lanes(dtype) > 1:
        return Broadcast(cast(dt.element(dtype), value), dt.lanes(dtype))
    return Cast(dtype, value)


def _wrap(value: int, dtype: str) -> int:
    kind, bits, _ = dt.parse(dtype)
    if kind == "bool":
        return int(value != 0)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind == "int" and value >> (bits - 1) else value


def match_types(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both operands as expressions of one dtype, by TIRx's promotion: the wider type, float over int, signed over unsigned."""
    if not isinstance(a, Expr):
        a = const(a, _literal_dtype(a, b))
    if not isinstance(b, Expr):
        b = const(b, _literal_dtype(b, a))
    if a.dtype == b.dtype:
        return a, b
    la, lb = dt.lanes(a.dtype), dt.lanes(b.dtype)
    if la != lb:
        if la == 1:
            a = Broadcast(a, lb)
        elif lb == 1:
            b = Broadcast(b, la)
        else:
            raise IRError(f"operands have {la} and {lb} lanes")
    target = _promote(a.dtype, b.dtype)
    return cast(target, a), cast(target, b)


def _literal_dtype(value: Any, other: Any) -> str | None:
    if not isinstance(other, Expr):
        return None
    base = other.dtype
    if isinstance(value, float) and not dt.is_float(base):
        return dt.with_lanes("float32", dt.lanes(base))
    if dt.kind(base) == "handle":
        return None
    if dt.is_integer(base) and not isinstance(value, bool):
        kind, bits, _ = dt.parse(base)
        fits = -(1 << (bits - 1)) <= value < 1 << (bits - 1) if kind == "int" else 0 <= value < 1 << bits
        return base if fits else dt.with_lanes("int64", dt.lanes(base))
    return base


def _promote(a: str, b: str) -> str:
    (ka, ba, count), (kb, bb, _) = dt.parse(a), dt.parse(b)
    if ka == "float" or kb == "float":
        if ka == kb:
            if ba == bb:
                raise IRError(f"no common type for {a} and {b}")
            return a if ba > bb else b
        return a if ka == "float" else b
    if "handle" in (ka, kb):
        raise IRError(f"no arithmetic between {a} and {b}")
    if ka == kb:
        return a if ba >= bb else b
    if ka == "bool":
        return b
    if kb == "bool":
        return a
    return dt.with_lanes(f"int{max(ba, bb)}", count)


def _trunc_div(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


_INT_FOLD: dict[type, Callable[[int, int], int]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, FloorDiv: operator.floordiv, FloorMod: operator.mod,
    Div: _trunc_div, Mod: lambda x, y: x - y * _trunc_div(x, y), Min: min, Max: max,
}  # fmt: skip
_FLOAT_FOLD: dict[type, Callable[[float, float], float]] = {
    Add: operator.add, Sub: operator.sub, Mul: operator.mul, Div: operator.truediv, Min: min, Max: max,
}  # fmt: skip
_COMPARE_FOLD: dict[type, Callable[[Any, Any], bool]] = {
    EQ: operator.eq, NE: operator.ne, LT: operator.lt, LE: operator.le, GT: operator.gt, GE: operator.ge,
}  # fmt: skip


def _value(e: Expr) -> int | float | None:
    return e.value if isinstance(e, (IntImm, FloatImm)) else None


def _fold(cls: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
    """The folded form of ``cls(a, b)`` if the reference folds it, else None."""
    x, y = _value(a), _value(b)
    dividing = cls in (Div, Mod, FloorDiv, FloorMod)
    if dividing and y == 0 and isinstance(b, IntImm):
        raise IRError(f"{cls.__name__} by zero")
    if x is not None and y is not None:
        if cls in _COMPARE_FOLD:
            return IntImm("bool", _COMPARE_FOLD[cls](x, y))
        if isinstance(a, IntImm) and cls in _INT_FOLD:
            return IntImm(a.dtype, _wrap(_INT_FOLD[cls](int(x), int(y)), a.dtype))
        if isinstance(a, FloatImm) and cls in _FLOAT_FOLD and not (cls is Div and y == 0):
            return FloatImm(a.dtype, _FLOAT_FOLD[cls](x, y))
    if cls is Add:
        return b if x == 0 else a if y == 0 else None
    if cls is Sub:
        return a if y == 0 else None
    if cls is Mul:
        return b if x == 1 else a if y == 1 else a if x == 0 else b if y == 0 else None
    if cls in (Div, FloorDiv):
        return a if x == 0 or y == 1 else None
    if cls in (Mod, FloorMod):
        return a if x == 0 else IntImm(a.dtype, 0) if y == 1 and isinstance(b, IntImm) else None
    if cls in (Min, Max):
        return a if a is b else None
    return None


def binary(cls: type[Any], a: Any, b: Any) -> Expr:
    """``cls(a, b)`` after operand conversion, folded where the reference folds."""
    left, right = match_types(a, b)
    folded = _fold(cls, left, right)
    return cls(left, right) if folded is None else folded


def logical_and(a: Any, b: Any) -> Expr:
    """Both conditions; a constant side is folded."""
    a, b = (const(v, "bool") for v in (a, b))
    x, y = _value(a), _value(b)
    return b if x == 1 else a if x == 0 else a if y == 1 else b if y == 0 else And(a, b)


def logical_or(a: Any, b: Any) -> Expr:
    """Either condition; a constant side is folded."""
    a, b = (const(v, "bool") for v in (a, b))
    x, y = _value(a), _value(b)
    return a if x == 1 else b if x == 0 else b if y == 1 else a if y == 0 else Or(a, b)


def logical_not(a: Any) -> Expr:
    """Negated condition; a constant is folded."""
    a = const(a, "bool")
    return IntImm("bool", not a.value) if isinstance(a, IntImm) else Not(a)


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """Select with operand conversion."""
    return Select(const(condition, "bool"), *match_types(true_value, false_value))


_BIT_FOLD: dict[str, Callable[[int, int], int]] = {
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "shift_left": operator.lshift, "shift_right": operator.rshift,
}  # fmt: skip


def bitwise(name: str, a: Any, b: Any) -> Expr:
    """A call of ``tirx.<name>`` (bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right) on integers."""
    a, b = match_types(a, b)
    for side in (a, b):
        if not (dt.is_integer(side.dtype) or dt.kind(side.dtype) == "bool"):
            raise IRError(f"{name} needs integers, got {side.dtype}")
    x, y = _value(a), _value(b)
    if name.startswith("shift") and y is not None and y < 0:
        raise IRError(f"{name} by {y}: a shift amount can't be negative")
    if x is not None and y is not None:
        return IntImm(a.dtype, _wrap(_BIT_FOLD[name](int(x), int(y)), a.dtype))
    if name.startswith("shift") and y == 0:
        return a
    return Call(a.dtype, Op.get(f"tirx.{name}"), (a, b))


def bitwise_not(a: Any) -> Expr:
    """A call of ``tirx.bitwise_not``."""
    a = const(a)
    return Call(a.dtype, Op.get("tirx.bitwise_not"), (a,))


def negate(a: Expr) -> Expr:
    """``a * -1``, as the reference writes a negation."""
    return binary(Mul, a, -1.0 if dt.is_float(a.dtype) else -1)


def true_divide(a: Any, b: Any) -> Expr:
    """``a / b`` of floats; for integers the rounding must be named."""
    left, right = match_types(a, b)
    if dt.is_integer(left.dtype):
        raise IRError(
            "the division of integers with '/' is ambiguous", hint="use // (rounds down) or Tx.truncdiv (towards zero)"
        )
    return binary(Div, left, right)


def call(op: str, dtype: str, *args: Any, **attrs: Any) -> Call:
    """A call of the registered op ``op``; plain Python numbers and strings become constants."""
    return Call(dtype, Op.get(op), tuple(a if _is_operand(a) else const(a) for a in args), attrs)


def _is_operand(value: Any) -> bool:
    return isinstance(value, Expr) or hasattr(type(value), "type_key")


def _attach(name: str, build: Callable[[Any, Any], Expr]) -> None:
    setattr(Expr, f"__{name}__", lambda self, other: build(self, other))
    setattr(Expr, f"__r{name}__", lambda self, other: build(other, self))


for _name, _cls in {"add": Add, "sub": Sub, "mul": Mul, "floordiv": FloorDiv, "mod": FloorMod}.items():
    _attach(_name, lambda a, b, cls=_cls: binary(cls, a, b))  # type: ignore[misc]
for _name, _bit in {
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "shift_left", "rshift": "shift_right",
}.items():  # fmt: skip
    _attach(_name, lambda a, b, bit=_bit: bitwise(bit, a, b))  # type: ignore[misc]
_attach("truediv", true_divide)
for _name, _cls in {"lt": LT, "le": LE, "gt": GT, "ge": GE}.items():
    setattr(Expr, f"__{_name}__", lambda self, other, cls=_cls: binary(cls, self, other))
Expr.__neg__ = negate  # type: ignore[method-assign]
Expr.__invert__ = bitwise_not  # type: ignore[method-assign]
