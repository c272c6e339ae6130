"""Warp-level matrix instructions: ldmatrix, stmatrix, mma.sync and wmma (PTX ISA 9.7.14)."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.control import aligned
from tirx_eq.sim.formats import to_f16, widen
from tirx_eq.sim.isa import entry
from tirx_eq.sim.loads import locate, space_in
from tirx_eq.sim.program import DTYPES, SYNC, Decoder, Run
from tirx_eq.sim.syntax import Instr, Vec
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


# -- ldmatrix, stmatrix -----------------------------------------------------------------------------
def matrix_access(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """8x8 matrices of 16-bit elements: row r of matrix i at the address of lane 8i + r."""
    loads = instr.parts[0] == "ldmatrix"
    count = int(next(p for p in instr.parts if p in ("x1", "x2", "x4"))[1])
    if "m8n8" not in instr.parts:
        raise decoder.error("only the m8n8 shape is supported")
    trans = "trans" in instr.parts
    registers, memory = instr.operands if loads else instr.operands[::-1]
    items = vector(decoder, registers, instr.opcode)
    if len(items) != count:
        raise decoder.error(f"{count} registers are needed")
    space = space_in(decoder, instr, memory)
    address = decoder.address(memory)
    targets = [decoder.target(o, "u32") for o in items] if loads else []
    sources = [] if loads else [decoder.wide(o, "u32") for o in items]
    lane = np.arange(32)

    def rows_of(w: Wave, g: Group) -> tuple[Group, Array]:
        chosen = whole_warps(w, g)[:, : 8 * count].reshape(-1)
        keep = np.isin(g.idx, chosen)
        return Group(g.idx[keep], False), address(w, g)[keep]

    def run_load(w: Wave, g: Group) -> None:
        some, at = rows_of(w, g)
        (place,) = locate(w, some, space, at, 16, 16)
        if place.shadow is not None:
            w.checker.read(place.shadow, place.shadow.cells(place.flat, 16), place.rows, what="ldmatrix")
        rows = place.data.reshape(-1, 16)[place.flat // 16].view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            rows = rows.swapaxes(2, 3)
        pairs = np.ascontiguousarray(rows).view(np.uint32).reshape(-1, count, 32)
        for i, target in enumerate(targets):
            target(w, g, np.ascontiguousarray(pairs[:, i]).reshape(-1))

    def run_store(w: Wave, g: Group) -> None:
        some, at = rows_of(w, g)
        values = np.stack([s(w, g).reshape(-1, 32) for s in sources], axis=1)
        rows = np.ascontiguousarray(values).view(np.uint16).reshape(-1, count, 8, 8)
        if trans:
            rows = rows.swapaxes(2, 3)
        (place,) = locate(w, some, space, at, 16, 16)
        if place.shadow is not None:
            w.checker.write(place.shadow, place.shadow.cells(place.flat, 16), place.rows, what="stmatrix")
        place.data.reshape(-1, 16)[place.flat // 16] = np.ascontiguousarray(rows).view(np.uint8).reshape(-1, 16)
    del lane
    return aligned(run_load if loads else run_store), SYNC


def move_matrix(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """movmatrix.sync.aligned.m8n8.trans.b16: transpose an 8x8 matrix spread over a warp."""
    source = decoder.wide(instr.operands[1], "u32")
    target = decoder.target(instr.operands[0], "u32")

    def run(w: Wave, g: Group) -> None:
        whole_warps(w, g)
        matrix = np.ascontiguousarray(source(w, g)).view(np.uint16).reshape(-1, 8, 8)
        target(w, g, np.ascontiguousarray(matrix.swapaxes(1, 2)).view(np.uint32).reshape(-1))
    return aligned(run), SYNC


# -- mma.sync -----------------------------------------------------------------------------------------
PER_REGISTER = {"f64": 1, "f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4, "e4m3": 4, "e5m2": 4}


def elements(words: Array, kind: str) -> Array:
    """float64 elements of 32-bit registers, appended as a last axis."""
    raw = np.ascontiguousarray(words)
    if kind == "f64":
        return raw.view(np.float64)[..., None]
    if kind in ("f16", "bf16"):
        return widen(raw.view(np.uint16).reshape(*raw.shape, 2), kind).astype(np.float64)
    if kind == "tf32":
        return widen(raw, kind).astype(np.float64)[..., None]
    if kind in ("s8", "u8"):
        return raw.view(np.int8 if kind == "s8" else np.uint8).reshape(*raw.shape, 4).astype(np.float64)
    return widen(raw.view(np.uint8).reshape(*raw.shape, 4), kind).astype(np.float64)


def mma_sync(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """mma.sync.aligned.m16n8kK.row.col.{d}.{a}.{b}.{c}; fragments as in the ISA's figures."""
    shape = next(p for p in instr.parts if p[0] == "m" and p[1].isdigit())
    depth = int(shape.split("k")[1])
    if not shape.startswith("m16n8k") or "row" not in instr.parts or "col" not in instr.parts:
        raise decoder.error("only m16n8k* with .row.col is supported")
    d_kind, a_kind, b_kind, c_kind = instr.parts[-4:]
    per = PER_REGISTER[a_kind]
    d, a, b, c = (vector(decoder, o, instr.opcode) for o in instr.operands[:4])
    if len(a) != depth // (2 * per) or len(b) != depth // (4 * per):
        raise decoder.error("the operand vectors have the wrong length")
    bits = "u64" if d_kind == "f64" else "u32"
    a_read, b_read, c_read = ([decoder.wide(o, bits) for o in v] for v in (a, b, c))
    targets = [decoder.target(o, bits) for o in d]
    group, quad = np.arange(32) // 4, np.arange(32) % 4

    def run(w: Wave, g: Group) -> None:
        warps = len(whole_warps(w, g))
        left = np.zeros((warps, 16, depth))
        right = np.zeros((warps, depth, 8))
        for r, read in enumerate(a_read):
            value = elements(read(w, g).reshape(warps, 32), a_kind)
            for j in range(per):
                left[:, group + 8 * (r & 1), per * quad + 4 * per * (r >> 1) + j] = value[..., j]
        for r, read in enumerate(b_read):
            value = elements(read(w, g).reshape(warps, 32), b_kind)
            for j in range(per):
                right[:, per * quad + 4 * per * r + j, group] = value[..., j]
        total = left @ right
        for r in range(4):
            row, col = group + 8 * (r >> 1), 2 * quad + (r & 1)
            mine = total[:, row, col]
            if c_kind == "f16":
                word = c_read[r >> 1](w, g).reshape(warps, 32)
                old = widen(word >> np.uint32(16 * (r & 1)) & np.uint32(0xFFFF), "f16").astype(np.float64)
            else:
                old = np.ascontiguousarray(c_read[r](w, g).reshape(warps, 32)).view(DTYPES[c_kind]).astype(np.float64)
            total[:, row, col] = mine + old
        results = [total[:, group + 8 * (r >> 1), 2 * quad + (r & 1)].reshape(-1) for r in range(4)]
        if d_kind == "f16":
            for half in (0, 1):
                low, high = (to_f16(v).astype(np.uint32) for v in results[2 * half : 2 * half + 2])
                targets[half](w, g, low | high << np.uint32(16))
        elif d_kind == "f64":
            for target, value in zip(targets, results):
                target(w, g, np.ascontiguousarray(value).view(np.uint64))
        elif d_kind == "s32":
            for target, value in zip(targets, results):
                target(w, g, value.astype(np.int64).astype(np.uint32))
        else:
            for target, value in zip(targets, results):
                target(w, g, value.astype(np.float32).view(np.uint32))
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


SHAPES = "m16n8k4 m16n8k8 m16n8k16 m16n8k32"
ENTRIES = [
    *entry("ldmatrix stmatrix", "sync aligned m8n8 x1 x2 x4 trans shared shared::cta b16", matrix_access),
    *entry("movmatrix.sync", "aligned m8n8 trans b16", move_matrix),
    *entry("mma.sync", f"aligned {SHAPES} row col f64 f32 f16 bf16 tf32 s32 s8 u8 e4m3 e5m2 kind::f8f6f4", mma_sync),
    *entry("wmma.load wmma.store", "a b c d sync aligned row col m16n16k16 global shared f16 f32", wmma_memory),
    *entry("wmma.mma", "sync aligned row col m16n16k16 f16 f32", wmma_mma),
]
