"""The optimum against enumeration: every combination of candidates is filled in, and priced by the compiler's own choice."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from tirx_eq.errors import TirxError
from tirx_eq.lower.candidates import choose
from tirx_eq.solve.erase import with_layouts
from tirx_eq.solve.problem import build
from tirx_eq.solve.solve import solve
from tirx_eq.solve.uses import uses_of

from . import kernels

MOST = 120  # combinations of a kernel

CASES = {
    **{f"transpose {n} {t}": kernels.transpose(n, t) for n, t in
       [(8, "float32"), (16, "float32"), (32, "float32"), (8, "float16"), (16, "float16"), (32, "float16"), (16, "int8")]},
    **{f"through shared {r}x{c} {t}": kernels.through_shared(r, c, t) for r, c, t in
       [(8, 64, "float16"), (16, 32, "float32"), (4, 128, "int8"), (32, 16, "float16")]},
    **{f"columns {n} {t}": kernels.copied_then_columns(n, t) for n, t in [(8, "float32"), (16, "float16"), (16, "float32")]},
    **{f"{op} of rows {r}x{c} {t}": kernels.row_sums(r, c, h, t, op) for r, c, h, t, op in
       [(2, 32, 2, "float16", "sum"), (4, 32, 4, "float32", "max"), (4, 64, 8, "float16", "min"), (8, 16, 4, "float16", "sum"),
        (1, 128, 4, "float32", "sum"), (2, 64, 4, "bfloat16", "max")]},
    **{f"squares {r}x{c} {t} to {o}": kernels.scaled(r, c, t, o) for r, c, t, o in
       [(2, 32, "float16", "float32"), (4, 32, "float32", "float16"), (1, 64, "float16", "float16"),
        (8, 8, "float32", "float32")]},
    "B is MN-major": kernels.product(32, 16, trans_b=True, a='Tx.auto(swizzle="32B")', b="Tx.auto"),
    "B alone": kernels.product(16, 16, a='Tx.auto(swizzle="32B")', b="Tx.auto"),
    "A alone": kernels.product(16, 16, a="Tx.auto", b='Tx.auto(swizzle="32B")'),
    "A and B of one mode": kernels.product(32, 16, a='Tx.auto(swizzle="32B")', b='Tx.auto(swizzle="32B")'),
    "fp8": kernels.product(32, 32, "float8_e4m3fn", a='Tx.auto(swizzle="32B")', b='Tx.auto(swizzle="32B")'),
    "int8": kernels.product(32, 32, "int8", a='Tx.auto(swizzle="32B")', b="Tx.auto(swizzle='none')"),
    "tf32": kernels.product(16, 8, "float32", a='Tx.auto(swizzle="32B")', b='Tx.auto(swizzle="32B")'),
    "by tensor copies": kernels.product(16, 16, a='Tx.auto(swizzle="32B")', b='Tx.auto(swizzle="32B")', tma=True),
}  # fmt: skip


def enumerated(func):
    """The least cost over all combinations, and how many there are; each is lowered from scratch."""
    problem = build(func, "sm_100a")
    stated = [b for b in problem.bounds if not hasattr(b.constraint, "op")]  # by declarations, not by calls
    sides = [
        [w for w in d if all(b.test({u: w}) is None for b in stated if b.unknowns == (u,))]
        for u, d in enumerate(problem.domains)
    ]
    assert prod(len(s) for s in sides) <= MOST, [len(s) for s in sides]
    best, tried = None, 0
    for layouts in product(*sides):
        at = dict(enumerate(layouts))
        if any(b.test(at) is not None for b in stated):
            continue
        tried += 1
        try:
            uses = uses_of(with_layouts(func, problem.layouts(at)), "sm_100a")
            cost = sum(w * c.chosen.cycles for w, c in zip(uses.weights, choose(uses.contexts)))
        except TirxError:
            continue
        cost += sum(s.weight * s.price(at).cycles() for s in problem.scalars)
        cost += sum(s.weight * s.fixed_price().cycles() for s in problem.fixed)
        best = cost if best is None else min(best, cost)
    return best, tried


@pytest.mark.parametrize("name", CASES)
def test_optimum_is_that_of_enumeration(name):
    func = CASES[name]
    solution = solve(func, alternatives=False)
    best, tried = enumerated(func)
    assert best is not None and tried >= 2
    assert solution.optimal and solution.objective == pytest.approx(best, abs=1e-6)


def test_there_are_thirty():
    assert len(CASES) >= 30
