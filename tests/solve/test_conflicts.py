"""Kernels that have no solution: the conflict is what was built in, and minimal."""

from __future__ import annotations

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.solve.conflict import NoLayoutError, satisfying
from tirx_eq.solve.solve import solve

from .kernels import kernel, product

ROWS = "Tx.TileLayout(Tx.S[(4, 8, 8) : (8 @ Axis.laneid, 1 @ Axis.laneid, 1)])"
SPREAD = "Tx.TileLayout(Tx.S[(4, 2, 32) : (2, 1, 1 @ Axis.laneid)])"
HALF_ROWS = "Tx.copy(D[tid // 2, tid % 2 * 16 : tid % 2 * 16 + 16], D_reg[:])"
RESULTS = "Tx.TileLayout(Tx.S[4 : 1 @ Axis.laneid] + Tx.R[8 : 4 @ Axis.laneid])"


def warp(body: str, params: str = "A: (4, 64) float32; B: (4, 64) float32"):
    """A warp with tiles of 4×64 in 8 registers a thread, ``x``, ``y`` and ``z`` as far as ``body`` names their layouts."""
    return kernel(params, "lane = Tx.lane_id([32])\n" + body)


def tile(name: str, layout: str, held: int = 8, shape: str = "4, 64") -> str:
    return (
        f'{name}_reg = Tx.alloc_local(({held},), "float32", layout=Tx.auto)\n'
        f"{name} = {name}_reg.view({shape}, layout={layout})\n"
    )


#: name -> (kernel, kinds of the constraints that clash, sorted)
CASES = {
    "swizzle wider than K": (
        product(16, 16, a='Tx.auto(swizzle="128B")', b="Tx.auto"), ["MatrixDescriptor", "PartialLayout"]),
    "whole rows for the tensor core": (
        product(16, 64, a="Tx.auto(contiguous=64)", b="Tx.auto"), ["MatrixDescriptor", "PartialLayout"]),
    "no swizzle for tensor copies and the tensor core": (
        product(16, 64, a='Tx.auto(swizzle="none")', b="Tx.auto", tma=True),
        ["MatrixDescriptor", "PartialLayout", "TensorCopyBox"]),
    "a view with another layout": (
        product(16, 64, a="Tx.auto", b="Tx.auto",
                given='whole = A_s.view(128, 64, layout=Tx.TileLayout(Tx.S[(128, 64) : (64, 1)]))'),
        ["MatrixDescriptor", "SharedStorage"]),
    "an address given to an instruction": (
        product(16, 64, a="Tx.auto", b="Tx.auto", given="Tx.ptx.mbarrier.init(A_s.ptr_to([0, 0]), 1)"),
        ["MatrixDescriptor", "PlainMemory"]),
    "lanes for a warpgroup": (
        product(32, 16, b="Tx.auto", regs='Tx.auto(thread_axis="laneid")'), ["PartialLayout", "RowPieces"]),
    "half rows of data path F": (
        product(32, 16, b="Tx.auto", m=64, uses=HALF_ROWS), ["RowPieces", "TensorMemoryTransfer"]),
    "too few columns": (
        product(64, 16, b="Tx.auto", columns=32), ["TensorMemoryCapacity"]),
    "too few registers behind the view": (
        product(64, 16, b="Tx.auto", held=32, uses="tile"), ["RegisterCapacity"]),
    "too much shared memory": (
        kernel("A: (64, 512) float32", """
tx = Tx.thread_id([128])
S1 = Tx.alloc_shared((64, 512), "float32", layout=Tx.auto)
S2 = Tx.alloc_shared((64, 512), "float32", layout=Tx.auto)
Tx.cta.copy(S1[:, :], A[:, :])
Tx.cta.copy(S2[:, :], A[:, :])
"""), ["SharedCapacity"]),
    "two neighbours": (
        warp(tile("x", ROWS) + tile("y", "Tx.auto") + tile("z", SPREAD) + """
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.cast(z[:, :], A[:, :])
Tx.warp.add(y[:, :], x[:, :], x[:, :])
Tx.warp.add(z[:, :], z[:, :], y[:, :])
"""), ["ElementwiseOwnership", "ElementwiseOwnership"]),
    "one call with two neighbours": (
        warp(tile("x", ROWS) + tile("y", "Tx.auto") + tile("z", SPREAD) + """
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.cast(z[:, :], A[:, :])
Tx.warp.add(y[:, :], x[:, :], z[:, :])
"""), ["ElementwiseOwnership"]),
    "a statement and a warp": (
        warp(tile("x", "Tx.auto") + """
Tx.warp.cast(x[:, :], A[:, :])
B[0, lane] = x[0, lane % 8]
"""), ["AddressedElement", "RegisterCapacity"]),
    "more results than registers": (
        warp(tile("x", "Tx.auto(contiguous=8)") + tile("r", "Tx.auto", held=1, shape="1, 64") + """
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.sum(r[0, :], x[:, :], axes=[0])
"""), ["RegisterCapacity"]),
    "vectors and lanes": (
        warp(tile("x", "Tx.auto(contiguous=16)") + """
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.cast(B[:, :], x[:, :])
"""), ["ElementwiseOwnership", "PartialLayout"]),
    "no layout helps": (
        product(16, 24, a="Tx.auto", b="Tx.auto"), ["Hopeless"]),
}  # fmt: skip


#: Where a layout is found though several rules meet.
SOLVED = {
    "MN-major tf32 by tensor copies": product(32, 32, "float32", a="Tx.auto", b="Tx.auto", trans_b=True, tma=True),
    "results of a reduction somewhere else": warp(
        tile("x", ROWS) + tile("r", "Tx.auto", held=1, shape="4, 1") + tile("s", RESULTS, held=1, shape="4, 1") + """
Tx.warp.cast(x[:, :], A[:, :])
Tx.warp.sum(r[:, 0], x[:, :])
Tx.warp.add(s[:, :], r[:, :], r[:, :])
Tx.warp.copy(B[:, 0:1], s[:, :])
"""),
}  # fmt: skip


@pytest.mark.parametrize("name", SOLVED)
def test_no_conflict(name):
    """The layouts found make a program that computes what the interpreter does."""
    found = execute(SOLVED[name], policy="random")
    assert found.good and any(c.changed for c in found.comparisons)


@pytest.mark.parametrize("name", CASES)
def test_conflict_is_minimal(name):
    func, kinds = CASES[name]
    with pytest.raises(NoLayoutError) as raised:
        solve(func)
    conflict = raised.value.conflict
    assert conflict is not None
    assert sorted(c.kind for c in conflict.constraints) == kinds, str(raised.value)
    problem, bounds = conflict.problem, conflict.bounds
    assert satisfying(problem, bounds) is None
    for left_out in bounds:
        assert satisfying(problem, [b for b in bounds if b is not left_out]) is not None, str(left_out.constraint)
    for c in conflict.constraints:
        assert c.line is not None and str(c) in str(raised.value) and c.remedy in str(raised.value)


def test_there_are_fifteen():
    assert len(CASES) >= 15
