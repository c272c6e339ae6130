"""The commands that answer questions: simplify, rules, prove (layouts have tests of their own)."""

from __future__ import annotations

import json

import pytest

from .command import run


def test_simplify(capsys, monkeypatch):
    arguments = ("simplify", "(xor (xor x y) y)", "--var", "x=0:63", "--var", "y=0:63", "--json")
    code, out, _ = run(capsys, monkeypatch, *arguments)
    found = json.loads(out)
    assert code == 0 and found["expr"] == "x" and found["cost"] == 0 and found["cost_in"] == 2 and found["validated_by"]


def test_simplify_rows(tmp_path, capsys, monkeypatch):
    rows = [
        {"id": "a", "vars": {"x": [0, 31]}, "expr": "(and x 31)"},
        {"id": "b", "vars": {"x": [0, 7], "n": [1, 9]}, "expr": "(div x n)"},
    ]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    files = ("--jsonl", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl"))
    code, _, err = run(capsys, monkeypatch, "simplify", *files)
    assert code == 0, err
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [f["id"] for f in found] == ["a", "b"] and found[0]["expr"] == "x"
    assert all(f["cost"] <= f["cost_in"] for f in found)


def test_rules(capsys, monkeypatch):
    code, out, _ = run(capsys, monkeypatch, "rules", "--json")
    rows = json.loads(out)
    assert code == 0
    assert {"divmod", "bits", "shard", "copy", "gemm_async"} <= {r["family"] for r in rows}
    assert all(r["status"] in ("proved", "no claim", "checked per use") for r in rows)


@pytest.mark.parametrize(
    "arguments",
    [
        ("simplify", "(foo x)", "--var", "x=0:3"), ("simplify", "x"), ("simplify", "x", "--var", "x=3"),
        ("simplify",), ("simplify", "x", "--var", "x=3:1"), ("rules", "--family", "none"),
        ("simplify", "--jsonl", "no_such_file"), ("prove", "--rule", "no/such"),
    ],
)  # fmt: skip
def test_bad_input_is_explained(arguments, capsys, monkeypatch):
    code, _, err = run(capsys, monkeypatch, *arguments)
    assert code in (1, 2) and "error" in err.lower() and "Traceback" not in err
