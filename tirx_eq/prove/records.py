"""Proof records: one checked-in line per rule in ``proofs/``, and the check that they are the truth of today.

A record names the rule, the digest of its text, and what the prover found.  ``check`` fails if a rule has no record, a
record has no rule, a digest differs, a rule has no termination argument, or (when recomputing) a verdict differs.
Merges of the analyses (``(function lo ... :merge ...)``) are subjects like rules, named ``merge/lo``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..egraph.rules import INDEX_FILES, Rule, Source, load_rules, read_files, show_form
from ..errors import ProofError, RuleError
from ..jobs import map_jobs
from ..resources import proofs_dir
from .meaning import SYNTACTIC
from .obligations import Obligation, Signature, merge_obligation, obligation
from .prover import Proof, prove
from .termination import argument


@dataclass(frozen=True)
class Subject:
    """Something that needs a proof: a rule, or the merge of an analysis.

    ``fault`` says why the text has no obligation (a head without meaning, say); such a rule fails the check.
    """

    name: str
    digest: str
    obligation: Obligation
    termination: str
    terminates: bool = True
    fault: str = ""

    @property
    def family(self) -> str:
        """The part of the name before the slash; one file of records each."""
        return self.name.split("/")[0]


@dataclass(frozen=True)
class Record:
    """One line of a record file; see ``prover.Proof`` for the fields."""

    rule: str
    digest: str
    verdict: str
    procedure: str
    goals: int
    level: int
    cases: int
    cuts: int
    widths: tuple[int, ...]
    arithmetic: tuple[int, ...]
    rlimit: int
    hint: bool
    termination: str

    @staticmethod
    def of(subject: Subject, proof: Proof) -> Record:
        """The record of a proof."""
        return Record(
            subject.name,
            subject.digest,
            proof.verdict,
            proof.procedure,
            proof.goals,
            proof.level,
            proof.cases,
            proof.cuts,
            proof.widths,
            proof.arithmetic,
            proof.rlimit,
            proof.hint,
            subject.termination,
        )

    def to_line(self) -> str:
        """One line of JSON; empty fields are left out."""
        data = {f.name: getattr(self, f.name) for f in fields(self)}
        return json.dumps({k: v for k, v in data.items() if v not in ((), 0, False) or k == "goals"})

    @staticmethod
    def from_line(line: str) -> Record:
        """The record that ``to_line`` wrote; ``ProofError`` if it is not one."""
        try:
            data = json.loads(line)
            empty = {"level": 0, "cases": 0, "cuts": 0, "widths": (), "arithmetic": (), "rlimit": 0, "hint": False}
            values = {**empty, **data}
            values["widths"], values["arithmetic"] = tuple(values["widths"]), tuple(values["arithmetic"])
            return Record(**values)
        except (ValueError, TypeError) as error:
            raise ProofError(f"proof record: {error}: {line[:80]}") from None


@dataclass(frozen=True)
class Report:
    """``rows`` are the records in force (recomputed if asked); ``problems`` say what is wrong, if anything."""

    rows: tuple[Record, ...]
    problems: tuple[str, ...]
    recomputed: int = 0

    @property
    def ok(self) -> bool:
        """Whether every rule has a current record of a proof."""
        return not self.problems


def subjects(sources: Sequence[Source] | None = None, rules: Sequence[Rule] | None = None) -> list[Subject]:
    """Everything in the rule files that needs a proof."""
    sources = read_files(INDEX_FILES) if sources is None else sources
    rules = load_rules() if rules is None else rules
    signature = Signature.of(s.form for s in sources)
    out = []
    for s in sources:
        form = s.form
        if isinstance(form, list) and form[0] == "function" and ":merge" in form and form[1] not in SYNTACTIC:
            text = "facts only; the merged value moves one way in a lattice"
            out.append(Subject(f"merge/{form[1]}", _digest(form), merge_obligation(form), text))
    for r in rules:
        why = argument(r)
        fault = ""
        try:
            ob = obligation(r.name, r.form, signature)
        except RuleError as error:
            ob, fault = Obligation(r.name, (), (), {}, False), error.message
        out.append(Subject(r.name, r.digest, ob, f"{why.kind}: {why.text}", why.ok, fault))
    return out


def _digest(form: Any) -> str:
    return hashlib.sha256(show_form(form).encode()).hexdigest()[:16]


def run(chosen: Sequence[Subject], executor: str = "serial", cached_in: str | Path | None = None) -> list[Proof]:
    """Prove each subject; the executor and the cache are those of :func:`tirx_eq.jobs.map_jobs`."""
    proofs = map_jobs(prove, [s.obligation for s in chosen], executor, cached_in=cached_in)
    return [Proof(s.name, "no obligation", "none", 0, detail=s.fault) if s.fault else p for s, p in zip(chosen, proofs)]


def read_records(folder: Path | None = None) -> list[Record]:
    """All records of the folder (default: the package's ``proofs``)."""
    folder = proofs_dir() if folder is None else folder
    out = []
    for path in sorted(folder.glob("*.jsonl")):
        out += [Record.from_line(line) for line in path.read_text().splitlines() if line.strip()]
    return out


def write_records(records: Iterable[Record], folder: Path | None = None) -> list[Path]:
    """One file of JSON lines per family, in rule order; files of families that are gone are removed."""
    folder = proofs_dir() if folder is None else folder
    families: dict[str, list[Record]] = {}
    for r in records:
        families.setdefault(r.rule.split("/")[0], []).append(r)
    written = []
    for family, rows in families.items():
        path = folder / f"{family}.jsonl"
        path.write_text("".join(r.to_line() + "\n" for r in rows))
        written.append(path)
    for path in folder.glob("*.jsonl"):
        if path not in written:
            path.unlink()
    return written


def compare(found: Sequence[Subject], records: Sequence[Record]) -> list[str]:
    """What is wrong between the rules as they are and the records, without proving anything."""
    problems = []
    by_rule: dict[str, Record] = {}
    for r in records:
        if r.rule in by_rule:
            problems.append(f"{r.rule}: two records")
        by_rule[r.rule] = r
    for s in found:
        record = by_rule.pop(s.name, None)
        if record is None:
            problems.append(f"{s.name}: no proof record")
        elif record.digest != s.digest:
            problems.append(f"{s.name}: the rule's text has changed since it was proved")
        elif record.verdict not in ("proved", "no claim"):
            problems.append(f"{s.name}: recorded as {record.verdict}")
        if s.fault:
            problems.append(f"{s.name}: no obligation: {s.fault}")
        if not s.terminates:
            problems.append(f"{s.name}: no termination argument ({s.termination}); a tag must say what bounds it")
    problems += [f"{name}: a record, but no such rule" for name in by_rule]
    return problems


def check(
    *, recompute: bool = True, names: Sequence[str] = (), folder: Path | None = None, found: Sequence[Subject] | None = None,
    executor: str = "serial", cached_in: str | Path | None = None,
) -> Report:  # fmt: skip
    """Check the records against the rules; with ``recompute`` also prove again (only ``names``, if given).

    Raises ``ProofError`` for a name that no rule has.  ``found`` replaces the shipped rules (for tests).
    The executor and the cache are those of :func:`tirx_eq.jobs.map_jobs`.
    """
    found = subjects() if found is None else found
    records = {r.rule: r for r in read_records(folder)}
    problems = compare(found, read_records(folder))
    known = {s.name for s in found}
    for n in names:
        if n not in known:
            raise ProofError(f"no rule is named '{n}'", hint=_near(n, known))
    if names:
        problems = [p for p in problems if p.split(":")[0] in names]
    chosen = [s for s in found if not names or s.name in names] if recompute else []
    rows = dict(records)
    for s, proof in zip(chosen, run(chosen, executor, cached_in)):
        rows[s.name] = Record.of(s, proof)
        if not proof.ok:
            problems.append(f"{s.name}: {proof.verdict}" + (f": {proof.detail}" if proof.detail else ""))
        elif s.name in records and records[s.name].verdict != proof.verdict:
            problems.append(f"{s.name}: recorded as {records[s.name].verdict}, but {proof.verdict}")
    shown = [rows[s.name] for s in found if s.name in rows and (not names or s.name in names)]
    return Report(tuple(shown), tuple(problems), len(chosen))


def _near(name: str, known: Iterable[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.3)
    return f"did you mean {', '.join(close)}?" if close else "tirx-eq rules lists them"
