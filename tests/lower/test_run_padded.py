"""Products of e2m1 with 8-bit floats: 16 elements fill 8 of every 16 bytes of shared memory, as a layout with gaps says."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tirx_eq.lower.candidates import NoCandidate
from tirx_eq.lower.kernel import compile_function

from .test_equation import lowered, mutants, verdict
from .test_run_tmem_factors import E4M3, E5M2, FP4, UE8M0, check
from .tmem_factor_kernels import Product

#: Swizzle -> its layout of rows of 128 elements in chunks of 16, in units of 4 bits.
PADDED = {
    "128B": "ComposeLayout(SwizzleLayout(5, 3, 3), TileLayout(S[({0}, 8, 8, 16) : (2048, 256, 32, 1)]))",
    "none": "TileLayout(S[({0}, 8, 8, 16) : (2048, 32, 256, 1)])",
}


@dataclass(frozen=True)
class Padded(Product):
    """A product with K = 128 from shared memory, whose operands of 4 bits are padded."""

    k: int = 128
    a_in_tmem: bool = False
    mode: str = "128B"

    def text(self) -> str:
        text = super().text().replace("tid_in_wg\n", "tid_in_wg, SwizzleLayout, ComposeLayout\n", 1)
        for rows in {self.rows, self.n // self.group}:
            packed = f'mma_shared_layout("{FP4}", "128B", ({rows}, {self.k})))'
            text = text.replace(packed, PADDED[self.mode].format(rows // 8) + ", align=1024)")
        return text.replace('"128B", (64, 128)))\n    mbar', '"128B", (64, 128)), align=1024)\n    mbar')


@pytest.mark.parametrize("p", [
    Padded(FP4, E4M3, sf=UE8M0), Padded(E5M2, FP4, sf=UE8M0), Padded(FP4, E5M2), Padded(FP4, FP4),
    Padded(FP4, E4M3, m=64, stationary=True), Padded(E4M3, FP4, m=256, group=2, sf=UE8M0), Padded(FP4, E4M3, mode="none"),
], ids=lambda p: f"{p.a}-{p.b}-{p.m}-{p.mode}{'-scaled' * bool(p.sf)}")  # fmt: skip
def test_product(p):
    check(p, ("late", "random"), assemble=p.a == FP4)


def test_packed_elements_are_those_of_the_kinds_of_fp4_alone():
    with pytest.raises(NoCandidate, match=r"element .* of 'A' is at byte"):
        compile_function(Product(FP4, E4M3, k=256, a_in_tmem=False).function())


def test_in_tensor_memory_there_are_none():
    with pytest.raises(NoCandidate, match="in containers of 8 bits are multiplied from shared memory"):
        compile_function(Product(FP4, E4M3, k=256).function())


def test_every_mutant_breaks_the_equation():
    choices, bodies, program, rest = lowered(Padded(FP4, E4M3, sf=UE8M0).function())
    choice = next(c for c in choices if c.context.op == "gemm_async")
    body = bodies[choice.context.index]
    assert verdict(choice, body, bodies, program, rest).status == "equal"
    for what, mutant in dict(reversed(list(mutants(body)))).items():
        assert verdict(choice, mutant, bodies, program, rest).status == "different", what
