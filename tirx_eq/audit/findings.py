"""What a finding is, and the audit as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import ir
from ..errors import Span

#: Most serious first.
SEVERITIES = ("error", "warning", "hint")


@dataclass(frozen=True)
class Finding:
    """One thing found.

    ``kind`` names the check; ``where`` the buffer or statement, and ``span`` its place in the source if it is known;
    ``what`` says it in a sentence; ``evidence`` is the counterexample or the name of the procedure that proved it;
    ``remedy`` what would help; ``layout`` a layout worth a picture.
    """

    kind: str
    severity: str
    where: str
    what: str
    evidence: str
    remedy: str = ""
    span: Span | None = None
    layout: Any = None

    def to_json(self) -> dict[str, Any]:
        """Plain data; the layout as its text."""
        made = {n: getattr(self, n) for n in ("kind", "severity", "where", "what", "evidence", "remedy")}
        made["place"] = None if self.span is None else str(self.span)
        made["layout"] = None if self.layout is None else str(self.layout)
        return made


@dataclass
class Audit:
    """Everything about one function: its size, its index operators before and after, the findings.

    ``unproved`` counts accesses whose bounds could be neither proved nor refuted (they depend on memory or parameters);
    ``not_priced`` says why tile calls bound to a variant could not be priced, if so.
    """

    name: str
    nodes: int = 0
    opaque: int = 0
    index_expressions: int = 0
    operators_before: int = 0
    operators_after: int = 0
    accesses: int = 0
    unproved: int = 0
    not_priced: str = ""
    findings: list[Finding] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        names = ("name", "nodes", "opaque", "index_expressions", "operators_before", "operators_after", "accesses")
        made: dict[str, Any] = {n: getattr(self, n) for n in (*names, "unproved")}
        made["not_priced"] = self.not_priced
        return {**made, "seconds": self.seconds, "findings": [f.to_json() for f in self.findings]}


Check = Callable[[ir.PrimFunc, Audit], list[Finding]]


def audit(func: Any, *, progress: Callable[[str], None] | None = None) -> Audit:
    """Audit a function of ours, or one of TVM (0.26, 0.27, ``apache-tvm-tirx``).

    ``progress`` is called with the name of each check before it runs.  Nothing is executed.  Raises InteropError if
    ``func`` is neither.
    """
    from ..interop.tvm import ImportSummary, from_tvm
    from . import accesses, layouts, operators, reference, tiles

    summary = ImportSummary()
    if not isinstance(func, ir.PrimFunc):
        func = from_tvm(func, summary=summary)
    result = Audit(func.name)
    opaque: list[ir.Opaque] = []

    def look(node: Any) -> None:
        result.nodes += 1
        if isinstance(node, ir.Opaque):
            opaque.append(node)

    ir.post_order_visit(func, look)
    result.opaque = len(opaque)
    checks: dict[str, Check] = {
        "layouts": layouts.check, "reference": reference.check, "accesses": accesses.check,
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
