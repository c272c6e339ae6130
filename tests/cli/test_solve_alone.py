"""``tirx-eq best-layout`` and ``convert``: what they print and write, exit codes, refusals."""

from __future__ import annotations

import json

from tirx_eq.script import parse_source

from .command import run

FRAGMENT = "S[(2, 8, 2, 4, 2) : (2, 4@laneid, 4, 1@laneid, 1)]"
ROWS = "S[(16, 2, 8) : (1@laneid, 16@laneid, 1)]"


def test_best_layout(capsys, monkeypatch, tmp_path):
    picture = tmp_path / "layout.svg"
    options = ("--access", "row", "--access", "column*2", "--picture", "--recheck", "-o", str(picture))
    code, out, _ = run(capsys, monkeypatch, "best-layout", "8,64", *options)
    assert code == 0 and out.startswith("128-byte swizzle: ComposeLayout(3, 3, 3")
    assert "lower bound" in out and "checked again" in out and picture.read_text().startswith("<svg")
    options = ("--dtype", "f32", "--access", "column:1", "--family", "padding", "--json")
    code, out, _ = run(capsys, monkeypatch, "best-layout", "32,32", *options)
    data = json.loads(out)
    assert code == 0 and data["label"] == "row pitch 33" and data["accesses"][0]["wavefronts"] == 1
    code, out, _ = run(capsys, monkeypatch, "best-layout", "16,16", "--registers", FRAGMENT, "--registers", ROWS, "--json")
    assert code == 0 and json.loads(out)["conflict_free"]


def test_best_layout_refusals(capsys, monkeypatch):
    for arguments, message in (
        (("8,64", "--access", "diagonal"), "unknown access"), (("8,64", "--family", "magic"), "unknown family"),
        (("eight",), "not a shape"),
    ):  # fmt: skip
        code, _, err = run(capsys, monkeypatch, "best-layout", *arguments)
        assert code == 2 and message in err


def test_convert(capsys, monkeypatch, tmp_path):
    ptx, program, picture = tmp_path / "c.ptx", tmp_path / "c.py", tmp_path / "c.svg"
    code, out, _ = run(capsys, monkeypatch, "convert", FRAGMENT, ROWS, "--dtype", "f16", "--shape", "16,16", "--simulate",
                       "--ptx", str(ptx), "--program", str(program), "-o", str(picture))  # fmt: skip
    assert code == 0 and "simulated: right" in out and "4 shuffles" in out
    assert "stmatrix" in ptx.read_text() and picture.read_text().startswith("<svg")
    assert "convert" in parse_source(program.read_text())
    options = ("--dtype", "f16", "--way", "shuffle", "--json", "--simulate")
    code, out, _ = run(capsys, monkeypatch, "convert", FRAGMENT, ROWS, *options)
    data = json.loads(out)
    assert code == 0 and data["way"] == "shuffle" and data["cost"]["shuffles"] == 4 and data["simulated"] == "right"


def test_convert_refusals(capsys, monkeypatch):
    code, _, err = run(capsys, monkeypatch, "convert", FRAGMENT, "S[(16, 2, 4) : (1@laneid, 16@laneid, 1)]", "--dtype", "f16")
    assert code == 2 and "256 elements, the destination 128" in err
    code, _, err = run(capsys, monkeypatch, "convert", FRAGMENT, ROWS, "--dtype", "f16", "--way", "registers")
    assert code == 2 and "no way exists" in err
