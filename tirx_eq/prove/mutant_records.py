"""Records of the mutants of every rule: what became of each, and the proof of each that was not refuted.

One line per rule in ``proofs/mutants.json``: the digest of the rule's text, the number of its mutants by kind and status,
and every one that is sound or idle with the procedure that proved it.  A rule whose text has changed is judged again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ..egraph.rules import INDEX_FILES, Rule, read_files
from ..errors import ProofError
from ..resources import proofs_dir
from .mutate import KINDS, STATUSES, Outcome, claiming, judge_all, mutants
from .obligations import Signature

FILE = "mutants.json"


@dataclass(frozen=True)
class Kept:
    """A mutant that is no counterexample to the prover: still true, or never firing; and what proves that."""

    what: str
    status: str
    procedure: str
    widths: tuple[int, ...]
    level: int
    cases: int
    rlimit: int


@dataclass(frozen=True)
class RuleMutants:
    """The mutants of one rule: ``counts`` by (kind, status), and those that were not refuted."""

    rule: str
    digest: str
    counts: tuple[tuple[str, str, int], ...]
    kept: tuple[Kept, ...]

    @property
    def total(self) -> int:
        """How many mutants the rule has."""
        return sum(n for _, _, n in self.counts)


def collected(rules: Sequence[Rule], outcomes: Iterable[Outcome]) -> list[RuleMutants]:
    """The outcomes by rule."""
    by_rule: dict[str, list[Outcome]] = {r.name: [] for r in rules}
    for o in outcomes:
        by_rule[o.mutant.rule].append(o)
    out = []
    for rule in rules:
        found = by_rule[rule.name]
        counts = Counter((o.mutant.kind, o.status) for o in found)
        kept = tuple(
            Kept(o.mutant.what, o.status, p.procedure, p.widths, p.level, p.cases, p.rlimit)
            if (p := o.proof) is not None
            else Kept(o.mutant.what, o.status, "none", (), 0, 0, 0)
            for o in found
            if o.status not in ("refuted", "rejected")
        )
        out.append(RuleMutants(rule.name, rule.digest, tuple((k, s, n) for (k, s), n in sorted(counts.items())), kept))
    return out


def read(folder: Path | None = None) -> list[RuleMutants]:
    """The records as they are checked in."""
    path = (proofs_dir() if folder is None else folder) / FILE
    out = []
    for data in json.loads(path.read_text()) if path.exists() else []:
        kept = tuple(Kept(**{**k, "widths": tuple(k["widths"])}) for k in data["kept"])
        out.append(RuleMutants(data["rule"], data["digest"], tuple((k, s, n) for k, s, n in data["counts"]), kept))
    return out


def write(everything: bool = False, executor: str = "processes", cached_in: str | None = None) -> list[RuleMutants]:
    """Judge the mutants of rules that are new or have changed (of all, if asked), and write the records."""
    rules = claiming()
    known = {} if everything else {r.rule: r for r in read()}
    fresh = [r for r in rules if r.name not in known or known[r.name].digest != r.digest]
    if fresh:
        found = judge_all([r.name for r in fresh], executor, cached_in)
        known |= {r.rule: r for r in collected(fresh, found)}
    rows = [known[r.name] for r in rules]
    lines = ",\n".join(json.dumps(asdict(r)) for r in rows)
    (proofs_dir() / FILE).write_text(f"[\n{lines}\n]\n")
    return rows


def check(
    recompute: bool, names: Sequence[str] = (), executor: str = "processes", cached_in: str | None = None
) -> tuple[list[RuleMutants], list[str]]:
    """The mutants of all rules (of ``names``, if given) as recorded or judged again, and what is wrong.

    Raises ``ProofError`` for a name that no rule has.
    """
    rules = {r.name: r for r in claiming()}
    for n in names:
        if n not in rules:
            raise ProofError(f"no rule that makes a claim is named '{n}'", hint="tirx-eq rules lists them")
    chosen = [rules[n] for n in names] or list(rules.values())
    if recompute:
        rows = collected(chosen, judge_all([r.name for r in chosen], executor, cached_in))
    else:
        rows = [r for r in read() if not names or r.rule in names]
    return rows, problems(rows, chosen)


def problems(records: Sequence[RuleMutants], rules: Sequence[Rule] | None = None) -> list[str]:
    """Rules (all that make claims, unless given) whose mutants are not recorded as today, or of which one is undecided."""
    out = []
    known = {r.rule: r for r in records}
    signature = Signature.of(s.form for s in read_files(INDEX_FILES))
    for rule in claiming() if rules is None else rules:
        record = known.pop(rule.name, None)
        if record is None or record.digest != rule.digest:
            out.append(f"{rule.name}: its mutants have not been judged since its text changed")
        elif record.total != len(mutants(rule, signature)):
            out.append(f"{rule.name}: it has {len(mutants(rule, signature))} mutants, of which {record.total} are recorded")
        else:
            unproved = [k.what for k in record.kept if k.status not in STATUSES]
            missing = sum(n for _, s, n in record.counts if s not in ("refuted", "rejected")) - len(record.kept)
            if unproved or missing:
                out.append(f"{rule.name}: undecided: {'; '.join(unproved) or f'{missing} mutants without a proof'}")
    return out + [f"{name}: mutants of a rule that is gone" for name in known]


def tabulated(records: Sequence[RuleMutants]) -> list[tuple[str, ...]]:
    """Rows of text: kind of change, then how many mutants became what, and a last row of sums."""
    counts: Counter[tuple[str, str]] = Counter()
    for r in records:
        for kind, status, n in r.counts:
            counts[kind, status if status in STATUSES else "undecided"] += n
    columns = (*STATUSES, "undecided")
    rows = [(kind, *[str(counts[kind, s]) for s in columns], str(sum(counts[kind, s] for s in columns))) for kind in KINDS]
    sums = [sum(counts[k, s] for k in KINDS) for s in columns]
    return [*rows, ("all", *map(str, sums), str(sum(sums)))]


COLUMNS = ("change", "refuted", "no rule", "still true, proved", "never fires, proved", "undecided", "mutants")
