"""XOR swizzles and paddings for buffers that only ordinary loads and stores use: synthesised from their access patterns.

Under the row-major layout an address tells its element.  So the programs that a call would become under it are read for the
elements that the lanes of a warp touch at once, and the layouts that serve these patterns in the fewest wavefronts are
searched for (:func:`tirx_eq.solve.memory.best_layout.best_layout`).  What is found are candidates like others.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

import numpy as np

from ..errors import LayoutError, TirxError
from ..ir import BufferRegion
from ..ir.index import evaluate_many
from ..layout import Layout
from ..layout.conflicts import unflatten
from ..lower.candidates import Candidate
from ..lower.code.accesses import access_bytes
from ..lower.context import CallContext, Operand
from ..lower.program import Instruction, Memory, walk
from ..lower.sharing.active import thread_points
from ..lower.storage import const_shape
from ..lower.variants import VARIANTS
from .evaluate import CallTable
from .memory.access import WarpAccess
from .memory.best_layout import best_layout
from .scalars import ScalarTable
from .unknowns import Unknown

#: Name of the root that stands for the unknown's storage while patterns are read.
MARKER = "what is looked at"
#: Combinations of other operands' layouts that are looked at per call, and distinct patterns kept per access.
COMBINATIONS, PATTERNS = 12, 4
#: Sets of patterns for which layouts are searched.
SETS = 8
#: Widest access of a lane in bytes, tried from the widest.
CAPS = (16, 8, 4, 2)
#: z3's budget for a free bit matrix.
RLIMIT = 200_000
_MATRICES = re.compile(r"(?:ld|st)matrix\b.*\.x([124])\b")


@dataclass(frozen=True)
class Way:
    """One program of a call: what it costs without bank conflicts, its widest access in bytes, and its access patterns."""

    cycles: float
    width: int
    accesses: tuple[WarpAccess, ...]


def synthesised(
    u: Unknown, plain: Layout, tables: Sequence[CallTable], scalars: Sequence[ScalarTable],
    candidates_of: Callable[[int], Sequence[Layout]],
) -> list[Layout]:
    """Layouts for an unknown whose users are ``tables`` and ``scalars``: the best for its patterns, per widest access.

    ``candidates_of``: the layouts that another unknown may have.
    """
    shape = u.shape
    ways = [list(_ways(t, u, plain, candidates_of)) for t in tables]
    elements = [a for s in scalars for a in _scalar_patterns(s, plain, shape)]
    made: list[Layout] = []
    done: set[tuple[WarpAccess, ...]] = set()
    families = ("xor",) if u.room is not None else ("xor", "padding")
    searched = False  # whether free bit matrices were tried: once, since that takes seconds
    for key in _together(ways, elements):
        if key in done or len(done) == SETS:
            continue
        done.add(key)
        accesses = list(key)
        try:
            found = best_layout(shape, u.leader.dtype, accesses, family=families)
            results = [found.layout, *(r.member.layout for r in found.runner_ups)]
            if not found.conflict_free and not searched:
                searched = True
                results.append(best_layout(shape, u.leader.dtype, accesses, family="matrix", rlimit=RLIMIT).layout)
        except LayoutError:
            continue
        for layout in results:
            real = layout if isinstance(layout, Layout) else layout.layout()
            if real is not None:
                made.append(real)
    return made


def _together(ways: Sequence[Sequence[Way]], elements: Sequence[WarpAccess]) -> Iterator[tuple[WarpAccess, ...]]:
    """Patterns to serve together: of each call its cheapest program, per widest access; then each other program of a call
    with the cheapest of the others."""
    for cap in CAPS:
        fitting = [[w for w in mine if w.width <= cap] for mine in ways]
        best = [min(f, key=lambda w: w.cycles).accesses if f else () for f in fitting]
        if elements or any(best):
            yield (*elements, *(a for accesses in best for a in accesses))
    cheapest = [min(mine, key=lambda w: w.cycles).accesses if mine else () for mine in ways]
    others = sorted(((w.cycles, i, k) for i, mine in enumerate(ways) for k, w in enumerate(mine)))
    for _, i, k in others:
        chosen = [ways[i][k].accesses if j == i else best for j, best in enumerate(cheapest)]
        yield (*elements, *(a for accesses in chosen for a in accesses))


def _ways(
    t: CallTable, u: Unknown, plain: Layout, candidates_of: Callable[[int], Sequence[Layout]]
) -> Iterator[Way]:
    """Programs of a call when the unknown is row-major, under layouts of the other operands."""
    sides = [[plain] if v == u.index else list(candidates_of(v)) for v in t.unknowns]
    for combination in islice(product(*sides), COMBINATIONS):
        at = dict(zip(t.unknowns, combination))
        for candidate in t.candidates(at):
            c = _marked(t, u, at)
            if c is not None:
                way = _way(c, u, candidate)
                if way is not None:
                    yield way


def _marked(t: CallTable, u: Unknown, at: Mapping[int, Layout]) -> CallContext | None:
    """The call's context with the unknown's storage under a name of its own."""
    c = t.context_at(at)
    if isinstance(c, str):
        return None
    operands = {}
    for name, o in c.operands.items():
        if name in t.opened and t.opened[name].unknown == u.index:
            root = dataclasses.replace(o.root, name=MARKER)
            operands[name] = Operand(o.name, BufferRegion(o.buffer, o.region.region), root, o.storage)
        else:
            operands[name] = o
    return dataclasses.replace(c, operands=operands, memo={})


def _way(c: CallContext, u: Unknown, candidate: Candidate) -> Way | None:
    try:
        block = VARIANTS[candidate.node].emit(c, candidate.values)
    except TirxError:
        return None
    groups: dict[str, list[Memory]] = {}
    for node in walk(block):
        if isinstance(node, Instruction):
            for o in node.operands:
                if isinstance(o, Memory) and o.root.name == MARKER:
                    groups.setdefault(node.opcode, []).append(o)
    accesses: list[WarpAccess] = []
    widest = 0
    operand = next(o for o in c.operands.values() if o.root.name == MARKER)
    for opcode, memories in groups.items():
        matrices = _MATRICES.match(opcode)
        try:
            width = 16 if matrices else access_bytes(opcode)
        except KeyError:
            return None
        widest = max(widest, width)
        first = _elements(c, memories[0], operand)
        if first is None:
            return None
        vector = max(1, width * 8 // operand.bits)
        # The first 8 lanes of ldmatrix per matrix give addresses of rows of 16 bytes (PTX ISA 9.7.15.5.15).
        mask = c.active.mask & (np.arange(len(c.active.mask)) % 32 < 8 * int(matrices[1])) if matrices else c.active.mask
        accesses += _patterns(f"{c.op} {opcode}", first, mask, u.shape, vector, len(memories))
    price = dataclasses.replace(candidate.price, wavefronts=0.0)
    return Way(price.cycles(), widest, tuple(accesses)) if accesses else None


def _elements(c: CallContext, at: Memory, o: Operand) -> np.ndarray | None:
    """The flat element of the unknown that each thread addresses: its address under the row-major layout."""
    scope = c.scope_with()
    points: dict[str, np.ndarray | int] = {name: low for name, (low, _) in scope.ranges.items()}
    start = c.term(c.storage.byte_offset(o.buffer, [0] * len(o.extents)), scope)
    term = c.term(at.offset, scope)
    registers = {scope.name(v): r for r, v in c.launch.special.items() if r.startswith("tid.")}
    points.update({name: low for name, (low, _) in scope.ranges.items() if name not in points})
    points.update(thread_points(c.launch, registers))
    try:
        offsets = np.asarray(evaluate_many(term, points)) - np.asarray(evaluate_many(start, points))
    except KeyError:
        return None
    flat = np.broadcast_to(offsets, (c.launch.threads,)) * 8 // o.bits
    return flat if bool((flat >= 0).all() and (flat < int(np.prod(const_shape(o.buffer)))).all()) else None


def _patterns(
    name: str, flat: np.ndarray, mask: np.ndarray, shape: tuple[int, ...], vector: int, weight: int
) -> Iterator[WarpAccess]:
    """The distinct patterns of the CTA's warps."""
    seen: set[tuple[int | None, ...]] = set()
    for w in range(0, len(flat), 32):
        lanes = [int(f) if on else None for f, on in zip(flat[w : w + 32], mask[w : w + 32])]
        known = [f for f in lanes if f is not None]
        if not known:
            continue
        shifted = tuple(None if f is None else f - min(known) for f in lanes)
        if shifted in seen or len(seen) >= PATTERNS or any(f % vector for f in known):
            continue
        seen.add(shifted)
        yield WarpAccess(name, tuple(None if f is None else unflatten(f, shape) for f in lanes), vector, weight)


def _scalar_patterns(s: ScalarTable, plain: Layout, shape: tuple[int, ...]) -> Iterator[WarpAccess]:
    mine = plain if s.member is None else s.member.layout(plain)
    if s.access.active.elected or isinstance(mine, str):
        return
    flat = mine.evaluate(s.elements()).get("m", np.zeros_like(s.elements()))
    yield from _patterns("element", flat, s.access.active.mask, shape, 1, max(1, s.weight))
