"""What ``tirx-eq run`` allows: the worst approximations pass, a factor of one percent doesn't."""

from __future__ import annotations

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.ir import PrimFunc
from tirx_eq.lower.kernel import compile_function
from tirx_eq.script import parse_source

from .kernels import EXAMPLES

#: Example -> a change of its text that makes a result wrong by one percent.
WRONG = {
    "softmax": ("Tx.warp.reciprocal(total[:, :], total[:, :])",
                "Tx.warp.reciprocal(total[:, :], total[:, :])\n    Tx.warp.mul(total[:, :], total[:, :], 1.01)"),
    "rmsnorm": ("1e-5, 1 / 1024)", "1e-5, 1 / 1044)"),
    "attention": ("Tx.reciprocal(total[:], total[:])",
                  "Tx.reciprocal(total[:], total[:])\n        Tx.mul(total[:], total[:], 1.01)"),
    "gemm_fp8_blockwise": ("* SB[bx, k]", "* SB[bx, k] * T.float32(1.01)"),
    "gemm_nvfp4": ("Tx.mul(row[:], row[:], alpha)", "Tx.mul(row[:], row[:], alpha * T.float32(1.01))"),
    "gemm_tma_pipeline": ("    Tx.cast(D16[:], D_reg[:])",
                          "    Tx.mul(D_reg[:], D_reg[:], 1.01)\n    Tx.cast(D16[:], D_reg[:])"),
}  # fmt: skip


def source(name: str) -> str:
    """The text of an example's kernel; attention for fewer keys."""
    text = (EXAMPLES / f"{name}.py").read_text().split("\n\ndef main()")[0]
    return text.replace("HEADS, QUERIES, KEYS, DEPTH = 2, 256, 384, 64", "HEADS, QUERIES, KEYS, DEPTH = 1, 256, 256, 64")


def kernel_of(text: str) -> PrimFunc:
    return next(iter(parse_source(text, "example.py").values()))


@pytest.mark.parametrize("name", WRONG)
def test_one_percent_is_noticed(name):
    old, new = WRONG[name]
    assert source(name).count(old) == 1
    wrong = kernel_of(source(name).replace(old, new))
    outcome = execute(kernel_of(source(name)), kind="random", ptx=compile_function(wrong).ptx)
    assert not outcome.good and not outcome.faults


@pytest.mark.parametrize(("name", "kind"), [
    ("softmax", "integers"), ("softmax", "random"), ("rmsnorm", "integers"), ("rmsnorm", "random"), ("attention", "random"),
])  # fmt: skip
def test_the_worst_approximations_are_allowed(name, kind):
    outcome = execute(kernel_of(source(name)), kind=kind, approximations="worst")
    assert outcome.good, outcome.comparisons
