"""Exporting to real TVM: what was imported goes back equal as TVM judges it; what we build comes back equal as we do."""

from __future__ import annotations

import sys

import pytest

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed, so nothing can be exported to it")
pytest.importorskip("tvm.tirx", reason="this apache-tvm has no TIRx")

from hypothesis import given, settings  # noqa: E402
from tvm_oracle import EXAMPLES, PROGRAMS, ROOT, parsed_by_tvm  # noqa: E402

sys.path.insert(0, str(ROOT / "tests" / "ir"))
from ir_samples import functions  # noqa: E402

from tirx_eq import ir  # noqa: E402
from tirx_eq.errors import InteropError  # noqa: E402
from tirx_eq.interop.tvm import from_tvm, to_tvm  # noqa: E402
from tirx_eq.layout import R, S, SwizzleLayout, TileLayout, TLane  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("theirs")


@pytest.mark.parametrize("name", [*EXAMPLES, *PROGRAMS])
def test_export_of_an_import_is_the_same_function(name, folder):
    func = parsed_by_tvm(name, folder)
    back = to_tvm(from_tvm(func))
    assert type(back) is type(func)
    # a reduction's variable is free in the program, so it can only correspond
    tvm.ir.assert_structural_equal(func, back, map_free_vars=name == "reductions")
    assert back.script() == func.script()


@settings(max_examples=25, deadline=None)
@given(functions())
def test_import_of_an_export_is_the_same_function(func):
    assert ir.first_difference(from_tvm(to_tvm(func)), func) is None


def test_modules():
    func = ir.PrimFunc((ir.Var("n"),), {}, ir.Evaluate(ir.const(0)), attrs={"global_symbol": "f"})
    module = ir.IRModule({"f": func}, {"note": "text"})
    live = to_tvm(module)
    assert isinstance(live, tvm.IRModule) and [str(v.name_hint) for v in live.functions] == ["f"]
    assert ir.structural_equal(from_tvm(live), module)


def test_shared_expressions_stay_shared():
    x = ir.Var("x")
    shared = x + 1
    live = to_tvm(shared * shared)
    assert live.a.same_as(live.b)


@pytest.mark.parametrize(
    "layout", [TileLayout(S[(8, 4):(1 @ TLane, 1)] + R[4 : 32 @ TLane] + 3), TileLayout(S[(ir.Var("n"), 4):(4, 1)])]
)
def test_layouts(layout):
    assert ir.structural_equal(from_tvm(to_tvm(layout)), layout, map_free=True)


def test_a_bare_swizzle_is_over_the_identity_of_the_buffers_size():
    buffer = ir.make_buffer("A", (128, 64), "float16", "shared", layout=SwizzleLayout(3, 3, 3))
    layout = from_tvm(to_tvm(buffer)).layout
    assert layout.swizzle == SwizzleLayout(3, 3, 3) and layout.tile == TileLayout(S[8192:1])


def test_opaque_nodes_go_back_as_they_came():
    x = tvm.tirx.Var("x", "int32")
    name = next(str(n) for n in tvm.ir.op.Op.list_op_names() if n.startswith("tirx.metal."))
    call = tvm.tirx.call_intrin("int32", name, x) + x
    tvm.ir.assert_structural_equal(to_tvm(from_tvm(call)), call, map_free_vars=True)
    if hasattr(tvm.tirx, "SBlock"):
        block = tvm.tirx.SBlock([], [], [], "block", tvm.tirx.Evaluate(x))
        func = tvm.tirx.PrimFunc([x], block)
        back = to_tvm(from_tvm(func))
        assert isinstance(back.body, tvm.tirx.Evaluate | tvm.tirx.SBlock)
        tvm.ir.assert_structural_equal(back, func)


def test_predicates_on_loads_and_stores():
    buffer = ir.make_buffer("A", (64,), "float32", layout=TileLayout(S[64:1]))
    lanes = ir.Ramp(ir.const(0), ir.const(1), 4)
    mask = ir.Broadcast(ir.Var("c", "bool"), 4)
    load = ir.BufferLoad(buffer, (lanes,), mask)
    handle = ir.Var("A_handle", buffer.data.ty)
    func = ir.PrimFunc((handle, mask.value), {handle: buffer}, ir.BufferStore(buffer, load, (lanes,), mask))
    live = to_tvm(func)
    assert ir.first_difference(from_tvm(live), func) is None
    tvm.ir.assert_structural_equal(to_tvm(from_tvm(live)), live)


def test_a_break_goes_back_in_the_form_it_came_in():
    x = tvm.tirx.Var("x", "bool")
    for stop in (tvm.tirx.Break(), tvm.tirx.Evaluate(tvm.tirx.break_loop())):
        func = tvm.tirx.PrimFunc([x], tvm.tirx.While(x, stop))
        assert isinstance(from_tvm(func).body.body, ir.Break)
        tvm.ir.assert_structural_equal(to_tvm(from_tvm(func)), func)


def test_what_tvm_has_not_is_refused():
    with pytest.raises(InteropError, match=r"has no nowhere\.Node"):
        to_tvm(ir.Opaque("nowhere.Node", (), "text"))
    with pytest.raises(InteropError, match="can't be exported"):
        to_tvm(object())


def test_an_instruction_keeps_its_name_where_an_older_operator_has_it():
    from tirx_eq import ir
    from tirx_eq.interop.tvm import to_tvm
    from tirx_eq.interop.tvm_instructions import INSTRUCTION

    args = (ir.StringImm("elect_sync"), ir.StringImm("elect.sync"), ir.IntImm("uint32", 0xFFFFFFFF), ir.StringImm(""))
    made = to_tvm(ir.Call("void", ir.Op.get(INSTRUCTION), args))
    assert str(made.op.name) == "tirx.ptx.elect_sync" and len(made.args) == 2
