"""Lowering rules and their records agree; a dropped rule or a weakened condition is noticed."""

from __future__ import annotations

import json

from tirx_eq.lower import records
from tirx_eq.resources import proofs_dir


def test_records_are_current():
    assert records.check() == []


def test_a_changed_rule_or_a_missing_one_is_noticed(tmp_path):
    known = json.loads((proofs_dir() / records.FILE).read_text())
    first, second, *_ = known
    known[first]["conditions"] = known[first]["conditions"][1:]
    del known[second]
    known["copy/gone"] = {}
    (tmp_path / records.FILE).write_text(json.dumps(known))
    problems = records.check(tmp_path)
    assert len(problems) == 3
    assert any(first in p and "changed" in p for p in problems)
    assert any(second in p and "no record" in p for p in problems)
    assert any("copy/gone" in p for p in problems)
