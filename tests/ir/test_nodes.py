"""Each node's invariants: what its constructor refuses, its dtype, its identity or structural comparison."""

from __future__ import annotations

import math

import pytest
from ir_samples import a_buffer, copy_kernel, expr_samples, other_samples, stmt_samples, variables

from tirx_eq import ir
from tirx_eq.errors import IRError
from tirx_eq.ir import functor
from tirx_eq.ir.node import fields, replace

V = variables()
I, J, X, C = V["i"], V["j"], V["x"], V["c"]


def test_samples_cover_every_node():
    assert set(expr_samples()) == set(functor.EXPR_NODES)
    assert set(stmt_samples()) == set(functor.STMT_NODES)
    assert set(other_samples()) == set(functor.OTHER_NODES)


def test_variables_and_buffers_compare_by_identity():
    assert ir.Var("i") != ir.Var("i")
    assert a_buffer() != a_buffer()
    assert ir.Add(I, J) == ir.Add(I, J) and hash(ir.Add(I, J)) == hash(ir.Add(I, J))
    assert ir.Add(I, J) != ir.Add(J, I)
    assert ir.Add(I, J) != ir.Sub(I, J)


def test_nodes_are_frozen():
    for node in (*expr_samples().values(), *stmt_samples().values()):
        name = next(iter(fields(node)), (None,))[0]
        if name is not None:
            with pytest.raises(AttributeError):
                setattr(node, name, None)


def test_replace_returns_the_same_object_when_nothing_changes():
    node = ir.Add(I, J)
    assert replace(node, a=I) is node
    assert replace(node, a=J) == ir.Add(J, J)


BINARY = [ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max]
COMPARE = [ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE]


@pytest.mark.parametrize("cls", BINARY + COMPARE)
def test_binary_nodes_want_one_dtype(cls):
    with pytest.raises(IRError, match="operands of one dtype, got int32 and float32"):
        cls(I, X)


@pytest.mark.parametrize("cls", BINARY)
def test_arithmetic_has_the_dtype_of_its_operands(cls):
    assert cls(I, J).dtype == "int32"
    assert cls(ir.Broadcast(I, 4), ir.Broadcast(J, 4)).dtype == "int32x4"


@pytest.mark.parametrize("cls", COMPARE)
def test_comparisons_are_bool_with_the_lanes_of_their_operands(cls):
    assert cls(I, J).dtype == "bool"
    assert cls(ir.Broadcast(I, 4), ir.Broadcast(J, 4)).dtype == "boolx4"


@pytest.mark.parametrize("cls", [ir.And, ir.Or])
def test_logic_wants_bool(cls):
    assert cls(C, C).dtype == "bool"
    with pytest.raises(IRError, match="needs bool operands"):
        cls(I, J)


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [("int8", -128, 127), ("uint8", 0, 255), ("int32", -(2**31), 2**31 - 1), ("uint64", 0, 2**64 - 1), ("bool", 0, 1)],
)
def test_integer_constants_fit_their_dtype(dtype, low, high):
    assert (int(ir.IntImm(dtype, low)), int(ir.IntImm(dtype, high))) == (low, high)
    for bad in (low - 1, high + 1):
        with pytest.raises(IRError, match=f"{bad} is not a value of {dtype}"):
            ir.IntImm(dtype, bad)


def test_constants_want_a_dtype_of_their_kind():
    with pytest.raises(IRError):
        ir.IntImm("float32", 1)
    with pytest.raises(IRError, match="can't have dtype int32"):
        ir.FloatImm("int32", 1.0)
    with pytest.raises(IRError, match="is not a data type"):
        ir.IntImm("integer", 1)


def test_float_constants_fit_their_format():
    assert ir.FloatImm("float16", 65504.0).value == 65504.0
    assert math.isinf(ir.FloatImm("float16", math.inf).value)
    for dtype, bad in [("float16", 65520.0), ("float8_e4m3fn", 449.0), ("float8_e5m2", -6e4), ("float4_e2m1fn", 6.5)]:
        with pytest.raises(IRError, match=f"is not a value of {dtype}"):
            ir.FloatImm(dtype, bad)


def test_the_truth_of_an_expression_is_not_known():
    with pytest.raises(IRError, match="known only on the device"):
        bool(I < J)
    assert bool(ir.IntImm("bool", 1)) is True


def test_select_cast_ramp_broadcast_shuffle_let():
    with pytest.raises(IRError, match="both values of one dtype"):
        ir.Select(C, I, X)
    with pytest.raises(IRError, match="number of lanes"):
        ir.Cast("float32x4", I)
    assert ir.Cast("float32", I).dtype == "float32"
    assert ir.Ramp(I, ir.const(1), 4).dtype == "int32x4"
    assert ir.Broadcast(X, 8).dtype == "float32x8"
    assert ir.Shuffle((ir.Broadcast(I, 2), ir.Broadcast(J, 2)), (ir.const(0),)).dtype == "int32"
    assert ir.Let(V["n"], I, X).dtype == "float32"


def test_accesses_have_as_many_indices_as_dimensions():
    buffer = a_buffer()
    with pytest.raises(IRError, match="'A' has 2 dimensions, but is read with 1 indices"):
        ir.BufferLoad(buffer, (I,))
    with pytest.raises(IRError, match="'A' has 2 dimensions, but is stored to with 3 indices"):
        ir.BufferStore(buffer, X, (I, I, I))
    with pytest.raises(IRError, match="a region of 'A' needs 2 ranges, got 1"):
        ir.BufferRegion(buffer, (ir.Range(I, J),))
    assert ir.BufferLoad(buffer, (I, ir.Ramp(J, ir.const(1), 4))).dtype == "float32x4"


def test_a_store_wants_the_dtype_of_its_buffer():
    with pytest.raises(IRError, match="a value of int32 can't be stored in 'A' of float32"):
        ir.BufferStore(a_buffer(), I, (I, J))


def test_loops_have_a_known_kind():
    with pytest.raises(IRError, match="'simd' is not a kind of loop"):
        ir.For(I, ir.const(0), ir.const(4), "simd", ir.Evaluate(I))


def test_scopes():
    assert ir.ExecScope("wg").kind == "warpgroup"
    for bad in ("kernel", "world", "lane"):
        with pytest.raises(IRError, match=f"'{bad}' is not an execution scope"):
            ir.ExecScope(bad)


def test_scope_id_definitions():
    one = (ir.const(4),)
    assert ir.ScopeIdDef((I,), one, "cta", "warp").scope == "cta->warp"
    with pytest.raises(IRError, match="no ids of cta in thread"):
        ir.ScopeIdDef((I,), one, "thread", "cta")
    with pytest.raises(IRError, match="2 scope ids but 1 extents"):
        ir.ScopeIdDef((I, J), one, "kernel", "cta")
    with pytest.raises(IRError, match="exactly one variable"):
        ir.ScopeIdDef((I, J), None, "kernel", "cta")


def test_buffers_want_a_pointer_and_fitting_strides():
    with pytest.raises(IRError, match="data must be a pointer variable"):
        ir.Buffer(I, "float32", (ir.const(4),))
    with pytest.raises(IRError, match="2 dimensions but 1 strides"):
        ir.make_buffer("A", (8, 4), "float32", strides=(1,))
    assert a_buffer("S", "shared.dyn").scope == "shared.dyn"


def test_buffer_map_names_handle_parameters():
    buffer = a_buffer()
    handle = ir.Var("A_handle", buffer.data.ty)
    with pytest.raises(IRError, match="not a parameter"):
        ir.PrimFunc((), {handle: buffer}, ir.SeqStmt())
    with pytest.raises(IRError, match="so it must be a handle"):
        ir.PrimFunc((I,), {I: buffer}, ir.SeqStmt())


def test_function_attributes_and_module():
    func = copy_kernel()
    assert func.name == "copy" and func.with_attr("k", 1).attrs["k"] == 1
    assert "k" not in func.with_attr("k", 1).without_attr("k").attrs
    module = ir.IRModule.from_func(func)
    assert module["copy"] is func
    with pytest.raises(IRError, match="no function 'other'"):
        module["other"]


def test_seq_flattens_and_a_single_statement_stands_for_itself():
    a, b, c = (ir.Evaluate(ir.const(k)) for k in range(3))
    assert ir.seq([a]) is a
    assert ir.seq([ir.SeqStmt((a, b)), c]) == ir.SeqStmt((a, b, c))
    assert ir.seq([]) == ir.SeqStmt(())
