"""Conditions on element-wise primitives: operations, placement, sharing among threads, vectors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ...ir import IntImm, LambdaExpr, Var
from ...ir.structural import structural_equal
from ..code.lane_access import access_width, is_spread, lane_elements, misplaced, register_bytes
from ..code.recipes import ARITHMETIC, CASTS, cast_path
from ..context import CallContext, Operand
from ..operations import FAMILIES, common_dtype, leaves, operations, tree_of, unsupported, work_dtype
from ..sharing.cta_parts import why_together
from ..sharing.holders import SCOPE_BITS
from ..sharing.work import Work, active_threads, aligned_axes, holders_of, leader, regions_of, work_of
from ..storage import has_constant_steps
from .registry import OPTIONS, SPACE_NAMES, holds, holds_at
from .vectors import aligned, contiguous

#: Groups of lanes that one thread works on; beyond, the straight-line program would be too long.
MAX_STEPS = 512


def _options(c: CallContext) -> list[int]:
    """Lanes worth trying: what vectors of memory hold, or pairs of registers."""
    regions = regions_of(c)
    if any(o.bits == 4 for o in regions):
        return [32, 16, 8, 4, 2]
    if all(o.root.space == "local" for o in regions):
        return [2, 1]
    largest = max(o.bits for o in regions)
    return [n for n in (32, 16, 8, 4, 2, 1) if n * largest <= 512 and n * min(o.bits for o in regions) <= 256]


OPTIONS["lanes"] = _options


@holds("the scope is within a CTA")
def _scope(c: CallContext) -> str | None:
    if c.scope in SCOPE_BITS:
        return None
    return why_together(c) or f"the threads of a {c.scope} have no common registers or shared memory"


@holds("operands in memory or registers")
def _spaces(c: CallContext) -> str | None:
    for o in regions_of(c):
        if o.root.space not in ("global", "shared", "cluster", "local"):
            return f"'{o.name}' ({o.buffer.name}) is in {SPACE_NAMES[o.root.space]}"
    return None


@holds("the operation exists for the dtypes")
def _exists(c: CallContext) -> str | None:
    return unsupported(c.call)


@holds("operands fit the destination's extents")
def _fit(c: CallContext) -> str | None:
    wanted = c.outputs[0].extents
    predicate = c.call.operand("predicate") if c.op == "select" else None
    if isinstance(predicate, LambdaExpr) and len(predicate.vars) != len(wanted):
        return f"the predicate takes {len(predicate.vars)} coordinates, the destination has {len(wanted)}"
    for o in regions_of(c):
        if aligned_axes(o, wanted) is None:
            return f"'{o.name}' covers {list(o.extents)}, the destination {list(wanted)}"
    return None


@holds("sources and destination are disjoint or the same")
def _alias(c: CallContext) -> str | None:
    """A thread writes before another (or itself, later) reads: only for registers, or the very same elements, is that right."""
    dst = c.outputs[0]
    for o in regions_of(c)[1:]:
        if o.root == dst.root and o.root.space != "local" and not same_elements(o, dst) and not apart(o, dst):
            return f"'{o.name}' and '{dst.name}' may overlap in '{dst.root.name}'"
    return None


def same_elements(a: Operand, b: Operand) -> bool:
    """Whether two regions are the same elements of one buffer."""
    if a.buffer is not b.buffer or a.extents != b.extents:
        return False
    return all(structural_equal(x.min, y.min) for x, y in zip(a.region.region, b.region.region))


def apart(a: Operand, b: Operand) -> bool:
    """Whether two regions whose beginnings are constant have no byte in common."""
    if not all(isinstance(r.min, IntImm) for o in (a, b) for r in o.region.region):
        return False
    if not all(has_constant_steps(o.buffer) for o in (a, b)):
        return False
    x, y = a.places({}), b.places({})
    if set(x) != {"byte"} or set(y) != {"byte"}:
        return False
    sizes = max(1, a.bits // 8), max(1, b.bits // 8)
    left = {int(v) + j for v in np.unique(x["byte"]) for j in range(sizes[0])}
    return not any(int(v) + j in left for v in np.unique(y["byte"]) for j in range(sizes[1]))


@holds("each thread holds what it computes")
def _placement(c: CallContext) -> str | None:
    """Registers can't be reached by other threads, nor by a number known at run time only."""
    where = holders_of(c)
    if isinstance(where, str):
        return where
    work = work_of(c, 1)
    if isinstance(work, str):
        return work
    for o in regions_of(c):
        if o.name in where:
            found = register_bytes(work, o, where[o.name])
            if isinstance(found, str):
                return found
    needs_coords = leader(c) is not None and (c.op == "select" or len(where) < len(regions_of(c)))
    if needs_coords and any(work.coords(k) is None for k in range(work.elements.shape[1])):
        return "the elements that threads hold don't follow from the bits of their numbers"
    return None


@holds("each element of memory is written by one thread")
def _once(c: CallContext) -> str | None:
    if c.outputs[0].root.space == "local":
        return None
    work = work_of(c, 1)
    if isinstance(work, str):
        return work
    unit = active_threads(c) // c.participants
    for u in np.unique(unit):
        written = work.elements[unit == u]
        written = written[written >= 0]
        _, counts = np.unique(written, return_counts=True)
        if len(counts) != c.outputs[0].size:
            return f"{len(counts)} of {c.outputs[0].size} elements are computed"
        if counts.max() > 1:
            return f"{counts.max()} threads hold the value of one element"
    return None


@holds("a form for two lanes exists")
def _packed(c: CallContext) -> str | None:
    """For an operation or a conversion of the call."""
    inner, common = work_dtype(c.call), common_dtype(c.call)
    tree = tree_of(c.call)
    if any((op, inner, 2) in ARITHMETIC for op in operations(tree)):
        return None
    dtypes = {c.operands[n].dtype for n in leaves(tree) if n in c.operands}
    pairs = [(d, common) for d in dtypes] + [(common, inner), (inner, common), (common, c.outputs[0].dtype)]
    for source, target in pairs:
        path = cast_path(source, target) or ()
        if any((a, b, 2) in CASTS for a, b in pairwise(path)):
            return None
    return f"{c.op} of {common} to {c.outputs[0].dtype} has instructions for one lane only"


@holds_at("elements of 4 bits fill registers in order")
def _packed_elements(c: CallContext, lanes: int) -> str | None:
    """Pairs share a byte, and there are instructions for pairs only: neighbours fill (part of) a register."""
    for o in regions_of(c):
        if o.bits != 4:
            continue
        if o.size % 2:
            return f"'{o.name}' has {o.size} elements, and they are worked on in pairs"
        pair = Var("pair", "int32")  # type: ignore[arg-type]
        scope = c.scope_with({pair: (0, o.size // 2 - 1)})
        for half in (0, 1):
            at = o.element_offset(pair * 2 + half)
            if c.compare(("mod", c.term(at, scope), 2), half, scope).status != "equal":
                return f"elements of '{o.name}' ({o.buffer.name}) may be in another order within their bytes"
        if (reason := _whole_registers(c, o, lanes)) is not None:
            return reason
    return None


def _whole_registers(c: CallContext, o: Operand, lanes: int) -> str | None:
    """Whether each group of up to eight lanes is in order in one of a thread's registers, for an operand in registers."""
    where, work = holders_of(c), work_of(c, lanes)
    if not isinstance(where, dict) or o.name not in where:
        return None
    found = register_bytes(work, o, where[o.name]) if isinstance(work, Work) else work
    if isinstance(found, str):
        return found
    group = min(8, lanes)
    for k in range(0, len(found), group):
        if found[k] % (group // 2) or found[k : k + group] != [found[k] + j // 2 for j in range(group)]:
            return f"{group} elements of '{o.name}' are in bytes {found[k : k + group]} of a thread's registers"
    return None


def _memory(c: CallContext) -> list[Operand]:
    return [o for o in regions_of(c) if o.root.space != "local"]


@holds_at("the elements of a thread are groups of lanes")
def _groups(c: CallContext, lanes: int) -> str | None:
    work = work_of(c, lanes)
    if isinstance(work, str):
        return work
    for o in _memory(c):
        elements = lane_elements(work, o)
        if not is_spread(elements) and (reason := misplaced(elements)) is not None:
            return reason
    return None


@holds_at("lanes come in pairs")
def _pairs(c: CallContext, lanes: int) -> str | None:
    return None if lanes > 1 else "there is one lane"


@holds_at("a thread's program has at most 512 steps")
def _steps(c: CallContext, lanes: int) -> str | None:
    work = work_of(c, lanes)
    if isinstance(work, str):
        return work
    return None if work.steps <= MAX_STEPS else f"each thread would work on {work.steps} vectors of {lanes}"


def _vectors(c: CallContext, lanes: int) -> list[Operand]:
    """Operands that are accessed in vectors."""
    work = work_of(c, lanes)
    return [o for o in _memory(c) if isinstance(work, Work) and not is_spread(lane_elements(work, o))]


def _each(c: CallContext, lanes: int, test: object, what: str) -> str | None:
    for o in _vectors(c, lanes):
        width = access_width(c, o, lanes)
        key = (what, o.name, width)
        if key not in c.memo:
            c.memo[key] = test(c, o, width)  # type: ignore[operator]
        if c.memo[key] is not None:
            return f"'{o.name}': {c.memo[key]}"
    return None


@holds_at("vectors are contiguous in memory")
def _contiguous(c: CallContext, lanes: int) -> str | None:
    return _each(c, lanes, contiguous, "contiguous")


@holds_at("vectors are aligned in memory")
def _aligned(c: CallContext, lanes: int) -> str | None:
    return _each(c, lanes, aligned, "aligned")


__all__ = ["FAMILIES", "MAX_STEPS"]
