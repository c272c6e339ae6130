"""``OpenLayout``: a layout that is left to the solver, written ``Tx.auto``.

It may say a part of the answer: the swizzle mode of a shared buffer, how many neighbours along the last dimension stay
together, the thread axis of a register buffer.  It has no meaning of its own, so every question about places is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import LayoutError
from ..ir.node import node
from .axis import THREAD_FACTORS
from .base import Layout
from .tile import TileLayout
from .value import Value

if TYPE_CHECKING:
    import numpy as np

#: Names of the swizzle modes that a partial layout may ask for (``ptx.swizzle_modes``, PTX ISA 9.7.16.4).
MODES = ("none", "32B", "64B", "128B", "128B_ATOM_32B")


@node("layout.OpenLayout")
class OpenLayout(Layout):
    """A layout to be chosen.  ``None`` leaves a property open too.

    ``swizzle``: one of :data:`MODES`.  ``contiguous``: at least this many elements, neighbours along the last dimension and
    beginning at a multiple of the number, stay neighbours in storage (1 asks for nothing).  ``thread_axis``: the axis on
    which the threads of a register buffer are counted (``laneid``, ``tid_in_wg``, ``tx``, …).

    ``through`` is not a wish but the meaning of a view: its flat element x is element ``through(x)`` of the buffer that it
    views (row-major numbers; of registers: thread times registers per thread, plus register).  None: element x is element x.
    """

    swizzle: str | None = None
    contiguous: int | None = None
    thread_axis: str | None = None
    through: TileLayout | None = None

    def __post_init__(self) -> None:
        if self.swizzle is not None:
            names = {m.lower(): m for m in MODES}
            given = str(self.swizzle).lower()
            if given not in names:
                raise LayoutError(f"auto: there is no swizzle mode '{self.swizzle}'", hint=f"one of {', '.join(MODES)}")
            object.__setattr__(self, "swizzle", names[given])
        if self.contiguous is not None and (not isinstance(self.contiguous, int) or self.contiguous < 1):
            raise LayoutError(f"auto: contiguous counts elements and must be at least 1, got {self.contiguous!r}")
        if self.thread_axis is not None:
            name = getattr(self.thread_axis, "name", self.thread_axis)
            if name not in THREAD_FACTORS:
                raise LayoutError(f"auto: '{name}' is no thread axis", hint=f"one of {', '.join(THREAD_FACTORS)}")
            object.__setattr__(self, "thread_axis", name)
        if self.through is not None:
            if not isinstance(self.through, TileLayout) or set(self.through.axes()) - {"m"} or self.through.replica:
                raise LayoutError("auto: through numbers the elements of the viewed buffer: a TileLayout on axis m alone")
            object.__setattr__(self, "through", None if self.through.is_trivial() else self.through)

    def __call__(
        self, swizzle: str | None = None, contiguous: int | None = None, thread_axis: Any = None, through: Any = None
    ) -> OpenLayout:
        """A partial layout: ``Tx.auto(swizzle="128B")``."""
        return OpenLayout(swizzle, contiguous, thread_axis, through)

    def permuted(self, shape: Sequence[Any], order: Sequence[int]) -> OpenLayout:
        """The open layout of a view with the dimensions of ``shape`` in another order."""
        from .algebra import permute_dims
        from .tile import default_layout

        base = self.through if self.through is not None else default_layout(shape)
        made = permute_dims(base, list(shape), list(order))
        assert isinstance(made, TileLayout)
        return OpenLayout(through=made)

    def _refuse(self, what: str) -> LayoutError:
        return LayoutError(f"{what}: the layout is left open (auto)", hint="te.solve(func) chooses it, te.compile too")

    def size(self, axis: Any = None) -> Value:
        raise self._refuse("size")

    def axes(self) -> tuple[str, ...]:
        raise self._refuse("axes")

    def _coordinates(self, coord: Sequence[Value], shape: Sequence[Value] | None) -> dict[str, Value]:
        raise self._refuse("apply")

    def evaluate(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        raise self._refuse("evaluate")

    def canonicalize(self) -> Layout:
        raise self._refuse("canonicalize")

    def span(self, axis: Any = None) -> Value:
        raise self._refuse("span")

    def storage(self) -> Layout:
        raise self._refuse("storage")

    def admits(self, shape: Sequence[Any]) -> bool:
        """Every shape: what is chosen will fit."""
        return True

    def is_swizzle(self) -> bool:
        raise self._refuse("is_swizzle")

    def is_trivial(self) -> bool:
        return False

    def is_constant(self) -> bool:
        return False

    def pack(self, num: int, axis: Any = "m") -> Layout:
        """Groups of ``num`` elements: a view of the same storage stays open."""
        return self._resized(lambda n: max(1, n // num), lambda w: w.pack(num))

    def unpack(self, num: int, axis: Any = "m") -> Layout:
        """Parts of elements: a view of the same storage stays open."""
        return self._resized(lambda n: n * num, lambda w: w.unpack(num))

    def _resized(self, count: Any, numbers: Any) -> OpenLayout:
        kept = None if self.contiguous is None else count(self.contiguous)
        return OpenLayout(self.swizzle, kept, self.thread_axis, None if self.through is None else numbers(self.through))

    def wishes(self) -> OpenLayout:
        """What is asked of the layout itself."""
        return OpenLayout(self.swizzle, self.contiguous, self.thread_axis)

    def arguments(self, prefix: str = "") -> str:
        """What is said, as keyword arguments."""
        parts = []
        if self.swizzle is not None:
            parts.append(f'swizzle="{self.swizzle}"')
        if self.contiguous is not None:
            parts.append(f"contiguous={self.contiguous}")
        if self.thread_axis is not None:
            parts.append(f'thread_axis="{self.thread_axis}"')
        if self.through is not None:
            parts.append(f"through={self.through.script(prefix)}")
        return ", ".join(parts)

    def script(self, prefix: str = "Tx") -> str:
        said = self.arguments(prefix)
        return f"{prefix}.auto" + (f"({said})" if said else "") if prefix else f"auto({said})" if said else "auto"

    def to_json(self) -> dict[str, Any]:
        through = None if self.through is None else self.through.to_json()
        said = {"swizzle": self.swizzle, "contiguous": self.contiguous, "thread_axis": self.thread_axis, "through": through}
        return {"kind": "auto", **{k: v for k, v in said.items() if v is not None}}

    def __repr__(self) -> str:
        return self.script(prefix="")

    def __str__(self) -> str:
        return self.script(prefix="T")


def is_open(layout: Any) -> bool:
    """Whether a buffer's layout is left to the solver."""
    return isinstance(layout, OpenLayout)


#: What ``Tx.auto`` is: everything open.
auto = OpenLayout()
