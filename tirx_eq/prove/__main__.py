"""``python -m tirx_eq.prove``: prove every rule again and compare with the records; ``--write`` replaces them."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import replace

from ..errors import TirxError
from . import mutant_records
from .records import Record, check, read_records, run, subjects, write_records
from .theorems import check_theorems, prove_theorem, theorems, write_theorems


def main(argv: list[str] | None = None) -> int:
    """Exit code 0 if all is proved and recorded, 1 if not, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tirx_eq.prove", description=__doc__)
    parser.add_argument("--rule", action="append", default=[], help="only this rule (may be repeated)")
    parser.add_argument("--write", action="store_true", help="write records of new and changed rules and their mutants")
    parser.add_argument("--all", action="store_true", help="with --write: prove every rule again")
    parser.add_argument("--no-recompute", action="store_true", help="compare digests only")
    parser.add_argument("--theorems", action="store_true", help="the theorems on swizzles, data paths and fragments instead")
    parser.add_argument("--mutants", action="store_true", help="judge every mutant of the rules instead (many minutes)")
    parser.add_argument("--executor", default="processes", help="serial, processes, processes:N or dask://HOST:PORT")
    parser.add_argument("--cache", help="folder in which results are kept between runs")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    if args.theorems:
        return _theorems(args.write, not args.no_recompute)
    if args.mutants:
        return _mutants(args.rule, args.write, args.all, not args.no_recompute, args.executor, args.cache)
    try:
        if args.write:
            _write(args.all, args.executor, args.cache)
        again = not (args.no_recompute or args.write)
        report = check(recompute=again, names=args.rule, executor=args.executor, cached_in=args.cache)
    except TirxError as error:
        print(error, file=sys.stderr)
        return 2
    for row in report.rows:
        how = "" if row.procedure == "none" else row.procedure
        for what, n in (("lemmas", row.level), ("cases", row.cases if row.cases > 1 else 0), ("cuts", row.cuts)):
            how += f", {what} {n}" if n else ""
        widths = ",".join(map(str, row.widths)) or ("unbounded" if row.procedure == "integers" else "")
        print(f"{row.rule:38} {row.verdict:9} {how:32} {widths:12} {row.rlimit:>9}  {row.termination.split(':')[0]}")
    counts = Counter(row.verdict for row in report.rows)
    summary = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    print(f"{len(report.rows)} rules and merges: {summary}; {time.perf_counter() - start:.1f} s")
    for problem in report.problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 0 if report.ok else 1


def _write(everything: bool, executor: str, cache: str | None) -> None:
    found = subjects()
    kept: dict[str, Record] = {}
    if not everything:
        digests = {s.name: s.digest for s in found}
        kept = {r.rule: r for r in read_records() if r.digest == digests.get(r.rule) and r.verdict in ("proved", "no claim")}
    todo = [s for s in found if s.name not in kept]
    proofs = {p.rule: p for p in run(todo, executor, cache)}
    for p in proofs.values():
        if not p.ok:
            print(f"{p.rule}: {p.verdict}: {p.detail}", file=sys.stderr)
    records = [
        Record.of(s, proofs[s.name]) if s.name in proofs else replace(kept[s.name], termination=s.termination) for s in found
    ]
    write_records(records)
    print(f"{len(proofs)} rules proved, {len(kept)} records kept")
    mutant_records.write(False, executor, cache)


def _theorems(write: bool, recompute: bool) -> int:
    if write:
        write_theorems([prove_theorem(t) for t in theorems()])
    rows, problems = check_theorems(recompute=recompute and not write)
    for row in rows:
        print(f"{row.name:28} {row.verdict:9} {','.join(map(str, row.widths)):12} {row.statement}")
    print(f"{len(rows)} theorems")
    for problem in problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 0 if not problems else 1


def _mutants(names: list[str], write: bool, everything: bool, recompute: bool, executor: str, cache: str | None) -> int:
    if write:
        rows = mutant_records.write(everything, executor, cache)
        problems = mutant_records.problems(rows)
    else:
        rows, problems = mutant_records.check(recompute, names, executor, cache)
    for row in (mutant_records.COLUMNS, *mutant_records.tabulated(rows)):
        print(f"{row[0]:22}" + "".join(f"{cell:>21}" for cell in row[1:]))
    for problem in problems:
        print(f"PROBLEM {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
