"""Milliseconds per index expression, ours beside TVM's analyzer in one run, on 799 addresses of real kernels in one batch.

    python benchmarks/index_throughput.py --json throughput.json

Every figure comes from a fresh process.  "cold" is the first batch of a process: loading egglog, compiling the rules and
everything else that a first call does; "rules compiled" is a batch of expressions never seen by a process that has run
one before; "warm" is the same batch again, known pieces being remembered.  Importing the package comes apart.  TVM's
analyzer (``apache-tvm``, if it is installed) is given the same ranges, one analyzer per expression; building its
expression objects isn't counted, nor is parsing ours.  Times are of the CPU (all threads), then of the clock.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROWS = Path(__file__).resolve().parents[1] / "tests" / "data" / "index_exprs.jsonl"
OPAQUE = 16383
"""Largest value of a variable of which nothing is known."""
MODES = ("ours, validated", "ours, unvalidated", "TVM analyzer")


def corpus() -> list[tuple[Any, dict[str, tuple[int, int]]]]:
    """The expressions with their ranges."""
    from tirx_eq.ir.index import parse

    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    return [(parse(r["expr"]), {v: tuple(b) if b else (0, OPAQUE) for v, b in r["vars"].items()}) for r in rows]


class Clock:
    """CPU and wall milliseconds per expression since the last call."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.reset()

    def reset(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def __call__(self) -> list[float]:
        cpu, wall = time.process_time() - self.cpu, time.perf_counter() - self.wall
        self.reset()
        return [round(1000 * cpu / self.count, 4), round(1000 * wall / self.count, 4)]


def ours(checked: bool) -> dict[str, Any]:
    """Figures of the simplifier."""
    rows = corpus()
    clock = Clock(len(rows))
    from tirx_eq.egraph import batch

    out: dict[str, Any] = {"rows": len(rows), "import": clock()}
    results = batch.simplify_rows(rows, check_result=checked)
    out["cold"] = clock()
    batch.simplify_rows(rows, check_result=checked)
    out["warm"] = clock()
    batch.forget()
    batch.simplify_rows(rows, check_result=checked)  # the second batch of a process also decides to keep its engine
    batch.forget()
    clock.reset()
    batch.simplify_rows(rows, check_result=checked)
    out["rules compiled"] = clock()
    out["phases"] = phases(rows, clock, checked)
    done = [r for r in results if not isinstance(r, Exception)]
    out["cost"] = sum(r.cost for r in done)
    by: dict[str, int] = {}
    for r in done:
        by[r.validated_by] = by.get(r.validated_by, 0) + 1
    out["validated_by"] = by
    return out


def phases(rows: list[Any], clock: Clock, checked: bool) -> dict[str, list[float]]:
    """Where the time goes for a batch never seen: the same calls as ``simplify_rows`` makes, timed one by one."""
    from tirx_eq.egraph import batch, cost, saturation
    from tirx_eq.egraph.directed.direct import direct

    batch.forget()
    found: dict[str, list[float]] = {}
    gc.disable()  # as a batch does
    clock.reset()
    work = batch._Batch(cost.DEFAULT, False, constructing=True)
    for term, ranges in rows:
        work.add(term, ranges)
    work.add_branches(len(rows))
    found["normal forms, cut into pieces"] = clock()
    pieces = len(work.jobs)
    constructed = [direct(p) for p in work.jobs]
    found[f"terms constructed for {len(constructed) - constructed.count(None)} of {pieces} pieces"] = clock()
    work.solve(saturation.DEFAULT_BUDGET)
    found["the e-graph, for the rest"] = clock()
    found["the e-graph, for the rest"] = [
        round(max(both - alone, 0.0), 4)  # solving constructs them again
        for both, alone in zip(found["the e-graph, for the rest"], list(found.values())[1])
    ]
    for i in range(len(rows)):
        work.finish(i, checked)
    found["results" + (", validated" if checked else "")] = clock()
    gc.enable()
    return found


_TVM = {
    "add": "__add__", "sub": "__sub__", "mul": "__mul__", "and": "__and__", "or": "__or__", "xor": "__xor__",
    "shl": "__lshift__", "shr": "__rshift__", "lt": "__lt__", "le": "__le__",
}  # fmt: skip
_TVM_CALLS = {
    "div": "floordiv", "mod": "floormod", "tdiv": "truncdiv", "tmod": "truncmod", "min": "min", "max": "max",
    "land": "all", "lor": "any",
}  # fmt: skip


_TRUTH = frozenset({"lt", "le", "eq", "ne", "land", "lor", "lnot"})


def tvm_expression(term: Any, variables: dict[str, Any], dtype: str, tir: Any) -> Any:
    """A term as an expression of TVM, its variables and constants being of ``dtype``."""
    if isinstance(term, str):
        return variables[term]
    if isinstance(term, int):
        return tir.IntImm(dtype, term)
    op, *operands = term

    def number(t: Any) -> Any:
        made = tvm_expression(t, variables, dtype, tir)
        return tir.Cast(dtype, made) if isinstance(t, tuple) and t[0] in _TRUTH else made

    def truth(t: Any) -> Any:
        made = tvm_expression(t, variables, dtype, tir)
        return made if isinstance(t, tuple) and t[0] in _TRUTH else tir.NE(made, tir.IntImm(dtype, 0))

    if op in _TVM:
        return getattr(number(operands[0]), _TVM[op])(number(operands[1]))
    if op in ("land", "lor"):
        return getattr(tir, _TVM_CALLS[op])(*map(truth, operands))
    if op in _TVM_CALLS:
        return getattr(tir, _TVM_CALLS[op])(*map(number, operands))
    if op in ("eq", "ne"):
        return (tir.EQ if op == "eq" else tir.NE)(*map(number, operands))
    if op == "lnot":
        return tir.Not(truth(operands[0]))
    if op == "neg":
        return -number(operands[0])
    return tir.Select(truth(operands[0]), number(operands[1]), number(operands[2]))


def analyzer() -> dict[str, Any]:
    """Figures of TVM's analyzer."""
    rows = corpus()
    clock = Clock(len(rows))
    import tvm

    out: dict[str, Any] = {"rows": len(rows), "import": clock(), "version": tvm.__version__}
    tir = tvm.tirx if hasattr(tvm, "tirx") else tvm.tir
    made = []
    for term, ranges in rows:
        for dtype in ("int32", "int64"):
            variables = {v: tir.Var(v, dtype) for v in ranges}
            bounds = [(variables[v], tvm.ir.Range.from_min_extent(lo, hi - lo + 1)) for v, (lo, hi) in ranges.items()]
            try:
                made.append((tvm_expression(term, variables, dtype, tir), bounds))
                break
            except Exception:  # a constant or a shift beyond 32 bits
                if dtype == "int64":
                    raise
    for name in ("cold", "warm"):
        clock.reset()
        for expression, bounds in made:
            analysis = tvm.arith.Analyzer()
            for variable, bound in bounds:
                analysis.bind(variable, bound)
            analysis.simplify(expression)
        out[name] = clock()
    out["rules compiled"] = out["warm"]
    return out


def measure(mode: str) -> dict[str, Any]:
    """One mode, in this process."""
    return analyzer() if mode.startswith("TVM") else ours("unvalidated" not in mode)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--mode", choices=MODES, help="one mode in this process; prints its figures as JSON")
    options = parser.parse_args()
    if options.mode is not None:
        print(json.dumps(measure(options.mode)))
        return 0
    modes = [m for m in MODES if not m.startswith("TVM") or importlib.util.find_spec("tvm") is not None]
    found: dict[str, Any] = {}
    print(f"{'ms per expression: CPU (clock)':32}{'cold':>18}{'rules compiled':>18}{'warm':>18}{'import, ms':>12}")
    for mode in modes:
        command = [sys.executable, __file__, "--mode", mode]
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode:
            sys.stderr.write(run.stderr)
            return 1
        found[mode] = json.loads(run.stdout.splitlines()[-1])
        cells = [f"{found[mode][k][0]:.3f} ({found[mode][k][1]:.3f})" for k in ("cold", "rules compiled", "warm")]
        print(f"{mode:32}" + "".join(f"{c:>18}" for c in cells) + f"{found[mode]['import'][0] * found[mode]['rows']:12.0f}")
    if len(modes) < len(MODES):
        print("apache-tvm is not installed here: its analyzer is left out")
    for mode in modes[:2]:
        print(f"{mode}: total cost {found[mode]['cost']}, {found[mode]['validated_by']}")
        for phase, (cpu, _) in found[mode]["phases"].items():
            print(f"    {phase:50}{cpu:9.4f} ms CPU per expression")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
