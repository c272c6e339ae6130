"""Layout rules: the obligation of each, read off its own text, and the proof records (``proofs/layout.json``).

Rewrites of lists are proved in :mod:`.layout_lists`, rules about bits in :mod:`.layout_bits`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..egraph.layouts import layout_rules, layout_sources
from ..egraph.rules import Rule, show_form
from ..errors import ProofError, RuleError
from ..resources import proofs_dir
from .layout_bits import digit_lemma, merge_goal, prove_known, prove_swizzle
from .layout_lists import body, prove_lists

__all__ = ["LayoutProof", "body", "check", "prove_all", "prove_rule", "read_records", "write_records"]


@dataclass(frozen=True)
class LayoutProof:
    """What was found for one rule: ``verdict`` proved, refuted or unknown; ``digest`` is of the rule's text."""

    rule: str
    digest: str
    verdict: str
    theory: str
    goals: int
    detail: str = ""


def prove_rule(rule: Rule) -> LayoutProof:
    """The proof of one layout rule."""
    family = rule.family
    try:
        if family == "known":
            theory, found = "bit-vectors and integers", prove_known(rule)
        elif family == "swizzle":
            theory, found = "bit-vectors", prove_swizzle(rule.form)
        else:
            shard = isinstance(rule.form[1], list) and rule.form[1][0] in ("It", "Bc")
            theory, found = "integers", prove_lists(rule.form, shard)
    except RuleError as error:
        return LayoutProof(rule.name, rule.digest, "unknown", "none", 0, error.message)
    verdict, goals, detail = found
    return LayoutProof(rule.name, rule.digest, verdict, theory, goals, detail)


def prove_all() -> list[LayoutProof]:
    """Proofs of every rule and merge of the layout family, in order."""
    found = [prove_rule(rule) for rule in layout_rules()]
    for source in layout_sources():
        form = source.form
        if isinstance(form, list) and form[0] == "function" and ":merge" in form:
            digest = hashlib.sha256(show_form(form).encode()).hexdigest()[:16]
            answer = merge_goal(str(form[1]), form[form.index(":merge") + 1])
            verdict = {"unsat": "proved", "sat": "refuted"}.get(answer, "unknown")
            found.append(LayoutProof(f"merge/{form[1]}", digest, verdict, "bit-vectors", 1))
    lemma = {"unsat": "proved"}.get(digit_lemma(), "unknown")
    found.append(LayoutProof("lemma/digit", "", lemma, "integers", 2))
    return found


def record_file() -> Path:
    """Where the records are."""
    return proofs_dir() / "layout.json"


def write_records(proofs: Sequence[LayoutProof]) -> None:
    """Replace the records."""
    rows = ",\n ".join(json.dumps({k: v for k, v in asdict(p).items() if v != ""}) for p in proofs)
    record_file().write_text(f"[{rows}]\n")


def read_records() -> dict[str, LayoutProof]:
    """Records by rule; ProofError if the file isn't readable."""
    try:
        rows = json.loads(record_file().read_text())
        return {r["rule"]: LayoutProof(**{"digest": "", "detail": "", **r}) for r in rows}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ProofError(f"proof records of layout rules: {error}") from None


def check(*, recompute: bool = True) -> list[str]:
    """What is wrong: a rule without a current record, a record without a rule, a proof that no longer succeeds."""
    records = read_records()
    problems = []
    found = prove_all() if recompute else []
    fresh = {p.rule: p for p in found}
    rules = {r.name: r.digest for r in layout_rules()}
    for name, digest in rules.items():
        record = records.get(name)
        if record is None:
            problems.append(f"{name}: no proof record")
        elif record.digest != digest:
            problems.append(f"{name}: the rule's text has changed since it was proved")
        elif record.verdict != "proved":
            problems.append(f"{name}: recorded as {record.verdict}")
    problems += [f"{p.rule}: {p.verdict} {p.detail}".rstrip() for p in fresh.values() if p.verdict != "proved"]
    known = set(rules) | {n for n in records if n.startswith(("merge/", "lemma/"))}
    problems += [f"{name}: a record, but no such rule" for name in records if name not in known]
    return problems
