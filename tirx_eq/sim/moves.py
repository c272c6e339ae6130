"""Comparison, selection and data movement between registers (PTX ISA 9.7.6, 9.7.7, 9.7.9)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirx_eq.sim.arithmetic.alu import kind_of, need
from tirx_eq.sim.arithmetic.formats import float_source
from tirx_eq.sim.isa import FLOATS, TYPES, entry
from tirx_eq.sim.program import ALU, DTYPES, REGISTER_BYTES, Decoder, Reader, Run
from tirx_eq.sim.text.syntax import Instr, Pair, Reg, Sink, Vec
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


# -- comparison and selection -----------------------------------------------------------------------
COMPARE: dict[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}


def compare(operation: str, kind: str) -> Callable[[Array, Array], Array]:
    """The comparison as a numpy function; unordered float forms end in u."""
    floating = kind in FLOATS
    if operation == "num":
        return lambda a, b: ~(np.isnan(a) | np.isnan(b))
    if operation == "nan":
        return lambda a, b: np.isnan(a) | np.isnan(b)
    if floating and operation == "ne":
        return lambda a, b: (a != b) & ~(np.isnan(a) | np.isnan(b))
    if floating and operation.endswith("u") and operation[:-1] in COMPARE:
        base = COMPARE[operation[:-1]]
        return lambda a, b: base(a, b) | np.isnan(a) | np.isnan(b)
    return COMPARE[operation]


def setp(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    kind = kind_of(instr)
    words = [p for p in instr.parts[1:-1] if p != "ftz"]
    function = compare(words[0], kind)
    read = float_source if kind in FLOATS else Decoder.source
    a, b = (read(decoder, o, kind) for o in instr.operands[1:3])
    join = words[1] if len(words) > 1 else None
    c = decoder.source(instr.operands[3], "pred") if join else None
    destination = instr.operands[0]
    first = destination.first if isinstance(destination, Pair) else destination
    one = decoder.target(first, "pred")
    two = decoder.target(destination.second, "pred") if isinstance(destination, Pair) else None
    ops = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}

    def run(w: Wave, g: Group) -> None:
        result = np.broadcast_to(function(a(w, g), b(w, g)), (g.n,))
        other = ~result if two else None
        if join and c:
            extra = c(w, g)
            result = ops[join](result, extra)
            if other is not None:
                other = ops[join](other, extra)
        one(w, g, result.copy())
        if two is not None and other is not None:
            two(w, g, other)
    return run, ALU


def set_value(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    result_kind, kind = instr.parts[-2:]
    words = [p for p in instr.parts[1:-2] if p != "ftz"]
    function = compare(words[0], kind)
    read = float_source if kind in FLOATS else Decoder.source
    a, b = (read(decoder, o, kind) for o in instr.operands[1:3])
    join = words[1] if len(words) > 1 else ""
    extra = decoder.source(instr.operands[3], "pred") if join else None
    ops = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
    target = decoder.target(instr.operands[0], result_kind)

    def run(w: Wave, g: Group) -> None:
        true = np.broadcast_to(function(a(w, g), b(w, g)), (g.n,))
        if extra:
            true = ops[join](true, extra(w, g))
        if result_kind == "f32":
            target(w, g, true.astype(np.float32))
        else:
            target(w, g, np.where(true, np.uint32(0xFFFFFFFF), np.uint32(0)).view(DTYPES[result_kind]))
    return run, ALU


def select(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    need(decoder, instr, 4)
    kind = kind_of(instr)
    a, b = (decoder.source(o, kind) for o in instr.operands[1:3])
    p = decoder.source(instr.operands[3], "pred")
    target = decoder.target(instr.operands[0], kind)
    return lambda w, g: target(w, g, np.where(p(w, g), a(w, g), b(w, g))), ALU


def select_sign(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    kind, sign = instr.parts[-2:]
    a, b = (decoder.source(o, kind) for o in instr.operands[1:3])
    c = decoder.source(instr.operands[3], sign)
    target = decoder.target(instr.operands[0], kind)
    return lambda w, g: target(w, g, np.where(c(w, g) >= 0, a(w, g), b(w, g))), ALU


# -- moves ------------------------------------------------------------------------------------------
def move(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mov: plain, packing {a,b} into one register, unpacking one into {a,b}."""
    need(decoder, instr, 2)
    kind = kind_of(instr)
    destination, source = instr.operands
    if isinstance(destination, Vec) or isinstance(source, Vec):
        return repack(decoder, instr, kind)
    if kind == "b128":
        if not (isinstance(destination, Reg) and isinstance(source, Reg)):
            raise decoder.error("registers are needed")
        i, j = destination.index, source.index
        return lambda w, g: w.store(i, g, w.register(j)[g.idx].copy()), ALU
    if isinstance(source, Reg) and isinstance(destination, Reg):
        types = [REGISTER_BYTES[decoder.program.registers[r.index].type] for r in (destination, source)]
        if types[0] == types[1]:
            return copy(destination.index, source.index), ALU
    read = decoder.source(source, kind)
    target = decoder.target(destination, kind)

    def run(w: Wave, g: Group) -> None:
        value = read(w, g)
        target(w, g, value if value.shape[0] != g.n else value.copy())
    return run, ALU


def copy(to: int, source: int) -> Run:
    """A move that carries undefinedness along: moving an undefined value is no use of it."""
    def run(w: Wave, g: Group) -> None:
        array = w.register(source)
        flags = w.U[source]
        w.store(to, g, array.copy() if g.full else array[g.idx])
        if flags is not None and flags[g.idx].any():
            for transfer in w.scratch.get("ld", ()):
                if source in transfer.registers:
                    rows = g.idx[flags[g.idx] & np.isin(g.idx, transfer.rows)]
                    transfer.moves.append((to, source, rows))
                    transfer.registers.add(to)
            mine = w.U[to]
            mine = np.zeros(w.T, bool) if mine is None else mine.copy()
            mine[g.idx] = flags[g.idx]
            w.U[to] = mine
    return run


def repack(decoder: Decoder, instr: Instr, kind: str) -> tuple[Run, int]:
    destination, source = instr.operands
    total = int(kind[1:])
    if isinstance(source, Vec) and not isinstance(destination, Vec):
        each = total // len(source.items)
        if each * len(source.items) != total or each not in (8, 16, 32, 64):
            raise decoder.error(f"{len(source.items)} parts do not make {total} bits")
        parts = [decoder.wide(o, f"u{each}") for o in source.items]
        if kind == "b128":
            if not isinstance(destination, Reg):
                raise decoder.error("a .b128 register is needed")
            index = destination.index

            def pack128(w: Wave, g: Group) -> None:
                raw = np.ascontiguousarray(np.stack([p(w, g) for p in parts], axis=1))
                w.store(index, g, raw.view(np.uint64).reshape(g.n, 2))
            return pack128, ALU
        target = decoder.target(destination, kind)

        def pack(w: Wave, g: Group) -> None:
            raw = np.ascontiguousarray(np.stack([p(w, g) for p in parts], axis=1))
            target(w, g, raw.view(f"u{total // 8}")[:, 0].copy())
        return pack, ALU
    if isinstance(destination, Vec) and not isinstance(source, Vec):
        each = total // len(destination.items)
        if each * len(destination.items) != total or each not in (8, 16, 32, 64):
            raise decoder.error(f"{len(destination.items)} parts do not make {total} bits")
        targets = [decoder.target(o, f"u{each}") for o in destination.items]
        skip = [isinstance(o, Sink) for o in destination.items]
        if kind == "b128":
            if not isinstance(source, Reg):
                raise decoder.error("a .b128 register is needed")
            wide_index = source.index

            def read_wide(w: Wave, g: Group) -> Array:
                if w.U[wide_index] is not None:
                    w.undefined(wide_index, g)
                return w.register(wide_index)[g.idx]
            read: Reader = read_wide
        else:
            read = decoder.wide(source, kind)

        def unpack(w: Wave, g: Group) -> None:
            raw = np.ascontiguousarray(read(w, g)).view(f"u{each // 8}").reshape(g.n, len(targets))
            for i, target in enumerate(targets):
                if not skip[i]:
                    target(w, g, raw[:, i].copy())
        return unpack, ALU
    raise decoder.error("a vector on one side only")


ENTRIES = [
    *entry("setp", " ".join(COMPARE) + " equ neu ltu leu gtu geu num nan and or xor ftz", setp, TYPES - {"pred"}),
    *entry("set", " ".join(COMPARE) + " equ neu ltu leu gtu geu num nan and or xor ftz", set_value, TYPES - {"pred"}),
    *entry("selp", "", select, TYPES - {"pred"}), *entry("slct", "ftz", select_sign, TYPES - {"pred"}),
    *entry("mov", "", move, TYPES),
]
