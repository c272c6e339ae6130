"""Kernels of symbolic shapes: extents are found in the arrays, grids and tensor maps made at the launch; tiles overhang."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq.cli.run import execute
from tirx_eq.errors import LoweringError, PtxError, SimulationError, TirxError
from tirx_eq.interp.run import interpret
from tirx_eq.lower.code.widths import Widths
from tirx_eq.lower.kernel import compile_function
from tirx_eq.ptx.launch import Launch
from tirx_eq.script import parse_source

from .kernels import example, kernel

ROWS = """
from tirx_eq.script import tirx as T

@T.prim_func
def k(a: T.handle, b: T.handle):
    m = T.int32()
    A = T.match_buffer(a, (m, 64), "float32")
    B = T.match_buffer(b, (m, 64), "float32")
    T.device_entry()
    bx = T.cta_id([T.ceildiv(m, 4)])
    tx = T.thread_id([256])
    row = T.meta_var(bx * 4 + tx // 64)
    if row < m:
        B[row, tx % 64] = A[row, tx % 64] * T.float32(2.0)
"""

#: A strided array: rows and columns are both symbolic, and so is the step between rows.
PLANE = ROWS.replace("(m, 64)", "(m, n)").replace("m = T.int32()", "m = T.int32()\n    n = T.int32()").replace(
    "if row < m:", "if (row < m) & (tx % 64 < n):"
)  # fmt: skip

GEMM = """
from tirx_eq.layout import S, TileLayout, mma_shared_layout, tid_in_wg
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

operand = mma_shared_layout("float16", 3, (128, 64))
row_per_thread = TileLayout(S[(128, 64) : (1 @ tid_in_wg, 1)])

@T.prim_func
def k(a: T.handle, B: T.Buffer((64, 64), "float16"), d: T.handle):
    m = T.int32()
    A = T.match_buffer(a, (m, 64), "float16")
    D = T.match_buffer(d, (m, 64), "float32")
    T.device_entry()
    bx = T.cta_id([T.ceildiv(m, 128)])
    warp_id = T.warp_id([4])
    tid = T.thread_id([128])
    pool = T.SMEMPool()
    A_s = pool.alloc((128, 64), "float16", align=1024, layout=operand)
    B_s = pool.alloc((64, 64), "float16", align=1024, layout=mma_shared_layout("float16", 3, (64, 64)))
    bars = pool.alloc((2,), "uint64", align=8)
    tmem = T.TMEMPool(pool, total_cols=64)
    acc = tmem.alloc((128, 64), "float32")
    tmem.commit()
    pool.commit()
    if tid == 0:
        T.ptx.mbarrier.init(bars.ptr_to([0]), 1)
        T.ptx.mbarrier.init(bars.ptr_to([1]), 1)
        T.ptx.fence.mbarrier_init()
    T.cuda.cta_sync()
    if warp_id == 0:
        if T.ptx.elect_sync():
            T.ptx.mbarrier.arrive.expect_tx(bars.ptr_to([0]), (128 + 64) * 64 * 2)
            rows = T.meta_var(A[bx * 128 : bx * 128 + 128, :])
            Tx.copy_async(A_s[:, :], rows, dispatch="tma_explicit", mbar=bars.ptr_to([0]), oob=FILL)
            Tx.copy_async(B_s[:, :], B[:, :], dispatch="tma_auto", mbar=bars.ptr_to([0]))
            T.ptx.mbarrier.try_wait(bars.ptr_to([0]), 0)
            T.ptx.tcgen05.fence.after_thread_sync()
            Tx.gemm_async(acc[:, :], A_s[:, :], B_s[:, :], accum=False, dispatch="tcgen05", cta_group=1)
            T.ptx.tcgen05.commit(bars.ptr_to([1]), cta_group=1)
    T.ptx.mbarrier.try_wait(bars.ptr_to([1]), 0)
    T.ptx.tcgen05.fence.after_thread_sync()
    reg = T.alloc_local((64,), "float32")
    Tx.wg.copy_async(reg.view(128, 64, layout=row_per_thread)[:, :], acc[:, :])
    T.ptx.tcgen05.wait.ld()
    if bx * 128 + tid < m:
        Tx.copy(D[bx * 128 + tid, :], reg[:])
    T.cuda.cta_sync()
    tmem.dealloc()
"""


def function(text, **replaced):
    for old, new in replaced.items():
        text = text.replace(old, new)
    return parse_source(text, "k.py")["k"]


@pytest.fixture(scope="module")
def rows():
    func = function(ROWS)
    return func, compile_function(func)


@settings(max_examples=8, deadline=None)
@given(m=st.integers(1, 20))
def test_any_number_of_rows(rows, m):
    func, made = rows
    a = np.random.default_rng(m).standard_normal((m, 64)).astype(np.float32)
    found = made.simulate(a, np.zeros_like(a))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["B"], 2 * a)
    np.testing.assert_array_equal(interpret(func, a, np.zeros_like(a))["B"], 2 * a)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 64), (6, 37)])
def test_both_extents_are_symbolic(m, n):
    func = function(PLANE)
    a = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
    found = compile_function(func).simulate(a, np.zeros_like(a))
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["B"], 2 * a)


def test_what_the_host_is_told(rows):
    data = rows[1].launch
    assert data.grid == (("div", ("sub", ("add", "m", 4), 1), 4), 1, 1)
    assert [(p.name, p.extent_of) for p in data.params] == [("A", None), ("B", None), ("m", ("A", 0))]
    assert Launch.from_json(json.loads(data.dumps())) == data
    assert data.at({"m": 9}).grid == (3, 1, 1) and data.at({"m": 9}).params[0].shape == (9, 64)


@pytest.mark.parametrize(("a", "b", "message"), [
    ((10, 64), (9, 64), "argument 'B' has extents [9, 64], here the kernel takes [10, 64]"),
    ((10, 32), (10, 64), "argument 'A' has extents [10, 32], here the kernel takes [10, 64]"),
    ((640,), (10, 64), "argument 'A' must have 2 dimensions, got 1"),
])  # fmt: skip
def test_arrays_that_contradict_each_other(rows, a, b, message):
    with pytest.raises(SimulationError) as caught:
        rows[1].simulate(np.zeros(a, np.float32), np.zeros(b, np.float32))
    assert message in str(caught.value)


def test_an_empty_grid_is_refused(rows):
    with pytest.raises(TirxError, match="grid size 0 along x"):
        rows[1].simulate(np.zeros((0, 64), np.float32), np.zeros((0, 64), np.float32))


def test_an_extent_that_nothing_gives():
    text = ROWS.replace("(m, 64)", "(m * 2, 64)")
    with pytest.raises(LoweringError, match="'m' in the shape of 'A' is neither an extent of its own nor a scalar parameter"):
        compile_function(function(text))


def test_a_grid_that_isnt_known_at_the_launch():
    text = ROWS.replace("bx = T.cta_id([T.ceildiv(m, 4)])", "n = T.int32()\n    bx = T.cta_id([n])")
    with pytest.raises(LoweringError, match="the grid's x extent depends on 'n', which isn't known when"):
        compile_function(function(text))


@pytest.mark.parametrize("fill", ["zero", "nan"])
def test_a_gemm_of_any_number_of_rows(fill):
    func = function(GEMM, FILL=repr(fill))
    made = compile_function(func)
    (a_map, _) = (p.tensor_map for p in made.launch.params if p.tensor_map is not None)
    assert (a_map.shape, a_map.strides, a_map.oob_fill) == ((64, "m"), (128,), fill)
    rng = np.random.default_rng(0)
    for m, policy in ((77, "late"), (256, "random")):
        a, b = (rng.integers(-2, 3, (n, 64)).astype(np.float16) for n in (m, 64))
        found = made.simulate(a, b, np.zeros((m, 64), np.float32), policy=policy)
        assert not found.faults
        np.testing.assert_array_equal(found.arrays["D"], a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("fill", ["zero", "nan"])
def test_what_is_outside_of_an_array_has_the_value_that_is_asked_for(fill):
    """Every row of the tile is written out, those beyond the array too."""
    text = GEMM.replace("if bx * 128 + tid < m:", "if True:").replace("d: T.handle", 'D: T.Buffer((128, 64), "float32")')
    func = function(text.replace('    D = T.match_buffer(d, (m, 64), "float32")\n', ""), FILL=repr(fill))
    a, b = (np.random.default_rng(1).integers(1, 3, (n, 64)).astype(np.float16) for n in (50, 64))
    given = (a, b, np.zeros((128, 64), np.float32))
    found, wanted = compile_function(func).simulate(*given), interpret(func, *given)
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["D"], wanted["D"])
    assert (np.isnan(found.arrays["D"][50:]).all() if fill == "nan" else not found.arrays["D"][50:].any())


def test_integers_have_no_nan():
    text = ROWS.replace("if row < m:\n        B[row, tx % 64] = A[row, tx % 64] * T.float32(2.0)", """\
pool = T.SMEMPool()
    s = pool.alloc((4, 64), "int32", align=1024)
    bar = pool.alloc((1,), "uint64", align=8)
    pool.commit()
    if tx == 0:
        Tx.copy_async(s[:, :], A[bx * 4 : bx * 4 + 4, :], dispatch="tma_explicit", mbar=bar.ptr_to([0]), oob="nan")""")
    text = text.replace("float32", "int32").replace("as T\n", "as T\nfrom tirx_eq.script.tirx import tile as Tx\n")
    with pytest.raises((LoweringError, PtxError), match="NaN needs a floating-point type"):
        compile_function(function(text))


@pytest.fixture(scope="module")
def product():
    return example("gemm_any_shape"), compile_function(example("gemm_any_shape"))


@settings(max_examples=4, deadline=None)
@given(m=st.integers(1, 140), n=st.integers(1, 70), k=st.integers(1, 17).map(lambda e: 8 * e))
def test_a_gemm_of_any_shape(product, m, n, k):
    _, made = product
    rng = np.random.default_rng(m * n + k)
    a, b = (rng.integers(-2, 3, (rows, k)).astype(np.float16) for rows in (m, n))
    found = made.simulate(a, b, np.zeros((m, n), np.float32), policy="random")
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["D"], a.astype(np.float32) @ b.astype(np.float32).T)


def test_strides_that_no_tensor_map_has(product):
    _, made = product
    maps = [p.tensor_map for p in made.launch.params if p.tensor_map is not None]
    assert [m.strides for m in maps] == [(("mul", "k", 2),)] * 2
    with pytest.raises(PtxError, match="tensor map of A: stride 66 bytes of dimension 1 is not a multiple of 16"):
        made.simulate(np.zeros((64, 33), np.float16), np.zeros((64, 33), np.float16), np.zeros((64, 64), np.float32))


#: Rows of ``step`` elements: how wide the accesses are follows from what divides it.
COPY = """
from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx

@T.prim_func
def k(a: T.handle, b: T.handle, n: T.int32):
    m = T.int32()
    A = T.match_buffer(a, (m, STEP), "float16")
    B = T.match_buffer(b, (m, STEP), "float16")
    T.device_entry()
    bx = T.cta_id([m])
    tx = T.thread_id([32])
    x = T.alloc_local((8,), "float16")
    Tx.copy(x[:], A[bx, tx * 8 : tx * 8 + 8])
    Tx.copy(B[bx, tx * 8 : tx * 8 + 8], x[:])
"""


@pytest.mark.parametrize(("factor", "access"), [(1, "u16"), (2, "b32"), (8, "v4.b32"), (24, "v4.b32")])
def test_the_width_of_accesses_to_rows_of_symbolic_length(factor, access):
    made = compile_function(function(COPY, STEP=f"n * {factor}"))
    assert f"ld.global.{access} " in made.ptx and f"st.global.{access} " in made.ptx
    n = 264
    a = np.random.default_rng(0).standard_normal((3, n * factor)).astype(np.float16)
    found = made.simulate(a, np.zeros_like(a), n)
    assert not found.faults
    np.testing.assert_array_equal(found.arrays["B"][:, :256], a[:, :256])


def test_the_command_line_runs_it(product):
    func, _ = product
    outcome = execute(func, extents={"m": 70, "n": 9, "k": 72}, policy="random")
    assert outcome.exact and outcome.good


@pytest.mark.parametrize(("index", "n"), [("n * n + t", 4), ("n * n % 64 + t", 4), ("n * n % 64 + t", (1 << 40) + 4)])
def test_sums_and_products_may_wrap_around(index, n):
    """Addresses count modulo 2^64."""
    func = kernel(f"t = Tx.thread_id([32])\nC[{index}] = 1", 'C: Tx.Buffer((64,), "int32"), n: Tx.int64')
    found = compile_function(func).simulate(np.zeros(64, np.int32), n)
    assert not found.faults and found.arrays["C"].tolist() == [0] * 16 + [1] * 32 + [0] * 16


def test_what_is_divided_is_computed_with_the_bits_of_its_type():
    """A quotient of a number that is known modulo 2^64 is another number: the kernel must not overflow, and is told so."""
    body = "t = Tx.thread_id([1])\nC[(n * n) // 3] = 1\nC[Tx.max(n * 3, 0) // 2] = 2"
    func = kernel(body, 'C: Tx.Buffer((64,), "int32"), n: Tx.int64')
    with pytest.warns(UserWarning, match="expressions of 64-bit integers may need more bits"):
        made = compile_function(func)
    for n in (0, 3, 13, -5):
        found = made.simulate(np.zeros(64, np.int32), n)
        assert not found.faults
        want = np.zeros(64, np.int32)
        want[n * n // 3] = 1
        want[max(n * 3, 0) // 2] = 2
        assert found.arrays["C"].tolist() == want.tolist()


def test_widths_beyond_64_bits():
    widths = Widths({"n": (-(1 << 63), (1 << 63) - 1), "m": (0, (1 << 64) - 1), "k": (0, 100)})
    assert widths.bounds(("mul", "n", 3)) == (-(1 << 63), (1 << 63) - 1)
    assert widths.bounds(("add", "m", "k")) == (0, (1 << 64) - 1)
    assert widths.is_exact(("and", ("mul", "n", "n"), 63)) and not widths.is_exact(("div", ("mul", "n", "n"), 3))
    assert widths.width(("min", ("add", "m", "k"), 7)) == 64 and len(widths.typed) == 1
    with pytest.raises(LoweringError, match="beyond 64 bits, and signed and unsigned"):
        widths.width(("min", ("add", "m", "n"), 7))
