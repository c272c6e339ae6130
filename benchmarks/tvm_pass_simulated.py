"""Kernels of a TVM wheel compiled twice, with TVM's own pipeline and with our pass in it, both through nvcc, both simulated:
the results must be the same, bit for bit.

Needs what ``tvm_kernels.py`` needs, and nvcc.  Kernels with tensor maps are left out (the host code of TVM makes them), scalar
arguments are a few rows, and of a large grid only the first CTAs are launched.

    python benchmarks/tvm_pass_simulated.py norm.rmsnorm ported.flashinfer.activation.act_and_mul
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from tvm_kernels import kernels, prepare, stand_in_for_torch

DEFAULT = (
    "norm.rmsnorm", "ported.flashinfer.topk.radix_topk_single_cta", "ported.flashinfer.norm.fused_dit_layernorm",
    "ported.flashinfer.mamba.selective_state_update_stp_simple", "ported.flashinfer.activation.act_and_mul",
    "ported.flashinfer.norm.rmsnorm",
    "ported.flashinfer.norm.fused_add_rmsnorm", "ported.flashinfer.norm.qk_rmsnorm",
    "ported.flashinfer.quantization.nvfp4_quantize", "ported.flashinfer.quantization.mxfp8_quantize",
)  # fmt: skip
#: CTAs of a kernel that are simulated.
CTAS = 2
#: Any scalar argument: a number of rows.
SCALAR = 4
#: Bytes of any array of a kernel without a constant shape.
UNKNOWN = 1 << 20


def cuda_of(func: Any, pipeline: str) -> str:
    """The CUDA source that TVM makes of a function."""
    import tvm

    target = tvm.target.Target({"kind": "cuda", "arch": "sm_100a"})
    built = tvm.compile(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), target=target, tir_pipeline=pipeline)
    return str(built.mod.imports[0].inspect_source())


def ptx_of(source: str) -> str:
    """The PTX that nvcc makes of it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "k.cu").write_text(source)
        command = ["nvcc", "-std=c++17", "-arch=sm_100a", "-ptx", "k.cu", "-o", "k.ptx"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        return (Path(folder) / "k.ptx").read_text()


def inputs(func: Any, count: int) -> list[np.ndarray]:
    """Small random numbers as bytes, one array for each pointer, large enough for every buffer of the function."""
    random = np.random.default_rng(0)
    sizes = [UNKNOWN]
    for buffer in func.buffer_map.values():
        shape = buffer.const_shape()
        if shape is not None:
            sizes.append(4 * prod(shape))
    return [random.integers(0, 0x40, min(max(sizes), 1 << 27)).astype(np.uint8) for _ in range(count)]


def outcome(text: str, launch: Any, arrays: list[Any]) -> tuple[list[np.ndarray], list[str]]:
    from tirx_eq.sim import simulate

    found = simulate(text, None, launch, arrays, max_steps=400_000)
    # the two programs name their registers differently
    return list(found.arrays.values()), [re.sub(r"%\w+", "%", f"{f.kind}: {f.message}") for f in found.faults]


def compare(func: Any) -> str:
    """What there is to say of one function."""
    from tirx_eq.errors import TirxError
    from tirx_eq.interop.tvm import PassReport, from_tvm, register_pipeline
    from tirx_eq.lower.sharing.threads import find_launch
    from tirx_eq.sim import Launch, parse

    ours = from_tvm(func)
    report = PassReport()
    texts = [ptx_of(cuda_of(func, p)) for p in ("tirx", register_pipeline(report=report))]
    entries = [[f for f in parse(t).functions.values() if f.kernel] for t in texts]
    if any(len(e) != 1 for e in entries) or [p.size for p in entries[0][0].params] != [p.size for p in entries[1][0].params]:
        return "not one kernel, or other parameters"
    if any(p.size not in (4, 8) for p in entries[0][0].params):
        return "left out: tensor maps, which TVM's host code makes"
    grid, cluster, block = (CTAS, 1, 1), (1, 1, 1), entries[0][0].directives.get("maxntid", (1024, 1, 1))
    try:
        known = find_launch(ours)
        grid, cluster, block = known.grid or grid, known.cluster or cluster, known.block
    except TirxError:  # a grid that depends on arguments: a few CTAs of the block that the PTX declares
        pass
    if not all(isinstance(g, int) for g in grid):
        grid = (CTAS, 1, 1)
    few = (max(cluster[0], min(grid[0], CTAS) // cluster[0] * cluster[0]), cluster[1], cluster[2])
    dynamic = max([0, *(int(v) for v in re.findall(r"extern __shared__[^\n]*\[(\d+)\]", texts[0]))])
    launch = Launch(few, block, cluster, dynamic or 200_000)
    given = inputs(ours, len(entries[0][0].params))
    arrays = [a if p.size == 8 else np.int32(SCALAR) for a, p in zip(given, entries[0][0].params, strict=True)]
    (before, faults), (after, others) = (outcome(t, launch, arrays) for t in texts)
    same = all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    written = sum(not np.array_equal(a, b) for a, b in zip([a for a in arrays if a.ndim], before, strict=True))
    rewrites = sum(len(r.rewrites) for r in report.functions.values())
    verdict = "identical" if same and faults == others else "DIFFERENT"
    verdict += "" if same else ", arrays differ"
    said = f"{len(faults)} and {len(others)} faults {faults[:1] or ''}"
    return f"{verdict}: {rewrites} rewrites, {written} of {len(arrays)} arguments written, {said}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("kernel", nargs="*", default=DEFAULT, help="modules of tirx_kernels")
    options = parser.parse_args()
    prepare()
    stand_in_for_torch()
    bad = False
    for name in options.kernel:
        try:
            for func in kernels(name):
                said = compare(func)
                bad |= said.startswith("DIFFERENT")
                print(f"{name:52} {said}", flush=True)
        except Exception as e:  # one kernel's trouble is not the others'
            print(f"{name:52} {type(e).__name__}: {e}"[:220], flush=True)
    sys.exit(bad)


if __name__ == "__main__":
    main()
