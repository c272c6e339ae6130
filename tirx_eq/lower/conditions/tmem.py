"""Conditions on copies between tensor memory and registers of warps (PTX ISA 9.7.16, tcgen05.ld and tcgen05.st)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..context import CallContext, Operand
from ..sharing.holders import THREAD_AXES
from ..sharing.threads import WARP, WARPGROUP
from .registry import OPTIONS, coordinate, holds, holds_at, regions
from .tmem_place import moves_as_a_whole, own_places

Array = np.ndarray


@dataclass(frozen=True)
class Transfer:
    """A shape of tcgen05.ld/st: where register j of thread t of a warp lies.

    ``lane(t, j)`` counts from the address's lane, ``column(t, j)`` from its column.  ``registers`` and ``columns`` are those
    of one repeat, ``repeats`` the largest repeat, ``lanes`` how many lanes of the warp's 32 it touches.
    """

    name: str
    lanes: int
    registers: int
    columns: int
    repeats: int
    lane: Callable[[Array, Array], Array]
    column: Callable[[Array, Array], Array]


#: PTX ISA 9.7.16.2.3: matrix fragments of the shapes; the figures as formulas.
TRANSFERS: tuple[Transfer, ...] = (
    Transfer("32x32b", 32, 1, 1, 128, lambda t, j: t + 0 * j, lambda t, j: j + 0 * t),
    Transfer("16x64b", 16, 1, 2, 128, lambda t, j: 8 * (t % 2) + t // 4 + 0 * j, lambda t, j: 2 * j + t // 2 % 2),
    Transfer("16x128b", 16, 2, 4, 64, lambda t, j: t // 4 + 8 * (j % 2), lambda t, j: 4 * (j // 2) + t % 4),
    Transfer("16x256b", 16, 4, 8, 32, lambda t, j: t // 4 + 8 * (j // 2 % 2), lambda t, j: 8 * (j // 4) + 2 * (t % 4) + j % 2),
)

#: A transfer as one number for the rules: 1000 times the shape's place in the table, plus the repeat; PACKING more for the
#: forms that bring two columns' halves together.
CODE = 1000
PACKING = 10 * CODE


def transfer_of(code: int) -> tuple[Transfer, int]:
    """The shape and the repeat that a code means."""
    return TRANSFERS[code % PACKING // CODE], code % CODE


OPTIONS["transfer"] = lambda c: [
    CODE * i + repeat + packing
    for packing in ((0, PACKING) if c.outputs[0].bits == 16 else (0,))
    for i, shape in enumerate(TRANSFERS)
    for repeat in (128, 64, 32, 16, 8, 4, 2, 1)
    if repeat <= shape.repeats
]


def tmem_and_registers(c: CallContext) -> tuple[Operand, Operand]:
    """The tensor-memory operand and the register operand of a call that has one of each."""
    a, b = c.outputs[0], c.inputs[0]
    return (a, b) if a.root.space == "tmem" else (b, a)


@dataclass(frozen=True)
class Fragment:
    """Words of a copy as arrays: lane and column in tensor memory, thread and its register, of 32 bits.

    Threads count in the warpgroup and lanes from 0; at warp scope threads count in the warp, lanes in the warp's own 32.

    ``element`` is the first element in each word.  ``stride`` is 2 where a register holds the low halves of two columns
    (``.pack::16b``); ``column`` then counts pairs of columns from the first.
    """

    lane: Array
    column: Array
    thread: Array
    register: Array
    element: Array
    stride: int = 1

    def half(self) -> Array:
        """Which 16 lanes of its warp's 32 a word is in."""
        return self.lane % 32 // 16

    def first_registers(self) -> dict[int, int]:
        """The lowest register of each half that occurs."""
        half = self.half()
        return {h: int(self.register[half == h].min()) for h in (0, 1) if (half == h).any()}


def fragment(c: CallContext, packing: bool = False) -> Fragment | str:
    """Where the words of a copy are, or why that can't be said; ``packing``: of registers that take halves of two columns."""
    key = ("fragment", packing)
    return c.once(key, lambda: _fragment(c, packing))


@dataclass(frozen=True)
class Parts:
    """Elements of a copy (words, where elements have 64 bits) as arrays: lane, column and which part of it in tensor memory;
    thread, register and which part of that; the element's number.  ``bits`` are those of a part."""

    lane: Array
    column: Array
    part: Array
    thread: Array
    register: Array
    place: Array
    number: Array
    bits: int


def parts_of(c: CallContext) -> Parts | str:
    """Where the elements of a copy are, or why that can't be said."""
    return c.once("parts in tensor memory", lambda: _parts(c))


def _parts(c: CallContext) -> Parts | str:
    if {o.root.space for o in regions(c)} != {"tmem", "local"}:
        return "one operand must be in tensor memory, the other in registers"
    tmem, regs = tmem_and_registers(c)
    r = regs.places(c.lowest())
    t = own_places(c, tmem)
    if isinstance(t, str):
        return t
    if "TLane" not in t or "TCol" not in t:
        return f"'{tmem.buffer.name}' has no layout on TLane and TCol"
    thread = thread_in_unit(c, r)
    if isinstance(thread, str):
        return f"'{regs.buffer.name}' {thread}"
    if (reason := moves_as_a_whole(c, tmem)) is not None:
        return reason
    # Elements of 64 bits are two words, in neighbouring columns and in the halves of one register.
    words, bits = max(1, tmem.bits // 32), min(32, tmem.bits)
    at = [
        np.repeat(np.broadcast_to(v, (tmem.size,)), words)
        for v in (t["TLane"], t["TCol"] * tmem.bits, thread, regs.bit_places(c.lowest()), np.arange(tmem.size))
    ]
    lane, there, thread, here, number = at
    second = np.tile(np.arange(words) * 32, tmem.size)
    there, here = there + second, here + second
    return Parts(lane, there // 32, there % 32 // bits, thread, here // 32, here % 32 // bits, number, bits)


def _fragment(c: CallContext, packing: bool) -> Fragment | str:
    e = parts_of(c)
    if isinstance(e, str):
        return e
    tmem, regs = tmem_and_registers(c)
    column, wanted = e.column, e.part
    if packing:
        column, wanted = (column - column.min()) // 2 + column.min(), (column - column.min()) % 2
        if e.part.any():
            return "elements share a column: they needn't be brought together"
    bad = np.flatnonzero(e.place != wanted)
    if len(bad):
        k = int(bad[0])
        return (
            f"element {coordinate(tmem, int(e.number[k]))} is part {int(e.place[k])} of its register, part {int(wanted[k])} in "
            "tensor memory"
        )
    word = ((e.thread << 16 | e.register) << 16 | e.lane) << 16 | column
    order = np.argsort(e.place, kind="stable")
    _, first, counts = np.unique(word[order], return_index=True, return_counts=True)
    if (counts != 32 // e.bits).any():
        return f"a register has {counts.min()} elements of {tmem.bits} bits from its column, not {32 // e.bits}"
    at = order[first]
    made = Fragment(e.lane[at], column[at], e.thread[at], e.register[at], e.number[at], 2 if packing else 1)
    if regs.root.word_bits == 64 and len(np.unique(made.register // 2)) * 2 != len(np.unique(made.register)):
        return f"the registers of '{regs.buffer.name}' have 64 bits, of which half would be moved"
    return made


def thread_in_unit(c: CallContext, places: dict[str, Array]) -> Array | str:
    """The thread of the warp or warpgroup that holds each element of a register operand, or why no thread is named."""
    axes = [a for a in places if a in THREAD_AXES]
    if c.scope == "warp":
        if axes != ["laneid"]:
            return f"is spread over {', '.join(axes) or 'no threads'}, not over the lanes of the warp (axis laneid)"
        return np.asarray(places["laneid"])
    if "tid_in_wg" not in axes and "laneid" not in axes and "tx" not in axes:
        return "is not spread over the warpgroup (axis tid_in_wg, or wid_in_wg and laneid)"
    if not set(axes) <= {"tid_in_wg", "wid_in_wg", "laneid"} and c.launch.threads != WARPGROUP:
        return f"is spread over {', '.join(axes)}, which count beyond a warpgroup"
    return np.asarray(sum(np.asarray(places[a]) * THREAD_AXES[a][0] for a in axes))


@holds("each warp moves its own lanes")
def _own_lanes(c: CallContext) -> str | None:
    """PTX ISA 9.7.16.8: tcgen05.ld and .st are .sync.aligned, and warp w of a warpgroup reaches lanes 32 w to 32 w + 31."""
    if c.scope in ("warp", "warpgroup"):
        return None
    if c.scope == "thread":
        return "all 32 lanes of a warp execute tcgen05.ld and tcgen05.st, not one thread"
    if c.scope == "cluster":
        return "the CTAs of a cluster have tensor memories of their own"
    threads = c.launch.threads
    if threads == WARPGROUP:
        return None
    return f"the CTA has {threads} threads, not the {WARPGROUP} of one warpgroup, and the layout says not which moves what"


@holds_at("the registers hold what the shape moves")
def _matches(c: CallContext, code: int) -> str | None:
    # The repeat doesn't matter here.
    key = ("moved by", transfer_of(code)[0].name, code >= PACKING)
    return c.once(key, lambda: _moved(c, code))


def _moved(c: CallContext, code: int) -> str | None:
    shape, _ = transfer_of(code)
    found = fragment(c, code >= PACKING)
    if isinstance(found, str):
        return found
    tmem = tmem_and_registers(c)[0]
    half = found.half() if shape.lanes == 16 else np.zeros_like(found.lane)
    starts = found.first_registers() if shape.lanes == 16 else {0: int(found.register.min())}
    register = found.register - np.select([half == h for h in starts], list(starts.values()))
    thread = found.thread % 32
    lane = found.thread // 32 * 32 + 16 * half + shape.lane(thread, register)
    column = found.column.min() + shape.column(thread, register)
    bad = np.flatnonzero((lane != found.lane) | (column != found.column))
    if len(bad):
        k = int(bad[0])
        return (
            f"element {coordinate(tmem, int(found.element[k]))} is in lane {int(found.lane[k])}, "
            f"column {int(found.column[k])}; register "
            f"{int(found.register[k])} of thread {int(found.thread[k])} is lane {int(lane[k])}, column {int(column[k])}"
        )
    distinct = len(np.unique(found.lane * 512 + found.column))
    lanes = warps_of(c) * shape.lanes * len(starts)
    whole = lanes * _width(found)
    words = len(found.lane)
    if distinct != words or words != whole:
        return f"{words} words are not all {lanes} lanes of {_width(found)} columns"
    return None


def warps_of(c: CallContext) -> int:
    """Warps of one unit of the call's scope, each with 32 lanes of its own."""
    return 1 if c.scope == "warp" else WARPGROUP // WARP


def _width(found: Fragment) -> int:
    return int(found.column.max() - found.column.min()) + 1


@holds_at("the columns are a multiple of the repeat")
def _repeat(c: CallContext, code: int) -> str | None:
    shape, repeat = transfer_of(code)
    found = fragment(c, code >= PACKING)
    if isinstance(found, str):
        return found
    wanted = shape.columns * repeat
    return None if _width(found) % wanted == 0 else f"{_width(found)} columns are not a multiple of {wanted}"
