"""``tirx-eq solve``: the report, JSON, the written kernel, and how a kernel without solution is answered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tirx_eq.cli.output import slow_progress
from tirx_eq.script import load_file
from tirx_eq.solve.erase import has_open_layouts

from .command import run

EXAMPLES = Path(__file__).parents[2] / "examples"
OPEN = """
from tirx_eq.script import tirx as Tx

@Tx.prim_func
def k(A: Tx.Buffer((32, 32), "float32"), B: Tx.Buffer((32, 32), "float32")):
    Tx.device_entry()
    tx = Tx.thread_id([32])
    tile = Tx.alloc_shared((32, 32), "float32", layout=Tx.auto{said})
    for i in Tx.serial(32):
        tile[i, tx] = A[i, tx]
    Tx.cuda.cta_sync()
    for i in Tx.serial(32):
        B[i, tx] = tile[tx, i]
"""


@pytest.fixture
def kernel(tmp_path):
    def write(said: str = "") -> str:
        path = tmp_path / "k.py"
        path.write_text(OPEN.replace("{said}", said))
        return str(path)

    return write


def test_report_shows_layouts_pictures_and_costs(kernel, capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "solve", kernel())
    assert code == 0, err
    assert "tile: 32×32 float32 in shared (line 8)" in out and "ComposeLayout(0, 5, 5" in out
    assert " 0 │ " in out and "33" in out  # a picture
    assert "1 wavefronts" in out and "× 32" in out and "not TileLayout(S[(32, 32):(32, 1)])" in out
    assert "128.0 cycles" in out and "optimal over" in out
    assert " 0 │ " not in run(capsys, monkeypatch, "solve", kernel(), "--no-pictures")[1]


def test_json_and_the_written_kernel(kernel, tmp_path, capsys, monkeypatch):
    made = tmp_path / "solved.py"
    code, out, err = run(capsys, monkeypatch, "solve", kernel(), "--json", "-o", str(made))
    assert code == 0, err
    data = json.loads(out)
    (layout,) = data["layouts"]
    assert layout["buffer"] == "tile" and layout["spec"]["kind"] == "compose" and layout["line"] == 8
    assert data["optimal"] and data["gap"] == 0 and data["bound"] == data["objective"] == 128.0
    assert data["runner_ups"] and all(a["cost"] or a["at_least"] or a["excluded"] for a in layout["alternatives"])
    assert sum(a["cycles"] * a["times"] for a in data["accesses"]) == pytest.approx(data["objective"])
    (func,) = load_file(made).values()
    assert not has_open_layouts(func)
    code, out, _ = run(capsys, monkeypatch, "run", str(made))
    assert code == 0


def test_open_kernels_compile_and_run(kernel, tmp_path, capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "compile", kernel(), "-o", str(tmp_path / "k.ptx"), "--no-ptxas")
    assert code == 0 and "layout of tile: ComposeLayout(0, 5, 5" in out, err
    code, _, err = run(capsys, monkeypatch, "run", kernel())
    assert code == 0, err


def test_erase_compares_with_the_given_layouts(capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "solve", str(EXAMPLES / "rmsnorm.py"), "--erase", "--no-pictures")
    assert code == 0 and "12.0 cycles less than the given layouts" in err, err
    code, out, err = run(capsys, monkeypatch, "solve", str(EXAMPLES / "rmsnorm.py"), "--json")
    assert code == 0 and json.loads(out)["layouts"] == []


def test_a_clash_is_told(tmp_path, capsys, monkeypatch):
    path = tmp_path / "clash.py"
    path.write_text(OPEN.replace("{said}", "(contiguous=32)").replace("B[i, tx] = tile[tx, i]", """B[i, tx] = tile[tx, i]
    Tx.cta.copy(A[:, :], view[:, :])""").replace("    for i in Tx.serial(32):\n        tile", """    view = tile.view(
        32, 32, layout=Tx.TileLayout(Tx.S[(32, 32) : (1, 32)]))
    for i in Tx.serial(32):\n        tile"""))
    code, out, err = run(capsys, monkeypatch, "solve", str(path), "--json")
    assert code == 2
    conflict = json.loads(out)["conflict"]
    assert sorted(c["constraint"] for c in conflict) == ["PartialLayout", "SharedStorage"]
    assert all(c["line"] and c["source"] and c["remedy"] and c["says"] for c in conflict)
    code, out, err = run(capsys, monkeypatch, "solve", str(path))
    assert code == 2 and "these 2 rules can't hold together" in err and "would change it" in err


def test_progress_is_told_after_a_while(capsys):
    slow_progress(1e9)("never")
    tell = slow_progress(-1.0)
    tell("call 1 of 2")
    tell("call 2 of 2")
    assert "call 1 of 2" in (told := capsys.readouterr().err) and "call 2 of 2" not in told  # at most four times a second
