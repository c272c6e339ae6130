"""Building expressions: operand conversion and constant folding, as TIRx's own constructors do them.

The foldings here are exactly those of the reference (both constant, x+0, x-0, x*1, x*0, x//1, x%1, true and p …), so
that the same source gives the same tree in both.  Real simplification is the e-graph's job.
"""

from __future__ import annotations

import operator
import struct
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
    Ramp,
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
    """``value`` converted to ``dtype``; constants are converted at once, an equal dtype changes nothing.

    A scalar becomes a vector by conversion of the scalar, then Broadcast.  Raises IRError if a constant doesn't fit.
    """
    dtype = dt.normalize(dtype)
    if value.dtype == dtype:
        return value
    count = dt.lanes(dtype)
    if count > 1 and dt.lanes(value.dtype) == 1:
        return Broadcast(cast(dt.element(dtype), value), count)
    if isinstance(value, Broadcast) and value.lanes == count:
        return Broadcast(cast(dt.element(dtype), value.value), count)
    if isinstance(value, (IntImm, FloatImm)) and dt.kind(dtype) not in ("handle", "void"):
        return FloatImm(dtype, float(value.value)) if dt.is_float(dtype) else IntImm(dtype, int(value.value))
    if isinstance(value, Ramp) and dt.kind(dtype) == "int" and dt.bits(dtype) >= dt.bits(value.base.dtype):
        element = dt.element(dtype)
        return Ramp(cast(element, value.base), cast(element, value.stride), count)
    return Cast(dtype, value)


def _wrap(value: int, dtype: str) -> int:
    kind, bits, _ = dt.parse(dtype)
    if kind == "bool":
        return int(value != 0)
    value &= (1 << bits) - 1
    return value - (1 << bits) if kind == "int" and value >> (bits - 1) else value


def match_types(a: Any, b: Any) -> tuple[Expr, Expr]:
    """Both operands as expressions of one dtype, by TIRx's promotion.

    A Python number is first an int32 (int64 if it needs it), a float32 or a bool.  Then: float over integer, one of
    float16/32/64 over the narrow formats, else the wider; of equal width unsigned over signed; anything over bool.
    Raises IRError where TIRx has no common type.
    """
    a, b = const(a), const(b)
    if a.dtype == b.dtype:
        return a, b
    la, lb = dt.lanes(a.dtype), dt.lanes(b.dtype)
    if la != lb and 1 not in (la, lb):
        raise IRError(f"operands have {la} and {lb} lanes")
    target = dt.with_lanes(_promote(dt.element(a.dtype), dt.element(b.dtype)), max(la, lb))
    return cast(target, a), cast(target, b)


_STANDARD_FLOATS = ("float16", "float32", "float64")


def _promote(a: str, b: str) -> str:
    """The common dtype of two scalar dtypes."""
    (ka, ba, _), (kb, bb, _) = dt.parse(a), dt.parse(b)
    if a == b:
        return a
    if {ka, kb} & {"handle", "void"}:
        raise IRError(f"no arithmetic between {a} and {b}")
    if (ka == "float") != (kb == "float"):
        return a if ka == "float" else b
    if (a in _STANDARD_FLOATS) != (b in _STANDARD_FLOATS):
        return a if a in _STANDARD_FLOATS else b
    if ba != bb:
        return a if ba > bb else b
    if ka == "float":
        raise IRError(f"no common type for {a} and {b}")
    return a if ka == "uint" else b


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


#: Dtypes of index arithmetic: the reference folds remainders and bit operations of these only.
_INDEX_DTYPES = ("int32", "int64")
#: How a folded float is rounded; other floats aren't folded.
_ROUND: dict[str, Callable[[float], float]] = {
    "float32": lambda v: struct.unpack("f", struct.pack("f", v))[0], "float64": float,
}  # fmt: skip
_INTEGER_ONLY = (FloorDiv, FloorMod, Mod)


def _value(e: Expr) -> int | float | None:
    return e.value if isinstance(e, (IntImm, FloatImm)) else None


def _fold(cls: type[BinaryOp], a: Expr, b: Expr) -> Expr | None:
    """The folded form of ``cls(a, b)`` if the reference folds it, else None."""
    x, y = _value(a), _value(b)
    if cls in (Mod, FloorMod) and a.dtype not in _INDEX_DTYPES:
        unsigned = cls is FloorMod and dt.kind(a.dtype) == "uint" and x is not None and y is not None
        return IntImm(a.dtype, int(x) % int(y)) if unsigned else None  # type: ignore[arg-type]
    if x is not None and y is not None:
        if cls in _COMPARE_FOLD:
            return IntImm("bool", _COMPARE_FOLD[cls](x, y))
        if isinstance(a, IntImm) and cls in _INT_FOLD:
            return IntImm(a.dtype, _wrap(_INT_FOLD[cls](int(x), int(y)), a.dtype))
        if isinstance(a, FloatImm) and cls in (Min, Max):
            return a if _FLOAT_FOLD[cls](x, y) == x else b
        if isinstance(a, FloatImm) and cls in _FLOAT_FOLD and a.dtype in _ROUND:
            rounded = _ROUND[a.dtype]
            return FloatImm(a.dtype, rounded(_FLOAT_FOLD[cls](rounded(x), rounded(y))))
    if cls is Add:
        return b if x == 0 else a if y == 0 else None
    if cls is Sub:
        return a if y == 0 else None
    if cls is Mul:
        return b if x == 1 else a if x == 0 else a if y == 1 else b if y == 0 else None
    if cls in (Div, FloorDiv):
        return a if x == 0 or y == 1 else None
    if cls in (Mod, FloorMod):
        return a if x == 0 else IntImm(a.dtype, 0) if y == 1 else None
    if cls in (Min, Max):
        return a if a is b else None
    return None


def binary(cls: type[Any], a: Any, b: Any) -> Expr:
    """``cls(a, b)`` after operand conversion, folded where the reference folds."""
    left, right = match_types(a, b)
    if dt.kind(left.dtype) in ("handle", "void"):
        raise IRError(f"{cls.__name__} has no meaning on {left.dtype}")
    if cls in _INTEGER_ONLY and not dt.is_integer(left.dtype):
        raise IRError(f"{cls.__name__} needs integers, got {left.dtype}")
    if cls in (Div, Mod, FloorDiv, FloorMod) and isinstance(right, (IntImm, FloatImm)) and right.value == 0:
        raise IRError(f"{cls.__name__} by zero")
    if cls is Sub and dt.kind(left.dtype) == "uint" and _value(left) == 0 and (_value(right) or 0) > 0:
        raise IRError(f"0 - {right.value} is not a value of {left.dtype}")  # type: ignore[attr-defined]
    folded = _fold(cls, left, right)
    return cls(left, right) if folded is None else folded


def _conditions(name: str, a: Any, b: Any) -> tuple[Expr, Expr]:
    pair = const(a), const(b)
    for side in pair:
        if dt.kind(side.dtype) != "bool":
            raise IRError(f"{name} needs bool operands, got {side.dtype}")
    return pair


def logical_and(a: Any, b: Any) -> Expr:
    """Both conditions; a constant side is folded."""
    a, b = _conditions("And", a, b)
    x, y = _value(a), _value(b)
    return b if x == 1 else a if x == 0 else a if y == 1 else b if y == 0 else And(a, b)


def logical_or(a: Any, b: Any) -> Expr:
    """Either condition; a constant side is folded."""
    a, b = _conditions("Or", a, b)
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
    """A call of ``tirx.<name>`` (bitwise_and, bitwise_or, bitwise_xor, shift_left, shift_right) on integers.

    A Python integer takes the dtype of the other operand; its bit pattern must fit there.
    """
    a, b = (_bits_literal(v, other) for v, other in ((a, b), (b, a)))
    a, b = match_types(a, b)
    shift = name.startswith("shift")
    for side in (a, b):
        if not (dt.is_integer(side.dtype) or (dt.kind(side.dtype) == "bool" and not shift)):
            raise IRError(f"{name} needs integers, got {side.dtype}")
    x, y = _value(a), _value(b)
    if shift and y is not None and not 0 <= y < dt.bits(b.dtype):
        raise IRError(f"{name} by {y}: the amount must be from 0 to {dt.bits(b.dtype) - 1} for {b.dtype}")
    if a.dtype in _INDEX_DTYPES:
        if x is not None and y is not None:
            return IntImm(a.dtype, _wrap(_BIT_FOLD[name](int(x), int(y)), a.dtype))
        if shift and y == 0:
            return a
    return Call(a.dtype, Op.get(f"tirx.{name}"), (a, b))


def _bits_literal(value: Any, other: Any) -> Any:
    if isinstance(value, Expr) or isinstance(value, bool) or not isinstance(other, Expr):
        return value
    kind, bits, count = dt.parse(other.dtype)
    if kind not in ("int", "uint") or not hasattr(value, "__index__"):
        return value
    pattern = int(value)
    if kind == "int" and 1 << (bits - 1) <= pattern < 1 << bits:
        pattern -= 1 << bits
    return const(pattern, dt.with_lanes(dt.element(other.dtype), count))


def bitwise_not(a: Any) -> Expr:
    """A call of ``tirx.bitwise_not``."""
    a = const(a)
    return Call(a.dtype, Op.get("tirx.bitwise_not"), (a,))


def negate(a: Expr) -> Expr:
    """``a * -1``, as the reference writes a negation."""
    return binary(Mul, a, -1.0 if dt.is_float(a.dtype) else -1)


def true_divide(a: Any, b: Any) -> Expr:
    """``a / b``; for signed integers the rounding must be named (unsigned ones are divided towards zero)."""
    a, b = const(a), const(b)
    if dt.kind(a.dtype) == "int" and dt.kind(b.dtype) == "int":
        raise IRError(
            "the division of integers with '/' is ambiguous", hint="use // (rounds down) or Tx.truncdiv (towards zero)"
        )
    return binary(Div, a, b)


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
