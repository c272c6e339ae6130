"""Scalar functions of the namespace: arithmetic, math, bits, conversions, raw calls."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from types import FunctionType
from typing import Any

from ..errors import IRError
from ..ir import (
    EQ,
    GE,
    Broadcast,
    Buffer,
    BufferLoad,
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
    Op,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    TensorMapType,
    Var,
    arith,
    call,
    cast,
    const,
)
from ..ir import dtype as dt
from ..ir.arith import binary, match_types
from ..ir.scalar_functions import BIT_OPERATIONS, SCALAR_FUNCTIONS
from .values import as_expr, dtype_name


def _from_table(name: str, count: int, result: str) -> Callable[..., Expr]:
    """A call of ``tirx.<name>`` with the operands as they are."""

    def apply(*args: Any) -> Expr:
        if len(args) != count:
            raise IRError(f"{name} takes {count} operands, got {len(args)}")
        operands = [as_expr(a) for a in args]
        if result.startswith("="):
            dtype = operands[int(result[1:])].dtype
        elif result == "?":
            dtype = dt.with_lanes("bool", dt.lanes(operands[0].dtype))
        else:
            dtype = result
        return call(f"tirx.{name}", dtype, *operands)

    apply.__name__ = name
    apply.__doc__ = f"A call of ``tirx.{name}``."
    return apply


#: rounding of a constant, halves to even
_ROUND: dict[str, Callable[[float], float]] = {
    "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc, "round": round, "nearbyint": round,
}  # fmt: skip


def _rounding(name: str) -> Callable[[Any], Expr]:
    def apply(x: Any) -> Expr:
        value = as_expr(x)
        if dt.is_integer(value.dtype):
            return value
        if isinstance(value, FloatImm) and math.isfinite(value.value):
            return FloatImm(value.dtype, float(_ROUND[name](value.value)))
        return call(f"tirx.{name}", value.dtype, value)

    apply.__name__ = name
    apply.__doc__ = f"``tirx.{name}``; a constant is rounded at once, an integer stays as it is."
    return apply


def isnan(x: Any) -> Expr:
    """Whether a value is not a number; half precision is looked at as float32."""
    value = as_expr(x)
    if not dt.is_float(value.dtype):
        return const(False, "bool")
    if isinstance(value, FloatImm):
        return const(math.isnan(value.value), "bool")
    if dt.bits(value.dtype) == 16:
        value = cast(dt.with_lanes("float32", dt.lanes(value.dtype)), value)
    return call("tirx.isnan", dt.with_lanes("bool", dt.lanes(value.dtype)), value)


def isinf(x: Any) -> Expr:
    """Whether a value is infinite: its absolute value is, and it is a number."""
    value = as_expr(x)
    if not dt.is_float(value.dtype):
        return const(False, "bool")
    infinite = binary(EQ, abs_(value), const(math.inf, value.dtype))
    return arith.logical_and(infinite, arith.logical_not(isnan(value)))


def isfinite(x: Any) -> Expr:
    """Whether a value is a number that isn't infinite."""
    value = as_expr(x)
    return arith.logical_and(arith.logical_not(isinf(value)), arith.logical_not(isnan(value)))


def likely(condition: Any) -> Expr:
    """A condition that mostly holds."""
    value = as_expr(condition)
    return value if isinstance(value, IntImm) else call("tirx.likely", value.dtype, value)


def abs_(x: Any) -> Expr:
    """Absolute value: of a float a call of ``tirx.fabs``, of a signed integer a Select."""
    value = as_expr(x)
    kind = dt.kind(value.dtype)
    if isinstance(value, (IntImm, FloatImm)):
        return const(abs(value.value), value.dtype)
    if kind == "float":
        return call("tirx.fabs", value.dtype, value)
    if kind == "int":
        return Select(binary(GE, value, 0), value, const(0, value.dtype) - value)
    return value


def pow_(x: Any, y: Any) -> Expr:
    """``x`` to the power ``y``."""
    a, b = match_types(as_expr(x), y)
    if dt.kind(a.dtype) != "float":
        raise IRError("pow needs floating-point operands", hint="convert with Tx.cast")
    return call("tirx.pow", a.dtype, a, b)


def min_(a: Any, b: Any) -> Expr:
    """The smaller of two."""
    return binary(Min, *_pair(a, b))


def max_(a: Any, b: Any) -> Expr:
    """The larger of two."""
    return binary(Max, *_pair(a, b))


def _pair(a: Any, b: Any) -> tuple[Any, Any]:
    if not isinstance(a, Expr) and not isinstance(b, Expr):
        return as_expr(a), b
    return a, b


def floordiv(a: Any, b: Any) -> Expr:
    """Quotient rounded down."""
    return binary(FloorDiv, *_pair(a, b))


def floormod(a: Any, b: Any) -> Expr:
    """Remainder of floordiv."""
    return binary(FloorMod, *_pair(a, b))


def truncdiv(a: Any, b: Any) -> Expr:
    """Quotient rounded towards zero."""
    return binary(Div, *_pair(a, b))


def truncmod(a: Any, b: Any) -> Expr:
    """Remainder of truncdiv."""
    return binary(Mod, *_pair(a, b))


def ceildiv(a: Any, b: Any) -> Expr:
    """Quotient rounded up, as ``(a + b - 1) // b``."""
    if isinstance(a, int) and isinstance(b, int):
        a = as_expr(a)
    return (a + b - 1) // b


def _bit(name: str) -> Callable[[Any, Any], Expr]:
    def apply(a: Any, b: Any) -> Expr:
        return arith.bitwise(name, *_pair(a, b))

    apply.__name__ = name
    apply.__doc__ = f"A call of ``tirx.{name}``."
    return apply


def select(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """``true_value`` where ``condition`` holds, else ``false_value``; both may be evaluated."""
    return arith.select(_condition(condition), *_pair(true_value, false_value))


def if_then_else(condition: Any, true_value: Any, false_value: Any) -> Expr:
    """``true_value`` if ``condition`` holds, else ``false_value``; only that one is evaluated."""
    a, b = match_types(*_pair(true_value, false_value))
    return call("tirx.if_then_else", a.dtype, _condition(condition), a, b)


def _condition(value: Any) -> Expr:
    condition = as_expr(value)
    return condition if dt.kind(condition.dtype) == "bool" else const(bool(value), "bool")


def cast_value(value: Any, dtype: Any) -> Expr:
    """``value`` converted to ``dtype``; a constant is converted at once."""
    return cast(dtype_name(dtype), as_expr(value))


def cast_node(dtype: Any, value: Any) -> Expr:
    """A Cast node, also of a constant."""
    return Cast(dtype_name(dtype), as_expr(value))


def ramp(base: Any, stride: Any, lanes: Any) -> Ramp:
    """The vector ``base + i * stride``."""
    first, step = match_types(as_expr(base), stride)
    return Ramp(first, step, int(lanes))


def broadcast(value: Any, lanes: Any) -> Broadcast:
    """The vector of ``lanes`` copies of ``value``."""
    return Broadcast(as_expr(value), int(lanes))


def shuffle(vectors: Any, indices: Any) -> Shuffle:
    """The lanes of ``vectors``, one after the other, at ``indices``."""
    return Shuffle(tuple(as_expr(v) for v in vectors), tuple(as_expr(i) for i in indices))


def logical_and(a: Any, b: Any) -> Expr:
    """Both conditions."""
    from ..ir import And

    return And(_condition(a), _condition(b))


def logical_or(a: Any, b: Any) -> Expr:
    """Either condition."""
    from ..ir import Or

    return Or(_condition(a), _condition(b))


def logical_not(a: Any) -> Expr:
    """The opposite condition."""
    from ..ir import Not

    return Not(_condition(a))


def node_builder(cls: type[Any]) -> Callable[[Any, Any], Expr]:
    """The node ``cls(a, b)`` without folding; numbers take the other operand's dtype."""

    def make(a: Any, b: Any) -> Expr:
        return cls(*match_types(*_pair(a, b)))

    make.__name__ = cls.__name__
    make.__doc__ = cls.__doc__
    return make


# -- pointers and raw calls -------------------------------------------------------------------------------------------


def address_of(target: Any) -> Expr:
    """The address of an element (of the first one, for a buffer), or of a tensor map as a number."""
    if isinstance(target, Buffer):
        target = BufferLoad(target, tuple(IntImm("int32", 0) for _ in target.shape))
    value = as_expr(target)
    if isinstance(value, Var) and isinstance(value.ty, TensorMapType):
        return Call("uint64", Op.get("tirx.address_of"), (value,))
    if not isinstance(value, BufferLoad):
        raise IRError(f"address_of needs an element of a buffer, or a tensor map, got {type(value).__name__}")
    return Call("handle", Op.get("tirx.address_of"), (value,))


def type_annotation(dtype: Any) -> Expr:
    """A dtype as an operand."""
    return Call(dtype_name(dtype), Op.get("tirx.type_annotation"), ())


def access_pointer(ptype: Any, data: Any, offset: Any, extent: Any, rw_mask: Any) -> Expr:
    """A pointer for access to elements ``offset`` … ``offset + extent`` of ``data``; mask bit 1 reads, 2 writes."""
    kind = type_annotation(ptype) if isinstance(ptype, str) else ptype
    return call("tirx.tvm_access_ptr", "handle", kind, data, offset, extent, rw_mask)


def reinterpret(dtype: Any, value: Any) -> Expr:
    """The bits of ``value`` as ``dtype``."""
    return call("tirx.reinterpret", dtype_name(dtype), as_expr(value))


def storage_sync(scope: str, is_load: bool = False, num_blocks: int = -1) -> Expr:
    """A barrier on a storage scope."""
    return call("tirx.tvm_storage_sync", "void", scope, is_load, num_blocks)


def typed_call(name: str) -> Callable[..., Expr]:
    """A call whose dtype is the first argument: ``f(dtype, *args)`` or ``f(*args, dtype=…)``."""

    def make(*args: Any, dtype: Any = None) -> Expr:
        if dtype is None:
            if not args:
                raise IRError(f"{name} needs the dtype of its result")
            dtype, args = args[0], args[1:]
        return call_args(f"tirx.{name}", dtype, args)

    make.__name__ = name
    make.__doc__ = f"A call of ``tirx.{name}`` with the dtype of its result first."
    return make


def call_intrin(dtype: Any, op: Any, *args: Any, **attrs: Any) -> Expr:
    """A call of any operator by name."""
    return call_args(op.name if isinstance(op, Op) else str(op), dtype, args, attrs)


def call_args(op: str, dtype: Any, args: Any, attrs: dict[str, Any] | None = None) -> Call:
    """A call with every argument made an expression (strings become StringImm)."""
    name = dtype_name(dtype) if dtype != "" else "void"
    values = tuple(StringImm(a) if isinstance(a, str) else _operand(a) for a in args)
    return Call(name, Op.get(op), values, attrs or {})


def tensormap_encode_tiled(
    *args: Any, descriptor_dtype: Any, rank: int, interleave: int = 0, swizzle: int = 0, l2_promotion: int = 0,
    oob_fill: int = 0, force_cu_dtype: int = -1,
) -> Expr:
    """In the host part of a kernel: encode a tensor map.

    ``args``: the map's variable and the array's ``data``, then extents (``rank``, innermost first), strides in bytes
    (``rank - 1``), the box and the element strides (``rank`` each).  The options are the driver's numbers.
    """
    if not 1 <= rank <= 5 or len(args) != 4 * rank + 1:
        raise IRError(f"tensormap_encode_tiled takes 4 * rank + 1 operands, of a rank from 1 to 5: got {len(args)} for {rank}")
    options = {
        "descriptor_dtype": dtype_name(descriptor_dtype), "rank": rank, "interleave": interleave, "swizzle": swizzle,
        "l2_promotion": l2_promotion, "oob_fill": oob_fill, "force_cu_dtype": force_cu_dtype,
    }  # fmt: skip
    return call_args("tirx.tensormap_encode_tiled", "int32", args, options)


def _operand(value: Any) -> Any:
    return value if isinstance(value, (tuple, Op)) else as_expr(value)


def dp4a(*args: Any) -> Expr:
    """Dot product of four bytes, plus an accumulator."""
    return call("tirx.dp4a", "int32", *(as_expr(a) for a in args))


def ptr_byte_offset(pointer: Any, offset: Any, dtype: Any) -> Expr:
    """A pointer ``offset`` bytes further, to elements of ``dtype``."""
    return call_args("tirx.ptr_byte_offset", "handle", (pointer, offset, type_annotation(dtype)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{n: _from_table(n, count, result) for n, (count, result) in SCALAR_FUNCTIONS.items() if count >= 0},
    **{n: typed_call(n) for n, (_, result) in SCALAR_FUNCTIONS.items() if result == "@"},
    **{n: _bit(n) for n in BIT_OPERATIONS},
    "bitwise_not": arith.bitwise_not, "abs": abs_, "pow": pow_, "power": pow_, "min": min_, "max": max_,
    "floordiv": floordiv, "floormod": floormod, "truncdiv": truncdiv, "truncmod": truncmod, "ceildiv": ceildiv,
    "Select": select, "if_then_else": if_then_else, "cast": cast_value, "Cast": cast_node,
    "ramp": ramp, "Ramp": ramp, "broadcast": broadcast, "Broadcast": broadcast, "Shuffle": shuffle,
    "And": logical_and, "Or": logical_or, "Not": logical_not,
    "address_of": address_of, "type_annotation": type_annotation, "tvm_access_ptr": access_pointer,
    "reinterpret": reinterpret, "tvm_storage_sync": storage_sync, "ptr_byte_offset": ptr_byte_offset,
    **{n: _rounding(n) for n in _ROUND}, "isnan": isnan, "isinf": isinf, "isfinite": isfinite, "likely": likely,
    "call_intrin": call_intrin, "break_loop": partial(call, "tirx.break_loop", "void"),
    "continue_loop": partial(call, "tirx.continue_loop", "void"), "dp4a": dp4a,
    "tensormap_encode_tiled": tensormap_encode_tiled,
}  # fmt: skip
for _name, _function in FUNCTIONS.items():
    if isinstance(_function, FunctionType) and _function.__module__ == __name__:
        _function.__qualname__ = _name  # which Python names in its messages about arguments
