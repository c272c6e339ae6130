"""Arguments and config keys of tile primitives: each works, or is an error that names it."""

from __future__ import annotations

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import IRError, LoweringError
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((32, 16), "float32"), B: Tx.Buffer((32,), "float32"), C: Tx.Buffer((32, 16), "float32")'


def one(call: str):
    return kernel(f"t = Tx.thread_id([32])\n{call}", PARAMS)


@pytest.mark.parametrize("axes", ["axes=1", "reduce_axes=1", "axes=(1,)", "axes=-1", ""])
def test_axes_of_a_negated_reduction(axes):
    more = f", {axes}" if axes else ""
    outcome = execute(one(f"Tx.cta.reduce_negate(B[:], A[:, :], 'sum'{more})"))
    assert outcome.good


def test_axes_that_are_not_the_last():
    params = 'A: Tx.Buffer((16, 32), "float32"), B: Tx.Buffer((32,), "float32")'
    func = kernel("t = Tx.thread_id([32])\nTx.cta.reduce_negate(B[:], A[:, :], 'max', axes=0)", params)
    assert execute(func).good


@pytest.mark.parametrize("name", ["binary_reduce", "unary_reduce"])
def test_axes_of_a_composed_reduction(name):
    what = "A[:, :], A[:, :], 'mul', 'sum'" if name == "binary_reduce" else "A[:, :], 'exp2', 'sum'"
    assert execute(one(f"Tx.cta.{name}(C[:, :], B[:], {what}, axes=1)"), kind="random").good


def test_axes_given_twice():
    with pytest.raises(IRError, match="'reduce_axes' is given twice"):
        one("Tx.cta.reduce_negate(B[:], A[:, :], 'sum', axes=1, reduce_axes=1)")


@pytest.mark.parametrize(
    ("call", "key", "near"),
    [
        ("Tx.cta.sum(B[:], A[:, :], axis=1)", "axis", "axes"),
        ("Tx.cta.copy(C[:, :], A[:, :], vector_len=4)", "vector_len", "vec_len"),
        ("Tx.cta.copy(C[:, :], A[:, :], accumulate=True)", "accumulate", ""),
        ("Tx.cta.add(C[:, :], A[:, :], A[:, :], accum=True)", "accum", ""),
        ("Tx.cta.sum(B[:], A[:, :], reduce_axes=1)", "reduce_axes", "axes"),
    ],
)  # fmt: skip
def test_a_key_that_no_primitive_has_is_an_error(call, key, near):
    with pytest.raises(LoweringError, match=f"was given '{key}', which is no argument or config key") as e:
        compile_function(one(call))
    assert near in str(e.value.hint or "") and e.value.span is not None


@pytest.mark.filterwarnings("ignore:.*which nothing reads")
@pytest.mark.parametrize("key", ["vec_len=4", "max_inst_size=8", "cache_hint='evict_last'", "cta_group=1"])
def test_hints_may_be_left_unread(key):
    assert execute(one(f"Tx.cta.copy(C[:, :], A[:, :], {key})")).good


@pytest.mark.parametrize("key", ["cta_group=2", "mbar=bar.ptr_to([0])", "cta_mask=1", "remote_cta_id=0"])
def test_keys_that_mean_something_are_read_or_refused(key):
    with pytest.raises(LoweringError, match=key.partition("=")[0]):
        compile_function(one(f"bar = Tx.alloc_shared((1,), 'uint64')\nTx.cta.copy(C[:, :], A[:, :], {key})"))


def test_a_key_of_a_composition_is_its_parts():
    text = "with Tx.compose_op(colour=1):\n    Tx.cta.copy(C[:, :], A[:, :])\n    Tx.cta.copy(C[:, :], A[:, :])"
    with pytest.raises(LoweringError, match=r"compose_op.*'colour'"):
        compile_function(one(text))
