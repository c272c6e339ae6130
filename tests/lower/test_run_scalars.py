"""Scalar code, compiled and simulated, gives what the interpreter gives."""

from __future__ import annotations

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

STATEMENTS = {
    "float constant on the left": ("float32", 32, "C[t] = Tx.float32(0.5) + A[t]"),
    "float constant stored": ("float32", 32, "C[t] = Tx.float32(6)"),
    "half constant stored": ("float16", 32, "C[t] = Tx.float16(6)"),
    "double constant stored": ("float64", 32, "C[t] = Tx.float64(0.1)"),
    "float constants chosen": ("float32", 32, "C[t] = Tx.Select(t < 4, Tx.float32(1), A[t]) + Tx.Select(t > 9, A[t], 2.0)"),
    "float scalar": ("float32", 32, "x: Tx.float32 = Tx.float32(2)\nC[t] = x * A[t]"),
    "half scalar": ("float16", 32, "x: Tx.float16 = Tx.float16(2)\nC[t] = x * A[t]"),
    "int32 wraps": ("int32", 32, "C[t] = A[t] * A[t] - (A[t] + A[t]) * 65537"),
    "uint32 wraps": ("uint32", 32, "C[t] = A[t] * A[t] + A[t]"),
    "int64 wraps": ("int64", 32, "C[t] = A[t] * A[t] - (A[t] + A[t])"),
    "uint8 wraps": ("uint8", 32, "C[t] = A[t] * A[t]"),
    "uint32 constants beyond half the range": (
        "uint32", 32, "C[t] = Tx.min(A[t], Tx.uint32(3000000000)) + Tx.max(A[t], Tx.uint32(3000000001)) // 3"),
    "uint32 modulus beyond half the range": ("uint32", 32, "C[t] = A[t] % Tx.uint32(3000000000)"),
    "uint32 difference": ("uint32", 32, "C[t] = Tx.uint32(3000000000) - A[t]"),
    "uint32 product and sum": ("uint32", 32, "C[t] = A[t] * Tx.uint32(3000000001) + Tx.uint32(4000000000)"),
    "a scalar widened, then changed": ("int32", 32, "x: Tx.int32 = A[t]\nx = x + 1 + x\nC[t] = 1 + x"),
    "a scalar tested, then changed": (
        "int32", 32, "x: Tx.bool = A[t] > 0\ny: Tx.int32 = Tx.Select(x, 1, 2)\nx = A[t] < 5\nC[t] = Tx.Select(x, y, 7)"),
    "an index loaded, then changed": (
        "int32", 64, "x: Tx.int32 = t\ny: Tx.int32 = A[x]\nx = x + 32\nC[t] = y - A[x]"),
    "signed compared with unsigned": (
        "uint32", 32, "C[t] = Tx.Select(Tx.cast(t, 'int64') - 5 < Tx.cast(A[t], 'int64'), A[t], Tx.uint32(1))"),
    "a load only where it may be": ("int32", 4, "C[t] = Tx.if_then_else(t < 4, A[t], 7)"),
    "a half load only where it may be": ("float16", 4, "C[t] = Tx.if_then_else(t < 4, A[t], Tx.float16(7)) + Tx.float16(1)"),
    "a load on the other side": ("float32", 4, "C[t] = Tx.if_then_else(t >= 4, Tx.float32(1), A[t])"),
    "a bool load": ("bool", 4, "C[t] = Tx.if_then_else(t < 4, A[t], t > 9)"),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_statement(name):
    dtype, size, text = STATEMENTS[name]
    func = kernel(f"t = Tx.thread_id([32])\n{text}", f'A: Tx.Buffer(({size},), "{dtype}"), C: Tx.Buffer((32,), "{dtype}")')
    outcome = execute(func, kind="random")
    assert not outcome.faults, [str(f) for f in outcome.faults[:3]]
    assert outcome.good, outcome.comparisons


@pytest.mark.parametrize("config", ["cta_mask=3", 'use_tma_reduce="add"', 'oob="nan"', "remote_cta_id=0"])
def test_config_that_changes_the_meaning_is_not_ignored(config):
    func = kernel(
        f"t = Tx.thread_id([32])\nTx.cta.copy(C[:], A[:], {config})",
        'A: Tx.Buffer((32,), "float32"), C: Tx.Buffer((32,), "float32")',
    )
    with pytest.raises(LoweringError, match=config.partition("=")[0]):
        compile_function(func)


def test_addresses_beyond_half_of_32_bits():
    """pytorch/pytorch#186057: the width is that of the expression, not of the buffers."""
    body = "t = Tx.thread_id([4])\nB[t] = A[t + 2779057358]"
    func = kernel(body, 'A: Tx.Buffer((2790000000,), "int8"), B: Tx.Buffer((4,), "int8")')
    ptx = compile_function(func).ptx
    assert "add.u32" in ptx and "cvt.u64.u32" in ptx and "add.s32" not in ptx
