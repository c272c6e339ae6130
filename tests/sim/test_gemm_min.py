"""The hand-written tcgen05 GEMM gives A @ B.T exactly, in every schedule."""

from pathlib import Path

import numpy as np
import pytest

from tirx_eq.sim import Launch, TensorMap, simulate

DATA = Path(__file__).parent.parent / "data" / "ptx"
SOURCE = (DATA / "gemm_min.ptx").read_text()
SCHEDULES = [("late", 0), ("early", 0)] + [("random", seed) for seed in range(5)]


def run(source, a, b, policy="late", seed=0, **options):
    """Launch gemm_min over C = A @ B.T; returns the simulator's result."""
    (m, k), n = a.shape, b.shape[0]
    c = np.full((m, n), -1, np.float32)
    maps = {f"tm{x}": TensorMap(x, "f16", (k, v.shape[0]), (2 * k,), (64, 128), swizzle="128B")
            for x, v in (("A", a), ("B", b))}
    launch = Launch((n // 128, m // 128, 1), (128, 1, 1))
    return simulate(source, "gemm_min", launch, {"pC": c, "ldc": n, "A": a, "B": b}, maps, policy, seed, **options)


@pytest.mark.parametrize("policy,seed", SCHEDULES)
def test_integers_are_exact(policy, seed):
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-8, 9, (128, 64)).astype(np.float16) for _ in range(2))
    result = run(SOURCE, a, b, policy, seed).raise_for_faults()
    assert np.array_equal(result.arrays["pC"], a.astype(np.float64) @ b.astype(np.float64).T)


def test_normal_data_within_accumulation_error():
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((128, 64)).astype(np.float16) for _ in range(2))
    result = run(SOURCE, a, b).raise_for_faults()
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = 64 * 2.0**-22 * (np.abs(wide_a) @ np.abs(wide_b).T)
    assert (np.abs(result.arrays["pC"] - wide_a @ wide_b.T) <= bound).all()


def test_several_ctas():
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-8, 9, (256, 64)).astype(np.float16) for _ in range(2))
    result = run(SOURCE, a, b).raise_for_faults()
    assert np.array_equal(result.arrays["pC"], a.astype(np.float64) @ b.astype(np.float64).T)
