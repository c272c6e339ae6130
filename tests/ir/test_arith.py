"""Operators on expressions: promotion, folding, refusals; and, where TVM is installed, the same trees as TVM's."""

from __future__ import annotations

import itertools
import operator

import pytest

from tirx_eq import ir
from tirx_eq.errors import TirxError
from tirx_eq.ir import arith

I, J = ir.Var("i"), ir.Var("j")
U, X, H, C = ir.Var("u", "uint32"), ir.Var("x", "float32"), ir.Var("h", "float16"), ir.Var("c", "bool")


def imm(value, dtype="int32"):
    return ir.IntImm(dtype, value)


#: (expression, what it must be), by hand from the reference's rules.
FOLDED = [
    (lambda: ir.const(3) + 4, imm(7)),
    (lambda: I + 0, I),
    (lambda: 0 + I, I),
    (lambda: I - 0, I),
    (lambda: 0 - I, ir.Sub(imm(0), I)),
    (lambda: I * 1, I),
    (lambda: I * 0, imm(0)),
    (lambda: I // 1, I),
    (lambda: I % 1, imm(0)),
    (lambda: 0 // I, imm(0)),
    (lambda: I - I, ir.Sub(I, I)),
    (lambda: (I + 1) + 1, ir.Add(ir.Add(I, imm(1)), imm(1))),
    (lambda: ir.const(-7) // 2, imm(-4)),
    (lambda: ir.const(-7) % 2, imm(1)),
    (lambda: arith.binary(ir.Div, -7, 2), imm(-3)),
    (lambda: arith.binary(ir.Mod, -7, 2), imm(-1)),
    (lambda: ir.const(2**31 - 1) + 1, imm(-(2**31))),
    (lambda: ir.const(3) < 4, imm(1, "bool")),
    (lambda: arith.binary(ir.Max, I, I), I),
    (lambda: arith.binary(ir.Min, 3, 5), imm(3)),
    (lambda: arith.logical_and(True, C), C),
    (lambda: arith.logical_and(C, False), imm(0, "bool")),
    (lambda: arith.logical_or(C, False), C),
    (lambda: arith.logical_not(True), imm(0, "bool")),
    (lambda: ir.const(12) & 10, imm(8)),
    (lambda: I << 0, I),
    (lambda: ir.const(1) << 31, imm(-(2**31))),
    (lambda: U << 0, ir.call("tirx.shift_left", "uint32", U, imm(0, "uint32"))),
    (lambda: -I, ir.Mul(I, imm(-1))),
    (lambda: I.astype("int32"), I),
    (lambda: ir.const(3).astype("float16"), ir.FloatImm("float16", 3.0)),
    (lambda: ir.const(2.75).astype("int32"), imm(2)),
    (lambda: ir.FloatImm("float32", 0.1) * ir.FloatImm("float32", 0.1), ir.FloatImm("float32", 0.010000000707805157)),
    (lambda: ir.FloatImm("float16", 1.0) + ir.FloatImm("float16", 1.0),
     ir.Add(ir.FloatImm("float16", 1.0), ir.FloatImm("float16", 1.0))),
]  # fmt: skip


@pytest.mark.parametrize(("build", "want"), FOLDED, ids=lambda v: str(v) if isinstance(v, ir.Expr) else "")
def test_folding(build, want):
    assert ir.first_difference(build(), want) is None


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ("int8", "int32", "int32"), ("int32", "uint32", "uint32"), ("int32", "uint8", "int32"), ("bool", "int8", "int8"),
        ("int64", "float16", "float16"), ("float16", "float32", "float32"), ("bfloat16", "float16", "float16"),
        ("float8_e4m3fn", "bfloat16", "bfloat16"), ("int32", "float32x4", "float32x4"), ("int64", "int32x4", "int64x4"),
    ],
)  # fmt: skip
def test_promotion(a, b, common):
    for x, y in ((a, b), (b, a)):
        left, right = arith.match_types(ir.Var("a", x), ir.Var("b", y))
        assert left.dtype == right.dtype == common


def test_a_scalar_is_converted_before_it_is_broadcast():
    v = ir.Var("v", "float32x4")
    assert (I + v).a == ir.Broadcast(ir.Cast("float32", I), 4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: I // 0, "FloorDiv by zero"),
        (lambda: I % (ir.const(1) - 1), "FloorMod by zero"),
        (lambda: X / 0.0, "Div by zero"),
        (lambda: I / J, "ambiguous"),
        (lambda: X // 2, "FloorDiv needs integers, got float32"),
        (lambda: X & 1, "bitwise_and needs integers"),
        (lambda: C << C, "shift_left needs integers"),
        (lambda: I << 32, "the amount must be from 0 to 31"),
        (lambda: I >> -1, "the amount must be from 0 to 31"),
        (lambda: U + -1, "-1 is not a value of uint32"),
        (lambda: imm(0, "uint32") - imm(1, "uint32"), "0 - 1 is not a value of uint32"),
        (lambda: H + (1 << 20), "is not a value of float16"),
        (lambda: ir.Var("a", "float8_e4m3fn") + ir.Var("b", "float8_e5m2"), "no common type"),
        (lambda: ir.Var("a", "int32x4") + ir.Var("b", "int32x2"), "4 and 2 lanes"),
        (lambda: arith.logical_and(I, C), "And needs bool operands, got int32"),
        (lambda: I + object(), "can't be used as an expression"),
        (lambda: ir.Var("p", ir.PointerType(ir.PrimType("int32"))) + 1, "no arithmetic between"),
    ],
)
def test_refusals(build, message):
    with pytest.raises(TirxError, match=message):
        build()


def test_bit_literals_take_the_dtype_of_the_other_operand():
    assert (I & 0xFFFFFFF0).args[1] == imm(-16)
    assert (U & 0xFFFFFFF0).args[1] == imm(0xFFFFFFF0, "uint32")
    assert (ir.Var("l", "int64") & (1 << 40)).args[1] == imm(1 << 40, "int64")


def test_unsigned_division_with_a_slash_is_truncating():
    assert (U / imm(3, "uint32")) == ir.Div(U, imm(3, "uint32"))


# -- against TVM ------------------------------------------------------------------------------------------------------

DTYPES = ("int8", "int32", "int64", "uint8", "uint32", "bool", "float16", "bfloat16", "float32", "int32x4", "float32x4")
OPERATORS = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "truediv": operator.truediv,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor, "shl": operator.lshift, "shr": operator.rshift,
}  # fmt: skip
FUNCTIONS = {
    "truncdiv": lambda a, b: arith.binary(ir.Div, a, b), "truncmod": lambda a, b: arith.binary(ir.Mod, a, b),
    "min": lambda a, b: arith.binary(ir.Min, a, b), "max": lambda a, b: arith.binary(ir.Max, a, b),
    "all": arith.logical_and, "any": arith.logical_or,
}  # fmt: skip
PYTHON = (0, 1, -1, 3, 8, 1 << 31, True, 0.0, 1.0, 2.5)


def _expected_to_differ(name, a, b, theirs):
    """Why the two may differ, or an empty string: what TVM lets through is undefined, or it drops bits of an int."""
    integers = [k[-1] if k[0] == "python" else k[1] for k in (a, b)]
    both_int = all(type(k) is int or str(k).startswith(("int", "uint")) for k in integers)
    python_int = [k[1] for k in (a, b) if k[0] == "python" and type(k[1]) is int]
    with_bool = any("bool" in str(k) or k is True for k in integers)
    division, bits, shift = "div" in name or "mod" in name, name in ("and", "or", "xor"), name in ("shl", "shr")
    if division and b[0] != "variable" and not b[-1]:
        return "division by zero is refused here"
    if name in ("truncdiv", "truncmod") and not both_int:
        return "TVM's truncdiv is of integers only, its truncmod of anything; ours divides floats, and takes no remainder"
    if (bits or shift) and any(abs(v) >= 1 << 31 for v in python_int):
        return "TVM keeps the low 32 bits of a Python integer"
    if bits and python_int and with_bool:
        return "TVM converts the Python integer to bool"
    if with_bool and (division or shift or name == "add") and isinstance(theirs, Exception):
        return "TVM doesn't divide or shift by a bool, nor add two true constants"
    if shift and any(k[0] != "variable" and not 0 <= k[-1] < 8 for k in (a, b)):
        return "TVM checks the shift amount of int32 and int64 only"
    return ""


def test_trees_are_those_of_tvm():
    tirx = pytest.importorskip("tvm.tirx", reason="apache-tvm is not installed")
    import tvm.ir

    from tirx_eq.interop.tvm import from_tvm

    int_imm = getattr(tirx, "IntImm", None) or tvm.ir.expr.IntImm
    float_imm = getattr(tirx, "FloatImm", None) or tvm.ir.expr.FloatImm
    operands = [(("variable", d), tirx.Var("v", d), ir.Var("v", d)) for d in DTYPES]
    for d, values in (("int32", (0, 1, -8, 7)), ("uint32", (0, 2)), ("int64", (1, 9)), ("int8", (1, 3)), ("bool", (1,))):
        operands += [(("constant", d, v), int_imm(d, v), ir.IntImm(d, v)) for v in values]
    for d in ("float32", "float16"):
        operands += [(("constant", d, v), float_imm(d, v), ir.FloatImm(d, v)) for v in (0.0, 1.0, 0.1)]
    operands += [(("python", v), v, v) for v in PYTHON]
    operators = [(n, f, f) for n, f in OPERATORS.items()] + [(n, getattr(tirx, n), f) for n, f in FUNCTIONS.items()]

    same, wrong, excused = 0, [], {}
    for (name, theirs, ours), (ka, ta, oa), (kb, tb, ob) in itertools.product(operators, operands, operands):
        if ka[0] == kb[0] == "python":
            continue
        try:
            want = theirs(ta, tb)
        except Exception as e:
            want = e
        try:
            got = ours(oa, ob)
        except TirxError as e:
            got = e
        if isinstance(want, Exception) or isinstance(got, Exception):
            agree = isinstance(want, Exception) and isinstance(got, Exception)
        else:
            want = want if hasattr(want, "ty") else tirx.const(want)
            agree = ir.first_difference(from_tvm(want), got, map_free=True) is None
        if agree:
            same += 1
            continue
        reason = _expected_to_differ(name, ka, kb, want)
        if reason:
            excused[reason] = excused.get(reason, 0) + 1
        else:
            wrong.append(f"{name} {ka} {kb}: TVM {want!s:.100} ours {got!s:.100}")
    assert not wrong, "\n".join(wrong[:20])
    assert same > 15_000 and sum(excused.values()) < 0.12 * same, (same, excused)
