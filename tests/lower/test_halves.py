"""Elements of 4 bits whose halves of bytes don't stay together: shifted and inserted; half a byte of memory isn't written."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Instruction

from .kernels import kernel
from .test_equation import lowered, mutants, verdict

E2M1 = "float4_e2m1fn"
PARAMS = f'A: Tx.Buffer((32, 16), "{E2M1}"), B: Tx.Buffer((32, 16), "{E2M1}")'
AXES = "from tirx_eq.layout import laneid\n"
ROWS = "TileLayout(S[(32, 16):(1 @ laneid, 1)])"
#: The elements of a row in another order: 0 2 4 6 8 10 12 14 1 3 5 …
ODD_LAST = "TileLayout(S[(32, 8, 2):(1 @ laneid, 1, 8)])"
#: Elements k and k + 8 of a row are the halves of a byte.
IN_TURN = "TileLayout(S[(32, 2, 8):(1 @ laneid, 1, 2)])"
#: Elements 2k and 2k + 1 of a row belong to two threads.
SHARED_BYTES = "TileLayout(S[(32, 8, 2):(1 @ laneid, 1, 16 @ laneid)])"


def build(body: str):
    """A kernel of one warp with registers ``r`` and ``s``, shared memory ``sh``; B takes a copy of what is in the registers."""
    return kernel(
        f"""
tid = Tx.thread_id([32])
r = Tx.alloc_local((32,), "{E2M1}")
s = Tx.alloc_local((32,), "{E2M1}")
sh = Tx.alloc_shared([32, 16], "{E2M1}")
Tx.copy(r[0:16], A[31 - tid, :])
Tx.copy(s[0:16], A[tid, :])
{body}
""",
        PARAMS, AXES,
    )  # fmt: skip


BODIES = {
    "to odd registers": "Tx.copy(r[1:5], A[tid, 0:4])\nTx.copy(B[tid, :], r[0:16])",
    "three elements": "Tx.copy(r[0:3], A[tid, 3:6])\nTx.copy(B[tid, :], r[0:16])",
    "between registers": "Tx.copy(r[1:9], s[3:11])\nTx.copy(B[tid, :], r[0:16])",
    "within registers": "Tx.copy(r[1:15], r[0:14])\nTx.copy(B[tid, :], r[0:16])",
    "whole registers": "Tx.copy(r[0:16], s[0:16])\nTx.copy(B[tid, :], r[0:16])",
    "odd registers to memory": "Tx.copy(B[tid, 2:8], s[1:7])",
    "odd places of memory": "Tx.warp.copy(B[:, 0:8], A[:, 1:9])",
    "an odd place to shared": "Tx.warp.copy(sh[:, 2:6], A[:, 1:5])\nTx.cuda.warp_sync()\nTx.warp.copy(B[:, 2:6], sh[:, 2:6])",
    "in turn, from memory": f"v = r.view(32, 16, layout={IN_TURN})\nTx.warp.copy(v[:, :], A[:, :])\n"
                            "Tx.copy(B[tid, :], r[0:16])",
    "in turn, to shared": f"v = s.view(32, 16, layout={IN_TURN})\nTx.warp.copy(sh[:, :], v[:, :])\nTx.cuda.warp_sync()\n"
                          "Tx.warp.copy(B[:, :], sh[:, :])",
    "odd last": f"v = r.view(32, 16, layout={ODD_LAST})\nTx.warp.copy(v[:, :], A[:, :])\n"
                f"Tx.warp.copy(B[:, :], v[:, :])",
    "odd last, from registers": f"v = r.view(32, 16, layout={ODD_LAST})\nu = s.view(32, 16, layout={ROWS})\n"
                                "Tx.warp.copy(v[:, :], u[:, :])\nTx.copy(B[tid, :], r[0:16])",
    "pairs": f"u = s.view(32, 16, layout={ROWS})\nTx.warp.copy(u[:, :], A[:, :])\nTx.warp.copy(sh[:, :], u[:, :])\n"
             "Tx.cuda.warp_sync()\nTx.warp.copy(B[:, :], sh[:, :])",
    "two threads' bytes, from memory": f"v = r.view(32, 16, layout={SHARED_BYTES})\nTx.warp.copy(v[:, :], A[:, :])\n"
                                       "Tx.copy(B[tid, :], r[0:16])".replace("32, 16, layout", "16, 16, layout")
                                       .replace("(32, 8, 2)", "(16, 8, 2)").replace("A[:, :]", "A[0:16, :]"),
    "permuted": f"v = r.view(32, 16, layout={ODD_LAST})\nu = s.view(32, 16, layout={ROWS})\n"
                "Tx.warp.permute_layout(v[:, :], u[:, :])\nTx.copy(B[tid, :], r[0:16])",
    "permuted in memory": "Tx.warp.permute_layout(B[:, 0:8], A[:, 1:9])",
    "selected in registers": "Tx.select(r[0:16], r[0:16], s[0:16], lambda i: (i + tid) % 3 == 0)\nTx.copy(B[tid, :], r[0:16])",
    "selected in memory": "Tx.warp.select(B[:, :], A[:, :], A[:, :], lambda i, j: i < j)",
    "six from memory are cast": 'f = Tx.alloc_local((16,), "float32")\nTx.cast(f[0:6], A[tid, 2:8])\n'
                                "Tx.cast(B[tid, 4:10], f[0:6])",
    "two in registers are cast": 'f = Tx.alloc_local((16,), "float16")\nTx.cast(f[0:2], s[2:4])\nTx.cast(r[6:8], f[0:2])\n'
                                 "Tx.copy(B[tid, :], r[0:16])",
    "twelve are cast": 'f = Tx.alloc_local((16,), "float32")\nTx.cast(f[0:12], s[0:12])\nTx.cast(r[2:14], f[0:12])\n'
                       "Tx.copy(B[tid, :], r[0:16])",
    "rows of six are cast": 'f = Tx.alloc_shared((32, 6), "float32")\nTx.warp.cast(f[:, :], A[:, 2:8])\nTx.cuda.warp_sync()\n'
                            "Tx.warp.cast(B[:, 0:6], f[:, :])",
    "six are selected": "Tx.select(B[tid, 2:8], A[tid, 0:6], A[tid, 4:10], lambda i, j: (i + j) % 2 == 0)",
    "fill of odd registers": "Tx.fill(r[1:11], 1.5)\nTx.copy(B[tid, :], r[0:16])",
    "fill of six": "Tx.fill(B[tid, 2:8], 3)",
    "fill of shared": "Tx.warp.fill(sh[:, 2:4], 1)\nTx.cuda.warp_sync()\nTx.warp.copy(B[:, 2:4], sh[:, 2:4])",
    "zero of odd registers": "Tx.zero(s[1:10])\nTx.copy(B[tid, :], s[0:16])",
    "fill with a value": 'Tx.fill(B[tid, :], Tx.cast(tid % 4, "float32"))',
}  # fmt: skip


@pytest.mark.parametrize("what", BODIES)
def test_runs_as_the_interpreter(what):
    func = build(BODIES[what])
    made = compile_function(func)
    made.assemble()
    given = np.random.default_rng(5).choice([0.5, 1, 1.5, 2, 3, 4, 6, -1, -6], (32, 16)).astype(dt.numpy_dtype(E2M1))
    empty = np.zeros_like(given)
    result = made.simulate(given, empty)
    assert not result.faults, [str(f) for f in result.faults[:3]]
    wanted = np.asarray(interpret(func, given, empty)["B"])
    np.testing.assert_array_equal(result.arrays["B"].astype(np.float32), wanted.astype(np.float32))
    assert wanted.astype(np.float32).any()


def variants(what: str) -> list[str]:
    return [c.choice.chosen.node for c in compile_function(build(BODIES[what])).calls[2:]]


def test_pairs_that_fill_bytes_move_as_bytes():
    assert variants("pairs") == ["SpreadCopy", "SpreadCopy", "MemoryCopy"]
    assert variants("whole registers")[0] == "HalfCopy"
    assert variants("odd last") == ["HalfCopy", "HalfCopy"]
    assert variants("fill of six") == ["HalfFill"] and variants("permuted")[0] == "HalfCopy"


@pytest.mark.parametrize(("body", "reason"), [
    ("Tx.copy(B[tid, 1:5], s[2:6])", "bytes of memory are written whole: of some byte of 'B' a thread has one half"),
    ("Tx.copy(B[tid, 0:3], s[2:5])", "no store is of 4 bits"),
    ("Tx.warp.copy(B[:, 1:9], A[:, 1:9])", "elements 0 of pairs needn't be in that half of a byte of 'B'"),
    ("Tx.warp.copy(B[0:1, 0:3], A[0:1, 0:3])", "3 elements don't fill bytes of 'B', and no store is of 4 bits"),
    ('f = Tx.alloc_local((16,), "float32")\nTx.cast(B[tid, 2:5], f[0:3])', "3 elements, and they are worked on in pairs"),
    ('f = Tx.alloc_local((16,), "float32")\nTx.cast(B[tid, 1:5], f[0:4])', "may be in another order within their bytes"),
    ("Tx.fill(B[tid, 0:3], 1)", "3 elements don't fill bytes of 'B'"),
    (f"v = r.view(16, 16, layout={SHARED_BYTES.replace('(32, 8, 2)', '(16, 8, 2)')})\nTx.warp.copy(B[0:16, :], v[:, :])",
     "of some byte of 'B' a thread has one half, and no store is of 4 bits"),
])  # fmt: skip
def test_half_a_byte_of_memory_is_not_written(body, reason):
    with pytest.raises(NoCandidate, match=reason):
        compile_function(build(body))


@pytest.mark.parametrize("what", ["between registers", "odd last", "odd places of memory", "three elements"])
def test_every_mutant_breaks_the_equation(what):
    choices, bodies, program, rest = lowered(build(BODIES[what]))
    choice = choices[2]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = list(mutants(body))
    for i, node in enumerate(body):
        if isinstance(node, Instruction) and node.opcode.startswith("bfi"):
            *most, first, width = node.operands
            found.append(("inserted elsewhere", (*body[:i], dataclasses.replace(node, operands=(*most, first ^ 4, width)),
                                                 *body[i + 1 :])))  # fmt: skip
    kinds = dict(found)
    assert kinds
    for which, mutant in kinds.items():
        assert verdict(choice, mutant, bodies, program, rest).status == "different", which
