"""Elements of memory that a tile call writes twice, or writes and reads: what is left depends on who comes first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import LoweringError
from ...ir import IntImm
from ..conditions.elementwise import apart, same_elements
from ..context import CallContext, Operand
from ..storage import has_constant_steps

MEMORY = ("global", "shared", "cluster")
MOVES = ("copy", "copy_async", "permute_layout")
MAX_ELEMENTS = 1 << 18


def check_overlaps(contexts: Sequence[CallContext]) -> None:
    """Raise LoweringError for a destination whose layout has two elements in one place, and for a copy whose source and
    destination overlap without being the same; only what is certain for constant beginnings is looked at."""
    for c in contexts:
        for o in c.outputs:
            _injective(c, o)
        if c.op in MOVES and c.outputs and c.inputs:
            _disjoint(c, c.outputs[0], c.inputs[0])


def _injective(c: CallContext, o: Operand) -> None:
    if o.root.space not in MEMORY or o.size > MAX_ELEMENTS or not has_constant_steps(o.buffer):
        return
    place = np.broadcast_to(o.bit_places(c.lowest()), (o.size,))
    order = np.argsort(place, kind="stable")
    twice = np.flatnonzero(np.diff(place[order]) == 0)
    if len(twice):
        a, b = (_coordinates(o, int(order[twice[0] + k])) for k in (0, 1))
        raise LoweringError(
            f"'{c.op}' writes elements {a} and {b} of the region of '{o.buffer.name}' ('{o.name}') to one place: its layout "
            "has both there",
            hint="a destination in memory needs a place for each element", span=c.span,
        )  # fmt: skip


def _disjoint(c: CallContext, dst: Operand, src: Operand) -> None:
    known = all(isinstance(r.min, IntImm) for o in (dst, src) for r in o.region.region)
    if dst.root != src.root or dst.root.space not in MEMORY or not known or not all(map(_small, (dst, src))):
        return
    if not same_elements(dst, src) and not apart(dst, src):
        element = int(np.flatnonzero(np.isin(src.bit_places({}), dst.bit_places({})))[0]) if dst.bits == src.bits else 0
        raise LoweringError(
            f"'{c.op}' reads element {_coordinates(src, element)} of the region of 'src' in '{src.buffer.name}', which it also "
            "writes as part of 'dst': what is read depends on who comes first",
            hint="copy by way of other storage, or in parts that don't overlap", span=c.span,
        )  # fmt: skip


def _small(o: Operand) -> bool:
    return o.size <= MAX_ELEMENTS and has_constant_steps(o.buffer)


def _coordinates(o: Operand, element: int) -> list[int]:
    return [int(i) for i in np.unravel_index(element, o.extents)]
