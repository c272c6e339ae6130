"""Addresses of neighbouring elements are written so that what they have in common is computed once."""

from __future__ import annotations

from tirx_eq.egraph.simplify import simplify, simplify_all
from tirx_eq.ir.index import postorder

RANGES = {"t": (0, 255)}


def addresses(offset: int) -> list:
    """Eight vectors of a row of a swizzled tile, as layouts give them."""
    return [
        ("add", ("add", ("mul", ("mod", "t", 128), 128), ("mul", ("xor", ("mod", "t", 8), k), 16)), offset) for k in range(8)
    ]


def operations(results) -> int:
    """Different operations of all the expressions together."""
    return len({t for r in results for t in postorder(r.expr) if isinstance(t, tuple)})


def test_one_exclusive_or_per_address():
    results = simplify_all(addresses(0), RANGES)
    assert operations(results) == 5 + 7
    assert all(r.cost <= simplify(t, RANGES).cost for t, r in zip(addresses(0), results))


def test_below_a_constant_too():
    results = simplify_all(addresses(4096), RANGES)
    assert operations(results) == 5 + 7 + 8
    assert all(r.expr[0] == "add" and r.expr[2] == 4096 for r in results)
