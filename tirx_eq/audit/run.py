"""The audit as a whole: every check on one function."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from .. import ir
from . import accesses, layouts, operators, reference, tiles, views
from .findings import SEVERITIES, Audit, Finding

Check = Callable[[ir.PrimFunc, Audit], list[Finding]]


def audit(func: Any, *, progress: Callable[[str], None] | None = None) -> Audit:
    """Audit a function of ours, or one of TVM (0.26, 0.27, ``apache-tvm-tirx``).

    ``progress`` is called with the name of each check before it runs.  Nothing is executed.  Raises InteropError if
    ``func`` is neither.
    """
    from ..interop.tvm import ImportSummary, from_tvm

    summary = ImportSummary()
    made_by = ""
    if not isinstance(func, ir.PrimFunc):
        package = type(func).__module__.split(".")[0]
        made_by = f"{package} {getattr(sys.modules.get(package), '__version__', '')}"
        func = from_tvm(func, summary=summary)
    result = Audit(func.name)
    result.findings += reference.of_version(made_by, func.name)
    opaque: list[ir.Opaque] = []

    def look(node: Any) -> None:
        result.nodes += 1
        if isinstance(node, ir.Opaque):
            opaque.append(node)

    ir.post_order_visit(func, look)
    result.opaque = len(opaque)
    checks: dict[str, Check] = {
        "layouts": layouts.check, "views": views.check, "reference": reference.check, "accesses": accesses.check,
        "operators": operators.check, "tiles": tiles.check,
    }  # fmt: skip
    for name, check in checks.items():
        if progress is not None:
            progress(name)
        began = time.perf_counter()
        result.findings += check(func, result)
        result.seconds[name] = round(time.perf_counter() - began, 4)
    result.findings.sort(key=lambda f: SEVERITIES.index(f.severity))
    return result
