"""clusterlaunchcontrol (PTX ISA 9.7.13.17): taking over the work of a cluster that has not been launched yet."""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.isa import entry
from tirx_eq.sim.program import ALU, Decoder, Run
from tirx_eq.sim.text.syntax import Instr, Operand, Reg, Vec
from tirx_eq.sim.transfers.copies import deliver, flat_of, smem_address
from tirx_eq.sim.wave import AsyncOp, Group, Wave

Array = np.ndarray
#: marks a response that carries a cancelled cluster's first CTA (the real encoding is opaque)
CANCELED = 1 << 63


def try_cancel(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """Ask for the last unlaunched cluster; a 16-byte response arrives through an mbarrier."""
    to = smem_address(decoder, instr, instr.operands[0])
    bar = smem_address(decoder, instr, instr.operands[1])
    everywhere = "multicast::cluster::all" in instr.parts
    decoder.program.cancels = True

    def run(w: Wave, g: Group) -> None:
        for row, dst, at in zip(g.idx.tolist(), to(w, g).tolist(), bar(w, g).tolist()):
            one(w, row, dst, at)

    def one(w: Wave, row: int, dst: int, at: int) -> None:
        flat, bar_flat = flat_of(w, row, dst, 16, 16), flat_of(w, row, at, 8, 8)
        view, cluster = w.clocks.snapshot(row), int(w.clocks.cluster[row])
        first = int(w.cta[row]) - int(w.rank[row])
        homes = [first + i for i in range(w.cluster_size)] if everywhere else [flat // w.smem_size]

        def perform() -> None:
            response = np.zeros(2, np.uint64)
            taken = w.context.take_cluster()
            if taken is not None:
                x, y, z = w.context.launch.cta_coordinates(taken, 0)
                response[0] = CANCELED | x
                response[1] = y | z << 32
            for home in homes:
                base = home * w.smem_size
                deliver(w, home, np.array([base + flat % w.smem_size]), response.view(np.uint8),
                        base + bar_flat % w.smem_size, 16, view, cluster, "clusterlaunchcontrol.try_cancel")
        w.issue(("tma", next(w.context.serial)), AsyncOp(perform, instr, row, "launch cancellation"))
    return run, ALU


def query(decoder: Decoder, instr: Instr) -> tuple[Run, int]:
    """clusterlaunchcontrol.query_cancel.is_canceled / get_first_ctaid"""
    source = instr.operands[1]
    if not isinstance(source, Reg):
        raise decoder.error("a .b128 register is needed")
    index = source.index

    def response(w: Wave, g: Group) -> Array:
        if w.U[index] is not None:
            w.undefined(index, g)
        value = w.register(index)
        if value.ndim != 2:
            w.report("isa", "the response must be a .b128 register", row=int(g.idx[0]), fatal=True)
        return value[g.idx]
    if "is_canceled" in instr.parts:
        flag = decoder.target(instr.operands[0], "pred")
        return lambda w, g: flag(w, g, response(w, g)[:, 0] >= np.uint64(CANCELED)), ALU
    items: tuple[Operand, ...] = instr.operands[0].items if isinstance(instr.operands[0], Vec) else (instr.operands[0],)
    axis = next((p[-1] for p in instr.parts if p.startswith("get_first_ctaid::")), "")
    axes = [axis] if axis else ["x", "y", "z", ""]
    targets = [decoder.target(o, "u32") for o in items]

    def run(w: Wave, g: Group) -> None:
        words = response(w, g)
        if (words[:, 0] < np.uint64(CANCELED)).any():
            w.report("isa", "get_first_ctaid of a request that was not granted", row=int(g.idx[0]))
        parts = {"x": words[:, 0] & np.uint64(0xFFFFFFFF), "y": words[:, 1] & np.uint64(0xFFFFFFFF),
                 "z": words[:, 1] >> np.uint64(32), "": np.zeros(g.n, np.uint64)}
        for name, target in zip(axes, targets):
            target(w, g, parts[name].astype(np.uint32))
    return run, ALU


ENTRIES = [
    *entry("clusterlaunchcontrol.try_cancel",
           "async shared::cta mbarrier::complete_tx::bytes multicast::cluster::all b128", try_cancel),
    *entry("clusterlaunchcontrol.query_cancel",
           "is_canceled pred b128 get_first_ctaid get_first_ctaid::x get_first_ctaid::y get_first_ctaid::z v4 b32", query),
]
