"""Tensor memory over a whole kernel: what is allocated, used and freed, and whether all of it is for one CTA or for a pair.

PTX ISA 9.7.16.7: columns are allocated by powers of two from 32 to 512 and must all be freed; cta_group is one for a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import LoweringError, Span
from ...ir import Add, BufferLoad, Call, Cast, Evaluate, Expr, IntImm, PrimFunc, post_order_visit
from ..conditions.gemm import cta_group
from ..conditions.registry import coordinate
from ..conditions.tmem_place import cells
from ..context import CallContext, Operand
from ..intrinsics.build import arguments as named_arguments
from ..intrinsics.language import constant
from ..intrinsics.places import address_operand

COLUMNS = 512
_NAMES = {f"tirx.ptx.tcgen05_{n}": n for n in ("alloc", "dealloc", "relinquish_alloc_permit", "commit", "mma", "cp")}


@dataclass(frozen=True)
class _Use:
    """A tcgen05 operation: what it is, for how many CTAs, where; of allocations the columns and the element written."""

    what: str
    group: int | None
    span: Span | None
    columns: int | None = None
    target: BufferLoad | None = None


def check_tensor_memory(func: PrimFunc, contexts: Sequence[CallContext]) -> None:
    """Raise LoweringError for columns that don't exist, aren't allocated or aren't freed, and for a mix of cta_groups."""
    uses = _uses(func)
    calls = [_Use(c.op, cta_group(c), c.span) for c in contexts if _is_tensor_core(c)]
    _one_group([*uses, *calls])
    allocated = [u for u in uses if u.what == "alloc"]
    freed = [u for u in uses if u.what == "dealloc"]
    for u in (*allocated, *freed):
        if u.columns is not None and u.columns not in (32, 64, 128, 256, 512):
            raise LoweringError(f"tcgen05.{u.what} of {u.columns} columns: it must be 32, 64, 128, 256 or 512", span=u.span)
    total = sum(u.columns or 0 for u in allocated)
    if total > COLUMNS and not freed:
        raise LoweringError(f"{total} columns of tensor memory are allocated; a CTA has {COLUMNS}", span=allocated[-1].span)
    _all_freed(allocated, freed)
    for c in contexts if allocated else ():
        for o in c.operands.values():
            if o.root.space == "tmem":
                _enough(c, o, allocated, total)


def _is_tensor_core(c: CallContext) -> bool:
    spaces = {o.root.space for o in c.operands.values()}
    return c.op == "gemm_async" or (c.op == "copy_async" and spaces == {"shared", "tmem"})


def _uses(func: PrimFunc) -> list[_Use]:
    found: list[_Use] = []

    def look(node: Any) -> None:
        if not (isinstance(node, Evaluate) and isinstance(node.value, Call) and node.value.op.name in _NAMES):
            return
        given = named_arguments(node.value)
        group, columns = constant(given.get("cta_group")), constant(given.get("n_cols"))
        target = address_operand(given.get("dst_ptr"))
        found.append(
            _Use(_NAMES[node.value.op.name], group if isinstance(group, int) else None, node.span,
                 columns if isinstance(columns, int) else None, target)
        )  # fmt: skip

    post_order_visit(func.body, look)
    return found


def _one_group(uses: Sequence[_Use]) -> None:
    known = [u for u in uses if u.group is not None]
    for u in known[1:]:
        if u.group != known[0].group:
            first = f"'{known[0].what}'" + (f" at {known[0].span}" if known[0].span else "")
            raise LoweringError(
                f"'{u.what}' has cta_group={u.group}, but {first} has cta_group={known[0].group}",
                hint="all tcgen05 operations of a kernel have one cta_group (PTX ISA, tcgen05)",
                span=u.span,
            )


def _all_freed(allocated: Sequence[_Use], freed: Sequence[_Use]) -> None:
    if any(u.columns is None for u in (*allocated, *freed)):
        return
    left = [u.columns for u in freed]
    for u in allocated:
        if u.columns in left:
            left.remove(u.columns)
            continue
        other = f"; {', '.join(map(str, left))} are" if left else ", none are"
        raise LoweringError(
            f"{u.columns} columns of tensor memory are allocated{other} freed by tcgen05.dealloc",
            hint="a kernel must free what it has allocated, with the same number of columns, before it ends",
            span=u.span,
        )
    if left and allocated:
        extra = next(u for u in freed if u.columns == left[0])
        raise LoweringError(f"tcgen05.dealloc frees {left[0]} columns that were not allocated", span=extra.span)


def _enough(c: CallContext, o: Operand, allocated: Sequence[_Use], total: int) -> None:
    """Whether an operand lies in the columns of the allocation whose address its buffer has."""
    found = _base(o.root.address)
    if found is None:
        return
    base, first = found
    have, by = total, None
    if base is not None:
        mine = [u for u in allocated if u.target is not None and _same_element(u.target, base)]
        if len(mine) != 1 or mine[0].columns is None:
            return
        have, by = mine[0].columns, mine[0].span
    elif len(allocated) != 1 or allocated[0].columns is None:
        return
    places = o.places(c.lowest())
    if "TCol" not in places:
        return
    column = cells(o, places)[0]
    last = int(column.max()) + first
    if last < have:
        return
    e = int(column.argmax())
    raise LoweringError(
        f"'{c.op}': element {coordinate(o, e)} of '{o.buffer.name}' is in column {last} of tensor memory, but "
        f"tcgen05.alloc{f' at {by}' if by else ''} gives {have} columns",
        span=c.span,
    )


def _base(address: Expr | None) -> tuple[BufferLoad | None, int] | None:
    """(element that the address is read from if it is, columns added), or None for what isn't of that form."""
    if isinstance(address, IntImm):
        return None, address.value
    if isinstance(address, BufferLoad):
        return address, 0
    if isinstance(address, Cast):
        return _base(address.value)
    if isinstance(address, Add) and isinstance(address.b, IntImm):
        found = _base(address.a)
        return (found[0], found[1] + address.b.value) if found is not None else None
    return None


def _same_element(a: BufferLoad, b: BufferLoad) -> bool:
    return a.buffer is b.buffer and all(
        isinstance(i, IntImm) and isinstance(j, IntImm) and i.value == j.value for i, j in zip(a.indices, b.indices)
    )
