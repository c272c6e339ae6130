"""A trace of asynchronous operations in Chrome's trace-event format, for Perfetto."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tirx_eq.sim.wave import AsyncOp, Wave


@dataclass
class Trace:
    """Events of issued and performed operations; time is the step count."""

    enabled: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)

    def issued(self, wave: Wave, op: AsyncOp) -> None:
        op.issued = wave.context.steps

    def performed(self, wave: Wave, op: AsyncOp) -> None:
        """Record the span from issue to effect."""
        if not self.enabled:
            return
        self.events.append({
            "name": op.label, "ph": "X", "ts": op.issued, "dur": max(1, wave.context.steps - op.issued),
            "pid": wave.cta_number(int(wave.cta[op.row])), "tid": int(wave.thread[op.row]) // 32,
            "args": {"line": op.instr.line, "instruction": op.instr.opcode},
        })

    def json(self) -> str:
        """The trace as JSON text (load it in ui.perfetto.dev)."""
        return json.dumps({"traceEvents": self.events, "displayTimeUnit": "ns"})
