"""Importing what apache-tvm-tirx saves as JSON; that package is needed only to check that the files are what it writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tirx_eq import ir
from tirx_eq.errors import InteropError
from tirx_eq.interop.tvm import ImportSummary, from_tvm, from_tvm_json
from tirx_eq.script import parse_source

DATA = Path(__file__).resolve().parents[1] / "data" / "tvm_tirx"

#: What the programs of newest_programs.py are in our language.
STATEMENTS = '''
from tirx_eq.script import tirx as T

@T.prim_func
def statements(A: T.Buffer((64, 4), "float32", layout=None), B: T.Buffer((64,), "float32"), n: T.int32):
    T.device_entry()
    bx = T.cta_id()
    tx = T.thread_id()
    s = T.alloc_shared((64,), layout=None)
    v = T.decl_buffer((8, 8), data=s.data, scope="shared", layout=None)
    x: T.let[T.float32] = A[tx, 0] * 2.0
    y = T.alloc_local((1,), "int32", layout=None)
    y[0] = n + 1
    for i in T.unroll(4):
        B[tx] = x + T.exp(A[tx, i]) + v[0, i]
    for i in range(2, n, 2):
        B[i] = T.Select(i < n, x, T.if_then_else(i > 2, x, 0.5))
    while y[0] < 10:
        y[0] = (y[0] & 7) + (y[0] << 2) + (~y[0] ^ (n >> 1))
        if y[0] == 4:
            break
        else:
            continue
    assert n > 0, "bad n"
    if bx > 1 and not n == tx:
        B[bx] = T.max(B[bx], T.float32(0)) + T.Cast("float32", n // 3 + n % 3)
'''


def text_of(name):
    return (DATA / f"{name}.json").read_text()


def test_statements_and_expressions():
    summary = ImportSummary()
    func = from_tvm_json(text_of("statements"), summary=summary)
    assert not summary.opaque and summary.nodes > 80
    assert ir.first_difference(func, parse_source(STATEMENTS)["statements"]) is None


def test_layouts_declarations_and_what_is_opaque():
    summary = ImportSummary()
    func = from_tvm_json(text_of("tiles"), summary=summary)
    stmts = func.body.body.seq
    by_name = {s.buffer.name: s for s in stmts if isinstance(s, (ir.AllocBuffer, ir.DeclBuffer))}
    assert repr(by_name["As"].buffer.layout) == "ComposeLayout(3, 3, 3, TileLayout(S[8192:1]))"
    assert repr(by_name["regs"].buffer.layout) == "TileLayout(S[(128, 64):(1 @ Axis.tx, 1)])"
    acc = by_name["acc"]
    assert isinstance(acc, ir.DeclBuffer) and acc.data is None and acc.buffer.scope == "tmem"
    assert acc.buffer.allocated_addr == (ir.IntImm("uint32", 0),)
    scopes = [s.definition.scope for s in stmts if isinstance(s, ir.ScopeIdDefStmt)]
    assert scopes == ["cta->thread", "cta->warp", "warp->thread"]
    assert set(summary.opaque) == {
        "ir.Call(tirx.cuda.cluster_cta_id)", "ir.Call(tirx.cuda.tile.apply)", "tirx.tensor.ScopeAttrs"
    }  # fmt: skip
    tile = next(s.value for s in stmts if isinstance(s, ir.Evaluate) and isinstance(s.value, ir.Opaque))
    (instruction, operands, _), *_ = tile.operands
    assert instruction == ir.StringImm("mov.b32") and operands[0].buffer is by_name["regs"].buffer
    assert "mov.b32" in tile.text and "regs" in tile.text


def test_variables_are_one_object_each_and_places_are_kept():
    func = from_tvm_json(text_of("statements"))
    found = {}
    ir.post_order_visit(func, lambda x: found.setdefault(x.name, []).append(x) if isinstance(x, ir.Var) else None)
    assert {k: len(v) for k, v in found.items() if k in ("bx", "tx", "x", "n")} == {"bx": 1, "tx": 1, "x": 1, "n": 1}
    bind = next(s for s in func.body.body.seq if isinstance(s, ir.Bind))
    assert bind.span is not None and bind.span.file.endswith("newest_programs.py")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("{}", "not a document of TVM nodes"),
        ('{"root_index": 5, "nodes": []}', "node 5 of 0"),
        ('{"root_index": 0, "nodes": [{"type": "relax.Function", "data": {}}]}', "not part of TIRx"),
        ('{"root_index": 0, "nodes": [{"type": "int", "data": 3}]}', "is not an object of TVM"),
    ],
)
def test_bad_documents(text, message):
    with pytest.raises(InteropError, match=message):
        from_tvm_json(text)


@pytest.mark.parametrize("change", ["missing field", "wrong reference"])
def test_a_damaged_document_is_refused_or_opaque(change):
    document = json.loads(text_of("statements"))
    for node in document["nodes"]:
        if node["type"] == "ir.While":
            if change == "missing field":
                del node["data"]["condition"]
            else:
                node["data"]["condition"] = 10**6
    with pytest.raises(InteropError):
        from_tvm_json(json.dumps(document))


def test_live_objects_and_the_stored_documents():
    pytest.importorskip("tvm_tirx", reason="apache-tvm-tirx is not installed")
    import newest_programs

    for name in ("statements", "tiles"):
        live = from_tvm(getattr(newest_programs, name))
        assert ir.first_difference(live, from_tvm_json(text_of(name))) is None
