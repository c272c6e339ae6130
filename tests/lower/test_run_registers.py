"""Copies between memory and shared-out registers: compiled, proved, run, and no mutant of them is taken for right."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If

from .register_kernels import LAYOUTS, Layout, through_registers
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


def inner_mutants(body):
    """Mutants of a body, or of what it guards."""
    if isinstance(body[0], If):
        for what, mutant in mutants(body[0].then):
            yield what, (dataclasses.replace(body[0], then=mutant), *body[1:])
    yield from mutants(body)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_mutant_breaks_the_equation(name):
    choices, bodies, program, rest = lowered(through_registers(LAYOUTS[name], "float16", "global"))
    for choice in choices:
        assert choice.chosen.node == "SpreadCopy"
        body = bodies[choice.context.index]
        assert verdict(choice, body, bodies, program, rest).status == "equal"
        kinds = {}
        for what, mutant in inner_mutants(body):
            kinds.setdefault(what, mutant)
        assert kinds
        for what, mutant in kinds.items():
            found = verdict(choice, mutant, bodies, program, rest)
            assert found.status == "different" and found.counterexample, what


#: (layout, shared memory column by column) -> the instructions of the load and the store.
MATRICES = {
    ("fragment", False): ("MatrixLoad(x4)", "MatrixStore(x4)"),
    ("fragment", True): ("MatrixLoad(x4.trans)", "MatrixStore(x4.trans)"),
    ("transposed pairs", False): ("MatrixLoad(x4.trans)", "MatrixStore(x4.trans)"),
    ("operand in every warp", False): ("MatrixLoad(x4)", "SpreadCopy(bytes=4)"),
    ("operand in every warp", True): ("MatrixLoad(x4.trans)", "SpreadCopy(bytes=2)"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "column_major"), MATRICES)
def test_fragments_move_as_matrices(name, column_major):
    layout = LAYOUTS[name]
    kernel = compile_function(through_registers(layout, "float16", "shared", column_major))
    assert tuple(c.choice.chosen.describe() for c in kernel.calls[1:3]) == MATRICES[name, column_major]
    given = bits("float16", layout.shape)
    result = kernel.simulate(given, np.zeros(layout.shape, np.float16))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["B"].view(np.uint16), given.view(np.uint16))


@pytest.mark.parametrize("column_major", [False, True])
def test_every_mutant_of_a_matrix_copy_breaks_the_equation(column_major):
    choices, bodies, program, rest = lowered(through_registers(LAYOUTS["fragment"], "float16", "shared", column_major))
    for choice in choices[1:3]:
        body = bodies[choice.context.index]
        found = list(mutants(body))
        trans = "" if column_major else ".trans"
        other = body[0].opcode.replace(".trans", "").replace(".shared", trans + ".shared")
        found.append(("transposed or not", (dataclasses.replace(body[0], opcode=other), *body[1:])))
        assert len(found) >= 4
        for what, mutant in found:
            assert verdict(choice, mutant, bodies, program, rest).status == "different", what


def test_two_matrices_at_a_time_where_four_are_not_a_multiple():
    """A thread's six registers: the widest form doesn't fit, and of those that fit the cheapest is taken."""
    layout = Layout("warp", (8, 48), "S[(8, 6, 4, 2):(4 @ laneid, 2, 1 @ laneid, 1)]", 12)
    kernel = compile_function(through_registers(layout, "float16", "shared"))
    load = kernel.calls[1].choice
    assert load.chosen.describe() == "MatrixLoad(x2)"
    assert {k.describe() for k in load.candidates} >= {"MatrixLoad(x1)", "SpreadCopy(bytes=4)"}
