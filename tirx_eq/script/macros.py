"""Functions over kernels: ``@prim_func``, ``@inline``/``@macro``, ``@jit`` with ``specialize``."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..errors import ParseError
from ..ir import PrimFunc
from .names import Scope
from .parser import FunctionParser, active_parser
from .source import Source, source_of
from .values import ConstexprAnnotation, OptionalAnnotation


def captured(func: Callable[..., Any], depth: int = 2) -> dict[str, Any]:
    """Names a function can see: its module's, those it closes over, and the locals of the function that defines it."""
    names: dict[str, Any] = dict(func.__globals__)
    frame = sys._getframe(depth)
    if "." in func.__qualname__ and frame.f_code.co_name != "<module>":
        # annotations and the body may use names of the defining function that aren't closed over
        names.update(frame.f_locals)
    code = func.__code__
    for name, cell in zip(code.co_freevars, func.__closure__ or ()):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def prim_func(
    func: Callable[..., Any] | None = None, private: bool = False, check_well_formed: bool = True,
    s_tir: bool = False, persistent: bool = False,
) -> Any:  # fmt: skip
    """Decorator: parse a Python function as a kernel, giving a :class:`~tirx_eq.ir.PrimFunc`.

    The source is read and walked, not executed.  ``private`` leaves out the global symbol.  Raises ParseError (or the
    error of the node concerned) at the user's line and column.
    """
    if s_tir:
        raise ParseError("s_tir kernels (schedulable blocks) are not part of TIRx here")

    def decorate(f: Callable[..., Any], depth: int = 2) -> PrimFunc:
        source, node = source_of(f)
        made = FunctionParser(source, captured(f, depth)).parse(node, private=private)
        if persistent:
            made = made.with_attr("tirx.persistent_kernel", True)
        return made

    return decorate if func is None else decorate(func, 3)


prim_func.parses_function = True  # type: ignore[attr-defined]


class InlineFunction:
    """A function whose body is walked where it is called, with its parameters bound to the arguments."""

    def __init__(
        self, source: Source, node: ast.FunctionDef, scope: Scope, func: Callable[..., Any] | None
    ) -> None:
        self.source = source
        self.node = node
        self.scope = scope
        self.__name__ = node.name
        self.__wrapped__ = func

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        """An inline function in a class is a method."""
        return self if owner is None else partial(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        parser = active_parser()
        if parser is None:
            raise ParseError(f"'{self.node.name}' is inline, so it can be called only in a kernel")
        arguments = self._bind(parser, args, kwargs)
        parser.expand(self.source, self.node, self.scope.snapshot(), arguments)

    def _bind(self, parser: FunctionParser, args: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        spec = self.node.args
        if spec.kwarg:
            raise ParseError(f"'{self.node.name}': an inline function can't take **{spec.kwarg.arg}")
        defaults = FunctionParser(self.source, {}, restricted=parser.restricted)
        defaults.scope = self.scope.snapshot()
        empty, kinds = inspect.Parameter.empty, inspect.Parameter
        positional = [*spec.posonlyargs, *spec.args]
        first = len(positional) - len(spec.defaults)
        parameters = []
        for i, a in enumerate(positional):
            default = defaults.eval(spec.defaults[i - first]) if i >= first else empty
            parameters.append(kinds(a.arg, kinds.POSITIONAL_OR_KEYWORD, default=default))
        if spec.vararg:
            parameters.append(kinds(spec.vararg.arg, kinds.VAR_POSITIONAL))
        for a, d in zip(spec.kwonlyargs, spec.kw_defaults):
            parameters.append(kinds(a.arg, kinds.KEYWORD_ONLY, default=empty if d is None else defaults.eval(d)))
        bound = inspect.Signature(parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)


class Maker:
    """A decorator that makes inline functions: ``@Tx.inline``, ``@Tx.inline()``, ``@Tx.macro(hygienic=False)``."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, func: Any = None, **options: Any) -> Any:
        if func is None:
            return Maker(self.__name__)
        source, node = source_of(func)
        return InlineFunction(source, node, Scope(_LiveNames(func)), func)


class _LiveNames(Mapping[str, Any]):
    """Names an inline function sees, looked up when it is expanded (so they may be defined after it)."""

    def __init__(self, func: Callable[..., Any]) -> None:
        self._func = func

    def _closure(self) -> dict[str, Any]:
        code = self._func.__code__
        made = {}
        for name, cell in zip(code.co_freevars, self._func.__closure__ or ()):
            try:
                made[name] = cell.cell_contents
            except ValueError:
                continue
        return made

    def __getitem__(self, name: str) -> Any:
        closure = self._closure()
        return closure[name] if name in closure else self._func.__globals__[name]

    def __iter__(self) -> Any:
        return iter({**self._func.__globals__, **self._closure()})

    def __len__(self) -> int:
        return len(self._func.__globals__)


inline = Maker("inline")
macro = Maker("macro")


class JitKernel:
    """A kernel with compile-time parameters; :meth:`specialize` gives the PrimFunc."""

    def __init__(
        self, source: Source, node: ast.FunctionDef, names: Mapping[str, Any], *, private: bool = False,
        restricted: bool = False,
    ) -> None:  # fmt: skip
        self.source = source
        self.node = node
        self.__name__ = node.name
        self._names = names
        self._private = private
        self._restricted = restricted
        self._made: dict[Any, PrimFunc] = {}
        evaluator = FunctionParser(source, names, restricted=restricted)
        spec = self.node.args
        self.constants: set[str] = set()
        self.optional: set[str] = set()
        self.defaults: dict[str, Any] = {}
        for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs):
            kind = _annotation_kind(evaluator, arg.annotation)
            if kind is ConstexprAnnotation:
                self.constants.add(arg.arg)
            elif kind is OptionalAnnotation:
                self.optional.add(arg.arg)
        for arg_def, default in zip(spec.kwonlyargs, spec.kw_defaults):
            if default is not None and arg_def.arg in self.constants:
                self.defaults[arg_def.arg] = evaluator.eval(default)
        tail = [*spec.posonlyargs, *spec.args][-len(spec.defaults) :] if spec.defaults else []
        for arg_def, value in zip(tail, spec.defaults):
            if arg_def.arg in self.constants:
                self.defaults[arg_def.arg] = evaluator.eval(value)

    def specialize(self, **values: Any) -> PrimFunc:
        """The kernel with its ``constexpr`` parameters set, and optional parameters left out where given as None."""
        unknown = set(values) - self.constants - self.optional
        if unknown:
            raise ParseError(
                f"{self.__name__}.specialize has no parameter '{sorted(unknown)[0]}'",
                hint=f"it has {', '.join(sorted(self.constants | self.optional)) or 'none'}",
            )
        absent = [n for n in self.optional if n in values]
        if any(values[n] is not None for n in absent):
            raise ParseError(f"{self.__name__}.specialize: an optional parameter can only be given as None")
        constants = {**self.defaults, **{n: v for n, v in values.items() if n in self.constants}}
        missing = self.constants - set(constants)
        if missing:
            raise ParseError(f"{self.__name__}.specialize needs a value for '{sorted(missing)[0]}'")
        key = (tuple(sorted((n, repr(v)) for n, v in constants.items())), tuple(sorted(absent)))
        if key not in self._made:
            parser = FunctionParser(self.source, self._names, restricted=self._restricted)
            self._made[key] = parser.parse(self.node, private=self._private, constants=constants, absent=absent)
        return self._made[key]


def _annotation_kind(evaluator: FunctionParser, node: ast.expr | None) -> type | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return None
    target = node.func if isinstance(node, ast.Call) else node
    if not isinstance(target, (ast.Attribute, ast.Name)):
        return None
    try:
        value = evaluator.eval(target)
    except ParseError:
        return None
    from .values import optional

    if isinstance(value, ConstexprAnnotation):
        return ConstexprAnnotation
    return OptionalAnnotation if value is optional else None


def jit(
    func: Callable[..., Any] | None = None, private: bool = False, check_well_formed: bool = True,
    is_stir: bool = False, persistent: bool = False,
) -> Any:  # fmt: skip
    """Decorator: a kernel with ``constexpr`` parameters, parsed when ``specialize`` gives their values."""

    def decorate(f: Callable[..., Any], depth: int = 2) -> JitKernel:
        source, node = source_of(f)
        return JitKernel(source, node, captured(f, depth), private=private)

    return decorate if func is None else decorate(func, 3)
