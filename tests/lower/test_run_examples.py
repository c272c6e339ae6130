"""The examples of row kernels, executed under every schedule, against numpy in double precision and the interpreter.

The bounds are derived in the examples; a faulty program must be noticed, so some are made by damaging the source.
"""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import find_tool
from tirx_eq.script import parse_source

from .kernels import EXAMPLES, example
from .value_kernels import run

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
POLICIES = ("late", "early", "random")
ROWS = ("softmax", "rmsnorm")


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def rmsnorm(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5) * w


@pytest.mark.parametrize("policy", POLICIES)
def test_softmax(policy):
    x = np.random.default_rng(1).uniform(-6, 6, (64, 256)).astype(np.float16)
    got = run(example("softmax"), x, np.zeros((64, 256), np.float32), policy=policy)["Y"]
    np.testing.assert_allclose(got, softmax(x), rtol=66 * 2.0**-24)


@pytest.mark.parametrize("policy", POLICIES)
def test_rmsnorm(policy):
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal((16, 1024)).astype(np.float16), rng.uniform(-2, 2, (1, 1024)).astype(np.float32)
    got = run(example("rmsnorm"), x, w, np.zeros((16, 1024), np.float32), policy=policy)["Y"]
    np.testing.assert_allclose(got, rmsnorm(x, w), rtol=11 * 2.0**-24)


def test_softmax_of_large_numbers_does_not_overflow():
    """Whatever the error of the exponents, a row sums to one, and its largest number stays its largest."""
    x = np.random.default_rng(2).uniform(-60000, 60000, (64, 256)).astype(np.float16)
    got = run(example("softmax"), x, np.zeros((64, 256), np.float32))["Y"].astype(np.float64)
    np.testing.assert_allclose(got.sum(axis=1), 1.0, rtol=16 * 2.0**-24)
    np.testing.assert_array_equal(np.argmax(got, axis=1), np.argmax(x, axis=1))


@pytest.mark.parametrize("kind", ["integers", "random"])
@pytest.mark.parametrize("name", ROWS)
def test_the_interpreter_agrees(name, kind):
    outcome = execute(example(name), kind=kind)
    assert outcome.good and not outcome.warnings
    assert [c.name for c in outcome.comparisons if c.changed] == ["Y"]


@needs_ptxas
@pytest.mark.parametrize("name", ROWS)
def test_nothing_spills(name):
    made = compile_function(example(name)).assemble()
    assert made.spill_stores == made.spill_loads == made.stack == 0
    assert made.registers <= 64


def source(name: str) -> str:
    """The text of an example as far as its kernel goes."""
    return (EXAMPLES / f"{name}.py").read_text().split("\n\ndef main()")[0]


@pytest.mark.parametrize("which", [0, 1])
def test_each_barrier_of_rmsnorm_is_needed(which):
    """Without the first the sums are read too early, without the second the next row's overwrite them."""
    barrier = "Tx.cuda.cta_sync()"
    start, middle, end = source("rmsnorm").split(barrier)
    between = [barrier, barrier]
    between[which] = "pass"
    func = parse_source(start + between[0] + middle + between[1] + end, "rmsnorm.py")["rmsnorm"]
    x, w = np.ones((16, 1024), np.float16), np.ones((1, 1024), np.float32)
    result = compile_function(func).simulate(x, w, np.zeros((16, 1024), np.float32))
    assert {f.kind for f in result.faults} == {"race"}


def test_the_maximum_is_what_keeps_softmax_finite():
    shift = "x[:, :], shift[:, :], log2_e)"
    assert source("softmax").count(shift) == 1
    func = parse_source(source("softmax").replace(shift, "x[:, :], 0.0, log2_e)"), "softmax.py")["softmax"]
    x, y = np.full((64, 256), 100.0, np.float16), np.zeros((64, 256), np.float32)
    assert not np.isfinite(run(func, x, y)["Y"]).any()
    np.testing.assert_array_equal(run(example("softmax"), x, y)["Y"], np.float32(2.0**-8))
