"""Loops, jumps and scalars in registers: compiled, executed, compared with the interpreter; what is known of scalars."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError
from tirx_eq.ir import BufferLoad, BufferStore, SeqStmt, post_order_visit
from tirx_eq.lower.facts.scalars import Scalars
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.sharing.active import Active
from tirx_eq.lower.sharing.agreement import agree
from tirx_eq.lower.sharing.threads import find_launch

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((64,), "int32"), C: Tx.Buffer((64,), "int32")'

PROGRAMS = {
    "a long loop": "x: Tx.int32 = 0\nfor k in Tx.serial(700):\n    x = x + (k ^ t)\nC[t] = x",
    "a loop whose end is loaded": "x: Tx.int32 = 0\nfor k in Tx.serial(A[t] % 9):\n    x = x + k\nC[t] = x",
    "steps": "x: Tx.int32 = 0\nfor k in Tx.serial(3, 50, step=7):\n    x = x * 2 + k\nC[t] = x",
    "break": "x: Tx.int32 = 0\nfor k in Tx.serial(100):\n    if k * 3 > t:\n        break\n    x = x + k\nC[t] = x",
    "continue": (
        "x: Tx.int32 = 0\nfor k in Tx.serial(20):\n    if k % 3 == t % 3:\n        continue\n    x = x + k\nC[t] = x"),
    "break of while": "x: Tx.int32 = 0\nwhile x < 1000:\n    x = x + 7\n    if x % 5 == t % 5:\n        break\nC[t] = x",
    "continue of while": (
        "x: Tx.int32 = 0\ny: Tx.int32 = 0\nwhile x < 40:\n    x = x + 1\n    if x % 2 == t % 2:\n        continue\n"
        "    y = y + x\nC[t] = y"),
    "break of an unrolled loop": (
        "r = Tx.alloc_local((8,), 'int32')\nfor k in Tx.unroll(8):\n    r[k] = 0\nfor k in Tx.unroll(8):\n"
        "    if k > t % 10:\n        break\n    r[k] = A[t] + k\nfor k in Tx.unroll(8):\n    C[t] = C[t] + r[k]"),
    "continue of an unrolled loop": (
        "x: Tx.int32 = 0\nfor k in Tx.unroll(6):\n    if (t + k) % 3 == 0:\n        continue\n    x = x + k * A[t]\nC[t] = x"),
    "jumps of the inner loop only": (
        "x: Tx.int32 = 0\nfor j in Tx.unroll(3):\n    if j == t % 4:\n        continue\n    for k in Tx.serial(10):\n"
        "        if k > t % 7:\n            break\n        x = x + j * 10 + k\nC[t] = x"),
    "unrolled in serial": (
        "x: Tx.int32 = 0\nfor j in Tx.serial(5):\n    for k in Tx.unroll(4):\n        if k == t % 5:\n            break\n"
        "        x = x + 1\n    if x > t:\n        break\nC[t] = x"),
    "return": "C[t] = 1\nif t % 2 == 0:\n    Tx.evaluate(Tx.ret(0))\nC[t] = 2",
    "a scalar kept over a branch": "x: Tx.int32 = t\nif A[t] > 0:\n    x = x + 1\ny: Tx.int32 = x\nx = 5\nC[t] = y * 10 + x",
    "a scalar changed in both branches": (
        "x: Tx.int32 = A[t]\nif t < 30:\n    x = x + t\nelse:\n    x = x - t\nC[t] = x\nif x > 0:\n    C[t] = x + 1"),
    "a scalar that wraps": "x: Tx.int32 = 2147483600\nfor k in Tx.serial(60):\n    x = x + t\nC[t] = x",
    "a condition that a branch changes": (
        "x: Tx.int32 = t % 4\nwhile x < 9:\n    if x < 6:\n        x = x + 2\n    else:\n        x = x + 1\nC[t] = x"),
    "a scalar as an index": (
        "x: Tx.int32 = 0\nfor k in Tx.serial(9):\n    x = (x + 5) % 64\nC[(x + t) % 64] = A[(t + x) % 64]"),
    "a ring": (
        "stage: Tx.int32 = 0\nphase: Tx.int32 = 0\nx: Tx.int32 = 0\nfor k in Tx.serial(23):\n"
        "    x = x * 3 + stage * 2 + phase\n"
        "    stage = stage + 1\n    if stage == 5:\n        stage = 0\n        phase = phase ^ 1\nC[t] = x"),
}  # fmt: skip


def build(text: str, params: str = PARAMS):
    return kernel(f"t = Tx.thread_id([64])\n{text}", params)


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    text = PROGRAMS[name]
    if "Tx.ret" in text:
        text = text.replace("Tx.evaluate(Tx.ret(0))", "return")
    outcome = execute(build(text), kind="random")
    assert not outcome.faults, [str(f) for f in outcome.faults[:3]]
    assert outcome.good, outcome.comparisons


def test_long_loops_stay_loops():
    ptx = compile_function(build(PROGRAMS["a long loop"])).ptx
    assert ptx.count("xor.b32") == 1 and "setp.lt.s32" in ptx


def test_a_ring_of_barriers_in_a_loop_that_is_not_unrolled():
    """Stages and phases at run time: 3 barriers, 20 rounds, all threads arrive and wait."""
    func = kernel(
        """
t = Tx.thread_id([64])
pool = Tx.SMEMPool()
bars = MBarrier(pool, 3)
box = pool.alloc((3, 64), "int32")
pool.commit()
bars.init(64)
Tx.ptx.fence.mbarrier_init()
Tx.cuda.cta_sync()
state = PipelineState(3, 0)
x: Tx.int32 = A[t]
for k in Tx.serial(20):
    box[state.stage, t] = x
    bars.arrive(state.stage)
    bars.wait(state.stage, state.phase)
    x = box[state.stage, 63 - t] + k
    state.advance()
C[t] = x
""",
        PARAMS,
        header="from tirx_eq.script.lang import MBarrier, PipelineState\n",
    )
    outcome = execute(func, kind="random")
    assert outcome.good and not outcome.faults, [str(f) for f in outcome.faults[:3]]
    ptx = compile_function(func).ptx
    assert ptx.count("mbarrier.try_wait") == 1
    # The stage is known to be 0, 1 or 2, so its addresses fit 32 bits.
    assert "cvt.s64" not in ptx and "shl.b64" not in ptx


COLLECTIVE = "Tx.ptx.tcgen05.wait.ld()"


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("for k in Tx.serial(4):\n    if k == 2:\n        break\n    {c}", True),
        ("for k in Tx.serial(4):\n    if t == 2:\n        break\n    {c}", False),
        ("for k in Tx.serial(4):\n    {c}\n    if k == t:\n        break", False),
        ("for k in Tx.serial(4):\n    {c}\n    if t < 32:\n        break", False),
        ("if t < 32:\n    return\n{c}", True),
        ("if t < 31:\n    return\n{c}", False),
        ("if t < 40:\n    if t < 32:\n        return\n{c}", True),
        ("if t < 40:\n    if t < 31:\n        return\n{c}", False),
        ("if t < 40:\n    if A[t] < 0:\n        return\n{c}", False),
        # After a loop those that broke out of it are back; those that returned in it are not.
        ("for k in Tx.serial(4):\n    if k == t:\n        break\n{c}", True),
        ("for k in Tx.serial(4):\n    if k == t:\n        continue\n{c}", True),
        ("for k in Tx.unroll(4):\n    if k == t:\n        break\n{c}", True),
        ("for k in Tx.serial(4):\n    if k == t:\n        return\n{c}", False),
        ("for k in Tx.unroll(4):\n    if t == 3:\n        return\n{c}", False),
        ("x: Tx.int32 = 0\nwhile x < 4:\n    x = x + 1\n    if A[t] < x:\n        return\n{c}", False),
        ("for k in Tx.serial(4):\n    if k == 2:\n        return\n{c}", True),
        ("for k in Tx.serial(4):\n    if t < 31:\n        return\nif t >= 32:\n    {c}", True),
        ("for k in Tx.serial(4):\n    if t < 31:\n        return\nif t < 32:\n    {c}", False),
        ("for j in Tx.serial(2):\n    for k in Tx.serial(4):\n        if k == t:\n            return\n    {c}", False),
        ("for j in Tx.serial(2):\n    {c}\n    for k in Tx.serial(4):\n        if k == t:\n            return", False),
        ("for j in Tx.serial(2):\n    {c}\n    for k in Tx.serial(4):\n        if k == t:\n            break", True),
        ("for j in Tx.serial(2):\n    {c}\n    for k in Tx.serial(t):\n        if j == 1:\n            return", False),
        ("if t < 40:\n    for k in Tx.serial(4):\n        if k == t:\n            return\n{c}", False),
        ("x: Tx.int32 = 0\nwhile x < 4:\n    {c}\n    x = x + 1", True),
        ("x: Tx.int32 = 0\nwhile x < 4 + t:\n    {c}\n    x = x + 1", False),
        ("x: Tx.int32 = 0\nif t < 32:\n    x = 1\nif x == 0:\n    {c}", True),
        ("x: Tx.int32 = 0\nif t < 31:\n    x = 1\nif x == 0:\n    {c}", False),
        ("w = Tx.warp_id([2])\nfor k in Tx.serial(w + A[0]):\n    {c}", True),
        ("for k in Tx.serial(t // 16 + A[0]):\n    {c}", False),
        ("for k in Tx.serial(t // 32):\n    if k == t:\n        return\n    {c}", False),
        ("w = Tx.warp_id([2])\nx: Tx.int32 = w\nwhile x < A[0]:\n    {c}\n    x = x + 2", True),
        ("w = Tx.warp_id([2])\nif w < A[0]:\n    if A[1] < 0:\n        return\n{c}", True),
        ("w = Tx.warp_id([2])\nif w < A[0]:\n    return\n{c}", True),
        ("x: Tx.int32 = 0\nif t < 32:\n    x = 1\nif t >= 32:\n    if x == 0:\n        {c}", True),
        ("x: Tx.int32 = A[t]\nif x == 0:\n    {c}", False),
        ("x: Tx.int32 = A[0]\nif x == 0:\n    {c}", True),
        ("for k in Tx.serial(A[t]):\n    {c}", False),
        ("for k in Tx.serial(A[0]):\n    {c}", True),
        ("for k in Tx.serial(7):\n    if k > 3:\n        {c}", True),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(7):\n    if t == k:\n        continue\n    x = x + 1\nif x > 3:\n    {c}", False),
    ],
)
def test_which_threads_reach_an_instruction_for_whole_warps(text, good):
    func = build(text.replace("{c}", COLLECTIVE))
    if good:
        assert "tcgen05.wait::ld" in compile_function(func).ptx
    else:
        with pytest.raises(LoweringError, match="whole warps"):
            compile_function(func)


@pytest.mark.parametrize("row", [33, 36, 40])
def test_rows_with_gaps_in_a_pool(row):
    """A pool makes room for what the layout spans, not only for the elements."""
    func = kernel(f"""
t = Tx.thread_id([64])
pool = Tx.SMEMPool()
s = pool.alloc((32, 32), "int32", layout=TileLayout(S[(32, 32) : ({row}, 1)]))
last = pool.alloc((4,), "int32")
pool.commit()
Tx.cta.copy(s[:, :], A[:, :])
if t < 4:
    last[t] = -1
Tx.cuda.cta_sync()
for k in Tx.serial(16):
    C[(t + k * 64) // 32, t % 32] = s[t % 32, (t + k * 64) // 32]
""", 'A: Tx.Buffer((32, 32), "int32"), C: Tx.Buffer((32, 32), "int32")')  # fmt: skip
    a = np.arange(1024, dtype=np.int32).reshape(32, 32)
    found = compile_function(func).simulate(a, np.zeros_like(a))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["C"], a.T)


def facts_at_the_store(text: str):
    """What is known of the value of ``C[t] = …``, and the analysis."""
    func = build(text)
    launch = find_launch(func)
    scalars = Scalars(func, launch)
    found = []
    post_order_visit(
        func.body, lambda n: found.append(n) if isinstance(n, BufferStore) and n.buffer.name == "C" else None
    )
    fact = scalars.fact(found[-1].value, scalars.before(found[-1]))
    return fact, scalars, launch


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("x: Tx.int32 = 3\nC[t] = x", 3, 3),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(10):\n    x = x + 1\n    if x == 4:\n        x = 0\nC[t] = x", 0, 3),
        ("x: Tx.int32 = 0\nwhile x < 100:\n    x = x + 3\nC[t] = x", 100, 102),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(10):\n    x = x ^ 1\nC[t] = x", 0, 1),
        ("x: Tx.int32 = t\nif x > 50:\n    x = 7\nC[t] = x", 0, 50),
        ("x: Tx.int32 = t\nif x > 50:\n    C[t] = x", 51, 63),
        ("x: Tx.int32 = t\nif x >= 10 and x != 63:\n    C[t] = x", 10, 62),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(A[0]):\n    x = x + 1\nC[t] = x", -(1 << 31), (1 << 31) - 1),
        ("x: Tx.int32 = A[t]\nC[t] = x % 8", 0, 7),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(10):\n    if A[k] > 0:\n        break\n    x = 5\nC[t] = x", 0, 5),
    ],
)
def test_intervals(text, low, high):
    fact, _, _ = facts_at_the_store(text)
    assert (fact.low, fact.high) == (low, high)


@pytest.mark.parametrize(
    ("text", "agreed"),
    [
        ("x: Tx.int32 = 3\nC[t] = x", True),
        ("x: Tx.int32 = t\nC[t] = x", False),
        ("x: Tx.int32 = t // 64\nC[t] = x", True),
        ("x: Tx.int32 = 0\nif t == 5:\n    x = 1\nC[t] = x", False),
        ("x: Tx.int32 = 0\nif A[0] == 5:\n    x = 1\nC[t] = x", True),  # nothing stores to A: all threads load the same
        ("x: Tx.int32 = A[3]\nC[t] = A[x % 64]", True),
        ("x: Tx.int32 = 0\nif A[t] == 5:\n    x = 1\nC[t] = x", False),
        ("A[t] = t\nx: Tx.int32 = A[0]\nC[t] = x", False),
        ("x: Tx.int32 = C[0]\nC[t] = x", False),
        ("Tx.cta.copy(A[:], C[:])\nx: Tx.int32 = A[0]\nC[t] = x", False),
        ("Tx.cuda.atomic_add(Tx.address_of(A[0]), 1)\nx: Tx.int32 = A[0]\nC[t] = x", False),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(9):\n    x = x + k\nC[t] = x", True),
        ("x: Tx.int32 = 0\nfor k in Tx.serial(t):\n    x = x + 1\nC[t] = x", False),
    ],
)
def test_agreement_of_threads(text, agreed):
    fact, _, launch = facts_at_the_store(text)
    assert agree(fact.classes, Active.all(launch)) is agreed


def test_a_statement_at_two_places_is_not_analysed():
    func = build("x: Tx.int32 = 0\nx = x + 1\nC[t] = x")
    entry = func.body
    body = entry.body.seq
    store = next(s for s in body if isinstance(s, BufferStore) and s.buffer.name == "x" and not isinstance(s.value, BufferLoad))
    twice = func.with_body(replace(entry, body=SeqStmt((*body[:-1], store, store, body[-1]))))
    assert not Scalars(twice, find_launch(twice)).tracked


HOISTED = {
    # what: (text, pattern, how often before the first loop, how often after)
    "a division of what no round changes": (
        "n: Tx.int32 = A[0] % 8 + 1\nx: Tx.int32 = 0\nfor k in Tx.serial(10):\n    x = x + t // n\nC[t] = x", "div.u32", 1, 0),
    "out of two loops": (
        "n: Tx.int32 = A[0] % 8 + 1\nx: Tx.int32 = 0\nfor j in Tx.serial(5):\n    for k in Tx.serial(10):\n"
        "        x = x + t // n\nC[t] = x", "div.u32", 1, 0),
    "out of a while": (
        "n: Tx.int32 = A[0] % 8 + 1\nx: Tx.int32 = 0\nwhile x < 90:\n    x = x + t // n + 1\nC[t] = x", "div.u32", 1, 0),
    "not out of a branch": (
        "n: Tx.int32 = A[0] % 8 + 1\nx: Tx.int32 = 0\nfor k in Tx.serial(10):\n    if A[k] > 0:\n"
        "        x = x + t // n\nC[t] = x", "div.u32", 0, 1),
    "not a cheap sum": (
        "x: Tx.int32 = 0\nfor k in Tx.serial(10):\n    x = x + (t ^ 3)\nC[t] = x", "xor.b32", 0, 1),
    "a product of the counter": (
        "x: Tx.int32 = 0\nfor k in Tx.serial(2, 40, step=3):\n    x = x ^ (k * 12 + t)\nC[t] = x", "mul", 0, 0),
    "a product of a counter that starts anywhere": (
        "x: Tx.int32 = 0\nfor k in Tx.serial(t, 40):\n    if k % 3 == 1:\n        continue\n    x = x ^ (k * 12 + t)\nC[t] = x",
        "mul.lo", 1, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", HOISTED)
def test_what_is_dear_and_the_same_in_every_round_is_computed_before(name):
    text, instruction, before, after = HOISTED[name]
    func = build(text)
    head, _, rest = compile_function(func).ptx.partition("\nL_for:" if "for " in text else "\nL_while:")
    assert (head.count(instruction), rest.count(instruction)) == (before, after)
    outcome = execute(func, kind="random")
    assert outcome.good and not outcome.faults


@pytest.mark.parametrize("leaves", ["return", "break"])
def test_a_shuffle_after_a_loop_that_some_lanes_left(leaves):
    """Lanes that broke out of the loop are back for it; those that returned are not, and the call is refused."""
    func = kernel(
        "t = Tx.thread_id([32])\nr = Tx.alloc_local((1,), 'int32')\nq = Tx.alloc_local((1,), 'int32')\nr[0] = A[t]\n"
        f"for k in Tx.serial(4):\n    if k == t:\n        {leaves}\n"
        "v = r.view(32, layout=TileLayout(S[(32,):(1 @ laneid,)]))\nu = q.view(1, layout=TileLayout(S[(1,):(1,)]))\n"
        "Tx.warp.sum(u[:], v[:])\nC[t] = q[0]",
        'A: Tx.Buffer((32,), "int32"), C: Tx.Buffer((32,), "int32")',
        header="from tirx_eq.layout import laneid\n",
    )
    if leaves == "return":
        with pytest.raises(LoweringError, match="some may have returned or not come here, not by whole warps"):
            compile_function(func)
        return
    given = np.arange(32, dtype=np.int32)
    result = compile_function(func).simulate(given, np.zeros_like(given))
    assert not result.faults
    np.testing.assert_array_equal(result.arrays["C"], given.sum())


@pytest.mark.parametrize("condition", ["t >= 64", "t == 100", "t < 0"])
@pytest.mark.parametrize("call", ["Tx.copy(C[0:4], A[0:4])", "Tx.copy_async(s[:], A[0:32], mbar=bar.ptr_to([0]))"])
def test_calls_that_no_thread_reaches(condition, call):
    """They mean nothing but a warning, and the rest of the kernel works."""
    func = kernel(
        't = Tx.thread_id([64])\ns = Tx.alloc_shared((32,), "int32")\nbar = Tx.alloc_shared((1,), "uint64")\n'
        f"if {condition}:\n    if Tx.ptx.elect_sync():\n        {call}\nC[t] = A[t]", PARAMS,
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"k\.py:\d+:\d+: no thread reaches this call of 'copy"):
        made = compile_function(func)
    a = np.arange(64, dtype=np.int32)
    np.testing.assert_array_equal(made.simulate(a, np.zeros_like(a)).arrays["C"], a)


def test_branches_share_the_address_that_they_need():
    """Stores under conditions of their own: where the row begins is computed once, before them."""
    func = kernel(
        "t = Tx.thread_id([32])\nr = Tx.alloc_local((16,), 'int32')\nTx.copy(r[:], A[t * n : t * n + 16])\n"
        "for j in Tx.unroll(16):\n    if A[j] > t:\n        C[t * n + j] = r[j]",
        'A: Tx.Buffer((1024,), "int32"), C: Tx.Buffer((1024,), "int32"), n: Tx.int32',
    )
    made = compile_function(func)
    assert made.ptx.count("mul.wide") + made.ptx.count("mul.lo") + made.ptx.count("mad.") <= 3
    assert made.ptx.count("[C]") == 1, "the address is made in every branch"
    a = np.random.default_rng(0).integers(0, 40, 1024).astype(np.int32)
    found, want = made.simulate(a, np.zeros_like(a), 20), np.zeros_like(a)
    for t in range(32):
        for j in range(16):
            if a[j] > t:
                want[t * 20 + j] = a[t * 20 + j]
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["C"], want)
