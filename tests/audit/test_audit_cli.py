"""The command line of the audit: exit codes, JSON, HTML."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("egglog", reason="the audit's simplifier needs egglog")
pytest.importorskip("typer", reason="the command line needs typer")

ROOT = Path(__file__).resolve().parents[2]
FAULTY = """
from tirx_eq.script import tirx as T

@T.prim_func
def faulty(A: T.Buffer((1000,), "float32")):
    T.device_entry()
    bx = T.cta_id([4])
    tx = T.thread_id([256])
    A[bx * 256 + tx] = 1.0
"""


def run(*arguments, cwd):
    command = [sys.executable, "-c", "from tirx_eq.cli import main; main()", "audit", *map(str, arguments)]
    env = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=env)


def test_a_clean_kernel(tmp_path):
    done = run(ROOT / "examples" / "scale.py", cwd=tmp_path)
    assert done.returncode == 0 and "nothing found" in done.stdout


def test_a_faulty_kernel_as_table_json_and_html(tmp_path):
    (tmp_path / "kernel.py").write_text(FAULTY)
    done = run("kernel.py:faulty", "--html", "out.html", cwd=tmp_path)
    assert done.returncode == 1 and "out of bounds" in done.stdout and "bx=3" in done.stdout
    assert "out of bounds" in (tmp_path / "out.html").read_text()
    data = json.loads(run("kernel.py", "--json", cwd=tmp_path).stdout)
    assert data[0]["name"] == "faulty" and data[0]["findings"][0]["kind"] == "out of bounds"


def test_a_document_of_apache_tvm_tirx(tmp_path):
    done = run(ROOT / "tests" / "data" / "tvm_tirx" / "statements.json", cwd=tmp_path)
    assert done.returncode == 0 and "statements:" in done.stdout


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nowhere.py", "can't read nowhere.py"),
        ("no.such.module:f", "can't import no.such.module"),
        ("kernel.py:other", "kernel.py has no 'other'"),
        ("kernel.py:T", "not a kernel"),
        ("kernel.json", "not JSON"),
    ],
)
def test_wrong_input(tmp_path, argument, message):
    (tmp_path / "kernel.py").write_text(FAULTY)
    (tmp_path / "kernel.json").write_text("{")
    done = run(argument, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr and "Traceback" not in done.stderr
