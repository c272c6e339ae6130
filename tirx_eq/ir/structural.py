"""Structural equality and hashing: equal up to a one-to-one renaming of variables and buffers.

Variables and buffers correspond when they are defined at corresponding places: parameters, binds, declarations, loops,
scope ids, let, reducers, lambdas; with a buffer its pointer; with a buffer parameter its symbolic extents and strides.
Others are free: they must be identical, or, with ``map_free``, correspond one to one.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from .buffer import Buffer
from .exec_scope import ScopeIdDef
from .expr import CommReducer, IterVar, Let, Var
from .function import IRModule, PrimFunc
from .node import fields, is_node
from .op import Op
from .stmt import AllocBuffer, Bind, DeclBuffer, For
from .tile import LambdaExpr

#: Node class -> the fields that define variables or buffers.
DEFINING_FIELDS: dict[type, tuple[str, ...]] = {
    Bind: ("var",), For: ("loop_var",), Let: ("var",), IterVar: ("var",), LambdaExpr: ("vars",),
    CommReducer: ("lhs", "rhs"), AllocBuffer: ("buffer",), DeclBuffer: ("buffer",), ScopeIdDef: ("def_ids",),
}  # fmt: skip


class _Mismatch(Exception):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path or 'root'}: {reason}")


class _Comparer:
    def __init__(self, map_free: bool) -> None:
        self.map_free = map_free
        self.forward: dict[Any, Any] = {}
        self.backward: dict[Any, Any] = {}
        self.done: set[tuple[int, int]] = set()
        self.alive: list[Any] = []  # ids in `done` stay valid while the objects live

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
            self.entries(a, b, path)
            return
        if type(a) is not type(b):
            raise _Mismatch(path, f"{_describe(a)} against {_describe(b)}")
        if isinstance(a, Var):
            self.use(a, b, path)
        elif isinstance(a, Buffer):
            self.use(a, b, path)
        elif isinstance(a, PrimFunc):
            self.prim_func(a, b, path)
        elif is_node(a) and not isinstance(a, Op):
            self.node(a, b, path)
        elif not _equal_leaves(a, b):
            raise _Mismatch(path, f"{a!r} against {b!r}")

    def entries(self, a: dict[Any, Any], b: dict[Any, Any], path: str) -> None:
        """Dicts have the same keys, in any order (keys that are nodes go by their text)."""
        left, right = ({str(k): v for k, v in d.items()} for d in (a, b))
        if left.keys() != right.keys():
            raise _Mismatch(path, f"keys {sorted(left)} against {sorted(right)}")
        for key in sorted(left):
            self.same(left[key], right[key], f"{path}[{key}]")

    def node(self, a: Any, b: Any, path: str) -> None:
        pair = (id(a), id(b))
        if pair in self.done:  # expressions are DAGs; what was the same stays so, for correspondence only grows
            return
        defining = DEFINING_FIELDS.get(type(a), ())
        for name, x in fields(a):
            y = getattr(b, name)
            if name in defining:
                self.define(x, y, f"{path}.{name}")
            else:
                self.same(x, y, f"{path}.{name}")
        self.done.add(pair)
        self.alive += (a, b)

    def define(self, a: Any, b: Any, path: str) -> None:
        """A definition of a variable or buffer, or of several."""
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                raise _Mismatch(path, f"{len(a)} definitions against {len(b)}")
            for i, (x, y) in enumerate(zip(a, b)):
                self.define(x, y, f"{path}[{i}]")
        elif isinstance(a, Var) and isinstance(b, Var):
            self.same(a.ty, b.ty, f"{path}.ty")
            self.bind(a, b, path)
        elif isinstance(a, Buffer) and isinstance(b, Buffer):
            known = a in self.forward
            self.bind(a, b, path)
            if not known:
                self.buffer_fields(a, b, path)
        else:
            self.same(a, b, path)

    def buffer_fields(self, a: Buffer, b: Buffer, path: str) -> None:
        """The fields of corresponding buffers; the pointer is defined here if not before."""
        self.define_if_new(a.data, b.data, f"{path}.data")
        for name, x in fields(a):
            if name not in ("name", "data"):
                self.same(x, getattr(b, name), f"{path}.{name}")

    def define_if_new(self, a: Var, b: Var, path: str) -> None:
        if a in self.forward or b in self.backward:
            self.use(a, b, path)
        else:
            self.define(a, b, path)

    def use(self, a: Any, b: Any, path: str) -> None:
        """An occurrence that isn't a definition."""
        kind = "variable" if isinstance(a, Var) else "buffer"
        if a in self.forward or b in self.backward:
            if self.forward.get(a) is not b:
                raise _Mismatch(path, f"{kind} '{a.name}' doesn't correspond to '{b.name}'")
        elif self.map_free:
            self.define(a, b, path)
        elif a is not b:
            raise _Mismatch(path, f"free {kind} '{a.name}' against another, '{b.name}'")
        else:
            self.bind(a, b, path)

    def prim_func(self, a: PrimFunc, b: PrimFunc, path: str) -> None:
        if len(a.params) != len(b.params):
            raise _Mismatch(path, f"{len(a.params)} parameters against {len(b.params)}")
        for i, (x, y) in enumerate(zip(a.params, b.params)):
            self.define(x, y, f"{path}.params[{i}]")
        for i, (x, y) in enumerate(zip(a.params, b.params)):
            if (x in a.buffer_map) != (y in b.buffer_map):
                raise _Mismatch(f"{path}.params[{i}]", "a buffer parameter against a plain one")
            if x in a.buffer_map:
                here, mine, other = f"{path}.buffer_map[{x.name}]", a.buffer_map[x], b.buffer_map[y]
                for v, w in zip((*mine.shape, *mine.strides), (*other.shape, *other.strides)):
                    if isinstance(v, Var) and isinstance(w, Var):
                        self.define_if_new(v, w, f"{here}.shape")
                self.define(mine, other, here)
        self.same(a.attrs, b.attrs, f"{path}.attrs")
        self.same(a.ret_type, b.ret_type, f"{path}.ret_type")
        self.same(a.body, b.body, f"{path}.body")


def _equal_leaves(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return struct.pack("d", a) == struct.pack("d", b) or (a != a and b != b)
    return bool(a == b)


def _describe(value: Any) -> str:
    return type(value).__name__ if is_node(value) else repr(value)


def first_difference(a: Any, b: Any, *, map_free: bool | None = None) -> str | None:
    """Where two nodes first differ, as ``path: reason``; None if they are structurally equal.

    ``map_free`` lets free variables and buffers correspond; it is the default for functions and modules, where a free
    one is at most a pointer that nothing declares.
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


class _Hasher:
    """Digests, with variables and buffers counted in order of first appearance."""

    def __init__(self) -> None:
        self.order: dict[Any, bytes] = {}
        self.memo: dict[int, bytes] = {}
        self.alive: list[Any] = []

    def digest(self, value: Any) -> bytes:
        if isinstance(value, (list, tuple)):
            return _mix(b"seq", (self.digest(v) for v in value))
        if isinstance(value, dict):
            return _mix(b"map", (self.digest(v) for k in sorted(value, key=str) for v in (str(k), value[k])))
        if isinstance(value, (Var, Buffer)):
            return self.named(value)
        if isinstance(value, PrimFunc):
            buffers = tuple(value.buffer_map.get(p) for p in value.params)
            parts = (value.params, buffers, value.attrs, value.ret_type, value.body)
            return _mix(b"func", (self.digest(p) for p in parts))
        if is_node(value) and not isinstance(value, Op):
            if id(value) not in self.memo:
                key = type(value).type_key.encode()
                self.memo[id(value)] = _mix(key, (self.digest(x) for _, x in fields(value)))
                self.alive.append(value)
            return self.memo[id(value)]
        if isinstance(value, float):
            return _mix(b"float", (b"nan" if value != value else struct.pack("d", value),))
        return _mix(type(value).__name__.encode(), (str(value).encode(),))

    def named(self, value: Var | Buffer) -> bytes:
        if value not in self.order:
            place = str(len(self.order)).encode()
            self.order[value] = place  # a buffer's fields may not reach the buffer, but its number comes before theirs
            parts = [value.ty] if isinstance(value, Var) else [x for n, x in fields(value) if n != "name"]
            self.order[value] = _mix(b"name" + place, (self.digest(p) for p in parts))
        return self.order[value]


def _mix(kind: bytes, parts: Any) -> bytes:
    made = hashlib.blake2b(kind, digest_size=8)
    for p in parts:
        made.update(len(p).to_bytes(4, "little"))
        made.update(p)
    return made.digest()


def structural_hash(root: Any) -> int:
    """A hash that structurally equal nodes share, the same in every process.

    Free variables count as if they could be renamed.
    """
    return int.from_bytes(_Hasher().digest(root), "little", signed=True)
