"""Elements that are less than a column of tensor memory: the column is loaded, changed and stored."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.errors import ProofError
from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Instruction

from ..primitives.cells import TMEM, Cell
from ..primitives.run import execute, outcomes
from .kernels import kernel, with_tensor_memory
from .test_equation import lowered, mutants, verdict

STORE, LOAD = "copy_async/tcgen05_st_part", "copy_async/tcgen05_ld_part"


def parts(dtype: str, scope: str, inside: str, registers: str = "2 : 5"):
    """B = A by way of tensor memory, of which the columns ``inside`` are exchanged with registers first."""
    rows = {"wg": ":", "warp": "w * 32 : w * 32 + 32"}[scope]
    axis, count = {"wg": ("tid_in_wg", 128), "warp": ("laneid", 32)}[scope]
    return kernel(
        "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n" + with_tensor_memory(f"""
t = Tx.decl_buffer((128, 16), "{dtype}", scope="tmem", allocated_addr=addr[0],
                   layout=TileLayout(S[(128, 16):(1 @ TLane, 1 @ TCol)]))
a = Tx.alloc_local((16,), "{dtype}")
b = Tx.alloc_local((16,), "{dtype}")
va = a.view({count}, 16, layout=TileLayout(S[({count}, 16):(1 @ {axis}, 1)]))
vb = b.view({count}, 16, layout=TileLayout(S[({count}, 16):(1 @ {axis}, 1)]))
Tx.copy(a[:], A[tid, :])
Tx.copy(b[:], A[127 - tid, :])
Tx.{scope}.copy_async(t[{rows}, :], va[:, :])
Tx.{scope}.copy_async(t[{rows}, {inside}], vb[:, {registers}])
Tx.ptx.tcgen05.wait.st()
Tx.{scope}.copy_async(va[:, {registers}], t[{rows}, {inside}])
Tx.{scope}.copy_async(vb[:, :], t[{rows}, :])
Tx.ptx.tcgen05.wait.ld()
Tx.copy(B[tid, :], a[:])
Tx.copy(C[tid, :], b[:])
""", 32),
        ", ".join(f'{name}: Tx.Buffer((128, 16), "{dtype}")' for name in "ABC"),
        "from tirx_eq.layout import laneid\n",
    )


CASES = [
    ("float16", "wg", "1 : 4"), ("float16", "warp", "3 : 6"), ("uint8", "wg", "5 : 8"), ("float8_e4m3fn", "warp", "6 : 9"),
    ("float4_e2m1fn", "wg", "7 : 10"), ("float16", "wg", "0 : 3"), ("uint8", "warp", "3 : 14"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "scope", "inside"), CASES)
def test_there_and_back(dtype, scope, inside):
    first, last = (int(n) for n in inside.split(":"))
    func = parts(dtype, scope, inside, f"2 : {2 + last - first}")
    made = compile_function(func)
    assert [c.choice.chosen.rule for c in made.calls[3:5]] == [STORE, LOAD]
    made.assemble()
    given = np.random.default_rng(3).integers(0, 4, (128, 16)).astype(dt.numpy_dtype(dtype))
    empty = np.zeros_like(given)
    wanted = interpret(func, given, empty, empty)
    for policy in ("late", "early"):
        result = made.simulate(given, empty, empty.copy(), policy=policy)
        assert not result.faults, [str(f) for f in result.faults[:3]]
        for name in "BC":
            np.testing.assert_array_equal(result.arrays[name].astype(np.float32), np.asarray(wanted[name]).astype(np.float32))


@pytest.mark.parametrize(("primitive", "scope", "dtype"), [
    ("sum", "warpgroup", "float16"), ("max", "warp", "uint8"), ("binary_reduce", "cta", "bfloat16"),
])  # fmt: skip
def test_a_row_that_is_less_than_a_column(primitive, scope, dtype):
    cell = Cell(primitive, scope, TMEM, dtype)
    (found,) = outcomes([cell])
    assert STORE in found.variants
    execute(cell)


@pytest.mark.parametrize("call", [3, 4])
def test_every_mutant_breaks_the_equation(call):
    choices, bodies, program, rest = lowered(parts("uint8", "wg", "5 : 8"))
    choice = choices[call]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = dict(mutants(body))
    for i, node in enumerate(body):
        if isinstance(node, Instruction) and node.opcode.startswith("tcgen05.wait::ld"):
            found["not waited for"] = (*body[:i], *body[i + 1 :])
        if isinstance(node, Instruction) and node.opcode.startswith("bfi"):
            *most, first, width = node.operands
            found["elsewhere"] = (*body[:i], dataclasses.replace(node, operands=(*most, first ^ 8, width)), *body[i + 1 :])
    assert {"not waited for", "elsewhere"} <= set(found)
    for what, mutant in found.items():
        try:
            assert verdict(choice, mutant, bodies, program, rest).status == "different", what
        except ProofError as error:  # without its load
            assert "read before it is written" in error.message
