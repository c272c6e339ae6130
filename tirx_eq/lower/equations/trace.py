"""Symbolic execution of a lowering for all threads of a CTA at once: registers hold symbolic values, one per lane."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...errors import ProofError
from ...ir import dtype as dt
from ..code.accesses import access_bytes
from ..context import CallContext, Operand
from ..program import Block, If, Index, Instruction, Memory, Routine, Store, Temp, Word
from .movement import Points
from .scratch import Scratch
from .symbols import (
    BITS,
    FLOATS,
    FORMAT,
    HALVES,
    NUMPY,
    PRIMES,
    Sym,
    atom,
    choose,
    extreme,
    function,
    inverse,
    minus,
    negative,
    number,
    permuted,
    plus,
    rounded,
    same_format,
    times,
    unit_bits,
)  # fmt: skip

Array = np.ndarray


@dataclass(frozen=True)
class Raw:
    """Constant bits, of a format still to be told by who reads them."""

    bits: int
    width: int


Content = list[Sym] | Raw
#: (root name, thread, byte) of registers -> the (thread, byte) that a value is named after.
Owner = Callable[[str, Array, int], Array]


@dataclass
class ValueTrace:
    """Executes a block; ``written`` collects (operand root, key, value, mask) of memory, ``registers`` the registers."""

    c: CallContext
    points: Points
    regions: list[Operand]
    mask: Array
    owner: Owner
    registers: dict[Temp | Word, Content] = field(default_factory=dict)
    predicates: dict[Temp, Array] = field(default_factory=dict)
    written: list[tuple[str, Array, Sym, Array]] = field(default_factory=list)
    scalars: dict[str, Any] = field(default_factory=dict)
    scratch: Scratch = field(init=False)

    def __post_init__(self) -> None:
        self.scratch = Scratch(self.c.op, self.points.threads)

    @property
    def threads(self) -> Array:
        return np.arange(self.points.threads, dtype=np.int64)

    def run(self, block: Block) -> None:
        for node in block:
            if isinstance(node, If):
                outer = self.mask
                holds = (
                    self.predicates[node.condition]
                    if isinstance(node.condition, Temp)
                    else self.points.of(node.condition) != 0
                )
                self.mask = outer & holds
                self.run(node.then)
                self.mask = outer & ~holds
                self.run(node.orelse)
                self.mask = outer
            elif isinstance(node, Routine):
                self._routine(node)
            elif isinstance(node, Store):
                self._scalar(node)
            elif isinstance(node, Instruction):
                self._step(node)
            else:
                self._unknown(type(node).__name__)

    def _unknown(self, what: str) -> None:
        raise ProofError(f"the value equation of '{self.c.op}' doesn't know {what}")

    def _step(self, i: Instruction) -> None:
        parts = i.opcode.split(".")
        handler = _STEPS.get(parts[0])
        if handler is None:
            self._unknown(f"the instruction {i.opcode}")
            return
        handler(self, i, parts)

    def _routine(self, node: Routine) -> None:
        values = [self.value(a, FORMAT[node.source]) for a in node.arguments]
        fmt = FORMAT[node.target]
        if node.function == "cast":
            self.write(node.result, [rounded(v, fmt) for v in values])
        else:
            self.write(node.result, [rounded(function(node.function, *values), fmt)])

    def _scalar(self, node: Store) -> None:
        """A scalar operand of the call, put into a register by its expression."""
        name = node.memory.root.name
        self.scalars[name] = node.value
        fmt = FORMAT[node.dtype]
        self.registers[Word(node.memory.root, 0)] = [Sym(atom("scalar " + name), fmt, fmt)]

    # -- registers -------------------------------------------------------------------------------------------------

    def read(self, register: Any, fmt: str | None = None) -> list[Sym]:
        """The lanes of a register or of a number; their format must be ``fmt`` where that is given."""
        content = self.content(register, fmt)
        if isinstance(content, Raw):
            if fmt is None:
                raise ProofError(f"the value equation of '{self.c.op}': bits without a format")
            return _decode(content, fmt)
        if fmt is not None:
            wrong = [s.fmt for s in content if not same_format(s.fmt, fmt)]
            if wrong and not same_format(content[0].fmt, fmt):
                raise ProofError(f"the value equation of '{self.c.op}': a {wrong[0]} value is read as {fmt}")
            return [replace(s, fmt=fmt) if s.fmt != fmt and same_format(s.fmt, fmt) else s for s in content]
        return content

    def content(self, register: Any, fmt: str | None = None) -> Content:
        if isinstance(register, float):
            return Raw(int(np.float32(register).view(np.uint32)), 32)
        if isinstance(register, int):
            return Raw(register, BITS[fmt] if fmt else 32)
        if register in self.registers:
            return self.registers[register]
        if isinstance(register, Word):
            return self.initial(register)
        raise ProofError(f"the value equation of '{self.c.op}': a register is read before it is written")

    def initial(self, word: Word) -> list[Sym]:
        """What a register of an operand holds before the call: elements named by thread and byte."""
        dtype = self.dtype_at(word.array.name)
        bits = dt.storage_bits(dtype)
        lanes = []
        for j in range(word.array.word_bits // bits):
            at = word.index * word.array.word_bits + j * bits
            owner = self.owner(word.array.name, self.threads, at // 8)
            lanes.append(self.element(word.array.name, owner, at // unit_bits(bits), dtype))
        return lanes

    def element(self, root: str, thread: Array, byte: Any, dtype: str) -> Sym:
        """The value that a source element has by name: the byte of a thread's registers, or of memory (thread 0)."""
        fmt = FORMAT[dtype]
        place = np.asarray(thread, dtype=np.int64) << 40 | np.asarray(byte, dtype=np.int64)
        return Sym(atom(root, np.atleast_1d(place)), fmt, fmt)

    def dtype_at(self, root: str) -> str:
        """The dtype of the elements in a root: inputs first, for what is read."""
        for o in [*self.regions[1:], self.regions[0]]:
            if o.root.name == root:
                return o.dtype
        raise ProofError(f"the value equation of '{self.c.op}': '{root}' belongs to no operand")

    def write(self, register: Any, content: Content) -> None:
        if register == "|":
            return
        if isinstance(register, Word) and not self.mask.all():
            old, new = self.content(register), content
            if isinstance(new, Raw):
                new = _decode(new, old[0].fmt if not isinstance(old, Raw) else "u32")
            if isinstance(old, Raw):
                old = _decode(old, new[0].fmt)
            if len(old) == len(new):
                content = [choose(self.mask, a, b) for a, b in zip(new, old)]
        self.registers[register] = content

    def value(self, register: Any, fmt: str) -> Sym:
        """The (lowest) lane of an operand of an instruction on one value."""
        return self.read(register, fmt)[0]

    # -- memory ----------------------------------------------------------------------------------------------------

    def load(self, i: Instruction, parts: list[str]) -> None:
        at = i.operands[1]
        assert isinstance(at, Memory)
        if at.root.scratch:
            for register, first, _ in _pieces(parts, i.operands[0]):
                found = self.scratch.load(at.root, self.points.of(at.offset) + first, self.mask)
                (kind,) = (k for k in found if k != "wide")
                fmt, grid, tag, kept = kind
                self.registers[register] = [Sym(found[kind], fmt, grid, tag, found.get("wide"), kept)]
            return
        self._same_cta(at)
        dtype = self.dtype_at(at.root.name)
        bits = dt.storage_bits(dtype)
        unit = unit_bits(bits)
        offset = self.points.of(at.offset)
        for register, first, width in _pieces(parts, i.operands[0]):
            places = [(offset + first) * (8 // unit) + j // unit for j in range(0, 8 * width, bits)]
            self.registers[register] = [self.element(at.root.name, np.zeros_like(p), p, dtype) for p in places]

    def store(self, i: Instruction, parts: list[str]) -> None:
        at = i.operands[0]
        assert isinstance(at, Memory)
        if at.root.scratch:
            ((register, _, width),) = _pieces(parts, i.operands[1])
            value = self.read(register)[0]
            if BITS[value.fmt] != 8 * width:
                self._unknown(f"a value of {BITS[value.fmt]} bits in {width} bytes of scratch")
            r = np.broadcast_to(value.r, (2, self.points.threads))
            wide = {} if value.wide is None else {"wide": np.broadcast_to(value.wide, (2, self.points.threads))}
            kind = (value.fmt, value.grid, value.tag, value.kept)
            self.scratch.store(at.root, self.points.of(at.offset), {kind: r, **wide}, self.mask)
            return
        self._same_cta(at)
        target = next(o for o in self.regions if o.root.name == at.root.name)
        unit = unit_bits(target.bits)
        offset = self.points.of(at.offset)
        for register, first, width in _pieces(parts, i.operands[1]):
            lanes = self.read(register, FORMAT[target.dtype])
            for j in range(0, 8 * width, target.bits):
                place = (offset + first) * (8 // unit) + j // unit
                self.written.append((at.root.name, place, lanes[j // target.bits], self.mask))

    def _same_cta(self, at: Memory) -> None:
        """Memory of another CTA is that of the CTA that the operand names."""
        if all(at.root.address is not o.root.address for o in self.regions if o.root.name == at.root.name):
            raise ProofError(f"the value equation of '{self.c.op}': '{at.root.name}' is accessed in another CTA")

    def barrier(self, i: Instruction, parts: list[str]) -> None:
        first = i.operands[0]
        self.scratch.barrier(i, self.mask, self.points.of(first.expr) if isinstance(first, Index) else None)

    # -- moves -----------------------------------------------------------------------------------------------------

    def move(self, i: Instruction, parts: list[str]) -> None:
        target, source = i.operands[:2]
        width = int(parts[1][1:])
        if isinstance(target, tuple):
            self._unpack(target, source, width)
        elif isinstance(source, tuple):
            self._pack(target, source, width)
        elif isinstance(source, Index):
            self._unknown("an index as a value")
        elif isinstance(source, float) and width == 64:
            self.write(target, Raw(int(np.float64(source).view(np.uint64)), 64))
        else:
            content = self.content(source)
            self.write(target, replace(content, width=width) if isinstance(content, Raw) else list(content))

    def _unpack(self, target: tuple[Any, ...], source: Any, width: int) -> None:
        content = self.content(source)
        each = width // len(target)
        for k, register in enumerate(target):
            if isinstance(content, Raw):
                self.write(register, Raw(content.bits >> (k * each) & ((1 << each) - 1), each))
            else:
                lanes = each // BITS[content[0].fmt]
                if not lanes:
                    self.write(register, [replace(content[0], fmt=HALVES[k] + content[0].fmt)])
                    continue
                self.write(register, content[k * lanes : (k + 1) * lanes])

    def _pack(self, target: Any, source: tuple[Any, ...], width: int) -> None:
        each = width // len(source)
        contents = [self.content(r) for r in source]
        raw = [x for x in contents if isinstance(x, Raw)]
        if len(raw) == len(contents):
            bits = sum((x.bits & ((1 << each) - 1)) << (k * each) for k, x in enumerate(raw))
            self.write(target, Raw(bits, width))
            return
        fmt = next(x[0].fmt for x in contents if not isinstance(x, Raw))
        if fmt.startswith(HALVES[0]):
            self.write(target, [self._whole(*contents)])
            return
        lanes: list[Sym] = []
        for x in contents:
            mine = _decode(replace(x, width=each), fmt) if isinstance(x, Raw) else x
            wanted = each // BITS[fmt]
            lanes += (mine + [mine[0]] * wanted)[:wanted]
        self.write(target, lanes)

    def _whole(self, low: Content, high: Content) -> Sym:
        """The 64-bit value of which these are the halves."""
        if isinstance(low, Raw) or isinstance(high, Raw) or high[0].fmt != HALVES[1] + low[0].fmt.removeprefix(HALVES[0]):
            raise ProofError(f"the value equation of '{self.c.op}': two registers are joined that are no halves of one value")
        if (low[0].key() != high[0].key()).any():
            raise ProofError(f"the value equation of '{self.c.op}': halves of different values are joined")
        return replace(low[0], fmt=low[0].fmt.removeprefix(HALVES[0]))

    def shift_right(self, i: Instruction, parts: list[str]) -> None:
        target, source, amount = i.operands
        content = self.content(source)
        if isinstance(amount, Index):
            self._shift_by(target, content, self.points.of(amount.expr))
            return
        assert isinstance(amount, int)
        if isinstance(content, Raw):
            self.write(target, Raw(content.bits >> amount, content.width))
        else:
            self.write(target, content[amount // BITS[content[0].fmt] :])

    def _shift_by(self, target: Any, content: Content, amounts: Array) -> None:
        """A shift by as many bits as each thread has."""
        if isinstance(content, Raw):
            self._unknown("a constant shifted by a variable")
            return
        bits = BITS[content[0].fmt]
        steps = [int(a) for a in np.unique(amounts)]
        if any(a % bits or a // bits >= len(content) for a in steps):
            self._unknown(f"a shift of elements of {bits} bits by {steps}")
        made = content[steps[0] // bits :]
        for a in steps[1:]:
            made = [choose(amounts == a, x, y) for x, y in zip(content[a // bits :], made)]
        self.write(target, made)

    def shift_left(self, i: Instruction, parts: list[str]) -> None:
        target, source, amount = i.operands
        assert isinstance(amount, int)
        lane = self._byte(source)
        self.write(target, [number(0, lane.fmt)] * (amount // 8) + [lane])

    def keep_low(self, i: Instruction, parts: list[str]) -> None:
        """``and.b16`` with 0xFF: the low byte, zero above."""
        target, source, kept = i.operands
        if kept != 0xFF:
            self._unknown(f"a mask of {kept}")
        lane = self._byte(source)
        self.write(target, [lane, number(0, lane.fmt)])

    def _byte(self, register: Any) -> Sym:
        content = self.content(register)
        if isinstance(content, Raw):
            self._unknown("a constant byte put together at run time")
            raise AssertionError
        return content[0]

    def join(self, i: Instruction, parts: list[str]) -> None:
        """``or.b16`` of a low byte and a high byte."""
        target, low, high = i.operands
        self.write(target, [self.read(low)[0], self.read(high)[1]])

    def insert(self, i: Instruction, parts: list[str]) -> None:
        target, part, into, first, width = i.operands
        assert isinstance(first, int) and isinstance(width, int)
        content = list(self.read(into))
        new = self.read(part, content[0].fmt if isinstance(self.content(part), Raw) else None)
        bits = BITS[new[0].fmt]
        if BITS[content[0].fmt] != bits:
            raise ProofError(f"the value equation of '{self.c.op}': elements of {bits} bits are put among others")
        content[first // bits : (first + width) // bits] = new[: width // bits]
        self.write(target, content)

    def shuffle(self, i: Instruction, parts: list[str]) -> None:
        target, source, lane, _, members = i.operands
        if members != 0xFFFFFFFF or parts[2] != "bfly" or not isinstance(lane, int):
            self._unknown(i.opcode)
        warps = self.mask.reshape(-1, 32)
        if (warps.any(axis=1) & ~warps.all(axis=1)).any():
            raise ProofError(f"the value equation of '{self.c.op}': a shuffle is reached by part of a warp")
        assert isinstance(lane, int)
        content = self.read(source)
        self.write(target, [permuted(s, self.threads ^ lane) for s in content])

    # -- arithmetic ------------------------------------------------------------------------------------------------

    def convert(self, i: Instruction, parts: list[str]) -> None:
        to, source = (p.replace("ue8m0", "e8m0") for p in parts[-2:])
        if to.endswith("x2") and source == "f32":
            high, low = (self.value(r, "f32") for r in i.operands[1:3])
            self.write(i.operands[0], [rounded(s, to[:-2]) for s in (low, high)])
        elif source.endswith("x2"):
            lanes = self.read(i.operands[1], source[:-2])
            self.write(i.operands[0], [rounded(s, to[:-2]) for s in (lanes + lanes)[:2]])
        else:
            self.write(i.operands[0], [rounded(self.value(i.operands[1], source), to)])

    def arithmetic(self, i: Instruction, parts: list[str]) -> None:
        kind = parts[-1]
        lanes = 2 if kind.endswith("x2") else 1
        fmt = kind.removesuffix("x2")
        inputs = [self.read(r, fmt) for r in i.operands[1:]]
        made = []
        for k in range(lanes):
            made.append(rounded(_OPERATIONS[parts[0]](*(x[k] for x in inputs)), fmt))
        self.write(i.operands[0], made)

    def multiply(self, i: Instruction, parts: list[str]) -> None:
        """mma.sync, as PTX ISA 9.7.14.5 has it: the lane and register of every element.  Sums inside count as exact."""
        depth = int(parts[3].partition("k")[2])
        d_kind, a_kind, b_kind, _ = parts[-4:]
        d, a, b, start = i.operands
        warps = self.mask.reshape(-1, 32)
        if (warps.any(axis=1) & ~warps.all(axis=1)).any():
            raise ProofError(f"the value equation of '{self.c.op}': a product is reached by part of a warp")
        per = max(1, 32 // BITS[a_kind])
        i_row, k = np.indices((16, depth))
        left = self._lanes_of(a, a_kind)[
            :, 2 * (k // (4 * per)) + i_row // 8, k % per, :, i_row % 8 * 4 + k // per % 4
        ]  # 16, depth, 2, warps
        k, column = np.indices((depth, 8))
        right = self._lanes_of(b, b_kind)[:, k // (4 * per), k % per, :, column * 4 + k // per % 4]
        total = np.zeros((2, len(warps), 16, 8), dtype=np.uint64)
        for f, p in enumerate(PRIMES):
            x, y = left[:, :, f], right[:, :, f]
            for j in range(depth):
                total[f] += x[:, j].T[:, :, None] * y[j].T[:, None, :] % p
            total[f] %= p
        lane = self.threads % 32
        each = 2 if d_kind == "f16" else 1
        for r, register in enumerate(d if isinstance(d, tuple) else (d,)):
            before = self.read(start[r], d_kind)  # type: ignore[index]
            made = []
            for j in range(each):
                number = r * each + j
                mine = total[:, self.threads // 32, lane // 4 + 8 * (number // 2), 2 * (lane % 4) + number % 2]
                made.append(plus(Sym(mine, d_kind, d_kind), before[j] if len(before) > j else before[0]))
            self.write(register, [replace(s, fmt=d_kind, grid=d_kind) for s in made])

    def _lanes_of(self, registers: Any, kind: str) -> Array:
        """Residues of the elements in registers: (field, register, element, warp, lane)."""
        found = []
        for register in registers if isinstance(registers, tuple) else (registers,):
            lanes = [np.broadcast_to(s.key(), (2, len(self.mask))) for s in self.read(register, kind)]
            found.append(np.stack(lanes, axis=1))
        stacked = np.stack(found, axis=1)
        return stacked.reshape(*stacked.shape[:3], -1, 32)

    def compare(self, i: Instruction, parts: list[str]) -> None:
        target, left, right = i.operands
        assert isinstance(target, Temp)
        if not isinstance(left, Index) or right != 0 or parts[1] != "ne":
            self._unknown(i.opcode)
        assert isinstance(left, Index)
        self.predicates[target] = self.points.of(left.expr) != 0

    def select(self, i: Instruction, parts: list[str]) -> None:
        target, a, b, p = i.operands
        assert isinstance(p, Temp)
        fmt = next((x[0].fmt for x in (self.content(a), self.content(b)) if not isinstance(x, Raw)), None)
        fmt = fmt or self._chosen_format(parts[1])
        self.write(target, [choose(self.predicates[p], self.value(a, fmt), self.value(b, fmt))])

    def _chosen_format(self, kind: str) -> str:
        """Of two constants: the result's, where the primitive chooses between them."""
        mine = FORMAT[self.regions[0].dtype]
        if self.c.op == "select" and kind == f"b{max(16, BITS[mine])}":
            return mine
        return {"f32": "f32", "b64": "s64"}.get(kind, "s32")


def _pieces(parts: list[str], registers: Any) -> list[tuple[Any, int, int]]:
    """(register, first byte, bytes) of each register of a load or store."""
    width = access_bytes(".".join(parts))
    members = registers if isinstance(registers, tuple) else (registers,)
    each = width // len(members)
    return [(register, k * each, each) for k, register in enumerate(members)]


def _decode(raw: Raw, fmt: str) -> list[Sym]:
    """The constants in some bits."""
    out = []
    bits = BITS[fmt]
    for k in range(max(1, raw.width // bits)):
        part = raw.bits >> (k * bits) & ((1 << bits) - 1)
        value = np.array([part], dtype=f"u{max(8, bits) // 8}").view(dt.numpy_dtype(NUMPY[fmt]))[0]
        out.append(number(float(value) if fmt in FLOATS else int(value), fmt))
    return out


_OPERATIONS: dict[str, Callable[..., Sym]] = {
    "add": plus, "sub": minus, "mul": times, "fma": lambda a, b, c: plus(times(a, b), c),
    "mad": lambda a, b, c: plus(times(a, b), c), "div": lambda a, b: times(a, inverse(b)), "rcp": inverse,
    "max": lambda *a: extreme("max", *a), "min": lambda *a: extreme("min", *a), "neg": negative,
    "ex2": lambda a: function("exp2", a), "lg2": lambda a: function("log2", a), "sqrt": lambda a: function("sqrt", a),
}  # fmt: skip

_STEPS: dict[str, Callable[[ValueTrace, Instruction, list[str]], None]] = {
    "ld": ValueTrace.load, "st": ValueTrace.store, "mov": ValueTrace.move, "shr": ValueTrace.shift_right,
    "shl": ValueTrace.shift_left, "and": ValueTrace.keep_low, "or": ValueTrace.join, "bfi": ValueTrace.insert,
    "cvt": ValueTrace.convert, "shfl": ValueTrace.shuffle, "setp": ValueTrace.compare, "mma": ValueTrace.multiply,
    "selp": ValueTrace.select, "bar": ValueTrace.barrier,
    **dict.fromkeys(_OPERATIONS, ValueTrace.arithmetic),
}  # fmt: skip
