"""``SwizzleLayout``: the XOR swizzle of flat memory addresses.

With ``M = per_element``, ``B = swizzle_len``, ``S = atom_len`` (all counts of bits) and address m:

* ``swizzle_inner``: bits [M+S, M+S+B) are XORed into bits [M, M+B): the row number into the column, as hardware does;
* otherwise the other way round: bits [M, M+B) are XORed into bits [M+S, M+S+B).

``S >= B`` keeps sources and targets apart, so the swizzle is its own inverse and a bijection on each period of
``2**(M+S+B)`` elements.  ``B = 0`` is the identity.  In CuTe's notation ``Swizzle<B, M, S>`` is the inner form.
A bare SwizzleLayout admits a buffer of any size; its ``size`` is one period.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..ir.node import node
from .axis import Axis
from .base import Layout
from .tile import flatten
from .value import Value, as_value, xor

if TYPE_CHECKING:
    import numpy as np

#: address bits that a swizzle may reach: those of a non-negative 64-bit integer, less one
MOST_BITS = 62


@node("layout.SwizzleLayout")
class SwizzleLayout(Layout):
    """See the module text; the three counts are in bits of the element address."""

    per_element: int
    swizzle_len: int
    atom_len: int
    swizzle_inner: bool = True

    def __post_init__(self) -> None:
        for name in ("per_element", "swizzle_len", "atom_len"):
            value = as_value(getattr(self, name), name)
            if not isinstance(value, int) or value < 0:
                raise LayoutError(f"SwizzleLayout: {name} must be a number and at least 0, got {value}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "swizzle_inner", bool(self.swizzle_inner))
        if self.per_element + self.swizzle_len + self.atom_len > MOST_BITS:
            raise LayoutError(
                f"SwizzleLayout({self.per_element}, {self.swizzle_len}, {self.atom_len}): addresses have at most "
                f"{MOST_BITS} bits"
            )
        if self.atom_len < self.swizzle_len:
            raise LayoutError(
                f"SwizzleLayout: atom_len ({self.atom_len}) must be at least swizzle_len ({self.swizzle_len}), "
                "or source and target bits overlap and the map isn't its own inverse"
            )

    @property
    def source_mask(self) -> int:
        """The address bits that are read."""
        ones = (1 << self.swizzle_len) - 1
        return ones << (self.per_element + self.atom_len if self.swizzle_inner else self.per_element)

    @property
    def target_mask(self) -> int:
        """The address bits that are changed."""
        ones = (1 << self.swizzle_len) - 1
        return ones << (self.per_element if self.swizzle_inner else self.per_element + self.atom_len)

    @property
    def period(self) -> int:
        """Elements after which the pattern repeats."""
        return 1 << (self.per_element + self.swizzle_len + self.atom_len)

    def size(self, axis: Any = None) -> int:
        return self.period if axis is None or Axis.get(axis).name == "m" else 1

    def axes(self) -> tuple[str, ...]:
        return ("m",)

    def is_swizzle(self) -> bool:
        return True

    def is_constant(self) -> bool:
        return True

    def permute(self, m: Value) -> Value:
        """The swizzled address of address ``m``; its own inverse."""
        if self.swizzle_len == 0:
            return m
        if isinstance(m, int):
            return m ^ self._phase(m)
        picked = as_value(m & self.source_mask)
        shift = as_value(picked >> self.atom_len if self.swizzle_inner else picked << self.atom_len)
        return xor(m, shift)

    def _phase(self, m: int) -> int:
        picked = m & self.source_mask
        return picked >> self.atom_len if self.swizzle_inner else picked << self.atom_len

    def permute_array(self, m: np.ndarray) -> np.ndarray:
        """:meth:`permute` of every element of an int64 array."""
        if self.swizzle_len == 0:
            return m
        picked = m & self.source_mask
        return m ^ (picked >> self.atom_len if self.swizzle_inner else picked << self.atom_len)

    def _coordinates(self, coord: Sequence[Value], shape: Sequence[Value] | None) -> dict[str, Value]:
        if shape is not None:
            return {"m": self.permute(flatten(coord, shape))}
        if len(coord) != 1:
            raise LayoutError(f"apply: a bare swizzle takes one index, got {len(coord)}", hint="give shape=")
        return {"m": self.permute(coord[0])}

    def evaluate(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        import numpy as np

        return {"m": self.permute_array(np.asarray(flat, dtype=np.int64))}

    def script(self, prefix: str = "Tx") -> str:
        dot = f"{prefix}." if prefix else ""
        return f"{dot}SwizzleLayout({self.arguments()})"

    def arguments(self) -> str:
        """The constructor arguments as text; ``swizzle_inner`` only when it isn't the default."""
        inner = "" if self.swizzle_inner else ", swizzle_inner=False"
        return f"{self.per_element}, {self.swizzle_len}, {self.atom_len}{inner}"

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": "swizzle", "per_element": self.per_element, "swizzle_len": self.swizzle_len,
            "atom_len": self.atom_len, "swizzle_inner": self.swizzle_inner,
        }  # fmt: skip

    def __repr__(self) -> str:
        return self.script(prefix="")

    def __str__(self) -> str:
        return self.script(prefix="T")
