"""From the AST of a function to a PrimFunc.

Each statement of the source is handled by one method here; expressions by :mod:`tirx_eq.script.evaluator`.  What a
statement builds is what TIRx's own front end builds from it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

from ..errors import ParseError
from ..ir import Buffer, BufferLoad, BufferRegion, Expr, IterVar, PrimFunc, PrimType, StringImm, Var, const
from . import control
from .buffers import BufferAnnotation, add_parameter, alloc_local, buffer_store, is_scalar, local_scalar
from .builder import Builder, Frame, IfFrame, building, else_frame, then_frame, while_frame
from .control import ForFrame, FrameGroup
from .evaluator import Evaluator, as_condition, binary_op
from .meta import is_meta_object, name_meta
from .names import Scope, host_range
from .quoted import as_load, quoted, quoted_names, unquote_shape
from .source import Source
from .values import (
    ConstexprAnnotation,
    Dtype,
    LetAnnotation,
    LocalVector,
    MetaVar,
    OptionalAnnotation,
    as_expr,
    handle,
    new_var,
    pointer_type,
)

#: Inline functions may call each other so deep.
MAX_DEPTH = 32

_ACTIVE: ContextVar[FunctionParser | None] = ContextVar("function_parser", default=None)


def active_parser() -> FunctionParser | None:
    """The parser of the function being parsed, which inline functions are expanded with."""
    return _ACTIVE.get()


class FunctionParser(Evaluator):
    """Walks the statements of one function (and of the inline functions it calls) and builds."""

    def __init__(self, source: Source, outside: Mapping[str, Any], *, restricted: bool = False) -> None:
        super().__init__(source, Scope(outside), restricted=restricted)
        self.builder = Builder()
        self.depth = 0
        self.match_vars: dict[str, Var] = {}

    # -- the function -------------------------------------------------------------------------------------------------

    def parse(
        self, node: ast.FunctionDef, *, private: bool = False, constants: Mapping[str, Any] | None = None,
        absent: Sequence[str] = (),
    ) -> PrimFunc:  # fmt: skip
        """The PrimFunc of a definition; ``constants`` are the values of ``constexpr`` parameters."""
        token = _ACTIVE.set(self)
        try:
            with building(self.builder):
                with self.place(node):
                    if not private:
                        self.builder.attrs["global_symbol"] = node.name
                    self._parameters(node, constants or {}, absent)
                    if node.returns is not None:
                        self._return_type(node.returns)
                    self.body(node.body)
                    return self._finish(node)
        finally:
            _ACTIVE.reset(token)

    def _finish(self, node: ast.FunctionDef) -> PrimFunc:
        builder = self.builder
        body = builder.finish()
        return PrimFunc(
            tuple(builder.params), builder.buffer_map, body, builder.ret_type, builder.attrs, span=self.span(node)
        )

    def _parameters(self, node: ast.FunctionDef, constants: Mapping[str, Any], absent: Sequence[str]) -> None:
        spec = node.args
        if spec.vararg or spec.kwarg:
            raise self.fail(spec.vararg or spec.kwarg or node, "a kernel can't take a variable number of parameters")
        arguments = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
        for name, value in constants.items():
            self.scope.define(name, value)
        dtypes = self._scalar_parameters(arguments)
        for arg in arguments:
            self.builder.span = self.span(arg)
            if arg.annotation is None:
                hint = "for example A: Tx.Buffer((128,), …)"
                raise self.fail(arg, f"parameter '{arg.arg}' needs an annotation", hint)
            if arg.arg in constants:
                continue
            with self.place(arg.annotation):
                self._parameter(arg, self._annotation(arg.annotation, dtypes), absent)

    def _parameter(self, arg: ast.arg, value: Any, absent: Sequence[str]) -> None:
        if isinstance(value, OptionalAnnotation):
            if arg.arg in absent:
                self.scope.define(arg.arg, None)
                return
            value = value.annotation
        if isinstance(value, ConstexprAnnotation):
            raise self.fail(arg, f"parameter '{arg.arg}' is constexpr: give its value to specialize()")
        untyped = value is handle
        if callable(value) and not isinstance(value, Expr):
            value = value()
        if untyped:
            self.builder.untyped.append(value)
        known = self.match_vars.get(arg.arg)
        if known is not None:
            if not isinstance(value, Var) or value.dtype != known.dtype:
                raise self.fail(arg, f"'{arg.arg}' stands in a shape as {known.dtype}; it can't be another type here")
            value = known
        self.scope.define(arg.arg, add_parameter(arg.arg, value))

    def _scalar_parameters(self, arguments: Sequence[ast.arg]) -> dict[str, str]:
        """Dtypes of the scalar parameters, which a quoted shape before them may use."""
        found: dict[str, str] = {}
        for arg in arguments:
            if isinstance(arg.annotation, (ast.Attribute, ast.Name)):
                try:
                    value = self.eval(arg.annotation)
                except ParseError:
                    continue
                if isinstance(value, Dtype):
                    found[arg.arg] = value.name
        return found

    def _annotation(self, node: ast.expr, dtypes: Mapping[str, str]) -> Any:
        """A parameter's annotation; names quoted in a buffer's shape are variables that the shape defines."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node = quoted(node, self)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = [s for s in (node.left, node.right) if not (isinstance(s, ast.Constant) and s.value is None)]
            return OptionalAnnotation(self._annotation(sides[0], dtypes))
        if isinstance(node, ast.Call) and isinstance(self.eval(node.func), BufferAnnotation):
            for part in [*node.args[:1], *(k.value for k in node.keywords if k.arg == "shape")]:
                for name in quoted_names(part, self):
                    if name not in self.match_vars and name not in self.scope.names():
                        var = Var(name, PrimType(dtypes.get(name, "int32")), span=self.span(part))
                        self.match_vars[name] = var
                        self.scope.define(name, var)
            node = unquote_shape(node, self)
        return self.eval(node)

    def _return_type(self, node: ast.expr) -> None:
        value = self.eval(node)
        if isinstance(value, Dtype):
            value = value()
        if isinstance(value, Var):
            value = value.ty
        self.builder.ret_type = value

    # -- statements ---------------------------------------------------------------------------------------------------

    def body(self, nodes: Sequence[ast.stmt]) -> None:
        """Handle statements in order."""
        for node in nodes:
            self.stmt(node)

    def stmt(self, node: ast.stmt) -> None:
        """Handle one statement."""
        method = getattr(self, f"stmt_{type(node).__name__}", None)
        if method is None:
            raise self.fail(node, f"a kernel can't contain this statement ({type(node).__name__})")
        saved, self.builder.span = self.builder.span, self.span(node)
        with self.place(node):
            method(node)
        self.builder.forget_fresh()
        self.builder.span = saved

    @contextmanager
    def block(self, frame: Any) -> Iterator[Any]:
        """A body in ``frame`` with names of its own."""
        with self.scope.frame(), frame as value:
            yield value

    def stmt_Pass(self, node: ast.Pass) -> None:
        pass

    def stmt_Break(self, node: ast.Break) -> None:
        control.break_stmt()

    def stmt_Continue(self, node: ast.Continue) -> None:
        control.continue_stmt()

    def stmt_Return(self, node: ast.Return) -> None:
        control.return_stmt(None if node.value is None else self.eval(node.value))

    def stmt_Assert(self, node: ast.Assert) -> None:
        condition = self.eval(node.test)
        message = self.eval(node.msg) if node.msg is not None else ()
        if not isinstance(condition, Expr):
            if not condition:
                raise self.fail(node, f"assertion failed: {message or ast.unparse(node.test)}")
            return
        kind = "RuntimeError"
        if isinstance(message, tuple) and len(message) == 2 and isinstance(message[1], (list, tuple)):
            kind, message = message
        control.assert_stmt(condition, message, kind.value if isinstance(kind, StringImm) else kind)

    def stmt_Expr(self, node: ast.Expr) -> None:
        value = self.eval(node.value)
        if isinstance(value, (Frame, FrameGroup)):
            for frame in value.frames if isinstance(value, FrameGroup) else [value]:
                self.builder.open(frame)
        elif isinstance(value, MetaVar) or value is None or isinstance(value, (str, Buffer, BufferRegion, Var)):
            pass
        elif isinstance(value, (Expr, bool, int)):
            if not (isinstance(value, BufferLoad) and self.builder.is_fresh(value)):
                control.evaluate(value)
        elif not is_meta_object(value):
            raise self.fail(node, f"a {type(value).__name__} is not a statement")

    def stmt_If(self, node: ast.If) -> None:
        test = self.eval(node.test)
        if not isinstance(test, Expr):
            if isinstance(test, (Buffer, BufferRegion, Frame)):
                raise self.fail(node.test, f"a {type(test).__name__} is not a condition")
            self.body(node.body if test else node.orelse)
            return
        with IfFrame(as_condition(test)):
            with self.block(then_frame()):
                self.body(node.body)
            if node.orelse:
                with self.block(else_frame()):
                    self.body(node.orelse)

    def stmt_While(self, node: ast.While) -> None:
        if node.orelse:
            raise self.fail(node.orelse[0], "a loop of a kernel has no else")
        test = self.eval(node.test)
        with self.block(while_frame(as_condition(test))):
            self.body(node.body)

    def stmt_For(self, node: ast.For) -> None:
        if node.orelse:
            raise self.fail(node.orelse[0], "a loop of a kernel has no else")
        frame = self._loop(node.iter)
        with self.block(frame) as variables:
            self.unpack(node.target, variables, self._bind_loop_var)
            self.body(node.body)

    def _loop(self, node: ast.expr) -> ForFrame:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and self._is_range(node.func):
            args = self.elements(node.args)
            kwargs = {str(k.arg): self.eval(k.value) for k in node.keywords}
            with self.place(node):
                if not 1 <= len(args) <= 3:
                    raise self.fail(node, "range takes 1 to 3 arguments")
                step = args[2] if len(args) == 3 else None
                first = (0, args[0]) if len(args) == 1 else args[:2]
                return control.serial(*first, step=step, **kwargs)
        frame = self.eval(node)
        if not isinstance(frame, ForFrame):
            raise self.fail(
                node, f"a kernel can't loop over a {type(frame).__name__}",
                "range, Tx.serial, Tx.unroll, Tx.vectorized, Tx.parallel, Tx.grid or Tx.thread_binding",
            )  # fmt: skip
        return frame

    def _is_range(self, node: ast.Name) -> bool:
        return any(self.eval(node) is r for r in (range, host_range))

    def _bind_loop_var(self, name: str, value: Any) -> None:
        if isinstance(value, Var):
            self.builder.name(value, name)
        self.scope.define(name, value)

    def stmt_With(self, node: ast.With) -> None:
        with ExitStack() as stack:
            stack.enter_context(self.scope.frame())
            for item in node.items:
                frame = self.eval(item.context_expr)
                if not hasattr(frame, "__enter__"):
                    raise self.fail(item.context_expr, f"a {type(frame).__name__} can't be used in 'with'")
                value = stack.enter_context(frame)
                if item.optional_vars is not None:
                    self.unpack(item.optional_vars, value, self._bind_with)
            self.body(node.body)

    def _bind_with(self, name: str, value: Any) -> None:
        name_meta(name, value)
        self.scope.define(name, value)

    # -- assignments --------------------------------------------------------------------------------------------------

    def stmt_Assign(self, node: ast.Assign) -> None:
        if len(node.targets) != 1:
            raise self.fail(node, "a = b = c is not available in a kernel")
        self.assign(node.targets[0], self.eval(node.value))

    def assign(self, target: ast.expr, value: Any) -> None:
        """``target = value``: a store if the target is an element or a scalar, else a binding."""
        if isinstance(target, ast.Subscript):
            self._store(target, value)
            return
        scalar = self._scalar_of(target)
        if scalar is not None and _is_storable(value):
            buffer_store(scalar, value, [0])
            return
        if isinstance(target, ast.Attribute):
            self._set_attribute(target, value)
            return
        self.unpack(target, value, self.bind)

    def _store(self, target: ast.Subscript, value: Any) -> None:
        base = self.eval(target.value)
        key = self.eval_index(target.slice)
        keys = list(key) if isinstance(key, tuple) else [key]
        if isinstance(base, Buffer):
            with self.place(target):
                buffer_store(base, value, keys)
        elif isinstance(base, (list, dict)):
            base[key] = value
        else:
            raise self.fail(target, f"a {type(base).__name__} has no elements that can be assigned")

    def _scalar_of(self, target: ast.expr) -> Buffer | None:
        """The buffer of one element that a target names, if it names one."""
        if not isinstance(target, (ast.Name, ast.Attribute)):
            return None
        try:
            value = self.eval(target)
        except ParseError:
            return None
        found = value.buffer if isinstance(value, BufferLoad) else value
        return found if isinstance(found, Buffer) and is_scalar(found) else None

    def _set_attribute(self, target: ast.Attribute, value: Any) -> None:
        owner = self.eval(target.value)
        if not is_meta_object(owner):
            raise self.fail(target, f"the field '{target.attr}' of a {type(owner).__name__} can't be assigned")
        setattr(owner, target.attr, value)

    def bind(self, name: str, value: Any) -> None:
        """Give a new value a name: buffers and variables are named, other expressions become scalars."""
        self.scope.define(name, self.bound(name, value))

    def bound(self, name: str, value: Any) -> Any:
        """What the name ``name`` stands for after ``name = value``."""
        builder = self.builder
        if isinstance(value, BufferLoad) and builder.is_fresh(value):
            builder.name(value.buffer, name)
            return value
        if isinstance(value, MetaVar):
            return value.value
        if is_meta_object(value):
            name_meta(name, value)
            return value
        if isinstance(value, (list, tuple)):
            for i, inner in enumerate(value):
                self.bound(f"{name}_{i}", inner)
            return value
        if isinstance(value, (Frame, FrameGroup)):
            inner = builder.open(value) if isinstance(value, Frame) else [builder.open(f) for f in value.frames]
            name_meta(name, inner)
            return inner
        if isinstance(value, Buffer) or (isinstance(value, Var) and builder.is_unnamed(value)):
            builder.name(value, name)
            return value
        if isinstance(value, IterVar):
            builder.name(value.var, name)
            return value
        if isinstance(value, (bool, int, float)) or isinstance(value, Expr):
            return self._new_scalar(name, value if isinstance(value, Expr) else const(value))
        return value

    def _new_scalar(self, name: str, value: Expr) -> Any:
        pointer = pointer_type(value)
        if pointer is not None or isinstance(value, StringImm):
            var = control.bind(value, pointer)
            self.builder.name(var, name)
            return var
        scalar = local_scalar(value.dtype)
        self.builder.name(scalar.buffer, name)
        buffer_store(scalar.buffer, value, [0])
        return scalar

    def stmt_AugAssign(self, node: ast.AugAssign) -> None:
        load = as_load(node.target)
        self.assign(node.target, binary_op(type(node.op), self.eval(load), self.eval(node.value)))

    def stmt_AnnAssign(self, node: ast.AnnAssign) -> None:
        value = self.eval(node.value) if node.value is not None else None
        if not isinstance(node.target, ast.Name):
            raise self.fail(node.target, "only a name can be annotated")
        name = node.target.id
        annotation = self.eval(node.annotation)
        with self.place(node.annotation):
            if isinstance(annotation, LocalVector):
                if value is not None:
                    raise self.fail(node, "a local vector takes no initial value")
                self.bind(name, alloc_local(annotation.shape, annotation.dtype))
            elif isinstance(annotation, LetAnnotation):
                self._let(node, name, annotation, value)
            else:
                self._annotated_scalar(node, name, annotation, value)

    def _let(self, node: ast.AnnAssign, name: str, annotation: LetAnnotation, value: Any) -> None:
        if node.value is None:
            raise self.fail(node, "a let needs a value")
        expr = as_expr(value)
        spec = annotation.type_spec
        if isinstance(spec, Dtype) or (callable(spec) and not isinstance(spec, Expr)):
            spec = spec()
        if isinstance(spec, Var):
            var = spec
        else:
            var = new_var(spec or pointer_type(expr) or PrimType(expr.dtype))
        self.builder.name(var, name)
        control.bind(expr, var=var)
        self.scope.define(name, var)

    def _annotated_scalar(self, node: ast.AnnAssign, name: str, annotation: Any, value: Any) -> None:
        made = annotation() if callable(annotation) and not isinstance(annotation, Expr) else annotation
        if not isinstance(made, Var):
            raise self.fail(node.annotation, f"a {type(made).__name__} is not a type", "for example Tx.int32")
        if not isinstance(made.ty, PrimType) or made.dtype == "handle":
            raise self.fail(node.annotation, "a pointer can't be a scalar", "annotate it with Tx.let[…]")
        scalar = local_scalar(made.dtype)
        self.builder.name(scalar.buffer, name)
        self.scope.define(name, scalar)
        if node.value is not None:
            buffer_store(scalar.buffer, value, [0])

    # -- inline functions ---------------------------------------------------------------------------------------------

    def stmt_FunctionDef(self, node: ast.FunctionDef) -> None:
        from .macros import InlineFunction, Maker

        for decorator in node.decorator_list:
            value = self.eval(decorator)
            if not isinstance(value, Maker):
                raise self.fail(decorator, "a function in a kernel must be inline", "decorate it with @Tx.inline")
        if not node.decorator_list:
            raise self.fail(node, "a function in a kernel must be inline", "decorate it with @Tx.inline")
        self.scope.define(node.name, InlineFunction(self.source, node, self.scope.snapshot(), None))

    def expand(self, source: Source, node: ast.FunctionDef, scope: Scope, arguments: Mapping[str, Any]) -> None:
        """Walk the body of an inline function with its parameters bound."""
        if self.depth >= MAX_DEPTH:
            message = f"inline functions call each other more than {MAX_DEPTH} deep (in '{node.name}')"
            raise ParseError(message, span=source.span(node))
        saved = self.source, self.scope, self.builder.span
        self.source, self.scope = source, scope
        self.depth += 1
        try:
            with scope.frame():
                for name, value in arguments.items():
                    scope.define(name, value)
                self.body(node.body)
        finally:
            self.source, self.scope, self.builder.span = saved
            self.depth -= 1


def _is_storable(value: Any) -> bool:
    return isinstance(value, (Expr, bool, int, float, BufferRegion))
