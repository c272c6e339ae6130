"""Scope ids and active threads."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.ir import Var
from tirx_eq.ir.index import evaluate_many
from tirx_eq.ir.index_ir import IndexScope
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.sharing.active import Active, narrow, thread_points
from tirx_eq.lower.sharing.threads import find_launch

from .kernels import kernel

IDS = """
bx, by = Tx.cta_id([3, 5])
wg = Tx.warpgroup_id([2])
w = Tx.warp_id([8])
ww = Tx.warp_id_in_wg([4])
lane = Tx.lane_id([32])
tid = Tx.thread_id([256])
tw = Tx.thread_id_in_wg([128])
Tx.evaluate(0)
"""

#: id -> its value for thread t of a CTA, written independently
MEANING = {
    "wg": lambda t: t // 128, "w": lambda t: t // 32, "ww": lambda t: (t // 32) % 4, "lane": lambda t: t % 32,
    "tid": lambda t: t, "tw": lambda t: t % 128,
}  # fmt: skip


def values(launch, e):
    scope = IndexScope()
    launch.declare(scope)
    names = {scope.name(v): r for r, v in launch.special.items() if r.startswith("tid.")}
    return np.broadcast_to(evaluate_many(scope.term(e), thread_points(launch, names)), (launch.threads,))


def test_launch_and_ids():
    launch = find_launch(kernel(IDS))
    assert launch.grid == (3, 5, 1) and launch.block == (256, 1, 1) and launch.cluster == (1, 1, 1)
    threads = np.arange(256)
    for var, e in launch.ids.items():
        if var.name in MEANING:
            np.testing.assert_array_equal(values(launch, e), MEANING[var.name](threads), err_msg=var.name)
    assert {v.name: e.name for v, e in launch.ids.items() if v.name in ("bx", "by")} == {"bx": "ctaid.x", "by": "ctaid.y"}


def test_thread_ids_in_two_dimensions():
    launch = find_launch(kernel("x, y = Tx.thread_id([16, 8])\nlane = Tx.lane_id([32])\nTx.evaluate(0)"))
    assert launch.block == (16, 8, 1) and launch.threads == 128
    lane = next(e for v, e in launch.ids.items() if v.name == "lane")
    np.testing.assert_array_equal(values(launch, lane), np.arange(128) % 32)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("t = Tx.thread_id([100])\nw = Tx.warp_id([4])", "disagree"),
        ("t = Tx.thread_id([2048])", "1024"),
        ("l = Tx.lane_id([16])", "32"),
        ("c = Tx.cta_id_in_cluster([2])\nb = Tx.cta_id([3])\nt = Tx.thread_id([32])", "multiple"),
    ],
)
def test_impossible_launches(body, says):
    with pytest.raises(LoweringError, match=says):
        find_launch(kernel(body + "\nTx.evaluate(0)"))


def condition(launch, name, build):
    return build(next(v for v in launch.ids if v.name == name))


def test_active_threads_by_conditions():
    launch = find_launch(kernel(IDS))
    everyone = Active.all(launch)
    from tirx_eq.ir.arith import binary
    from tirx_eq.ir.expr import EQ

    first_warp = narrow(everyone, condition(launch, "w", lambda v: binary(EQ, v, 0)), launch)
    assert first_warp.threads() == 32 and first_warp.fits("warp") and not first_warp.fits("warpgroup")
    group = narrow(everyone, condition(launch, "wg", lambda v: binary(EQ, v, 1)), launch)
    assert group.fits("warpgroup") and not group.fits("cta") and group.warps() == [4, 5, 6, 7]
    rest = narrow(everyone, condition(launch, "wg", lambda v: binary(EQ, v, 1)), launch, holds=False)
    np.testing.assert_array_equal(rest.mask, ~group.mask)
    some = narrow(everyone, condition(launch, "tid", lambda v: v < 48), launch)
    assert some.threads() == 48 and not some.fits("warp")
    data = narrow(everyone, binary(EQ, Var("n", "int32"), 0), launch)
    assert data.data_dependent and not data.fits("cta")
    cta = narrow(everyone, condition(launch, "bx", lambda v: binary(EQ, v, 0)), launch)
    assert cta.fits("cta"), "a condition on the CTA holds for all its threads or none"


def test_elected_lane():
    launch = find_launch(kernel("w = Tx.warp_id([4])\nTx.evaluate(0)"))
    from tirx_eq.ir import call

    elected = narrow(Active.all(launch), call("tirx.ptx.elect_sync", "bool"), launch)
    assert elected.elected and elected.threads() == 4 and not elected.single_thread()


@pytest.mark.parametrize(
    ("condition", "whole"),
    [
        ("j > 0", True), ("j + bx > 1", True), ("j * tid > 3", False), ("A[j] > 0", True), ("A[tid % 4] > 0", False),
        ("A[tid // 32 % 4] > j", False),
    ],
)
def test_what_depends_on_a_loop_variable_is_the_same_for_all_threads(condition, whole):
    """A warp-wide instruction in a branch on the loop's count, which only differs between iterations."""
    func = kernel(
        f"bx = Tx.cta_id([2])\ntid = Tx.thread_id([160])\nif tid < 128:\n    for j in Tx.serial(4):\n"
        f"        if {condition}:\n            Tx.ptx.tcgen05.wait.ld()",
        'A: Tx.Buffer((4,), "int32")',
    )
    if whole:
        assert "tcgen05.wait::ld" in compile_function(func).ptx
    else:
        with pytest.raises(LoweringError, match="whole warps"):
            compile_function(func)


def test_a_loop_that_runs_differently_per_thread_is_not_uniform():
    func = kernel("tid = Tx.thread_id([128])\nfor j in Tx.serial(tid):\n    if j > 0:\n        Tx.ptx.tcgen05.wait.ld()")
    with pytest.raises(LoweringError, match="whole warps"):
        compile_function(func)


@pytest.mark.parametrize(
    ("mask", "whole"), [(range(128), True), (range(160), False), (range(32, 160), False), (range(96), False)]
)
def test_threads_beyond_the_last_whole_group(mask, whole):
    active = Active(np.isin(np.arange(160), list(mask)))
    assert active.whole(128) == whole
