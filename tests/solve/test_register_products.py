"""Products by mma.sync with every layout open: fragments, ldmatrix and the swizzle under which it has no conflicts."""

from __future__ import annotations

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.layout import ComposeLayout
from tirx_eq.solve.erasing import erase_layouts
from tirx_eq.solve.solve import modelled_cost, solve

from ..lower.product_kernels import register_product
from .kernels import kernel


@pytest.mark.parametrize(("shape", "dtypes", "scope", "transposed"), [
    ((16, 8, 16), ("float16", "float16", "float32"), "warp", (False, False)),
    ((64, 16, 16), ("bfloat16", "bfloat16", "float32"), "wg", (False, True)),
    ((64, 8, 32), ("int8", "int8", "int32"), "cta", (True, False)),
])  # fmt: skip
def test_fragments_are_found(shape, dtypes, scope, transposed):
    func = register_product(shape, dtypes, scope, transposed)
    solution = solve(erase_layouts(func), alternatives=False)
    assert solution.optimal and solution.objective <= modelled_cost(func) + 1e-6
    assert execute(solution.func).good


def test_a_product_through_shared_memory():
    func = kernel("A: (64, 64) float16; B: (64, 16) float16; D: (64, 16) float32", """
tid = Tx.thread_id([128])
A_s = Tx.alloc_shared((64, 64), "float16", layout=Tx.auto)
B_s = Tx.alloc_shared((64, 16), "float16", layout=Tx.auto)
ra = Tx.alloc_local((32,), "float16", layout=Tx.auto)
rb = Tx.alloc_local((32,), "float16", layout=Tx.auto)
rd = Tx.alloc_local((8,), "float32", layout=Tx.auto)
a = ra.view(64, 64, layout=Tx.auto)
b = rb.view(64, 16, layout=Tx.auto)
d = rd.view(64, 16, layout=Tx.auto)
Tx.cta.copy(A_s[:, :], A[:, :])
Tx.cta.copy(B_s[:, :], B[:, :])
Tx.cuda.cta_sync()
Tx.cta.copy(a[:, :], A_s[:, :])
Tx.cta.copy(b[:, :], B_s[:, :])
Tx.cta.fill(d[:, :], 0.0)
Tx.cta.gemm(d[:, :], a[:, :], b[:, :], d[:, :], False, False, 1.0, 1.0)
Tx.cta.copy(D[:, :], d[:, :])
""")
    solution = solve(func, alternatives=False)
    used = {a.lowering for a in solution.accesses}
    assert {"MatrixLoad(x4)", "MatrixLoad(x4.trans)", "MmaSync(m16n8k16)"} <= used
    a_s = solution.layout("A_s")
    assert isinstance(a_s, ComposeLayout) and (a_s.per_element, a_s.swizzle_len, a_s.atom_len) == (3, 3, 3)
    loads = [a for a in solution.accesses if a.lowering.startswith("MatrixLoad")]
    # ldmatrix takes one wavefront for 8 rows of 16 bytes: 4 warps read 16 rows of A each, and all of B.
    assert [a.wavefronts for a in loads] == [64 * 64 * 2 / 128, 4 * 64 * 16 * 2 / 128]
    assert execute(solution.func).good
