"""Tensor copies that combine with what is in global memory: split sums without atomics of the threads."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.conditions.tensor_reduce import REDUCTIONS
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Instruction

from .kernels import kernel
from .test_equation import lowered, verdict

TEXT = """
b = Tx.cta_id([4])
t = Tx.thread_id([64])
w = Tx.warp_id([2])
s = Tx.alloc_shared((16, 16), "{dtype}", align=1024)
Tx.cta.copy(s[:, :], A[b * 16 : b * 16 + 16, :])
Tx.ptx.fence.proxy_async("shared::cta")
Tx.cuda.cta_sync()
if w == 0:
    if Tx.ptx.elect_sync():
        Tx.copy_async(D[0:16, :], s[:, :]{config})
        Tx.ptx.cp_async.bulk.commit_group()
        Tx.ptx.cp_async.bulk.wait_group(0)
"""


def reduction(op: str, dtype: str, *changes: tuple[str, str]):
    text = TEXT.format(dtype=dtype, config=f', use_tma_reduce="{op}"' if op else "")
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return kernel(text,
                  f'A: Tx.Buffer((64, 16), "{dtype}"), D: Tx.Buffer((16, 16), "{dtype}")')  # fmt: skip


@pytest.mark.parametrize(("op", "dtype"), [(op, d) for op, dtypes in REDUCTIONS.items() for d in dtypes if "64" not in d])
def test_four_ctas_combine_into_one_tile(op, dtype):
    func = reduction(op, dtype)
    made = compile_function(func)
    made.assemble()
    assert made.ptx.count(f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{op}.tile.bulk_group") == 1
    rng = np.random.default_rng(len(op))
    a = np.full((64, 16), 6) if op in ("inc", "dec") else rng.integers(0, 8, (64, 16))
    given = a.astype(dt.numpy_dtype(dtype)), rng.integers(0, 4, (16, 16)).astype(dt.numpy_dtype(dtype))
    wanted = np.asarray(interpret(func, *given)["D"]).astype(np.float64)
    for policy in ("late", "early", "random"):
        result = made.simulate(*given, policy=policy, seed=2)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(np.asarray(result.arrays["D"]).astype(np.float64), wanted)


@pytest.mark.parametrize(("op", "dtype", "says"), [
    ("min", "float32", "use_tma_reduce=min of float32; there is one of"), ("mul", "float32", "there is one of nothing"),
    ("add", "int16", "use_tma_reduce=add of int16"),
])  # fmt: skip
def test_what_the_copy_engine_cannot_combine(op, dtype, says):
    with pytest.raises(NoCandidate, match=says):
        compile_function(reduction(op, dtype))


@pytest.mark.parametrize("wrong", ["cp.reduce.async.bulk.tensor.2d.global.shared::cta.max.tile.bulk_group",
                                   "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"])  # fmt: skip
def test_another_operation_breaks_the_equation(wrong):
    choices, bodies, program, rest = lowered(reduction("add", "float16"))
    choice = next(k for k in choices if k.chosen.node == "TensorReduce")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    mutant = tuple(dataclasses.replace(n, opcode=wrong) if isinstance(n, Instruction) else n for n in body)
    assert verdict(choice, mutant, bodies, program, rest).status == "different"
