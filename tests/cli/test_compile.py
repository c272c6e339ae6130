"""``tirx-eq compile``: what it writes and says for a right kernel, and how it answers a wrong one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tirx_eq.ptx.ptxas import find_tool

from .command import run

EXAMPLES = Path(__file__).parents[2] / "examples"
GEMM = (EXAMPLES / "gemm_single_tile.py").read_text()


@pytest.mark.parametrize("name", ["gemm_single_tile", "scale"])
def test_examples_compile(name, tmp_path, capsys, monkeypatch):
    ptx, report, html = tmp_path / "k.ptx", tmp_path / "r.json", tmp_path / "r.html"
    arguments = ("compile", str(EXAMPLES / f"{name}.py"), "-o", str(ptx), "--report", str(report), "--html", str(html))
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert code == 0, err
    data = json.loads(report.read_text())
    assert all(call["lowering"] in html.read_text() for call in data["calls"])
    assert data["ptx_instructions"] > 0 and "index expressions" in out
    assert all(c["equation"]["status"] == "equal" for c in data["calls"])
    assert all(e["cost_after"] <= e["cost_before"] and e["validated_by"] for e in data["expressions"])
    launch = json.loads(ptx.with_suffix(".json").read_text())
    assert launch["entry"] in ptx.read_text()


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_gemm_is_as_good_as_the_reference(tmp_path, capsys, monkeypatch):
    """Bars: what TVM 0.26 with nvcc 13.0 gives for a kernel of this shape."""
    report = tmp_path / "r.json"
    file = str(EXAMPLES / "gemm_single_tile.py")
    code, _, err = run(capsys, monkeypatch, "compile", file, "-o", str(tmp_path / "k.ptx"), "--report", str(report))
    assert code == 0, err
    data = json.loads(report.read_text())
    assert data["ptxas"]["spill_stores"] == data["ptxas"]["spill_loads"] == 0
    assert data["ptxas"]["registers"] <= 136
    assert data["ptx_instructions"] <= 314
    if find_tool("nvdisasm") is not None:
        assert data["ptxas"]["sass_instructions"] <= 288


def gemm_with(*changes: tuple[str, str]) -> str:
    """The GEMM example with pieces of its text replaced."""
    text = GEMM
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


#: what is wrong -> (source text, what the message must say)
BAD = {
    "syntax error": (gemm_with(("if warp_id == 0:\n        if lane_id", "if warp_id = 0:\n        if lane_id")), ["syntax"]),
    "unknown name": (gemm_with(("Tx.cta.copy(A_s", "Tx.cta.copi(A_s")), ["copi", "copy"]),
    "unknown name of the namespace": (gemm_with(("T.SMEMPool()", "T.SMEMPol()")), ["SMEMPol", "SMEMPool"]),
    "scope where it can't run": (
        gemm_with(("Tx.cta.copy(A_s[:, :], A[:, :])", "if warp_id == 0:\n        Tx.cta.copy(A_s[:, :], A[:, :])")),
        ["copy", "cta", "32 of 128 threads"],
    ),
    "tmem load at thread scope": (gemm_with(("Tx.wg.copy_async(D_wg", "Tx.copy_async(D_wg")),
                                  ["copy_async", "all 32 lanes of a warp execute tcgen05.ld"]),
    "unequal extents": (gemm_with(("Tx.cta.copy(A_s[:, :], A[:, :])", "Tx.cta.copy(A_s[0:64, :], A[:, :])")), ["64", "128"]),
    "slice out of bounds": (gemm_with(("A[:, :])", "A[0:129, :])")), ["129", "128"]),
    "layout of another size": (
        gemm_with(('B_s = pool.alloc((128, 64), "float16"', 'B_s = pool.alloc((128, 32), "float16"')), ["layout", "8192"],
    ),
    "tmem used as shared": (gemm_with(("tmem[:, :], A_s[:, :], B_s[:, :]", "tmem[:, :], tmem[:, 0:64], B_s[:, :]")),
                            ["gemm_async", "tensor memory"]),
    "M is 32": (gemm_with(("tmem[:, :], A_s[:, :], B_s[:, :]", "tmem[0:32, :], A_s[0:32, :], B_s[:, :]")), ["M is 32"]),
    "unknown variant": (gemm_with(('dispatch="tcgen05"', 'dispatch="wgmma"')), ["wgmma", "tcgen05"]),
    "variant whose conditions fail": (
        gemm_with(("Tx.copy(D[tid, :], D16[:])", 'Tx.copy(D[tid, :], D16[:], dispatch="memory")')),
        ["memory", "registers", "source in memory"],
    ),
    "target without tensor memory": (GEMM, ["sm_120a", "tcgen05"]),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_explained(what, tmp_path, capsys, monkeypatch):
    text, wanted = BAD[what]
    file = tmp_path / "kernel.py"
    file.write_text(text)
    target = "sm_120a" if "target" in what else "sm_100a"
    code, out, err = run(
        capsys, monkeypatch, "compile", str(file), "--target", target, "-o", str(tmp_path / "k.ptx"), "--no-ptxas"
    )
    assert code == 2, (out, err)
    assert "Traceback" not in err and not (tmp_path / "k.ptx").exists()
    for part in wanted:
        assert part in err, err
    if "target" not in what:
        assert "kernel.py:" in err, f"the message doesn't say where: {err}"


@pytest.mark.parametrize(("key", "value", "expected"), [("thread_reduce", 3, 0), ("colour", 3, 2)])
def test_a_config_key_that_nothing_reads(key, value, expected, tmp_path, capsys, monkeypatch):
    """A hint of TVM's is a warning, anything else a mistake."""
    file = tmp_path / "kernel.py"
    commit = "\n            T.ptx.tcgen05.commit"
    file.write_text(gemm_with((f"cta_group=1){commit}", f"cta_group=1, {key}={value}){commit}")))
    code, _, err = run(capsys, monkeypatch, "compile", str(file), "-o", str(tmp_path / "k.ptx"), "--no-ptxas")
    assert code == expected
    assert f"'{key}'" in err and ("warning" in err) is (expected == 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("compile", "no_such_file.py"), "no_such_file.py"), (("compile",), "FILE"), (("compil",), "compil")],
)
def test_wrong_command_line(arguments, says, capsys, monkeypatch):
    code, _, err = run(capsys, monkeypatch, *arguments)
    assert code == 2 and says.lower() in err.lower() and "Traceback" not in err


def test_a_kernel_that_the_file_does_not_have(tmp_path, capsys, monkeypatch):
    code, _, err = run(capsys, monkeypatch, "compile", str(EXAMPLES / "scale.py") + ":scaled", "-o", str(tmp_path / "k"))
    assert code == 2 and "scaled" in err and "scale" in err
