"""Constraints of a function with their tests: those that storage and declarations bring, and those of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..errors import Span
from ..ir import Call, PrimFunc, post_order_visit
from ..ir import dtype as dt
from ..ir.linear import linear_form
from ..layout import ComposeLayout, Iter, Layout, OpenLayout, SwizzleLayout, TileLayout
from ..lower.candidates import Premises
from ..lower.operations import FAMILIES
from ..lower.storage import MAX_SHARED, const_shape
from ..ptx.swizzle_modes import SWIZZLES
from . import constraints as rules
from .evaluate import CallTable, OpenOperand
from .families import element_swizzle, mma_fragments, number, row_major, same_places
from .meaning import Reading
from .requirements import WARP_AXES
from .scalars import ScalarTable
from .unknowns import Unknown, Wanted

Assignment = Mapping[int, Layout]
MAX_REGISTERS = 255
MAX_COLUMNS = 512
LANES = 128


@dataclass(frozen=True, eq=False)
class Bound:
    """A constraint with the unknowns that it is about (ascending) and its test: None if it holds, else why not."""

    constraint: rules.Constraint
    unknowns: tuple[int, ...]
    test: Callable[[Assignment], str | None]


# -- storage and declarations ----------------------------------------------------------------------------------------


def bind_storage(
    unknowns: Sequence[Unknown], reading: Reading, addressed: Mapping[int, Span | None], scalars: Sequence[ScalarTable],
    func: PrimFunc, base: PrimFunc,
) -> list[Bound]:  # fmt: skip
    """What declarations, capacities and statements ask of the layouts."""
    out: list[Bound] = []
    columns = _tmem_columns(func)
    for u in unknowns:
        out += [_partial(u, w) for w in u.wanted]
        if u.room is not None:
            out.append(_room(u))
        if u.fixed is not None:
            out.append(_given(u))
        if u.index in addressed:
            out.append(_plain(u, addressed[u.index]))
        if u.index in reading.pinned:
            out.append(_pieces(u, reading))
        if u.space == "local":
            out.append(_registers(u))
        if u.space == "tmem":
            out.append(_tensor_memory(u, _columns_for(u, unknowns, columns)))
        if any(m.how != "same" for m in u.members):
            out.append(_views(u))
    for group in reading.together:
        out += [_together(unknowns[a], unknowns[b]) for a, b in pairwise(group)]
    seen: set[int] = set()
    for s in scalars:
        if s.unknown not in seen:
            seen.add(s.unknown)
            mine = [x for x in scalars if x.unknown == s.unknown]
            out.append(_accessed(unknowns[s.unknown], mine))
    growing = [u for u in unknowns if u.space == "shared" and u.room is None]
    if growing:
        out.append(_shared_memory(growing, base))
    return out


def _partial(u: Unknown, w: Wanted) -> Bound:
    shape = const_shape(w.buffer)
    member = u.member_of(w.buffer)

    def test(at: Assignment) -> str | None:
        mine = member.layout(at[u.index])
        return mine if isinstance(mine, str) else unlike(mine, w.partial, w.buffer.dtype, shape)

    return Bound(rules.PartialLayout((w.buffer.name,), w.span, w.partial.arguments()), (u.index,), test)


def unlike(layout: Layout, partial: OpenLayout, dtype: str, shape: tuple[int, ...]) -> str | None:
    """None if a layout of a buffer is as a partial layout says, else how it differs."""
    if partial.swizzle is not None:
        mode = element_swizzle(SWIZZLES[partial.swizzle], dt.storage_bits(dtype))
        swizzle = layout.swizzle if isinstance(layout, ComposeLayout) else layout if isinstance(layout, SwizzleLayout) else None
        if swizzle != mode:
            return f"its swizzle is {swizzle if swizzle is not None else 'none'}"
    if partial.contiguous is not None and partial.contiguous > 1:
        n = partial.contiguous
        size = int(np.prod(shape))
        if shape[-1] % n:
            return f"the last extent {shape[-1]} is not a multiple of {n}"
        places = layout.evaluate(np.arange(size).reshape(-1, n))
        for axis, v in places.items():
            step = np.arange(n) if axis == ("TCol" if "TCol" in places else "m") else np.zeros(n)
            if (v != v[:, :1] + step).any() or (axis == "m" and (v[:, 0] % n).any()):
                return f"groups of {n} elements are torn apart, or begin elsewhere than at multiples of {n}"
    if partial.thread_axis is not None:
        used = [a for a in layout.axes() if a not in ("m", "TLane", "TCol")]
        if used != [partial.thread_axis]:
            return f"its threads are counted on {', '.join(used) or 'no axis'}"
    return None


def _room(u: Unknown) -> Bound:
    def test(at: Assignment) -> str | None:
        span = number(at[u.index].span("m"))
        return None if span <= (u.room or 0) else f"it spans {span} elements"

    return Bound(rules.StorageRoom((u.name,), u.span, u.room or 0), (u.index,), test)


def _given(u: Unknown) -> Bound:
    assert u.fixed is not None
    wanted, view = u.fixed

    def test(at: Assignment) -> str | None:
        return None if same_places(at[u.index], wanted) else f"'{view.name}' was given another layout"

    return Bound(rules.SharedStorage((u.name, view.name), view.span or u.span), (u.index,), test)


def _views(u: Unknown) -> Bound:
    def test(at: Assignment) -> str | None:
        for m in u.members:
            found = m.layout(at[u.index])
            if isinstance(found, str):
                return f"'{m.buffer.name}': {found}"
        return None

    return Bound(rules.SharedStorage(tuple(m.buffer.name for m in u.members), u.span), (u.index,), test)


def _plain(u: Unknown, span: Span | None) -> Bound:
    wanted = row_major(u.shape)

    def test(at: Assignment) -> str | None:
        return None if same_places(at[u.index], wanted) else "its elements are in another order"

    return Bound(rules.PlainMemory((u.name,), span or u.span), (u.index,), test)


def _pieces(u: Unknown, reading: Reading) -> Bound:
    layout, why = reading.pinned[u.index]
    wanted = _threads(layout)

    def test(at: Assignment) -> str | None:
        return None if _threads(at[u.index]) == wanted else "its threads hold other elements"

    return Bound(rules.RowPieces((u.name,), u.span, why), (u.index,), test)


def _threads(layout: Layout) -> Any:
    from ..errors import LayoutError
    from ..layout.threads import to_thread

    try:
        return to_thread(layout).canonicalize()
    except LayoutError:
        return layout.canonicalize()


def _together(a: Unknown, b: Unknown) -> Bound:
    def test(at: Assignment) -> str | None:
        return None if at[a.index].canonicalize() == at[b.index].canonicalize() else "their distributions differ"

    return Bound(rules.OneDistribution((a.name, b.name), b.span), tuple(sorted((a.index, b.index))), test)


def _registers(u: Unknown) -> Bound:
    """Storage behind a view, and the registers of one thread."""

    def test(at: Assignment) -> str | None:
        span = number(at[u.index].storage().span("m"))
        if u.capacity is not None and span > u.capacity:
            return f"the layout needs {span} elements of a thread"
        words = -(-span * u.bits // 32)
        return None if words <= MAX_REGISTERS else f"it takes {words} registers"

    return Bound(rules.RegisterCapacity((u.name,), u.span, u.capacity or 0, MAX_REGISTERS), (u.index,), test)


def _accessed(u: Unknown, scalars: Sequence[ScalarTable]) -> Bound:
    def test(at: Assignment) -> str | None:
        for s in scalars:
            found = s.price(at)
            if isinstance(found, str):
                return found
        return None

    return Bound(rules.AddressedElement((u.name,), scalars[0].access.span or u.span), (u.index,), test)


def _shared_memory(growing: Sequence[Unknown], base: PrimFunc) -> Bound:
    """The plan of shared memory with every allocation that may grow as large as its layout needs."""
    from ..lower.storage import plan

    storage = plan(base, limit=None)
    mine = {id(u.leader.data) for u in growing}
    rest = storage.shared_bytes - sum(r.size for d, r in storage.roots.items() if r.space == "shared" and id(d) in mine)

    def test(at: Assignment) -> str | None:
        total = rest
        for u in growing:
            span = number(at[u.index].span("m"))
            total += -(-span * u.bits // 8)
        return None if total <= MAX_SHARED else f"{total} bytes are needed"

    return Bound(
        rules.SharedCapacity(tuple(u.name for u in growing), growing[0].span, MAX_SHARED), tuple(u.index for u in growing), test
    )


# -- tensor memory ---------------------------------------------------------------------------------------------------


def _tmem_columns(func: PrimFunc) -> int:
    """Columns that the function allocates: the most of its tcgen05.alloc calls, 512 if it tells none."""
    found: list[int] = []

    def look(node: Any) -> None:
        if isinstance(node, Call) and node.op.name == "tirx.ptx.tcgen05_alloc":
            from ..lower.intrinsics.build import arguments as named_arguments
            from ..lower.intrinsics.language import constant

            value = constant(named_arguments(node)["n_cols"])
            if isinstance(value, int):
                found.append(value)

    post_order_visit(func.body, look)
    return min(MAX_COLUMNS, max(found)) if found else MAX_COLUMNS


def _columns_for(u: Unknown, unknowns: Sequence[Unknown], total: int) -> int:
    """Columns from the buffer's first to the next buffer behind it, or the end of the allocation."""
    start = _first_column(u)
    if start is None:
        return total
    ends = [s for v in unknowns if v.space == "tmem" and (s := _first_column(v)) is not None and s > start]
    return min([total, *ends]) - start


def _first_column(u: Unknown) -> int | None:
    """The constant part of the address if nothing but the allocation's base is added to it."""
    if not u.leader.allocated_addr:
        return None
    terms, rest = linear_form(u.leader.allocated_addr[0])
    from ..ir import Var

    return None if any(isinstance(t, Var) for t in terms) else rest


def _tensor_memory(u: Unknown, columns: int) -> Bound:
    def test(at: Assignment) -> str | None:
        layout = at[u.index]
        span = number(layout.span("TCol"))
        used, lanes = -(-span * u.bits // 32), number(layout.span("TLane"))
        if lanes > LANES:
            return f"it spans {lanes} lanes"
        return None if used <= columns else f"it spans {used} columns"

    return Bound(rules.TensorMemoryCapacity((u.name,), u.span, columns), (u.index,), test)


# -- calls -----------------------------------------------------------------------------------------------------------

#: condition -> the hardware's rule that it is
_BY_CONDITION: dict[str, type[rules.CallConstraint]] = {
    "one operand in registers, one in memory": rules.PrivateRegisters,
    "both operands in registers": rules.PrivateRegisters,
    "A has matrix descriptors": rules.MatrixDescriptor, "B has matrix descriptors": rules.MatrixDescriptor,
    "the accumulator has the datapath layout": rules.AccumulatorDatapath,
    "A lies in tensor memory as the tensor core reads it": rules.MatrixInTensorMemory,
    "the scale factors lie as the tensor core reads them": rules.ScaleFactorLayout,
    "the shared tile is boxes of the map": rules.TensorCopyBox,
    "the registers hold what the shape moves": rules.TensorMemoryTransfer,
    "the operands are the shape's rows": rules.TensorMemoryCopy,
}  # fmt: skip


def bind_calls(
    tables: Sequence[CallTable], unknowns: Sequence[Unknown], domains: Sequence[Mapping[Layout, Any]]
) -> list[Bound]:
    """A constraint per hardware rule of each call that depends on open layouts.

    Where one variant can serve the call at all, each of its conditions stands for itself; else the call as a whole.
    """
    out: list[Bound] = []
    for table in tables:
        if table.unknowns:
            first = {u: next(iter(domains[u])) for u in table.unknowns}
            trials = [first, *({**first, u: w} for u in table.unknowns for w in domains[u])]
            if table.context.op == "gemm":
                out += _lanes_of_fragments(table, unknowns)
            possible = [p for p in table.rules if _possible(table, p, first)]
            if len(possible) == 1:
                out += _parts(table, possible[0], trials, unknowns)
            else:
                out.append(_whole(table, possible, unknowns) if possible else _hopeless(table, first, unknowns))
    return out


def _possible(table: CallTable, p: Premises, at: Assignment) -> bool:
    """Whether no condition that is the same for all layouts rules the variant out."""
    if p.scope is not None and p.scope != table.context.scope:
        return False
    return not any(table.holds(n, at) is not None and not table.depends_on(("holds", n)) for n in p.holds)


def _parts(
    table: CallTable, p: Premises, trials: Sequence[dict[int, Layout]], unknowns: Sequence[Unknown]
) -> list[Bound]:
    """``trials``: assignments that vary one unknown at a time, which tell what each condition depends on."""
    out: list[Bound] = []
    first = trials[0]
    for name in p.holds:
        for at in trials:
            table.holds(name, at)
        needs = tuple(sorted(table.depends_on(("holds", name))))
        if needs:
            cls = _BY_CONDITION.get(name, _class_of(table))
            out.append(
                _bound(table, cls, needs, unknowns, (name,), lambda a, n=name: table.holds(n, {**first, **a}))  # type: ignore[misc]
            )
    if p.parameter is not None:
        needs = table.unknowns
        cls = next((_BY_CONDITION[n] for n in p.holds_at if n in _BY_CONDITION), _class_of(table))
        out.append(_bound(table, cls, needs, unknowns, p.holds_at, lambda a: _some_value(table, p, a)))
    return out


def _lanes_of_fragments(table: CallTable, unknowns: Sequence[Unknown]) -> list[Bound]:
    """What mma.sync asks of each operand by itself: which lane has which element, in whatever registers."""
    c = table.context
    out: list[Bound] = []
    for name, opened in table.opened.items():
        o = c.operands[name]
        if o.root.space != "local" or c.scope not in WARP_AXES:
            continue
        shape = const_shape(o.buffer)
        family = mma_fragments(shape, o.bits, c.participants // 32, WARP_AXES[c.scope])
        allowed = {_lanes(f) for f in family}

        def test(at: Assignment, opened: OpenOperand = opened, allowed: set[Layout] = allowed) -> str | None:
            mine = opened.layout_of(at[opened.unknown])
            if isinstance(mine, str):
                return mine
            return None if _lanes(mine) in allowed else "its lanes hold other elements than a fragment's"

        constraint = rules.MatrixFragment((o.buffer.name,), c.span, c.op, c.scope, c.index, ("lanes as in a fragment",))
        out.append(Bound(constraint, (opened.unknown,), test))
    return out


def _lanes(layout: Layout) -> Layout:
    """A layout of registers without the registers: which threads have an element."""
    if not isinstance(layout, TileLayout):
        return layout
    shard = tuple(i if i.axis.is_thread() else Iter(i.extent, 0) for i in layout.shard)
    return TileLayout(shard, tuple(i for i in layout.replica if i.axis.is_thread())).canonicalize()


def _some_value(table: CallTable, p: Premises, at: Assignment) -> str | None:
    """None if the conditions on a rule's parameter hold for some value."""
    last = "no value of its parameter is worth trying"
    for value in table.options(p, at):
        for name in p.holds_at:
            if (reason := table.holds_at(name, value, at)) is not None:
                last = reason
                break
        else:
            return None
    return last


def _hopeless(table: CallTable, at: Assignment, unknowns: Sequence[Unknown]) -> Bound:
    """A call that no layout helps: its dtypes, shapes, scope or threads rule out every variant."""
    failures = tuple(f"{name.split('/', 1)[1]}: {r[-1]}" for name, r in table.rejections(at).items() if r)
    why = "; ".join(failures)
    return _bound(table, rules.Hopeless, table.unknowns, unknowns, failures, lambda a: why)


def _whole(table: CallTable, possible: Sequence[Premises], unknowns: Sequence[Unknown]) -> Bound:
    names = tuple(dict.fromkeys(p.rule.name for p in possible))

    def test(at: Assignment) -> str | None:
        if any(passed for p in possible for _, passed in [table.passes(p, at)]):
            return None
        failures = [f"{name}: {r[-1]}" for name, r in table.rejections(at).items() if r and name in names]
        return "; ".join(failures) or "no variant has such operands"

    return _bound(table, _class_of(table), table.unknowns, unknowns, (), test)


def _bound(
    table: CallTable, cls: type[rules.CallConstraint], needs: tuple[int, ...], unknowns: Sequence[Unknown],
    conditions: tuple[str, ...], test: Callable[[Assignment], str | None],
) -> Bound:  # fmt: skip
    c = table.context
    names = tuple(dict.fromkeys(
        c.operands[n].buffer.name for n, o in table.opened.items() if o.unknown in needs
    ))  # fmt: skip
    return Bound(cls(names, c.span, c.op, c.scope, c.index, conditions), needs, test)


def _class_of(table: CallTable) -> type[rules.CallConstraint]:
    """The rule that a call as a whole stands for."""
    c = table.context
    spaces = {o.root.space for o in c.operands.values()}
    if c.op == "gemm":
        return rules.MatrixFragment
    if c.op in ("copy", "copy_async"):
        if spaces == {"tmem", "local"}:
            return rules.TensorMemoryTransfer
        if spaces == {"tmem", "shared"}:
            return rules.TensorMemoryCopy
        if c.op == "copy_async" and (c.call.config.get("mbar") is not None or c.active.single_thread()):
            return rules.TensorCopyBox
        return rules.VectorAccess
    family = FAMILIES.get(c.op)
    return {"map": rules.ElementwiseOwnership, "reduce": rules.ReductionOwnership}.get(str(family), rules.CallConstraint)


__all__ = ["Bound", "bind_calls", "bind_storage", "unlike"]
