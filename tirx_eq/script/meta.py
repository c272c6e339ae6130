"""Classes of the host program whose objects live in a kernel: pools, barriers, pipelines, the user's own.

When such an object is bound to a name, the buffers and variables it made take their names from its fields
(``pool.buf`` becomes ``pool_buf``).
"""

from __future__ import annotations

from typing import Any

from ..ir import Buffer, BufferLoad, IterVar, Var
from .builder import current, maybe_current


def meta_class(cls: type[Any]) -> type[Any]:
    """Mark a class as one whose objects may hold buffers, scalars and variables of the kernel."""
    cls._is_meta_class = True
    original = cls.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        builder = maybe_current()
        if builder is not None:
            builder.forget_fresh()

    __init__.__doc__ = original.__doc__
    __init__.__wrapped__ = original  # type: ignore[attr-defined]
    cls.__init__ = __init__
    return cls


def is_meta_object(value: Any) -> bool:
    """Whether a value is an object of a meta class."""
    return getattr(type(value), "_is_meta_class", False)


def name_meta(prefix: str, value: Any, seen: set[int] | None = None) -> None:
    """Name what ``value`` made and that has no name yet after ``prefix`` and its fields."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    builder = current()
    if isinstance(value, BufferLoad):
        value = value.buffer
    if isinstance(value, (Buffer, Var)):
        builder.name(value, prefix)
    elif isinstance(value, IterVar):
        builder.name(value.var, prefix)
    elif is_meta_object(value):
        for field, inner in vars(value).items():
            name_meta(f"{prefix}_{field}", inner, seen)
    elif isinstance(value, (list, tuple)):
        for i, inner in enumerate(value):
            name_meta(f"{prefix}_{i}", inner, seen)
    elif isinstance(value, dict):
        for key, inner in value.items():
            part = key if isinstance(key, str) and key.isidentifier() else str(len(seen))
            name_meta(f"{prefix}_{part}", inner, seen)
