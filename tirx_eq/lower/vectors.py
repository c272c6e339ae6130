"""Stores of vectors: of expressions with several lanes, and of vectorized loops around one store.

All lanes are loaded and computed before one is stored.  Lanes that are neighbours in memory move in as wide accesses as their
alignment can be proved for; the others one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import LoweringError
from ..ir import (
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    For,
    PointerType,
    PrimType,
    Ramp,
    SeqStmt,
    Var,
    const,
    post_order_visit,
    substitute,
)  # fmt: skip
from ..ir import dtype as dt
from ..prove.validate import validate
from ..ptx.target import target_has
from .code.accesses import access
from .code.atomics import is_atomic
from .code.snapshots import replace_reads
from .code.vector_lanes import lane_of
from .place import Place, inner_place
from .program import If, Instruction, Memory, Node, Operand, Word
from .sharing.active import narrow
from .statement_parts import always_loaded
from .storage import Root

if TYPE_CHECKING:
    from .statements import Lowerer

#: Iterations of a vectorized loop that are taken as one vector.
MAX_LANES = 32


@dataclass(frozen=True)
class Lanes:
    """A store of several elements: where each goes, and its value."""

    buffer: Buffer
    indices: tuple[tuple[Expr, ...], ...]
    values: tuple[Expr, ...]

    def __len__(self) -> int:
        return len(self.values)

    def targets(self) -> list[BufferLoad]:
        return [BufferLoad(self.buffer, i) for i in self.indices]


def lanes_of_store(s: BufferStore) -> Lanes:
    """The lanes of a store of a vector."""
    count = dt.lanes(s.value.dtype)
    if dt.lanes(s.buffer.dtype) != 1:
        raise LoweringError(f"'{s.buffer.name}' has vectors as elements: a store is of single ones", span=s.span)
    indices = tuple(tuple(lane_of(i, k) for i in s.indices) for k in range(count))
    return Lanes(s.buffer, indices, tuple(lane_of(s.value, k) for k in range(count)))


def store_vector(low: Lowerer, s: BufferStore, place: Place) -> list[Node]:
    """The instructions of a store of a vector, maybe under a predicate (one for all lanes, or one for each)."""
    lanes = lanes_of_store(s)
    if s.predicate is None:
        return store_lanes(low, lanes, place)
    if dt.lanes(s.predicate.dtype) == 1:
        return [_where(low, s.predicate, place, lambda inner: store_lanes(low, lanes, inner))]
    held = new_array(low, lanes.buffer.dtype, len(lanes))
    holds = [lane_of(s.predicate, k) for k in range(len(lanes))]
    nodes: list[Node] = []
    for k, (p, v) in enumerate(zip(holds, lanes.values)):
        nodes.append(_where(low, p, place, lambda inner, k=k, v=v: _into(low, held, k, v, inner)))  # type: ignore[misc]
    for k, (p, i) in enumerate(zip(holds, lanes.indices)):
        one = BufferStore(lanes.buffer, BufferLoad(held, (const(k),)), i)
        nodes.append(_where(low, p, place, lambda inner, one=one: low.store(one, inner)))  # type: ignore[misc]
    return nodes


def _where(low: Lowerer, condition: Expr, place: Place, made: Callable[[Place], list[Node]]) -> Node:
    """What is made for the threads for which a condition holds."""
    holds = low.resolve(condition, place)
    inner = inner_place(place, narrow(place.active, holds, low.launch))
    body = made(inner)
    return If(holds, (*inner.pending, *body))


def store_lanes(low: Lowerer, lanes: Lanes, place: Place) -> list[Node]:
    """Loads, values, stores: each for all lanes before the next."""
    for i, v in zip(lanes.indices, lanes.values):
        low.check_elements(BufferStore(lanes.buffer, v, i), place)
    nodes, loaded = _wide_loads(low, lanes, place)
    held = new_array(low, lanes.buffer.dtype, len(lanes))
    for k, v in enumerate(lanes.values):
        nodes += _into(low, held, k, replace_reads(v, lambda read: loaded.get(read)), place)  # type: ignore[arg-type]
    width = _width(low, lanes.targets(), place)
    if width is None:
        for k, i in enumerate(lanes.indices):
            nodes += low.store(BufferStore(lanes.buffer, BufferLoad(held, (const(k),)), i), place)
        return nodes
    nodes += _moves(low, "st", held, lanes.targets(), width, place)
    return nodes


def vector_of_loop(low: Lowerer, s: For, first: int, count: int, place: Place) -> Lanes | None:
    """The lanes of a vectorized loop around one store to memory whose elements are neighbours, else None."""
    body = s.body
    while isinstance(body, SeqStmt) and len(body.seq) == 1:
        body = body.seq[0]
    if not isinstance(body, BufferStore) or body.predicate is not None or not 2 <= count <= MAX_LANES:
        return None
    if dt.lanes(body.value.dtype) != 1 or any(isinstance(i, Ramp) for i in body.indices) or _has_effects(body.value):
        return None
    at = [{s.loop_var: const(first + k, s.loop_var.dtype)} for k in range(count)]
    indices = tuple(tuple(substitute(i, point) for i in body.indices) for point in at)
    lanes = Lanes(body.buffer, indices, tuple(substitute(body.value, point) for point in at))
    root = low.storage.root(body.buffer)
    read: list[BufferLoad] = []
    post_order_visit(body.value, lambda node: read.append(node) if isinstance(node, BufferLoad) else None)
    for load in read:  # rounds in turn are as good as all at once where none reads what another writes
        other = low.storage.root(load.buffer)
        if other.space == root.space and (other.name == root.name or root.space == "shared"):
            return None
    return lanes if _width(low, lanes.targets(), place) is not None else None


def _has_effects(e: Expr) -> bool:
    found: list[bool] = []
    post_order_visit(e, lambda node: found.append(is_atomic(node) or isinstance(node, Call)))
    return any(found)


def new_array(low: Lowerer, dtype: str, count: int) -> Buffer:
    """``count`` elements in new registers."""
    name = f"lanes_{len(low.storage.roots)}"
    buffer = Buffer(Var(name, PointerType(PrimType(dtype), "local")), dtype, (const(count),), name=name)
    bits = 64 if dt.storage_bits(dtype) == 64 else 32
    size = -(-count * dt.storage_bits(dtype) // bits) * bits // 8
    low.storage.roots[buffer.data] = Root("local", name, size=size, word_bits=bits)
    return buffer


def _into(low: Lowerer, held: Buffer, k: int, value: Expr, place: Place) -> list[Node]:
    made = low.store(BufferStore(held, value, (const(k),)), place)
    before = [*place.pending]
    place.pending.clear()
    return [*before, *made]


def _wide_loads(low: Lowerer, lanes: Lanes, place: Place) -> tuple[list[Node], dict[BufferLoad, Expr]]:
    """Loads of neighbours at once, and what stands for each load then."""
    per_lane = [list(always_loaded(v)) for v in lanes.values]
    nodes: list[Node] = []
    found: dict[BufferLoad, Expr] = {}
    if len({len(loads) for loads in per_lane}) != 1:
        return nodes, found
    for group in zip(*per_lane):
        if len({id(load.buffer) for load in group}) != 1 or all(load in found for load in group):
            continue
        width = _width(low, group, place)
        if width is None:
            continue
        held = new_array(low, group[0].buffer.dtype, len(group))
        nodes += _moves(low, "ld", held, group, width, place)
        found |= {load: BufferLoad(held, (const(k),)) for k, load in enumerate(group)}
    return nodes, found


def _moves(low: Lowerer, verb: str, held: Buffer, at: Sequence[BufferLoad], width: int, place: Place) -> list[Node]:
    """Accesses of ``width`` bytes between registers, side by side, and neighbours in memory."""
    root, size = low.storage.roots[held.data], dt.storage_bits(held.dtype) // 8
    nodes: list[Node] = []
    for first in range(0, len(at), width // size):
        memory = low.memory(at[first], place)
        start = first * size * 8 // root.word_bits
        words = tuple(Word(root, start + j) for j in range(width * 8 // root.word_bits))
        value: Operand = words if len(words) > 1 else words[0]
        opcode = access(verb, memory.root.space, width, root.word_bits)
        nodes.append(Instruction(opcode, (value, memory) if verb == "ld" else (memory, value)))
    return nodes


def _width(low: Lowerer, at: Sequence[BufferLoad], place: Place) -> int | None:
    """Bytes of the widest accesses that move neighbouring elements of memory, None if there are none of several elements."""
    bits = dt.storage_bits(at[0].buffer.dtype)
    places: list[Memory] = [low.memory(load, place) for load in at]
    root = places[0].root
    if bits % 8 or dt.kind(at[0].buffer.dtype) == "bool" or root.space not in ("global", "shared", "cluster"):
        return None
    size, scope = bits // 8, low.scope_at(place)
    terms = [scope.term(p.offset) for p in places]
    for k, term in enumerate(terms[1:], 1):
        if validate(("sub", term, terms[0]), k * size, scope.ranges).status != "equal":
            return None
    widest = 32 if root.space == "global" and target_has(low.target, "sm_100") else 16
    for width in (32, 16, 8, 4):
        fits = width <= widest and width >= max(4, 2 * size) and len(at) * size % width == 0 and root.align % width == 0
        if fits and validate(("mod", terms[0], width), 0, scope.ranges).status == "equal":
            return width
    return None
