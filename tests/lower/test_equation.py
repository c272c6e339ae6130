"""The layout equation: it holds for what is emitted, and a change to the emitted code breaks it."""

from __future__ import annotations

import dataclasses

import pytest

from tirx_eq.errors import LoweringError, ProofError
from tirx_eq.ir import Expr
from tirx_eq.lower.candidates import choose
from tirx_eq.lower.indices import Indices
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.program import If, Index, Instruction, Memory, Pointer, replace_calls
from tirx_eq.lower.sharing.threads import find_launch
from tirx_eq.lower.statements import Lowerer
from tirx_eq.lower.storage import plan
from tirx_eq.lower.variants import VARIANTS

from .kernels import copy_kernel, example, kernel


def lowered(func):
    """(choices, bodies, program, everything to make Indices) of a kernel."""
    launch, storage = find_launch(func), plan(func)
    lowerer = Lowerer(func, launch, storage, "sm_100a")
    program = lowerer.run()
    choices = choose(lowerer.contexts)
    bodies = {c.context.index: VARIANTS[c.chosen.node].emit(c.context, c.chosen.values) for c in choices}
    return choices, bodies, program, (launch, storage, lowerer.ranges)


def verdict(choice, body, bodies, program, rest):
    bodies = {**bodies, choice.context.index: body}
    indices = Indices(replace_calls(program, bodies), *rest)
    return VARIANTS[choice.chosen.node].equation(choice.context, body, indices)


def status(choice, body, bodies, program, rest):
    """What the equation says of a body; one that can't be read (a register that nothing wrote) counts as different."""
    try:
        return verdict(choice, body, bodies, program, rest).status
    except ProofError:
        return "different"


def shift(operand, by):
    """The operand with its expression moved by ``by``."""
    if isinstance(operand, (Memory,)):
        return dataclasses.replace(operand, offset=operand.offset + by)
    if isinstance(operand, (Index, Pointer)):
        return dataclasses.replace(operand, expr=operand.expr + by)
    if isinstance(operand, tuple) and any(isinstance(m, Index) for m in operand):
        return (shift(operand[0], by), *operand[1:])
    return None


def mutants(body):
    """Bodies that differ in one place: an address off by an element, two instructions' data swapped, one left out."""


    def at(i, operands):
        return (*body[:i], dataclasses.replace(body[i], operands=operands), *body[i + 1 :])

    for i, node in enumerate(body):
        if not isinstance(node, Instruction):
            continue
        for k, operand in enumerate(node.operands):
            for by in (2, 64):
                if (moved := shift(operand, by)) is not None:
                    operands = (*node.operands[:k], moved, *node.operands[k + 1 :])
                    yield f"{node.opcode} operand {k} + {by}", at(i, operands)
        several = [k for k, o in enumerate(node.operands) if isinstance(o, tuple) and len(o) > 1]
        vectors = [k for k in several if not isinstance(node.operands[k][0], Index)]
        for k in vectors:
            swapped = (node.operands[k][1], node.operands[k][0], *node.operands[k][2:])
            operands = (*node.operands[:k], swapped, *node.operands[k + 1 :])
            yield f"{node.opcode} swapped", at(i, operands)
        if node.opcode.startswith(("st.", "tcgen05.mma", "tcgen05.ld", "tcgen05.cp", "cvt")):
            yield f"{node.opcode} left out", (*body[:i], *body[i + 1 :])


@pytest.fixture(scope="module")
def gemm():
    return lowered(example("gemm_single_tile"))


@pytest.mark.parametrize("call", range(6), ids=["copy A", "copy B", "gemm", "tmem", "cast", "store"])
def test_every_mutant_of_the_gemm_breaks_the_equation(gemm, call):
    choices, bodies, program, rest = gemm
    choice = choices[call]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = list(mutants(body))
    assert len(found) >= 2
    # One of each kind is enough: they are all alike.
    kinds = {}
    for what, mutant in found:
        kinds.setdefault(what, mutant)
    for what, mutant in list(kinds.items())[:8]:
        result = verdict(choice, mutant, bodies, program, rest)
        assert result.status == "different" and result.counterexample, what


def test_a_loop_over_tiles_is_proved_for_every_iteration():
    func = kernel(
        "tid = Tx.thread_id([128])\nfor i in Tx.serial(4):\n"
        "    Tx.cta.copy(B[i * 16 : i * 16 + 16, :], A[i * 16 : i * 16 + 16, :])",
        'A: Tx.Buffer((64, 64), "float16"), B: Tx.Buffer((64, 64), "float16")',
    )
    (call,) = compile_function(func).calls
    assert call.equation.status == "equal" and call.choice.chosen.values == (16,)


def test_a_tail_is_guarded():
    func = copy_kernel("B[0:3, 0:8]", "A[0:3, 0:8]")
    (call,) = compile_function(func).calls
    body = VARIANTS[call.choice.chosen.node].emit(call.choice.context, call.choice.chosen.values)
    assert isinstance(body[-1], If) and isinstance(body[-1].condition, Expr)
    assert call.equation.status == "equal"


def test_threads_must_mean_one_region():
    func = kernel(
        "tid = Tx.thread_id([128])\nTx.cta.copy(B[tid : tid + 1, :], A[tid : tid + 1, :])",
        'A: Tx.Buffer((128, 64), "float16"), B: Tx.Buffer((128, 64), "float16")',
    )
    with pytest.raises(LoweringError, match="all threads of a cta must mean one region"):
        compile_function(func)
