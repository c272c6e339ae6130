"""Registers into another CTA's shared memory: ``st.async``, whose bytes a barrier there is told (PTX ISA 9.7.9.15)."""

from __future__ import annotations

from dataclasses import replace

from ..code.accesses import access
from ..context import CallContext, Operand
from ..equations.cluster import peer_store_equation
from ..machine import Price
from ..program import Block, Memory, Node, instruction
from .base import Variant, constant_bytes
from .cluster import at_peer, own_barrier
from .spread_copy import price_spread_copy, spread_stores, vector_of


def _store(c: CallContext, nodes: list[Node], local: Operand, at: Memory, bytes_: tuple[int, ...], width: int) -> None:
    """One store of ``width`` bytes: the registers that hold them, to the same place in the CTA that the call names."""
    form = access("st", "shared", width, local.root.word_bits).removeprefix("st.shared.")
    opcode = f"st.async.shared::cluster.mbarrier::complete_tx::bytes.{form}"
    nodes.append(instruction(opcode, at_peer(c, at), vector_of(local, bytes_, width), at_peer(c, own_barrier(c))))


def emit_peer_store(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Each thread stores its own registers into the other CTA."""
    (width,) = parameters
    source, target = c.inputs[0], c.outputs[0]
    lanes, pair = width * 8 // target.bits, max(1, 8 // target.bits)
    places = constant_bytes(source)
    nodes: list[Node] = []
    for first in range(0, target.size, lanes):
        at = Memory(target.root, c.resolve(target.byte_offset(first)))
        _store(c, nodes, source, at, tuple(places[first : first + lanes : pair]), width)
    return tuple(nodes)


def price_peer_store(c: CallContext, parameters: tuple[int, ...]) -> Price:
    moved = c.outputs[0].size * c.outputs[0].bits / 8
    return Price(issue=2 * moved / parameters[0] + 2, wavefronts=moved / parameters[0])


def emit_spread_peer_store(c: CallContext, parameters: tuple[int, ...]) -> Block:
    """Each thread stores what it holds of a tile that is shared out; of copies of an element the first."""
    (width,) = parameters
    return spread_stores(c, width, lambda *store: _store(c, *store))


def price_spread_peer_store(c: CallContext, parameters: tuple[int, ...]) -> Price:
    """As stores to shared memory of one's own, each with the barrier's address too."""
    near = price_spread_copy(c, parameters)
    return replace(near, issue=2 * near.issue + 2)


PEER_STORES = (
    Variant("PeerStore", ("bytes",), price_peer_store, emit_peer_store, ("mbar", "remote_cta_id"),
            equation=peer_store_equation),
    Variant("SpreadPeerStore", ("bytes",), price_spread_peer_store, emit_spread_peer_store, ("mbar", "remote_cta_id"),
            equation=peer_store_equation),
)  # fmt: skip
