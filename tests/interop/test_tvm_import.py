"""Importing from real TVM: the same source parsed by TVM and imported, and parsed here, gives the same function."""

from __future__ import annotations

import pytest

tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed, so nothing can be imported from it")
pytest.importorskip("tvm.tirx", reason="this apache-tvm has no TIRx")

from tvm.script import tirx as T  # noqa: E402
from tvm_oracle import EXAMPLES, PROGRAMS, REJECTED_BY_027, ROOT, load, ours, parsed_by_tvm  # noqa: E402

from tirx_eq import ir  # noqa: E402
from tirx_eq.errors import InteropError  # noqa: E402
from tirx_eq.interop.tvm import ImportSummary, from_tvm  # noqa: E402
from tirx_eq.ir import functor  # noqa: E402
from tirx_eq.layout import ComposeLayout, from_json  # noqa: E402
from tirx_eq.script import parse_source  # noqa: E402

IS_027 = not tvm.__version__.startswith("0.26")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("theirs")


def parsed_here(name):
    if name in EXAMPLES:
        return getattr(load(ROOT / "examples" / f"{name}.py", f"example_{name}"), EXAMPLES[name])
    return parse_source(ours(name), f"{name}.py")[name]


@pytest.mark.parametrize("name", [*EXAMPLES, *PROGRAMS])
def test_the_same_source_gives_the_same_function(name, folder):
    theirs_func = parsed_by_tvm(name, folder)
    summary = ImportSummary()
    imported = from_tvm(theirs_func, summary=summary)
    assert not summary.opaque, str(summary)
    assert ir.first_difference(imported, parsed_here(name)) is None
    assert ir.structural_hash(imported) == ir.structural_hash(parsed_here(name))
    assert ir.load_json(ir.save_json(imported)) is not None


def test_the_compared_programs_use_every_node():
    assert len(PROGRAMS) >= 10
    found = set()
    for name in [*EXAMPLES, *PROGRAMS]:
        if not (IS_027 and name in REJECTED_BY_027):
            ir.post_order_visit(parsed_here(name), lambda x: found.add(type(x)))
    # Opaque stands for what TVM has and we don't, so no source gives one
    assert {*functor.EXPR_NODES, *functor.STMT_NODES} - found == {ir.Opaque}
    assert set(functor.OTHER_NODES) - found == set()


# -- what an import keeps ---------------------------------------------------------------------------------------------


@T.prim_func
def small(A: T.Buffer((64,), "float32"), n: T.int32):
    T.device_entry()
    tx = T.thread_id([32])
    S = T.alloc_shared((64,), "float32")
    V = S.view(2, 32)
    for i in range(2):
        V[i, tx] = A[i * 32 + tx] * 2.0
    if tx < n:
        A[tx] = V[0, tx] + V[1, tx]


def uses(root, cls):
    found = []
    ir.post_order_visit(root, lambda x: found.append(x) if isinstance(x, cls) else None)
    return found


def test_parameters_become_handles_with_buffers():
    func = from_tvm(small)
    assert [p.name for p in func.params] == ["A_handle", "n"] and func.name == "small" and func.ret_type is None
    buffer = func.buffer_map[func.params[0]]
    assert buffer.name == "A" and buffer.const_shape() == (64,) and buffer.scope == "global"
    assert all(load.buffer is buffer for load in uses(func, ir.BufferLoad) if load.buffer.name == "A")


def test_one_buffer_object_and_a_view_shares_its_pointer():
    func = from_tvm(small)
    alloc, view = uses(func, ir.AllocBuffer)[0].buffer, uses(func, ir.DeclBuffer)[0]
    assert view.buffer.data is alloc.data and view.data is alloc.data
    assert {id(s.buffer) for s in uses(func, ir.BufferStore) if s.buffer.name == "V"} == {id(view.buffer)}


def test_variables_keep_their_identity():
    func = from_tvm(small)
    defined = {v for s in uses(func, ir.ScopeIdDef) for v in s.def_ids} | {f.loop_var for f in uses(func, ir.For)}
    used = {v for v in uses(func, ir.Var) if v.dtype == "int32"}
    assert used == defined | {func.params[1]}


def test_places_in_the_source_are_kept():
    func = from_tvm(small)
    store = uses(func, ir.BufferStore)[0]
    if store.span is None:
        pytest.skip(f"TVM {tvm.__version__} gave its statements no source places")
    assert store.span.file.endswith("test_tvm_import.py") and store.span.line > 0


def test_modules_and_single_nodes():
    module = tvm.IRModule({"small": small})
    imported = from_tvm(module)
    assert list(imported.functions) == ["small"]
    assert ir.structural_equal(imported["small"], from_tvm(small))
    x = tvm.tirx.Var("x", "int32")
    sum_ = from_tvm(x * 4 + 1)
    assert isinstance(sum_, ir.Add) and isinstance(sum_.a, ir.Mul) and sum_.b == ir.const(1)
    shared = x + 1
    squared = from_tvm(shared * shared)
    assert squared.a is squared.b


def test_other_functions_of_a_module_are_kept_as_they_are():
    relax = pytest.importorskip("tvm.relax", reason="this TVM has no relax")
    host = relax.ExternFunc("host")
    summary = ImportSummary()
    imported = from_tvm(tvm.IRModule({"small": small, "host": host}), summary=summary)
    assert isinstance(imported["small"], ir.PrimFunc) and imported["host"] is not None
    assert not hasattr(type(imported["host"]), "type_key")
    assert summary.opaque.total() == 1 and "kept as it is" in str(summary)
    with pytest.raises(InteropError, match="not part of TIRx"):
        from_tvm(host)


@pytest.mark.parametrize("value", [3, "text", None, object(), [1]])
def test_what_is_no_tvm_object_is_refused(value):
    with pytest.raises(InteropError, match="is not an object of TVM"):
        from_tvm(value)


# -- opaque nodes -----------------------------------------------------------------------------------------------------


def test_an_unknown_operator_is_opaque_and_keeps_operands_and_text():
    x = tvm.tirx.Var("x", "int32")
    name = next(str(n) for n in tvm.ir.op.Op.list_op_names() if n.startswith("tirx.metal."))
    call = tvm.tirx.call_intrin("int32", name, x)
    summary = ImportSummary()
    made = from_tvm(call + x, summary=summary)
    assert isinstance(made.a, ir.Opaque) and made.dtype == "int32"
    assert made.a.foreign_type == f"ir.Call({name})" and made.a.operands[0] == (made.b,) and "x" in made.a.text
    assert summary.opaque == {f"ir.Call({name})": 1} and "is not known" in str(summary)


def test_an_opaque_statement_keeps_its_place():
    if not hasattr(tvm.tirx, "SBlock"):
        pytest.skip(f"TVM {tvm.__version__} keeps blocks outside TIRx")
    x = tvm.tirx.Var("x", "int32")
    block = tvm.tirx.SBlock([], [], [], "block", tvm.tirx.Evaluate(x))
    func = tvm.tirx.PrimFunc([x], tvm.tirx.SeqStmt([tvm.tirx.Evaluate(x), block]))
    summary = ImportSummary()
    made = from_tvm(func, summary=summary)
    inner = made.body.seq[1].value
    assert isinstance(inner, ir.Opaque) and inner.foreign_type == "tirx.SBlock"
    assert any(isinstance(o, ir.Evaluate) and o.value is made.params[0] for o in inner.operands)
    assert summary.opaque == {"tirx.SBlock": 1}


# -- layouts ----------------------------------------------------------------------------------------------------------

LAYOUTS = [
    {"kind": "tile", "shard": [[128, 64, "m"], [64, 1, "m"]], "replica": [], "offset": {}},
    {"kind": "tile", "shard": [[128, 1, "TLane"], [64, 1, "TCol"]], "replica": [[2, 64, "TLane"]], "offset": {"TCol": 5}},
    {"kind": "tile", "shard": [[8, 4, "laneid"], [4, 1, "laneid"]], "replica": [[4, 1, "warpid"]], "offset": {"m": 3}},
    {"kind": "tile", "shard": [[4, 1, "wgid"], [128, 1, "tid_in_wg"], [4, 1, "m"]], "replica": [], "offset": {}},
]


def their_tile(spec):
    iter_ = tvm.tirx.layout.Iter
    axis = tvm.tirx.layout.Axis.get
    shard, replica = ([iter_(*i) for i in spec[k]] for k in ("shard", "replica"))
    return tvm.tirx.layout.TileLayout.from_iters(shard, replica, {axis(a): o for a, o in spec["offset"].items()})


@pytest.mark.parametrize("spec", LAYOUTS, ids=str)
def test_tile_layouts(spec):
    assert ir.structural_equal(from_tvm(their_tile(spec)), from_json(spec))


@pytest.mark.parametrize("inner", [True, False])
def test_compose_layouts(inner):
    theirs_layout = tvm.tirx.layout.ComposeLayout(3, 3, 3, their_tile(LAYOUTS[0]), inner)
    made = from_tvm(theirs_layout)
    assert isinstance(made, ComposeLayout) and ir.structural_equal(made.tile, from_json(LAYOUTS[0]))
    assert (made.per_element, made.swizzle_len, made.atom_len, made.swizzle_inner) == (3, 3, 3, inner)
