"""Passes over modules: each applies to the PrimFuncs and leaves other functions alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ..errors import IRError
from .function import IRModule, PrimFunc
from .node import replace


@dataclass(frozen=True)
class PassContext:
    """Settings for passes, current inside a ``with`` block.

    ``config`` is read by passes by key; ``instruments`` are called as ``f(pass_name, module)`` after each pass.
    """

    config: dict[str, Any] = field(default_factory=dict)
    disabled: frozenset[str] = frozenset()
    instruments: tuple[Callable[[str, IRModule], None], ...] = ()

    @staticmethod
    def current() -> PassContext:
        """The innermost context, or an empty one."""
        stack = _STACK.get()
        return stack[-1] if stack else PassContext()

    def __enter__(self) -> PassContext:
        _STACK.set((*_STACK.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _STACK.set(_STACK.get()[:-1])


_STACK: ContextVar[tuple[PassContext, ...]] = ContextVar("pass_contexts", default=())


@dataclass(frozen=True)
class ModulePass:
    """A named function from module to module."""

    name: str
    transform: Callable[[IRModule], IRModule]

    def __call__(self, module: IRModule | PrimFunc) -> IRModule:
        """The transformed module (a bare function is put into one); the module itself if the pass is disabled."""
        if isinstance(module, PrimFunc):
            module = IRModule.from_func(module)
        context = PassContext.current()
        if self.name in context.disabled:
            return module
        result = self.transform(module)
        for instrument in context.instruments:
            instrument(self.name, result)
        return result


def prim_func_pass(name: str) -> Callable[[Callable[[PrimFunc, IRModule, PassContext], PrimFunc]], ModulePass]:
    """Make a module pass of a function ``(func, module, context) -> func`` on PrimFuncs."""

    def wrap(transform: Callable[[PrimFunc, IRModule, PassContext], PrimFunc]) -> ModulePass:
        def run(module: IRModule) -> IRModule:
            context = PassContext.current()
            functions = {}
            for key, func in module.functions.items():
                new = transform(func, module, context) if isinstance(func, PrimFunc) else func
                if isinstance(func, PrimFunc) and not isinstance(new, PrimFunc):
                    raise IRError(f"pass '{name}' returned a {type(new).__name__} for function '{key}'")
                functions[key] = new
            if all(functions[k] is f for k, f in module.functions.items()):
                return module
            return replace(module, functions=functions)

        return ModulePass(name, run)

    return wrap


def Sequential(passes: Sequence[ModulePass], name: str = "sequential") -> ModulePass:
    """The passes one after the other, as one pass."""

    def run(module: IRModule) -> IRModule:
        for p in passes:
            module = p(module)
        return module

    return ModulePass(name, run)
