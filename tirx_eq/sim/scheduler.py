"""Who runs next: lockstep or random choice of warps, min-pc reconvergence, and when asynchronous work takes effect.

Policies: ``late`` performs an asynchronous operation only when nothing else can run (or a wait demands it), ``early`` at
its issue, ``random`` at seeded random moments while warps are chosen at random.
"""

from __future__ import annotations

import numpy as np

from tirx_eq.sim.control import retire
from tirx_eq.sim.faults import Halt
from tirx_eq.sim.mbarrier import Barrier
from tirx_eq.sim.program import ALU, BRANCH, EXIT
from tirx_eq.sim.wave import BLOCKED, CONVERGE, EXITED, RUN, Group, Wave

Array = np.ndarray
#: Instructions a group may run before the others get a turn.
QUANTUM = 4096
FAR = 1 << 60


class Scheduler:
    """Runs one wave to its end."""

    def __init__(self, wave: Wave) -> None:
        self.wave = wave
        self.random = wave.context.random if wave.context.policy == "random" else None
        self.everyone = Group(wave.rows, True)

    def run(self) -> None:
        while True:
            group, stop, quantum = self.pick()
            if group is None:
                if (self.wave.state == EXITED).all():
                    return
                if self.advance():
                    continue
                self.deadlock()
                return
            self.execute(group, stop, quantum)

    # -- choice -----------------------------------------------------------------------------------
    def pick(self) -> tuple[Group | None, int, int]:
        """A group of runnable rows at one pc, the pc at which others wait for it, and its quantum."""
        w = self.wave
        runnable = w.state == RUN
        if not runnable.any():
            return None, 0, 0
        fresh = runnable & ~w.tired
        if not fresh.any():
            w.tired[:] = False
            fresh = runnable
            self.advance()
        if self.random is not None:
            return self.pick_random(fresh)
        least = int(w.pc[fresh].min())
        chosen = fresh & (w.pc == least)
        chosen = self.joined(chosen, least)
        ahead = w.pc[(fresh | (w.state == CONVERGE)) & (w.pc > least)]
        stop = int(ahead.min()) if len(ahead) else FAR
        if chosen.all():
            w.state[:] = RUN
            return self.everyone, stop, QUANTUM
        idx = np.nonzero(chosen)[0]
        w.state[idx] = RUN
        return Group(idx, False), stop, QUANTUM

    def joined(self, chosen: Array, pc: int) -> Array:
        """``chosen`` and the lanes of the same warps that wait at ``pc`` for convergence."""
        w = self.wave
        waiting = (w.state == CONVERGE) & (w.pc == pc)
        if not waiting.any():
            return chosen
        arrives = np.zeros(len(w.alive), bool)
        arrives[w.warp[chosen]] = True
        return chosen | (waiting & arrives[w.warp])

    def pick_random(self, fresh: Array) -> tuple[Group, int, int]:
        w, random = self.wave, self.random
        assert random is not None
        if random.random() < 0.3:
            self.advance()
        rows = np.nonzero(fresh)[0]
        warp = w.warp[rows[random.integers(len(rows))]]
        mine = fresh & (w.warp == warp)
        least = int(w.pc[mine].min())
        chosen = mine & (w.pc == least)
        chosen = self.joined(chosen, least)
        ahead = w.pc[(mine | ((w.state == CONVERGE) & (w.warp == warp))) & (w.pc > least)]
        idx = np.nonzero(chosen)[0]
        w.state[idx] = RUN
        quantum = int(random.choice([1, 3, 10, 40, 400]))
        return Group(idx, len(idx) == w.T), int(ahead.min()) if len(ahead) else FAR, quantum

    # -- execution --------------------------------------------------------------------------------
    def execute(self, group: Group, stop: int, quantum: int) -> None:
        w = self.wave
        code = w.program.code
        end = len(code)
        pc = int(w.pc[group.idx[0]])
        left = quantum
        context = w.context
        visited = w.program.visited
        while True:
            if pc >= end:
                retire(w, group.idx)
                return
            if left == 0:
                w.pc[group.idx] = pc
                if quantum == QUANTUM:
                    w.tired[group.idx] = True
                return
            left -= 1
            context.steps += 1
            if context.steps > context.max_steps:
                w.current = code[pc].instr
                w.report("budget", f"more than {context.max_steps} steps", row=int(group.idx[0]), fatal=True)
            step = code[pc]
            visited[pc] = 1
            w.current = step.instr
            active = group
            if step.guard >= 0:
                flags = w.R[step.guard]
                if flags is None:
                    flags = w.register(step.guard)
                if w.U[step.guard] is not None:
                    w.undefined(step.guard, group)
                if not group.full:
                    flags = flags[group.idx]
                if step.negated:
                    flags = ~flags
                if step.kind == BRANCH:
                    if flags.all():
                        pc = step.target
                    elif flags.any():
                        taken = np.bincount(w.warp[group.idx], flags, len(w.alive))
                        present = np.bincount(w.warp[group.idx], minlength=len(w.alive))
                        w.diverged |= (taken > 0) & (taken < present)
                        w.pc[group.idx] = np.where(flags, step.target, pc + 1)
                        return
                    else:
                        pc += 1
                    if pc >= stop:
                        w.pc[group.idx] = pc
                        return
                    continue
                if not flags.any():
                    pc += 1
                    if pc >= stop:
                        w.pc[group.idx] = pc
                        return
                    continue
                active = group.where(flags)
            elif step.kind == BRANCH:
                pc = step.target
                if pc >= stop:
                    w.pc[group.idx] = pc
                    return
                continue
            if step.kind == ALU:
                w.current_row = int(active.idx[0])
                step.run(w, active)
                pc += 1
                if pc >= stop:
                    w.pc[group.idx] = pc
                    return
                continue
            w.pc[group.idx] = pc
            if active is not group:
                rest = np.setdiff1d(group.idx, active.idx, assume_unique=True)
                w.pc[rest] = pc + 1
            w.current_row = int(active.idx[0])
            if step.kind == EXIT:
                retire(w, active.idx)
                return
            if step.run(w, active):
                w.pc[active.idx] = pc + 1
            return

    # -- asynchronous work --------------------------------------------------------------------------
    def advance(self) -> bool:
        """Perform one pending asynchronous operation, if there is any."""
        w = self.wave
        if not w.queues:
            return False
        keys = list(w.queues)
        if self.random is not None:
            key = keys[int(self.random.integers(len(keys)))]
        else:
            key = keys[-1]
        w.perform(key)
        return True

    def deadlock(self) -> None:
        """Explain who waits for what."""
        w = self.wave
        waits: dict[str, list[int]] = {}
        convergence = False
        for row in np.nonzero(w.state != EXITED)[0].tolist():
            step = w.step_of(row) if w.pc[row] < len(w.program.code) else w.program.code[-1]
            what = w.waiting_on.get(row)
            if w.state[row] == CONVERGE:
                convergence = True
                text = f"for its warp to converge at line {step.instr.line} ({step.instr.opcode})"
            elif isinstance(what, Barrier):
                text = f"on {what.describe(w)} at line {step.instr.line}"
            elif isinstance(what, tuple) and what[0] == "warp":
                text = f"at bar.warp.sync with mask {what[2]:#x}"
            elif isinstance(what, tuple) and what[0] == "cluster":
                text = "at barrier.cluster.wait"
            elif isinstance(what, tuple) and what[0] == "tmem":
                text = f"for {what[2]} free tensor-memory columns"
            elif isinstance(what, tuple) and what[0] == "pair":
                text = "for the peer CTA's tcgen05.alloc"
            elif isinstance(what, tuple):
                barrier = w.barriers.get(what)
                arrived = barrier.arrived if barrier else 0
                text = f"at bar {what[1]} of CTA {w.cta_number(what[0])} where {arrived} threads have arrived"
            else:
                text = f"at line {step.instr.line}"
            waits.setdefault(text, []).append(row)
        parts = []
        for text, rows in waits.items():
            threads = [int(w.thread[r]) for r in rows]
            who = f"thread {threads[0]}" if len(rows) == 1 else f"{len(rows)} threads ({spans(threads)})"
            parts.append(f"{who} wait{'s' if len(rows) == 1 else ''} {text}")
        row = int(np.nonzero(w.state != EXITED)[0][0])
        if w.state[row] != BLOCKED or convergence:
            row = int(np.nonzero(w.state == CONVERGE)[0][0])
        w.current = (w.step_of(row) if w.pc[row] < len(w.program.code) else w.program.code[-1]).instr
        kind = "convergence" if convergence else "deadlock"
        w.report(kind, "no thread can go on: " + "; ".join(parts[:8]), row=row)
        raise Halt


def spans(values: list[int]) -> str:
    """Sorted numbers as ranges: 0-31, 64."""
    values = sorted(set(values))
    found: list[list[int]] = []
    for v in values:
        if found and v == found[-1][1] + 1:
            found[-1][1] = v
        else:
            found.append([v, v])
    text = ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in found[:6])
    return text + (", ..." if len(found) > 6 else "")
