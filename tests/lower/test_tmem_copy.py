"""Copies from shared to tensor memory: every shape of tcgen05.cp moves the right bytes, alone and for scale factors."""

from __future__ import annotations

import numpy as np
import pytest

from tirx_eq.ir import dtype as dt
from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .test_equation import lowered, mutants, verdict
from .witnesses_tmem_copy import copied, factors_by_copy


@pytest.mark.parametrize(
    ("shared", "width", "shape"),
    [
        ('mma_shared_layout("float32", "128B", (128, 32))', 32, "128x256b"),
        ('mma_shared_layout("float32", "64B", (128, 16))', 16, "128x256b"),
        ('mma_shared_layout("float32", "32B", (128, 8))', 8, "128x256b"),
        ("TileLayout(S[(128, 2, 4) : (4, 512, 1)])", 8, "128x256b"),
        ("TileLayout(S[(128, 4) : (4, 1)])", 4, "128x128b"),
        ("TileLayout(S[(16, 8, 3, 4) : (96, 4, 32, 1)])", 12, "128x128b"),
    ],
)
def test_copy(shared, width, shape):
    kernel = compile_function(copied(shared, width))
    assert f"tcgen05.cp.cta_group::1.{shape}" in kernel.ptx
    source = np.random.default_rng(1).standard_normal((128, width)).astype(np.float32)
    result = kernel.simulate(source, np.zeros((128, width), np.float32))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["D"], source)


@pytest.mark.parametrize(("dtype", "width", "shared", "shape"), [
    ("float4_e2m1fn", 32, "TileLayout(S[(128, 32) : (32, 1)])", "128x128b"),
    ("float4_e2m1fn", 128, "TileLayout(S[(128, 4, 32) : (32, 4096, 1)])", "128x256b"),
    ("uint8", 16, "TileLayout(S[(128, 16) : (16, 1)])", "128x128b"),
    ("float64", 2, "TileLayout(S[(128, 2) : (2, 1)])", "128x128b"),
])  # fmt: skip
def test_elements_of_other_sizes(dtype, width, shared, shape):
    kernel = compile_function(copied(shared, width, dtype=dtype))
    assert f"tcgen05.cp.cta_group::1.{shape}" in kernel.ptx
    source = np.random.default_rng(1).integers(0, 4, (128, width)).astype(dt.numpy_dtype(dtype))
    result = kernel.simulate(source, np.zeros_like(source))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["D"].astype(np.float64), source.astype(np.float64))


def test_halves_in_another_order_are_refused():
    with pytest.raises(NoCandidate) as info:
        compile_function(copied("TileLayout(S[(128, 16, 2) : (32, 1, 16)])", 32, dtype="float4_e2m1fn",
                                changes=(("    Tx.cta.copy(A_s[:, :], A[:, :])\n", ""),)))  # fmt: skip
    reasons = [r.reason for r in info.value.rejected["copy_async/tcgen05_cp"]]
    assert any("the halves of byte 0 of row 0 are not those of a byte of 'A_s'" in r for r in reasons)


@pytest.mark.parametrize(
    ("lanes", "copies", "shape"),
    [
        ("S[(64, 4) : (1 @ TLane, 1 @ TCol)] + R[2 : 64 @ TLane]", lambda s: np.tile(s, (2, 1)), "64x128b.warpx2::02_13"),
        (
            "S[(2, 32, 4) : (64 @ TLane, 1 @ TLane, 1 @ TCol)] + R[2 : 32 @ TLane]",
            lambda s: np.concatenate([s[:32], s[:32], s[32:], s[32:]]),
            "64x128b.warpx2::01_23",
        ),
        ("S[(32, 4) : (1 @ TLane, 1 @ TCol)] + R[4 : 32 @ TLane]", lambda s: np.tile(s, (4, 1)), "32x128b.warpx4"),
    ],
)
def test_copies_in_other_lanes(lanes, copies, shape):
    rows = 32 if "warpx4" in shape else 64
    kernel = compile_function(copied(f"TileLayout(S[({rows}, 4) : (4, 1)])", 4, rows, f"TileLayout({lanes})"))
    assert f"tcgen05.cp.cta_group::1.{shape}" in kernel.ptx
    source = np.random.default_rng(1).standard_normal((rows, 4)).astype(np.float32)
    result = kernel.simulate(source, np.zeros((128, 4), np.float32))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    np.testing.assert_array_equal(result.arrays["D"], copies(source))


def test_scale_factors_by_copy():
    func = factors_by_copy()
    kernel = compile_function(func)
    assert kernel.ptx.count("tcgen05.cp.cta_group::1.32x128b.warpx4") == 2
    rng = np.random.default_rng(3)
    A, B = (rng.choice([0.0, 1.0, -2.0, 0.5, 3.0], (128, 128)).astype(dt.numpy_dtype("float8_e4m3fn")) for _ in range(2))
    factors = rng.choice([0.5, 1.0, 2.0, 4.0], (256, 4)).astype(dt.numpy_dtype("float8_e8m0fnu"))
    result = kernel.simulate(A, B, factors, np.zeros((128, 128), np.float32))
    assert not result.faults, [str(f) for f in result.faults[:3]]
    scale = np.repeat(factors.astype(np.float64), 32, axis=1)
    expected = (A.astype(np.float64) * scale[:128]) @ (B.astype(np.float64) * scale[128:]).T
    np.testing.assert_array_equal(result.arrays["D"].astype(np.float64), expected)


def test_every_mutant_is_found():
    choices, bodies, program, rest = lowered(copied('mma_shared_layout("float32", "128B", (128, 32))', 32))
    choice = next(c for c in choices if c.chosen.node == "TmemCopy")
    found = list(mutants(bodies[choice.context.index]))
    assert len(found) == 20
    for what, mutant in found:
        result = verdict(choice, mutant, bodies, program, rest)
        assert result.status == "different" and result.counterexample, what
