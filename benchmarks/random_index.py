"""Random index expressions through the simplifier, every result checked against the scalar meaning.

    python benchmarks/random_index.py --count 1000000 --jobs 2 --out random.jsonl

Expressions are up to 8 operations deep, over all operators and ranges with negative values; each result is compared with
the input by the scalar evaluator, at all points of a small box and else at ``--points`` of them.  Without ``--validate``
the rules stand alone: no result is held back for want of a proof.  ``--kind words`` makes what programs do to words instead:
casts, clamps, guards with symbolic extents, whole words as ranges, shared subterms.

Prints counts and CPU time, and every wrong result.  Exit code 1 if a result was wrong, a process died, or a chunk of 500
took more than ``--budget`` CPU seconds or gave no answer in ten times that.  Deterministic for a seed.  With ``--out``
every chunk is a line of that file, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from tirx_eq.egraph import batch
from tirx_eq.egraph.random_terms import random_row, sample, wide_row
from tirx_eq.errors import TirxError
from tirx_eq.ir.index import SCALAR, EvaluationError, Term, show

CHUNK = 500
KINDS = {"plain": random_row, "words": wide_row}
Job = tuple[int, int, int, bool, str]


def values(term: Term, points: list[dict[str, int]], known: dict[Term, list[int | None]]) -> list[int | None]:
    """Value of ``term`` at each point by the scalar operations of the neutral form, None where it has none."""
    found = known.get(term)
    if found is not None:
        return found
    if isinstance(term, str):
        found = [p[term] for p in points]
    elif isinstance(term, int):
        found = [term] * len(points)
    else:
        operands = [values(t, points, known) for t in term[1:]]
        apply = SCALAR.get(term[0])
        found = []
        if apply is None:  # select, whose other operand need not have a value
            found = [None if c is None else a if c else b for c, a, b in zip(*operands)]
            operands = []
        for args in zip(*operands):
            try:
                found.append(None if None in args else apply(*args))  # type: ignore[misc]
            except EvaluationError:
                found.append(None)
    known[term] = found
    return found


def run_chunk(job: Job) -> dict[str, Any]:
    """Simplify and check ``count`` expressions of one seed."""
    seed, count, points, validated, kind = job
    r = random.Random(seed)
    rows = [KINDS[kind](r) for _ in range(count)]
    start = time.process_time()
    results = batch.simplify_rows(rows, check_result=validated)
    took = time.process_time() - start
    out: dict[str, Any] = {
        "expressions": count,
        "errors": 0,
        "cost_in": 0,
        "cost": 0,
        "wrong": [],
        "seconds": took,
    }
    for (term, ranges), result in zip(rows, results):
        if isinstance(result, TirxError):
            out["errors"] += 1
            continue
        out["cost_in"] += result.cost_in
        out["cost"] += result.cost
        where = list(sample(r, ranges, points))
        columns: dict[Term, list[int | None]] = {}
        before, after = (values(t, where, columns) for t in (term, result.expr))
        at = next((p for p, x, y in zip(where, before, after) if x is not None and x != y), None)
        if at is not None:
            out["wrong"].append({"expr": show(term), "result": show(result.expr), "ranges": ranges, "at": at})
    batch.forget()
    return out


def run_all(jobs: list[Job], workers: int, patience: float) -> Iterator[dict[str, Any]]:
    """Results of all jobs as they come; a process that dies or says nothing for ``patience`` seconds costs its chunk only."""
    waiting = list(jobs)
    while waiting:
        pool = ProcessPoolExecutor(workers)
        running: dict[Future[dict[str, Any]], Job] = {}
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    job = waiting.pop(0)
                    running[pool.submit(run_chunk, job)] = job
                done, _ = wait(running, timeout=patience, return_when=FIRST_COMPLETED)
                if not done:
                    raise TimeoutError
                for future in done:
                    seed = running[future][0]
                    try:
                        result = future.result()
                    except BrokenProcessPool:
                        raise
                    except Exception as error:  # what the simplifier must never let out
                        result = {"crashed": 1, "expressions": 0, "error": repr(error)[:300]}
                    del running[future]
                    yield {"seed": seed, **result}
        except (BrokenProcessPool, TimeoutError) as error:
            kind = "hung" if isinstance(error, TimeoutError) else "crashed"
            for process in list(getattr(pool, "_processes", {}).values()):
                process.kill()
            lost = list(running.values())
            if len(lost) == 1:
                yield {"seed": lost[0][0], kind: 1, "expressions": 0}
            else:  # which of them it was shows when each runs alone
                for job in lost:
                    yield from run_all([job], 1, patience)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--points", type=int, default=30, help="points checked per expression")
    parser.add_argument("--validate", action="store_true", help="also run translation validation")
    parser.add_argument("--budget", type=float, default=60.0, help="CPU seconds for a chunk of 500")
    parser.add_argument("--out", type=Path, help="a line per chunk; chunks that are there already are not run again")
    args = parser.parse_args()
    chunks = range(-(-args.count // CHUNK))
    jobs = [(args.seed * 1_000_003 + i, CHUNK, args.points, args.validate, args.kind) for i in chunks]
    known: dict[int, dict[str, Any]] = {}
    if args.out is not None and args.out.exists():
        known = {r["seed"]: r for r in map(json.loads, args.out.read_text().splitlines())}
    results = [known[j[0]] for j in jobs if j[0] in known]
    log = args.out.open("a") if args.out is not None else None
    for done in run_all([j for j in jobs if j[0] not in known], args.jobs, 10 * args.budget):
        results.append(done)
        if log is not None:
            log.write(json.dumps(done) + "\n")
            log.flush()
    if log is not None:
        log.close()
    total: dict[str, Any] = dict.fromkeys(("expressions", "errors", "cost_in", "cost", "crashed", "hung", "wrong", "late"), 0)
    for done in results:
        for wrong in done.get("wrong", ()):
            print("WRONG", json.dumps(wrong))
        for key in ("expressions", "errors", "cost_in", "cost", "crashed", "hung"):
            total[key] += done.get(key, 0)
        total["wrong"] += len(done.get("wrong", ()))
        total["late"] += done.get("seconds", 0) > args.budget
    seconds = sum(r.get("seconds", 0) for r in results)
    total["seconds"] = round(seconds, 1)
    total["ms_per_expression"] = round(1000 * seconds / max(total["expressions"], 1), 3)
    total["slowest_chunk_seconds"] = round(max(r.get("seconds", 0) for r in results), 2)
    print(json.dumps(total))
    return int(any(total[k] for k in ("wrong", "errors", "crashed", "hung", "late")))


if __name__ == "__main__":
    sys.exit(main())
