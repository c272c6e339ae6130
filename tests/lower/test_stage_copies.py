"""Element-wise primitives on registers that other threads hold, compose_op in memory, and digits that aren't powers of two."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

AXES = "from tirx_eq.layout import laneid, tx\n"
QUAD = "TileLayout(S[(8,):(4 @ laneid,)] + R[4 : 1 @ laneid])"
TWO = 'A: Tx.Buffer((8, 8), "float32"), B: Tx.Buffer((8, 8), "float32")'
FRAGMENT = "TileLayout(S[(8, 4, 2):(4 @ laneid, 1 @ laneid, 1)])"
ROWS = "TileLayout(S[(8, 2, 2, 2):(1 @ laneid, 8 @ laneid, 16 @ laneid, 1)])"


def check(func, shapes, policies=("late", "random"), dtype="float32"):
    made = compile_function(func)
    given = [np.random.default_rng(k).integers(1, 9, s).astype(dt.numpy_dtype(dtype)) for k, s in enumerate(shapes)]
    wanted = interpret(func, *given)
    for policy in policies:
        result = made.simulate(*given, policy=policy, seed=3)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name, right in wanted.items():
            np.testing.assert_array_equal(np.asarray(result.arrays[name]).astype(float), np.asarray(right).astype(float), name)
    return made


CASES = {
    # the source is spread over the lanes in another way than the result
    "another distribution": f"""
a = Tx.alloc_local((2,), "float32")
b = Tx.alloc_local((2,), "float32")
va, vb = a.view(8, 8, layout={FRAGMENT}), b.view(8, 8, layout={ROWS})
Tx.warp.copy(vb[:, :], A[:, :])
Tx.warp.copy(va[:, :], B[:, :])
Tx.warp.sub(va[:, :], vb[:, :], va[:, :])
Tx.warp.copy(B[:, :], va[:, :])""",
    # a factor for each row, held by quads otherwise
    "a column of another distribution": f"""
a = Tx.alloc_local((2,), "float32")
r = Tx.alloc_local((1,), "float32")
va, vr = a.view(8, 8, layout={ROWS}), r.view(8, layout={QUAD})
Tx.warp.copy(va[:, :], A[:, :])
Tx.warp.copy(vr[:], A[:, 3])
vc = r.view(8, 1, layout={QUAD})
Tx.warp.mul(va[:, :], va[:, :], vc[:, :])
Tx.warp.copy(B[:, :], va[:, :])""",
    # copies in several threads: one of them writes
    "copies to memory": f"""
r = Tx.alloc_local((1,), "float32")
vr = r.view(8, 1, layout={QUAD})
Tx.warp.copy(vr[:, :], A[:, 2:3])
Tx.warp.add(B[:, 5:6], vr[:, :], 2.0)
Tx.warp.mul(B[:, 0:4], A[:, 0:4], vr[:, :])""",
    # in place in memory: all have read before one writes
    "copies to memory, in place": f"""
r = Tx.alloc_local((1,), "float32")
vr = r.view(8, 1, layout={QUAD})
Tx.warp.copy(vr[:, :], A[:, 2:3])
Tx.warp.sub(B[:, 5:6], B[:, 5:6], vr[:, :])""",
}


@pytest.mark.parametrize("what", CASES)
def test_registers_follow_who_computes(what):
    func = kernel("t = Tx.thread_id([32])" + CASES[what], TWO, AXES)
    made = check(func, [(8, 8), (8, 8)])
    assert sum(k.choice.context.op == "copy" for k in made.calls) > CASES[what].count(".copy(")


def test_copies_take_parts_of_the_columns():
    """The four lanes that have a row's factor compute a quarter of the row each."""
    func = kernel("t = Tx.thread_id([32])" + CASES["copies to memory"], TWO, AXES)
    (product,) = [k.choice for k in compile_function(func).calls if k.choice.context.op == "mul"]
    assert "(lanes=1)" in product.chosen.describe() and product.chosen.price.wavefronts <= 32


def test_each_warp_may_have_its_own_value():
    """The layout doesn't say that the warps' registers are copies: nobody knows whose is meant."""
    func = kernel(
        't = Tx.thread_id([64])\nr = Tx.alloc_local((1,), "float32")\n'
        "v = r.view(32, layout=TileLayout(S[(32,):(1 @ laneid,)]))\nr[0] = Tx.float32(1)\n"
        "Tx.cta.add(B[0:32], v[:], 1.0)", 'B: Tx.Buffer((32,), "float32")', AXES,
    )  # fmt: skip
    with pytest.raises(NoCandidate, match="2 threads hold the value of one element"):
        compile_function(func)


COMPOSED = """
t = Tx.thread_id([64])
s = Tx.alloc_shared((8, 16), "float16")
Tx.cta.copy(s[:, :], A[:, :])
Tx.cuda.cta_sync()
with Tx.compose_op():
    Tx.cta.add(s[:, 0:8], s[:, 0:8], s[:, 8:16])
    Tx.cta.mul(s[:, 1:8], s[:, 1:8], 2.0)
    Tx.cta.sum(B[:, 0], s[:, 0:8])
Tx.cuda.cta_sync()
Tx.cta.copy(A[:, :], s[:, :])
"""


def test_parts_of_a_composition_wait_for_each_other():
    """Neighbours are dealt out to other threads in each part."""
    check(kernel(COMPOSED, 'A: Tx.Buffer((8, 16), "float16"), B: Tx.Buffer((8, 1), "float16")'), [(8, 16), (8, 1)],
          dtype="float16")  # fmt: skip


@pytest.mark.parametrize("layout", [
    "S[(4, 24, 4):(24 @ tx, 1 @ tx, 1)]",  # 24 threads for a row of 96
    "S[(4, 96):(1, 1 @ tx)]", "S[(2, 2, 3, 32):(48 @ tx, 1, 1 @ tx, 2)] + R[16 : 3 @ tx]",
])  # fmt: skip
def test_rows_of_a_number_of_threads_that_is_no_power_of_two(layout):
    func = kernel(
        f't = Tx.thread_id([96])\na = Tx.alloc_local((64,), "float32")\nv = a.view(4, 96, layout=TileLayout({layout}))\n'
        "Tx.cta.copy(v[:, :], A[:, :])\nTx.cta.add(v[:, :], v[:, :], A[0:1, :])\nTx.cta.copy(B[:, :], v[:, :])",
        'A: Tx.Buffer((4, 96), "float32"), B: Tx.Buffer((4, 96), "float32")', AXES,
    )  # fmt: skip
    check(func, [(4, 96), (4, 96)], ("random",))
