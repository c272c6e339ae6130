# ruff: noqa: E501
"""Calls of a cluster for which CTAs need what others have: reductions over CTAs, copies for all, other distributions."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .distributed_kernels import OUT, SYNC, built, run

MEET = "Tx.cuda.cluster_sync()"
VECTOR = ["v0 = Tx.alloc_local((8,), 'float32')", "v = v0.view(1, 8, layout=TileLayout(S[(1, 8):(8, 1)]))"]
STORE = ["if t == 0:", "    Tx.copy(D[{rank}, :], v0[:])"]
RANK = {"two": "i", "four": "i", "two by two": "i + j * 2", "four, swapped": "i", "along y": "j"}
IN_REGISTERS, IN_SHARED = "Tx.cluster.copy(a[:, :], A[:, :])", "Tx.cluster.copy(s[:, :], A[:, :])"
#: Of all rows, which the CTAs have.
REDUCTIONS = {
    "registers to global memory": [IN_REGISTERS, "Tx.cluster.sum(D[0, :], a[:, :], axes=0)"],
    "shared to global memory": [IN_SHARED, SYNC, "Tx.cluster.min(D[0, :], s[:, :], axes=0)"],
    "registers to every CTA's": [IN_REGISTERS, *VECTOR, "Tx.cluster.max(v[0, :], a[:, :], axes=0)", *STORE],
    "shared to every CTA's": [IN_SHARED, SYNC, "Tx.cluster.sum(q[0, :], s[:, :], axes=0)", SYNC,
                              "Tx.cta.copy(D[{rank}, :], q[0, :])"],
    "everything to one number": [IN_REGISTERS, "Tx.cluster.sum(E[0, :], a[:, :], axes=[0, 1])"],
    "accumulated": [IN_REGISTERS, "Tx.cluster.sum(D[0, :], a[:, :], axes=0, accum=True)"],
    "negated": [IN_REGISTERS, "Tx.cluster.reduce_negate(D[0, :], a[:, :], 'max', reduce_axes=0)"],
    "map and reduction": [IN_REGISTERS, "Tx.cluster.binary_reduce(d[:, :], D[0, :], a[:, :], B[:, :], 'mul', 'sum', reduce_axes=0)"],
    "in a loop": [IN_REGISTERS, *VECTOR, "for k in Tx.serial(3):", "    Tx.cluster.sum(v[0, :], a[:, :], axes=0)",
                  "    Tx.cluster.add(a[:, :], a[:, :], 1.0)", *STORE],
}  # fmt: skip


def lines_of(lines, cluster):
    return [line.replace("{rank}", RANK[cluster]) for line in lines]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_over_ctas(name):
    made = run(*built(lines_of(REDUCTIONS[name], "two"), "two"))
    assert "mapa.shared::cluster" in made.ptx and "barrier.cluster.arrive" in made.ptx


@pytest.mark.parametrize("cluster", ["four", "four, swapped", "two by two", "along y"])
@pytest.mark.parametrize("name", ["registers to every CTA's", "shared to global memory"])
def test_reductions_over_clusters_of_other_shapes(name, cluster):
    run(*built(lines_of(REDUCTIONS[name], cluster), cluster), ["random"])


def test_rows_over_one_axis_reduced_over_the_other():
    lines = ["k = a0.view(128, 16, layout=TileLayout(S[(2, 64, 2, 8):(1 @ cby, 1 @ tx, 1 @ cbx, 1)]))",
             "F = Tx.decl_buffer((128, 16), 'float32', data=A.data)", "Tx.cluster.copy(k[:, :], F[:, :])",
             "r = e0.view(128, 1, layout=TileLayout(S[(2, 64, 1):(1 @ cby, 1 @ tx, 1)]))", "Tx.cluster.sum(r[:, :], k[:, :])",
             "Tx.cluster.sum(E[0:128, :], k[:, :])", "if i == 1:", "    Tx.copy(E[128 + j * 64 + t, :], e0[:])"]  # fmt: skip
    run(*built(lines, "two by two"))


BROUGHT = {
    "to every CTA": ("two", ["y = Tx.alloc_shared((128, 1), 'float32')", "Tx.cluster.sum(y[:, :], a[:, :])", SYNC,
                             "Tx.cta.copy(E[i * 64 : i * 64 + 64, :], y[32:96, :])"]),
    "to other CTAs": ("four", ["y = e0.view(256, 1, layout=TileLayout(S[(2, 2, 64):(1 @ cbx, 2 @ cbx, 1 @ tx)]))",
                               "Tx.cluster.max(y[:, :], a[:, :])", "Tx.cluster.copy(E[:, :], y[:, :])"]),
    "accumulated": ("two", ["y = Tx.alloc_shared((128, 1), 'float32')", "Tx.cluster.copy(y[:, :], E[:, :])", SYNC,
                            "Tx.cluster.sum(y[:, :], a[:, :], accum=True)", SYNC,
                            "Tx.cta.copy(E[i * 64 : i * 64 + 64, :], y[i * 64 : i * 64 + 64, :])"]),
}  # fmt: skip


@pytest.mark.parametrize("name", BROUGHT)
def test_results_of_rows_that_other_ctas_get(name):
    cluster, lines = BROUGHT[name]
    run(*built([IN_REGISTERS, *lines], cluster))


def test_results_of_all_ctas_dealt_out_to_them():
    """Rows are spread over the CTAs before, columns afterwards."""
    lines = [IN_REGISTERS, "o = Tx.alloc_local((4,), 'float32')",
             "k = o.view(1, 8, layout=TileLayout(S[(1, 2, 4):(1, 1 @ cbx, 1)]))", "Tx.cluster.sum(k[0, :], a[:, :], axes=0)",
             "if t == 0:", "    Tx.copy(D[0, i * 4 : i * 4 + 4], o[:])"]  # fmt: skip
    run(*built(lines, "two"))


def test_sums_of_halves():
    lines = [IN_REGISTERS, "Tx.cluster.cast(h[:, :], a[:, :])", "n = Tx.alloc_local((8,), 'float16')",
             "k = n.view(1, 8, layout=TileLayout(S[(1, 8):(8, 1)]))", "Tx.cluster.sum(k[0, :], h[:, :], axes=0)",
             "if t == 0:", "    Tx.cast(d0[:], n[:])", "    Tx.copy(D[i, :], d0[:])"]  # fmt: skip
    run(*built(lines, "two"))


GATHERED = {
    "to every CTA from shared memory": [IN_SHARED, MEET, "Tx.cluster.copy(q[:, :], s[:, :])", MEET],
    "to every CTA from registers": [IN_REGISTERS, "Tx.cluster.copy(q[:, :], a[:, :])", SYNC],
    "computed": [IN_REGISTERS, "Tx.cluster.fma(q[:, :], a[:, :], B[:, :], 3.0)", SYNC],
    "chosen": [IN_REGISTERS, "Tx.cluster.select(q[:, :], a[:, :], B[:, :], lambda i, j: (i * 5 + j) % 7 < 3)", SYNC],
    "one CTA's to all": ["Tx.cluster.copy(q[:, :], B[:, :])", IN_SHARED, MEET, "Tx.cluster.copy(q[0:8, :], s[{last} + 8 : {last} + 16, :])", MEET],
}  # fmt: skip


@pytest.mark.parametrize("cluster", ["two", "four", "two by two"])
@pytest.mark.parametrize("name", GATHERED)
def test_what_every_cta_gets(name, cluster):
    rank = RANK[cluster]
    lines = [*GATHERED[name], f"Tx.cta.copy(D[({rank}) * 64 : ({rank}) * 64 + 64, :], q[32:96, :])"]
    run(*built(lines, cluster), ["late", "early", "random"] if cluster == "two" else ["random"])


@pytest.mark.parametrize("registers", [True, False])
def test_rows_become_columns(registers):
    source = "a" if registers else "s"
    lines = [IN_REGISTERS if registers else IN_SHARED, *([] if registers else [MEET]),
             "o = Tx.alloc_local((8,), 'float32')",
             "k = o.view(128, 8, layout=TileLayout(S[(2, 64, 2, 4):(4, 1 @ tx, 1 @ cbx, 1)]))",
             f"Tx.cluster.copy(k[:, :], {source}[:, :])", *([] if registers else [MEET]),
             "Tx.copy(D[t, i * 4 : i * 4 + 4], o[0:4])", "Tx.copy(D[64 + t, i * 4 : i * 4 + 4], o[4:8])"]  # fmt: skip
    func, given = built(lines, "two")
    run(func, given)
    np.testing.assert_array_equal(interpret(func, *given)["D"], given[0])


def test_ctas_in_another_order():
    lines = [IN_REGISTERS, "k = d0.view(256, 8, layout=TileLayout(S[(2, 2, 64, 8):(1 @ cbx, 2 @ cbx, 1 @ tx, 1)]))",
             "Tx.cluster.add(k[:, :], a[:, :], B[:, :])", "Tx.cluster.copy(D[:, :], k[:, :])"]  # fmt: skip
    func, given = built(lines, "four")
    run(func, given)
    np.testing.assert_array_equal(interpret(func, *given)["D"], given[0] + given[1])


def test_rows_and_columns_to_global_memory():
    """Each CTA stores its rows of the first source, of which it reads the second's columns in every CTA."""
    lines = [IN_REGISTERS, "k = Tx.alloc_shared((256, 8), 'float32', layout=TileLayout(S[(256, 2, 4):(4, 1 @ cby, 1)]))",
             "Tx.cluster.copy(k[:, :], B[:, :])", MEET, "Tx.cluster.mul(D[:, :], a[:, :], k[:, :])", MEET]  # fmt: skip
    func, given = built(lines, "two by two")
    run(func, given)
    np.testing.assert_array_equal(interpret(func, *given)["D"], given[0] * given[1])


def test_rows_of_some_ctas():
    """Half of the rows are in two of four CTAs: they reduce them, and all four get the result."""
    lines = [IN_REGISTERS, *VECTOR, "Tx.cluster.sum(v[0, :], a[128:256, :], axes=0)", "if t == 0:", "    Tx.copy(D[i, :], v0[:])",
             IN_SHARED, SYNC, "Tx.cluster.max(E[0, 0:1], s[64:96, :], axes=[0, 1])"]  # fmt: skip
    run(*built(lines, "four"))


def test_halves_of_a_ctas_rows():
    """Pairs of CTAs have the same rows of the source, each of them half of the result's."""
    lines = ["k = Tx.alloc_shared((256, 8), 'float32', layout=TileLayout(S[(2, 128, 8):(1 @ cby, 8, 1)]))",
             "Tx.cluster.copy(k[:, :], A[:, :])", MEET, "Tx.cluster.copy(d[:, :], k[:, :])", MEET, OUT]  # fmt: skip
    run(*built(lines, "two by two"))


def test_twice_a_ctas_rows():
    lines = [IN_SHARED, MEET, "k = Tx.alloc_shared((256, 8), 'float32', layout=TileLayout(S[(2, 128, 8):(1 @ cby, 8, 1)] + R[2 : 1 @ cbx]))",
             "Tx.cluster.copy(k[:, :], s[:, :])", MEET, "Tx.cluster.copy(D[:, :], k[:, :])"]  # fmt: skip
    run(*built(lines, "two by two"))


def test_a_wrong_rank_is_noticed(monkeypatch):
    from tirx_eq.lower.staging import cta_exchange

    right = cta_exchange.rank_with
    monkeypatch.setattr(cta_exchange, "rank_with", lambda s, blocks, launch: 1 - right(s, blocks, launch))
    func, given = built([*GATHERED["computed"], "Tx.cta.copy(D[i * 64 : i * 64 + 64, :], q[32:96, :])"], "two")
    with pytest.raises(NoCandidate, match="other CTAs have"):  # no exchange is made of it
        compile_function(func)
    monkeypatch.setattr(cta_exchange, "has_them", lambda *_: True)
    with pytest.raises(AssertionError):
        run(func, given, ["late"])


def test_a_missing_barrier_is_noticed(monkeypatch):
    """Without the wait for the other CTAs' results the simulator reports a race, or the results differ."""
    from tirx_eq.ir import Evaluate, call
    from tirx_eq.lower.staging import cta_exchange

    monkeypatch.setattr(cta_exchange.ClusterCall, "sync", lambda self: Evaluate(call("tirx.cuda.cta_sync", "void")))
    func, given = built(lines_of(REDUCTIONS["registers to every CTA's"], "two"), "two")
    made = compile_function(func)
    wanted = interpret(func, *given)["D"]
    results = [made.simulate(*given, policy=policy, seed=seed) for policy in ("late", "early", "random") for seed in range(3)]
    assert any(r.faults or not np.array_equal(r.arrays["D"], wanted) for r in results)


#: A's columns and B's rows, or A's alone, are spread over the CTAs.
PRODUCTS = {
    "in shared memory": ["Tx.cluster.copy(k[:, :], A[0:64, :])", "Tx.cluster.copy(m[:, :], W[:, :])", SYNC,
                         "Tx.cluster.gemm(o[:, :], k[:, :], m[:, :], C[0:64, :], beta=1)"],
    "in registers": ["Tx.cluster.copy(l[:, :], A[0:64, :])", "Tx.cluster.gemm(o[:, :], l[:, :], W[:, :], o[:, :])"],
    "to global memory": ["Tx.cluster.copy(k[:, :], A[0:64, :])", SYNC,
                         "Tx.cluster.gemm(D[64:128, :], k[:, :], W[:, :], C[0:64, :], alpha=2.0, beta=3.0)",
                         "Tx.cta.fill(o[:, :], 1.0)"],
    "both parts": ["Tx.cluster.copy(k[:, :], A[0:64, :])", "Tx.cluster.copy(n[:, :], W[:, :])", SYNC,
                   "Tx.cluster.gemm(o[:, :], k[:, :], n[:, :], C[0:64, :], beta=2)"],
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_whose_depth_is_spread(name):
    lines = ["k = Tx.alloc_shared((64, 8), 'float32', layout=TileLayout(S[(64, 2, 4):(4, 1 @ cbx, 1)]))",
             "n = Tx.alloc_shared((8, 8), 'float32', layout=TileLayout(S[(2, 4, 8):(1 @ cbx, 8, 1)]))",
             "l = a0.view(64, 8, layout=TileLayout(S[(64, 2, 4):(1 @ tx, 1 @ cbx, 1)]))",
             "o = d0.view(64, 8, layout=TileLayout(S[(64, 8):(1 @ tx, 1)]))", *PRODUCTS[name],
             "if i == 1:", "    Tx.copy(D[t, :], d0[:])"]  # fmt: skip
    func, given = built(lines, "two")
    a, w, c = given[0][:64], given[3], given[2][:64]
    run(func, given)
    if name == "both parts":
        np.testing.assert_array_equal(interpret(func, *given)["D"][:64], a @ w + 2 * c)
