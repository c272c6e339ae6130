"""Regions whose beginning is known at run time only, and calls that several warps issue, each its own."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.errors import LoweringError, ProofError
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.variants import tmem

from .kernels import kernel
from .test_run_ladder import damaged, operands, product

#: A warpgroup writes two tiles of tensor memory and reads the one that an argument names.
COPY = """
wg = Tx.warpgroup_id([1])
warp = Tx.warp_id_in_wg([4])
tid = Tx.thread_id([128])
addr = Tx.alloc_shared([1], "uint32")
if warp == 0:
    Tx.ptx.tcgen05.alloc(Tx.address_of(addr[0]), n_cols=128, cta_group=1)
tmem = Tx.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=addr[0], layout={layout})
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
r = Tx.alloc_local((32,), "float32")
tile = r.view(128, 32, layout=TileLayout(S[(128, 32) : (1 @ tid_in_wg, 1)]))
for k in Tx.serial(2):
    Tx.copy(r[:], A[tid, k * 32 : k * 32 + 32])
    Tx.wg.copy_async(tmem[:, k * 64 : k * 64 + 32], tile[:, :])
Tx.ptx.tcgen05.wait.st()
which: Tx.int32 = {which}
Tx.wg.copy_async(tile[:, :], tmem[:, {first} : {first} + 32])
Tx.ptx.tcgen05.wait.ld()
Tx.copy(C[tid, :], r[:])
Tx.ptx.tcgen05.fence.before_thread_sync()
Tx.cuda.cta_sync()
Tx.ptx.tcgen05.fence.after_thread_sync()
if warp == 0:
    Tx.ptx.tcgen05.relinquish_alloc_permit(cta_group=1)
    Tx.ptx.tcgen05.dealloc(addr[0], n_cols=128, cta_group=1)
"""
PLAIN = "TileLayout(S[(128, 128) : (1 @ TLane, 1 @ TCol)])"
PARAMS = 'A: Tx.Buffer((128, 64), "float32"), I: Tx.Buffer((1,), "int32"), C: Tx.Buffer((128, 32), "float32")'


def build(layout=PLAIN, which="Tx.min(Tx.max(I[0], 0), 1)", first="which * 64"):
    return kernel(COPY.format(layout=layout, which=which, first=first), PARAMS)


@pytest.mark.parametrize("which", [0, 1])
def test_a_tile_of_tensor_memory_chosen_at_run_time(which):
    a = np.random.default_rng(0).standard_normal((128, 64)).astype(np.float32)
    made = compile_function(build())
    result = made.simulate(a, np.array([which], np.int32), np.zeros((128, 32), np.float32))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["C"], a[:, 32 * which : 32 * which + 32])


def test_a_start_that_can_be_anywhere_is_refused():
    with pytest.raises(LoweringError, match="may begin at"):
        compile_function(build(which="I[0]"))


def test_a_region_that_changes_shape_as_it_moves_is_refused():
    layout = "TileLayout(S[(128, 4, 32) : (1 @ TLane, 32 @ TCol, 1 @ TCol)])"
    assert compile_function(build(layout))
    swapped = "TileLayout(S[(128, 2, 2, 32) : (1 @ TLane, 32 @ TCol, 64 @ TCol, 1 @ TCol)])"
    with pytest.raises(LoweringError, match="has another shape"):
        compile_function(build(swapped, first="which * 16"))


def test_the_equation_notices_a_column_that_does_not_move(monkeypatch):
    monkeypatch.setattr(tmem, "first_column", lambda c, o, wanted: wanted)
    with pytest.raises(ProofError, match="layout equation"):
        compile_function(build())


def test_warps_that_mean_the_same_accumulator_are_refused():
    func = damaged(
        "gemm_two_consumers", "acc[:, warp_id * BN : warp_id * BN + BN], A_s", "acc[:, 0:BN], A_s"
    )
    with pytest.raises(LoweringError, match="which mean the same 'C'"):
        compile_function(func)


def test_each_warp_multiplies_its_own_rows():
    func = damaged("gemm_two_consumers", "A_s[use.stage, warp_id, :, :]", "A_s[use.stage, 1 - warp_id, :, :]")
    a, b, d = operands(func)
    result = compile_function(func).simulate(a, b, d)
    got = result.arrays["D"].reshape(-1, 2, 128, d.shape[1])[:, ::-1].reshape(d.shape)
    np.testing.assert_array_equal(got, product(a, b))


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
def test_rows_that_an_array_of_any_integer_type_names(dtype):
    func = kernel(
        "bx = Tx.cta_id([5])\ntx = Tx.thread_id([16])\nTx.copy(Y[bx, tx * 8 : tx * 8 + 8], W[N[bx], tx * 8 : tx * 8 + 8])",
        f'N: Tx.Buffer((5,), "{dtype}"), W: Tx.Buffer((100, 128), "float16"), Y: Tx.Buffer((5, 128), "float16")',
    )
    names, rows = np.array([3, 99, 0, 3, 50], dtype), np.random.default_rng(0).standard_normal((100, 128)).astype(np.float16)
    found = compile_function(func).simulate(names, rows, np.zeros((5, 128), np.float16))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["Y"], rows[names.astype(np.int64)])
