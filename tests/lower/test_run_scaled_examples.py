"""The examples of scaled fp8 and fp4 products: executed under every schedule, against numpy and the interpreter.

The bounds are derived in the examples: one rounding of the result, and sums in float32 in any order.
"""

from __future__ import annotations

from functools import cache

import ml_dtypes
import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError, ProofError
from tirx_eq.interp.faults import InterpreterError
from tirx_eq.interp.inputs import generate_inputs
from tirx_eq.interp.run import interpret
from tirx_eq.ir import PrimFunc
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import Kernel, compile_function
from tirx_eq.ptx.ptxas import find_tool
from tirx_eq.script import parse_source

from .kernels import EXAMPLES, example, kernel

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
M, N = 128, 256
NAMES = ("gemm_nvfp4", "gemm_fp8_blockwise")


def variant(name: str, *changes: tuple[str, str]) -> PrimFunc:
    """An example's kernel with pieces of its text replaced."""
    text = (EXAMPLES / f"{name}.py").read_text().split("\n\ndef main()")[0]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_source(text, f"{name}.py")["gemm"]


def random(dtype: np.dtype, *shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32).astype(dtype)


def nvfp4(made: Kernel, policy: str = "late") -> float:
    """The largest error in units of the bound."""
    k = 768
    a, b = (random(ml_dtypes.float4_e2m1fn, n, k, seed=s) for s, n in ((1, M), (2, N)))
    fa, fb = (np.abs(random(ml_dtypes.float8_e4m3fn, n // 128, k // 64, 32, 16, seed=s)) for s, n in ((3, M), (4, N)))
    alpha = np.float32(0.1)
    result = made.simulate(a, b, fa, fb, alpha, np.zeros((M, N), np.float16), policy=policy)
    assert not result.faults, [str(f) for f in result.faults][:3]
    wide = []
    for x, f in ((a, fa), (b, fb)):
        row, column = np.indices((len(x), k // 16))
        place = (row // 128, column // 4, row % 32, row % 128 // 32 * 4 + column % 4)
        wide.append(x.astype(np.float64) * np.repeat(f.astype(np.float64)[place], 16, axis=1))
    exact = float(alpha) * (wide[0] @ wide[1].T)
    sums = float(alpha) * (np.abs(wide[0]) @ np.abs(wide[1]).T)
    bound = 2.0**-11 * np.abs(exact) + (k + 2) * 2.0**-24 * sums + 2.0**-25
    return float(np.max(np.abs(result.arrays["D"].astype(np.float64) - exact) / bound))


def blockwise(made: Kernel, policy: str = "late") -> float:
    k, block = 640, 128
    a, b = (random(ml_dtypes.float8_e4m3fn, n, k, seed=s) for s, n in ((1, M), (2, N)))
    rng = np.random.default_rng(3)
    sa, sb = (rng.uniform(0.25, 4, shape).astype(np.float32) for shape in ((k // block, M), (N // 128, k // block)))
    result = made.simulate(a, b, sa, sb, np.zeros((M, N), ml_dtypes.bfloat16), policy=policy)
    assert not result.faults, [str(f) for f in result.faults][:3]
    exact, sums = np.zeros((M, N)), np.zeros((M, N))
    for j in range(k // block):
        part = slice(j * block, (j + 1) * block)
        x, y = a[:, part].astype(np.float64), b[:, part].astype(np.float64)
        factor = sa[j].astype(np.float64)[:, None] * np.repeat(sb[:, j].astype(np.float64), 128)[None, :]
        exact += factor * (x @ y.T)
        sums += factor * (np.abs(x) @ np.abs(y).T)
    bound = 2.0**-8 * np.abs(exact) + (k + 2) * 2.0**-24 * sums
    return float(np.max(np.abs(result.arrays["D"].astype(np.float64) - exact) / bound))


@cache
def compiled(name: str) -> Kernel:
    """An example, compiled once."""
    return compile_function(example(name))


ERRORS = {"gemm_nvfp4": nvfp4, "gemm_fp8_blockwise": blockwise}


@pytest.mark.parametrize("policy", ["late", "early", "random"])
@pytest.mark.parametrize("name", NAMES)
def test_the_result(name, policy):
    assert ERRORS[name](compiled(name), policy) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_the_interpreter_agrees(name):
    outcome = execute(example(name), kind="random", policy="early")
    assert outcome.good and not outcome.warnings
    assert [c.name for c in outcome.comparisons if c.changed] == ["D"]


@needs_ptxas
@pytest.mark.parametrize("name", NAMES)
def test_nothing_spills(name):
    made = compiled(name).assemble()
    assert made.spill_stores == made.spill_loads == made.stack == 0


@pytest.mark.parametrize(("name", "change"), [
    ("gemm_nvfp4", ("SFA=SFA[:, :], SFB=SFB[:, :]", "SFA=SFB[:, :], SFB=SFA[:, :]")),
    ("gemm_nvfp4", ("Tx.mul(row[:], row[:], alpha)", "Tx.mul(row[:], row[:], alpha * 1.01)")),
    ("gemm_fp8_blockwise", ("SB[bx, k]", "SB[0, k]")),
])  # fmt: skip
def test_wrong_factors_are_noticed(name, change):
    assert ERRORS[name](compile_function(variant(name, change))) > 1


@pytest.mark.parametrize(("name", "dropped"), [
    ("gemm_nvfp4", "                T.ptx.mbarrier.try_wait(free.ptr_to([s]), (k // STAGES + 1) % 2)\n"),
    ("gemm_nvfp4", "        T.ptx.mbarrier.try_wait(done.ptr_to([0]), 0)\n"),
    ("gemm_fp8_blockwise", "                T.ptx.mbarrier.try_wait(taken.ptr_to([k % 2]), (k // 2 + 1) % 2)\n"),
])  # fmt: skip
def test_each_wait_is_needed(name, dropped):
    func = variant(name, (dropped, ""))
    arguments = generate_inputs(func, kind="random")
    try:
        made = compile_function(func)
    except LoweringError as refused:  # what is certain from the program's text
        assert "wait" in str(refused)
        return
    result = made.simulate(*arguments, policy="early")
    assert {f.kind for f in result.faults} & {"race", "deadlock", "tcgen05-fence"}


def test_a_negative_scale_factor_has_no_meaning():
    func = example("gemm_nvfp4")
    arguments = generate_inputs(func, kind="random")
    arguments[2] = -arguments[2]
    with pytest.raises(InterpreterError, match="no sign"):
        interpret(func, *arguments)


PACKED = (
    "t = Tx.thread_id([32])\npool = Tx.SMEMPool()\n"
    'sh = pool.alloc((8, 64), "float4_e2m1fn", align=128{layout})\nbar = pool.alloc((1,), "uint64", align=8)\npool.commit()\n'
    "if t == 0:\n    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)\n    Tx.ptx.fence.mbarrier_init()\n"
    "    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 256)\n"
    '    Tx.copy_async(sh[:, :], A[0:8, {first} : {first} + 64], dispatch="tma", mbar=bar.ptr_to([0]))\n'
    "Tx.cuda.cta_sync()\nTx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)\nTx.cta.copy(B[:, :], sh[:, :])"
)
PARAMS = 'A: Tx.Buffer((16, 128), "float4_e2m1fn"), B: Tx.Buffer((8, 64), "float4_e2m1fn")'


@pytest.mark.parametrize("first", [0, 32, 64])
def test_tensor_copies_of_packed_elements(first):
    func = kernel(PACKED.format(layout="", first=first), PARAMS)
    a = random(ml_dtypes.float4_e2m1fn, 16, 128, seed=5)
    result = compile_function(func).simulate(a, np.zeros((8, 64), a.dtype))
    assert not result.faults
    np.testing.assert_array_equal(result.arrays["B"].view(np.uint8), a[0:8, first : first + 64].view(np.uint8))


def test_packed_elements_move_in_groups_of_sixteen():
    with pytest.raises(NoCandidate, match="multiple of 16"):
        compile_function(kernel(PACKED.format(layout="", first=8), PARAMS))


def test_the_halves_of_a_byte_are_told_apart():
    swapped = ", layout=TileLayout(S[(8, 32, 2) : (64, 2, -1)] + 1)"
    with pytest.raises((NoCandidate, ProofError), match="byte"):
        compile_function(kernel(PACKED.format(layout=swapped, first=0), PARAMS))
