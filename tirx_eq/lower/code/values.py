"""Code for values of any dtype: loads, floating-point arithmetic, conversions, stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import LoweringError, TirxError
from ...ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    IntImm,
    Max,
    Min,
    Mul,
    Select,
    Sub,
    Var,
)  # fmt: skip
from ...ir import dtype as dt
from ...ir.functor import post_order_visit
from ...ptx.operands import SINK, Imm, Not, Operandish, Pair, Reg, Vec
from ...ptx.syntax import TYPE_BITS
from ...ptx.target import target_has
from ..indices import is_index
from ..intrinsics.build import arguments as named_arguments
from ..intrinsics.build import is_lowered, lower_call
from ..intrinsics.language import constant
from ..intrinsics.places import Places, address_operand, is_tensor_map
from ..program import Memory, Store, Temp, Value, Word
from . import eight_bits
from .accesses import state_space
from .casts import cast, convert, ptx_type
from .double_elementary import DOUBLE_ONLY, SCALAR_DOUBLE
from .functions import ALIASES, COUNTS, FORMS, INSTRUCTIONS, NARROW_FORMS, TESTS, WIDE, form_of
from .recipes import FLOAT8, parse_recipe

if TYPE_CHECKING:
    from .emit import Emitter

_FLOAT_OPS: dict[type, str] = {
    Add: "add.rn", Sub: "sub.rn", Mul: "mul.rn", Div: "div.rn", Min: "min", Max: "max",
}  # fmt: skip
_MODULAR: dict[type, str] = {Add: "add", Sub: "sub", Mul: "mul.lo"}
_COMPARE: dict[type, str] = {EQ: "eq", NE: "ne", LT: "lt", LE: "le", GT: "gt", GE: "ge"}


def _reads_memory(e: Expr) -> bool:
    found: list[bool] = []
    post_order_visit(e, lambda node: found.append(isinstance(node, BufferLoad)))
    return any(found)


class ValueCode:
    """Registers of values; ``e`` is the emitter whose kernel and terms it uses."""

    def __init__(self, emitter: Emitter) -> None:
        self.e = emitter
        self.k = emitter.k

    def value(self, e: Expr) -> Reg | Imm:
        """A register (or an immediate) with the value of a scalar expression."""
        if dt.lanes(e.dtype) != 1:
            raise LoweringError(f"a vector value of {e.dtype} is not lowered here", span=e.span)
        if isinstance(e, FloatImm):
            return self._float(e)
        if is_index(e) and not isinstance(e, BufferLoad) and not self._is_opaque(e):
            if dt.kind(e.dtype) == "bool":
                p = self.e.condition(e)
                return p if isinstance(p, Reg) else self.k.op("not.pred", p.reg)
            bits = 64 if dt.bits(e.dtype) == 64 else 32
            term = self.e.indices.term(e)
            if type(e) in _MODULAR and self.e.terms.widths.reaches_beyond(term, bits):
                return self._low_bits(e, bits)
            if self.e.terms.widths.fits(term, bits):
                return self.e.terms.value(term, bits)
            # Integers are mathematical; what is stored, bound or cast is reduced to its dtype.
            return self._low_bits(e, bits) if type(e) in _MODULAR else self.e.terms.low_bits(term, bits)
        return self.copy(e)

    def typed(self, v: Value) -> Reg | Not | Imm:
        """The operand for a place of a PTX type: a register that holds it, or a number where that may stand."""
        e = v.expr
        if v.type == "pred":
            if isinstance(e, IntImm) and v.imm:
                return Imm(int(bool(e.value)))
            if dt.kind(e.dtype) == "bool":
                return self.e.condition(e)
            held = self.register(e)
            return held if held.type == "pred" else self.k.op(f"setp.ne.s{max(32, dt.bits(e.dtype))}", held, 0)
        made = self.value(e)
        if isinstance(made, Imm):
            if v.imm and (isinstance(made.value, int) or v.type in ("f32", "f64")):
                return made
            bits = max(16, TYPE_BITS[v.type])
            if isinstance(made.value, float):
                made = self.k.op("mov.f64" if e.dtype == "float64" else "mov.f32", made)
            else:
                made = self.k.op(f"mov.b{bits}", made)
        return self.fit(made, v.type, e.dtype)

    def fit(self, register: Reg, type_: str, dtype: str) -> Reg:
        """A register that holds the same value (of ``dtype``), or its low bits, in as many bits as a PTX type has."""
        bits = TYPE_BITS[type_]
        if register.type == "pred":
            register = self.k.op("selp.b32", 1, 0, register)
        have = int(register.type[1:])
        if register.type in ("f32", "f64") and type_ not in (register.type, "b" + register.type[1:]):
            register = self.k.op(f"mov.b{have}", register)
        if bits == 8 and type_ == "e2m1x2":
            return register if have == 8 else self._byte(self.fit(register, "b16", dtype))
        bits = max(16, bits)
        if have == bits:
            return register
        sign = "s" if dtype.startswith("int") else "u"
        if have > bits:
            return self.k.op(f"cvt.u{bits}.u{have}", register)
        return self.k.op(f"cvt.{sign}{bits}.{sign}{have}", register)

    def _byte(self, register: Reg) -> Reg:
        """The low half of 16 bits in a register of 8, which pairs of e2m1 want (PTX ISA, cvt)."""
        low = self.k.reg("b8")
        self.k.emit("cvt.u8.u16", low, register)
        return low

    def _low_bits(self, e: Expr, bits: int) -> Reg:
        """A sum, difference or product that may overflow: its low bits depend only on those of its operands."""
        left, right = self.register(e.a), self.value(e.b)  # type: ignore[attr-defined]
        return self.k.op(f"{_MODULAR[type(e)]}.{'u' if dt.kind(e.dtype) == 'uint' else 's'}{bits}", left, right)

    def register(self, e: Expr) -> Reg:
        value = self.value(e)
        if isinstance(value, Reg):
            return value
        kind = "f" if dt.is_float(e.dtype) else "b"
        return self.k.op(f"mov.{kind}{64 if dt.bits(e.dtype) == 64 else 32}", value)

    def _is_opaque(self, e: Expr) -> bool:
        """Whether index arithmetic sees the expression as a variable of its own."""
        return isinstance(self.e.indices.read(e), str) and not type(e).__name__ == "Var"

    def _float(self, e: FloatImm) -> Reg | Imm:
        if e.dtype in ("float32", "float64"):
            return Imm(e.value)
        wide = self.k.op("mov.f32", Imm(e.value))
        return convert(self, wide, "float32", e.dtype)

    def copy(self, e: Expr) -> Reg:
        """The value of an expression in a register of its own."""
        if isinstance(e, Var):
            return self.variable(e)
        if isinstance(e, BufferLoad):
            return self.load(e)
        if is_index(e) and not self._is_opaque(e):
            return self.register(e)
        if isinstance(e, Cast):
            return cast(self, e)
        if isinstance(e, Select):
            p = self.e.condition(e.condition)
            a, b = self.register(e.true_value), self.register(e.false_value)
            if not isinstance(p, Reg):
                p, a, b = p.reg, b, a
            return self.k.op(f"selp.b{max(16, dt.bits(e.dtype))}", a, b, p)
        if isinstance(e, Call):
            return self.call(e)
        if dt.is_float(e.dtype) and type(e) in _FLOAT_OPS:
            opcode = _FLOAT_OPS[type(e)]
            if e.dtype in FLOAT8:
                return eight_bits.arithmetic(self, e, opcode)
            suffix = ptx_type(e.dtype)
            if (three := self._three(e)) is not None:
                return three
            if type(e) is Div and dt.bits(e.dtype) < 32:  # 24 bits are enough for the second rounding to be harmless
                return self.k.op(f"cvt.rn.{suffix}.f32", self.k.op("div.rn.f32", *self.wide((e.a, e.b))))
            left, right = self.register(e.a), self.value(e.b)  # type: ignore[attr-defined]
            return self.k.op(f"{opcode}.{suffix}", left, right)
        if type(e) in _COMPARE and e.a.dtype in FLOAT8:  # type: ignore[attr-defined]
            return self.k.op(f"setp.{_COMPARE[type(e)]}.f32", *self.wide((e.a, e.b)))  # type: ignore[attr-defined]
        if type(e) in _COMPARE and dt.is_float(e.a.dtype):  # type: ignore[attr-defined]
            left, right = self.register(e.a), self.value(e.b)  # type: ignore[attr-defined]
            return self.k.op(f"setp.{_COMPARE[type(e)]}.{ptx_type(e.a.dtype)}", left, right)  # type: ignore[attr-defined]
        raise LoweringError(f"a {type(e).__name__} of {e.dtype} is not lowered", span=e.span)

    def _three(self, e: Expr) -> Reg | None:
        """The maximum (minimum) of a maximum and a third value in one instruction (sm_100; PTX ISA, max)."""
        if type(e) not in (Max, Min) or e.dtype != "float32" or not target_has(self.k.target, "sm_100"):
            return None
        for inner, other in ((e.a, e.b), (e.b, e.a)):  # type: ignore[attr-defined]
            if type(inner) is type(e):
                values = [self.register(x) for x in (inner.a, inner.b, other)]  # type: ignore[attr-defined]
                return self.k.op(f"{_FLOAT_OPS[type(e)]}.f32", *values)
        return None

    def variable(self, var: Var) -> Reg:
        """The register of a bound variable or a scalar parameter."""
        name = self.e.indices.scope.name(var) if is_index(var) else var.name
        found = self.e.terms.lookup(name if is_index(var) else var)
        if found is None and var in self.e.params:
            found = self.e.terms.keep(var, self.k.load_param(var.name))
        if found is None:
            raise LoweringError(f"variable '{var.name}' has no value here", span=var.span)
        return found

    # -- memory ----------------------------------------------------------------------------------------------------

    def load(self, e: BufferLoad) -> Reg:
        root = self.e.indices.storage.root(e.buffer)
        memory = Memory(root, self.e.indices.storage.offset_of(e))
        if root.space == "local":
            return self._read_register(memory, e.dtype)
        kind = "u8" if dt.kind(e.dtype) == "bool" else f"b{dt.storage_bits(e.dtype)}"
        register = self.k.op(f"ld.{state_space(root.space)}.{kind}", self.e.memory(memory))
        return self.k.op("setp.ne.s16", register, 0) if dt.kind(e.dtype) == "bool" else register

    def _register_place(self, memory: Memory) -> tuple[Word, int]:
        """(register, first bit in it) of a local operand."""
        offset = self.e.indices.term(memory.offset)
        if not isinstance(offset, int):
            raise LoweringError(
                f"an element of '{memory.root.name}' is chosen at run time, but it is held in registers",
                hint="an asynchronous primitive writes it: copy it to another array when that is done, or unroll the loop",
            )
        bits = memory.root.word_bits
        return Word(memory.root, offset * 8 // bits), offset * 8 % bits

    def piece(self, memory: Memory, bits: int) -> Reg:
        """The ``bits`` bits (8 to 64) at a place, in a register of its own."""
        if memory.root.space == "local":
            return self._read_bits(memory, bits)
        return self.k.op(f"ld.{state_space(memory.root.space)}.b{bits}", self.e.memory(memory))

    def _read_register(self, memory: Memory, dtype: str) -> Reg:
        if dt.kind(dtype) == "bool":
            return self.k.op("setp.ne.s16", self._read_bits(memory, 8), 0)
        return self._read_bits(memory, dt.storage_bits(dtype))

    def _joined(self, words: list[Reg]) -> Reg:
        """One register (of 64 or 128 bits) of two or four."""
        while len(words) > 1:
            wide = f"mov.b{2 * int(words[0].type[1:])}"
            words = [self.k.op(wide, Vec(pair)) for pair in zip(words[::2], words[1::2])]
        return words[0]

    def _part(self, words: list[Reg], value: Reg) -> None:
        """The inverse: the registers ``words`` get the parts of a value."""
        if len(words) == 4:
            halves = [self.k.reg("b64"), self.k.reg("b64")]
            self._part(halves, value)
            for half, pair in zip(halves, (words[:2], words[2:])):
                self._part(pair, half)
        else:
            self.k.emit(f"mov.b{value.type[1:]}", Vec(tuple(words)), value)

    def _wide_number(self, number: Imm, bits: int) -> Reg:
        """A constant in a register of 64 or 128 bits."""
        if bits == 64:
            return self.k.op("mov.b64", number)
        low, high = int(number.value) & (1 << 64) - 1, int(number.value) >> 64 & (1 << 64) - 1
        return self._joined([self.k.op("mov.b64", Imm(part, hex=True)) for part in (low, high)])

    def _read_bits(self, memory: Memory, bits: int) -> Reg:
        """A copy: the register may be overwritten while the value is still wanted."""
        word, shift = self._register_place(memory)
        register, whole = self.e.word(word), memory.root.word_bits
        if bits == whole:
            return self.k.op(f"mov.b{bits}", register)
        if bits > whole:
            return self._joined([self.e.word(Word(word.array, word.index + n)) for n in range(bits // whole)])
        if whole == 64:
            low, high = self.k.reg("b32"), self.k.reg("b32")
            self.k.emit("mov.b64", Vec((low, high)), register)
            register, shift = (high if shift >= 32 else low), shift % 32
            if bits == 32:
                return register
        if bits == 16:
            low, high = self.k.reg("b16"), self.k.reg("b16")
            self.k.emit("mov.b32", Vec((low, high)), register)
            return high if shift else low
        part = self.k.op("shr.u32", register, shift)
        return self.k.op("cvt.u16.u32", self.k.op("and.b32", part, (1 << bits) - 1))

    def store(self, node: Store) -> None:
        root, bits = node.memory.root, dt.storage_bits(node.dtype)
        if isinstance(node.value, Temp):
            held = self.e.temp(node.value)
            value: Reg | Imm = held if held.type == "pred" else self.fit(held, f"b{max(16, bits)}", node.dtype)
        else:
            value = self.register(node.value) if dt.is_float(node.dtype) else self.value(node.value)
        if isinstance(value, Reg) and value.type == "pred":
            value = self.k.op("selp.b32", 1, 0, value)
        if root.space == "local":
            self._write_register(node.memory, value, bits)
            return
        if isinstance(value, Imm):
            value = self._wide_number(value, bits) if bits > 64 else self.k.op(f"mov.b{max(32, bits)}", value)
        self.k.emit(f"st.{state_space(root.space)}.b{bits}", self.e.memory(node.memory), value)

    def _write_register(self, memory: Memory, value: Reg | Imm, bits: int) -> None:
        word, shift = self._register_place(memory)
        register, whole = self.e.word(word), memory.root.word_bits
        if bits == whole:
            self.k.emit(f"mov.b{bits}", register, value)
            return
        if bits > whole:
            if isinstance(value, Imm):
                value = self._wide_number(value, bits)
            elif int(value.type[1:]) < bits:
                value = self.fit(value, f"b{bits}", f"uint{bits}")
            self._part([self.e.word(Word(word.array, word.index + n)) for n in range(bits // whole)], value)
            return
        if isinstance(value, Reg) and value.type == "b16":
            value = self.k.op("cvt.u32.u16", value)
        if whole == 64:
            halves = [self.k.reg("b32"), self.k.reg("b32")]
            self.k.emit("mov.b64", Vec(tuple(halves)), register)
            at, shift = divmod(shift, 32)
            if bits == 32:
                halves[at] = value if isinstance(value, Reg) else self.k.op("mov.b32", value)
            else:
                self.k.emit("bfi.b32", halves[at], value, halves[at], shift, bits)
            self.k.emit("mov.b64", register, Vec(tuple(halves)))
            return
        self.k.emit("bfi.b32", register, value, register, shift, bits)

    # -- operations ------------------------------------------------------------------------------------------------

    def choice(self, e: Call) -> Reg:
        """``if_then_else``: unlike Select it computes only the side it takes, which matters where a side reads memory."""
        condition, *sides = e.args
        if not any(map(_reads_memory, sides)):
            return self.copy(Select(condition, *sides))
        suffix = "pred" if dt.kind(e.dtype) == "bool" else f"b{max(16, dt.bits(e.dtype))}"
        result = self.k.reg(suffix)
        with self.k.if_else(self.e.condition(condition)) as arms:
            for arm, side in zip((arms.then, arms.otherwise), sides, strict=True):
                with arm(), self.e.scoped(self.e.indices.guards):
                    self.k.emit(f"mov.{suffix}", result, self.register(side))
        self.e.diverged = True
        return result

    def taken_over(self, e: Call) -> Reg:
        """The first CTA (x) of the cluster whose launch was cancelled, 0xFFFFFFFF if none was (PTX ISA 9.7.13.17)."""
        load = address_operand(e.args[0])
        if load is None:
            raise LoweringError("the handle of a cancelled launch must be the address of a shared element", span=e.span)
        storage = self.e.indices.storage
        memory = Memory(storage.root(load.buffer), storage.offset_of(load))
        response, granted, first = self.k.reg("b128"), self.k.reg("pred"), self.k.reg("b32")
        order = "acquire.cta." if constant(named_arguments(e)["use_ld_acquire"]) else ""
        self.k.emit(f"ld.{order}shared.b128", response, self.e.memory(memory))
        query = "clusterlaunchcontrol.query_cancel"
        self.k.emit(f"{query}.is_canceled.pred.b128", granted, response)
        self.k.emit("mov.b32", first, Imm(0xFFFFFFFF, hex=True))
        self.k.emit(f"{query}.get_first_ctaid::x.b32.b128", first, response, pred=granted)
        # The next request overwrites the response through the asynchronous proxy.
        self.k.emit("fence.proxy.async.shared::cta")
        return first

    def _places(self) -> Places:
        storage = self.e.indices.storage
        return Places(
            lambda load: Memory(storage.root(load.buffer), storage.offset_of(load)), storage.roots.get
        )

    def intrinsic(self, e: Call) -> Reg:
        """The value of a call that has a template."""
        try:
            block, result = lower_call(e, self._places())
        except TirxError as error:
            raise error.at(e.span) from None
        if result is None:
            raise LoweringError(f"'{e.op.name}' is a statement and has no value", span=e.span)
        self.e.nodes(block)
        made = self.e.temp(result)
        if made.type == "pred" or dt.kind(e.dtype) == "bool":
            return made
        return self.fit(made, f"b{max(16, dt.bits(e.dtype))}", e.dtype)

    def call(self, e: Call) -> Reg:
        name = e.op.name
        if name == "tirx.ptx.elect_sync":
            p = self.k.reg("pred")
            self.k.emit("elect.sync", Pair(SINK, p), Imm(0xFFFFFFFF, hex=True))
            return p
        if name == "tirx.if_then_else":
            return self.choice(e)
        if is_lowered(name):
            return self.intrinsic(e)
        if name == "tirx.fma":
            a, b, c = (self.register(x) for x in e.args)
            return self.k.op(f"fma.rn.{ptx_type(e.dtype)}", a, b, c)
        if name == "tirx.ptx.clc_query_cancel":
            return self.taken_over(e)
        if name == "tirx.reinterpret":
            held = self.register(e.args[0])
            return held if held.type == "pred" else self.fit(held, f"b{max(16, dt.storage_bits(e.dtype))}", e.dtype)
        if name in ("tirx.shift_left", "tirx.shift_right"):
            bits = 64 if dt.bits(e.dtype) == 64 else 32
            held, count = (self.register(a) for a in e.args)
            kind = "shl.b" if name == "tirx.shift_left" else f"shr.{'u' if dt.kind(e.dtype) == 'uint' else 's'}"
            return self.k.op(f"{kind}{bits}", self.fit(held, f"b{bits}", e.dtype), self.fit(count, "b32", e.args[1].dtype))
        if name == "tirx.bitwise_not":
            bits = 64 if dt.bits(e.dtype) == 64 else 32
            return self.k.op(f"not.b{bits}", self.fit(self.register(e.args[0]), f"b{bits}", e.dtype))
        if name == "tirx.isnullptr":
            place = self._places().locate(e.args[0])
            address = self.e.number(place, 64) if isinstance(place, Memory) else self.register(e.args[0])
            return self.k.op("setp.eq.s64", address, 0)
        if e.dtype == "handle" and isinstance(place := self._places().locate(e), Memory):
            return self.e.number(place, 64)
        if name == "tirx.address_of" and is_tensor_map(e.args[0]):
            return self.e.map_of(e.args[0])
        if (found := self._function(name.removeprefix("tirx."), e)) is not None:
            return found
        raise LoweringError(f"there is no PTX for the call of '{name}' ({e.dtype})", span=e.span)

    def _function(self, name: str, e: Call) -> Reg | None:
        """The result of a function in the tables of :mod:`functions`, or None."""
        name = ALIASES.get(name, name)
        dtype = e.args[0].dtype if e.args else ""
        if name in TESTS and dt.is_float(dtype):
            return self.recipe(TESTS[name].format(t=f"f{max(32, dt.bits(dtype))}"), self.wide(e.args), "pred")
        if name in COUNTS and dt.is_integer(dtype):
            return self._count(name, e)
        if name == "fabs" and dt.is_integer(dtype) and dt.bits(dtype) >= 32:
            return self.k.op(f"abs.s{dt.bits(dtype)}", self.register(e.args[0]))
        if name in INSTRUCTIONS and dtype == "float32":
            return self.recipe(INSTRUCTIONS[name], self.wide(e.args))
        if e.dtype == "float64" and name in SCALAR_DOUBLE:
            return self.recipe(SCALAR_DOUBLE[name], self.wide(e.args))
        if name in DOUBLE_ONLY and dt.is_float(e.dtype):  # by way of float64
            wide = [self.k.op("cvt.f64.f32", a) for a in self.wide(e.args)]
            found = self.k.op("cvt.rn.f32.f64", self.recipe(SCALAR_DOUBLE[name], wide, "f64"))
            return found if e.dtype == "float32" else convert(self, found, "float32", e.dtype)
        if name not in FORMS or not dt.is_float(e.dtype):
            return None
        if e.dtype == "float64":
            if name not in WIDE:
                return None
            return self.recipe(FORMS[name][0].text.replace("f32", "f64"), self.wide(e.args))
        if e.dtype == dtype and (name, dtype) in NARROW_FORMS:
            return self.recipe(NARROW_FORMS[name, dtype].format(v=""), [self.register(e.args[0])], "b16")
        made = self.recipe(form_of(name, e.dtype, dtype).text, self.wide(e.args))
        if e.dtype in FLOAT8:
            return convert(self, made, "float32", e.dtype)
        return made if e.dtype == "float32" else self.k.op(f"cvt.rn.{ptx_type(e.dtype)}.f32", made)

    def _count(self, name: str, e: Call) -> Reg:
        """Counts of bits; narrow integers are those of 32 bits with zeros above."""
        argument, bits = self.register(e.args[0]), dt.bits(e.args[0].dtype)
        if bits < 32:
            argument = self.k.op(f"cvt.u32.u{bits}", argument)
        count = self.k.op(COUNTS[name].format(n=max(32, bits)), argument)
        if name == "clz" and bits < 32:
            count = self.k.op("sub.s32", count, 32 - bits)
        return self.k.op("cvt.u64.u32", count) if dt.bits(e.dtype) == 64 else count

    def wide(self, args: Sequence[Expr]) -> list[Reg]:
        """Arguments in float32, or as they are if they have 64 bits."""
        made = []
        for a in args:
            value = self.register(a)
            if a.dtype in FLOAT8:
                value = convert(self, value, a.dtype, "float32")
            elif dt.bits(a.dtype) < 32:
                value = self.k.op(f"cvt.f32.{ptx_type(a.dtype)}", value)
            made.append(value)
        return made

    def recipe(self, text: str, args: Sequence[Reg], result: str | None = None, between: str | None = None) -> Reg:
        """Emit a recipe; ``result`` is the type of its result, ``between`` of its other registers, if not the arguments'."""
        kind = between or ("f64" if args[0].type in ("f64", "b64") else "f32")
        known = dict(zip("abc", args))

        def operand(o: str | int | float | tuple[str, ...]) -> Operandish:
            if isinstance(o, tuple):
                return Vec(tuple(SINK if member == "_" else operand(member) for member in o))
            if not isinstance(o, str):
                return Imm(o)
            name, _, given = o.partition(":")
            if name not in known:
                known[name] = self.k.reg(given or (result if name == "d" and result else kind))
            return known[name]

        for line in parse_recipe(text):
            self.k.emit(line.opcode, *(operand(o) for o in line.operands))
        return known["d"]
