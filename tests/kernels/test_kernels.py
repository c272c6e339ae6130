"""Kernels as people write them for this hardware, small: compiled, assembled, run under every schedule, compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest

import tirx_eq as te

from . import fragments, tensor_core, threads

CASES = {name.removeprefix("case_"): f for module in (threads, fragments, tensor_core) for name, f in module.CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_right_under_every_schedule(name):
    func, arrays, wanted = CASES[name]()
    kernel = te.compile(func)
    assert kernel.assemble().spill_stores == 0
    for policy in ("late", "early", "random"):
        result = kernel.simulate(*arrays, policy=policy, seed=1)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for output, (right, bound) in wanted.items():
            found, right = (np.asarray(a).astype(np.float64) for a in (result.arrays[output], right))
            np.testing.assert_allclose(found, right, rtol=bound, atol=bound, err_msg=f"{output} {policy}")
