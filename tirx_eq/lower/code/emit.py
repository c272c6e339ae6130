"""The device program as PTX: registers for index terms, instructions in order, structured control flow."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ...errors import LoweringError, TirxError
from ...ir import Expr, Var
from ...ir.index import Term
from ...ptx.builder import Kernel
from ...ptx.control import Loop as LoopFrame
from ...ptx.operands import SINK, Address, Imm, Not, Operandish, Pair, Reg, Symbol, Vec, special, tensor
from ...ptx.tensormap import TensorMap
from ..facts.guards import Guards, along, inside
from ..indices import Indices, is_index
from ..names import fresh
from ..program import (
    AddressOf,
    At,
    Block,
    Box,
    Comment,
    Define,
    Generic,
    If,
    Index,
    Instruction,
    Jump,
    Kept,
    Loop,
    MapAt,
    Memory,
    Operand,
    Piece,
    Pointer,
    Repeat,
    Routine,
    Special,
    Store,
    Temp,
    Value,
    Wait,
    Word,
)  # fmt: skip
from ..storage import Root
from .accesses import state_space
from .branches import shared_addresses
from .loops import invariants, products
from .partial import partly_written
from .shared import shared_address
from .swizzled import swizzled
from .terms import TermCode
from .values import ValueCode

#: Spaces of roots whose addresses have 64 bits.
_WIDE = frozenset(("global", "stack", "param"))


class Emitter:
    """Writes one program into a kernel.

    Values of index terms are kept in a stack of scopes, one per block, so that what is computed in a branch isn't used
    outside it.
    """

    def __init__(
        self, kernel: Kernel, indices: Indices, shared: Symbol | None, params: Collection[Var] = (),
        maps: Mapping[TensorMap, str] | None = None, encoded: Mapping[Var, TensorMap] | None = None,
    ) -> None:
        self.k = kernel
        self.maps = maps or {}
        self.encoded = encoded or {}
        self.params = params
        self.indices = indices
        self.shared = shared
        self.words: dict[Word, Reg] = {}
        self.temps: dict[Temp, Reg] = {}
        self.pointers: dict[str, Reg] = {}
        self.stack: dict[str, Symbol] = {}
        self.loops: list[LoopFrame] = []
        self.terms = TermCode(kernel, indices.scope, self._opaque, indices.given.widths)
        self.values = ValueCode(self)
        self.diverged = False

    # -- whole program ---------------------------------------------------------------------------------------------

    def run(self, program: Block) -> None:
        self._prologue(program)
        self.block(program)
        if not (program and isinstance(program[-1], Jump)):
            self.k.emit("ret")

    def _prologue(self, program: Block) -> None:
        """Registers that every block may use: special registers, the shared block's address, pointer parameters."""
        used: set[str] = set()
        for s in (*self.indices.table.values(), *self.indices.conditional()):
            used.update(self.indices.names_in(s.after))
        for e in self.indices.roots(program):
            used.update(self.indices.names_in(self.indices.term(e)))
        for name in sorted(used):
            source = self.indices.scope.sources[name]
            if not isinstance(source, Var):
                continue
            if source is shared_address():
                if self.shared is None:
                    raise LoweringError("the kernel uses shared memory, but has none")
                self.terms.define(name, self.k.op("mov.b32", self.shared))
            elif source in self.params:
                self.terms.define(name, self.k.load_param(source.name))
            elif _is_special(source.name):
                self.terms.define(name, self.k.op("mov.u32", special(f"%{source.name}")))

        for word in partly_written(program, self.indices.term):
            self.k.emit(f"mov.b{word.array.word_bits}", self.word(word), 0)

    def pointer(self, root: Root) -> Reg:
        """The global address in a pointer parameter, loaded where it is first needed in an enclosing block."""
        found = self.terms.lookup(("pointer", root.name))
        if found is None:
            raw = self.k.load_param(root.name)
            found = self.k.op("cvta.to.global.u64", raw)
            self.terms.keep(("pointer", root.name), found)
        return found

    def tensor_map(self, name: str) -> Reg:
        """The address of a tensor-map parameter."""
        found = self.terms.lookup(("map", name))
        return found or self.terms.keep(("map", name), self.k.load_param(name))

    # -- blocks ----------------------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        outer = self.indices
        shared = shared_addresses(block, outer, self.terms.split)
        for node, guards in along(block, outer.guards):
            self._stand(outer.under(guards))
            self.terms.forget_volatile()
            for memory in shared.get(id(node), ()):
                if not self.terms.is_volatile(self.indices.term(memory.offset)):
                    self.memory(memory)
            getattr(self, f"_{type(node).__name__.lower()}")(node)
        self._stand(outer)

    def _stand(self, indices: Indices) -> None:
        """From here on what holds is what these expressions are under."""
        self.indices = indices
        self.terms.widths = indices.given.widths

    @contextmanager
    def scoped(self, guards: Guards) -> Iterator[None]:
        """A block of its own, in which more holds."""
        outer = self.indices
        self.terms.push()
        self._stand(outer.under(guards))
        try:
            yield
        finally:
            self.terms.pop()
            self._stand(outer)

    def _comment(self, node: Comment) -> None:
        at = f" ({node.span.file.rsplit('/', 1)[-1]}:{node.span.line})" if node.span else ""
        self.k.comment(f"{node.text}{at}")

    def _instruction(self, node: Instruction) -> None:
        if ".sync.aligned" in node.opcode:
            self._converge()
        pred: Reg | Not | None = None
        if node.guard is not None:
            guard = self.temp(node.guard)
            pred = ~guard if node.guard_negated else guard
        operands = [self.operand(o) for o in node.operands]
        if node.opcode == "elect.sync":
            operands[0] = Pair(SINK, operands[0].items[1])  # type: ignore[union-attr, arg-type]
        try:
            self.k.emit(node.opcode, *operands, pred=pred, comment=node.comment)
        except TirxError as error:
            raise error.at(node.span) from None

    def _routine(self, node: Routine) -> None:
        for instruction in node.body:
            self._instruction(instruction)

    def _converge(self) -> None:
        """Before an instruction that wants the whole warp converged, after code that may have split it."""
        if self.diverged:
            self.k.emit("bar.warp.sync", Imm(0xFFFFFFFF, hex=True))
            self.diverged = False

    def _define(self, node: Define) -> None:
        key: Any = self.indices.scope.name(node.var) if is_index(node.var) else node.var
        self.terms.define(key, self.values.copy(node.value))

    def _store(self, node: Store) -> None:
        self.values.store(node)

    def _wait(self, node: Wait) -> None:
        address = self.memory(node.barrier)
        parity = self.index(node.parity)
        head = self.k.new_label("wait")
        self.k.place(head)
        opcode = f"mbarrier.try_wait.parity.{node.order + '.' if node.order else ''}shared::cta.b64"
        done = self.k.op(opcode, address, parity)
        self.k.emit("bra", head, pred=~done)
        self.diverged = True

    def _if(self, node: If) -> None:
        (then, if_true), (orelse, if_false) = inside(node, self.indices.guards)
        decided = None if isinstance(node.condition, Temp) else self.indices.term(node.condition)
        if isinstance(decided, int):
            with self.scoped(if_true if decided else if_false):
                self.block(then if decided else orelse)
            return
        condition = self.temp(node.condition) if isinstance(node.condition, Temp) else self.condition(node.condition)
        if then and orelse:
            with self.k.if_else(condition) as arms:
                with arms.then(), self.scoped(if_true):
                    self._branch(then)
                with arms.otherwise(), self.scoped(if_false):
                    self._branch(orelse)
        else:
            with self.k.if_(condition if then else ~condition), self.scoped(if_true if then else if_false):
                self._branch(then or orelse)
        self.diverged = True

    def _branch(self, block: Block) -> None:
        outer, self.diverged = self.diverged, False
        self.block(block)
        self.diverged = outer or self.diverged

    def _loop(self, node: Loop) -> None:
        start, stop = (self.terms.wrapped(self.indices.term(e), 32) for e in (node.start, node.stop))
        step = self.index(Index(node.step))
        if not isinstance(step, Imm) or int(step.value) <= 0:
            raise LoweringError(f"the step of the loop over '{node.var.name}' must be a positive constant")
        first, last = (v.value if isinstance(v, Imm) else v for v in (start, stop))
        ((body, guards),) = inside(node, self.indices.guards)
        here = self.indices.under(guards)
        self._before_loop(body, here)
        counter = self.indices.scope.name(node.var)
        grows = [(t, factor) for t, factor in products(body, here, counter) if self.terms.widths.width(t) == 32]
        running = [(t, factor, self._start(factor, start)) for t, factor in grows]
        with self.k.for_range(first, last, int(step.value)) as frame, self.scoped(guards):  # type: ignore[arg-type]
            assert frame.index is not None
            self.terms.define(counter, frame.index)
            for term, factor, register in running:
                self.terms.define((term, 32), register)
                frame.also.append((register, factor * int(step.value)))
            self.loops.append(frame)
            self.block(body)
            self.loops.pop()
        self.diverged = True

    def _before_loop(self, body: Block, there: Indices) -> None:
        """Compute what is dear and the same in every round of a body, whose expressions are ``there``."""
        for term in invariants(body, there, lambda name: self.terms.lookup_variable(name) is not None):
            if self.terms.widths.fits(term, 64):  # what holds in the loop needn't hold before it
                self.terms.value(term, self.terms.widths.width(term))

    def _start(self, factor: int, start: Reg | Imm) -> Reg:
        """A register with a product of the counter as it is in the first round; rounds add to it."""
        if isinstance(start, Imm):
            return self.k.op("mov.b32", int(start.value) * factor)
        return self.k.op("mul.lo.s32", start, factor)

    def _repeat(self, node: Repeat) -> None:
        (head, always), (body, guards) = inside(node, self.indices.guards)
        self._before_loop((*head, *body), self.indices.under(always))
        with self.k.loop("while") as frame, self.scoped(always):
            self.block(head)
            if node.condition is not None:
                frame.break_if(~self.condition(node.condition))
            self._stand(self.indices.under(guards))
            self.loops.append(frame)
            self.block(body)
            self.loops.pop()
        self.diverged = True

    def _jump(self, node: Jump) -> None:
        if node.kind == "exit":
            self.k.emit("ret")
        elif len(self.loops) <= node.level:
            raise LoweringError(f"{node.kind} outside a loop")
        elif node.kind == "break":
            self.loops[-1 - node.level].break_()
        else:
            self.loops[-1 - node.level].continue_()

    # -- operands --------------------------------------------------------------------------------------------------

    def operand(self, o: Operand) -> Operandish:
        if isinstance(o, tuple):
            return Vec(tuple(SINK if m == "|" else self.operand(m) for m in o))
        if isinstance(o, Temp):
            return self.temp(o)
        if isinstance(o, Word):
            return self.word(o)
        if isinstance(o, Index):
            return self.index(o)
        if isinstance(o, Memory):
            return self.memory(o)
        if isinstance(o, Box):
            coords = [self.index(Index(e)) for e in o.coords]
            where = self.tensor_map(self.maps[o.map])
            return tensor(where, coords) if coords else Address(where)
        if isinstance(o, Value):
            return self.values.typed(o)
        if isinstance(o, Piece):
            return self.values.piece(o.memory, o.bits)
        if isinstance(o, (AddressOf, Generic)):
            number = self.number(o.memory, 64 if isinstance(o, Generic) or o.type.endswith("64") else 32)
            return Address(number) if isinstance(o, Generic) else number
        if isinstance(o, Pointer):
            return self._at_pointer(o)
        if isinstance(o, At):
            return Address(self.temp(o.base), o.offset)
        if isinstance(o, MapAt):
            where = self._map_address(o.map)
            return tensor(where, [self.index(Index(e)) for e in o.coords]) if o.coords else Address(where)
        if isinstance(o, Special):
            return special(o.name)
        if isinstance(o, Kept):
            return SINK
        if isinstance(o, int) and o >= 1 << 16:
            return Imm(o, hex=True)
        return o  # type: ignore[return-value]

    def _at_pointer(self, o: Pointer) -> Address:
        """The memory at an address that is a number; one that may wrap around is computed modulo its width."""
        if o.bits == 64 or self.terms.widths.reaches_beyond(self.indices.term(o.expr), 32):
            address = self.values.typed(Value(o.expr, f"b{o.bits}"))
            assert isinstance(address, Reg)
            return Address(address)
        return self.terms.address(self.indices.term(o.expr))

    def map_of(self, var: Var) -> Reg:
        """The address of the tensor map that a variable is: a parameter, or encoded by the function's host part."""
        return self.tensor_map(self.map_name(var))

    def map_name(self, var: Var) -> str:
        """The parameter that brings the tensor map."""
        return self.maps[self.encoded[var]] if var in self.encoded else var.name

    def _map_address(self, e: Expr) -> Reg:
        if isinstance(e, Var) and (e in self.params or e in self.encoded):
            return self.map_of(e)
        found = self.values.typed(Value(e, "b64"))
        assert isinstance(found, Reg)
        return found

    def number(self, m: Memory, bits: int) -> Reg:
        """The address of a place in memory: in the window of its space (32 bits, shared memory), or generic (64 bits)."""
        at = self.memory(m)
        space = m.root.space
        wide = space in _WIDE
        base = at.base if isinstance(at.base, Reg) else self.k.op(f"mov.b{64 if wide else 32}", at.base)
        if at.offset:
            base = self.k.op(f"add.s{64 if wide else 32}", base, at.offset)
        if wide:
            if bits == 32:
                raise LoweringError(f"'{m.root.name}' is in {state_space(space)} memory: its address has 64 bits")
            return self.k.op(f"cvta.{state_space(space)}.u64", base)
        if bits == 32:
            return base
        return self.k.op(f"cvta.{state_space(space)}.u64", self.k.op("cvt.u64.u32", base))

    def nodes(self, block: Block) -> None:
        """The nodes of an expression's own code: values of loads hold for all of them."""
        for node in block:
            getattr(self, f"_{type(node).__name__.lower()}")(node)

    def temp(self, t: Temp) -> Reg:
        if t not in self.temps:
            self.temps[t] = self.k.reg(t.type)
        return self.temps[t]

    def word(self, w: Word) -> Reg:
        if w not in self.words:
            if not 0 <= w.index * w.array.word_bits < max(1, w.array.size) * 8:
                raise LoweringError(f"register {w.index} is outside '{w.array.name}', which has {w.array.size} bytes")
            self.words[w] = self.k.reg(f"b{w.array.word_bits}")
        return self.words[w]

    def index(self, i: Index) -> Reg | Imm:
        return self.terms.wrapped(self.indices.term(i.expr), i.bits)

    def condition(self, e: Expr) -> Reg | Not:
        return self.terms.predicate(self.indices.term(e))

    def memory(self, m: Memory) -> Address:
        """The PTX address of a memory operand; constant parts go into the offset."""
        offset = self.indices.term(m.offset)
        if m.root.space == "shared":
            assert self.shared is not None
            moving, constant = self.terms.split(offset)
            constant += m.root.offset
            if moving == 0:
                return Address(self.shared, constant)
            anchor, mask, beyond = swizzled(moving, self.indices.scope.ranges, self.indices.given.facts)
            whole: Term = ("add", self._own(), anchor)
            register = self.terms.wrapped(("xor", whole, mask) if mask else whole, 32)
            assert isinstance(register, Reg)
            return Address(register, constant + beyond)
        if m.root.space == "cluster":
            assert m.root.address is not None
            moving, constant = self.terms.split(offset)
            base = self._peer(self.indices.term(m.root.address))
            if moving != 0:
                base = self.k.op("add.s32", base, self.terms.wrapped(moving, 32))
            return Address(base, constant + m.root.offset)
        if m.root.space == "global":
            return self.terms.wide_address(self.pointer(m.root), m.root.name, offset)
        if m.root.space in ("stack", "param"):
            symbol = self._symbol(m.root)
            moving, constant = self.terms.split(offset)
            if moving == 0:
                return Address(symbol, constant)
            start = ("start", m.root.name)
            base = self.terms.lookup(start) or self.terms.keep(start, self.k.op("mov.b64", symbol))
            return self.terms.wide_address(base, m.root.name, offset)
        raise LoweringError(f"'{m.root.name}' is in {m.root.space}, which has no addresses in memory")

    def _symbol(self, root: Root) -> Symbol:
        """What PTX calls an array of each thread, or a tensor map's bytes among the parameters."""
        if root.space == "param":
            assert isinstance(root.address, Var)
            return self.k.symbols[self.map_name(root.address)]
        if root.name not in self.stack:
            self.stack[root.name] = self.k.local(
                fresh(f"array_{len(self.stack)}", {*self.k.symbols, self.k.name}), -(-root.size // 16) * 16, 16
            )
        return self.stack[root.name]

    def _own(self) -> str:
        """The name of the shared block's address, which has a register from here on."""
        name = self.indices.scope.name(shared_address())
        if self.terms.lookup(name) is None:
            assert self.shared is not None
            self.terms.define(name, self.k.op("mov.b32", self.shared))
        return name

    def _peer(self, rank: Term) -> Reg:
        """The shared::cluster address of the shared block of CTA ``rank``; in it, offsets add as in one's own."""
        key = ("peer", rank)
        found = self.terms.lookup(key)
        if found is None:
            own = self.terms.value(self._own(), 32)
            made = self.k.op("mapa.shared::cluster.u32", own, self.terms.wrapped(rank, 32))
            found = self.terms.keep(key, made, self.terms.is_volatile(rank))
        return found

    def _opaque(self, name: str) -> Reg:
        """The register of a value that index arithmetic takes as given: a load, or an intrinsic."""
        source: Any = self.indices.scope.sources[name]
        if isinstance(source, Var):
            raise LoweringError(f"'{source.name}' has no value here")
        return self.values.copy(source)


def _is_special(name: str) -> bool:
    return name.partition(".")[0] in ("tid", "ctaid", "clusterid", "cluster_ctaid", "cluster_ctarank")
