"""PTX that nvcc made from CUDA C++ runs unchanged and gives the right numbers, free of faults.

The PTX is checked in; where nvcc is at hand the sources are compiled again and must run as well.
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.sim.nvcc_cases import CASES, TVM_CASES
from tirx_eq.sim import simulate

DATA = Path(__file__).parent.parent / "data"


def check(source, case, policy="late", seed=0):
    result = simulate(source, None, case.launch, case.arguments, case.maps, policy, seed).raise_for_faults()
    arrays = result.arrays
    if not isinstance(case.arguments, dict):
        positions = [i for i, a in enumerate(case.arguments) if isinstance(a, np.ndarray)]
        arrays = dict(zip(positions, arrays.values(), strict=True))
    for index, expected in case.expected.items():
        got = arrays[index]
        if case.tolerance:
            np.testing.assert_allclose(got, expected, rtol=case.tolerance, atol=case.tolerance)
        else:
            np.testing.assert_array_equal(got.reshape(-1), np.asarray(expected, got.dtype).reshape(-1))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_stored_ptx(name, policy):
    check((DATA / "ptx" / "nvcc" / f"{name}.ptx").read_text(), CASES[name](), policy)


@pytest.mark.parametrize("name", TVM_CASES)
@pytest.mark.parametrize("policy", ["late", "early", "random"])
def test_ptx_of_tvm(name, policy):
    """Tile primitives lowered by TVM, CUDA C++ by TVM, PTX by nvcc."""
    check((DATA / "ptx" / "tvm" / f"{name}.ptx").read_text(), TVM_CASES[name](), policy)


#: Compiled afresh by default; TIRX_EQ_ALL_NVCC=1 compiles all.
FRESH = list(CASES) if os.environ.get("TIRX_EQ_ALL_NVCC") else ["reduce_shuffle", "tc_gemm_sync"]


@pytest.mark.parametrize("name", FRESH)
def test_fresh_ptx(name, tmp_path):
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
    if nvcc is None:
        pytest.skip("nvcc is not installed: CUDA C++ sources are NOT compiled and run afresh")
    out = tmp_path / "k.ptx"
    subprocess.run([nvcc, "-arch=sm_100a", "-ptx", "-o", out, DATA / "cuda" / f"{name}.cu"], check=True,
                   capture_output=True)
    check(out.read_text(), CASES[name]())


def test_cancelled_clusters_are_never_launched():
    """CTAs that are granted another's block run it themselves: fewer CTAs start than the grid has."""
    case = CASES["clc_persistent"]()
    result = simulate((DATA / "ptx" / "nvcc" / "clc_persistent.ptx").read_text(), None, case.launch, case.arguments)
    started = list(result.raise_for_faults().arrays.values())[2][0]
    assert 0 < started < 30
