"""Extents of ranges: cancelling equal terms in ``stop - start``.

``A[i * 32 : (i + 1) * 32]`` has 32 elements whatever ``i`` is; the tree keeps that number.  Nothing else is simplified
here.
"""

from __future__ import annotations

from . import dtype as dt
from .arith import const
from .expr import Add, Cast, Expr, FloorDiv, IntImm, Mul, Sub


def linear_form(e: Expr) -> tuple[dict[Expr, int], int]:
    """``e`` as a sum of coefficient times atom, plus a constant."""
    terms: dict[Expr, int] = {}
    rest = 0

    def walk(e: Expr, factor: int) -> None:
        nonlocal rest
        if isinstance(e, IntImm):
            rest += factor * int(e)
        elif isinstance(e, Add):
            walk(e.a, factor)
            walk(e.b, factor)
        elif isinstance(e, Sub):
            walk(e.a, factor)
            walk(e.b, -factor)
        elif isinstance(e, Mul) and isinstance(e.b, IntImm):
            walk(e.a, factor * int(e.b))
        elif isinstance(e, Mul) and isinstance(e.a, IntImm):
            walk(e.b, factor * int(e.a))
        else:
            terms[e] = terms.get(e, 0) + factor

    walk(e, 1)
    return terms, rest


def simplified(e: Expr) -> Expr:
    """``e`` with equal terms of its sums cancelled; unchanged if nothing cancels."""
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm):
        top = simplified(e.a)
        if isinstance(top, IntImm):
            return top // e.b
        return e
    if not isinstance(e, (Add, Sub)) or not dt.is_integer(e.dtype):
        return e
    terms, rest = linear_form(e)
    kept = {atom: k for atom, k in terms.items() if k}
    if not kept:
        return const(rest, e.dtype)
    nested = isinstance(e, Sub) and isinstance(e.b, (Add, Sub))
    if not nested and len(kept) == len(terms) and _count(e) <= len(kept) + (1 if rest else 0):
        return e
    return _rebuild(kept, rest, e.dtype)


def _count(e: Expr) -> int:
    """Leaves of the sum ``e``."""
    if isinstance(e, (Add, Sub)):
        return _count(e.a) + _count(e.b)
    return 1


def _rebuild(terms: dict[Expr, int], rest: int, dtype: str) -> Expr:
    """Positive terms and a positive constant first, then what is subtracted."""
    total: Expr | None = None
    for atom, k in terms.items():
        if k > 0:
            part = atom * k
            total = part if total is None else total + part
    if rest > 0 or total is None:
        total = const(rest, dtype) if total is None else total + rest
        rest = 0
    for atom, k in terms.items():
        if k < 0:
            total = total - atom * -k
    return total - -rest if rest < 0 else total


def difference(stop: Expr, start: Expr) -> Expr:
    """``stop - start`` with equal terms cancelled; casts of the same width are looked through."""
    while isinstance(stop, Cast) and isinstance(start, Cast) and stop.dtype == start.dtype:
        stop, start = stop.value, start.value
    return simplified(stop - start)
