"""The public strategies draw what they promise; and the property that matters most: PTX in the simulator and the
reference interpreter agree on kernels nobody thought of."""

import numpy as np
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

import tirx_eq as te
from tirx_eq import ir
from tirx_eq.cli.run import execute
from tirx_eq.errors import IRError, LoweringError
from tirx_eq.interp import generate_inputs, interpret
from tirx_eq.ir.index import evaluate, names
from tirx_eq.script import parse_function
from tirx_eq.strategies import permuted_layouts, prim_sources, tile_sources

few = settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))


@settings(max_examples=60, deadline=None)
@given(te.strategies.index_exprs(), st.randoms(use_true_random=False))
def test_index_expressions_have_values_in_their_ranges(drawn, random):
    term, ranges = drawn
    assert names(term) <= set(ranges)
    for _ in range(5):
        assert isinstance(int(evaluate(term, {n: random.randint(*r) for n, r in ranges.items()})), int)


@settings(max_examples=60, deadline=None)
@given(te.strategies.tile_layouts(axes=("m", "TLane")))
def test_tile_layouts_evaluate_as_they_apply(layout):
    flat = np.arange(int(layout.size()))
    found = layout.evaluate(flat)
    for x in flat[:: max(1, len(flat) // 7)]:
        point = layout.at(int(x))
        assert all(point.get(axis, 0) == values[x] for axis, values in found.items())


@settings(max_examples=40, deadline=None)
@given(te.strategies.swizzles())
def test_swizzles_are_involutions(layout):
    flat = np.arange(layout.period)
    once = layout.evaluate(flat)["m"]
    assert np.array_equal(np.sort(once), flat) and np.array_equal(layout.evaluate(once)["m"], flat)


@settings(max_examples=40, deadline=None)
@given(permuted_layouts((8, 16)))
def test_permuted_layouts_are_compact(layout):
    assert np.array_equal(np.sort(layout.evaluate(np.arange(128))["m"]), np.arange(128))


@settings(max_examples=15, deadline=None)
@given(te.strategies.prim_funcs())
def test_kernels_print_and_have_a_meaning(func):
    assert ir.first_difference(func, parse_function(func.script())) is None
    arguments = generate_inputs(func, 1)
    found = interpret(func, *arguments)
    assert list(found) == ["A", "B", "C"] and np.array_equal(found["A"], arguments[0])


@few
@given(prim_sources())
def test_elementwise_ptx_agrees_with_the_interpreter(source):
    try:
        outcome = execute(parse_function(source), seed=1)
    except (LoweringError, IRError) as error:
        assert "beyond 64 bits" in str(error) or "is not a value of" in str(error)  # folded constants
        reject()  # a refusal is not a wrong result
    assert outcome.good and outcome.exact, outcome.to_json()


@few
@given(tile_sources())
def test_tile_primitives_in_ptx_agree_with_the_interpreter(source):
    outcome = execute(parse_function(source), seed=1, kind="random")
    assert outcome.good and outcome.exact, outcome.to_json()
