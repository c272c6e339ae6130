"""Barriers: who arrived, who waits.

Operations that are asynchronous on the device are complete at once here; what is left of a barrier is its counting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .faults import InterpreterError
from .launch import Wave

Array = Any
#: (position in the program, threads) to be made runnable
Release = Callable[[int, list[int]], None]


@dataclass
class MBarrier:
    """One mbarrier object (PTX ISA, "mbarrier"): a phase completes when no arrivals and no bytes are pending."""

    name: str
    count: int
    pending: int
    bytes: int = 0
    phase: int = 0
    waiting: list[tuple[int, int, int]] = field(default_factory=list)  # thread, position, parity


@dataclass
class NamedBarrier:
    """One of a CTA's barriers (``bar.sync``), or a warp's or cluster's."""

    arrived: set[int] = field(default_factory=set)
    unblocked: int = 0  # arrivals that don't wait
    waiting: list[tuple[int, int]] = field(default_factory=list)
    expected: int | None = None


class Barriers:
    """All barriers of a wave."""

    def __init__(self, wave: Wave, release: Release) -> None:
        self.wave = wave
        self.release = release
        self.mbarriers: dict[tuple[int, int, int], MBarrier] = {}
        self.named: dict[tuple[Any, ...], NamedBarrier] = {}
        self.live = np.ones(wave.size, dtype=bool)
        self.cluster_generation: dict[int, int] = {}
        self.arrived_in: dict[int, int] = {}

    # -- mbarriers --------------------------------------------------------------------------------------------------

    def init(self, key: tuple[int, int, int], name: str, count: int) -> None:
        if count < 1:
            raise InterpreterError(f"mbarrier '{name}' is initialised with a count of {count}")
        self.mbarriers[key] = MBarrier(name, count, count)

    def find(self, key: tuple[int, int, int], name: str) -> MBarrier:
        found = self.mbarriers.get(key)
        if found is None:
            raise InterpreterError(f"the mbarrier at byte {key[2]} of '{name}' is used before mbarrier.init")
        return found

    def arrive(self, key: tuple[int, int, int], name: str, count: int = 1, add_bytes: int = 0) -> None:
        """``count`` arrivals, after ``add_bytes`` more bytes are expected."""
        bar = self.find(key, name)
        bar.bytes += add_bytes
        if count > bar.pending:
            raise InterpreterError(f"mbarrier '{name}' gets {count} arrivals but only {bar.pending} are pending")
        bar.pending -= count
        self._complete(bar)

    def transferred(self, key: tuple[int, int, int], name: str, count: int) -> None:
        """``count`` bytes of an asynchronous copy have arrived."""
        bar = self.find(key, name)
        bar.bytes -= count
        self._complete(bar)

    def _complete(self, bar: MBarrier) -> None:
        if bar.pending or bar.bytes:
            return
        bar.phase ^= 1
        bar.pending = bar.count
        go: dict[int, list[int]] = {}
        stay = []
        for thread, position, parity in bar.waiting:
            if parity != bar.phase:
                go.setdefault(position, []).append(thread)
            else:
                stay.append((thread, position, parity))
        bar.waiting = stay
        for position, threads in go.items():
            self.release(position, threads)

    # -- named barriers ---------------------------------------------------------------------------------------------

    def sync(
        self, key: tuple[Any, ...], position: int, threads: Iterable[int], expected: int | None, waits: bool = True
    ) -> None:
        """Threads arrive at a named barrier (and wait).  ``expected`` None: all threads of the unit that still run."""
        bar = self.named.setdefault(key, NamedBarrier())
        bar.expected = expected
        for t in threads:
            if waits:
                bar.arrived.add(t)
                bar.waiting.append((t, position))
            else:
                bar.unblocked += 1
        self._open(key, bar)

    def _members(self, key: tuple[Any, ...]) -> Array:
        kind, unit = key[0], key[1]
        w = self.wave
        if kind == "warp":
            return (w.cta == unit) & (w.warp == key[2])
        if kind == "cta":
            return w.cta == unit
        if kind == "cluster":
            return w.cta // w.geometry.cluster_size == unit
        return np.ones(w.size, dtype=bool)

    def _open(self, key: tuple[Any, ...], bar: NamedBarrier) -> None:
        if not bar.waiting and not bar.unblocked:
            return
        needed = bar.expected if bar.expected is not None else int(np.count_nonzero(self.live & self._members(key)))
        have = len(bar.arrived) + bar.unblocked
        if have > needed:
            raise InterpreterError(f"barrier {key[-1]}: {have} threads arrive but {needed} are expected")
        if have < needed:
            return
        go: dict[int, list[int]] = {}
        for thread, position in bar.waiting:
            go.setdefault(position, []).append(thread)
        del self.named[key]
        if key[0] == "cluster":
            self.cluster_generation[key[1]] = self.cluster_generation.get(key[1], 0) + 1
        for position, threads in go.items():
            self.release(position, threads)

    def cluster_arrive(self, threads: Iterable[int]) -> None:
        """``barrier.cluster.arrive``."""
        by_cluster = Counter(int(self.wave.cta[t]) // self.wave.geometry.cluster_size for t in threads)
        for t in threads:
            cluster = int(self.wave.cta[t]) // self.wave.geometry.cluster_size
            self.arrived_in[t] = self.cluster_generation.get(cluster, 0)
        for cluster, count in by_cluster.items():
            key = ("cluster", cluster, "arrive")
            bar = self.named.setdefault(key, NamedBarrier())
            bar.unblocked += count
            self._open(key, bar)

    def cluster_wait(self, threads: Iterable[int], position: int) -> list[int]:
        """``barrier.cluster.wait``: the threads that may go on at once; the others wait."""
        passing = []
        for t in threads:
            cluster = int(self.wave.cta[t]) // self.wave.geometry.cluster_size
            if t not in self.arrived_in:
                raise InterpreterError("barrier.cluster.wait without barrier.cluster.arrive")
            if self.cluster_generation.get(cluster, 0) > self.arrived_in[t]:
                passing.append(t)
            else:
                self.named[("cluster", cluster, "arrive")].waiting.append((t, position))
        return passing

    def leave(self, threads: Array) -> None:
        """Threads end; barriers that wait for all threads may open."""
        self.live[threads] = False
        for key, bar in list(self.named.items()):
            if bar.expected is None and key in self.named:
                self._open(key, bar)

    def explain(self) -> list[str]:
        """Who waits for what."""
        lines = []
        for bar in self.mbarriers.values():
            if bar.waiting:
                who = _some([self.wave.describe(t) for t, _, _ in bar.waiting])
                missing = [f"{bar.pending} arrivals"] * bool(bar.pending) + [f"{bar.bytes} bytes"] * bool(bar.bytes)
                lines.append(
                    f"{who} for phase {bar.waiting[0][2]} of mbarrier '{bar.name}' ({' and '.join(missing)} missing)"
                )
        for key, named in self.named.items():
            if named.waiting:
                who = _some([self.wave.describe(t) for t, _ in named.waiting])
                lines.append(
                    f"{who} at {key[0]} barrier {key[-1]}, where {len(named.arrived) + named.unblocked} arrived"
                )
        return lines


def _some(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{items[0]} and {len(items) - 1} more"
