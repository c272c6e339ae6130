"""Structural equality and hashing: renaming keeps them, any other change doesn't."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from ir_samples import a_buffer, copy_kernel, expr_samples, functions, other_samples, renamed, stmt_samples

from tirx_eq import ir
from tirx_eq.errors import TirxError
from tirx_eq.ir.node import fields, is_node
from tirx_eq.layout import S, TileLayout

SAMPLES = {**expr_samples(), **stmt_samples(), **other_samples()}
I, J = ir.Var("i"), ir.Var("j")


@settings(max_examples=40, deadline=None)
@given(functions())
def test_renaming_all_variables_and_buffers_keeps_equality_and_hash(func):
    other = renamed(func)
    assert ir.first_difference(func, other) is None
    assert ir.first_difference(other, func) is None
    assert ir.structural_hash(func) == ir.structural_hash(other)
    modules = ir.IRModule({"f": func}), ir.IRModule({"f": other})
    assert ir.structural_equal(*modules) and ir.structural_hash(modules[0]) == ir.structural_hash(modules[1])


@settings(max_examples=60, deadline=None)
@given(functions(), functions())
def test_equality_and_hash_agree(a, b):
    if ir.structural_equal(a, b):
        assert ir.structural_hash(a) == ir.structural_hash(b)
    assert ir.structural_equal(a, b) == ir.structural_equal(b, a)


CONSTANTS = {"int32": [ir.const(78)], "bool": [ir.IntImm("bool", 0)], "float32": [ir.FloatImm("float32", 7.5)]}


def other_values(value):
    """Values that differ from ``value`` but could stand in the same field."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        return [value + 1.0, -value]
    if isinstance(value, str):
        known = ["int64", "float16", "bool", "parallel", "vectorized", "cluster", "cta", "warp", "thread"]
        return [value + "x", *(k for k in known if k != value)]
    if value is None:
        return [ir.IntImm("bool", 1), ir.const(7), "text", ir.Evaluate(ir.const(7))]
    if isinstance(value, dict):
        return [{**value, "another": ir.const(9)}, *({**value, k: new} for k, v in value.items() for new in other_values(v))]
    if isinstance(value, tuple):
        swapped = [(*value[:k], new, *value[k + 1 :]) for k, x in enumerate(value) for new in other_values(x)]
        return [*swapped, value[:-1] if value else (ir.const(9),), (*value, *value[-1:])]
    if isinstance(value, ir.Buffer):
        return [dataclasses.replace(value, data_alignment=value.data_alignment * 2)]
    if isinstance(value, ir.Var):
        types = [ir.PrimType(t) for t in ("int64", "bool", "float16") if t != value.dtype]
        types.append(ir.PointerType(ir.PrimType("int8"), "shared"))
        return [*(dataclasses.replace(value, ty=t) for t in types), *CONSTANTS.get(value.dtype, ())]
    if isinstance(value, ir.Op):
        return [ir.Op.get("tirx.bitwise_or"), ir.Op.get("tirx.tile.permute_layout")]
    if isinstance(value, ir.Expr):
        return [*CONSTANTS.get(value.dtype, ()), ir.const(77), ir.Not(value)]
    if isinstance(value, ir.Stmt):
        return [ir.SeqStmt((value, value)), ir.Break()]
    if is_node(value):
        return list(changed(value))
    return []


def changed(node):
    """``node`` with one field changed, in every way that its constructor admits; names of variables don't count."""
    for name, value in fields(node):
        if name == "name" and isinstance(node, (ir.Var, ir.Buffer)):
            continue
        for new in other_values(value):
            if new is value:
                continue
            try:
                yield dataclasses.replace(node, **{name: new})
            except (TirxError, AttributeError, TypeError):
                continue


@pytest.mark.parametrize("cls", SAMPLES, ids=lambda c: c.__name__)
def test_changing_any_one_field_makes_a_difference(cls):
    node = SAMPLES[cls]
    names = [n for n, _ in fields(node) if not (n == "name" and cls in (ir.Var, ir.Buffer))]
    found = set()
    for other in changed(node):
        for a, b in ((node, other), (other, node)):
            assert ir.first_difference(a, b, map_free=True) is not None, other
        assert ir.structural_hash(node) != ir.structural_hash(other), other
        found |= {n for n in names if getattr(other, n) is not getattr(node, n)}
    assert found == set(names)


@settings(max_examples=30, deadline=None)
@given(functions(), st.data())
def test_changing_one_node_of_a_function_makes_a_difference(func, data):
    nodes = []
    ir.post_order_visit(func.body, lambda x: nodes.append(x) if isinstance(x, (ir.IntImm, ir.Stmt)) else None)
    target = data.draw(st.sampled_from(nodes))
    new = ir.const(int(target) + 1) if isinstance(target, ir.IntImm) else ir.SeqStmt((ir.Break(), ir.Continue()))

    class Swap(ir.StmtMutator):
        def visit(self, value):
            return new if value is target else super().visit(value)

    other = func.with_body(Swap().visit(func.body))
    assume(other is not func)  # the constant was the extent of a buffer, which a mutator of statements leaves alone
    assert not ir.structural_equal(func, other)
    assert ir.structural_hash(func) != ir.structural_hash(other)


def test_free_variables_must_be_identical_unless_mapped():
    assert ir.structural_equal(I + 1, I + 1)
    assert not ir.structural_equal(I + 1, J + 1)
    assert "free variable 'i'" in (ir.first_difference(I + 1, J + 1) or "")
    assert ir.structural_equal(I + 1, J + 1, map_free=True)
    assert not ir.structural_equal(I + I, I + J, map_free=True)
    assert not ir.structural_equal(I + J, I + I, map_free=True)


def test_bound_variables_correspond():
    def loop(var, bound):
        return ir.For(var, ir.const(0), ir.const(4), "serial", ir.Evaluate(bound))

    a, b = ir.Var("a"), ir.Var("b")
    assert ir.structural_equal(loop(a, a + 1), loop(b, b + 1))
    assert not ir.structural_equal(loop(a, a + 1), loop(b, I + 1), map_free=True)
    assert not ir.structural_equal(loop(a, I + 1), loop(b, b + 1), map_free=True)
    assert not ir.structural_equal(loop(a, a), loop(ir.Var("b", "int64"), ir.Cast("int32", b)), map_free=True)


def test_correspondence_is_one_to_one():
    def binds(x, y, use):
        return ir.SeqStmt((ir.Bind(x, ir.const(1)), ir.Bind(y, ir.const(1)), ir.Evaluate(use)))

    a, b, c, d = (ir.Var(n) for n in "abcd")
    assert ir.structural_equal(binds(a, b, a - b), binds(c, d, c - d))
    assert not ir.structural_equal(binds(a, b, a - b), binds(c, d, d - c))
    assert not ir.structural_equal(binds(a, b, a - b), binds(c, c, ir.Sub(c, c)))
    assert not ir.structural_equal(binds(c, c, ir.Sub(c, c)), binds(a, b, a - b))


def test_sharing_of_a_pointer_is_part_of_the_structure():
    def view(shared):
        base = a_buffer("A", "shared")
        other = a_buffer("V", "shared", data=base.data) if shared else a_buffer("V", "shared")
        return ir.SeqStmt((ir.AllocBuffer(base), ir.DeclBuffer(other)))

    assert ir.structural_equal(view(True), view(True))
    assert not ir.structural_equal(view(True), view(False), map_free=True)
    assert not ir.structural_equal(view(False), view(True), map_free=True)


def test_layouts_with_variables_are_compared_structurally():
    def func(mine, theirs):
        buffer = ir.make_buffer("A", (mine, 4), "float32", layout=TileLayout(S[(theirs, 4):(4, 1)]))
        handle = ir.Var("A_handle", buffer.data.ty)
        return ir.PrimFunc((handle, mine), {handle: buffer}, ir.Evaluate(mine))

    n, m, other = ir.Var("n"), ir.Var("m"), ir.Var("n")
    assert ir.first_difference(func(n, n), func(m, m)) is None
    assert ir.structural_hash(func(n, n)) == ir.structural_hash(func(m, m))
    assert not ir.structural_equal(func(n, n), func(m, other))
    a, b = (a_buffer() for _ in range(2))
    b = dataclasses.replace(b, layout=TileLayout(S[(8, 4):(1, 8)]))
    assert "layout" in (ir.first_difference(ir.AllocBuffer(a), ir.AllocBuffer(b)) or "")


def test_a_missing_layout_is_not_the_default_one():
    a = a_buffer()
    assert not ir.structural_equal(ir.AllocBuffer(a), ir.AllocBuffer(dataclasses.replace(a, layout=None)))


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [(math.nan, math.nan, True), (0.0, -0.0, False), (math.inf, math.inf, True), (1.0, 1.5, False)],
)
def test_float_constants_compare_by_value(a, b, equal):
    x, y = ir.FloatImm("float32", a), ir.FloatImm("float32", b)
    assert ir.structural_equal(x, y) is equal
    assert (ir.structural_hash(x) == ir.structural_hash(y)) is equal


def test_bool_and_int_flags_differ():
    region = a_buffer().full_region()

    def total(accum):
        return ir.TilePrimitiveCall(ir.Op.get("tirx.tile.sum"), (region, region, (0,), accum))

    assert not ir.structural_equal(total(False), total(0))


def test_names_attrs_and_return_types_of_functions():
    f = copy_kernel()
    assert ir.structural_equal(f, copy_kernel())
    assert "attrs" in (ir.first_difference(f, copy_kernel(name="g")) or "")
    assert not ir.structural_equal(f, dataclasses.replace(f, ret_type=ir.PrimType("int32")))
    assert not ir.structural_equal(f, ir.PrimFunc(f.params, {}, f.body, attrs=f.attrs))
    assert "parameters" in (ir.first_difference(f, ir.PrimFunc((*f.params, I), f.buffer_map, f.body)) or "")


def test_the_message_names_the_place():
    a = ir.SeqStmt((ir.Evaluate(I), ir.Evaluate(I + 1)))
    b = ir.SeqStmt((ir.Evaluate(I), ir.Evaluate(I + 2)))
    assert ir.first_difference(a, b) == ".seq[1].value.b.value: 1 against 2"


def test_deep_sharing_is_compared_in_linear_time():
    def dag(var):
        e = var
        for _ in range(200):
            e = ir.Add(e, e)
        return e

    assert ir.structural_equal(dag(I), dag(J), map_free=True)
    assert ir.structural_hash(dag(I)) == ir.structural_hash(dag(J))


def test_a_dag_hashes_like_the_tree_it_stands_for():
    shared = I + 1
    assert ir.structural_hash(shared * shared) == ir.structural_hash((I + 1) * (I + 1))


def test_the_hash_is_the_same_in_another_process():
    code = (
        "from tirx_eq import ir; i = ir.Var('i');"
        "print(ir.structural_hash(ir.Evaluate(ir.call('tirx.exp', 'float32', ir.Cast('float32', i + 1)))))"
    )
    here = ir.structural_hash(ir.Evaluate(ir.call("tirx.exp", "float32", ir.Cast("float32", I + 1))))
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert int(there) == here
