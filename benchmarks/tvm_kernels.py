"""Real TVM kernels through the importer, the exporter, the audit and our pass: one row per function.

Needs ``apache-tvm`` 0.27 and the ``tirx-kernels`` wheel that matches it (0.1.2.post1, installed with ``--no-deps``).  The
kernels' modules import torch for their tests; where it isn't installed, a stand-in of that name is enough for tracing.
Nothing is run on a GPU.

    python benchmarks/tvm_kernels.py norm.rmsnorm gemm.fp16_bf16_gemm --pass --json rows.json
    python benchmarks/tvm_kernels.py            # the list below
"""

from __future__ import annotations

import argparse
import importlib
import importlib.machinery
import importlib.util
import json
import os
import sys
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
    names = ("torch", "nn", "nn.functional", "cuda", "distributed", "utils", "utils.cpp_extension", "autograd", "testing")
    for name in names:
        module: Any = types.ModuleType(name if name == "torch" else f"torch.{name}")
        fixed: dict[str, Any] = {}
        module.__getattr__ = lambda n, fixed=fixed: fixed.setdefault(n, _attribute(n))  # the same object each time
        module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
        module.__path__ = []
        sys.modules[module.__name__] = module
        if name != "torch" and "." not in name:
            setattr(sys.modules["torch"], name, module)


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

    began = time.perf_counter()
    found = audit(func)
    made = {
        "kernel": name, "function": found.name, "nodes": found.nodes, "opaque": found.opaque,
        "index_expressions": found.index_expressions, "before": found.operators_before, "after": found.operators_after,
        "findings": len([f for f in found.findings if f.severity != "hint"]), "hints": len(found.findings),
        "seconds": round(time.perf_counter() - began, 2), "round_trip": round_trip(func),
    }  # fmt: skip
    return {**made, **(with_pass(func) if compiling else {})}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernel", nargs="*", default=DEFAULT, help="modules of tirx_kernels")
    parser.add_argument("--pass", dest="compiling", action="store_true", help="compile with our pass too")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    options = parser.parse_args()
    os.environ.setdefault("TIRX_PREPARE_NUM_SMS", "148")
    os.environ.setdefault("TIRX_PREPARE_CUDA_ARCH", "sm_100a")
    stand_in_for_torch()
    rows = []
    print(f"{'kernel':46} nodes opaque exprs before after findings seconds round trip   TVM -> ours")
    for name in options.kernel:
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
