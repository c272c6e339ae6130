"""The example of a cluster of two CTAs (ladder 8): right under every schedule, its size, and damage that is noticed."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp import interpret
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import find_tool, sass_count
from tirx_eq.script import parse_source

from .kernels import EXAMPLES, example

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
STUCK = "no thread can go on"
POLICIES = ("late", "early", "random")
RNG = np.random.default_rng(8)
A, B = (RNG.integers(-2, 3, (n, 256)).astype(np.float16) for n in (768, 256))
WANTED = (A.astype(np.float32) @ B.astype(np.float32).T).astype(np.float16)
ZERO = np.zeros((768, 256), np.float16)


@pytest.fixture(scope="module")
def kernel():
    return compile_function(example("gemm_cluster"))


@pytest.mark.parametrize("policy", POLICIES)
def test_product(kernel, policy):
    result = kernel.simulate(A, B, ZERO, policy=policy)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["D"], WANTED)


def test_the_interpreter_agrees():
    np.testing.assert_array_equal(interpret(example("gemm_cluster"), A, B, ZERO)["D"], WANTED)


def test_what_makes_it_a_cluster(kernel):
    assert [c.choice.chosen.node for c in kernel.calls][:3] == ["TensorPairLoad", "TensorPairLoad", "Tcgen05Mma"]
    for text in (".reqnctapercluster 2", "tcgen05.mma.cta_group::2", "multicast::cluster.b64", "mapa.shared::cluster"):
        assert text in kernel.ptx
    assert not kernel.warnings and all(c.equation.status == "equal" for c in kernel.calls)


@needs_ptxas
def test_size(kernel):
    """TVM 0.26 and nvcc 13.0 give the same text 154 registers and 888 instructions."""
    made = kernel.assemble()
    assert made.spill_stores == made.spill_loads == made.stack == 0
    assert made.registers <= 148
    if find_tool("nvdisasm") is not None:
        assert sass_count(made.cubin) <= 888


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # the other CTA's barriers are never told
        ("free.arrive(use.stage, cta_group=2, cta_mask=3)", "free.arrive(use.stage, cta_group=2, cta_mask=1)", STUCK),
        # copies of the odd CTA report to its own barrier, which expects nothing
        ("mbar=full_of_pair.ptr_to([fetch.stage])", "mbar=full.ptr_to([fetch.stage])", STUCK),
        # the next tile's products don't wait until the accumulator has been read
        ("acc_free.wait(to_fill.stage, to_fill.phase)", "pass", STUCK),
        # the stages are filled whether or not they have been read
        ("free.wait(fetch.stage, fetch.phase)", "pass", "shared memory"),
    ],
)  # fmt: skip
def test_damage_is_noticed(old, new, says):
    text = (EXAMPLES / "gemm_cluster.py").read_text().split("\n\ndef main()")[0]
    assert old in text
    func = parse_source(text.replace(old, new), "gemm_cluster.py")["gemm"]
    faults = compile_function(func).simulate(A, B, ZERO, policy="early").faults
    assert any(says in str(f) for f in faults), [str(f) for f in faults[:3]]
