"""Proofs that neighbouring slots of a shared-out copy are neighbours in memory, for every thread and vector at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...ir import Var
from ...ir.index import Term
from ...prove.validate import validate
from ..context import CallContext, Operand
from ..facts.given import compare
from ..storage import element_offset
from .spread import Spread, memory_offset, region_element, slot_bytes, slot_coords, wide_coords


@dataclass(frozen=True)
class Vectors:
    """The byte offset of each lane of vector number ``vector``, as terms over ``ranges``."""

    lanes: tuple[Term, ...]
    ranges: dict[str, tuple[int, int]]
    facts: tuple[Term, ...] = ()


def vectors_of(c: CallContext, spread: Spread, memory: Operand, width: int) -> Vectors | str:
    """The slots of ``spread`` as vectors of ``width`` bytes, or why they have no common form."""
    lanes = width // slot_bytes(memory)
    if spread.slots % lanes:
        return f"a thread holds {spread.slots} elements, not a multiple of {lanes}"
    if not (spread.copy.reshape(len(spread.threads), -1, lanes) == spread.copy[:, ::lanes, None]).all():
        return "the elements of a vector are different copies of theirs"
    vector = Var("vector", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({vector: (0, spread.slots // lanes - 1)})
    terms = []
    for lane in range(lanes):
        coords = slot_coords(spread, lanes, lane, vector)
        if coords is None:
            return "the elements of a thread's vectors don't follow from the bits of its number and theirs"
        terms.append(c.term(memory_offset(c, memory, wide_coords(spread, coords)), scope))
    return Vectors(tuple(terms), dict(scope.ranges), c.facts(scope))


def _vectors(c: CallContext, spread: Spread, memory: Operand, width: int) -> Vectors | str:
    key = ("vectors", id(spread), width)
    if key not in c.memo:
        c.memo[key] = vectors_of(c, spread, memory, width), spread  # kept, so that its id stays its own
    found: Vectors | str = c.memo[key][0]
    return found


def not_contiguous(c: CallContext, spread: Spread, memory: Operand, width: int) -> str | None:
    """None if every ``width`` bytes of slots are consecutive in memory, else where they aren't."""
    size = slot_bytes(memory)
    if width == size:
        return None
    vectors = _vectors(c, spread, memory, width)
    if isinstance(vectors, str):
        return vectors
    for lane in range(len(vectors.lanes) - 1, 0, -1):
        verdict = compare(vectors.lanes[lane], ("add", vectors.lanes[0], lane * size), vectors.ranges, vectors.facts)
        if verdict.status != "equal":
            where = f" at {verdict.counterexample}" if verdict.counterexample else ""
            return f"element {lane} of a group of {len(vectors.lanes)} is not {lane * size} bytes after its first{where}"
    return None


def not_aligned(c: CallContext, spread: Spread, memory: Operand, width: int) -> str | None:
    """None if every vector begins at a multiple of ``width`` bytes, else where one doesn't."""
    if memory.root.align % width:
        return f"'{memory.buffer.name}' is known to be aligned to {memory.root.align} bytes only"
    if width == slot_bytes(memory):
        return None  # elements are where their layout counts them
    vectors = _vectors(c, spread, memory, width)
    if isinstance(vectors, str):
        return vectors
    verdict = compare(("mod", vectors.lanes[0], width), 0, vectors.ranges, vectors.facts)
    if verdict.status == "equal":
        return None
    where = f", at {verdict.counterexample}" if verdict.counterexample else ""
    return f"an access is not at a multiple of {width} bytes{where}"


def not_paired(c: CallContext, spread: Spread, memory: Operand) -> str | None:
    """None if the two elements of 4 bits in every slot are the halves of one byte of memory, in order; else what isn't so."""
    if spread.upper is None:
        return None
    slot = Var("slot", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({slot: (0, spread.slots - 1)})
    ends = []
    for elements in (spread.elements, spread.upper):
        coords = slot_coords(replace(spread, elements=elements), 1, 0, slot)
        if coords is None:
            return "the elements of a thread's bytes don't follow from the bits of its number and theirs"
        at = element_offset(memory.buffer, region_element(memory, wide_coords(spread, coords)))
        ends.append(c.term(at, scope))
    low, high = ends
    ranges = dict(scope.ranges)
    if validate(("mod", low, 2), 0, ranges).status != "equal" or validate(high, ("add", low, 1), ranges).status != "equal":
        return f"the halves of a byte of the registers needn't be those of a byte of '{memory.buffer.name}'"
    return None
