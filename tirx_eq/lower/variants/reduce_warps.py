"""Reductions over several warps: shuffles within each, their results through shared memory, the rest from there."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

from ...ir import Expr, IntImm
from ..block_price import price_block
from ..context import CallContext
from ..equations.values import value_equation
from ..machine import Price
from ..program import Block, Memory, Temp, instruction
from ..program import Operand as Value
from ..sharing.partials import Partials, Readers, Way, memory_groups, partials, readers, rows_count, scratch_bytes, value_bytes
from ..sharing.reduction import MemoryShare, RegisterShare, spread_share
from ..sharing.scratch import barrier, part, region, shares
from ..storage import Root
from .base import Variant
from .reduce import ReduceCode, part_of_row, register_parts


def emit_warps(c: CallContext, way: Way, own: bool) -> Block:
    """Store, barrier, load, combine; in a common region a barrier after the loads."""
    found, mine = partials(c, way.group), readers(c, way.lanes)
    assert isinstance(found, Partials) and isinstance(mine, Readers)
    root = _region(c, way, own)
    code = ReduceCode(c, "serial")
    size, rows = value_bytes(c), rows_count(c)
    start = part(c, root)

    def place(row: Expr, number: Expr | int) -> Memory:
        at = row + number * rows if way.outer else row * found.parts + number
        return Memory(root, c.resolve(start + at * size))

    for row, value, stores in zip(found.rows, _parts(code, way), found.stores):
        at = place(row, found.part)
        code.guarded(stores, lambda at=at, v=value: code.nodes.append(  # type: ignore[misc]
            instruction(f"st.shared.b{size * 8}", at, v)))
    code.nodes.append(barrier(c))
    done = [code.across(code.combine(_read(code, way, found.parts, mine.share, row, place)), mine.flips) for row in mine.rows]
    if not own:
        code.nodes.append(barrier(c))
    for i, value in enumerate(done):
        if mine.bytes:
            code.to_register(value, mine.bytes[i])
        else:
            at = code.address(code.dst, mine.rows[i])
            code.guarded(mine.stores[i], lambda at=at, v=value: code.to_memory([v], at))  # type: ignore[misc]
    return tuple(code.nodes)


def _parts(code: ReduceCode, way: Way) -> list[Value]:
    """Each warp's partial results, in all of its lanes."""
    c = code.c
    if not way.group:
        spread = spread_share(c)
        assert isinstance(spread, RegisterShare)
        return register_parts(code, spread)
    share = memory_groups(c, way.group)
    found = partials(c, way.group)
    assert isinstance(share, MemoryShare) and isinstance(found, Partials)
    flips = [1, 2, 4, 8, 16]
    return [code.across(part_of_row(code, share, row, c.rank() % way.group), flips) for row in found.rows]


def _read(
    code: ReduceCode, way: Way, parts: int, share: Expr, row: Expr, place: Callable[[Expr, Expr | int], Memory]
) -> list[Value]:
    """A thread's share of a row's partial results: neighbours in one access where they lie together."""
    size = value_bytes(code.c)
    count = parts // way.lanes
    if way.outer:
        found: list[Value] = []
        for j in range(count):
            value = Temp(f"b{size * 8}")
            code.nodes.append(instruction(f"ld.shared.b{size * 8}", value, place(row, share + j * way.lanes)))
            found.append(value)
        return found
    vector = math.gcd(count, 16 // size)
    found = []
    for j in range(0, count, vector):
        words = tuple(Temp(f"b{size * 8}") for _ in range(vector))
        form = f"v{vector}.b{size * 8}" if vector > 1 else f"b{size * 8}"
        number = share * count + j if not isinstance(share, IntImm) or share.value else j
        code.nodes.append(instruction(f"ld.shared.{form}", words if vector > 1 else words[0], place(row, number)))
        found += words
    return found


def _region(c: CallContext, way: Way, own: bool) -> Root:
    return region(c, scratch_bytes(c, way), own)


def _emit(own: bool) -> Callable[[CallContext, tuple[int, ...]], Block]:
    return lambda c, p: c.once(("reduce warps", own, *p), lambda: emit_warps(c, Way.of(p[0]), own))


def _price(own: bool) -> Callable[[CallContext, tuple[int, ...]], Price]:
    return lambda c, p: price_block(c, _emit(own)(c, p))


def _shares(own: bool) -> Callable[[CallContext, tuple[int, ...]], dict[Hashable, float]]:
    return lambda c, p: shares(_region(c, Way.of(p[0]), own))


REDUCTIONS_OF_WARPS = tuple(
    Variant(
        node, ("way",), _price(own), _emit(own), show=lambda p: Way.of(p[0]).describe(), equation=value_equation,
        shares=_shares(own),
    )
    for node, own in (("ReduceWarps", False), ("ReduceWarpsOnce", True))
)  # fmt: skip
