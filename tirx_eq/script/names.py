"""The names of a kernel's source: its own scopes, then what it closes over, then a list of Python's builtins."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..ir import IntImm


def host_range(*bounds: Any) -> range:
    """Python's range; constants of the IR are numbers here."""
    return range(*(int(b) if isinstance(b, IntImm) else b for b in bounds))


#: Python builtins that a kernel may use on host values.
BUILTINS: dict[str, Any] = {
    name: getattr(builtins, name)
    for name in (
        "abs", "all", "any", "bin", "bool", "chr", "dict", "divmod", "enumerate", "filter", "float", "frozenset",
        "getattr", "hasattr", "hex", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max", "min",
        "next", "oct", "ord", "pow", "print", "repr", "reversed", "round", "set", "slice", "sorted", "str",
        "sum", "tuple", "type", "zip", "ValueError", "TypeError", "RuntimeError", "AssertionError", "KeyError",
        "IndexError", "object",
    )
}  # fmt: skip
BUILTINS["range"] = host_range


class Scope:
    """Names in nested frames, innermost last; ``outside`` is what the function closes over."""

    def __init__(self, outside: Mapping[str, Any]) -> None:
        self.frames: list[dict[str, Any]] = [{}]
        self.outside = outside

    def lookup(self, name: str) -> Any:
        """The value of a name; KeyError if there is none."""
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        if name in self.outside:
            return self.outside[name]
        return BUILTINS[name]

    def define(self, name: str, value: Any) -> None:
        self.frames[-1][name] = value

    @contextmanager
    def frame(self) -> Iterator[None]:
        """A body whose names end with it."""
        self.frames.append({})
        try:
            yield
        finally:
            self.frames.pop()

    def names(self) -> list[str]:
        return [*(n for f in self.frames for n in f), *self.outside, *BUILTINS]

    def snapshot(self) -> Scope:
        """A scope that sees the same frames as they are, for what is evaluated later."""
        made = Scope(self.outside)
        made.frames = list(self.frames)
        return made
