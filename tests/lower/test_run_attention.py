"""The attention example: executed under every schedule, against numpy in double precision and the interpreter.

The bound is derived in the example: f16 (or bf16) roundings of the probabilities and of the result.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError
from tirx_eq.ir import PrimFunc
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import Kernel, compile_function
from tirx_eq.ptx.ptxas import find_tool
from tirx_eq.script import parse_source

from .kernels import EXAMPLES, example

needs_ptxas = pytest.mark.skipif(find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")
SHAPE = "HEADS, QUERIES, KEYS, DEPTH = 2, 256, 384, 64"


def variant(*changes: tuple[str, str]) -> PrimFunc:
    """The example's kernel with pieces of its text replaced."""
    text = (EXAMPLES / "attention.py").read_text().split("\n\ndef main()")[0]
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return parse_source(text, "attention.py")["attention"]


SHORT = (SHAPE, "HEADS, QUERIES, KEYS, DEPTH = 1, 256, 256, 64")


def inputs(func: PrimFunc, scale: float = 1.0) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    buffers = [func.buffer_map[p] for p in func.params[:3]]
    return [
        (rng.standard_normal(b.const_shape()) * scale).astype(dt.numpy_dtype(b.dtype)) for b in buffers
    ]


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
    """The result in double precision and the error that roundings with unit ``unit`` may make."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[2])
    weights = np.exp(scores - scores.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    exact = weights @ v
    tiny = k.shape[1] * 2.0**-25 * np.abs(v).max()
    return exact, (unit + 2.0**-15) * (weights @ np.abs(v)) + unit * np.abs(exact) + tiny


@cache
def compiled() -> Kernel:
    """The example, compiled once."""
    return compile_function(example("attention"))


def error(func: PrimFunc, policy: str = "late", unit: float = 2.0**-11, made: Kernel | None = None) -> float:
    """The largest error in units of the bound."""
    given = inputs(func)
    result = (made or compile_function(func)).simulate(*given, np.zeros_like(given[0]), policy=policy)
    assert not result.faults, [str(f) for f in result.faults][:3]
    exact, bound = attention(*given, unit)
    return float(np.max(np.abs(result.arrays["O"].astype(np.float64) - exact) / bound))


@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_the_result(policy):
    assert error(example("attention"), policy, made=compiled()) <= 1


def test_heads_of_128():
    assert error(variant((SHAPE, "HEADS, QUERIES, KEYS, DEPTH = 1, 256, 256, 128"))) <= 1


def test_bfloat16():
    assert error(variant(SHORT, ('"float16"', '"bfloat16"')), unit=2.0**-8) <= 1


def test_the_interpreter_agrees():
    outcome = execute(variant(SHORT), kind="random")
    assert outcome.good and not outcome.warnings
    assert [c.name for c in outcome.comparisons if c.changed] == ["O"]


def test_large_scores_overflow_nothing():
    func = variant(SHORT)
    q, k, v = inputs(func, 30.0)
    result = compile_function(func).simulate(q, k, v, np.zeros_like(q))
    got = result.arrays["O"].astype(np.float64)
    best = np.argmax(q.astype(np.float64)[0] @ k.astype(np.float64)[0].T, axis=1)
    # Where one score exceeds all others by far, its value is the result.
    close = np.max(np.abs(got[0] - v[0][best]), axis=1) < 1e-2
    assert np.isfinite(got).all() and close.mean() > 0.9


@needs_ptxas
def test_nothing_spills():
    made = compiled().assemble()
    assert made.spill_stores == made.spill_loads == made.stack == 0
    assert made.registers <= 200  # 65,536 registers among 320 threads


@pytest.mark.parametrize("dropped, fault", [
    ("                    T.ptx.mbarrier.try_wait(p_full.ptr_to([s]), j % 2)\n", "deadlock"),
    ("            T.ptx.tcgen05.wait.st()\n", "race"),
    ("            T.ptx.mbarrier.try_wait(s_full.ptr_to([wg_id]), j % 2)\n", "race"),
    ("                T.ptx.mbarrier.try_wait(kv_free.ptr_to([j % 2]), (j // 2 + 1) % 2)\n", "race"),
])  # fmt: skip
def test_each_wait_is_needed(dropped, fault):
    """Without the wait for the probabilities the products run ahead by two phases, and the next wait never ends."""
    func = variant((SHAPE, "HEADS, QUERIES, KEYS, DEPTH = 1, 256, 384, 64"), (dropped, ""))
    try:
        made = compile_function(func)
    except LoweringError as refused:  # what is certain from the program's text
        assert fault == "race" and "wait" in str(refused)
        return
    result = made.simulate(*inputs(func), np.zeros((1, 256, 64), np.float16), policy="early")
    assert fault in {f.kind for f in result.faults}, {f.kind for f in result.faults}


def test_the_output_must_be_scaled_to_the_new_maximum():
    assert error(variant(SHORT, ("Tx.mul(out_reg[:], out_reg[:], change[:])", "Tx.mul(out_reg[:], out_reg[:], 1.0)"))) > 2


def test_a_factor_of_one_percent_is_noticed():
    assert error(variant(SHORT, ("1.4426950408889634 /", "1.4571 /"))) > 2
