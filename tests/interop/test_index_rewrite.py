"""Simplifying the index expressions of a function in place: what is replaced, what may not be."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("egglog", reason="the simplifier needs egglog")

from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq import ir
from tirx_eq.errors import TirxError
from tirx_eq.interop.index_rewrite import emittable, operations, rewrite_indices
from tirx_eq.ir.index import evaluate, parse, postorder, show
from tirx_eq.ir.index_ir import IndexScope
from tirx_eq.script import parse_source

HEADER = "from tirx_eq.script import tirx as T\n@T.prim_func\n"


def rewritten(text):
    func = next(iter(parse_source(HEADER + text).values()))
    new, report = rewrite_indices(func)
    return func, new, report


def stores(func):
    found = []
    ir.post_order_visit(func.body, lambda x: found.append(x) if isinstance(x, ir.BufferStore) else None)
    return found


def test_indices_are_simplified_under_the_ranges_of_ids_and_loops():
    func, new, report = rewritten("""
def f(A: T.Buffer((4096,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    for i in range(8):
        A[(i * 32 + (tx & 31)) // 32 * 32 + (tx ^ 0) % 64] = A[(tx & 7) * 0 + tx // 32 + i]
""")
    (store,) = stores(new)
    tx = func.body.body.seq[0].definition.def_ids[0]
    i = store.value.indices[0]
    assert isinstance(i, ir.Var) and i.name == "i"
    assert operations(store.indices[0]) == 2  # i * 32 + tx
    assert report.cost < report.cost_in and len(report.rewrites) == 2
    assert {r.validated_by for r in report.rewrites} and all(r.validated_by != "identity" for r in report.rewrites)
    for a, b in itertools.product(range(8), range(32)):
        value = ir.substitute(store.indices[0], {i: ir.const(a), tx: ir.const(b)})
        assert _fold(value) == a * 32 + b


def _fold(e):
    class Fold(ir.ExprMutator):
        def visit_children(self, value):
            value = super().visit_children(value)
            if isinstance(value, ir.expr.BinaryOp):
                return ir.arith.binary(type(value), value.a, value.b)
            if isinstance(value, ir.Call):
                return ir.arith.bitwise(value.op.short_name, *value.args)
            return value

    return int(Fold().visit(e))


def test_conditions_on_variables_are_facts():
    _, new, _ = rewritten("""
def f(A: T.Buffer((64,), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([64])
    if tx < 8:
        A[tx // 8 + tx % 8] = 1.0
    else:
        A[tx // 8 + tx % 8] = 2.0
""")
    inside, outside = stores(new)
    assert isinstance(inside.indices[0], ir.Var) and operations(outside.indices[0]) == 3


def test_a_condition_on_memory_is_no_fact():
    _, new, report = rewritten("""
def f(A: T.Buffer((64,), "float32"), I: T.Buffer((1,), "int32")):
    T.device_entry()
    tx = T.thread_id([64])
    if I[0] == 0:
        I[0] = 5
        A[I[0] + tx] = 1.0
""")
    store = stores(new)[-1]
    assert isinstance(store.indices[0], ir.Add) and not report.rewrites


def test_what_has_an_effect_is_neither_dropped_nor_moved():
    text = """
def f(A: T.Buffer((64,), "int32")):
    T.device_entry()
    tx = T.thread_id([32])
    A[0] = T.cuda.ballot_sync(T.uint32(1), tx > 3).astype("int32") * 0
    A[1] = T.call_extern("int32", "next") - T.call_extern("int32", "next")
    A[T.call_extern("int32", "next", tx & 31) * 1] = 3
"""
    func, new, _ = rewritten(text)

    def calls(f):
        found = []
        ir.post_order_visit(f.body, lambda x: found.append(x) if isinstance(x, ir.Call) else None)
        return sorted(c.op.name for c in found if "bitwise" not in c.op.name)

    assert calls(new) == calls(func)
    last = stores(new)[-1].indices[0]
    assert last.args[1].name == "tx"  # the argument of a call is an expression of its own


def test_a_function_with_nothing_to_gain_is_returned_itself():
    func, new, report = rewritten("""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    A[tx] = A[tx] + 1.0
""")
    assert new is func and report.rewrites == ()


def test_code_that_never_runs_is_left_alone():
    func, new, _ = rewritten("""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    if tx > 40:
        A[tx // 32] = 1.0
""")
    assert ir.structural_equal(stores(new)[0], stores(func)[0])


# -- widths -----------------------------------------------------------------------------------------------------------

WIDE = {"x": (-(2**31), 2**31 - 1), "y": (0, 2**20)}


@pytest.mark.parametrize(
    ("before", "after", "dtype", "fits"),
    [
        ("(mul y 8)", "(shl y 3)", "int32", True),
        ("(add x (sub y x))", "y", "int32", True),
        ("(div (add x y) 2)", "(shr (add x y) 1)", "int32", True),  # the sum is given, so it doesn't overflow
        ("(div (mul y 3) 3)", "y", "int32", True),
        ("y", "(div (mul y 65536) 65536)", "int32", False),  # a product of our own that may overflow
        ("x", "(div (mul x 4) 4)", "int32", False),
        ("(lt x y)", "(lt (sub x y) 0)", "bool", False),
        ("(lt (sub x y) 0)", "(lt x y)", "bool", True),
        ("(mul y 65536)", "(add (mul y 65535) y)", "uint32", True),  # both wrap, and alike
        ("(div (mul y 65536) 65536)", "y", "uint32", False),  # unsigned may wrap: nothing is assumed
        ("(lt (mul y 65536) 9)", "(le y 0)", "uint32", False),
        ("(mod y 8)", "(and y 7)", "uint32", True),
    ],
)
def test_widths(before, after, dtype, fits):
    assert emittable(parse(before), parse(after), WIDE, dtype) is fits


OPS = ("add", "sub", "mul", "div", "mod", "and", "or", "xor", "min", "max", "lt", "le")


def terms(names):
    leaf = st.sampled_from(names) | st.integers(-3, 70)
    return st.recursive(leaf, lambda t: st.tuples(st.sampled_from(OPS), t, t), max_leaves=6)


def wrapped(term, env, bits):
    """The term computed at a signed width, each operation wrapping; None if a division by zero is met."""
    try:
        if isinstance(term, int):
            return term
        if isinstance(term, str):
            return env[term]
        args = [wrapped(t, env, bits) for t in term[1:]]
        if None in args:
            return None
        value = int(evaluate((term[0], *args), {}))
    except (TirxError, ZeroDivisionError):
        return None
    if term[0] in ("lt", "le"):
        return value
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def wrapped_unsigned(term, env):
    """The term computed in 8 unsigned bits; None if a division by zero or a negative quotient is met."""
    if not isinstance(term, tuple):
        return env[term] if isinstance(term, str) else term % 256
    args = [wrapped_unsigned(t, env) for t in term[1:]]
    if None in args or (term[0] in ("div", "mod") and args[1] == 0):
        return None
    return int(evaluate((term[0], *args), {})) % 256


@settings(max_examples=100, deadline=None)
@given(terms(["x", "y"]), st.integers(0, 255), st.integers(0, 40))
def test_what_may_be_emitted_unsigned_wraps_alike(before, low, size):
    from tirx_eq.egraph.simplify import simplify

    ranges = {"x": (low, min(255, low + size)), "y": (0, 7)}
    try:
        after = simplify(before, ranges).expr
        if not emittable(before, after, ranges, "uint8"):
            return
    except TirxError:
        return
    for x in range(ranges["x"][0], ranges["x"][1] + 1):
        for y in range(8):
            env = {"x": x, "y": y}
            machine = wrapped_unsigned(before, env)
            if machine is not None:
                assert wrapped_unsigned(after, env) == machine, (before, after, env)


@settings(max_examples=150, deadline=None)
@given(terms(["x", "y"]), terms(["x", "y"]), st.integers(-128, 100), st.integers(0, 40))
def test_what_may_be_emitted_is_right_at_its_width(before, after, low, size):
    ranges = {"x": (low, min(127, low + size)), "y": (0, 7)}
    try:
        if not emittable(before, after, ranges, "int8"):
            return
    except TirxError:
        return
    for x in range(ranges["x"][0], ranges["x"][1] + 1):
        for y in range(8):
            env = {"x": x, "y": y}
            try:
                given_values = [int(evaluate(t, env)) for t in postorder(before)]
                same = int(evaluate(after, env)) == given_values[-1]
            except (TirxError, ZeroDivisionError):
                continue
            overflows = any(not -128 <= v <= 127 for v in given_values)
            if same and not overflows:  # equal as integers, and the given program doesn't overflow
                assert wrapped(after, env, 8) == given_values[-1], (before, after, env)


def test_what_is_converted_is_an_expression_of_its_own():
    _, new, report = rewritten("""
def f(A: T.Buffer((64,), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    A[T.Cast("int32", T.Cast("uint32", (n ^ tx) ^ tx) % T.uint32(64))] = 1.0
    A[T.Cast("int32", (T.Cast("uint32", (tx & 31) + n) * T.uint32(2)) // T.uint32(64))] = 1.0
""")
    assert [show(r.after) for r in report.rewrites] == ["n", "(add n tx)"]
    first, second = (store.indices[0] for store in stores(new))
    assert operations(first) == 3  # n, converted, modulo 64, converted
    assert operations(second) == 5 and report.cost_in == report.cost + 3


def casts(e):
    found = []
    ir.post_order_visit(e, lambda x: found.append(x.dtype) if isinstance(x, ir.Cast) else None)
    return found


def test_a_condition_is_computed_in_the_type_of_its_numbers():
    _, new, report = rewritten("""
def f(A: T.Buffer((64,), "float32"), n: T.int64, u: T.uint32):
    T.device_entry()
    tx = T.thread_id([32])
    if (n ^ T.int64(5) ^ T.int64(5)) * T.int64(2) < T.int64(20):
        A[tx] = 1.0
    if (u ^ T.uint32(5)) ^ T.uint32(5) < T.uint32(3000000000):
        A[tx] = 2.0
""")
    assert [show(r.after) for r in report.rewrites] == ["(lt n 10)", "(lt u 3000000000)"]
    ifs = []
    ir.post_order_visit(new.body, lambda x: ifs.append(x) if isinstance(x, ir.IfThenElse) else None)
    assert [i.condition.a.dtype for i in ifs] == ["int64", "uint32"] and not any(casts(i.condition) for i in ifs)


def test_what_a_wider_type_computes_is_not_computed_in_a_narrower_one():
    func, new, report = rewritten("""
def f(A: T.Buffer((1048576,), "float32"), a: T.int32, b: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    if T.Cast("int64", a) + T.Cast("int64", b) - T.int64(1) < T.int64(5):
        A[tx] = 1.0
    for i in range(1048576):
        for j in range(1048576):
            A[T.Cast("int32", T.Cast("int64", i) * T.Cast("int64", j) // T.int64(1024) // T.int64(1024))] = 2.0
""")
    assert new is func and not report.rewrites  # a sum, a product that int32 doesn't hold


def test_a_number_as_a_condition_is_compared_with_zero():
    _, new, report = rewritten("""
def f(A: T.Buffer((64,), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    A[T.Select((n & 1) % 2 % 4 * 4 != 0, tx, 32 + (tx ^ 3 ^ 3))] = 1.0
""")
    (store,) = stores(new)
    conditions = []
    ir.post_order_visit(store, lambda x: conditions.append(x.condition) if isinstance(x, ir.Select) else None)
    assert [c.dtype for c in conditions] == ["bool"]
    assert [r.cost for r in report.rewrites] == [operations(store.indices[0])]


def test_a_mask_wider_than_the_type_is_cut_to_it():
    scope = IndexScope()
    name = scope.name(ir.Var("u", "uint32"))
    before, after = ("mul", ("div", name, 256), 2048), ("and", ("mul", name, 8), 2048 * (2**24 - 1))
    assert emittable(before, after, scope.ranges, "int32")
    made = scope.expr(after, "int32")
    assert made.args[1].value == -2048  # the same bits of int32
    assert scope.expr(("and", name, -8), "uint32").args[1].value == 2**32 - 8


def test_a_dear_remainder_gives_way_to_a_comparison():
    _, new, report = rewritten("""
def f(A: T.Buffer((1024,), "int32")):
    T.device_entry()
    tx = T.thread_id([32])
    for i in range(4):
        A[tx + T.truncmod(i, 3) * 256] = 1
""")
    (store,) = stores(new)
    assert report.cost + len(casts(store.indices[0])) == operations(store.indices[0]) < 20 < report.cost_in
