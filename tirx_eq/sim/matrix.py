"""Warp-level matrix products: mma.sync and wmma (PTX ISA 9.7.14)."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.arithmetic.formats import to_f16, widen
from tirx_eq.sim.control import aligned
from tirx_eq.sim.isa import entry
from tirx_eq.sim.loads import locate, space_in
from tirx_eq.sim.program import DTYPES, SYNC, Decoder, Run
from tirx_eq.sim.text.syntax import Instr, Vec
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


def vector(decoder: Decoder, operand: object, what: str) -> tuple:
    if not isinstance(operand, Vec):
        raise decoder.error(f"{what}: a vector of registers is needed")
    return operand.items


def whole_warps(w: Wave, g: Group) -> Array:
    """Rows of ``g`` as (warps, 32)."""
    if g.n % 32:
        w.report("convergence", "a warp of fewer than 32 threads executes a matrix instruction", row=int(g.idx[0]),
                 fatal=True)
    return g.idx.reshape(-1, 32)


# -- mma.sync -----------------------------------------------------------------------------------------
#: elements of A and B in one register (32 bits, or 64 for f64)
PER_REGISTER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4, "e2m3": 4, "e3m2": 4, "e2m1": 4,
                "s4": 8, "u4": 8, "b1": 32, "f64": 1}
SHAPES = {
    "f16": "m16n8k8 m16n8k16", "bf16": "m16n8k8 m16n8k16", "tf32": "m16n8k4 m16n8k8", "f64": "m8n8k4 m16n8k4 m16n8k8 m16n8k16",
    **dict.fromkeys(("s8", "u8"), "m8n8k16 m16n8k16 m16n8k32"), **dict.fromkeys(("s4", "u4"), "m8n8k32 m16n8k32 m16n8k64"),
    "b1": "m8n8k128 m16n8k128 m16n8k256", **dict.fromkeys(("e4m3", "e5m2"), "m16n8k16 m16n8k32"),
    **dict.fromkeys(("e2m3", "e3m2", "e2m1"), "m16n8k32"),
}


def elements(words: Array, kind: str) -> Array:
    """float64 elements of registers, appended as a last axis, lowest bits first."""
    raw = np.ascontiguousarray(words)
    if kind == "f64":
        return raw.view(np.float64)[..., None]
    if kind in ("f16", "bf16"):
        return widen(raw.view(np.uint16).reshape(*raw.shape, 2), kind).astype(np.float64)
    if kind == "tf32":
        return widen(raw, kind).astype(np.float64)[..., None]
    if kind in ("s8", "u8"):
        return raw.view(np.int8 if kind == "s8" else np.uint8).reshape(*raw.shape, 4).astype(np.float64)
    if kind in ("s4", "u4", "b1"):
        width = 1 if kind == "b1" else 4
        field: Array = raw[..., None] >> np.arange(0, 32, width, dtype=np.uint32) & np.uint32((1 << width) - 1)
        return np.where((kind == "s4") & (field > 7), field.astype(np.float64) - 16, field)
    codes: Array = raw.view(np.uint8).reshape(*raw.shape, 4)
    if kind == "e2m1":
        codes = codes >> 2          # the four bits stand in the middle of their byte
    return widen(codes, kind).astype(np.float64)


def mma_sync(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mma.sync.aligned.mMn8kK.row.col.{d}.{a}.{b}.{c}; fragments as in the ISA's figures.

    With q = lane % 4, g = lane / 4 and p elements in a register: register r of A holds row g (+ 8 for odd r of 16 rows) and
    p columns from p*q + 4*p*(r or r/2); B likewise with k and column g; C and D hold row g (+ 8) and columns 2q, 2q + 1.
    """
    shape = next(p for p in instr.parts if p[0] == "m" and p[1].isdigit())
    rows, depth = int(shape[1 : shape.index("n")]), int(shape.split("k")[1])
    d_kind, a_kind, b_kind, c_kind = (p for p in instr.parts if p in ("f32", "s32") or p in PER_REGISTER)
    if shape not in SHAPES[a_kind] or "row" not in instr.parts or "col" not in instr.parts:
        raise decoder.error(f"of {a_kind}, {SHAPES[a_kind]} with .row.col are supported")
    operation = next((p for p in ("xor", "and") if p in instr.parts), "")
    if (a_kind == "b1") != bool(operation):
        raise decoder.error(".xor.popc or .and.popc goes with b1, and only with it")
    per, halves = PER_REGISTER[a_kind], rows // 8
    wide = "u64" if a_kind == "f64" else "u32"
    d, a, b, c = (vector(decoder, o, instr.opcode) for o in instr.operands[:4])
    if len(a) != halves * depth // (4 * per) or len(b) != depth // (4 * per):
        raise decoder.error("the operand vectors have the wrong length")
    a_read, b_read = ([decoder.wide(o, wide) for o in v] for v in (a, b))
    c_read = [decoder.wide(o, wide) for o in c]
    targets = [decoder.target(o, wide) for o in d]
    group, quad = np.arange(32) // 4, np.arange(32) % 4
    places = [(group + 8 * (r >> 1), 2 * quad + (r & 1)) for r in range(2 * halves)]

    def run(w: Wave, g: Group) -> None:
        warps = len(whole_warps(w, g))
        left = np.zeros((warps, rows, depth))
        right = np.zeros((warps, depth, 8))
        for r, read in enumerate(a_read):
            value = elements(read(w, g).reshape(warps, 32), a_kind)
            for j in range(per):
                left[:, group + 8 * (r % halves), per * quad + 4 * per * (r // halves) + j] = value[..., j]
        for r, read in enumerate(b_read):
            value = elements(read(w, g).reshape(warps, 32), b_kind)
            for j in range(per):
                right[:, per * quad + 4 * per * r + j, group] = value[..., j]
        total = left @ right
        if operation == "xor":
            total = left.sum(axis=2)[:, :, None] + right.sum(axis=1)[:, None, :] - 2 * total
        results = [total[:, row, col] + accumulator(w, g, r).reshape(warps, 32) for r, (row, col) in enumerate(places)]
        flat = [v.reshape(-1) for v in results]
        if d_kind == "f16":
            for half, target in enumerate(targets):
                low, high = (to_f16(v).astype(np.uint32) for v in flat[2 * half : 2 * half + 2])
                target(w, g, low | high << np.uint32(16))
            return
        for target, value in zip(targets, flat):
            target(w, g, stored(value))

    def accumulator(w: Wave, g: Group, r: int) -> Array:
        if c_kind == "f16":
            return widen(c_read[r >> 1](w, g) >> np.uint32(16 * (r & 1)) & np.uint32(0xFFFF), "f16").astype(np.float64)
        return np.ascontiguousarray(c_read[r](w, g)).view(DTYPES[c_kind]).astype(np.float64)

    def stored(value: Array) -> Array:
        if d_kind == "f64":
            return value.view(np.uint64)
        if d_kind == "s32":
            if "satfinite" in instr.parts:
                value = np.clip(value, -(1 << 31), (1 << 31) - 1)
            return value.astype(np.int64).astype(np.uint32)
        return value.astype(np.float32).view(np.uint32)
    return aligned(run), SYNC


# -- wmma -----------------------------------------------------------------------------------------------
def fragment(kind: str, registers: int) -> tuple[Array, Array]:
    """Row and column of element e of lane t in a 16x16 fragment, shape (32, elements).

    wmma fragments are opaque; this simulator keeps element ``8t + e`` in lane t, repeated where a fragment has room.
    """
    count = registers * (2 if kind == "f16" else 1)
    index = np.arange(32)[:, None] * 8 + np.arange(count)[None, :] % 8
    return index // 16, index % 16


def wmma_memory(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    loads = instr.parts[1] == "load"
    which = instr.parts[2]
    kind = instr.parts[-1]
    if "m16n16k16" not in instr.parts or kind not in ("f16", "f32"):
        raise decoder.error("only m16n16k16 with f16 or f32 is supported")
    operands = list(instr.operands)
    registers = vector(decoder, operands[0] if loads else operands[1], instr.opcode)
    memory = operands[1] if loads else operands[0]
    space = space_in(decoder, instr, memory)
    address = decoder.address(memory)
    stride = decoder.wide(operands[2], "u32") if len(operands) > 2 else None
    column_major = "col" in instr.parts
    size = 2 if kind == "f16" else 4
    decoder.touches({"cluster": "shared"}.get(space, space), size)
    row, col = fragment(kind, len(registers))
    dtype = np.uint16 if kind == "f16" else np.uint32
    targets = [decoder.target(o, "u32") for o in registers] if loads else []
    sources = [] if loads else [decoder.wide(o, "u32") for o in registers]

    def run(w: Wave, g: Group) -> None:
        whole_warps(w, g)
        at = address(w, g)
        step = stride(w, g).astype(np.int64) if stride else np.full(g.n, 16)
        lane = w.lane[g.idx]
        major, minor = (col, row) if column_major else (row, col)
        for e in range(row.shape[1]):
            if not loads and e >= 8:
                return
            spot = at + (major[lane, e] * step + minor[lane, e]) * size
            (place,) = locate(w, g, space, spot, size, size)
            cells = place.shadow.cells(place.flat, size) if place.shadow is not None else None
            if loads:
                if place.shadow is not None and cells is not None:
                    w.checker.read(place.shadow, cells, place.rows, what="wmma.load")
                values.append(place.data.view(dtype)[place.flat // size])
            else:
                if place.shadow is not None and cells is not None:
                    w.checker.write(place.shadow, cells, place.rows, what="wmma.store")
                place.data.view(dtype)[place.flat // size] = piece(w, g, e)

    values: list[Array] = []

    def piece(w: Wave, g: Group, e: int) -> Array:
        if kind == "f32":
            return sources[e](w, g)
        return (sources[e // 2](w, g) >> np.uint32(16 * (e & 1))).astype(np.uint16)

    def run_load(w: Wave, g: Group) -> None:
        values.clear()
        run(w, g)
        for i, target in enumerate(targets):
            if kind == "f32":
                target(w, g, values[i].copy())
            else:
                target(w, g, values[2 * i].astype(np.uint32) | values[2 * i + 1].astype(np.uint32) << np.uint32(16))
    del which
    return aligned(run_load if loads else run), SYNC


def wmma_mma(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    if "m16n16k16" not in instr.parts:
        raise decoder.error("only m16n16k16 is supported")
    d_kind, c_kind = instr.parts[-2:]
    d, a, b, c = (vector(decoder, o, instr.opcode) for o in instr.operands[:4])
    readers = [[decoder.wide(o, "u32") for o in v] for v in (a, b, c)]
    targets = [decoder.target(o, "u32") for o in d]

    def full(w: Wave, g: Group, which: int, kind: str) -> Array:
        warps = g.n // 32
        words = np.stack([r(w, g).reshape(warps, 32) for r in readers[which]], axis=2)
        values = elements(words, "f16").reshape(warps, 32, -1) if kind == "f16" \
            else words.view(np.float32).astype(np.float64)
        row, col = fragment(kind, words.shape[2])
        out = np.zeros((warps, 16, 16))
        out[:, row, col] = values
        return out

    def run(w: Wave, g: Group) -> None:
        whole_warps(w, g)
        total = full(w, g, 0, "f16") @ full(w, g, 1, "f16") + full(w, g, 2, c_kind)
        row, col = fragment(d_kind, len(targets))
        values = total[:, row, col].reshape(g.n, -1)
        for i, target in enumerate(targets):
            if d_kind == "f32":
                target(w, g, values[:, i].astype(np.float32).view(np.uint32))
            else:
                low, high = (to_f16(values[:, 2 * i + h]).astype(np.uint32) for h in (0, 1))
                target(w, g, low | high << np.uint32(16))
    return aligned(run), SYNC


KINDS = " ".join(PER_REGISTER)
ENTRIES = [
    *entry("mma.sync", f"aligned {' '.join(SHAPES.values())} row col f32 s32 {KINDS} xor and popc satfinite kind::f8f6f4",
           mma_sync),
    *entry("wmma.load wmma.store", "a b c d sync aligned row col m16n16k16 global shared f16 f32", wmma_memory),
    *entry("wmma.mma", "sync aligned row col m16n16k16 f16 f32", wmma_mma),
]
