"""tcgen05.mma in all kinds, and tcgen05.cp (PTX ISA 9.7.16.10).

One operation gathers A[M, K] and B[N, K] through the decoded descriptors, multiplies in float64 (exact for every kind's
products) and rounds once into the accumulator.  Where D lives follows the data-path layouts A-G of the ISA.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tirx_eq.sim.copies import cells_of_chunks
from tirx_eq.sim.descriptors import (
    BadDescriptor,
    InstructionDescriptor,
    MatrixDescriptor,
    addresses,
    instruction_descriptor,
    k_major,
    matrix_descriptor,
    mn_major,
)
from tirx_eq.sim.formats import to_f16, widen
from tirx_eq.sim.isa import entry
from tirx_eq.sim.memory import SHARED_BASE
from tirx_eq.sim.program import ALU, Decoder, Run
from tirx_eq.sim.syntax import Imm, Instr, Mem, Operand, Reg, Vec
from tirx_eq.sim.tc_order import Actor, actor_of_thread, group_number, touch
from tirx_eq.sim.tmem import COLUMNS, LANES
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray


@lru_cache(maxsize=256)
def layout(m: int, n: int, group: int, weight_stationary: bool, high: int) -> tuple[Array, Array, Array]:
    """CTA in the pair, lane and column of every D[i, j], each of shape (m, n): data-path layouts A-G.

    ``high`` is 16 if the accumulator's address carries lane 16 (layout F only).
    """
    i = np.arange(m)[:, None] + np.zeros((1, n), np.int64)
    j = np.arange(n)[None, :] + np.zeros((m, 1), np.int64)
    zero = np.zeros((m, n), np.int64)
    if group == 2:
        if m == 256:
            return i // 128, i % 128, j
        return i // 64, i % 64 + 64 * (j >= n // 2), j % (n // 2)
    if weight_stationary and m == 64:
        return zero, i + 64 * (j >= n // 2), j % (n // 2)
    if weight_stationary and m == 32:
        return zero, i + 32 * (j // (n // 4)), j % (n // 4)
    if m == 64:
        return zero, i % 16 + 32 * (i // 16) + high, j
    return zero, i, j


@dataclass(frozen=True)
class Operands:
    """Everything an MMA knows when it is issued."""

    d: int
    a: int | None
    a_tmem: int | None
    b: int
    idesc: InstructionDescriptor
    accumulate: bool
    scale: int
    disabled: Array | None
    sfa: int = 0
    sfb: int = 0
    per_scale: int = 0
    zero_columns: int | None = None
    ashift: bool = False


def fault(w: Wave, row: int, message: str) -> None:
    w.report("descriptor", message, row=row, fatal=True)


def matrix(w: Wave, row: int, value: int, which: str) -> MatrixDescriptor:
    try:
        return matrix_descriptor(value)
    except BadDescriptor as error:
        fault(w, row, f"matrix descriptor of {which} = {value:#018x}: {error}")
        raise AssertionError from None


def mma(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    parts = instr.parts
    sparse, stationary = "sp" in parts[:4], "ws" in parts[:3]
    if sparse:
        raise decoder.error("sparse matrices are not supported")
    kind = next((p[6:] for p in parts if p.startswith("kind::")), "")
    group = group_number(instr)
    block = kind.startswith("mx")
    operands = list(instr.operands)
    d = decoder.address(operands.pop(0))
    a_operand = operands.pop(0)
    a_in_tmem = isinstance(a_operand, Mem)
    a = decoder.address(a_operand) if a_in_tmem else decoder.wide(a_operand, "u64")
    b = decoder.wide(operands.pop(0), "u64")
    idesc = decoder.wide(operands.pop(0), "u32")
    sfa = sfb = None
    if block != ("block_scale" in parts):
        raise decoder.error("block scaling and kind do not match")
    if block:
        sfa, sfb = decoder.address(operands.pop(0)), decoder.address(operands.pop(0))
    mask = None
    if operands and isinstance(operands[0], Vec):
        vector = operands.pop(0)
        assert isinstance(vector, Vec)
        if len(vector.items) != 4 * group:
            raise decoder.error(f"the lane mask needs {4 * group} registers")
        mask = [decoder.wide(o, "u32") for o in vector.items]
    enable = decoder.source(operands.pop(0), "pred")
    scale = 0
    zero_mask = None
    if operands:
        extra = operands.pop(0)
        if stationary:
            zero_mask = decoder.wide(extra, "u64")
        elif isinstance(extra, Imm) and 0 <= extra.value <= 15 and kind in ("f16", "tf32"):
            scale = extra.value
        else:
            raise decoder.error("scale-input-d must be a constant in 0..15, with kind::f16 or kind::tf32")
    per_scale = vector_size(decoder, kind, parts) if block else 0

    def run(w: Wave, g: Group) -> None:
        lanes = [m(w, g) for m in mask] if mask else None
        flags = np.broadcast_to(enable(w, g), (g.n,))
        columns = [np.broadcast_to(x(w, g), (g.n,)) if x else np.zeros(g.n, np.int64)
                   for x in (d, a, b, idesc, sfa, sfb, zero_mask)]
        for i, row in enumerate(g.idx.tolist()):
            dd, aa, bb, ii, fa, fb, zz = (int(c[i]) for c in columns)
            try:
                decoded = instruction_descriptor(ii, kind, group, stationary, sparse)
            except BadDescriptor as error:
                fault(w, row, f"instruction descriptor {ii:#010x}: {error}")
                raise AssertionError from None
            disabled = None
            if lanes:
                bits = np.array([int(v[i]) for v in lanes], np.uint32)
                disabled = np.unpackbits(bits.view(np.uint8), bitorder="little").astype(bool)
            issue(w, row, Operands(dd, None if a_in_tmem else aa, aa if a_in_tmem else None, bb, decoded,
                                   bool(flags[i]), scale, disabled, fa, fb, per_scale, zz if zero_mask else None,
                                   "ashift" in parts))

    def issue(w: Wave, row: int, o: Operands) -> None:
        rank = int(w.rank[row])
        cta = int(w.cta[row])
        if group == 2 and w.cluster_size % 2:
            fault(w, row, "cta_group::2 needs an even cluster size")
        if group == 2 and rank & 1:
            cta -= 1
        ctas = [cta] if group == 1 else [cta, cta + 1]
        who = actor_of_thread(w, row)
        high = o.d >> 16 & 0xFFFF
        half = o.idesc.m == 64 and not stationary and group == 1
        if high and not (half and high == 16):
            fault(w, row, f"the accumulator address {o.d:#x} has lane {high}; it must be 0" + (" or 16" if half else ""))
        a_desc = matrix(w, row, o.a, "A") if o.a is not None else None
        b_desc = matrix(w, row, o.b, "B")
        w.issue(("tc", row, group), AsyncOp(
            lambda: perform(w, row, who, ctas, o, a_desc, b_desc, group, stationary, high), instr, row,
            f"tcgen05.mma.kind::{kind}"))
    return run, ALU


def vector_size(decoder: Decoder, kind: str, parts: tuple[str, ...]) -> int:
    """Elements of K that share one scale."""
    word = next((p for p in parts if p.startswith("scale_vec") or p in ("block16", "block32")), "")
    table = {"mxf8f6f4": {"": 32, "scale_vec::1X": 32, "block32": 32},
             "mxf4": {"": 32, "scale_vec::2X": 32, "block32": 32},
             "mxf4nvf4": {"scale_vec::2X": 32, "scale_vec::4X": 16, "block32": 32, "block16": 16}}[kind]
    if word not in table:
        raise decoder.error(f".{word or 'scale_vec'} is not allowed with kind::{kind}")
    return table[word]


# -- operands -------------------------------------------------------------------------------------------
def element_bits(kind: str, name: str) -> int:
    if kind == "f16":
        return 16
    if kind == "tf32":
        return 32
    return 4 if kind in ("mxf4", "mxf4nvf4") else 8


#: address bits that select the row within a swizzle pattern
PHASE = {"none": 0, "32B": 0x80, "64B": 0x180, "128B": 0x380, "128B_atom32B": 0x180}


def unpack(raw: Array, kind: str, name: str) -> Array:
    """float64 elements along the last axis of bytes."""
    if kind == "f16":
        return widen(raw.view(np.uint16), name).astype(np.float64)
    if kind == "tf32":
        return widen(raw.view(np.uint32), "tf32").astype(np.float64)
    if kind in ("mxf4", "mxf4nvf4"):
        both = np.stack([raw & 0xF, raw >> 4], axis=-1).reshape(*raw.shape[:-1], -1)
        return widen(both, "e2m1").astype(np.float64)
    if kind == "i8":
        return raw.view(np.int8 if name == "s8" else np.uint8).astype(np.float64)
    return widen(raw, name).astype(np.float64)


def packed_bytes(raw: Array, name: str) -> Array:
    """fp6/fp4 operands of f8f6f4: 16 elements padded to 16 bytes become one byte per element.

    ``raw`` has shape (..., 16): 12 bytes of fp6 or 8 bytes of fp4, then padding.
    """
    if name in ("e2m3", "e3m2"):
        bits = np.unpackbits(raw[..., :12], axis=-1, bitorder="little").reshape(*raw.shape[:-1], 16, 6)
    else:
        bits = np.unpackbits(raw[..., :8], axis=-1, bitorder="little").reshape(*raw.shape[:-1], 16, 4)
    return np.packbits(bits, axis=-1, bitorder="little")[..., 0]


def from_shared(w: Wave, row: int, who: Actor, cta: int, desc: MatrixDescriptor, rows: int, o: InstructionDescriptor,
                name: str, transposed: bool, which: str) -> Array:
    """Operand elements, shape (rows, K), through a matrix descriptor in one CTA's shared memory."""
    bits = element_bits(o.kind, name)
    if transposed:
        if o.kind in ("mxf4", "mxf4nvf4"):
            fault(w, row, f"{which}: kind::{o.kind} cannot be transposed")
        if (desc.mode == "128B_atom32B") != (o.kind == "tf32"):
            fault(w, row, f"{which}: swizzle {desc.mode} is not allowed for a transposed kind::{o.kind} operand")
        chunks = rows * bits // 128
        offsets = mn_major(o.k, max(1, chunks), desc.leading, desc.stride, desc.mode)
    else:
        offsets = k_major(rows, o.k * bits // 128, desc.leading, desc.stride, desc.mode)
    if desc.start & PHASE[desc.mode]:
        w.report("descriptor", f"{which} starts at {desc.start:#x}, inside of a swizzle {desc.mode} pattern: the ISA asks for "
                               "a base offset, this descriptor has none", row=row, warning=True)
    place = addresses(desc, offsets)
    low, high = int(place.min()), int(place.max())
    if low < SHARED_BASE or high + 16 > SHARED_BASE + w.smem_limit:
        bad = low if low < SHARED_BASE else high
        w.report("bounds", f"the descriptor of {which} reaches shared offset {bad - SHARED_BASE} of {w.smem_limit} bytes",
                 row=row, address=bad, fatal=True)
    flat = place - SHARED_BASE + cta * w.smem_size
    w.checker.async_access(w.shared_shadow, cells_of_chunks(w, flat.ravel()), who.cluster, who.view,
                           (who.column, who.epoch), False, f"tcgen05.mma ({which})", (who.column,))
    raw = w.smem.reshape(-1, 16)[flat >> 4]
    if o.kind in ("f8f6f4", "mxf8f6f4") and name in ("e2m3", "e3m2", "e2m1"):
        raw = packed_bytes(raw, name)
    values = unpack(raw.reshape(raw.shape[0], -1), o.kind, name)
    return values.T[:rows] if transposed else values


def from_tmem(w: Wave, row: int, who: Actor, cta: int, address: int, lanes: Array, o: InstructionDescriptor) -> Array:
    """A from tensor memory: one row per lane, K elements packed into 32-bit columns."""
    bits = element_bits(o.kind, o.a)
    count = o.k * bits // 32
    column = address & 0xFFFF
    if column + count > COLUMNS:
        w.report("bounds", f"A in tensor memory reaches column {column + count - 1}", row=row, fatal=True)
    at = lanes[:, None], np.arange(column, column + count)[None, :]
    touch(w, who, cta, at[0], at[1], False, "tcgen05.mma (A)")
    raw = np.ascontiguousarray(w.tmem.data[cta, at[0], at[1]]).view(np.uint8)
    return unpack(raw, o.kind, o.a)


def scales(w: Wave, row: int, who: Actor, cta: int, address: int, rows: int, o: InstructionDescriptor, count: int,
           which: int, quarters: tuple[int, ...]) -> Array:
    """Scale factors, shape (rows, count): row r in lane r % 32 of each quarter, column r // 32, byte id + index."""
    column = address & 0xFFFF
    need = -(-rows // 32)
    if address >> 16 & 0xFFFF or column + need > COLUMNS:
        w.report("bounds", f"scale factors at {address:#x}", row=row, fatal=True)
    if which + count > 4:
        fault(w, row, f"scale factor id {which} with {count} scales per row")
    r = np.arange(rows)
    values = []
    for q in quarters:
        lane, col = r % 32 + 32 * q, column + r // 32
        touch(w, who, cta, lane, col, False, "tcgen05.mma (scales)")
        words = np.ascontiguousarray(w.tmem.data[cta, lane, col])
        values.append(words.view(np.uint8).reshape(rows, 4)[:, which : which + count])
    for other in values[1:]:
        if (other != values[0]).any():
            fault(w, row, "scale factors differ between the 32-lane quarters of tensor memory")
    return widen(values[0], "ue8m0" if o.scale == "ue8m0" else "ue4m3").astype(np.float64)


# -- the operation ----------------------------------------------------------------------------------------
def perform(w: Wave, row: int, who: Actor, ctas: list[int], o: Operands, a_desc: MatrixDescriptor | None,
            b_desc: MatrixDescriptor, group: int, stationary: bool, high: int) -> None:
    i = o.idesc
    m, n = i.m, i.n
    pair, lane, column = layout(m, n, group, stationary, high)
    base = o.d & 0xFFFF
    width = int(column.max()) + 1
    if base + width > COLUMNS:
        w.report("bounds", f"the accumulator spans columns {base}..{base + width - 1} of {COLUMNS}", row=row, fatal=True)
    local_m = m // group
    if a_desc is not None:
        a = np.concatenate([from_shared(w, row, who, c, a_desc, local_m, i, i.a, i.transpose_a, "A") for c in ctas])
    else:
        assert o.a_tmem is not None
        blocks = []
        for index, c in enumerate(ctas):
            lanes = lane[index * local_m : (index + 1) * local_m, 0]
            block = from_tmem(w, row, who, c, o.a_tmem, lanes, i)
            if group == 2 and m == 128:
                again = from_tmem(w, row, who, c, o.a_tmem, lanes + 64, i)
                if (again != block).any():
                    fault(w, row, "A in tensor memory must be the same in lanes 0-63 and 64-127 for M = 128 of a pair")
            blocks.append(block)
        a = np.concatenate(blocks)
        if o.ashift:
            a = np.concatenate([a[1:], a[-1:]])
    b = np.concatenate([from_shared(w, row, who, c, b_desc, n // group, i, i.b, i.transpose_b, "B") for c in ctas])
    if o.per_scale:
        count = i.k // o.per_scale
        sfa = []
        for index, c in enumerate(ctas):
            every = scales(w, row, who, c, o.sfa, local_m, i, count, i.sfa_id, (0, 1, 2, 3))
            sfa.append(every)
            del index
        sfb = scales(w, row, who, ctas[0], o.sfb, n, i, count, i.sfb_id, (0, 1, 2, 3))
        if group == 2:
            again = scales(w, row, who, ctas[1], o.sfb, n, i, count, i.sfb_id, (0, 1, 2, 3))
            if (again != sfb).any():
                fault(w, row, "scale factors of B differ between the CTAs of the pair")
        a = a * np.repeat(np.concatenate(sfa), o.per_scale, axis=1)
        b = b * np.repeat(sfb, o.per_scale, axis=1)
    if i.negate_a:
        a = -a
    if i.negate_b:
        b = -b
    if o.zero_columns is not None:
        b = zeroed(b, o.zero_columns)
    with np.errstate(all="ignore"):
        total = a @ b.T
    for index, c in enumerate(ctas):
        mine = slice(None) if group == 1 else slice(index * local_m, (index + 1) * local_m)
        lanes, columns = lane[mine], base + column[mine]
        values = total[mine]
        if o.disabled is not None:
            keep = ~o.disabled[lanes[:, 0] + 128 * index] if (lanes == lanes[:, :1]).all() \
                else ~o.disabled[lanes + 128 * index]
            if keep.ndim == 1:
                lanes, columns, values = lanes[keep], columns[keep], values[keep]
            else:
                lanes, columns, values = lanes[keep][:, None], columns[keep][:, None], values[keep][:, None]
        if len(values):
            accumulate(w, who, c, lanes, columns, values, o)
    del pair


def accumulate(w: Wave, who: Actor, cta: int, lanes: Array, columns: Array, values: Array, o: Operands) -> None:
    i = o.idesc
    if o.accumulate:
        touch(w, who, cta, lanes, columns, False, "tcgen05.mma (D)")
    touch(w, who, cta, lanes, columns, True, "tcgen05.mma (D)")
    t = w.tmem
    old = t.data[cta, lanes, columns]
    if i.d == "s32":
        total = values
        if o.accumulate:
            total = total + old.view(np.int32)
        if i.saturate:
            total = np.clip(total, -(1 << 31), (1 << 31) - 1)
        t.data[cta, lanes, columns] = total.astype(np.int64).astype(np.uint32)
        return
    if o.accumulate:
        before = widen(old & np.uint32(0xFFFF), "f16") if i.d == "f16" else old.view(np.float32)
        values = values + before.astype(np.float64) * 2.0 ** -o.scale
    with np.errstate(all="ignore"):
        if i.d == "f16":
            t.data[cta, lanes, columns] = to_f16(values).astype(np.uint32)
        else:
            t.data[cta, lanes, columns] = values.astype(np.float32).view(np.uint32)


def zeroed(b: Array, mask: int) -> Array:
    """.ws zero-column mask: bit i clears columns of B (64 bits over N, repeated)."""
    bits = np.array([(mask >> (j % 64)) & 1 for j in range(len(b))], bool)
    return np.where(bits[:, None], 0.0, b)


# -- cp -----------------------------------------------------------------------------------------------------
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
                w.checker.async_access(w.shared_shadow, cells_of_chunks(w, flat.ravel()), who.cluster, who.view,
                                       (who.column, who.epoch), False, "tcgen05.cp", (who.column,))
                raw = w.smem.reshape(-1, 16)[flat >> 4]
                if narrow:
                    raw = packed_bytes(raw, "e2m3" if narrow == "b6x16_p32" else "e2m1")
                words = np.ascontiguousarray(raw.reshape(rows, width)).view(np.uint32)
                for source, to in pairs:
                    place_to = to[:, None], np.arange(column, column + columns)[None, :]
                    touch(w, who, c, place_to[0], place_to[1], True, "tcgen05.cp")
                    w.tmem.data[c, place_to[0], place_to[1]] = words[source]
        w.issue(("tc", row, group), AsyncOp(perform, instr, row, "tcgen05.cp"))
    return run, ALU


_ = (LANES, Operand, Reg)
COLLECTORS = " ".join(f"collector::{x}::{y}" for x in ("a", "b0", "b1", "b2", "b3")
                      for y in ("fill", "use", "lastuse", "discard"))
KINDS = "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"
MMA = (f"cta_group::1 cta_group::2 {KINDS} {COLLECTORS} block_scale scale_vec::1X scale_vec::2X scale_vec::4X block16 "
       "block32 ashift")
ENTRIES = [
    *entry("tcgen05.mma tcgen05.mma.ws tcgen05.mma.sp tcgen05.mma.ws.sp", MMA, mma),
    *entry("tcgen05.cp", "cta_group::1 cta_group::2 " + " ".join(CP_SHAPES)
           + " warpx2::02_13 warpx2::01_23 warpx4 b8x16 b6x16_p32 b4x16_p64", copy),
]
