"""Mutation test: mutants of good kernels are reported, or give other numbers; the survivors are explained.

By default a sample; TIRX_EQ_MUTANTS=all runs every mutant of eleven kernels of nvcc and of the kernels of ``examples/``.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.sim.example_cases import NAMES, example
from tests.sim.nvcc_cases import CASES, Case, tc_gemm_pipeline
from tirx_eq.sim import Launch, TensorMap, simulate
from tirx_eq.sim.mutate import judge, mutants, tensor_map_mutants

DATA = Path(__file__).parent.parent / "data" / "ptx"
ALL = os.environ.get("TIRX_EQ_MUTANTS") == "all"
KERNELS = ["gemm_min", "tc_gemm_sync", "tc_gemm_pipeline", "tc_block_scaled", "tc_pair", "tma_transpose", "tma_multicast",
           "bulk_mbarrier", "cp_async_pipeline", "cluster_dsmem", "cuda_barrier"]
#: those of examples/ that have something to mutate
EXAMPLES = [f"example {name}" for name in NAMES if name not in ("scale", "softmax")]
#: kernel -> take every n-th mutant by default
SAMPLE = {"gemm_min": 4, "tc_gemm_sync": 24, "bulk_mbarrier": 1, "tma_transpose": 6}

#: (kernel pattern, mutant pattern, why it computes the same): mutants that are equivalent
EQUIVALENT = [
    (".*", "descriptor leading offset", "the leading offset of a swizzled K-major operand is not used (ISA)"),
    (".*", "fence::before_thread_sync", "every tcgen05 operation of the thread was completed by a wait, or none was begun"),
    (".*", "fence::after_thread_sync", "what follows touches no tensor memory that others' tcgen05 operations used before: "
                                       "first use after alloc, a wait for TMA data, or dealloc, which the barrier orders"),
    ("tc_gemm_sync|tc_block_scaled", "fence.mbarrier_init", "the fence.proxy.async of the same thread follows and covers it"),
    ("tc_block_scaled", "instruction descriptor N", "more columns of D are computed than anybody reads"),
    ("tc_gemm_pipeline", "no wait loop", "an unrolled copy of the loop that this launch does not reach"),
    ("tc_gemm_pipeline", "no commit", "an arrival on an empty barrier that nobody waits for any more"),
    ("tc_pair", "no barrier: bar.sync", "the cluster barrier right after it orders the same threads"),
    ("tma_multicast", "no cluster barrier: barrier.cluster.wait", "the last one: nobody touches another CTA's memory after"),
    ("cp_async_pipeline", "no barrier: bar.sync", "unrolled last iterations: the buffer is not written again"),
    ("example gemm_(single_tile|k_loop|many_tiles)", "fence.mbarrier_init",
     "the fence.proxy.async of the same thread follows and covers it"),
    ("example gemm_(k_loop|many_tiles|tma)", "no barrier: bar.sync",
     "the first one: another follows before anybody uses what the first warp set up"),
    ("example .*", "no warp barrier", "the lanes are together already, by tcgen05.alloc or a barrier of the CTA just before"),
    ("example gemm_persistent", "no wait loop",
     "a tile's first load: everybody has waited for the result of the tile before, which comes after all uses of the stage"),
    ("example gemm_warp_roles", "barrier count 128 -> 127",
     "the second accumulator's: with three tiles for each CTA nobody waits for it to be free again"),
    ("example gemm_warp_roles", "no arrival: mbarrier.arrive",
     "in a branch never taken: the first of two unrolled chunks, and the accumulator is free after the last"),
]


def case_of(kernel):
    if kernel.startswith("example "):
        return example(kernel.removeprefix("example "))
    if kernel != "gemm_min":
        case = tc_gemm_pipeline(256, 320) if kernel == "tc_gemm_pipeline" else CASES[kernel]()
        return (DATA / "nvcc" / f"{kernel}.ptx").read_text(), case
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, (256, 64)).astype(np.float16) for _ in range(2))
    maps = {f"tm{x}": TensorMap(x, "f16", (64, 256), (128,), (64, 128), swizzle="128B") for x in "AB"}
    arguments = {"pC": np.full((256, 256), -1, np.float32), "ldc": 256, "A": a, "B": b}
    expected = {"pC": a.astype(np.float32) @ b.astype(np.float32).T}
    return (DATA / "gemm_min.ptx").read_text(), Case(Launch((2, 2, 1), (128, 1, 1)), arguments, expected, maps=maps)


def right_numbers(case):
    def right(result):
        arrays = result.arrays
        if not isinstance(case.arguments, dict):
            places = [i for i, a in enumerate(case.arguments) if isinstance(a, np.ndarray)]
            arrays = dict(zip(places, arrays.values(), strict=True))
        return all(np.array_equal(arrays[k].ravel(), np.asarray(v, arrays[k].dtype).ravel()) for k, v in case.expected.items())
    return right


def campaign(kernel, step=1):
    """Verdicts of the mutants of a kernel: list of (name, line, verdict, evidence)."""
    text, case = case_of(kernel)

    def run(source, maps, policy, seed):
        return simulate(source, None, case.launch, case.arguments, maps, policy, seed, max_steps=60_000)
    right = right_numbers(case)
    assert judge(lambda p, s: run(text, case.maps, p, s), right)[0] == "survived"
    found = []
    for m in mutants(text)[::step]:
        found.append((m.name, m.line, *judge(lambda p, s, m=m: run(m.text, case.maps, p, s), right)))
    for name, make in list(tensor_map_mutants(case.maps))[::step]:
        found.append((name, 0, *judge(lambda p, s, make=make: run(text, make(), p, s), right)))
    return found


def explained(kernel, name):
    return any(re.fullmatch(k, kernel) and re.search(pattern, name) for k, pattern, _ in EQUIVALENT)


@pytest.mark.parametrize("kernel", KERNELS + EXAMPLES if ALL else list(SAMPLE))
def test_mutants_are_found(kernel):
    verdicts = campaign(kernel, 1 if ALL else SAMPLE[kernel])
    survivors = [v for v in verdicts if v[2] == "survived"]
    unexplained = [v for v in survivors if not explained(kernel, v[0])]
    matter = len(verdicts) - len(survivors) + len(unexplained)
    assert len(unexplained) <= 0.05 * matter, unexplained


def test_there_are_enough_of_them():
    total = sum(len(mutants(case_of(k)[0])) for k in KERNELS)
    assert total >= 200
