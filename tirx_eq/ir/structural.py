"""Structural equality and hashing: equal up to a one-to-one renaming of variables and buffers.

Variables and buffers correspond when they are defined at corresponding places (parameters, binds, declarations, loops,
let).  Free ones must be identical unless ``map_free`` is set.
"""

from __future__ import annotations

from typing import Any

from .buffer import Buffer
from .expr import Var
from .function import IRModule, PrimFunc
from .node import fields, is_node


class _Mismatch(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'root'}: {reason}")


class _Comparer:
    def __init__(self, map_free: bool) -> None:
        self.map_free = map_free
        self.forward: dict[Any, Any] = {}
        self.backward: dict[Any, Any] = {}

    def bind(self, a: Any, b: Any, path: str) -> None:
        """Let ``a`` and ``b`` correspond from here on."""
        if self.forward.setdefault(a, b) is not b or self.backward.setdefault(b, a) is not a:
            raise _Mismatch(path, f"'{a.name}' already corresponds to another than '{b.name}'")

    def same(self, a: Any, b: Any, path: str) -> None:
        if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
            if len(a) != len(b):
                raise _Mismatch(path, f"{len(a)} members against {len(b)}")
            for i, (x, y) in enumerate(zip(a, b)):
                self.same(x, y, f"{path}[{i}]")
            return
        if isinstance(a, dict) and isinstance(b, dict):
            if set(map(str, a)) != set(map(str, b)):
                raise _Mismatch(path, f"keys {sorted(map(str, a))} against {sorted(map(str, b))}")
            other = {str(k): v for k, v in b.items()}
            for key in sorted(a, key=str):
                self.same(a[key], other[str(key)], f"{path}[{key}]")
            return
        if type(a) is not type(b):
            raise _Mismatch(path, f"{_describe(a)} against {_describe(b)}")
        if isinstance(a, Var):
            self.var(a, b, path)
        elif isinstance(a, Buffer):
            self.buffer(a, b, path)
        elif isinstance(a, PrimFunc):
            self.prim_func(a, b, path)
        elif is_node(a) and not hasattr(a, "tile"):
            for name, x in fields(a):
                self.same(x, getattr(b, name), f"{path}.{name}")
        elif a != b:
            raise _Mismatch(path, f"{a!r} against {b!r}")

    def var(self, a: Var, b: Var, path: str) -> None:
        if a in self.forward or b in self.backward:
            if self.forward.get(a) is not b:
                raise _Mismatch(path, f"variable '{a.name}' doesn't correspond to '{b.name}'")
            return
        if a is b and not self.map_free:
            return
        self.same(a.ty, b.ty, f"{path}.ty")
        self.bind(a, b, path)

    def buffer(self, a: Buffer, b: Buffer, path: str) -> None:
        if a in self.forward or b in self.backward:
            if self.forward.get(a) is not b:
                raise _Mismatch(path, f"buffer '{a.name}' doesn't correspond to '{b.name}'")
            return
        if a is b and not self.map_free:
            return
        self.bind(a, b, path)
        for name, x in fields(a):
            if name != "name":
                self.same(x, getattr(b, name), f"{path}.{name}")

    def prim_func(self, a: PrimFunc, b: PrimFunc, path: str) -> None:
        if len(a.params) != len(b.params):
            raise _Mismatch(path, f"{len(a.params)} parameters against {len(b.params)}")
        for i, (x, y) in enumerate(zip(a.params, b.params)):
            self.var(x, y, f"{path}.params[{i}]")
            if (x in a.buffer_map) != (y in b.buffer_map):
                raise _Mismatch(f"{path}.params[{i}]", "a buffer parameter against a plain one")
            if x in a.buffer_map:
                self.buffer(a.buffer_map[x], b.buffer_map[y], f"{path}.buffer_map[{x.name}]")
        self.same(a.attrs, b.attrs, f"{path}.attrs")
        self.same(a.ret_type, b.ret_type, f"{path}.ret_type")
        self.same(a.body, b.body, f"{path}.body")


def _describe(value: Any) -> str:
    return type(value).__name__ if is_node(value) else repr(value)


def first_difference(a: Any, b: Any, *, map_free: bool | None = None) -> str | None:
    """Where two nodes first differ, as ``path: reason``; None if they are structurally equal.

    ``map_free`` lets free variables and buffers correspond; it is the default for functions and modules, whose handles
    and undefined buffers are their own.
    """
    if map_free is None:
        map_free = isinstance(a, (PrimFunc, IRModule))
    try:
        _Comparer(map_free).same(a, b, "")
    except _Mismatch as m:
        return str(m)
    return None


def structural_equal(a: Any, b: Any, *, map_free: bool | None = None) -> bool:
    """Whether two nodes are equal up to renaming of variables and buffers (see :func:`first_difference`)."""
    return first_difference(a, b, map_free=map_free) is None


def structural_hash(root: Any) -> int:
    """A hash that structurally equal nodes share: variables and buffers count by order of first appearance."""
    order: dict[Any, int] = {}

    def go(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(go(v) for v in value)
        if isinstance(value, dict):
            if isinstance(root, PrimFunc) and value is root.buffer_map:
                return tuple(go(value[p]) for p in root.params if p in value)
            return tuple((str(k), go(value[k])) for k in sorted(value, key=str))
        if isinstance(value, (Var, Buffer)):
            if value in order:
                return ("ref", order[value])
            order[value] = len(order)
            if isinstance(value, Var):
                return ("var", order[value], go(value.ty))
            return ("buffer", order[value], *(go(x) for n, x in fields(value) if n != "name"))
        if is_node(value) and not hasattr(value, "tile"):
            return (type(value).type_key, *(go(x) for _, x in fields(value)))
        return str(value) if not isinstance(value, (int, float, bool, type(None))) else value

    return hash(go(root))
