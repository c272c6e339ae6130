"""Copies and products that one thread issues, called by warps, warpgroups and CTAs: one lane of each unit is elected.

Executed under every schedule, against the interpreter; the barriers' bytes are those of one issue per unit.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import LoweringError
from tirx_eq.interp import interpret
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If, Instruction, walk

from .cluster_kernels import exchange, multicast, pair
from .kernels import kernel
from .test_equation import lowered, verdict
from .test_run_tensor_reduce import reduction
from .test_run_tmem_factors import check
from .tmem_factor_kernels import Product
from .witnesses_tmem_copy import copied

SCOPES = ("warp", "wg", "cta")
#: Scope -> the call's guard, and how many units of 256 threads call it, each for its rows.
UNITS = {"warp": ("w", 8), "wg": ("w // 4", 2), "cta": ("0", 1)}

ROUND = """
tid = Tx.thread_id([256])
w = Tx.warp_id([8])
pool = Tx.SMEMPool()
sh = pool.alloc((64, 64), "float16", layout=mma_shared_layout("float16", 3, (64, 64)))
bar = pool.alloc((1,), "uint64", align=8)
pool.commit()
if tid == 0:
    Tx.ptx.mbarrier.init(bar.ptr_to([0]), 1)
    Tx.ptx.fence.mbarrier_init()
    Tx.ptx.mbarrier.arrive.expect_tx(bar.ptr_to([0]), 8192)
Tx.cuda.cta_sync()
{load}
Tx.ptx.mbarrier.try_wait(bar.ptr_to([0]), 0)
Tx.cta.mul(sh[:, :], sh[:, :], 2.0)
Tx.ptx.fence.proxy_async("shared::cta")
Tx.cuda.cta_sync()
{store}
Tx.ptx.cp_async.bulk.commit_group()
Tx.ptx.cp_async.bulk.wait_group(0)
"""
HALVES = 'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")'
ROWS = "{0} * {1} : {0} * {1} + {1}"


def there_and_back(scope: str, load_by: str = "", store_by: str = ""):
    """A tile that each unit of the scope loads and stores its rows of, by tensor copies."""
    unit, count = UNITS[scope]
    rows = ROWS.format(unit, 64 // count)
    load = f'{load_by}Tx.{scope}.copy_async(sh[{rows}, :], A[{rows}, :], dispatch="tma", mbar=bar.ptr_to([0]))'
    store = f'{store_by}Tx.{scope}.copy_async(B[{rows}, :], sh[{rows}, :], dispatch="tma")'
    return kernel(ROUND.format(load=load, store=store), HALVES)


def agree(func, *arrays, result: str = "B"):
    wanted = interpret(func, *arrays)[result]
    made = compile_function(func)
    for policy in ("late", "early", "random"):
        got = made.simulate(*arrays, policy=policy)
        assert not got.faults, (policy, [str(f) for f in got.faults[:3]])
        np.testing.assert_array_equal(got.arrays[result], wanted)
    return made


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(2).integers(-8, 9, shape).astype(np.float16)


@pytest.mark.parametrize("scope", SCOPES)
def test_tensor_copies(scope):
    made = agree(there_and_back(scope), numbers(64, 64), np.zeros((64, 64), np.float16))
    assert made.ptx.count("elect.sync") == 2
    assert [c.choice.chosen.node for c in made.calls[::2]] == ["TensorLoad", "TensorStore"]


def test_a_warpgroup_of_two():
    """The threads diverge before the call: only the second warpgroup makes it, whose first warp is the CTA's fifth."""
    guard = "if w >= 4:\n    "
    func = kernel(
        ROUND.format(load=f'{guard}Tx.wg.copy_async(sh[:, :], A[:, :], dispatch="tma", mbar=bar.ptr_to([0]))',
                     store=f'{guard}Tx.wg.copy_async(B[:, :], sh[:, :], dispatch="tma")'), HALVES)  # fmt: skip
    agree(func, numbers(64, 64), np.zeros((64, 64), np.float16))


@pytest.mark.parametrize("scope", SCOPES)
def test_multicast_and_peer_copies(scope):
    guard = "if tid < 32:\n    Tx.warp" if scope == "warp" else f"Tx.{scope}"
    part = "r * 16 : r * 16 + 16"
    one = multicast(load=f"sh[{part}, :], A[{part}, :], mbar=bar.ptr_to([0]), cta_mask=15",
                    call=f"{guard}.copy_async")  # fmt: skip
    agree(one, numbers(64, 64), np.zeros((256, 64), np.float16))
    copy = "copy_async(to[:, :], sh[:, :], dispatch='dsmem', mbar=bar.ptr_to([0]), remote_cta_id=1 - r)"
    who, by = ("tid < 32", "warp") if scope == "warp" else ("tid >= 0", scope)
    agree(exchange(f"Tx.{by}.{copy}", who=who), numbers(128, 64), np.zeros((128, 64), np.float16))


@pytest.mark.parametrize("scope", ["warp", "cta"])  # its CTAs have two warps, so no warpgroup
def test_copies_that_combine(scope):
    call = "if w == 0:\n    Tx.warp" if scope == "warp" else "Tx.cta"
    func = reduction("add", "float16", ("if w == 0:\n    if Tx.ptx.elect_sync():\n        Tx.copy_async", f"{call}.copy_async"),
                     ("        Tx.ptx.cp_async", "Tx.ptx.cp_async"))  # fmt: skip
    made = agree(func, numbers(64, 16), np.zeros((16, 16), np.float16), result="D")
    assert made.calls[1].choice.chosen.node == "TensorReduce"


@pytest.mark.parametrize("scope", SCOPES)
def test_loads_that_report_to_the_even_cta(scope):
    issue = "        if Tx.ptx.elect_sync():\n            if r == 0:\n                full.arrive(0, 49152)\n"
    alone = issue + "    Tx.ptx.tcgen05.fence.before_thread_sync()\n    Tx.cuda.cta_sync()\n"
    call = "    if warp_id == 0:\n        Tx.warp" if scope == "warp" else f"    Tx.{scope}"
    func = pair((issue, alone), ("            Tx.copy_async", f"{call}.copy_async"))
    a, b = numbers(256, 64), numbers(128, 64)
    made = agree(func, a, b, np.zeros((256, 128), np.float32), result="D")
    assert [c.choice.chosen.node for c in made.calls[:2]] == ["TensorPairLoad", "TensorPairLoad"]


COPIED = """
tid = Tx.thread_id([128])
w = Tx.warp_id([4])
s = Tx.alloc_shared((128, 64), "float16")
{copy}
Tx.ptx.cp_async.commit_group()
Tx.ptx.cp_async.wait_group(0)
Tx.cuda.cta_sync()
Tx.cta.mul(B[:, :], s[:, :], 2.0)
"""


@pytest.mark.parametrize("scope", ("thread", *SCOPES))
def test_copies_that_every_thread_issues(scope):
    rows = {"thread": "tid", "warp": ROWS.format("w", 32)}.get(scope, ":")
    by = "Tx" if scope == "thread" else f"Tx.{scope}"
    func = kernel(COPIED.format(copy=f"{by}.copy_async(s[{rows}, :], A[{rows}, :], dispatch='ldgsts')"),
                  'A: Tx.Buffer((128, 64), "float16"), B: Tx.Buffer((128, 64), "float16")')  # fmt: skip
    made = agree(func, numbers(128, 64), np.zeros((128, 64), np.float16))
    assert made.calls[0].choice.chosen.rule == "copy_async/ldgsts"


@pytest.mark.parametrize("scope", SCOPES)
def test_copies_to_tensor_memory(scope):
    old = "    if warp_id == 0:\n        if Tx.ptx.elect_sync():\n            Tx.copy_async(t[:, :], A_s[:, :])\n"
    call = "    if warp_id == 0:\n        Tx.warp." if scope == "warp" else f"    Tx.{scope}."
    new = f"{call}copy_async(t[:, :], A_s[:, :])\n    if warp_id == 0:\n        if Tx.ptx.elect_sync():\n"
    func = copied('mma_shared_layout("float32", "32B", (128, 8))', 8, changes=((old, new),))
    a = np.random.default_rng(3).standard_normal((128, 8)).astype(np.float32)
    agree(func, a, np.zeros((128, 8), np.float32), result="D")


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("p", [
    Product(m=256, group=2), Product("float8_e4m3fn", "float8_e4m3fn", k=128, sf="float8_e8m0fnu"),
    Product(m=64, stationary=True), Product(stationary=True, a_in_tmem=False),
    Product(a_in_tmem=False), Product("float8_e4m3fn", "float8_e5m2", k=128, sf="float8_e8m0fnu", a_in_tmem=False),
], ids=["pair", "scaled", "stationary", "both shared, stationary", "both shared", "both shared, scaled"])  # fmt: skip
def test_products(scope, p):
    @dataclasses.dataclass(frozen=True)
    class Called(Product):
        def text(self) -> str:
            text = super().text()
            issue = "        if warp_id == 0:\n            if Tx.ptx.elect_sync():\n                Tx.gemm_async("
            assert issue in text
            call = "        if warp_id == 0:\n            Tx.warp." if scope == "warp" else f"        Tx.{scope}."
            text = text.replace(issue, f"{call}gemm_async(")
            commit = "                Tx.ptx.tcgen05.commit"
            return text.replace(commit, "        if warp_id == 0:\n            if Tx.ptx.elect_sync():\n" + commit)

    check(Called(**{f.name: getattr(p, f.name) for f in dataclasses.fields(p)}), ("late", "early"))


def test_refused():
    with pytest.raises(LoweringError, match="not by one whole warpgroup"):
        compile_function(there_and_back("wg", load_by="if w >= 2:\n    "))
    for scope, rows, why in (("wg", ":", "which mean the same 'dst'"), ("cta", "w * 8 : w * 8 + 8", "must mean one region")):
        load = f'Tx.{scope}.copy_async(sh[{rows}, :], A[{rows}, :], dispatch="tma", mbar=bar.ptr_to([0]))'
        with pytest.raises(LoweringError, match=why):
            compile_function(kernel(ROUND.format(load=load, store=""), HALVES))


def test_the_equation_counts_who_issues():
    choices, bodies, program, rest = lowered(there_and_back("wg"))
    choice = choices[0]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    (guard,) = body
    assert isinstance(guard, If)
    issue = next(n for n in walk(body) if isinstance(n, Instruction) and n.opcode.startswith("cp.async"))
    for wrong, count in ((guard.then, 4), ((issue,), 128), ((*body, issue), 128), ((dataclasses.replace(guard, then=()), ), 0)):
        found = verdict(choice, wrong, bodies, program, rest)
        assert found.status == "different" and found.counterexample.get("threads", count) == count
