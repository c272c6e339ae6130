"""Copies between two layouts of registers: moves, and shuffles among the lanes of a warp."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import Index, Instruction

from .kernels import kernel
from .test_equation import lowered, verdict

ROWS, HALVES = "S[(32, 8):(1 @ laneid, 1)]", "S[(16, 2, 8):(2 @ laneid, 1 @ laneid, 1)]"
FRAGMENT = "S[(2, 8, 2, 4, 2):(2, 4 @ laneid, 4, 1 @ laneid, 1)]"
#: (dtype, shape, layout, other layout, registers) -> the variant, and how many shuffles it has.
CASES = {
    ("float32", (32, 8), ROWS, "S[(32, 2, 4):(1 @ laneid, 1, 2)]", 8): ("SpreadMove", 0),
    ("float32", (32, 8), ROWS, "S[(16, 2, 8):(1 @ laneid, 16 @ laneid, 1)]", 8): ("Shuffle", 8),
    ("float32", (16, 16), HALVES, FRAGMENT, 8): ("Shuffle", 32),
    ("float16", (16, 16), HALVES, FRAGMENT, 8): ("Shuffle", 16),
    ("float16", (8, 8), "S[(8, 4, 2):(4 @ laneid, 1 @ laneid, 1)]", "S[(4, 2, 8):(1 @ laneid, 1, 4 @ laneid)]", 2): (
        "Shuffle", 2),
    ("uint8", (32, 8), ROWS, "S[(2, 16, 8):(1 @ laneid, 2 @ laneid, 1)]", 8): ("Shuffle", 2),
}  # fmt: skip


def exchanged(dtype, shape, first, second, registers):
    rows, columns = shape
    shuffles = CASES.get((dtype, shape, first, second, registers), ("",))[0] == "Shuffle"
    how = ", dispatch='shuffle'" if shuffles else ""
    return kernel(
        f"""
tid = Tx.thread_id([32])
a = Tx.alloc_local(({registers},), "{dtype}")
b = Tx.alloc_local(({registers},), "{dtype}")
va = a.view({rows}, {columns}, layout=TileLayout({first}))
vb = b.view({rows}, {columns}, layout=TileLayout({second}))
Tx.warp.copy(va[:, :], A[:, :])
Tx.warp.copy(vb[:, :], va[:, :]{how})
Tx.warp.copy(B[:, :], vb[:, :])
""",
        f'A: Tx.Buffer({shape}, "{dtype}"), B: Tx.Buffer({shape}, "{dtype}")',
        "from tirx_eq.layout import laneid\n",
    )


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}-{c[2]}-{c[3]}")
def test_between_two_layouts(case):
    func = exchanged(*case)
    made = compile_function(func)
    variant, shuffles = CASES[case]
    assert made.calls[1].choice.chosen.node == variant
    assert made.ptx.count("shfl.sync.idx") == shuffles
    made.assemble()
    given = np.random.default_rng(3).integers(0, 100, case[1]).astype(dt.numpy_dtype(case[0]))
    result = made.simulate(given, np.zeros_like(given))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["B"], given)
    np.testing.assert_array_equal(np.asarray(interpret(func, given, np.zeros_like(given))["B"]), given)


def test_moves_are_cheaper_than_the_shuffles_that_would_do():
    made = compile_function(exchanged("float32", (32, 8), ROWS, "S[(32, 2, 4):(1 @ laneid, 1, 2)]", 8))
    assert [k.node for k in made.calls[1].choice.candidates] == ["SpreadMove", "Shuffle"]
    assert "each thread holds what it gets" in str(made.calls[1].choice.rejected["copy/exchange"])


def test_warps_exchange_nothing_by_themselves():
    func = kernel(
        """
tid = Tx.thread_id([128])
a = Tx.alloc_local((2,), "float32")
b = Tx.alloc_local((2,), "float32")
va = a.view(128, 2, layout=TileLayout(S[(128, 2):(1 @ tid_in_wg, 1)]))
vb = b.view(128, 2, layout=TileLayout(S[(32, 4, 2):(1 @ tid_in_wg, 32 @ tid_in_wg, 1)]))
Tx.wg.copy(vb[:, :], va[:, :])
"""
    )
    (call,) = compile_function(func).calls
    assert "is in no lane of its warp" in str(call.choice.rejected["copy/shuffle"][0])
    assert call.choice.chosen.node == "ExchangeOnce"


def mutants(body):
    """A lane off by one, another register, an instruction left out, a selection the other way round."""
    for i, node in enumerate(body):
        assert isinstance(node, Instruction)

        def at(*operands, i=i, node=node):
            return (*body[:i], dataclasses.replace(node, operands=operands), *body[i + 1 :])

        o = node.operands
        if node.opcode.startswith("shfl"):
            yield "another lane", at(*o[:2], Index((o[2].expr + 1) % 32), *o[3:])
            yield "another register", at(o[0], dataclasses.replace(o[1], index=o[1].index ^ 1), *o[2:])
        if node.opcode.startswith("selp"):
            yield "the other way", at(o[0], o[2], o[1], o[3])
        if node.opcode.startswith(("mov", "bfi")):
            yield "left out", (*body[:i], *body[i + 1 :])
        if node.opcode.startswith("shr") and isinstance(o[2], int):
            yield "another half", at(*o[:2], o[2] ^ 16)


@pytest.mark.parametrize("case", list(CASES)[2:5], ids=lambda c: c[0])
def test_every_mutant_breaks_the_equation(case):
    choices, bodies, program, rest = lowered(exchanged(*case))
    choice = choices[1]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    kinds = {}
    for what, mutant in mutants(body):
        kinds.setdefault(what, mutant)
    assert len(kinds) >= 3
    for what, mutant in kinds.items():
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what
