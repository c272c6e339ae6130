"""``gemm``: D = alpha * A·B + beta * C, its shape and its elements by number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir import FloatImm, IntImm
from .context import CallContext

Array = np.ndarray


@dataclass(frozen=True)
class Product:
    """A[m, k] · B[k, n]; with ``transposed_a`` A is stored as [k, m], with ``transposed_b`` B as [n, k]."""

    m: int
    n: int
    k: int
    transposed_a: bool
    transposed_b: bool

    def a_element(self, row: Array, depth: Array) -> Array:
        """Number of A's element."""
        return depth * self.m + row if self.transposed_a else row * self.k + depth

    def b_element(self, depth: Array, column: Array) -> Array:
        """Number of B's element."""
        return column * self.k + depth if self.transposed_b else depth * self.n + column

    def d_element(self, row: Array, column: Array) -> Array:
        """Number of D's element, and of C's."""
        return row * self.n + column


def plain(value: Any) -> Any:
    """A number from a constant; other expressions as they are."""
    return value.value if isinstance(value, (IntImm, FloatImm)) else value


def is_number(value: Any, number: int) -> bool:
    """Whether a factor is this constant (an expression is none, and comparing it would make another)."""
    return isinstance(value, (bool, int, float)) and value == number


def uses_addend(c: CallContext) -> bool:
    """Whether C is looked at: unless ``beta`` is the constant 0."""
    return not is_number(plain(c.call.operand("beta")), 0)


def product_of(c: CallContext) -> Product | str:
    """The product of a ``gemm``, or why the shapes don't make one.  With ``beta`` = 0 C isn't looked at."""
    shapes = {}
    for name in ("D", "A", "B", "C") if uses_addend(c) else ("D", "A", "B"):
        shape = _matrix(c.operands[name].extents)
        if shape is None:
            return f"'{name}' has extents {list(c.operands[name].extents)}, which are no matrix"
        shapes[name] = shape
    ta, tb = (bool(plain(c.call.operand(f"transpose_{x}"))) for x in "AB")
    m, k = reversed(shapes["A"]) if ta else shapes["A"]
    depth, n = reversed(shapes["B"]) if tb else shapes["B"]
    if depth != k or shapes["D"] != (m, n) or shapes.get("C", (m, n)) != (m, n):
        return ", ".join(f"{name} is {list(shape)}" for name, shape in shapes.items())
    return Product(m, n, k, ta, tb)


def _matrix(extents: tuple[int, ...]) -> tuple[int, int] | None:
    """Rows and columns: the last two extents if those before are 1, else the two that exceed 1."""
    if len(extents) >= 2 and all(e == 1 for e in extents[:-2]):
        return extents[-2], extents[-1]
    big = [e for e in extents if e != 1]
    return (big[0], big[1]) if len(big) == 2 else None
