"""A trace of asynchronous operations in Chrome's trace-event format, for Perfetto."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tirx_eq.sim.wave import AsyncOp, Wave


Array = np.ndarray


@dataclass
class Trace:
    """Events of issued and performed operations; time is the step count."""

    enabled: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)
    waiting: dict[tuple[int, int], tuple[int, str]] = field(default_factory=dict)

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

    def blocked(self, wave: Wave, rows: Array, what: str) -> None:
        """Rows begin to wait (shown once per warp)."""
        if self.enabled:
            for warp in dict.fromkeys(wave.warp[rows].tolist()):
                self.waiting.setdefault((wave.first_cluster, warp), (wave.context.steps, what))

    def woken(self, wave: Wave, rows: Array) -> None:
        """Rows go on; records the span of their warps' wait."""
        if not self.enabled:
            return
        for row in rows.tolist():
            warp = int(wave.warp[row])
            begun = self.waiting.pop((wave.first_cluster, warp), None)
            if begun is not None:
                self.events.append({
                    "name": "wait: " + begun[1], "ph": "X", "ts": begun[0], "dur": max(1, wave.context.steps - begun[0]),
                    "pid": wave.cta_number(int(wave.cta[row])), "tid": int(wave.thread[row]) // 32, "args": {},
                })

    def json(self) -> str:
        """The trace as JSON text (load it in ui.perfetto.dev)."""
        return json.dumps({"traceEvents": self.events, "displayTimeUnit": "ns"})
