"""Evaluating the expressions of a kernel's source.

The AST is walked here; nothing of the source is executed.  Names come from the function's own scopes, then from what it
closes over, then from a list of builtins.  On IR expressions operators build nodes; on Python values they compute.
Calls of Python functions (the namespace's, or the user's own) do run: they are part of the host program.
"""

from __future__ import annotations

import ast
import difflib
import operator
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import IRError, ParseError, Span, TirxError
from ..ir import EQ, GE, GT, LE, LT, NE, And, Buffer, BufferRegion, Call, Expr, IntImm, Not, Op, Or, PrimType, const
from ..ir import dtype as dt
from ..ir.arith import match_types
from .intrinsics import Namespace
from .names import Scope
from .regions import subscript
from .source import Source
from .tile import ScopeNamespace
from .values import MetaVar, as_expr
from .views import BUFFER_ATTRIBUTES

#: A comprehension stops after as many steps; a kernel has no use for more.
MAX_STEPS = 1_000_000

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}  # fmt: skip
_COMPARE_NODES: dict[type, type[Any]] = {
    ast.Eq: EQ, ast.NotEq: NE, ast.Lt: LT, ast.LtE: LE, ast.Gt: GT, ast.GtE: GE,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip


class Evaluator:
    """Evaluates AST expressions of one source in a scope."""

    def __init__(self, source: Source, scope: Scope, *, restricted: bool = False) -> None:
        self.source = source
        self.scope = scope
        self.restricted = restricted
        self.steps = 0

    # -- places -------------------------------------------------------------------------------------------------------

    def span(self, node: ast.AST) -> Span | None:
        return self.source.span(node)

    def fail(self, node: ast.AST, message: str, hint: str | None = None) -> ParseError:
        """A ParseError at a node (to be raised)."""
        return ParseError(message, hint=hint, span=self.span(node))

    @contextmanager
    def place(self, node: ast.AST) -> Iterator[None]:
        """Errors inside are placed at ``node``, unless they know a closer place."""
        try:
            yield
        except TirxError as e:
            raise e.at(self.span(node)) from e.__cause__
        except RecursionError:
            raise self.fail(node, "the expression is nested too deeply") from None
        except Exception as e:
            name = type(e).__name__
            text = str(e) if isinstance(e, (AttributeError, TypeError, ValueError)) else f"{name}: {e}"
            raise self.fail(node, text or name) from e

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def eval(self, node: ast.expr) -> Any:
        """The value of an expression."""
        method = getattr(self, f"eval_{type(node).__name__}", None)
        if method is None:
            raise self.fail(node, f"a kernel can't contain this ({type(node).__name__})")
        with self.place(node):
            return method(node)

    def eval_Constant(self, node: ast.Constant) -> Any:
        return node.value

    def eval_Name(self, node: ast.Name) -> Any:
        try:
            return self.scope.lookup(node.id)
        except KeyError:
            near = difflib.get_close_matches(node.id, self.scope.names(), 3, 0.7)
            hint = f"did you mean {', '.join(dict.fromkeys(near))}?" if near else None
            raise self.fail(node, f"the name '{node.id}' is not defined", hint) from None

    def eval_Attribute(self, node: ast.Attribute) -> Any:
        value = get_attribute(self.eval(node.value), node.attr)
        if self.restricted and isinstance(value, types.ModuleType) and not reachable_from_text(value.__name__):
            raise self.fail(node, f"text can't use the module '{value.__name__}'")
        return value

    def eval_Subscript(self, node: ast.Subscript) -> Any:
        value, key = self.eval(node.value), self.eval_index(node.slice)
        if isinstance(value, Buffer):
            return subscript(value, key)
        if isinstance(key, IntImm):
            key = int(key)
        return value[key]

    def eval_index(self, node: ast.expr) -> Any:
        """What stands between brackets: an index, a slice, or a tuple of them."""
        if isinstance(node, ast.Tuple):
            return tuple(self.elements(node.elts))
        return self.eval(node)

    def eval_Slice(self, node: ast.Slice) -> slice:
        return slice(*(None if part is None else self.eval(part) for part in (node.lower, node.upper, node.step)))

    def elements(self, nodes: list[ast.expr]) -> list[Any]:
        """Values of a list of expressions, starred ones spread."""
        made: list[Any] = []
        for n in nodes:
            if isinstance(n, ast.Starred):
                made.extend(self.eval(n.value))
            else:
                made.append(self.eval(n))
        return made

    def eval_Tuple(self, node: ast.Tuple) -> tuple[Any, ...]:
        return tuple(self.elements(node.elts))

    def eval_List(self, node: ast.List) -> list[Any]:
        return self.elements(node.elts)

    def eval_Set(self, node: ast.Set) -> set[Any]:
        return set(self.elements(node.elts))

    def eval_Dict(self, node: ast.Dict) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                made.update(self.eval(value))
            else:
                made[self.eval(key)] = self.eval(value)
        return made

    def eval_Call(self, node: ast.Call) -> Any:
        function = self.eval(node.func)
        args = self.elements(node.args)
        kwargs: dict[str, Any] = {}
        for k in node.keywords:
            if k.arg is None:
                kwargs.update(self.eval(k.value))
            else:
                kwargs[k.arg] = self.eval(k.value)
        if function in (getattr, hasattr) and len(args) >= 2 and isinstance(args[1], str):
            return _getattr_call(function, args)
        if not callable(function):
            raise self.fail(node, f"'{ast.unparse(node.func)}' is not a function, it is {_kind(function)}")
        return function(*args, **kwargs)

    def eval_BinOp(self, node: ast.BinOp) -> Any:
        return binary_op(type(node.op), self.eval(node.left), self.eval(node.right))

    def eval_UnaryOp(self, node: ast.UnaryOp) -> Any:
        value = _as_operand(self.eval(node.operand))
        if isinstance(node.op, ast.Not):
            if not isinstance(value, Expr):
                return not value
            if dt.kind(value.dtype) != "bool":
                raise IRError(
                    f"'not' needs a condition, got {value.dtype}", hint="compare the value, for example x == 0"
                )
            return Not(value)
        if isinstance(node.op, ast.USub):
            return -value
        if isinstance(node.op, ast.Invert):
            return ~value
        return value if isinstance(value, Expr) else +value

    def eval_BoolOp(self, node: ast.BoolOp) -> Any:
        stop_at = isinstance(node.op, ast.Or)
        value = _as_operand(self.eval(node.values[0]))
        for n in node.values[1:]:
            if not isinstance(value, Expr) and bool(value) == stop_at:
                return value
            value = _logical(And if isinstance(node.op, ast.And) else Or, value, _as_operand(self.eval(n)))
        return value

    def eval_Compare(self, node: ast.Compare) -> Any:
        left = self.eval(node.left)
        result: Any = None
        for op, right_node in zip(node.ops, node.comparators):
            right = self.eval(right_node)
            one = compare(type(op), left, right)
            result = one if result is None else _logical(And, result, one)
            if not isinstance(result, Expr) and not result:
                return result
            left = right
        return result

    def eval_IfExp(self, node: ast.IfExp) -> Any:
        test = self.eval(node.test)
        if not isinstance(test, Expr):
            return self.eval(node.body if test else node.orelse)
        from .math import if_then_else

        return if_then_else(test, self.eval(node.body), self.eval(node.orelse))

    def eval_NamedExpr(self, node: ast.NamedExpr) -> Any:
        value = self.eval(node.value)
        self.scope.define(node.target.id, value)
        return value

    def eval_JoinedStr(self, node: ast.JoinedStr) -> str:
        return "".join(str(self.eval(v)) for v in node.values)

    def eval_FormattedValue(self, node: ast.FormattedValue) -> str:
        value = self.eval(node.value)
        if node.conversion == ord("r"):
            value = repr(value)
        spec = self.eval(node.format_spec) if node.format_spec is not None else ""
        return format(int(value) if isinstance(value, IntImm) else value, spec)

    def eval_Lambda(self, node: ast.Lambda) -> Callable[..., Any]:
        scope = self.scope.snapshot()
        spec = node.args
        names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
        if spec.vararg or spec.kwarg or spec.kwonlyargs or spec.defaults:
            raise self.fail(node, "a lambda in a kernel takes plain arguments only")

        def call(*args: Any) -> Any:
            if len(args) != len(names):
                raise TypeError(f"the lambda takes {len(names)} arguments, got {len(args)}")
            inner = Evaluator(self.source, scope.snapshot(), restricted=self.restricted)
            inner.scope.frames.append(dict(zip(names, args)))
            return inner.eval(node.body)

        parameters = ", ".join(names)
        call.__signature__ = _signature(names)  # type: ignore[attr-defined]
        call.__name__ = f"lambda {parameters}"
        return call

    # -- comprehensions -----------------------------------------------------------------------------------------------

    def _each(self, generators: list[ast.comprehension], body: Callable[[], None]) -> None:
        if not generators:
            body()
            return
        first, rest = generators[0], generators[1:]
        for item in self.eval(first.iter):
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise self.fail(first.iter, f"more than {MAX_STEPS} steps in comprehensions")
            self.unpack(first.target, item, self.scope.define)
            if all(self.eval(c) for c in first.ifs):
                self._each(rest, body)

    def eval_ListComp(self, node: ast.ListComp | ast.GeneratorExp | ast.SetComp) -> list[Any]:
        made: list[Any] = []
        with self.scope.frame():
            self._each(node.generators, lambda: made.append(self.eval(node.elt)))
        return made

    eval_GeneratorExp = eval_ListComp

    def eval_SetComp(self, node: ast.SetComp) -> set[Any]:
        return set(self.eval_ListComp(node))

    def eval_DictComp(self, node: ast.DictComp) -> dict[Any, Any]:
        made: dict[Any, Any] = {}

        def add() -> None:
            made[self.eval(node.key)] = self.eval(node.value)

        with self.scope.frame():
            self._each(node.generators, add)
        return made

    def unpack(self, target: ast.expr, value: Any, define: Callable[[str, Any], None]) -> None:
        """Bind a target to a value: a name, or a tuple of targets (one of which may be starred)."""
        if isinstance(target, ast.Name):
            define(target.id, value)
            return
        if not isinstance(target, (ast.Tuple, ast.List)):
            raise self.fail(target, "this can't be assigned to here")
        if isinstance(value, MetaVar):
            value = [MetaVar(v) for v in value.value]
        with self.place(target):
            values = list(value) if isinstance(value, (list, tuple)) or hasattr(value, "__iter__") else None
        if values is None:
            raise self.fail(target, f"{_kind(value)} can't be unpacked into {len(target.elts)} names")
        stars = [i for i, t in enumerate(target.elts) if isinstance(t, ast.Starred)]
        if stars:
            at, after = stars[0], len(target.elts) - stars[0] - 1
            if len(values) < len(target.elts) - 1:
                raise self.fail(target, f"{len(values)} values are too few for {len(target.elts)} names")
            middle = values[at : len(values) - after]
            values = [*values[:at], middle, *values[len(values) - after :]]
        if len(values) != len(target.elts):
            raise self.fail(target, f"{len(values)} values can't be unpacked into {len(target.elts)} names")
        for t, v in zip(target.elts, values):
            self.unpack(t.value if isinstance(t, ast.Starred) else t, v, define)


# -- operators --------------------------------------------------------------------------------------------------------


def _as_operand(value: Any) -> Any:
    if isinstance(value, BufferRegion):
        return value.as_load()
    return value.value if isinstance(value, MetaVar) else value


def _is_ir(*values: Any) -> bool:
    return any(isinstance(v, Expr) for v in values)


def binary_op(op: type, left: Any, right: Any) -> Any:
    """``left op right``."""
    a, b = left, right
    if isinstance(left, (BufferRegion, MetaVar)) or isinstance(right, (BufferRegion, MetaVar)):
        a, b = _as_operand(left), _as_operand(right)
    for value in (a, b):
        if isinstance(value, Buffer):
            raise IRError(f"the buffer '{value.name}' can't be used in arithmetic", hint=f"index it: {value.name}[…]")
    if op is ast.Pow and _is_ir(a, b):
        raise IRError("'**' is not an operation of kernels", hint="Tx.pow for floats; multiply for integers")
    return _BINARY[op](a, b)


def compare(op: type, left: Any, right: Any) -> Any:
    """``left op right``; a comparison with an IR expression is a node, never folded."""
    a, b = _as_operand(left), _as_operand(right)
    plain = any(v is None or isinstance(v, str) for v in (a, b))
    if plain or not _is_ir(a, b) or op not in _COMPARE_NODES:
        return _COMPARE[op](a, b)
    return _COMPARE_NODES[op](*match_types(a, b))


def _logical(node: type[Any], left: Any, right: Any) -> Any:
    if not _is_ir(left, right):
        return (left and right) if node is And else (left or right)
    conditions = []
    for value in (left, right):
        expr = const(bool(value), "bool") if not isinstance(value, Expr) else value
        if dt.kind(expr.dtype) != "bool":
            raise IRError(
                f"'{'and' if node is And else 'or'}' needs conditions, got {expr.dtype}",
                hint="compare the value, for example x != 0",
            )
        conditions.append(expr)
    return node(*conditions)


# -- attributes -------------------------------------------------------------------------------------------------------


class _Scope(str):
    """A storage scope; TIRx spells it as a method."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


def reachable_from_text(module: str) -> bool:
    """Whether source text, which isn't trusted, may use a module: the script namespace, layouts, and ``math``."""
    package = __name__.split(".")[0]
    names = ("script", "script.tirx", "script.tile", "script.lang", "layout")
    known = ["math", *(f"{package}.{n}" for n in names)]
    return module in known or module.startswith(f"{package}.script.lang.")


def get_attribute(value: Any, name: str) -> Any:
    """``value.name`` as a kernel may use it; names of Python's machinery are not reachable."""
    if name.startswith("__") and not isinstance(value, Namespace):
        raise AttributeError(f"'{name}' can't be used in a kernel")
    if isinstance(value, str) and name in ("format", "format_map"):
        raise AttributeError(f"'{name}' of a string can't be used in a kernel; write an f-string")
    if isinstance(value, Buffer):
        if name == "scope":
            return _Scope(value.scope)
        if name in BUFFER_ATTRIBUTES:
            return BUFFER_ATTRIBUTES[name](value)
    if isinstance(value, MetaVar):
        return get_attribute(value.value, name)
    if name == "ty" and isinstance(value, (Expr, Buffer)):
        return getattr(value, "ty", None) or PrimType(value.dtype)
    if isinstance(value, Expr) and name == "buffer" and not hasattr(value, "buffer"):
        raise AttributeError(f"{_kind(value)} has no buffer")
    try:
        return getattr(value, name)
    except AttributeError as e:
        if isinstance(value, (types.ModuleType, Namespace, ScopeNamespace)):
            raise AttributeError(str(e)) from None
        public = [n for n in dir(value) if not n.startswith("_")]
        near = difflib.get_close_matches(name, public, 3, 0.6)
        more = f"; did you mean {', '.join(near)}?" if near else ""
        raise AttributeError(f"{_kind(value)} has no '{name}'{more}") from None


def _getattr_call(function: Any, args: list[Any]) -> Any:
    try:
        found = get_attribute(args[0], args[1])
    except AttributeError:
        if function is hasattr:
            return False
        if len(args) > 2:
            return args[2]
        raise
    return True if function is hasattr else found


def _kind(value: Any) -> str:
    """A value in words, for messages."""
    if isinstance(value, types.ModuleType):
        return f"the namespace '{value.__name__.rpartition('.')[2]}'"
    if isinstance(value, Buffer):
        return f"the buffer '{value.name}'"
    if isinstance(value, Call):
        return f"a call of {value.op.name}"
    if isinstance(value, (Namespace, Op)):
        return repr(value)
    return f"a {type(value).__name__}"


def _signature(names: list[str]) -> Any:
    import inspect

    return inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])


def as_condition(value: Any) -> Expr:
    """A value as the condition of a statement."""
    expr = as_expr(value)
    if dt.kind(expr.dtype) not in ("bool", "int", "uint"):
        raise IRError(f"a condition must be a bool or an integer, got {expr.dtype}")
    return expr
