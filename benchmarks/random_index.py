"""Random index expressions through the simplifier, every result checked against the scalar meaning.

    python benchmarks/random_index.py --count 1000000 --jobs 2

Prints counts and CPU time, and every wrong result; exit code 1 if there is one.  Deterministic for a seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from tirx_eq.egraph import batch
from tirx_eq.egraph.random_terms import random_row, sample
from tirx_eq.errors import TirxError
from tirx_eq.ir.index import EvaluationError, evaluate, show

CHUNK = 500


def run_chunk(job: tuple[int, int, int, bool]) -> dict[str, Any]:
    """Simplify and check ``count`` expressions of one seed."""
    seed, count, points, validated = job
    r = random.Random(seed)
    rows = [random_row(r) for _ in range(count)]
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
        for point in sample(r, ranges, points):
            try:
                value = evaluate(term, point)
            except EvaluationError:
                continue
            if evaluate(result.expr, point) != value:
                out["wrong"].append(
                    {"expr": show(term), "result": show(result.expr), "ranges": ranges, "at": point}
                )
                break
    batch.forget()
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--points", type=int, default=30, help="points checked per expression")
    parser.add_argument("--validate", action="store_true", help="also run translation validation")
    args = parser.parse_args()
    jobs = [
        (args.seed * 1_000_003 + i, CHUNK, args.points, args.validate) for i in range(-(-args.count // CHUNK))
    ]
    total = {"expressions": 0, "errors": 0, "cost_in": 0, "cost": 0, "wrong": 0, "seconds": 0.0}
    with ProcessPoolExecutor(args.jobs) as pool:
        for done in pool.map(run_chunk, jobs):
            for wrong in done["wrong"]:
                print("WRONG", json.dumps(wrong))
            for key in total:
                total[key] += len(done[key]) if key == "wrong" else done[key]
    total["ms_per_expression"] = round(1000 * total["seconds"] / total["expressions"], 3)
    print(json.dumps(total))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
