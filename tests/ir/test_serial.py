"""JSON: equal objects with equal sharing come back; bad documents are refused."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from ir_samples import a_buffer, copy_kernel, expr_samples, functions, other_samples, stmt_samples

from tirx_eq import ir
from tirx_eq.errors import ParseError, Span
from tirx_eq.layout import ComposeLayout, S, SwizzleLayout, TileLayout

SAMPLES = {**expr_samples(), **stmt_samples(), **other_samples()}


def distinct_nodes(root):
    seen = []
    ir.post_order_visit(root, seen.append)
    return len(seen)


@pytest.mark.parametrize("cls", SAMPLES, ids=lambda c: c.__name__)
def test_every_node_comes_back(cls):
    back = ir.load_json(ir.save_json(SAMPLES[cls]))
    assert type(back) is cls
    assert ir.first_difference(SAMPLES[cls], back, map_free=True) is None


@settings(max_examples=40, deadline=None)
@given(functions())
def test_functions_come_back_with_their_sharing(func):
    text = ir.save_json(func)
    back = ir.load_json(text)
    assert ir.first_difference(func, back) is None
    assert distinct_nodes(back) == distinct_nodes(func)
    assert ir.save_json(back) == text


def test_a_buffer_is_one_object_in_declaration_and_regions():
    buffer = a_buffer("L", "shared")
    stmts = ir.SeqStmt((
        ir.AllocBuffer(buffer),
        ir.TilePrimitiveCall(ir.Op.get("tirx.tile.copy"), (buffer[0:8, 0:2], buffer[0:8, 2:4])),
        ir.Evaluate(ir.BufferLoad(buffer, (ir.const(0), ir.const(0)))),
    ))  # fmt: skip
    alloc, call, use = ir.load_json(ir.save_json(stmts)).seq
    assert alloc.buffer is call.args[0].buffer is call.args[1].buffer is use.value.buffer


def test_a_view_shares_its_pointer_and_a_parameter_its_buffer():
    func = ir.load_json(ir.save_json(copy_kernel()))
    store = func.body.body.seq[4]
    assert store.buffer is func.buffer_map[func.params[1]]
    base = a_buffer("A", "shared")
    pair = ir.load_json(ir.save_json((base, a_buffer("V", "shared", data=base.data))))
    assert pair[0].data is pair[1].data


def test_shared_expressions_are_stored_once():
    e = ir.Var("i")
    for _ in range(100):
        e = ir.Add(e, e)
    text = ir.save_json(e)
    assert len(json.loads(text)["nodes"]) < 110
    assert distinct_nodes(ir.load_json(text)) == 102


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 0.1, 1e-45])
def test_floats_keep_their_value(value):
    back = ir.load_json(ir.save_json(ir.FloatImm("float32", value)))
    assert ir.structural_equal(back, ir.FloatImm("float32", value))


def test_layouts_come_back_with_their_variables():
    n = ir.Var("n")
    layouts = (
        TileLayout(S[(n, 4):(4, 1)]), SwizzleLayout(3, 3, 3), ComposeLayout(SwizzleLayout(3, 3, 3), TileLayout(S[64:1]))
    )  # fmt: skip
    root = (n, layouts)
    back_n, back = ir.load_json(ir.save_json(root))
    assert ir.structural_equal(back, layouts, map_free=True)
    assert back[0].shard[0].extent is back_n


def test_spans_attrs_and_modules_come_back():
    span = Span("kernel.py", 3, 5, 9, "x = 1")
    func = copy_kernel().with_attr("$odd", {"$": 1, "list": (1, 2.5, None, True)})
    module = ir.IRModule({"f": func}, {"t": ir.Target("cuda", "sm_100a", {"threads": 1024})})
    back = ir.load_json(ir.save_json((ir.IntImm("int32", 1, span=span), module)))
    assert back[0].span == span
    assert back[1]["f"].attrs == func.attrs and back[1].attrs == module.attrs


def test_what_is_no_node_is_refused():
    with pytest.raises(ParseError, match="a object can't be saved"):
        ir.save_json(ir.IRModule({"host": object()}))


GOOD = json.loads(ir.save_json(ir.Add(ir.Var("i"), ir.const(1))))


def broken(**changes):
    return json.dumps({**GOOD, **changes})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100000, "nested too deeply|not JSON"),
        ("[]", "not a tirx_eq JSON document"),
        (broken(format="tvm"), "not a tirx_eq JSON document"),
        (broken(version=2), "not a tirx_eq JSON document of version 1"),
        (broken(nodes={}), "no table of nodes"),
        (broken(nodes=[3]), "node 0 has no fields"),
        (broken(nodes=[{"type": "tirx.Nothing", "fields": {}}]), "unknown type 'tirx.Nothing'"),
        (broken(nodes=[{"type": "tirx.Add", "fields": {"a": 1}}]), "has fields"),
        (broken(nodes=[{"type": "tirx.Add", "fields": {"a": {"$": 0}, "b": 1}}]), "doesn't come before it"),
        (broken(nodes=[{"type": "tirx.Add", "fields": {"a": 1, "b": 2}}]), "field of the wrong kind"),
        (broken(nodes=[{"type": "ir.FloatImm", "fields": {"dtype": "float32", "value": {"$float": "x"}}}]), "special"),
        (broken(nodes=[{"type": "ir.IntImm", "fields": {"dtype": "int32", "value": {"$map": [[[], {}, 1]]}}}]), "pairs"),
        (broken(root={"$": 99}), "reference to node 99"),
    ],
)  # fmt: skip
def test_bad_documents(text, message):
    with pytest.raises(ParseError, match=message):
        ir.load_json(text)
