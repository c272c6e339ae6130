"""Single elements of an operand as values of the dtype in which they are combined."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ir import Expr
from ..context import Operand
from ..program import Index, Memory, Node, Temp, Word, instruction
from ..program import Operand as Value
from ..storage import Root
from .accesses import access
from .lanes import Lanes, convert
from .recipes import SINGLE


@dataclass(eq=False)
class ElementValues:
    """Reads elements of ``o`` and converts them to ``inner``; registers that ``overwritten`` has are copied first.

    Places in registers count bytes; for elements of 4 bits, which are converted in pairs, halves of bytes.
    """

    o: Operand
    inner: str
    nodes: list[Node]
    overwritten: Root | None = None
    halves: dict[int, tuple[Temp, Temp]] = field(default_factory=dict)
    pairs: dict[object, Lanes] = field(default_factory=dict)

    def in_register(self, byte: int) -> Value:
        """The element at a place of the thread's registers."""
        bits = self.o.bits
        if bits == 4:
            return self._half(byte // 8, byte % 8)
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

    def in_memory(self, at: Memory, number: Expr) -> Value:
        """The element at an address, which is the ``number``-th of its root: of 4 bits an odd one is in the upper half."""
        if self.o.bits == 4:
            byte, part = Temp("b32"), Temp("b32")
            self.nodes.append(instruction(access("ld", at.root.space, 1), byte, at))
            self.nodes.append(instruction("shr.u32", part, byte, Index(number % 2 * 4)))
            pair = Lanes(self.o.dtype, 2, self.nodes)
            pair.set_word(0, part)
            return convert(pair, self.inner, False).single(0)
        loaded = Temp(SINGLE[self.o.bits])
        self.nodes.append(instruction(access("ld", at.root.space, self.o.bits // 8, self.o.bits), loaded, at))
        return self._converted(loaded)

    def _half(self, index: int, place: int) -> Value:
        """The element of 4 bits at a place of the register number ``index``."""
        if index not in self.pairs:
            self.pairs[index] = Lanes(self.o.dtype, 8, self.nodes)
            self.pairs[index].set_word(0, Word(self.o.root, index))
        if (index, place // 2) not in self.pairs:
            pair = Lanes(self.o.dtype, 2, self.nodes, pairs=[self.pairs[index].pair(place // 2)])
            self.pairs[index, place // 2] = convert(pair, self.inner, False)
        return self.pairs[index, place // 2].single(place % 2)

    def _converted(self, raw: Value) -> Value:
        return convert(Lanes(self.o.dtype, 1, self.nodes, [raw]), self.inner, False).single(0)
