"""The ladder of matrix products: each example executed under every schedule and compared with numpy, and damaged ones noticed.

Operands are small integers, so that every sum is exact and results are equal bit for bit.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.lower.kernel import Kernel, compile_function
from tirx_eq.ptx.ptxas import find_tool
from tirx_eq.script import parse_source

from .kernels import EXAMPLES, example

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
POLICIES = ("late", "early", "random")
LADDER = (
    "gemm_single_tile", "gemm_k_loop", "gemm_many_tiles", "gemm_tma", "gemm_software_pipeline", "gemm_persistent",
    "gemm_warp_roles", "gemm_two_consumers",
)  # fmt: skip


@cache
def compiled(name: str) -> Kernel:
    return compile_function(example(name))


def operands(func, seed=0):
    shapes = [b.const_shape() for b in func.buffer_map.values()]
    generator = np.random.default_rng(seed)
    a, b = (generator.integers(-3, 4, shape).astype(np.float16) for shape in shapes[:2])
    return a, b, np.full(shapes[2], np.nan, np.float16)


def product(a, b):
    return (a.astype(np.float32) @ b.astype(np.float32).T).astype(np.float16)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", LADDER)
def test_example(name, policy):
    a, b, d = operands(example(name))
    result = compiled(name).simulate(a, b, d, policy=policy)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["D"], product(a, b))


@needs_ptxas
@pytest.mark.parametrize("name", LADDER)
def test_nothing_spills(name):
    made = compiled(name).assemble()
    assert made.spill_stores == made.spill_loads == made.stack == 0
    assert made.registers <= 168  # what three warpgroups may have each


def source(name: str) -> str:
    """The text of an example as far as its kernel goes."""
    return (EXAMPLES / f"{name}.py").read_text().split("\n\ndef main()")[0]


def damaged(name: str, right: str, wrong: str):
    text = source(name)
    assert text.count(right) == 1, f"{right!r} is {text.count(right)} times in {name}"
    return parse_source(text.replace(right, wrong), f"{name}.py")["gemm"]


def is_noticed(func) -> bool:
    """Whether the compiler refuses it, or a run of it has faults or wrong numbers."""
    try:
        made = compile_function(func)
    except LoweringError:
        return True
    a, b, d = operands(func)
    for policy in POLICIES:
        result = made.simulate(a, b, d, policy=policy)
        if result.faults or not np.array_equal(result.arrays["D"], product(a, b)):
            return True
    return False


#: example -> (text, damaged text)
MUTANTS = {
    "gemm_k_loop": ("mbarrier.try_wait(mbar.ptr_to([0]), k % 2)", "mbarrier.try_wait(mbar.ptr_to([0]), (k + 1) % 2)"),
    "gemm_many_tiles": ("T.cta_id([N // BN, M // BM])", "T.cta_id([M // BM, N // BN])"),
    "gemm_tma": ("T.ptx.mbarrier.try_wait(done.ptr_to([0]), k % 2)", "pass"),
    "gemm_software_pipeline": ("T.ptx.mbarrier.try_wait(free.ptr_to([(k + 1) % 2]), (k - 1) // 2 % 2)", "pass"),
    "gemm_persistent": ("use = PipelineState(STAGES, 0)", "use = PipelineState(STAGES, 1)"),
    "gemm_warp_roles": ("acc_free.wait(to_fill.stage, to_fill.phase)", "acc_free.wait(to_fill.stage, 1)"),
    "gemm_two_consumers": ("free.init(CONSUMERS)", "free.init(1)"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_damage_is_noticed(name):
    right, wrong = MUTANTS[name]
    assert is_noticed(damaged(name, right, wrong))
