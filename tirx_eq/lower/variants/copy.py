"""Synchronous copies: memory to memory through registers, between registers and memory, between registers."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np

from ...ir import Expr, Var
from ...ir.index import evaluate_many
from ...ir.index_ir import IndexScope
from ...layout.conflicts import bank_conflicts
from ..code.accesses import ACCESS, access
from ..context import CallContext, Operand
from ..machine import Price
from ..program import Block, If, Instruction, Memory, Node, Temp, Word, instruction
from ..sharing.active import thread_points
from .base import Variant, constant_bytes, word_of

#: Words that a thread keeps in flight between the loads and the stores of a memory copy.
IN_FLIGHT = 64


def _words(values: tuple[Temp, ...]) -> tuple[Temp, ...] | Temp:
    return values if len(values) > 1 else values[0]


def vector_steps(c: CallContext, width: int, people: int | None = None) -> tuple[int, int, int]:
    """(vectors, whole rounds of all participants, vectors left over)."""
    o = c.outputs[0]
    vectors = o.size * o.bits // 8 // width
    return (vectors, *divmod(vectors, people or c.participants))


def emit_memory_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Participant t copies vectors t, t+T, t+2T, …: neighbouring threads touch neighbouring vectors, so accesses coalesce."""
    return _deal(c, parameters[0], c.rank(), c.participants)


def emit_cluster_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """The same with the threads of all CTAs of the cluster: those of CTA 0 first."""
    threads = c.launch.threads
    return _deal(c, parameters[0], c.launch.cta_rank() * threads + c.launch.flat_tid(), threads * math.prod(c.launch.cluster))


def _deal(c: CallContext, width: int, rank: Expr, people: int) -> Block:
    src, dst = c.inputs[0], c.outputs[0]
    lanes = width * 8 // src.bits
    _, rounds, rest = vector_steps(c, width, people)

    def move(steps: list[int]) -> list[Node]:
        nodes: list[Node] = []
        held = []
        for i in steps:
            element = (rank + i * people) * lanes
            temps = tuple(Temp("b32" if width > 2 else "b16") for _ in range(ACCESS[width][1]))
            held.append((element, temps))
            at = Memory(src.root, c.resolve(src.byte_offset(element)))
            nodes.append(instruction(access("ld", src.root.space, width), _words(temps), at))
        for element, temps in held:
            at = Memory(dst.root, c.resolve(dst.byte_offset(element)))
            nodes.append(instruction(access("st", dst.root.space, width), at, _words(temps)))
        return nodes

    batch = max(1, IN_FLIGHT // ACCESS[width][1])
    nodes = [n for i in range(0, rounds, batch) for n in move(list(range(i, min(rounds, i + batch))))]
    if rest:
        nodes.append(If(rank < rest, tuple(move([rounds]))))
    return tuple(nodes)


def price_cluster_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """Of one CTA: its share of the instructions and of the memory traffic."""
    whole = price_memory_copy(c, parameters)
    ctas = math.prod(c.launch.cluster)
    return replace(whole, issue=-(-whole.issue // ctas), wavefronts=whole.wavefronts / ctas, sectors=whole.sectors / ctas)


def price_memory_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    (width,) = parameters
    vectors, rounds, rest = vector_steps(c, width)
    steps = rounds + (1 if rest else 0)
    shared = sectors = 0.0
    for o in (c.inputs[0], c.outputs[0]):
        vector = Var("vector", "int32")  # type: ignore[arg-type]
        scope = c.scope_with({vector: (0, vectors - 1)})
        points = _lowest(scope)
        points[scope.name(vector)] = np.arange(vectors)
        offsets = evaluate_many(c.term(o.byte_offset(vector * (width * 8 // o.bits)), scope), points)
        waves, pieces = _traffic(o, np.broadcast_to(offsets, (vectors,)), width)
        shared, sectors = shared + waves, sectors + pieces
    words = min(IN_FLIGHT, steps * ACCESS[width][1])
    return Price(2 * steps, -(-c.participants // 32), shared, sectors, registers=words)


def _traffic(o: Operand, offsets: np.ndarray, width: int) -> tuple[float, float]:
    """Shared-memory wavefronts and global sectors of accesses at byte ``offsets``, 32 lanes of a warp after one another."""
    if o.root.space == "local":
        return 0.0, 0.0
    banked = o.root.space != "global"
    period = 128 if banked else 32
    patterns: Counter[tuple[int, ...]] = Counter()
    for i in range(0, len(offsets), 32):
        warp = offsets[i : i + 32]
        # Warps alike up to a whole number of periods cost alike.
        patterns[tuple((warp - warp.min() // period * period).tolist())] += 1
    if banked:
        return float(sum(n * bank_conflicts(w, width).wavefronts for w, n in patterns.items())), 0.0
    return 0.0, float(sum(n * len({(a + b) // 32 for a in w for b in range(0, width, 32)}) for w, n in patterns.items()))


def _lowest(scope: IndexScope) -> dict[str, np.ndarray | int]:
    """Every variable at its lowest value: CTA 0, thread 0, first iterations."""
    return {name: low for name, (low, _) in scope.ranges.items()}


def emit_register_copy(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Each thread moves its whole operand, one access per group of ``width`` bytes."""
    (width,) = parameters
    src, dst = c.inputs[0], c.outputs[0]
    loading = dst.root.space == "local"
    local, memory = (dst, src) if loading else (src, dst)
    lanes = width * 8 // local.bits
    places = constant_bytes(local)
    nodes: list[Node] = []
    for first in range(0, local.size, lanes):
        at = Memory(memory.root, c.resolve(memory.byte_offset(first)))
        verb = access("ld" if loading else "st", memory.root.space, width, local.root.word_bits)
        if width * 8 >= local.root.word_bits:
            words = _register_words(local, places[first], width)
            nodes.append(instruction(verb, words, at) if loading else instruction(verb, at, words))
        elif loading:
            nodes += _load_part(local, places[first], width, verb, at)
        else:
            part = Temp("b32")
            shift = places[first] * 8 % local.root.word_bits
            nodes.append(instruction("shr.u32", part, word_of(local, places[first]), shift))
            nodes.append(instruction(verb, at, part))
    return tuple(nodes)


def _register_words(local: Operand, byte: int, width: int) -> tuple[Word, ...] | Word:
    step = local.root.word_bits // 8
    words = tuple(word_of(local, b) for b in range(byte, byte + width, step))
    return words if len(words) > 1 else words[0]


def _load_part(local: Operand, byte: int, width: int, verb: str, at: Memory) -> list[Node]:
    """Load less than a register into its place in the register."""
    part = Temp("b32")
    word = word_of(local, byte)
    return [
        instruction(verb, part, at),
        instruction("bfi.b32", word, part, word, byte * 8 % local.root.word_bits, width * 8),
    ]


def price_register_copy(c: CallContext, parameters: tuple[int, ...]) -> Price:
    (width,) = parameters
    local = c.outputs[0] if c.outputs[0].root.space == "local" else c.inputs[0]
    memory = c.inputs[0] if local is c.outputs[0] else c.outputs[0]
    accesses = local.size * local.bits // 8 // width
    extra = accesses if width * 8 < local.root.word_bits else 0
    scope = c.scope_with()
    points = _lowest(scope)
    registers = {scope.name(v): r for r, v in c.launch.special.items() if r.startswith("tid.")}
    points.update(thread_points(c.launch, registers))
    term = c.term(memory.byte_offset(0), scope)
    offsets = np.broadcast_to(np.asarray(evaluate_many(term, points)), (c.launch.threads,))[c.active.mask]
    waves, pieces = _traffic(memory, offsets[:1] if c.active.elected else offsets, width)
    return Price(
        issue=accesses + extra, warps=len(c.active.warps()), wavefronts=waves * accesses, sectors=pieces * accesses
    )


def emit_register_move(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Copy registers word by word where elements fill words alike, else element by element."""
    src, dst = c.inputs[0], c.outputs[0]
    return moves(src, dst, constant_bytes(src), constant_bytes(dst))


def moves(src: Operand, dst: Operand, a: list[int], b: list[int]) -> Block:
    """Instructions that bring what is at bytes ``a`` of the source's registers to bytes ``b`` of the destination's."""
    step = dst.root.word_bits // 8
    size = dst.bits // 8
    nodes: list[Node] = []
    done: set[int] = set()
    position = {byte: k for k, byte in enumerate(b)}
    for k, byte in enumerate(b):
        word = byte // step
        if word in done:
            continue
        members = [position.get(word * step + j) for j in range(0, step, max(1, size))]
        whole = size >= step or all(
            m is not None and a[m] == a[k] - a[k] % step + (b[m] - word * step) for m in members
        )
        if whole:
            done.add(word)
            nodes.append(instruction(f"mov.b{dst.root.word_bits}", word_of(dst, byte), word_of(src, a[k])))
        else:
            part = Temp("b32")
            nodes.append(instruction("shr.u32", part, word_of(src, a[k]), a[k] % step * 8))
            nodes.append(instruction("bfi.b32", word_of(dst, byte), part, word_of(dst, byte), byte % step * 8, size * 8))
    return tuple(nodes)


def price_register_move(c: CallContext, parameters: tuple[int, ...]) -> Price:
    moves = sum(1 for n in emit_register_move(c, parameters) if isinstance(n, Instruction))
    return Price(issue=moves, warps=len(c.active.warps()))


COPIES = (
    Variant("MemoryCopy", ("bytes",), price_memory_copy, emit_memory_copy, ("vec_len",)),
    Variant("RegisterCopy", ("bytes",), price_register_copy, emit_register_copy, ("vec_len",)),
    Variant("RegisterMove", (), price_register_move, emit_register_move),
)
