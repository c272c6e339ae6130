"""The trace holds every asynchronous operation and the waits of every warp, as Chrome trace events."""

import json

import numpy as np

from tests.sim.test_gemm_min import SOURCE, run


def test_trace_of_a_gemm():
    a = np.ones((128, 64), np.float16)
    result = run(SOURCE, a, a, trace=True)
    events = json.loads(result.trace.json())["traceEvents"]
    names = [e["name"] for e in events]
    assert names.count("TMA load of A") == 1 and names.count("tcgen05.mma.kind::f16") == 4 and names.count("commit") == 1
    waits = {(e["tid"], e["name"]) for e in events if e["name"].startswith("wait")}
    assert {(w, "wait: done + 0") for w in range(4)} <= waits and (0, "wait: full + 0") in waits
    assert all(e["ph"] == "X" and e["dur"] > 0 and e["ts"] >= 0 for e in events)
    assert run(SOURCE, a, a).trace.events == []


def test_covered_lines():
    a = np.ones((128, 64), np.float16)
    covered = run(SOURCE, a, a).covered
    lines = SOURCE.split("\n")
    assert any("tcgen05.commit" in lines[n - 1] for n in covered)
    assert len(covered) > 80
