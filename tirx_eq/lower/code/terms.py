"""Code for index terms: which instruction computes each operator, at a width proved to hold every value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import LoweringError
from ...ir.index import Term, names
from ...ir.index_ir import IndexScope
from ...ptx.builder import Kernel
from ...ptx.operands import Address, Imm, Not, Reg
from .widths import Widths

_COMPARE = {"lt": "lt", "le": "le", "eq": "eq", "ne": "ne"}
_BOOLEAN = frozenset((*_COMPARE, "land", "lor", "lnot"))
#: Operators whose low bits depend only on those of their operands.
_RING = {"add": "add.s64", "sub": "sub.s64", "mul": "mul.lo.s64", "shl": "shl.b64", "and": "and.b64", "or": "or.b64",
         "xor": "xor.b64"}  # fmt: skip
_BITWISE = {"and": "and", "or": "or", "xor": "xor"}


class TermCode:
    """Registers of terms, in a stack of scopes; ``opaque`` computes a variable that is a load or a call.

    ``widths`` tells how large terms can be where code is written now.
    """

    def __init__(self, kernel: Kernel, scope: IndexScope, opaque: Callable[[str], Reg], widths: Widths | None = None) -> None:
        self.k = kernel
        self.scope = scope
        self.opaque = opaque
        self.widths = Widths(scope.ranges) if widths is None else widths
        self._known: list[dict[Any, Reg]] = [{}]
        self._volatile: dict[Any, Reg] = {}

    # -- scopes ----------------------------------------------------------------------------------------------------

    def push(self) -> None:
        self._known.append({})

    def pop(self) -> None:
        self._known.pop()
        self._volatile.clear()

    def forget_volatile(self) -> None:
        """Values of loads hold for one node only: memory may change between nodes."""
        self._volatile.clear()

    def define(self, name: Any, register: Reg) -> None:
        """``register`` holds the variable called ``name`` (or any key) in this block."""
        self._known[-1][name] = register

    def keep(self, key: Any, register: Reg, volatile: bool = False) -> Reg:
        (self._volatile if volatile else self._known[-1])[key] = register
        return register

    def lookup(self, key: Any) -> Reg | None:
        for known in reversed(self._known):
            if key in known:
                return known[key]
        return self._volatile.get(key)

    def is_volatile(self, term: Term) -> bool:
        """Whether a term reads something that isn't a defined variable."""
        read = names(term) if isinstance(term, tuple) else {term} if isinstance(term, str) else set()
        return any(self.lookup_variable(n) is None for n in read)

    def lookup_variable(self, name: str) -> Reg | None:
        for known in reversed(self._known):
            if name in known:
                return known[name]
        return None

    def split(self, term: Term) -> tuple[Term, int]:
        """(moving part, constant) of a sum; the constant is what an address can carry as its offset."""
        if isinstance(term, int):
            return 0, term
        if isinstance(term, tuple) and term[0] in ("add", "or") and isinstance(term[2], int):
            moving, constant = self.split(term[1])
            if term[0] == "add":
                return moving, constant + term[2]
        if isinstance(term, tuple) and term[0] == "add" and isinstance(term[1], int):
            moving, constant = self.split(term[2])
            return moving, constant + term[1]
        if isinstance(term, tuple) and term[0] == "sub" and isinstance(term[2], int):
            moving, constant = self.split(term[1])
            return moving, constant - term[2]
        return term, 0

    # -- values ----------------------------------------------------------------------------------------------------

    def value(self, term: Term, bits: int = 32) -> Reg | Imm:
        """The term's value in a register of ``bits`` bits, or as an immediate."""
        if isinstance(term, int):
            return Imm(term)
        wide = max(bits, self.widths.width(term))
        if wide > bits:
            low, high = self.widths.bounds(term)
            if not (-(1 << 31) <= low and high < 1 << 32):
                raise LoweringError(f"a value in {low}..{high} doesn't fit {bits} bits")
        register = self._materialise(term, max(32, self.widths.width(term)))
        have = 64 if register.type == "b64" else 32
        if have == bits:
            return register
        return self._convert(term, register, bits)

    def wrapped(self, term: Term, bits: int) -> Reg | Imm:
        """The value in ``bits`` bits, modulo 2^bits where nothing says that it fits."""
        return self.value(term, bits) if self.widths.fits(term, bits) else self.low_bits(term, bits)

    def low_bits(self, term: Term, bits: int) -> Reg:
        """The value modulo 2^bits, of a term that needn't fit."""
        if not self.widths.is_exact_modulo(term):
            return self._convert(term, self._modular(term), bits)
        return self._convert(term, self._materialise(term, self.widths.width(term)), bits)

    def _modular(self, term: Term) -> Reg:
        """The value modulo 2^64: of sums, products and bits it depends on those of the operands alone."""
        if isinstance(term, int):
            return self.k.op("mov.b64", Imm(term & (1 << 64) - 1, hex=True))
        opcode = _RING.get(term[0]) if isinstance(term, tuple) else None
        if opcode is None:
            return self._register(term, 64)
        assert isinstance(term, tuple)
        key = ("modulo", term)
        found = self.lookup(key)
        if found is None:
            left = self._modular(term[1])
            right = self.value(term[2], 32) if term[0] == "shl" else self._modular(term[2])
            found = self.keep(key, self.k.op(opcode, left, right), self.is_volatile(term))
        return found

    def _convert(self, term: Term, register: Reg, bits: int) -> Reg:
        if register.type == f"b{bits}":
            return register
        key = ("as", bits, term)
        found = self.lookup(key)
        if found is None:
            sign = "u" if self.widths.bounds(term)[0] >= 0 else "s"
            opcode = f"cvt.{sign}64.{sign}32" if bits == 64 else "cvt.u32.u64"
            found = self.keep(key, self.k.op(opcode, register), self.is_volatile(term))
        return found

    def predicate(self, term: Term) -> Reg | Not:
        """The truth of a term in a predicate register."""
        if isinstance(term, int):
            p = self.k.reg("pred")
            self.k.emit("setp.eq.u32" if term else "setp.ne.u32", p, 0, 0)
            return p
        if isinstance(term, tuple) and term[0] == "lnot":
            return ~self.predicate(term[1])
        key = ("pred", term)
        found = self.lookup(key)
        if found is not None:
            return found
        made = self._test(term)
        if isinstance(made, Not):
            return made
        return self.keep(key, made, self.is_volatile(term))

    def _test(self, term: Term) -> Reg | Not:
        if isinstance(term, str):
            register = self._variable(term)
            return register if register.type == "pred" else self.k.op("setp.ne.s32", register, 0)
        op, *args = term  # type: ignore[misc]
        if op in ("land", "lor"):
            p, q = (self._positive(self.predicate(x)) for x in args)
            return self.k.op("and.pred" if op == "land" else "or.pred", p, q)
        if op in _COMPARE:
            if all(self._is_bool(a) for a in args) and op in ("eq", "ne"):
                return self._test_bools(op, args)
            bits = max(self.widths.width(a) for a in args)
            sign = self._sign(args, bits)
            if sign == "u" and not self._nonnegative(args):
                sign, bits = "s", 64
            left, right = (self.value(a, bits) for a in args)
            if isinstance(left, Imm):
                flipped = {"lt": "gt", "le": "ge"}.get(op, op)
                return self.k.op(f"setp.{flipped}.{sign}{bits}", right, left)
            return self.k.op(f"setp.{op}.{sign}{bits}", left, right)
        bits = self.widths.width(term)
        return self.k.op(f"setp.ne.s{bits}", self.value(term, bits), 0)

    def _test_bools(self, op: str, args: list[Term]) -> Reg | Not:
        if isinstance(args[1], int):
            wanted = bool(args[1]) == (op == "eq")
            inner = self.predicate(args[0])
            return inner if wanted else ~inner
        a, b = (self._positive(self.predicate(x)) for x in args)
        different = self.k.op("xor.pred", a, b)
        return different if op == "ne" else ~different

    def _is_bool(self, term: Term) -> bool:
        if isinstance(term, str):
            register = self.lookup(term)
            return register is not None and register.type == "pred"
        return term in (0, 1) if isinstance(term, int) else term[0] in _BOOLEAN

    def _positive(self, p: Reg | Not) -> Reg:
        return self.k.op("not.pred", p.reg) if isinstance(p, Not) else p

    def _variable(self, name: str) -> Reg:
        found = self.lookup(name)
        if found is None:
            found = self.keep(name, self.opaque(name), volatile=True)
        return found

    def _materialise(self, term: Term, bits: int) -> Reg:
        if isinstance(term, str):
            register = self._variable(term)
            if register.type == "pred":
                return self.k.op("selp.b32", 1, 0, register)
            if register.type == "b16":
                return self.k.op("cvt.u32.u16" if self.widths.bounds(term)[0] >= 0 else "cvt.s32.s16", register)
            return register
        assert isinstance(term, tuple)
        key = (term, bits)
        found = self.lookup(key)
        if found is None:
            found = self.keep(key, self._compute(term, bits), self.is_volatile(term))
        return found

    def _compute(self, term: tuple[Any, ...], bits: int) -> Reg:
        op, *args = term
        if op in _BOOLEAN:
            p = self.predicate(term)
            if isinstance(p, Not):
                return self.k.op(f"selp.b{bits}", 0, 1, p.reg)
            return self.k.op(f"selp.b{bits}", 1, 0, p)
        if op == "select":
            p = self._positive(self.predicate(args[0]))
            a, b = (self.value(x, bits) for x in args[1:])
            return self.k.op(f"selp.b{bits}", a, b, p)
        if op == "add":
            fused = self._multiply_add(args, bits)
            if fused is not None:
                return fused
        handler = getattr(self, f"_op_{op}", None)
        if handler is None:
            raise LoweringError(f"no instruction computes '{op}'")
        return handler(term, args, bits)

    def _pair(self, args: list[Term], bits: int) -> list[Reg | Imm]:
        """Two operands, an immediate second where the operation commutes (callers see to that)."""
        return [self.value(a, bits) for a in args]

    def _sign(self, args: list[Term], bits: int) -> str:
        """The type in which all of these have their value: beyond half the range only the unsigned one."""
        return "u" if any(self.widths.bounds(a)[1] >= 1 << (bits - 1) for a in args) else "s"

    def _commuting(self, args: list[Term], bits: int) -> list[Reg | Imm]:
        return self._pair(args[::-1] if isinstance(args[0], int) else args, bits)

    def _multiply_add(self, args: list[Term], bits: int) -> Reg | None:
        """``a*k + b`` in one instruction where k isn't a power of two (those shift, which is cheaper)."""
        for product, rest in (args, args[::-1]):
            if not (isinstance(product, tuple) and product[0] == "mul") or isinstance(rest, int):
                continue
            a, b = product[1:]
            constant = b if isinstance(b, int) else a if isinstance(a, int) else None
            if constant is not None and _power(abs(constant)) is not None:
                continue
            if self.lookup((product, bits)) is not None:
                continue
            x, y = self._commuting([a, b], bits)
            return self.k.op(f"mad.lo.{self._sign([a, b, rest], bits)}{bits}", x, y, self.value(rest, bits))
        return None

    def _op_add(self, term: Any, args: list[Term], bits: int) -> Reg:
        return self.k.op(f"add.{self._sign(args, bits)}{bits}", *self._commuting(args, bits))

    def _op_sub(self, term: Any, args: list[Term], bits: int) -> Reg:
        if isinstance(args[0], int):
            first = self.k.op(f"mov.b{bits}", args[0])
            return self.k.op(f"sub.s{bits}", first, self._register(args[1], bits))
        return self.k.op(f"sub.{self._sign(args, bits)}{bits}", *self._pair(args, bits))

    def _op_neg(self, term: Any, args: list[Term], bits: int) -> Reg:
        return self.k.op(f"neg.s{bits}", self.value(args[0], bits))

    def _op_mul(self, term: Any, args: list[Term], bits: int) -> Reg:
        a, b = args[::-1] if isinstance(args[0], int) else args
        if isinstance(b, int) and (shift := _power(b)) is not None:
            return self.k.op(f"shl.b{bits}", self.value(a, bits), shift)
        return self.k.op(f"mul.lo.{self._sign(args, bits)}{bits}", self.value(a, bits), self.value(b, bits))

    def _op_shl(self, term: Any, args: list[Term], bits: int) -> Reg:
        return self.k.op(f"shl.b{bits}", self._register(args[0], bits), self.value(args[1], 32))

    def _op_shr(self, term: Any, args: list[Term], bits: int) -> Reg:
        sign = "u" if self.widths.bounds(args[0])[0] >= 0 else "s"
        return self.k.op(f"shr.{sign}{bits}", self._register(args[0], bits), self.value(args[1], 32))

    def _register(self, term: Term, bits: int) -> Reg:
        value = self.value(term, bits)
        return value if isinstance(value, Reg) else self.k.op(f"mov.b{bits}", value)

    def _op_div(self, term: Any, args: list[Term], bits: int) -> Reg:
        a, b = args
        if isinstance(b, int) and (shift := _power(b)) is not None:
            return self._op_shr(term, [a, shift], bits)
        if self._nonnegative(args):
            return self.k.op(f"div.u{bits}", self._register(a, bits), self.value(b, bits))
        return self._floor(args, bits)[0]

    def _op_mod(self, term: Any, args: list[Term], bits: int) -> Reg:
        a, b = args
        if isinstance(b, int) and _power(b) is not None:
            return self.k.op(f"and.b{bits}", self._register(a, bits), b - 1)
        if self._nonnegative(args):
            return self.k.op(f"rem.u{bits}", self._register(a, bits), self.value(b, bits))
        return self._floor(args, bits)[1]

    def _floor(self, args: list[Term], bits: int) -> tuple[Reg, Reg]:
        """Quotient and remainder rounded down, from those rounded towards zero."""
        a, b = (self._register(x, bits) for x in args)
        quotient = self.k.op(f"div.s{bits}", a, b)
        remainder = self.k.op(f"rem.s{bits}", a, b)
        mixed = self.k.op(f"xor.b{bits}", remainder, b)
        p = self.k.op(f"setp.lt.s{bits}", mixed, 0)
        q = self.k.op(f"setp.ne.s{bits}", remainder, 0)
        off = self.k.op("and.pred", p, q)
        down = self.k.op(f"sub.s{bits}", quotient, 1)
        up = self.k.op(f"add.s{bits}", remainder, b)
        return (
            self.k.op(f"selp.b{bits}", down, quotient, off),
            self.k.op(f"selp.b{bits}", up, remainder, off),
        )

    def _op_tdiv(self, term: Any, args: list[Term], bits: int) -> Reg:
        sign = "u" if self._nonnegative(args) else "s"
        return self.k.op(f"div.{sign}{bits}", self._register(args[0], bits), self.value(args[1], bits))

    def _op_tmod(self, term: Any, args: list[Term], bits: int) -> Reg:
        sign = "u" if self._nonnegative(args) else "s"
        return self.k.op(f"rem.{sign}{bits}", self._register(args[0], bits), self.value(args[1], bits))

    def _nonnegative(self, args: list[Term]) -> bool:
        return all(self.widths.bounds(a)[0] >= 0 for a in args)

    def _op_min(self, term: Any, args: list[Term], bits: int) -> Reg:
        return self.k.op(f"min.{self._sign(args, bits)}{bits}", *self._commuting(args, bits))

    def _op_max(self, term: Any, args: list[Term], bits: int) -> Reg:
        return self.k.op(f"max.{self._sign(args, bits)}{bits}", *self._commuting(args, bits))

    def _bitwise(self, term: Any, args: list[Term], bits: int) -> Reg:
        return self.k.op(f"{term[0]}.b{bits}", *self._commuting(args, bits))

    _op_and = _op_or = _op_xor = _bitwise

    # -- addresses -------------------------------------------------------------------------------------------------

    def address(self, term: Term) -> Address:
        """``[register + constant]`` of a 32-bit address term (tensor memory)."""
        moving, constant = self.split(term)
        if moving == 0:
            return Address(self.k.op("mov.b32", constant))
        return Address(self._register(moving, 32), constant)

    def wide_address(self, base: Reg, name: str, offset: Term) -> Address:
        """``[base + offset]`` for a 64-bit base; the moving part is widened and added once per block."""
        moving, constant = self.split(offset)
        if not -(1 << 31) <= constant < 1 << 31:
            moving, constant = offset, 0
        if moving == 0:
            return Address(base, constant)
        key = ("address", name, moving)
        found = self.lookup(key)
        if found is None:
            found = self.keep(key, self._widen_add(base, moving), self.is_volatile(moving))
        return Address(found, constant)

    def _widen_add(self, base: Reg, moving: Term) -> Reg:
        if isinstance(moving, tuple) and moving[0] == "mul" and isinstance(moving[2], int) and 0 < moving[2] < 1 << 31:
            if not self.widths.reaches_beyond(moving[1], 32):  # the product has 64 bits, however large it is
                sign = "u" if self.widths.bounds(moving[1])[0] >= 0 else "s"
                return self.k.op(f"mad.wide.{sign}32", self._register(moving[1], 32), moving[2], base)
        if not self.widths.is_exact_modulo(moving):
            return self.k.op("add.s64", base, self._modular(moving))
        if self.widths.width(moving) == 32:
            sign = "u" if self.widths.bounds(moving)[0] >= 0 else "s"
            return self.k.op("add.s64", base, self._convert(moving, self._register(moving, 32), 64))
        return self.k.op("add.s64", base, self._register(moving, 64))


def _power(n: int) -> int | None:
    """log2 of a power of two, else None."""
    return n.bit_length() - 1 if n > 0 and n & (n - 1) == 0 else None
