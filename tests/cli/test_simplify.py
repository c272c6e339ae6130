"""``tirx-eq simplify``: rows in chunks, bad rows, the steps and the picture of one expression, and what gets loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from tirx_eq.cli import simplify as command
from tirx_eq.cli.output import infix
from tirx_eq.egraph import batch
from tirx_eq.egraph.engine import EngineError
from tirx_eq.ir.index import evaluate, parse

from .command import run

ROOT = Path(__file__).parents[2]
GOOD = {"id": "good", "vars": {"x": [0, 31]}, "expr": "(and x 31)"}


def corpus(count):
    """Rows whose results differ from each other, so that an order can be wrong."""
    return [
        {"id": i, "vars": {"x": [0, 7], "y": [0, i % 5]}, "expr": f"(add (div (add (mul x 8) y) 8) {i})"} for i in range(count)
    ]


def write(folder, rows):
    """A file of rows; text goes in as it is."""
    path = folder / "in.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in rows))
    return path


def read(text):
    return [json.loads(line) for line in text.splitlines()]


def test_rows_keep_their_order_over_chunks(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "CHUNK", 7)
    rows = corpus(30)
    code, out, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(write(tmp_path, rows)))
    found = read(out)
    assert code == 0 and err == ""
    assert [f["id"] for f in found] == list(range(30))
    for row, f in zip(rows, found):
        assert f["validated_by"] and f["cost_after"] < f["cost_before"]
        assert (f["cost_before"], f["cost_after"]) == (f["cost_in"], f["cost"])
        before, after = parse(row["expr"]), parse(f["expr"])
        (x0, x1), (y0, y1) = row["vars"].values()
        for x, y in product(range(x0, x1 + 1), range(y0, y1 + 1)):
            assert evaluate(before, {"x": x, "y": y}) == evaluate(after, {"x": x, "y": y})


def test_a_chunk_is_written_before_the_next_is_worked_on(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "CHUNK", 4)
    source, target = write(tmp_path, corpus(10)), tmp_path / "out.jsonl"
    seen, real = [], command.simplify_chunk

    def watched(lines, optimal):
        seen.append(len(target.read_text().splitlines()))
        return real(lines, optimal)

    monkeypatch.setattr(command, "simplify_chunk", watched)
    code, out, _ = run(capsys, monkeypatch, "simplify", "--jsonl", str(source), "-o", str(target))
    assert code == 0 and out == "" and seen == [0, 4, 8]
    assert [f["id"] for f in read(target.read_text())] == list(range(10))


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{not json", "not JSON"), ("[1]", "JSON object"), ("[" * 100_000, "nested too deep"),
        ({"id": "bad", "expr": "x"}, "no 'vars'"), ({"id": "bad", "vars": {"x": [0, 1]}}, "no 'expr'"),
        ({"id": "bad", "vars": [], "expr": "x"}, "'vars' must be"), ({"id": "bad", "vars": {}, "expr": 3}, "'expr' must be"),
        ({"id": "bad", "vars": {"x": [0]}, "expr": "x"}, "two integers"),
        ({"id": "bad", "vars": {"x": [0, 1.5]}, "expr": "x"}, "two integers"),
        ({"id": "bad", "vars": {"x": [False, 3]}, "expr": "x"}, "two integers"),
        ({"id": "bad", "vars": {"x": [None, 3]}, "expr": "x"}, "two integers"),
        ({"id": "bad", "vars": {"x": [3, 0]}, "expr": "x"}, "'x'"),
        ({"id": "bad", "vars": {}, "expr": "x"}, "'x' has no range"),
        ({"id": "bad", "vars": {"x": [0, 1]}, "expr": "(div x 0)"}, "zero"),
        ({"id": "bad", "vars": {"x": [0, 1]}, "expr": "(foo x)"}, "'foo'"),
    ],
)  # fmt: skip
def test_a_bad_row_is_an_error_of_its_own(bad, message, tmp_path, capsys, monkeypatch):
    source = write(tmp_path, [GOOD, "", bad, GOOD])
    code, out, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(source))
    first, wrong, last = read(out)
    assert code == 2 and "1 bad row in" in err and "Traceback" not in err
    assert first["expr"] == last["expr"] == "x" and "error" not in first
    assert message in wrong["error"] and wrong["line"] == 3 and "expr" not in wrong
    assert wrong.get("id") == ("bad" if isinstance(bad, dict) else None)


def test_bytes_that_are_no_text(tmp_path, capsys, monkeypatch):
    source = tmp_path / "in.jsonl"
    source.write_bytes(b'{"expr": "\xff"}\n' + json.dumps(GOOD).encode())
    code, out, _ = run(capsys, monkeypatch, "simplify", "--jsonl", str(source))
    wrong, good = read(out)
    assert code == 2 and "UTF-8" in wrong["error"] and wrong["line"] == 1 and good["expr"] == "x"


def test_a_failing_e_graph_costs_only_the_row_at_fault(tmp_path, capsys, monkeypatch):
    real = batch.simplify_rows

    def failing(rows, **options):
        if any("poison" in ranges for _, ranges in rows):
            raise EngineError("egglog failed")
        return real(rows, **options)

    monkeypatch.setattr(batch, "simplify_rows", failing)
    poison = {"vars": {"poison": [0, 3]}, "expr": "poison"}
    code, out, _ = run(capsys, monkeypatch, "simplify", "--jsonl", str(write(tmp_path, [GOOD, poison, GOOD])))
    found = read(out)
    assert code == 2 and [("error" in f) for f in found] == [False, True, False]
    assert found[1]["error"] == "egglog failed" and found[1]["line"] == 2 and found[2]["expr"] == "x"


def test_the_bar_is_for_terminals(tmp_path, capsys, monkeypatch):
    source = write(tmp_path, corpus(3))
    arguments = ("simplify", "--jsonl", str(source), "-o", str(tmp_path / "out.jsonl"))
    assert run(capsys, monkeypatch, *arguments) == (0, "", "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert code == 0 and out == "" and "3 rows" in err
    assert len(read((tmp_path / "out.jsonl").read_text())) == 3


def test_the_bar_leaves_standard_output_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(write(tmp_path, corpus(3))))
    assert code == 0 and len(read(out)) == 3 and "3 rows" in err


def test_output_over_the_input_is_refused(tmp_path, capsys, monkeypatch):
    source = write(tmp_path, [GOOD])
    before = source.read_text()
    code, _, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(source), "-o", str(source))
    assert code == 2 and "is the input itself" in err and source.read_text() == before


def test_missing_input_makes_no_output(tmp_path, capsys, monkeypatch):
    target = tmp_path / "out.jsonl"
    code, _, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(tmp_path / "none"), "-o", str(target))
    assert code == 2 and "can't read" in err and not target.exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told(tmp_path, capsys, monkeypatch):
    code, _, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(write(tmp_path, [GOOD])), "-o", "/dev/full")
    assert code == 2 and "can't write /dev/full" in err


def test_steps(capsys, monkeypatch):
    arguments = ("simplify", "(add (min x y) (sub x (min x y)))", "--var", "x=0:63", "--var", "y=0:63", "--steps")
    code, out, _ = run(capsys, monkeypatch, *arguments)
    assert code == 0 and "= x" in out and "steps: the linear normal form, no rule was needed" in out

    arguments = ("simplify", "(xor (mul x y) (xor (mul y x) z))", *"--var x=0:5 --var y=0:5 --var z=0:9 --steps".split())
    code, out, _ = run(capsys, monkeypatch, *arguments)
    assert code == 0 and "= z" in out
    code, out, _ = run(capsys, monkeypatch, "simplify", "x", "--var", "x=0:5", "--steps")
    assert code == 0 and "nothing cheaper" in out


def test_steps_show_what_rules_say(capsys, monkeypatch):
    """Exclusive or of words wider than their mask is no part of the normal form; the trace says which rules found it."""
    expr = "(add (div (add (mul x 6) y) 6) (xor (and x 63) (xor y 3)))"
    arguments = ("simplify", expr, "--var", "x=0:63", "--var", "y=0:5", "--steps")
    code, out, _ = run(capsys, monkeypatch, *arguments)
    lines = [line.split(None, 1) for line in out.splitlines() if line.startswith("  ") and "/" in line.split()[0]]
    assert code == 0 and lines, out
    from tirx_eq.egraph.rules import load_rules

    names = {r.name for r in load_rules()}
    assert all(name in names and ("→" in text or "⇒" in text) for name, text in lines)
    code, out, _ = run(capsys, monkeypatch, *arguments, "--json")
    found = json.loads(out)
    assert code == 0 and found["cost_after"] < found["cost_before"]
    assert [s["rule"] for s in found["steps"]] == [name for name, _ in lines]


def test_view(tmp_path, capsys, monkeypatch):
    target = tmp_path / "graph.html"
    arguments = ("simplify", "(and (xor x y) 7)", "--var", "x=0:63", "--var", "y=0:7", "--view", str(target))
    code, out, err = run(capsys, monkeypatch, *arguments)
    assert code == 0 and "cost" in out, err
    page = target.read_text()
    assert page.startswith("<!doctype html>") and "<svg" in page and "rules that fired" in page

    code, _, err = run(capsys, monkeypatch, *arguments[:-1], str(tmp_path / "no" / "folder.html"))
    assert code == 2 and "can't write" in err
    code, _, err = run(capsys, monkeypatch, "simplify", f"(add x {1 << 70})", "--var", "x=0:3", "--view", str(target))
    assert code == 2 and "64 bits" in err


@pytest.mark.parametrize("option", [("--steps",), ("--view", "v.html"), ("--var", "x=0:1")])
def test_options_of_one_expression_with_rows(option, tmp_path, capsys, monkeypatch):
    code, out, err = run(capsys, monkeypatch, "simplify", "--jsonl", str(write(tmp_path, [GOOD])), *option)
    assert code == 2 and out == "" and "for one expression" in err


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        ((), {"egglog", "egglog.bindings", "z3", "islpy", "numpy", "typer", "rich"}),
        (("simplify", "--help"), {"egglog", "egglog.bindings", "z3", "islpy", "numpy", "tirx_eq.egraph", "tirx_eq.ir"}),
        # Parity of bits proves this one: no other procedure is loaded, nor anything of rich.
        (
            ("simplify", "(mod (add (mul x 8) y) 8)", "--var", "x=0:63", "--var", "y=0:7"),
            {"egglog", "egglog.bindings", "z3", "islpy", "numpy", "rich"},
        ),
    ],
)
def test_nothing_is_loaded_before_it_is_needed(arguments, absent):
    code = (
        "import sys\n"
        f"{'import typer' if arguments else ''}\n"  # older versions load rich themselves
        "before = set(sys.modules)\n"
        "import tirx_eq\n"
        f"sys.argv = ['tirx-eq', *{arguments!r}]\n"
        "if len(sys.argv) > 1:\n"
        "    from tirx_eq.cli import main\n"
        "    try:\n        main()\n    except SystemExit as stop:\n        assert not stop.code, stop.code\n"
        "print('LOADED', *sys.modules.keys() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.rpartition("LOADED")[2].split())
    assert "tirx_eq" in loaded and not loaded & absent


def test_conditions_are_assumed(tmp_path, capsys, monkeypatch):
    """For one expression, and for a row of its own among others."""
    given = ("--var", "n=0:79", "--assume", "(eq (mod n 8) 0)")
    code, out, _ = run(capsys, monkeypatch, "simplify", "(mod (mul n 3) 8)", *given, "--json")
    assert code == 0 and json.loads(out)["expr"] == "0"
    row = {"id": 1, "vars": {"x": [0, 99], "n": [1, 9]}, "expr": "(div x (mul n 4))"}
    rows = [GOOD, {**row, "assume": ["(lt x (mul n 4))"]}, row, {**row, "assume": "x"}, {**row, "assume": ["(lt x"]}]
    code, out, _ = run(capsys, monkeypatch, "simplify", "--jsonl", str(write(tmp_path, rows)))
    found = read(out)
    assert code == 2
    assert [f.get("expr") for f in found[:3]] == ["x", "0", "(div x (mul n 4))"]
    assert "list of conditions" in found[3]["error"] and "never closed" in found[4]["error"]
    code, _, err = run(capsys, monkeypatch, "simplify", "n", "--var", "n=0:3", "--assume", "(lt n 0)")
    assert code == 2 and "no value of 'n'" in err


def test_steps_show_the_forms_in_order(capsys, monkeypatch):
    args = ("simplify", "(mod (mul (div (mod i 20) 2) 2) 4)", "--var", "i=0:79", "--steps")
    code, out, _ = run(capsys, monkeypatch, *args, "--json")
    trace = json.loads(out)["trace"]
    assert code == 0 and trace[-1]["expr"] == "(and i 2)"
    assert [t["cost"] for t in trace] == sorted((t["cost"] for t in trace), reverse=True)
    code, out, _ = run(capsys, monkeypatch, *args)
    assert "by rules alone, round by round" in out and "bits/" in out


def test_rules_tell_their_use_and_their_bounds(tmp_path, capsys, monkeypatch):
    rows = [{"vars": {"x": [0, 9], "y": [0, 3]}, "expr": "(mod (add (mul x 4) y) 4)"}]
    code, out, _ = run(capsys, monkeypatch, "rules", "--use", str(write(tmp_path, rows)), "--json")
    used = {r["rule"]: r for r in json.loads(out)}
    assert code == 0 and used["divmod/mod-keep-right"]["matches"] >= 1
    code, out, _ = run(capsys, monkeypatch, "rules", "--family", "divmod", "--json")
    ends = {r["name"]: r["ends"] for r in json.loads(out)}
    assert ends["divmod/mod-mul-gcd"].startswith("bounded: the divisor gets smaller")
    assert all(e and not e.startswith("none") for e in ends.values())


def test_thousands_of_levels_are_read_and_shown(tmp_path, capsys, monkeypatch):
    text = "x"
    for _ in range(1_500):
        text = f"(min (sub {text} z) (neg y))"
    given = ("--var", "x=0:9", "--var", "y=0:9", "--var", "z=0:3")
    code, out, _ = run(capsys, monkeypatch, "simplify", text, *given, "--steps", "--view", str(tmp_path / "graph.html"))
    assert code == 0 and "min(" in out
    first = out.splitlines()[0]
    assert first.count("min(") == 1_500 and first.endswith(" - z, neg(y))")
    assert (tmp_path / "graph.html").stat().st_size > 1_000


def test_infix_keeps_what_binds():
    for text, wanted in (
        ("(sub a (sub b c))", "a - (b - c)"),
        ("(mul (add a b) (div c (mod d 4)))", "(a + b) * (c // (d % 4))"),
        ("(select (lt a b) (max a 1) 2)", "select(a < b, max(a, 1), 2)"),
    ):
        assert infix(parse(text)) == wanted
