"""tcgen05.mma in all kinds and forms: dense, sparse, block-scaled, weight-stationary, of a pair (PTX ISA 9.7.16.10).

One operation gathers A[M, K] and B[N, K] through the decoded descriptors, multiplies in float64 (exact for every kind's
products) and rounds once into the accumulator.  Where D lives follows the data-path layouts A-G of the ISA.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tirx_eq.sim.arithmetic.formats import to_f16, widen
from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import ALU, Decoder, Run
from tirx_eq.sim.tcgen05.descriptors import BadDescriptor, InstructionDescriptor, MatrixDescriptor, instruction_descriptor
from tirx_eq.sim.tcgen05.operands import Collector, fault, from_shared, from_tmem, matrix, scales
from tirx_eq.sim.tcgen05.order import Actor, actor_of_thread, group_number, touch, window
from tirx_eq.sim.tcgen05.sparse import expanded
from tirx_eq.sim.tcgen05.tmem import COLUMNS
from tirx_eq.sim.tcgen05.ws import column_mask, column_shift
from tirx_eq.sim.text.syntax import Imm, Instr, Mem, Vec
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray


@lru_cache(maxsize=256)
def layout(m: int, n: int, group: int, weight_stationary: bool, high: int, sparse: bool) -> tuple[Array, Array]:
    """Lane and column of every D[i, j] in its CTA, each of shape (m, n): data-path layouts A-G.

    ``high`` is 16 if the accumulator's address carries lane 16 (layouts C and F only).
    """
    i = np.arange(m)[:, None] + np.zeros((1, n), np.int64)
    j = np.arange(n)[None, :] + np.zeros((m, 1), np.int64)
    if group == 2:
        i = i % (m // 2)
        if m == 256:
            return i, j                                                             # A
        if not sparse:
            return i + 64 * (j >= n // 2), j % (n // 2)                             # B
        return i % 16 + 32 * (i // 16) + high, j                                    # C
    if weight_stationary and m == 64:
        return i + 64 * (j >= n // 2), j % (n // 2)                                 # E
    if weight_stationary and m == 32:
        return i + 32 * (j // (n // 4)), j % (n // 4)                               # G
    if m == 64:
        return i % 16 + 32 * (i // 16) + high, j                                    # F
    return i, j                                                                     # D


@lru_cache(maxsize=256)
def banks(m: int, n: int, group: int, weight_stationary: bool, high: int, sparse: bool) -> Array:
    """Lanes of a CTA's rows of A, shape (blocks, rows): once for each block of N that the data path keeps apart."""
    lane, _ = layout(m, n, group, weight_stationary, high, sparse)
    found: Array = np.unique(lane[: m // group].T, axis=0)
    return found


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
    #: scale factors of a row for one instruction; 0 without block scaling
    scale_count: int = 0
    zero_columns: int | None = None
    ashift: bool = False
    metadata: int = 0
    #: what is done to the collector buffer: (buffer, fill | use | lastuse | discard)
    collector: tuple[str, str] | None = None


def mma(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    parts = instr.parts
    sparse, stationary = "sp" in parts[:4], "ws" in parts[:3]
    kind = next((p[6:] for p in parts if p.startswith("kind::")), "")
    group = group_number(instr)
    block = kind.startswith("mx")
    operands = list(instr.operands)
    d = decoder.address(operands.pop(0))
    a_operand = operands.pop(0)
    a_in_tmem = isinstance(a_operand, Mem)
    a = decoder.address(a_operand) if a_in_tmem else decoder.wide(a_operand, "u64")
    b = decoder.wide(operands.pop(0), "u64")
    metadata = decoder.address(operands.pop(0)) if sparse else None
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
    scale_count = scales_per_row(decoder, kind, parts) if block else 0
    if "ashift" in parts and (not a_in_tmem or sparse):
        raise decoder.error("ashift with a sparse A is not modelled" if sparse else "ashift needs A in tensor memory")
    usage = next((tuple(p.split("::")[1:]) for p in parts if p.startswith("collector::")), None)
    collector = (usage[0], usage[1]) if usage else None
    if collector and "ashift" in parts and collector[1] in ("use", "fill"):
        raise decoder.error(f"ashift cannot be combined with collector::a::{collector[1]}")

    def run(w: Wave, g: Group) -> None:
        lanes = [m(w, g) for m in mask] if mask else None
        flags = np.broadcast_to(enable(w, g), (g.n,))
        columns = [np.broadcast_to(x(w, g), (g.n,)) if x else np.zeros(g.n, np.int64)
                   for x in (d, a, b, idesc, sfa, sfb, zero_mask, metadata)]
        for i, row in enumerate(g.idx.tolist()):
            dd, aa, bb, ii, fa, fb, zz, mm = (int(c[i]) for c in columns)
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
                                   bool(flags[i]), scale, disabled, fa, fb, scale_count, zz if zero_mask else None,
                                   "ashift" in parts, mm, collector))

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
        half = o.idesc.m == 64 * group and not stationary and (group == 1 or sparse)
        if high and not (half and high == 16):
            fault(w, row, f"the accumulator address {o.d:#x} has lane {high}; it must be 0" + (" or 16" if half else ""))
        for what, address in (("A", o.a_tmem), ("the sparsity metadata", o.metadata if sparse else None)):
            if address is not None and address >> 16 & 0xFFFF != high:
                fault(w, row, f"{what} is at lane {address >> 16 & 0xFFFF} of tensor memory, the accumulator at lane {high}: "
                              "they must be the same")
        if o.ashift and o.idesc.m == 64:
            fault(w, row, "ashift needs M = 128 or 256")
        a_desc = matrix(w, row, o.a, "A") if o.a is not None else None
        b_desc = matrix(w, row, o.b, "B")
        w.issue(("tc", row, group), AsyncOp(
            lambda: perform(w, row, who, ctas, o, a_desc, b_desc, group, stationary, high), instr, row,
            f"tcgen05.mma.kind::{kind}"))
    return run, ALU


def scales_per_row(decoder: Decoder, kind: str, parts: tuple[str, ...]) -> int:
    """How many scale factors a row of A or B has in one instruction (sparse or not: a sparse one has twice the K)."""
    word = next((p for p in parts if p.startswith("scale_vec") or p in ("block16", "block32")), "")
    table = {"mxf8f6f4": {"": 1, "scale_vec::1X": 1, "block32": 1},
             "mxf4": {"": 2, "scale_vec::2X": 2, "block32": 2},
             "mxf4nvf4": {"scale_vec::2X": 2, "scale_vec::4X": 4, "block32": 2, "block16": 4}}[kind]
    if word not in table:
        raise decoder.error(f".{word or 'scale_vec'} is not allowed with kind::{kind}")
    return table[word]


# -- the operation ----------------------------------------------------------------------------------------
def multiplicand_a(w: Wave, row: int, who: Actor, ctas: list[int], o: Operands, desc: MatrixDescriptor | None,
                   blocks: Array) -> Array:
    """A with all of its K, shape (m, K).  ``blocks``: the lanes of a CTA's rows, see ``banks``."""
    i = o.idesc
    rows, depth = i.m // len(ctas), i.k // 2 if i.sparse else i.k
    parts = []
    for cta in ctas:
        if desc is not None:
            part = from_shared(w, row, who, cta, desc, rows, depth, i, i.a, i.transpose_a, "A")
        else:
            assert o.a_tmem is not None
            part, *others = [from_tmem(w, row, who, cta, o.a_tmem, lanes, depth, i) for lanes in blocks]
            if any((other != part).any() for other in others):
                fault(w, row, f"A in tensor memory must be the same in all {len(blocks)} blocks of {rows} lanes")
        if i.sparse:
            part, *others = [expanded(w, row, who, cta, o.metadata, part, lanes, i) for lanes in blocks]
            if any((other != part).any() for other in others):
                fault(w, row, f"sparsity metadata must be the same in all {len(blocks)} blocks of {rows} lanes")
        parts.append(part)
    return np.concatenate(parts)


def multiplicand_b(w: Wave, row: int, who: Actor, ctas: list[int], o: Operands, desc: MatrixDescriptor) -> Array:
    """B, shape (n, K): each CTA of a pair has half of the rows."""
    i = o.idesc
    if o.zero_columns is None:
        return np.concatenate([from_shared(w, row, who, c, desc, i.n // len(ctas), i.k, i, i.b, i.transpose_b, "B")
                               for c in ctas])
    try:
        shift, zero = column_shift(o.zero_columns, i), column_mask(o.zero_columns, i.m, i.n)
    except BadDescriptor as error:
        fault(w, row, f"zero-column mask {o.zero_columns:#018x}: {error}")
        raise AssertionError from None
    b = from_shared(w, row, who, ctas[0], desc, i.n + shift, i.k, i, i.b, i.transpose_b, "B")[shift:]
    return np.where(zero[:, None], 0.0, b)


def scaled(w: Wave, row: int, who: Actor, ctas: list[int], o: Operands, a: Array, b: Array) -> tuple[Array, Array]:
    """A and B times their block scales."""
    i, pair = o.idesc, len(ctas) == 2
    every = [scales(w, row, who, c, o.sfa, i.m // len(ctas), i, o.scale_count, i.sfa_id) for c in ctas]
    # layout B keeps the halves of N in the halves of the lanes, and the factors of B with them (CUTLASS tmem_sf_frg)
    halves = 2 if pair and i.m == 128 else 1
    sfb, *others = [scales(w, row, who, c, o.sfb, i.n, i, o.scale_count, i.sfb_id, halves) for c in ctas]
    if others and (others[0] != sfb).any():
        fault(w, row, "scale factors of B differ between the CTAs of the pair")
    per = i.k // o.scale_count
    return a * np.repeat(np.concatenate(every), per, axis=1), b * np.repeat(sfb, per, axis=1)


def perform(w: Wave, row: int, who: Actor, ctas: list[int], o: Operands, a_desc: MatrixDescriptor | None,
            b_desc: MatrixDescriptor, group: int, stationary: bool, high: int) -> None:
    i = o.idesc
    m, n = i.m, i.n
    lane, column = layout(m, n, group, stationary, high, i.sparse)
    base = o.d & 0xFFFF
    width = int(column.max()) + 1
    if base + width > COLUMNS:
        w.report("bounds", f"the accumulator spans columns {base}..{base + width - 1} of {COLUMNS}", row=row, fatal=True)
    local_m = m // group
    a = multiplicand_a(w, row, who, ctas, o, a_desc, banks(m, n, group, stationary, high, i.sparse))
    b = multiplicand_b(w, row, who, ctas, o, b_desc)
    if o.collector:
        Collector.of(w, ctas[0]).check(w, row, *o.collector, b if stationary else a)
    if o.ashift:
        a = np.concatenate([a[1:], a[-1:]])
    if o.scale_count:
        a, b = scaled(w, row, who, ctas, o, a, b)
    if i.negate_a:
        a = -a
    if i.negate_b:
        b = -b
    with np.errstate(all="ignore"):
        total = a @ b.T
    for index, c in enumerate(ctas):
        mine = slice(index * local_m, (index + 1) * local_m)
        lanes, columns, values = lane[mine], base + column[mine], total[mine]
        if o.disabled is not None:
            keep = ~o.disabled[lanes + 128 * index]
            if (keep == keep[:, :1]).all():
                rows = keep[:, 0]
                lanes, columns, values = lanes[rows], columns[rows], values[rows]
            else:
                lanes, columns, values = lanes[keep][:, None], columns[keep][:, None], values[keep][:, None]
        if len(values):
            accumulate(w, who, c, *window(lanes, columns), values, o)


def accumulate(w: Wave, who: Actor, cta: int, lanes: Any, columns: Any, values: Array, o: Operands) -> None:
    """Add ``values`` to (or store them in) the cells at ``lanes`` and ``columns``, index arrays or slices."""
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


COLLECTORS = " ".join(f"collector::{x}::{y}" for x in ("a", "b0", "b1", "b2", "b3")
                      for y in ("fill", "use", "lastuse", "discard"))
KINDS = "kind::f16 kind::tf32 kind::f8f6f4 kind::i8 kind::mxf8f6f4 kind::mxf4 kind::mxf4nvf4"
MMA = (f"cta_group::1 cta_group::2 {KINDS} {COLLECTORS} block_scale scale_vec::1X scale_vec::2X scale_vec::4X block16 "
       "block32 ashift")
ENTRIES = entry("tcgen05.mma tcgen05.mma.ws tcgen05.mma.sp tcgen05.mma.ws.sp", MMA, mma)
