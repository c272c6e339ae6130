"""Copies between memory and shared-out registers: compiled, proved, run, and no mutant of them is taken for right."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function

from .register_kernels import LAYOUTS, through_registers
from .test_equation import lowered, mutants, verdict

DTYPES = ("float32", "float16", "uint8", "float64", "float8_e8m0fnu", "bool")


def bits(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Values whose every byte differs from its neighbours (0 or 1 for bool)."""
    size = dt.storage_bits(dtype) // 8
    raw = np.random.default_rng(5).integers(0, 120, (*shape, size), dtype=np.uint8)
    if dtype == "bool":
        raw %= 2
    return raw.view(dt.numpy_dtype(dtype)).reshape(shape)


#: Every layout with every dtype, in turn by way of global and of shared memory; halves by both.
CASES = [
    (name, dtype, place)
    for i, name in enumerate(LAYOUTS)
    for j, dtype in enumerate(DTYPES)
    for place in ("global", "shared")
    if dtype == "float16" or (i + j + (place == "global")) % 2
]


@pytest.mark.parametrize(("name", "dtype", "place"), CASES)
def test_copy_through_registers(name, dtype, place):
    layout = LAYOUTS[name]
    func = through_registers(layout, dtype, place)
    given = bits(dtype, layout.shape)
    zeros = np.zeros(layout.shape, given.dtype)
    result = compile_function(func).simulate(given, zeros)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["B"].view(np.uint8), given.view(np.uint8))
    np.testing.assert_array_equal(np.asarray(interpret(func, given, zeros)["B"]).view(np.uint8), given.view(np.uint8))


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_mutant_breaks_the_equation(name):
    choices, bodies, program, rest = lowered(through_registers(LAYOUTS[name], "float16", "global"))
    for choice in choices:
        assert choice.chosen.node == "SpreadCopy"
        body = bodies[choice.context.index]
        assert verdict(choice, body, bodies, program, rest).status == "equal"
        kinds = {}
        for what, mutant in mutants(body):
            kinds.setdefault(what, mutant)
        assert kinds or name == "copies"
        for what, mutant in kinds.items():
            found = verdict(choice, mutant, bodies, program, rest)
            assert found.status == "different" and found.counterexample, what
