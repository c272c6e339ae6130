"""The iteration space of a tile primitive: which dimension of each operand runs with which of the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...ir import BufferRegion, IntImm, TilePrimitiveCall
from ..operations import REDUCTIONS

Extents = Sequence[int]
#: Per dimension of an operand, that of the iteration space which it follows; None: it has one element.
Axes = tuple[int | None, ...]


@dataclass(frozen=True)
class Iteration:
    """``axes[name]`` says what the dimensions of an operand follow; along those in ``summed`` elements are combined."""

    axes: dict[str, Axes]
    summed: frozenset[int] = frozenset()


def followed(mine: Extents, extents: Extents) -> list[int | None] | None:
    """For each dimension of an operand the iteration dimension it follows, None where its extent is 1; None if it doesn't fit.

    Extents of 1 don't count where the others agree; else dimensions are matched from the last, those of 1 being spread.
    """
    wide = [d for d, e in enumerate(extents) if e != 1]
    if [e for e in mine if e != 1] == [extents[d] for d in wide]:
        remaining = iter(wide)
        return [None if e == 1 else next(remaining) for e in mine]
    skip = len(mine) - len(extents)
    if any(e != 1 for e in mine[: max(0, skip)]):
        return None
    axes: list[int | None] = []
    for d, e in enumerate(mine):
        target = d - skip
        if target < 0 or e == 1:
            axes.append(None)
        elif extents[target] == e:
            axes.append(target)
        else:
            return None
    return axes


def iteration_of(call: TilePrimitiveCall) -> Iteration | str:
    """How the operands of a call run together, or why they don't."""
    regions: dict[str, BufferRegion] = {}
    extents: dict[str, tuple[int, ...]] = {}
    for name, arg in zip(call.signature.operands, call.args):
        if isinstance(arg, BufferRegion):
            found = arg.const_extents()
            if found is None:
                return f"the extents of the region of '{arg.buffer.name}' aren't constant"
            regions[name], extents[name] = arg, found
    op = call.op.short_name
    if op in PRODUCTS:
        return _product(call, extents, *PRODUCTS[op])
    if op in REDUCTIONS:
        return _reduction(call, extents, "src", "dst", "axes")
    if op in ("binary_reduce", "unary_reduce"):
        return _reduction(call, extents, call.signature.outputs[0], "reduce_output", "reduce_axes")
    return _element_wise(extents, call.signature.outputs[0])


def _element_wise(extents: dict[str, tuple[int, ...]], lead: str) -> Iteration | str:
    axes: dict[str, Axes] = {}
    for name, mine in extents.items():
        found = followed(mine, extents[lead])
        if found is None:
            return f"'{name}' has extents {list(mine)}, '{lead}' {list(extents[lead])}"
        axes[name] = tuple(found)
    return Iteration(axes)


def _reduction(
    call: TilePrimitiveCall, extents: dict[str, tuple[int, ...]], lead: str, result: str, operand: str
) -> Iteration | str:
    """Everything but the result runs with the lead, the result with what the reduction leaves of it."""
    space = extents[lead]
    given: Any = call.operand(operand)
    summed = set()
    for a in given if isinstance(given, (tuple, list)) else (given,):
        axis = a.value if isinstance(a, IntImm) else a
        if not isinstance(axis, int) or not -len(space) <= axis < len(space):
            return f"there is no axis {axis} in {len(space)} dimensions"
        summed.add(axis % len(space))
    found = _element_wise({n: e for n, e in extents.items() if n != result}, lead)
    if isinstance(found, str):
        return found
    kept = [d for d, e in enumerate(space) if d not in summed and e != 1]
    if [space[d] for d in kept] != [e for e in extents[result] if e != 1]:
        return f"'{result}' has extents {list(extents[result])}, which the reduction doesn't leave"
    remaining = iter(kept)
    axes: Axes = tuple(None if e == 1 else next(remaining) for e in extents[result])
    return Iteration({**found.axes, result: axes}, frozenset(summed))


#: Product -> the operand with the result's elements, and per operand its dimensions (row, column, depth are 0, 1, 2) with the
#: flag that transposes it.
PRODUCTS: dict[str, tuple[dict[str, tuple[int, int]], dict[str, str]]] = {
    "gemm": ({"D": (0, 1), "C": (0, 1), "A": (0, 2), "B": (2, 1)}, {"A": "transpose_A", "B": "transpose_B"}),
    "gemm_async": ({"C": (0, 1), "A": (0, 2), "B": (1, 2)}, {"A": "transA", "B": "transB"}),
}


def _product(
    call: TilePrimitiveCall, extents: dict[str, tuple[int, ...]], dims: dict[str, tuple[int, int]], flags: dict[str, str]
) -> Iteration | str:
    axes: dict[str, Axes] = {}
    for name, mine in extents.items():
        if name not in dims:
            return f"'{name}' belongs to the whole product"
        if len(mine) < 2 or any(e != 1 for e in mine[:-2]):
            return f"'{name}' has extents {list(mine)}, which are no matrix"
        first, second = dims[name]
        flag: Any = call.operand(flags[name]) if name in flags else False
        if flag.value if isinstance(flag, IntImm) else flag:
            first, second = second, first
        axes[name] = (*([None] * (len(mine) - 2)), first, second)
    return Iteration(axes, frozenset((2,)))
