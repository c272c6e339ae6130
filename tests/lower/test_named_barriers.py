"""Barriers that the compiler takes for warpgroups are none that the kernel uses."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError
from tirx_eq.ir import PrimFunc
from tirx_eq.lower.context import evaluate_at
from tirx_eq.lower.facts.guards import variables
from tirx_eq.lower.kernel import compile_function
from tirx_eq.lower.named_barriers import first_free
from tirx_eq.lower.program import Instruction, operand_exprs, walk
from tirx_eq.lower.sharing.threads import find_launch
from tirx_eq.lower.statements import Lowerer
from tirx_eq.lower.storage import plan

from .kernels import kernel

PARAMS = 'A: Tx.Buffer((256, 8), "float32"), B: Tx.Buffer((256,), "float32"), n: Tx.int32'
CALL = (
    "t = Tx.thread_id([256])\nw = Tx.warpgroup_id([2])\ns = Tx.alloc_shared((256, 8), 'float32')\n"
    "{before}\n"
    "Tx.wg.binary_reduce(s[w * 128 : w * 128 + 128, :], B[w * 128 : w * 128 + 128], A[w * 128 : w * 128 + 128, :], "
    "A[w * 128 : w * 128 + 128, :], 'add', 'sum', reduce_axes=1)\n{after}"
)


def taken(func: PrimFunc) -> set[tuple[int, int]]:
    """The barriers of the two warpgroups, of instructions whose number depends on the thread."""
    launch = find_launch(func)
    program = Lowerer(func, launch, plan(func), "sm_100a").run()
    tid = launch.special["tid.x"]
    found = set()
    for node in walk(program):
        if isinstance(node, Instruction) and node.opcode == "bar.sync":
            for number in (e for o in node.operands[:1] for e in operand_exprs(o)):
                if tid in variables(number):
                    first, second = (evaluate_at(number, {tid: np.asarray(t)}) for t in (0, 128))
                    found.add((int(first), int(second)))
    return found


@pytest.mark.parametrize(
    ("before", "after", "first"),
    [
        ("", "", 15), ("Tx.cuda.warpgroup_sync(14 + w)", "", 13), ("", "Tx.cuda.warpgroup_sync(14 + w)", 13),
        ("", "Tx.ptx.bar.sync(14, 256)", 13), ("", "Tx.ptx.bar.sync(15, 256)", 14), ("Tx.ptx.barrier.sync(12, 256)", "", 15),
        ("for k in Tx.serial(3):\n    Tx.ptx.bar.sync(k + 13, 256)", "", 12),
    ],
)  # fmt: skip
def test_free_barriers_are_taken(before, after, first):
    func = kernel(CALL.format(before=before, after=after), PARAMS)
    assert (first, first - 1) in taken(func)
    for policy in ("late", "random"):
        outcome = execute(func, policy=policy)
        assert outcome.good and not outcome.faults


@pytest.mark.parametrize(
    "before", ["Tx.ptx.bar.sync(n, 256)", "for k in Tx.serial(1, 15, step=2):\n    Tx.ptx.bar.sync(k, 256)"]
)
def test_a_kernel_that_leaves_none_is_refused(before):
    with pytest.raises(LoweringError, match=r"2 of the barriers 1 to 15 in a row are needed for that") as e:
        compile_function(kernel(CALL.format(before=before, after=""), PARAMS))
    assert e.value.span is not None


def test_first_free():
    assert first_free(frozenset(), 1) == 15 and first_free(frozenset({15}), 2) == 14
    assert first_free(frozenset(range(2, 16, 2)), 1) == 15 and first_free(frozenset(range(2, 16, 2)), 2) is None
    assert first_free(frozenset(np.arange(1, 16).tolist()), 1) is None
