"""What a plan takes, by the machine model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...lower.machine import BARRIER_SLOTS, Price
from ...redistribution.plan import Barrier, Choose, Get, Permute, Plan, Put, Shuffle, thread_values
from ..memory.access import PHASE_LANES, WARP, count_wavefronts


@dataclass(frozen=True)
class Cost:
    """By resource, per thread or (``wavefronts``) for all threads together; ``cycles`` from the machine model.

    A shuffle takes a slot of the shared-memory pipe, so it counts as a wavefront there.
    """

    shuffles: int
    selects: int
    permutes: int
    stores: int
    loads: int
    barriers: int
    wavefronts: int
    ideal_wavefronts: int
    shared_bytes: int
    cycles: float


def wavefronts_of(plan: Plan) -> tuple[int, int]:
    """(wavefronts of all shared-memory accesses of all warps, the fewest that their bytes need)."""
    total = ideal = 0
    for step in plan.steps:
        if not isinstance(step, (Put, Get)):
            continue
        if step.matrix:
            given = thread_values(step.address, plan.threads).reshape(-1, WARP) + step.offset
            count = len(step.words) if isinstance(step, Put) else len(step.outs)
            width, at = 16, given[:, : 8 * count]
        else:
            width = step.width
            at = thread_values(step.address, plan.threads).reshape(-1, WARP) + step.offset
            if step.guard is not None:
                at = np.where(thread_values(step.guard, plan.threads).reshape(-1, WARP) == 1, at, -1)
        total += int(count_wavefronts(np.ascontiguousarray(at), width).sum())
        phases = PHASE_LANES[width]
        for first in range(0, at.shape[1], phases):
            for row in at[:, first : first + phases]:
                ideal += -(-len(set(row[row >= 0].tolist())) * width // 128)
    return total, ideal


def cost_of(plan: Plan) -> Cost:
    """What a plan takes."""
    waves, ideal = wavefronts_of(plan)
    shuffles, selects, permutes = plan.count(Shuffle), plan.count(Choose), plan.count(Permute)
    stores, loads = plan.count(Put), plan.count(Get)
    barriers = [s for s in plan.steps if isinstance(s, Barrier)]
    warps = plan.threads // WARP
    issue = shuffles + selects + permutes + stores + loads + sum(BARRIER_SLOTS[b.scope] for b in barriers)
    price = Price(issue=issue, warps=warps, wavefronts=waves + shuffles * warps)
    return Cost(
        shuffles, selects, permutes, stores, loads, len(barriers), waves, ideal, plan.shared, round(price.cycles(), 3)
    )
