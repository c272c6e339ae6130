"""Real TVM kernels through the importer, the exporter, the audit and our pass: one row per function.

Needs ``apache-tvm`` 0.27 and the ``tirx-kernels`` wheel that matches it (0.1.2.post1, installed with ``--no-deps``).  The
kernels' modules import torch for their tests; where it isn't installed, a stand-in of that name is enough for tracing.
Nothing is run on a GPU.

    python benchmarks/tvm_kernels.py norm.rmsnorm gemm.fp16_bf16_gemm --pass --json rows.json
    python benchmarks/tvm_kernels.py            # the list below
    python benchmarks/tvm_kernels.py --all --markdown docs/tvm_kernels.md      # every kernel of the wheel, a process each
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import importlib.util
import json
import os
import pkgutil
import resource
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path
from typing import Any

DEFAULT = (
    "norm.rmsnorm", "gemm.fp16_bf16_gemm", "gemm.nvfp4_gemm", "ported.deepgemm.fp8_gemm_1d1d", "ported.deepgemm.fp8_bmm",
    "ported.deepgemm.mqa_logits_fp8", "ported.flashinfer.activation.act_and_mul",
    "ported.flashattention.flash_attention4",
)  # fmt: skip


class _Anything:
    """Takes any call, attribute, index and combination, and is iterated as nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> _Anything:
        return _Anything()

    def __getattr__(self, name: str) -> _Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything()

    def __getitem__(self, key: Any) -> _Anything:
        return _Anything()

    def __iter__(self) -> Any:
        return iter(())

    def __or__(self, other: Any) -> _Anything:
        return self

    __ror__ = __or__


def _attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {}) if name[0].isupper() or name in ("dtype", "device") else _Anything()


def stand_in_for_torch() -> None:
    """Modules named torch with whatever is asked of them, unless torch is installed."""
    if importlib.util.find_spec("torch") is not None:
        return
    names = ("torch", "nn", "nn.functional", "cuda", "distributed", "utils", "utils.cpp_extension", "autograd", "testing",
             "multiprocessing")  # fmt: skip
    for name in names:
        module: Any = types.ModuleType(name if name == "torch" else f"torch.{name}")
        fixed: dict[str, Any] = {}
        module.__getattr__ = lambda n, fixed=fixed: fixed.setdefault(n, _attribute(n))  # the same object each time
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        module.__path__ = []
        sys.modules[module.__name__] = module
        if name != "torch" and "." not in name:
            setattr(sys.modules["torch"], name, module)


def prepare() -> None:
    """What kernels ask of a GPU, for a B200 that isn't here."""
    os.environ.setdefault("TIRX_PREPARE_NUM_SMS", "148")
    os.environ.setdefault("TIRX_PREPARE_CUDA_ARCH", "sm_100a")


def functions(made: Any) -> list[Any]:
    """The PrimFuncs in what a kernel's module gives: a function, a module, containers of them."""
    kind = type(made).__name__
    if kind == "PrimFunc":
        return [made]
    if kind == "IRModule":
        return [f for f in made.functions.values() if type(f).__name__ == "PrimFunc"]
    if isinstance(made, dict):
        made = list(made.values())
    return [f for x in made for f in functions(x)] if isinstance(made, (list, tuple)) else []


def every() -> list[str]:
    """The modules of the wheel that make a kernel for a configuration."""
    package = importlib.import_module("tirx_kernels")
    found = []
    for info in pkgutil.walk_packages(package.__path__, "tirx_kernels.", onerror=lambda name: None):
        spec = info.module_finder.find_spec(info.name, None)  # type: ignore[call-arg]
        text = Path(spec.origin).read_text() if spec is not None and spec.origin else ""
        if "def get_kernel" in text and "CONFIGS" in text and not info.name.rpartition(".")[2].startswith("_"):
            found.append(info.name.removeprefix("tirx_kernels."))
    return sorted(found)


def kernels(name: str) -> list[Any]:
    """The functions of the first configuration of a kernel of the wheel."""
    module = importlib.import_module(f"tirx_kernels.{name}")
    config = {k: v for k, v in module.CONFIGS[0].items() if k != "label"}
    return functions(module.get_kernel(**config))


def round_trip(func: Any) -> str:
    """Whether what is imported goes back equal as TVM judges it."""
    import tvm

    from tirx_eq.interop.tvm import from_tvm, to_tvm

    tvm.ir.assert_structural_equal(func, to_tvm(from_tvm(func)))
    return "equal"


def with_pass(func: Any) -> dict[str, Any]:
    """The index operators that our pass leaves in TVM's own compilation, after TVM's simplifier."""
    import tvm

    from tirx_eq.interop.tvm import PassReport, register_pipeline

    report = PassReport()
    name = register_pipeline(report=report)
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_100a"})
    began = time.perf_counter()
    tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target=target, tir_pipeline=name)
    done = report.functions.values()
    return {
        "tvm_operators": sum(r.cost_in for r in done), "ours_operators": sum(r.cost for r in done),
        "rewrites": sum(len(r.rewrites) for r in done), "untouched": dict(report.untouched),
        "compile_seconds": round(time.perf_counter() - began, 2),
    }  # fmt: skip


def row(name: str, func: Any, compiling: bool) -> dict[str, Any]:
    """Everything about one function."""
    from tirx_eq.audit import audit

    began, used = time.perf_counter(), time.process_time()
    found = audit(func)
    made = {
        "kernel": name, "function": found.name, "nodes": found.nodes, "opaque": found.opaque,
        "index_expressions": found.index_expressions, "before": found.operators_before, "after": found.operators_after,
        "findings": len([f for f in found.findings if f.severity != "hint"]), "hints": len(found.findings),
        "kinds": sorted({f.kind for f in found.findings}), "not_priced": found.not_priced,
        "seconds": round(time.perf_counter() - began, 2), "cpu_seconds": round(time.process_time() - used, 2),
        "lines": source_lines(name), "round_trip": round_trip(func),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }  # fmt: skip
    return {**made, **(with_pass(func) if compiling else {})}


def source_lines(name: str) -> int:
    """Lines of a kernel's module, and of those beside it that carry its name."""
    path = Path(str(importlib.import_module(f"tirx_kernels.{name}").__file__))
    beside = path.parent / f"_{path.stem}"
    return sum(len(p.read_text().splitlines()) for p in [path, *(beside.glob("*.py") if beside.is_dir() else ())])


def apart(name: str, timeout: int = 600) -> tuple[list[dict[str, Any]], str]:
    """The rows of a kernel made in a process of its own, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "rows.json"
        try:
            done = subprocess.run([sys.executable, __file__, name, "--pass", "--json", str(out)], capture_output=True,
                                  text=True, timeout=timeout)  # fmt: skip
        except subprocess.TimeoutExpired:
            return [], f"more than {timeout} s"
        if out.exists() and (rows := json.loads(out.read_text())):
            return rows, ""
        said = [line for line in (done.stdout + done.stderr).splitlines() if "not made" in line or "Error" in line]
        return [], said[0].partition("not made: ")[2][:100] if said else f"process ended with {done.returncode}"


def markdown(rows: list[dict[str, Any]], missing: dict[str, str]) -> str:
    """A page with the table, its totals, and the kernels that could not be made."""
    kept = ("nodes", "opaque", "index_expressions", "before", "after", "findings", "tvm_operators", "ours_operators")
    total = {k: sum(r.get(k, 0) for r in rows) for k in kept}
    compiled = [r for r in rows if "tvm_operators" in r]
    changed = sum(r["rewrites"] for r in compiled)
    ratio = total["ours_operators"] / max(1, total["tvm_operators"])
    lines = [
        "# Audit of the kernels of a TVM wheel", "",
        f"`tirx-kernels` for `apache-tvm` 0.27: {len(rows)} functions of {len({r['kernel'] for r in rows})} kernels, made for",
        "their first configuration, imported, exported again (equal as TVM judges), audited.  No GPU, nothing executed; one",
        "process each.  Operators are the cost of all index expressions before and after, every change proved.  Seconds are of",
        "the audit alone, by the clock of a busy machine and of the CPU.  Made by `benchmarks/tvm_kernels.py --all`.", "",
        "The columns *TVM* and *ours* are of `tvm.compile`: operators in the index expressions of the lowered function (its",
        "host part too), after TVM's own simplifier and elimination of common subexpressions, and after our pass behind them.",
        "Each expression of the program is counted where it stands, on both sides alike; our pass moves nothing between",
        f"statements.  {len(compiled)} functions, {changed} expressions rewritten, each validated: "
        f"**{total['tvm_operators']:,} → {total['ours_operators']:,}, {ratio:.3f}**.", "",
        "| kernel | lines | nodes | opaque | index expressions | operators before | after | TVM | ours | errors and warnings | "
        "hints | seconds | of CPU | MB | round trip |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|",
    ]
    for r in rows:
        lines.append(
            f"| {r['kernel']} | {r['lines']} | {r['nodes']} | {r['opaque']} | {r['index_expressions']} | {r['before']} | "
            f"{r['after']} | {r.get('tvm_operators', '')} | {r.get('ours_operators', '')} | "
            f"{r['findings']} | {r['hints'] - r['findings']} | {r['seconds']} | "
            f"{r.get('cpu_seconds', '')} | {r['megabytes']} | "
            f"{r['round_trip']} |"
        )
    lines += [
        f"| **all** | | {total['nodes']} | {total['opaque']} | {total['index_expressions']} | {total['before']} | "
        f"{total['after']} ({total['after'] / max(1, total['before']):.3f}) | {total['tvm_operators']} | "
        f"{total['ours_operators']} ({ratio:.3f}) | {total['findings']} | | | | | |", "",
    ]
    if missing:
        lines += ["Not made, since these want more than a stand-in for torch, or something else that isn't here:", ""]
        lines += [f"- `{name}`: {why}" for name, why in missing.items()]
    return "\n".join(lines) + "\n"


def sweep(names: list[str], page: Path | None, out: Path | None) -> None:
    """Every kernel in a process of its own; a page and JSON of the rows.  Rows that ``out`` has already are kept."""
    rows: list[dict[str, Any]] = json.loads(out.read_text()) if out is not None and out.exists() else []
    missing: dict[str, str] = {}
    for name in [n for n in names if n not in {r["kernel"] for r in rows}]:
        made, why = apart(name)
        rows += made
        if why:
            missing[name] = why
        print(f"{name:60} {why or sum(r['seconds'] for r in made)}", flush=True)
        if page is not None and rows:
            page.write_text(markdown(sorted(rows, key=lambda r: r["kernel"]), missing))
        if out is not None:
            out.write_text(json.dumps(rows, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernel", nargs="*", help="modules of tirx_kernels")
    parser.add_argument("--pass", dest="compiling", action="store_true", help="compile with our pass too")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    parser.add_argument("--all", action="store_true", help="every kernel of the wheel (or those named), a process each")
    parser.add_argument("--markdown", type=Path, help="with --all: the page to write")
    options = parser.parse_args()
    prepare()
    stand_in_for_torch()
    if options.all:
        sweep(options.kernel or every(), options.markdown, options.json)
        return
    rows = []
    print(f"{'kernel':46} nodes opaque exprs before after findings seconds round trip   TVM -> ours")
    for name in options.kernel or DEFAULT:
        try:
            made = kernels(name)
        except Exception as e:  # a module that wants more than a stand-in
            print(f"{name:46} not made: {type(e).__name__}: {e}"[:150])
            continue
        for func in made:
            r = row(name, func, options.compiling)
            rows.append(r)
            left = f"{r['tvm_operators']} -> {r['ours_operators']}" if options.compiling else ""
            print(
                f"{name:46} {r['nodes']:5} {r['opaque']:6} {r['index_expressions']:5} {r['before']:6} {r['after']:5} "
                f"{r['findings']:8} {r['seconds']:7.2f} {r['round_trip']:10}   {left}", flush=True,
            )  # fmt: skip
    for a, b in (("before", "after"), ("tvm_operators", "ours_operators")):
        total = sum(r.get(a, 0) for r in rows)
        if total:
            print(f"{a} -> {b}: {total} -> {sum(r[b] for r in rows)} ({sum(r[b] for r in rows) / total:.3f})")
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
