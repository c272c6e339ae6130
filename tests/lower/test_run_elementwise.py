"""Element-wise primitives: compiled, run in the simulator, compared with the interpreter; or refused, by a condition.

Whole numbers must agree exactly (where the operation keeps them exact); random data within the bounds stated below.
"""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.interp.run import interpret
from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .kernels import kernel
from .value_kernels import COLUMNS, ROWS, SCOPES, data, run, value_kernel

PLACES = ("registers", "shared", "global")
CELLS = [(scope, place) for scope in SCOPES for place in PLACES]
DTYPES = ("float32", "float16", "bfloat16", "int32", "uint32", "int16", "float8_e4m3fn")
EXISTS = "the operation exists for the dtypes"

#: call with {operands}, number of inputs, relative error of the f32 form on random data (0: exact).
#: ex2.approx: 2 ulp; exp and silu also round x * log2(e), an error of |x| ulp in the result for |x| <= 4; rcp.approx: 1 ulp;
#: lg2.approx: 2^-22 absolute where the result is near 0.
CALLS: dict[str, tuple[str, int, float]] = {
    "add": ("add({D}, {A}, {B})", 2, 0), "sub": ("sub({D}, {A}, {B})", 2, 0), "mul": ("mul({D}, {A}, {B})", 2, 0),
    "fdiv": ("fdiv({D}, {A}, {B})", 2, 0), "maximum": ("maximum({D}, {A}, {B})", 2, 0),
    "minimum": ("minimum({D}, {A}, {B})", 2, 0), "fma": ("fma({D}, {A}, {B}, {C})", 3, 0),
    "fma with scalars": ("fma({D}, {A}, 2.0, 1.0)", 1, 0), "add a scalar": ("add({D}, {A}, 2.0)", 1, 0),
    "scalar minus": ("sub({D}, 3.0, {A})", 1, 0), "chain": ("binary_chain({D}, {A}, {B}, {C}, 'mul', 'add')", 3, 0),
    "reversed chain": ("binary_chain({D}, {A}, {B}, 2.0, 'add', 'sub', reverse1=True)", 2, 0),
    "exp": ("exp({D}, {A})", 1, 1e-6), "exp2": ("exp2({D}, {A})", 1, 3e-7), "log2": ("log2({D}, {A})", 1, 5e-7),
    "sqrt": ("sqrt({D}, {A})", 1, 0), "sqrt of affine": ("sqrt({D}, {A}, 1.0, 2.0)", 1, 1.2e-7),
    "silu": ("silu({D}, {A})", 1, 1e-6), "reciprocal": ("reciprocal({D}, {A})", 1, 0),
    "fill": ("fill({D}, 3.0)", 0, 0), "memset": ("memset({D}, 3)", 0, 0), "zero": ("zero({D})", 0, 0),
}  # fmt: skip
#: operations that only floats have
FLOAT_ONLY = ("fdiv", "exp", "exp2", "log2", "sqrt", "sqrt of affine", "silu", "reciprocal")


def arrays(operands, kind="positive"):
    return [data(dtype, (ROWS, n), seed, kind) for seed, (dtype, _, n) in enumerate(operands.values())]


def check(func, operands, given, bound=0.0):
    """Run and compare every operand's final contents with the interpreter's."""
    got, wanted = run(func, *given), interpret(func, *given)
    for name in operands:
        a, b = np.asarray(got[name]).astype(np.float64), np.asarray(wanted[name]).astype(np.float64)
        np.testing.assert_allclose(a, b, rtol=bound, atol=bound, err_msg=name)


def cell(name, dtype, scope, place):
    call, inputs, _ = CALLS[name]
    operands = {"D": (dtype, place, COLUMNS), **dict.fromkeys("ABC"[:inputs], (dtype, place, COLUMNS))}
    return value_kernel(call, operands, scope), operands


#: What one narrow rounding more or less can make of a result computed in float32 and rounded (relative).
NARROW = {"float16": 2**-10, "bfloat16": 2**-7, "float8_e4m3fn": 2**-3}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CALLS)
def test_every_operation_and_dtype(name, dtype):
    """Each in one scope and placement, which differ from operation to operation; the tables below have all of those."""
    scope, place = CELLS[(list(CALLS).index(name) * 5 + DTYPES.index(dtype) * 7) % len(CELLS)]
    func, operands = cell(name, dtype, scope, place)
    if name in FLOAT_ONLY and dtype.startswith(("int", "uint")):
        with pytest.raises(NoCandidate) as info:
            compile_function(func)
        refused = {r.condition for reasons in info.value.rejected.values() for r in reasons}
        assert EXISTS in refused and refused <= {EXISTS, "the call's scope"}
        return
    approximate = CALLS[name][2]
    bound = max(approximate, NARROW.get(dtype, 0.0)) if approximate or dtype.startswith("float8") else 0.0
    if name in ("chain", "reversed chain", "sqrt of affine", "fdiv") and dtype in NARROW:
        bound = 2 * NARROW[dtype]
    check(func, operands, arrays(operands), bound)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", [n for n, (_, inputs, _) in CALLS.items() if inputs])
def test_random_data(name, dtype):
    func, operands = cell(name, dtype, "thread", "registers")
    steps = 2 if "chain" in name or "affine" in name else 1
    bound = max(CALLS[name][2], steps * NARROW[dtype] if dtype in NARROW else 0.0)
    check(func, operands, arrays(operands, "random"), bound)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_every_scope_and_placement(dtype, place, scope):
    func, operands = cell("fma", dtype, scope, place)
    check(func, operands, arrays(operands))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("dst", PLACES)
@pytest.mark.parametrize("a", PLACES)
def test_mixed_placements_and_dtypes(a, dst, scope):
    """float32 = float32 + float16, the three operands in different places."""
    b = PLACES[(PLACES.index(a) + PLACES.index(dst) + 1) % 3]
    operands = {"D": ("float32", dst, COLUMNS), "A": ("float32", a, COLUMNS), "B": ("float16", b, COLUMNS)}
    func = value_kernel("add({D}, {A}, {B})", operands, scope)
    given = arrays(operands)
    check(func, operands, given)
    np.testing.assert_array_equal(run(func, *given)["D"], given[1] + given[2].astype(np.float32))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("b", PLACES)
@pytest.mark.parametrize("dst", ["registers", "global"])
def test_a_column_is_spread_over_the_rows(dst, b, scope):
    operands = {"D": ("float32", dst, COLUMNS), "A": ("float32", dst, COLUMNS), "B": ("float32", b, 1)}
    check(value_kernel("mul({D}, {A}, {B})", operands, scope), operands, arrays(operands))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("place", PLACES)
def test_select_by_coordinates(place, scope):
    one = scope == "thread" and place == "registers"
    predicate = "lambda i: i % 3 == 0" if one else "lambda i, j: (i + j) % 3 == 0"
    operands = dict.fromkeys("DAB", ("float32", place, COLUMNS))
    check(value_kernel(f"select({{D}}, {{A}}, {{B}}, {predicate})", operands, scope), operands, arrays(operands))


def test_the_predicate_counts_from_the_start_of_the_region():
    func = kernel(
        "t = Tx.thread_id([128])\nTx.cta.select(B[8:16, 4:36], A[0:8, 0:32], Tx.float32(0), lambda i, j: i * 4 < j)",
        'A: Tx.Buffer((16, 64), "float32"), B: Tx.Buffer((16, 64), "float32")',
    )
    a = np.arange(1024, dtype=np.float32).reshape(16, 64) + 1
    got = compile_function(func).simulate(a, np.zeros_like(a))
    i, j = np.indices((8, 32))
    assert not got.faults
    np.testing.assert_array_equal(got.arrays["B"][8:16, 4:36], np.where(i * 4 < j, a[:8, :32], 0))


@pytest.mark.parametrize("call", ["zero(B[t, :])", "fill(B[t, :], 0.0)", "fill(B[t, :], -1.0)", "memset(B[t, :], 0)"])
def test_scale_factors_are_filled_with_what_a_conversion_makes_of_it(call):
    """The power of two at or above the magnitude, the least one for zero."""
    func = kernel(f"t = Tx.thread_id([32])\nTx.{call}", 'B: Tx.Buffer((32, 16), "float8_e8m0fnu")')
    made = compile_function(func).simulate(np.zeros((32, 16), dt.numpy_dtype("float8_e8m0fnu")))
    assert (made.arrays["B"].astype(np.float32) == (1.0 if "-1" in call else 2.0**-127)).all()


CAST_TYPES = (
    "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int32", "uint32", "int16", "uint16", "int8", "uint8",
)  # fmt: skip


@pytest.mark.parametrize("target", CAST_TYPES)
@pytest.mark.parametrize("source", CAST_TYPES)
def test_every_conversion(source, target):
    if source == target:
        return
    scope, place = CELLS[(CAST_TYPES.index(source) * 3 + CAST_TYPES.index(target)) % len(CELLS)]
    operands = {"D": (target, place, COLUMNS), "A": (source, place, COLUMNS)}
    func = value_kernel("cast({D}, {A})", operands, scope)
    check(func, operands, arrays(operands, "whole" if not target.startswith("uint") else "positive"))
    if not source.startswith(("int", "uint")):
        check(func, operands, arrays(operands, "random"))


WIDE_CASTS = [
    ("float64", t) for t in ("float32", "float16", "int32", "uint8", "int64")
] + [(s, "float64") for s in ("float32", "bfloat16", "float8_e4m3fn", "uint32", "int64")] + [
    ("int64", "int32"), ("int16", "int64"), ("uint64", "float32"), ("float16", "int64"), ("int64", "uint8"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target"), WIDE_CASTS)
def test_conversions_of_64_bits(source, target):
    scope, place = CELLS[WIDE_CASTS.index((source, target)) % len(CELLS)]
    operands = {"D": (target, place, COLUMNS), "A": (source, place, COLUMNS)}
    func = value_kernel("cast({D}, {A})", operands, scope)
    check(func, operands, arrays(operands))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("dtype", ["float64", "int64", "int8", "uint8"])
def test_arithmetic_of_64_and_8_bits(dtype, scope):
    place = PLACES[list(SCOPES).index(scope) % 3]
    operands = dict.fromkeys("DABC", (dtype, place, COLUMNS))
    for call in ("fma({D}, {A}, {B}, {C})", "binary_chain({D}, {A}, {B}, {C}, 'sub', 'mul')", "maximum({D}, {A}, 3)"):
        check(value_kernel(call, operands, scope), operands, arrays(operands))


IDS = "tid = Tx.thread_id([128])\nw = Tx.warp_id([4])\n"
TWO = 'A: Tx.Buffer((128, 16), "float32"), D: Tx.Buffer((128, 16), "float32")'
STATEMENTS = {
    "scalar from memory": "Tx.cta.mul(D[:, :], A[:, :], A[0, 3])",
    "scalar per thread": "Tx.mul(D[tid, :], A[tid, :], A[tid, 3] + 1.0)",
    "integer scalar": "Tx.fill(D[tid, :], tid)",
    "in place": "Tx.cta.add(D[:, :], D[:, :], 1.0)",
    "tail": "Tx.cta.add(D[0:5, 3:10], A[0:5, 3:10], 1.0)",
    "one element": "if tid == 5:\n    Tx.exp2(D[0, 0:1], A[0, 0:1])",
    "loop": "for i in Tx.serial(4):\n    Tx.cta.add(D[i * 32 : i * 32 + 32, :], A[i * 32 : i * 32 + 32, :], 1.0)",
    "columns": 'V = Tx.decl_buffer((128, 16), "float32", data=A.data, layout=TileLayout(S[(128, 16):(1, 128)]))\n'
               "Tx.cta.add(D[:, :], V[:, :], 1.0)",
    "swizzled": 's = Tx.alloc_shared([128, 32], "float32", layout=mma_shared_layout("float32", 3, (128, 32)))\n'
                "Tx.cta.fill(s[:, :], 2.0)\nTx.cuda.cta_sync()\nTx.cta.add(s[:, 0:16], s[:, 0:16], 1.0)\nTx.cuda.cta_sync()\n"
                "Tx.copy(D[tid, :], s[tid, 0:16])",
    "permuted": 's = Tx.alloc_shared([32, 16], "float32")\n'
                'q = Tx.alloc_shared([32, 16], "float32", layout=TileLayout(S[(32, 16):(1, 32)]))\n'
                "if w == 0:\n    Tx.warp.copy(s[:, :], A[0:32, :])\n    Tx.cuda.warp_sync()\n"
                "    Tx.warp.permute_layout(q[:, :], s[:, :])\n    Tx.cuda.warp_sync()\n    Tx.warp.copy(D[0:32, :], q[:, :])",
    "composed": "with Tx.compose_op():\n    Tx.cta.add(D[:, :], A[:, :], 1.0)\n    Tx.cta.mul(D[:, :], D[:, :], 2.0)",
    "registers of one storage": 'r = Tx.alloc_local((16,), "float32")\nh = r.view("float16")\nTx.copy(r[:], A[tid, :])\n'
                                "Tx.cast(h[0:16], r[:])\nTx.cast(r[8:16], h[0:8])\nTx.copy(D[tid, 0:8], r[8:16])",
}  # fmt: skip


@pytest.mark.parametrize("what", STATEMENTS)
def test_scalars_tails_loops_layouts(what):
    func = kernel(IDS + STATEMENTS[what], TWO)
    given = [data("float32", (128, 16), seed, "positive") for seed in (0, 1)]
    check(func, ("A", "D"), given)


def chosen(func, op):
    """Descriptions of the candidates for the call of ``op``, cheapest first."""
    return [k.describe() for c in compile_function(func).calls for k in c.choice.candidates if c.choice.context.op == op]


def test_the_cheapest_form_is_not_always_the_packed_or_widest():
    # Pairs save instructions ...
    assert chosen(cell("add", "float32", "thread", "registers")[0], "add")[0] == "MapPacked(lanes=2)"
    # ... but in shared memory a row per thread meets bank conflicts whatever the width, and joined halves buy nothing for exp.
    assert chosen(cell("exp", "float16", "thread", "registers")[0], "exp")[0].startswith("Map")
    wide = chosen(cell("add", "float32", "cta", "global")[0], "add")
    assert wide.index("MapPacked(lanes=8)") < wide.index("MapPacked(lanes=2)")


def test_a_register_of_three_elements():
    func = kernel(
        IDS + 'r = Tx.alloc_local((3,), "float32")\nTx.copy(r[:], A[tid, 0:3])\nTx.add(r[:], r[:], 1.0)\n'
        "Tx.copy(D[tid, 0:3], r[:])",
        TWO,
    )
    check(func, ("A", "D"), [data("float32", (128, 16), seed, "positive") for seed in (0, 1)])
    assert chosen(func, "add") == ["Map(lanes=1)"]
