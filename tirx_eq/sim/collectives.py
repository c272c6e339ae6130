"""Warp collectives: elect, shuffles, votes, matches and reductions (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirx_eq.sim.control import living_lanes, members
from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import ALU, SYNC, Decoder, Run
from tirx_eq.sim.text.syntax import Instr, Pair, Sink
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


# -- warp collectives -------------------------------------------------------------------------------
def elect(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """elect.sync d|p, mask: the lowest lane of the mask leads."""
    destination = instr.operands[0]
    if not isinstance(destination, Pair):
        raise decoder.error("d|p is needed")
    lane = decoder.target(destination.first, "u32")
    flag = decoder.target(destination.second, "pred")

    def inner(w: Wave, g: Group, mask: Array) -> None:
        low = mask & (~mask + np.uint64(1))
        leader = np.log2(low.astype(np.float64)).astype(np.uint32)
        if not isinstance(destination.first, Sink):
            lane(w, g, leader)
        flag(w, g, w.lane[g.idx] == leader)
    return members(decoder.wide(instr.operands[1], "u32"), inner), SYNC


def gathered(w: Wave, g: Group, value: Array) -> tuple[Array, Array]:
    """Values by (warp of g, lane) and each row's index into the first axis."""
    warps, which = np.unique(w.warp[g.idx], return_inverse=True)
    table = np.zeros((len(warps), 32), value.dtype)
    table[which, w.lane[g.idx]] = value
    return table, which


def shuffle(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """shfl.sync.{up,down,bfly,idx}.b32 d{|p}, a, b, c, mask"""
    mode = instr.parts[2]
    destination = instr.operands[0]
    first = destination.first if isinstance(destination, Pair) else destination
    target = decoder.target(first, "u32")
    flag = decoder.target(destination.second, "pred") if isinstance(destination, Pair) else None
    a, b, c = (decoder.wide(o, "u32") for o in instr.operands[1:4])

    def inner(w: Wave, g: Group, mask: Array) -> None:
        value, by, clamp = a(w, g), b(w, g).astype(np.int64) & 31, c(w, g).astype(np.int64)
        lane = w.lane[g.idx]
        segment = (clamp >> 8) & 31
        bound = clamp & 31
        maximum = (lane & segment) | (bound & ~segment)
        minimum = lane & segment
        if mode == "up":
            source = lane - by
            inside = source >= maximum
        elif mode == "down":
            source = lane + by
            inside = source <= maximum
        elif mode == "bfly":
            source = lane ^ by
            inside = source <= maximum
        else:
            source = minimum | (by & ~segment)
            inside = source <= maximum
        source = np.where(inside, source, lane)
        present, which = gathered(w, g, np.ones(g.n, bool))
        if not present[which, source].all():
            i = int(np.argmin(present[which, source]))
            w.report("collective", f"shfl reads lane {int(source[i])}, which does not take part", row=int(g.idx[i]))
        table, which = gathered(w, g, value)
        target(w, g, table[which, source].copy())
        if flag:
            flag(w, g, inside)
    return members(decoder.wide(instr.operands[4], "u32"), inner), SYNC


def vote(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """vote.sync.{all,any,uni}.pred and .ballot.b32"""
    mode = instr.parts[2]
    target = decoder.target(instr.operands[0], "u32" if mode == "ballot" else "pred")
    a = decoder.source(instr.operands[1], "pred")

    def inner(w: Wave, g: Group, mask: Array) -> None:
        value = np.broadcast_to(a(w, g), (g.n,))
        table, which = gathered(w, g, value)
        ballot = (table.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1)[which] & mask
        if mode == "ballot":
            target(w, g, ballot.astype(np.uint32))
        elif mode == "all":
            target(w, g, ballot == mask & living_lanes(w)[w.warp[g.idx]])
        elif mode == "any":
            target(w, g, ballot != 0)
        else:
            target(w, g, (ballot == 0) | (ballot == mask & living_lanes(w)[w.warp[g.idx]]))
    return members(decoder.wide(instr.operands[2], "u32"), inner), SYNC


def active_mask(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    target = decoder.target(instr.operands[0], "u32")

    def run(w: Wave, g: Group) -> None:
        table, which = gathered(w, g, np.ones(g.n, bool))
        target(w, g, (table.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1)[which].astype(np.uint32))
    return run, ALU


def match(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """match.{any,all}.sync"""
    kind = instr.parts[-1]
    destination = instr.operands[0]
    first = destination.first if isinstance(destination, Pair) else destination
    target = decoder.target(first, "u32")
    flag = decoder.target(destination.second, "pred") if isinstance(destination, Pair) else None
    a = decoder.wide(instr.operands[1], kind)

    def inner(w: Wave, g: Group, mask: Array) -> None:
        table, which = gathered(w, g, a(w, g))
        present, _ = gathered(w, g, np.ones(g.n, bool))
        equal = (table[which] == a(w, g)[:, None]) & present[which]
        bits = (equal.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1) & mask
        if "all" in instr.parts:
            same = bits == mask
            target(w, g, np.where(same, bits, np.uint64(0)).astype(np.uint32))
            if flag:
                flag(w, g, same)
        else:
            target(w, g, bits.astype(np.uint32))
    return members(decoder.wide(instr.operands[2], "u32"), inner), SYNC


def reduce(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """redux.sync.op{.abs}{.NaN}.type d, a, mask"""
    kind = instr.parts[-1]
    operation = instr.parts[2]
    target = decoder.target(instr.operands[0], kind)
    a = decoder.wide(instr.operands[1], kind)
    functions: dict[str, Callable[[Array], object]] = {
        "add": lambda v: v.sum(dtype=v.dtype), "min": np.min, "max": np.max, "and": np.bitwise_and.reduce,
        "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
    }
    magnitude, propagate = "abs" in instr.parts, "NaN" in instr.parts

    def inner(w: Wave, g: Group, mask: Array) -> None:
        value = a(w, g)
        if magnitude:
            value = np.abs(value)
        result = np.empty(g.n, value.dtype)
        keys = w.warp[g.idx].astype(np.uint64) << np.uint64(32) | mask
        for key in np.unique(keys):
            mine = keys == key
            part = value[mine]
            if kind == "f32" and not propagate:
                part = part[~np.isnan(part)] if not np.isnan(part).all() else part
            result[mine] = functions[operation](part)
        target(w, g, result)
    return members(decoder.wide(instr.operands[2], "u32"), inner), SYNC


ENTRIES = [
    *entry("elect.sync", "", elect), *entry("shfl.sync", "up down bfly idx b32", shuffle),
    *entry("vote.sync", "all any uni ballot pred b32", vote), *entry("activemask", "b32", active_mask),
    *entry("match.any.sync match.all.sync", "b32 b64", match),
    *entry("redux.sync", "add min max and or xor abs NaN u32 s32 b32 f32", reduce),
]
