"""What a variant is."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from ...errors import LoweringError
from ...prove.verdict import Verdict
from ..context import CallContext, Operand
from ..equations.movement import movement
from ..indices import Indices
from ..machine import Price
from ..program import Block, Word

#: Proves that a lowering does what its call means.
Equation = Callable[[CallContext, Block, Indices], Verdict]


@dataclass(frozen=True)
class Variant:
    """One way to execute a tile primitive.

    ``parameters`` names the e-node's arguments after the call number; ``price`` and ``emit`` get them as a tuple.
    ``config`` are the keys of the call's config that it reads; ``show`` spells the parameters for reports; ``equation``
    is what the emitted program is proved by.  ``shares`` are things that several calls may have in common and that are paid
    once for the kernel, each with its price in cycles.
    """

    node: str
    parameters: tuple[str, ...]
    price: Callable[[CallContext, tuple[int, ...]], Price]
    emit: Callable[[CallContext, tuple[int, ...]], Block]
    config: tuple[str, ...] = ()
    show: Callable[[tuple[int, ...]], str] | None = None
    equation: Equation = movement
    shares: Callable[[CallContext, tuple[int, ...]], dict[Hashable, float]] | None = None

    def describe(self, values: Sequence[int]) -> str:
        """The node with its parameters, for reports: ``MemoryCopy(bytes=16)``."""
        if self.show is not None:
            return f"{self.node}({self.show(tuple(values))})"
        return f"{self.node}({', '.join(f'{p}={v}' for p, v in zip(self.parameters, values))})"


def word_of(o: Operand, byte: int) -> Word:
    """The register of a local operand that holds the byte at ``byte``."""
    return Word(o.root, byte * 8 // o.root.word_bits)


def constant_bytes(o: Operand) -> list[int]:
    """Byte offsets of a private register operand's elements, in order."""
    places = o.places({})
    if set(places) != {"byte"}:
        raise LoweringError(f"'{o.name}' is not held by each thread alone")
    return [int(b) for b in places["byte"]]
