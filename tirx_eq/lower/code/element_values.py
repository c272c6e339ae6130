"""Single elements of an operand as values of the dtype in which they are combined."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..context import Operand
from ..program import Memory, Node, Temp, Word, instruction
from ..program import Operand as Value
from ..storage import Root
from .accesses import access
from .lanes import Lanes, convert
from .recipes import SINGLE


@dataclass(eq=False)
class ElementValues:
    """Reads elements of ``o`` and converts them to ``inner``; registers that ``overwritten`` has are copied first."""

    o: Operand
    inner: str
    nodes: list[Node]
    overwritten: Root | None = None
    halves: dict[int, tuple[Temp, Temp]] = field(default_factory=dict)

    def in_register(self, byte: int) -> Value:
        """The element at a byte of the thread's registers."""
        bits = self.o.bits
        if bits >= 32:
            raw: Value = Word(self.o.root, byte * 8 // bits)
            if self.o.root == self.overwritten:
                saved = Temp(f"b{bits}")
                self.nodes.append(instruction(f"mov.b{bits}", saved, raw))
                raw = saved
            return self._converted(raw)
        index = byte // 4
        if index not in self.halves:
            self.halves[index] = (Temp("b16"), Temp("b16"))
            self.nodes.append(instruction("mov.b32", self.halves[index], Word(self.o.root, index)))
        half = self.halves[index][byte % 4 // 2]
        if bits == 8 and byte % 2:
            high = Temp("b16")
            self.nodes.append(instruction("shr.b16", high, half, 8))
            half = high
        return self._converted(half)

    def in_memory(self, at: Memory) -> Value:
        """The element at an address."""
        loaded = Temp(SINGLE[self.o.bits])
        self.nodes.append(instruction(access("ld", at.root.space, self.o.bits // 8, self.o.bits), loaded, at))
        return self._converted(loaded)

    def _converted(self, raw: Value) -> Value:
        return convert(Lanes(self.o.dtype, 1, self.nodes, [raw]), self.inner, False).single(0)
