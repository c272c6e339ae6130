"""Matrices between shared memory and the registers of a warp: ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15-17)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tirx_eq.sim.arithmetic.formats import padded_bytes
from tirx_eq.sim.control import aligned
from tirx_eq.sim.isa import entry
from tirx_eq.sim.loads import locate, space_in
from tirx_eq.sim.matrix import vector, whole_warps
from tirx_eq.sim.program import SYNC, Decoder, Run
from tirx_eq.sim.text.syntax import Instr
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


@dataclass(frozen=True)
class Shape:
    """One matrix of an instruction: its rows in memory (16 bytes each, one address each), registers per thread, and how
    the rows of a warp's matrices become registers: (.., matrices, rows, 16) bytes -> (.., matrices * registers, 32) words,
    and back."""

    rows: int
    registers: int
    load: Callable[[Array], Array]
    store: Callable[[Array], Array]


def words(items: Array) -> Array:
    """(.., 32 threads, 4 bytes) or (.., 32, 2 half-words) -> (.., 32) registers."""
    return np.ascontiguousarray(items).view(np.uint32)[..., 0]


def plain(rows: Array) -> Array:
    """A thread holds 4 bytes of a row, four threads a row (ISA figures 104, 106)."""
    return words(rows.reshape(*rows.shape[:-2], 32, 4))


def plain_back(registers: Array) -> Array:
    return np.ascontiguousarray(registers).view(np.uint8).reshape(*registers.shape[:-1], 8, 16)


def transposed(rows: Array) -> Array:
    """8x8 half-words: thread 4i + j holds rows 2j, 2j + 1 of column i."""
    halves = np.ascontiguousarray(rows).view(np.uint16)
    return words(np.ascontiguousarray(halves.swapaxes(-1, -2)).reshape(*halves.shape[:-2], 32, 2))


def transposed_back(registers: Array) -> Array:
    halves = np.ascontiguousarray(registers).view(np.uint16).reshape(*registers.shape[:-1], 8, 8)
    return np.ascontiguousarray(halves.swapaxes(-1, -2)).view(np.uint8)


def bytes_16x16(rows: Array) -> Array:
    """16x16 bytes: thread 4i + j holds rows 4j..4j + 3 of column i in one register and of column i + 8 in the next."""
    columns = np.ascontiguousarray(rows.swapaxes(-1, -2))
    found = words(columns.reshape(*columns.shape[:-2], 2, 32, 4))
    return found.reshape(*found.shape[:-3], -1, 32)


def bytes_16x8_back(registers: Array) -> Array:
    """8 rows of 16 bytes: thread 4i + j holds bytes i and then i + 8, each of rows 2j and 2j + 1 (an accumulator's places)."""
    parts = np.ascontiguousarray(registers).view(np.uint8).reshape(*registers.shape[:-1], 8, 4, 2, 2)
    found: Array = np.moveaxis(parts, (-4, -3, -2, -1), (-1, -4, -2, -3))
    return np.ascontiguousarray(found).reshape(*registers.shape[:-1], 8, 16)


def refuse(_: Array) -> Array:
    raise AssertionError


#: (shape, transposed) of each element width
MATRICES = {
    ("m8n8", False): Shape(8, 1, plain, plain_back), ("m8n8", True): Shape(8, 1, transposed, transposed_back),
    ("m16n16", True): Shape(16, 2, bytes_16x16, refuse), ("m8n16", False): Shape(8, 1, plain, refuse),
    ("m16n8", True): Shape(8, 1, refuse, bytes_16x8_back),
}
#: what each instruction takes: shape -> element type
LOADS = {"m8n8": "b16", "m16n16": "b8", "m8n16": "b8x16"}
STORES = {"m8n8": "b16", "m16n8": "b8"}
PADDED = {"b6x16_p32": 6, "b4x16_p64": 4}


@dataclass(frozen=True)
class Pieces:
    """Which lane moves which bytes of an instruction's rows: the address is one lane's, the data are other lanes'.

    ``owner`` (rows, 16 / grain): the lane that reads or writes each piece of ``grain`` bytes, alone.
    """

    owner: Array
    grain: int

    def of(self, flat: Array, warps: Array) -> tuple[Array, Array]:
        """Starts of all pieces of the rows at ``flat``, and the thread of each; ``warps`` (warps, 32) are thread rows."""
        starts = flat[:, None] + np.arange(0, 16, self.grain)
        return starts.reshape(-1), warps[:, self.owner].reshape(-1)


def pieces_of(shape: Shape, count: int, narrow: int) -> Pieces:
    """The lanes' bytes, read off the map between rows and registers itself."""
    if shape.load is refuse:
        lanes = np.repeat(np.arange(32, dtype=np.uint32) * 0x01010101, count * shape.registers).reshape(32, -1).T
        owner = shape.store(lanes[None]).reshape(-1, 16).astype(np.int64)
    else:
        number = np.arange(count * shape.rows * 16).reshape(1, count, shape.rows, 16)
        low, high = (shape.load((number >> k & 255).astype(np.uint8)) for k in (0, 8))
        found = [np.ascontiguousarray(x).view(np.uint8).reshape(-1, 32, 4).astype(np.int64) for x in (low, high)]
        lane_of = np.empty(number.size, np.int64)
        lane_of[found[0] + 256 * found[1]] = np.arange(32)[None, :, None]
        owner = lane_of.reshape(-1, 16)
    if narrow:  # the byte of a row holds the element that begins in it; what follows the elements is nobody's in particular
        owner = owner[:, np.minimum(np.arange(16) * 8 // narrow, 15)]
    grain = next(n for n in (4, 2, 1) if (owner.reshape(len(owner), -1, n) == owner[:, ::n, None]).all())
    return Pieces(owner[:, ::grain], grain)


def matrix_access(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """ldmatrix and stmatrix: row r of matrix i at the address of lane (rows * i + r)."""
    parts = instr.parts
    loads = parts[0] == "ldmatrix"
    count = int(next(p for p in parts if p in ("x1", "x2", "x4"))[1])
    name = next(p for p in parts if p in LOADS or p in STORES)
    narrow = next((PADDED[p] for p in parts if p in PADDED), 0)
    kind = "b8" if name == "m16n16" and narrow else (LOADS if loads else STORES).get(name)
    shape = MATRICES.get((name, "trans" in parts))
    fits = shape is not None and kind is not None and (kind in parts or "b8x16" in parts) and (narrow or name != "m8n16")
    if shape is None or not fits:
        raise decoder.error(f"no {parts[0]} of {name} with these modifiers")
    if count * shape.rows > 32:
        raise decoder.error(f"{name} exists with .x1 and .x2 only")
    registers, memory = instr.operands if loads else instr.operands[::-1]
    items = vector(decoder, registers, instr.opcode)
    if len(items) != count * shape.registers:
        raise decoder.error(f"{count * shape.registers} registers are needed")
    space = space_in(decoder, instr, memory)
    address = decoder.address(memory)
    pieces = pieces_of(shape, count, narrow)
    decoder.touches({"cluster": "shared"}.get(space, space), pieces.grain)
    targets = [decoder.target(o, "u32") for o in items] if loads else []
    sources = [] if loads else [decoder.wide(o, "u32") for o in items]

    def rows_of(w: Wave, g: Group) -> tuple[Group, Array]:
        chosen = whole_warps(w, g)[:, : shape.rows * count].reshape(-1)
        keep = np.isin(g.idx, chosen)
        return Group(g.idx[keep], False), address(w, g)[keep]

    def run_load(w: Wave, g: Group) -> None:
        some, at = rows_of(w, g)
        (place,) = locate(w, some, space, at, 16, 16)
        if place.shadow is not None:
            starts, threads = pieces.of(place.flat, whole_warps(w, g))
            w.checker.read(place.shadow, place.shadow.cells(starts, pieces.grain), threads, what="ldmatrix")
        rows = place.data.reshape(-1, 16)[place.flat // 16]
        if narrow:
            rows = padded_bytes(rows, narrow)
        values = shape.load(rows.reshape(-1, count, shape.rows, 16))
        for i, target in enumerate(targets):
            target(w, g, np.ascontiguousarray(values[:, i]).reshape(-1))

    def run_store(w: Wave, g: Group) -> None:
        some, at = rows_of(w, g)
        values = np.stack([s(w, g).reshape(-1, 32) for s in sources], axis=1)
        rows = shape.store(values)
        (place,) = locate(w, some, space, at, 16, 16)
        if place.shadow is not None:
            starts, threads = pieces.of(place.flat, whole_warps(w, g))
            w.checker.write(place.shadow, place.shadow.cells(starts, pieces.grain), threads, what="stmatrix")
        place.data.reshape(-1, 16)[place.flat // 16] = rows.reshape(-1, 16)
    return aligned(run_load if loads else run_store), SYNC


def move_matrix(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """movmatrix.sync.aligned.m8n8.trans.b16: transpose an 8x8 matrix spread over a warp."""
    source = decoder.wide(instr.operands[1], "u32")
    target = decoder.target(instr.operands[0], "u32")

    def run(w: Wave, g: Group) -> None:
        whole_warps(w, g)
        target(w, g, transposed(plain_back(source(w, g).reshape(-1, 32))).reshape(-1))
    return aligned(run), SYNC


ENTRIES = [
    *entry("ldmatrix stmatrix", "sync aligned m8n8 m16n16 m8n16 m16n8 x1 x2 x4 trans shared shared::cta b16 b8 b8x16 "
           + " ".join(PADDED), matrix_access),
    *entry("movmatrix.sync", "aligned m8n8 trans b16", move_matrix),
]
