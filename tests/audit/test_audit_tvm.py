"""Auditing kernels written for real TVM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm is not installed")
tvm = pytest.importorskip("tvm", reason="apache-tvm is not installed, so none of its kernels can be audited")
pytest.importorskip("tvm.tirx", reason="this apache-tvm has no TIRx")
pytest.importorskip("egglog", reason="the audit's simplifier needs egglog")

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))
from tvm.script import tirx as T  # noqa: E402
from tvm.tirx.layout import R, S, TileLayout, laneid  # noqa: E402
from tvm_oracle import EXAMPLES, PROGRAMS, parsed_by_tvm  # noqa: E402

from tirx_eq.audit import audit  # noqa: E402

overlapping = TileLayout(S[(8, 8):(4, 1)])


@T.prim_func
def faulty(A: T.Buffer((1000,), "float32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    bx = T.cta_id([32])
    tx = T.thread_id([32])
    s = T.alloc_buffer((32, 32), "float32", scope="shared")
    w = T.alloc_buffer((8, 8), "float32", scope="shared", layout=overlapping)
    w[0, 0] = 1.0
    for i in range(32):
        s[tx, i] = A[bx * 32 + (tx & 31)]
    B[bx * 32 + tx] = s[0, tx]


def test_planted_faults_are_found_in_a_tvm_function():
    result = audit(faulty)
    found = {(f.kind, f.where) for f in result.findings}
    assert ("out of bounds", "A") in found and ("layout not injective", "w") in found
    assert ("bank conflicts", "s") in found and ("operators", "index expression") in found
    assert result.name == "faulty" and result.opaque == 0


@pytest.mark.parametrize("name", [*EXAMPLES, *PROGRAMS])
def test_every_program_is_audited(name, tmp_path):
    result = audit(parsed_by_tvm(name, tmp_path))
    assert result.nodes > 10 and result.operators_after <= result.operators_before
    if name in EXAMPLES:
        assert not [f for f in result.findings if f.severity == "error"]


by_lane = TileLayout(S[(8, 4, 2) : (4 @ laneid, 1 @ laneid, 1)])
moved_copies = TileLayout(S[8 : 1 @ laneid] + R[2 : 4 @ laneid])


@T.prim_func
def retyped(A: T.Buffer((64,), "float32")):
    T.device_entry()
    t = T.thread_id([32])
    r = T.alloc_buffer((8, 4, 2), "float32", scope="local", layout=by_lane)
    v = r.view("float16")
    c = T.alloc_buffer((8,), "float32", scope="local", layout=moved_copies)
    c[0] = 1.0
    v[0, 0, 0] = T.float16(1.0)
    A[t] = 1.0


def same(a, b):
    from tvm.ir import base

    compare = getattr(base, "structural_equal", None) or tvm_ffi.structural_equal
    return bool(compare(a.canonicalize(), b.canonicalize()))


def test_what_this_tvm_gets_wrong_is_found_where_it_does():
    found = {(f.kind, f.where): f for f in audit(retyped).findings}
    wrong = same(by_lane.unpack(2), TileLayout(S[(8, 4, 2, 2) : (8 @ laneid, 2 @ laneid, 2, 1)]))
    if wrong:
        assert found["TVM fault", "v"].severity == "error" and "thread axes too" in found["TVM fault", "v"].what
    else:
        assert ("TVM fault", "v") not in found
    assert "scales neither copies" in found["TVM fault", "c"].what
    assert any("save_json" in f.what for f in found.values()) == tvm.__version__.startswith("0.27")


def test_tile_of_this_tvm_leaves_copies_where_they_were():
    outer, inner = TileLayout(S[4 : 1 @ laneid] + R[2 : 4 @ laneid]), TileLayout(S[2 : 1 @ laneid])
    assert same(inner.tile(outer, [4], [2]), moved_copies)
