"""Reductions: compiled, run in the simulator, compared with the interpreter, for every scope and placement."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret

from .kernels import kernel
from .test_run_elementwise import CELLS, IDS, PLACES, arrays, check, chosen
from .value_kernels import AXES, COLUMNS, SCOPES, data, run, value_kernel

CALLS = {
    "sum": "sum({D}, {A})", "max": "max({D}, {A})", "min": "min({D}, {A})", "more": "sum({D}, {A}, accum=True)",
    "greater": "max({D}, {A}, accum=True)", "negated sum": "reduce_negate({D}, {A}, 'sum')",
    "negated max": "reduce_negate({D}, {A}, 'max')",
}  # fmt: skip
DTYPES = ("float32", "float16", "bfloat16", "int32", "uint32", "int8")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_every_reduction_and_dtype(name, dtype):
    scope, source = CELLS[(list(CALLS).index(name) * 5 + DTYPES.index(dtype) * 7) % len(CELLS)]
    target = PLACES[(list(CALLS).index(name) + DTYPES.index(dtype)) % 3]
    operands = {"D": (dtype, target, 1), "A": (dtype, source, COLUMNS)}
    func = value_kernel(CALLS[name], operands, scope)
    check(func, operands, arrays(operands, "positive" if dtype.startswith("uint") else "whole"))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("target", PLACES)
@pytest.mark.parametrize("source", PLACES)
def test_every_scope_and_placement(source, target, scope):
    operands = {"D": ("float32", target, 1), "A": ("float32", source, COLUMNS)}
    given = arrays(operands)
    func = value_kernel("sum({D}, {A})", operands, scope)
    check(func, operands, given)
    np.testing.assert_array_equal(run(func, *given)["D"][:, 0], given[1].sum(axis=1))


PARAMS = 'A: Tx.Buffer((128, 16), "{0}"), D: Tx.Buffer((128, 16), "{0}")'
LOAD = 'a = Tx.alloc_local((16,), "{0}")\nTx.copy(a[:], A[tid, :])\n'
QUADS = "v = a.view(8, 64, layout=TileLayout(S[(8, 4, 16):(4 @ laneid, 1 @ laneid, 1)]))\n"
#: rows over lanes, columns, several axes, whole tiles
SHAPES = {
    "over the lanes of a warp": LOAD + 'r = Tx.alloc_local((16,), "{0}")\n'
        "v = a.view(32, 16, layout=TileLayout(S[(32, 16):(1 @ laneid, 1)]))\nTx.warp.{1}(r[:], v[:, :], axes=0)\n"
        "Tx.copy(D[tid, :], r[:])",
    "over four lanes": LOAD + QUADS + 'r = Tx.alloc_local((1,), "{0}")\n'
        "u = r.view(8, layout=TileLayout(S[(8,):(4 @ laneid,)] + R[4 : 1 @ laneid]))\n"
        "Tx.warp.{1}(u[:], v[:, :])\nTx.copy(D[tid, 0:1], r[:])",
    "over four lanes to memory": LOAD + QUADS + "Tx.warp.{1}(D[w * 8 : w * 8 + 8, 0], v[:, :])",
    "columns of memory": "Tx.cta.{1}(D[0, :], A[:, :], axes=0)",
    "all of a tile": "Tx.cta.{1}(D[0, 0:1], A[:, :], axes=[0, 1])",
    "all of a warp's rows, for each thread": 'r = Tx.alloc_local((1,), "{0}")\n'
        "Tx.warp.{1}(r[:], A[w * 32 : w * 32 + 32, :], axes=[0, 1])\nTx.copy(D[tid, 0:1], r[:])",
    "more rows than groups": "Tx.warp.{1}(D[w * 32 : w * 32 + 21, 0], A[w * 32 : w * 32 + 21, 0:12])",
}  # fmt: skip


@pytest.mark.parametrize("op", ["sum", "max"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("what", SHAPES)
def test_rows_of_many_shapes(what, dtype, op):
    func = kernel(IDS + SHAPES[what].format(dtype, op), PARAMS.format(dtype), AXES)
    given = [data(dtype, (128, 16), seed, "positive") for seed in (0, 1)]
    check(func, ("A", "D"), given)


def test_random_sums_are_as_good_as_their_order_allows():
    """Sixteen terms in a tree: at most 5 roundings on the way of any term."""
    operands = {"D": ("float32", "registers", 1), "A": ("float32", "registers", COLUMNS)}
    given = arrays(operands, "random")
    got = run(value_kernel("sum({D}, {A})", operands, "thread"), *given)["D"][:, 0]
    exact = given[1].astype(np.float64).sum(axis=1)
    np.testing.assert_allclose(got, exact, rtol=5 * 2**-24)


FOUR = ", ".join(f'{n}: Tx.Buffer((128, 16), "float32")' for n in "ABCD")
COMPOSITES = {
    "binary_reduce in memory": "Tx.cta.binary_reduce(C[:, :], D[:, 0], A[:, :], B[:, :], 'mul', 'sum')",
    "binary_reduce in registers": 'a = Tx.alloc_local((16,), "float32")\nr = Tx.alloc_local((1,), "float32")\n'
        "Tx.copy(a[:], A[tid, :])\nTx.binary_reduce(a[:], r[:], a[:], 2.0, 'add', 'max')\nTx.copy(D[tid, 0:1], r[:])\n"
        "Tx.copy(C[tid, :], a[:])",
    "unary_reduce": 'a = Tx.alloc_local((16,), "float32")\nr = Tx.alloc_local((1,), "float32")\nTx.copy(a[:], A[tid, :])\n'
        "Tx.unary_reduce(a[:], r[:], a[:], 'sqrt', 'min', 1.0, 3.0)\nTx.copy(D[tid, 0:1], r[:])\nTx.copy(C[tid, :], a[:])",
}  # fmt: skip


@pytest.mark.parametrize("what", COMPOSITES)
def test_composites(what):
    func = kernel(IDS + COMPOSITES[what], FOUR)
    given = [data("float32", (128, 16), seed, "positive") for seed in range(4)]
    got, wanted = run(func, *given), interpret(func, *given)
    for name in "ABCD":
        np.testing.assert_allclose(got[name], wanted[name], rtol=2e-7)


def registers_of(n, op):
    return kernel(
        IDS + f'a = Tx.alloc_local(({n},), "float32")\nr = Tx.alloc_local((1,), "float32")\nTx.copy(a[:], A[tid, 0:{n}])\n'
        f"Tx.{op}(r[:], a[:])\nTx.copy(D[tid, 0:1], r[:])",
        'A: Tx.Buffer((128, 64), "float32"), D: Tx.Buffer((128, 1), "float32")',
    )


def test_the_cheapest_tree_depends_on_the_size():
    """Joining two registers isn't worth it for one addition; a third operand buys nothing for two values."""
    assert chosen(registers_of(2, "sum"), "sum")[0] == "Reduce()"
    assert chosen(registers_of(2, "max"), "max")[0] == "Reduce()"
    for n in (8, 16, 64):
        assert chosen(registers_of(n, "sum"), "sum")[0] == "ReducePacked()"
        assert chosen(registers_of(n, "max"), "max")[0] == "ReduceThree()"
    # Columns: the widest group of lanes makes every lane read another row.
    columns = kernel(IDS + "Tx.cta.sum(D[0, :], A[:, :], axes=0)", PARAMS.format("float32"))
    groups = chosen(columns, "sum")
    assert groups[0] != "ReduceMemory(group=32)" and "ReduceMemory(group=32)" in groups


@pytest.mark.parametrize(
    ("name", "op", "node"), [("packed_add_sum", "sum", "ReducePacked()"), ("3input_maxmin", "max", "ReduceThree()")]
)
def test_names_that_tvm_has_for_the_variants(name, op, node):
    func = kernel(
        IDS + f'a = Tx.alloc_local((8,), "float32")\nr = Tx.alloc_local((1,), "float32")\nTx.copy(a[:], A[tid, 0:8])\n'
        f"Tx.{op}(r[:], a[:], dispatch='{name}')\nTx.copy(D[tid, 0:1], r[:])",
        PARAMS.format("float32"),
    )
    assert chosen(func, op) == [node]
