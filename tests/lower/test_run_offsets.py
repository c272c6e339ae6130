"""Operands in swizzled shared memory that begin within a swizzle pattern: boxes of tensor copies, slices of K."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function
from tirx_eq.script import parse_source

from .kernels import kernel
from .test_equation import lowered, mutants, verdict
from .test_run_gemm import ALL_ROWS, SOURCE, integers, shared_layout
from .test_run_issue import ROUND, agree, numbers

#: Swizzle -> elements of float16 in a row of its pattern.
ONE = "if tid == 0:\n    "
MODES = {"128B": 64, "64B": 32, "32B": 16}


def rows_within(mode: str, first: str = "4", count: int = 56):
    """Rows that begin within a pattern are loaded, doubled and stored as other rows, by tensor copies of one thread."""
    width = MODES[mode]
    part, fewer = (f"{first} : {first} + {n}" for n in (count, count - 8))
    text = ROUND.format(
        load=f'if tid == 0:\n    Tx.copy_async(sh[{part}, :], A[{part}, :], dispatch="tma", mbar=bar.ptr_to([0]))',
        store=f'if tid == 0:\n    Tx.copy_async(B[{first} + 8 : {first} + {count}, :], sh[{fewer}, :], dispatch="tma")',
    ).replace("sh[:, :]", f"sh[{part}, :]").replace("8192", str(count * width * 2))  # fmt: skip
    text = text.replace('mma_shared_layout("float16", 3, (64, 64))', f'mma_shared_layout("float16", "{mode}", (64, {width}))')
    buffers = f'A: Tx.Buffer((64, {width}), "float16"), B: Tx.Buffer((64, {width}), "float16")'
    return kernel(text.replace("(64, 64)", f"(64, {width})"), buffers)


@pytest.mark.parametrize("mode", MODES)
def test_boxes_of_tensor_copies(mode):
    width = MODES[mode]
    agree(rows_within(mode), numbers(64, width), np.zeros((64, width), np.float16))


def test_a_box_with_atoms_of_32_bytes():
    """The swizzle of MN-major tf32 operands, whose unit is 32 bytes."""
    text = ROUND.format(load=ONE + 'Tx.copy_async(sh[:, :], A[:, :], dispatch="tma", mbar=bar.ptr_to([0]))',
                        store=ONE + 'Tx.copy_async(B[:, :], sh[:, :], dispatch="tma")')  # fmt: skip
    atom = "ComposeLayout(SwizzleLayout(3, 2, 2), TileLayout(S[(64, 32) : (32, 1)]))"
    text = text.replace('mma_shared_layout("float16", 3, (64, 64))', atom).replace('(64, 64), "float16"', '(64, 32), "float32"')
    func = kernel(text, 'A: Tx.Buffer((64, 32), "float32"), B: Tx.Buffer((64, 32), "float32")')
    made = agree(func, numbers(64, 32).astype(np.float32), np.zeros((64, 32), np.float32))
    assert {p.tensor_map.swizzle for p in made.launch.params if p.tensor_map} == {"128B_ATOM_32B"}


def test_a_box_begins_at_128_bytes():
    """A row of the 32-byte swizzle is a quarter of what a box's address is a multiple of."""
    with pytest.raises(NoCandidate, match="not a multiple of 128"):
        compile_function(rows_within("32B", "2"))


def test_a_box_of_another_row_breaks_the_equation():
    choices, bodies, program, rest = lowered(rows_within("128B"))
    choice = choices[0]
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    for what, mutant in mutants(body):
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what


def sliced(call: str, k: int = 64, mode: str = "128B", transposed: bool = False):
    """A product of parts of A and B along K."""
    shapes = [(k, 128), (k, 64)] if transposed else [(128, k), (64, k)]
    text = SOURCE.format(
        a="float16", b="float16", d="float32", m=128, n=64, ta=transposed, tb=transposed, a_shape=shapes[0], b_shape=shapes[1],
        a_layout=shared_layout("float16", mode, 128, k, transposed), b_layout=shared_layout("float16", mode, 64, k, transposed),
        d_layout="TileLayout(S[(128, 64) : (1 @ TLane, 1 @ TCol)])", load=ALL_ROWS,
    )  # fmt: skip
    begin, end = text.index("            Tx.gemm_async("), text.index("            Tx.ptx.tcgen05.commit")
    lines = "".join(f"            {line}\n" for line in call.splitlines())
    return parse_source(text[:begin] + lines + text[end:], "g.py")["gemm"]


def check(func, low: int, high: int, k: int, transposed: bool = False) -> None:
    a, b = (integers((k, n) if transposed else (n, k), "float16", n) for n in (128, 64))
    made = compile_function(func)
    left, right = (x.astype(np.float64).T if transposed else x.astype(np.float64) for x in (a, b))
    for policy in ("late", "random"):
        result = made.simulate(a, b, np.zeros((128, 64), np.float32), policy=policy)
        assert not result.faults, [str(f) for f in result.faults[:2]]
        np.testing.assert_array_equal(result.arrays["D"], left[:, low:high] @ right[:, low:high].T)


LOOP = """for ki in Tx.serial({count}):
    Tx.gemm_async(tmem[:, :], A_s[{part}], B_s[{part}], transA={t}, transB={t}, accum=ki > 0)"""


@pytest.mark.parametrize("mode", [*MODES, "none"])
def test_a_loop_over_slices_of_k(mode):
    """The start of a slice is known at run time only: 32 bytes further on in the pattern's row, or in the next pattern."""
    check(sliced(LOOP.format(count=8, part=":, ki * 16 : ki * 16 + 16", t=False), 128, mode), 0, 128, 128)


def test_a_loop_over_slices_of_k_outermost():
    part = "ki * 16 : ki * 16 + 16, :"
    check(sliced(LOOP.format(count=4, part=part, t=True), transposed=True), 0, 64, 64, True)


@pytest.mark.parametrize("first", [8, 16])
def test_a_slice_of_k_at_a_constant_place(first):
    part = f":, {first} : {first + 32}"
    check(sliced(f"Tx.gemm_async(tmem[:, :], A_s[{part}], B_s[{part}], accum=False)"), first, first + 32, 64)


@pytest.mark.parametrize(("parts", "k", "why"), [
    ((":, 56:72", ":, 56:72"), 128, r"element \[0, 8\] of 'A' is at byte 16384, the descriptor reads byte 144"),
    ((":, :", "4:36, :"), 64, "'B' begins in row 4 of a swizzle pattern's 8"),
    ((":, 4:20", ":, 4:20"), 64, "not a multiple of 16 bytes"),
])  # fmt: skip
def test_what_no_descriptor_describes(parts, k, why):
    n = 32 if parts[1].startswith("4:") else 64
    with pytest.raises(NoCandidate, match=why):
        compile_function(sliced(f"Tx.gemm_async(tmem[:, 0:{n}], A_s[{parts[0]}], B_s[{parts[1]}], accum=False)", k))


def rows_by_loop(mode: str, step: int, rows: int, stages: int = 1):
    """Rows that begin anywhere in a pattern, as a loop says, are loaded and stored by tensor copies of one thread."""
    width = MODES[mode]
    count = (64 - rows) // step + 1
    loop = f"for i in Tx.serial({count}):\n        "
    part = f"i * {step} : i * {step} + {rows}"
    text = ROUND.format(
        load=f'if tid == 0:\n    {loop}Tx.copy_async(sh[{part}, :], A[{part}, :], dispatch="tma", mbar=bar.ptr_to([0]))',
        store=f'if tid == 0:\n    {loop}Tx.copy_async(B[{part}, :], sh[{part}, :], dispatch="tma")',
    ).replace("8192", str(count * rows * width * 2))  # fmt: skip
    text = text.replace('mma_shared_layout("float16", 3, (64, 64))', f'mma_shared_layout("float16", "{mode}", (64, {width}))')
    buffers = f'A: Tx.Buffer((64, {width}), "float16"), B: Tx.Buffer((64, {width}), "float16")'
    return kernel(text.replace("(64, 64)", f"(64, {width})"), buffers)


@pytest.mark.parametrize(("mode", "step", "rows"), [
    ("128B", 4, 4), ("128B", 1, 1), ("64B", 2, 2), ("64B", 4, 8), ("32B", 4, 4),
])  # fmt: skip
def test_boxes_that_begin_anywhere_in_a_pattern(mode, step, rows):
    """Where is known at run time only; all places are looked at."""
    width = MODES[mode]
    func = rows_by_loop(mode, step, rows)
    if rows > step:  # rows that are loaded twice, and doubled twice: only that it compiles and is proved
        assert all(call.equation.status == "equal" for call in compile_function(func).calls)
        return
    made = agree(func, numbers(64, width), np.zeros((64, width), np.float16))
    assert all(call.equation.status == "equal" for call in made.calls)


@pytest.mark.parametrize(("mode", "step"), [("64B", 1), ("32B", 2)])
def test_a_place_where_no_box_may_begin_is_named(mode, step):
    with pytest.raises(NoCandidate, match=r"begins at byte 64, not a multiple of 128, where i = 1"):
        compile_function(rows_by_loop(mode, step, step))
