"""Names of kernels, parameters and what the compiler adds: none twice in the PTX."""

from __future__ import annotations

import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.names import fresh
from tirx_eq.script import parse_source

TEXT = """
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def {name}({array}: Tx.Buffer(({extent},), "float32"), n: Tx.int32):
    Tx.device_entry()
    t = Tx.thread_id([32])
    s = Tx.alloc_shared((32,), "float32")
    s[t] = {array}[t]
    Tx.cuda.cta_sync()
    {array}[t] = s[31 - t] + Tx.cast(n, "float32")
"""


def named(name: str = "k", array: str = "A", extent: str = "32"):
    return parse_source(TEXT.format(name=name, array=array, extent=extent), "k.py")[name]


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ({"name": "A"}, "the kernel and a parameter are both called 'A'"), ({"name": "n"}, "the kernel and a parameter"),
        ({"name": "é"}, "the kernel is called 'é', which is no name in PTX"),
        ({"array": "_"}, "a parameter is called '_', which is no name"),
        ({"name": "WARP_SZ"}, "the kernel is called 'WARP_SZ', which is no name"),
    ],
)  # fmt: skip
def test_names_that_ptx_does_not_have(names, says):
    with pytest.raises(LoweringError, match=says):
        compile_function(named(**names))


@pytest.mark.parametrize("names", [{"array": "smem"}, {"name": "smem"}, {"array": "smem", "name": "smem_1"}, {"name": "mov"}])
def test_names_that_the_compiler_gives_make_way(names):
    assert execute(named(**names)).good


def test_a_tensor_map_makes_way_for_a_parameter():
    text = """
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def k(A: Tx.Buffer((8, 64), "float16"), A_map: Tx.Buffer((8, 64), "float16")):
    Tx.device_entry()
    t = Tx.thread_id([32])
    s = Tx.alloc_shared((8, 64), "float16")
    bar = Tx.alloc_shared((1,), "uint64")
    if t == 0:
        Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
        Tx.ptx.fence.mbarrier_init()
        Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 1024)
        Tx.copy_async(s[:, :], A[:, :], mbar=bar.ptr_to([0]), dispatch="tma_load")
    Tx.cuda.cta_sync()
    Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
    Tx.cta.copy(A_map[:, :], s[:, :])
"""
    func = parse_source(text, "k.py")["k"]
    outcome = execute(func)
    assert outcome.good and not outcome.faults
    assert [p.name for p in compile_function(func).launch.params if p.tensor_map] == ["A_map_1"]


def test_fresh():
    assert fresh("a", ()) == "a" and fresh("a", {"a", "a_1"}) == "a_2"
