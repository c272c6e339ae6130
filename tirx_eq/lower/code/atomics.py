"""Atomic operations that statements and expressions call, as PTX ``red`` and ``atom`` (PTX ISA 9.7.13.5, 9.7.13.6).

``red`` where nobody wants the old value, else ``atom``, whose result goes to a register of its own right where the
expression stands: an expression that is read twice must not be executed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ...errors import LoweringError
from ...ir import And, BufferLoad, Call, Expr, Or, Select, const, post_order_visit
from ...ir import dtype as dt
from ...ir.arith import cast
from ..intrinsics.build import arguments as named_arguments
from ..intrinsics.language import constant
from ..intrinsics.places import address_operand
from ..program import Instruction, Memory, Node, Operand, Store, Temp, Word
from ..storage import Root, remote_address
from .accesses import state_space
from .vector_lanes import lane_of

ADD, CAS, ATOM, RED = "tirx.cuda.atomic_add", "tirx.cuda.atomic_cas", "tirx.ptx.atom_scalar", "tirx.ptx.red_scalar"
#: Calls whose value is the old one.
VALUES = frozenset((ADD, CAS, ATOM))
ATOMICS = VALUES | {RED}

#: dtype of a sum -> type of the instruction.  Signed sums of 64 bits are those of unsigned numbers.
_SUMS = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int32": "s32", "uint32": "u32",
    "int64": "u64", "uint64": "u64",
}  # fmt: skip
#: dtype -> elements of the vectors that it adds in global memory.
VECTORS = {"float32": (2, 4), "float16": (2, 4, 8), "bfloat16": (2, 4, 8)}
#: Operation -> types that PTX has it for.
TYPES: dict[str, tuple[str, ...]] = {
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64"), "max": ("u32", "s32", "u64", "s64"),
    **dict.fromkeys(("and", "or", "xor", "exch"), ("b32", "b64")), "inc": ("u32",), "dec": ("u32",),
    "cas": ("b16", "b32", "b64"),
}  # fmt: skip
#: Type -> dtype of the operand that the script gives; halves in one register as the bits of both.
OPERANDS = {
    "u32": "uint32", "s32": "int32", "u64": "uint64", "s64": "int64", "b16": "uint16", "b32": "uint32", "b64": "uint64",
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "f16x2": "uint32", "bf16x2": "uint32",
}  # fmt: skip
_SCALAR = ("address", "value", "policy", "sem", "scope", "space", "op", "ptx_type", "has_policy")


@dataclass(frozen=True)
class Atomic:
    """One atomic operation: ``op`` of ``type`` at ``address`` with ``values`` (for cas: expected, new)."""

    op: str
    type: str
    address: Expr
    values: tuple[Expr, ...]
    sem: str = ""
    scope: str = ""
    space: str = ""
    policy: Expr | None = None
    vector: int = 1

    @property
    def dtype(self) -> str:
        return OPERANDS[self.type]


def is_atomic(e: object) -> bool:
    """Whether a node is an atomic operation that gives the old value."""
    return isinstance(e, Call) and e.op.name in VALUES


def atomic_of(call: Call) -> Atomic:
    """What a call of the script means; raises LoweringError for an operation that PTX hasn't for the type."""
    if call.op.name in (ATOM, RED):
        return _scalar(call)
    a = named_arguments(call)
    if call.op.name == ADD:
        dtype = a["value"].dtype
        if dt.lanes(dtype) > 1:
            return _vector(call, a["res_addr"], a["value"])
        if dtype not in _SUMS:
            raise LoweringError(f"'{call.op.short_name}' of {dtype}: PTX adds {', '.join(_SUMS)}", span=call.span)
        return Atomic("add", _SUMS[dtype], a["res_addr"], (a["value"],))
    dtype = a["old_val"].dtype
    kind = f"b{dt.bits(dtype)}"
    if kind not in TYPES["cas"] or dt.lanes(dtype) != 1:
        raise LoweringError(f"'{call.op.short_name}' of {dtype}: PTX compares 16, 32 and 64 bits", span=call.span)
    return Atomic("cas", kind, a["ptr"], (a["old_val"], a["new_val"]))


def _scalar(call: Call) -> Atomic:
    """``ptx.atom_scalar`` and ``ptx.red_scalar``, whose operands are those of ``_SCALAR``."""
    a = dict(zip(_SCALAR, call.args))
    sem, scope, space, op, kind = (str(constant(a[n]) or "") for n in ("sem", "scope", "space", "op", "ptx_type"))
    if kind not in TYPES.get(op, ()):
        there = ", ".join(TYPES.get(op, ())) or "nothing"
        raise LoweringError(f"'{call.op.short_name}': there is no atomic {op} of {kind}; there is of {there}", span=call.span)
    policy = a["policy"] if constant(a["has_policy"]) else None
    if policy is not None and space not in ("", "global"):
        raise LoweringError(f"'{call.op.short_name}' in {space} memory has a policy of the L2 cache", span=call.span)
    return Atomic(op, kind, a["address"], (a["value"],), sem, scope, space, policy)


def _vector(call: Call, address: Expr, value: Expr) -> Atomic:
    """The sum of a vector, each element by itself: ``red.global.v2`` and so on (PTX ISA 9.7.13.6, sm_90)."""
    dtype, count = dt.with_lanes(value.dtype, 1), dt.lanes(value.dtype)
    if count not in VECTORS.get(dtype, ()):
        there = ", ".join(f"{d}x{n}" for d, counts in VECTORS.items() for n in counts)
        raise LoweringError(f"'{call.op.short_name}' of {value.dtype}: PTX adds vectors of {there}", span=call.span)
    return Atomic("add", _SUMS[dtype], address, tuple(lane_of(value, k) for k in range(count)), vector=count)


def check_places(e: Expr) -> None:
    """Raise LoweringError for an atomic operation that isn't executed once wherever the expression is.

    That is one in a side of a choice; and one beside a load of the buffer that it changes, since the load's time would matter.
    """
    found: list[Call] = []
    post_order_visit(e, lambda node: found.append(node) if is_atomic(node) else None)
    if not found:
        return
    for side in _sides(e):
        inner: list[Call] = []
        post_order_visit(side, lambda node: inner.append(node) if is_atomic(node) else None)  # noqa: B023
        if inner:
            raise LoweringError(
                f"'{inner[0].op.short_name}' in a part of an expression that may not be evaluated",
                hint="bind its value in an if statement", span=inner[0].span,
            )
    changed = {load.buffer.data for c in found if (load := _element(atomic_of(c).address)) is not None}
    for load in _loads(e):
        if load.buffer.data in changed:
            raise LoweringError(
                f"'{load.buffer.name}' is read and changed atomically in one expression",
                hint="bind the one or the other first", span=load.span,
            )


def _sides(e: Expr) -> Iterator[Expr]:
    found: list[Expr] = []

    def look(node: object) -> None:
        if isinstance(node, Call) and node.op.name == "tirx.if_then_else":
            found.extend(a for a in node.args[1:] if isinstance(a, Expr))
        elif isinstance(node, (And, Or)):
            found.append(node.b)
        elif isinstance(node, Select):
            found.extend((node.true_value, node.false_value))

    post_order_visit(e, look)
    return iter(found)


def _loads(e: Expr) -> Iterator[BufferLoad]:
    """Elements that are read, not those whose address is taken."""
    found: list[BufferLoad] = []
    taken: set[int] = set()

    def look(node: object) -> None:
        if isinstance(node, Call) and node.op.name == "tirx.address_of":
            taken.add(id(node.args[0]))
        elif isinstance(node, BufferLoad):
            found.append(node)

    post_order_visit(e, look)
    return (load for load in found if id(load) not in taken)


def _element(address: Expr) -> BufferLoad | None:
    remote = remote_address(address)
    return remote[0] if remote else address_operand(address)


class MemoryOf(Protocol):
    """The place of an element; with a rank, of the same element in that CTA of the cluster."""

    def __call__(self, load: BufferLoad, rank: Expr | None = None) -> Memory: ...


def program_of_atomic(
    a: Atomic, call: Call, memory_of: MemoryOf, fresh: Callable[[str], Root], result: Root | None,
    aligned: Callable[[Expr, int], bool],
) -> list[Node]:  # fmt: skip
    """The instructions; ``fresh`` makes registers of a dtype, ``result`` are those for the old value (None: not wanted).

    ``aligned`` proves that a byte offset is a multiple of a number.
    """
    name = call.op.short_name
    remote = remote_address(a.address)
    load = remote[0] if remote else address_operand(a.address)
    if load is None:
        raise LoweringError(f"'{name}': where it happens must be the address of an element of a buffer", span=call.span)
    at = memory_of(load, remote[1]) if remote else memory_of(load)
    _check_memory(a, name, load, at, call, aligned)
    nodes: list[Node] = []
    operands = [_register(a, v, fresh, nodes) for v in a.values]
    order = "".join(f".{m}" for m in (a.sem, a.scope) if m)
    flags = ".noftz" if a.type.lstrip("b").startswith("f16") else ""
    if a.policy is not None:
        flags += ".L2::cache_hint"
        operands.append(_policy(a.policy, fresh, nodes))
    kind = "u64" if (a.op, a.type) == ("add", "s64") else a.type  # PTX adds unsigned numbers, with the same bits
    vector = f".v{a.vector}" if a.vector > 1 else ""
    tail = f"{order}.{state_space(at.root.space)}.{a.op}{flags}{vector}.{kind}"
    if vector:
        if result is not None:
            raise LoweringError(f"the old value of '{name}' is a vector, which has no register", span=call.span)
        nodes.append(Instruction(f"red{tail}", (at, tuple(operands)), span=call.span))
        return nodes
    if result is None and a.op not in ("exch", "cas") and a.sem in ("", "relaxed", "release"):
        nodes.append(Instruction(f"red{tail}", (at, *operands), span=call.span))
        return nodes
    old = Temp("b16" if dt.bits(a.dtype) == 16 else f"b{dt.bits(a.dtype)}")
    nodes.append(Instruction(f"atom{tail}", (old, at, *operands), span=call.span))
    if result is not None:
        whole = old
        if old.type == "b16":
            whole = Temp("b32")
            nodes.append(Instruction("mov.b32", (whole, (old, old))))
        nodes.append(Instruction(f"mov.b{result.word_bits}", (Word(result, 0), whole)))
    return nodes


def _check_memory(
    a: Atomic, name: str, load: BufferLoad, at: Memory, call: Call, aligned: Callable[[Expr, int], bool]
) -> None:
    space = at.root.space
    if space not in ("global", "shared", "cluster"):
        raise LoweringError(f"'{name}': '{load.buffer.name}' is in {space}; memory is needed", span=call.span)
    legal = {"global": ("", "global"), "shared": ("", "shared", "shared::cta", "shared::cluster"),
             "cluster": ("", "shared::cluster")}[space]  # fmt: skip
    if a.space not in legal:
        raise LoweringError(f"'{name}' in {a.space} memory, but '{load.buffer.name}' is in {space} memory", span=call.span)
    if a.vector > 1 and space != "global":
        raise LoweringError(f"'{name}' of a vector in {space} memory: PTX has it in global memory", span=call.span)
    one = 32 if a.type.endswith("x2") else dt.bits(a.dtype)
    size = one * a.vector
    if dt.storage_bits(load.buffer.dtype) < size and not aligned(at.offset, size // 8):
        raise LoweringError(
            f"'{name}' of {a.type} needs an address that is a multiple of {size // 8} bytes; that of '{load.buffer.name}' "
            f"can't be shown to be", span=call.span,
        )  # fmt: skip
    if dt.storage_bits(load.buffer.dtype) > one:
        raise LoweringError(f"'{name}' of {a.type} on elements of {load.buffer.dtype}", span=call.span)


def _register(a: Atomic, value: Expr, fresh: Callable[[str], Root], nodes: list[Node]) -> Operand:
    """A register with an operand's value, in the dtype of the operation."""
    root = fresh(a.dtype)
    nodes.append(Store(Memory(root, const(0)), a.dtype, cast(a.dtype, value)))
    if dt.bits(a.dtype) != 16:
        return Word(root, 0)
    low, high = Temp("b16"), Temp("b16")
    nodes.append(Instruction("mov.b32", ((low, high), Word(root, 0))))
    return low


def _policy(value: Expr, fresh: Callable[[str], Root], nodes: list[Node]) -> Operand:
    """A register with a cache policy (PTX ISA, createpolicy)."""
    root = fresh("uint64")
    nodes.append(Store(Memory(root, const(0)), "uint64", cast("uint64", value)))
    return Word(root, 0)
