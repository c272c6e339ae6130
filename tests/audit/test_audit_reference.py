"""What TVM is known to get wrong is found on the smallest program that shows it, and not on its right counterpart."""

from __future__ import annotations

import pytest

pytest.importorskip("egglog", reason="the audit's simplifier needs egglog")

from tests.audit.test_audit import audited, kinds
from tirx_eq.audit.views import _form, pack_of_tvm, unpack_of_tvm
from tirx_eq.errors import LayoutError
from tirx_eq.layout import from_json

PROGRAM = """
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    t = T.thread_id([32])
    {body}
    A[t] = 1.0
"""
RETYPED = """
    r = T.alloc_buffer((8, 4, {whole}), "{dtype}", scope="local",
                       layout=TileLayout(S[(8, 4, {whole}):(4 @ laneid, 1 @ laneid, 1)]{more}))
    v = T.decl_buffer((8, 4, {seen}), "{other}", data=r.data, scope="local", layout=TileLayout({layout}))
"""


def faults(body):
    return audited(PROGRAM.replace("{body}", body.strip())).findings


@pytest.mark.parametrize("whole,dtype,seen,other,more,wrong,right", [
    (2, "float32", 4, "float16", "", "S[(8, 4, 2, 2):(8 @ laneid, 2 @ laneid, 2, 1)]",
     "S[(8, 4, 2, 2):(4 @ laneid, 1 @ laneid, 2, 1)]"),
    (2, "float32", 4, "float16", " + 6", "S[(8, 4, 2, 2):(8 @ laneid, 2 @ laneid, 2, 1)] + 6",
     "S[(8, 4, 4):(4 @ laneid, 1 @ laneid, 1)] + 12"),
    (4, "float16", 2, "float32", "", "S[(8, 4, 2):(2 @ laneid, 0 @ laneid, 1)]", "S[(8, 4, 2):(4 @ laneid, 1 @ laneid, 1)]"),
])
def test_unpack_and_pack_of_thread_axes(whole, dtype, seen, other, more, wrong, right):
    text = RETYPED.format(whole=whole, dtype=dtype, seen=seen, other=other, more=more, layout="{layout}")
    (finding,) = [f for f in faults(text.replace("{layout}", wrong)) if f.where == "v" and "layout not" not in f.kind]
    assert (finding.kind, finding.severity) == ("TVM fault", "error") and "thread axes too" in finding.what
    assert "laneid=" in finding.evidence and ", not at" in finding.evidence
    assert not [f for f in faults(text.replace("{layout}", right)) if f.where == "v"]
    again = faults(text.replace("TileLayout({layout})", finding.remedy.removeprefix("layout=")))
    assert not [f for f in again if f.where == "v"]


def test_a_view_that_is_wrong_in_another_way():
    text = RETYPED.format(whole=2, dtype="float32", seen=4, other="float16", more="",
                          layout="S[(8, 4, 4):(1 @ laneid, 8 @ laneid, 1)]")
    (finding,) = [f for f in faults(text) if f.where == "v"]
    assert finding.kind == "re-typed view" and "other elements of 'r'" in finding.what


def test_what_tvm_made_of_the_reference_layouts():
    """The models of TVM's unpack and pack agree with 0.27 on the recorded layouts."""
    import json
    from pathlib import Path

    rows = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "layouts.jsonl").read_text().splitlines()]
    agreed = canonical = 0
    for row in rows:
        try:
            layout = from_json(row["spec"])
        except LayoutError:                         # a swizzle that TVM admits though it is none
            continue
        seen = row["v27"]
        if "ok" in seen["canonical"]:
            assert _form(layout) == _form(from_json(seen["canonical"]["ok"])), row["id"]
            canonical += 1
        if row["spec"]["kind"] != "tile":
            continue
        for name, ours in (("unpack2", unpack_of_tvm), ("pack2", pack_of_tvm)):
            if "ok" in seen[name]:
                assert _form(ours(layout, 2)) == _form(from_json(seen[name]["ok"])), (row["id"], name)
                agreed += 1
    assert agreed > 150 and canonical > 200


def test_copies_that_tile_left_unscaled():
    text = 'r = T.alloc_buffer((8,), "float32", scope="local", layout=TileLayout(S[8:1 @ laneid] + R[2:{stride} @ laneid]))'
    found = [f for f in faults(text.replace("{stride}", "4")) if f.kind == "TVM fault"]
    assert len(found) == 1 and "scales neither copies" in found[0].what and "R[2:8" in found[0].remedy
    assert faults(text.replace("{stride}", "8")) == []


def test_an_atom_that_tvm_does_not_find_under_copies():
    text = """
    r = T.alloc_buffer((8, 2), "float32", scope="local",
                       layout=TileLayout(S[(8, 2):(2 @ laneid, 1 @ laneid)] + R[2:16 @ laneid]))
    Tx.warp.fill(r[:, :], 0.0)"""
    found = [f for f in faults(text) if "is_tile_inner" in f.what]
    assert [f.where for f in found] == ["r"]
    assert not [f for f in faults(text.replace(" + R[2:16 @ laneid]", "")) if "is_tile_inner" in f.what]


@pytest.mark.parametrize("one,other", [
    ("S[8:1] + R[(2, 2):(8 @ tx, 16 @ tx)]", "S[8:1] + R[4:8 @ tx]"),                # split and fused copies
    ("S[8:1] + R[1:8 @ tx]", "S[8:1]"),                                              # one copy
    ("S[8:1] + R[2:0 @ tx]", "S[8:1]"),                                              # copies in one place
    ("S[8:1] + R[2:-4 @ tx] + 4 @ tx", "S[8:1] + R[2:4 @ tx]"),                      # downwards and moved
])
def test_equal_layouts_with_two_canonical_forms(one, other):
    text = """
    a = T.alloc_buffer((8,), "float32", scope="local", layout=TileLayout({one}))
    b = T.alloc_buffer((8,), "float32", scope="local", layout=TileLayout({other}))
    Tx.copy(a[:], b[:])"""
    found = [f for f in faults(text.replace("{one}", one).replace("{other}", other)) if f.kind == "equal layouts"]
    assert [f.where for f in found] == ["a, b"] and found[0].evidence.startswith("equal by")
    assert not [f for f in faults(text.replace("{one}", one).replace("{other}", one)) if f.kind == "equal layouts"]


@pytest.mark.parametrize("index", [
    "tx & 31", "tx ^ 0", "0 ^ tx", "tx | 0", "(tx << 2) >> 2", "(tx ^ 5) ^ 5", "(tx * 8 + 3) >> 3", "(6 * tx) // 6",
    "tx + ((tx * 256) & 7)", "tx + (0 ^ (((tx * 256) & 7) << 3))", "tx + ((tx * 2) & 1) * 8", "(12 * tx + 4) // 12",
])
def test_operators_that_tvm_leaves(index):
    result = audited(f"""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    A[{index}] = 1.0
""")
    assert "operators" in kinds(result) and result.operators_after == 0


def test_a_choice_by_priority_that_is_not_the_cheapest():
    """TVM takes 'packed_add_sum' for sums in registers whatever they cost."""
    result = audited("""
def f(A: T.Buffer((64, 3), "float32"), B: T.Buffer((64,), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    tid = T.thread_id([64])
    a = T.alloc_local((3,), "float32")
    s = T.alloc_local((1,), "float32")
    Tx.copy(a[:], A[tid, :])
    Tx.sum(s[:], a[:])
    B[tid] = s[0]
""")
    (finding,) = result.findings
    assert finding.kind == "tile variant" and "TVM takes 'packed_add_sum' by its priority" in finding.what
    assert finding.remedy == "dispatch='serial'"


def test_configuration_that_nothing_reads():
    text = """
def f(A: T.Buffer((64, 8), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    tid = T.thread_id([64])
    a = T.alloc_local((8,), "float32")
    Tx.copy(a[:], A[tid, :]{config})
    Tx.copy(A[tid, :], a[:])
"""
    (finding,) = audited(text.replace("{config}", ", vec_width=4")).findings
    assert (finding.kind, finding.where) == ("configuration", "copy") and "'vec_width'" in finding.what
    assert audited(text.replace("{config}", "")).findings == []


def test_an_operand_without_a_descriptor():
    text = """
def f(D: T.Buffer((128, 128), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    tx = T.thread_id([128])
    A = T.alloc_buffer((128, 64), "float16", scope="shared", layout={layout}, align=1024)
    C = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=0,
                      layout=TileLayout(S[(128, 128):(1 @ TLane, 1 @ TCol)]))
    if tx == 0:
        Tx.gemm_async(C[:, :], A[:, :], A[:, :], accum=False, dispatch="tcgen05", cta_group=1)
"""
    good = "ComposeLayout(3, 3, 3, TileLayout(S[(128, 64):(64, 1)]))"
    for layout in ("TileLayout(S[(128, 64):(65, 1)])", "ComposeLayout(2, 3, 3, TileLayout(S[(128, 64):(64, 1)]))"):
        found = [f for f in audited(text.replace("{layout}", layout)).findings if f.kind == "descriptor"]
        assert len(found) == 1 and found[0].where == "gemm_async" and found[0].evidence
    assert "descriptor" not in kinds(audited(text.replace("{layout}", good)))
