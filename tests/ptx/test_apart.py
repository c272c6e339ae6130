"""Arrays of a launch that overlap are refused, if the kernel writes one of them."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.errors import LaunchError, SimulationError
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.host import check_apart
from tirx_eq.ptx.launch import Launch
from tirx_eq.script import parse_source

TEXT = """
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def k(A: Tx.Buffer((32,), "float32"), B: Tx.Buffer((32,), "float32"), C: Tx.Buffer((32,), "float32")):
    Tx.device_entry()
    t = Tx.thread_id([32])
    C[t] = A[t] + B[t]
"""


@pytest.fixture(scope="module")
def kernel():
    return compile_function(parse_source(TEXT, "k.py")["k"])


def test_what_is_only_read_may_be_given_twice(kernel):
    a = np.arange(32, dtype=np.float32)
    result = kernel.simulate(a, a, np.zeros(32, np.float32))
    assert (result.arrays["C"] == 2 * a).all()


@pytest.mark.parametrize("start", [0, 1, 31])
def test_what_is_written_may_not_overlap(kernel, start):
    whole = np.zeros(96, np.float32)
    with pytest.raises(SimulationError, match=r"'A' and 'C' overlap in memory, and k writes 'C'"):
        kernel.simulate(whole[:32], np.zeros(32, np.float32), whole[start : start + 32])
    kernel.simulate(whole[:32], whole[64:], whole[32:64])


def test_addresses_on_a_device(kernel):
    check_apart(kernel.launch, {"A": (0, 128), "B": (64, 128), "C": (192, 128)})
    with pytest.raises(LaunchError, match=r"'B' and 'C' overlap"):
        check_apart(kernel.launch, {"A": (0, 128), "B": (64, 128), "C": (191, 128)})


def test_launch_data_keeps_what_is_unchanged(kernel):
    again = Launch.from_json(kernel.launch.to_json())
    assert [p.unchanged for p in again.params] == [True, True, False]
