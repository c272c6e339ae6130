"""Conditions on vector accesses: width, contiguity, alignment."""

from __future__ import annotations

import numpy as np

from ...ir import IntImm, Var
from ...ir.index import Term
from ...ir.index_ir import IndexScope
from ...prove import parity
from ...prove.verdict import Verdict
from ...ptx.target import target_has
from ..context import CallContext, Operand
from ..sharing.reduction import MemoryShare
from ..storage import has_constant_steps, strides_of
from .registry import OPTIONS, holds_at, regions

#: Conditions that hold for a width if they hold for twice the width: halves of contiguous, aligned groups are so too.
MONOTONE = frozenset(f"{what} in the {side}" for what in ("contiguous", "aligned") for side in ("source", "destination"))

OPTIONS["bytes"] = lambda c: [w for w in (32, 16, 8, 4, 2, 1) if all(w * 8 >= o.bits for o in regions(c))]



@holds_at("the access width exists for both spaces")
def _width(c: CallContext, w: int) -> str | None:
    # 32-byte accesses: ld/st.global only, sm_100 and PTX 8.8 (PTX ISA, ld and st).
    if w == 32 and any(o.root.space in ("shared", "cluster") for o in regions(c)):
        return "shared memory has accesses of at most 16 bytes"
    if w == 32 and not target_has(c.target, "sm_100"):
        return f"{c.target} has no 32-byte accesses"
    return None


def _contiguous(c: CallContext, o: Operand, w: int) -> str | None:
    """Whether every aligned group of elements that makes ``w`` bytes lies at consecutive addresses, in order."""
    lanes = w * 8 // o.bits
    if o.size % lanes:
        return f"{o.size} elements are not a multiple of {lanes}"
    if lanes == 1 or _within_rows(o, lanes) or _in_order(o, lanes):
        return None
    vector = Var("vector", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({vector: (0, o.size // lanes - 1)})
    if o.bits < 8:
        return _in_order_within_bytes(c, o, lanes, vector, scope)
    first = c.term(o.byte_offset(vector * lanes), scope)
    for lane in range(lanes - 1, 0, -1):
        here = c.term(o.byte_offset(vector * lanes + lane), scope)
        wanted = ("add", first, lane * o.bits // 8)
        if (found := _difference(c, here, wanted, scope)) is not None:
            where = f" at {found.counterexample}" if found.counterexample else ""
            return f"element {lane} of a group of {lanes} is not {lane * o.bits // 8} bytes after its first{where}"
    return None


def _difference(c: CallContext, before: Term, after: Term, scope: IndexScope) -> Verdict | None:
    """None if two terms are equal, else the verdict on them.  First comes the procedure that is quick and loads no library."""
    if parity.equal(before, after, scope.ranges):
        return None
    found = c.compare(before, after, scope)
    return None if found.status == "equal" else found


def _in_order_within_bytes(c: CallContext, o: Operand, lanes: int, vector: Var, scope: IndexScope) -> str | None:
    """Contiguity of elements of which a byte has several."""
    first = c.term(o.element_offset(vector * lanes), scope)
    for lane in range(1, lanes):
        here = c.term(o.element_offset(vector * lanes + lane), scope)
        if _difference(c, here, ("add", first, lane), scope) is not None:
            return f"element {lane} of a group of {lanes} is not {lane * o.bits} bits after its first"
    return None


def _in_order(o: Operand, lanes: int) -> bool:
    """Whether the elements of every group follow one another, looked at one by one: for a region that begins where it does."""
    fixed = all(isinstance(e, IntImm) for e in (o.buffer.elem_offset, *(r.min for r in o.region.region)))
    if not fixed or o.bits < 8 or not has_constant_steps(o.buffer):
        return False
    places = o.places({})
    if set(places) != {"byte"}:
        return False
    groups = places["byte"].reshape(-1, lanes)
    return bool((groups == groups[:, :1] + np.arange(lanes) * (o.bits // 8)).all())


def _within_rows(o: Operand, lanes: int) -> bool:
    """Whether groups lie within rows of a buffer without a layout of its own, and whose rows are contiguous."""
    b = o.buffer
    step = strides_of(b)[-1] if b.ndim else None
    plain = b.layout is None or b.layout.is_default(b.shape)
    return plain and isinstance(step, IntImm) and step.value == 1 and o.extents[-1] % lanes == 0


def _aligned(c: CallContext, o: Operand, w: int) -> str | None:
    """Whether the first byte of every group is at a multiple of ``w`` bytes, the root's own alignment included."""
    if o.root.space == "local":
        return _in_whole_registers(o, w)
    if o.root.align % w:
        return f"'{o.buffer.name}' is known to be aligned to {o.root.align} bytes only"
    lanes = w * 8 // o.bits
    if o.size % lanes:
        return f"{o.size} elements are not a multiple of {lanes}"
    vector = Var("vector", "int32")  # type: ignore[arg-type]
    scope = c.scope_with({vector: (0, o.size // lanes - 1)})
    at, period = (o.element_offset(vector * lanes), lanes) if o.bits < 8 else (o.byte_offset(vector * lanes), w)
    found = _difference(c, ("mod", c.term(at, scope), period), 0, scope)
    if found is None:
        return None
    return f"an access is not at a multiple of {w} bytes" + (f", at {found.counterexample}" if found.counterexample else "")


def _in_whole_registers(o: Operand, w: int) -> str | None:
    """Whether no group of a thread's registers begins within one that it goes beyond; parts of a register are in one."""
    if not all(isinstance(r.min, IntImm) for r in o.region.region):
        return None  # registers begin at a constant: another condition says so
    unit = min(w * 8, o.root.word_bits)
    bits = o.bit_places({}).ravel()[:: max(1, w * 8 // o.bits)]
    bad = np.flatnonzero(bits % unit)
    if not len(bad):
        return None
    return f"a group begins at bit {int(bits[bad[0]])} of a thread's registers, not at a multiple of {unit}"


#: For conditions on other operands.
contiguous, aligned = _contiguous, _aligned

holds_at("contiguous in the source")(lambda c, w: _contiguous(c, c.inputs[0], w))
holds_at("contiguous in the destination")(lambda c, w: _contiguous(c, c.outputs[0], w))
holds_at("aligned in the source")(lambda c, w: _aligned(c, c.inputs[0], w))
holds_at("aligned in the destination")(lambda c, w: _aligned(c, c.outputs[0], w))


def row_vector(c: CallContext, share: MemoryShare) -> int:
    """Elements of a row of memory that one access can read: consecutive, a multiple for every lane, contiguous and aligned."""
    return c.once(("reduce vector", share.group), lambda: _row_vector(c, share))


def _row_vector(c: CallContext, share: MemoryShare) -> int:
    src = c.inputs[0]
    length = share.members.shape[1]
    for n in (16, 8, 4, 2):
        width = n * src.bits // 8
        if width > 16 or length % (n * share.group):
            continue
        runs = share.members.reshape(len(share.members), -1, n)
        if (runs != runs[:, :, :1] + np.arange(n)).any() or (runs[:, :, 0] % n).any():
            continue
        if (contiguous(c, src, width) or aligned(c, src, width)) is None:
            return n
    return 1
