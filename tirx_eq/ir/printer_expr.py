"""Printing expressions, and the names of variables and buffers."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import IRError
from . import dtype as dt
from . import expr as ex
from .arith import binary, bitwise, bitwise_not
from .buffer import Buffer, BufferRegion
from .expr import Call, Expr, FloatImm, IntImm, PointerType, PrimType, StringImm, Var
from .intrinsics import arguments_of
from .linear import difference, simplified
from .node import is_node
from .op import Op
from .scalar_functions import BIT_OPERATIONS, SCALAR_FUNCTIONS
from .tile import LambdaExpr

_CURRENT: ContextVar[Any] = ContextVar("script_printer", default=None)

#: node -> (operator, binding strength); comparisons are read left to right but don't chain here
_OPERATORS: dict[type, tuple[str, int]] = {
    ex.Or: ("or", 1), ex.And: ("and", 2),
    ex.EQ: ("==", 4), ex.NE: ("!=", 4), ex.LT: ("<", 4), ex.LE: ("<=", 4), ex.GT: (">", 4), ex.GE: (">=", 4),
    ex.Add: ("+", 6), ex.Sub: ("-", 6), ex.Mul: ("*", 7), ex.FloorDiv: ("//", 7), ex.FloorMod: ("%", 7),
    ex.Div: ("/", 7),
}  # fmt: skip
_NOT_LEVEL, _ATOM = 3, 10
_COMPARISONS = (ex.EQ, ex.NE, ex.LT, ex.LE, ex.GT, ex.GE)
#: functions that the parser folds for some operands
_FOLDED = ("floor", "ceil", "round", "trunc", "nearbyint", "isnan", "likely")
_RESERVED = {"Axis", "range", "None", "True", "False"}


def current_printer() -> Any:
    """The printer at work, or None."""
    return _CURRENT.get()


class ExprPrinter:
    """Names and expressions.  ``text`` gives source that evaluates to the expression itself."""

    sugar: bool
    scalar_names: set[Buffer]
    plan_free_vars: list[Var]
    plan_free_buffers: list[Buffer]

    def __init__(self, prefix: str, *, sugar: bool = True) -> None:
        if not all(p.isidentifier() and not keyword.iskeyword(p) for p in prefix.split(".")):
            raise IRError(f"'{prefix}' can't be the name of the script namespace")
        self.prefix = prefix
        self.sugar = sugar
        self.names: dict[Any, str] = {}
        self.pointers: dict[Var, Buffer] = {}
        self.scalar_names = set()
        self._taken: list[set[str]] = [{prefix.partition(".")[0], *_RESERVED}]

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the printer that layouts print their values with."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    # -- names --------------------------------------------------------------------------------------------------------

    @contextmanager
    def scope(self) -> Iterator[None]:
        """A body: names taken in it are free again after it."""
        self._taken.append(set())
        yield
        self._taken.pop()

    def reserve(self, name: str) -> None:
        self._taken[0].add(name)

    def _fresh(self, wanted: str) -> str:
        base = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted) or "v"
        if base[0].isdigit() or keyword.iskeyword(base) or base.startswith("__"):
            base = "v" + base.lstrip("_")
        name, k = base, 0
        while any(name in taken for taken in self._taken):
            k += 1
            name = f"{base}_{k}"
        return name

    def name(self, what: Var | Buffer) -> str:
        """The name of a variable or buffer; given when first asked for."""
        if what not in self.names:
            self.names[what] = self._fresh(what.name)
            self._taken[-1].add(self.names[what])
        return self.names[what]

    def peek(self, what: Var) -> str:
        """The name a variable will get in the body that comes next."""
        if what in self.names:
            return self.names[what]
        self.names[what] = self._fresh(what.name)
        self._taken[-1].add(self.names[what])
        return self.names[what]

    def owns(self, buffer: Buffer) -> None:
        """Let the pointer of a buffer that has been declared be written as its ``data``."""
        self.pointers.setdefault(buffer.data, buffer)

    def is_scalar_name(self, buffer: Buffer) -> bool:
        """Whether the name of a buffer stands for its only element."""
        return buffer in self.scalar_names

    # -- expressions --------------------------------------------------------------------------------------------------

    def text(self, e: Any, level: int = 0) -> str:
        """An expression; in parentheses if it binds less than ``level``."""
        if not isinstance(e, Expr):
            return self.raw(e)
        method = getattr(self, f"expr_{type(e).__name__}", None)
        if method is not None:
            return str(method(e))
        if type(e) in _OPERATORS:
            return self._operator(e, level)
        if isinstance(e, ex.Not):
            inner = f"not {self.text(e.a, _NOT_LEVEL)}"
            return f"({inner})" if level > _NOT_LEVEL else inner
        raise IRError(f"a {type(e).__name__} can't be printed")

    def all(self, values: Any) -> str:
        return ", ".join(self.text(v) for v in values)

    def _operator(self, e: Any, level: int) -> str:
        symbol, strength = _OPERATORS[type(e)]
        if not self._reads_back(e):
            return f"{self.prefix}.{type(e).__name__}({self.typed(e.a)}, {self.typed(e.b)})"
        compare = isinstance(e, _COMPARISONS)
        a = self.text_beside(e.a, e.b, strength + (1 if compare else 0))
        b = self.text_beside(e.b, e.a, strength + 1)
        text = f"{a} {symbol} {b}"
        return f"({text})" if level > strength else text

    def _reads_back(self, e: Any) -> bool:
        """Whether the parser makes this very node of ``a op b``."""
        if isinstance(e.a, (IntImm, FloatImm, StringImm)) and isinstance(e.b, (IntImm, FloatImm, StringImm)):
            return False
        if isinstance(e, (ex.And, ex.Or)):
            return not any(isinstance(x, IntImm) for x in (e.a, e.b))
        if isinstance(e, _COMPARISONS):
            return True
        if isinstance(e, ex.Div) and not dt.is_float(e.dtype):
            return False
        try:
            return bool(binary(type(e), e.a, e.b) == e)
        except IRError:
            return False

    def text_beside(self, e: Expr, other: Expr, level: int) -> str:
        """An operand; an integer that takes the other operand's dtype is written bare."""
        if isinstance(e, IntImm) and e.dtype == other.dtype and dt.is_integer(e.dtype):
            text = str(e.value)
            return f"({text})" if e.value < 0 and level > 8 else text
        return self.text(e, level)

    def typed(self, e: Any) -> str:
        """An expression, with the dtype of an integer always written."""
        if isinstance(e, IntImm) and e.dtype != "bool":
            return f"{self.prefix}.{e.dtype}({e.value})"
        return self.text(e)

    def expr_Var(self, e: Var) -> str:
        owner = self.pointers.get(e)
        if owner is not None and e not in self.names:
            base = self.name(owner)
            return f"{base}.buffer.data" if self.is_scalar_name(owner) else f"{base}.data"
        return self.name(e)

    def expr_IntImm(self, e: IntImm) -> str:
        if e.dtype == "bool":
            return f"{self.prefix}.bool({bool(e.value)})"
        return str(e.value) if e.dtype == "int32" else f"{self.prefix}.{e.dtype}({e.value})"

    def expr_FloatImm(self, e: FloatImm) -> str:
        value = repr(e.value) if math.isfinite(e.value) else f'"{e.value}"'
        return f"{self.prefix}.{e.dtype}({value})"

    def expr_StringImm(self, e: StringImm) -> str:
        return quote(e.value)

    def expr_Min(self, e: Any) -> str:
        return self._min_max(e, "min")

    def expr_Max(self, e: Any) -> str:
        return self._min_max(e, "max")

    def _min_max(self, e: Any, short: str) -> str:
        name = short if self._reads_back(e) else type(e).__name__
        return f"{self.prefix}.{name}({self.typed(e.a)}, {self.typed(e.b)})"

    def expr_Mod(self, e: Any) -> str:
        name = "truncmod" if self._reads_back(e) else "Mod"
        return f"{self.prefix}.{name}({self.typed(e.a)}, {self.typed(e.b)})"

    def expr_Select(self, e: ex.Select) -> str:
        values = f"{self.typed(e.true_value)}, {self.typed(e.false_value)}"
        return f"{self.prefix}.Select({self.text(e.condition)}, {values})"

    def expr_Cast(self, e: ex.Cast) -> str:
        return f'{self.prefix}.Cast("{e.dtype}", {self.typed(e.value)})'

    def expr_Ramp(self, e: ex.Ramp) -> str:
        return f"{self.prefix}.Ramp({self.typed(e.base)}, {self.typed(e.stride)}, {e.lanes})"

    def expr_Broadcast(self, e: ex.Broadcast) -> str:
        return f"{self.prefix}.Broadcast({self.typed(e.value)}, {e.lanes})"

    def expr_Shuffle(self, e: ex.Shuffle) -> str:
        indices = ", ".join(self.text(i) for i in e.indices)
        return f"{self.prefix}.Shuffle([{', '.join(self.typed(v) for v in e.vectors)}], [{indices}])"

    def expr_Let(self, e: ex.Let) -> str:
        return f"{self.prefix}.Let({self.typed(e.body)}, where={{{self.name(e.var)}: {self.typed(e.value)}}})"

    def expr_BufferLoad(self, e: ex.BufferLoad) -> str:
        if e.predicate is not None:
            return (
                f"{self.prefix}.BufferLoad({self.name(e.buffer)}, [{self.all(e.indices)}], {self.text(e.predicate)})"
            )
        if self.is_scalar_name(e.buffer):
            return self.name(e.buffer)
        return self.element(e.buffer, e.indices)

    def expr_IterVar(self, e: ex.IterVar) -> str:
        dom = "None" if e.dom is None else self.range_text(e.dom)
        return f"{self.prefix}.iter_var({self.name(e.var)}, {dom}, {quote(e.iter_type)}, {quote(e.thread_tag)})"

    def expr_Reduce(self, e: ex.Reduce) -> str:
        source, init, axis = (f"[{', '.join(self.typed(v) for v in part)}]" for part in (e.source, e.init, e.axis))
        combiner = self.reducer_text(e.combiner)
        return (
            f"{self.prefix}.Reduce({combiner}, {source}, {axis}, {self.text(e.condition)}, {e.value_index}, {init})"
        )

    def expr_Opaque(self, e: ex.Opaque) -> str:
        operands = "(" + "".join(self.raw(v) + ", " for v in e.operands).rstrip() + ")"
        return f'{self.prefix}.Opaque({quote(e.foreign_type)}, {operands}, {quote(e.text)}, "{e.dtype}")'

    def reducer_text(self, r: ex.CommReducer) -> str:
        """A commutative reduction, as a function of pairs and its neutral elements."""
        with self.scope():
            names = ", ".join(self.name(v) for v in (*r.lhs, *r.rhs))
            results = ", ".join(self.typed(v) for v in r.result)
            body = results if len(r.result) == 1 else f"({results})"
        neutral = ", ".join(self.typed(v) for v in r.identity_element)
        return f"{self.prefix}.comm_reducer(lambda {names}: {body}, [{neutral}])"

    def lambda_text(self, value: LambdaExpr) -> str:
        """A function of int32 coordinates."""
        if any(v.ty != PrimType("int32") for v in value.vars):
            raise IRError("a predicate over coordinates that aren't int32 can't be printed")
        with self.scope():
            names = ", ".join(self.name(v) for v in value.vars)
            return f"lambda {names}: {self.typed(value.body)}"

    # -- calls --------------------------------------------------------------------------------------------------------

    def is_bare_call(self, e: Expr) -> bool:
        """Whether an expression can stand as a statement."""
        return isinstance(e, Call)

    def expr_Call(self, e: Call) -> str:
        if not e.attrs and not any(isinstance(a, (tuple, list)) for a in e.args):
            short = self._short_call(e)
            if short is not None:
                return short
        args = "".join(f", {self.call_argument(a)}" for a in e.args)
        attrs = f", **{self.raw(e.attrs)}" if e.attrs else ""
        return f'{self.prefix}.call_intrin("{e.dtype}", "{e.op.name}"{args}{attrs})'

    def call_argument(self, value: Any) -> str:
        """An argument of a raw call: integers are int32 unless written otherwise."""
        return self.text(value) if isinstance(value, Expr) else self.raw(value)

    def _short_call(self, e: Call) -> str | None:
        family, _, name = e.op.name.removeprefix("tirx.").rpartition(".")
        if family.startswith(("ptx", "cuda", "nvshmem")):
            return self._intrinsic(e)
        if e.op.name != f"tirx.{name}":
            return None
        if name in BIT_OPERATIONS:
            return self._bit_call(e, name)
        if name == "bitwise_not":
            return f"{self.prefix}.bitwise_not({self.typed(e.args[0])})" if bitwise_not(e.args[0]) == e else None
        if name not in SCALAR_FUNCTIONS:
            return None
        count, result = SCALAR_FUNCTIONS[name]
        if count >= 0 and count != len(e.args):
            return None
        if result == "@":
            strings = name.startswith("call_")
            args = "".join(f", {self.text(a) if strings else self.typed(a)}" for a in e.args)
            return f'{self.prefix}.{name}("{e.dtype}"{args})'
        if name == "if_then_else" and (e.args[1].dtype != e.args[2].dtype or isinstance(e.args[0], IntImm)):
            return None
        if name == "address_of" and not isinstance(e.args[0], ex.BufferLoad):
            return None
        if e.dtype != self._result(e, result) or (name in _FOLDED and not self._is_kept(name, e.args[0])):
            return None
        if name == "address_of" and self.is_scalar_name(e.args[0].buffer):
            return f"{self.prefix}.address_of({self.text(e.args[0])})"
        return f"{self.prefix}.{name}({', '.join(self.typed(a) for a in e.args)})"

    @staticmethod
    def _is_kept(name: str, operand: Any) -> bool:
        """Whether the parser makes a call of a function that folds constants and integers."""
        if isinstance(operand, (IntImm, FloatImm)):
            return False
        if name == "likely":
            return True
        return dt.is_float(operand.dtype) and not (name == "isnan" and dt.bits(operand.dtype) == 16)

    @staticmethod
    def _result(e: Call, rule: str) -> str:
        if rule.startswith("="):
            return str(e.args[int(rule[1:])].dtype)
        return dt.with_lanes("bool", dt.lanes(e.args[0].dtype)) if rule == "?" else rule

    def _bit_call(self, e: Call, name: str) -> str | None:
        try:
            if len(e.args) != 2 or bitwise(name, *e.args) != e:
                return None
        except IRError:
            return None
        return f"{self.prefix}.{name}({self.typed(e.args[0])}, {self.typed(e.args[1])})"

    def _intrinsic(self, e: Call) -> str | None:
        found = arguments_of(e)
        if found is None:
            return None
        intrinsic, args, kwargs = found
        parts = [self.call_argument(a) for a in args]
        parts += [f"{k}={self.call_argument(v)}" for k, v in kwargs.items()]
        return f"{self.prefix}.{intrinsic.script}({', '.join(parts)})"

    # -- elements and regions -----------------------------------------------------------------------------------------

    def element(self, buffer: Buffer, indices: tuple[Expr, ...], *, store: bool = False) -> str:
        """``B[i, j]``; without dimensions ``B[()]``."""
        if not indices:
            return f"{self.name(buffer)}[()]"
        return f"{self.name(buffer)}[{', '.join(self._index(i, store) for i in indices)}]"

    def _index(self, index: Expr, store: bool) -> str:
        if isinstance(index, ex.Ramp) and index.stride == IntImm(index.base.dtype, 1) and store:
            stop = index.base + index.lanes
            if simplified(stop - index.base) == IntImm(index.base.dtype, index.lanes) and index.base.dtype == "int32":
                return f"{self.text(index.base)}:{self.text(stop)}"
        return self.text(index)

    def region(self, r: BufferRegion) -> str:
        """``B[a:b, i]``; the explicit constructor where a slice would be read with another extent."""
        if not r.region or not all(self._slice_reads_back(x) for x in r.region):
            ranges = ", ".join(self.range_text(x) for x in r.region)
            return f"{self.prefix}.BufferRegion({self.name(r.buffer)}, [{ranges}])"
        units = [x.extent == IntImm(x.min.dtype, 1) for x in r.region]
        keep = all(units)  # one slice must remain, else it is an element
        parts = []
        for place, (x, unit) in enumerate(zip(r.region, units)):
            if unit and not (keep and place == 0):
                parts.append(self.text(x.min))
            else:
                parts.append(f"{self.text(x.min)}:{self.text(x.min + x.extent)}")
        return f"{self.name(r.buffer)}[{', '.join(parts)}]"

    @staticmethod
    def _slice_reads_back(x: ex.Range) -> bool:
        return x.min.dtype == x.extent.dtype and difference(x.min + x.extent, x.min) == x.extent

    def range_text(self, x: ex.Range) -> str:
        return f"{self.prefix}.Range.from_min_extent({self.text(x.min)}, {self.text(x.extent)})"

    # -- values that are not expressions ------------------------------------------------------------------------------

    def raw(self, value: Any) -> str:
        """A Python value, or a node where Python values may stand too (config, attributes)."""
        if isinstance(value, Expr):
            if isinstance(value, StringImm):
                return f"{self.prefix}.StringImm({quote(value.value)})"
            return self.typed(value)
        if value is None or isinstance(value, (bool, int)):
            return repr(value)
        if isinstance(value, float):
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if isinstance(value, str):
            return quote(value)
        if isinstance(value, (tuple, list)):
            return "(" + ", ".join(self.raw(v) for v in value) + ("," if len(value) == 1 else "") + ")"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{self.raw(k)}: {self.raw(v)}" for k, v in value.items()) + "}"
        return self._raw_node(value)

    def _raw_node(self, value: Any) -> str:
        if isinstance(value, Buffer):
            return self.name(value)
        if isinstance(value, BufferRegion):
            return self.region(value)
        if isinstance(value, ex.Range):
            return self.range_text(value)
        if isinstance(value, LambdaExpr):
            return self.lambda_text(value)
        if isinstance(value, ex.CommReducer):
            return self.reducer_text(value)
        if isinstance(value, Op):
            return f'{self.prefix}.Op.get("{value.name}")'
        if isinstance(value, PointerType):
            return f'{self.prefix}.PointerType({self._raw_node(value.element_type)}, "{value.storage_scope}")'
        if isinstance(value, PrimType):
            return f'{self.prefix}.PrimType("{value.dtype}")'
        show: Callable[..., str] | None = getattr(value, "script", None)
        if is_node(value) and show is not None and hasattr(value, "size"):
            return show(prefix=self.prefix)
        raise IRError(f"a {type(value).__name__} can't be printed")

    def attr_value(self, value: Any) -> str:
        """The value of an attribute: numbers and strings become constants when read."""
        if isinstance(value, StringImm):
            return quote(value.value)
        return self.text(value) if isinstance(value, Expr) else self.raw(value)


def quote(text: str) -> str:
    """A string as a Python literal, in double quotes where that needs no more escapes."""
    body = repr(text)
    if body[0] == "'" and '"' not in text:
        return '"' + body[1:-1].replace("\\'", "'") + '"'
    return body
