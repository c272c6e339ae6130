"""What a finding is, and the audit as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
