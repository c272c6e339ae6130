"""tcgen05.cp: shared memory to tensor memory through a matrix descriptor (PTX ISA 9.7.16.9)."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.arithmetic.formats import padded_bytes
from tirx_eq.sim.isa import entry
from tirx_eq.sim.memory import SHARED_BASE
from tirx_eq.sim.program import ALU, Decoder, Run
from tirx_eq.sim.tcgen05.descriptors import addresses, k_major
from tirx_eq.sim.tcgen05.operands import CONTAINED, matrix
from tirx_eq.sim.tcgen05.order import actor_of_thread, group_number, touch
from tirx_eq.sim.tcgen05.tmem import COLUMNS
from tirx_eq.sim.text.syntax import Instr
from tirx_eq.sim.transfers.copies import cells_of_chunks
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray
CP_SHAPES = {"128x256b": (128, 32), "4x256b": (4, 32), "128x128b": (128, 16), "64x128b": (64, 16), "32x128b": (32, 16)}


def copy(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """tcgen05.cp: shared memory to tensor memory, through a matrix descriptor."""
    shape = next((p for p in instr.parts if p in CP_SHAPES), "")
    if not shape:
        raise decoder.error("a shape is needed")
    spread = next((p for p in instr.parts if p.startswith("warpx")), "")
    if (shape == "64x128b") != spread.startswith("warpx2") or (shape == "32x128b") != (spread == "warpx4"):
        raise decoder.error(f".{shape} and .{spread} do not go together")
    narrow = next((p for p in instr.parts if p in ("b6x16_p32", "b4x16_p64")), "")
    carried = {"b6x16_p32": 12, "b4x16_p64": 8}.get(narrow, 16)  # bytes of a chunk that count
    rows, width = CP_SHAPES[shape]
    address = decoder.address(instr.operands[0])
    descriptor = decoder.wide(instr.operands[1], "u64")
    group = group_number(instr)
    quarter: dict[str, list[tuple[int, ...]]] = {
        "warpx2::02_13": [(0, 2), (1, 3)], "warpx2::01_23": [(0, 1), (2, 3)], "warpx4": [(0, 1, 2, 3)]}

    def lanes() -> list[tuple[Array, Array]]:
        """Pairs (source rows, lanes)."""
        r = np.arange(rows)
        if shape == "4x256b":
            return [(r, r + 32 * q) for q in range(4)]
        if spread:
            found = []
            for block, quarters in enumerate(quarter[spread]):
                source = np.arange(32) + 32 * block
                found += [(source, np.arange(32) + 32 * q) for q in quarters]
            return found
        return [(r, r)]
    pairs = lanes()

    def run(w: Wave, g: Group) -> None:
        for row, at, value in zip(g.idx.tolist(), address(w, g).tolist(), descriptor(w, g).tolist()):
            one(w, row, at, value)

    def one(w: Wave, row: int, at: int, value: int) -> None:
        desc = matrix(w, row, value, "the source")
        lane, column = at >> 16 & 0xFFFF, at & 0xFFFF
        columns = width // 4
        if lane or column + columns > COLUMNS:
            w.report("bounds", f"tcgen05.cp to lane {lane} column {column}", row=row, fatal=True)
        who = actor_of_thread(w, row)
        cta = int(w.cta[row])
        ctas = [cta] if group == 1 else [cta & ~1, cta | 1]

        def perform() -> None:
            place = addresses(desc, k_major(rows, width // 16, desc.leading, desc.stride, desc.mode))
            if int(place.min()) < SHARED_BASE or int(place.max()) + 16 > SHARED_BASE + w.smem_limit:
                w.report("bounds", "the descriptor of tcgen05.cp leaves shared memory", row=row, fatal=True)
            for c in ctas:
                flat = place - SHARED_BASE + c * w.smem_size
                cells = w.shared_shadow.cells(flat.ravel(), carried).ravel() if narrow else cells_of_chunks(w, flat.ravel())
                w.checker.async_access(w.shared_shadow, cells, who.cluster, who.view,
                                       (who.column, who.epoch), False, "tcgen05.cp", (who.column,))
                raw = w.smem.reshape(-1, 16)[flat >> 4]
                if narrow:
                    raw = padded_bytes(raw, carried // 2) << CONTAINED[carried // 2]
                words = np.ascontiguousarray(raw.reshape(rows, width)).view(np.uint32)
                for source, to in pairs:
                    place_to = to[:, None], np.arange(column, column + columns)[None, :]
                    touch(w, who, c, place_to[0], place_to[1], True, "tcgen05.cp")
                    w.tmem.data[c, place_to[0], place_to[1]] = words[source]
        w.issue(("tc", row, group), AsyncOp(perform, instr, row, "tcgen05.cp"))
    return run, ALU


ENTRIES = entry("tcgen05.cp", "cta_group::1 cta_group::2 " + " ".join(CP_SHAPES)
                + " warpx2::02_13 warpx2::01_23 warpx4 b8x16 b6x16_p32 b4x16_p64", copy)
