"""Lowerings chosen together: what several calls have in common is paid once, and the least sum over the kernel is found."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.lower import selection
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.selection import Option, select, total

from .kernels import kernel

PRICES = st.integers(0, 12).map(float)
OPTIONS = st.builds(Option, PRICES, st.frozensets(st.sampled_from("abcd"), max_size=2))
CALLS = st.lists(st.lists(OPTIONS, min_size=1, max_size=4), min_size=1, max_size=5)
SHARED = st.fixed_dictionaries(dict.fromkeys("abcd", PRICES))


@given(CALLS, SHARED)
@settings(max_examples=150, deadline=None)
def test_nothing_is_cheaper(calls, shared):
    best = min(total(calls, ks, shared) for ks in product(*(range(len(c)) for c in calls)))
    assert total(calls, select(calls, shared), shared) == pytest.approx(best)


@given(CALLS, SHARED)
@settings(max_examples=25, deadline=None)
def test_the_integer_program_agrees(calls, shared):
    pytest.importorskip("highspy")
    few, selection.FEW = selection.FEW, 0
    try:
        found = select(calls, shared)
    finally:
        selection.FEW = few
    assert total(calls, found, shared) == pytest.approx(total(calls, select(calls, shared), shared))


def test_large_groups():
    """Twelve calls of four candidates: each alone takes its own, together they share one."""
    pytest.importorskip("highspy")
    calls = [[Option(1.0, frozenset((f"own {c}",))), *(Option(2.0, frozenset((key,))) for key in "xyz")] for c in range(12)]
    shared = {**{f"own {c}": 3.0 for c in range(12)}, "x": 4.0, "y": 4.0, "z": 4.0}
    found = select(calls, shared)
    assert found == [1] * 12
    assert total(calls, found, shared) == 28.0 < total(calls, [0] * 12, shared) == 48.0


PIECES = """
tid = Tx.thread_id([128])
w = Tx.warp_id([4])
pool = Tx.SMEMPool()
s = pool.alloc((8, 32), "float16", align=1024)
bar = pool.alloc((1,), "uint64", align=8)
pool.commit()
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 512)
Tx.cuda.cta_sync()
if w == 0:
    if Tx.ptx.elect_sync():
        for i in Tx.unroll(4):
            Tx.copy_async(s[i * 2 : i * 2 + 2, :], A[20 - i * 6 : 22 - i * 6, :], mbar=bar.ptr_to([0]))
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.copy(B[:, :], s[:, :])
"""
PIECES_PARAMS = 'A: Tx.Buffer((64, 32), "float16"), B: Tx.Buffer((8, 32), "float16")'


def test_one_tensor_map_for_pieces_that_each_alone_would_have_their_own():
    """Two rows at the start of a plain tile are a box under any swizzle, the others under none only: one map serves all."""
    func = kernel(PIECES, PIECES_PARAMS)
    made = compile_function(func)
    loads = [c.choice for c in made.calls if c.choice.context.op == "copy_async"]
    first, *rest = loads
    assert len(first.candidates) > 1 and all(len(c.candidates) == 1 for c in rest)
    assert first.candidates[0].values != rest[0].chosen.values, "by itself the first would take another map"
    assert {c.chosen.values for c in loads} == {rest[0].chosen.values}
    assert first.chosen.cycles == first.candidates[0].cycles
    assert [p.name for p in made.launch.params if p.tensor_map] == ["A_map"]
    a = np.arange(64 * 32).reshape(64, 32).astype(np.float16)
    result = made.simulate(a, np.zeros((8, 32), np.float16))
    assert not result.faults
    np.testing.assert_array_equal(result.arrays["B"], np.concatenate([a[20 - 6 * i : 22 - 6 * i] for i in range(4)]))
