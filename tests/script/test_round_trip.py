"""parse ∘ print is the identity on functions built node by node, also where the parser would fold or convert."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirx_eq import ir
from tirx_eq.errors import IRError
from tirx_eq.ir import expr as ex
from tirx_eq.layout import S, TileLayout, TLane, default_layout
from tirx_eq.script import parse_source

INTS = ("int32", "int64", "uint32")
FLOATS = ("float32", "float16")


def check(func):
    for sugar in (True, False):
        text = func.script(syntax_sugar=sugar, extra_config={"tirx.prefix": "Tx"})
        (again,) = parse_source(text).values()
        assert ir.first_difference(func, again) is None, text


def function(*stmts, params=(), buffers=None, attrs=None):
    body = stmts[0] if len(stmts) == 1 else ir.SeqStmt(tuple(stmts))
    return ir.PrimFunc(tuple(params), buffers or {}, body, None, {"global_symbol": "f"} if attrs is None else attrs)


VARS = {d: [ir.Var(f"{d[0]}{d[-2:]}_{k}", ir.PrimType(d)) for k in range(2)] for d in (*INTS, *FLOATS, "bool")}
BUFFER = ir.make_buffer("B", (16,), "float32", layout=default_layout((16,)))


def constants(dtype):
    if dtype in FLOATS:
        return st.sampled_from([0.0, 1.0, -2.5, 1e30 if dtype == "float32" else 8.0, float("inf")]).map(
            lambda v: ir.FloatImm(dtype, v)
        )
    if dtype == "bool":
        return st.booleans().map(lambda v: ir.IntImm("bool", v))
    low = 0 if dtype.startswith("u") else -5
    return st.integers(low, 7).map(lambda v: ir.IntImm(dtype, v))


def exprs(dtype, depth):
    """Expressions of a dtype, made of the node classes themselves, so nothing is folded."""
    leaf = constants(dtype) | st.sampled_from(VARS[dtype])
    if dtype == "float32":
        leaf |= st.integers(0, 15).map(lambda i: ir.BufferLoad(BUFFER, (ir.IntImm("int32", i),)))
    if depth == 0:
        return leaf
    sub = exprs(dtype, depth - 1)
    choices = [leaf]
    if dtype == "bool":
        number = exprs("int32", depth - 1)
        compare = st.sampled_from([ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE])
        choices += [
            st.builds(lambda c, a, b: c(a, b), compare, number, number),
            st.builds(lambda c, a, b: c(a, b), st.sampled_from([ir.And, ir.Or]), sub, sub),
            sub.map(ir.Not),
        ]
        return st.one_of(choices)
    nodes = [ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max]
    if dtype in INTS:
        nodes += [ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod]
        bit = st.sampled_from(["bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"])
        choices.append(st.builds(lambda n, a, b: ir.Call(dtype, ir.Op.get(f"tirx.{n}"), (a, b)), bit, sub, sub))
    else:
        nodes.append(ir.Div)
        unary = st.sampled_from(["exp", "sqrt", "floor", "fabs"])
        choices.append(st.builds(lambda n, a: ir.Call(dtype, ir.Op.get(f"tirx.{n}"), (a,)), unary, sub))
    other = st.sampled_from([d for d in (*INTS, *FLOATS) if d != dtype])
    choices += [
        st.builds(lambda c, a, b: c(a, b), st.sampled_from(nodes), sub, sub),
        st.builds(ir.Select, exprs("bool", depth - 1), sub, sub),
        other.flatmap(lambda d: exprs(d, depth - 1)).map(lambda e: ir.Cast(dtype, e)),
        st.builds(
            lambda c, a, b: ir.Call(dtype, ir.Op.get("tirx.if_then_else"), (c, a, b)),
            exprs("bool", depth - 1),
            sub,
            sub,
        ),
        st.builds(lambda v, e, b: ex.Let(v, e, b), st.sampled_from(VARS[dtype]), sub, sub),
    ]
    return st.one_of(choices)


def no_op(e):
    """Evaluating a constant 0 does nothing; the parser leaves it out."""
    return isinstance(e, ir.IntImm) and e.value == 0


def statements(depth):
    value = st.sampled_from([*INTS, *FLOATS, "bool"]).flatmap(lambda d: exprs(d, 2))
    not_zero = value.filter(lambda e: not no_op(e))
    simple = st.one_of(
        not_zero.map(ir.Evaluate),
        st.builds(
            lambda v, i: ir.BufferStore(BUFFER, v, (ir.IntImm("int32", i),)), exprs("float32", 2), st.integers(0, 15)
        ),
        st.builds(lambda c: ir.AssertStmt(c, "ValueError", ("a", 'quote " and \\')), exprs("bool", 1)),
    )
    if depth == 0:
        return simple
    body = st.lists(statements(depth - 1), min_size=1, max_size=3).map(ir.seq)
    loops = st.builds(
        lambda kind, low, size, b: ir.For(ir.Var("i", ir.PrimType("int32")), low, size, kind, b),
        st.sampled_from(["serial", "parallel", "vectorized", "unrolled"]), exprs("int32", 1), exprs("int32", 1), body,
    )  # fmt: skip
    return st.one_of(
        simple,
        loops,
        st.builds(ir.IfThenElse, exprs("bool", 1), body, st.none() | body),
        st.builds(ir.While, exprs("bool", 1), body),
        st.builds(lambda v, b: ir.AttrStmt(0, "some.key", v, b), constants("int32"), body),
        value.map(lambda e: ir.Bind(ir.Var("x", ir.PrimType(e.dtype)), e)),
    )


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([*INTS, *FLOATS, "bool"]).flatmap(lambda d: exprs(d, 3)))
def test_expressions(e):
    if no_op(e):
        return
    variables = [v for group in VARS.values() for v in group]
    check(function(ir.Evaluate(e), params=variables))
    check(function(ir.Evaluate(e)))  # all variables free


@settings(max_examples=80, deadline=None)
@given(st.lists(statements(2), min_size=1, max_size=3))
def test_statements(stmts):
    handle = ir.Var("B_handle", BUFFER.data.ty)
    check(function(ir.seq(stmts), params=[handle], buffers={handle: BUFFER}))


SYMBOLIC = exprs("int32", 1).filter(lambda e: not isinstance(e, ir.IntImm))
RANGES = st.builds(ir.Range, SYMBOLIC, SYMBOLIC | st.integers(1, 64).map(lambda n: ir.IntImm("int32", n)))


@settings(max_examples=60, deadline=None)
@given(RANGES, RANGES, st.sampled_from(["thread", "warp", "warpgroup", "cta", "cluster"]))
def test_regions(a, b, scope):
    left, right = (ir.make_buffer(n, (64, 64), "float32", layout=default_layout((64, 64))) for n in "AB")
    one = ir.Range(ir.IntImm("int32", 3), ir.IntImm("int32", 1))
    call = ir.TilePrimitiveCall(
        ir.Op.get("tirx.tile.fill"), (ir.BufferRegion(left, (a, one)), ir.FloatImm("float32", 0.0)), {},
        {"region": ir.BufferRegion(right, (one, b)), "flag": True, "size": 3, "expr": ir.IntImm("int32", 3)},
        None, ir.ExecScope(scope),
    )  # fmt: skip
    check(function(ir.AllocBuffer(left), ir.AllocBuffer(right), call))


@pytest.mark.parametrize("layout", [None, default_layout((4, 8)), TileLayout(S[(4, 8) : (1, 4)])])
@pytest.mark.parametrize("scope", ["global", "shared", "shared.dyn", "local"])
def test_layout_field_is_kept(layout, scope):
    b = ir.make_buffer("x", (4, 8), "float16", scope, data_alignment=16, layout=layout)
    func = function(ir.AllocBuffer(b), ir.Evaluate(ir.BufferLoad(b, (ir.IntImm("int32", 0),) * 2)))
    check(func)
    shown = func.script()
    assert ("layout=None" in shown) == (layout is None)
    assert ("layout=" in shown) == (layout != default_layout((4, 8)))


def test_default_layout_and_no_layout_differ():
    texts = [
        "from tirx_eq.script import tirx as Tx\n@Tx.prim_func\ndef f():\n"
        f"    B = Tx.alloc_buffer((4, 8), 'float16'{more})\n    B[0, 0] = 1.0\n"
        for more in ("", ", layout=None")
    ]
    a, b = (parse_source(t)["f"] for t in texts)
    assert a.body.seq[0].buffer.layout == default_layout((4, 8))
    assert b.body.seq[0].buffer.layout is None
    assert not ir.structural_equal(a, b)


def test_odd_names():
    names = ["class", "Tx", "a b", "1x", "", "f", "range", "x", "x", "x_1", "__y"]
    variables = [ir.Var(n, ir.PrimType("int32")) for n in names]
    total = variables[0]
    for v in variables[1:]:
        total = ir.Add(total, v)
    check(function(ir.Evaluate(total), params=variables))
    check(function(ir.Evaluate(total), attrs={"global_symbol": "not a name", "tirx.noalias": True}))
    check(function(ir.Evaluate(total), attrs={}))


def test_buffers_that_are_declared_nowhere():
    b = ir.make_buffer("b", (4, 4), "int32", "shared", strides=(8, 1), elem_offset=2, layout=TileLayout(S[16:1]))
    load = ir.BufferLoad(b, (ir.IntImm("int32", 1), ir.IntImm("int32", 2)))
    check(function(ir.Evaluate(load)))


def test_strange_but_valid_declarations():
    handle = ir.Var("p", ir.PointerType(ir.PrimType("void")))
    b = ir.make_buffer("b", (4,), "int32", layout=None)
    read = ir.Evaluate(ir.BufferLoad(b, (ir.IntImm("int32", 1),)))
    check(function(read, params=[handle], buffers={handle: b}))
    typed = ir.Var("p", ir.PointerType(ir.PrimType("float32"), "shared"))
    check(function(read, params=[typed], buffers={typed: b}))
    tmem = ir.make_buffer(
        "t", (128, 4), "float32", "tmem", layout=TileLayout(S[(128, 4) : (1 @ TLane, 4)]), allocated_addr=[32]
    )
    first = ir.Evaluate(ir.BufferLoad(tmem, (ir.IntImm("int32", 0),) * 2))
    check(function(ir.DeclBuffer(tmem), first))
    address = ir.Call("handle", ir.Op.get("tirx.reinterpret"), (ir.IntImm("int64", 4096),))
    check(function(ir.DeclBuffer(b, address), read))


def test_opaque_nodes_and_types():
    opaque = ir.Opaque("other.Node", (ir.IntImm("int32", 1), "text", (2.5, None)), "f(x)", "int32")
    check(function(ir.Evaluate(opaque)))
    annotations = {"k": 1, "s": "text", "list": (1, 2.0, None, True), "e": ir.IntImm("int32", 4), "d": {"a": 1}}
    body = ir.Evaluate(ir.Var("v"))
    zero, four = ir.IntImm("int32", 0), ir.IntImm("int32", 4)
    check(function(ir.For(ir.Var("i"), zero, four, "serial", body, None, annotations)))


def test_prefix_is_checked():
    with pytest.raises(IRError, match="can't be the name"):
        function(ir.Evaluate(ir.IntImm("int32", 1))).script(extra_config={"tirx.prefix": "import"})


def test_symbolic_shapes_of_parameters():
    """Extents that are parameters, that a shape defines, and that nothing defines; in every kind of print."""
    for dtype in ("int32", "int64"):
        for as_param in (True, False):
            n = ir.Var("n", ir.PrimType(dtype))
            b = ir.make_buffer("b", (n, 4), "float32", layout=default_layout((n, 4)))
            handle = ir.Var("b_handle", b.data.ty)
            read = ir.Evaluate(ir.BufferLoad(b, (ir.IntImm("int32", 0),) * 2))
            use = ir.Evaluate(ir.Add(n, n))
            for params in ([handle, n], [n, handle]) if as_param else ([handle],):
                check(function(read, use, params=params, buffers={handle: b}))


def test_any_data_type_has_a_constructor():
    for dtype in ("int4", "uint2", "float32x3", "boolx4"):
        check(function(ir.Evaluate(ir.Var("v", ir.PrimType(dtype)))))
