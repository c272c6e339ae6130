"""Faults that were reported against other compilers, asked of this one: each its kind, not only its case."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError, TirxError
from tirx_eq.lower.kernel import compile_function

from .kernels import example, kernel


@pytest.mark.parametrize(("start", "size"), [(0, 16), (1, 4), (2, 8), (3, 4), (4, 16), (6, 8)])
def test_the_base_of_a_view_counts_for_alignment(start, size):
    """tile-ai/tilelang#2526: a copy was widened by looking at the index only; the view's base was 4 bytes off."""
    func = kernel(
        f"t = Tx.thread_id([32])\nV = Tx.decl_buffer((128,), 'int32', data=A.data, elem_offset={start})\n"
        "r = Tx.alloc_local((4,), 'int32')\nTx.copy(r[:], V[t * 4:t * 4 + 4])\nTx.copy(B[t * 4:t * 4 + 4], r[:])",
        "A: Tx.Buffer((1024,), 'int32'), B: Tx.Buffer((128,), 'int32')",
    )
    choice = compile_function(func).calls[0].choice
    assert choice.chosen.values == (size,)
    refused = {r.value: r.condition for found in choice.rejected.values() for r in found if r.value is not None}
    assert all("aligned" in refused[wider] for wider in (8, 16) if wider > size)
    outcome = execute(func)
    assert outcome.good, outcome.faults


@pytest.mark.parametrize("threads", [48, 40, 33, 63])
def test_a_partial_warp_needs_its_barrier(threads):
    """tile-ai/tilelang#2556: a barrier was left out because the guarded threads are no multiple of a warp."""
    lines = [
        "t = Tx.thread_id([64])", f"S_ = Tx.alloc_shared(({threads},), 'int32')", f"if t < {threads}:", "    S_[t] = t * 3",
        "Tx.cuda.cta_sync()", f"if t < {threads}:", f"    B[t] = S_[{threads - 1} - t]",
    ]  # fmt: skip
    params = f"B: Tx.Buffer(({threads},), 'int32')"
    assert execute(kernel("\n".join(lines), params)).good
    without = compile_function(kernel("\n".join(line for line in lines if "sync" not in line), params))
    faults = without.simulate(np.zeros(threads, np.int32)).faults
    assert faults and "not ordered" in str(faults[0])


@pytest.mark.parametrize("target", ["sm_90a", "sm_120a", "sm_121a"])
def test_tensor_memory_is_granted_by_target(target):
    """NVlabs/cuda-oxide#1194, tile-ai/tilelang#370: every Blackwell chip was taken for one with tensor memory."""
    with pytest.raises(LoweringError, match="the target has tensor memory"):
        compile_function(example("gemm_single_tile"), target)


@pytest.mark.parametrize("target", ["sm_100a", "sm_103a"])
def test_targets_with_tensor_memory(target):
    assert f".target {target}" in compile_function(example("gemm_single_tile"), target).ptx


def test_a_break_in_a_vectorized_loop_is_refused():
    """tile-ai/tilelang#2608: it vanished without a message."""
    with pytest.raises(TirxError, match="no meaning in a vectorized loop"):
        compile_function(kernel(
            "t = Tx.thread_id([1])\nfor i in Tx.vectorized(16):\n    if i == 5:\n        break\n    B[i] = i + 1",
            "B: Tx.Buffer((16,), 'int32')"))  # fmt: skip


@pytest.mark.parametrize(("start", "stop"), [(0, 4), (4, 8), (3, 7), (5, 6)])
def test_a_vectorized_loop_may_start_anywhere(start, stop):
    """tile-ai/tilelang#2669: one that starts at 4 crashed."""
    body = f"t = Tx.thread_id([1])\nfor i in Tx.vectorized({start}, {stop}):\n    B[i] = i"
    func = kernel(body, "B: Tx.Buffer((16,), 'int32')")
    found = compile_function(func).simulate(np.full(16, -1, np.int32)).arrays["B"]
    assert found.tolist() == [i if start <= i < stop else -1 for i in range(16)]
