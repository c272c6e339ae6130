"""A single warp reaches its own 32 lanes of tensor memory: copies at warp scope, and at CTA scope in a CTA of one warpgroup."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import ProofError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Instruction, Pointer

from .kernels import kernel, with_tensor_memory
from .test_equation import lowered, mutants, verdict

LANES = "S[(32, 16):(1 @ laneid, 1)]"
#: Fragments of mma.m16n8k16 with rows 16 to 31 of the warp after those of 0 to 15.
FRAGMENT = "S[(2, 2, 8, 2, 4, 2):(8, 2, 4 @ laneid, 4, 1 @ laneid, 1)]"


def through(move: str, *, dtype: str = "float32", layout: str = LANES, threads: int = 128):
    """B = A by way of registers ``v`` of a warp, and tensor memory ``t`` as ``move`` says."""
    return kernel(
        f"tid = Tx.thread_id([{threads}])\nw = Tx.warp_id([{threads // 32}])\n" + with_tensor_memory(f"""
t = Tx.decl_buffer((128, 32), "{dtype}", scope="tmem", allocated_addr=addr[0],
                   layout=TileLayout(S[(128, 32):(1 @ TLane, 1 @ TCol)]))
a = Tx.alloc_local((16,), "{dtype}")
b = Tx.alloc_local((16,), "{dtype}")
v = a.view(32, 16, layout=TileLayout({layout}))
x = b.view(32, 16, layout=TileLayout({layout}))
c = a.view(128, 16, layout=TileLayout(S[(128, 16):(1 @ tid_in_wg, 1)]))
Tx.warp.copy(v[:, :], A[w * 32 : w * 32 + 32, :])
{move}
""", 64),
        f'A: Tx.Buffer(({threads}, 16), "{dtype}"), B: Tx.Buffer(({threads}, 16), "{dtype}")',
        "from tirx_eq.layout import laneid\n",
    )


def there_and_back(rows: str, columns: str = "0 : 16") -> str:
    return f"""
Tx.warp.copy_async(t[{rows}, {columns}], v[:, :])
Tx.ptx.tcgen05.wait.st()
Tx.warp.copy_async(x[:, :], t[{rows}, {columns}])
Tx.ptx.tcgen05.wait.ld()
Tx.warp.copy(B[w * 32 : w * 32 + 32, :], x[:, :])
"""


def indented(text: str, condition: str) -> str:
    return f"if {condition}:" + text.rstrip().replace("\n", "\n    ")


def executed(func, want_rows=slice(None)):
    """The kernel's result against the interpreter's, under several schedules."""
    made = compile_function(func)
    made.assemble()
    (buffer, _) = func.buffer_map.values()
    shape = tuple(int(e) for e in buffer.shape)
    given = np.random.default_rng(7).integers(0, 100, shape).astype(dt.numpy_dtype(buffer.dtype))
    empty = np.zeros_like(given)
    wanted = np.asarray(interpret(func, given, empty)["B"])
    np.testing.assert_array_equal(wanted[want_rows], given[want_rows])
    for policy in ("late", "early", "random"):
        result = made.simulate(given, empty, policy=policy)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        np.testing.assert_array_equal(result.arrays["B"], wanted)
    return made


MINE = "w * 32 : w * 32 + 32"


@pytest.mark.parametrize(("dtype", "layout", "shape"), [
    ("float32", LANES, "32x32b.x16"), ("float16", LANES, "32x32b.x8"), ("float64", LANES, "32x32b.x32"),
    ("float16", FRAGMENT, "16x128b.x2"),
])  # fmt: skip
def test_every_warp_its_own_lanes(dtype, layout, shape):
    made = executed(through(there_and_back(MINE), dtype=dtype, layout=layout))
    assert [c.choice.chosen.describe() for c in made.calls[1:3]] == [f"TmemStore({shape})", f"TmemLoad({shape})"]


def test_a_warp_of_its_own_branch():
    made = executed(through(indented(there_and_back("64 : 96"), "w == 2")), slice(64, 96))
    assert made.calls[1].choice.chosen.describe() == "TmemStore(32x32b.x16)"


def test_warps_of_two_warpgroups_share_the_lanes():
    executed(through(there_and_back("w % 4 * 32 : w % 4 * 32 + 32", "w // 4 * 16 : w // 4 * 16 + 16"), threads=256))


def test_arithmetic_on_the_lanes_of_one_warp():
    func = through(indented("""
Tx.warp.copy(t[32 : 64, 0 : 16], v[:, :])
Tx.warp.fill(t[32 : 64, 16 : 32], 3)
Tx.warp.mul(t[32 : 64, 16 : 32], t[32 : 64, 0 : 16], t[32 : 64, 16 : 32])
Tx.warp.copy(B[32 : 64, :], t[32 : 64, 16 : 32])
""", "w == 1"))
    made = compile_function(func)
    given = np.arange(128 * 16, dtype=np.float32).reshape(128, 16)
    result = made.simulate(given, np.zeros_like(given))
    assert not result.faults
    np.testing.assert_array_equal(result.arrays["B"][32:64], 3 * given[32:64])
    assert not result.arrays["B"][:32].any() and not result.arrays["B"][64:].any()


@pytest.mark.parametrize(("move", "reason"), [
    (there_and_back("0 : 32"), "a warp that reaches lanes 32 to 63 has a region of 't' in lanes 0 to 31"),
    (indented(there_and_back("32 : 64"), "w == 2"), "warp 2 reaches lanes 64 to 95, the region of 't' is in lanes 32 to 63"),
    (there_and_back("w * 32 + 16 : w * 32 + 48"), "reaches lanes 0 to 31"),
])  # fmt: skip
def test_the_lanes_of_other_warps_are_refused(move, reason):
    with pytest.raises(NoCandidate, match=reason):
        compile_function(through(move))


def test_a_cta_that_is_one_warpgroup():
    move = """
Tx.cta.copy_async(t[:, 0:16], c[:, :])
Tx.ptx.tcgen05.wait.st()
Tx.cta.copy_async(c[:, :], t[:, 0:16])
Tx.ptx.tcgen05.wait.ld()
Tx.warp.copy(B[w * 32 : w * 32 + 32, :], v[:, :])
"""
    executed(through(move))
    with pytest.raises(NoCandidate, match="the CTA has 256 threads, not the 128 of one warpgroup"):
        compile_function(through(move, threads=256))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_mutant_breaks_the_equation(dtype):
    choices, bodies, program, rest = lowered(through(there_and_back(MINE), dtype=dtype))
    for choice in choices[1:3]:
        body = bodies[choice.context.index]
        assert verdict(choice, body, bodies, program, rest).status == "equal"
        found = list(mutants(body))
        for i, node in enumerate(body):
            if isinstance(node, Instruction) and node.opcode.startswith("tcgen05.wait"):
                found.append(("not waited for", (*body[:i], *body[i + 1 :])))
            if isinstance(node, Instruction) and any(isinstance(o, Pointer) for o in node.operands):
                others = tuple(dataclasses.replace(o, expr=o.expr + (32 << 16)) if isinstance(o, Pointer) else o
                               for o in node.operands)  # fmt: skip
                found.append(("the next warp's lanes", (*body[:i], dataclasses.replace(node, operands=others), *body[i + 1 :])))
        kinds = dict(found)
        assert len(kinds) >= 4
        for what, mutant in list(kinds.items())[-8:]:
            try:
                assert verdict(choice, mutant, bodies, program, rest).status == "different", what
            except ProofError as error:  # without its load
                assert "read before it is written" in error.message
