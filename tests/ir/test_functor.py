"""Visitors and mutators: an entry for each node, every child is reached, sharing survives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from ir_samples import a_buffer, copy_kernel, expr_samples, functions, other_samples, renamed, stmt_samples

from tirx_eq import ir
from tirx_eq.ir import functor
from tirx_eq.ir.node import fields, is_node

ALL = (*functor.EXPR_NODES, *functor.STMT_NODES, *functor.OTHER_NODES)
SAMPLES = {**expr_samples(), **stmt_samples(), **other_samples()}
VISITORS = (ir.ExprVisitor, ir.StmtVisitor)
MUTATORS = (ir.ExprMutator, ir.StmtMutator)


def children(node):
    """The nodes directly in a node's fields, in tuples and in dict values."""

    def flat(value):
        if isinstance(value, (tuple, list)):
            return [x for v in value for x in flat(v)]
        if isinstance(value, dict):
            return [x for v in value.values() for x in flat(v)]
        return [value] if is_node(value) and type(value) in SAMPLES else []

    return [x for _, v in fields(node) for x in flat(v)]


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
@pytest.mark.parametrize("base", VISITORS + MUTATORS, ids=lambda c: c.__name__)
def test_every_node_has_an_entry_that_is_called(base, cls):
    name = f"visit_{functor.snake_case(cls.__name__)}"
    assert hasattr(base, name)
    seen = []
    sub = type("Sub", (base,), {name: lambda self, value: seen.append(value) or value})
    sub().visit(SAMPLES[cls])
    assert seen == [SAMPLES[cls]]


@pytest.mark.parametrize("cls", [c for c in ALL if c is not ir.Buffer and c is not ir.PrimFunc], ids=lambda c: c.__name__)
@pytest.mark.parametrize("base", [ir.StmtVisitor, ir.StmtMutator], ids=lambda c: c.__name__)
def test_the_default_entry_goes_to_every_child(base, cls):
    if cls is ir.Var:
        pytest.skip("a variable has no children but its type")
    seen = []

    class Sub(base):
        def visit(self, value):
            if is_node(value):
                seen.append(id(value))
            return super().visit(value)

    Sub().visit(SAMPLES[cls])
    missing = [c for c in children(SAMPLES[cls]) if id(c) not in seen]
    assert not missing


def test_a_visitor_reaches_the_fields_of_a_buffer_at_its_declaration_only():
    n = ir.Var("n")
    buffer = ir.make_buffer("A", (n,), "float32", elem_offset=n)
    seen = []

    class Sub(ir.StmtVisitor):
        def visit_var(self, value):
            seen.append(value)

    Sub().visit(ir.Evaluate(ir.BufferLoad(buffer, (ir.const(0),))))
    assert n not in seen
    Sub().visit(ir.AllocBuffer(buffer))
    assert seen.count(n) == 2


def test_post_order_visit_gives_children_first_and_a_shared_node_once():
    i = ir.Var("i")
    shared = i + 1
    order = []
    ir.post_order_visit(shared * shared, order.append)
    assert [type(x) for x in order] == [ir.PrimType, ir.Var, ir.IntImm, ir.Add, ir.Mul]
    whole = []
    ir.post_order_visit(copy_kernel(), whole.append)
    assert isinstance(whole[-1], ir.PrimFunc) and sum(isinstance(x, ir.BufferStore) for x in whole) == 2


def test_deep_sharing_is_visited_in_linear_time():
    e = ir.Var("i")
    for _ in range(200):
        e = ir.Add(e, e)
    count = []
    ir.post_order_visit(e, count.append)
    assert len(count) == 202
    j = ir.Var("j")
    replaced = ir.substitute(e, {count[1]: j})
    count.clear()
    ir.post_order_visit(replaced, count.append)
    assert len(count) == 202 and count[1] is j


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_a_mutator_that_changes_nothing_returns_the_same_object(cls):
    assert ir.StmtMutator().visit(SAMPLES[cls]) is SAMPLES[cls]


@settings(max_examples=30, deadline=None)
@given(functions())
def test_unchanged_parts_stay_the_same_objects(func):
    class DropBreaks(ir.StmtMutator):
        def visit_break(self, value):
            return None

    result = DropBreaks().visit(func)
    breaks, kept = [], []
    ir.post_order_visit(func, lambda x: breaks.append(x) if isinstance(x, ir.Break) else None)
    ir.post_order_visit(result, lambda x: kept.append(x) if isinstance(x, ir.Break) else None)
    assert not kept and (bool(breaks) or result is func)
    before, after = set(), []
    ir.post_order_visit(func, lambda x: before.add(id(x)))
    ir.post_order_visit(result, after.append)
    leaves = (ir.Expr, ir.Buffer, ir.BufferRegion, ir.BufferStore, ir.Bind, ir.TilePrimitiveCall, ir.AllocBuffer)
    assert all(id(x) in before for x in after if isinstance(x, leaves))


def test_a_sequence_flattens_and_a_body_that_goes_leaves_an_empty_sequence():
    i, c = ir.Var("i"), ir.Var("c", "bool")
    a, b = ir.Evaluate(ir.const(1)), ir.Evaluate(ir.const(2))

    class Twice(ir.StmtMutator):
        def visit_evaluate(self, value):
            return ir.SeqStmt((value, value)) if value is a else None

    twice = Twice()
    assert twice.visit(ir.SeqStmt((a, b, a))) == ir.SeqStmt((a, a, a, a))
    assert twice.visit(ir.For(i, ir.const(0), ir.const(2), "serial", b)).body == ir.SeqStmt(())
    gone = twice.visit(ir.IfThenElse(c, b, b))
    assert gone.then_case == ir.SeqStmt(()) and gone.else_case is None


def test_substitute_variables_and_buffers():
    i, j = ir.Var("i"), ir.Var("j")
    a, b = a_buffer("A"), a_buffer("B")
    store = ir.BufferStore(a, ir.BufferLoad(a, (i, j)), (j, i))
    assert ir.substitute(store, {i: ir.const(3)}) == ir.BufferStore(
        a, ir.BufferLoad(a, (ir.const(3), j)), (j, ir.const(3))
    )
    assert ir.substitute(store, {}, {a: b}) == ir.BufferStore(b, ir.BufferLoad(b, (i, j)), (j, i))
    assert ir.substitute(store, {ir.Var("i"): j}) is store


@settings(max_examples=20, deadline=None)
@given(functions())
def test_substituting_there_and_back_is_the_identity(func):
    new = renamed(func)
    assert ir.structural_equal(renamed(new), func)
    n, m = func.params[-1], ir.Var("m")
    there = ir.substitute(func.body, {n: m})
    assert ir.structural_equal(ir.substitute(there, {m: n}), func.body, map_free=False)
