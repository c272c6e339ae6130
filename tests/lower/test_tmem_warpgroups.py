"""Tensor memory at CTA scope in CTAs of several warpgroups: each has what its layout says, or columns of its own."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel, with_tensor_memory

SYNC = "Tx.ptx.tcgen05.fence.before_thread_sync()\nTx.cuda.cta_sync()\nTx.ptx.tcgen05.fence.after_thread_sync()\n"
HALVES = "S[(4, 32, 2, 8):(1 @ warpid, 1 @ laneid, 4 @ warpid, 1)]"


def func_of(body: str, layout: str = HALVES, dtype: str = "float32", registers: int = 16, threads: int = 256):
    return kernel(
        f"tid = Tx.thread_id([{threads}])\nw = Tx.warp_id([{threads // 32}])\n" + with_tensor_memory(f"""
t = Tx.decl_buffer((128, 16), "{dtype}", scope="tmem", allocated_addr=addr[0],
                   layout=TileLayout(S[(128, 16):(1 @ TLane, 1 @ TCol)]))
a = Tx.alloc_local(({registers},), "{dtype}")
b = Tx.alloc_local(({registers},), "{dtype}")
va = a.view(128, 16, layout=TileLayout({layout}))
vb = b.view(128, 16, layout=TileLayout({layout}))
{body}
""", 64),
        f'A: Tx.Buffer((128, 16), "{dtype}"), B: Tx.Buffer((128, 16), "{dtype}")',
        "from tirx_eq.layout import laneid, warpid, wid_in_wg, wgid, tx\n",
    )


def there_and_back(fill: str, store: str) -> str:
    return f"""{fill}
Tx.cta.copy_async(t[:, :], va[:, :])
Tx.ptx.tcgen05.wait.st()
{SYNC}
Tx.cta.copy_async(vb[:, :], t[:, :])
Tx.ptx.tcgen05.wait.ld()
{store}"""


OVER_THE_CTA = there_and_back("Tx.cta.copy(va[:, :], A[:, :])", "Tx.cta.copy(B[:, :], vb[:, :])")
ROWS_OF_SOME = "if {0}:\n    Tx.copy({1}, {2})"


def executed(func, policies=("late",)):
    made = compile_function(func)
    made.assemble()
    (buffer, _) = func.buffer_map.values()
    given = np.random.default_rng(7).integers(0, 50, buffer.const_shape()).astype(dt.numpy_dtype(buffer.dtype))
    empty = np.zeros_like(given)
    wanted = np.asarray(interpret(func, given, empty)["B"])
    for policy in policies:
        result = made.simulate(given, empty, policy=policy, seed=3)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(result.arrays["B"].astype(float), wanted.astype(float))
    return made, given, wanted


def moves(made):
    return [line.split()[0] for line in made.ptx.splitlines() if "tcgen05.ld" in line or "tcgen05.st" in line]


@pytest.mark.parametrize(
    ("layout", "registers", "dtype", "found"),
    [
        (HALVES, 8, "float32", ["x8"]), (HALVES.replace("4 @ warpid", "1 @ wgid"), 8, "float16", ["x4"]),
        ("S[(128, 4, 2, 2):(1 @ tx, 2, 128 @ tx, 1)]", 8, "float32", ["x2"] * 4),  # columns in turn: two, four times
        ("S[(128, 2, 8):(1 @ tx, 128 @ tx, 1)]", 8, "float64", ["x16"]),
    ],
)
def test_columns_by_warpgroup(layout, registers, dtype, found):
    made, given, wanted = executed(func_of(OVER_THE_CTA, layout, dtype, registers), ("late", "random"))
    np.testing.assert_array_equal(wanted, given)
    assert [m.split(".")[-2] for m in moves(made)] == found * 2
    assert all(call.equation.status == "equal" for call in made.calls)


def test_rows_of_one_of_them_and_copies_in_all():
    rows = "S[(128, 16):(1 @ tx, 1)]"
    for layout, which in ((f"{rows} + 128 @ tx", "tid >= 128"), (f"{rows} + R[2:128 @ tx]", "True")):
        body = there_and_back(
            ROWS_OF_SOME.format(which, "a[:]", "A[tid % 128, :]"),
            ROWS_OF_SOME.format("tid >= 128", "B[tid % 128, :]", "b[:]"))  # fmt: skip
        made, given, wanted = executed(func_of(body, layout))
        np.testing.assert_array_equal(wanted, given)
        assert moves(made) == ["tcgen05.st.sync.aligned.32x32b.x16.b32", "tcgen05.ld.sync.aligned.32x32b.x16.b32"]


STAGED = "Tx.cta.copy(t[:, :], A[:, :])\n" + SYNC + "Tx.cta.{0}\n" + SYNC + "Tx.cta.copy(B[:, :], t[:, :])"


@pytest.mark.parametrize(
    ("statement", "threads", "widths"),
    [
        ("mul(t[:, :], t[:, :], 2.0)", 256, [8, 8]), ("mul(t[:, :], t[:, :], 2.0)", 512, [4, 4]),
        ("add(t[:, :], t[:, :], t[:, 0:1])", 256, [16, 1, 16]),  # one column is read by all that are written
        ("sum(t[:, 0:1], t[:, :])", 256, [16, 1]), ("fill(t[:, 0:2], 3.0)", 512, [2]),
        ("mul(t[:, :], t[:, :], 2.0)", 192, [16, 16]), ("mul(t[:, :], t[:, :], 2.0)", 384, [16, 16]),
        ("unary_reduce(t[:, :], t[:, 1:2], t[:, :], 'reciprocal', 'max')", 256, [8, 8, 16, 1]),
    ],
)
def test_primitives(statement, threads, widths):
    made, _, _ = executed(func_of(STAGED.format(statement), threads=threads))
    assert [int(m.split(".")[-2][1:]) for m in moves(made)][1:-1] == widths


def test_the_layout_of_registers_that_the_kernel_has():
    body = "Tx.cta.copy(t[:, :], A[:, :])\n" + SYNC + "Tx.cta.add(va[:, :], t[:, :], 1.0)\nTx.cta.copy(B[:, :], va[:, :])"
    _, given, wanted = executed(func_of(body, registers=8))
    np.testing.assert_array_equal(wanted, given + 1)


def test_what_no_warpgroup_reaches():
    """Rows that a warp holds but doesn't reach; and warps that are no whole warpgroup."""
    turned = "S[(4, 32, 2, 8):(2 @ warpid, 1 @ laneid, 1 @ warpid, 1)]"
    with pytest.raises(NoCandidate, match="has another shape in tensor memory"):
        compile_function(func_of(OVER_THE_CTA, turned, registers=8))
    with pytest.raises(NoCandidate, match="not the 128"):
        compile_function(func_of(there_and_back("", ""), "S[(128, 16):(1 @ tid_in_wg, 1)]"))  # whose value is stored?
    with pytest.raises(NoCandidate, match="not the 128"):
        compile_function(func_of(OVER_THE_CTA, "S[(64, 2, 16):(1 @ tx, 16, 1)]", registers=32, threads=64))
