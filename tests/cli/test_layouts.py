"""The layout commands: what they print, their exit codes, and their refusals."""

from __future__ import annotations

import json
import random

import pytest
import typer
from typer.testing import CliRunner

from tirx_eq.cli import layouts
from tirx_eq.errors import LayoutError, ParseError

app = typer.Typer()
layouts.add(app)
runner = CliRunner()


def call(*args: str, code: int = 0) -> str:
    result = runner.invoke(app, list(args), catch_exceptions=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def test_equal_across_notations():
    assert call("equal", "cute:(8,(4,2)):(4,(1,32))", "tirx:S[(8, 2, 4) : (4, 32, 1)]").startswith("equal")
    assert "first difference" in call("equal", "S[(8, 8) : (8, 1)]", "S[(8, 8) : (1, 8)]", "--shape", "8,8", code=1)
    found = json.loads(call("equal", "SwizzleLayout(3, 3, 3)", "mma_shared_layout('f16', 3, (128, 64))", "--json"))
    assert found["verdict"] == "equal"


def test_equal_rows(tmp_path):
    rng = random.Random(1)
    source = tmp_path / "in.jsonl"
    rows = []
    for k in range(50):
        e = rng.choice([2, 4, 8])
        a = {"kind": "tile", "shard": [[e, 8, "m"], [8, 1, "m"]], "replica": [], "offset": {}}
        b = {"kind": "tile", "shard": [[8 * e, 1 if k % 2 else 2, "m"]], "replica": [], "offset": {}}
        rows.append({"id": k, "a": a, "b": b})
    source.write_text("".join(json.dumps(r) + "\n" for r in rows))
    call("equal", "--jsonl", str(source), "-o", str(tmp_path / "out.jsonl"))
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [f["id"] for f in found] == list(range(50))
    assert all(f["verdict"] == ("equal" if f["id"] % 2 else "different") for f in found)
    assert all("counterexample" in f for f in found[::2])


def test_conflicts():
    out = call("conflicts", "S[(64, 64) : (64, 1)]", "--shape", "64,64", "--best", code=1)
    assert "32 wavefronts, 4 without conflicts: 8-way conflicts" in out and "ComposeLayout(3, 3, 3" in out
    found = json.loads(call("conflicts", "mma_shared_layout('f16', '128B', (64, 64))", "--shape", "64,64", "--json"))
    assert found["wavefronts"] == found["ideal"] == 4


def test_show(tmp_path):
    assert "0 │ 0 1" in call("show", "S[(2, 2) : (2, 1)]", "--shape", "2,2")
    assert "first difference" in call("show", "S[(2, 2) : (2, 1)]", "S[(2, 2) : (1, 2)]", "--shape", "2,2")
    call("show", "SwizzleLayout(3, 3, 3)", "-o", str(tmp_path / "x.svg"))
    assert (tmp_path / "x.svg").read_text().startswith("<svg")
    facts = json.loads(call("show", "S[(4, 4) : (4, 1)] + R[2 : 16]", "--json"))[0]
    assert facts["canonical"] == "TileLayout(S[16:1] + R[2:16])" and facts["bounds"] == {"m": [0, 31]} and facts["injective"]


def test_refusals(tmp_path):
    with pytest.raises(ParseError, match="give either two layouts or --jsonl"):
        call("equal", "S[4:1]")
    with pytest.raises(ParseError, match="'8,a' is not a shape"):
        call("equal", "S[4:1]", "S[4:1]", "--shape", "8,a")
    with pytest.raises(ParseError, match="unknown access 'diagonal'"):
        call("conflicts", "S[64:1]", "--access", "diagonal")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"a": "S[4:1]", "b": {"kind": "tile", "shard": [[0, 1, "m"]]}}\n')
    with pytest.raises(LayoutError, match=r"bad\.jsonl:1: the extent of an iter must be at least 1"):
        call("equal", "--jsonl", str(bad))
    with pytest.raises(LayoutError, match="has 12 elements, a layout 8"):
        call("equal", "S[8:1]", "S[8:1]", "--shape", "3,4")
