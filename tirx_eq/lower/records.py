"""Records of the lowering rules: what each asks and how its instances are checked.

A lowering rule makes no claim that could be proved once for all: it says that a program *may* become a candidate under named
conditions.  Each use is proved by its layout equation when the kernel is compiled.  The record fixes the rule's text, so that
a rule can't be dropped or a condition weakened unnoticed; the test suite shows for each condition a kernel that needs it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..resources import proofs_dir
from .candidates import lowering_rules

FILE = "lowering.json"
PROCEDURE = "layout equation of every use"


def records() -> dict[str, dict[str, Any]]:
    """The records as they should be: digest, conditions and procedure per rule."""
    return {
        p.rule.name: {
            "digest": p.rule.digest,
            "conditions": [*p.holds, *p.holds_at],
            "procedure": PROCEDURE,
        }
        for p in lowering_rules()
    }


def write(folder: Path | None = None) -> Path:
    """Write the records; the file written."""
    path = (folder or proofs_dir()) / FILE
    path.write_text(json.dumps(records(), indent=1, ensure_ascii=False) + "\n")
    return path


def check(folder: Path | None = None) -> list[str]:
    """What differs between the rules and their records; empty if nothing does."""
    path = (folder or proofs_dir()) / FILE
    known = json.loads(path.read_text()) if path.is_file() else {}
    wanted = records()
    problems = [f"{name}: no record" for name in wanted if name not in known]
    problems += [f"{name}: a record, but no such rule" for name in known if name not in wanted]
    problems += [
        f"{name}: the rule's text has changed since it was recorded"
        for name, record in wanted.items()
        if name in known and known[name] != record
    ]
    return problems
