"""A whole kernel: built, assembled, counted."""

from __future__ import annotations

import pytest

from tests.ptx.gemm import build_gemm
from tirx_eq.errors import PtxError
from tirx_eq.ptx import ptxas
from tirx_eq.ptx.launch import Launch
from tirx_eq.ptx.tensormap import TensorMap

needs_ptxas = pytest.mark.skipif(ptxas.find_tool("ptxas") is None, reason="PTXAS IS NOT INSTALLED: nothing assembled")


def test_text_is_deterministic_and_counted():
    module, kernel = build_gemm()
    text = module.text()
    assert text == build_gemm()[0].text()
    assert ptxas.count_instructions(text) == len(kernel.instructions) == 119
    assert [line.split()[0] for line in ptxas.instruction_lines(text) if not line.startswith("@")] == [
        op for op in kernel.instructions if op != "bra"
    ]


@needs_ptxas
@pytest.mark.parametrize("target", ["sm_100a", "sm_100f", "sm_103a"])
def test_gemm_assembles(target):
    module, kernel = build_gemm(target)
    made = ptxas.assemble(module.text(), target)
    assert (made.spill_loads, made.spill_stores, made.stack) == (0, 0, 0)
    assert made.registers <= 136
    assert made.shared_bytes == kernel.static_shared_bytes == 32788
    if ptxas.find_tool("nvdisasm"):
        counts = ptxas.sass_histogram(made.cubin)
        assert counts["UTCHMMA"] == 4 and counts["LDTM.x32"] == 4 and counts["UTMALDG.2D"] == 2
        assert counts["STG.E.128"] == 32
        assert ptxas.sass_count(made.cubin) == sum(counts.values()) <= 288


@pytest.mark.parametrize("target", ["sm_120a", "sm_121a", "sm_90a", "sm_100"])
def test_targets_without_tensor_memory_are_refused_before_any_text(target):
    with pytest.raises(PtxError, match=f"target {target} has no tcgen05"):
        build_gemm(target)


def test_launch_metadata_round_trip():
    _, kernel = build_gemm()
    maps = {
        name: TensorMap(buffer, "f16", (64, 128), (128,), (64, 128), "128B") for name, buffer in
        (("tmA", "A"), ("tmB", "B"))
    }  # fmt: skip
    launch = kernel.launch((1, 1, 1), maps)
    assert launch.static_shared_bytes == 32788 and launch.dynamic_shared_bytes == 0
    assert [p.kind for p in launch.params] == ["tensor_map", "tensor_map", "pointer", "scalar"]
    assert Launch.from_json(launch.to_json()) == launch
