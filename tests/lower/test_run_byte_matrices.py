"""ldmatrix and stmatrix of bytes: 8-bit operands of mma.sync from rows along N, executed, proved, and broken on purpose."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.ptxas import find_tool

from .kernels import kernel
from .product_kernels import AXES, fragments
from .test_equation import lowered, mutants, verdict


def loads(k: int, n: int, dtype: str = "int8", shared: str = ""):
    """B[k, n] of a product, its rows in shared memory, to the fragment whose registers have four neighbours along K."""
    layout, count = fragments(16, n, k, dtype, "warp")["B"]
    return kernel(
        f"""
tid = Tx.thread_id([32])
sh = Tx.alloc_shared(({k}, {n}), "{dtype}", align=1024{shared})
registers = Tx.alloc_local(({count},), "{dtype}")
b = registers.view({k}, {n}, layout=TileLayout({layout}))
Tx.cta.copy(sh[:, :], A[:, :])
Tx.cuda.cta_sync()
Tx.warp.copy(b[:, :], sh[:, :])
Tx.warp.copy(B[:, :], b[:, :])
""",
        f'A: Tx.Buffer(({k}, {n}), "{dtype}"), B: Tx.Buffer(({k}, {n}), "{dtype}")', AXES,
    )  # fmt: skip


def stores(n: int, dtype: str = "int8"):
    """An accumulator of bytes, two rows and two columns 8 apart in a register, to rows along what were its columns."""
    layout = f"S[(4, 2, {n // 16}, 2, 8):(1 @ laneid, 1, 4, 2, 4 @ laneid)]"
    return kernel(
        f"""
tid = Tx.thread_id([32])
sh = Tx.alloc_shared((8, {n}), "{dtype}", align=128)
registers = Tx.alloc_local(({n // 4},), "{dtype}")
d = registers.view(8, {n}, layout=TileLayout({layout}))
Tx.warp.copy(d[:, :], A[:, :])
Tx.warp.copy(sh[:, :], d[:, :])
Tx.cuda.cta_sync()
Tx.cta.copy(B[:, :], sh[:, :])
""",
        f'A: Tx.Buffer((8, {n}), "{dtype}"), B: Tx.Buffer((8, {n}), "{dtype}")', AXES,
    )  # fmt: skip


def chosen(func, node: str, target: str = "sm_100a") -> str:
    """Run the kernel under every schedule and compare; the choice for the copy between registers and shared memory."""
    (shape,) = {b.const_shape() for b in func.buffer_map.values()}
    (dtype,) = {b.dtype for b in func.buffer_map.values()}
    a = np.random.default_rng(6).integers(-7, 8, shape).astype(dt.numpy_dtype(dtype))
    made = compile_function(func, target)
    np.testing.assert_array_equal(interpret(func, a, np.zeros_like(a))["B"].view(np.uint8), a.view(np.uint8))
    for policy in ("late", "early", "random") if target == "sm_100a" else ():
        result = made.simulate(a, np.zeros_like(a), policy=policy)
        assert not result.faults, [str(f) for f in result.faults[:2]]
        np.testing.assert_array_equal(result.arrays["B"].view(np.uint8), a.view(np.uint8))
    if find_tool("ptxas"):
        assert made.assemble().spill_stores == 0
    (choice,) = [c.choice for c in made.calls if any(k.node == node for k in c.choice.candidates)] or [made.calls[1].choice]
    assert choice.chosen is choice.candidates[0]
    return choice.chosen.describe()


@pytest.mark.parametrize(("k", "n", "count"), [(32, 16, 2), (16, 32, 2), (64, 32, 2), (16, 16, 1)])
@pytest.mark.parametrize("dtype", ["int8", "float8_e4m3fn"])
def test_loads(k, n, count, dtype):
    assert chosen(loads(k, n, dtype), "MatrixLoad") == f"MatrixLoad(x{count}.trans.b8)"


def test_loads_from_swizzled_rows():
    shared = ', layout=mma_shared_layout("int8", "32B", (32, 32))'
    assert chosen(loads(32, 32, "int8", shared), "MatrixLoad") == "MatrixLoad(x2.trans.b8)"


@pytest.mark.parametrize(("n", "count"), [(16, 1), (32, 2), (64, 4), (128, 4)])
def test_stores(n, count):
    assert chosen(stores(n), "MatrixStore") == f"MatrixStore(x{count}.trans.b8)"


def test_other_targets_have_none():
    assert chosen(loads(32, 16), "MatrixLoad", "sm_90") == "SpreadCopy(bytes=1)"


def test_columns_that_are_too_far_apart():
    """Of eight columns half of a row of 16 bytes would be missing."""
    assert chosen(loads(32, 8), "MatrixLoad") == "SpreadCopy(bytes=1)"


@pytest.mark.parametrize("func", [loads(32, 16), stores(64)], ids=["load", "store"])
def test_every_mutant_breaks_the_equation(func):
    choices, bodies, program, rest = lowered(func)
    choice = next(c for c in choices if c.chosen.node in ("MatrixLoad", "MatrixStore"))
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    found = list(mutants(body))
    assert len(found) >= 3
    for what, mutant in found:
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what
