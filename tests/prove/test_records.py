"""Proof records: current for every rule, and any change of any rule is noticed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tirx_eq.egraph.rules import load_rules, show_form
from tirx_eq.errors import ProofError
from tirx_eq.prove import __main__ as command
from tirx_eq.prove.mutate import _with
from tirx_eq.prove.records import Record, Subject, _digest, check, compare, read_records, subjects, write_records

FOUND = subjects()


def test_every_rule_has_a_current_record_and_an_argument_for_termination() -> None:
    assert compare(FOUND, read_records()) == []


def test_records_prove_what_the_issue_asks() -> None:
    for r in read_records():
        assert r.verdict in ("proved", "no claim")
        if r.procedure == "bit-vectors":
            assert {8, 16, 32} <= set(r.widths), r.rule
    claims = [r for r in read_records() if r.verdict == "proved"]
    assert sum(r.hint for r in claims) <= len(claims) / 10


def test_deleting_any_one_rule_is_noticed() -> None:
    records = read_records()
    for i, s in enumerate(FOUND):
        assert f"{s.name}: a record, but no such rule" in compare(FOUND[:i] + FOUND[i + 1 :], records)


def test_weakening_any_one_side_condition_is_noticed() -> None:
    """Every condition of every rule, left out one at a time."""
    records = read_records()
    by_name = {s.name: s for s in FOUND}
    tried = 0
    for rule in load_rules():
        body = 1 if rule.kind == "rule" else rule.form.index(":when") + 1 if ":when" in rule.form else None
        if body is None:
            continue
        for i in range(len(rule.form[body])):
            weaker = _with(rule.form, (body,), rule.form[body][:i] + rule.form[body][i + 1 :])
            assert show_form(weaker) != show_form(rule.form)
            changed = replace(by_name[rule.name], digest=_digest(weaker))
            others = [changed if s.name == rule.name else s for s in FOUND]
            assert any(p.startswith(f"{rule.name}: the rule's text has changed") for p in compare(others, records))
            tried += 1
    assert tried > 300


def test_a_rule_without_record_is_noticed(tmp_path: Path) -> None:
    write_records([r for r in read_records() if r.rule != "divmod/mod-small"], tmp_path)
    report = check(recompute=False, folder=tmp_path)
    assert report.problems == ("divmod/mod-small: no proof record",)
    assert not report.ok


def test_recomputing_compares_verdicts(tmp_path: Path) -> None:
    rows = [replace(r, verdict="refuted") if r.rule == "divmod/mod-small" else r for r in read_records()]
    write_records(rows, tmp_path)
    report = check(names=["divmod/mod-small"], folder=tmp_path)
    assert report.recomputed == 1
    assert report.rows[0].verdict == "proved"
    assert "divmod/mod-small: recorded as refuted, but proved" in report.problems


def test_unknown_rule_names_are_errors() -> None:
    with pytest.raises(ProofError, match="no rule is named 'divmod/mod-smal'"):
        check(names=["divmod/mod-smal"])


def test_records_survive_the_file(tmp_path: Path) -> None:
    rows = read_records()
    write_records(rows, tmp_path)
    assert {r.rule: r for r in read_records(tmp_path)} == {r.rule: r for r in rows}
    with pytest.raises(ProofError, match="proof record"):
        Record.from_line("{}")


def test_duplicate_records_and_growing_rules_are_noticed() -> None:
    rows = read_records()
    assert any("two records" in p for p in compare(FOUND, [*rows, rows[0]]))
    s = FOUND[-1]
    bad = Subject(s.name, s.digest, s.obligation, "none: 2 operators become 3", terminates=False)
    assert any("no termination argument" in p for p in compare([*FOUND[:-1], bad], rows))


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--rule", "divmod/mod-small"]) == 0
    assert "divmod/mod-small" in capsys.readouterr().out
    assert command.main(["--rule", "no/such"]) == 2
    assert command.main(["--no-recompute"]) == 0
