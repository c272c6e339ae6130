"""Functions, modules and targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ..errors import IRError, Span
from .buffer import Buffer
from .expr import PointerType, Type, Var
from .node import node, replace
from .stmt import Stmt


@node("tirx.PrimFunc", identity=True)
class PrimFunc:
    """A kernel: ``params`` are variables; a buffer parameter is a handle whose buffer stands in ``buffer_map``."""

    params: tuple[Var, ...]
    buffer_map: dict[Var, Buffer]
    body: Stmt
    ret_type: Type | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False, repr=False, kw_only=True)

    def __post_init__(self) -> None:
        for var in self.buffer_map:
            if not any(var is p for p in self.params):
                raise IRError(f"buffer_map names '{var.name}', which is not a parameter")
            if not isinstance(var.ty, PointerType):
                raise IRError(f"parameter '{var.name}' has a buffer, so it must be a handle")

    @property
    def name(self) -> str:
        """The function's global symbol, ``main`` if it has none."""
        return str(self.attrs.get("global_symbol", "main"))

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        return replace(self, attrs={**self.attrs, key: value})

    def without_attr(self, key: str) -> PrimFunc:
        return replace(self, attrs={k: v for k, v in self.attrs.items() if k != key})

    def with_body(self, body: Stmt) -> PrimFunc:
        return replace(self, body=body)

    def script(self, *, syntax_sugar: bool = True, extra_config: Mapping[str, Any] | None = None) -> str:
        """Source that parses back to a structurally equal function.

        ``extra_config={"tirx.prefix": "Tx"}`` chooses the name under which the script namespace is imported.
        """
        from .printer import script

        return script(self, syntax_sugar=syntax_sugar, extra_config=extra_config)

    def __repr__(self) -> str:
        return f"PrimFunc({self.name}({', '.join(p.name for p in self.params)}))"


@node("ir.IRModule", identity=True)
class IRModule:
    """Functions by name, and attributes.  Functions that aren't PrimFuncs are kept as they are."""

    functions: dict[str, Any]
    attrs: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def from_func(func: PrimFunc) -> IRModule:
        return IRModule({func.name: func})

    def __getitem__(self, name: str) -> Any:
        if name not in self.functions:
            raise IRError(f"the module has no function '{name}'", hint=f"it has {', '.join(self.functions) or 'none'}")
        return self.functions[name]

    def script(self, **config: Any) -> str:
        """The scripts of its PrimFuncs, one after the other."""
        return "\n".join(f.script(**config) for f in self.functions.values() if isinstance(f, PrimFunc))


@node("target.Target")
class Target:
    """What code is made for: ``kind`` (``cuda``) and ``arch`` (``sm_100a``)."""

    kind: str = "cuda"
    arch: str = "sm_100a"
    attrs: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} -arch={self.arch}"
