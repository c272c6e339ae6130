"""The audit finds planted faults, with evidence, and says nothing of kernels that have none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("egglog", reason="the audit's simplifier needs egglog")

from tirx_eq.audit import audit
from tirx_eq.audit.report import html_report, text_report
from tirx_eq.script import parse_source

HEADER = """from tirx_eq.script import tirx as T
from tirx_eq.script.tirx import tile as Tx
from tirx_eq.layout import Axis, S, R, TileLayout, ComposeLayout, SwizzleLayout
from tirx_eq.layout import TLane, TCol, warpid, laneid, wgid, wid_in_wg, bx, tx
@T.prim_func
"""


def audited(text):
    return audit(next(iter(parse_source(HEADER + text).values())))


def kinds(result, severity=None):
    return [f.kind for f in result.findings if severity in (None, f.severity)]


def test_a_clean_kernel_has_no_findings():
    result = audited("""
def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([256])
    s = T.alloc_shared((256,), "float32")
    s[tx] = A[bx * 256 + tx]
    B[bx * 256 + tx] = s[tx]
""")
    assert result.findings == [] and result.accesses == 4 and result.unproved == 0
    assert result.operators_before == result.operators_after > 0


def test_out_of_bounds_with_a_point():
    result = audited("""
def f(A: T.Buffer((1000,), "float32"), B: T.Buffer((1024,), "float32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([256])
    B[bx * 256 + tx] = A[bx * 256 + tx]
""")
    (finding,) = result.findings
    assert (finding.kind, finding.severity, finding.where) == ("out of bounds", "error", "A")
    point = dict(p.split("=") for p in finding.evidence.split(", "))
    assert int(point["bx"]) * 256 + int(point["tx"]) >= 1000
    assert finding.span is not None


def test_a_guard_is_believed_and_a_guard_on_memory_silences():
    guarded = audited("""
def f(A: T.Buffer((1000,), "float32"), I: T.Buffer((1,), "int32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([256])
    if bx * 256 + tx < 1000:
        A[bx * 256 + tx] = 1.0
    if I[0] > 0:
        A[bx * 256 + tx] = 2.0
""")
    assert "out of bounds" not in kinds(guarded) and guarded.unproved == 1


def test_a_region_beyond_its_buffer():
    result = audited("""
def f(A: T.Buffer((64, 8), "float32"), B: T.Buffer((64, 8), "float32")):
    T.device_entry()
    tx = T.thread_id([64])
    for i in range(8):
        Tx.copy(A[i * 8 : i * 8 + 16, 0:8], B[i * 8 : i * 8 + 16, 0:8])
""")
    assert kinds(result, "error") == ["out of bounds", "out of bounds"]
    assert all("i=7" in f.evidence for f in result.findings if f.severity == "error")


def test_bank_conflicts_and_the_swizzle_that_removes_them():
    text = """
def f(A: T.Buffer((32, 32), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    s = T.alloc_buffer((32, 32), "float32", scope="shared"{layout})
    for i in range(32):
        s[i, tx] = A[i, tx]
    for i in range(32):
        A[i, tx] = s[tx, i]
"""
    result = audited(text.replace("{layout}", ""))
    (finding,) = [f for f in result.findings if f.kind == "bank conflicts"]
    assert "32 wavefronts instead of 1" in finding.what and "bank 0" in finding.evidence
    layout = finding.remedy.removeprefix("layout=")
    again = audited(text.replace("{layout}", f", layout={layout}"))
    assert "bank conflicts" not in kinds(again)


def test_an_address_is_no_access():
    result = audited("""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    s = T.alloc_shared((128,), "float32")
    T.ptx.cp_async(s.ptr_to([tx * 4]), A.ptr_to([tx * 2]), 16)
    T.evaluate(T.address_of(s[tx * 4 + 4]))
    T.evaluate(T.address_of(s[tx * 4 + 5]))
""")
    assert kinds(result) == ["out of bounds"] and "at 129" in result.findings[0].what


def test_layouts_that_overlap():
    result = audited("""
def f(A: T.Buffer((8, 8), "float32")):
    T.device_entry()
    tx = T.thread_id([8])
    s = T.alloc_buffer((8, 8), "float32", scope="shared", layout=TileLayout(S[(8, 8):(4, 1)]))
    s[tx, 0] = A[tx, 0]
""")
    (finding,) = [f for f in result.findings if f.severity == "error"]
    assert finding.kind == "layout not injective" and finding.where == "s" and finding.evidence


def test_a_view_beyond_its_storage():
    result = audited("""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    s = T.alloc_shared((64,), "float32")
    v = T.decl_buffer((32,), "float32", data=s.data, elem_offset=48, scope="shared")
    A[tx] = v[tx]
""")
    assert kinds(result, "warning") == ["view beyond its storage"]
    assert "byte 320 of 256" in result.findings[0].what


def test_an_unaligned_swizzle_under_the_tensor_core():
    result = audited("""
def f(D: T.Buffer((128, 128), "float32")):
    T.device_entry()
    tx = T.thread_id([128])
    pool = T.alloc_buffer((40000,), "uint8", scope="shared.dyn")
    A = T.decl_buffer((128, 64), "float16", data=pool.data, elem_offset=64, scope="shared.dyn",
                      layout=ComposeLayout(3, 3, 3, TileLayout(S[8192:1])))
    C = T.decl_buffer((128, 128), "float32", scope="tmem", allocated_addr=0,
                      layout=TileLayout(S[(128, 128):(1 @ TLane, 1 @ TCol)]))
    Tx.gemm_async(C[:, :], A[:, :], A[:, :], accum=False, dispatch="tcgen05", cta_group=1)
""")
    (finding,) = [f for f in result.findings if f.kind == "unaligned swizzle"]
    assert finding.severity == "error" and "align=1024" in finding.remedy


@pytest.mark.parametrize(
    ("layout", "fault"),
    [
        ("TileLayout(S[(4, 32):(1 @ warpid, 1 @ laneid)] + 1 @ warpid + 5 @ laneid)", "loses their offsets"),
        ("TileLayout(S[(2, 4, 16):(1 @ wgid, 1 @ wid_in_wg, 1)])", "multiplies wgid by 4"),
        ("TileLayout(S[(2, 64):(1 @ bx, 1 @ tx)])", "doesn't end"),
    ],
)
def test_faults_of_tvm_on_layouts(layout, fault):
    result = audited(f"""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    t = T.thread_id([64])
    r = T.alloc_buffer((128,), "float32", scope="local", layout={layout})
    A[t] = 1.0
""")
    assert [f.what for f in result.findings if f.kind == "TVM fault" and fault in f.what]


def test_the_fault_of_tvm_on_tmem_addresses():
    result = audited("""
def f(A: T.Buffer((64,), "float32")):
    T.device_entry()
    t = T.thread_id([64])
    addr = T.alloc_shared((1,), "uint32")
    C = T.decl_buffer((128, 64), "float32", scope="tmem", allocated_addr=addr[0],
                      layout=TileLayout(S[(128, 64):(1 @ TLane, 1 @ TCol)]))
    A[t] = 1.0
""")
    assert "MakePackedAPI" in result.findings[0].what


def test_static_shared_memory_before_a_swizzled_pool():
    text = """
def f(A: T.Buffer((128, 64), "float16")):
    T.device_entry()
    t = T.thread_id([128])
    pool = T.SMEMPool()
    {first}
    As = pool.alloc((128, 64), "float16", layout=ComposeLayout(3, 3, 3, TileLayout(S[8192:1])))
    {last}
    pool.commit()
    addr[0] = T.uint32(0)
    As[t, 0] = A[t, 0]
"""
    static = audited(text.format(first='addr = T.alloc_shared((1,), "uint32")', last=""))
    assert [f.where for f in static.findings if "dynamic shared memory starts" in f.what] == ["As"]
    pooled = audited(text.format(first="", last='addr = pool.alloc((1,), "uint32")'))
    assert not [f for f in pooled.findings if f.kind == "TVM fault"]


def test_operators_that_can_go_are_hints_with_proofs():
    result = audited("""
def f(A: T.Buffer((4096,), "float32")):
    T.device_entry()
    tx = T.thread_id([32])
    for i in range(8):
        A[(i * 32 + (tx & 31)) // 32 * 32 + tx] = 1.0
""")
    (finding,) = result.findings
    assert finding.kind == "operators" and finding.severity == "hint" and finding.evidence.startswith("proved by")
    assert result.operators_after < result.operators_before


def test_a_variant_that_is_not_the_cheapest():
    text = """
def f(A: T.Buffer((64, 8), "float32")):
    T.device_entry()
    bx = T.cta_id([1])
    tid = T.thread_id([64])
    a = T.alloc_local((8,), "float32")
    b = T.alloc_local((8,), "float32")
    Tx.copy(a[:], A[tid, :])
    Tx.copy(b[:], A[tid, :])
    Tx.add(a[:], a[:], b[:], dispatch="{variant}")
    Tx.copy(A[tid, :], a[:])
"""
    (finding,) = audited(text.replace("{variant}", "scalar")).findings
    assert finding.kind == "tile variant" and "MapPacked" in finding.what and finding.remedy == "leave out dispatch="
    assert audited(text.replace("{variant}", "packed")).findings == []
    unknown = audited(text.replace("{variant}", "nothing"))
    assert kinds(unknown) == ["tile call"] and "no variant 'nothing'" in unknown.findings[0].what


def test_reports(tmp_path: Path):
    result = audited("""
def f(A: T.Buffer((8, 8), "float32")):
    T.device_entry()
    tx = T.thread_id([16])
    s = T.alloc_buffer((8, 8), "float32", scope="shared", layout=TileLayout(S[(8, 8):(4, 1)]))
    s[tx, 0] = A[tx & 15, 0] * 2.0
""")
    data = json.loads(json.dumps(result.to_json()))
    assert {f["kind"] for f in data["findings"]} >= {"out of bounds", "layout not injective", "operators"}
    page = html_report([result])
    assert page.startswith("<!doctype html>") and "<svg" in page and "layout not injective" in page
    assert "http" not in page.replace("http://www.w3.org", "")  # one file, nothing fetched
    text = text_report(result)
    assert "out of bounds" in text and "f:" in text
