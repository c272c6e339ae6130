"""Device intrinsics, compiled and simulated: what the interpreter and numpy say."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function

from .intrinsic_cases import CASES, COPIES
from .kernels import kernel


def arrays_of(buffers: str) -> list[np.ndarray]:
    """Small numbers for the inputs, zeros for the last."""
    random = np.random.default_rng(3)
    made = []
    for part in buffers.split():
        _, dtype, size = part.split(":")
        values = random.integers(-40, 90, int(size)) if not dtype.startswith("uint") else random.integers(0, 90, int(size))
        if dt.is_float(dtype):
            values = values + 0.25
        made.append(values.astype(dt.numpy_dtype(dtype)))
    made[-1][:] = 0
    return made


@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{c[0].replace(' ', '-')[:40]}" for k, c in enumerate(CASES)])
def test_intrinsics(case):
    _, buffers, body, expected = case
    params = ", ".join(f'{n}: Tx.Buffer(({s},), "{d}")' for n, d, s in (b.split(":") for b in buffers.split()))
    func = kernel(body, params)
    arrays = arrays_of(buffers)
    made = compile_function(func)
    made.assemble()
    want = None
    if expected is not None:
        want = np.asarray(expected(*arrays[:-1])).astype(arrays[-1].dtype)
    told = interpret(func, *arrays)["B"]
    assert want is None or np.array_equal(told, want)
    for policy in ("late", "early", "random") if case in COPIES else ("late",):
        got = made.simulate(*arrays, policy=policy)
        assert not got.faults, [str(f) for f in got.faults[:2]]
        np.testing.assert_array_equal(got.arrays["B"], told)
