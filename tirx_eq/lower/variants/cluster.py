"""Copies that reach other CTAs of the cluster: multicast loads, loads for a pair of CTAs, and into a peer's shared memory.

PTX ISA 9.7.9 (cp.async.bulk, cp.async.bulk.tensor, st.async); mapa gives the address of a place in another CTA.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import LoweringError
from ...ir import Expr, IntImm, const
from ..conditions.cluster import barrier_of, cta_points, mask_of, per_cta
from ..conditions.tensor_copy import global_and_shared
from ..context import CallContext
from ..equations.cluster import peer_equation, shared_load_equation, spread_equation
from ..machine import Price
from ..program import Block, Index, Memory, Node, Temp, instruction
from ..storage import at_rank
from .base import Variant
from .copy import emit_cluster_copy, price_cluster_copy
from .issue import by_one_thread
from .tensor_copy import box_of, planned_copies, tensor_maps_of


def emit_multicast(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One tensor copy per box to the same place in every CTA of the mask; each one's barrier is told."""
    return _load(c, parameters[0], "")


def emit_pair_load(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One tensor copy per box that reports to a barrier of the CTA pair, for all CTAs of the mask if there is one."""
    return _load(c, parameters[0], ".cta_group::2")


def _load(c: CallContext, code: int, pair: str) -> Block:
    shared, barrier, mask = global_and_shared(c)[1], barrier_of(c), mask_of(c)
    assert barrier is not None
    nodes: list[Node] = []
    more: tuple[Temp, ...] = ()
    if mask is not None:
        more = (Temp("b16"),)
        constant = isinstance(mask, IntImm)
        value = mask.value if isinstance(mask, IntImm) else Index(mask)
        nodes.append(instruction("mov.b16" if constant else "cvt.u16.u32", more[0], value))
    multicast = ".multicast::cluster" if more else ""
    for copy in planned_copies(c, code):
        opcode = (
            f"cp.async.bulk.tensor.{copy.map.rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{multicast}{pair}"
        )
        into = Memory(shared.root, c.resolve(copy.shared))
        nodes.append(instruction(opcode, into, box_of(c, copy), barrier, *more))
    return tuple(nodes)


def receivers(c: CallContext) -> int:
    """CTAs that a call's mask names, at most."""
    mask = mask_of(c)
    found = per_cta(c, mask) if mask is not None else [1]
    return max(v.bit_count() for v in found) if not isinstance(found, str) else len(cta_points(c))


def price_load(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """As a tensor load; what is read once is written into the shared memory of every receiver."""
    copies = planned_copies(c, parameters[0])
    written, read = (sum(n) for n in zip(*((copy.map.box_bytes, copy.map.transaction_bytes) for copy in copies)))
    return Price(issue=4 * len(copies) + 1, wavefronts=written / 128 * receivers(c), sectors=read / 32)


def at_peer(c: CallContext, memory: Memory) -> Memory:
    """A place in this CTA's shared memory -> the same place in the CTA that the call names."""
    return replace(memory, root=at_rank(memory.root, _rank(c)))


def _rank(c: CallContext) -> Expr:
    return c.resolve(const(c.call.config["remote_cta_id"]))


def own_barrier(c: CallContext) -> Memory:
    bar = barrier_of(c)
    if bar is None or bar.root.space != "shared":
        raise LoweringError("mbar= must be a barrier of this CTA; that of the CTA copied to is signalled", span=c.span)
    return bar


def emit_bulk(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """One bulk copy per run of bytes; the barrier at the same place in the receiving CTA gets the bytes."""
    (width,) = parameters
    source, target = c.inputs[0], c.outputs[0]
    lanes = width * 8 // target.bits
    barrier = at_peer(c, own_barrier(c))
    opcode = "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
    nodes: list[Node] = []
    for first in range(0, target.size, lanes):
        a, b = (o.byte_offset(first) - _back(c, o, first, lanes) for o in (target, source))
        into, out = Memory(target.root, c.resolve(a)), Memory(source.root, c.resolve(b))
        nodes.append(instruction(opcode, at_peer(c, into), out, width, barrier))
    return tuple(nodes)


def _back(c: CallContext, o: object, first: int, lanes: int) -> int:
    """Bytes from the lowest element of a run to its first (not 0 where a swizzle moves the first)."""
    byte = o.places(c.lowest())["byte"]  # type: ignore[attr-defined]
    return int(byte[first]) - int(np.min(byte[first : first + lanes]))


def price_bulk(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """The copy engine takes a few cycles for each instruction, and reads and writes 128 bytes of shared memory per cycle."""
    moved = c.outputs[0].size * c.outputs[0].bits / 8
    return Price(issue=6 * moved / parameters[0] + 2, wavefronts=2 * moved / 128)


CLUSTER_COPIES = (
    Variant("ClusterCopy", ("bytes",), price_cluster_copy, emit_cluster_copy, ("vec_len",), equation=spread_equation),
    by_one_thread(Variant("TensorMulticast", ("swizzle",), price_load, emit_multicast, ("mbar", "cta_group", "cta_mask", "oob"),
                          equation=shared_load_equation, shares=tensor_maps_of)),
    by_one_thread(Variant("TensorPairLoad", ("swizzle",), price_load, emit_pair_load, ("mbar", "cta_group", "cta_mask", "oob"),
                          equation=shared_load_equation, shares=tensor_maps_of)),
    by_one_thread(Variant("PeerCopy", ("bytes",), price_bulk, emit_bulk, ("mbar", "remote_cta_id"), equation=peer_equation)),
)  # fmt: skip
