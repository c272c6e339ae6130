"""Copies between two layouts of registers over the threads of a scope: by moves where threads hold what they get, else by
shuffles among the lanes of a warp.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...ir import Expr
from ..context import CallContext
from .holders import held, thread_expr
from .spread import places_in, spread_of

Array = np.ndarray
#: Instructions beyond which a redistribution through shared memory is what one should write.
MAX_SHUFFLES = 256


@dataclass(frozen=True)
class Piece:
    """What goes into ``bits`` bits from ``first`` on of register ``target``: from registers ``sources`` of lane ``lane``.

    With several source registers, ``which`` is the number of the one that a thread needs; ``shift`` bits are dropped below.
    """

    target: int
    first: int
    bits: int
    lane: Expr
    sources: tuple[int, ...]
    which: Expr | None
    shift: Expr | int


def moved_bytes(c: CallContext) -> tuple[list[int], list[int]] | str:
    """(source bytes, destination bytes) of what each thread moves among its own registers, or why that isn't all."""
    key = "moved bytes"
    return c.once(key, lambda: _moved_bytes(c))


def _moved_bytes(c: CallContext) -> tuple[list[int], list[int]] | str:
    dst, where = spread_of(c, c.outputs[0]), held(c.inputs[0])
    if isinstance(dst, str) or isinstance(where, str):
        return str(dst if isinstance(dst, str) else where)
    places = places_in(where, dst)
    return places if isinstance(places, str) else (list(places), list(dst.bytes))


def pieces(c: CallContext) -> list[Piece] | str:
    """The exchange of registers among lanes, or why it isn't one."""
    return c.once("pieces", lambda: _pieces(c))


def _pieces(c: CallContext) -> list[Piece] | str:
    src, target = c.inputs[0], c.outputs[0]
    dst, where = spread_of(c, target), held(src)
    if isinstance(dst, str) or isinstance(where, str):
        return str(dst if isinstance(dst, str) else where)
    if src.root.word_bits != 32 or target.root.word_bits != 32:
        return "registers of 64 bits are not exchanged by one shuffle"
    if not c.active.whole(32):
        return f"it is reached by {c.active.describe()}, not by whole warps"
    owner = np.full(dst.elements.shape, -1)
    byte = np.full(dst.elements.shape, -1)
    threads = dst.threads[:, None]
    for parts, at in zip(where.parts, where.byte):
        holder = parts[dst.elements] | (threads & ~where.mask)
        fits = (holder >> 5 == threads >> 5) & (owner < 0)
        owner, byte = np.where(fits, holder, owner), np.where(fits, at[dst.elements], byte)
    if (owner < 0).any():
        t, s = (int(i) for i in np.argwhere(owner < 0)[0])
        return f"element {int(dst.elements[t, s])}, which thread {int(dst.threads[t])} gets, is in no lane of its warp"
    size = target.bits // 8
    out: list[Piece] = []
    slots = list(range(dst.slots))
    while slots:
        group = _together(dst.bytes, owner, byte, slots, size)
        made = _piece(c, dst.bytes[group[0]], dst.threads, owner[:, group[0]], byte[:, group[0]], len(group) * size)
        if isinstance(made, str):
            return made
        out.append(made)
        slots = slots[len(group) :]
    if sum(len(p.sources) for p in out) > MAX_SHUFFLES:
        return f"it would take more than {MAX_SHUFFLES} shuffles"
    return out


def _together(bytes_: tuple[int, ...], owner: Array, byte: Array, slots: list[int], size: int) -> list[int]:
    """The first slots that fill a register from one register of one lane, or else the first alone."""
    count = 4 // size
    group = slots[:count]
    whole = len(group) == count and bytes_[group[0]] % 4 == 0
    for j, s in enumerate(group):
        same = (owner[:, s] == owner[:, group[0]]).all() and (byte[:, s] == byte[:, group[0]] + j * size).all()
        whole = whole and bytes_[s] == bytes_[group[0]] + j * size and same
    return group if whole and (byte[:, group[0]] % 4 == 0).all() else slots[:1]


def _piece(c: CallContext, to: int, threads: Array, owner: Array, byte: Array, size: int) -> Piece | str:
    lane = thread_expr(c, threads, owner % 32)
    if lane is None:
        return "the lane that has what a thread gets doesn't follow from the bits of its number"
    shift: Expr | int = int(byte[0]) % 4 * 8
    if (byte % 4 != byte[0] % 4).any():
        moving = thread_expr(c, threads, byte % 4 * 8)
        if moving is None:
            return "the part of a register that a thread gets doesn't follow from the bits of its number"
        shift = moving
    words = byte // 4
    distinct = tuple(int(w) for w in np.unique(words))
    which = None
    if len(distinct) > 1:
        which = thread_expr(c, threads, words)
        if which is None:
            return "the register that has what a thread gets doesn't follow from the bits of its number"
    return Piece(to // 4, to % 4 * 8, size * 8, lane, distinct, which, shift)
