"""Real TVM kernels compiled by us: how many are, why the others aren't, and whether they compute what TVM's own PTX does.

Two steps, which may run in different environments, with a folder between them:

    python benchmarks/tvm_compiled.py trace FOLDER [--nvcc] [KERNEL...]      # apache-tvm 0.27 and the kernels of the wheel
    python benchmarks/tvm_compiled.py compile FOLDER [FUNCTION...] [--rows FILE] [--markdown FILE]    # this package and ptxas

``trace`` imports each function and writes it as JSON, with ``--nvcc`` also the PTX that TVM and nvcc make of it.  ``compile``
compiles each, assembles it, and where there is PTX of nvcc simulates both on the same random bytes: all arrays must be equal,
bit for bit.  Scalar arguments are one small number, of a grid the first two CTAs run.  Where random bytes lead a kernel beyond
its arrays, arrays of signed integers are filled with lengths and places that make sense.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

#: Any float argument.
REAL = 0.5
#: Any integer argument, and whether arrays of signed integers hold lengths and places that make sense instead of random bytes.
TRIES = ((64, False), (4, False), (64, True), (4, True))
#: What a page says of a function that it has no outcome for.
UNTRIED = "not compiled for this page"
#: Bytes of every array, and of dynamic shared memory where the CUDA source doesn't tell.
BYTES, SHARED = 1 << 20, 200_000


def trace(folder: Path, names: list[str], nvcc: bool) -> None:
    """One process for each kernel of the wheel."""
    from tvm_kernels import every, prepare, stand_in_for_torch

    prepare()
    stand_in_for_torch()
    if len(names) == 1:
        _trace_one(folder, names[0], nvcc)
        return
    for name in names or every():
        command = [sys.executable, __file__, "trace", str(folder), name, *(["--nvcc"] if nvcc else [])]
        done = subprocess.run(command, capture_output=True, text=True)
        print(name, "traced" if done.returncode == 0 else done.stderr.strip()[-200:], flush=True)


def _trace_one(folder: Path, name: str, nvcc: bool) -> None:
    from tvm_kernels import kernels
    from tvm_pass_simulated import cuda_of, ptx_of

    from tirx_eq.interop.tvm import from_tvm
    from tirx_eq.ir.serial import save_json

    name, _, only = name.rpartition(".") if name.rpartition(".")[2].isdigit() else (name, "", "")
    for k, func in enumerate(kernels(name)):
        if only and k != int(only):
            continue
        (folder / f"{name}.{k}.json").write_text(save_json(from_tvm(func)))
        if nvcc:
            source = cuda_of(func, "tirx")
            (folder / f"{name}.{k}.cu").write_text(source)
            (folder / f"{name}.{k}.ptx").write_text(ptx_of(source))


def compile_all(folder: Path, names: list[str], markdown: Path | None, kept: Path | None, limit: int) -> None:
    """A row for each function in the folder (or those named).  Rows that the file ``kept`` has stay, unless they are named."""
    rows: dict[str, tuple[str, float, str]] = {}
    if kept is not None and kept.exists():
        rows = {name: tuple(row) for name, row in json.loads(kept.read_text()).items()}
    for path in sorted(folder.glob("*.json"), key=lambda p: p.stat().st_size):
        if path.stem in names or (not names and path.stem not in rows):
            rows[path.stem] = _compile_one(path, limit)
            print(path.stem, *rows[path.stem], sep="\t", flush=True)
            if kept is not None:
                kept.write_text(json.dumps(rows, indent=1, sort_keys=True) + "\n")
    if markdown is not None:
        markdown.write_text(page([(name, *row) for name, row in rows.items()]))


def _compile_one(path: Path, limit: int) -> tuple[str, float, str]:
    """(outcome, seconds, what the comparison says) of one function."""
    import signal

    from tirx_eq.errors import TirxError
    from tirx_eq.ir.serial import load_json

    def late(*_: Any) -> None:
        raise TimeoutError

    warnings.simplefilter("ignore")
    began = time.process_time()
    signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, limit)
    try:
        made, outcome = _for_its_target(load_json(path.read_text()))
        made.assemble()
    except TirxError as error:
        first, *more = error.message.splitlines()
        said = f"{first} {' '.join(more[0].split())}" if first.endswith(":") and more else first
        return said, round(time.process_time() - began, 1), ""
    except (TimeoutError, RecursionError) as error:
        return f"more than {limit} seconds" if isinstance(error, TimeoutError) else "nested too deeply", float(limit), ""
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = round(time.process_time() - began, 1)
    source, theirs = path.with_suffix(".cu"), path.with_suffix(".ptx")
    return outcome, seconds, compare(made.ptx, theirs.read_text(), source.read_text()) if theirs.exists() else ""


def _for_its_target(func: Any) -> tuple[Any, str]:
    """The kernel for sm_100a, or for sm_103a if it has an instruction that only that one has; and what to say of it."""
    import tirx_eq as te
    from tirx_eq.errors import PtxError

    try:
        return te.compile(func), "ok"
    except PtxError as error:
        if "sm_103a" not in (error.hint or ""):
            raise
    return te.compile(func, target="sm_103a"), "ok for sm_103a"


def signature(source: str) -> list[tuple[str, str]]:
    """(C type, name) of the parameters of the kernel in a CUDA source."""
    head = source[source.rindex('extern "C" __global__') :].partition("{")[0]
    parts = [p.replace("__restrict__", "").split() for p in head[head.rindex("(") + 1 : head.rindex(")")].split(",")]
    return [(" ".join(p[:-1]), re.sub(r"_(ptr|handle)$", "", p[-1].lstrip("*"))) for p in parts]


def compare(ours: str, theirs: str, source: str) -> str:
    """Both modules on the same arguments, of the first kind in ``TRIES`` that leads neither beyond its arrays.

    Where one ends at such a fault the other may have done more or less by then, so that only arrays without faults count as
    different; if every kind has faults, the best outcome is told with their numbers.
    """
    told: list[tuple[int, str]] = []
    for integer, places in TRIES:
        said = _compare(ours, theirs, source, integer, places)
        clean = said.endswith(", 0 and 0 faults")
        if (clean and not said.startswith("equal: 0")) or not said.startswith(("equal", "DIFFERENT")):
            return said
        told.append((said.startswith("equal") + (not said.startswith("equal: 0")) + clean, said))
    return max(told)[1]


def _array(kind: str, random: np.random.Generator, last: int | None) -> np.ndarray:
    """The bytes of an array of a C type: random; or, of signed integers, a staircase up to ``last`` if that is given."""
    integer = {"int": np.int32, "int64_t": np.int64, "longlong": np.int64, "long": np.int64}
    name = kind.replace("*", "").replace("const", "").replace(" ", "")
    if last is not None and name in integer:
        count = BYTES // np.dtype(integer[name]).itemsize
        return np.minimum(np.arange(count) * max(1, last // 4), last).astype(integer[name]).view(np.uint8)
    return random.integers(0, 0x3C, BYTES).astype(np.uint8)


def _same(a: np.ndarray, b: np.ndarray, orders: list[list[str]]) -> bool:
    """Whether two arrays have the same bytes; addresses are the same if they are as far from the same array's begin."""
    if np.array_equal(a, b):
        return True
    from tirx_eq.sim.memory import GLOBAL, Buffers

    starts: list[dict[str, int]] = []
    for order in orders:
        known = Buffers()
        starts.append({name: GLOBAL + known.add(name, BYTES) for name in order})
    left, right = a.view(np.uint64), b.view(np.uint64)
    apart = left != right
    first, second = left[apart].astype(np.int64), right[apart].astype(np.int64)
    distances = [starts[1][n] - starts[0][n] for n in starts[0] if n in starts[1]]
    moved = np.isin(second - first, distances)
    return bool((moved & (first >= GLOBAL) & (second >= GLOBAL)).all())


def _compare(ours: str, theirs: str, source: str, integer: int, places: bool) -> str:
    """Both modules on the same arguments; arrays are known by their names."""
    from tirx_eq.errors import TirxError
    from tirx_eq.sim import Launch, parse, simulate

    random = np.random.default_rng(0)
    values: dict[str, Any] = {}

    def arguments(entry: Any, names: list[str], types: list[str]) -> list[Any]:
        made = []
        for p, name, kind in zip(entry.params, names, types, strict=True):
            if name not in values:
                number = np.float32(REAL) if kind == "float" else np.int32(integer) if p.size == 4 else np.int64(integer)
                values[name] = _array(kind, random, integer if places else None) if "*" in kind else number
            made.append(values[name])
        return made

    entries = [next(f for f in parse(t).functions.values() if f.kernel) for t in (theirs, ours)]
    if any(p.size not in (4, 8) for e in entries for p in e.params):
        return "left out: tensor maps"
    known = signature(source)
    own = [re.sub(r"_handle$", "", p.name) for p in entries[1].params]
    if any("*" not in kind and name not in own for kind, name in known):
        return "left out: TVM's host computes scalars"
    first = arguments(entries[0], [n for _, n in known], [t for t, _ in known])
    second = arguments(entries[1], own, ["" for _ in own])
    block = entries[1].directives.get("reqntid") or entries[1].directives.get("maxntid") or (128, 1, 1)
    dynamic = max([SHARED, *(int(v) for v in re.findall(r"extern __shared__[^\n]*\[(\d+)\]", source))])
    launch = Launch((2, 1, 1), tuple(block), (1, 1, 1), dynamic)
    try:
        results = [simulate(t, None, launch, a, max_steps=600_000) for t, a in ((theirs, first), (ours, second))]
    except TirxError as error:
        return f"not simulated: {error.message.splitlines()[0]}"
    orders = [
        [n for n, a in zip(names, given) if isinstance(a, np.ndarray)]
        for names, given in zip(([n for _, n in known], own), (first, second))
    ]
    arrays = [dict(zip(order, r.arrays.values())) for order, r in zip(orders, results)]
    shared = [n for n in arrays[0] if n in arrays[1]]
    different = [n for n in shared if not _same(arrays[0][n], arrays[1][n], orders)]
    written = sum(not np.array_equal(arrays[0][n], values[n]) for n in shared)
    faults = [len(r.faults) for r in results]
    if different:
        return f"DIFFERENT: {', '.join(different)}, {faults[0]} and {faults[1]} faults"
    return f"equal: {written} arrays written, {faults[0]} and {faults[1]} faults"


def page(rows: list[tuple[str, str, float, str]]) -> str:
    """The results as a page."""
    done = [r for r in rows if r[1].startswith("ok")]
    tried = [r for r in rows if r[1] != UNTRIED]
    equal = [r for r in rows if r[3].startswith("equal") and not r[3].startswith("equal: 0")]
    lines = [
        "# Kernels of a TVM wheel, compiled", "",
        f"`tirx-kernels` for `apache-tvm` 0.27: {len(rows)} functions, all imported; of the {len(tried)} compiled for sm_100a "
        f"(or sm_103a, if only that has their instructions) {len(done)} assemble in ptxas. "
        f"{len(equal)} small ones without tensor maps were simulated beside the PTX of TVM "
        "and nvcc on the same bytes: every array equal, bit for bit. Faults are what the simulator reports of TVM's PTX and of "
        "ours: given arguments that mean nothing, kernels write a place twice, read registers that no branch wrote, or reach "
        "beyond an array. Made in pieces by `benchmarks/tvm_compiled.py`.", "",
        "| function | outcome | seconds | simulated |", "|---|---|---:|---|",
    ]  # fmt: skip
    lines += [f"| {name} | {outcome} | {seconds} | {said} |" for name, outcome, seconds, said in sorted(rows)]
    reasons = Counter(re.sub(r"'[^']*'|-?\d+", "…", r[1]) for r in tried if not r[1].startswith("ok"))
    lines += ["", "| why not | functions |", "|---|---:|", *(f"| {reason} | {n} |" for reason, n in reasons.most_common())]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("step", choices=("trace", "compile"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("kernel", nargs="*", help="modules of tirx_kernels, or MODULE.N for one function")
    parser.add_argument("--nvcc", action="store_true", help="trace: the PTX of TVM and nvcc too")
    parser.add_argument("--markdown", type=Path, help="compile: write a page")
    parser.add_argument("--rows", type=Path, help="compile: a file that outcomes are kept in, so that it can go on later")
    parser.add_argument("--limit", type=int, default=200, help="compile: seconds of computing for each function")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.step == "trace":
        trace(options.folder, options.kernel, options.nvcc)
    else:
        compile_all(options.folder, options.kernel, options.markdown, options.rows, options.limit)


if __name__ == "__main__":
    main()
