"""Run many drawn kernels and sort what becomes of them.

    python -m tests.fuzz.campaign --seeds 0:500 --out runs.jsonl

Each kernel is compiled, simulated under a policy that its seed chooses, and compared with the interpreter.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tirx_eq.cli.run import execute
from tirx_eq.errors import TirxError
from tirx_eq.interp.faults import InterpreterError
from tirx_eq.script import parse_source

from .tile_kernels import Skip, draw

POLICIES = ("late", "early", "random")
SECONDS = 60  # of this process


class TooLong(Exception):
    """A kernel that isn't done in :data:`SECONDS`."""


def _alarm(*_: Any) -> None:
    raise TooLong


def outcome(source: str, seed: int) -> tuple[str, str]:
    """``right``, ``refused``, ``meaningless`` (the interpreter's word), ``WRONG``, ``ERROR`` or ``SLOW``; and the detail."""
    from tirx_eq.lower.kernel import compile_function

    stage = "parse"
    try:
        func = next(iter(parse_source(source, "k.py").values()))
        stage = "compile"
        compile_function(func)
        stage = "run"
        found = execute(func, seed=seed, policy=POLICIES[seed % 3], kind="integers" if seed % 4 else "random")
    except InterpreterError as error:
        return "meaningless", str(error)
    except TirxError as error:
        if type(error).__name__ in ("ProofError",) or stage == "run":
            return "ERROR", f"{type(error).__name__} at {stage}: {error}"
        return "refused", f"{type(error).__name__} at {stage}: {error}"
    except TooLong:
        return "SLOW", stage
    except Exception:
        return "ERROR", f"{stage}: {traceback.format_exc()}"
    if found.good:
        return "right", ""
    faults = [str(f) for f in found.faults[:2]]
    return "WRONG", "; ".join(faults) or "; ".join(c.describe() for c in found.comparisons if not c.agrees)


def campaign(seeds: range, make: Callable[[int], str], out: Path | None) -> Counter[str]:
    """Draw and run; a line of JSON for each kernel that isn't right."""
    counts: Counter[str] = Counter()
    sink = out.open("a") if out else None
    signal.signal(signal.SIGPROF, _alarm)
    for seed in seeds:
        try:
            source = make(seed)
        except Skip:
            counts["skipped"] += 1
            continue
        begun = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            what, detail = outcome(source, seed)
        except TooLong:
            what, detail = "SLOW", ""
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        counts[what] += 1
        spent = round(time.process_time() - begun, 2)
        if sink and (what != "right" or spent > 20):
            sink.write(json.dumps({"seed": seed, "what": what, "detail": detail, "seconds": spent, "source": source}) + "\n")
            sink.flush()
    return counts


def signature(detail: str) -> str:
    """A message without its numbers."""
    last = detail.strip().splitlines()
    text = last[-1] if detail.lstrip().startswith(("compile: Trace", "run: Trace", "parse: Trace")) else detail
    return re.sub(r"'[A-Za-z]+\d+'", "X", re.sub(r"-?\d+", "#", text))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:200")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    first, last = (int(x) for x in given.seeds.split(":"))
    print(dict(campaign(range(first, last), draw, given.out)))


if __name__ == "__main__":
    main()
