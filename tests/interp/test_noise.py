"""Disturbed executions: how results change when every operation is off by what it may be."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp import noise, values
from tirx_eq.interp.run import disturbed_results, interpret
from tirx_eq.script import parse_source

KERNEL = """
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def k(A: Tx.Buffer((32,), "float32"), C: Tx.Buffer((32,), "float32")):
    Tx.device_entry()
    t = Tx.thread_id([32])
    C[t] = {value}
"""


def results(value: str, a: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    func = parse_source(KERNEL.format(value=value), "k.py")["k"]
    c = np.zeros(32, np.float32)
    return interpret(func, a, c)["C"], [d["C"] for d in disturbed_results(func, [a, c])]


def test_a_product_is_off_by_a_rounding():
    a = np.linspace(1, 2, 32).astype(np.float32)
    plain, (up, down, either) = results("A[t] * Tx.float32(1.5)", a)
    steps = np.spacing(plain)
    assert ((up >= plain) & (up <= plain + steps)).all() and (up > plain).any()
    assert ((down <= plain) & (down >= plain - steps)).all() and (down < plain).any()
    assert ((either == up) | (either == down)).all() and (either != up).any() and (either != down).any()


def test_a_function_is_off_by_what_is_promised():
    a = np.linspace(-3, 3, 32).astype(np.float32)
    plain, (up, down, _) = results("Tx.exp2(A[t])", a)
    for other in (up, down):
        relative = np.abs(other.astype(np.float64) / plain - 1)
        assert 2.0**-23 < relative.max() <= 2.0**-21.5


def test_exact_operations_are_not_disturbed():
    a = np.linspace(-3, 3, 32).astype(np.float32)
    for value in ("Tx.max(A[t], Tx.float32(0.1))", "Tx.floor(A[t])", "A[t]", "Tx.sqrt(Tx.fabs(A[t]))"):
        plain, others = results(value, a)
        assert all(np.array_equal(plain, o) for o in others), value


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_steps(dtype):
    import ml_dtypes

    target = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x = np.array([1.0, 1.5, 2.0, 3.0, 1000.0, 0.0]).astype(target)
    bits = x.view(f"u{target.itemsize}")
    following = (bits + bits.dtype.type(1)).view(target)
    wanted = values.widen(following) - values.widen(x)
    np.testing.assert_allclose(noise.one_step(values.widen(x), dtype), wanted)


def test_noise_ends():
    with noise.disturbed("up"):
        assert noise.active()
    assert not noise.active()
