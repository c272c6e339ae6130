"""The layout equation of a lowering: every destination element receives its source element, and nothing else is written.

The chosen program is executed symbolically for every thread: a register holds not a value but the names of the source
elements in it.  What reaches the destination is compared, as a set of (destination, source) pairs, with what the layouts
of the operands say, evaluated independently of the code that made the addresses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import LoweringError, ProofError
from ...ir import Var
from ...ir.index import evaluate_many, names
from ...prove.verdict import Enumeration, Verdict
from ...ptx.extents import resolved
from ...ptx.swizzle_modes import SWIZZLES
from ..code.accesses import access_bytes
from ..code.shared import shared_address
from ..conditions.tmem import TRANSFERS
from ..context import CallContext, Operand, evaluate_at
from ..indices import Indices
from ..program import Block, Box, Define, If, Index, Instruction, Memory, Pointer, Temp, Word, walk
from ..sharing.active import first_of_warps, thread_points
from .element_names import LANE, SPAN, Names, piece_units, unit_bits
from .scratch import Scratch
from .sizes import exact_sizes, note_sizes

Array = np.ndarray
#: Variables are not taken farther from 0, so that addresses made of them have 64 bits; less far, if sizes are then exact.
FARTHEST = (1 << 32, 1 << 12, 1 << 6)
#: Added to the names of a destination in tensor memory that is read before it is written.
KEPT = 1 << 62


@dataclass
class Points:
    """One assignment of everything but the thread id, for all threads of a CTA: variable name -> array or integer."""

    values: dict[str, Any]
    indices: Indices
    threads: int

    def of(self, e: Any) -> Array:
        """The simplified value of an expression, one per thread."""
        found = evaluate_many(self.indices.term(e), self.values)
        return np.broadcast_to(np.asarray(found, dtype=np.int64), (self.threads,))

    def by_var(self) -> dict[Var, Array]:
        sources = self.indices.scope.sources
        return {
            source: np.broadcast_to(np.asarray(self.values[name], dtype=np.int64), (self.threads,))
            for name, source in sources.items()
            if isinstance(source, Var) and name in self.values
        }


def points_of(c: CallContext, block: Block, indices: Indices) -> Iterator[Points]:
    """All threads, with CTA coordinates and loop variables at their lowest, middle and highest values.

    That the addresses are right at the values between follows from their validation, which covers all of them.  Of sizes known
    at run time see :mod:`sizes`.
    """
    scope = indices.scope
    used = {n for e in indices.roots(block) for n in names(scope.term(e))}
    used |= {n for o in c.operands.values() for r in o.region.region for n in names(scope.term(c.resolve(r.min)))}
    registers = {scope.name(v): r for r, v in c.launch.special.items() if r.startswith("tid.")}
    # The address of a tensor-memory buffer, and of shared memory: everything is relative to it.
    based = [shared_address(), *(n.var for n in walk(block) if isinstance(n, Define))]
    zero = {scope.name(v): np.int64(0) for v in based}
    seen = set()
    for k, pick in enumerate((lambda lo, hi: lo, lambda lo, hi: (lo + hi) // 2, lambda lo, hi: hi)):
        for farthest in FARTHEST if c.launch.host.ranges else FARTHEST[:1]:
            values: dict[str, Any] = {
                n: np.int64(pick(max(lo, -farthest), min(hi, farthest))) for n, (lo, hi) in scope.ranges.items()
            } | zero
            exact = exact_sizes(c, block, indices, {n: int(v) for n, v in values.items() if n not in registers})
            if exact is not None:
                break
        values |= {scope.name(v): np.int64(size) for v, size in c.launch.host.sample(k).items()}
        values |= {n: np.int64(size) for n, size in (exact or {}).items()}
        key = tuple(int(v) for n, v in sorted(values.items()) if n in used and n not in registers)
        if key in seen:
            continue
        seen.add(key)
        note_sizes(c, block, indices, exact)
        values.update(thread_points(c.launch, registers))
        yield Points(values, indices, c.launch.threads)


@dataclass
class Trace:
    """Symbolic execution of one block for all threads at one point."""

    c: CallContext
    points: Points
    source: Operand
    target: Operand
    mask: Array
    registers: dict[Temp | Word, list[Array]] = field(default_factory=dict)
    pairs: list[tuple[Array, Array]] = field(default_factory=list)
    predicates: dict[Temp, Array] = field(default_factory=dict)
    pending: set[Any] = field(default_factory=set)  # loaded from tensor memory, and not waited for
    scratch: Scratch = field(init=False)

    def __post_init__(self) -> None:
        self.scratch = Scratch(self.c.op, self.points.threads)

    def run(self, block: Block) -> None:
        for node in block:
            if isinstance(node, If):
                outer = self.mask
                if isinstance(node.condition, Temp):  # an elected lane; that it is one, another equation checks
                    self.mask = outer & np.isin(self.threads, first_of_warps(outer))
                else:
                    self.mask = outer & (self.points.of(node.condition) != 0)
                self.run(node.then)
                self.mask = outer
            elif isinstance(node, Instruction) and node.opcode != "elect.sync":
                self._step(node)

    @property
    def threads(self) -> Array:
        return np.arange(self.points.threads, dtype=np.int64)

    @property
    def unit(self) -> int:
        """Bits of a unit."""
        return unit_bits(self.target)

    @property
    def size(self) -> int:
        """Units that are named together: an element, or half of one of 64 bits."""
        return piece_units(self.target)

    @property
    def fine(self) -> int:
        """Units of a byte."""
        return 8 // self.unit

    def parts(self, first: Any, width: int) -> list[Any]:
        """The named places in ``width`` bytes from byte ``first`` on."""
        return [first * self.fine + j for j in range(0, width * self.fine, self.size)]

    def _step(self, i: Instruction) -> None:
        name = i.opcode.split(".", 1)[0]
        handler = _STEPS.get("tcgen05" if name == "tcgen05" else name)
        if handler is None:
            raise ProofError(f"the layout equation of '{self.c.op}' doesn't know the instruction {i.opcode}")
        handler(self, i)

    # -- registers -------------------------------------------------------------------------------------------------

    def read(self, register: Any) -> list[Array]:
        """The source elements in a register, lowest bits first."""
        if register in self.registers:
            content = self.registers[register]
            return [np.full(self.points.threads, -1)] * len(content) if register in self.pending else content
        if isinstance(register, Word) and register.array == self.source.root:
            width = register.array.word_bits // 8
            return [self.threads * SPAN + place for place in self.parts(register.index * width, width)]
        if isinstance(register, Word) and register.array == self.target.root:
            return [np.full(self.points.threads, -1)] * len(self.parts(0, register.array.word_bits // 8))
        raise ProofError(f"the layout equation of '{self.c.op}': a register is read before it is written")

    def write(self, register: Any, content: list[Array]) -> None:
        self.registers[register] = content
        self.pending.discard(register)
        if isinstance(register, Word) and register.array == self.target.root:
            width = register.array.word_bits // 8
            for place, source in zip(self.parts(register.index * width, width), content):
                known = source >= 0
                self.reach(self.threads * SPAN + place, source, known)

    def reach(self, target: Array, source: Array, also: Array | None = None) -> None:
        keep = self.mask if also is None else self.mask & also
        self.pairs.append((target[keep], source[keep]))

    # -- instructions ----------------------------------------------------------------------------------------------

    def load(self, i: Instruction) -> None:
        at = i.operands[1]
        assert isinstance(at, Memory)
        if at.root.scratch:
            for register, first, width in _pieces(i, i.operands[0]):
                self.write(register, [self._fetch(at, p) for p in self.parts(self.points.of(at.offset) + first, width)])
            return
        self._in(at, self.source)
        offset = self.points.of(at.offset)
        for register, first, width in _pieces(i, i.operands[0]):
            self.write(register, self.parts(offset + first, width))

    def store(self, i: Instruction) -> None:
        at = i.operands[0]
        assert isinstance(at, Memory)
        if at.root.scratch:
            for register, first, width in _pieces(i, i.operands[1]):
                for place, source in zip(self.parts(self.points.of(at.offset) + first, width), self.read(register)):
                    self._keep(at, place, source)
            return
        if "async" not in i.opcode:
            self._in(at, self.target)
        offset = self.points.of(at.offset)
        for register, first, width in _pieces(i, i.operands[1]):
            content = self.read(register)
            for place, source in zip(self.parts(offset + first, width), content):
                self.reach(place, source)

    def _fetch(self, at: Memory, place: Array) -> Array:
        """What is kept in scratch at a place per thread."""
        return self.scratch.load(at.root, place, self.mask)["name"]

    def _keep(self, at: Memory, place: Array, content: Array) -> None:
        self.scratch.store(at.root, place, {"name": np.broadcast_to(content, self.threads.shape)}, self.mask)

    def barrier(self, i: Instruction) -> None:
        first = i.operands[0]
        self.scratch.barrier(i, self.mask, self.points.of(first.expr) if isinstance(first, Index) else None)

    def permute(self, i: Instruction) -> None:
        """prmt.b32: bytes of two registers; pieces must stay whole."""
        target, a, b, selector = i.operands
        assert isinstance(selector, int)
        size, unknown = self.size, np.full(self.points.threads, -1)
        both = [e for r in (a, b) for e in (self.read(r) + [unknown] * (4 // size))[: 4 // size]]
        made = []
        for j in range(0, 4, size):
            digits = [selector >> 4 * (j + k) & 7 for k in range(size)]
            whole = digits[0] % size == 0 and digits == list(range(digits[0], digits[0] + size))
            made.append(both[digits[0] // size] if whole else unknown)
        self.write(target, made)

    def _in(self, at: Memory, o: Operand) -> None:
        if at.root != o.root or at.root.address is not o.root.address:
            raise ProofError(f"the layout equation of '{self.c.op}': '{at.root.name}' is accessed, '{o.name}' is elsewhere")

    def move(self, i: Instruction) -> None:
        target, source = i.operands[:2]
        if isinstance(target, tuple):
            content = self.read(source)
            each = len(content) // len(target)
            for k, register in enumerate(target):
                self.write(register, content[k * each : (k + 1) * each])
        elif isinstance(source, tuple):
            self.write(target, [e for r in source for e in self.read(r)])
        else:
            self.write(target, self.read(source))

    def shift(self, i: Instruction) -> None:
        target, source, amount = i.operands
        content = self.read(source)
        named = self.size * self.unit
        if isinstance(amount, int):
            self.write(target, content[amount // named :])
            return
        assert isinstance(amount, Index)
        by = self.points.of(amount.expr)
        skipped = np.where(by % named == 0, np.minimum(by // named, len(content)), len(content))  # no name is cut
        stacked = np.stack([*np.broadcast_arrays(*content), *[np.full(len(skipped), -1)] * len(content)])
        self.write(target, [stacked[skipped + j, self.threads] for j in range(len(content))])

    def insert(self, i: Instruction) -> None:
        target, part, into, first, width = i.operands
        assert isinstance(first, int) and isinstance(width, int)
        content = list(self.read(into))
        bits = self.size * self.unit
        content[first // bits : (first + width) // bits] = self.read(part)[: width // bits]
        self.write(target, content)

    def convert(self, i: Instruction) -> None:
        # The packed forms name the high element first (PTX ISA, cvt).
        self.write(i.operands[0], [self.read(r)[0] for r in reversed(i.operands[1:])])

    def copy_async(self, i: Instruction) -> None:
        if ".bulk.tensor." in i.opcode:
            self._tensor_copy(i)
            return
        into, out, width = i.operands[:3]
        assert isinstance(into, Memory) and isinstance(out, Memory) and isinstance(width, int)
        for to, source in zip(*(self.parts(self.points.of(at.offset), width) for at in (into, out))):
            self.reach(to, source)

    def _tensor_copy(self, i: Instruction) -> None:
        """PTX ISA 9.7.9.27: the box row-major in shared memory, innermost first, then the swizzle on addresses."""
        loading = isinstance(i.operands[1], Box)
        at, box = (i.operands[0], i.operands[1]) if loading else (i.operands[1], i.operands[0])
        assert isinstance(at, Memory) and isinstance(box, Box)
        for issuer in first_of_warps(self.mask):
            self._issued(at, box, issuer, loading)

    def _issued(self, at: Memory, box: Box, issuer: int, loading: bool) -> None:
        # Elements below a byte move by bytes.
        bits = box.map.type.bits
        packed, size = max(1, 8 // bits), max(1, bits // 8)
        extents = (box.map.box[0] // packed, *box.map.box[1:])
        place = int(self.points.of(at.offset)[issuer]) + at.root.offset
        element = np.arange(math.prod(extents))
        linear: Any = place + box.map.type.place(element * packed) // 8
        shared = SWIZZLES[box.map.swizzle].apply(linear) - at.root.offset
        far = np.full(len(element), box.map.offset, dtype=np.int64)
        sizes = {v.name: int(p[issuer]) for v, p in self.points.by_var().items() if v in self.c.launch.host.ranges}
        strides = (resolved(s, sizes, "the stride") for s in box.map.strides)
        for d, (extent, stride) in enumerate(zip(extents, (size, *strides))):
            first = int(self.points.of(box.coords[d])[issuer])
            far += (first // (packed if d == 0 else 1) + element % extent) * stride
            element = element // extent
        for here, there in zip(self.parts(np.asarray(shared), size), self.parts(far, size)):
            self.pairs.append((here, there) if loading else (there, here))

    def matrix(self, i: Instruction) -> None:
        """ldmatrix and stmatrix, as PTX ISA 9.7.14.5.15 has them: which lane's address, which bytes from there."""
        loading = i.opcode.startswith("ld")
        words, at = i.operands if loading else reversed(i.operands)
        assert isinstance(at, Memory) and isinstance(words, tuple)
        if not (self.mask.reshape(-1, 32) == self.mask.reshape(-1, 32)[:, :1]).all():
            raise ProofError(f"the layout equation of '{self.c.op}': a matrix instruction is reached by part of a warp")
        offset, lane, warp = self.points.of(at.offset), self.threads % 32, self.threads // 32 * 32
        for k, word in enumerate(words):
            if ".m16n16." in i.opcode:  # four bytes, one below the other; two registers per matrix
                row = [offset[warp + 16 * (k // 2) + 4 * (lane % 4) + b] for b in range(4)]
                places = [r + lane // 4 + 8 * (k % 2) for r in row]
            elif ".m16n8." in i.opcode:  # of two rows, bytes of the first 8 columns and of the others
                row = [offset[warp + 8 * k + 2 * (lane % 4) + s] for s in (0, 1)]
                places = [r + lane // 4 + 8 * h for h in (0, 1) for r in row]
            elif ".trans" in i.opcode:  # two pieces of 16 bits, one below the other
                row = [offset[warp + 8 * k + 2 * (lane % 4) + h] + 2 * (lane // 4) for h in (0, 1)]
                places = [place for r in row for place in self.parts(r, 2)]
            else:
                places = self.parts(offset[warp + 8 * k + lane // 4] + 4 * (lane % 4), 4)
            if at.root.scratch:
                if loading:
                    self.write(word, [self._fetch(at, place) for place in places])
                else:
                    for place, content in zip(places, self.read(word)):
                        self._keep(at, place, content)
            elif loading:
                self.write(word, places)
            else:
                for place, content in zip(places, self.read(word)):
                    self.reach(place, content)

    # -- exchanges -------------------------------------------------------------------------------------------------

    def shuffle(self, i: Instruction) -> None:
        """shfl.sync: each lane gets the register of the lane that it names, or (bfly) of that which differs in some bits."""
        target, source, lane, _, members = i.operands
        whole = self.mask.reshape(-1, 32)
        known = i.opcode.startswith(("shfl.sync.idx", "shfl.sync.bfly"))
        if not known or members != 0xFFFFFFFF or (whole != whole[:, :1]).any():
            raise ProofError(f"the layout equation of '{self.c.op}': {i.opcode} among these lanes")
        if i.opcode.startswith("shfl.sync.bfly"):
            assert isinstance(lane, int)
            sender = self.threads ^ lane
        else:
            assert isinstance(lane, Index)
            sender = self.threads // 32 * 32 + self.points.of(lane.expr) % 32
        self.write(target, [np.broadcast_to(e, self.threads.shape)[sender] for e in self.read(source)])

    def compare(self, i: Instruction) -> None:
        target, left, right = i.operands
        assert isinstance(target, Temp) and isinstance(left, Index) and isinstance(right, int)
        if not i.opcode.startswith("setp.eq"):
            raise ProofError(f"the layout equation of '{self.c.op}' doesn't know {i.opcode}")
        self.predicates[target] = self.points.of(left.expr) == right

    def select(self, i: Instruction) -> None:
        target, a, b, p = i.operands
        assert isinstance(p, Temp)
        self.write(target, [np.where(self.predicates[p], x, y) for x, y in zip(self.read(a), self.read(b))])

    def tcgen05(self, i: Instruction) -> None:
        if i.opcode.startswith("tcgen05.wait"):
            if "::ld" in i.opcode:
                self.pending.clear()
            return
        loading = ".ld." in i.opcode
        words, at = i.operands if loading else reversed(i.operands)
        assert isinstance(at, Pointer)
        words = words if isinstance(words, tuple) else (words,)
        shape = next(s for s in TRANSFERS if f".{s.name}." in i.opcode)
        address, thread = self.points.of(at.expr), self.threads % 32
        for j, word in enumerate(words):
            lane = address // LANE + shape.lane(thread, np.array(j))
            mine = lane // 32 == self.threads // 32 % 4  # a warp reaches no others
            column = shape.column(thread, np.array(j))
            if "pack::16b" in i.opcode:  # the low halves of two neighbouring columns
                starts = [(4 * (address % LANE + 2 * column + h), 2) for h in (0, 1)]
            else:
                starts = [(4 * (address % LANE + column), 4)]
            places = [lane * LANE + p for start, width in starts for p in self.parts(start, width)]
            if loading:
                # A column that is loaded to be changed in part: what is put back where it was is no change.
                names = places if self.source.root.space == "tmem" else [place + KEPT for place in places]
                self.write(word, [np.where(mine, name, -1) for name in names])
                self.pending |= {word} if isinstance(word, Temp) else set()
            else:
                for place, content in zip(places, self.read(word)):
                    self.reach(place, content, mine & (content != place + KEPT))


def _pieces(i: Instruction, registers: Any) -> Iterator[tuple[Any, int, int]]:
    """(register, first byte, bytes) of each register of a load or store."""
    members = registers if isinstance(registers, tuple) else (registers,)
    each = access_bytes(i.opcode) // len(members)
    for k, register in enumerate(members):
        yield register, k * each, each


_STEPS: dict[str, Callable[[Trace, Instruction], None]] = {
    "ld": Trace.load, "st": Trace.store, "mov": Trace.move, "shr": Trace.shift, "bfi": Trace.insert,
    "cvt": Trace.convert, "cp": Trace.copy_async, "shfl": Trace.shuffle,
    "setp": Trace.compare, "selp": Trace.select, "ldmatrix": Trace.matrix, "stmatrix": Trace.matrix,
    "tcgen05": Trace.tcgen05, "bar": Trace.barrier, "prmt": Trace.permute,
}  # fmt: skip


def movement(c: CallContext, block: Block, indices: Indices) -> Verdict:
    """Verdict on the layout equation of a call that moves (or converts) elements one to one."""
    source, target = c.inputs[0], c.outputs[0]
    element_names = Names.of(c, source, target)
    active = np.flatnonzero(c.active.mask)
    total = 0
    for points in points_of(c, block, indices):
        uniform(c, (source, target), points.by_var(), active)
        trace = Trace(c, points, source, target, c.active.mask.copy())
        trace.run(block)
        trace.scratch.finish(c.active.mask)
        got = unique(
            np.concatenate([p[0] for p in trace.pairs] or [np.empty(0, np.int64)]),
            element_names.first_copies(np.concatenate([p[1] for p in trace.pairs] or [np.empty(0, np.int64)])),
        )
        wanted = unique(*element_names.expected(points.by_var()))
        if source.root == target.root:  # what is put back where it was is no change
            same = got[:, 0] == got[:, 1]
            got = got[~same | np.isin(got[:, 0], wanted[wanted[:, 0] == wanted[:, 1], 0])]
        total += len(wanted)
        if got.shape != wanted.shape or not np.array_equal(got, wanted):
            return difference(source, target, got, wanted)
    return Verdict("equal", "enumeration", certificate=Enumeration(total, ()), detail=f"{total} elements moved")


def uniform(c: CallContext, operands: tuple[Operand, ...], variables: Mapping[Var, Array], active: Array) -> None:
    """Threads that execute a call together must mean the same region."""
    for o in operands if c.participants > 1 else ():
        for d, r in enumerate(o.region.region):
            low = np.broadcast_to(evaluate_at(r.min, variables), variables[next(iter(variables))].shape)[active]
            unit = active // c.participants
            bad = np.flatnonzero((unit[1:] == unit[:-1]) & (low[1:] != low[:-1]))
            if len(bad):
                raise LoweringError(
                    f"'{c.op}' at {c.scope} scope: dimension {d} of '{o.name}' ({o.buffer.name}) begins at {int(low[bad[0]])} "
                    f"for thread {int(active[bad[0]])} and at {int(low[bad[0] + 1])} for the next; "
                    f"all threads of a {c.scope} must mean one region",
                    span=c.span,
                )


def unique(target: Array, source: Array) -> Array:
    """The distinct pairs, sorted."""
    order = np.argsort(target, kind="stable")  # quick where targets come in rising runs, as they mostly do
    if (np.diff(target[order]) > 0).all():
        return np.stack([target[order], source[order]], axis=1)
    order = np.lexsort((source, target))
    target, source = target[order], source[order]
    fresh = np.ones(len(target), dtype=bool)
    fresh[1:] = (target[1:] != target[:-1]) | (source[1:] != source[:-1])
    return np.stack([target[fresh], source[fresh]], axis=1)


def difference(source: Operand, target: Operand, got: Array, wanted: Array) -> Verdict:
    a, b = ({(int(t), int(s)) for t, s in x} for x in (got, wanted))
    missing, extra = sorted(b - a), sorted(a - b)
    counterexample: Mapping[str, Any] = {
        "destination": (missing or extra)[0][0] % SPAN,
        "source_wanted": missing[0][1] % SPAN if missing else None,
        "source_got": next((s % SPAN for t, s in extra if missing and t == missing[0][0]), extra[0][1] if extra else None),
    }
    return Verdict(
        "different", "enumeration", counterexample=dict(counterexample),
        detail=f"{len(missing)} elements of '{target.name}' don't receive theirs from '{source.name}', {len(extra)} are wrong",
    )  # fmt: skip
