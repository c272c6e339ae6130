"""Shared memory that lowerings take for themselves, and the barriers between its writers and readers.

A region is ``common`` to the calls that need as many bytes at the same scope: each leaves it behind a barrier, so that the next
may write.  A call that is made once can have its ``own`` instead, and saves that barrier.  Every unit of threads (warpgroup,
warp) has a part of a region to itself.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

from ...errors import LoweringError
from ...ir import Expr, const
from ..context import CallContext
from ..named_barriers import first_free
from ..program import Block, Index, Instruction, Memory, Node, instruction, mapped
from ..storage import MAX_SHARED, Root, Storage
from .threads import WARP, WARPGROUP

ALIGN = 128
#: Bytes of scratch that count as a cycle: they take no time, but shared memory decides how many CTAs an SM holds.
BYTES_PER_CYCLE = 1024


def region(c: CallContext, bytes_: int, own: bool) -> Root:
    """The region in which a call keeps ``bytes_`` bytes per unit of its threads."""
    size = max(16, -(-bytes_ // 16) * 16 if own else 1 << (bytes_ - 1).bit_length())
    name = f"scratch_of_call_{c.index}" if own else f"scratch_{c.scope}_{size}"
    return Root("shared", name, 0, size * units(c), ALIGN, scratch="own" if own else "common")


def units(c: CallContext) -> int:
    """Units of the call's scope in a CTA."""
    return max(1, c.launch.threads // c.participants)


def part(c: CallContext, root: Root) -> Expr:
    """Bytes from the region's start to the part of a thread's unit."""
    if units(c) == 1:
        return const(0)
    return c.launch.flat_tid() // c.participants * (root.size // units(c))


def shares(root: Root) -> dict[Hashable, float]:
    """What a call has in common with others that use the region, with its price."""
    return {("scratch", root.name): root.size / BYTES_PER_CYCLE}


def no_room(c: CallContext, root: Root) -> str | None:
    """Why the kernel has no room for a region, or None."""
    begin = -(-c.storage.shared_bytes // ALIGN) * ALIGN
    if begin + root.size <= MAX_SHARED:
        return None
    return f"{root.size} bytes of scratch beside the kernel's {c.storage.shared_bytes} are more than a CTA's {MAX_SHARED}"


def barrier(c: CallContext) -> Instruction:
    """After it the threads of a unit see what the others have stored in shared memory."""
    if c.participants <= WARP:
        return instruction("bar.warp.sync", 0xFFFFFFFF)
    if c.participants == c.launch.threads:
        return instruction("bar.sync", 0)
    first = first_barrier(c)
    assert first is not None
    return instruction("bar.sync", Index(const(first) - c.launch.flat_tid() // WARPGROUP), WARPGROUP)


def first_barrier(c: CallContext) -> int | None:
    """The number of the first warpgroup's barrier, those of the others below it (PTX ISA: there are 16, 0 is the CTA's); None
    if the kernel doesn't leave as many in a row."""
    return first_free(c.storage.barriers, units(c))


def place_scratch(bodies: Mapping[int, Block], storage: Storage) -> dict[int, Block]:
    """The programs with every region of scratch at its place after the kernel's own shared memory, which grows by them.

    Raises LoweringError if that is more than a CTA has (see :func:`total`).
    """
    found = _regions(bodies)
    if not found:
        return dict(bodies)
    end, placed = storage.shared_bytes, {}
    for root in found:
        start = -(-end // ALIGN) * ALIGN
        placed[root] = replace(root, offset=start)
        end = start + root.size
    if end > MAX_SHARED:
        raise LoweringError(f"the kernel needs {end} bytes of shared memory with its scratch; a CTA has {MAX_SHARED}")
    storage.shared_bytes = end
    return {index: mapped(body, lambda node: _moved(node, placed)) for index, body in bodies.items()}


def fits(bodies: Mapping[int, Block], storage: Storage) -> bool:
    """Whether all regions of scratch fit beside the kernel's own shared memory."""
    return storage.shared_bytes + sum(r.size + ALIGN for r in _regions(bodies)) <= MAX_SHARED


def _regions(bodies: Mapping[int, Block]) -> list[Root]:
    from ..program import walk

    found: dict[Root, None] = {}
    for index in sorted(bodies):
        for node in walk(bodies[index]):
            for o in node.operands if isinstance(node, Instruction) else ():
                if isinstance(o, Memory) and o.root.scratch:
                    found[o.root] = None
    return sorted(found, key=lambda r: r.name)


def _moved(node: Node, placed: Mapping[Root, Root]) -> Block:
    def operand(o: Any) -> Any:
        return replace(o, root=placed[o.root]) if isinstance(o, Memory) and o.root in placed else o

    return (replace(node, operands=tuple(map(operand, node.operands))),) if isinstance(node, Instruction) else (node,)
