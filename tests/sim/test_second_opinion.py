"""SentryWard, a static verifier of PTX synchronisation, agrees with the simulator wherever it can judge.

Optional: needs the ``sentryward`` program (PyPI) on PATH or in TIRX_EQ_SENTRYWARD.  TIRX_EQ_SENTRYWARD_ALL=1 judges
everything.  Its model has no fences, no tcgen05.wait, and no values (types, swizzles, coordinates): there the simulator
alone decides, and ``BLIND`` says so.
"""

import json
import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from tests.sim.example_cases import NAMES, example
from tests.sim.nvcc_cases import CASES, TVM_CASES, tc_gemm_pipeline
from tests.sim.test_faults import KINDS, known
from tests.sim.test_mutation import DATA
from tirx_eq.sim import simulate
from tirx_eq.sim.machine import find_entry, name_arguments
from tirx_eq.sim.text.parser import parse

PROGRAM = os.environ.get("TIRX_EQ_SENTRYWARD") or shutil.which("sentryward")
ALL = bool(os.environ.get("TIRX_EQ_SENTRYWARD_ALL"))
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="sentryward is not installed: NO second opinion on synchronisation")

#: Mutants that are outside of its model: fences and waits, values, descriptor contents, alignment.
BLIND = {
    "wrong idesc dtype (bf16 A)", "idesc N=64", "idesc M=64", "desc swizzle none", "desc swizzle 64B", "desc swizzle invalid 3",
    "desc version 0", "desc SBO 512", "k-advance wrong", "k-advance past atom", "first mma accumulates",
    "no tcgen05.wait::ld", "no tcgen05.fence after MMA wait", "no fence.mbarrier_init", "no fences at all",
    "swapped A/B tile coords", "smem tile misaligned",
}
CLEAN = {"race_free"}
CANNOT = {"unsupported", "inconclusive", "input_error", "incomplete"}


def verdict(tmp_path, text, spec):
    ptx, data = tmp_path / "k.ptx", tmp_path / "k.json"
    ptx.write_text(text)
    data.write_text(json.dumps(spec))
    done = subprocess.run([PROGRAM, ptx, "--input", data], capture_output=True, text=True, timeout=300)
    return json.loads(done.stdout).get("result", "input_error")


def specification(text, case):
    """Launch, arguments and tensor maps in SentryWard's input form."""
    function = find_entry(parse(text), None)
    named = name_arguments(function, case.arguments, case.maps)
    scalars, pointers = [], []
    for p in function.params:
        if p.name in case.maps:
            continue
        if isinstance(named[p.name], np.ndarray):
            pointers.append({"parameter": p.name, "type": "pointer", "object": p.name})
        else:
            scalars.append({"parameter": p.name, "type": {"b32": "u32", "b64": "u64"}.get(p.type, p.type),
                            "value": named[p.name]})
    maps = [{"parameter": k, "object": m.array, "rank": m.rank, "element_type": m.element_type,
             "global_shape": list(m.global_shape), "global_strides_bytes": list(m.global_strides_bytes),
             "box_shape": list(m.box_shape), "element_strides": list(m.element_strides), "interleave": "none",
             "swizzle": m.swizzle, "oob_fill": "zero"} for k, m in case.maps.items()]
    launch = {"grid_dim": list(case.launch.grid), "block_dim": list(case.launch.block),
              "cluster_dim": list(case.launch.cluster), "dynamic_shared_bytes": case.launch.dynamic_shared}
    return {"schema": "spverify.kernel-input/v1", "entry": function.name, "launch": launch, "arguments": scalars,
            "declarations": pointers, "tma_descriptors": maps}


def direct(text):
    """The same module with elected predicates used directly.

    Inline assembly hands an election to C++ as an integer (selp, then setp); SentryWard loses it on the way and takes the
    elected block to be executed by all lanes.  Undoing the detour is its only change.
    """
    pattern = r"\{\n\.reg \.pred p;\nelect\.sync _\|p, 0xffffffff;\nselp\.u32 (%r\d+), 1, 0, p;\n\}"
    for number, match in enumerate(re.finditer(pattern, text)):
        text = text.replace(match.group(), f"elect.sync _|elected{number}, 0xffffffff;")
        for word, new in (("eq", "not.pred"), ("ne", "mov.pred")):
            text = re.sub(rf"setp\.{word}\.s32 \t(%p\d+), {match.group(1)}, 0;", rf"{new} \1, elected{number};", text)
        text = text.replace(".reg .pred \t%p<", f".reg .pred elected{number};\n.reg .pred \t%p<", 1)
    return text


#: Disagreements that remain: kernel -> (its verdict, why).
EXPLAINED = {"wmma_matmul": ("potential_race", "it has no model of wmma, and lets every lane store the same bytes")}


GEMM = json.loads((DATA / "gemm_min.sentryward.json").read_text())
SOME = ["no wait for TMA", "expect_tx too small", "wrong phase parity", "no fences at all"]


@pytest.mark.parametrize("name", ["baseline", *(KINDS if ALL else SOME)])
def test_known_mutants(name, tmp_path):
    result = verdict(tmp_path, known.M[name], GEMM)
    if name == "baseline" or name in BLIND:
        assert result in CLEAN
    else:
        assert result not in CLEAN          # refused as unsupported counts: it names an illegal field or operand


KERNELS = {**CASES, **TVM_CASES, "tc_gemm_pipeline": lambda: tc_gemm_pipeline(128, 320)}


@pytest.mark.parametrize("name", NAMES if ALL else ["gemm_single_tile", "softmax"])
def test_examples(name, tmp_path):
    """What this package compiles is free of races and deadlocks for SentryWard too."""
    text, case = example(name)
    assert verdict(tmp_path, direct(text), specification(text, case)) in CLEAN


@pytest.mark.parametrize("name", KERNELS if ALL else ["tc_gemm_sync", "bulk_mbarrier", "tma_transpose"])
def test_kernels(name, tmp_path):
    """Every kernel is fault-free here; SentryWard must not find a race or a deadlock in it."""
    folder = "tvm" if name.startswith("tvm") else "nvcc"
    text = (DATA / folder / f"{name}.ptx").read_text()
    case = KERNELS[name]()
    assert not simulate(text, None, case.launch, case.arguments, case.maps).faults
    result = verdict(tmp_path, direct(text), specification(text, case))
    if name in EXPLAINED:
        assert result == EXPLAINED[name][0]
    else:
        assert result in CLEAN or result in CANNOT, result
