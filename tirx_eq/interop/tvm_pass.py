"""Our simplifier as a pass of TVM: index expressions of lowered functions, replaced where ours are cheaper."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InteropError, TirxError
from .index_rewrite import RewriteReport, rewrite_indices
from .tvm_export import export_object
from .tvm_import import import_object

#: The pipeline that :func:`register_pipeline` makes, as ``tvm.compile(..., tir_pipeline=PIPELINE)`` names it.
PIPELINE = "tirx_eq"


@dataclass
class PassReport:
    """What the pass did: a report for each function rewritten, and why others were left as they were."""

    functions: dict[str, RewriteReport] = field(default_factory=dict)
    untouched: dict[str, str] = field(default_factory=dict)


def tvm_pass(report: PassReport | None = None) -> Any:
    """A module pass of the installed TVM that simplifies the index expressions of every PrimFunc.

    It belongs after the passes that lower buffers to addresses and before code generation; ``register_pipeline`` puts
    it there.  Each replacement is validated, cheaper, and safe at its width; a function that can't be carried over and
    back is left as it is, and ``report`` says so.  Raises InteropError if TVM isn't installed.
    """
    try:
        import tvm
    except ImportError as e:
        raise InteropError(f"a pass of TVM needs apache-tvm 0.26 or 0.27: {e}") from None
    found = PassReport() if report is None else report

    @tvm.ir.transform.module_pass(opt_level=0, name="tirx_eq.SimplifyIndices")
    def simplify_indices(module: Any, context: Any) -> Any:
        changed = {}
        for var, func in module.functions.items():
            if not isinstance(func, tvm.tirx.PrimFunc):
                continue
            name = str(var.name_hint)
            try:
                ours, done = rewrite_indices(import_object(func))
                if done.rewrites:
                    made = export_object(ours)
                    # attributes hold live objects (targets with their hosts), which stay what they are
                    changed[var] = tvm.tirx.PrimFunc(made.params, made.body, made.ret_type, func.attrs)
                found.functions[name] = done
            except TirxError as e:
                found.untouched[name] = str(e)
        if not changed:
            return module
        result = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)
        for var, func in changed.items():
            result.update_func(var, func)
        return result

    return simplify_indices


def register_pipeline(name: str = PIPELINE, base: str = "tirx", report: PassReport | None = None) -> str:
    """Register a pipeline of TVM: ``base`` with our pass at its end, before code generation.  Returns its name."""
    try:
        import tvm
        from tvm.tirx.compilation_pipeline import get_tir_pipeline, register_tir_pipeline
    except ImportError as e:
        raise InteropError(f"a pipeline of TVM needs apache-tvm 0.26 or 0.27: {e}") from None

    def factory(**options: Any) -> Any:
        lower, finish_host, finish_device = get_tir_pipeline(base, **options)
        return tvm.ir.transform.Sequential([lower, tvm_pass(report)]), finish_host, finish_device

    register_tir_pipeline(name, factory)
    return name
