"""Reading and writing the lanes of an operand: registers of the thread, or vector accesses to memory."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...ir import Expr
from ...ptx.target import target_has
from ..context import CallContext, Operand
from ..program import Memory, Node, Temp, Word, instruction
from ..program import Operand as Value
from ..sharing.holders import Held
from ..sharing.work import Work, aligned_axes, region_coords
from .accesses import access
from .lanes import Lanes
from .recipes import SINGLE

Array = np.ndarray


def widest_access(c: CallContext, o: Operand) -> int:
    """Bytes of the widest access to the operand's memory (PTX ISA, ld: 32 bytes for global memory on sm_100 only)."""
    return 32 if o.root.space == "global" and target_has(c.target, "sm_100") else 16


def access_width(c: CallContext, o: Operand, lanes: int) -> int:
    """Bytes of each access to ``lanes`` neighbouring elements of the operand."""
    return min(lanes * o.bits // 8, widest_access(c, o))


def lane_elements(work: Work, o: Operand) -> Array:
    """(threads, steps, lanes) element numbers of the operand, -1 for none."""
    return work.of(o).reshape(len(work.threads), work.steps, work.lanes)


def is_spread(elements: Array) -> bool:
    """Whether all lanes of every step are one element."""
    return bool((elements == elements[..., :1]).all())


def misplaced(elements: Array) -> str | None:
    """None if the lanes of every step are consecutive elements that begin at a multiple of their number."""
    lanes = elements.shape[-1]
    first = elements[..., :1]
    used = first >= 0
    bad = used & ((elements != first + np.arange(lanes)) | (first % lanes != 0))
    if not bad.any():
        return None
    t, s, _ = (int(i) for i in np.argwhere(bad)[0])
    return f"a thread's {lanes} elements are not a group: {[int(e) for e in elements[t, s]]}"


def register_bytes(work: Work, o: Operand, where: Held) -> list[int] | str:
    """The byte of the operand's registers for each slot, the same in all threads, or why there is none."""
    elements = work.of(o)
    if o.root.word_bits == 64 != o.bits:
        return f"'{o.name}' has elements of {o.bits} bits in registers of 64"
    byte = where.find(work.threads[:, None], elements)
    used = elements >= 0
    bad = used & (byte < 0)
    if bad.any():
        t, k = (int(i) for i in np.argwhere(bad)[0])
        return f"thread {int(work.threads[t])} needs element {int(elements[t, k])} of '{o.name}', but doesn't hold it"
    out = []
    for k in range(elements.shape[1]):
        mine = np.unique(byte[used[:, k], k])
        if len(mine) > 1:
            return f"threads hold their element of slot {k} of '{o.name}' in different registers ({mine[0]} and {mine[1]})"
        out.append(int(mine[0]) if len(mine) else 0)
    return out


@dataclass
class Port:
    """One operand of an element-wise call: how its lanes are read and written.

    ``kept``: register numbers whose values must be saved first, since the result overwrites them.
    """

    c: CallContext
    o: Operand
    work: Work
    nodes: list[Node]
    where: Held | None
    bytes: list[int] = field(default_factory=list)
    spread: bool = False
    copies: dict[Word, Temp] = field(default_factory=dict)
    halves: dict[int, tuple[Temp, Temp]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.where is not None:
            found = register_bytes(self.work, self.o, self.where)
            assert not isinstance(found, str)
            self.bytes = found
        else:
            self.spread = is_spread(lane_elements(self.work, self.o))

    def emit(self, opcode: str, *operands: Value) -> None:
        self.nodes.append(instruction(opcode, *operands))

    # -- reading ---------------------------------------------------------------------------------------------------

    def load(self, step: int) -> Lanes:
        made = Lanes(self.o.dtype, self.work.lanes, self.nodes)
        if self.where is not None:
            mine = [*self.bytes[step * made.count : (step + 1) * made.count], -1]
            for k in range(made.count):
                self._from_register(made, k, mine[k], mine[k + 1])
        elif self.spread:
            register = Temp(SINGLE[self.o.bits])
            opcode = access("ld", self.o.root.space, self.o.bits // 8, self.o.bits)
            self.emit(opcode, register, self._at(step, 0))
            made.singles = [register] * made.count
        else:
            self._from_memory(made, step)
        return made

    def snapshot(self) -> None:
        """Copy the operand's registers, which the call will overwrite."""
        bits = self.o.root.word_bits
        for index in sorted({b * 8 // bits for b in self.bytes}):
            word = Word(self.o.root, index)
            self.copies[word] = Temp(f"b{bits}")
            self.emit(f"mov.b{bits}", self.copies[word], word)

    def _word(self, byte: int) -> Value:
        word = Word(self.o.root, byte * 8 // self.o.root.word_bits)
        return self.copies.get(word, word)

    def _from_register(self, made: Lanes, k: int, byte: int, after: int) -> None:
        """Lane k, at ``byte`` of the registers; the next lane is at ``after`` (-1: there is none)."""
        bits = self.o.bits
        if bits >= 32:
            made.singles[k] = self._word(byte)
            return
        if bits == 4:  # up to a register, in order by a condition
            if k % 8 == 0:
                word = self._word(byte)
                if byte % 4:
                    part = Temp("b32")
                    self.emit("shr.u32", part, word, byte % 4 * 8)
                    word = part
                made.set_word(k, word)
            return
        size, index = bits // 8, k // 2
        if k % 2 and made.pairs[index] is not None:
            return
        if k % 2 == 0 and byte % (2 * size) == 0 and after == byte + size:
            made.pairs[index] = self._word(byte) if bits == 16 else self._half(byte)
            return
        if bits == 16:
            made.singles[k] = self._half(byte)
        else:
            half = self._half(byte)
            if byte % 2:
                high = Temp("b16")
                self.emit("shr.b16", high, half, 8)
                half = high
            made.singles[k] = half

    def _half(self, byte: int) -> Temp:
        """The 16-bit half of a register at a byte."""
        index = byte // 4
        if index not in self.halves:
            low, high = Temp("b16"), Temp("b16")
            self.emit("mov.b32", (low, high), self._word(byte))
            self.halves[index] = (low, high)
        return self.halves[index][byte % 4 // 2]

    def _at(self, step: int, lane: int) -> Memory:
        return Memory(self.o.root, self._offset(step * self.work.lanes + lane))

    def _offset(self, slot: int) -> Expr:
        axes = aligned_axes(self.o, self.work.extents)
        coords = self.work.coords(slot)
        assert axes is not None and coords is not None
        return self.c.resolve(self.o.storage.byte_offset(self.o.buffer, region_coords(self.o, axes, coords)))

    def _from_memory(self, made: Lanes, step: int) -> None:
        width = access_width(self.c, self.o, made.count)
        per_access = width * 8 // self.o.bits
        for first in range(0, made.count, per_access):
            at = self._at(step, first)
            opcode = access("ld", self.o.root.space, width, self.o.bits)
            if width < 4:
                register = Temp("b32" if self.o.bits == 4 else "b16")
                self.emit(opcode, register, at)
                if self.o.bits == 4:
                    made.set_word(first, register)
                elif per_access == 2:
                    made.pairs[first // 2] = register
                else:
                    made.singles[first] = register
                continue
            bits = max(32, self.o.bits)
            words = tuple(Temp(f"b{bits}") for _ in range(width * 8 // bits))
            self.emit(opcode, words if len(words) > 1 else words[0], at)
            for k, word in enumerate(words):
                self._place_word(made, first + k * bits // self.o.bits, word)

    def _place_word(self, made: Lanes, lane: int, word: Value) -> None:
        if self.o.bits >= 32:
            made.singles[lane] = word
        elif self.o.bits == 4:
            made.set_word(lane, word)
        elif self.o.bits == 16:
            made.pairs[lane // 2] = word
        else:
            low, high = Temp("b16"), Temp("b16")
            self.emit("mov.b32", (low, high), word)
            made.pairs[lane // 2 : lane // 2 + 2] = [low, high]

    # -- writing ---------------------------------------------------------------------------------------------------

    def into(self, step: int, lane: int) -> Value | None:
        """The register that lane of a step is, if it fills it."""
        if self.where is None or self.o.bits < 32:
            return None
        return Word(self.o.root, self.bytes[step * self.work.lanes + lane] * 8 // self.o.bits)

    def into_pair(self, step: int, pair: int) -> Value | None:
        """The register that a pair of lanes of a step fills."""
        if self.where is None or self.o.bits != 16:
            return None
        low, high = (self.bytes[step * self.work.lanes + 2 * pair + j] for j in (0, 1))
        return Word(self.o.root, low // 4) if low % 4 == 0 and high == low + 2 else None

    def store(self, step: int, value: Lanes) -> None:
        if self.where is not None:
            self._to_registers(step, value)
        else:
            self._to_memory(step, value)

    def _to_registers(self, step: int, value: Lanes) -> None:
        bits = self.o.bits
        lane = 0
        per_word = max(1, 32 // bits)
        while lane < value.count:
            byte = self.bytes[step * self.work.lanes + lane]
            word = Word(self.o.root, byte * 8 // self.o.root.word_bits)
            mine = self.bytes[step * self.work.lanes + lane : step * self.work.lanes + lane + per_word]
            whole = byte % 4 == 0 and mine == [byte + j * bits // 8 for j in range(per_word)] and lane % per_word == 0
            whole = whole and lane + per_word <= value.count
            if whole:
                made = value.single(lane) if bits == 64 else value.word(lane)
                if made != word:
                    self.emit(f"mov.{'f' if isinstance(made, float) else 'b'}{max(32, bits)}", word, made)
                lane += per_word
                continue
            if bits == 4:  # a part of a register, in order by a condition
                count = value.count - lane
                self.emit("bfi.b32", word, value.word(lane), word, byte % 4 * 8, count * bits)
                return
            wide, part = Temp("b32"), value.single(lane)
            self.emit("mov.b32", wide, (part, part))
            self.emit("bfi.b32", word, wide, word, byte % 4 * 8, bits)
            lane += 1

    def _to_memory(self, step: int, value: Lanes) -> None:
        width = access_width(self.c, self.o, value.count)
        per_access = width * 8 // self.o.bits
        opcode = access("st", self.o.root.space, width, self.o.bits)
        for first in range(0, value.count, per_access):
            at = self._at(step, first)
            if width < 4:
                narrow = value.word if self.o.bits == 4 else value.single
                register = value.pair(first // 2) if per_access == 2 and self.o.bits == 8 else narrow(first)
                self.emit(opcode, at, self._held(register))
                continue
            each = max(1, 32 // self.o.bits)
            count = width * 8 // max(32, self.o.bits)
            take = value.single if self.o.bits == 64 else value.word
            words = tuple(self._held(take(first + k * each)) for k in range(count))
            self.emit(opcode, at, words if len(words) > 1 else words[0])

    def _held(self, value: Value) -> Value:
        """The value in a register (stores take no immediates)."""
        if not isinstance(value, (int, float)):
            return value
        register = Temp(SINGLE[self.o.bits])
        self.emit(f"mov.f{self.o.bits}" if isinstance(value, float) else f"mov.{SINGLE[self.o.bits]}", register, value)
        return register
