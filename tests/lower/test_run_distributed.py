# ruff: noqa: E501
"""Calls of a cluster on what its CTAs have of their own: registers, shared and tensor memory, spread by the axes cbx, cby, cbz."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.errors import LoweringError, TirxError
from tirx_eq.interp.faults import InterpreterError
from tirx_eq.interp.run import interpret
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.solve.compile import compile_open

from .distributed_kernels import AXES, CLUSTERS, OUT, SYNC, built, run
from .kernels import kernel, with_tensor_memory

BODIES = {
    "registers": ["Tx.cluster.copy(d[:, :], A[:, :])", OUT],
    "shared memory": ["Tx.cluster.copy(s[:, :], A[:, :])", SYNC, "Tx.cluster.copy(D[:, :], s[:, :])"],
    "swizzled": ["Tx.cluster.copy(z[:, :], A[:, :])", SYNC, "Tx.cluster.copy(d[:, :], z[:, :])", OUT],
    "a copy in every CTA": ["Tx.cluster.copy(q[:, :], A[:, :])", SYNC, "Tx.cluster.mul(d[:, :], q[:, :], B[:, :])", OUT],
    "everywhere": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.copy(s[:, :], B[:, :])", SYNC,
                   "Tx.cluster.fma(d[:, :], a[:, :], s[:, :], C[:, :])", OUT],
    "straight to global memory": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.add(D[:, :], a[:, :], B[:, :])"],
    "fill": ["Tx.cluster.fill(d[:, :], 3.0)", "Tx.cluster.zero(s[:, :])", SYNC, "Tx.cluster.sub(d[:, :], s[:, :], d[:, :])", OUT],
    "cast": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.cast(h[:, :], a[:, :])", "Tx.cluster.cast(d[:, :], h[:, :])", OUT],
    "select": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.select(d[:, :], a[:, :], B[:, :], lambda i, j: (i * 5 + j) % 7 < 3)", OUT],
    "permutation": ["Tx.cluster.copy(z[:, :], A[:, :])", SYNC, "Tx.cluster.permute_layout(s[:, :], z[:, :])", SYNC,
                    "Tx.cluster.copy(D[:, :], s[:, :])"],
    "chain": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.binary_chain(d[:, :], a[:, :], B[:, :], 2.0, 'mul', 'add')", OUT],
    "rows of the second CTA": ["Tx.cluster.copy(D[:, :], C[:, :])", "Tx.cluster.copy(s[:, :], A[:, :])", "Tx.cuda.cluster_sync()",
                               "Tx.cluster.copy(D[{last} + 8 : {last} + 24, :], s[{last} + 8 : {last} + 24, :])"],
    "reduction of rows": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.sum(e[:, :], a[:, :])", "Tx.cluster.copy(E[:, :], e[:, :])"],
    "reduction in shared memory": ["Tx.cluster.copy(s[:, :], A[:, :])", SYNC, "Tx.cluster.max(E[:, :], s[:, :])"],
    "map and reduction": ["Tx.cluster.copy(a[:, :], A[:, :])",
                          "Tx.cluster.unary_reduce(d[:, :], e[:, :], a[:, :], 'reciprocal', 'max')", OUT, "Tx.cluster.copy(E[:, :], e[:, :])"],
    "map and reduction in shared memory": ["Tx.cluster.copy(s[:, :], A[:, :])", SYNC,
                                           "Tx.cluster.binary_reduce(s[:, :], E[:, :], s[:, :], B[:, :], 'mul', 'sum')"],
    "composition": ["Tx.cluster.copy(a[:, :], A[:, :])", "with Tx.compose_op():\n    Tx.cluster.add(d[:, :], a[:, :], B[:, :])\n"
                    "    Tx.cluster.mul(d[:, :], d[:, :], B[:, :])", OUT],
    "product": ["Tx.cluster.copy(s[:, :], A[:, :])", "Tx.cluster.copy(m[:, :], W[:, :])", SYNC,
                "Tx.cluster.gemm(d[:, :], s[:, :], m[:, :], C[:, :], beta=1)", OUT],
    "product of all places": ["Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.gemm(d[:, :], a[:, :], W[:, :], C[:, :], beta=1)", OUT],
    "cp.async": ["Tx.cluster.copy_async(s[:, :], A[:, :])", "Tx.ptx.cp_async.commit_group()", "Tx.ptx.cp_async.wait_group(0)", SYNC,
                 "Tx.cluster.copy(d[:, :], s[:, :])", OUT],
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_each_cta_makes_what_it_has(name):
    run(*built(BODIES[name], "two"))


@pytest.mark.parametrize("cluster", [c for c in CLUSTERS if c != "two"])
@pytest.mark.parametrize("name", ["registers", "everywhere", "select", "rows of the second CTA", "map and reduction in shared memory"])
def test_clusters_of_other_shapes(name, cluster):
    run(*built(BODIES[name], cluster), ["random"])


TILE = "ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[({digits}{rows}, 64):({axes}64, 1)]))"
LOADS = """
r = Tx.cta_id_in_cluster([2])
f = Tx.cta_id([2])
t = Tx.thread_id([128])
w = Tx.warp_id([4])
pool = Tx.SMEMPool()
sa = pool.alloc((256, 64), "float16", layout={a})
sb = pool.alloc((64, 64), "float16", layout={b})
bar = pool.alloc((2,), "uint64", align=8)
pool.commit()
if t == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.mbarrier.init(bar.ptr_to([1]), 1)
    Tx.ptx.fence.mbarrier_init()
    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 128 * 128 + 64 * 128)
Tx.cuda.cta_sync()
Tx.cluster.copy_async(sa[:, :], A[:, :], mbar=bar.ptr_to([0]), dispatch="tma")
Tx.cluster.copy_async(sb[:, :], W[:, :], mbar=bar.ptr_to([0]), dispatch="tma")
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
""".format(a=TILE.format(digits="2, ", axes="1 @ cbx, ", rows=128), b=TILE.format(digits="", axes="", rows=64))
STORE = """
Tx.cluster.copy_async(D[:, :], sa[:, :], dispatch="tma")
Tx.ptx.cp_async.bulk.commit_group()
Tx.ptx.cp_async.bulk.wait_group(0)
"""
PRODUCT = """
acc = Tx.decl_buffer((256, 64), "float32", scope="tmem", allocated_addr=addr[0], layout=TileLayout(S[(2, 128, 64):(1 @ cbx, 1 @ TLane, 1 @ TCol)]))
{again}
Tx.cluster.gemm_async(acc[:, :], sa[:, :], sb[:, :], accum=False, cta_group=1)
if w == 0:
    if Tx.ptx.elect_sync():
        Tx.ptx.tcgen05.commit(bar.ptr_to([1]), cta_group=1)
Tx.ptx.mbarrier.try_wait(bar.ptr_to([1]), 0)
Tx.ptx.tcgen05.fence.after_thread_sync()
d0 = Tx.alloc_local((64,), "float32")
d = d0.view(256, 64, layout=TileLayout(S[(2, 128, 64):(1 @ cbx, 1 @ tx, 1)]))
{out}
Tx.ptx.tcgen05.fence.before_thread_sync()
"""
HALVES = 'A: Tx.Buffer((256, 64), "float16"), W: Tx.Buffer((64, 64), "float16"), D: Tx.Buffer((256, 64), "{0}")'


def halves(dtype):
    rng = np.random.default_rng(3)
    return [*(rng.integers(-4, 5, s).astype(np.float16) for s in ((256, 64), (64, 64))), np.zeros((256, 64), dtype)]


def test_tensor_copies_by_each_cta_into_its_part_and_its_barrier():
    made = run(kernel(LOADS + STORE, HALVES.format("float16"), AXES), halves("float16"))
    assert [c.choice.chosen.variant for c in made.calls] == ["tma_load", "tma_load", "tma_store"]


OUTS = {
    "registers": "Tx.cluster.copy(d[:, :], acc[:, :])\nTx.cluster.copy(D[:, :], d[:, :])",
    "asynchronous": "Tx.cluster.copy_async(d[:, :], acc[:, :])\nTx.ptx.tcgen05.wait.ld()\nTx.cluster.copy(D[:, :], d[:, :])",
    "element-wise": "Tx.cluster.add(acc[:, :], acc[:, :], 1.0)\nTx.cluster.copy(D[:, :], acc[:, :])",
}


@pytest.mark.parametrize("out", OUTS)
def test_a_product_on_the_tensor_cores_of_all_ctas(out):
    body = LOADS + with_tensor_memory(PRODUCT.format(out=OUTS[out], again=""), 64)
    given = halves("float32")
    made = run(kernel(body, HALVES.format("float32"), AXES), given, ["late", "random"])
    wanted = given[0].astype(np.float32) @ given[1].astype(np.float32).T + (out == "element-wise")
    np.testing.assert_array_equal(made.simulate(*given).arrays["D"], wanted)


def test_tensor_memory_of_each_cta():
    lines = ["u = Tx.decl_buffer((256, 8), 'float32', scope='tmem', allocated_addr=addr[0], "
             "layout=TileLayout(S[(2, 128, 8):(1 @ cbx, 1 @ TLane, 1 @ TCol)]))",
             "Tx.cluster.copy(u[:, :], A[:, :])", "Tx.cluster.fma(u[:, :], u[:, :], B[:, :], C[:, :])",
             "Tx.cluster.sum(e[:, :], u[:, :])", "Tx.cluster.copy(D[:, :], u[:, :])", "Tx.cluster.copy(E[:, :], e[:, :])"]  # fmt: skip
    run(*built([with_tensor_memory("\n".join(lines), 32)], "two", threads=128))


#: What a cluster of two refuses, and what it says.
REFUSED = {
    "copies to global memory": ("Tx.cluster.copy(D[:, :], q[:, :])", "2 CTAs hold a value of one element"),
    "a digit within": ("k = a0.view(128, 8, layout=TileLayout(S[(64, 2, 8):(1 @ tx, 1 @ cbx, 1)]))\nTx.cluster.copy(k[:, :], A[:, :])",
                       "dimension 0 of 'k.*' goes round the CTAs several times"),
    "a CTA that isn't there": ("k = a0.view(64, 8, layout=TileLayout(S[(64, 8):(1 @ tx, 1)] + 5 @ cbx))\nTx.cluster.copy(k[:, :], A[0:64, :])",
                               "is in CTA 5 along cbx, the cluster has 2"),
    "a region for each": ("Tx.cluster.copy(d[:, :], A[i * 0 : i * 0 + 128, :])\nTx.cluster.copy(d[:, :], B[i : i + 128, :])",
                          "begins at 0 in one CTA, at 1 in another"),
    "a region that moves": ("for k in Tx.serial(2):\n    Tx.cluster.fill(s[k : k + 64, :], 0.0)", "where a region begins there must be constant"),
    "parts of two extents": ("Tx.cluster.fill(s[32:128, :], 0.0)", "CTAs have parts of different extents of dimension 0 of 's'"),
    "one CTA alone": ("if i == 0:\n    Tx.cluster.fill(s[:, :], 0.0)", "of some CTAs of the cluster"),
    "after one CTA has left": ("if i == 0:\n    return\nTx.cluster.fill(s[:, :], 0.0)", "of some CTAs of the cluster"),
    "rounds of a CTA": ("for k in Tx.serial(i + 1):\n    Tx.cluster.fill(s[:, :], 0.0)", "of some CTAs of the cluster"),
    "as data say": ("if E[0, 0] > 3.0:\n    Tx.cluster.fill(s[:, :], 0.0)", "of some CTAs of the cluster"),
    "as data in global memory say": ("if E[0, 0] > 3.0:\n    Tx.cluster.fill(D[:, :], 0.0)", "of some CTAs of the cluster|condition on data"),
    "a peer's memory": ("there: Tx.let = Tx.reinterpret('handle', Tx.ptx.map_shared_rank(q.ptr_to([0, 0]), 1 - i))\n"
                        "o = Tx.decl_buffer((128, 8), 'float32', data=there, scope='shared')\nTx.cluster.copy(d[:, :], o[:, :])",
                        "'o' is in the shared memory of a CTA that is named"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    text, says = REFUSED[name]
    func, _ = built([text], "two")
    with pytest.raises(NoCandidate, match=says):
        compile_function(func)


def test_what_the_layout_says_is_the_same_in_all_ctas_is_stored_by_one():
    lines = ["p = Tx.decl_buffer((128, 8), 'float32', data=q.data, scope='shared', "
             "layout=TileLayout(S[(128, 8):(8, 1)] + R[2 : 1 @ cbx]))", "Tx.cluster.copy(p[:, :], A[:, :])", SYNC,
             "Tx.cluster.copy(D[:, :], p[:, :])"]  # fmt: skip
    func, given = built(lines, "two")
    made = run(func, given)
    assert "%cluster_ctaid.x" in made.ptx


def test_some_ctas_have_nothing():
    """Of four CTAs two have a part; they alone store it."""
    lines = ["k = a0.view(128, 8, layout=TileLayout(S[(2, 64, 8):(2 @ cbx, 1 @ tx, 1)] + 1 @ cbx))", "Tx.cluster.copy(k[:, :], A[0:128, :])",
             "Tx.cluster.copy(D[128:256, :], k[:, :])", "Tx.cluster.fill(D[0:128, :], 0.0)"]  # fmt: skip
    run(*built(lines, "four"))


def test_columns_over_one_axis_and_rows_over_the_other():
    lines = ["k = a0.view(128, 16, layout=TileLayout(S[(2, 64, 2, 8):(1 @ cbx, 1 @ tx, 1 @ cby, 1)]))",
             "F = Tx.decl_buffer((128, 16), 'float32', data=A.data)", "G = Tx.decl_buffer((128, 16), 'float32', data=D.data)",
             "Tx.cluster.copy(k[:, :], F[:, :])", "Tx.cluster.mul(k[:, :], k[:, :], k[:, :])", "Tx.cluster.copy(G[:, :], k[:, :])"]  # fmt: skip
    run(*built(lines, "two by two"))


def test_each_ctas_own_call_may_mean_a_region_of_its_own():
    """Where every CTA has a copy, each makes the call on its own: a CTA's copy may come from elsewhere."""
    lines = ["Tx.cluster.copy(q[0:64, :], A[i * 64 : i * 64 + 64, :])", SYNC, "Tx.cta.copy(D[i * 64 : i * 64 + 64, :], q[0:64, :])"]
    run(*built(lines, "two"))


def test_each_cta_may_copy_what_another_has():
    lines = ["k = Tx.decl_buffer((64, 8), 'float32', data=s.data, scope='shared')", "Tx.cluster.copy(s[:, :], A[:, :])",
             "Tx.cuda.cluster_sync()", "there: Tx.let = Tx.reinterpret('handle', Tx.ptx.map_shared_rank(k.ptr_to([0, 0]), 1 - i))",
             "o = Tx.decl_buffer((64, 8), 'float32', data=there, scope='shared')", "Tx.cluster.copy(q[0:64, :], o[:, :])", SYNC,
             "Tx.cta.copy(D[i * 64 : i * 64 + 64, :], q[0:64, :])", "Tx.cuda.cluster_sync()"]  # fmt: skip
    func, given = built(lines, "two")
    run(func, given)
    np.testing.assert_array_equal(interpret(func, *given)["D"], np.roll(given[0], 64, axis=0))


#: What a CTA reaches of a spread buffer by itself: its own part.
OWN = {
    "elements": ["s[i * 64 + t, 0] = A[i * 64 + t, 1]", "for k in Tx.serial(1, 8):",
                 "    s[i * 64 + t, k] = A[i * 64 + t, k] + s[i * 64 + t, k - 1]", SYNC, "Tx.cluster.copy(D[:, :], s[:, :])"],
    "a thread's rows": ["Tx.copy(s[i * 64 + t, :], A[i * 64 + t, :])", "Tx.copy(D[i * 64 + t, :], s[i * 64 + t, :])"],
    "a warp's rows": ["Tx.warp.copy(s[i * 64 + w * 32 : i * 64 + w * 32 + 32, :], A[i * 64 + w * 32 : i * 64 + w * 32 + 32, :])", SYNC,
                      "Tx.cluster.copy(D[:, :], s[:, :])"],
    "the CTA's registers": ["Tx.cta.copy(d[i * 64 : i * 64 + 64, :], A[i * 64 : i * 64 + 64, :])", OUT],
    "in a branch": ["if i == 1:", "    s[64 + t, 0] = 1.0", "    Tx.cta.copy(d[64:128, :], A[64:128, :])", "else:", "    s[t, 0] = 2.0",
                    "    Tx.cta.copy(d[0:64, :], B[0:64, :])", OUT, "E[i * 64 + t, 0] = s[i * 64 + t, 0]"],
    "its address": ["s[i * 64 + t, 0] = A[i * 64 + t, 0]", "Tx.cuda.cluster_sync()",
                    "there: Tx.let = Tx.reinterpret('handle', Tx.ptx.map_shared_rank(s.ptr_to([i * 64, 0]), 1 - i))",
                    "o = Tx.decl_buffer((64, 8), 'float32', data=there, scope='shared')", "D[i * 64 + t, 0] = o[t, 0]", "Tx.cuda.cluster_sync()"],
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_a_cta_reaches_its_own_part(name):
    run(*built(OWN[name], "two"))


@pytest.mark.parametrize("lines", [
    ["Tx.copy(s[t, :], A[t, :])"], ["s[t + 1, 0] = 1.0"], ["for k in Tx.serial(3):", "    s[i * 64 + k * 32, 0] = 1.0"],
    ["Tx.cta.copy(s[i * 64 : i * 64 + 65, :], A[0:65, :])"], ["if i == 1:", "    s[t, 0] = 1.0"],
], ids=str)  # fmt: skip
def test_a_cta_does_not_reach_anothers_part(lines):
    with pytest.raises(LoweringError, match="'s' is spread over the CTAs of the cluster: index 0 isn't known to be in this CTA's part"):
        compile_function(built(lines, "two")[0])


def test_a_wrong_cta_is_noticed(monkeypatch):
    """By the check of parts against the layout; without it, by the comparison with the interpreter."""
    from tirx_eq.errors import ProofError
    from tirx_eq.lower.sharing import cta_spread

    right = cta_spread.CtaSpread.value
    monkeypatch.setattr(cta_spread.CtaSpread, "value", lambda self, d, launch: (right(self, d, launch) + 1) % d.extent)
    func, given = built(BODIES["everywhere"], "two")
    with pytest.raises(ProofError, match="other elements of"):
        compile_function(func)
    monkeypatch.setattr(cta_spread, "_check", lambda s, launch: None)
    monkeypatch.setattr(cta_spread.CtaSpread, "present", lambda self, launch: [])
    lines = ["k = Tx.decl_buffer((64, 8), 'float32', data=s.data, scope='shared')", "Tx.cluster.copy(s[:, :], A[:, :])", SYNC,
             "Tx.cta.copy(D[i * 64 : i * 64 + 64, :], k[:, :])"]  # fmt: skip
    func, given = built(lines, "two")
    with pytest.raises(AssertionError):
        run(func, given, ["late"])


@pytest.mark.parametrize(("text", "says"), [
    ("Tx.copy(s[t, :], A[t, :])", "in another CTA"), ("s[64 + t, 0] = 1.0", "in another CTA's part"),
    ("if i == 0:\n    Tx.cluster.fill(s[:, :], 0.0)", "reached by 1 of the 2 CTAs"),
    ("Tx.cluster.fill(q[0:8, :], 1.0)\nif i == 1:\n    Tx.cta.fill(q[0:8, :], 2.0)\nTx.cluster.copy(D[0:8, :], q[0:8, :])", "the copies of"),
])  # fmt: skip
def test_what_has_no_meaning(text, says):
    func, given = built([text], "two")
    with pytest.raises((InterpreterError, TirxError), match=says):
        interpret(func, *given)


def test_a_layout_left_open_is_chosen_for_what_each_cta_does():
    lines = ["y = Tx.alloc_shared((64, 8), 'float32', layout=Tx.auto)", "Tx.cluster.copy(y[:, :], A[0:64, :])", SYNC,
             "Tx.cluster.add(y[:, :], y[:, :], 1.0)", SYNC, "Tx.cta.copy(D[i * 64 : i * 64 + 64, :], y[:, :])"]  # fmt: skip
    func, given = built(lines, "two")
    made = compile_open(func)
    np.testing.assert_array_equal(made.simulate(*given).arrays["D"], np.tile(given[0][:64] + 1, (2, 1)))
