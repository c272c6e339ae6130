"""TMA: cp.async.bulk.tensor and cp.reduce.async.bulk.tensor through tensor maps (PTX ISA 9.7.9.27)."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim import mbarrier
from tirx_eq.sim.isa import entry
from tirx_eq.sim.loads import ATOMIC, combine_elements
from tirx_eq.sim.memory import ASYNC, OFFSET_MASK, REDUCTION, SHARED_BASE
from tirx_eq.sim.program import ALU, Decoder, Reader, Run
from tirx_eq.sim.text.syntax import Instr, Mem, Operand, Vec
from tirx_eq.sim.transfers.copies import (
    DIMS,
    HINT,
    REDUCE,
    cells_of_chunks,
    check_global,
    deliver,
    each_row,
    flat_of,
    global_cells,
    queue_store,
    smem_address,
    targets_of_mask,
)
from tirx_eq.sim.transfers.maps import find_map
from tirx_eq.sim.transfers.tensormap import PADDED, UNITS, TensorMap, gather_index, pixels, shared_offsets
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray

#: In bytes that a copy leaves undefined.
POISON = 0xA5
#: Element types that cp.reduce.async.bulk.tensor combines (PTX ISA 9.7.9.27).
REDUCIBLE = frozenset(("u32", "s32", "f16", "bf16", "f32", "u64", "s64"))


def tensor_operands(decoder: Decoder, instr: Instr, operand: Operand) -> tuple[Reader, list[Reader]]:
    if not isinstance(operand, Mem) or len(operand.coords) < 1:
        raise decoder.error("[tensorMap, {coordinates}] is needed")
    rank = int(next(p for p in instr.parts if p in ("1d", "2d", "3d", "4d", "5d"))[0])
    vector = operand.coords[0]
    items = vector.items if isinstance(vector, Vec) else (vector,)
    special = any(p in ("tile::gather4", "tile::scatter4") for p in instr.parts)
    if len(items) != (5 if special else rank):
        raise decoder.error(f"{len(items)} coordinates where {5 if special else rank} are needed")
    return decoder.address(Mem(operand.base, operand.offset)), [decoder.wide(i, "s32") for i in items]


def pixel_offsets(decoder: Decoder, operand: Operand, rank: int) -> list[Reader]:
    items = operand.items if isinstance(operand, Vec) else (operand,)
    if len(items) != rank - 2:
        raise decoder.error(f"{len(items)} im2col offsets where {rank - 2} are needed")
    return [decoder.wide(i, "u16") for i in items]


def same_mode(w: Wave, row: int, tensor: TensorMap, window: bool) -> None:
    if (tensor.im2col is not None) != window:
        names = ("a tiled tensor map", "an im2col tensor map")
        w.report("tensormap", f"{names[not window]} is used with an instruction for {names[window]}", row=row, fatal=True)


def tensor_load(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.bulk.tensor.Nd to shared memory, with multicast, gather4 and CTA pairs."""
    parts = instr.parts
    rank = int(parts[4][0])
    multicast, gather = "multicast::cluster" in parts, "tile::gather4" in parts
    local = parts[5] == "shared::cta"
    pair = "cta_group::2" in parts
    to = smem_address(decoder, instr, instr.operands[0])
    where, coordinates = tensor_operands(decoder, instr, instr.operands[1])
    bar = smem_address(decoder, instr, instr.operands[2])
    window = "im2col" in parts
    shifts = pixel_offsets(decoder, instr.operands[3], rank) if window else []
    mask = decoder.wide(instr.operands[4 if window else 3], "u16") if multicast else None

    def run(w: Wave, g: Group) -> None:
        masks = mask(w, g) if mask else np.zeros(g.n, np.int64)
        points = [c(w, g) for c in (*coordinates, *shifts)]
        for row, dst, at, bar_at, m, *point in each_row(g, to(w, g), where(w, g), bar(w, g), masks, *points):
            one(w, row, dst, at, bar_at, m, tuple(point[: len(coordinates)]), tuple(point[len(coordinates) :]))

    def one(w: Wave, row: int, dst: int, at: int, bar_at: int, m: int, point: tuple[int, ...],
            shift: tuple[int, ...]) -> None:
        tensor, base = find_map(w, row, at, rank)
        same_mode(w, row, tensor, window)
        rows = 4 if gather else None
        if gather and tensor.box_shape[1] != 1:
            w.report("tensormap", "gather4 needs a box of one row", row=row, fatal=True)
        aligned_row(w, row, tensor, point)
        total, carried = tensor.row_bytes * tensor.rows(rows), 16
        if tensor.element_type in PADDED:
            carried = UNITS[tensor.element_type][1]
        flat = flat_of(w, row, dst, total, 128, not local)
        bar_flat = flat_of(w, row, bar_at, 8, 8)
        home = flat // w.smem_size
        if bar_flat // w.smem_size != home and not pair:
            w.report("mbarrier", "the mbarrier lies in another CTA than the destination (only .cta_group::2 may)", row=row)
        view = w.clocks.snapshot(row)
        cluster = int(w.clocks.cluster[row])
        homes = targets_of_mask(w, row, m) if multicast else [home]
        what = f"TMA load of {tensor.array}"
        address = dst & OFFSET_MASK

        def perform() -> None:
            override = np.array([[y] for y in point[1:]], np.int64) if gather else \
                pixels(tensor, point[1:], shift) if window else None
            offsets, inside = gather_index(tensor, point if not gather else point[:1] + (0,), override)
            source = base + offsets[inside]
            check_global(w, source, what)
            payload = np.zeros(offsets.shape, np.uint8)
            payload.reshape(-1, 16)[:, carried:] = POISON
            if tensor.oob_fill == "nan":
                fill_nan(payload, tensor)
            payload[inside] = w.context.buffers.data[source]
            convert(payload, tensor.element_type)
            cells = global_cells(w, source) if len(source) else None
            chunks, turned = chunks_of(tensor, address, rows)
            turn(payload.reshape(-1, 16), turned)
            for cta in homes:
                bar_home = bar_flat // w.smem_size
                if multicast:
                    bar_home = cta & ~1 if pair and bar_home != home else cta
                bar_here = bar_home * w.smem_size + bar_flat % w.smem_size
                barrier = mbarrier.find(w, bar_here, row)
                if cells is not None:
                    w.checker.async_access(w.context.shadow, cells, cluster, view,
                                           (barrier.column, barrier.phase + 1), False, what)
                deliver(w, cta, chunks + cta * w.smem_size, payload, bar_here, tensor.transaction_bytes(rows), view, cluster,
                        what, carried)
        w.issue(("tma", next(w.context.serial)), AsyncOp(perform, instr, row, what))
    return run, ALU


def chunks_of(tensor: TensorMap, start: int, count: int | None) -> tuple[Array, Array]:
    """Where in a CTA's shared memory each 16-byte chunk of a box lies, and whether its two halves lie the other way round."""
    offsets = shared_offsets(tensor, start, count) - SHARED_BASE
    return offsets & ~15, (offsets & 8) != 0


def turn(chunks: Array, turned: Array) -> None:
    """Exchange the 8-byte halves of some 16-byte chunks."""
    if turned.any():
        chunks[turned] = np.roll(chunks[turned], 8, axis=1)


def squeeze(chunks: Array) -> Array:
    """16 bytes with an element of 6 bits in each -> the elements packed in 12 bytes, and 4 of no account (``.b6p2x16``)."""
    fields = np.unpackbits(chunks, axis=1, bitorder="little").reshape(-1, 16, 8)[..., :6]
    return np.pad(np.packbits(fields.reshape(-1, 96), axis=1, bitorder="little"), ((0, 0), (0, 4)))


def aligned_row(w: Wave, row: int, tensor: TensorMap, point: tuple[int, ...]) -> None:
    """Boxes of elements that are padded begin at multiples of 128 of them (PTX ISA 9.7.9.27.1.1)."""
    if tensor.element_type in PADDED and point[0] % 128:
        w.report("tensormap", f"a box of {tensor.element_type} begins at element {point[0]}, not a multiple of 128", row=row,
                 fatal=True)


def convert(payload: Array, kind: str) -> None:
    """What loading does to elements: ``tf32`` rounds to nearest even, infinities and NaN aside, ``_ftz`` flushes subnormals.

    (CUTLASS's loops rely on the rounding; Triton's tests state its mode, as seen on a device.)
    """
    if kind not in ("tf32", "tf32_ftz", "f32_ftz"):
        return
    bits = payload.view(np.uint32)
    exponent = bits & np.uint32(0x7F800000)
    if kind.endswith("_ftz"):
        bits[exponent == 0] &= np.uint32(0x80000000)
    if kind.startswith("tf32"):
        rounded = bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))
        np.copyto(bits, rounded & np.uint32(0xFFFFE000), where=exponent != 0x7F800000)


def fill_nan(payload: Array, tensor: TensorMap) -> None:
    pattern = {"f16": (np.uint16, 0x7FFF), "bf16": (np.uint16, 0x7FFF), "f32": (np.uint32, 0x7FFFFFFF),
               "tf32": (np.uint32, 0x7FFFFFFF)}.get(tensor.element_type.removesuffix("_ftz"))
    if pattern:
        payload.view(pattern[0])[:] = pattern[1]


def tensor_store(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """cp.async.bulk.tensor.Nd.global.shared::cta and its reducing form; also scatter4."""
    rank = int(next(p for p in instr.parts if p[0].isdigit() and p.endswith("d"))[0])
    scatter, window = "tile::scatter4" in instr.parts, "im2col_no_offs" in instr.parts
    where, coordinates = tensor_operands(decoder, instr, instr.operands[0])
    source = smem_address(decoder, instr, instr.operands[1])
    reduces = instr.parts[1] == "reduce"
    operation = next((p for p in instr.parts if p in ATOMIC), "add")

    def run(w: Wave, g: Group) -> None:
        points = [c(w, g) for c in coordinates]
        for row, at, src, *point in each_row(g, where(w, g), source(w, g), *points):
            one(w, row, at, src, tuple(point))

    def one(w: Wave, row: int, at: int, src: int, point: tuple[int, ...]) -> None:
        tensor, base = find_map(w, row, at, rank)
        same_mode(w, row, tensor, window)
        aligned_row(w, row, tensor, point)
        if tensor.element_type == "u4x16_align16" or (reduces and tensor.element_type in PADDED):
            w.report("tensormap", f"there are only loads of {tensor.element_type}", row=row, fatal=True)
        count = 4 if scatter else None
        total = tensor.row_bytes * tensor.rows(count)
        flat = flat_of(w, row, src, total, 128, False)
        home = flat // w.smem_size
        view, cluster = w.clocks.snapshot(row), int(w.clocks.cluster[row])
        what = f"TMA store of {tensor.array}"
        chunks, turned = chunks_of(tensor, src & OFFSET_MASK, count)
        chunks = chunks + home * w.smem_size

        def read(event: tuple[int, int]) -> Array:
            w.checker.async_access(w.shared_shadow, cells_of_chunks(w, chunks), cluster, view, event, False, what)
            payload = w.smem.reshape(-1, 16)[chunks >> 4].copy()
            turn(payload, turned)
            return squeeze(payload) if tensor.element_type == "u6x16_align16" else payload

        def write(payload: Array, event: tuple[int, int]) -> None:
            override = np.array([[y] for y in point[1:]], np.int64) if scatter else \
                pixels(tensor, point[1:], (0,) * (rank - 2)) if window else None
            offsets, inside = gather_index(tensor, point if not scatter else point[:1] + (0,), override)
            index = base + offsets[inside]
            check_global(w, index, what)
            kept = payload.reshape(offsets.shape)[inside]
            data = w.context.buffers.data
            if len(index):
                w.checker.async_access(w.context.shadow, global_cells(w, index), cluster, view, event, True, what,
                                       kind=REDUCTION if reduces else ASYNC)
            if reduces:
                if tensor.element_type not in REDUCIBLE:
                    w.report("tensormap", f"there is no reduction of {tensor.element_type}", row=row, fatal=True)
                combine_elements(data, index, np.ascontiguousarray(kept), operation, tensor.element_type)
                return
            data[index] = kept
        queue_store(w, instr, row, read, write, what)
    return run, ALU


LOAD = f"global mbarrier::complete_tx::bytes multicast::cluster {HINT} cta_group::1 cta_group::2 tile tile::gather4 im2col"
STORE = f"bulk_group {HINT} tile im2col_no_offs"
ENTRIES = [
    *[e for d in DIMS.split() for e in
      entry(f"cp.async.bulk.tensor.{d}.shared::cluster cp.async.bulk.tensor.{d}.shared::cta", LOAD, tensor_load)],
    *[e for d in DIMS.split() for e in
      entry(f"cp.async.bulk.tensor.{d}.global.shared::cta", STORE + " tile::scatter4", tensor_store)],
    *[e for d in DIMS.split() for e in
      entry(f"cp.reduce.async.bulk.tensor.{d}.global.shared::cta", f"{STORE} {REDUCE}", tensor_store)],
]
