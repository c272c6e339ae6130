"""What all IR nodes share: a frozen dataclass with a registered type key.

One decorator, :func:`node`, turns a class into such a node.  Structural equality, hashing, JSON and traversal work from
the registered fields, so a new node needs no code in any of them.  ``Var`` and ``Buffer`` are declared with
``identity=True``: two of them are the same only if they are the same object.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")

# Expressions of real kernels are a few hundred nodes deep, and a visitor takes some five frames for each.  Calls between
# Python functions don't use the C stack, so this is safe.
sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))

#: type key -> class, filled by the decorator; JSON finds classes here.
NODE_TYPES: dict[str, type] = {}


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def node(key: str, *, identity: bool = False) -> Callable[[type[T]], type[T]]:
    """Make a class an IR node with the type key ``key``.

    ``identity=True`` keeps ``==`` and ``hash`` by object identity; other nodes compare by their fields, and their hash
    is computed once and kept, since expressions are shared DAGs.
    """

    def wrap(cls: type[T]) -> type[T]:
        made = dataclasses.dataclass(frozen=True, eq=not identity, repr="__repr__" not in cls.__dict__)(cls)
        made.type_key = key  # type: ignore[attr-defined]
        made.by_identity = identity  # type: ignore[attr-defined]
        names = tuple(f.name for f in dataclasses.fields(made) if f.compare)  # type: ignore[arg-type]
        made.field_names = names  # type: ignore[attr-defined]
        if not identity:

            def cached_hash(self: Any) -> int:
                found = self.__dict__.get("_hash")
                if found is None:
                    found = hash((key, *(_hashable(getattr(self, n)) for n in names)))
                    object.__setattr__(self, "_hash", found)
                return found

            made.__hash__ = cached_hash  # type: ignore[method-assign]
        NODE_TYPES[key] = made
        return made

    return wrap


def is_node(value: object) -> bool:
    """Whether ``value`` is an instance of a registered node class."""
    return hasattr(type(value), "type_key")


def fields(value: Any) -> Iterator[tuple[str, Any]]:
    """The (name, value) pairs of a node's fields, spans left out."""
    for name in type(value).field_names:
        yield name, getattr(value, name)


def replace(value: T, /, **changes: Any) -> T:
    """A copy of a node with some fields changed; the node itself if nothing differs."""
    if all(getattr(value, name) is new for name, new in changes.items()):
        return value
    return dataclasses.replace(value, **changes)  # type: ignore[type-var]


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(sorted((str(k), _hashable(v)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(_hashable(v) for v in value)
    return value
