"""Conditions on products of matrices in registers with mma.sync (PTX ISA 9.7.14.5)."""

from __future__ import annotations

from ...ptx.target import target_has
from ..context import CallContext
from ..mma_sync import SWAPPED, kind_of, mma_plan
from ..product import is_number, plain, product_of, uses_addend
from .elementwise import apart, same_elements
from .registry import OPTIONS, holds, holds_at, in_space


def _codes(c: CallContext) -> list[int]:
    kind = kind_of(c)
    return [k + s for s in (0, SWAPPED) for k in kind.depths] if kind else []


OPTIONS["mma"] = _codes


@holds("whole warps multiply")
def _warps(c: CallContext) -> str | None:
    if c.scope == "thread":
        return "the call is at thread scope; mma.sync is executed by the 32 lanes of a warp together"
    return None if c.active.whole(32) else f"it is reached by {c.active.describe()}, not by whole warps"


@holds("all matrices in registers")
def _registers(c: CallContext) -> str | None:
    names = "DABC" if uses_addend(c) else "DAB"
    return next((r for n in names if (r := in_space(c.operands[n], "local"))), None)


@holds("an mma.sync takes the dtypes")
def _kind(c: CallContext) -> str | None:
    a, b, d = (c.operands[n].dtype for n in "ABD")
    kind = kind_of(c)
    if kind is None:
        return f"no mma.sync takes A of {a}, B of {b} and an accumulator of {d}"
    if uses_addend(c) and c.operands["C"].dtype != d:
        return f"C is of {c.operands['C'].dtype}, D of {d}"
    return None if not kind.feature or target_has(c.target, kind.feature) else f"{c.target} lacks the one for {a}, {b} and {d}"


@holds("the matrices' shapes agree")
def _shapes(c: CallContext) -> str | None:
    found = product_of(c)
    return found if isinstance(found, str) else None


@holds("alpha is 1 and beta is 0 or 1")
def _factors(c: CallContext) -> str | None:
    alpha, beta = (plain(c.call.operand(n)) for n in ("alpha", "beta"))
    if is_number(alpha, 1) and (is_number(beta, 0) or is_number(beta, 1)):
        return None
    shown = (v if isinstance(v, (int, float)) else "known at run time only" for v in (alpha, beta))
    return "alpha is {}, beta is {}".format(*shown)


@holds("D has 32 or 64 bits")
def _wide(c: CallContext) -> str | None:
    """Sums of fewer bits would be rounded once more before they are scaled."""
    d = c.operands["D"]
    return None if d.bits >= 32 else f"D is of {d.dtype}, to which sums would be rounded before they are scaled"


@holds("the accumulator overwrites no operand")
def _own(c: CallContext) -> str | None:
    """D may be C, element by element; other sharing would overwrite what a later instruction reads."""
    d = c.operands["D"]
    for name in "ABC" if uses_addend(c) else "AB":
        o = c.operands[name]
        if o.root != d.root:
            continue
        local = o.root.space == "local"
        if name == "C" and (same_elements(o, d) or (local and (o.places({})["byte"] == d.places({})["byte"]).all())):
            continue
        if local or not apart(o, d):
            return f"'D' and '{name}' may overlap in '{d.root.name}'"
    return None


@holds_at("lanes hold the fragments of the instruction")
def _fragments(c: CallContext, code: int) -> str | None:
    found = mma_plan(c, code)
    return found if isinstance(found, str) else None
