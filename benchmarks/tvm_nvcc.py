"""The GEMM ladder through this compiler and through TVM and CUDA C++, side by side, from the same text.

Each example is given to both: to ours as it is, to ``apache-tvm`` 0.26 (``tir_pipeline="tirx"``, target sm_100a) with its
import lines changed, whose CUDA C++ then goes through ``nvcc -ptx``.  Either PTX is assembled by the same ``ptxas``.  Every
compilation has a process of its own, the two compilers take turns, and times are the least of the rounds; ours include the
proofs.  ``cold`` counts from the start of the compiler's import to the PTX (``CPU``: the processor time until then), ``first``
from the source text, with the compiler loaded; ``again`` is the second compilation in one process.

Run with an interpreter that has TVM; ours may be another (``--ours``).  ``nvcc``, ``ptxas`` and ``nvdisasm`` are looked for
on PATH and in NVIDIA's wheels.  Exits with 1 if a bar is missed: time at most 0.5, registers and SASS at most 1.0 in every
row, geometric mean of SASS at most 0.9 of TVM's.

    python benchmarks/tvm_nvcc.py --size 4096 --json rows.json
"""

from __future__ import annotations

import argparse
import atexit
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
#: step of the ladder -> example
LADDER = {
    1: "gemm_single_tile", 2: "gemm_k_loop", 3: "gemm_many_tiles", 4: "gemm_tma", 5: "gemm_software_pipeline",
    6: "gemm_persistent", 7: "gemm_warp_roles", 8: "gemm_cluster", 9: "gemm_two_consumers",
}  # fmt: skip
#: measured -> the most that ours may be of theirs, in every row and in the geometric mean
BARS = {"cold": (0.5, None), "registers": (1.0, None), "sass": (1.0, 0.9)}
TARGET = "sm_100a"


def source(name: str, size: int | None, ctas: int | None = None) -> str:
    """The text of an example, with M, N and K of ``size`` where its kernel can have any.

    Persistent kernels get ``ctas`` CTAs (or clusters); by default as many as a B200 has SMs (148).
    """
    text = (EXAMPLES / f"{name}.py").read_text()
    if size is not None:
        tiles = "1" not in re.findall(r"cta_id\(\[(\d+)\]\)", text)
        m = size if tiles else 128
        text = re.sub(r"^M, N, K = \d+, \d+, \d+", f"M, N, K = {m}, {m}, {size}", text, flags=re.MULTILINE)
        name, count = ("CLUSTERS", ctas or 74) if "CLUSTERS" in text else ("CTAS", ctas or 148)
        text = re.sub(rf"^{name}, (\w+) = \d+", rf"{name}, \1 = {count}", text, flags=re.MULTILINE)
    return text


# -- in a process of its own ------------------------------------------------------------------------------------------


def ours(text: str, folder: Path) -> str:
    """PTX by this compiler."""
    from tirx_eq.lower.kernel import compile_function
    from tirx_eq.script import load_file

    path = folder / f"kernel_{time.perf_counter_ns()}.py"
    path.write_text(text)
    return compile_function(load_file(path)["gemm"], TARGET).ptx


def theirs(text: str, folder: Path) -> str:
    """PTX by TVM and nvcc."""
    import importlib.util

    import tvm
    from tvm.backend.cuda import lang  # noqa: F401  (what the examples import, so that it is not timed)

    from tirx_eq.interop.tvm_source import source_for_tvm

    path = folder / f"kernel_{time.perf_counter_ns()}.py"  # TVM reads a function's text back from its file
    path.write_text(source_for_tvm(text))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    func = module.gemm.with_attr("global_symbol", "gemm")
    target = tvm.target.Target({"kind": "cuda", "arch": TARGET})
    made = tvm.compile(tvm.IRModule({"gemm": func}), target=target, tir_pipeline="tirx")
    cuda, ptx = path.with_suffix(".cu"), path.with_suffix(".ptx")
    cuda.write_text(made.mod.imports[0].inspect_source())
    command = ["nvcc", "-std=c++17", f"-arch={TARGET}", "-ptx", str(cuda), "-o", str(ptx)]
    subprocess.run(command, check=True, capture_output=True)
    return ptx.read_text()


def work(side: str, path: Path) -> dict[str, Any]:
    """Compile twice; seconds and PTX."""
    began = time.perf_counter()
    text = path.read_text()
    with tempfile.TemporaryDirectory() as folder:
        if side == "ours":
            import tirx_eq.lower.kernel
            import tirx_eq.script  # noqa: F401
        else:
            from tvm.backend.cuda import lang  # noqa: F401
        compiler = ours if side == "ours" else theirs
        start = time.perf_counter()
        ptx = compiler(text, Path(folder))
        first, cold, cpu = time.perf_counter() - start, time.perf_counter() - began, cpu_seconds()
        start = time.perf_counter()
        compiler(text, Path(folder))
    return {"cold": cold, "first": first, "cpu": cpu, "again": time.perf_counter() - start, "ptx_text": ptx}


def cpu_seconds() -> float:
    """Processor time of this process and those it has waited for: a busy machine doesn't lengthen it."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


# -- comparison -------------------------------------------------------------------------------------------------------


def measure(side: str, python: str, path: Path, rounds: int) -> dict[str, Any]:
    """What one side makes of a file: seconds (least of the rounds) and counts; or {"error": …}."""
    from tirx_eq.ptx.ptxas import assemble, count_instructions, find_tool, sass_count

    best: dict[str, Any] = {}
    for _ in range(rounds):
        command = [python, str(Path(__file__).resolve()), "--worker", side, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=_environment(), check=False)
        if done.returncode:
            return {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"}
        found = json.loads(done.stdout.splitlines()[-1])
        best = {k: min(best.get(k, v), v) if isinstance(v, float) else v for k, v in found.items()}
    ptx = best.pop("ptx_text")
    made = assemble(ptx, TARGET)
    sass = sass_count(made.cubin) if find_tool("nvdisasm") else None
    return {
        **best, "ptx": count_instructions(ptx), "registers": made.registers, "spills": made.spill_stores + made.spill_loads,
        "sass": len(made.cubin) if sass is None else sass,
    }  # fmt: skip


@cache
def _environment() -> dict[str, str]:
    """Both sides find their modules compiled to bytecode after the first round, as an installed package has them."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    bytecode = tempfile.mkdtemp(prefix="bytecode-")
    atexit.register(shutil.rmtree, bytecode, ignore_errors=True)
    path = f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    return {**kept, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": bytecode}


def missed(rows: list[dict[str, Any]]) -> list[str]:
    """The bars that are missed, one line each."""
    found = []
    for what, (each, mean) in BARS.items():
        ratios = {r["example"]: r["ours"][what] / r["theirs"][what] for r in rows if "error" not in r["ours"] | r["theirs"]}
        found += [f"{what} of {name} is {ratio:.2f} of TVM's, over {each}" for name, ratio in ratios.items() if ratio > each]
        if mean is not None and ratios and (got := geometric_mean(list(ratios.values()))) > mean:
            found.append(f"the geometric mean of {what} is {got:.2f}, over {mean}")
    found += [f"{r['example']} spills" for r in rows if r["ours"].get("spills")]
    return found + [f"{r['example']}: ours fails: {r['ours']['error']}" for r in rows if "error" in r["ours"]]


def geometric_mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def show(rows: list[dict[str, Any]]) -> None:
    """The rows as a table, ours / theirs in each cell."""
    from rich.console import Console
    from rich.table import Table

    columns = {"cold": "cold s", "first": "first s", "cpu": "CPU s", "again": "again s", "ptx": "PTX", "registers": "registers",
               "sass": "SASS"}  # fmt: skip
    table = Table(title="this compiler / TVM + nvcc", caption="least of the rounds; ratios are geometric means")
    table.add_column("step")
    table.add_column("example")
    for head in columns.values():
        table.add_column(head, justify="right")
    for r in rows:
        if "error" in r["ours"] | r["theirs"]:
            errors = "; ".join(f"{side}: {r[side]['error']}" for side in ("ours", "theirs") if "error" in r[side])
            table.add_row(str(r["step"]), r["example"], errors)
            continue
        pairs = [(r["ours"][k], r["theirs"][k]) for k in columns]
        table.add_row(str(r["step"]), r["example"], *(f"{_n(a)} / {_n(b)}" for a, b in pairs))
    good = [r for r in rows if "error" not in r["ours"] | r["theirs"]]
    if good:
        means = (geometric_mean([r["ours"][k] / r["theirs"][k] for r in good]) for k in columns)
        table.add_section()
        table.add_row("", "ratio", *(f"{m:.2f}" for m in means))
    Console(width=130).print(table)


def _n(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("step", nargs="*", type=int, help="steps of the ladder (default: all whose example exists)")
    parser.add_argument("--ours", default=sys.executable, help="interpreter with tirx_eq")
    parser.add_argument("--theirs", default=sys.executable, help="interpreter with apache-tvm 0.26 (and tirx_eq's imports)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--size", type=int, help="M, N and K (default: those of the examples)")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--worker", nargs=2, metavar=("SIDE", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(work(options.worker[0], Path(options.worker[1]))))
        return 0
    sys.path.insert(0, str(ROOT))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for step in options.step or LADDER:
            name = LADDER[step]
            if not (EXAMPLES / f"{name}.py").exists():
                print(f"step {step}: there is no examples/{name}.py")
                continue
            path = Path(folder, f"{name}.py")
            path.write_text(source(name, options.size))
            row: dict[str, Any] = {"step": step, "example": name}
            for side in ("ours", "theirs"):
                row[side] = measure(side, getattr(options, side), path, options.rounds)
            rows.append(row)
    show(rows)
    if options.json is not None:
        options.json.write_text(json.dumps({"size": options.size, "target": TARGET, "rows": rows}, indent=2) + "\n")
    bars = missed(rows)
    print("\n".join(bars) if bars else "every bar is met")
    return int(bool(bars))


if __name__ == "__main__":
    sys.exit(main())
