"""Conditions on copies between tensor memory and registers (PTX ISA 9.7.16, tcgen05.ld and tcgen05.st)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..context import CallContext, Operand
from ..sharing.holders import THREAD_AXES
from ..sharing.threads import WARPGROUP
from .registry import OPTIONS, coordinate, holds, holds_at, regions
from .tmem_place import cells, moves_as_a_whole

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
    """Words of a copy as arrays: lane and column in tensor memory, thread of the warpgroup, register of the thread.

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


def _fragment(c: CallContext, packing: bool) -> Fragment | str:
    if {o.root.space for o in regions(c)} != {"tmem", "local"}:
        return "one operand must be in tensor memory, the other in registers"
    tmem, regs = tmem_and_registers(c)
    t, r = tmem.places(c.lowest()), regs.places(c.lowest())
    if "TLane" not in t or "TCol" not in t:
        return f"'{tmem.buffer.name}' has no layout on TLane and TCol"
    thread = thread_in_warpgroup(c, r)
    if isinstance(thread, str):
        return f"'{regs.buffer.name}' {thread}"
    if (reason := moves_as_a_whole(c, tmem)) is not None:
        return reason
    if regs.root.word_bits != 32:
        return f"the registers of '{regs.buffer.name}' have {regs.root.word_bits} bits"
    column, part = cells(tmem, t)
    per = 32 // tmem.bits
    register, place = r["byte"] // 4, r["byte"] % 4 * 8 // tmem.bits
    if packing:
        column, wanted = (column - column.min()) // 2 + column.min(), (column - column.min()) % 2
        if part.any():
            return "elements share a column: they needn't be brought together"
    else:
        wanted = part
    bad = np.flatnonzero(place != wanted)
    if len(bad):
        k = int(bad[0])
        return f"element {coordinate(tmem, k)} is part {int(place[k])} of its register, part {int(wanted[k])} in tensor memory"
    word = ((thread << 16 | register) << 16 | t["TLane"]) << 16 | column
    _, first, counts = np.unique(word[np.argsort(place, kind="stable")], return_index=True, return_counts=True)
    if (counts != per).any():
        return f"a register has {counts.min()} elements of {tmem.bits} bits from its column, not {per}"
    element = np.argsort(place, kind="stable")[first]
    return Fragment(
        t["TLane"][element], column[element], thread[element], register[element], element, 2 if packing else 1
    )


def thread_in_warpgroup(c: CallContext, places: dict[str, Array]) -> Array | str:
    """The thread of the warpgroup that holds each element of a register operand, or why no thread is named."""
    axes = [a for a in places if a in THREAD_AXES]
    if "tid_in_wg" not in axes and "laneid" not in axes and "tx" not in axes:
        return "is not spread over the warpgroup (axis tid_in_wg, or wid_in_wg and laneid)"
    if not set(axes) <= {"tid_in_wg", "wid_in_wg", "laneid"} and c.launch.threads != WARPGROUP:
        return f"is spread over {', '.join(axes)}, which count beyond a warpgroup"
    return np.asarray(sum(np.asarray(places[a]) * THREAD_AXES[a][0] for a in axes))


@holds("elements of 8, 16 or 32 bits")
def _bits(c: CallContext) -> str | None:
    return None if c.outputs[0].bits in (8, 16, 32) else f"elements have {c.outputs[0].bits} bits"


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
    whole = 4 * shape.lanes * len(starts) * _width(found)
    words = len(found.lane)
    if distinct != words or words != whole:
        return f"{words} words are not all {4 * shape.lanes * len(starts)} lanes of {_width(found)} columns"
    return None


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
