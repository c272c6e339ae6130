"""Expression nodes.

``Var`` is compared by identity; every other expression by its fields.  Binary nodes demand operands of one dtype; the
Python operators (in :mod:`tirx_eq.ir.arith`) insert casts and fold constants as TIRx's own do.  Integer arithmetic is
mathematical (design section 4): ``FloorDiv``/``FloorMod`` round down, ``Div``/``Mod`` towards zero.
"""

from __future__ import annotations

import math
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar

from ..errors import IRError, Span
from . import dtype as dt
from .node import node

if TYPE_CHECKING:
    from .buffer import Buffer
    from .op import Op


@node("ir.PrimType")
class PrimType:
    """The type of a scalar or vector value."""

    dtype: str


@node("ir.PointerType")
class PointerType:
    """The type of a pointer: what it points to, and in which storage scope.

    Scopes are ``global``, ``shared``, ``shared.dyn``, ``local``, ``tmem``…
    """

    element_type: PrimType
    storage_scope: str = "global"

    @property
    def dtype(self) -> str:
        return "handle"


@node("ir.TensorMapType")
class TensorMapType:
    """The type of a tensor-map parameter (128 opaque bytes)."""

    @property
    def dtype(self) -> str:
        return "handle"


Type = PrimType | PointerType | TensorMapType


class Expr:
    """Base of all expressions; ``dtype`` is the type of the value.

    Arithmetic operators are attached by :mod:`tirx_eq.ir.arith`.
    """

    dtype: str
    span: Span | None

    if TYPE_CHECKING:
        def __add__(self, other: Any) -> Expr: ...
        def __radd__(self, other: Any) -> Expr: ...
        def __sub__(self, other: Any) -> Expr: ...
        def __rsub__(self, other: Any) -> Expr: ...
        def __mul__(self, other: Any) -> Expr: ...
        def __rmul__(self, other: Any) -> Expr: ...
        def __truediv__(self, other: Any) -> Expr: ...
        def __rtruediv__(self, other: Any) -> Expr: ...
        def __floordiv__(self, other: Any) -> Expr: ...
        def __rfloordiv__(self, other: Any) -> Expr: ...
        def __mod__(self, other: Any) -> Expr: ...
        def __rmod__(self, other: Any) -> Expr: ...
        def __and__(self, other: Any) -> Expr: ...
        def __rand__(self, other: Any) -> Expr: ...
        def __or__(self, other: Any) -> Expr: ...
        def __ror__(self, other: Any) -> Expr: ...
        def __xor__(self, other: Any) -> Expr: ...
        def __rxor__(self, other: Any) -> Expr: ...
        def __lshift__(self, other: Any) -> Expr: ...
        def __rlshift__(self, other: Any) -> Expr: ...
        def __rshift__(self, other: Any) -> Expr: ...
        def __rrshift__(self, other: Any) -> Expr: ...
        def __neg__(self) -> Expr: ...
        def __invert__(self) -> Expr: ...
        def __lt__(self, other: Any) -> Expr: ...
        def __le__(self, other: Any) -> Expr: ...
        def __gt__(self, other: Any) -> Expr: ...
        def __ge__(self, other: Any) -> Expr: ...

    def __bool__(self) -> bool:
        raise IRError(
            f"the truth of a {type(self).__name__} expression is known only on the device",
            hint="use Tx.And/Tx.Or/Tx.Not or an if statement of the kernel",
        )

    def astype(self, dtype: str) -> Expr:
        """This value converted to ``dtype`` (itself if it has that dtype)."""
        from .arith import cast

        return cast(dtype, self)


def _span() -> Any:
    return field(default=None, compare=False, repr=False, kw_only=True)


@node("ir.Var", identity=True)
class Var(Expr):
    """A variable: a scalar (``PrimType``) or a pointer (``PointerType``).  Same name does not mean same variable."""

    name: str
    ty: Type = PrimType("int32")
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if isinstance(self.ty, str):
            object.__setattr__(self, "ty", PrimType(dt.normalize(self.ty)))

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.ty.dtype

    def __repr__(self) -> str:
        return f"Var({self.name!r}, {self.dtype})"


@node("ir.IntImm")
class IntImm(Expr):
    """An integer constant; a bool constant is an IntImm of dtype ``bool`` with value 0 or 1."""

    dtype: str
    value: int
    span: Span | None = _span()

    def __post_init__(self) -> None:
        kind, bits, _ = dt.parse(self.dtype)
        object.__setattr__(self, "value", int(self.value))
        low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "int" else (0, (1 << bits) - 1)
        if kind not in ("int", "uint", "bool") or not low <= self.value <= high:
            raise IRError(f"{self.value} is not a value of {self.dtype}")

    def __int__(self) -> int:
        return self.value

    def __bool__(self) -> bool:
        return bool(self.value)


@node("ir.FloatImm")
class FloatImm(Expr):
    """A floating-point constant."""

    dtype: str
    value: float
    span: Span | None = _span()

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", float(self.value))
        if not dt.is_float(self.dtype):
            raise IRError(f"a FloatImm can't have dtype {self.dtype}")
        largest = dt.FLOAT_MAX.get(self.dtype)
        if largest is not None and abs(self.value) > largest and not math.isinf(self.value):
            raise IRError(f"{self.value} is not a value of {self.dtype}, whose largest is {largest}")


@node("ir.StringImm")
class StringImm(Expr):
    """A string constant (operand of intrinsics and assertions)."""

    value: str
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return "handle"


class BinaryOp(Expr):
    """Base of the nodes with operands ``a`` and ``b`` of one dtype."""

    a: Expr
    b: Expr
    symbol: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.a.dtype != self.b.dtype:
            raise IRError(
                f"{type(self).__name__} needs operands of one dtype, got {self.a.dtype} and {self.b.dtype}",
                hint="convert one side with astype or Tx.cast",
            )

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.a.dtype


class CompareOp(BinaryOp):
    """Base of the comparisons; the result is bool with the operands' lanes."""

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return dt.with_lanes("bool", dt.lanes(self.a.dtype))


class LogicalOp(BinaryOp):
    """Base of ``And`` and ``Or``: bool operands."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if dt.kind(self.a.dtype) != "bool":
            raise IRError(f"{type(self).__name__} needs bool operands, got {self.a.dtype}")


def _binary(name: str, symbol: str, base: type, doc: str) -> Any:
    """Declare one binary node class: they differ only in name, symbol and meaning."""
    namespace = {
        "__annotations__": {"a": Expr, "b": Expr, "span": "Span | None"},
        "span": _span(), "symbol": symbol, "__doc__": doc, "__module__": __name__,
    }  # fmt: skip
    return node(f"tirx.{name}")(type(name, (base,), namespace))


if TYPE_CHECKING:

    class _Binary(BinaryOp):
        def __init__(self, a: Expr, b: Expr, *, span: Span | None = None) -> None: ...

    class Add(_Binary): ...
    class Sub(_Binary): ...
    class Mul(_Binary): ...
    class Div(_Binary): ...
    class Mod(_Binary): ...
    class FloorDiv(_Binary): ...
    class FloorMod(_Binary): ...
    class Min(_Binary): ...
    class Max(_Binary): ...
    class EQ(_Binary, CompareOp): ...
    class NE(_Binary, CompareOp): ...
    class LT(_Binary, CompareOp): ...
    class LE(_Binary, CompareOp): ...
    class GT(_Binary, CompareOp): ...
    class GE(_Binary, CompareOp): ...
    class And(_Binary, LogicalOp): ...
    class Or(_Binary, LogicalOp): ...
else:
    Add = _binary("Add", "+", BinaryOp, "Sum.")
    Sub = _binary("Sub", "-", BinaryOp, "Difference.")
    Mul = _binary("Mul", "*", BinaryOp, "Product.")
    Div = _binary("Div", "/", BinaryOp, "Quotient; of integers: rounded towards zero.")
    Mod = _binary("Mod", "%", BinaryOp, "Remainder of Div: has the sign of the numerator.")
    FloorDiv = _binary("FloorDiv", "//", BinaryOp, "Quotient rounded down.")
    FloorMod = _binary("FloorMod", "%", BinaryOp, "Remainder of FloorDiv: has the sign of the divisor.")
    Min = _binary("Min", "min", BinaryOp, "Smaller of two.")
    Max = _binary("Max", "max", BinaryOp, "Larger of two.")
    EQ = _binary("EQ", "==", CompareOp, "Equal.")
    NE = _binary("NE", "!=", CompareOp, "Not equal.")
    LT = _binary("LT", "<", CompareOp, "Less than.")
    LE = _binary("LE", "<=", CompareOp, "Less or equal.")
    GT = _binary("GT", ">", CompareOp, "Greater than.")
    GE = _binary("GE", ">=", CompareOp, "Greater or equal.")
    And = _binary("And", "and", LogicalOp, "Both.")
    Or = _binary("Or", "or", LogicalOp, "Either.")


@node("tirx.Not")
class Not(Expr):
    """Logical negation."""

    a: Expr
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.a.dtype


@node("tirx.Select")
class Select(Expr):
    """``true_value`` where ``condition`` holds, else ``false_value``; both sides may be evaluated."""

    condition: Expr
    true_value: Expr
    false_value: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if self.true_value.dtype != self.false_value.dtype:
            raise IRError(
                f"Select needs both values of one dtype, got {self.true_value.dtype} and {self.false_value.dtype}"
            )

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.true_value.dtype


@node("tirx.Cast")
class Cast(Expr):
    """``value`` converted to ``dtype``; the number of lanes stays."""

    dtype: str
    value: Expr
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if dt.lanes(self.dtype) != dt.lanes(self.value.dtype):
            raise IRError(f"Cast can't change the number of lanes: {self.value.dtype} to {self.dtype}")


@node("tirx.Ramp")
class Ramp(Expr):
    """The vector ``base + i*stride`` for i in 0..lanes-1."""

    base: Expr
    stride: Expr
    lanes: int
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return dt.with_lanes(self.base.dtype, self.lanes)


@node("tirx.Broadcast")
class Broadcast(Expr):
    """The vector of ``lanes`` copies of ``value``."""

    value: Expr
    lanes: int
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return dt.with_lanes(self.value.dtype, self.lanes)


@node("tirx.Shuffle")
class Shuffle(Expr):
    """The lanes of the concatenated ``vectors`` at the constant ``indices``."""

    vectors: tuple[Expr, ...]
    indices: tuple[Expr, ...]
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return dt.with_lanes(self.vectors[0].dtype, len(self.indices))


@node("tirx.Let")
class Let(Expr):
    """``body`` with ``var`` standing for ``value``."""

    var: Var
    value: Expr
    body: Expr
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.body.dtype


@node("ir.Call")
class Call(Expr):
    """A call of an intrinsic (``op`` is a registered Op) with ``args``; ``attrs`` are compile-time parameters.

    Bit operations and shifts are calls too: ``tirx.bitwise_and``, ``tirx.shift_left``, …
    """

    dtype: str
    op: Op
    args: tuple[Any, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    span: Span | None = _span()


@node("tirx.BufferLoad")
class BufferLoad(Expr):
    """The element(s) of ``buffer`` at ``indices`` (logical coordinates; the last may be a Ramp)."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    predicate: Expr | None = None
    span: Span | None = _span()

    def __post_init__(self) -> None:
        if len(self.indices) != len(self.buffer.shape):
            raise IRError(
                f"buffer '{self.buffer.name}' has {len(self.buffer.shape)} dimensions, "
                f"but is read with {len(self.indices)} indices"
            )

    @property
    def dtype(self) -> str:  # type: ignore[override]
        count = dt.lanes(self.indices[-1].dtype) if self.indices else 1
        return dt.with_lanes(self.buffer.dtype, count * dt.lanes(self.buffer.dtype))


@node("ir.Range")
class Range:
    """The interval [min, min + extent)."""

    min: Expr
    extent: Expr
    span: Span | None = _span()


@node("tirx.IterVar")
class IterVar(Expr):
    """A variable over a range with an iteration kind; bound to a thread axis when ``thread_tag`` names one."""

    dom: Range | None
    var: Var
    iter_type: str = "DataPar"
    thread_tag: str = ""
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.var.dtype


@node("tirx.CommReducer")
class CommReducer:
    """A commutative combination: ``result[i]`` in terms of ``lhs`` and ``rhs``, with its neutral element."""

    lhs: tuple[Var, ...]
    rhs: tuple[Var, ...]
    result: tuple[Expr, ...]
    identity_element: tuple[Expr, ...]
    span: Span | None = _span()


@node("tirx.Reduce")
class Reduce(Expr):
    """The reduction of ``source[value_index]`` over ``axis`` where ``condition`` holds."""

    combiner: CommReducer
    source: tuple[Expr, ...]
    init: tuple[Expr, ...]
    axis: tuple[IterVar, ...]
    condition: Expr
    value_index: int
    span: Span | None = _span()

    @property
    def dtype(self) -> str:  # type: ignore[override]
        return self.source[self.value_index].dtype


@node("tirx.Opaque")
class Opaque(Expr):
    """A node of another system that has no counterpart here; keeps its type key, operands and printed text."""

    foreign_type: str
    operands: tuple[Any, ...] = ()
    text: str = ""
    dtype: str = "handle"
    span: Span | None = _span()
