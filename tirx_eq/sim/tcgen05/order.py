"""The order of tcgen05 operations: who touched which tensor-memory cell, and whether that is ordered and fenced.

PTX ISA 9.7.16.6 (tcgen05 memory consistency): operations of different threads need completion (a wait or a commit), a
thread synchronisation, and ``tcgen05.fence::after_thread_sync`` on the far side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tirx_eq.sim.clocks import HB, STRIDE, TC
from tirx_eq.sim.text.syntax import Instr
from tirx_eq.sim.wave import Group, Wave

Array = np.ndarray


# -- order of tensor-memory accesses ------------------------------------------------------------------
@dataclass
class Queues:
    """Clock columns and sequence numbers of tcgen05 work: per thread (mma, cp, shift) and per warp (ld, st)."""

    thread: dict[int, int] = field(default_factory=dict)
    warp: dict[tuple[int, str], int] = field(default_factory=dict)
    count: dict[int, int] = field(default_factory=dict)
    owner: dict[int, tuple[str, int]] = field(default_factory=dict)


def queues(w: Wave) -> Queues:
    return w.scratch.setdefault("tc", Queues())


def thread_column(w: Wave, row: int) -> int:
    state = queues(w)
    if row not in state.thread:
        column = w.clocks.column(f"tcgen05 operations of thread {int(w.thread[row])}")
        state.thread[row] = column
        state.count[column] = 0
        state.owner[column] = ("thread", row)
    return state.thread[row]


def warp_column(w: Wave, warp: int, which: str) -> int:
    """Clock column of a warp's tcgen05.ld (``which`` = ld) or tcgen05.st operations."""
    state = queues(w)
    if (warp, which) not in state.warp:
        column = w.clocks.column(f"tcgen05.{which} of warp {warp % w.warps_per_cta}")
        state.warp[warp, which] = column
        state.count[column] = 0
        state.owner[column] = ("warp", warp)
    return state.warp[warp, which]


@dataclass
class Actor:
    """Who touches tensor memory, and what it knows: ``view`` (KINDS, columns) and ``after`` (columns)."""

    row: int
    warp: int
    cluster: int
    column: int
    epoch: int
    view: Array
    after: Array
    waiting: Array | None = None


def actor_of_thread(w: Wave, row: int) -> Actor:
    column = thread_column(w, row)
    state = queues(w)
    state.count[column] += 1
    clocks = w.clocks
    return Actor(row, int(w.warp[row]), int(clocks.cluster[row]), column, state.count[column], clocks.snapshot(row),
                 clocks.after[row].copy(), relaxed(w, row))


def relaxed(w: Wave, row: int) -> Array | None:
    """What the thread has seen through relaxed waits only."""
    view = w.clocks.pending.get(row)
    return None if view is None else view[HB]


def rectangle(index: Array, lanes: bool) -> slice | None:
    """The slice that an index array of lanes (constant along rows) or columns (constant along columns) stands for.

    Arrays of shape (lanes, columns), or with an axis of 1 for what does not vary; None if they are no rectangle.
    """
    axis = 0 if lanes else 1
    line = index[:, 0] if lanes else index[0]
    first, count = int(line[0]), len(line)
    if int(line[-1]) - first != count - 1:
        return None
    if (index.shape[1 - axis] > 1 and (index != (line[:, None] if lanes else line)).any()) or (np.diff(line) != 1).any():
        return None
    return slice(first, first + count)


def window(lane: Array, column: Array) -> tuple[Any, Any]:
    """An index of (lane, column) cells into tensor memory: two slices where the cells are a rectangle, which numpy reads and
    writes without an index per cell, else the arrays."""
    if lane.ndim == 2 and column.ndim == 2:
        rows, columns = rectangle(lane, True), rectangle(column, False)
        if rows is not None and columns is not None:
            return rows, columns
    return lane, column


def touch(w: Wave, who: Actor, cta: int, lane: Any, column: Any, write: bool, what: str,
          queue_ordered: bool = True) -> None:
    """Check and record an access to tensor-memory cells: numpy index arrays ``lane`` and ``column``, or slices (``window``)."""
    if not w.checker.enabled:
        return
    t = w.tmem
    low, high = (column.start, column.stop - 1) if isinstance(column, slice) else (int(column.min()), int(column.max()))
    if (t.owner[cta, low : high + 1] < 0).any():
        used = np.arange(low, high + 1) if isinstance(column, slice) else np.unique(column)
        owner = t.owner[cta, used]
        if (owner < 0).any():
            first = int(used[int(np.argmax(owner < 0))])
            w.report("tmem-alloc", f"{what} uses column {first}, which is not allocated", row=who.row)
    at = cta, lane, column
    if not write:
        init = t.initialised[at]
        if not init.all():
            bad = np.argwhere(~init)[0]
            place = cell_at(lane, column, init.shape, tuple(bad))
            w.report("uninitialised", f"{what} reads tensor memory lane {place[0]} column {place[1]}, which nothing has "
                                      "written", row=who.row)
            t.initialised[at] = True
    ordered(w, who, t.writer[at], t.write_epoch[at], "write", what, queue_ordered)
    actor = who.cluster * STRIDE + who.column
    if write:
        ordered(w, who, t.reader[at], t.read_epoch[at], "read", what, queue_ordered)
        t.writer[at] = actor
        t.write_epoch[at] = who.epoch
        t.reader[at] = -1
        t.initialised[at] = True
    else:
        t.reader[at] = actor
        t.read_epoch[at] = who.epoch


def cell_at(lane: Any, column: Any, shape: tuple[int, ...], index: tuple[int, ...]) -> tuple[int, int]:
    if isinstance(lane, slice):
        return lane.start + int(index[0]), column.start + int(index[1])
    return int(np.broadcast_to(lane, shape)[index]), int(np.broadcast_to(column, shape)[index])


def ordered(w: Wave, who: Actor, actor: Array, when: Array, earlier: str, what: str, queue_ordered: bool) -> None:
    mine = who.cluster * STRIDE + who.column
    suspect = actor >= 0
    if queue_ordered:
        suspect &= actor != mine
    if not suspect.any():
        return
    pairs = actor[suspect].astype(np.int64) << 32 | when[suspect]
    if not (pairs == pairs[0]).all():
        pairs = np.unique(pairs)
    else:
        pairs = pairs[:1]
    latest = {int(p) >> 32: int(p) & 0xFFFFFFFF for p in pairs}
    state = queues(w)
    for who_else, epoch in latest.items():
        local = who_else % STRIDE
        name = w.clocks.names.get(local, f"thread {local}")
        if local < len(who.after) and who.after[local] >= epoch:
            continue
        kind, number = state.owner.get(local, ("", -1))
        same = (kind == "thread" and number == who.row) or (kind == "warp" and number == who.warp)
        happens = local < who.view.shape[1] and who.view[HB, local] >= epoch
        if same and happens:
            continue
        if same and kind == "warp":
            w.report("tcgen05-wait", f"{what} is not ordered after the {earlier} by {name}: tcgen05.wait is missing",
                     row=who.row)
        elif not happens:
            if who.waiting is not None and local < len(who.waiting) and who.waiting[local] >= epoch:
                w.report("tcgen05-fence", f"{what} follows the {earlier} by {name} through a relaxed mbarrier wait "
                                          "only, without tcgen05.fence::after_thread_sync", row=who.row)
            else:
                w.report("race", f"{what} is not ordered after the {earlier} by {name}", row=who.row)
        elif who.view[TC, local] < epoch:
            w.report("tcgen05-fence", f"{what}: the {earlier} by {name} was not completed nor followed by "
                                      "tcgen05.fence::before_thread_sync before the synchronisation", row=who.row)
        else:
            # Overwriting what tcgen05.wait::ld has already brought to registers is how shipped persistent kernels
            # reuse an accumulator, without the fence the ISA's canonical sequence has: a warning.
            w.report("tcgen05-fence", f"{what} follows the {earlier} by {name} through an acquiring synchronisation, "
                                      "but without tcgen05.fence::after_thread_sync", row=who.row, warning=earlier == "read")


def uniform(w: Wave, g: Group, value: Array, what: str) -> None:
    """All lanes of each warp must agree on an operand of a .sync.aligned instruction."""
    value = np.broadcast_to(value, (g.n,))
    warps = w.warp[g.idx]
    first = np.zeros(len(w.alive), value.dtype)
    first[warps[::-1]] = value[::-1]
    differs = first[warps] != value
    if differs.any():
        w.report("convergence", f"{what} differs between the lanes of a warp", row=int(g.idx[int(np.argmax(differs))]))


def group_number(instr: Instr) -> int:
    return 2 if "cta_group::2" in instr.parts else 1
