"""Loads, stores, atomics and address mapping (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tirx_eq.sim.arithmetic.alu import need
from tirx_eq.sim.arithmetic.formats import to_bf16, to_f16, widen
from tirx_eq.sim.clocks import join
from tirx_eq.sim.isa import BITS, INTEGERS, entry
from tirx_eq.sim.memory import GENERIC, GLOBAL, LOCAL, OFFSET_MASK, PARAM, RANK_SHIFT, SHARED, STRONG, Shadow
from tirx_eq.sim.program import ALU, DTYPES, Decoder, Reader, Run
from tirx_eq.sim.text.syntax import Instr, Operand, Reg, Sink, Vec
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray
SPACES = {"global": "global", "shared": "shared", "shared::cta": "shared", "shared::cluster": "cluster",
          "local": "local", "param": "param", "param::entry": "param", "param::func": "param", "const": "global"}
STRONG_WORDS = {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "sc"}
TYPES = INTEGERS | BITS | {"f16", "bf16", "f16x2", "bf16x2", "f32", "f64"}
WIDTH = {"f16x2": 4, "bf16x2": 4}


def size_of(kind: str) -> int:
    return WIDTH.get(kind) or np.dtype(DTYPES[kind]).itemsize


def space_in(decoder: Decoder, instr: Instr, operand: Operand) -> str:
    """State space of an access: from the opcode, else generic."""
    for part in instr.parts[1:]:
        if part in SPACES:
            space = SPACES[part]
            if space == "param" and decoder.space_of(operand) == "local":
                return "local"
            return space
    return "generic"


class Place:
    """One state space's share of an access: which rows, where in its flat array, its data and shadow."""

    __slots__ = ("data", "flat", "mask", "name", "rows", "shadow")

    def __init__(self, name: str, mask: Array | None, rows: Array, flat: Array, data: Array,
                 shadow: Shadow | None) -> None:
        self.name = name
        self.mask = mask
        self.rows = rows
        self.flat = flat
        self.data = data
        self.shadow = shadow


def place(w: Wave, space: str, address: Array, rows: Array, size: int, align: int,
          mask: Array | None = None) -> Place:
    if space == "global":
        return Place("global memory", mask, rows, w.global_flat(address, rows, size, align),
                     w.context.buffers.data, w.context.shadow)
    if space in ("shared", "cluster"):
        return Place("shared memory", mask, rows, w.shared_flat(address, rows, size, align, space == "cluster"),
                     w.smem, w.shared_shadow)
    if space == "local":
        return Place("local memory", mask, rows, w.local_flat(address, rows, size), w.local, None)
    if space == "param":
        limit = len(w.context.params)
        bad = (address < 0) | (address + size > limit)
        if bad.any():
            w.report("bounds", f"parameter offset {int(address[int(np.argmax(bad))])} of {limit}",
                     row=int(rows[int(np.argmax(bad))]), fatal=True)
        return Place("parameters", mask, rows, address, w.context.params, None)
    raise AssertionError(space)


def locate(w: Wave, g: Group, space: str, address: Array, size: int, align: int) -> list[Place]:
    """Where ``size`` bytes at each address lie; generic addresses may spread over several spaces.

    The window of kernel parameters lies within the global one (PTX ISA 6.4.1), so global accesses reach it too.
    """
    if space != "generic" and not (space == "global" and (address < GLOBAL).any() and (w.classify(address) == 3).any()):
        return [place(w, space, address, g.idx, size, align)]
    kinds = w.classify(address)
    found = []
    for kind in sorted(set(kinds.tolist())):
        mask = kinds == kind
        rows, part = g.idx[mask], address[mask]
        mask_or_none = None if mask.all() else mask
        if kind == 4:
            w.report("bounds", "an address in no state space", row=int(rows[0]), address=int(part[0]), fatal=True)
        name = ("global", "cluster", "local", "param")[kind]
        base = (0, SHARED, LOCAL, PARAM)[kind]
        found.append(place(w, name, part - base, rows, size, align, mask_or_none))
    return found


def guard_barriers(w: Wave, at: Place, size: int, verb: str) -> None:
    """Ordinary accesses must stay off mbarrier objects."""
    if at.shadow is not w.shared_shadow or not w.mbarriers:
        return
    for barrier in w.mbarriers.values():
        start = barrier.cta * w.smem_size + barrier.offset
        hit = (at.flat < start + 8) & (at.flat + size > start)
        if hit.any():
            w.report("mbarrier", f"an ordinary {verb} touches {barrier.describe(w)}",
                     row=int(at.rows[int(np.argmax(hit))]))


def elements(at: Place, count: int, size: int) -> Array:
    """Index array (rows, count) into ``data`` viewed as ``size``-byte elements."""
    base = (at.flat // size).astype(np.int64)
    return base[:, None] + np.arange(count) if count > 1 else base[:, None]


@dataclass(frozen=True)
class Transfer:
    """What a load or store moves: ``count`` elements of ``kind``, between ``items`` (or the 128-bit register ``wide``) and
    the memory that ``read`` gives the addresses of."""

    kind: str
    count: int
    items: tuple[Operand, ...]
    wide: int | None
    space: str
    read: Reader
    strong: bool

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return size_of(self.kind)


def transfer(decoder: Decoder, instr: Instr, registers: Operand, memory: Operand) -> Transfer:
    """The operands of ``ld`` or ``st``, checked."""
    kind = instr.parts[-1]
    items = registers.items if isinstance(registers, Vec) else (registers,)
    count = next((int(p[1]) for p in instr.parts if p in ("v2", "v4", "v8")), 1)
    if count != len(items):
        raise decoder.error(f"{len(items)} registers where {count} are needed")
    space = space_in(decoder, instr, memory)
    read = decoder.address(memory)
    wide = None
    if kind == "b128":
        if not isinstance(registers, Reg):
            raise decoder.error("a .b128 register is needed")
        wide, kind, count = registers.index, "b64", 2
    decoder.touches({"cluster": "shared"}.get(space, space), size_of(kind))
    return Transfer(kind, count, items, wide, space, read, bool(STRONG_WORDS & set(instr.parts)))


def load(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    t = transfer(decoder, instr, instr.operands[0], instr.operands[1])
    kind, count, wide, space, read, strong, size = t.kind, t.count, t.wide, t.space, t.read, t.strong, t.size
    acquire = "acquire" in instr.parts
    total = size * count
    targets = [] if wide is not None else [decoder.target(o, kind) for o in t.items]
    skip = [isinstance(o, Sink) for o in t.items]
    dtype = np.dtype(DTYPES[kind])

    def run(w: Wave, g: Group) -> None:
        places = locate(w, g, space, read(w, g), total, total)
        if len(places) == 1 and places[0].mask is None:
            values = fetch(w, places[0])
        else:
            values = np.empty((g.n, count), dtype)
            for at in places:
                values[at.mask] = fetch(w, at)
        if wide is not None:
            w.store(wide, g, values)
            return
        for i, target in enumerate(targets):
            if not skip[i]:
                target(w, g, values[:, i].copy())

    def fetch(w: Wave, at: Place) -> Array:
        if at.shadow is not None:
            w.checker.read(at.shadow, at.shadow.cells(at.flat, total), at.rows, STRONG if strong else GENERIC, at.name)
            guard_barriers(w, at, total, "load")
            if strong:
                observe(w, at, acquire)
        return at.data.view(dtype)[elements(at, count, size)]
    return run, ALU


def store(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    t = transfer(decoder, instr, instr.operands[1], instr.operands[0])
    kind, count, wide, space, read, strong, size = t.kind, t.count, t.wide, t.space, t.read, t.strong, t.size
    release = "release" in instr.parts
    total = size * count
    sources = [] if wide is not None else [decoder.source(o, kind) for o in t.items]
    dtype = np.dtype(DTYPES[kind])

    def run(w: Wave, g: Group) -> None:
        if wide is not None:
            values = w.register(wide)[g.idx]
        else:
            values = np.empty((g.n, count), dtype)
            for i, each in enumerate(sources):
                values[:, i] = each(w, g)
        for at in locate(w, g, space, read(w, g), total, total):
            if at.name == "parameters":
                w.report("bounds", "kernel parameters are read-only", row=int(at.rows[0]), fatal=True)
            if at.shadow is not None:
                w.checker.write(at.shadow, at.shadow.cells(at.flat, total), at.rows, STRONG if strong else GENERIC,
                                at.name)
                guard_barriers(w, at, total, "store")
                if strong:
                    publish(w, at, release)
            at.data.view(dtype)[elements(at, count, size)] = values if at.mask is None else values[at.mask]
    return run, ALU


# -- strong accesses carry knowledge ----------------------------------------------------------------
def publish(w: Wave, at: Place, release: bool) -> None:
    """A strong write leaves what the writer knew at its last fence (or now, if it releases) at the location."""
    left = w.context.locations
    fenced = w.scratch.get("fenced", {})
    for row, flat in zip(at.rows.tolist(), at.flat.tolist()):
        view = w.clocks.snapshot(row) if release else fenced.get(row)
        key = (at.name, flat if at.shadow is w.context.shadow else (w.first_cluster, flat))
        if view is not None:
            cluster = int(w.clocks.cluster[row])
            views = left.setdefault(key, {})
            old = views.get(cluster)
            views[cluster] = view if old is None else join(old, view)


def observe(w: Wave, at: Place, acquire: bool) -> None:
    """A strong read takes over what was left at the location (at once, or at the next fence)."""
    left = w.context.locations
    if not left:
        return
    for row, flat in zip(at.rows.tolist(), at.flat.tolist()):
        key = (at.name, flat if at.shadow is w.context.shadow else (w.first_cluster, flat))
        views = left.get(key)
        if not views:
            continue
        mine = int(w.clocks.cluster[row])
        for cluster, view in views.items():
            if cluster != mine:
                w.context.crossed.add((mine, cluster))
            elif acquire:
                w.clocks.acquire(np.array([row]), view)
            else:
                w.clocks.remember(np.array([row]), view)


# -- atomics ----------------------------------------------------------------------------------------
def _increment(a: Array, b: Array) -> Array:
    return np.where(a >= b, 0, a + 1).astype(a.dtype)


def _decrement(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (a > b), b, a - 1).astype(a.dtype)


ATOMIC: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda a, b: b, "inc": _increment, "dec": _decrement,
}
NARROW_ADD = {"f16", "bf16", "f16x2", "bf16x2"}


def half_operation(operation: str, kind: str) -> Callable[[Array, Array], Array]:
    """The operation on f16/bf16 bit patterns, packed or not."""
    each = kind.replace("x2", "")
    to = to_f16 if each == "f16" else to_bf16

    def one(a: Array, b: Array) -> Array:
        return to(ATOMIC[operation](widen(a, each).astype(np.float64), widen(b, each).astype(np.float64)))

    def two(a: Array, b: Array) -> Array:
        low = one(a & np.uint32(0xFFFF), b & np.uint32(0xFFFF)).astype(np.uint32)
        return low | (one(a >> np.uint32(16), b >> np.uint32(16)).astype(np.uint32) << np.uint32(16))
    return two if kind.endswith("x2") else one


def combine_elements(data: Array, index: Array, payload: Array, operation: str, kind: str) -> None:
    """Combine payload bytes into ``data`` at byte indices, as elements of ``kind``."""
    half = kind in ("f16", "bf16")
    function = half_operation(operation, kind) if half else ATOMIC[operation]
    dtype: np.dtype[Any] = np.dtype(np.uint16 if half else DTYPES[kind])
    places = index[:: dtype.itemsize] // dtype.itemsize
    typed = data.view(dtype)
    typed[places] = function(typed[places], payload.view(dtype))


def whole(decoder: Decoder, operand: Operand) -> Reader:
    """A 128-bit register as two 64-bit halves, shape (rows, 2)."""
    if not isinstance(operand, Reg) or decoder.program.registers[operand.index].type != "b128":
        raise decoder.error("a .b128 register is needed")
    index = operand.index

    def read(w: Wave, g: Group) -> Array:
        value = w.register(index)
        if w.U[index] is not None:
            w.undefined(index, g)
        return value[g.idx]
    return read


def atomic(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """atom and red: threads take turns in row order."""
    returns = instr.parts[0] == "atom"
    operands = list(instr.operands)
    destination = operands.pop(0) if returns else None
    kind = instr.parts[-1]
    operation = next(p for p in instr.parts[1:] if p in ATOMIC or p == "cas")
    vector = next((int(p[1]) for p in instr.parts if p in ("v2", "v4", "v8")), 1)
    space = space_in(decoder, instr, operands[0])
    read = decoder.address(operands[0])
    raw = {"f16": "u16", "bf16": "u16", "f16x2": "u32", "bf16x2": "u32", "b128": "b64"}.get(kind, kind)
    source = operands[1]
    items = source.items if isinstance(source, Vec) else (source,)
    if len(items) != vector:
        raise decoder.error(f"{len(items)} operands where {vector} are needed")
    wide = kind == "b128"
    if wide and operation not in ("exch", "cas"):
        raise decoder.error("of 128 bits there are .exch and .cas")
    places = destination.items if isinstance(destination, Vec) else (destination,) if destination is not None else ()
    if wide:
        vector = 2
        pair = whole(decoder, source)
        other = whole(decoder, operands[2]) if operation == "cas" else None
        if destination is not None:
            whole(decoder, destination)
    else:
        sources = [decoder.wide(o, raw) for o in items]
        single = decoder.wide(operands[2], raw) if operation == "cas" else None
        outs = [decoder.target(o, raw) for o in places]
    size = size_of(raw)
    dtype = np.dtype(DTYPES[raw])
    function = half_operation(operation, kind) if kind in NARROW_ADD and operation not in ("exch", "cas") \
        else ATOMIC.get(operation, np.add)
    acquire = bool({"acquire", "acq_rel"} & set(instr.parts))
    release = bool({"release", "acq_rel"} & set(instr.parts))
    decoder.touches({"cluster": "shared"}.get(space, space), size)

    def inputs(w: Wave, g: Group) -> tuple[Array, Array | None]:
        """Operand and, for cas, replacement, shape (rows, vector)."""
        if wide:
            return pair(w, g), other(w, g) if other else None
        return np.stack([s(w, g) for s in sources], axis=1), single(w, g)[:, None] if single else None

    def run(w: Wave, g: Group) -> None:
        values, new = inputs(w, g)
        old = np.empty((g.n, vector), dtype)
        total = size * vector
        for at in locate(w, g, space, read(w, g), total, total):
            if at.shadow is not None:
                w.checker.write(at.shadow, at.shadow.cells(at.flat, total), at.rows, STRONG, at.name)
                for i in range(len(at.rows)):
                    turn = Place(at.name, None, at.rows[i : i + 1], at.flat[i : i + 1], at.data, at.shadow)
                    observe(w, turn, acquire)
                    publish(w, turn, release)
            index = elements(at, vector, size)
            mine = np.arange(g.n) if at.mask is None else np.nonzero(at.mask)[0]
            data = at.data.view(dtype)
            old[mine] = turns(data, index, values[mine], None if new is None else new[mine])
        if wide:
            if isinstance(destination, Reg):
                w.store(destination.index, g, old)
            return
        for i, out in enumerate(outs):
            out(w, g, old[:, i].copy())

    def turns(data: Array, index: Array, values: Array, new: Array | None) -> Array:
        before = np.empty(values.shape, dtype)
        _, first = np.unique(index[:, 0], return_index=True)
        if len(first) == len(index):
            before = data[index]
            data[index] = function(before, values) if new is None \
                else np.where((before == values).all(axis=1, keepdims=True), new, before)
            return before
        for i in range(len(index)):
            before[i] = data[index[i]]
            if new is not None:
                if (before[i] == values[i]).all():
                    data[index[i]] = new[i]
            else:
                data[index[i]] = function(before[i], values[i])
        return before
    return run, ALU


# -- addresses --------------------------------------------------------------------------------------
def mapa(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mapa: the same variable in another CTA of the cluster."""
    need(decoder, instr, 3)
    kind = instr.parts[-1]
    generic = "shared::cluster" not in instr.parts
    source = instr.operands[1]
    read = decoder.wide(source, kind)
    which = decoder.wide(instr.operands[2], "u32")
    target = decoder.target(instr.operands[0], kind)

    def run(w: Wave, g: Group) -> None:
        value = read(w, g).astype(np.int64)
        base = SHARED if generic else 0
        rank = which(w, g).astype(np.int64)
        if (rank >= w.cluster_size).any():
            w.report("bounds", f"mapa to rank {int(rank.max())} of a cluster of {w.cluster_size}",
                     row=int(g.idx[int(np.argmax(rank))]), fatal=True)
        result = base + (rank << RANK_SHIFT) + ((value - base) & OFFSET_MASK)
        target(w, g, result.astype(DTYPES[kind]))
    return run, ALU


def get_rank(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """getctarank"""
    kind = instr.parts[-1]
    read = decoder.wide(instr.operands[1], kind)
    target = decoder.target(instr.operands[0], "u32")
    return lambda w, g: target(w, g, ((read(w, g).astype(np.int64) & 0xFFFFFFFF) >> RANK_SHIFT).astype(np.uint32)), ALU


def no_effect(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    return (lambda w, g: None), ALU


def policy(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """createpolicy: an opaque value without effect on results."""
    target = decoder.target(instr.operands[0], "u64")
    return lambda w, g: target(w, g, np.full(g.n, 1, np.uint64)), ALU


CACHE = ("ca cg cs lu cv wb wt L1::evict_normal L1::evict_unchanged L1::evict_first L1::evict_last L1::no_allocate "
         "L2::evict_normal L2::evict_first L2::evict_last L2::cache_hint L2::64B L2::128B L2::256B nc unified")
SCOPES = "cta cluster gpu sys"
_SPACES = " ".join(SPACES)
ENTRIES = [
    *entry("ld ldu", f"weak volatile relaxed acquire mmio {SCOPES} {_SPACES} {CACHE} v2 v4 v8", load, TYPES),
    *entry("st", f"weak volatile relaxed release mmio {SCOPES} {_SPACES} {CACHE} v2 v4 v8", store, TYPES),
    *entry("atom red", f"relaxed acquire release acq_rel {SCOPES} {_SPACES} cas noftz v2 v4 v8 L2::cache_hint "
           + " ".join(ATOMIC), atomic, TYPES),
    *entry("mapa", "shared::cluster u32 u64", mapa), *entry("getctarank", "shared::cluster u32 u64", get_rank),
    *entry("prefetch prefetchu discard applypriority",
           f"global local L1 L2 tensormap param const {CACHE} {_SPACES} generic", no_effect),
    *entry("createpolicy", "fractional range cvt L2 global L2::evict_last L2::evict_normal L2::evict_first "
           "L2::evict_unchanged b64", policy),
]
